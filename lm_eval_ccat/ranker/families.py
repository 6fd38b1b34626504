"""Families of pairs: a confidence that holds for all of them together.

References
----------
J. P. Shaffer, Journal of the American Statistical Association 81 (1986), the step-down rule.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from ..methods.belief import Belief, Indices, References
from ..metrics.scale import Floats


@lru_cache(maxsize=16)
def still_true(n_models: int, with_references: bool) -> Floats:
    """Return how many hypotheses can be true together, at most, once 0, 1, .. are rejected.

    A hypothesis says that two models are equal. The numbers are the factors of Shaffer's step-down
    rule. A model can equal at most one of several known values, so a board of thousands costs a
    family no more than one further model would.

    Examples
    --------
    >>> still_true(3, False).tolist(), float(still_true(1, True)[0])
    ([3.0, 1.0, 1.0], 1.0)
    """
    # By number of models; bit s says whether exactly s hypotheses can be true. Equality is
    # transitive: j equal models make all their pairs true, and those with a known one.
    sets = [1]
    for k in range(1, n_models + 1):
        sets.append(0)
        for j in range(1, k + 1):
            sets[k] |= sets[k - j] << (j * (j - 1) // 2)
            if with_references:
                sets[k] |= sets[k - j] << (j * (j + 1) // 2)
    numbers = np.flatnonzero([bit == "1" for bit in bin(sets[-1])[:1:-1]])
    # Of the numbers that can be true, the largest that is not more than those not yet rejected.
    left = np.arange(int(numbers[-1]), 0, -1)
    return np.asarray(numbers[np.searchsorted(numbers, left, side="right") - 1], dtype=np.float64)


def _true_at_most(belief: Belief, n: int) -> Floats:
    """Return how many of `n` distinct hypotheses may be true once 0, 1, .. are rejected.

    Shape (n,). Those left are the bound of Holm's rule, and a smaller one where equality excludes
    some of them, that of Shaffer's.
    """
    references, n_models = belief.references, len(belief.location)
    left = np.arange(n, 0, -1.0)
    # Inexact reference models may equal each other, so that all hypotheses may be true.
    if references is None or references.exact:
        possible = still_true(n_models, references is not None)
        # As long as more hypotheses are left than can be true together, that number stays.
        all_left = np.full(max(n - len(possible), 0), possible[:1])
        left = np.minimum(left, np.r_[all_left, possible][-n:])
    return left


def equal_at_most(n_models: int, n_references: int, is_exact: bool) -> int:
    """Return how many pairs can be equal at once: of models, and of these with reference models.

    Parameters
    ----------
    n_models, n_references : int
    is_exact : bool
        Whether the means of reference models are known without error: a model equals at most one
        of those that differ, and to equal several of the same mean is one hypothesis.

    Examples
    --------
    >>> equal_at_most(3, 0, True), equal_at_most(3, 5, True), equal_at_most(3, 5, False)
    (3, 6, 18)
    """
    with_references = min(n_references, 1) if is_exact else n_references
    return n_models * (n_models - 1) // 2 + n_models * with_references


def family_size(belief: Belief) -> float:
    """Return how many pairs can be equal at once at most: the divisor of a level for all pairs."""
    references = belief.references
    n_references, is_exact = (
        (0, True) if references is None else (len(references.names), references.exact)
    )
    return float(max(equal_at_most(len(belief.location), n_references, is_exact), 1))


class Family(NamedTuple):
    """Pairs judged together by a step-down rule: tested models against these and reference models.

    Attributes
    ----------
    p : ndarray of shape (n_tested, n_models)
        Adjusted p: a pair is decided if it is at most the level.
    divisor : ndarray of shape (n_tested, n_models)
        What the level is divided by in the step that decides each pair.
    divisor_of_open : float
        What the level is divided by for the pairs that are still open.
    """

    p: Floats
    divisor: Floats
    divisor_of_open: float


def step_down(p: Floats, belief: Belief, level: float) -> Family:
    """Judge all pairs together, from two-sided p of each alone.

    Equal exact reference models are one hypothesis, and the rule is Shaffer's. With inexact
    reference models the rule is Holm's, because these may be equal to each other.
    """
    hypotheses = _Hypotheses.of(len(p), belief.references)
    flat = hypotheses.row_of(p)
    if not len(flat):
        return Family(p, np.ones(p.shape), 1.0)
    # The divisor of each step: the hypotheses that may still be true.
    left = _true_at_most(belief, len(flat))
    ascending = np.argsort(flat, kind="stable")
    # Step by step from the smallest p: no pair is decided before one with a smaller p is.
    stepped = np.minimum(np.maximum.accumulate(flat[ascending] * left), 1.0)
    decided = int((stepped <= level).sum())

    def of_pairs(by_step: Floats) -> Floats:
        values = np.empty(len(flat))
        values[ascending] = by_step
        return hypotheses.matrix_of(values)

    of_open = float(left[min(decided, len(left) - 1)])
    return Family(of_pairs(stepped), of_pairs(left), of_open)


class _Hypotheses(NamedTuple):
    """The distinct hypotheses of a family: pairs of tested models, then tested with known ones.

    Attributes
    ----------
    n_tested : int
    firsts : ndarray of int
        The first of each set of equal exact reference models; all inexact ones.
    place : ndarray of int, shape (n_references,)
        Place of each reference model, or of its equal, in `firsts`.
    """

    n_tested: int
    firsts: Indices
    place: Indices

    @classmethod
    def of(cls, n_tested: int, references: References | None) -> _Hypotheses:
        """Build the hypotheses that two tested models, or a tested and a known one, are equal."""
        if references is None or not references.exact:
            positions = np.arange(0 if references is None else len(references.names))
            return cls(n_tested, positions, positions)
        _, firsts, place = np.unique(references.location, return_index=True, return_inverse=True)
        return cls(n_tested, firsts, place)

    def row_of(self, matrix: Floats) -> Floats:
        """Return the values of the hypotheses, from a matrix (n_tested, n_models) of pairs."""
        tested, beside = matrix[:, : self.n_tested], matrix[:, self.n_tested + self.firsts]
        return np.concatenate([tested[np.triu_indices(self.n_tested, 1)], beside.ravel()])

    def matrix_of(self, row: Floats) -> Floats:
        """Return the values of all pairs; 1 on the diagonal."""
        tested = np.ones((self.n_tested, self.n_tested))
        i, j = np.triu_indices(self.n_tested, 1)
        tested[i, j] = tested[j, i] = row[: len(i)]
        beside = row[len(i) :].reshape(self.n_tested, len(self.firsts))
        return np.hstack([tested, beside[:, self.place]])

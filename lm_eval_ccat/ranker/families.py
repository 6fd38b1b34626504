"""Families of pairs: a confidence that holds for all of them together.

References
----------
J. P. Shaffer, Journal of the American Statistical Association 81 (1986), the step-down rule.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from ..methods.belief import Belief
from ..metrics.scale import Floats


@lru_cache(maxsize=16)
def still_true(n_models: int, with_references: bool) -> Floats:
    """Return the most hypotheses that can be true together once 0, 1, .. others are rejected.

    These are the factors of Shaffer's step-down rule. A model can equal at most one of several
    known values, so a board of thousands costs a family no more than one further model would.

    Examples
    --------
    >>> still_true(3, False).tolist(), float(still_true(1, True)[0])
    ([3.0, 1.0, 1.0], 1.0)
    """
    sets = [1]  # bit s: s hypotheses can be the true ones
    # Equality is transitive: j equal models make all their pairs true, and those with a known one.
    for k in range(1, n_models + 1):
        sets.append(0)
        for j in range(1, k + 1):
            sets[k] |= sets[k - j] << (j * (j - 1) // 2)
            if with_references:
                sets[k] |= sets[k - j] << (j * (j + 1) // 2)
    numbers = np.flatnonzero([bit == "1" for bit in bin(sets[-1])[:1:-1]])
    left = np.arange(int(numbers[-1]), 0, -1)
    return np.asarray(numbers[np.searchsorted(numbers, left, side="right") - 1], dtype=np.float64)


def _true_at_most(belief: Belief, n: int) -> Floats:
    """Return how many of `n` distinct hypotheses may be true once 0, 1, .. are rejected."""
    references, n_models = belief.references, len(belief.location)
    left = np.arange(n, 0, -1.0)
    if references is None or references.exact:
        possible = still_true(n_models, references is not None)
        left = np.minimum(
            left, np.r_[np.full(max(n - len(possible), 0), possible[:1]), possible][-n:]
        )
    return left


def family_size(belief: Belief) -> float:
    """Return how many pairs can be equal at once at most, by which a level for all is divided."""
    n_models, references = len(belief.location), belief.references
    distinct = 0
    if references is not None:  # equal exact ones are one hypothesis
        distinct = len(np.unique(references.location) if references.exact else references.names)
    n = n_models * (n_models - 1) // 2 + n_models * distinct
    return float(_true_at_most(belief, n)[0]) if n else 1.0


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
    n_models, references = len(p), belief.references
    upper, index = np.triu_indices(n_models, 1), np.arange(n_models, p.shape[1])
    exact = references is not None and references.exact
    if exact and references is not None:
        index = n_models + np.unique(references.location, return_index=True)[1]
    flat = np.concatenate([p[:, :n_models][upper], p[:, index].ravel()])
    if not len(flat):
        return Family(p, np.ones(p.shape), 1.0)
    # The divisor of each step: the hypotheses that may still be true.
    left = _true_at_most(belief, len(flat))
    ascending = np.argsort(flat, kind="stable")
    # Step by step from the smallest p: no pair is decided before one with a smaller p is.
    stepped = np.minimum(np.maximum.accumulate(flat[ascending] * left), 1.0)
    decided = int((stepped <= level).sum())
    matrices = []
    for sorted_values in (stepped, left):
        values, matrix = np.empty(len(flat)), np.ones(p.shape)
        values[ascending] = sorted_values
        matrix[:, :n_models][upper] = matrix[:, :n_models].T[upper] = values[: len(upper[0])]
        if references is not None:
            block = values[len(upper[0]) :].reshape(n_models, len(index))
            alike = (
                np.searchsorted(references.location[index - n_models], references.location)
                if exact
                else slice(None)
            )
            matrix[:, n_models:] = block[:, alike]
        matrices.append(matrix)
    return Family(matrices[0], matrices[1], float(left[min(decided, len(left) - 1)]))

"""From decided pairs to ranks: rank ranges, tie groups, P(best), and the order as one line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from ..methods.policy import Floats
from ..visible import visible_name

T = TypeVar("T")
_DRAWS = 4096  # a probability of ranks is known to 0.008
_SEED = 0x4A4B


def tie_groups(order: Sequence[T], undecided: Sequence[bool]) -> list[tuple[T, ...]]:
    """Maximal runs of the order whose adjacent pairs are all undecided.

    Parameters
    ----------
    order : sequence
        Models, best first.
    undecided : sequence of bool, one shorter
        Whether ``order[i]`` and ``order[i + 1]`` are not separated.

    Returns
    -------
    list of tuple
        Runs of two models or more, in order. Runs never share a model.

    Examples
    --------
    >>> tie_groups(["B", "A", "C", "D", "E"], [False, False, True, False])
    [('C', 'D')]
    """
    groups: list[tuple[T, ...]] = []
    run: list[T] = list(order[:1])
    for model, tied in zip(order[1:], undecided):
        if tied:
            run.append(model)
            continue
        if len(run) > 1:
            groups.append(tuple(run))
        run = [model]
    if len(run) > 1:
        groups.append(tuple(run))
    return groups


def rank_ranges(decided: NDArray[np.bool_]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The ranks that decided pairs leave possible, 1 best.

    Better than a model is whoever is decidedly better, or decidedly better than one that is.

    Parameters
    ----------
    decided : ndarray of bool, shape (n, n)
        Symmetric, models sorted best first: whether two are separated.

    Returns
    -------
    best, worst : ndarray of int, shape (n,)

    Examples
    --------
    >>> decided = np.zeros((3, 3), dtype=bool)
    >>> decided[0, 2] = decided[2, 0] = True
    >>> [r.tolist() for r in rank_ranges(decided)]
    [[1, 1, 2], [2, 3, 3]]
    """
    n = len(decided)
    above = np.triu(decided, 1)
    for i in range(n - 2, -1, -1):
        below = np.flatnonzero(above[i])
        if len(below):
            above[i] |= above[below].any(axis=0)
    return 1 + above.sum(axis=0), n - above.sum(axis=1)


def draw_scores(
    estimate: Floats, variance: Floats, df: float, error: Floats | None = None
) -> Floats:
    """Scores as they may truly be, drawn jointly; shape (n_draws, n_models).

    Parameters
    ----------
    estimate : ndarray of shape (n_models,)
    variance : ndarray of shape (n_models, n_models)
        Of differences.
    df : float
        Student's degrees of freedom.
    error : ndarray of shape (n_models,), optional
        Standard errors of the estimates. Without them the common level of all scores stays where it
        is, which no rank among these models needs.
    """
    n = len(estimate)
    off = variance * (1.0 - np.eye(n))
    if error is None:
        centre = np.eye(n) - 1.0 / n
        covariance = -0.5 * centre @ off @ centre
    else:
        covariance = 0.5 * (error[:, None] ** 2 + error[None, :] ** 2 - off)
    rng = np.random.default_rng(_SEED)
    value, vector = np.linalg.eigh(covariance)
    root = vector * np.sqrt(np.maximum(value, 0.0))
    noise = rng.standard_normal((_DRAWS // 2, n)) @ root.T
    if np.isfinite(df):
        noise *= np.sqrt(df / rng.chisquare(df, _DRAWS // 2))[:, None]
    return np.asarray(estimate + np.concatenate([noise, -noise]))


def chances_of_top(scores: Floats, tops: Sequence[int]) -> dict[int, Floats]:
    """Probability of being among the best `k`, for each `k` of `tops`; shape (n_models,)."""
    rank = 1 + np.argsort(np.argsort(-scores, axis=1, kind="stable"), axis=1)
    return {k: (rank <= k).mean(axis=0) for k in tops}


def order_in_words(
    order: Sequence[str],
    ties: Sequence[Sequence[str]],
    separated: Sequence[tuple[str, str]] = (),
    ranges: Mapping[str, tuple[int, int]] | None = None,
) -> str:
    """The order as one line; a name that could forge it is quoted.

    Parameters
    ----------
    order : sequence of str
        Models, best first.
    ties : sequence of sequence of str
        Runs of models whose neighbours are not separated.
    separated : sequence of (str, str), optional
        Pairs within these runs that are decided all the same: their run is a chain, no group.
    ranges : mapping of str to (int, int), optional
        The ranks of each model, which stand behind the names of a chain.

    Examples
    --------
    >>> order_in_words(["B", "A", "C", "D", "E"], [("C", "D")])
    'B > A > {C, D} > E'
    >>> ranges = {"A": (1, 2), "B": (1, 3), "C": (2, 3)}
    >>> order_in_words(["A", "B", "C"], [("A", "B", "C")], [("A", "C")], ranges)
    'A (1 to 2) >~ B (1 to 3) >~ C (2 to 3)'
    """
    group_of = {m: g for g in ties for m in g}
    chained = {id(group_of[a]) for a, b in separated if a in group_of}

    def ranked(model: str) -> str:
        best, worst = (ranges or {}).get(model, (0, 0))
        name = visible_name(model)
        return f"{name} ({best} to {worst})" if best < worst else name

    parts: list[str] = []
    done: set[str] = set()
    for model in order:
        if model in done:
            continue
        group = group_of.get(model, (model,))
        done.update(group)
        if id(group) in chained:
            parts.append(" >~ ".join(map(ranked, group)))
        else:
            shown = [visible_name(m) for m in group]
            parts.append("{" + ", ".join(shown) + "}" if len(shown) > 1 else shown[0])
    return " > ".join(parts)

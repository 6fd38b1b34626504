"""Ranks of models of which some have full results and others estimates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import ndtri

from ..metrics.scale import Scale


@dataclass(frozen=True)
class Row:
    """One model; scores on the metric's own scale.

    Attributes
    ----------
    model : str
    score, standard_error : float
        Mean score over the full benchmark, or its estimate; 0 for full results.
    items : int
        Documents that were run.
    estimated : bool
        Whether the score is an estimate from chosen documents.
    rank, best, worst : int
        Rank by score, and the ranks it may have at the board's confidence.
    signature : str
        What reproduces an estimate; "" for full results.
    """

    model: str
    score: float
    standard_error: float
    items: int
    estimated: bool
    rank: int = 0
    best: int = 0
    worst: int = 0
    signature: str = ""


def ranked(rows: Sequence[Row], scale: Scale, confidence: float) -> tuple[Row, ...]:
    """Rows best first, with their ranks and rank intervals.

    A model is decidedly better than another when their scores differ by more than the two-sided
    normal quantile times the standard error of the difference.

    Examples
    --------
    >>> rows = [Row("a", 0.5, 0.0, 9, False), Row("b", 0.51, 0.02, 3, True)]
    >>> [(r.model, r.rank, r.best, r.worst) for r in ranked(rows, Scale(), 0.95)]
    [('b', 1, 1, 2), ('a', 2, 1, 2)]
    """
    if not rows:
        return ()
    sign = 1.0 if scale.higher_is_better else -1.0
    order = sorted(rows, key=lambda r: -sign * r.score)
    score = sign * np.array([r.score for r in order])
    error = np.array([r.standard_error for r in order])
    z = float(ndtri((1.0 + confidence) / 2.0))
    # Full results, of which a board has thousands, are apart from each other as they stand.
    full = np.sort(score[error == 0.0])
    better = len(full) - np.searchsorted(full, score, side="right")
    worse = np.searchsorted(full, score, side="left")
    for i in np.flatnonzero(error > 0.0):
        gap, apart = score - score[i], z * np.hypot(error, error[i])
        better[i], worse[i] = np.sum(gap > apart), np.sum(-gap > apart)
        below = error == 0.0  # who has a full result sees this one, too
        better[below] += -gap[below] > apart[below]
        worse[below] += gap[below] > apart[below]
    return tuple(
        replace(row, rank=i + 1, best=int(better[i]) + 1, worst=len(order) - int(worse[i]))
        for i, row in enumerate(order)
    )

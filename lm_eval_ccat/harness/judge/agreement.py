"""Agreement of several raters."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Agreement:
    """Agreement of the raters over the answers that at least two of them rated.

    Attributes
    ----------
    answers : int
        Number of those answers.
    alpha : float
        Krippendorff's alpha for interval data (Hayes and Krippendorff 2007): 1 is perfect, 0 is
        chance; NaN if all ratings are equal.
    spread : float
        Mean absolute difference of two ratings of one answer, on the scale of 1 to 10.
    same : float
        Share of pairs of ratings of one answer that are equal.
    """

    answers: int
    alpha: float
    spread: float
    same: float

    def describe(self) -> str:
        """One line for people."""
        alpha = "not defined" if math.isnan(self.alpha) else f"{self.alpha:.2f}"
        return (
            f"agreement over {self.answers} answers: Krippendorff's alpha {alpha}, "
            f"{self.same:.0%} equal, mean difference {self.spread:.2f}"
        )


def agreement(ratings: Sequence[Sequence[float]]) -> Agreement | None:
    """Compute the agreement of ratings, one row per answer, NaN for a missing rating.

    Returns
    -------
    Agreement or None
        None if no answer has two ratings.

    Examples
    --------
    >>> round(agreement([[1, 1], [10, 10], [5, 6]]).alpha, 6)
    0.989775
    """
    rows = [row[~np.isnan(row)] for row in np.asarray(ratings, float)]
    rows = [row for row in rows if len(row) > 1]
    if not rows:
        return None
    values = np.concatenate(rows)
    gaps = np.concatenate(
        [abs(np.subtract.outer(row, row))[np.triu_indices(len(row), 1)] for row in rows]
    )
    # Mean squared difference within answers (each pair of a row of m counts 2/(m - 1)), and of all.
    within = sum(len(row) * row.var(ddof=1) for row in rows) / len(values)
    alpha = 1 - within / values.var(ddof=1) if np.ptp(values) > 0 else math.nan
    return Agreement(len(rows), float(alpha), float(gaps.mean()), float(np.mean(gaps == 0)))

"""How far several ratings of the same answers agree."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations


@dataclass(frozen=True)
class Agreement:
    """Agreement of the raters over the answers that at least two of them rated.

    Attributes
    ----------
    answers : int
        How many those are.
    alpha : float
        Krippendorff's alpha for interval data (Hayes and Krippendorff 2007): 1 is perfect, 0 what
        chance gives; NaN where all ratings are the same.
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
    """Agreement of ratings, one row for each answer, NaN where a rater gave none.

    Returns
    -------
    Agreement or None
        None where no answer has two ratings.

    Examples
    --------
    >>> agreement([[1, 1], [10, 10], [5, 6]]).alpha
    0.9897750511247444
    """
    rows = [[value for value in row if not math.isnan(value)] for row in ratings]
    rows = [row for row in rows if len(row) > 1]
    if not rows:
        return None
    pairs = [(a, b) for row in rows for a, b in combinations(row, 2)]
    values = [value for row in rows for value in row]
    n, mean = len(values), math.fsum(values) / len(values)
    # Mean squared difference within answers (each pair of a row of m counts 2/(m - 1)), and of all.
    within = math.fsum(
        2 * math.fsum((a - b) ** 2 for a, b in combinations(row, 2)) / (len(row) - 1)
        for row in rows
    ) / n  # fmt: skip
    between = 2 * math.fsum((value - mean) ** 2 for value in values) / (n - 1)
    return Agreement(
        len(rows),
        1 - within / between if between > 0 else math.nan,
        math.fsum(abs(a - b) for a, b in pairs) / len(pairs),
        sum(a == b for a, b in pairs) / len(pairs),
    )

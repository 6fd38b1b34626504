"""`Brief`: a ranking without its pairs, for who looks at it many times."""

from __future__ import annotations

from typing import NamedTuple

from .result import Ranking


class Brief(NamedTuple):
    """Order, ties and estimates of a ranking, each as `Ranking` has them; scores on [0, 1]."""

    order: list[str]
    ties: list[tuple[str, ...]]
    estimates: dict[str, float]
    intervals: dict[str, tuple[float, float]]

    @classmethod
    def of(cls, ranking: Ranking) -> Brief:
        """What a whole ranking says of it."""
        intervals = {m: ranking.interval(m) for m in ranking.estimates}
        return cls(ranking.order, ranking.ties, ranking.estimates, intervals)

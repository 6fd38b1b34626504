"""Ranking several models: ask, tell, and say how sure."""

from .ranker import Ranker
from .result import Ranking
from .stopping import (
    AllDecided,
    Budget,
    MaxItems,
    Percentile,
    RankWidth,
    StoppingRule,
    TargetError,
    Time,
    TopDecided,
    Unlimited,
)

__all__ = [
    "AllDecided",
    "Budget",
    "MaxItems",
    "Percentile",
    "RankWidth",
    "Ranker",
    "Ranking",
    "StoppingRule",
    "TargetError",
    "Time",
    "TopDecided",
    "Unlimited",
]

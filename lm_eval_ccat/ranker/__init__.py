"""Ranking several models: ask, tell, and say how sure.

A caller holds a `Ranker`, which keeps its state in these objects:

- `Contents` (``contents``): the tasks and outcomes that are ranked, and each outcome's policy;
- `Accounts` (``accounts``): what every model was asked, told and cost;
- `WeightedSum` (``weighted``): the belief about the ranked score, with what tasks have in common
  (``across``);
- `Standing` (``standing``): the looks so far (``looks``) and the verdicts that follow from them
  (``verdicts``; all pairs together: ``families``), which stopping rules read (``stopping``);
- `Turns` (``turns``): which model gets which item next;
- `RankingBuilder` (``builder``): makes a `Ranking` (``ranking``) of rows (``rows``) and verdicts.

``references`` places models with full results, ``difference`` compares two models, ``headline``
says in words what a ranking found, and ``arguments`` checks what a caller passes.
"""

from .ranker import Ranker
from .ranking import Ranking
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

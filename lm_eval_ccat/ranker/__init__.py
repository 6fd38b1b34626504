"""Ranking several models: ask, tell, and say how sure.

A caller holds a `Ranker`, which keeps its state in these objects:

- `Contents` (``contents``): the tasks and outcomes that are ranked, and each outcome's policy
  (what its method knows of the models from it);
- `Accounts` (``accounts``): what every model was asked, told and cost;
- `WeightedSum` (``weighted``): the belief about the ranked score, with what tasks have in common
  (``across``);
- `Standing` (``standing``): the looks so far (``looks``; what they ask for: ``boundary``) and the
  verdicts that follow from them (``verdicts``; all pairs together: ``families``), which stopping
  rules read (``stopping``);
- `JoinTests` (``join``): whether each bank says anything about the documents asked;
- `Turns` (``turns``): which model gets which item next;
- `RankingBuilder` (``builder``): makes a `Ranking` (``ranking``) of rows (``rows``) and verdicts.

``references`` places models with full results, ``difference`` compares two models (documents in
groups: ``clusters``), ``headline`` and ``columns`` show in words and in a table what a ranking
found, and ``arguments`` checks what a caller passes.
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

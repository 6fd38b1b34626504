"""Ranking several models: ask, tell, and say how sure."""

from .ranker import Ranker
from .result import Ranking
from .suite import SuiteRanker
from .suite_result import SuiteRanking

__all__ = ["Ranker", "Ranking", "SuiteRanker", "SuiteRanking"]

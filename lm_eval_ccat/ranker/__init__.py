"""Ranking several models: ask, tell, and say how sure."""

from .ranker import Ranker
from .result import Ranking

__all__ = ["Ranker", "Ranking"]

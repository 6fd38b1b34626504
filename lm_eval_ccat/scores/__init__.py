"""Observed scores: tables of models x configs x items, and where they come from."""

from .table import ScoreTable

__all__ = ["ScoreTable"]

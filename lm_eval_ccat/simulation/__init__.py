"""Replay logged scores through the ranker that live runs use, against baselines."""

from __future__ import annotations

from .simulation import Simulation, simulate
from .strategies import METHODS, Strategy

__all__ = ["METHODS", "Simulation", "Strategy", "simulate"]

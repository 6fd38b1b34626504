"""Replay logged scores through the ranker that live runs use, against baselines."""

from __future__ import annotations

from .methods import METHODS, Strategy
from .run import Simulation, simulate

__all__ = ["METHODS", "Simulation", "Strategy", "simulate"]

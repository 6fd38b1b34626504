"""Adaptive testing for the lm-evaluation-harness.

The names below are loaded on first use, so that ``import lm_eval_ccat`` costs nothing and
commands that run no model never import torch, datasets or the harness.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .bank import ItemBank
    from .live import AdaptiveTask, adaptive_evaluate, rank, simple_evaluate
    from .live.comparison import compare
    from .methods import calibrate
    from .ranker import Ranker, Ranking
    from .scores import ScoreTable
    from .simulation import simulate

__version__ = "0.1.0"

_HOME = {
    "ScoreTable": "scores",
    "ItemBank": "bank",
    "calibrate": "methods",
    "Ranker": "ranker",
    "Ranking": "ranker",
    "simulate": "simulation",
    "AdaptiveTask": "live",
    "compare": "live",
    "adaptive_evaluate": "live",
    "rank": "live",
    "simple_evaluate": "live",
}

__all__ = [
    "AdaptiveTask",
    "ItemBank",
    "Ranker",
    "Ranking",
    "ScoreTable",
    "adaptive_evaluate",
    "calibrate",
    "compare",
    "rank",
    "simple_evaluate",
    "simulate",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f".{_HOME[name]}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(set(globals()) | set(__all__))

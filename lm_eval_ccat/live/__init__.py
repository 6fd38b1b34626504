"""Live runs: models that are really asked, through the harness."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .comparison import Comparison, compare
    from .evaluate import adaptive_evaluate, simple_evaluate
    from .observer import Observer
    from .ranking import rank
    from .result import Result
    from .task import AdaptiveTask

# The harness, which most of these import, takes a second or two.
_HOME = {
    "AdaptiveTask": "task",
    "Comparison": "comparison",
    "Observer": "observer",
    "Result": "result",
    "adaptive_evaluate": "evaluate",
    "compare": "comparison",
    "rank": "ranking",
    "simple_evaluate": "evaluate",
}

__all__ = [
    "AdaptiveTask",
    "Comparison",
    "Observer",
    "Result",
    "adaptive_evaluate",
    "compare",
    "rank",
    "simple_evaluate",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{_HOME[name]}", __name__), name)

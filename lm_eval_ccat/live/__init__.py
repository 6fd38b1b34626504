"""Live runs, which ask models through the harness.

`Spec` holds the options of a run, `Plan` what they mean for its tasks. A `Run` holds its models,
its `Book` (Ranker and journal in step) and the `Sender`, which puts to each `Model` what the `Line`
has next; it leaves a `Result`. `rank`, `adaptive_evaluate`, `complete`, `compare` with live models
and the dry run are functions over `Run`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .comparison import Comparison, compare
    from .evaluate import AdaptiveTask, adaptive_evaluate, simple_evaluate
    from .observer import Observer
    from .ranking import rank
    from .result import Result

# The harness, which most of these import, takes a second or two.
_HOME = {
    "AdaptiveTask": "evaluate",
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

"""The only part that knows lm-eval: its tasks, models and results, and the hook into its runs."""

from __future__ import annotations

from typing import Any

from .evaluate import adaptive_evaluate, simple_evaluate
from .session import Administered, TaskSession, open_session

__all__ = [
    "AdaptiveTask",
    "Administered",
    "TaskSession",
    "adaptive_evaluate",
    "open_session",
    "simple_evaluate",
]


def __getattr__(name: str) -> Any:
    # Its base class is the harness's, which is imported only where it is needed.
    if name == "AdaptiveTask":
        from .task import AdaptiveTask

        return AdaptiveTask
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

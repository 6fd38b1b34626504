"""Live runs: models that are really asked, through the harness."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .evaluate import adaptive_evaluate, simple_evaluate

if TYPE_CHECKING:
    from .task import AdaptiveTask

__all__ = ["AdaptiveTask", "adaptive_evaluate", "simple_evaluate"]


def __getattr__(name: str) -> Any:
    # Its base class is the harness's, which is imported only where it is needed.
    if name == "AdaptiveTask":
        from .task import AdaptiveTask

        return AdaptiveTask
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

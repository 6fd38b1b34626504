"""Results that people look at: the HTML page of a run, and plots."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .page import LivePage, write_report
    from .run import StoredRun, read_run

__all__ = ["LivePage", "StoredRun", "read_run", "write_report"]

_HOME = {
    "LivePage": "page",
    "StoredRun": "run",
    "read_run": "run",
    "write_report": "page",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{_HOME[name]}", __name__), name)

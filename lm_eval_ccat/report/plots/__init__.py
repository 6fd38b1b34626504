"""Plots as matplotlib figures (extra ``plot``); nothing is imported before it is asked for."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .bank import plot_bank
    from .files import plot_run
    from .ranking import plot_information, plot_pairwise, plot_progress, plot_ranking
    from .simulation import plot_simulation
    from .style import save

_HOME = {
    "plot_bank": "bank",
    "plot_information": "ranking",
    "plot_pairwise": "ranking",
    "plot_progress": "ranking",
    "plot_ranking": "ranking",
    "plot_run": "files",
    "plot_simulation": "simulation",
    "save": "style",
}

__all__ = [
    "plot_bank",
    "plot_information",
    "plot_pairwise",
    "plot_progress",
    "plot_ranking",
    "plot_run",
    "plot_simulation",
    "save",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{_HOME[name]}", __name__), name)

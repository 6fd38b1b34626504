"""Charts of runs, banks and replays: SVG as they are, PNG and PDF on request."""

from __future__ import annotations

from ..chart import Chart
from .ranking import plot_information, plot_pairwise, plot_progress, plot_ranking, plot_run
from .simulation import plot_bank, plot_files, plot_simulation

__all__ = [
    "Chart",
    "plot_bank",
    "plot_files",
    "plot_information",
    "plot_pairwise",
    "plot_progress",
    "plot_ranking",
    "plot_run",
    "plot_simulation",
]

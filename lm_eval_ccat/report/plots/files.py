"""Plots as files, for the command line."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ...bank import ItemBank
from ...errors import BankError, UsageError
from ..replay import course
from ..run import Run, read_run
from .bank import plot_bank
from .ranking import plot_information, plot_pairwise, plot_progress, plot_ranking
from .simulation import plot_simulation, read_simulation
from .style import close, save


def plot_run(
    run: Run | str | Path, folder: str | Path, formats: Sequence[str] = ("png", "svg")
) -> list[Path]:
    """Write every plot of a run: ranking, pairs, course, information.

    Returns
    -------
    list of Path
        The files; those that need more than one model, an answer or the bank are left out without.
    """
    if not isinstance(run, Run):
        run = read_run(run)
    made: dict[str, Any] = {"ranking": plot_ranking(run)}
    if len(run.result["order"]) > 1:
        made["pairs"] = plot_pairwise(run)
    if run.banks is not None and run.answers:
        past = course(run)
        if past is not None:
            made["course"] = plot_progress(run, past=past)
        if run.has_curves:
            made["information"] = plot_information(run)
    written = []
    for name, plot in made.items():
        written += save(plot, Path(folder) / name, formats)
        close(plot)
    return written


def plot_files(
    paths: Sequence[Path], folder: str | Path, formats: Sequence[str] = ("png", "svg")
) -> list[Path]:
    """Write the plots of one bank, or of one or several files of ``simulate --json``.

    Raises
    ------
    UsageError
        The files are neither.
    """
    if len(paths) == 1:
        try:
            bank = ItemBank.load(paths[0])
        except BankError as error:
            if "not an item bank" not in str(error):
                raise
        else:
            return save(plot_bank(bank), Path(folder) / "bank", formats)
    try:
        found = [read_simulation(p) for p in paths]
    except UsageError as error:
        raise UsageError(f"{error}; plots are made of a run directory, a bank or these") from None
    return save(plot_simulation(*found), Path(folder) / "simulation", formats)

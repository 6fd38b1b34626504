"""The files that the harness would write of one model of a ranking."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from . import internals
from .assembly import TaskRun, assemble
from .scorers import add_scorers


def save_model(
    folder: Path,
    name: str,
    runs: Mapping[str, TaskRun],
    groups: Mapping[str, Any],
    model: str,
    model_args: Mapping[str, Any],
    hub: Mapping[str, Any],
    bootstrap_iters: int | None = None,
) -> None:
    """Write ``<folder>/<name>/results_<date>.json`` and ``samples_<task>_<date>.jsonl``.

    Of several tasks there is one file of results, with the groups as the harness reports them.

    Parameters
    ----------
    folder : Path
        The run directory.
    name : str
        The model's name in the ranking.
    runs : mapping of str to TaskRun
        By task; at least one.
    groups : mapping of str to Group
        The harness's, of these tasks.
    model, model_args
        Type and (masked) arguments for the ``config`` block.
    hub : mapping
        The harness's ``hf_hub_log_args``; without them nothing leaves the machine.
    bootstrap_iters : int, optional
        For the standard errors of a complete run, as `evaluate` takes it.
    """
    session = next(iter(runs.values())).session
    results = assemble(
        session.lm,
        list(runs),
        groups,
        None,
        runs,
        bootstrap_iters=bootstrap_iters,
        log_samples=True,
    )
    results["config"] = {"model": model, "model_args": dict(model_args), "limit": None}
    add_scorers(results)
    samples = results.pop("samples")
    internals.save_results(str(folder), name, results, samples, session.options, hub)

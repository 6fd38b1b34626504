"""Full evaluation of the demo's systems by the stock harness, logged as the harness logs."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from ..harness import internals
from . import MODEL_TYPE, register_models

TASK_NAME = "ccat_demo"


def evaluate_in_full(
    task_folder: Path,
    logs: Path,
    systems: Sequence[str],
    on_done: Callable[[str, float], Any] | None = None,
) -> dict[str, float]:
    """Run systems on every document and write results and samples files.

    Parameters
    ----------
    task_folder : Path
        Where the task's YAML lies.
    logs : Path
        Receives one folder per system.
    systems : sequence of str
        Names of summarisers.
    on_done : callable, optional
        Called with each system's name and score.

    Returns
    -------
    dict of str to float
        Mean ROUGE-L of each system over all documents.
    """
    register_models()
    with _quiet_children():
        return _evaluate(task_folder, logs, systems, on_done)


@contextlib.contextmanager
def _quiet_children() -> Iterator[None]:
    """The harness asks git for its version, which complains aloud outside a repository."""
    saved = os.dup(2)
    null = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(null, 2)
        yield
    finally:
        os.dup2(saved, 2)
        os.close(saved)
        os.close(null)


def _evaluate(
    task_folder: Path,
    logs: Path,
    systems: Sequence[str],
    on_done: Callable[[str, float], Any] | None,
) -> dict[str, float]:
    manager = internals.task_manager([TASK_NAME], str(task_folder))
    scores = {}
    for system in systems:
        results = internals.stock_simple_evaluate(
            model=MODEL_TYPE,
            model_args={"system": system},
            tasks=[TASK_NAME],
            task_manager=manager,
            log_samples=True,
            bootstrap_iters=0,
        )
        scores[system] = float(results["results"][TASK_NAME]["rougeL,none"])
        samples = results.pop("samples")
        internals.save_results(str(logs), system, results, samples, {})
        if on_done is not None:
            on_done(system, scores[system])
    return scores

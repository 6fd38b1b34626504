"""Full evaluation of the demo's systems by the stock harness, logged as the harness logs."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from ..harness import internals
from ..harness.assembly import save_results
from . import MODEL_TYPE, register_models

TASK_NAME = "ccat_demo"


def evaluate_in_full(task_folder: Path, logs: Path, systems: Sequence[str]) -> dict[str, float]:
    """Run systems on every document and write results and samples files.

    Parameters
    ----------
    task_folder : Path
        Where the task's YAML lies.
    logs : Path
        Receives one folder per system.
    systems : sequence of str
        Names of summarisers.

    Returns
    -------
    dict of str to float
        Mean ROUGE-L of each system over all documents.
    """
    register_models()
    scores = {}
    internals.compile_templates_once()
    with _quiet_children():
        manager = internals.task_manager([TASK_NAME], str(task_folder))
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
            save_results(str(logs), system, results, results.pop("samples"), {})
    return scores


@contextlib.contextmanager
def _quiet_children() -> Iterator[None]:
    """The harness asks git for its version, which complains aloud outside a repository."""
    saved, null = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(null, 2)
        yield
    finally:
        os.dup2(saved, 2)
        os.close(saved)
        os.close(null)

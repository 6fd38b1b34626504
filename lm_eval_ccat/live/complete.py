"""`complete`: from an adaptive run to the full benchmark, without asking anything twice."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

from ..errors import RunError, UsageError
from ..harness import internals
from ..harness.assembly import TaskRun, save_model
from ..masking import MASK, mask
from ..runs.directory import RunDirectory
from ..runs.rebuild import banks_at, rebuild
from .config import ModelConfig, RankConfig, from_public
from .observer import Observer
from .plan import Plan, make_plan
from .quiet import quiet_harness
from .ranking import Config, as_config, make_workers
from .results import task_runs
from .scheduler import Scheduler
from .tasks import require_model_types

#: Where the full results lie in a run directory.
FOLDER = "full"
#: The harness's default number of bootstrap samples.
BOOTSTRAP = 100_000


def complete(
    run_dir: str | Path,
    models: Sequence[str] | None = None,
    config: Config | None = None,
    observer: Observer | None = None,
) -> dict[str, dict[str, TaskRun]]:
    """Ask models of a ranking the documents that they have not had, and score all as lm_eval does.

    The answers are kept in the run's journal, so that what was interrupted goes on where it was;
    the ranking itself stays what it is. Results and samples files, as a full run of the harness
    gives them from the same answers, are written to ``<run_dir>/full/<model>/``.

    Parameters
    ----------
    run_dir : path
        Of `rank`.
    models : sequence of str, optional
        Default all.
    config : dict, path or RankConfig, optional
        The run's configuration, where its own copy does not do: credentials are masked there.
    observer : Observer, optional

    Returns
    -------
    dict of model to dict of task to TaskRun
        Each of them complete.

    Raises
    ------
    RunError
        It is another run, it is not over, or a document cannot be done.
    UsageError
        A model is not of this ranking.

    Examples
    --------
    >>> complete("my_task.run", ["gpt2"])                       # doctest: +SKIP
    """
    directory, watcher = RunDirectory(run_dir), observer or Observer()
    header = directory.present_identity()
    if config is None:
        settings = from_public(header["config"], bank=str(banks_at(directory.path)))
        _refuse_masked(settings, directory.path)
    else:
        settings = as_config(config)
    names = list(models or [entry.name for entry in settings.models])
    entries = [settings.model(name) for name in names]
    directory.take()
    try:
        with quiet_harness(directory.path / "run.log", watcher.warn):
            require_model_types(replace(settings, models=tuple(entries)))
            internals.require_backends(str(entry.model) for entry in entries)
            plan = make_plan(settings)
            directory.require_same(plan.identity())
            return {entry.name: _complete(plan, directory, entry, watcher) for entry in entries}
    finally:
        directory.release()


def _complete(
    plan: Plan, directory: RunDirectory, entry: ModelConfig, watcher: Observer
) -> dict[str, TaskRun]:
    ranker, _ = rebuild(directory.path)
    if not ranker.done:
        raise RunError(f"{directory.path} is not finished; let `rank --resume` end it first")
    if entry.name in ranker.tally.set_aside:
        raise RunError(
            f"{entry.name} was set aside ({ranker.tally.set_aside[entry.name]}); take it up again "
            "with `rank --resume --retry`"
        )
    had = {item for name, item in ranker.answers if name == entry.name}
    every = [
        doc if plan.single else (task, doc)
        for task, session in plan.sessions.items()
        for doc in session.doc_ids
    ]
    left = [item for item in every if item not in had]
    watcher.note(f"{entry.name}: {len(had)} answers are there, {len(left)} documents are asked.")
    [worker] = make_workers(plan, [entry], watcher)
    with closing(worker):
        if left:
            worker.open()
            scheduler = Scheduler(ranker, [worker], plan.config.failures)
            scheduler.run_beyond(worker, left)
        runs = task_runs(plan, ranker, worker)
    lacking = [task for task, run in runs.items() if not run.complete]
    if lacking:
        raise RunError(f"{entry.name} lacks documents of {', '.join(lacking)}; complete it again")
    for run in runs.values():
        arguments = mask(entry.model_args)
        folder = directory.path / FOLDER
        save_model(folder, entry.name, run, str(entry.model), arguments, {}, BOOTSTRAP)
    return runs


def _refuse_masked(config: RankConfig, folder: Path) -> None:
    """Credentials that only the user has."""

    def masked(value: Any) -> bool:
        if isinstance(value, dict):
            return any(map(masked, value.values()))
        if isinstance(value, (list, tuple)):
            return any(map(masked, value))
        return isinstance(value, str) and MASK in value

    for entry in config.models:
        if masked(entry.model_args):
            raise UsageError(
                f"{folder} keeps no credentials, and the model_args of {entry.name} hold one; give "
                "the configuration: --config FILE"
            )

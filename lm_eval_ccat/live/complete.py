"""`complete`: from an adaptive run to the full benchmark, without asking anything twice."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

from ..errors import RunError, UsageError
from ..harness import internals
from ..harness.assembly import TaskRun
from ..harness.model_files import save_model
from ..masking import MASK, mask
from ..runs.directory import RunDirectory
from ..runs.rebuild import banks_at, rebuild
from ..scores.answers import EarlierAnswer
from ..scores.readers.lm_eval.files import tasks_of
from .begin import open_book, require_same
from .entries import ModelSpec
from .logged import logged_config, run_beside
from .models import Item, SessionModel
from .observer import Observer
from .plan import Plan, make_plan
from .quiet import quiet_harness
from .ranking import Config, make_models
from .recorded import answers_at_hand
from .results import task_runs
from .run import Run
from .spec import Spec
from .tasks import require_model_types
from .values import ANY

#: Where the full results lie in a run directory.
FOLDER = "full"
#: The harness's default number of bootstrap samples.
BOOTSTRAP = 100_000


def complete(
    run_dir: str | Path,
    models: Sequence[str] | None = None,
    config: Config | None = None,
    observer: Observer | None = None,
    *,
    include_path: Sequence[str] = (),
) -> dict[str, dict[str, TaskRun]]:
    """Ask models of a ranking the documents that they have not had, and score all as lm_eval does.

    The answers are kept in the run's journal, so that what was interrupted goes on where it was;
    the ranking itself stays what it is. Results and samples files, as a full run of the harness
    gives them from the same answers, are written to ``<run_dir>/full/<model>/``.

    Parameters
    ----------
    run_dir : path
        Of `rank`; or the output folder of ``run --adaptive --log_samples``, whose run directory is
        then made beside it (see `directory_of`).
    models : sequence of str, optional
        Default all.
    config : dict, path or Spec, optional
        The run's configuration, where its own copy does not do: credentials are masked there.
    observer : Observer, optional
    include_path : sequence of str, optional
        Folders of task configurations, for an output folder: logs do not name them.

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
    directory, watcher = RunDirectory(directory_of(run_dir)), observer or Observer()
    if config is not None:
        settings = Spec.read(config, warn=watcher.warn).require_ranking()
    elif directory.path == Path(run_dir):
        header = directory.present_identity()
        settings = replace(Spec.recorded(header["config"]), bank=str(banks_at(directory.path)))
    else:
        settings = logged_config(Path(run_dir), include_path)
    if config is None:
        _refuse_masked(settings, directory.path)
    elif directory.path != Path(run_dir):
        settings = replace(settings, prior={ANY: [str(run_dir)]})
    names = list(models or [entry.name for entry in settings.models])
    entries = [settings.model(name) for name in names]
    directory.take()
    try:
        with quiet_harness(directory.path / "run.log", watcher.warn):
            require_model_types(replace(settings, models=tuple(entries)))
            internals.require_backends(str(entry.model) for entry in entries)
            plan = make_plan(settings)
            if directory.path != Path(run_dir):
                _begin(plan, directory, watcher)
            require_same(directory, plan)
            return {entry.name: _complete(plan, directory, entry, watcher) for entry in entries}
    finally:
        directory.release()


def directory_of(run_dir: str | Path) -> Path:
    """The run directory that is completed: of an output folder ``logs`` it is ``logs.run``."""
    place = Path(run_dir)
    is_run = RunDirectory(place).journal.exists() or not place.is_dir() or not tasks_of(place)
    return place if is_run else run_beside(place)


def _begin(plan: Plan, directory: RunDirectory, watcher: Observer) -> None:
    """A ranking that asks nothing itself, in which what is beyond it can be kept."""
    book = open_book(plan, directory, directory.journal.exists(), watcher)
    book.event("end", reason="every document is asked, whatever it tells")


def _complete(
    plan: Plan, directory: RunDirectory, entry: ModelSpec, watcher: Observer
) -> dict[str, TaskRun]:
    book, _ = rebuild(directory.path)
    if not book.done:
        raise RunError(f"{directory.path} is not finished; let `rank --resume` end it first")
    if entry.name in book.tally.set_aside:
        raise RunError(
            f"{entry.name} was set aside ({book.tally.set_aside[entry.name]}); take it up again "
            "with `rank --resume --retry`"
        )
    book.count_all()
    had = {item for name, item in book.answers if name == entry.name}
    every = [
        doc if plan.single else (task, doc)
        for task, session in plan.sessions.items()
        for doc in session.doc_ids
    ]
    left = [item for item in every if item not in had]
    [model] = make_models(plan, [entry], watcher)
    with closing(model):
        if left:
            model.open()
            model.at_hand = _fitting(plan, model, left)
            if plan.config.prior and not had and not model.at_hand:
                raise UsageError(
                    f"none of the answers of {entry.name} that are there is to a prompt of this "
                    "run; say how it was run: --config FILE"
                )
        there = len(had) + len(model.at_hand)
        asked = len(every) - there
        watcher.note(f"{entry.name}: {there} answers are there, {asked} documents are asked.")
        if left:
            Run(plan, book, [model], watcher).beyond(left)
        runs = task_runs(plan, book, model)
    lacking = [task for task, run in runs.items() if not run.complete]
    if lacking:
        raise RunError(f"{entry.name} lacks documents of {', '.join(lacking)}; complete it again")
    for run in runs.values():
        arguments = mask(entry.model_args)
        folder = directory.path / FOLDER
        runs = {run.session.name: run}
        save_model(folder, entry.name, runs, {}, str(entry.model), arguments, {}, BOOTSTRAP)
    return runs


def _fitting(plan: Plan, model: SessionModel, left: Sequence[Item]) -> dict[Item, EarlierAnswer]:
    """Earlier answers to what is left, to the very same prompts."""
    names = [entry.name for entry in plan.config.models]
    # Logs may be gone since; what the ranking took of them is in its journal.
    prior = {
        name: there
        for name, paths in plan.config.prior.items()
        if (there := [path for path in paths if Path(path).exists()])
    }
    found = answers_at_hand(prior, names, list(plan.measured), plan.single)
    own, fitting = found[model.name], {}
    for item in left:
        task, doc = model.place(item)
        if item in own and own[item].prompt_hash == model.sessions[task].prompt_hash(doc):
            fitting[item] = own[item]
    return fitting


def _refuse_masked(config: Spec, folder: Path) -> None:
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

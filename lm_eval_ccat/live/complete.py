"""`complete`: extend an adaptive run to the full benchmark, without asking anything twice."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from ..errors import OtherSettingsError, RunError, UsageError
from ..harness.estimates import TaskRun
from ..harness.evaluation import save_model
from ..masking import MASK, mask
from ..plugins import existing
from ..records import End
from ..runs.book import Book
from ..runs.directory import RunDirectory, banks_at, rebuild
from ..scores.readers.logged_runs import can_read, every_run
from ..scores.readers.run_journal import journals
from ..shown import some
from .earlier import logged_config, run_beside
from .fields import ANY
from .keep import ModelRuns
from .models import HarnessModel
from .result import Observer
from .run import Run, open_book
from .spec import Config, Spec

#: Folder of the full results in a run directory.
FULL_FOLDER = "full"
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
    """Ask models of a ranking their remaining documents, and score all as lm_eval does.

    The run's journal keeps the answers, so an interrupted completion continues where it stopped;
    the ranking itself does not change. The results and samples files that a full run of the harness
    would write from the same answers, one of each per task, go to ``full/<model>/`` in the run
    directory.

    Parameters
    ----------
    run_dir : path
        Run directory of `rank`; or the output folder of ``run --adaptive --log_samples``, next to
        which a run directory is then created (see `directory_of`).
    models : sequence of str, optional
        Names of the models to complete, in any order; default, and if empty: all.
    config : dict, path or Spec, optional
        The run's configuration, if its own copy, with masked credentials, is not enough.
    observer : Observer, optional
    include_path : sequence of str, optional
        Folders of task configurations, for an output folder, whose logs do not name them.

    Returns
    -------
    dict of model to dict of task to TaskRun
        Complete results, in the order of the configuration.

    Raises
    ------
    RunError
        The configuration is of another run, the run is not over, a model was set aside, or a
        document gets no answer. Models before it are complete, and their files are written.
    UsageError
        A model is not in this ranking, the ranking asks documents repeatedly, or its own copy of
        the configuration is not enough.

    Examples
    --------
    >>> complete("my_task.run", ["gpt2"])                       # doctest: +SKIP
    """
    folder, observer = directory_of(run_dir), observer or Observer()
    is_run_directory = folder == Path(run_dir)
    spec = _configuration(Path(run_dir), folder, config, include_path)
    names = list(models or [entry.name for entry in spec.models])
    # A name that is not in the configuration is refused before anything is opened.
    for name in names:
        spec.model(name)
    # An output folder has a journal only if an earlier completion of it was interrupted.
    resume = is_run_directory or RunDirectory(folder).journal.exists()
    book = partial(_ended_book, folder=folder, is_run_directory=is_run_directory)
    with Run(
        spec, folder, observer, resume=resume, asked=names, book=book, resumed_by="the same command"
    ) as run:
        # A full run in the harness's form has one answer to each document.
        if run.plan.most_repeats > 1:
            raise UsageError(
                f"{folder} asks every document up to {run.plan.most_repeats} times, and `complete` "
                "once; all answers are asked by `rank CONFIG --resume` with `stop: limits`"
            )
        runs = ModelRuns(run.plan, run.book)
        return {
            model.name: _complete(run, runs, model, folder / FULL_FOLDER) for model in run.models
        }


def _ended_book(run: Run, folder: Path, is_run_directory: bool) -> Book:
    """Return the book of a ranking that is over, with the answers that came after its end.

    Raises
    ------
    RunError
        The configuration is of another run, or the run is not over.
    """
    # An output folder has no journal. One is begun whose ranking ends at once, so that no document
    # is asked adaptively; the folder's answers are taken later, as those of `prior`.
    if not is_run_directory:
        open_book(run).event(End(reason="every document is asked"))
    book = rebuild(folder)
    try:
        run.require_same(book.journal.identity, book.tally.answering)
    except OtherSettingsError as error:
        # Without the remedy, its second argument: a new run that takes over the answers does not
        # complete this one.
        raise RunError(f"{error.args[0]}. Use those: `complete` asks as the run did") from None
    if not book.done:
        raise RunError(f"{folder} is not finished; finish it with `rank --resume` first")
    # Answers that came after the deciding one do not count in the ranking, but are paid: the
    # full run scores them instead of asking again. An answer without responses is a failure.
    for answer in book.waiting.values():
        if answer.responses:
            book.keep_beyond_bank(answer)
    return book


def _configuration(
    run_dir: Path, folder: Path, config: Config | None, include_path: Sequence[str]
) -> Spec:
    """Return the configuration of the run to complete: the user's own, or the one on disk.

    Parameters
    ----------
    run_dir : Path
        The folder that the user named: a run directory, or an output folder of the harness.
    folder : Path
        Its run directory, as `directory_of` returns it.
    config : dict, path or Spec, optional
        The user's own configuration.
    include_path : sequence of str
        Folders of task configurations.
    """
    is_run_directory = folder == run_dir
    if config is not None:
        spec = Spec.read(config).require_ranking()
        # An output folder has no journal: its samples are the answers to take over.
        if not is_run_directory:
            spec = replace(spec, prior={ANY: [str(run_dir)]})
    else:
        spec = _recorded(folder) if is_run_directory else logged_config(run_dir, include_path)
        _require_no_credentials(spec, folder)
    # Logs may be gone by now; the journal holds the answers that the ranking took from them.
    logs_left = {
        name: [path for path in paths if Path(path).exists()] for name, paths in spec.prior.items()
    }
    return replace(spec, prior={name: paths for name, paths in logs_left.items() if paths})


def _recorded(folder: Path) -> Spec:
    """Return the configuration that a run directory keeps, with its own copy of the banks."""
    recorded = RunDirectory(folder).present_identity().config
    if not all(entry.get("model") for entry in recorded["models"]):
        raise UsageError(
            f"{folder} does not know its model, which the harness loaded; complete the output "
            "folder of `run --adaptive --log_samples` instead"
        )
    return replace(Spec.recorded(recorded), bank=str(banks_at(folder)))


def _require_no_credentials(spec: Spec, folder: Path) -> None:
    """Refuse a kept configuration in which a credential is masked: only the user has it."""
    for entry in spec.models:
        if MASK in json.dumps(entry.model_args, default=str):
            raise UsageError(
                f"{folder} keeps no credentials, and the model_args of {entry.name} hold one; give "
                "the configuration: --config FILE"
            )


def directory_of(run_dir: str | Path) -> Path:
    """Return the run directory to complete: for an output folder ``logs``, it is ``logs.run``.

    Raises
    ------
    UsageError
        There is no such folder, or all that it holds are run directories.
    """
    folder = existing(run_dir, "run directory or folder of logs")
    # A file is refused as soon as its journal is read.
    if RunDirectory(folder).journal.exists() or not folder.is_dir():
        return folder
    runs = [journal.parent for journal in journals(folder)]
    # Each log belongs to a run directory below the folder, of which the user has to name one.
    if runs and all(set(runs) & set(log.samples.parents) for log in every_run(folder)):
        raise UsageError(
            f"{folder} is no run directory; it holds {some([run.name for run in runs])}: "
            f"lm-eval-ccat complete {shlex.quote(str(runs[0]))}"
        )
    return run_beside(folder) if can_read(folder) else folder


def _complete(
    run: Run, model_runs: ModelRuns, model: HarnessModel, folder: Path
) -> dict[str, TaskRun]:
    """Ask one model its missing documents, write its files, and return its results by task.

    Parameters
    ----------
    run : Run
    model_runs : ModelRuns
        The answers of the run as the harness has them.
    model : HarnessModel
    folder : Path
        Where the harness's results and samples files go.

    Raises
    ------
    RunError
        The model was set aside, or a document got no answer.
    UsageError
        The run took earlier answers, and none is to a prompt of this configuration.
    """
    name, set_aside = model.name, run.book.tally.set_aside
    # A model that failed for good fails here as well.
    if name in set_aside:
        raise RunError(
            f"{name} was set aside ({set_aside[name]}); continue it with `rank --resume --retry`"
        )
    _ask_missing(run, model)
    runs = model_runs.of(model)
    model.close()
    lacking = [task for task, task_run in runs.items() if not task_run.complete]
    if lacking:
        raise RunError(f"{name} lacks documents of {', '.join(lacking)}; complete it again")
    metrics = {metric for done in runs.values() for metric in done.session.resampled_metrics}
    # The harness resamples all documents for the errors of these, and says nothing meanwhile.
    if metrics:
        run.observer.note(
            f"{name}: writing the harness's files; the standard error of {some(sorted(metrics))} "
            "may take minutes."
        )
    for task, task_run in runs.items():
        save_model(
            folder,
            name,
            {task: task_run},
            groups={},
            model=str(model.entry.model),
            model_args=mask(model.entry.model_args),
            hub={},
            bootstrap_iters=BOOTSTRAP,
        )
    return runs


def _ask_missing(run: Run, model: HarnessModel) -> None:
    """Ask a model every document that it has not answered; nothing happens if there is none.

    Raises
    ------
    UsageError
        The run took earlier answers, and none is to a prompt of this configuration.
    """
    name, answered = model.name, set(run.book.answers.of(model.name))
    left = [item for item in run.plan.documents() if item not in answered]
    if not left:
        return
    model.open()
    fitting = [item for item in left if model.has_prior_answer(item)]
    # Logs of another configuration would cost a whole run that the user thinks is paid.
    if run.spec.prior and not answered and not fitting:
        raise UsageError(
            f"none of the stored answers of {name} fits a prompt of this run; give its "
            "configuration: --config FILE"
        )
    unrated = sum(name == answer.model for answer in run.book.unrated.values())
    on_disk = len(answered) + len(fitting) + unrated
    asked = len(answered) + len(left) - on_disk
    run.observer.note(f"{name}: {on_disk} answers are on disk; asking {asked} documents.")
    run.ask_beyond(model, left)

"""`rank`: several models, one task, a few items; from a configuration to its result."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import BankError, HarnessError, UsageError
from ..harness import TaskSession, internals
from ..runs.book import Book
from ..runs.directory import RunDirectory
from ..runs.rebuild import banks_at
from ..scores.answers import EarlierAnswer
from .begin import open_book, refuse_wrong_directory
from .entries import ModelSpec
from .forecast import at_most, forecast, most_money, need_in_words
from .keep import growing, keep
from .models import HarnessModel
from .observer import Observer
from .plan import Plan, check_session, make_plan
from .probe import probe as probe_models
from .quiet import quiet_harness
from .recorded import answers_at_hand, in_words
from .results import Result, result_of, write_model_results
from .run import Run
from .spec import Spec
from .surfaces import takes_options
from .tasks import require_model_types
from .tracking import track, wanted

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from .keywords import Keywords

#: Dollars that a run without a limit may cost before it asks.
ASKED_FROM = 1.0
Config = Spec | Mapping[str, Any] | str | Path


@takes_options()
def rank(
    config: Config | None = None,
    *,
    run_dir: str | Path | None = None,
    resume: bool = False,
    retry: bool | str = False,
    executor: str = "local",
    ray_address: str | None = None,
    observer: Observer | None = None,
    **options: Unpack[Keywords],
) -> Result:
    """Rank models on a task, asking each the most informative items.

    Parameters
    ----------
    config : dict, path or Spec, optional
        As the YAML file of the command ``rank``.
    run_dir : path, optional
        Where the journal, the result and each model's files are kept, so that the run can be
        resumed.  Without it failed requests are retried all the same, and nothing is written.
    resume : bool, optional
        Go on with what `run_dir` holds. Budget, prices, addresses, timeouts and concurrency may
        have changed, and models may join; nothing is paid for twice.
    retry : bool or str, optional
        With `resume`: take up models that were set aside again, all or the one named.
    executor : {"local", "ray"}, optional
        Where models run: in this process, or as actors of a Ray cluster.
    ray_address : str, optional
        An existing Ray cluster; default a local one.
    observer : Observer, optional
        Is told of warnings and progress.
    **options
        The keys of that file (``task``, ``models``, ``budget``, ...), in place of its own.

    Returns
    -------
    Result
        After Ctrl-C too; its ``content["interrupted"]`` then says so.

    Raises
    ------
    CcatError
        The configuration, bank, task or a model cannot be used, or the directory not be written.

    Examples
    --------
    The type ``dummy`` of lm_eval answers at random:

    >>> from lm_eval_ccat import rank
    >>> models = [{"name": name, "model": "dummy"} for name in ("a", "b")]
    >>> result = rank(task="my_task.yaml", models=models, max_items=20)
    >>> sorted(result.ranking.order), result.ranking.items["a"] == result.ranking.items["b"]
    (['a', 'b'], True)
    """
    refuse_data_parallel()
    watcher = observer or Observer()
    settings = Spec.read(config or {}, options, warn=watcher.warn).require_ranking()
    if executor not in ("local", "ray"):
        raise UsageError(f"executor {executor!r} is neither 'local' nor 'ray'")
    if resume and run_dir is None:
        raise UsageError("resume needs the run_dir of the run to go on with")
    if retry and not resume:
        raise UsageError("retry needs resume: it takes up models of a run that is resumed")
    directory = None if run_dir is None else RunDirectory(run_dir)
    with ExitStack() as stack:
        log_file = None
        if directory is not None:
            refuse_wrong_directory(directory, resume)
            directory.take()
            stack.callback(directory.release)
            log_file = directory.path / "run.log"
        stack.enter_context(quiet_harness(log_file, watcher.warn))
        require_model_types(settings)
        trackers = wanted(settings.harness)
        if resume and settings.save_bank and settings.bank:
            # What the run began with: the file may have grown by it since.
            settings = replace(settings, bank=str(banks_at(Path(run_dir or "."))))
        plan = make_plan(settings)
        if settings.save_bank:
            growing(plan, settings.save_bank)
        if executor == "local":
            internals.require_backends(str(entry.model) for entry in settings.models)
        for warning in plan.bank.warnings[:3]:
            watcher.warn(f"bank: {warning}")
        if not resume:  # what goes on was told when it began
            for warning in plan.warnings:
                watcher.warn(warning)
            _require_warmup(plan, watcher)
            _tell(plan, watcher)
            _ask_first(plan, watcher)
        at_hand = _earlier_answers(plan, executor, watcher) if settings.prior else {}
        book = open_book(plan, directory, resume, watcher, retry)
        models = _models(plan, executor, ray_address, watcher)
        for model in models:  # connections, weights, and GPUs that actors hold
            stack.callback(model.close)
            model.at_hand = at_hand.get(model.name, {})
        ended = Run(plan, book, models, watcher).go()
        if settings.save_bank and any("score" in a for a in book.answers.values()):
            _keep(plan, book, models, settings.save_bank, watcher)
        path = None if directory is None else directory.path
        result = result_of(plan, book, path, interrupted=not ended)
        watcher.finished(result)
        if directory is not None:
            directory.write_json("result.json", result.content)
            if ended:
                for trouble in write_model_results(plan, book, models, directory.path):
                    watcher.warn(trouble)
        if ended:
            track(result.content, trackers, watcher.warn)
    return result


def dry_run(
    config: Config, observer: Observer | None = None, *, probe: bool = False
) -> dict[str, Any]:
    """What a ranking may take; no model is loaded and nothing is asked.  See `forecast`.

    Parameters
    ----------
    config, observer
        As `rank` takes them.
    probe : bool, optional
        Load each model and ask it one document all the same: a wrong address, key, name or
        tokenizer shows then. The content has a key ``probe`` more, by model.
    """
    watcher = observer or Observer()
    settings = Spec.read(config, warn=watcher.warn).require_ranking()
    with quiet_harness(None, watcher.warn):
        require_model_types(settings)
        plan = make_plan(settings)
        content = forecast(plan)
        if probe:
            content["probe"] = probe_models(plan, make_models(plan, settings.models, watcher))
        return content


def refuse_data_parallel() -> None:
    """Refuse to be one of several data-parallel processes, before anything is loaded.

    Raises
    ------
    HarnessError
        With the remedy.
    """
    size = os.environ.get("WORLD_SIZE", "1")
    if size.isdigit() and int(size) > 1:
        raise HarnessError(
            f"this is one of {size} processes of accelerate or torchrun, each of which would run "
            "the ranking; start `rank` once, and spread models over GPUs and machines by "
            "`rank CONFIG --executor ray`"
        )


def _keep(
    plan: Plan,
    book: Book,
    models: Sequence[HarnessModel],
    path: str,
    observer: Observer,
) -> None:
    """Add what was observed to the growing bank; a trouble costs no result."""
    opened = next((model.sessions for model in models if model.sessions), plan.sessions)
    settings = {task: session.settings for task, session in opened.items()}
    try:
        observer.note(keep(plan, book, path, settings))
    except BankError as error:
        observer.warn(f"save_bank: {error}")


def _tell(plan: Plan, observer: Observer) -> None:
    """Say what a ranking without a bank, or without a budget, may take."""
    if not plan.config.bank:
        observer.note(
            f"No bank: every model gets the same random documents, ranked by "
            f"{plan.label} (filter {plan.outcome.filter})."
        )
        observer.note(need_in_words(plan))
    if not plan.config.budget:
        observer.note(
            "No budget: it goes on until every pair is decided or every item is asked; "
            f"{at_most(plan)}."
        )


def _require_warmup(plan: Plan, observer: Observer) -> None:
    """Refuse a budget that does not reach for the first items of every model.

    Raises
    ------
    UsageError
        Naming the least that does.
    """
    if plan.budget is None:
        return
    first = sum(min(plan.warmup, o.bank.n_items) for o in plan.outcomes.values())
    least = first * sum(plan.prices.values())
    if plan.budget >= least * (1.0 - 1e-9):
        return
    usd = plan.currency == "usd"
    amount = f"${least:.4g}" if usd else f"{least:g} items"
    if plan.bank.method == "paper":
        observer.warn(
            f"the method paper gives every model its first {first} items whatever the budget is: "
            f"they are expected to take {amount}"
        )
        return
    raise UsageError(
        f"the budget is too small for the first {first} items of each of {len(plan.prices)} "
        f"models: give at least {{{'usd' if usd else 'items'}: {least:.4g}}}, or a smaller "
        "warmup:"
    )


def _ask_first(plan: Plan, observer: Observer) -> None:
    """Ask before what may cost a dollar or more and has no limit but the documents."""
    most = most_money(plan)
    if most is None or most < ASKED_FROM:
        return
    question = f"This may cost up to about ${most:.4g}, if models are equal. Start?"
    if not observer.confirm(question):
        raise UsageError("not started; give a limit: budget: {usd: x}, {items: n} or max_items:")


def _earlier_answers(
    plan: Plan, executor: str, observer: Observer
) -> dict[str, dict[Any, EarlierAnswer]]:
    """The answers that the models gave before."""
    if executor != "local":
        raise UsageError("prior: goes with models in this process (--executor local)")
    names = [entry.name for entry in plan.config.models]
    found = answers_at_hand(
        plan.config.prior, names, list(plan.measured), plan.single, observer.warn
    )
    observer.note(
        f"Earlier answers at hand: {in_words(found)}. Where the ranking comes to their documents "
        "they are scored in place of new ones, which costs nothing."
    )
    return found


def _models(
    plan: Plan, executor: str, address: str | None, observer: Observer
) -> Sequence[HarnessModel]:
    if executor == "local":
        return make_models(plan, plan.config.models, observer)
    from ..cluster import connect
    from .ray import make_ray_models

    connect(address)
    return make_ray_models(plan, observer)


def make_models(plan: Plan, entries: Sequence[ModelSpec], observer: Observer) -> list[HarnessModel]:
    """One model per entry; opens none of them."""
    warned: set[str] = set()

    def check(session: TaskSession) -> None:
        if not plan.config.bank:
            return  # items of this very task, and nothing that depends on how it was run
        for outcome in plan.measured[session.name].values():
            for warning in check_session(outcome.bank, session):
                if warning not in warned:
                    warned.add(warning)
                    observer.warn(warning)

    return [HarnessModel(entry, plan.config, plan.measured, check) for entry in entries]

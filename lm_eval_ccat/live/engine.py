"""The one engine of live runs: a plan, workers and a journal go in, an ended ranking comes out.

`rank`, `run --adaptive` and the hook under plain `lm_eval` differ
in where their models come from and in what is made of the result; everything between is here.
"""

from __future__ import annotations

import shutil
import signal
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..errors import RunError, UsageError
from ..runs.directory import RunDirectory
from ..runs.identity import NO_LIMIT, Differences, differences
from ..runs.journal import JournalFile, MemoryJournal
from ..runs.journaled import CUT_OFF, JournaledRanker
from ..runs.rebuild import BANK_FILE, BANKS_FOLDER, make_ranker, save_banks
from .observer import Observer, Progress
from .plan import Plan
from .scheduler import Scheduler
from .spec import Spec
from .surfaces import may_change
from .worker import Item, Worker


def open_ranker(
    plan: Plan,
    directory: RunDirectory | None,
    resume: bool,
    observer: Observer,
    retry: bool | str = False,
) -> JournaledRanker:
    """A ranker in step with its journal: a new one, or that of the run directory.

    Parameters
    ----------
    plan : Plan
    directory : RunDirectory or None
        None keeps the journal in memory.
    resume : bool
        Go on with what the directory holds; what may change while a run lives is changed.
    observer : Observer
    retry : bool or str
        Take up models that were set aside again: all, or the one named.

    Raises
    ------
    RunError
        The run is another one, or one that other processes share.
    UsageError
        The model to take up again was not set aside.
    """
    if directory is None:
        return JournaledRanker(plan.new_ranker(), MemoryJournal())
    if not resume:
        start(plan, directory)
        ranker = JournaledRanker(plan.new_ranker(), directory.journal)
        ranker.sync()
        ranker.note("start", op="session")
        return ranker
    header, identity = directory.read_header(), plan.identity()
    found = require_same(directory, plan)
    ranker = JournaledRanker(make_ranker(plan.banks, header["ranker"]), directory.journal)
    ranker.sync()
    if directory.journal.torn:
        observer.warn(
            "the last line of the journal was torn by a crash and is dropped; "
            "its document is asked again"
        )
    ranker.note("resume", op="session")
    for name, item in ranker.unanswered():
        if plan.currency == "usd":
            cost = ranker.ranker.reserved(name, item) or 0.0
            ranker.note(CUT_OFF, model=name, item=item, cost=cost)
    ranker.change(found, identity)
    for change in found.changes:
        tell = observer.warn if change.startswith("versions.") else observer.note
        tell(f"changed since the run began: {change}")
    if retry:
        _take_up_again(ranker, retry, plan)
    return ranker


def require_same(directory: RunDirectory, plan: Plan) -> Differences:
    """Refuse to resume what is no longer the same run; else what has changed and may.

    Raises
    ------
    RunError
        Showing each difference that may not be as ``old -> new``.
    """
    old, new = directory.present_identity(), plan.identity()
    old["config"] = Spec.recorded(old["config"]).comparable()
    new["config"] = plan.config.comparable()
    return differences(old, new, may_change()).accepted(str(directory.path))


def _take_up_again(ranker: JournaledRanker, which: bool | str, plan: Plan) -> None:
    """Restore models that were set aside; what ended the run for want of them is lifted."""
    aside = list(ranker.tally.set_aside)
    names = aside if which is True else [str(which)]
    for name in names:
        if name not in aside:
            there = ", ".join(aside) or "none"
            raise UsageError(f"model {name!r} was not set aside; set aside: {there}")
        ranker.restore(name)
    if names:
        said = [f"{name}: taken up again" for name in names]
        budget = NO_LIMIT if plan.budget is None else plan.budget
        ranker.change(Differences([], said, {"budget": budget}), plan.identity())


def start(plan: Plan, directory: RunDirectory) -> None:
    """Write what a run directory begins with."""
    directory.make()
    if directory.journal.exists() and not _holds_something(directory):
        directory.journal.path.unlink()
        (directory.path / BANK_FILE).unlink(missing_ok=True)
        shutil.rmtree(directory.path / BANKS_FOLDER, ignore_errors=True)
    # The bank first: a journal without it could not be read back.
    save_banks(plan.banks, directory.path)
    directory.start({**plan.identity(), "command": _command()})


def refuse_wrong_directory(directory: RunDirectory, resume: bool) -> None:
    """Refuse to resume what is not there, and to start over what is.

    What got no answer, as its metric was mistyped, say, may be started over: `start` does.

    Raises
    ------
    RunError
    """
    exists = directory.journal.exists()
    if resume and not exists:
        raise RunError(f"nothing to resume: {directory.path} holds no ranking")
    if exists and not resume and _holds_something(directory):
        raise RunError(
            f"{directory.path} already holds a ranking; go on with --resume, look at it with "
            f"`lm-eval-ccat rank {directory.path}`, or choose another --run_dir"
        )


def _holds_something(directory: RunDirectory) -> bool:
    """Whether anything beyond first questions is recorded."""
    try:
        records = JournalFile(directory.journal.path).read_new()
    except RunError:
        return True
    return not records or any(
        record["op"] not in ("header", "session", "ask", "release") for record in records
    )


def conduct(
    plan: Plan,
    ranker: JournaledRanker,
    workers: Sequence[Worker],
    observer: Observer,
    *,
    beyond: Sequence[Item] = (),
) -> bool:
    """Ask, score and tell until the ranking ends.

    Parameters
    ----------
    plan : Plan
    ranker : JournaledRanker
    workers : sequence of Worker
        One per model.
    observer : Observer
    beyond : sequence of item
        Documents that the bank does not offer; a single model runs them at the end, where it was
        asked every one that the bank offers.

    Returns
    -------
    bool
        Whether it ended by itself; False after Ctrl-C or a polite kill, when nothing new is asked
        and everything that arrived is kept.
    """
    config = plan.config
    scheduler = Scheduler(
        ranker,
        workers,
        config.failures,
        one_at_a_time=config.ahead == 1,
        memory=config.memory,
        seconds=plan.seconds,
        expected=plan.expected_cost,
        needs_two=config.target_se is None,
    )
    scale, label = plan.scale, plan.label
    title = "all tasks" if len(plan.outcomes) > 1 else plan.outcome.task
    documents = sum(len(s.doc_ids) for s in plan.sessions.values())
    progress = Progress(
        ranker, title, scale, label, plan.currency, plan.budget, plan.seconds, documents
    )
    observer.begin(progress)
    try:
        with TerminateAsInterrupt():
            scheduler.run(observer.tick)
            answered = {item for _, item in ranker.answers}
            if beyond and answered.issuperset(plan.offered):
                left = [item for item in beyond if item not in answered]
                scheduler.run_beyond(workers[0], left)
    except KeyboardInterrupt:
        ranker.note("interrupted")
        return False
    finally:
        observer.end()
    return True


class TerminateAsInterrupt:
    """A polite kill (SIGTERM, as batch systems send it) ends the run as Ctrl-C does."""

    def __enter__(self) -> None:
        self._before: Any = None
        if threading.current_thread() is threading.main_thread():
            self._before = signal.signal(signal.SIGTERM, self._raise)

    @staticmethod
    def _raise(number: int, frame: Any) -> None:
        raise KeyboardInterrupt

    def __exit__(self, *exc: Any) -> None:
        if self._before is not None:
            signal.signal(signal.SIGTERM, self._before)


def _command() -> list[str] | None:
    """The arguments that this process was started with, for a reader who wants to do it again."""
    ours = Path(sys.argv[0]).name.startswith(("lm-eval-ccat", "lm_eval_ccat", "__main__"))
    return sys.argv[1:] if ours else None

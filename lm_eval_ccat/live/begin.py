"""How a run begins and is taken up again: its directory, its journal and the `Book` in step."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from ..errors import RunError, UsageError
from ..runs.book import ACCEPTED, Book
from ..runs.directory import RunDirectory
from ..runs.identity import NO_LIMIT, Differences, differences
from ..runs.journal import JournalFile, MemoryJournal
from ..runs.rebuild import BANK_FILE, BANKS_FOLDER, make_ranker, save_banks
from ..runs.tally import UNKNOWN
from .observer import Observer
from .plan import Plan
from .spec import Spec
from .surfaces import may_change

#: Records of a run in which nothing was answered yet.
_FIRST = ("header", "session", "ask", "release", "note", "lost", "drop", "end")


def open_book(
    plan: Plan,
    directory: RunDirectory | None,
    resume: bool,
    observer: Observer,
    retry: bool | str = False,
) -> Book:
    """A ranker in step with its journal: a new one, or that of the run directory.

    Parameters
    ----------
    plan : Plan
    directory : RunDirectory or None
        None keeps the journal in memory.
    resume : bool
        Go on with what the directory holds; what may change while a run lives is changed, and
        models that were away are asked again.
    observer : Observer
    retry : bool or str
        Take up models that were set aside for good again: all, or the one named.

    Raises
    ------
    RunError
        The run is another one.
    UsageError
        The model to take up again was not set aside.
    """
    book = _book(plan, directory, resume, observer, retry)
    if plan.config.accept_change and not book.accepts_change:
        book.note(ACCEPTED)
    return book


def _book(
    plan: Plan, directory: RunDirectory | None, resume: bool, observer: Observer, retry: bool | str
) -> Book:
    if directory is None:
        return Book(plan.new_ranker(), MemoryJournal())
    if not resume:
        start(plan, directory)
        book = Book(plan.new_ranker(), directory.journal)
        book.read()
        book.note("start", op="session")
        return book
    header, identity = directory.read_header(), plan.identity()
    differences = require_same(directory, plan)
    book = Book(make_ranker(plan.banks, header["ranker"]), directory.journal)
    book.read()
    if directory.journal.torn:
        observer.warn(
            "the last line of the journal was torn by a crash and is dropped; "
            "its document is asked again"
        )
    killed, wire = not book.closed, dict(book.tally.wire)
    book.note("resume", op="session")
    if killed:
        _note_cut_off(plan, book, wire)
    book.change(differences, identity)
    for change in differences.changes:
        tell = observer.warn if change.startswith("versions.") else observer.note
        tell(f"changed since the run began: {change}")
    for name in sorted(book.tally.away):
        book.event("restore", model=name)
    if retry:
        _take_up_again(book, retry, plan)
    return book


def _note_cut_off(plan: Plan, book: Book, wire: dict[str, int]) -> None:
    """What was under way when the process died may have been billed: its oldest open asks."""
    for ask in book.unanswered:
        wire[ask.model] = wire.get(ask.model, 1) - 1
        if wire[ask.model] >= 0:
            # It lowers no budget: a run that is killed ends as one that is not.
            about = {"column": UNKNOWN, "usd": plan.expected_usd(*ask.pair), "why": "killed"}
            book.event("lost", model=ask.model, item=ask.item, **about)


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


def _take_up_again(book: Book, which: bool | str, plan: Plan) -> None:
    """Restore models that were set aside; what ended the run for want of them is lifted."""
    aside = list(book.tally.set_aside)
    names = aside if which is True else [str(which)]
    for name in names:
        if name not in aside:
            listed = ", ".join(aside) or "none"
            raise UsageError(f"model {name!r} was not set aside; set aside: {listed}")
        book.event("restore", model=name)
    if names:
        changes = [f"{name}: taken up again" for name in names]
        budget = NO_LIMIT if plan.budget is None else plan.budget
        book.change(Differences([], changes, {"budget": budget}), plan.identity())


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
    return not records or any(record["op"] not in _FIRST for record in records)


def _command() -> list[str] | None:
    """The arguments that this process was started with, for a reader who wants to do it again."""
    ours = Path(sys.argv[0]).name.startswith(("lm-eval-ccat", "lm_eval_ccat", "__main__"))
    return sys.argv[1:] if ours else None

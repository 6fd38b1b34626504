"""Folders that hold logs of several kinds, such as the harness's beside Inspect's.

Every outcome that any kind holds can be asked for. One that several kinds hold is read from the
first of them, and a warning names a file of each other: a document's number in one framework is
none in another, so scores of two kinds are not joined.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from ...errors import CcatError
from ...journal import JOURNAL
from ..reading import UNNAMED, Logged, Progress, Query, files_at, one_of, task_name
from ..table import READERS, Reader, ScoreTable

_ENDINGS = (".json", ".jsonl", ".eval", ".csv", ".parquet", ".gz")
_LEFT_OUT = "left out; put each kind of logs into a folder of its own to read it"


def kinds_at(path: Path) -> list[tuple[Reader, Path]]:
    """Return the readers of the kinds of logs in a folder, each with the first file of its kind.

    A file is of the first kind that reads it; a folder of one run of this package is of one kind.
    """
    if not path.is_dir() or (path / JOURNAL).is_file():
        return []
    fitting = [reader for reader in _others() if _reads(reader, path)]
    # The usual folder is of one kind, whose own reader takes it.
    if len(fitting) < 2:
        return []
    files = [file for file in files_at(path, "*") if file.suffix in _ENDINGS]
    # The file that is named in a message should be the one that a user sees first.
    files.sort(key=lambda file: (len(file.parts), file))
    kinds = []
    for n, reader in enumerate(fitting):
        unclaimed = (
            file
            for file in files
            if _reads(reader, file) and not any(_reads(earlier, file) for earlier in fitting[:n])
        )
        if (first := next(unclaimed, None)) is not None:
            kinds.append((reader, first))
    return kinds


def _reads(reader: Reader, path: Path) -> bool:
    """Whether a reader reads a path; not where a file in it, which may be no log, is locked."""
    try:
        return reader.can_read(path)
    except OSError:
        return False


def _others() -> list[Reader]:
    """Return all readers but this one; of installed ones, those that can be loaded."""
    readers = []
    for name in READERS.names():
        with suppress(CcatError):
            readers.append(READERS.get(name))
    return [reader for reader in readers if reader is not READER]


def outcomes(path: Path) -> list[Logged]:
    """Return every (task, metric, filter) of any kind."""
    kinds, _ = _readable_kinds(path)
    return list(dict.fromkeys(outcome for kind in kinds for outcome in kind.outcomes))


def groups(path: Path) -> Mapping[str, Sequence[str]]:
    """Return the groups of tasks that the logs of any kind record."""
    groups_of_tasks: dict[str, Sequence[str]] = {}
    for reader, _ in kinds_at(path):
        groups_of_tasks |= reader.groups(path)
    return groups_of_tasks


def read(path: Path, query: Query, on_progress: Progress = None) -> ScoreTable:
    """Read one outcome of the first kind that holds it; see `Reader`."""
    kinds, notes = _readable_kinds(path)
    holding = [
        kind._replace(outcomes=meant)
        for kind in kinds
        if (meant := [outcome for outcome in kind.outcomes if _is_meant(outcome, query)])
    ]
    # A reader knows its own kind of logs, whose only task need not be the only one of the folder.
    for what in ("task", "metric"):
        names = {getattr(outcome, what) for kind in holding for outcome in kind.outcomes}
        if getattr(query, what) is None and (names := names - {None, UNNAMED}):
            one_of(path, what, None, names)
    # If no kind holds it, the error of the first one says what there is.
    first, *further = holding or kinds
    table = first.reader.read(path, query, on_progress)
    if holding:
        notes += [
            f"{kind.file}: {kind.outcomes[0].name} of another kind of logs, {_LEFT_OUT}"
            for kind in further
        ]
    return replace(table, warnings=(*table.warnings, *notes))


class _Kind(NamedTuple):
    """A kind of logs in a folder: its reader, its first file, and outcomes that it holds."""

    reader: Reader
    file: Path
    outcomes: list[Logged]


def _readable_kinds(path: Path) -> tuple[list[_Kind], list[str]]:
    """Return what each kind holds, and what is said of kinds that cannot be read.

    Raises
    ------
    CcatError
        None can be read.
    """
    kinds, errors = [], list[CcatError]()
    for reader, file in kinds_at(path):
        try:
            kinds.append(_Kind(reader, file, reader.outcomes(path)))
        except CcatError as error:
            errors.append(error)
    if not kinds:
        raise errors[0]
    return kinds, [f"{error}; {_LEFT_OUT}" for error in errors]


def _is_meant(outcome: Logged, query: Query) -> bool:
    """Whether a query may mean an outcome; a table that does not say is of whatever is asked."""
    tasks = {None, query.task, task_name(query.task or "")}
    return (query.task is None or outcome.task in tasks) and (
        query.metric is None or outcome.metric in (UNNAMED, query.metric)
    )


READER = Reader(
    name="mixed",
    summary="folders with several of these",
    can_read=lambda path: len(kinds_at(path)) > 1,
    read=read,
    outcomes=outcomes,
    groups=groups,
)

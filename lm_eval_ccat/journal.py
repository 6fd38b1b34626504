"""The append-only journal of a run: one JSON object per line, numbered, on disk before it counts.

The first record describes the run; the others are asks, answers and events, each of a kind with a
class of its own (see `records`). `Book` replays them.

A process may be killed in the middle of a write. The bytes after the last newline are then not a
record: reading drops them and sets `torn`, and opening for append removes them. Anything unreadable
*before* the last line is damage, not a torn write, and raises an error with the line number; so
does a line whose seal does not fit.

The seal is the SHA-256 of everything in the file before it, so that nobody can change, remove or
add a line without rewriting all that follow.

The header identifies a run by its tasks, items, prompts, scoring, banks and models. On resuming,
its budget, prices, places, speeds and the version of this package may change, and models may join;
each change is a record (see `lm_eval_ccat.runs.differences`).
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import accumulate, chain
from pathlib import Path
from typing import Any, BinaryIO

from .errors import RunError
from .files import sync_file, sync_folder
from .records import FORMAT, VERSION, Change, Header, Item, NewerRecord, Record, record_of

#: The journal of a run directory.
JOURNAL = "journal.jsonl"
#: The header of a journal that has none.
NO_HEADER = Header(format="", version=0)
_TEXT = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))
_SEAL = re.compile(rb', "sha256": "([0-9a-f]{64})"\}\Z')


class Journal:
    """A journal in memory, for a run without a run directory.

    An item is (task, doc_id) in a record, and (task, doc_id, repeat) from its second answer on; if
    the header states a single outcome, lines leave out the task: doc_id, or [doc_id, repeat].
    `JournalFile` keeps its lines on disk.

    Parameters
    ----------
    lines : list of bytes, optional
        List that keeps the records; several journals may share it.
    name : str
        Name of the journal, for errors.

    Attributes
    ----------
    header : Header
        The first record, which describes the run; blank without one.
    identity : Header
        The header, with all changes that the journal has recorded since.
    count : int
        Number of lines read or written so far.
    torn : str or None
        The last line, if a crash cut it off.

    Examples
    --------
    >>> from lm_eval_ccat.records import Session
    >>> journal = Journal()
    >>> _ = journal.append([Session(event="start")])
    >>> list(Journal(journal.lines).read_new()) == [Session(event="start")]
    True
    """

    def __init__(
        self, lines: list[bytes] | None = None, name: str = "the journal in memory"
    ) -> None:
        self.name = name
        self.lines = [] if lines is None else lines
        self.header = self.identity = NO_HEADER
        self.count = 0
        self.torn: str | None = None
        self._only_task: str | None = ""  # the only task, whose items are doc_ids in lines
        self._items: dict[Item, Item] = {}  # which all records share
        self._hash = hashlib.sha256()
        self._closed = False

    def __str__(self) -> str:
        return self.name

    @property
    def digest(self) -> str:
        """SHA-256 of all lines so far, which identifies this run."""
        return self._hash.hexdigest()

    def item(self, value: Any) -> Item:
        """Return the item that a line or the Ranker states."""
        parts = list(value) if isinstance(value, list | tuple) else [value]
        # The only task is left out of lines; (doc_id, repeat) has two parts as (task, doc_id) has.
        if len(parts) == 1 or (self._only_task and parts[0] != self._only_task):
            parts.insert(0, self._only_task)
        task, doc_id, *repeat = parts
        doc_id = doc_id if isinstance(doc_id, str) else int(doc_id)
        item = Item((str(task), doc_id, *map(int, repeat)))
        return self._items.setdefault(item, item)

    def item_to_json(self, item: Item) -> Any:
        """Return an item as lines and messages state it."""
        if item.task != self._only_task:
            return item
        return item[1:] if item.is_repeat else item.doc_id

    # -- reading -------------------------------------------------------------------------------

    def read_new(self) -> Iterator[Record]:
        """Yield the records after the last one that this object read or appended.

        Raises
        ------
        RunError
            A line is damaged, missing, changed or repeated; the message names it. The object then
            stands before that line.
        """
        while self.count < len(self.lines):
            yield self._read(self.lines[self.count], self.count)

    def record_at(self, position: int) -> Record:
        """Return again a record that was read or appended, by its `position`."""
        values = json.loads(self._line_at(position))
        del values["seq"], values["sha256"]
        return record_of(values, self.item, str(self), position)

    def _line_at(self, position: int) -> bytes:
        """Return the line of a record, by the record's `position`."""
        return self.lines[position]

    def _read(self, line: bytes, position: int) -> Record:
        """Return the record of the next line, once its number and its seal were checked."""
        name = f"{self}, line {self.count + 1}"
        remedy = "`lm-eval-ccat verify RUN` shows which part is sound; --repair keeps that part"
        try:
            values: dict[str, Any] = json.loads(line)
            sequence = values.pop("seq")
            values.pop("sha256", None)  # which `_trouble` finds missing
        except (ValueError, KeyError, AttributeError, TypeError, RecursionError) as error:
            raise RunError(f"{name} is damaged and not merely torn by a crash; {remedy}") from error
        version = values.get("version") if values.get("op") == Header.kind else None
        if isinstance(version, int) and version > VERSION:  # its lines may be sealed otherwise
            raise NewerRecord(
                f"{self}: a journal of format version {version}; this package reads version "
                f"{VERSION}: update lm-eval-ccat"
            )
        trouble = self._trouble(line)
        if sequence != self.count:
            trouble = f"carries the number {sequence}: lines are missing or repeated"
        if trouble:
            raise RunError(f"{name} {trouble}; {remedy}")
        record = record_of(values, self.item, str(self), position)
        self._hash.update(line + b"\n")
        self.count += 1
        self._note_identity(record)
        return record

    def _trouble(self, line: bytes) -> str:
        """Return what is wrong with a line's seal; "" if nothing is."""
        if (seal := _SEAL.search(line)) is None:
            return "has no seal: it was edited by hand"
        hashed = self._hash.copy()
        hashed.update(line[: seal.start()])
        fits = hashed.hexdigest().encode() == seal[1]
        return "" if fits else "does not fit its seal: it was changed, or one before it"

    def _note_identity(self, record: Record) -> None:
        """Take over what a header says of the run, or a change of it."""
        match record:
            case Header():
                several = "outcomes" in record.report
                self._only_task = None if several else record.task.get("name", "")
                self.header = self.identity = record
            case Change():
                self.identity = replace(self.identity, **record.identity)

    # -- writing -------------------------------------------------------------------------------

    def append(self, records: Iterable[Record]) -> list[int]:
        """Write records, and return their positions; in a file, they survive the process's death.

        To survive a power cut too, they need :meth:`make_durable`. Call :meth:`read_new` first:
        appending continues where reading stopped, and cuts off a torn line after it.

        Raises
        ------
        RunError
            The journal is closed, or the disk is full or read-only. None of the records count
            then: a part that was written is cut off again, and everything before it stays.
        """
        # A call that ends after the run would write behind its result.
        if self._closed:
            raise RunError(f"{self} is closed: the run has ended")
        before = self._only_task, self.header, self.identity
        try:
            return self._append(records)
        # What was refused, or could not be written, must not change how the next lines are read.
        except BaseException:
            self._only_task, self.header, self.identity = before
            raise

    def _append(self, records: Iterable[Record]) -> list[int]:
        """Number, seal and write records; a seal covers all bytes of the file before it."""
        hashed, lines = self._hash.copy(), list[bytes]()
        for number, record in enumerate(records, start=self.count):
            self._note_identity(record)
            values = {"seq": number, **record.to_json(self.item_to_json)}
            text = _TEXT.encode(values)
            body = text[:-1].encode("utf-8", "surrogatepass")
            hashed.update(body)
            seal = b', "sha256": "%s"}' % hashed.hexdigest().encode()
            hashed.update(seal + b"\n")
            lines.append(body + seal)
        positions = self._write(lines)
        self._hash = hashed
        self.count += len(lines)
        return positions

    def _write(self, lines: list[bytes]) -> list[int]:
        """Write lines behind what was read, and return the positions of their records."""
        self.lines[self.count :] = lines
        return list(range(self.count, len(self.lines)))

    def make_durable(self) -> None:
        """Make everything appended so far survive a power cut; does nothing in memory."""

    def close(self) -> None:
        """Close the journal for good; a late answer from another thread is refused."""
        self._closed = True


class JournalFile(Journal):
    """One journal file, read from and appended to.

    Parameters
    ----------
    path : Path
        The file; created by the first append.

    Attributes
    ----------
    size : int
        Number of bytes read or written so far.

    Examples
    --------
    >>> import tempfile
    >>> from lm_eval_ccat.records import Header
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "journal.jsonl")
    ...     _ = JournalFile(path).append([Header(bank_sha256="9f86d081")])
    ...     [record.bank_sha256 for record in JournalFile(path).read_new()]
    ['9f86d081']
    """

    def __init__(self, path: Path) -> None:
        super().__init__(name=str(path))
        self.path = Path(path)
        self.size = self._synced = 0  # bytes, and how many of them are durable
        self._file: BinaryIO | None = None
        self._is_at_end = False  # whether the file ends at `size`, and is written there

    def exists(self) -> bool:
        """Whether the file holds at least one whole record."""
        try:
            with self.path.open("rb") as stream:
                return stream.readline().endswith(b"\n")
        except (FileNotFoundError, NotADirectoryError):
            return False

    def read_new(self) -> Iterator[Record]:
        """Yield the file's records after the last one that this object read or appended.

        Yields
        ------
        Record
            In file order.  A torn last line is left out and kept in :attr:`torn`.

        Raises
        ------
        RunError
            If a line before the last is unreadable or out of sequence, or the file cannot be read.
        """
        self.torn = None
        self._is_at_end = False
        try:
            with self.path.open("rb") as stream:
                stream.seek(self.size)
                for line in stream:
                    if not line.endswith(b"\n"):
                        self.torn = line.decode("utf-8", "replace")
                        return
                    record = self._read(line[:-1], self.size)
                    self.size += len(line)
                    yield record
        except FileNotFoundError:
            return
        except OSError as error:
            raise RunError(f"cannot read the journal {self.path}: {error.strerror}") from error

    def _line_at(self, position: int) -> bytes:
        try:
            with self.path.open("rb") as stream:
                stream.seek(position)
                return stream.readline()
        except OSError as error:
            raise RunError(f"cannot read the journal {self.path}: {error.strerror}") from error

    def _write(self, lines: list[bytes]) -> list[int]:
        data = b"".join(line + b"\n" for line in lines)
        try:
            stream = self._open()
            # A torn line of a crash, or a part of a write that failed, lies behind what was read.
            if not self._is_at_end:
                stream.truncate(self.size)
                stream.seek(self.size)
                self.torn = None
                self._is_at_end = True
            _write_all(stream, data)
        except OSError as error:
            self._is_at_end = False
            # Best effort on a failing disk: the next reader drops a torn line.
            if self._file is not None:
                with contextlib.suppress(OSError):
                    self._file.truncate(self.size)
            raise RunError(
                f"cannot write the journal {self.path}: {error.strerror or error}; everything "
                "recorded before is kept, free the space or fix the rights and resume"
            ) from error
        positions = list(accumulate((len(line) + 1 for line in lines), initial=self.size))
        self.size = positions.pop()
        return positions

    def make_durable(self) -> None:
        """Force everything appended so far to the disk (``fsync``).

        Raises
        ------
        RunError
            If the disk reports an error.
        """
        if self._synced >= self.size or self._file is None:
            return
        try:
            sync_file(self._file.fileno())
        except OSError as error:
            raise RunError(
                f"cannot write the journal {self.path}: {error.strerror or error}"
            ) from error
        self._synced = self.size

    def _open(self) -> BinaryIO:
        """Return the file, opened for writing at the first call."""
        if self._file is None:
            new = not self.path.exists()
            # Model answers may be confidential: only the owner may read the file.
            handle = os.open(self.path, os.O_RDWR | os.O_CREAT | getattr(os, "O_BINARY", 0), 0o600)
            # Unbuffered: a record is either handed to the operating system or not written at all.
            self._file = os.fdopen(handle, "r+b", buffering=0)
            if new:
                sync_folder(self.path.parent)
        return self._file

    def close(self) -> None:
        super().close()
        if self._file is not None:
            self._file.close()
            self._file = None


def _write_all(stream: BinaryIO, data: bytes) -> None:
    """Write all of `data`: an unbuffered write may take a part, as on a disk that fills up."""
    view = memoryview(data)
    while view:
        view = view[stream.write(view) :]


def no_ranking(path: Path) -> RunError:
    """Return the error of a folder in which the journal at `path` is missing."""
    return RunError(
        f"{path.parent} holds no ranking (no {path.name} in it); name the folder of a run"
    )


def read_journal(path: Path) -> tuple[JournalFile, Iterator[Record]]:
    """Return a journal, whatever the file's name, and an iterator over all its records.

    The journal has its header at once, and its other attributes once all records were iterated
    over.

    Raises
    ------
    RunError
        The file is missing, or no journal of a version that this package reads; while the records
        are iterated over, it is damaged.
    """
    journal = JournalFile(path)
    records = journal.read_new()
    if (first := next(records, None)) is None:
        raise no_ranking(path)
    if (journal.header.format, journal.header.version) != (FORMAT, VERSION):
        raise RunError(f"{path} is not a journal of lm-eval-ccat")
    return journal, chain([first], records)

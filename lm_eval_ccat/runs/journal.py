"""The append-only journal of a run: one JSON object per line, numbered, on disk before it counts.

The first record describes the run (``op: "header"``).  The others are asks, answers, and events
that the :class:`~lm_eval_ccat.ranker.Ranker` hears of, or notes that it does not; `Book` reads them
back.

A process may be killed in the middle of a write.  The bytes after the last newline are then not a
record: reading drops them and says so, and opening for append removes them.  Anything unreadable
*before* the last line is damage, not a torn write, and is refused by line number; so is a line
whose seal does not fit (see ``lines``).
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterable
from pathlib import Path
from typing import BinaryIO

from ..errors import RunError
from ..files import sync_file, sync_folder
from .lines import Lines, Record

__all__ = ["Journal", "JournalFile", "Record"]


class Journal:
    """A journal that lives as long as the process: a run without a run directory.

    `JournalFile` keeps its records on disk; ``tests/runs/conformance.py`` holds what both must do.

    Parameters
    ----------
    lines : list of bytes, optional
        Where the records are kept; several objects may share one list.

    Attributes
    ----------
    torn : str or None
        The last line, if a crash cut it off.

    Examples
    --------
    >>> journal = Journal()
    >>> journal.append([{"op": "note", "event": "start"}])
    >>> [record["event"] for record in Journal(journal.lines).read_new()]
    ['start']
    """

    def __init__(
        self, lines: list[bytes] | None = None, name: str = "the journal in memory"
    ) -> None:
        self.lines = [] if lines is None else lines
        self.torn: str | None = None
        self._name, self._lines, self._closed = name, Lines(name), False

    def __str__(self) -> str:
        return self._name

    @property
    def count(self) -> int:
        """Records read or written so far."""
        return self._lines.count

    @property
    def digest(self) -> str:
        """SHA-256 of everything read or written so far."""
        return self._lines.digest

    def exists(self) -> bool:
        """Whether it holds at least one record."""
        return bool(self.lines)

    def read_new(self) -> list[Record]:
        """Return the records after the last one that this object read or appended."""
        return self._lines.read(self.lines[self.count :])

    def append(self, records: Iterable[Record]) -> None:
        """Write records, all or none; when this returns they survive the death of the process.

        Raises
        ------
        RunError
            If the journal is closed.
        """
        if self._closed:
            raise RunError(f"{self} is closed: the run has ended")
        lines = self._lines.sealed(records)
        del self.lines[self.count :]
        self.lines.extend(lines)
        self._lines.passed(lines)

    def make_durable(self) -> None:
        """Make everything appended so far survive a power cut; memory ends with the process."""

    def close(self) -> None:
        """Close the journal for good; a late answer from another thread is refused."""
        self._closed = True


class JournalFile(Journal):
    """One journal file, read from and appended to.

    Parameters
    ----------
    path : Path
        The file; created by the first append.
    durable : bool
        Whether :meth:`make_durable` forces records to the disk.  A killed process loses nothing
        either way; a power cut may.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "journal.jsonl")
    ...     JournalFile(path).append([{"op": "header"}])
    ...     [record["op"] for record in JournalFile(path).read_new()]
    ['header']
    """

    def __init__(self, path: Path, durable: bool = True) -> None:
        super().__init__(name=str(path))
        self.path, self.durable = Path(path), durable
        self._offset = self._synced = 0
        self._sync_lock = threading.Lock()
        self._file: BinaryIO | None = None

    def exists(self) -> bool:
        """Whether the file holds at least one whole record."""
        try:
            with self.path.open("rb") as stream:
                return stream.readline().endswith(b"\n")
        except (FileNotFoundError, NotADirectoryError):
            return False

    def read_new(self) -> list[Record]:
        """Return the file's records after the last one that this object read or appended.

        Returns
        -------
        list of dict
            In file order.  A torn last line is left out and kept in :attr:`torn`.

        Raises
        ------
        RunError
            If a line before the last is unreadable or out of sequence, or the file cannot be read.
        """
        try:
            with self.path.open("rb") as stream:
                stream.seek(self._offset)
                data = stream.read()
        except FileNotFoundError:
            return []
        except OSError as error:
            raise RunError(f"cannot read the journal {self.path}: {error.strerror}") from error
        complete, newline, rest = data.rpartition(b"\n")
        self.torn = rest.decode("utf-8", "replace") if rest else None
        if not newline:
            return []
        records = self._lines.read(complete.split(b"\n"))
        self._offset += len(complete) + 1
        return records

    def append(self, records: Iterable[Record]) -> None:
        """Write records; when this returns they survive the death of the process.

        That they survive a power cut too takes :meth:`make_durable`.  Call :meth:`read_new` first:
        appending goes to the place where reading stopped, and a torn line after it is cut off.

        Raises
        ------
        RunError
            If the disk is full or read-only.  Nothing of the batch counts then: what was written
            of it is cut off again, and everything before stays.
        """
        if self._closed:
            raise RunError(f"the journal {self.path} is closed: the run has ended")
        lines = self._lines.sealed(records)
        data = b"".join(line + b"\n" for line in lines)
        try:
            stream = self._open()
            if os.fstat(stream.fileno()).st_size != self._offset:
                stream.truncate(self._offset)
                self.torn = None
            stream.seek(self._offset)
            _write_all(stream, data)
        except OSError as error:
            # Best effort on a sick disk: the next reader drops a torn line that stays.
            if self._file is not None:
                with contextlib.suppress(OSError):
                    self._file.truncate(self._offset)
            raise RunError(
                f"cannot write the journal {self.path}: {error.strerror or error}; everything "
                "recorded before is kept, free the space or fix the rights and resume"
            ) from error
        self._offset += len(data)
        self._lines.passed(lines)

    def make_durable(self) -> None:
        """Force what was appended so far to the disk (``fsync``).

        Threads that come while another is at it wait for one sync for all of them together, so
        the cost per record falls as the rate of records grows.

        Raises
        ------
        RunError
            If the disk refuses.
        """
        target = self._offset
        with self._sync_lock:
            if not self.durable or self._synced >= target or self._file is None:
                return
            reached = self._offset
            try:
                sync_file(self._file.fileno())
            except OSError as error:
                raise RunError(
                    f"cannot write the journal {self.path}: {error.strerror or error}"
                ) from error
            self._synced = reached

    def _open(self) -> BinaryIO:
        if self._file is None:
            new = not self.path.exists()
            # Model answers may be confidential: the file is its owner's alone.
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
    # An unbuffered write may take only a part, as it does when the disk fills up in the middle.
    view = memoryview(data)
    while view:
        view = view[stream.write(view) :]

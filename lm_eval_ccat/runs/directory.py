"""The run directory: its files, who may write to it, and reading a run back from it.

config.json     the configuration as understood, credentials masked
bank.json       a copy of the item bank; of several tasks a folder ``banks`` with all of them
journal.jsonl   every call on the Ranker, answers included (see ``journal``)
result.json     the ranking, written when the run ends
run.log         log lines of the run and of the harness
ratings.jsonl   what a judge without a cache of its own replied
<model>/        the harness's results and samples files of each model
"""

from __future__ import annotations

import contextlib
import json
import os
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any, cast

from filelock import FileLock, Timeout

from ..bank import ItemBank
from ..bank.outcome import Outcome
from ..bank.suite import SuiteBank
from ..content import RankingContent
from ..errors import RunError, UsageError
from ..files import replace_text, set_rights
from ..journal import JOURNAL, JournalFile, read_journal
from ..masking import in_json, mask, mask_file, mask_values
from ..ranker import Ranker
from ..ranker.contents import Banks
from ..records import Header, Record
from .book import Book

#: Suffixes of the files that the harness, its logs and its models write. The journal is not among
#: them: its content is masked before it is written, and its lines are sealed.
_WRITTEN_BY_OTHERS = (".json", ".jsonl", ".log", ".txt", ".csv", ".yaml", ".html")

_ENCODER = json.JSONEncoder(ensure_ascii=False, default=str)
#: Rows of a table that are written at once.
_BATCH = 100

_LOCK, LOG, CONFIG, RATINGS = "run.lock", "run.log", "config.json", "ratings.jsonl"


class RunDirectory:
    """One run's folder.

    Parameters
    ----------
    path : path
        Created by :meth:`start`.
    """

    def __init__(self, path: str | Path) -> None:
        if "://" in str(path):
            raise UsageError(f"{path}: a run directory is a folder of this machine, not an address")
        self.path = Path(path)
        self.journal = JournalFile(self.path / JOURNAL)
        self._lock = FileLock(str(self.path / _LOCK), mode=0o600)
        self._created = False

    def take(self) -> None:
        """Lock the directory for this process, until `release` or the end of the process.

        Raises
        ------
        RunError
            If another process holds the lock, or the directory cannot be written.
        """
        new = not self.path.exists()
        self.make()
        self._created = new
        try:
            self._lock.acquire(timeout=0)
        except Timeout:
            raise RunError(
                f"another process is ranking in {self.path}; wait for it, or look at it with "
                f"`lm-eval-ccat rank {self.path}`"
            ) from None
        except OSError as error:
            raise self._cannot_write(error) from error

    def release(self) -> None:
        """Close the journal and let another process take the directory.

        Remove a folder that `take` created if no run began in it.
        """
        self.journal.close()
        files_of_run = {path.name for path in self.path.iterdir()} - {_LOCK, LOG}
        # A folder of the user's is left as it was found.
        if files_of_run or not self._created:
            self.tighten()
            self._lock.release()
            return
        (self.path / LOG).unlink(missing_ok=True)
        self._lock.release()
        with contextlib.suppress(OSError):  # another process has just taken it
            (self.path / _LOCK).unlink(missing_ok=True)
            self.path.rmdir()

    def make(self) -> None:
        """Create the folder for its owner only; an existing folder keeps its permissions."""
        try:
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise self._cannot_write(error) from error

    def tighten(self) -> None:
        """Mask credentials in files of the harness and libraries, and let only the owner read them.

        In a folder that is open to others, permissions stay as they are.
        """
        private = os.name == "posix" and not self.path.stat().st_mode & 0o077
        for path in self.path.rglob("*"):
            # What a link leads to may be shared, and is not the run's.
            if path.is_symlink():
                continue
            if path.suffix in _WRITTEN_BY_OTHERS and not path.name.startswith("journal"):
                mask_file(path)
            if private:
                set_rights(path, 0o700 if path.is_dir() else 0o600)

    def _cannot_write(self, error: OSError) -> RunError:
        """Return the error of a folder that cannot be written, with what to do."""
        remedy = "choose another with --run_dir"
        if self.journal.exists():  # another one would pay for its answers again
            remedy = "its answers are kept, free the space or fix the rights and resume"
        why = error.strerror or error
        return RunError(f"cannot write in the run directory {self.path}: {why}; {remedy}")

    # -- header ----------------------------------------------------------------------------

    def start(self, header: Header) -> None:
        """Write the configuration and the journal's header of a new run."""
        self.make()
        header = replace(header, config=mask(header.config)).masked()
        self.write_json(CONFIG, header.config)
        self.journal.append([header])
        self.journal.make_durable()

    def read_header(self) -> Header:
        """Return the journal's first record, without moving the position of :attr:`journal`.

        Raises
        ------
        RunError
            If the folder holds no journal of a version that this package reads.
        """
        return read_journal(self.journal.path)[0].header

    def present_identity(self) -> Header:
        """Return the header with all changes that the journal has recorded since."""
        journal, records = read_journal(self.journal.path)
        deque(records, maxlen=0)  # which note the changes
        return journal.identity

    def write_json(self, name: str, content: Any) -> Path:
        """Write a file of the directory atomically, so that no reader sees half of it."""
        target = self.path / name
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            replace_text(target, _in_lines(content), private=True)
        except OSError as error:
            raise self._cannot_write(error) from error
        return target


def _in_lines(content: Mapping[str, Any]) -> Iterator[str]:
    """Yield pieces of JSON with a line for each value, and for each row of a table.

    With ``indent``, which the C encoder lacks, the pairs of 300 models take eight times as long; as
    one text, those of 1,000 models take half a gigabyte.
    """
    separator = "{\n"
    for key, value in content.items():
        yield f"{separator}  {_masked_json(key)}: "
        separator = ",\n"
        if value and isinstance(value, Mapping):
            rows = (
                f"{_masked_json(str(name))}: {_masked_json(row)}" for name, row in value.items()
            )
            yield from _in_rows("{", rows, "}")
        elif isinstance(value, list) and any(isinstance(row, Mapping) for row in value):
            batches = (value[start : start + _BATCH] for start in range(0, len(value), _BATCH))
            yield from _in_rows("[", map(_rows_in_lines, batches), "]")
        else:
            yield _masked_json(value)
    yield "\n}\n"


def _masked_json(value: Any) -> str:
    """Return a value as JSON in one line, its known credentials masked."""
    line = _ENCODER.encode(value)
    # To look through the values of a million pairs takes longer than to write them.
    return _ENCODER.encode(mask_values(value)) if in_json(line) else line


def _rows_in_lines(rows: list[Any]) -> str:
    """Return rows of a table as JSON, each in a line, without the brackets around them.

    The rows are encoded together, which is faster, and the text is split wherever a row begins: at
    a brace before the row's first key. No text in a row has these characters, as quotation marks in
    it are escaped.
    """
    line = _masked_json(rows)[1:-1]
    first_key = next(iter(rows[0]), "") if isinstance(rows[0], Mapping) else ""
    begins = f'{{"{first_key}": '
    return line.replace(f"}}, {begins}", f"}},\n    {begins}")


def _in_rows(opening: str, rows: Iterable[str], closing: str) -> Iterator[str]:
    """Yield the pieces of a JSON object or array, one row a line, between its brackets."""
    separator = opening
    for row in rows:
        yield f"{separator}\n    {row}"
        separator = ","
    yield f"\n  {closing}"


def read_result(file: Path) -> RankingContent:
    """Return the content of a ``result.json``; see `read_object`."""
    return cast(RankingContent, read_object(file))


def read_object(file: Path) -> dict[str, Any]:
    """Return the content of a result or of a results file of the harness.

    Content that is no JSON object counts as none.

    Raises
    ------
    RunError
        The file cannot be read, or is no JSON.
    """
    try:
        content = json.loads(file.read_bytes())
    except (OSError, ValueError) as error:
        raise RunError(f"{file}: cannot be read as a result ({error})") from error
    return content if isinstance(content, dict) else {}


# -- a ranking from its run directory alone --------------------------------------------------------

BANK_FILE = "bank.json"
#: Folder of the banks of a ranking with several outcomes or tasks.
BANKS_FOLDER = "banks"


def banks_at(folder: Path) -> Path:
    """Return the path of a run directory's copy of its bank or banks."""
    banks_folder = folder / BANKS_FOLDER
    return banks_folder if banks_folder.is_dir() else folder / BANK_FILE


def save_banks(banks: ItemBank | Mapping[str, Mapping[str, ItemBank]], folder: Path) -> None:
    """Write a run directory's copy of its bank or banks.

    Raises
    ------
    BankError
        The copy cannot be written.
    """
    if isinstance(banks, ItemBank):
        banks.save(folder / BANK_FILE)
    else:
        SuiteBank(banks).save(folder / BANKS_FOLDER)


def load_banks(folder: Path) -> ItemBank | Mapping[str, Mapping[str, ItemBank]]:
    """Read a run directory's copy of its bank, or of its banks by task and outcome.

    Raises
    ------
    BankError
        The copy is missing or damaged.
    """
    bank_path = banks_at(folder)
    return ItemBank.load(bank_path) if bank_path.suffix else SuiteBank.load(bank_path)


def make_ranker(bank: ItemBank | Mapping[str, Mapping[str, ItemBank]], header: Header) -> Ranker:
    """Return a Ranker in its initial state.

    Parameters
    ----------
    bank : ItemBank, or mapping of task to (mapping of outcome to ItemBank)
    header : Header
        Its ``ranker`` holds ``models`` (name to price), ``options`` (those of the method) and other
        keyword arguments of `Ranker`; ``task`` names a single task.
    """
    arguments = header.ranker
    settings = {key: value for key, value in arguments.items() if key not in ("models", "options")}
    task = header.task.get("name", "")
    banks: Banks = [Outcome.of(bank, task)] if isinstance(bank, ItemBank) else bank
    return Ranker(banks, arguments["models"], **settings, **arguments["options"])


def rebuild(folder: str | Path, lines: int | None = None) -> Book:
    """Rebuild a run's state from its directory alone, without configuration, task or model.

    Parameters
    ----------
    folder : path
    lines : int, optional
        Number of journal lines to replay, the header included; default: all.

    Returns
    -------
    Book
        Settled (`Book.settle`): its ranking asks nothing more. `complete` still adds answers beyond
        it.

    Raises
    ------
    RunError
        If there is no journal, it was written by another version, or it contradicts itself.
    BankError
        If the directory's copy of the bank is damaged.
    """
    directory = RunDirectory(folder)
    journal, records = read_journal(directory.journal.path)
    return book_of(load_banks(directory.path), journal, islice(records, lines))


def book_of(
    banks: ItemBank | Mapping[str, Mapping[str, ItemBank]],
    journal: JournalFile,
    records: Iterable[Record],
) -> Book:
    """Rebuild a run's state from its banks, its journal and records of it."""
    book = Book(make_ranker(banks, journal.header), journal)
    book.replay(records)
    book.settle()
    return book

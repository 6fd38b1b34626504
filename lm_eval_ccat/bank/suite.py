"""`SuiteBank`: the banks of several tasks and outcomes in one folder."""

from __future__ import annotations

import itertools
import json
import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from ..errors import BankError, NoBankError
from ..files import replace_text, writing
from ..shown import first_of
from .bank import ItemBank
from .file import SUITE, bank_files, located, read_json

FORMAT, VERSION = "lm-eval-ccat/suite", 1
#: Largest size of ``suite.json``.
_MAX_BYTES = 16 << 20
_Version = tuple[int, ...]


class SuiteEntry(NamedTuple):
    """A bank of a suite, and the task and the outcome that it is of."""

    task: str
    outcome: str
    bank: ItemBank


class SuiteBank(dict[str, dict[str, ItemBank]]):
    """Item banks by task and outcome (a metric, and its filter where needed); all of one method.

    Parameters
    ----------
    tasks : mapping of str to (ItemBank, or mapping of str to ItemBank)
        By task; a bare bank is its task's only outcome, named after its metric.

    Raises
    ------
    BankError
        There is no bank, or the banks have different methods.

    Examples
    --------
    >>> suite = SuiteBank({"t": ItemBank.blank(range(3)), "u": ItemBank.blank(range(2))})
    >>> list(suite), list(suite["t"]), suite.method
    (['t', 'u'], ['score'], 'sample')
    >>> suite
    <SuiteBank: 2 banks of 2 tasks, method sample>
    """

    def __init__(self, tasks: Mapping[str, ItemBank | Mapping[str, ItemBank]]) -> None:
        super().__init__(
            (task, {bank.metric: bank} if isinstance(bank, ItemBank) else dict(bank))
            for task, bank in tasks.items()
        )
        methods = sorted({entry.bank.method for entry in self.banks()})
        if len(methods) != 1 or not all(self.values()):
            without_bank = [task for task, outcomes in self.items() if not outcomes]
            holding = "no bank" + "".join(f" of task {task}" for task in without_bank[:1])
            if len(methods) > 1:
                holding = f"banks of the methods {', '.join(methods)}"
            raise BankError(f"a suite needs banks of one method for every task, found {holding}")
        self.method = methods[0]

    def __repr__(self) -> str:
        n = len(list(self.banks()))
        return f"<SuiteBank: {n} banks of {len(self)} tasks, method {self.method}>"

    def banks(self) -> Iterator[SuiteEntry]:
        """Yield every bank with its task and outcome, task after task."""
        for task, outcomes in self.items():
            for outcome, bank in outcomes.items():
                yield SuiteEntry(task, outcome, bank)

    def save(self, folder: str | Path, compressed: bool = False) -> None:
        """Write one file per outcome, then ``suite.json``.

        Parameters
        ----------
        folder : path or str
        compressed : bool, optional
            Whether to compress the files of the banks.

        Raises
        ------
        BankError
            A file cannot be written.
        """
        folder = Path(folder)
        tasks: dict[str, dict[str, str]] = {}
        checksums: dict[str, str] = {}
        taken: set[str] = set()
        for task, outcome, bank in self.banks():
            stem = re.sub(r"[^\w.-]+", "_", f"{task}.{outcome}").strip(".")[:100] or "bank"
            end = ".bank.json.gz" if compressed else ".bank.json"
            # Names that differ in a sign, or in their case, may be one file to a file system.
            names = (f"{stem}{f'-{n}' if n > 1 else ''}{end}" for n in itertools.count(1))
            name = next(name for name in names if name.lower() not in taken)
            bank.save(folder / name)
            taken.add(name.lower())
            tasks.setdefault(task, {})[outcome] = name
            checksums[name] = bank.sha256
        content = {"format": FORMAT, "version": VERSION, "tasks": tasks, "checksums": checksums}
        with writing(folder / SUITE, BankError):
            replace_text(folder / SUITE, json.dumps(content, indent=1) + "\n")

    @classmethod
    def load(cls, path: str | Path, only: Collection[str] | None = None) -> SuiteBank:
        """Read the banks at a path.

        Parameters
        ----------
        path : path or str
            The folder of a suite, of which only files named in ``suite.json`` are read; a folder of
            suites; a folder of bank files without ``suite.json``; the file of one bank, which makes
            a suite of one; the name of a public bank; or the name of any of these on the hub
            (``hub:owner/name``).
        only : collection of str, optional
            Tasks whose banks to read; default all.

        Raises
        ------
        BankError
            There is no bank, or ``suite.json`` or a bank is missing or damaged, or a bank is not
            the one that ``suite.json`` records.
        """
        path = located(path)
        # A single bank is a suite of one, so that no command needs to know.
        if not path.is_dir():
            bank = ItemBank.load(path)
            task = bank.task or "task"
            if only is not None and task not in only:
                raise BankError(f"{path}: a bank of task {task}, not of {first_of(list(only), 3)}")
            return cls({task: bank})
        # A folder of single banks serves as a suite without `suite.json`.
        if not suites_in(path):
            return cls(_banks_without_index(path, only))
        tasks: dict[str, dict[str, ItemBank]] = {}
        for (task, outcome), entry in _entries(path).items():
            if only is None or task in only:
                bank = tasks.setdefault(task, {})[outcome] = ItemBank.load(entry.file)
                if entry.checksum != bank.sha256:
                    raise BankError(
                        f"{entry.file}: not the bank that suite.json names; save the suite again"
                    )
        return cls(tasks)

    @staticmethod
    def tasks(folder: Path) -> list[str]:
        """Return the tasks of the banks in a folder; if it is a suite, no bank is read.

        Raises
        ------
        BankError
            There is no bank, or ``suite.json`` is damaged.
        """
        if not suites_in(folder):
            return list(_banks_without_index(folder, None))
        return list(dict.fromkeys(task for task, _ in _entries(folder)))

    @staticmethod
    def files(folder: str | Path) -> dict[tuple[str, str], Path]:
        """Return the file of every (task, outcome) without reading the banks.

        Raises
        ------
        BankError
            ``suite.json`` is missing or damaged.
        """
        return {outcome: entry.file for outcome, entry in _entries(Path(folder)).items()}


def is_suite(path: str | Path) -> bool:
    """Return whether a path is the folder of a suite: one with ``suite.json``."""
    return (Path(path) / SUITE).is_file()


def suites_in(folder: Path) -> list[Path]:
    """Return the folder if it is a suite, else the suites in it."""
    if is_suite(folder):
        return [folder]
    return [inner for inner in sorted(folder.iterdir()) if inner.is_dir() and is_suite(inner)]


@lru_cache(maxsize=1)
def _banks_of_files(files: tuple[tuple[Path, _Version], ...]) -> tuple[ItemBank, ...]:
    """Return the banks in some files, of which the versions are given; keep those of the last call.

    Only its banks say which tasks a folder without ``suite.json`` has, so a run asks for all of
    them once for every task.
    """
    return tuple(ItemBank.load(file) for file, _ in files)


def _version(file: Path) -> _Version:
    """Return what changes when a file is written again; () if there is none."""
    try:
        stat = file.stat()
    except OSError:
        return ()
    return stat.st_ino, stat.st_mtime_ns, stat.st_size


def _banks_without_index(
    folder: Path, only: Collection[str] | None
) -> dict[str, dict[str, ItemBank]]:
    """Read a folder without ``suite.json``, by task and metric (and filter, if needed)."""
    files = tuple((file, _version(file)) for file in bank_files(folder))
    # A bank that names no task has the name that `SuiteBank.tasks` lists.
    banks = [
        bank for bank in _banks_of_files(files) if only is None or (bank.task or "task") in only
    ]
    if not banks:
        raise NoBankError(f"{folder}: no item bank in this folder")
    metrics = Counter((bank.task, bank.metric) for bank in banks)
    tasks: dict[str, dict[str, ItemBank]] = {}
    for bank in banks:
        # If several banks of a task have one metric, their names have the filter, too.
        alone = metrics[bank.task, bank.metric] == 1
        name = bank.metric if alone else f"{bank.metric},{bank.filter or 'none'}"
        of_task = tasks.setdefault(bank.task or "task", {})
        # Two banks of one name: do not guess which is meant.
        if of_task.setdefault(name, bank) is not bank:
            raise BankError(
                f"{folder}: two banks of task {bank.task}, {name}; name one of the files"
            )
    return tasks


class _Entry(NamedTuple):
    """A bank of a suite: its file, and the checksum that ``suite.json`` records."""

    file: Path
    checksum: Any


def _entries(folder: Path) -> dict[tuple[str, str], _Entry]:
    """Return file and checksum of every (task, outcome) of a suite, or of several in a folder."""
    entries: dict[tuple[str, str], _Entry] = {}
    for suite in suites_in(folder) or [folder]:
        for (task, outcome), entry in _entries_of(suite).items():
            # Without an error, the suite whose name comes first would win.
            if (task, outcome) in entries:
                raise BankError(
                    f"{folder}: two of its suites have a bank of task {task}, {outcome}; name one "
                    "of the suites"
                )
            entries[task, outcome] = entry
    return entries


def _entries_of(folder: Path) -> dict[tuple[str, str], _Entry]:
    """Return the file and checksum of every (task, outcome) in ``suite.json``."""
    path = folder / SUITE
    try:
        content = read_json(path, _MAX_BYTES)
        if content["format"] != FORMAT or content["version"] != VERSION:
            raise ValueError(f"not of format {FORMAT}, version {VERSION}")
        entries: dict[tuple[str, str], _Entry] = {}
        for task, outcomes in content["tasks"].items():
            for outcome, name in outcomes.items():
                # A suite from a stranger must not reach for files outside its folder.
                if not isinstance(name, str) or not name or Path(name).name != name:
                    raise ValueError(f"{name!r:.60} is not the name of a file in the folder")
                entries[task, outcome] = _Entry(folder / name, content["checksums"].get(name))
        if not entries:
            raise ValueError("it names no bank")
        return entries
    except FileNotFoundError:
        raise BankError(f"{path}: no such file; a suite bank is a folder with it") from None
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as e:
        raise BankError(
            f"{path}: not a readable suite bank ({e}); get it again or save the suite again"
        ) from None

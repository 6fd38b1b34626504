"""`SuiteBank`: the banks of several tasks and outcomes, in one folder."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

from ..errors import BankError
from ..files import replace_text
from .bank import ItemBank
from .file import FORMAT as BANK_FORMAT
from .file import located, read_json

FORMAT, VERSION, NAME = "lm-eval-ccat/suite", 1, "suite.json"
_MAX_BYTES = 16 << 20


class SuiteBank(Mapping[str, Mapping[str, ItemBank]]):
    """Item banks by task and outcome; all of one method.

    Parameters
    ----------
    tasks : mapping of str to (ItemBank, or mapping of str to ItemBank)
        By task; a bank alone is its task's only outcome, named after its metric.

    Raises
    ------
    BankError
        There is no bank, or they are of different methods.

    Examples
    --------
    >>> suite = SuiteBank({"t": ItemBank.blank(range(3)), "u": ItemBank.blank(range(2))})
    >>> list(suite), list(suite["t"]), suite.method
    (['t', 'u'], ['score'], 'sample')
    >>> suite
    <SuiteBank: 2 banks of 2 tasks, method sample>
    """

    def __init__(self, tasks: Mapping[str, ItemBank | Mapping[str, ItemBank]]) -> None:
        self._tasks: dict[str, dict[str, ItemBank]] = {
            task: {b.metric: b} if isinstance(b, ItemBank) else dict(b) for task, b in tasks.items()
        }
        methods = sorted({b.method for _, _, b in self.banks()})
        if len(methods) != 1 or not all(self._tasks.values()):
            found = f"banks of the methods {', '.join(methods)}" if methods else "no bank"
            raise BankError(f"a suite needs banks of one method for every task, found {found}")
        self.method = methods[0]

    def __getitem__(self, task: str) -> Mapping[str, ItemBank]:
        return self._tasks[task]

    def __iter__(self) -> Iterator[str]:
        return iter(self._tasks)

    def __len__(self) -> int:
        return len(self._tasks)

    def __repr__(self) -> str:
        n = len(list(self.banks()))
        return f"<SuiteBank: {n} banks of {len(self)} tasks, method {self.method}>"

    def banks(self) -> Iterator[tuple[str, str, ItemBank]]:
        """Every (task, outcome, bank)."""
        for task, outcomes in self._tasks.items():
            for outcome, bank in outcomes.items():
                yield task, outcome, bank

    def save(self, folder: str | Path) -> None:
        """Write one file per outcome, then ``suite.json``.

        Raises
        ------
        BankError
            A file cannot be written.
        """
        folder = Path(folder)
        tasks: dict[str, dict[str, str]] = {}
        checksums: dict[str, str] = {}
        for task, outcome, bank in self.banks():
            name = _file_name(task, outcome, set(checksums))
            bank.save(folder / name)
            tasks.setdefault(task, {})[outcome] = name
            checksums[name] = bank.sha256
        try:
            content = {"format": FORMAT, "version": VERSION, "tasks": tasks}
            text = json.dumps({**content, "checksums": checksums}, indent=1)
            replace_text(folder / NAME, text + "\n")
        except OSError as e:
            raise BankError(f"{folder / NAME}: cannot be written ({e.strerror or e})") from e

    @classmethod
    def load(cls, path: str | Path, only: Collection[str] | None = None) -> SuiteBank:
        """Read the banks at a path.

        Parameters
        ----------
        path : path or str
            A suite's folder, where files that ``suite.json`` does not name are left alone; a folder
            of bank files without ``suite.json``; the file of one bank, which is a suite of one; or
            any of these by its name in another place (``hub:owner/name``).
        only : collection of str, optional
            Tasks whose banks are wanted; default all.

        Raises
        ------
        BankError
            There is no bank, or ``suite.json`` or a bank is missing, damaged or another one than it
            was.
        """
        place = located(path)
        if not place.is_dir():
            bank = ItemBank.load(place)
            return cls({bank.task or "task": bank})
        if not is_suite(place):
            return cls(_loose(place, only))
        tasks: dict[str, dict[str, ItemBank]] = {}
        for task, outcome, file, checksum in _entries(place):
            if only is not None and task not in only:
                continue
            bank = tasks.setdefault(task, {})[outcome] = ItemBank.load(file)
            if checksum != bank.sha256:
                raise BankError(f"{file}: not the bank that suite.json names; save the suite again")
        return cls(tasks)

    @staticmethod
    def files(folder: str | Path) -> dict[tuple[str, str], Path]:
        """The file of every (task, outcome); none is read.

        Raises
        ------
        BankError
            ``suite.json`` is missing or damaged.
        """
        return {(task, outcome): path for task, outcome, path, _ in _entries(Path(folder))}


def is_suite(path: str | Path) -> bool:
    """Whether a path is the folder of a suite bank."""
    return (Path(path) / NAME).is_file()


def _loose(folder: Path, only: Collection[str] | None) -> dict[str, dict[str, ItemBank]]:
    """Banks of a folder without ``suite.json``, by task and metric (and filter, where needed)."""
    banks = []
    for file in sorted(folder.glob("*.json")):
        with file.open("rb") as stream:
            if BANK_FORMAT.encode() not in stream.read(256):
                continue
        bank = ItemBank.load(file)
        if only is None or bank.task in only:
            banks.append(bank)
    if not banks:
        raise BankError(f"{folder}: no item bank in this folder")
    tasks: dict[str, dict[str, ItemBank]] = {}
    for bank in banks:
        alike = [b for b in banks if (b.task, b.metric) == (bank.task, bank.metric)]
        name = bank.metric if len(alike) == 1 else f"{bank.metric},{bank.filter or 'none'}"
        if name in tasks.setdefault(bank.task or "task", {}):
            raise BankError(
                f"{folder}: two banks of task {bank.task}, {name}; name one of the files"
            )
        tasks[bank.task or "task"][name] = bank
    return tasks


def _entries(folder: Path) -> list[tuple[str, str, Path, Any]]:
    """(task, outcome, file, checksum) of what ``suite.json`` names."""
    path = folder / NAME
    try:
        content = read_json(path, _MAX_BYTES)
        if content["format"] != FORMAT or content["version"] != VERSION:
            raise ValueError(f"not of format {FORMAT}, version {VERSION}")
        checksums = content["checksums"]
        return [
            (str(task), str(outcome), folder / _file(name), checksums.get(name))
            for task, outcomes in content["tasks"].items()
            for outcome, name in outcomes.items()
        ]
    except FileNotFoundError:
        raise BankError(f"{path}: no such file; a suite bank is a folder with it") from None
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as e:
        raise BankError(f"{path}: not a readable suite bank ({e})") from None


def _file(name: Any) -> str:
    if not isinstance(name, str) or Path(name).name != name:
        raise ValueError(f"{name!r:.60} is not the name of a file in the folder")
    return name


def _file_name(task: str, outcome: str, taken: set[str]) -> str:
    stem = re.sub(r"[^\w.-]+", "_", f"{task}.{outcome}").strip(".")[:100] or "bank"
    name, n = f"{stem}.bank.json", 1
    while name.lower() in {t.lower() for t in taken}:
        n += 1
        name = f"{stem}-{n}.bank.json"
    return name

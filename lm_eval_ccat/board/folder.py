"""The folder of a board: its files, its rules and its banks.

board.json      name, weights of the tasks, what is asked of newcomers
suite/          the banks, one per task; every command takes the folder as a bank
banks/          earlier banks, by which older estimates are verified
ledger.jsonl    every row that was ever added, one JSON object per line
scores/         full results, one Parquet file per task and call of `add`
journals/       the journals of placed models, by their hash
.runs/          live runs in progress; not for git
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from ..bank import ItemBank, SuiteBank
from ..errors import RunError, UsageError
from ..metrics.scale import Scale
from .ledger import BoardLedger, BoardRow, TaskScore

FORMAT, VERSION = "lm-eval-ccat/board", 1
_LOCK_SECONDS = 60


@dataclass(frozen=True)
class Rules:
    """The rules of a board, as `board.json` states them.

    Attributes
    ----------
    name : str
        Title of the site.
    weights : {"equal", "documents"}
        Weights of the tasks in the average.
    max_items : int
        Largest number of items that a model is asked when it is placed.
    exposure : int
        Each item is drawn from this many of the most informative ones.
    reserve : int
        Number of parts into which the items are divided; one of them is held back. 0 holds back
        none.
    rotate_after : int
        Number of placed models after which the next part is held back.
    """

    name: str = "Leaderboard"
    weights: str = "equal"
    max_items: int = 100
    exposure: int = 5
    reserve: int = 5
    rotate_after: int = 20


class Board:
    """A board's folder.

    Parameters
    ----------
    path : path

    Raises
    ------
    RunError
        If the folder has no `board.json`, or the file cannot be read.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.rules = read_rules(self.path / "board.json")
        self.ledger = BoardLedger(self.path / "ledger.jsonl")

    @cached_property
    def banks(self) -> dict[str, ItemBank]:
        """The bank of each task.

        Raises
        ------
        RunError
            If a task has several outcomes; a board scores one metric per task.
        """
        return one_bank_each(SuiteBank.load(self.path / "suite"), self.path / "suite")

    @cached_property
    def shares(self) -> dict[str, float]:
        """Weight of each task in the average; the weights sum to 1."""
        sizes = {
            task: 1.0 if self.rules.weights == "equal" else float(bank.n_items)
            for task, bank in self.banks.items()
        }
        return {task: size / sum(sizes.values()) for task, size in sizes.items()}

    @property
    def scale(self) -> Scale:
        """Scale of the average: the one that all tasks share, else [0, 1]."""
        scales = [bank.scale for bank in self.banks.values()]
        return scales[0] if all(scale == scales[0] for scale in scales) else Scale()

    @property
    def draws_at_random(self) -> bool:
        """Whether no bank knows anything about its items, so that nobody can guess the next one."""
        return all(bank.method == "sample" for bank in self.banks.values())

    def bank_of(self, task: str, sha256: str) -> ItemBank:
        """Return a bank of this board, the current one or an earlier one.

        Raises
        ------
        RunError
            If the board has no such bank.
        """
        if task in self.banks and self.banks[task].sha256 == sha256:
            return self.banks[task]
        file = self.old_bank(sha256)
        if not file.is_file():
            raise RunError(f"the board has no bank {sha256[:12]} of {task}")
        bank = ItemBank.load(file)
        if bank.sha256 != sha256:
            raise RunError(f"{file} is another bank than {sha256[:12]}")
        return bank

    def old_bank(self, sha256: str) -> Path:
        """Return the file of an earlier bank, or of a bank that was used elsewhere."""
        return self.path / "banks" / f"{sha256[:16]}.bank.json"

    def turn(self, rows: list[BoardRow]) -> list[int] | None:
        """Return the part of the items held back now, of how many parts; None if there is none."""
        parts = self.rules.reserve
        if not parts or self.draws_at_random:
            return None
        placed = sum(row.estimated for row in rows)
        return [placed // self.rules.rotate_after % parts, parts]

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep other processes from writing to the board while the context lasts.

        Raises
        ------
        RunError
            If another process holds the board for a minute.
        """
        from filelock import FileLock, Timeout

        try:
            with FileLock(self.path / ".lock", timeout=_LOCK_SECONDS):
                yield
        except Timeout:
            raise RunError(f"{self.path}: another process is writing to this board") from None


def one_bank_each(suite: SuiteBank, source: Path) -> dict[str, ItemBank]:
    """Return the bank of each task of a suite that was read from `source`.

    Raises
    ------
    RunError
        If a task has several outcomes.
    """
    for task, outcomes in suite.items():
        if len(outcomes) > 1:
            raise RunError(
                f"{source}: task {task} has banks of {', '.join(outcomes)}; "
                "a board scores one metric per task"
            )
    return {task: next(iter(outcomes.values())) for task, outcomes in suite.items()}


def offered(bank: ItemBank, task: str, reserve: Sequence[int] | None) -> ItemBank:
    """Return a bank in which one part of the items is held back.

    Parameters
    ----------
    bank : ItemBank
    task : str
    reserve : (int, int) or None
        The part to hold back, and the number of parts; an item's part is the same on every machine.

    Examples
    --------
    >>> bank = ItemBank.blank(range(100))
    >>> [int(offered(bank, "t", [part, 2]).kept.sum()) for part in (0, 1)]
    [42, 58]
    >>> offered(bank, "t", None) is bank
    True
    """
    if reserve is None:
        return bank
    part, parts = reserve
    texts = (json.dumps([task, doc_id]).encode() for doc_id in bank.doc_ids)
    of = [int.from_bytes(hashlib.sha256(text).digest()[:8], "big") % parts for text in texts]
    return replace(bank, kept=bank.kept & (np.array(of) != part))


def ruled(rules: Rules, changes: Mapping[str, Any]) -> Rules:
    """Return rules with some of them replaced; None leaves a rule as it is.

    Raises
    ------
    UsageError
        If a rule is unknown or out of range.
    """
    stated = {k: v for k, v in changes.items() if v is not None}
    unknown = set(stated) - set(Rules.__dataclass_fields__)
    if unknown:
        raise UsageError(f"a board has no rule {sorted(unknown)[0]!r}")
    changed = replace(rules, **stated)
    if changed.weights not in ("equal", "documents"):
        raise UsageError(f"weights {changed.weights!r} of a board are 'equal' or 'documents'")
    for name, least in (("max_items", 1), ("exposure", 1), ("reserve", 0), ("rotate_after", 1)):
        if getattr(changed, name) < least:
            raise UsageError(f"{name} {getattr(changed, name)} of a board is below {least}")
    if changed.reserve == 1:
        raise UsageError("reserve 1 would hold back every item; 5 holds back a fifth, 0 none")
    return changed


def read_rules(path: Path) -> Rules:
    """Read the rules in a board's file.

    Raises
    ------
    RunError
        If there is no such file, or it cannot be read.
    """
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
        if values.pop("format") != FORMAT or values.pop("version") != VERSION:
            raise ValueError(f"not of format {FORMAT}, version {VERSION}")
        return ruled(Rules(), values)
    except FileNotFoundError:
        raise RunError(
            f"{path.parent} is not a board (it has no board.json); begin one with `lm-eval-ccat "
            f"board init {path.parent} --from LOGS`"
        ) from None
    except (OSError, ValueError, KeyError, TypeError, AttributeError, UsageError) as error:
        raise RunError(f"{path}: not a readable board ({error})") from None


def average(board: Board, tasks: Mapping[str, TaskScore], shares: Mapping[str, float]) -> float:
    """Return the weighted mean of full results, on the board's scale."""
    total = sum(shares[task] for task in tasks)
    unit = sum(
        shares[task] * float(board.banks[task].scale.normalise(one.score))
        for task, one in tasks.items()
    )
    return float(board.scale.restore(unit / total))


def metric_of(bank: ItemBank) -> str:
    """Return a bank's metric and filter, as the harness writes them."""
    return f"{bank.metric},{bank.filter or 'none'}"

"""Which outcomes of a task are measured: metrics by name, each with its bank or a blank one."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from ..bank import ItemBank
from ..bank.suite import SuiteBank, is_suite
from ..errors import BankError, UsageError
from ..harness import TaskSession
from ..harness.outcome import Outcome
from ..upkeep.others import of_others

Bank = ItemBank | str | Path | Mapping[str, Any]


def measure(
    bank: Bank | None, metrics: Mapping[str, float], session: TaskSession
) -> dict[str, Outcome]:
    """What is measured of one task, by name.

    Parameters
    ----------
    bank : ItemBank, path, mapping of metric to either, or None
        A path is a bank or a folder of banks. None or "" is no bank: items are drawn at random.
    metrics : mapping of str to float
        Weights by metric (``"exact_match,strict-match"`` with its filter). Empty for the bank's
        own, or the task's first metric that gives a score per document.
    session : TaskSession

    Raises
    ------
    UsageError
        There is a bank for some of the metrics and not for another, or none of the task.
    CcatError
        A bank, the task and a metric cannot be used together.
    """
    found: dict[str, Outcome] = {}
    if not bank:
        for name, weight in (metrics or {"": 1.0}).items():
            metric, _, filter = name.partition(",")
            one = Outcome.without_bank(session, metric or None, filter or None)
            found[name or one.metric.name] = replace(one, weight=weight)
        return found
    banks = banks_of(bank, session.name)
    for name, weight in (metrics or dict.fromkeys(banks, 1.0)).items():
        own = next((b for key, b in banks.items() if name in (key, *_names(b))), None)
        if own is None:
            raise UsageError(
                f"there is no bank of metric {name} for task {session.name}, only of "
                f"{', '.join(banks)}; calibrate one for each metric, or rank without bank:"
            )
        found[name] = replace(Outcome.of(own, session), weight=weight)
    return found


def banks_of(bank: Bank, task: str) -> dict[str, ItemBank]:
    """Banks of one task by the name of their metric.

    Raises
    ------
    BankError
        A file is missing or damaged, or a folder holds no bank of the task.
    """
    if isinstance(bank, ItemBank):
        return {bank.metric: bank}
    if isinstance(bank, Mapping):
        return {
            name: one if isinstance(one, ItemBank) else ItemBank.load(one)
            for name, one in bank.items()
        }
    folder = Path(bank)
    if not folder.is_dir():
        return banks_of(ItemBank.load(bank), task)
    if is_suite(folder):
        there = tasks_of_suite(folder)
        if task not in there:
            raise BankError(f"{folder} has no bank of task {task}; it has: {', '.join(there)}")
        return dict(SuiteBank.load(folder, [task])[task])
    found = [ItemBank.load(f) for f in sorted(folder.glob("*.json")) if task_of(f) == task]
    if not found:
        raise BankError(f"{folder} has no bank of task {task}")
    several = len({b.metric for b in found}) < len(found)
    named = {_names(b)[1 if several else 0]: b for b in found}
    if len(named) < len(found):
        raise UsageError(
            f"{folder} holds {len(found)} banks of task {task}, two of them of one metric; name "
            "the file that is meant"
        )
    return named


def tasks_of_suite(folder: str | Path) -> list[str]:
    """Tasks of a suite bank; none of its banks is read."""
    return list(dict.fromkeys(task for task, _ in SuiteBank.files(folder)))


def task_of(file: Path) -> str | None:
    """The task that a bank file names; None for a file that is no bank."""
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return None
    return content.get("task") if isinstance(content, dict) else None


def _names(bank: ItemBank) -> tuple[str, str]:
    return bank.metric, f"{bank.metric},{bank.filter or 'none'}"


def apart_from(
    measured: Mapping[str, Outcome], models: Collection[str]
) -> tuple[dict[str, Outcome], list[str]]:
    """The outcomes of a task by banks that these models did not calibrate, and warnings."""
    found = {k: (o, *of_others(o.bank, models)) for k, o in measured.items()}
    said = dict.fromkeys(warning for _, _, warning in found.values() if warning)
    return {k: replace(o, bank=bank) for k, (o, bank, _) in found.items()}, list(said)


def bank_of_task(bank: Bank, task: str, tasks: int) -> Bank:
    """What of ``bank:`` is meant for a task.

    Raises
    ------
    UsageError
        One bank for several tasks, or none for this one.
    """
    if tasks == 1 or not bank or isinstance(bank, str):
        return bank
    if not isinstance(bank, Mapping):
        raise UsageError(f"`bank:` is one bank and the ranking is of {tasks} tasks; name a folder")
    if task not in bank:
        raise UsageError(f"`bank:` names no bank of task {task}; it has {', '.join(bank)}")
    return bank[task]

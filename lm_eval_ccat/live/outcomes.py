"""Which outcomes of a task are measured: metrics by name, each with its bank or a blank one."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from ..bank import ItemBank
from ..bank.outcome import Outcome
from ..bank.reading import located
from ..bank.suite import SuiteBank
from ..errors import BankError, UsageError
from ..harness import TaskSession
from ..harness.outcomes import blank_outcome, outcome_of
from ..upkeep.grow import of_others

Bank = ItemBank | str | Path | Mapping[str, Any]


def measure(
    bank: Bank, metrics: Mapping[str, float], session: TaskSession, only: bool = True
) -> dict[str, Outcome]:
    """Return the outcomes that are measured of one task, by name.

    Parameters
    ----------
    bank, only
        As `banks_of` takes them; "" is no bank: items are drawn at random.
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
    outcomes: dict[str, Outcome] = {}
    if not bank:
        for name, weight in (metrics or {"": 1.0}).items():
            metric, _, filter = name.partition(",")
            one = blank_outcome(session, metric or None, filter or None)
            outcomes[name or one.metric.name] = replace(one, weight=weight)
        return outcomes
    banks = banks_of(bank, session.name, only)
    if not banks:
        raise UsageError(
            f"there is no bank of task {session.name}; give one with --bank {session.name}=FILE, "
            "name a folder that holds one, or remove the task"
        )
    for name, weight in (metrics or dict.fromkeys(banks, 1.0)).items():
        known = next((b for key, b in banks.items() if name in (key, *_names(b))), None)
        if known is None:
            raise UsageError(
                f"there is no bank of metric {name} for task {session.name}, only of "
                f"{', '.join(banks)}; calibrate one for each metric, or rank without bank:"
            )
        outcomes[name] = replace(outcome_of(known, session), weight=weight)
    return outcomes


def banks_of(bank: Bank, task: str, only: bool = True) -> dict[str, ItemBank]:
    """Return one task's banks by metric; none if the banks are for other tasks.

    Parameters
    ----------
    bank : ItemBank, path, or mapping of task or metric to either
        As `Spec` has it.
    task : str
    only : bool
        Whether it is the only task; a single bank is then meant for it, whatever task it names,
        and compared with it later.

    Raises
    ------
    BankError
        A file is missing or damaged, or a folder holds no bank of the only task.
    """
    if isinstance(bank, Mapping) and task in bank:
        bank, only = bank[task], True
    if isinstance(bank, Mapping):  # by metric
        loaded = {name: _one(b) for name, b in bank.items() if isinstance(b, ItemBank) or only}
        return loaded if only else {n: b for n, b in loaded.items() if b.task == task}
    if isinstance(bank, str | Path) and bank:
        if (place := located(bank)).is_dir():
            suite = SuiteBank.load(place)
            if task not in suite and only:
                raise BankError(f"{bank} has no bank of task {task}; it has: {', '.join(suite)}")
            return dict(suite.get(task, {}))
        bank = ItemBank.load(place)
    if not isinstance(bank, ItemBank):
        return {}
    return {bank.metric: bank} if only or bank.task == task else {}


def _one(bank: ItemBank | str | Path) -> ItemBank:
    return bank if isinstance(bank, ItemBank) else ItemBank.load(bank)


def _names(bank: ItemBank) -> tuple[str, str]:
    return bank.metric, f"{bank.metric},{bank.filter or 'none'}"


def apart_from(
    measured: Mapping[str, Outcome], models: Collection[str]
) -> tuple[dict[str, Outcome], list[str]]:
    """The outcomes of a task by banks that these models did not calibrate, and warnings."""
    pairs = {k: (o, *of_others(o.bank, models)) for k, o in measured.items()}
    warnings = dict.fromkeys(warning for _, _, warning in pairs.values() if warning)
    return {k: replace(o, bank=bank) for k, (o, bank, _) in pairs.items()}, list(warnings)

"""Which outcomes are measured, by which banks, and how much each task counts."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from ..bank import ItemBank
from ..bank.file import located
from ..bank.outcome import Outcome
from ..bank.suite import SuiteBank
from ..errors import BankError, UsageError
from ..harness import TaskSession, internals
from ..harness.outcomes import blank_outcome, leading, outcome_of
from ..upkeep.update import of_others
from .fields import Weighting

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


# -- several tasks ranked together -----------------------------------------------------------------


def task_weights(
    weighting: Weighting,
    measured: Mapping[str, Mapping[str, Outcome]],
    groups: Mapping[str, Any],
) -> dict[str, float]:
    """How much each task counts.

    Parameters
    ----------
    weighting : "", "documents", "equal", or mapping of task or group to float
        "" is as the harness weighs the only group that all tasks are of, else by documents. A
        group's weight, and its equal part among others, is shared out by its own weights.
    measured : mapping of task to its outcomes
    groups : mapping of name to Group
        The harness's.

    Raises
    ------
    UsageError
        A name is no task or group, a task has no weight, or has two.
    """
    sizes = {task: float(leading(of).bank.n_items) for task, of in measured.items()}
    members = {name: _members(group, measured) for name, group in groups.items()}
    whole = [name for name, tasks in members.items() if set(tasks) == set(measured)]
    if not weighting:
        return _own(groups[whole[0]], measured, sizes) if whole else sizes
    if weighting == "documents":
        return sizes
    if weighting == "equal":
        outer = _outermost({n: t for n, t in members.items() if n not in whole and t})
        inside = {task for name in outer for task in members[name]}
        weighting = dict.fromkeys([*outer, *(t for t in measured if t not in inside)], 1.0)
        if whole:  # of one group its tasks, whatever its subgroups
            weighting = dict.fromkeys(measured, 1.0)
    assert not isinstance(weighting, str)
    shares: dict[str, float] = {}
    for name, weight in weighting.items():
        if name in measured:
            parts = {name: 1.0}
        elif name in groups:
            parts = _own(groups[name], {t: measured[t] for t in members[name]}, sizes)
        else:
            choices = ", ".join([*measured, *groups])
            raise UsageError(f"`weights.{name}`: no such task or group; choose from: {choices}")
        for task, part in parts.items():
            if task in shares:
                raise UsageError(f"`weights:` gives task {task} a weight twice")
            shares[task] = weight * part / sum(parts.values())
    missing = [task for task in measured if task not in shares]
    if missing:
        raise UsageError(f"`weights:` gives task {missing[0]} no weight")
    return {task: shares[task] for task in measured}


def reported_groups(
    measured: Mapping[str, Mapping[str, Outcome]], groups: Mapping[str, Any]
) -> dict[str, dict[str, float]]:
    """Groups whose score is reported beside that of all tasks, with their own weights."""
    sizes = {task: float(leading(of).bank.n_items) for task, of in measured.items()}
    reported = {}
    for name, group in groups.items():
        members = {t: measured[t] for t in _members(group, measured)}
        if 1 < len(members) < len(measured):
            reported[name] = _own(group, members, sizes)
    return reported


def _members(group: Any, measured: Mapping[str, Any]) -> list[str]:
    names = dict.fromkeys(internals.task_name(task) for task in group.get_all_tasks())
    return [name for name in names if name in measured]


def _outermost(members: Mapping[str, list[str]]) -> list[str]:
    """Groups that lie in no other."""
    return [
        name
        for name, tasks in members.items()
        if not any(set(tasks) < set(others) for others in members.values())
    ]


def weights_in(
    group: Any, metrics: Collection[str], sizes: Mapping[str, float]
) -> dict[str, float] | None:
    """Return a group's weights of its tasks; None if it aggregates none of these metrics.

    Parameters
    ----------
    group : Group
        The harness's.
    metrics : collection of str
    sizes : mapping of task to float
        Documents of the tasks.
    """
    for config in group.aggregate_metric_list or ():
        if config.metric in metrics:
            return {t: size if config.weight_by_size else 1.0 for t, size in sizes.items()}
    return None


def _own(
    group: Any, measured: Mapping[str, Mapping[str, Outcome]], sizes: Mapping[str, float]
) -> dict[str, float]:
    """A group's own weights of its tasks: by documents, unless it says that all count alike."""
    of_group = {task: sizes[task] for task in measured}
    metrics = {leading(of).metric.name for of in measured.values()}
    return weights_in(group, metrics, of_group) or of_group

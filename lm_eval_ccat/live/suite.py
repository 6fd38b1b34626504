"""Several tasks ranked together: how much each counts, and the groups that are reported."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from ..bank.outcome import Outcome
from ..errors import UsageError
from ..harness import internals
from ..harness.outcomes import leading
from .values import Weighting


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

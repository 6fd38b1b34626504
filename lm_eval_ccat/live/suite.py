"""Several tasks ranked together: how much each counts, and the groups that are reported."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..errors import UsageError
from ..harness import internals
from ..harness.outcome import Outcome, leading

WEIGHTINGS = ("documents", "equal")
Weighting = str | dict[str, float]
_FORM = (
    "`weights:` must be documents, equal, or a weight per task or group such as {a: 2, b: 1}, or "
    "a=2,b=1 on a command line"
)


def parse_tasks(content: Mapping[str, Any], folder: Path | None) -> tuple[str, ...]:
    """What ``task:`` or ``tasks:`` names; a YAML file beside the configuration if there is one.

    Raises
    ------
    UsageError
        Neither is given, both are, or a name stands there twice.
    """
    key = "tasks" if content.get("task") in (None, "", []) else "task"
    value = content.get(key)
    if value in (None, "", []):
        raise UsageError("`task:` is missing")
    if key == "task" and content.get("tasks"):
        raise UsageError("`task:` and `tasks:` mean the same; give one of them")
    given = value if isinstance(value, list) else _text(value, key).split(",")
    names = [_text(name, key).strip() for name in given]
    for name in names:
        if not name or names.count(name) > 1:
            raise UsageError(f"`{key}:` names {name!r} {'twice' if name else 'as a task'}")
    return tuple(
        str(folder / name)
        if folder is not None and name.endswith((".yaml", ".yml")) and (folder / name).is_file()
        else name
        for name in names
    )


def _text(value: Any, path: str) -> str:
    if not isinstance(value, str | int | float) or isinstance(value, bool):
        raise UsageError(f"`{path}` must be a text, not {value!r}")
    return str(value)


def parse_weights(value: Any) -> Weighting | None:
    """What ``weights:`` or ``--weights`` says, checked; None for None.

    Raises
    ------
    UsageError
        It is nothing of the kind.

    Examples
    --------
    >>> parse_weights("mmlu=2,gsm8k=1")
    {'mmlu': 2.0, 'gsm8k': 1.0}
    """
    if isinstance(value, str) and value not in WEIGHTINGS:
        value = _written(value)
    if value is None or value in WEIGHTINGS:
        return value
    if not isinstance(value, Mapping) or not value:
        raise UsageError(f"{_FORM}, not {value!r}")
    for name, weight in value.items():
        number = isinstance(weight, int | float) and not isinstance(weight, bool)
        if not number or not math.isfinite(weight) or weight <= 0:
            raise UsageError(f"`weights.{name}` must be a number above 0, not {weight!r}")
    return {str(name): float(weight) for name, weight in value.items()}


def _written(text: str) -> Any:
    """Weights of a command line: ``a=2,b=1``, or YAML; the text itself if it is neither."""
    import yaml

    if "=" not in text:
        try:
            return yaml.safe_load(text)
        except yaml.YAMLError:
            return text
    pairs = [part.rpartition("=") for part in text.split(",") if part.strip()]
    if len({name.strip() for name, _, _ in pairs}) < len(pairs):
        return text
    return {name.strip(): yaml.safe_load(weight) for name, _, weight in pairs}


def task_weights(
    given: Weighting,
    measured: Mapping[str, Mapping[str, Outcome]],
    groups: Mapping[str, Any],
) -> dict[str, float]:
    """How much each task counts.

    Parameters
    ----------
    given : "", "documents", "equal", or mapping of task or group to float
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
    if not given:
        return _own(groups[whole[0]], measured, sizes) if whole else sizes
    if given == "documents":
        return sizes
    if given == "equal":
        outer = _outermost({n: t for n, t in members.items() if n not in whole and t})
        inside = {task for name in outer for task in members[name]}
        given = dict.fromkeys([*outer, *(t for t in measured if t not in inside)], 1.0)
        if whole:  # of one group its tasks, whatever its subgroups
            given = dict.fromkeys(measured, 1.0)
    assert not isinstance(given, str)
    found: dict[str, float] = {}
    for name, weight in given.items():
        if name in measured:
            parts = {name: 1.0}
        elif name in groups:
            parts = _own(groups[name], {t: measured[t] for t in members[name]}, sizes)
        else:
            there = ", ".join([*measured, *groups])
            raise UsageError(f"`weights.{name}`: no such task or group; there is: {there}")
        for task, part in parts.items():
            if task in found:
                raise UsageError(f"`weights:` gives task {task} a weight twice")
            found[task] = weight * part / sum(parts.values())
    missing = [task for task in measured if task not in found]
    if missing:
        raise UsageError(f"`weights:` gives task {missing[0]} no weight")
    return {task: found[task] for task in measured}


def reported_groups(
    measured: Mapping[str, Mapping[str, Outcome]], groups: Mapping[str, Any]
) -> dict[str, dict[str, float]]:
    """Groups whose score is reported beside that of all tasks, with their own weights."""
    sizes = {task: float(leading(of).bank.n_items) for task, of in measured.items()}
    found = {}
    for name, group in groups.items():
        members = {t: measured[t] for t in _members(group, measured)}
        if 1 < len(members) < len(measured):
            found[name] = _own(group, members, sizes)
    return found


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


def _own(
    group: Any, measured: Mapping[str, Mapping[str, Outcome]], sizes: Mapping[str, float]
) -> dict[str, float]:
    """A group's own weights of its tasks: by documents, unless it says that all count alike."""
    metrics = {leading(of).metric.name for of in measured.values()}
    for config in group.aggregate_metric_list or ():
        if config.metric in metrics:
            return {t: sizes[t] if config.weight_by_size else 1.0 for t in measured}
    return {t: sizes[t] for t in measured}

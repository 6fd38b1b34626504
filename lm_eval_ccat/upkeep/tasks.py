"""Which tasks of some logs are meant: by name, by pattern, or as a group; and their scores."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path

from ..errors import CcatError, UsageError
from ..scores import ScoreTable
from ..scores.table import reader_of
from ..scores.wanted import ANY, Logged, Wanted
from ..wording import some


def tasks_meant(path: str | Path, names: Sequence[str]) -> list[str]:
    """Tasks of some logs that names, shell patterns and groups mean.

    Groups are those that the logs record; of others the harness is asked.

    Parameters
    ----------
    path : path
        Logs or a table that any reader reads.
    names : sequence of str

    Returns
    -------
    list of str
        Each once, in the order named.

    Raises
    ------
    UsageError
        A name means nothing in these logs, or a group has a task that they lack.
    """
    path = Path(path)
    reader = reader_of(path)
    recorded_tasks = dict.fromkeys(o.task or "" for o in reader.outcomes(path))
    recorded = reader.groups(path)
    tasks: dict[str, None] = {}
    for name in names:
        if name in recorded_tasks:
            members = [name]
        elif matching := [t for t in recorded_tasks if fnmatchcase(t, name)]:
            members = matching
        elif name in recorded:
            members = _present(path, name, _leaves(name, recorded), recorded_tasks)
        elif of_harness := _harness_group(name):
            members = _present(path, name, of_harness, recorded_tasks)
        else:
            shown = some(list(recorded_tasks))
            raise UsageError(f"{path}: no task, pattern or group {name!r} in it; there are {shown}")
        tasks |= dict.fromkeys(members)
    return list(tasks)


def tables_of(
    path: str | Path,
    tasks: Sequence[str],
    metrics: Sequence[str] | None = None,
    wanted: Wanted = ANY,
) -> dict[str, ScoreTable]:
    """Scores of several tasks, one outcome of each; `wanted` says filter and scale.

    Raises
    ------
    UsageError
        A task reports none or several of the metrics.
    """
    meant = outcomes_meant(Path(path), tasks, metrics, wanted.filter)
    names = [outcome.task or "task" for outcome in meant]
    twice = [name for name, n in Counter(names).items() if n > 1]
    if twice:
        raise UsageError(f"{path}: task {twice[0]} reports several of the metrics; name one")
    tables: dict[str, ScoreTable] = {}
    for name, table in zip(names, ScoreTable.read_many(path, meant, wanted)):
        if isinstance(table, CcatError):
            raise table
        tables[name] = table
    return tables


def outcomes_meant(
    path: Path, tasks: Sequence[str], metrics: Sequence[str] | None, filter: str | None
) -> list[Logged]:
    """The outcomes that some names mean; see `build.build`."""
    every = reader_of(path).outcomes(path)
    names = [o.task or "" for o in every] if list(tasks) == ["*"] else tasks_meant(path, tasks)
    meant: list[Logged] = []
    for task in dict.fromkeys(names):
        outcomes = [
            o
            for o in every
            if (o.task or "") == task
            and (metrics is None or any(fnmatchcase(o.metric, m) for m in metrics))
        ]
        outcomes = [o for o in outcomes if o.filter == filter] or outcomes
        if metrics is None and len(outcomes) > 1:
            kinds = list(dict.fromkeys(o.metric for o in outcomes))
            flag, shown = ("--metric", kinds) if len(kinds) > 1 else (
                "--filter", [str(o.filter) for o in outcomes])  # fmt: skip
            raise UsageError(f"{path}: task {task} reports {', '.join(shown)}; name one ({flag})")
        meant += outcomes
    if not meant:
        raise UsageError(f"{path}: no results of these tasks and metrics")
    return meant


def names_one_task(path: str | Path, text: str | None) -> bool:
    """Whether ``--task`` names one task alone, and not a list, a pattern or a group.

    Without it, whether the scores are of one task.

    Raises
    ------
    UsageError
        There is no such path.
    """
    path = Path(path)
    if not path.exists():
        raise UsageError(f"{path}: no such file or directory of scores")
    if text and ("," in text or re.search(r"[*?\[]", text)):
        return False
    reader = reader_of(path)
    if text and text in reader.groups(path):
        return False
    tasks = {o.task for o in reader.outcomes(path)}
    if text is None or len(tasks) < 2:
        return len(tasks) < 2
    return text in tasks or not _harness_group(text)


def _leaves(name: str, groups: Mapping[str, Sequence[str]]) -> list[str]:
    """Tasks of a group and of its subgroups."""
    out: dict[str, None] = {}
    for member in groups[name]:
        inner = _leaves(member, groups) if member in groups and member != name else [member]
        out |= dict.fromkeys(inner)
    return list(out)


def _present(path: Path, name: str, members: Iterable[str], tasks: Iterable[str]) -> list[str]:
    # Files bear names without what file systems dislike.
    written = {re.sub(r"\W", "_", t): t for t in tasks}
    wanted = list(members)
    missing = [m for m in wanted if re.sub(r"\W", "_", m) not in written]
    if missing:
        raise UsageError(
            f"{path}: no scores of {len(missing)} of the {len(wanted)} tasks of {name}, "
            f"{missing[0]} among them; run them, or list the tasks that there are"
        )
    return [written[re.sub(r"\W", "_", m)] for m in wanted]


def _harness_group(name: str) -> list[str]:
    """Tasks of a group or tag of the harness; none where it knows no such group."""
    from ..harness import internals
    from ..harness.opening import with_shipped_tasks

    try:
        tasks = internals.static_configs(
            internals.task_manager([name], with_shipped_tasks([])), name
        )
    except (KeyError, OSError, CcatError):
        return []
    return [] if list(tasks) == [name] else list(tasks)

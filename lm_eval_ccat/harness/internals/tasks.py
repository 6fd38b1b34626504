"""Find and load the harness's tasks.

Reading all of the harness's 14,000 task files as YAML takes many seconds; most names can be found
by searching them as text.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...errors import UsageError
from ...plugins import did_you_mean
from .names import attribute, hush, resolve

_INDEX = "task_index|_task_index"
_DEFINED = re.compile(rb"^(task|group)[ \t]*:[ \t]*[\"']?([\w./:+-]+)[\"']?[ \t]*$", re.MULTILINE)
#: Neither a pattern nor a path.
_NAME = re.compile(r"[^*?\[\]/\\]+(?<!\.yaml)(?<!\.yml)")


def load_tasks(manager: Any, names: Sequence[Any]) -> tuple[dict[str, object], dict[str, object]]:
    """Load tasks and groups by an index; return (tasks, groups) by name."""
    loaded = manager.load(list(names))
    return dict(loaded["tasks"]), dict(loaded["groups"])


def task_manager(
    names: Sequence[Any], include_path: Any = None, metadata: Mapping[str, Any] | None = None
) -> Any:
    """Return an index of tasks that contains some names.

    Other task files of the harness are left out if each name is a file, a task or group of
    `include_path` (which takes precedence over the harness's own), or a task or group that
    files of the harness define.

    Raises
    ------
    UsageError
        If there is no such task, group or tag; the message suggests close names.
    """
    hush()
    make, about = resolve("lm_eval.tasks:TaskManager"), dict(metadata or {})
    manager = make(include_path=include_path, include_defaults=False, metadata=about)
    index = attribute(manager, _INDEX)
    missing = [
        n for n in names if not (isinstance(n, str) and (_is_whole(index, n) or Path(n).is_file()))
    ]
    files = _stock_files(missing, index)
    if files is None:
        return make(include_path=include_path, metadata=about)
    index.update({name: _entry(file) for name, file in files.items()})
    return manager


def require_tasks(names: Sequence[str], include_path: Any = None) -> None:
    """Raise a `UsageError` with close names for tasks that neither a folder nor the harness has."""
    hush()
    make = resolve("lm_eval.tasks:TaskManager")
    index = attribute(make(include_path=include_path, include_defaults=False), _INDEX)
    _stock_files([n for n in names if n not in index and not Path(n).exists()], index)


def _is_whole(index: Mapping[str, Any], name: Any) -> bool:
    """Whether an index holds a task, or a group with all of its members."""
    entry = index.get(name)
    if entry is None or entry.kind.name != "GROUP":
        return entry is not None and entry.kind.name in ("TASK", "PY_TASK")
    return all(isinstance(n, str) and _is_whole(index, n) for n in _members(entry.cfg))


def _stock_files(names: Sequence[Any], others: Mapping[str, Any]) -> dict[str, Path] | None:
    """Find the harness's own files of tasks and of groups with their members, by name.

    None if only the whole index can tell: a name may be a tag or a pattern, is defined in several
    files, or names a group in the index `others` that lacks some of its members.

    Raises
    ------
    UsageError
        If no file has a name; the message suggests close names.
    """
    plain = [n for n in names if isinstance(n, str) and _NAME.fullmatch(n)]
    unknown = [n for n in plain if n not in others]
    if not unknown:
        return None if names else {}
    files: dict[str, list[Path]] = {}
    groups: set[str] = set()
    texts = []
    for path, text in _texts():
        texts.append(text)
        for kind, defined in _DEFINED.findall(text):
            files.setdefault(defined.decode(), []).append(path)
            groups |= {defined.decode()} if kind == b"group" else set()
    for name in unknown:
        # Used as a tag, a group's member or a value of a task.
        start = rb"^(?:[ \t]*-[ \t]*|(?:task|group|tag)[ \t]*:[^\n]*?)[\"']?\b"
        used = re.compile(start + re.escape(name.encode()) + rb"[\"']?[ \t]*(?:$|[,\]#])", re.M)
        if name not in files and not any(map(used.search, texts)):
            meant = did_you_mean(name, dict.fromkeys([*others, *files]), listing=False)
            raise UsageError(
                f"cannot load task {name!r}: no task, group or tag has that name{meant} "
                "(`lm_eval ls tasks` lists all, --include_path adds a folder)"
            )
    if len(unknown) < len(names):
        return None
    alone: dict[str, Path] = {}
    wanted: list[Any] = list(unknown)
    while wanted:
        name = wanted.pop()
        if not isinstance(name, str):
            return None
        if name in alone or _is_whole(others, name):
            continue
        at = [] if name in others else files.get(name, [])
        if len(at) != 1 or at[0].suffix != ".yaml":
            return None
        alone[name] = at[0]
        wanted += _members(_plain_yaml(at[0])) if name in groups else []
    return alone


def _members(config: Mapping[str, Any] | None) -> list[Any]:
    """Return the names of a group's tasks; None stands for one that is defined in place."""
    stated = (config or {}).get("task")
    members = stated if isinstance(stated, list) else [stated]
    return [m.get("task") if isinstance(m, Mapping) else m for m in members]


def _plain_yaml(file: Path) -> dict[str, object]:
    """Read a task file of the harness without resolving its functions."""
    return dict(resolve("lm_eval.tasks._yaml_loader:load_yaml")(file, resolve_func=False))


def _entry(file: Path) -> Any:
    """Return the harness's index entry of a file."""
    entry = resolve("lm_eval.tasks._index:TaskIndex.entry_from_path")(file)
    if entry is not None:
        entry.cfg = _plain_yaml(file)
    return entry


def _texts() -> Iterator[tuple[Path, bytes]]:
    # Files that tasks include may end in "yaml" without the dot.
    root = Path(resolve("lm_eval.tasks:__file__")).parent
    for here, _, files in os.walk(root):
        for name in files:
            if name.endswith("yaml"):
                path = Path(here, name)
                yield path, path.read_bytes()


def expand_names(manager: Any, patterns: Sequence[str]) -> list[str]:
    """Expand patterns to names of tasks, groups and tags; keep a pattern without a match."""
    return [
        name for pattern in patterns for name in sorted(manager.match_tasks([pattern])) or [pattern]
    ]


@dataclass(frozen=True)
class Listed:
    """The index entry of a name.

    Attributes
    ----------
    kind : {"task", "group", "tag"}
    config : dict
        The configuration, with functions as text. That of a task class, whose settings are in code,
        has a ``class`` and little else.
    members : tuple
        For a group or tag: names, or configurations that change a named task or define one.
    file : Path or None
    """

    kind: str
    config: dict[str, object]
    members: tuple[Any, ...]
    file: Path | None


def listed(manager: Any, name: str) -> Listed:
    """Look up a task, group, tag or YAML file in an index, without loading it.

    Raises
    ------
    KeyError
        If there is none.
    """
    entry = attribute(manager, _INDEX).get(name) or _entry(Path(name))
    if entry is None:
        raise KeyError(name)
    config, kind = dict(entry.cfg or {}), entry.kind.name.lower().removeprefix("py_")
    members: Any = {"tag": sorted(entry.tags), "group": config.get("task")}.get(kind) or ()
    file = Path(entry.yaml_path) if entry.yaml_path else None
    return Listed(kind, config, (members,) if isinstance(members, str) else tuple(members), file)


def static_configs(manager: Any, name: str) -> dict[str, dict[str, object]]:
    """Return the configurations of the tasks of a name (task, group, tag or file) without loading.

    Raises
    ------
    KeyError
        If there is no such task, group, tag or file.
    """
    one = listed(manager, name)
    if one.kind == "task":
        return {str(one.config.get("task", name)): one.config}
    configs: dict[str, dict[str, object]] = {}
    for member in one.members:
        changes = member if isinstance(member, dict) else {}
        child = str(changes.get("task") or changes.get("group") or member)
        if child in attribute(manager, _INDEX):
            for task, base in static_configs(manager, child).items():
                configs[task] = {**base, **{k: v for k, v in changes.items() if k != "task"}}
        elif isinstance(changes.get("task"), str):
            configs[f"{name}::{child}"] = dict(changes)
        else:  # a group defined inside its parent
            for task in changes.get("task") or []:
                label = task if isinstance(task, str) else str(task.get("task"))
                configs.update(static_configs(manager, label))
    return configs

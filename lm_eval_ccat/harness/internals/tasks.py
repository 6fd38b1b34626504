"""Finding and loading the harness's tasks.

To read all of the harness's own 14,000 task files as YAML takes many seconds; most names are found
by looking through them as text.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...errors import UsageError
from ...plugins import did_you_mean
from .names import attribute, resolve

_INDEX = "task_index|_task_index"
_DEFINED = re.compile(rb"^(task|group)[ \t]*:[ \t]*[\"']?([\w./:+-]+)[\"']?[ \t]*$", re.MULTILINE)


#: What the harness says of a task where it does what it does by default.
_DEFAULTS = (
    "is defined, but aggregation is not",
    "but higher_is_better is not",
    "using preconfigured rule",
)


class _OnceOrNever(logging.Filter):
    """Lets a warning of a shadowed folder of tasks through once, and notes of defaults never.

    The harness says both for every task, the second twice for each metric.
    """

    def __init__(self) -> None:
        super().__init__()
        self._folders: set[str] = set()

    def filter(self, record: logging.LogRecord) -> bool:
        text = str(record.msg)
        if any(default in text for default in _DEFAULTS):
            return False
        if "overrides existing task" not in text or not isinstance(record.args, tuple):
            return True
        name, used = record.args[:2]
        folder = str(Path(str(used)).parent)
        record.msg = "Several folders hold the task %s, or more; what is in %s is used"
        record.args = (name, folder)
        first = not self._folders
        self._folders.add(folder)
        return first


_QUIET = _OnceOrNever()


def hush() -> None:
    """Silence the harness's notes on each task's defaults; a second call changes nothing."""
    for name in ("lm_eval.tasks._index", "lm_eval.api.task"):
        logging.getLogger(name).addFilter(_QUIET)


def load_tasks(
    names: Sequence[Any], include_path: Any = None, metadata: Mapping[str, Any] | None = None
) -> tuple[dict[str, object], dict[str, object]]:
    """Load tasks and groups by the harness's own manager: (tasks, groups) by name."""
    if all(isinstance(name, str) for name in names):
        manager = task_manager(names, include_path, metadata)
    else:
        manager = resolve("lm_eval.tasks:TaskManager")(
            include_path=include_path, metadata=dict(metadata or {})
        )
    return load_from(manager, names)


def load_from(manager: Any, names: Sequence[Any]) -> tuple[dict[str, object], dict[str, object]]:
    """Load tasks and groups by an index of them: (tasks, groups) by name."""
    hush()
    loaded = manager.load(list(names))
    return dict(loaded["tasks"]), dict(loaded["groups"])


def task_manager(
    names: Sequence[Any], include_path: Any = None, metadata: Mapping[str, Any] | None = None
) -> Any:
    """An index of tasks in which names can be found.

    The harness's own task files are left out where each name is a file, a task or group of
    `include_path` (which goes before the harness's own of that name), or a task or group that
    files of the harness define.

    Raises
    ------
    UsageError
        There is no such task, group or tag; with close names.
    """
    hush()
    make, about = resolve("lm_eval.tasks:TaskManager"), dict(metadata or {})
    manager = make(include_path=include_path, include_defaults=False, metadata=about)
    index = attribute(manager, _INDEX)
    missing = [n for n in names if not (_is_whole(index, n) or Path(n).is_file())]
    unknown = [n for n in missing if n not in index and _is_a_name(n)]
    files = _stock_files(unknown, index) if unknown else {}
    if files is None or len(unknown) < len(missing):
        return make(include_path=include_path, metadata=about)
    index.update({name: _entry(file) for name, file in files.items()})
    return manager


def require_tasks(names: Sequence[str], include_path: Any = None) -> None:
    """Refuse names of tasks that neither a folder nor the harness has, with close names.

    Raises
    ------
    UsageError
    """
    index: dict[str, object] = {}
    if include_path:
        make = resolve("lm_eval.tasks:TaskManager")
        hush()
        index = attribute(make(include_path=include_path, include_defaults=False), _INDEX)
    unknown = [n for n in names if n not in index and _is_a_name(n) and not Path(n).exists()]
    if unknown:
        _stock_files(unknown, index)


def _is_whole(index: Mapping[str, Any], name: Any) -> bool:
    """Whether an index holds a task, or a group with all of its members."""
    entry = index.get(name)
    if entry is None or entry.kind.name != "GROUP":
        return entry is not None and entry.kind.name in ("TASK", "PY_TASK")
    return all(isinstance(n, str) and _is_whole(index, n) for n in _members(entry.cfg))


def _is_a_name(text: str) -> bool:
    """Whether it is neither a pattern nor a path."""
    return not any(sign in text for sign in "*?[]/\\") and not text.endswith((".yaml", ".yml"))


def _stock_files(names: Sequence[str], others: Mapping[str, Any]) -> dict[str, Path] | None:
    """The harness's own files of tasks, and of groups with their members, each in one file.

    None where a name may be a tag's, stands in several files, or is that of a group in the index
    `others` some of whose members are not: only the whole index tells.

    Raises
    ------
    UsageError
        A name stands in none of the files; with close names among them and `others`.
    """
    files: dict[str, list[Path]] = {}
    kinds: dict[str, str] = {}
    members = dict.fromkeys(names, False)
    for path, text in _texts():
        for kind, defined in _DEFINED.findall(text):
            files.setdefault(defined.decode(), []).append(path)
            kinds[defined.decode()] = kind.decode()
        for name in names:
            members[name] = members[name] or bool(_listed(name).search(text))
    for name in names:
        if name not in files and not members[name]:
            meant = did_you_mean(name, dict.fromkeys([*others, *files]), listing=False)
            raise UsageError(
                f"cannot load task {name!r}: no task, group or tag has that name{meant} "
                "(`lm_eval ls tasks` lists all, --include_path adds a folder)"
            )
    alone: dict[str, Path] = {}
    wanted = list(names)
    while wanted:
        if (name := wanted.pop()) in alone or _is_whole(others, name):
            continue
        at = [] if name in others else files.get(name, [])
        if len(at) != 1 or at[0].suffix != ".yaml":
            return None
        alone[name] = at[0]
        if kinds[name] == "group":
            inside = _members(_plain_yaml(at[0]))
            if not all(isinstance(member, str) for member in inside):
                return None
            wanted += inside
    return alone


def _members(config: Mapping[str, Any] | None) -> list[Any]:
    """Names of a group's tasks; None for one that is described in place."""
    stated = (config or {}).get("task")
    members = stated if isinstance(stated, list) else [stated]
    return [m.get("task") if isinstance(m, Mapping) else m for m in members]


def _plain_yaml(file: Path) -> dict[str, object]:
    """A file of the harness, its functions left as they are named."""
    return dict(resolve("lm_eval.tasks._yaml_loader:load_yaml")(file, resolve_func=False))


def _entry(file: Path) -> Any:
    """Return the harness's index entry of a file."""
    entry = resolve("lm_eval.tasks._index:TaskIndex.entry_from_path")(file)
    if entry is not None:
        entry.cfg = _plain_yaml(file)
    return entry


def _texts() -> Iterator[tuple[Path, bytes]]:
    # Templates, which tasks include, may lack the dot of the suffix.
    root = Path(resolve("lm_eval.tasks:__file__")).parent
    for here, _, files in os.walk(root):
        for name in files:
            if name.endswith("yaml"):
                path = Path(here, name)
                yield path, path.read_bytes()


def _listed(name: str) -> re.Pattern[bytes]:
    """Return the pattern of a name that is used as a tag, a group's member or a value of a task."""
    quoted = re.escape(name.encode())
    start = rb"(?:[ \t]*-[ \t]*|(?:task|group|tag)[ \t]*:[^\n]*?)"
    return re.compile(rb"^" + start + rb"[\"']?\b" + quoted + rb"[\"']?[ \t]*(?:$|[,\]#])", re.M)


def expand_names(manager: Any, patterns: Sequence[str]) -> list[str]:
    """Names of tasks, groups and tags that patterns match; a pattern without a match stays."""
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
        Functions stand as text. A task class keeps its settings in code: its configuration then has
        a ``class`` and little else.
    members : tuple
        Of a group or tag: names, or configurations that change a named task or stand for one.
    file : Path or None
    """

    kind: str
    config: dict[str, object]
    members: tuple[Any, ...]
    file: Path | None


def listed(manager: Any, name: str) -> Listed:
    """Look up a task, group, tag or YAML file in an index; nothing is loaded.

    Raises
    ------
    KeyError
        There is no such thing.
    """
    entry = attribute(manager, _INDEX).get(name) or _entry(Path(name))
    if entry is None:
        raise KeyError(name)
    config = dict(entry.cfg or {})
    members = config.get("task") or []
    file = Path(entry.yaml_path) if entry.yaml_path else None
    if entry.kind.name == "TAG":
        return Listed("tag", config, tuple(sorted(entry.tags)), file)
    if entry.kind.name == "GROUP":
        return Listed(
            "group", config, tuple([members] if isinstance(members, str) else members), file
        )
    return Listed("task", config, (), file)


def static_configs(manager: Any, name: str) -> dict[str, dict[str, object]]:
    """Configurations of the tasks of a name (task, group, tag or YAML file), without loading them.

    Raises
    ------
    KeyError
        There is no such task, group, tag or file.
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
        else:  # a group written out inside its parent
            for task in changes.get("task") or []:
                label = task if isinstance(task, str) else str(task.get("task"))
                configs.update(static_configs(manager, label))
    return configs

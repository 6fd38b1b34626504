"""Find and load the harness's tasks.

Parsing the harness's 14,000 task files takes 10 s and more. So they are read as text, and only
those are parsed that mention a wanted name, or a name that the wanted ones need.
"""

from __future__ import annotations

import fnmatch
import functools
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from ...errors import UnknownTaskError, UsageError
from ...plugins import did_you_mean
from ...scores.reading import task_of_file
from .names import attribute, hush, resolve

#: Spellings of the index in the harness's `TaskManager` (see `attribute`).
_INDEX = "task_index|_task_index"
#: Special parts of patterns, as in file names.
_WILD = re.compile(r"[*?]|\[.*?\]")
#: Parts of a task file's text: the files that it includes, each of their paths, and the name that
#: it defines.
_INCLUDED = re.compile(r"^include[ \t]*:(.*(?:\n[ \t]*-.*)*)", re.MULTILINE)
_PATH = re.compile(r"[^\s,\"'\[\]]+")
_DEFINED = re.compile(r"^(?:task|group)[ \t]*:[ \t]*[\"']?([\w./:+-]+)", re.MULTILINE)
#: Keys of a file that the harness drops before it makes a task.
_DROPPED = {"group", "tag", "task_list"}
#: Folders in which the harness looks for no tasks.
_IGNORED = {"__pycache__", ".ipynb_checkpoints"}


def load_tasks(manager: Any, names: Sequence[Any]) -> tuple[dict[str, object], dict[str, object]]:
    """Load tasks and groups by an index; return (tasks, groups) by name."""
    loaded = manager.load(list(names))
    return dict(loaded["tasks"]), dict(loaded["groups"])


def task_manager(
    names: Sequence[Any], include_path: Any = None, metadata: Mapping[str, Any] | None = None
) -> Any:
    """Return the harness's index of tasks, with only the tasks of some names and what they need.

    The harness's own index has thousands of tasks, and is slow to make.

    Parameters
    ----------
    names : sequence
        Tasks, groups, tags, patterns or files; also configurations of tasks and groups.
    include_path, metadata
        As in the harness: what a folder defines takes precedence over the harness's own.

    Raises
    ------
    UsageError
        If there is no such task, group or tag, with close names; if two files define a task.
    """
    hush()
    make = resolve("lm_eval.tasks:TaskManager")
    manager = make(include_path=include_path, include_defaults=False, metadata=dict(metadata or {}))
    index = attribute(manager, _INDEX)
    folders = [include_path] if isinstance(include_path, str | Path) else list(include_path or ())
    # The harness takes any YAML file with a key `task` for a task. A configuration of a ranking has
    # that key, too, and would take the place of the task that it names.
    for name in [name for name, entry in index.items() if foreign_key(entry.cfg or {})]:
        del index[name]
        _find_again(name, folders, index)
    for name, entry in _stock_entries(names, index).items():
        index.setdefault(name, entry)
    for name in names:
        file = Path(name) if isinstance(name, str) and name.endswith(".yaml") else None
        if file is not None and file.is_file():
            _require_task(file)
        # A configuration has no name to look up, and a pattern may match nothing here.
        if not isinstance(name, str) or _WILD.search(name):
            continue
        file_of_task(name, folders)  # refuses a name that two files define
        if name not in index and not Path(name).exists():
            raise _unknown(name, folders, index)
    return manager


def _unknown(name: str, folders: Sequence[Any], index: Mapping[str, Any]) -> UnknownTaskError:
    """Return the error of a name that no index has, with close names.

    Raises
    ------
    UsageError
        A file has a task of that name, and a mistake in it hides the task.
    """
    for folder in folders:
        for file in (path for path in _task_files(folder) if task_of_file(path) == name):
            _require_task(file)
    defined = dict.fromkeys(n for text in _texts().values() for n in _DEFINED.findall(text))
    suggestion = did_you_mean(name, {**index, **defined}, listing=False)
    return UnknownTaskError(
        f"cannot load task {name!r}: nothing has that name{suggestion} (all: `lm_eval ls tasks`; "
        "yours: a file or --include_path DIR of `rank`)"
    )


def foreign_key(config: Mapping[str, Any]) -> str:
    """Return the first key that no task has; "" for a task, a group or a class of tasks.

    A configuration of a ranking names a task, too, but has keys of its own, such as ``models``.
    """
    # YAML reads a task that is called 3 as a number; a group lists its tasks.
    if {"class", "group"} & config.keys() or not isinstance(config.get("task"), str | int | float):
        return ""
    return next((key for key in config if key not in {*_task_keys(), *_DROPPED}), "")


def _task_keys() -> list[str]:
    """Return the keys of a task's configuration."""
    return [field.name for field in fields(resolve("lm_eval.config.task:TaskConfig"))]


def defines_task(file: Path, name: str) -> bool:
    """Whether a YAML file defines a task of this name, and no configuration that only names it."""
    try:
        return task_of_file(file) == name and not foreign_key(_plain_yaml(file))
    except Exception:  # what cannot be read defines nothing
        return False


def file_of_task(name: str, folders: Iterable[str | Path]) -> Path | None:
    """Return the file that defines a task in some folders: of the last that has one, if any.

    Raises
    ------
    UsageError
        Two files of a folder define it.
    """
    file: Path | None = None
    for folder in folders:
        file = defining_file(name, _task_files(folder)) or file
    return file


def defining_file(name: str, files: Iterable[Path]) -> Path | None:
    """Return the one of some files that defines a task; None if none does.

    Raises
    ------
    UsageError
        Two files define it.
    """
    defining = [file for file in files if defines_task(file, name)]
    if len(defining) > 1:
        raise UsageError(
            f"two files define task {name}: {defining[0]} and {defining[1]}; rename the task of "
            "one, or name the file in place of the task"
        )
    return defining[0] if defining else None


def is_known(name: str, folders: Sequence[str | Path]) -> bool:
    """Whether some folders, or the harness, have a task, group or tag of this name."""
    with suppress(UsageError):
        return name in attribute(task_manager([name], list(folders)), _INDEX)
    return False


def _require_task(file: Path) -> None:
    """Raise a `UsageError` that names the key by which a file is no task."""
    if key := foreign_key(_plain_yaml(file)):
        # A ranking's configuration lies beside the task that it names, and is easily taken for it.
        if key == "models":
            raise UsageError(
                f"{file} is no task but a configuration of `rank`: its task is named under `task:`"
            )
        suggestion = did_you_mean(key, _task_keys())
        raise UsageError(f"{file} is no task: none has a key `{key}`{suggestion}")


def _task_files(folder: str | Path) -> list[Path]:
    """Return the YAML files of a folder, and of those it links to, in the harness's order."""
    files: list[Path] = []
    visited: set[str] = set()  # a link may lead back
    for place, folders, names in os.walk(folder, followlinks=True):
        # A link may lead back to a folder above.
        if os.path.realpath(place) in visited:
            folders.clear()
            continue
        visited.add(os.path.realpath(place))
        folders[:] = [name for name in folders if name not in _IGNORED]
        files += [Path(place, name) for name in names if name.endswith(".yaml")]
    return sorted(files, key=Path.as_posix)


def _find_again(name: str, folders: Sequence[str | Path], index: dict[str, Any]) -> None:
    """Add the task of a name to an index, where a ranking's configuration had taken its place."""
    add = resolve("lm_eval.tasks._index:TaskIndex.process_cfg")
    for folder in reversed(folders):  # the first that is added stays
        for file in _task_files(folder):
            with suppress(Exception):  # what it cannot read, the harness skips
                config = _plain_yaml(file)
                if name in (config.get("task"), config.get("group")) and not foreign_key(config):
                    add(config, file, index)


def _stock_entries(names: Iterable[Any], ours: Mapping[str, Any]) -> dict[str, Any]:
    """Return the harness's entries of names that are not in `ours`, and of all that these need.

    They equal those of its whole index: every file is read that mentions one of the names.
    """
    stock: dict[str, Any] = {}
    searched: set[str] = set()
    texts: dict[str, str] = {}
    configs: dict[str, dict[str, object]] = {}
    # Each turn finds entries, and these may need more names: members of groups, included tasks.
    while new := _needed(names, {**stock, **ours}) - ours.keys() - searched:
        texts = texts or _texts()
        mentions = [(max(_WILD.split(name), key=len), _mention(name)) for name in new]
        for file, text in texts.items():  # finding a part of the name first is ten times as fast
            if file not in configs and any(
                part in text and pattern.search(text) for part, pattern in mentions
            ):
                with suppress(Exception):  # what it cannot read, the harness skips
                    configs[file] = _plain_yaml(Path(file))
        searched, stock = searched | new, {}
        for file in sorted(configs):  # of two definitions of a name the harness takes the first
            with suppress(ValueError):  # neither a task nor a group
                add = resolve("lm_eval.tasks._index:TaskIndex.process_cfg")
                add(configs[file], Path(file), stock)
    return {name: stock[name] for name in searched if name in stock}


def _mention(name: str) -> re.Pattern[str]:
    """Return the expression that finds a name, or what matches a pattern, as a word of a text."""
    return re.compile(r"(?<!\w)" + ".*".join(map(re.escape, _WILD.split(name))) + r"(?!\w)")


def _needed(names: Iterable[Any], index: Mapping[str, Any]) -> set[str]:
    """Return names with those that match patterns among them, and members of groups and tags."""
    needed: set[str] = set()
    left = [*names]
    while left:
        name = left.pop()
        if isinstance(name, Mapping):
            left += _members(name)
        elif isinstance(name, str) and name and name not in needed:  # every file mentions ""
            entry = index.get(name)
            # A file may define a group whose members stand in the harness's index.
            if entry is None and (name.endswith(".yaml") or Path(name).is_file()):
                with suppress(Exception):  # loading it will say what is wrong with it
                    config = _plain_yaml(Path(name))
                    group = "group" in config or isinstance(config.get("task"), list)
                    left += _members(config) if group else ()  # a task needs no other
                continue
            needed.add(name)
            left += fnmatch.filter(index, name) if _WILD.search(name) else ()
            if entry is not None and entry.kind.name == "TAG":
                left += entry.tags
            elif entry is not None and entry.kind.name == "GROUP":
                left += _members(entry.cfg)
    return needed


def _members(config: Mapping[str, Any]) -> list[Any]:
    """Return the members of a group, or the task that is changed: names, or configurations."""
    members = config.get("task")
    return members if isinstance(members, list) else [members]


def _texts() -> dict[str, str]:
    """Return the harness's task files, each with the text of all that it includes."""
    return _texts_below(Path(resolve("lm_eval.tasks:__file__")).parent)


@functools.lru_cache(maxsize=1)  # 14,000 files, 13 MB
def _texts_below(root: Path) -> dict[str, str]:
    """Read the task files of a folder, each with the text of all that it includes."""

    @functools.cache
    def whole(file: str) -> str:
        with suppress(OSError):
            text = Path(file).read_text("utf-8", "replace")
            includes = _PATH.findall(" ".join(_INCLUDED.findall(text)))
            folder = os.path.dirname(file)
            paths = (os.path.normpath(os.path.join(folder, include)) for include in includes)
            return "\n".join((text, *map(whole, paths)))
        return ""

    files = (os.path.join(folder, name) for folder, _, names in os.walk(root) for name in names)
    return {file: whole(file) for file in files if file.endswith(".yaml")}


def _plain_yaml(file: Path) -> dict[str, object]:
    """Read a task file without resolving its functions."""
    return dict(resolve("lm_eval.tasks._yaml_loader:load_yaml")(file, resolve_func=False))


def _entry(file: Path) -> Any:
    """Return the harness's index entry of a file."""
    entry = resolve("lm_eval.tasks._index:TaskIndex.entry_from_path")(file)
    if entry is not None:
        entry.cfg = _plain_yaml(file)
    return entry


def expand_names(manager: Any, patterns: Sequence[str]) -> list[str]:
    """Expand patterns to names of tasks, groups and tags; keep a pattern without a match."""
    index = attribute(manager, _INDEX)
    return [n for pattern in patterns for n in sorted(fnmatch.filter(index, pattern)) or [pattern]]


@dataclass(frozen=True)
class IndexEntry:
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


def index_entry(manager: Any, name: str) -> IndexEntry:
    """Look up a task, group, tag or YAML file in an index, without loading it.

    Raises
    ------
    UsageError
        If there is none.
    """
    entry = attribute(manager, _INDEX).get(name) or _entry(Path(name))
    if entry is None:
        raise UsageError(
            f"no task, group, tag or file {name!r}; `lm_eval ls tasks` lists them, "
            "--include_path adds a folder"
        )
    config, kind = dict(entry.cfg or {}), entry.kind.name.lower().removeprefix("py_")
    members: Any = {"tag": sorted(entry.tags), "group": config.get("task")}.get(kind) or ()
    file = Path(entry.yaml_path) if entry.yaml_path else None
    return IndexEntry(
        kind, config, (members,) if isinstance(members, str) else tuple(members), file
    )


def static_configs(manager: Any, name: str) -> dict[str, dict[str, object]]:
    """Return the configurations of the tasks of a name (task, group, tag or file) without loading.

    Raises
    ------
    UsageError
        If there is no such task, group, tag or file.
    """
    entry = index_entry(manager, name)
    if entry.kind == "task":
        return {str(entry.config.get("task", name)): entry.config}
    return _configs_of_members(manager, name, entry.members)


def _configs_of_members(
    manager: Any, group: str, members: Iterable[Any]
) -> dict[str, dict[str, object]]:
    """Return the configurations of the tasks of a group's members, by the harness's names of them.

    Raises
    ------
    UsageError
        If a member is only a name, and nothing has that name.
    """
    configs: dict[str, dict[str, object]] = {}
    for member in members:
        changes = member if isinstance(member, dict) else {"task": member}
        child = changes.get("task") or changes.get("group")
        # A group defined inside its parent, which the harness names after both.
        if isinstance(child, list):
            configs |= _configs_of_members(manager, f"{group}::{changes.get('group')}", child)
        # A member may change settings of a task that stands elsewhere.
        elif isinstance(member, str) or child in attribute(manager, _INDEX):
            settings = {key: value for key, value in changes.items() if key != "task"}
            for task, config in static_configs(manager, str(child)).items():
                configs[task] = {**config, **settings}
        # A task defined inside the group. What has no name is known once it is loaded.
        elif "task" in changes:
            configs[f"{group}::{child}"] = dict(changes)
    return configs

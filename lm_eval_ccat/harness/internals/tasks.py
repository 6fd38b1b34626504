"""Finding and loading the harness's tasks, and building their requests."""

from __future__ import annotations

import functools
import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

from ...errors import HarnessError
from .names import resolve
from .stock import stock_entries

_INDEX_LOG = "lm_eval.tasks._index"


def load_tasks(
    names: Sequence[Any], include_path: Any = None, metadata: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Load tasks and groups by the harness's own manager: ``{"tasks": ..., "groups": ...}``."""
    if all(isinstance(name, str) for name in names):
        manager = task_manager(names, include_path, metadata)
    else:
        manager = resolve("lm_eval.tasks:TaskManager")(
            include_path=include_path, metadata=dict(metadata or {})
        )
    return load_from(manager, names)


def load_from(manager: Any, names: Sequence[Any]) -> dict[str, Any]:
    """Load tasks and groups by an index of them: ``{"tasks": ..., "groups": ...}``."""
    return dict(manager.load(list(names)))


def task_manager(
    names: Sequence[Any], include_path: Any = None, metadata: Mapping[str, Any] | None = None
) -> Any:
    """An index of tasks in which names can be found.

    Reading the harness's own 14,000 task files takes many seconds, and is left out where each name
    is a file, a task or group of `include_path` (which goes before the harness's own of that
    name), or a task that one file of the harness defines.

    Raises
    ------
    UsageError
        There is no such task, group or tag.
    """
    make = resolve("lm_eval.tasks:TaskManager")
    with _one_warning_of_copies():
        own = make(include_path=include_path, include_defaults=False, metadata=dict(metadata or {}))
        missing = _missing(own.task_index, names)
        if not missing:
            return own
        unknown = [n for n in missing if n not in own.task_index and _is_a_name(n)]
        found = stock_entries(unknown)
        if found is not None and len(found) == len(missing):
            own.task_index.update(found)
            return own
        return make(include_path=include_path, metadata=dict(metadata or {}))


def _missing(index: Mapping[str, Any], names: Sequence[Any]) -> list[Any]:
    return [name for name in names if not (_is_whole(index, name) or Path(name).is_file())]


def _is_whole(index: Mapping[str, Any], name: Any) -> bool:
    """Whether an index holds a task, or a group with all of its members."""
    entry = index.get(name)
    if entry is None or entry.kind.name != "GROUP":
        return entry is not None and entry.kind.name in ("TASK", "PY_TASK")
    given = (entry.cfg or {}).get("task")
    members = given if isinstance(given, list) else [given]
    names = [m.get("task") if isinstance(m, Mapping) else m for m in members]
    return all(isinstance(n, str) and _is_whole(index, n) for n in names)


def _is_a_name(text: str) -> bool:
    """Whether it is neither a pattern nor a path."""
    return not any(sign in text for sign in "*?[]/\\") and not text.endswith((".yaml", ".yml"))


@contextmanager
def indexing(names: Sequence[str]) -> Iterator[None]:
    """While this lasts, the harness's own command leaves its own task files out where it can."""
    module: Any = import_module("lm_eval.tasks")
    make = module.TaskManager

    def manager(include_path: Any = None, **others: Any) -> Any:
        with _one_warning_of_copies():
            own = make(include_path=include_path, **{**others, "include_defaults": False})
            whole = bool(names) and not _missing(own.task_index, names)
            return own if whole else make(include_path=include_path, **others)

    module.TaskManager = manager
    try:
        yield
    finally:
        module.TaskManager = make


@contextmanager
def _one_warning_of_copies() -> Iterator[None]:
    """Say once, not once per task, that a folder of tasks stands in the way of another."""
    log = logging.getLogger(_INDEX_LOG)
    told: list[str] = []

    def first(record: logging.LogRecord) -> bool:
        if "overrides existing task" not in str(record.msg) or not isinstance(record.args, tuple):
            return True
        name, used = record.args[:2]
        folder = str(Path(str(used)).parent)
        record.msg = "Several folders hold the task %s, or more; what is in %s is used"
        record.args = (name, folder)
        told.append(folder)
        return len(told) == 1

    log.addFilter(first)
    try:
        yield
    finally:
        log.removeFilter(first)


def expand_names(manager: Any, patterns: Sequence[str]) -> list[str]:
    """Names of tasks, groups and tags that patterns match; a pattern without a match stays."""
    return [
        name for pattern in patterns for name in sorted(manager.match_tasks([pattern])) or [pattern]
    ]


def static_configs(manager: Any, name: str) -> dict[str, dict[str, Any]]:
    """Configurations of the tasks of a name (task, group, tag or YAML file), without loading them.

    Functions stand as text. A task class keeps its settings in code: its configuration then has
    a ``class`` and little else.
    """
    entry = manager.task_index.get(name)
    if entry is None:
        from_path = resolve("lm_eval.tasks._index:TaskIndex.entry_from_path")
        entry = from_path(Path(name))
        if entry is None:
            raise KeyError(name)
        load = resolve("lm_eval.tasks._yaml_loader:load_yaml")
        entry.cfg = load(entry.yaml_path, resolve_func=False)
    config = dict(entry.cfg or {})
    if entry.kind.name == "TAG":
        members: Sequence[Any] = sorted(entry.tags)
    elif entry.kind.name == "GROUP":
        members = config.get("task") or []
    else:
        return {str(config.get("task", name)): config}
    found: dict[str, dict[str, Any]] = {}
    for member in [members] if isinstance(members, str) else members:
        changes = member if isinstance(member, dict) else {}
        child = str(changes.get("task") or changes.get("group") or member)
        if child in manager.task_index:
            for task, base in static_configs(manager, child).items():
                found[task] = {**base, **{k: v for k, v in changes.items() if k != "task"}}
        elif isinstance(changes.get("task"), str):
            found[f"{name}::{child}"] = dict(changes)
        else:  # a group written out inside its parent
            inner = changes.get("task") or []
            for task in inner:
                label = task if isinstance(task, str) else str(task.get("task"))
                found.update(static_configs(manager, label))
    return found


def default_metrics(output_type: str) -> list[str]:
    """Metrics of a task whose configuration lists none."""
    return list(resolve("lm_eval.api.registry:DEFAULT_METRIC_REGISTRY").get(output_type, []))


def split_task_dict(task_dict: Mapping[Any, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """(groups, tasks) of what `evaluate` is given, in its new or its old form."""
    if "tasks" in task_dict:
        return dict(task_dict.get("groups") or {}), dict(task_dict["tasks"])
    groups, tasks = resolve("lm_eval.evaluator_utils:_handle_back_comp")(task_dict)
    return dict(groups), dict(tasks)


def build_requests(task: Any, lm: Any, options: Mapping[str, Any]) -> list[Any]:
    """Every request of a task, exactly as a full run of the harness builds them."""
    chat = options.get("apply_chat_template") or False
    task.build_all_requests(
        limit=None,
        samples=None,
        rank=0,
        world_size=1,
        cache_requests=options.get("cache_requests", False),
        rewrite_requests_cache=options.get("rewrite_requests_cache", False),
        system_instruction=options.get("system_instruction"),
        apply_chat_template=bool(chat),
        fewshot_as_multiturn=options.get("fewshot_as_multiturn", False),
        chat_template=template_of(lm) if chat else None,
        tokenizer_name=_tokenizer_name(lm) if chat else "",
    )
    if options.get("write_out"):
        resolve("lm_eval.evaluator_utils:print_writeout|_print_writeout")(task)
    return list(task.instances)


def template_of(lm: Any) -> Any:
    """What turns a conversation into a prompt; a model that cannot is named with the remedy.

    Raises
    ------
    HarnessError
        When it is called, and the model has no chat template.
    """
    own = getattr(lm, "apply_chat_template", None)
    if own is None:
        return None

    @functools.wraps(own)
    def apply(*arguments: Any, **named: Any) -> Any:
        try:
            return own(*arguments, **named)
        except NotImplementedError as error:
            raise HarnessError(
                f"models of type {type(lm).__name__} have no chat template: run without "
                "apply_chat_template, or with a model type that has one"
            ) from error

    return apply


def _tokenizer_name(lm: Any) -> str:
    try:
        return str(getattr(lm, "tokenizer_name", ""))
    except NotImplementedError:  # the harness's cache of requests asks for it, and nothing else
        return type(lm).__name__


def chat_template_text(lm: Any, apply_chat_template: bool | str) -> str | None:
    """The chat template that a run would apply, None without one."""
    if not apply_chat_template:
        return None
    template: str | None = lm.chat_template(apply_chat_template)
    return template

"""What we ask of the harness's tasks: loading, requests, filters, metrics, hashes."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from .names import resolve


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
    return dict(manager.load(list(names)))


def task_manager(
    names: Sequence[Any], include_path: Any = None, metadata: Mapping[str, Any] | None = None
) -> Any:
    """An index of tasks in which names can be found.

    Reading the harness's own 14,000 task files takes seconds, and is left out where each name is
    a file, or a single task of `include_path` (which goes before the harness's own of that name).
    """
    make = resolve("lm_eval.tasks:TaskManager")
    own = make(include_path=include_path, include_defaults=False, metadata=dict(metadata or {}))
    single = {name for name, e in own.task_index.items() if e.kind.name in ("TASK", "PY_TASK")}
    if all(isinstance(n, str) and (n in single or Path(n).is_file()) for n in names):
        return own
    return make(include_path=include_path, metadata=dict(metadata or {}))


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


def missing_metrics(task: Any) -> set[str]:
    """Metrics of a loaded task whose function the harness could not find or load."""
    if scores_by_itself(task):
        return set()
    functions = getattr(task, "_metric_fn_list", {})
    return {name for name, function in functions.items() if function is None}


def scores_by_itself(task: Any) -> bool:
    """Whether a task computes its documents' metrics in code of its own."""
    stock = resolve("lm_eval.api.task:ConfigurableTask").process_results
    own = getattr(type(task), "process_results", None)
    return own is not stock or callable(task.get_config("process_results"))


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
        chat_template=getattr(lm, "apply_chat_template", None) if chat else None,
        tokenizer_name=getattr(lm, "tokenizer_name", "") if chat else "",
    )
    if options.get("write_out"):
        resolve("lm_eval.evaluator_utils:print_writeout")(task)
    return list(task.instances)


def apply_filters(task: Any, instances: Sequence[Any]) -> list[str]:
    """Run each of the task's filter pipelines over some requests; the pipelines' names."""
    for pipeline in task._filters:
        pipeline.apply(instances)
    return [pipeline.name for pipeline in task._filters]


def filter_names(task: Any) -> list[str]:
    """Names of the task's filter pipelines, in their order."""
    return [pipeline.name for pipeline in task._filters]


def metric_names(task: Any) -> list[str]:
    """Metrics the task declares; a metric that reports several names declares only its own."""
    return list(task.aggregation())


def reported_metrics(task: Any) -> list[str] | None:
    """Every metric that a task can report for a document, None where that shows only in a run.

    The stock scoring reports a metric under its own name, unless the metric is a function of
    the user's or of HF `evaluate` that returns several names.
    """
    functions = getattr(task, "_metric_fn_list", None)
    if not functions or scores_by_itself(task):
        return None
    fixed = task.OUTPUT_TYPE in ("loglikelihood", "multiple_choice")
    if not fixed and any(not _of_the_harness(function) for function in functions.values()):
        return None
    return list(functions)


def _of_the_harness(function: Any) -> bool:
    return getattr(function, "__module__", None) == "lm_eval.api.metrics"


def document_hash(document: Any) -> str:
    """The harness's ``doc_hash`` of one document."""
    return hash_text(
        json.dumps(
            document,
            indent=2,
            default=resolve("lm_eval.utils:handle_non_serializable"),
            ensure_ascii=False,
        )
    )


def hash_text(text: str) -> str:
    """The harness's hash of a text (SHA-256, hex)."""
    return str(resolve("lm_eval.utils:hash_string")(text))


def chat_template_text(lm: Any, apply_chat_template: bool | str) -> str | None:
    """The chat template that a run would apply, None without one."""
    if not apply_chat_template:
        return None
    return lm.chat_template(apply_chat_template)

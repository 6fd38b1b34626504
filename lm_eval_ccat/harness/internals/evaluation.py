"""The harness's evaluation: the hook into it, and its command."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

from .names import resolve
from .tasks import hush

Evaluate = Callable[..., Any]


_HOOKS: dict[str, dict[str, Callable[..., Any]]] = {"before": {}, "around": {}, "after": {}}


def hook(
    *,
    before: Callable[[Any], None] | None = None,
    around: Callable[[Evaluate, Mapping[str, Any]], Any] | None = None,
    after: Callable[[Any], None] | None = None,
) -> None:
    """Call functions around every `lm_eval.evaluator.evaluate`; a second call changes nothing.

    `simple_evaluate` looks the name up when it is called, after the tasks are loaded, so what a
    task's own code asks for while it is loaded comes in time.

    Parameters
    ----------
    before : callable, optional
        Is told of the model.
    around : callable, optional
        Takes the harness's function and the arguments of the call by name, and returns the results;
        None where the harness is to evaluate as ever.
    after : callable, optional
        May change the results.
    """
    module: Any = import_module("lm_eval.evaluator")
    for when, one in (("before", before), ("around", around), ("after", after)):
        if one is not None:
            _HOOKS[when][f"{one.__module__}.{one.__qualname__}"] = one
    if hasattr(module.evaluate, "_ccat"):
        return
    stock, version = module.evaluate, module.get_git_commit_hash
    hush()

    @functools.wraps(stock)
    def evaluate(*positional: Any, **named: Any) -> Any:
        bound = inspect.signature(stock).bind(*positional, **named)
        bound.apply_defaults()
        arguments, results = dict(bound.arguments), None
        for tell in _HOOKS["before"].values():
            tell(arguments["lm"])
        for instead in _HOOKS["around"].values():
            results = results or instead(stock, arguments)
        if results is None:
            results = stock(*positional, **named)
        for amend in _HOOKS["after"].values():
            amend(results)
        return results

    def version_here() -> Any:
        here = Path.cwd()
        in_a_repository = any((folder / ".git").exists() for folder in (here, *here.parents))
        return version() if in_a_repository else None

    evaluate._ccat = stock  # type: ignore[attr-defined]
    module.evaluate, module.get_git_commit_hash = evaluate, version_here


def stock_simple_evaluate(**arguments: Any) -> Any:
    """The harness's own `simple_evaluate`."""
    return resolve("lm_eval.evaluator:simple_evaluate")(**arguments)


def split_task_dict(task_dict: Mapping[Any, Any]) -> tuple[dict[str, object], dict[str, object]]:
    """(groups, tasks) of what `evaluate` is given, in its new or its old form."""
    if "tasks" in task_dict:
        return dict(task_dict.get("groups") or {}), dict(task_dict["tasks"])
    groups, tasks = resolve("lm_eval.evaluator_utils:_handle_back_comp")(task_dict)
    return dict(groups), dict(tasks)


# -- the command ----------------------------------------------------------------------------------


def run_command() -> Any:
    """The class of the harness's ``run`` command (its parser and what it executes)."""
    return resolve("lm_eval._cli.run:Run")


def set_up_logging() -> None:
    """Log as the harness's own command does."""
    resolve("lm_eval.utils:setup_logging")()
    hush()


def config_file(path: str) -> dict[str, object]:
    """A YAML file given to the harness's ``--config``."""
    return dict(resolve("lm_eval.config.evaluate_config:EvaluatorConfig").load_yaml_config(path))

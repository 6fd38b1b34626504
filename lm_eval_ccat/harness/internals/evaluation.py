"""The harness's evaluation: the hook into it, and its command."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

from .names import resolve
from .tasks import hush

Evaluate = Callable[..., Any]


# -- the hook -------------------------------------------------------------------------------------

_AROUND: list[Callable[[Evaluate], Evaluate]] = []
_BEFORE: dict[str, Callable[[Any], None]] = {}
_AFTER: dict[str, Callable[[Any], None]] = {}


def hook(
    *,
    around: Callable[[Evaluate], Evaluate] | None = None,
    before: Callable[[Any], None] | None = None,
    after: Callable[[Any], None] | None = None,
) -> None:
    """Call functions around every `lm_eval.evaluator.evaluate`; a second call changes nothing.

    `simple_evaluate` looks the name up when it is called, after the tasks are loaded, so what a
    task's own code asks for while it is loaded comes in time.

    Parameters
    ----------
    around : callable, optional
        Takes the harness's function and returns what stands in its place; one at most.
    before : callable, optional
        Is told of the model.
    after : callable, optional
        May change the results.
    """
    module: Any = import_module("lm_eval.evaluator")
    if not hasattr(module.evaluate, "_ccat"):
        _install(module)
    if around is not None and not _AROUND:
        _AROUND.append(around(module.evaluate._ccat))
    for listeners, one in ((_BEFORE, before), (_AFTER, after)):
        if one is not None:
            listeners[f"{one.__module__}.{one.__qualname__}"] = one


def _install(module: Any) -> None:
    stock = module.evaluate
    hush()

    @functools.wraps(stock)
    def evaluate(*positional: Any, **named: Any) -> Any:
        for tell in _BEFORE.values():
            tell(bind_evaluate(stock, positional, named)["lm"])
        results = (_AROUND[0] if _AROUND else stock)(*positional, **named)
        for amend in _AFTER.values():
            amend(results)
        return results

    evaluate._ccat = stock  # type: ignore[attr-defined]
    module.evaluate = evaluate
    version = module.get_git_commit_hash
    module.get_git_commit_hash = lambda: version() if _in_a_repository() else None


def _in_a_repository() -> bool:
    here = Path.cwd()
    return any((folder / ".git").exists() for folder in (here, *here.parents))


def stock_simple_evaluate(**arguments: Any) -> Any:
    """The harness's own `simple_evaluate`."""
    return resolve("lm_eval.evaluator:simple_evaluate")(**arguments)


def bind_evaluate(
    function: Evaluate, arguments: Iterable[Any], named: Mapping[str, Any]
) -> dict[str, object]:
    """All arguments of a call of `evaluate` by name, defaults included."""
    bound = inspect.signature(function).bind(*arguments, **named)
    bound.apply_defaults()
    return dict(bound.arguments)


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

"""The harness's evaluation and its command line, and the hook into them."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from typing import Any

from .environment import spare_torch
from .names import resolve

Evaluate = Callable[..., Any]


def stock_simple_evaluate(**arguments: Any) -> Any:
    """The harness's own `simple_evaluate`."""
    spare_torch()
    return resolve("lm_eval.evaluator:simple_evaluate")(**arguments)


def install_evaluate(make: Callable[[Evaluate], Evaluate]) -> None:
    """Put a wrapper in the place of `lm_eval.evaluator.evaluate`, once.

    `simple_evaluate` looks the name up when it is called, after the tasks are loaded, so a task
    class whose import installs the wrapper comes in time.
    """
    module: Any = import_module("lm_eval.evaluator")
    if not getattr(module.evaluate, "_ccat", False):
        wrapper = make(module.evaluate)
        wrapper._ccat = True  # type: ignore[attr-defined]
        module.evaluate = wrapper


def watch_evaluate(listen: Callable[[Any], None]) -> None:
    """Have a function told of the model at every call of `lm_eval.evaluator.evaluate`."""
    module: Any = import_module("lm_eval.evaluator")
    inner = module.evaluate
    if listen in getattr(inner, "_ccat_listeners", ()):
        return

    @functools.wraps(inner)
    def evaluate(lm: Any, *arguments: Any, **named: Any) -> Any:
        listen(lm)
        return inner(lm, *arguments, **named)

    evaluate._ccat_listeners = (*getattr(inner, "_ccat_listeners", ()), listen)  # type: ignore[attr-defined]
    module.evaluate = evaluate


def amend_results(amend: Callable[[Any], None]) -> None:
    """Have a function change the results of every call of `lm_eval.evaluator.evaluate`."""
    module: Any = import_module("lm_eval.evaluator")
    inner = module.evaluate
    if amend in getattr(inner, "_ccat_amenders", ()):
        return

    @functools.wraps(inner)
    def evaluate(*arguments: Any, **named: Any) -> Any:
        results = inner(*arguments, **named)
        amend(results)
        return results

    evaluate._ccat_amenders = (*getattr(inner, "_ccat_amenders", ()), amend)  # type: ignore[attr-defined]
    module.evaluate = evaluate


def remember_templates() -> None:
    """Compile each prompt template once; the harness does so for every field of every document.

    What a template renders stays the same. Doing this again changes nothing.
    """
    environment: Any = getattr(import_module("lm_eval.utils"), "env", None)
    if environment is None or hasattr(environment.from_string, "cache_info"):
        return
    environment.from_string = functools.lru_cache(maxsize=512)(environment.from_string)


def bind_evaluate(
    function: Evaluate, arguments: Iterable[Any], named: Mapping[str, Any]
) -> dict[str, Any]:
    """All arguments of a call of `evaluate` by name, defaults included."""
    bound = inspect.signature(function).bind(*arguments, **named)
    bound.apply_defaults()
    return dict(bound.arguments)


def run_command() -> Any:
    """The class of the harness's ``run`` command (its parser and what it executes)."""
    return resolve("lm_eval._cli.run:Run")


def register_model_type(name: str, target: str) -> None:
    """Make a model type known to the harness; the class is imported when it is used."""
    import_module("lm_eval.models")  # registers the harness's own, without loading them
    registry = resolve("lm_eval.api.registry:model_registry")
    if name not in registry:
        registry.register(name, target=target)


def set_up_logging() -> None:
    """Log as the harness's own command does."""
    resolve("lm_eval.utils:setup_logging")()


def config_file(path: str) -> dict[str, Any]:
    """A YAML file given to the harness's ``--config``."""
    return dict(resolve("lm_eval.config.evaluate_config:EvaluatorConfig").load_yaml_config(path))

"""The harness's evaluation: the hook into it, its aggregation, the files it writes, its command."""

from __future__ import annotations

import functools
import inspect
import os
from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

from ...errors import HarnessError
from . import task as theirs
from .names import resolve
from .tasks import hush

Evaluate = Callable[..., Any]


class NotPushed(HarnessError):
    """The results files were written, but pushing them to the hub failed."""


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


# -- aggregation ----------------------------------------------------------------------------------


def collect(
    task: Any,
    values: Mapping[int, Mapping[tuple[str, str], Any]],
    samples: list[Any],
    bootstrap_iters: int | None,
) -> Any:
    """The harness's accumulator (`EvalAcc`) of one task.

    Parameters
    ----------
    task : Task
    values : mapping of doc_id to mapping of (metric, filter) to object
        What is aggregated; none gives no scores.
    samples : list
        The rows that are logged.
    bootstrap_iters : int or None
        As `evaluate` takes it.
    """
    raw: dict[tuple[str, str], list[object]] = {}
    for pipeline in theirs.pipelines(task):
        reduced = {
            doc_id: {metric: v for (metric, name), v in one.items() if name == pipeline.name}
            for doc_id, one in values.items()
        }
        if hasattr(pipeline, "import_reduced"):
            pipeline.import_reduced(reduced)
        for metrics in reduced.values():
            for metric, value in metrics.items():
                raw.setdefault((metric, pipeline.name), []).append(value)
    function = resolve("lm_eval.evaluator_utils:_collect_results|_agg_and_collect")
    acc = {"task": task, "logged_samples": samples, "raw_metrics": raw}
    return function({theirs.task_name(task): acc}, {}, bootstrap_iters)


def aggregate_groups(accumulator: Any) -> None:
    """Add the groups' own scores to an accumulator, as the harness computes them."""
    resolve("lm_eval.evaluator_utils:aggregate_groups|_aggregate_groups")(accumulator)


def new_accumulator() -> Any:
    """An empty `EvalAcc`."""
    return resolve("lm_eval.evaluator_utils:EvalAcc|_EvalAcc")()


def to_results(accumulator: Any, lm: Any, log_samples: bool) -> dict[str, object]:
    """The harness-shaped results of an accumulator."""
    samples = None
    if log_samples:
        samples = accumulator.samples
        if resolve("lm_eval.defaults:LMEVAL_HASHMM") and hasattr(lm, "MULTIMODAL"):
            samples = resolve("lm_eval.utils:hash_dict_images")(samples)
    return dict(accumulator._to_eval_results(samples=samples))


def save_results(
    folder: str,
    name: str,
    results: Mapping[str, Any],
    samples: Mapping[str, Any],
    options: Mapping[str, Any],
    hub: Mapping[str, Any] | None = None,
) -> None:
    """Write a model's results and samples files into ``<folder>/<name>/`` as the harness does.

    Its own tracker pushes them, where ``hub`` (its ``hf_hub_log_args``) asks for that.

    Raises
    ------
    NotPushed
        The files are written and could not be pushed.
    """
    make = resolve("lm_eval.loggers:EvaluationTracker")
    token = {"token": os.environ["HF_TOKEN"]} if os.environ.get("HF_TOKEN") else {}
    trouble: Exception | None = None
    try:
        tracker = make(**{**(hub or {}), "output_path": folder, **token})
    except (OSError, ValueError, TypeError) as error:  # no network, no token, no such argument
        tracker, trouble = make(output_path=folder), error
    tracker.general_config_tracker.log_experiment_args(
        model_source=str(results.get("config", {}).get("model", "")),
        model_args={"model": name},
        system_instruction=options.get("system_instruction"),
        chat_template=None,
        fewshot_as_multiturn=bool(options.get("fewshot_as_multiturn")),
    )
    tracker.save_results_aggregated(results=results, samples=dict(samples))
    for task, rows in samples.items():
        tracker.save_results_samples(task_name=task, samples=rows)
    try:
        if tracker.push_results_to_hub or tracker.push_samples_to_hub:
            tracker.recreate_metadata_card()
    except Exception as error:
        trouble = error
    if trouble is not None:
        raise NotPushed(" ".join(str(trouble).split())[:300]) from trouble


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

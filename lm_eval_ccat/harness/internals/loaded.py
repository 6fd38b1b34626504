"""What is asked of one loaded task: every attribute of the harness's `Task` that is used here."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any

from .names import resolve

#: Seed of few-shot examples where none is given to the harness.
DEFAULT_SEED = 1234


def task_name(task: Any) -> str:
    """The name under which a task reports."""
    return str(task.task_name)


def task_version(task: Any) -> Any:
    """The version a task's YAML or class states."""
    return task.VERSION


def output_type(task: Any) -> str | None:
    """``generate_until``, ``multiple_choice``, ``loglikelihood`` ..."""
    kind = task.OUTPUT_TYPE
    return None if kind is None else str(kind)


def documents(task: Any) -> Any:
    """The documents that are evaluated, by doc_id."""
    return task.eval_docs


def target(task: Any, document: Any) -> Any:
    """A document's reference, as the task gives it."""
    return task.doc_to_target(document)


def score_document(task: Any, document: Any, answers: Sequence[Any]) -> dict[str, Any]:
    """What the task reports for a document with these (filtered) answers."""
    return dict(task.process_results(document, list(answers)))


def task_config(task: Any) -> dict[str, Any]:
    """A task's configuration, as the harness dumps it."""
    return dict(task.dump_config())


def setting(task: Any, key: str) -> Any:
    """One entry of a task's configuration, as it stands there."""
    return task.get_config(key)


def override(task: Any, key: str, value: Any, *, merge: bool = False) -> None:
    """Set an entry of a task's configuration; `merge` changes only the keys given."""
    task.set_config(key=key, value=value, update=merge)


def set_fewshot_seed(task: Any, seed: int) -> None:
    """Seed the drawing of few-shot examples."""
    task.set_fewshot_seed(seed=seed)


def fewshot_seed(task: Any) -> int | None:
    """The harness's own seed of few-shot examples, where the task still stands at it."""
    drawn = getattr(task, "fewshot_rnd", None)
    untouched = random.Random(DEFAULT_SEED).getstate()
    return DEFAULT_SEED if drawn is not None and drawn.getstate() == untouched else None


def draws_fewshot(task: Any) -> bool:
    """Whether a task's few-shot examples are drawn at random, so that their seed matters."""
    if not task.config.num_fewshot:
        return False
    return type(task.sampler) is not resolve("lm_eval.api.samplers:FirstNSampler")


def aggregations(task: Any) -> dict[str, Any]:
    """How the task aggregates each metric it declares."""
    return dict(task.aggregation())


def metric_names(task: Any) -> list[str]:
    """Metrics the task declares; a metric that reports several names declares only its own."""
    return list(aggregations(task))


def directions(task: Any) -> Mapping[str, bool]:
    """Whether higher is better, for each metric the task declares."""
    return dict(task.higher_is_better())


def has_several_targets(task: Any) -> bool:
    """Whether documents have several references, which turns some metrics into 0 and 1."""
    return bool(getattr(task, "multiple_target", 0))


def is_multimodal(thing: Any) -> bool:
    """Whether a task needs, or a model takes, more than text."""
    return bool(getattr(thing, "MULTIMODAL", False))


def runs_written_code(task: Any) -> bool:
    """Whether the task runs code that a model writes."""
    return bool(getattr(task, "UNSAFE_CODE", False))


def missing_metrics(task: Any) -> set[str]:
    """Metrics of a loaded task whose function the harness could not find or load."""
    if scores_by_itself(task):
        return set()
    functions = getattr(task, "_metric_fn_list", {})
    return {name for name, function in functions.items() if function is None}


def scores_by_itself(task: Any) -> bool:
    """Whether a task computes its documents' metrics in code of its own."""
    stock = resolve("lm_eval.api.task:ConfigurableTask|Task").process_results
    own = getattr(type(task), "process_results", None)
    return own is not stock or callable(task.get_config("process_results"))


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


def filter_names(task: Any) -> list[str]:
    """Names of the task's filter pipelines, in their order."""
    return [pipeline.name for pipeline in task._filters]


def apply_filters(task: Any, instances: Sequence[Any]) -> list[str]:
    """Run each of the task's filter pipelines over some requests; the pipelines' names."""
    for pipeline in task._filters:
        pipeline.apply(instances)
    return filter_names(task)

"""The harness's own aggregation, and the files it writes."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from ...errors import HarnessError
from .names import resolve


class NotPushed(HarnessError):
    """Files of results are written and not on the hub."""


def collect(accumulated: Mapping[str, Mapping[str, Any]], bootstrap_iters: int | None) -> Any:
    """The harness's accumulator (`EvalAcc`) of tasks, without groups."""
    function = resolve("lm_eval.evaluator_utils:_collect_results|_agg_and_collect")
    return function(dict(accumulated), {}, bootstrap_iters)


def aggregate_groups(accumulator: Any) -> None:
    """Add the groups' own scores to an accumulator, as the harness computes them."""
    resolve("lm_eval.evaluator_utils:aggregate_groups|_aggregate_groups")(accumulator)


def new_accumulator() -> Any:
    """An empty `EvalAcc`."""
    return resolve("lm_eval.evaluator_utils:EvalAcc|_EvalAcc")()


def to_results(accumulator: Any, lm: Any, log_samples: bool) -> dict[str, Any]:
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
    results: dict[str, Any],
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
    trouble: Exception | None = None
    try:
        token = os.environ.get("HF_TOKEN")
        tracker = make(
            **{**(hub or {}), "output_path": folder, **({"token": token} if token else {})}
        )
    except (OSError, ValueError, TypeError) as error:  # no network, no token, no such argument
        tracker, trouble = make(output_path=folder), error
    general = tracker.general_config_tracker
    general.log_experiment_args(
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

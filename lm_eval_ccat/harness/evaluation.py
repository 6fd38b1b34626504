"""Results of an evaluation of the harness whose documents are chosen one by one.

The results never pass an estimate off as a full score. If every document was run, the harness's own
aggregation computes the values. Otherwise the mean of the chosen documents, which would be biased,
is not formed: the metric's key holds the estimate and its standard error, the ``adaptive`` block
names the task's other metrics, which are left out, ``n-samples`` shows fewer effective than
original documents, and the task's printed name says that the score is an estimate.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from ..bank.outcome import Outcome
from ..errors import HarnessError
from ..money import ASSUMED, BILLED, columns_in_words
from ..ranker import Ranking
from ..ranker.headline import held
from . import internals
from .outcomes import score_of
from .scorers import add_scorers, signed
from .session import Administered, TaskSession, refuse_unsafe

#: Results in the harness's format.
Results = dict[str, Any]


class NotPushed(HarnessError):
    """The results files were written, but pushing them to the hub failed."""


@dataclass(frozen=True)
class TaskRun:
    """One model's scored documents of one task, and the ranking based on them.

    Parameters
    ----------
    session : TaskSession
    outcome : Outcome
    administered : dict of doc_id to Administered
        Documents in the order of asking.
    name : str
        The model's name in the ranking.
    ranking : Ranking
        The ranking by this task and outcome.
    money : dict of str to float, or None
        Dollars billed, assumed and unknown, if a price is known.
    seconds : float
    warnings : tuple of str
        Differences between the bank and the task.
    beside : tuple of TaskRun
        The same answers for each further outcome.
    covariances : dict of str to (dict of str to float)
        Covariances of its error, on [0, 1], with those of other tasks, by group of the ranking (""
        for all of its tasks); empty if the errors are independent.
    """

    session: TaskSession
    outcome: Outcome
    administered: Mapping[int, Administered]
    name: str
    ranking: Ranking
    money: Mapping[str, float] | None
    seconds: float
    warnings: tuple[str, ...] = ()
    beside: tuple[TaskRun, ...] = ()
    covariances: Mapping[str, Mapping[str, float]] = field(default_factory=dict)

    @property
    def usd(self) -> float | None:
        """Dollars billed or assumed."""
        return None if self.money is None else self.money[BILLED] + self.money[ASSUMED]

    @property
    def complete(self) -> bool:
        """Whether every document of the task was run."""
        return len(self.administered) == len(self.session.doc_ids)

    @property
    def key(self) -> str:
        """Key of the estimate in the task's results."""
        return self.outcome.results_key

    @property
    def scorer(self) -> Mapping[str, Any] | None:
        """The scorer behind the metric, if the metric's name alone does not identify it."""
        return self.session.scorer(self.outcome.metric.name)

    @cached_property
    def estimate(self) -> tuple[float, float]:
        """Estimate and standard error on the metric's own scale; exact if all was run."""
        scale, name = self.outcome.scale, self.name
        if self.complete:
            scored = [s for a in self.administered.values() if (s := score_of(self.outcome, a))]
            return float(scale.restore(np.mean([score for _, score in scored]))), 0.0
        return (
            float(scale.restore(self.ranking.estimates[name])),
            float(scale.restore_error(self.ranking.standard_errors[name])),
        )


def assemble(
    lm: Any,
    order: Iterable[str],
    groups: Mapping[str, Any],
    ordinary: Mapping[str, Any] | None,
    runs: Mapping[str, TaskRun],
    *,
    bootstrap_iters: int | None,
    log_samples: bool,
) -> Results:
    """Assemble the results of adaptive and ordinary tasks.

    Parameters
    ----------
    lm : LM
    order : iterable of str
        All tasks, in the harness's order.
    groups : mapping of str to Group
    ordinary : mapping or None
        The harness's results of the tasks that are not adaptive, without groups.
    runs : mapping of str to TaskRun
        The finished adaptive runs.
    bootstrap_iters, log_samples
        As in the harness's `evaluate`.

    Returns
    -------
    dict
        As from `evaluate`, with ``adaptive: {task: block}`` added.
    """
    accumulated = {name: _answers_of(run) for name, run in runs.items()}
    collect = internals.resolve("lm_eval.evaluator_utils:_collect_results|_agg_and_collect")
    everything = collect(accumulated, dict(groups), bootstrap_iters)
    for part, key in _PARTS.items():
        whole = {**(ordinary or {}).get(key, {}), **getattr(everything, part)}
        setattr(everything, part, {name: whole[name] for name in order if name in whole})
    partial = {name: run for name, run in runs.items() if not run.complete}
    for name, run in runs.items():
        _correct_task(everything, name, run)
    internals.resolve("lm_eval.evaluator_utils:aggregate_groups|_aggregate_groups")(everything)
    for name, run in partial.items():
        # Groups have weighed the task by all its documents; its results state those that were run.
        everything.metrics[name]["sample_len"] = len(run.administered)
    blocks = {name: describe(run) for name, run in runs.items()}
    for group in groups.values():
        block = _correct_group(everything.metrics, group, partial)
        if block is not None:
            blocks[group.name] = block
    samples = everything.samples if log_samples else None
    if samples and internals.resolve("lm_eval.defaults:LMEVAL_HASHMM"):
        if hasattr(lm, "MULTIMODAL"):
            samples = internals.resolve("lm_eval.utils:hash_dict_images")(samples)
    return {**everything._to_eval_results(samples=samples), "adaptive": blocks}


def describe(run: TaskRun) -> dict[str, object]:
    """Return the ``adaptive`` block of one task, with figures on the metric's own scale."""
    ranking, name = run.ranking, run.name
    n = len(run.administered)
    ability, ability_se = ranking.abilities[name]
    by_draws: Mapping[str, Any] = {}  # from the documents drawn at random
    if not run.complete:
        ranking = replace(ranking, scale=run.outcome.scale)
        by_draws = ranking.content_of(ranking.row(name))
    return {
        **_estimated(run),
        **({"outcomes": [_estimated(one) for one in (run, *run.beside)]} if run.beside else {}),
        "confidence": ranking.confidence,
        "items": n,
        "items_total": len(run.session.doc_ids),
        "stopped_because": ("every document was run" if run.complete else ranking.stopped_because),
        "method": run.outcome.bank.method,
        "bank": run.outcome.bank.short_hash,
        "ability": ability,
        "ability_standard_error": ability_se,
        "sample": by_draws.get("sample") or None,
        "audit": by_draws.get("audit") or None,
        "place": ranking.places.get(name),
        "cost": {"items": n, "usd": run.usd, "money": run.money and dict(run.money)},
        "seconds": round(run.seconds, 3),
        "not_estimated": [] if run.complete else _left_out(run),
        "warnings": list(run.warnings),
        "documents": list(run.administered),
        "scorer": run.scorer,
        "signature": signed(
            ranking.signature, run.session.name, run.scorer, internals.harness_version()
        ),
    }


def _estimated(run: TaskRun) -> dict[str, object]:
    """Return the block of one estimated outcome, on the metric's own scale."""
    metric, scale = run.outcome.metric, run.outcome.scale
    estimate, se = run.estimate
    low, high = run.ranking.interval(run.name)
    if run.complete:
        low = high = float(scale.normalise(estimate))
    return {
        "estimand": estimand(run),
        "metric": metric.name,
        "filter": run.outcome.filter,
        "key": run.key,
        "scale": scale.describe(),
        "estimate": estimate,
        "standard_error": se,
        "interval": sorted(float(scale.restore(v)) for v in (low, high)),
        "looks": None if run.complete else run.ranking.looks,
    }


def estimand(run: TaskRun) -> str:
    """Say in words what the number estimates."""
    what, name = run.outcome.metric.in_words, run.session.name
    known, total = run.outcome.bank.n_items, len(run.session.doc_ids)
    if run.complete:
        return f"{what} over all {total} documents of {name}, every one of them run"
    which = (
        f"all {total} documents" if known == total else f"the bank's {known} of {total} documents"
    )
    return f"estimate of the {what} over {which} of {name}, from {len(run.administered)} of them"


def in_words(block: Mapping[str, Any], task: str) -> str:
    """Describe in words what was estimated, how precisely, and from how many documents."""
    if "scores" in block:
        scores = ", ".join(
            f"{key} = {one['estimate']:.4g} ± {one['standard_error']:.2g}"
            for key, one in block["scores"].items()
        )
        shown = f"{scores}, " if scores else ""
        return (
            f"{task}: {shown}{block['items']} of {block['items_total']} documents of "
            f"{len(block['tasks'])} tasks\n  {block['estimand']}"
        )
    estimates = []
    for one in block.get("outcomes") or [block]:
        low, high = one["interval"]
        estimates.append(
            f"{one['key']} = {one['estimate']:.4g} ± {one['standard_error']:.2g} "
            f"({100 * block['confidence']:g}% interval {low:.4g} to {high:.4g})"
        )
    lines = [held(block.get("looks"), block["confidence"]), block["estimand"], block["signature"]]
    money = block.get("cost", {}).get("money")
    lines += columns_in_words(money) if money else ()
    return (
        f"{task}: {'; '.join(estimates)}, "
        f"{block['items']} of {block['items_total']} documents; {block['stopped_because']}."
        + "".join(f"\n  {line}" for line in lines if line)
    )


# -- one task -------------------------------------------------------------------------------------


def _answers_of(run: TaskRun) -> dict[str, object]:
    """Return what the harness accumulates for one task; without values if only a part was run."""
    session = run.session
    answers = [run.administered[d] for d in sorted(run.administered)]
    raw: dict[tuple[str, str], list[object]] = {}
    for pipeline in internals.pipelines(session.task):
        filter = pipeline.name
        reduced = {
            answer.doc_id: {metric: v for (metric, of), v in answer.values.items() if of == filter}
            for answer in answers
            if run.complete
        }
        if hasattr(pipeline, "import_reduced"):
            pipeline.import_reduced(reduced)
        for metrics in reduced.values():
            for metric, value in metrics.items():
                raw.setdefault((metric, filter), []).append(value)
    samples = [answer.samples[flt] for flt in session.filters for answer in answers]
    return {"task": session.task, "logged_samples": samples, "raw_metrics": raw}


def _correct_task(everything: Any, name: str, run: TaskRun) -> None:
    """Put a task's estimates into the harness's accumulator, sized as a full run for its groups."""
    values, n, total = everything.metrics[name], len(run.administered), len(run.session.doc_ids)
    if not run.complete:
        values["alias"] = f"{values['alias']} (adaptive estimate, {n} of {total} docs)"
        values["sample_len"] = total
        everything.n_samples[name]["effective"] = n
        # Only this value tells loggers of plain numbers that the others are estimates.
        values[f"adaptive_items,{run.outcome.filter}"] = n
    directions = dict(everything.higher_is_better[name])
    for one in (run, *run.beside):
        if not run.complete or one.key not in values:
            label = one.outcome.metric.label
            values[one.key], values[f"{label}_stderr,{one.outcome.filter}"] = one.estimate
            directions.setdefault(label, one.outcome.scale.higher_is_better)
    everything.higher_is_better[name] = directions


def _left_out(run: TaskRun) -> list[str]:
    """Return the keys of the task's other metrics, which have no estimate."""
    reported = {pair: None for answer in run.administered.values() for pair in answer.values}
    keys = [f"{metric},{flt}" for metric, flt in reported]
    return [key for key in keys if key not in {one.key for one in (run, *run.beside)}]


# -- together -------------------------------------------------------------------------------------


#: Parts of the harness's accumulator, and their keys in its results.
_PARTS = {
    "metrics": "results", "configs": "configs", "versions": "versions", "num_fewshot": "n-shot",
    "higher_is_better": "higher_is_better", "n_samples": "n-samples", "samples": "samples",
}  # fmt: skip


def _correct_group(
    metrics: Any, group: Any, partial: Mapping[str, TaskRun]
) -> dict[str, object] | None:
    """Correct the scores of a group with estimated tasks; return its ``adaptive`` block.

    The harness would average over those tasks that have a metric, and pool standard errors of
    another kind. Here a score is kept only if every task has it, and its standard error is that of
    the estimates: tasks that were run in full add none.
    """
    tasks = [internals.task_name(task) for task in group.get_all_tasks()]
    estimated = [name for name in tasks if name in partial]
    if not estimated or not group.has_aggregation:
        return None
    values = metrics[group.name]
    sizes = {
        name: len(partial[name].session.doc_ids) if name in partial else metrics[name]["sample_len"]
        for name in tasks
    }
    run_in_all = sum(metrics[name]["sample_len"] for name in tasks)
    scores: dict[str, dict[str, object]] = {}
    dropped = []
    for config in group.aggregate_metric_list:
        # A task run in part may lack a metric that a full run of it would report.
        filters = config.filter_list or _filters_of(config.metric, partial, metrics, tasks)
        for flt in filters:
            key, stderr = f"{config.metric},{flt}", f"{config.metric}_stderr,{flt}"
            if not all(key in metrics[name] for name in tasks):
                dropped.append(key)
                values.pop(key, None)
                values.pop(stderr, None)
                values.get("sample_count", {}).pop(key, None)
                continue
            size = sizes if config.weight_by_size else dict.fromkeys(tasks, 1)
            weights = {name: size[name] / sum(size.values()) for name in tasks}
            variance = sum((weights[n] * metrics[n][stderr]) ** 2 for n in estimated) + sum(
                weights[a] * weights[b] * _shared(partial[a], partial[b], group.name, key)
                for a in estimated
                for b in estimated
            )
            values[stderr] = math.sqrt(max(variance, 0.0))
            scores[key] = {
                "estimate": values[key], "standard_error": values[stderr], "weights": weights,
            }  # fmt: skip
    values["alias"] = f"{values['alias']} (adaptive estimate, {run_in_all} docs run)"
    values["sample_len"] = run_in_all
    if "sample_count" in values:
        values["sample_count"] = {key: run_in_all for key in values["sample_count"]}
    return {
        "estimand": (
            f"estimate of the score of group {group.name} over all documents of its "
            f"{len(tasks)} tasks, of which {len(estimated)} were run in part; its standard error "
            "is that of the estimates alone"
        ),
        "estimated": list(scores),
        "scores": scores,
        "not_estimated": dropped,
        "tasks": estimated,
        "items": run_in_all,
        "items_total": sum(sizes.values()),
    }


def _shared(one: TaskRun, other: TaskRun, group: str, key: str) -> float:
    """Return the covariance of two tasks' errors in a group, on the metric's own scale."""
    of_group = one.covariances.get(group, one.covariances.get("", {}))
    covariance = of_group.get(other.session.name, 0.0)
    if not covariance or not one.key == other.key == key:
        return 0.0
    spans = (run.outcome.scale.restore_error(1.0) for run in (one, other))
    return float(covariance * math.prod(map(float, spans)))


def _filters_of(
    metric: str, partial: Mapping[str, TaskRun], metrics: Mapping[str, Any], tasks: list[str]
) -> list[str]:
    """Return the filters under which a full run of the tasks would report a metric."""
    filters: dict[str, None] = {}
    for name in tasks:
        keys = [*metrics[name], *(_left_out(partial[name]) if name in partial else ())]
        filters.update({k.partition(",")[2]: None for k in keys if k.partition(",")[0] == metric})
    return sorted(filters)


def save_model(
    folder: Path,
    name: str,
    runs: Mapping[str, TaskRun],
    groups: Mapping[str, Any],
    model: str,
    model_args: Mapping[str, Any],
    hub: Mapping[str, Any],
    bootstrap_iters: int | None = None,
) -> None:
    """Write ``<folder>/<name>/results_<date>.json`` and ``samples_<task>_<date>.jsonl``.

    Several tasks share one results file, with groups as the harness reports them.

    Parameters
    ----------
    folder : Path
        The run directory.
    name : str
        The model's name in the ranking.
    runs : mapping of str to TaskRun
        By task; at least one.
    groups : mapping of str to Group
        The harness's groups of these tasks.
    model, model_args
        Type and (masked) arguments for the ``config`` block.
    hub : mapping
        The harness's ``hf_hub_log_args``; without them nothing leaves the machine.
    bootstrap_iters : int, optional
        For the standard errors of a complete run, as in `evaluate`.
    """
    session = next(iter(runs.values())).session
    results = assemble(
        session.lm,
        list(runs),
        groups,
        None,
        runs,
        bootstrap_iters=bootstrap_iters,
        log_samples=True,
    )
    results["config"] = {"model": model, "model_args": dict(model_args), "limit": None}
    add_scorers(results)
    samples = results.pop("samples")
    save_results(str(folder), name, results, samples, session.options, hub)


def save_results(
    folder: str,
    name: str,
    results: Mapping[str, Any],
    samples: Mapping[str, Any],
    options: Mapping[str, Any],
    hub: Mapping[str, Any] | None = None,
) -> None:
    """Write a model's results and samples files into ``<folder>/<name>/`` as the harness does.

    The harness's tracker pushes them if ``hub`` (its ``hf_hub_log_args``) asks for that.

    Raises
    ------
    NotPushed
        If the files were written but could not be pushed.
    """
    make = internals.resolve("lm_eval.loggers:EvaluationTracker")
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


# -- one call ------------------------------------------------------------------------------------

#: Arguments of the harness's `evaluate` that a session takes.
_HOW = (
    "system_instruction apply_chat_template fewshot_as_multiturn cache_requests "
    "rewrite_requests_cache write_out"
).split()


@dataclass
class Evaluation:
    """One call of the harness's `evaluate`: a model, its tasks, and the options of the call.

    Parameters
    ----------
    stock : callable
        The harness's own `evaluate`.
    arguments : mapping
        Arguments of the call by name, defaults included.

    Attributes
    ----------
    lm : LM
    tasks : dict of str to Task
    groups : dict of str to Group
    sessions : dict of str to TaskSession
        Sessions of the tasks that were opened.
    """

    stock: Callable[..., Any]
    arguments: Mapping[str, Any]
    sessions: dict[str, TaskSession] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.lm = self.arguments["lm"]
        task_dict = self.arguments["task_dict"]
        if "tasks" in task_dict:
            self.groups, self.tasks = dict(task_dict.get("groups") or {}), dict(task_dict["tasks"])
        else:  # its old form
            read = internals.resolve("lm_eval.evaluator_utils:_handle_back_comp")
            self.groups, self.tasks = map(dict, read(task_dict))

    def open(self, name: str, count_tokens: bool = False) -> TaskSession:
        """Bind a task to the model with this call's options; the harness then does not run it.

        Raises
        ------
        HarnessError
            If the task or the model cannot be used document by document.
        """
        task = self.tasks[name]
        refuse_unsafe(task, self.arguments["confirm_run_unsafe_code"])
        options = {key: self.arguments[key] for key in _HOW}
        self.sessions[name] = TaskSession(task, self.lm, options, count_tokens=count_tokens)
        return self.sessions[name]

    def results(self, runs: Mapping[str, TaskRun]) -> Results:
        """Let the harness run the other tasks; return its results with the estimates of these.

        Parameters
        ----------
        runs : mapping of str to TaskRun
            Runs of all tasks that were opened.
        """
        rest = {name: task for name, task in self.tasks.items() if name not in self.sessions}
        ordinary = None
        if rest:
            others = {"task_dict": {"tasks": rest, "groups": {}}}
            ordinary = self.stock(**{**self.arguments, **others})
        return assemble(
            self.lm,
            self.tasks,
            self.groups,
            ordinary,
            runs,
            bootstrap_iters=self.arguments["bootstrap_iters"],
            log_samples=self.arguments["log_samples"],
        )


def install(evaluate: Callable[[Evaluation], Mapping[str, object] | None]) -> None:
    """Route the harness's evaluations through a function; a second call changes nothing.

    Parameters
    ----------
    evaluate : callable
        Returns an evaluation's results, or None if the harness is to run it as usual.
    """
    internals.require_supported_version()

    def around(stock: Callable[..., Any], arguments: Mapping[str, Any]) -> Any:
        return evaluate(Evaluation(stock, arguments))

    internals.hook("around", around)

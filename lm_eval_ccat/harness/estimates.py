"""Estimates in results of the harness's form, for tasks and groups that were run in part.

A part's mean, which would be biased, is never formed: the metric's key holds the estimate and its
standard error, the ``adaptive`` block names the task's other metrics, which are left out,
``n-samples`` shows fewer effective than original documents, and the task's printed name says that
the score is an estimate. An outcome is a metric under one filter.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from ..bank.outcome import Outcome
from ..errors import MetricError
from ..methods.belief import POPULATION
from ..money import ASSUMED, BILLED, Tokens, columns_in_words
from ..ranker import Ranking
from ..ranker.headline import failures_in_words, intervals_hold
from ..records import Answered
from ..shown import exact_percent
from . import internals
from .scorers import signed
from .session import Administered, TaskSession
from .task_metrics import score_of


class ScoreEstimate(NamedTuple):
    """A score and its standard error, both on the metric's own scale."""

    score: float
    error: float


@dataclass(frozen=True)
class TaskRun:
    """One model's scored documents of one task, and the ranking based on them.

    Parameters
    ----------
    session : TaskSession
    outcome : Outcome
    administered : dict of doc_id to Administered
        First answers to the documents, in the order of asking.
    name : str
        The model's name in the ranking.
    ranking : Ranking
        The ranking by this task and outcome, on the outcome's own scale.
    money : dict of str to float, or None
        Dollars billed, assumed and unknown, if a price is known.
    seconds : float
    warnings : tuple of str
        Differences between the bank and the task.
    further : tuple of TaskRun
        The same answers for each further outcome.
    covariances : dict of str to (dict of str to float)
        Covariances of its error, on [0, 1], with those of other tasks, by group of the ranking (""
        for all of its tasks); empty if the errors are independent.
    repeated : tuple of Answered
        Further answers to the documents, from the second on.
    """

    session: TaskSession
    outcome: Outcome
    administered: Mapping[int, Administered]
    name: str
    ranking: Ranking
    money: Mapping[str, float] | None
    seconds: float
    warnings: tuple[str, ...] = ()
    further: tuple[TaskRun, ...] = ()
    covariances: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    repeated: tuple[Answered, ...] = ()

    @property
    def n_answers(self) -> int:
        """Answers to the documents, repeats included."""
        return len(self.administered) + len(self.repeated)

    @property
    def tokens(self) -> float:
        """Tokens read and written, as far as they were counted."""
        first = [answer.tokens for answer in self.administered.values()]
        counts: tuple[Tokens | None, ...] = (*first, *(answer.tokens for answer in self.repeated))
        return sum(tokens.total for tokens in counts if tokens)

    @property
    def answers_in_full(self) -> int | None:
        """Answers to all documents with all repeats; None where each is asked once."""
        once = self.ranking.n_answers <= self.ranking.n_items
        return None if once else self.ranking.n_answers

    @property
    def usd(self) -> float | None:
        """Dollars billed or assumed."""
        return None if self.money is None else self.money[BILLED] + self.money[ASSUMED]

    @property
    def complete(self) -> bool:
        """Whether every document of the task was run, and is asked only once."""
        once = self.answers_in_full is None
        return once and len(self.administered) == len(self.session.doc_ids)

    @property
    def key(self) -> str:
        """Key of the estimate in the task's results."""
        return self.outcome.results_key

    @cached_property
    def estimate(self) -> ScoreEstimate:
        """The estimate on the metric's own scale; exact if all was run."""
        scale, name = self.outcome.scale, self.name
        if self.complete:
            scored = []
            for answer in self.administered.values():
                with suppress(MetricError):  # the answer counts for the other outcomes
                    if (pair := score_of(self.outcome, answer)) is not None:
                        scored.append(pair.score)
            return ScoreEstimate(float(scale.restore(np.mean(scored))), 0.0)
        return ScoreEstimate(
            float(scale.restore(self.ranking.estimates[name])),
            float(scale.restore_error(self.ranking.standard_errors[name])),
        )


def describe(run: TaskRun) -> dict[str, object]:
    """Return the ``adaptive`` block of one task, with figures on the metric's own scale."""
    ranking, name, in_full = run.ranking, run.name, run.answers_in_full
    ability, ability_se = ranking.abilities[name]
    scorer = run.session.scorer(run.outcome.metric.name)
    row = ranking.row(name)
    return {
        **_estimated(run),
        **({"outcomes": list(map(_estimated, (run, *run.further)))} if run.further else {}),
        "confidence": ranking.confidence,
        "items": len(run.administered),
        "items_total": len(run.session.doc_ids),
        **({} if in_full is None else {"answers": run.n_answers, "answers_total": in_full}),
        "stopped_because": _why(run),
        "set_aside": ranking.set_aside.get(name),
        "method": run.outcome.bank.method,
        "bank": run.outcome.bank.short_hash,
        "ability": ability,
        "ability_standard_error": ability_se,
        # Documents drawn at random, and what is odd about them, say something of the others only.
        "sample": None if run.complete else ranking.sample_of(row),
        "findings": [] if run.complete else row.findings,
        "failed": row.failures,
        "place": ranking.places.get(name),
        "cost": {"items": run.n_answers, "usd": run.usd, "money": run.money and dict(run.money)},
        "seconds": round(run.seconds, 3),
        "not_estimated": [] if run.complete else left_out(run),
        "warnings": list(run.warnings),
        "documents": list(run.administered),
        "scorer": scorer,
        "signature": signed(
            ranking.signature,
            run.session.name,
            scorer,
            internals.harness_version(),
            [run.session.asking],
        ),
    }


def _why(run: TaskRun) -> str:
    """Return why the run ended: why its one model was set aside, if it was."""
    if run.complete:
        return "every document was run"
    if (reason := run.ranking.set_aside.get(run.name)) is not None:
        return f"the model was set aside: {reason}"
    return run.ranking.stopped_because


def _estimated(run: TaskRun) -> dict[str, object]:
    """Return the block of one estimated outcome, on the metric's own scale.

    Without a document there is no estimate: what was believed before is none.
    """
    metric, scale = run.outcome.metric, run.outcome.scale
    if not run.administered:
        return {"estimand": estimand(run), "metric": metric.name, "filter": run.outcome.filter}
    estimate, se = run.estimate
    low, high = run.ranking.interval(run.name)
    # The mean of all documents is known, unless the expected score of sampled answers is meant.
    if run.complete and not run.ranking.expected:
        low = high = float(scale.normalise(estimate))
    return {
        "estimand": estimand(run),
        "metric": metric.name,
        "filter": run.outcome.filter,
        "key": run.key,
        "scale": scale.to_dict(),
        "question": run.ranking.question,
        "sampled": run.ranking.sampled,
        "estimate": estimate,
        "standard_error": se,
        "interval": sorted(float(scale.restore(end)) for end in (low, high)),
        "looks": None if run.complete else run.ranking.looks,
    }


def estimand(run: TaskRun) -> str:
    """Say in words what the number estimates."""
    what, name = run.outcome.metric.in_words, run.session.name
    if not run.administered:
        return f"no estimate of the {what} of {name}: none of its documents was run"
    known, total = run.outcome.bank.n_items, len(run.session.doc_ids)
    if run.complete:
        return f"{what} over all {total} documents of {name}, every one of them run"
    which = (
        f"all {total} documents" if known == total else f"the bank's {known} of {total} documents"
    )
    if run.ranking.question == POPULATION:
        these = "these" if known == total else "the bank's"
        which = f"documents like {these} {known}"
    if run.ranking.expected:
        what = f"expected {what} as configured"
    source = f"{len(run.administered)} of them"
    if run.answers_in_full is not None:
        source = f"{run.n_answers:,} answers to {source}"
    return f"estimate of the {what} over {which} of {name}, from {source}"


def in_words(block: Mapping[str, Any], task: str) -> str:
    """Describe in words what was estimated, how precisely, and from how many documents."""
    if "scores" in block:
        return _group_in_words(block, task)
    estimates = ["no estimate"]
    if block["items"]:
        estimated = block.get("outcomes") or [block]
        estimates = [_estimate_in_words(estimate, block["confidence"]) for estimate in estimated]
    documents = f"{block['items']} of {block['items_total']} documents"
    if "answers" in block:
        documents += f", {block['answers']:,} of {block['answers_total']:,} answers"
    lines = [intervals_hold(block.get("looks"), block["confidence"])]
    if failed := block["failed"]:
        lines.append(f"the model {failures_in_words(failed, 'answers' in block)}")
    lines += [f"the model {finding}" for finding in block["findings"]]
    lines += [block["estimand"], block["signature"]]
    money = block.get("cost", {}).get("money")
    lines += columns_in_words(money) if money else ()
    return f"{task}: {'; '.join(estimates)}, {documents}; {block['stopped_because']}." + "".join(
        f"\n  {line}" for line in lines if line
    )


def _group_in_words(block: Mapping[str, Any], group: str) -> str:
    """Describe the scores of a group of tasks in words; see `in_words`."""
    parts = [_score_in_words(key, estimate) for key, estimate in block["scores"].items()]
    documents = (
        f"{block['items']} of {block['items_total']} documents of {len(block['tasks'])} tasks"
    )
    return f"{group}: {', '.join([*parts, documents])}\n  {block['estimand']}"


def _estimate_in_words(estimate: Mapping[str, Any], confidence: float) -> str:
    low, high = estimate["interval"]
    interval = f"{exact_percent(confidence)} interval {low:.4g} to {high:.4g}"
    return f"{_score_in_words(estimate['key'], estimate)} ({interval})"


def _score_in_words(key: str, estimate: Mapping[str, Any]) -> str:
    return f"{key} = {estimate['estimate']:.4g} ± {estimate['standard_error']:.2g}"


def left_out(run: TaskRun) -> list[str]:
    """Return the keys of the task's other metrics, which have no estimate."""
    reported = {pair: None for answer in run.administered.values() for pair in answer.values}
    keys = [f"{metric},{filter}" for metric, filter in reported]
    estimated = {outcome_run.key for outcome_run in (run, *run.further)}
    return [key for key in keys if key not in estimated]


def correct_task(accumulator: Any, name: str, run: TaskRun) -> None:
    """Put a task's estimates into the harness's accumulator, sized as a full run for its groups."""
    values, n, total = accumulator.metrics[name], len(run.administered), len(run.session.doc_ids)
    if not run.complete:
        what = "adaptive" if n else "no"
        answers = "" if run.answers_in_full is None else f", {run.n_answers:,} answers"
        values["alias"] = f"{values['alias']} ({what} estimate, {n} of {total} docs{answers})"
        values["sample_len"] = total
        accumulator.n_samples[name]["effective"] = n
        # Only this value tells loggers of plain numbers that the others are estimates.
        values[f"adaptive_items,{run.outcome.filter}"] = n
    directions = dict(accumulator.higher_is_better[name])
    for outcome_run in (run, *run.further) if run.administered else ():
        # Of a complete run the harness itself has computed the metric, unless it knows none such.
        if not run.complete or outcome_run.key not in values:
            label, estimate = outcome_run.outcome.metric.label, outcome_run.estimate
            values[outcome_run.key] = estimate.score
            values[f"{label}_stderr,{outcome_run.outcome.filter}"] = estimate.error
            directions.setdefault(label, outcome_run.outcome.scale.higher_is_better)
    accumulator.higher_is_better[name] = directions


def _error_of_group(
    group: str,
    key: str,
    weights: Mapping[str, float],
    errors: Mapping[str, float],
    partial: Mapping[str, TaskRun],
) -> float:
    """Return the standard error of a group's score by the `errors` of its estimated tasks.

    It is ``sqrt(sum_a (w_a e_a)^2 + sum_ab w_a w_b c_ab)``, where the covariance of a task with
    itself, which `errors` have, is 0 (`shared_error`).
    """
    single = sum((weights[task] * error) ** 2 for task, error in errors.items())
    shared = sum(
        weights[a] * weights[b] * shared_error(partial[a], partial[b], group, key)
        for a in errors
        for b in errors
    )
    return math.sqrt(max(single + shared, 0.0))


def correct_group(
    metrics: Any, group: Any, partial: Mapping[str, TaskRun]
) -> dict[str, object] | None:
    """Correct the scores of a group with estimated tasks; return its ``adaptive`` block.

    The harness would average over those tasks that have a metric, and pool standard errors of
    another kind. Here a score is kept only if every task has it, and its standard error is that of
    the estimates: tasks that were run in full add none.

    Parameters
    ----------
    metrics : dict of name to dict
        Scores of tasks and groups, as the harness reports them, changed in place; ``sample_len`` of
        a task is the number of documents that were run.
    group : Group
        As the harness defines it.
    partial : mapping of task to TaskRun
        The tasks that were run in part.

    Returns
    -------
    dict or None
        None for a group of full runs, or without a score of its own: it stays as it is.
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
    scores, dropped = _scores_of_group(metrics, group, partial, sizes)
    what = "adaptive" if scores else "no"
    values["alias"] = f"{values['alias']} ({what} estimate, {run_in_all} docs run)"
    values["sample_len"] = run_in_all
    if "sample_count" in values:
        values["sample_count"] = dict.fromkeys(values["sample_count"], run_in_all)
    return {
        "estimand": (
            f"estimate of the score of group {group.name} over all documents of its "
            f"{len(tasks)} tasks, of which {len(estimated)} were run in part; its standard error "
            "is that of the estimates alone"
            if scores
            else f"no estimate of a score of group {group.name}: its tasks have no estimate of one "
            "metric that it averages"
        ),
        "estimated": list(scores),
        "scores": scores,
        "not_estimated": dropped,
        "tasks": estimated,
        "items": run_in_all,
        "items_total": sum(sizes.values()),
    }


def _scores_of_group(
    metrics: Any, group: Any, partial: Mapping[str, TaskRun], sizes: Mapping[str, int]
) -> tuple[dict[str, dict[str, object]], list[str]]:
    """Correct the scores of a group in the harness's metrics, some of whose tasks are estimated.

    A score that every task has gets the standard error of the estimates. The others are removed.

    Parameters
    ----------
    metrics : dict of name to dict
        Scores of tasks and groups, as the harness reports them; changed in place.
    group : Group
        As the harness defines it.
    partial : mapping of task to TaskRun
        The tasks that were run in part.
    sizes : mapping of task to int
        Numbers of documents of all tasks of the group.

    Returns
    -------
    scores : dict of key to dict
        Those that stay.
    dropped : list of str
        Keys of those that were removed.
    """
    values, tasks = metrics[group.name], list(sizes)
    scores: dict[str, dict[str, object]] = {}
    dropped = []
    for config in group.aggregate_metric_list:
        # A group that names no filters averages a metric under each of its tasks' filters.
        filters = config.filter_list or _filters_of(config.metric, partial, metrics, tasks)
        for filter in filters:
            key, stderr = f"{config.metric},{filter}", f"{config.metric}_stderr,{filter}"
            # The harness averages over the tasks that have a metric, which is another score.
            if not all(key in metrics[name] for name in tasks):
                dropped.append(key)
                for block in (values, values.get("sample_count", {})):
                    block.pop(key, None)
                values.pop(stderr, None)
                continue
            size = sizes if config.weight_by_size else dict.fromkeys(tasks, 1)
            weights = {name: size[name] / sum(size.values()) for name in tasks}
            errors = {name: metrics[name][stderr] for name in tasks if name in partial}
            values[stderr] = _error_of_group(group.name, key, weights, errors, partial)
            scores[key] = {
                "estimate": values[key], "standard_error": values[stderr], "weights": weights,
            }  # fmt: skip
    return scores, dropped


def shared_error(first: TaskRun, second: TaskRun, group: str, key: str) -> float:
    """Return the covariance of two tasks' errors in a group, on the metric's own scale."""
    covariances = first.covariances.get(group, first.covariances.get("", {}))
    covariance = covariances.get(second.session.name, 0.0)
    # Errors are shared where tasks are ranked by one metric, which groups may not average.
    if not covariance or not first.key == second.key == key:
        return 0.0
    spans = (run.outcome.scale.restore_error(1.0) for run in (first, second))
    return float(covariance * math.prod(map(float, spans)))


def _filters_of(
    metric: str, partial: Mapping[str, TaskRun], metrics: Mapping[str, Any], tasks: list[str]
) -> list[str]:
    """Return the filters under which a full run of the tasks would report a metric."""
    # A task that was run in part lacks metrics which a full run of it would report.
    filters: dict[str, None] = {}
    for name in tasks:
        keys = [*metrics[name], *(left_out(partial[name]) if name in partial else ())]
        filters.update({k.partition(",")[2]: None for k in keys if k.partition(",")[0] == metric})
    return sorted(filters)

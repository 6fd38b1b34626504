"""Several tasks of one group under one budget: documents go where the group's score needs them.

A budget for a group whose score is the mean of its tasks is best not cut into equal parts: a task
that weighs little, or whose score is sure already, needs few documents. A `Ranker` over all tasks
with one model decides which task is next.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ..harness import internals
from ..ranker import Ranker
from .loop import MODEL, WARMUP, AdaptiveRun, progress_bar


def group_weights(
    runs: Mapping[str, AdaptiveRun], groups: Mapping[str, Any]
) -> dict[str, float] | None:
    """How the one group that all runs are of weighs them; None where there is no such group.

    Only where each task is run for the same metric, the group aggregates that metric, and a budget
    for all is the only rule.
    """
    first = next(iter(runs.values()))
    options = first.options
    bounded = options.budget and options.target_se is None and options.leaderboard is None
    if len(runs) < 2 or not bounded or any(run.options is not options for run in runs.values()):
        return None
    if len({(run.metric.name, run.metric.scale) for run in runs.values()}) > 1:
        return None
    for group in groups.values():
        names = {task.task_name for task in group.get_all_tasks()}
        if names != set(runs) or not group.has_aggregation:
            continue
        for config in group.aggregate_metric_list:
            if config.metric == first.metric.name:
                return {
                    name: float(len(run.session.doc_ids)) if config.weight_by_size else 1.0
                    for name, run in runs.items()
                }
    return None


def run_together(runs: Mapping[str, AdaptiveRun], weights: Mapping[str, float]) -> None:
    """Administer documents of all runs until their common budget is spent.

    Parameters
    ----------
    runs : mapping of str to AdaptiveRun
        With the same options; each has its ranking afterwards.
    weights : mapping of str to float
        Of the tasks in the group's score.
    """
    first = next(iter(runs.values()))
    options, budget = first.options, dict(first.options.budget or {})
    limit = budget.get("items", budget.get("usd"))
    # A first look at every task, on at most half a budget of items. Dollars are not known before.
    warmup, units = WARMUP, None
    if "items" in budget:
        warmup = min(WARMUP, int(budget["items"]) // (2 * len(runs)))
    elif "usd" in budget:
        warmup, units = 0, {name: run.expected_costs() for name, run in runs.items()}
    suite = Ranker(
        {name: run.bank for name, run in runs.items()},
        {MODEL: 1.0},
        units=units,
        confidence=options.confidence,
        warmup=warmup,
        budget=limit,
        max_items=options.max_items,
        seed=options.seed,
        weights=weights,
        stop_when_decided=False,
        audit=options.audit,
        exposure=options.exposure,
    )
    batch = options.batch_size or internals.natural_batch(first.session.lm)
    started = time.monotonic()
    with progress_bar("all tasks", sum(len(r.session.doc_ids) for r in runs.values())) as bar:
        while not suite.done:
            asked: dict[str, list[Any]] = defaultdict(list)
            for _, (task, doc_id) in suite.ask(batch):
                asked[task].append(doc_id)
            for task, doc_ids in asked.items():
                before = time.monotonic()
                runs[task].take(doc_ids, _OneTask(suite, task))
                runs[task].seconds += time.monotonic() - before
                bar.update(len(doc_ids))
            if "seconds" in budget and time.monotonic() - started >= budget["seconds"]:
                suite.stop(f"the budget of {budget['seconds']:g} seconds is used up")
            elif "usd" in budget and suite.spent >= budget["usd"]:
                suite.stop(f"the budget of {budget['usd']:g} usd is used up")
    found = suite.result()
    for name, run in runs.items():
        run.ranking = replace(found.tasks[name], stopped_because=found.stopped_because)


class _OneTask:
    """A suite as the ranker of one task: what a run tells, it is told."""

    def __init__(self, suite: Ranker, task: str) -> None:
        self._suite, self._task = suite, task

    def tell(self, model: str, item: Any, score: float, cost: float | None = None) -> None:
        self._suite.tell(model, (self._task, item), score, cost)

    def fail(self, model: str, item: Any, reason: str, cost: float | None = None) -> None:
        self._suite.fail(model, (self._task, item), reason, cost)

"""The scores that a task reports beside those that were asked for: kept, and estimated.

A task scores an answer by all of its metrics and filters, whichever of them a ranking is by. The
others cost nothing more; they are estimated from the documents that were drawn at random, as
outcomes of weight 0.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ..bank import ItemBank
from ..errors import CcatError, MetricError, UsageError
from ..harness.assembly import TaskRun
from ..harness.outcome import Outcome
from ..harness.session import Administered
from ..ranker import Ranker

_LEADING = "what is ranked by"
#: Least draws for an estimate: of fewer 0/1 scores, errors are stated too small.
LEAST = 10


def beside(run: TaskRun, draws: Mapping[int, float]) -> tuple[TaskRun, ...]:
    """A task's further outcomes, each as a run of the same answers.

    Parameters
    ----------
    run : TaskRun
        Of the outcome that is ranked by, and those beside it that were asked for.
    draws : mapping of doc_id to float
        Documents that were drawn at random, with the probability of the draw among those left.

    Returns
    -------
    tuple of TaskRun
        None where every document was run (the harness then has every score), where fewer than
        `LEAST` were drawn, or where the bank's method lets no other stand beside it.
    """
    outcomes = {} if run.complete or len(draws) < LEAST else further(run)
    if not outcomes:
        return ()
    task, model, weights = run.session.name, run.name, dict.fromkeys(outcomes, 0.0)
    banks = {_LEADING: run.outcome.bank, **{key: o.bank for key, o in outcomes.items()}}
    try:
        ranker = Ranker(
            {task: banks},
            {model: 1.0},
            confidence=run.ranking.confidence,
            weights={_LEADING: 1.0, **weights},
        )
    except UsageError:
        return ()
    for doc, answer in run.administered.items():
        scores = _scores({_LEADING: run.outcome, **outcomes}, answer)
        if doc in run.outcome.bank.index and _LEADING in scores:
            ranker.impose([(model, (task, doc), draws.get(doc))])
            ranker.tell(model, (task, doc), scores)
    found = ranker.result().tasks[task].outcomes
    return tuple(
        replace(run, outcome=outcome, ranking=found[key], beside=())
        for key, outcome in outcomes.items()
        if math.isfinite(found[key].standard_errors[model])
    )


def further(run: TaskRun) -> dict[str, Outcome]:
    """Outcomes of the answers, by key, that are not among those of the run."""
    had = {(o.metric.source, o.filter) for o in (run.outcome, *(b.outcome for b in run.beside))}
    reported = dict.fromkeys(pair for one in run.administered.values() for pair in one.values)
    found = {}
    for metric, filter in reported:
        if (metric, filter) not in had:
            try:
                one = Outcome.without_bank(run.session, metric, filter)
            except CcatError:  # one that has no score per document
                continue
            of_items = ItemBank.blank(
                run.outcome.bank.doc_ids,
                task=one.task,
                metric=one.metric.name,
                filter=filter,
                scale=one.metric.scale,
            )
            found[one.key] = replace(one, bank=of_items, weight=0.0)
    return found


def _scores(outcomes: Mapping[str, Outcome], answer: Administered) -> dict[str, Any]:
    """Scores on [0, 1]; without those that this answer does not have."""
    found = {}
    for key, outcome in outcomes.items():
        try:
            scored = outcome.score(answer)
        except MetricError:
            continue
        if scored is not None:
            found[key] = scored[1]
    return found

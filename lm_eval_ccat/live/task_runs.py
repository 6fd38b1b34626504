"""One model's answers as the harness has them: runs of its tasks, and its results files.

A task scores an answer by all of its metrics and filters, whichever of them a ranking is by. The
others cost nothing more; they are kept, and estimated from the documents that were drawn at random,
as outcomes of weight 0.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ..bank import ItemBank
from ..bank.outcome import Outcome
from ..errors import CcatError, MetricError, UsageError
from ..harness import internals
from ..harness.assembly import TaskRun, save_model
from ..harness.outcomes import blank_outcome, leading
from ..harness.session import Administered
from ..masking import mask
from ..ranker import Ranker, Ranking
from ..runs.book import Book
from .fields import HUB
from .models import Item, SessionModel, scores_of
from .plan import Plan, facts_of_outcome
from .result import Result, outcome_block

_LEADING = "what is ranked by"
#: Least draws for an estimate: of fewer 0/1 scores, errors are stated too small.
LEAST = 10


def task_runs(plan: Plan, book: Book, model: SessionModel) -> dict[str, TaskRun]:
    """One model's documents and what the ranking says of it, by task; scored anew if need be."""
    ranking = book.ranker.result()
    runs = _measured_runs(plan, book, model, ranking)
    drawn = _drawn(model, ranking)
    return {
        task: replace(run, beside=(*run.beside, *beside(run, drawn.get(task, {}))))
        for task, run in runs.items()
    }


def with_further(result: Result, plan: Plan, book: Book, models: Sequence[SessionModel]) -> Result:
    """The result with the scores of the same answers that nobody asked for, at weight 0.

    Parameters
    ----------
    result : Result
        Of a run that has ended.
    plan : Plan
    book : Book
    models : sequence of SessionModel
    """
    all_tasks, blocks = book.ranker.result(), {}
    asked = [m for m in models if any(name == m.name for name, _ in book.answers)]
    runs = {m.name: _measured_runs(plan, book, m, all_tasks) for m in asked}
    drawn = {m.name: _drawn(m, all_tasks) for m in asked}
    for task in plan.measured:
        runs_of_task = [of_tasks[task] for of_tasks in runs.values()]
        more = further(runs_of_task, {name: drawn[name].get(task, {}) for name in runs})
        for key, (one, ranking) in more.items():
            name = key if len(plan.measured) == 1 else f"{task} {key}"
            blocks[name] = outcome_block(ranking.to_dict(), facts_of_outcome(one))
    return replace(result, further=blocks)


def _measured_runs(
    plan: Plan, book: Book, model: SessionModel, ranking: Ranking
) -> dict[str, TaskRun]:
    """One model's documents, by task, for the outcomes that were asked for."""
    answers = {item: a for (name, item), a in book.answers.items() if name == model.name}
    model.restore(answers)
    runs = {}
    for task in plan.measured:
        of_task = {item: a for item, a in answers.items() if model.place(item)[0] == task}
        of_outcomes = _runs_of_outcomes(plan, book, ranking, model, task, of_task)
        first = leading(plan.measured[task])
        lead = next(name for name, of in plan.measured[task].items() if of is first)
        shared = {
            group: book.ranker.shared_errors(model.name, group).get(task, {})
            for group in ("", *ranking.groups)
        }
        runs[task] = replace(
            of_outcomes.pop(lead), beside=tuple(of_outcomes.values()), covariances=shared
        )
    return runs


def _drawn(model: SessionModel, ranking: Ranking) -> dict[str, dict[int, float]]:
    """Documents that a model was asked at random, by task, with the probability of the draw."""
    by_task: dict[str, dict[int, float]] = {}
    for item, p in ranking.draws.get(model.name, ()):
        task, doc = model.place(item)
        by_task.setdefault(task, {})[doc] = p
    return by_task


def _runs_of_outcomes(
    plan: Plan,
    book: Book,
    ranking: Ranking,
    model: SessionModel,
    task: str,
    answers: Mapping[Item, Mapping[str, Any]],
) -> dict[str, TaskRun]:
    """One model's documents of one task, for each outcome."""
    about: dict[str, Any] = {
        "session": model.sessions[task],
        "administered": {model.place(i)[1]: model.administered[i] for i in answers},
        "money": book.tally.money(model.name, task if len(plan.measured) > 1 else None),
        "seconds": sum(a.get("seconds") or 0.0 for a in answers.values()),
    }
    of_task = ranking.tasks.get(task, ranking)
    runs = {}
    for name, outcome in plan.measured[task].items():
        of_outcome = of_task.outcomes.get(name, of_task).only(model.name)
        of_outcome = replace(of_outcome, stopped_because=ranking.stopped_because)
        runs[name] = TaskRun(outcome=outcome, ranking=of_outcome, **about)
    return runs


def write_model_results(
    plan: Plan, book: Book, models: Sequence[SessionModel], run_dir: Path
) -> list[str]:
    """Write the harness's results and samples files of each model; what could not be written."""
    troubles = []
    hub = plan.spec.harness.get(HUB) or {}
    for model in models:
        if not any(name == model.name for name, _ in book.answers):
            continue
        try:
            entry = plan.spec.model(model.name)
            runs, arguments = task_runs(plan, book, model), mask(entry.model_args)
            kind = str(entry.model)
            save_model(run_dir, model.name, runs, plan.of_harness, kind, arguments, hub)
        except OSError as error:
            troubles.append(f"no results files for {model.name}: {error}")
        except internals.NotPushed as error:
            troubles.append(f"the results files of {model.name} are not on the hub: {error}")
    return troubles


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
    outcomes = {} if run.complete else further([run], {run.name: draws})
    return tuple(replace(run, outcome=o, ranking=r, beside=()) for o, r in outcomes.values())


def further(
    runs: Sequence[TaskRun], draws: Mapping[str, Mapping[int, float]]
) -> dict[str, tuple[Outcome, Ranking]]:
    """Rank the answers to one task by the scores that were not asked for.

    Parameters
    ----------
    runs : sequence of TaskRun
        Of the task, one for each model.
    draws : mapping of model to mapping of doc_id to float
        As `beside` takes them; a model with fewer than `LEAST` is left out.

    Returns
    -------
    dict of key to (Outcome, Ranking)
        Of weight 0.
    """
    drawn = [run for run in runs if len(draws.get(run.name, ())) >= LEAST]
    outcomes = {key: one for run in drawn for key, one in _unasked(run).items()}
    if not outcomes:
        return {}
    first, task = drawn[0], drawn[0].session.name
    banks = {_LEADING: first.outcome.bank, **{key: one.bank for key, one in outcomes.items()}}
    try:
        ranker = Ranker(
            {task: banks},
            {run.name: 1.0 for run in drawn},
            confidence=first.ranking.confidence,
            looks=first.ranking.looks,
            weights={_LEADING: 1.0, **dict.fromkeys(outcomes, 0.0)},
        )
    except UsageError:
        return {}
    for run in drawn:
        for doc, answer in run.administered.items():
            scores = _scores({_LEADING: run.outcome, **outcomes}, answer)
            if doc in run.outcome.bank.index and _LEADING in scores:
                ranker.impose([(run.name, (task, doc), draws[run.name].get(doc))])
                ranker.tell(run.name, (task, doc), scores)
    rankings = ranker.result().tasks[task].outcomes
    return {
        key: (one, replace(rankings[key], scale=one.metric.scale))
        for key, one in outcomes.items()
        if all(map(math.isfinite, rankings[key].standard_errors.values()))
    }


def _unasked(run: TaskRun) -> dict[str, Outcome]:
    """Outcomes of the answers, by key, that are not among those of the run."""
    had = {(o.metric.source, o.filter) for o in (run.outcome, *(b.outcome for b in run.beside))}
    reported = dict.fromkeys(pair for one in run.administered.values() for pair in one.values)
    outcomes = {}
    for metric, filter in reported:
        if (metric, filter) not in had:
            try:
                one = blank_outcome(run.session, metric, filter)
            except CcatError:  # one that has no score per document
                continue
            of_items = ItemBank.blank(
                run.outcome.bank.doc_ids,
                task=one.task,
                metric=one.metric.name,
                filter=filter,
                scale=one.metric.scale,
            )
            outcomes[one.results_key] = replace(one, bank=of_items, weight=0.0)
    return outcomes


def _scores(outcomes: Mapping[str, Outcome], answer: Administered) -> dict[str, Any]:
    """Scores on [0, 1]; without those that this answer does not have."""
    try:
        return {key: score for key, (_, score) in scores_of(outcomes, answer).items()}
    except MetricError:
        return {}

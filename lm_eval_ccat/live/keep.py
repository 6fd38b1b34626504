"""Outputs of a ranking besides its result: growing banks, and results in the harness's form.

A task scores an answer by all of its metrics and filters, whichever of them the ranking uses. The
others cost nothing more; the run keeps them, and estimates them from the documents that were drawn
at random, as outcomes of weight 0.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..bank import ItemBank
from ..bank.bank import Observation
from ..bank.file import bank_files
from ..bank.outcome import Outcome
from ..bank.settings import check_prompts
from ..bank.suite import SuiteBank, is_suite
from ..content import RankingContent
from ..errors import BankError, CcatError, MetricError, PromptMismatchError, UsageError
from ..harness.estimates import TaskRun
from ..harness.session import Administered, TaskSession
from ..harness.task_metrics import blank_outcome, leading
from ..ranker import Ranker, Ranking
from ..records import Answered, Item, Tell
from ..runs.book import Book
from ..upkeep.update import grow, readiness, require_growing
from .identity import facts_of_outcome
from .models import HarnessModel, scores_of
from .outcomes import banks_of
from .plan import Plan
from .result import Observer, outcome_block

#: Documents drawn at random, with the probability of each draw among those not yet drawn.
Draws = dict[int, float]
#: Name of the ranked score beside the further outcomes.
_LEADING = "what is ranked by"
#: Fewest draws for an estimate: with fewer 0/1 scores, errors would be understated.
FEWEST_DRAWS = 10


class FurtherRanking(NamedTuple):
    """An outcome of weight 0 and the ranking by it."""

    outcome: Outcome
    ranking: Ranking


#: By key.
Further = dict[str, FurtherRanking]


class DrawnRun(NamedTuple):
    """A model's run of a task, and which of its documents were drawn."""

    run: TaskRun
    draws: Draws


# -- growing banks ---------------------------------------------------------------------------------


def growing_banks(plan: Plan, path: str | Path) -> dict[str, dict[str, ItemBank]]:
    """Return the banks that a run will add its scores to, by task and outcome.

    Parameters
    ----------
    plan : Plan
    path : path
        File of the bank, or folder of several; if it is not there yet, the run's own banks grow.

    Raises
    ------
    UsageError
        The file holds other items or metrics, or the run needs a folder for several tasks.
    BankError
        The file cannot be read, or a bank cannot accept observations.
    """
    target, by_task = Path(path), {}
    folder_banks = _banks_in(target)
    # One file holds the bank of one task.
    if len(plan.outcomes_by_task) > 1:
        refuse_file(target)
    for task, outcomes in plan.outcomes_by_task.items():
        banks = {name: outcome.bank for name, outcome in outcomes.items()}
        if target.is_file() or task in folder_banks:
            banks = dict(folder_banks[task]) if task in folder_banks else banks_of(target, task)
            # The only bank may name the only outcome with or without its filter.
            if len(outcomes) == len(banks) == 1:
                banks = dict(zip(outcomes, banks.values()))
        for name, outcome in outcomes.items():
            run_bank, bank = outcome.bank, banks.get(name)
            # Scores of other items, or on another scale, cannot join a bank.
            if bank is None or any(
                getattr(bank, attribute) != getattr(run_bank, attribute)
                for attribute in ("metric", "doc_ids", "scale")
            ):
                raise UsageError(
                    f"{target} holds no bank of {name} on the items of this run, so what is "
                    "observed cannot be added to it; name another file for save_bank:"
                )
            require_growing(bank)
            try:
                check_prompts(bank, plan.sessions[task].marks if bank.prompts else {})
            except PromptMismatchError as error:
                raise UsageError(
                    f"{target}: {error.difference}, so what is observed cannot be "
                    "added to it; name another file for save_bank:"
                ) from None
        by_task[task] = {name: banks[name] for name in outcomes}
    return by_task


def refuse_file(target: Path) -> None:
    """Raise if `target` is a file: banks of several tasks need a folder.

    Raises
    ------
    UsageError
    """
    if target.is_file():
        raise UsageError(
            f"{target} is a file, but banks of several tasks need a folder; name one in save_bank:"
        )


def grow_banks(
    plan: Plan,
    book: Book,
    models: Sequence[HarnessModel],
    observer: Observer,
    names: Mapping[str, str],
) -> None:
    """Add what a ranking observed to its growing banks; problems with them become warnings.

    ``save_bank:`` names a file; or a folder, if there are several tasks or outcomes or the folder
    exists already. Banks of other tasks in it are kept.

    Parameters
    ----------
    plan : Plan
    book : Book
    models : sequence of HarnessModel
    observer : Observer
    names : mapping
        Names of models in the bank, where they differ from those in the ranking.
    """
    if not any(isinstance(answer, Tell) for answer in book.answers.values()):
        return
    path = str(plan.spec.save_bank)
    try:
        banks, target = growing_banks(plan, path), Path(path)
        other_tasks = {task: old for task, old in _banks_in(target).items() if task not in banks}
        # Banks of one folder are ranked by one method: if not all have enough answers for a
        # response model yet, none gets one.
        grown = _grown_banks(plan, book, models, banks, names, response_model=True)
        folder_banks = [*other_tasks.values(), *grown.values()]
        if len({bank.method for outcomes in folder_banks for bank in outcomes.values()}) > 1:
            grown = _grown_banks(plan, book, models, banks, names, response_model=False)
        smallest = min(
            (bank for outcomes in grown.values() for bank in outcomes.values()),
            key=lambda bank: len(bank.models),
        )
        # One task with one outcome.
        if isinstance(plan.banks, ItemBank) and not target.is_dir():
            smallest.save(path)
        else:
            SuiteBank({**other_tasks, **grown}).save(path)
    except BankError as error:
        observer.warn(f"save_bank: {error}")
        return
    observer.note(f"Saved {len(smallest.models)} models to {path}. {readiness(smallest)}.")


def _grown_banks(
    plan: Plan,
    book: Book,
    models: Sequence[HarnessModel],
    banks: Mapping[str, Mapping[str, ItemBank]],
    names: Mapping[str, str],
    response_model: bool,
) -> dict[str, dict[str, ItemBank]]:
    """Return `banks`, by task and outcome, with what a run observed.

    `names` has names of models in the bank, as `grow_banks` takes them; `response_model` says
    whether a bank with enough answers gets one.
    """
    # A model's session knows whether the model gets a chat template, which the settings state. A
    # resumed run with nothing left to ask opens no model.
    opened = next((model.sessions for model in models if model.sessions), plan.sessions)
    return {
        task: {
            name: _grown(
                bank,
                _observed(plan, book, task, name, bank, names),
                opened[task].settings,
                plan.sessions[task],
                response_model,
            )
            for name, bank in outcomes.items()
        }
        for task, outcomes in banks.items()
    }


def _banks_in(target: Path) -> Mapping[str, Mapping[str, ItemBank]]:
    """Return the banks of a folder by task and outcome; none if it holds none or is no folder."""
    return SuiteBank.load(target) if is_suite(target) or bank_files(target) else {}


def _grown(
    bank: ItemBank,
    observed: Sequence[Observation],
    settings: Mapping[str, Any],
    session: TaskSession,
    response_model: bool,
) -> ItemBank:
    """Return a bank with what a run observed; a new one has the run's settings and marks."""
    # A bank is of many models, and each has a chat template of its own.
    run_settings = {key: value for key, value in settings.items() if key != "chat_template_sha"}
    base = replace(bank, settings=bank.settings or run_settings)
    if not bank.models:
        base = replace(base, prompts=tuple(map(session.marks.get, bank.doc_ids)))
    # Without any scores, from this run or before, the bank stays blank.
    if not (observed or base.observations):
        return base
    return grow(base, observed, date.today().isoformat(), response_model=response_model)


class _ObservedScore(NamedTuple):
    """A score, the position of its item in the bank, and the probability of its draw.

    The probability is NaN if the item was chosen, not drawn.
    """

    position: int
    score: float
    probability: float


def _observed(
    plan: Plan, book: Book, task: str, outcome: str, bank: ItemBank, names: Mapping[str, str]
) -> list[Observation]:
    """Return what a run observed on one outcome, one observation of each model that scored.

    Parameters
    ----------
    plan : Plan
    book : Book
    task, outcome : str
    bank : ItemBank
        Scores on other items than its own are left out.
    names : mapping of str to str
        Names of models in the bank, where they are others than in the run.
    """
    by_model: dict[str, list[_ObservedScore]] = {entry.name: [] for entry in plan.spec.models}
    for (model, item), answer in book.answers.items():
        # A bank holds one answer of each item.
        if item.is_repeat:
            continue
        score = answer.score if isinstance(answer, Tell) else None
        if isinstance(score, Mapping):
            score = score.get(outcome)
        if item.task == task and score is not None and item.doc_id in bank.index:
            probability = book.ranker.probability(model, item)
            probability = math.nan if probability is None else probability
            row = _ObservedScore(bank.index[item.doc_id], float(score), probability)
            by_model[model].append(row)
    observations, today = [], date.today().isoformat()
    for model, rows in ((name, rows) for name, rows in by_model.items() if rows):
        positions, scores, probabilities = np.array(rows).T
        # "adaptive" means that at least one item was chosen.
        selection = "drawn" if np.isfinite(probabilities).all() else "adaptive"
        # Of all items the order does not matter, nor how each was selected.
        if len(rows) == bank.n_items:
            selection, order = "all", np.argsort(positions)
            positions, scores = positions[order], scores[order]
            probabilities = np.full_like(probabilities, np.nan)
        stated_probabilities = probabilities if np.isfinite(probabilities).any() else None
        name, positions = names.get(model, model), positions.astype(np.intp)
        observations.append(
            Observation(name, selection, positions, scores, stated_probabilities, date=today)
        )
    return observations


# -- answers as the harness has them ---------------------------------------------------------------


class ModelRuns:
    """The answers of a run as the harness has them, for all of its models.

    The ranking is computed once, so the time that files take grows with the models, not as their
    square.

    Parameters
    ----------
    plan : Plan
    book : Book
        Its Ranker is told nothing more; it may get answers beyond the bank.
    """

    def __init__(self, plan: Plan, book: Book) -> None:
        self.plan, self.book = plan, book
        self.ranking = book.ranker.result()
        self._rankings = {task: self._rankings_by_outcome(task) for task in plan.outcomes_by_task}
        # Rankings of all models by their other scores, by task, once `further` has made them; and
        # the runs that it ranked, by model and task, until `of` has returned them.
        self._further_of_all: dict[str, Further] = {}
        self._ranked_runs: dict[str, dict[str, DrawnRun]] = {}

    def _rankings_by_outcome(self, task: str) -> dict[str, Ranking]:
        """Return the ranking by each outcome of a task, on the outcome's own scale."""
        # The ranking by a single task, or a single outcome, is the whole one.
        ranking, why = self.ranking.tasks.get(task, self.ranking), self.ranking.stopped_because
        return {
            name: replace(
                ranking.outcomes.get(name, ranking), stopped_because=why, scale=outcome.scale
            )
            for name, outcome in self.plan.outcomes_by_task[task].items()
        }

    def of(self, model: HarnessModel) -> dict[str, TaskRun]:
        """Return one model's documents and estimates by task; score answers again if necessary."""
        runs = {}
        drawn_runs = self._ranked_runs.pop(model.name, None) or self._drawn_runs(model)
        for task, drawn_run in drawn_runs.items():
            run = drawn_run.run
            # If every document was run, the harness itself states every score.
            further: Further = {}
            if not run.complete:
                further = self._further_of_all.get(task) or _further([drawn_run])
            further_runs = (
                replace(run, outcome=outcome, ranking=ranking, further=())
                for outcome, ranking in further.values()
                if run.name in ranking.estimates
            )
            runs[task] = replace(run, further=(*run.further, *further_runs))
        return runs

    def further(self, models: Sequence[HarnessModel]) -> dict[str, RankingContent]:
        """Rank by the scores that answers have besides the ranked ones; return JSON by their keys.

        A key is "acc,strict", of several tasks "task acc,strict". `of` uses these rankings, too.
        """
        self._ranked_runs = {
            model.name: self._drawn_runs(model)
            for model in models
            if self.book.answers.of(model.name)
        }
        blocks = {}
        for task in self.plan.outcomes_by_task:
            runs = [runs_by_task[task] for runs_by_task in self._ranked_runs.values()]
            self._further_of_all[task] = _further(runs)
            for key, (outcome, ranking) in self._further_of_all[task].items():
                name = key if len(self.plan.outcomes_by_task) == 1 else f"{task} {key}"
                blocks[name] = outcome_block(ranking.to_dict(), facts_of_outcome(outcome))
        return blocks

    def _drawn_runs(self, model: HarnessModel) -> dict[str, DrawnRun]:
        """Return a model's run of each task, with the probability of each item that was drawn."""
        answers = dict(self.book.answers.of(model.name))
        model.restore(answers)
        draws: dict[str, Draws] = {task: {} for task in self.plan.outcomes_by_task}
        for ranker_item, probability in self.ranking.draws.get(model.name, ()):
            item = self.book.journal.item(ranker_item)
            # Estimates are of what the first answer to each item scores.
            if not item.is_repeat:
                draws[item.task][item.doc_id] = probability
        runs = {}
        for task, draws_of_task in draws.items():
            task_answers = {item: answer for item, answer in answers.items() if item.task == task}
            runs[task] = DrawnRun(self._task_run(model, task, task_answers), draws_of_task)
        return runs

    def _task_run(
        self, model: HarnessModel, task: str, answers: Mapping[Item, Answered]
    ) -> TaskRun:
        """Return a model's run of a task by the leading outcome, with those by the others."""
        book, outcomes = self.book, self.plan.outcomes_by_task[task]
        repeated = tuple(answer for item, answer in answers.items() if item.is_repeat)
        has_several_tasks = len(self._rankings) > 1
        lead = next(name for name, outcome in outcomes.items() if outcome is leading(outcomes))
        run = TaskRun(
            session=model.sessions[task],
            name=model.name,
            outcome=outcomes[lead],
            ranking=self._rankings[task][lead],
            administered=_administered(model, answers, repeated),
            money=book.tally.money(model.name, task if has_several_tasks else None),
            seconds=sum(answer.seconds or 0.0 for answer in answers.values()),
            repeated=repeated,
        )
        further = tuple(
            replace(run, outcome=outcome, ranking=self._rankings[task][name])
            for name, outcome in outcomes.items()
            if name != lead
        )
        covariances = {
            group: book.ranker.shared_errors(model.name, group).get(task, {})
            for group in ("", *self.ranking.groups)
        }
        return replace(run, further=further, covariances=covariances)


def _administered(
    model: HarnessModel, answers: Iterable[Item], repeated: Sequence[Answered]
) -> dict[Any, Administered]:
    """Return a task's documents as the harness scores them: by the first answer of each."""
    administered = {item.doc_id: model.administered[item] for item in answers if not item.is_repeat}
    for answer in sorted(repeated, key=lambda repeat: repeat.item.repeat):
        if (first := administered.get(answer.item.doc_id)) is not None:
            administered[first.doc_id] = first.with_repeat(answer.responses)
    return administered


def _further(runs: Sequence[DrawnRun]) -> Further:
    """Return a ranking of the same answers by each of their other scores, for one task.

    Parameters
    ----------
    runs : sequence of DrawnRun
        One run of the task per model; models with fewer than `FEWEST_DRAWS` draws are left out.

    Returns
    -------
    dict of key to FurtherRanking
        Empty if the answers have no other scores, or the bank's method allows none.
    """
    runs = [drawn_run for drawn_run in runs if len(drawn_run.draws) >= FEWEST_DRAWS]
    outcomes = {
        key: outcome
        for drawn_run in runs
        for key, outcome in _further_outcomes(drawn_run.run).items()
    }
    if not outcomes:
        return {}
    try:
        ranker = _ranker_of_further(runs, outcomes)
    # The method of the bank takes only one score of an answer.
    except UsageError:
        return {}
    task = runs[0].run.session.name
    for run, draws in runs:
        for doc_id, answer in run.administered.items():
            # The ranking by the leading score left such an answer out, too.
            try:
                scored = scores_of({_LEADING: run.outcome, **outcomes}, answer)
            except MetricError:
                continue
            # The Ranker takes items of its bank that have the ranked score.
            if doc_id in run.outcome.bank.index and _LEADING in scored:
                ranker.impose([(run.name, (task, doc_id), draws.get(doc_id))])
                scores = {key: pair.score for key, pair in scored.items()}
                ranker.tell(run.name, (task, doc_id), scores)
    rankings = ranker.result().tasks[task].outcomes
    # A score that too few answers have gets an infinite standard error, and is left out.
    return {
        key: FurtherRanking(outcome, replace(rankings[key], scale=outcome.metric.scale))
        for key, outcome in outcomes.items()
        if all(map(math.isfinite, rankings[key].standard_errors.values()))
    }


def _ranker_of_further(runs: Sequence[DrawnRun], outcomes: Mapping[str, Outcome]) -> Ranker:
    """Return a ranker of the runs' models by what is ranked, and by further outcomes of weight 0.

    Those are estimated from the same draws, and steer nothing.

    Raises
    ------
    UsageError
        The method of the bank takes only one score of an answer.
    """
    run = runs[0].run
    banks = {key: outcome.bank for key, outcome in outcomes.items()}
    return Ranker(
        {run.session.name: {_LEADING: run.outcome.bank, **banks}},
        {drawn_run.run.name: 1.0 for drawn_run in runs},
        confidence=run.ranking.confidence,
        looks=run.ranking.looks,
        sampled=run.ranking.sampled,
        question=run.ranking.question,
        weights={_LEADING: 1.0, **dict.fromkeys(outcomes, 0.0)},
    )


def _further_outcomes(run: TaskRun) -> dict[str, Outcome]:
    """Return the outcomes of the answers, by key, that are not among those of the run."""
    reported_by_run = {
        (outcome.metric.source, outcome.filter)
        for outcome in (run.outcome, *(further.outcome for further in run.further))
    }
    reported = dict.fromkeys(pair for answer in run.administered.values() for pair in answer.values)
    outcomes = {}
    for metric, filter in (pair for pair in reported if pair not in reported_by_run):
        try:
            outcome = blank_outcome(run.session, metric, filter)
        except CcatError:  # an outcome without a score per document
            continue
        blank_bank = ItemBank.blank(
            run.outcome.bank.doc_ids,
            task=outcome.task,
            metric=outcome.metric.name,
            filter=filter,
            scale=outcome.metric.scale,
        )
        outcomes[outcome.results_key] = replace(outcome, bank=blank_bank, weight=0.0)
    return outcomes

"""`RankingBuilder`: builds a `Ranking` from the state of a ranker."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from .. import __version__
from ..bank.outcome import Outcome
from ..methods.belief import BENCHMARK, POPULATION, RUN, Belief
from ..methods.policy import Mask
from .accounts import Account
from .contents import Task, scale_of
from .join import JoinTests
from .ranking import Ranking
from .rows import Estimate, ModelRow
from .stopping import AllDecided, MaxItems, TopDecided, budget_used_up, has_goal
from .turns import Turns
from .verdicts import DECIDED, Verdicts
from .weighted import WeightedSum

#: The k of the chances of being among the best k models.
_TOPS = (1, 3, 5, 10)
#: Why a ranking ended that has asked all that there is.
EVERY_ITEM = "every item was administered"
#: The same if models that are decided stopped earlier.
EVERY_ITEM_OF_OPEN = "the models that are not decided have answered every item"


class _AskedItems(NamedTuple):
    """Columns of `ModelRow`: items with a score, of which some were drawn, and failed ones."""

    items: list[Any]
    draws: list[tuple[Any, float]]
    failed: list[tuple[Any, str]]


class RankingBuilder:
    """Puts together the results of a ranking and of its parts.

    Parameters
    ----------
    turns : Turns
    groups : mapping of str to (mapping of task to weight, or sequence of tasks)
    options : mapping
        Further arguments of the ranking, for the signature.
    join : JoinTests
        Its findings belong to every model.
    question : {"benchmark", "population", "run"}
        As the user stated it; that of the standing is never "run".
    sampled : bool
        As the user stated it, or because items are asked several times.
    """

    def __init__(
        self,
        turns: Turns,
        groups: Mapping[str, Mapping[str, float] | Sequence[str]],
        options: Mapping[str, Any],
        join: JoinTests,
        question: str,
        sampled: bool,
    ) -> None:
        self._question, self._sampled = question, sampled
        self._turns, self._standing, self._accounts = turns, turns.standing, turns.accounts
        self._contents, self._join = turns.accounts.contents, join
        self._options = {key: value for key, value in sorted(options.items()) if value is not None}
        #: The weighted sum of each group's tasks, by name of the group.
        self.groups = {
            name: turns.standing.score.with_tasks(self._contents.group_factors(name, tasks))
            for name, tasks in groups.items()
        }

    def ranking(self, *, done: bool, parts: bool) -> Ranking:
        """Return the current ranking.

        `done` says whether the ranker is done; without `parts`, the rankings by task, outcome
        and group are left out.
        """
        standing, rule = self._standing, self._turns.rule
        verdicts, goal = standing.current_verdicts, rule if has_goal(rule) else AllDecided()
        ranking = replace(
            self._ranking_by(standing.score, self.signature, verdicts),
            tops=(*_TOPS, *(part.k for part in rule.parts() if isinstance(part, TopDecided))),
            stopped_because=self._why_stopped(done),
            goal_met=goal.met(standing),
            warnings=standing.references.doubts if standing.references else (),
        )
        return (
            self._with_parts(replace(ranking, beyond=self._beyond(verdicts))) if parts else ranking
        )

    def _beyond(self, verdicts: Verdicts) -> Mask | None:
        """Return which pairs of tested models are decided the same way for items like these, too.

        None where nothing can be: a single model has no pair, and a ranking whose question is the
        population has decided for such items already.
        """
        n_tested = verdicts.n_tested
        if verdicts.belief.question != BENCHMARK or n_tested < 2:
            return None
        wider = self._standing.first_look(question=POPULATION)
        same_sign = wider.sign == verdicts.sign[:, :n_tested]
        return np.asarray(same_sign & (wider.state == DECIDED))

    def _with_parts(self, ranking: Ranking) -> Ranking:
        """Return a ranking with those by its tasks, outcomes and groups."""
        contents, tasks = self._contents, self._contents.tasks
        several = len(contents.outcomes) > 1
        groups = {name: self._ranking_by(score) for name, score in self.groups.items()}
        weights = {task.name: task.weight for task in tasks} if several else {}
        ranking = replace(ranking, groups=groups, weights=weights)
        if len(tasks) > 1 or not contents.bare:
            of_task = {task.name: self._of_task(number, task) for number, task in enumerate(tasks)}
            return replace(ranking, tasks=of_task)
        # A bank that was given without a task's name is the whole ranking, not a part to show.
        return replace(ranking, outcomes=self._by_outcome(0, tasks[0])) if several else ranking

    def _of_task(self, number: int, task: Task) -> Ranking:
        """Return the ranking by one task."""
        outcomes = self._by_outcome(number, task)
        # The task's ranking is then that of its only outcome.
        if len(outcomes) == 1:
            return next(iter(outcomes.values()))
        weights = {outcome.name: outcome.weight / task.weight for outcome in task.outcomes}
        ranking = self._ranking_by(self._standing.score.with_tasks({number: 1.0 / task.weight}))
        return replace(ranking, outcomes=outcomes, weights=weights)

    def _by_outcome(self, number: int, task: Task) -> dict[str, Ranking]:
        """Return a ranking by each single outcome of a task."""
        rankings = {}
        for state in task.states:
            method = state.outcome.bank.method
            facts = {**_identity(state.outcome), "method": method, "ccat": __version__}
            score = self._standing.score.with_tasks({number: 1.0}, state)
            rankings[state.outcome.name] = self._ranking_by(score, _line(facts))
        return rankings

    # -- rows ---------------------------------------------------------------------------------

    def _ranking_by(
        self, score: WeightedSum, signature: str = "", verdicts: Verdicts | None = None
    ) -> Ranking:
        """Return a ranking by one score, whose verdicts are by default those of a first look."""
        verdicts = verdicts or self._standing.first_look(score)
        tasks = [self._contents.tasks[task] for task in score.tasks]
        belief = self._standing.belief(verdicts.belief.question, score).on_scores
        models = [self._row(account, verdicts, score, belief) for account in self._accounts]
        if (references := verdicts.belief.references) is not None:
            figures = zip(references.estimate.tolist(), references.error.tolist())
            for name, estimate in zip(references.names, (Estimate(*pair) for pair in figures)):
                interval = estimate.interval(verdicts.confidence)
                models.append(ModelRow(name, estimate, interval, known=True))
        return Ranking(
            models=tuple(models),
            verdicts=verdicts,
            n_items=sum(task.bank.n_items for task in tasks),
            n_answers=sum(task.positions.stop - task.positions.start for task in tasks),
            scale=scale_of([state.outcome for state in score.outcomes]),
            signature=signature or "+".join(task.name for task in tasks),
            tops=_TOPS,
            question=self._question,
            sampled=self._sampled,
        )

    def _row(
        self, account: Account, verdicts: Verdicts, score: WeightedSum, belief: Belief
    ) -> ModelRow:
        """Return what a ranking by one score says of one model."""
        model = account.number
        # Of one outcome alone its method says more: ability, draws, noise, pass@k.
        only = score.outcomes[0] if len(score.outcomes) == 1 else None
        description = only.policy.describe(model) if only else None
        estimate = self._estimate(model, verdicts, score, belief)
        if description:
            estimate = replace(estimate, method_interval=description.interval)
        # The bound widens the interval by all that failures may hide. So it starts from the
        # interval before the bias that they are estimated to cause widens that.
        bound = self._bound(account, score, estimate, verdicts.confidence)
        if belief.failure_bias is not None:
            estimate = replace(estimate, failure_bias=float(belief.failure_bias[model]))
        sample = description.drawn if description else None
        return ModelRow(
            name=account.name,
            estimate=estimate,
            interval=estimate.interval(verdicts.confidence),
            bound=bound,
            cost=float(self._accounts.spent_on[model, score.tasks].sum()),
            set_aside=account.dropped,
            findings=[*self._join.findings, *score.findings(model)],
            **self._asked(account, score)._asdict(),
            ability=(description.ability, description.ability_error) if description else None,
            sample=sample if sample and sample.n > 1 else None,
            noise=description.noise if description else None,
            pass_at=only.pass_at(model) if only else None,
        )

    def _asked(self, account: Account, score: WeightedSum) -> _AskedItems:
        """Return what a model was asked for one score.

        The ranked score names items as `ask` does, with their repeats; a single task by itself
        names them by doc_id alone.
        """
        contents, items = self._contents, self._items(account, score)
        failed = [item for item in account.failed if contents.task_at(item) in score.tasks]
        as_asked = score is self._standing.score or len(score.tasks) > 1
        name = contents.name_as_asked if as_asked else contents.doc_id
        # Thousands of items stand in several columns: make the name of each once.
        names = {item: name(item) for item in (*items, *failed)}
        probabilities = ((names[item], account.probability(item)) for item in items)
        return _AskedItems(
            items=[names[item] for item in items],
            draws=[(item, drawn) for item, drawn in probabilities if drawn is not None],
            failed=[(names[item], account.failed[item]) for item in failed],
        )

    def _estimate(
        self, model: int, verdicts: Verdicts, score: WeightedSum, belief: Belief
    ) -> Estimate:
        """Return a model's estimate by one score, as if its failures caused no bias."""
        # The items left, each from 0 to 1, bound the mean score of these very items. They do not
        # bound a mean over items like these, nor a mean of expected scores.
        expected_scores = self._sampled and self._question != RUN
        bounded = belief.question == BENCHMARK and not expected_scores
        floor, ceiling = score.possible(model) if bounded else (0.0, 1.0)
        return Estimate(
            min(max(float(belief.location[model]), floor), ceiling),
            float(belief.variance[model, model] ** 0.5),
            df=float(belief.df[model, model]),
            n=float(belief.n[model, model]),
            n_items=belief.n_items,
            zero_loss=score.zero_loss(model),
            end_shares=score.end_shares(model, verdicts.belief.question),
            possible=(floor, ceiling),
            looks=verdicts.looks.before_first_look,
        )

    def _items(self, account: Account, score: WeightedSum) -> list[int]:
        """Return the items whose answers count in a score, in the order they were told."""
        contents = self._contents
        items = [item for item in account.scored if contents.task_at(item) in score.tasks]
        if score is self._standing.score or len(score.outcomes) != 1:
            return items
        # An answer may lack an outcome (its judge failed, say).
        start = contents.tasks[score.tasks[0]].positions.start
        scores = score.outcomes[0].scores[account.number]
        return [item for item in items if item - start in scores]

    def _bound(
        self, account: Account, score: WeightedSum, estimate: Estimate, confidence: float
    ) -> tuple[float, float] | None:
        """Return the interval as if failed items had scored 0 (low end) or 1 (high end).

        None if no item failed. An item that lacks one outcome (its judge failed, say) failed for
        that outcome alone.
        """
        hidden = [state.hidden_by_failures(account.number) for state in score.outcomes]
        drop, rise = (score.outcome_weights @ np.array(hidden)).tolist()
        if not (drop or rise):
            return None
        low, high = estimate.interval(confidence)
        floor, ceiling = estimate.possible
        return max(low - drop, floor), min(high + rise, ceiling)

    # -- words --------------------------------------------------------------------------------

    @property
    def signature(self) -> str:
        """One line with everything that a reader needs to reproduce the ranking."""
        turns, standing, outcomes = self._turns, self._standing, self._contents.outcomes
        what = _identity(outcomes[0])
        if len(outcomes) > 1:
            terms = (
                f"{outcome.weight:.4g} x {outcome.task}/{outcome.name}/{outcome.bank.short_hash}"
                for outcome in outcomes
            )
            what = {"tasks": "+".join(terms)}
        references = standing.references
        return _line(
            {
                **what,
                "method": outcomes[0].bank.method,
                "confidence": f"{standing.test.confidence:g}",
                "question": None if self._question == BENCHMARK else self._question,
                "sampled": "yes" if self._sampled else None,
                "repeats": _repeats(self._contents.repeats),
                "looks": "one" if standing.looks.single_look else None,
                "warmup": turns.warmup,
                "exposure": turns.exposure if turns.exposure > 1 else None,
                "known": None if references is None else len(references.names),
                "seed": turns.seed,
                **self._options,
                "ccat": __version__,
            }
        )

    def _why_stopped(self, done: bool) -> str:
        """Return why the ranking stopped, in words; "" while it goes on."""
        turns, accounts, standing = self._turns, self._accounts, self._standing
        # Who stopped the ranking knows why best.
        if turns.stopped is not None:
            return turns.stopped
        if not done:
            return ""
        # The rule comes first: a limit ended the ranking only if the rule asked for more.
        asking = [account for account, wants in zip(accounts, turns.wanted()) if wants]
        if not asking:
            if not accounts.active.any():
                return "no model is left"
            if standing.barred and not turns.rule.met(standing):
                return "no open pair may be decided"
            return turns.rule.why(standing) or "no model is left"
        # A model without items left needs none, whatever the limits.
        unfinished = [account for account in asking if accounts.remaining[account.number].any()]
        if any(account.n < turns.cap for account in unfinished):
            left = accounts.budget - accounts.committed
            lost = min(accounts.lost, accounts.stated_budget)
            return budget_used_up(accounts.stated_budget, left, lost)
        if not unfinished:
            # Models that are decided stop earlier.
            if accounts.remaining[accounts.active].any():
                return EVERY_ITEM_OF_OPEN
            return EVERY_ITEM
        return MaxItems(turns.cap).why(standing)


def _repeats(of_task: Mapping[str, int]) -> str | None:
    """Return the most answers of an item, of each task if they differ; None if it is one."""
    numbers = sorted(set(of_task.values()))
    if numbers == [1]:
        return None
    return str(numbers[0]) if len(numbers) == 1 else "+".join(map(str, of_task.values()))


def _identity(outcome: Outcome) -> dict[str, object]:
    """Return what a signature says of an outcome."""
    bank = outcome.bank
    return {
        "task": bank.task, "metric": bank.metric, "filter": bank.filter, "bank": bank.short_hash,
    }  # fmt: skip


def _line(parts: Mapping[str, object]) -> str:
    """Join parts into one line for reproducing a number: ``task:gsm|metric:acc|...``."""
    return "|".join(f"{key}:{value}" for key, value in parts.items() if value is not None)

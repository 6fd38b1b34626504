"""Tasks and outcomes of a ranking, and what the methods know of the models from each outcome.

A *policy* is what a method is in a ranking: it is told scores, states a belief and chooses items.
An item is *kept* unless the calibration of its bank removed it; only kept ones are asked. Where
items are asked repeatedly, in *passes* over all of them, each answer has a position of its own and
counts as an item.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from ..bank import ItemBank
from ..bank.outcome import Outcome
from ..errors import ScaleError, UsageError
from ..grouping import grouped
from ..methods.belief import Belief, Indices
from ..methods.method import method_of
from ..methods.policy import Policy
from ..methods.sample.first_pass import FirstPassPolicy
from ..methods.sample.repeats import PassAt, pass_at
from ..metrics.scale import Floats, Scale
from ..options import ABOVE_0, AT_LEAST_0, REPEATS, Kind
from .arguments import item_units

Banks = ItemBank | Sequence[Outcome] | Mapping[str, ItemBank | Mapping[str, ItemBank]]
Weights = str | Mapping[str, float] | Mapping[str, Mapping[str, float]] | None

#: Weight, in answers, of the prior on the correlation of outcomes; see `Task.correlation`.
_PRIOR_ANSWERS = 5.0


class OutcomeState:
    """One outcome in a ranking, and what its method knows of the models from it.

    Attributes
    ----------
    outcome : Outcome
    policy : Policy
    scores : list of dict of int to float
        Each model's scores, by position in the task, in the order of the answers.
    scored : set of int
        Positions with a score of any model.
    failed : list of list of int
        Positions of the items that each model failed on.
    kept_items : ndarray of bool
        Positions that the bank has kept.
    """

    def __init__(self, outcome: Outcome, policy: Policy, n_models: int, repeats: int = 1) -> None:
        self.outcome = outcome
        self.policy = policy
        self._repeats = repeats
        self.kept_items = np.tile(outcome.bank.kept, repeats)
        self.scores: list[dict[int, float]] = [{} for _ in range(n_models)]
        self.scored: set[int] = set()
        self.failed: list[list[int]] = [[] for _ in range(n_models)]
        self._beliefs: dict[str, Belief] = {}

    def belief(self, question: str) -> Belief:
        """Return the policy's belief about scores of this outcome, cached until `forget`."""
        if question not in self._beliefs:
            self._beliefs[question] = self.policy.belief(question)
        return self._beliefs[question]

    def forget(self) -> None:
        """Drop cached beliefs: a score, a failure, a model or repeats have come."""
        self._beliefs.clear()

    def raise_repeats(self, repeats: int, seed: int) -> None:
        """Let items be asked up to `repeats` times.

        A policy of single answers keeps the first pass, and passes that ask every item once follow
        it, in an order by `seed`.
        """
        bank = self.outcome.bank
        # Until now a policy of single answers was enough: it goes on as the first pass.
        if self._repeats == 1:
            policy = FirstPassPolicy(
                bank, len(self.scores), self.policy, repeats=repeats, seed=seed
            )
            # Passes compare models on all their answers, those of the first pass among them.
            for model, (scores, failed) in enumerate(zip(self.scores, self.failed)):
                policy.catch_up(model, scores, failed)
            self.policy = policy
        self.policy.raise_repeats(repeats)
        self._repeats, self.kept_items = repeats, np.tile(bank.kept, repeats)

    def fail(self, model: int, item: int) -> None:
        """Record that an item will have no score."""
        self.policy.failed(model, item)
        self.failed[model].append(item)

    def expected(self, model: int) -> Floats:
        """Return the expected score of every answer, by position in the task."""
        return np.tile(self.policy.expected(model), self._repeats)

    def pass_at(self, model: int) -> PassAt | None:
        """Return pass@k: the chance that one of k answers to an item is right.

        k is the number of answers that every kept item has. None if that is below two, if a score
        is not 0 or 1, or if lower is better.
        """
        if not self.outcome.bank.scale.higher_is_better:
            return None
        n_items = len(self.kept_items) // self._repeats
        answers, right = np.zeros((2, n_items))
        for position, score in self.scores[model].items():
            answers[position % n_items] += 1.0
            right[position % n_items] += score
            if score not in (0.0, 1.0):
                return None
        kept_items = self.kept_items[:n_items]
        k = int(answers[kept_items].min(initial=math.inf, where=kept_items[kept_items]))
        return PassAt(k, pass_at(right[kept_items], answers[kept_items], k)) if k > 1 else None

    def possible(self, model: int) -> tuple[float, float]:
        """Return the least and the largest mean of all answers, whatever those to come score."""
        scores, n_answers = self.scores[model].values(), len(self.kept_items)
        total = math.fsum(scores)
        return total / n_answers, (total + n_answers - len(scores)) / n_answers

    def hidden_by_failures(self, model: int) -> tuple[float, float]:
        """Return how far a model's mean falls, and rises, if its failed items score 0, or 1.

        The share of failed items among those asked counts as that of the whole task. If 10 of 100
        items failed, on which .6 was expected, it is (.06, .04): an estimate has .6 for each.
        """
        if not (failed := self.failed[model]):
            return 0.0, 0.0
        expected, asked = self.expected(model)[failed], len(failed) + len(self.scores[model])
        return float(expected.sum()) / asked, float((1.0 - expected).sum()) / asked

    def failure_bias(self, model: int) -> float:
        """Return how far a model's failures may bias its estimate (the function `failure_bias`)."""
        if not self.failed[model]:
            return 0.0
        expected, scores = self.expected(model), self.scores[model]
        # An estimate has scores and, of the items without one, expected scores: failures bias
        # these.
        left = 1.0 - len(scores) / len(expected)
        return left * failure_bias(expected, scores, self.failed[model])


class Task:
    """One task: its items, and its outcomes, which are all told of every answer.

    Outcomes of the same answers have correlated errors. The correlation is estimated from the
    residuals (score less its expectation just before it came) of answers that have both outcomes.

    Parameters
    ----------
    name : str
    outcomes : sequence of Outcome
        All over the same items, with their weights in the ranked score, which sum to 1 over all
        tasks.
    start : int
        Position of the task's first item among the items of all tasks.
    repeats : int, optional
        Most answers of an item. Repeat ``r`` of an item has its position in the bank plus
        ``n_items (r - 1)``: a position in the task, here and below.

    Attributes
    ----------
    positions : slice
        The task's positions among the items of all tasks.
    kept_items : ndarray of bool
        Items that may be asked: those kept by at least one outcome of positive weight.
    bank : ItemBank
        Bank of the outcome with the largest weight, the first of equals.
    weight : float
        Weight of the task in the ranked score.
    states : list of OutcomeState
        One per outcome, once `begin` has started the ranking.
    changes : int
        Counter of scores, failures, models and repeats that came: a belief from an equal count is
        still right.
    """

    def __init__(
        self, name: str, outcomes: Sequence[Outcome], start: int, repeats: int = 1
    ) -> None:
        self.name, self.outcomes, self.repeats = name, outcomes, repeats
        self.positions = slice(start, start + outcomes[0].bank.n_items * repeats)
        kept_by_outcome = [outcome.bank.kept for outcome in outcomes if outcome.weight > 0.0]
        self.kept_items = np.tile(np.any(kept_by_outcome, axis=0), repeats)
        self.weight = sum(outcome.weight for outcome in outcomes)
        self.bank = max(outcomes, key=lambda outcome: outcome.weight).bank
        self.states: list[OutcomeState] = []
        self.changes = 0
        # Sums by pair of outcomes, over the answers with scores of both: products of the two
        # residuals, squares of the first one's, and the number of answers.
        self._products, self._squares, self._n_common = np.zeros((3, len(outcomes), len(outcomes)))

    @property
    def leader(self) -> OutcomeState:
        """The outcome of largest weight; the first task's sets how the ranking proceeds."""
        return max(self.states, key=lambda state: state.outcome.weight)

    def begin(self, n_models: int, policy_of: Callable[[Outcome, ItemBank], Policy]) -> None:
        """Start the ranking; `policy_of` makes a policy from an outcome and the task's `bank`."""
        self.states = [
            OutcomeState(outcome, policy_of(outcome, self.bank), n_models, self.repeats)
            for outcome in self.outcomes
        ]

    # -- what happened ------------------------------------------------------------------------

    def _states_with(self, item: int) -> list[OutcomeState]:
        """Return the outcomes whose banks have kept an item."""
        return [state for state in self.states if state.kept_items[item]]

    def _changed(self) -> None:
        """Note that a score, a failure, a model or repeats come: beliefs are out of date."""
        self.changes += 1
        for state in self.states:
            state.forget()

    def add_model(self) -> None:
        """Add one more model, which gets the next number."""
        self._changed()
        for state in self.states:
            state.policy.add_model()
            state.scores.append({})
            state.failed.append([])

    def raise_repeats(self, repeats: int, start: int, seed: int) -> None:
        """Let items be asked up to `repeats` times; positions in the task stay.

        The task now begins at `start` among the items of all tasks; `seed` orders the passes.
        """
        n_items = self.bank.n_items
        self.positions = slice(start, start + n_items * repeats)
        # The repeats of an earlier task have risen: this one only moves.
        if repeats == self.repeats:
            return
        self._changed()
        self.repeats, self.kept_items = repeats, np.tile(self.kept_items[:n_items], repeats)
        for state in self.states:
            state.raise_repeats(repeats, seed)

    def asked(self, model: int, item: int, probability: float | None = None) -> None:
        """Record that `item` (a position in the task) was asked."""
        for state in self._states_with(item):
            state.policy.asked(model, item, probability)

    def released(self, model: int, item: int) -> None:
        """Record that `item` was given back."""
        for state in self._states_with(item):
            state.policy.released(model, item)

    def failed(self, model: int, item: int) -> None:
        """Record that `item` will have no score."""
        self._changed()
        for state in self._states_with(item):
            state.fail(model, item)

    def told(self, model: int, item: int, scores: Sequence[float | None]) -> None:
        """Take in one answer's scores by outcome, as `read` returns them; None is a failure."""
        self._changed()
        # Outcomes of one answer are correlated. Residuals are taken before the scores are learned:
        # from a fit that has seen its score they are too small.
        if len(scores) > 1:
            expected = [state.expected(model)[item] for state in self.states]
            residual = np.array(scores, dtype=np.float64) - expected
            present = np.isfinite(residual)
            residual = np.where(present, residual, 0.0)
            self._products += np.outer(residual, residual)
            self._squares += np.outer(residual * residual, present)
            self._n_common += np.outer(present, present)
        for state, score in zip(self.states, scores):
            # The calibration of this outcome's bank removed the item.
            if not state.kept_items[item]:
                continue
            if score is None:
                state.fail(model, item)
            else:
                state.policy.told(model, item, score)
                state.scores[model][item] = score
                state.scored.add(item)

    def read(self, model: str, item: int, name: Any, score: Any) -> list[float | None]:
        """Return the checked scores of one answer by outcome; None for an outcome it lacks.

        `item` is a position in the task; `name` is its name, for errors.

        Raises
        ------
        ScaleError
            A score is not a number in [0, 1].
        UsageError
            The item was removed from the bank, an outcome is unknown, no outcome of positive
            weight has a score, or several outcomes share one bare score.
        """
        if not self.kept_items[item]:
            raise UsageError(f"doc_id {name!r} was removed from the bank by its calibration")
        names = [outcome.name for outcome in self.outcomes]
        if isinstance(score, Mapping):
            if unknown := [outcome for outcome in score if outcome not in names]:
                raise UsageError(
                    f"unknown outcome {unknown[0]!r}; this task has {', '.join(names)}"
                )
            values = [score.get(name) for name in names]
        elif len(names) == 1:
            values = [score]
        else:
            raise UsageError(
                f"task {self.name!r} has several outcomes; tell a score of each: {{outcome: score}}"
            )
        # An answer must have a score of positive weight: without one it would count as an answer,
        # although it tells the ranking nothing.
        if not any(
            score is not None and outcome.weight > 0.0
            for outcome, score in zip(self.outcomes, values)
        ):
            raise UsageError(f"no outcome that counts has a score on doc_id {name!r}")
        return [None if score is None else _checked_score(score, model, name) for score in values]

    def correlation(self) -> Floats:
        """Correlation of the outcomes' errors; shape (n_outcomes, n_outcomes).

        It is that of the residuals of n answers, ``r``, drawn towards 1, at which a weighted sum
        has the largest error: ``(n r + 5) / (n + 5)``; 5 is `_PRIOR_ANSWERS`.
        """
        n, scale = self._n_common, np.sqrt(self._squares * self._squares.T)
        observed = np.divide(self._products, scale, out=np.ones_like(n), where=scale > 0.0)
        out = (n * np.clip(observed, -1.0, 1.0) + _PRIOR_ANSWERS) / (n + _PRIOR_ANSWERS)
        np.fill_diagonal(out, 1.0)
        return np.asarray(out)


def _checked_score(value: Any, model: str, name: Any) -> float:
    try:
        score = float(value)
    except (TypeError, ValueError):
        score = float("nan")
    if not 0.0 <= score <= 1.0:
        raise ScaleError(
            f"score {value!r} of model {model!r} on doc_id {name!r} is not in [0, 1]; "
            "normalise it with the scale of the metric first"
        )
    return score


class Contents:
    """All tasks of a ranking; translates between names and positions of their items.

    The ranker knows an item by its position among those of all tasks, task after task. Each repeat
    of an item has a position of its own (`Task`), so that `n_items` counts every repeat.

    Parameters
    ----------
    banks : ItemBank, list of Outcome, or mapping of task to ItemBank or {outcome: ItemBank}
        A single bank is one task with one outcome.
    weights : {"documents", "equal"}, or mapping of task, of outcome, or of task to outcome
        By default, tasks weigh by their number of documents, and outcomes equally, or by the
        weights of the outcomes given.
    repeats : int, or mapping of task to int, optional
        Most answers of an item.

    Attributes
    ----------
    bare : bool
        Whether the ranker hands out items as bare doc_ids: with a single task, unless `banks` is a
        mapping. With a single task, it accepts both forms of an item.
    repeats : dict of str to int
        Most answers of an item, by task.

    Raises
    ------
    UsageError
        There is no task, a task's outcomes have different items or one name, the banks are of
        several methods, or the weights do not fit.
    """

    def __init__(
        self, banks: Banks, weights: Weights = None, repeats: int | Mapping[str, int] = 1
    ) -> None:
        outcomes_of_task = _by_task(banks)
        self.repeats = _repeats(repeats, outcomes_of_task)
        # Weights are settled first: they decide which outcome leads a task and which items it asks.
        shares = _shares(outcomes_of_task, weights)
        self.tasks: list[Task] = []
        for name, outcomes in outcomes_of_task.items():
            weighted = [replace(outcome, weight=shares[name][outcome.name]) for outcome in outcomes]
            start = self.tasks[-1].positions.stop if self.tasks else 0
            self.tasks.append(Task(name, weighted, start, self.repeats[name]))
        self.outcomes = [outcome for task in self.tasks for outcome in task.outcomes]
        ranked_outcomes = [outcome for outcome in self.outcomes if outcome.weight > 0.0]
        # Outcomes of weight 0 are only reported, so theirs may be of any method.
        methods = sorted({outcome.bank.method for outcome in ranked_outcomes})
        if len(methods) > 1:
            raise UsageError(f"the banks are of several methods ({', '.join(methods)}); take one")
        self.bare = len(self.tasks) == 1 and not isinstance(banks, Mapping)
        # If a run began the ranking, by outcomes, `ask` names the repeat beside the item, also of a
        # `bare` task. A script that began it by a bank gets the doc_id alone.
        self._names_repeats = isinstance(banks, Sequence)
        #: The scale shared by all outcomes of positive weight, else [0, 1].
        self.scale = scale_of(ranked_outcomes)
        self.number_of_task = {task.name: number for number, task in enumerate(self.tasks)}
        self._number_items()

    @property
    def pass_length(self) -> int:
        """Number of items of a pass over all tasks; 0 if a task's items are asked once only."""
        if min(self.repeats.values()) == 1:
            return 0
        return sum(int(n) // task.repeats for n, task in zip(self.n_kept, self.tasks))

    @property
    def with_bank(self) -> bool:
        """Whether the method's estimates rest on what a bank says of the items."""
        return method_of(self.tasks[0].bank).calibrates

    def _number_items(self) -> None:
        """Number the items of all tasks, task after task; called again when repeats are raised."""
        self._starts = [task.positions.start for task in self.tasks]
        self.n_items = self.tasks[-1].positions.stop
        # The accounts of all models share these integers, which saves memory.
        self._positions = list(range(self.n_items))
        self.kept_items = np.concatenate([task.kept_items for task in self.tasks])
        self.n_kept = np.array([int(task.kept_items.sum()) for task in self.tasks])

    @property
    def asks_repeatedly(self) -> bool:
        """Whether items of a task are asked more than once."""
        return max(task.repeats for task in self.tasks) > 1

    def checked_repeats(self, repeats: Any) -> dict[str, int]:
        """Return how often items of each task may be asked if `repeats` is set; change nothing.

        Raises
        ------
        UsageError
            A number falls, or a method asks every item once.
        """
        repeats_of_task = _repeats(repeats, self.number_of_task)
        if any(repeats_of_task[task.name] < task.repeats for task in self.tasks):
            was, becomes = (
                ", ".join(map(str, n.values())) for n in (self.repeats, repeats_of_task)
            )
            raise UsageError(
                f"repeats {was} cannot become {becomes}: in a run they only rise; start a new run "
                "and name this one under prior:, which takes over its answers"
            )
        method_of(self.tasks[0].bank).require_repeats()
        return repeats_of_task

    def raise_repeats(self, repeats: Any, seed: int) -> Indices:
        """Let items be asked more often than so far; `checked_repeats` refuses what may not be.

        Parameters
        ----------
        repeats : int, or mapping of task to int
        seed : int
            Seed of the passes.

        Returns
        -------
        ndarray of int, shape (n_items before,)
            The new position of every old one: those of later tasks move up to make room.
        """
        self.repeats, moved_to, start = self.checked_repeats(repeats), list[Indices](), 0
        for task in self.tasks:
            # A task's new positions follow its old ones, which move only if an earlier task grows.
            moved_to.append(start + np.arange(task.positions.stop - task.positions.start))
            task.raise_repeats(self.repeats[task.name], start, seed)
            start = int(task.positions.stop)
        self._number_items()
        return np.concatenate(moved_to)

    @property
    def changes(self) -> int:
        """Number of changes of what is known of any task."""
        return sum(task.changes for task in self.tasks)

    def position(self, item: Any, repeat: int = 1) -> int:
        """Return the position of an answer to an item among those of all tasks.

        Parameters
        ----------
        item : doc_id, (task, doc_id) or (task, doc_id, repeat)
            With a single task, its doc_id does. The third part goes before `repeat`.
        repeat : int, optional
            From 1.

        Raises
        ------
        UsageError
            There is no such task, item or repeat, or several tasks and none is named.
        """
        # Pairs name a task, so a doc_id that is itself a tuple has to be named with its task.
        if not isinstance(item, str | int) and isinstance(item, Sequence) and len(item) in (2, 3):
            name, doc_id, *named = item
            repeat = named[0] if named else repeat
            if name not in self.number_of_task:
                known = ", ".join(map(str, self.number_of_task))
                raise UsageError(f"unknown task {name!r}; this ranking has {known}")
            task = self.tasks[self.number_of_task[name]]
        elif len(self.tasks) == 1:
            task, doc_id = self.tasks[0], item
        else:
            raise UsageError(f"item {item!r} is not a pair (task, doc_id)")
        try:
            index = task.bank.index[doc_id]
        except (KeyError, TypeError):
            raise UsageError(f"the bank{_of(task)} has no item with doc_id {doc_id!r}") from None
        # In Python True is an integer, equal to 1.
        if isinstance(repeat, bool) or not isinstance(repeat, int):
            raise UsageError(f"repeat {repeat!r} of doc_id {doc_id!r} is not a whole number")
        if not 1 <= repeat <= task.repeats:
            raise UsageError(
                f"there is no repeat {repeat} of doc_id {doc_id!r}{_of(task)}: this ranking asks "
                f"every item up to {task.repeats} times"
            )
        # From `_positions`, so that all accounts share one integer object for each position.
        return self._positions[int(task.positions.start) + index + task.bank.n_items * (repeat - 1)]

    def positions_of(self, item: Any) -> list[int]:
        """Return the positions of the answers that an item may mean, in order.

        A bare doc_id means any answer to it; (task, doc_id) means the first alone, and
        (task, doc_id, 2) the second.
        """
        first = self.position(item)
        if not isinstance(item, str | int) and isinstance(item, Sequence):
            return [first]
        task = self.tasks[self.task_at(first)]
        return self._positions[first : task.positions.stop : task.bank.n_items]

    def task_at(self, position: int) -> int:
        """Return the number of the task that an item belongs to."""
        return bisect_right(self._starts, position) - 1

    def task_and_position(self, position: int) -> tuple[Task, int]:
        """Return the task that an item belongs to, and its position there."""
        task = self.tasks[self.task_at(position)]
        start = int(task.positions.start)
        return task, position - start if start else position

    def doc_id(self, position: int) -> Any:
        """Return an item's doc_id."""
        task, i = self.task_and_position(position)
        return task.bank.doc_ids[i % task.bank.n_items]

    def name(self, position: int) -> Any:
        """Return an item's name: its doc_id if the ranker hands out these, else (task, doc_id)."""
        doc_id = self.doc_id(position)
        return doc_id if self.bare else (self.tasks[self.task_at(position)].name, doc_id)

    def name_as_asked(self, position: int) -> Any:
        """Return an item as `ask` names it: from the second repeat on (task, doc_id, repeat).

        The first has its `name`, and so have all if a script ranks by a bare bank.
        """
        task, in_task = self.task_and_position(position)
        passes_before, in_bank = divmod(in_task, task.bank.n_items)
        doc_id = task.bank.doc_ids[in_bank]
        if self.bare and not (passes_before and self._names_repeats):
            return doc_id
        return (task.name, doc_id, passes_before + 1) if passes_before else (task.name, doc_id)

    def units(self, units: Any) -> Floats:
        """Return the size of each answer that may be asked, by position; shape (n_items,).

        `units` are those of `item_units`, or unless `bare` a mapping of task to such; the items of
        a task that it lacks have 1 each. Every repeat of an item has the item's size.
        """
        if not (self.bare or units is None or isinstance(units, Mapping)):
            raise UsageError("units of items of named tasks are given by task: {task: units}")
        units_of = {self.tasks[0].name: units} if self.bare else dict(units or {})
        unknown = [name for name in units_of if name not in self.number_of_task]
        if unknown:
            raise UsageError(f"units are given for {unknown[0]!r}, which has no bank")
        return np.concatenate(
            [
                np.tile(item_units(task.bank.doc_ids, units_of.get(task.name)), task.repeats)
                for task in self.tasks
            ]
        )

    def group_factors(
        self, name: str, tasks: Mapping[str, float] | Sequence[str]
    ) -> dict[int, float]:
        """Return the factor on each task's weight in a group of tasks, by task number.

        The group's weights sum to 1, so a task's factor is its share of the group over its weight
        in the ranked score.
        """
        factors = dict(tasks) if isinstance(tasks, Mapping) else dict.fromkeys(tasks, 1.0)
        unknown = [task for task in factors if task not in self.number_of_task]
        if unknown or not factors:
            raise UsageError(f"group {name!r} has no task {unknown[0] if unknown else ''!r}")
        total = sum(factors.values())
        if not total > 0.0 or min(factors.values()) < 0.0:
            raise UsageError(f"group {name!r}: weights must be numbers above 0")
        shares = {self.number_of_task[task]: weight / total for task, weight in factors.items()}
        return {number: share / self.tasks[number].weight for number, share in shares.items()}


def _of(task: Task) -> str:
    """Return the words that name a task in a message; none if it has no name."""
    return f" of task {task.name!r}" if task.name else ""


def _repeats(repeats: Any, tasks: Collection[str]) -> dict[str, int]:
    """Return the most answers of an item, by task.

    Raises
    ------
    UsageError
        A number is below 1, or a task is unknown or has no number.
    """
    if not isinstance(repeats, Mapping):
        return dict.fromkeys(tasks, REPEATS.check(repeats, "repeats"))
    if set(repeats) != set(tasks):
        task = next(iter({*repeats} ^ {*tasks}))
        raise UsageError(f"repeats {repeats!r} are not one number for each task: {task!r}")
    return {task: REPEATS.check(repeats[task], f"repeats of {task}") for task in tasks}


def scale_of(outcomes: Sequence[Outcome | ItemBank]) -> Scale:
    """Return the scale that all outcomes or banks share, else [0, 1]."""
    first = outcomes[0].scale
    return first if all(outcome.scale == first for outcome in outcomes) else Scale()


def _outcomes(banks: Banks) -> Iterator[Outcome]:
    """Yield the outcomes that the caller's banks stand for; refuse what is no bank."""
    if isinstance(banks, Mapping):
        for task, bank_or_outcomes in banks.items():
            if not bank_or_outcomes:
                raise UsageError(f"task {task!r} has no bank")
            by_name = bank_or_outcomes
            # A bank alone is the task's only outcome, named after its metric.
            if not isinstance(by_name, Mapping):
                by_name = {"": by_name}
            for name, bank in by_name.items():
                yield Outcome.of(_checked_bank(bank), task, name)
    elif isinstance(banks, Sequence) and all(isinstance(entry, Outcome) for entry in banks):
        yield from banks
    else:
        yield Outcome.of(_checked_bank(banks))


def _checked_bank(bank: Any) -> ItemBank:
    if not isinstance(bank, ItemBank):
        raise UsageError(
            f"{bank!r:.60} is no bank, nor a list of outcomes, nor banks by task; read a bank "
            "by ItemBank.load(path), or rank without one by ItemBank.blank(doc_ids)"
        )
    return bank


def _by_task(banks: Banks) -> dict[str, list[Outcome]]:
    """Return the outcomes of every task, checked."""
    out = grouped((outcome.task, outcome) for outcome in _outcomes(banks))
    if not out:
        raise UsageError("a ranking needs the bank of at least one task")
    for task, of_task in out.items():
        if any(outcome.bank.doc_ids != of_task[0].bank.doc_ids for outcome in of_task):
            raise UsageError(f"the outcomes of task {task!r} are of other items")
        # Scores and weights are stated by name, so that each of two would get those of both.
        names = [outcome.name for outcome in of_task]
        if len(set(names)) < len(names):
            raise UsageError(f"two outcomes of task {task!r} have one name: {', '.join(names)}")
    return out


def shares_of(
    sizes: Mapping[str, float], weights: Any, outcomes: Collection[str] = ()
) -> dict[str, float]:
    """Return the weight of each task: by size (``documents``), ``equal``, or as stated.

    Parameters
    ----------
    sizes : mapping of task to float
    weights : {"documents", "equal"} or mapping of task to float
    outcomes : collection of str, optional
        Other names that `weights` could have stated, for the error.

    Returns
    -------
    dict of str to float
        They sum to 1.

    Raises
    ------
    UsageError
        The weights are not of these tasks, or one is not above 0.

    Examples
    --------
    >>> shares_of({"a": 30, "b": 10}, "documents"), shares_of({"a": 30, "b": 10}, "equal")
    ({'a': 0.75, 'b': 0.25}, {'a': 0.5, 'b': 0.5})
    """
    # Weights that are stated are no key of this mapping: they stay.
    weight_of = {"documents": sizes, "equal": dict.fromkeys(sizes, 1.0)}.get(str(weights), weights)
    if not isinstance(weight_of, Mapping) or set(weight_of) != set(sizes):
        known = " or of ".join(", ".join(map(str, names)) for names in (sizes, outcomes) if names)
        raise UsageError(
            f"weights {weights!r} are neither 'documents' nor 'equal', nor a positive number for "
            f"each of {known}"
        )
    total = _total(weight_of.values(), ABOVE_0)
    return {task: weight_of[task] / total for task in sizes}


def _shares(
    outcomes_of_task: Mapping[str, Sequence[Outcome]], user_weights: Weights
) -> dict[str, dict[str, float]]:
    """Return the weights of all outcomes by task and name, which sum to 1 over all tasks."""
    outcome_weights = {
        task: {outcome.name: outcome.weight for outcome in outcomes}
        for task, outcomes in outcomes_of_task.items()
    }
    # A task's share of the score is divided among its outcomes in proportion to their weights.
    stated = _stated_weights(outcome_weights, user_weights)
    sums = {task: _total(weights.values(), AT_LEAST_0) for task, weights in stated.in_task.items()}
    sizes = {task: float(outcomes[0].bank.n_items) for task, outcomes in outcomes_of_task.items()}
    outcome_names = {name for names in outcome_weights.values() for name in names}
    share = shares_of(sizes, sums if stated.of_tasks is None else stated.of_tasks, outcome_names)
    return {
        task: {name: share[task] * (weight / sums[task]) for name, weight in weights.items()}
        for task, weights in stated.in_task.items()
    }


class _StatedWeights(NamedTuple):
    """What a user says of weights.

    Attributes
    ----------
    in_task : mapping of task to (mapping of outcome to float)
        Weights of outcomes. Unless `of_tasks` is None, only their ratios within a task count.
    of_tasks : {"documents", "equal"}, mapping of task to float, or None
        Weights of tasks. With None, a task weighs what its outcomes weigh together.
    """

    in_task: Mapping[str, Mapping[str, Any]]
    of_tasks: Any


def _stated_weights(
    outcome_weights: Mapping[str, Mapping[str, float]], user_weights: Weights
) -> _StatedWeights:
    """Read a user's weights; the outcomes bring `outcome_weights`, by task and name."""
    if not isinstance(user_weights, Mapping):
        of_tasks = "documents" if user_weights is None else user_weights
        return _StatedWeights(outcome_weights, of_tasks)
    by_name: Mapping[str, Any] = user_weights
    # Weights by task and outcome.
    if any(isinstance(weight, Mapping) for weight in by_name.values()):
        _require_each_outcome(by_name, outcome_weights)
        return _StatedWeights(by_name, None)
    # Weights by outcome, the same in every task. If tasks have the names of their outcomes, the
    # weights are of tasks.
    metrics = {name for names in outcome_weights.values() for name in names}
    if set(by_name) == metrics and metrics != set(outcome_weights):
        in_task = {
            task: {name: by_name[name] for name in names} for task, names in outcome_weights.items()
        }
        return _StatedWeights(in_task, "documents")
    return _StatedWeights(outcome_weights, by_name)


def _require_each_outcome(
    weights: Mapping[str, Any], expected: Mapping[str, Mapping[str, float]]
) -> None:
    """Refuse weights by task and outcome that are not one for each of those expected."""
    if set(weights) != set(expected):
        raise UsageError(
            f"weights by outcome are stated for {', '.join(map(str, weights))}; state them for "
            f"each task of this ranking: {', '.join(map(str, expected))}"
        )
    for task, names in weights.items():
        if not isinstance(names, Mapping) or set(names) != set(expected[task]):
            raise UsageError(f"weights of task {task!r} are not one per outcome: {names!r}")


def _total(weights: Collection[Any], kind: Kind) -> float:
    """Return the sum of weights, each of a kind; it must be above 0."""
    for weight in weights:
        kind.check(weight, "weight")
    if not sum(weights) > 0.0:
        raise UsageError("some weight must be above 0")
    return float(sum(weights))


# -- what failures may hide --------------------------------------------------------------------


#: Fewest failures, and scores, from which to estimate a bias.
FEWEST_FAILURES = 3
#: Standard errors added to the size of `b`, because few failures determine it.
ERRORS_ADDED = 0.5


def failure_bias(expected: Floats, scores: Mapping[int, float], failed: Sequence[int]) -> float:
    """Return by how much failures may make an estimate too high (below 0: too low).

    An estimate assumes that failures are random, given the expected scores of the items. The data
    test this in part. Let a failure be likelier by ``b`` where a score is lower by 1. Then it is
    likelier by ``b``, too, where an expected score is lower by 1, because an expectation is a mean
    of scores: regressing failures on expected scores gives ``b``. If scores have the variance
    ``s2`` about their expectation and a share ``f`` failed, the scores that came lie
    ``b s2 / (1 - f)`` above their expectation on average. An estimate is too high by at most that
    much, because the bank and the items that did not fail pull it the other way, and by no more
    than if all failed items had scored 0. `ERRORS_ADDED` standard errors of ``b`` are added to its
    size.

    Parameters
    ----------
    expected : ndarray of shape (n_items,)
        Expected scores of one model.
    scores : mapping of int to float
        The model's scores, by item.
    failed : sequence of int
        Items that it failed on.

    Examples
    --------
    >>> expected = np.linspace(0.1, 0.9, 9)
    >>> scores = {i: expected[i] + 0.2 * (-1) ** i for i in range(3, 9)}
    >>> round(failure_bias(expected, scores, [0, 1, 2]), 3)
    0.067
    """
    if min(len(scores), len(failed)) < FEWEST_FAILURES:
        return 0.0
    # What was expected of the items with a score, of those without, and of both.
    of_scored, of_failed = expected[[*scores]], expected[list(failed)]
    of_asked = np.concatenate([of_scored, of_failed])
    f, spread = len(of_failed) / len(of_asked), float(of_asked.var())
    # Where all items are expected to score alike, nothing can be regressed on that.
    if spread < 1e-9:
        return 0.0
    b = f * (1.0 - f) * float(of_scored.mean() - of_failed.mean()) / spread
    error_of_b = (f * (1.0 - f) / (len(of_asked) * spread)) ** 0.5
    s2 = float(np.mean((np.array(list(scores.values())) - of_scored) ** 2))
    bias = (b + np.copysign(ERRORS_ADDED * error_of_b, b)) * s2 / (1.0 - f)
    return float(np.clip(bias, -f * (1.0 - of_failed).mean(), f * of_failed.mean()))

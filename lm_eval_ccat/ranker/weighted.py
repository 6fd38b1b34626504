"""A weighted sum of outcomes: the belief about it, and the item that says most about it.

The score of a model is ``sum over outcomes of weight x score``; a ranking by one outcome is the
simple case. Items are chosen to reduce the error of that sum, not of each outcome: a task of small
weight, or one that is known well already, gets few. Tasks have different items, so their errors
add; outcomes of one task score the same answers, so their errors are correlated as their residuals
are (`Task.correlation`). With `PriorAcrossTasks`, answers in one task inform the others, and errors
of tasks are correlated.

A *term* is one task's part of the sum, `states` are its outcomes in the ranking (`OutcomeState`).
*Replays* are what rankings of models left out of the banks would have estimated. A model *refuses*
an item if it scores 0 on it however easy the item is.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ..methods.belief import BENCHMARK, Belief, as_of_many
from ..methods.policy import Choice, Policy, Refusals, rounded
from ..metrics.scale import Floats
from .across import (
    REFUSED,
    REFUSED_BESIDE_KNOWN,
    KnownScores,
    PriorAcrossTasks,
    Replays,
    known_scores,
    loss_by_refusals,
)
from .contents import Contents, OutcomeState, Task

_ROUNDING = 1e-12  # of a score, and relative of a variance
_NEARLY_FREE = 1e-12  # units that keep a gain per unit finite


class WeightedSum:
    """One weighted sum of outcomes, read from their policies.

    Parameters
    ----------
    contents : Contents
    units : ndarray of shape (n_tasks,)
        Mean units of the items of each task.
    prior : PriorAcrossTasks or None
    replays : Replays or None
        Corrections to the stated errors of sums over tasks.
    factor : mapping of int to float
        Tasks in the sum, by number, each with a factor on the weights of its outcomes. With factors
        1 for all tasks, the sum is the ranked score.
    only : OutcomeState, optional
        Use only this one of the tasks' outcomes, whatever its weight.

    Attributes
    ----------
    tasks : list of int
    outcomes : list of OutcomeState
        Outcomes in the sum.
    outcome_weights : ndarray of shape (n_outcomes,)
        Weight of each outcome.
    weights : ndarray of shape (n_tasks,)
        Weight of each task.
    """

    def __init__(
        self,
        contents: Contents,
        units: Floats,
        prior: PriorAcrossTasks | None,
        replays: Replays | None,
        factor: Mapping[int, float],
        only: OutcomeState | None = None,
    ) -> None:
        # What every other sum over these contents shares with this one; see `with_tasks`.
        self._arguments = contents, units, prior, replays
        self._contents = contents
        self._terms = [
            _Term(contents.tasks[task], task_factor, only) for task, task_factor in factor.items()
        ]
        self.tasks = list(factor)
        self.outcomes = [state for term in self._terms for state in term.states]
        self.outcome_weights = np.concatenate([term.weights for term in self._terms])
        self.weights = np.array([term.weights.sum() for term in self._terms])
        # Whether each task has a part in the prior across tasks.
        self._shares_prior = [prior is not None and task in prior.tasks for task in self.tasks]
        self._prior = prior if any(self._shares_prior) else None
        self._units = np.maximum(units[self.tasks], _NEARLY_FREE)
        self._belief: tuple[tuple[str, int], Belief] | None = None
        self._replays, self._replay_factors = replays, np.ones(0)
        weight = np.zeros(len(contents.tasks))
        weight[self.tasks] = self.weights
        # Replays know errors of estimates by one outcome, not of sums of a task's outcomes. And one
        # task has no errors in common with another.
        single = len(self.outcomes) == len(self.tasks)
        if replays is not None and single and (weight > 0.0).sum() > 1:
            self._replay_factors = replays.factors(weight, prior)

    def with_tasks(
        self, factor: Mapping[int, float], only: OutcomeState | None = None
    ) -> WeightedSum:
        """Return another sum over the same contents: of the tasks of `factor`, or one outcome."""
        return WeightedSum(*self._arguments, factor, only)

    @property
    def only_outcome(self) -> OutcomeState | None:
        """The only outcome if the score is that of one, whose policy then decides; else None."""
        single = len(self.outcomes) == 1 and self._terms[0].weights[0] == 1.0
        return self.outcomes[0] if single and self._prior is None else None

    @property
    def leader(self) -> Policy:
        """The policy that sets how the ranking proceeds: that of the first task's `leader`."""
        return self._contents.tasks[0].leader.policy

    # -- what is known ------------------------------------------------------------------------

    def belief(self, question: str = BENCHMARK) -> Belief:
        """Return the belief about this score, on [0, 1] unless it is that of `only_outcome`.

        It is cached until something about a task changes.
        """
        key = question, self._contents.changes
        if self._belief is None or self._belief[0] != key:
            belief = (
                self._sum(question)
                if self.only_outcome is None
                else self.only_outcome.belief(question)
            )
            # The bias of a sum is the weighted sum of the outcomes' biases.
            if any(any(state.failed) for state in self.outcomes):
                biases = [
                    [state.failure_bias(model) for model in range(len(belief.location))]
                    for state in self.outcomes
                ]
                bias = (self.outcome_weights[:, None] * np.array(biases)).sum(axis=0)
                belief = replace(belief, failure_bias=bias)
            self._belief = key, belief
        return self._belief[1]

    def _sum(self, question: str) -> Belief:
        """Return the belief about the sum, without the bias of failures, which `belief` adds."""
        beliefs = [term.belief(question) for term in self._terms]
        # The prior across tasks, replays, and what is known of models beyond the banks are about
        # these very items, not about a population.
        if question != BENCHMARK:
            belief = Belief.sum(beliefs, np.ones(len(beliefs)))
            return replace(belief, location=np.clip(belief.location, 0.0, 1.0))
        if self._prior is not None:
            beliefs = self._with_shared_prior(beliefs, self._prior)
        belief = Belief.sum(beliefs, np.ones(len(beliefs)))
        before_replays = belief.variance.diagonal()
        if self._replays is not None and len(self._replay_factors):
            belief = self._replays.judge(belief, self._replay_factors, len(self.tasks))
        if self._known is not None:
            excess = self._beyond_banks(belief, self._known, before_replays)
            variance = belief.variance.copy()
            np.fill_diagonal(variance, variance.diagonal() + excess.max(axis=0))
            belief = replace(belief, variance=variance, beyond_banks=excess)
        return replace(belief, location=np.clip(belief.location, 0.0, 1.0))

    def _with_shared_prior(
        self, beliefs: Sequence[Belief], prior: PriorAcrossTasks
    ) -> list[Belief]:
        """Return one belief about all tasks that share the prior, and one about each other task."""
        sharing = [belief for belief, shares in zip(beliefs, self._shares_prior) if shares]
        weight = dict(zip(self.tasks, self.weights))
        weights = np.array([weight.get(task, 0.0) for task in prior.tasks])
        prior.refresh()
        together = Belief.sum(sharing, np.ones(len(sharing)))
        together = together.with_prior(weights @ prior.shift, prior.change_of_sum(weights))
        apart = [belief for belief, shares in zip(beliefs, self._shares_prior) if not shares]
        return [together, *apart]

    def _beyond_banks(self, belief: Belief, known: KnownScores, before_replays: Floats) -> Floats:
        """Return what the lower and the upper end of a weighted mean add to its variance.

        Shape (2, n_models): `Belief.beyond_banks`.

        If the mean lies beyond those of all models that the banks know, the estimate of every task
        errs to the same side, towards the banks' models. With ``o`` the probability of that, ``v``
        the mean's variance, ``v_t`` that of task ``t``, and ``a_t`` by how much one more answer of
        0 (above the banks of 1) would move task ``t``, the end away from the banks has the variance

            (1 - o) v + o (sum of (v_t + a_t^2)^(1/2))^2

        if that is larger than ``v``; what it exceeds ``v`` by is returned.

        Parameters
        ----------
        belief : Belief
            About the mean.
        known : KnownScores
        before_replays : ndarray of shape (n_models,)
            Variances of the mean before replays corrected them. Models left out of the banks seldom
            lie beyond these, so ``o`` is computed from the larger of both variances.
        """
        terms = [term.belief(BENCHMARK) for term in self._terms]
        location = np.array([term.location for term in terms])
        variance = np.array([term.variance.diagonal() for term in terms])
        if self._prior is not None:
            change = dict(zip(self._prior.tasks, self._prior.own_changes()))
            for index, task in enumerate(self.tasks):
                variance[index] += self.weights[index] ** 2 * change.get(task, 0.0)
        variance = np.maximum(variance, 0.0)  # but for rounding, none is below 0
        n = np.array([as_of_many(term.n.diagonal(), term.n_items) for term in terms])
        weight = self.weights[:, None]
        score = np.clip(location, 0.0, weight)
        one_answer = np.array([score, weight - score]) / np.maximum(n, 1.0)
        mean_variance, places = belief.variance.diagonal(), known.places
        # Tasks with a bank err together, the others independently.
        together = np.sqrt(variance + one_answer**2)[:, places].sum(axis=1) ** 2
        together += variance.sum(axis=0) - variance[places].sum(axis=0)
        error = np.sqrt(np.maximum(mean_variance, before_replays))
        beyond = known.beyond(belief.location, error, location)
        return np.asarray(beyond * np.maximum(together - mean_variance, 0.0))

    @cached_property
    def _known(self) -> KnownScores | None:
        """The scores of the banks' models; None unless two tasks have a bank that states them."""
        return KnownScores.of([term.known for term in self._terms])

    def end_shares(self, model: int, question: str) -> tuple[float, float]:
        """Return what the two ends of a model's interval have of its standard error, 0 to 1 each.

        The standard error is that of the end with the larger figure in `Belief.beyond_banks`.
        """
        belief = self.belief(question)
        if belief.beyond_banks is None:
            return 1.0, 1.0
        excess, largest = belief.beyond_banks[:, model], belief.variance[model, model]
        low, high = np.sqrt((largest - excess.max() + excess) / max(largest, 1e-300)).tolist()
        return low, high

    def zero_loss(self, model: int) -> float:
        """Return how much lower the estimate may be because of scores of 0 still to come.

        Of a single task it is by how much one more answer of 0 would lower the estimate
        (`Description.zero_loss`). Of several tasks it is the root of the sum of two squares: of the
        largest such loss of the tasks whose method says nothing of refusals, because the answer may
        be any task's, and of what refusals explain of all other tasks together.
        """
        losses = [
            term.zero_loss(model)
            for term, refusals in zip(self._terms, self._refusals(model))
            if refusals is None
        ]
        return math.hypot(max(losses, default=0.0), self._loss_by_refusals(model, REFUSED))

    @property
    def refusal_variance(self) -> Floats:
        """Variance that lower ends add beside known models, as a model may refuse; (n_models,)."""
        models = range(len(self.belief().location))
        losses = [self._loss_by_refusals(model, REFUSED_BESIDE_KNOWN) for model in models]
        return np.array(losses) ** 2

    def _loss_by_refusals(self, model: int, refused: float) -> float:
        """Return how much lower the estimate may be because the model refuses items; 0 of one task.

        A model that refuses items of all tasks is placed too high in each: no bank knows such a
        model, and the answers of one task are too few to tell refusals from lower ability. The
        answers of all tasks together say which shares of refused items are likely.

        Parameters
        ----------
        model : int
        refused : float
            Standard deviation of the share of refused items, as believed before any answer.
        """
        known = [refusals for refusals in self._refusals(model) if refusals is not None]
        return loss_by_refusals(Refusals(*map(math.fsum, zip(*known))), refused) if known else 0.0

    def _refusals(self, model: int) -> list[Refusals | None]:
        """Return, by task, what its answers say of refusals.

        None for a single task, and for a task whose method does not know.
        """
        return [term.refusals(model) if len(self._terms) > 1 else None for term in self._terms]

    def possible(self, model: int) -> tuple[float, float]:
        """Return the least and the largest score, whatever answers to come score."""
        parts = [
            (weight * floor, weight * ceiling)
            for term in self._terms
            for weight, state in zip(term.weights.tolist(), term.states)
            for floor, ceiling in [state.possible(model)]
        ]
        floor, ceiling = map(math.fsum, zip(*parts))
        return max(0.0, floor - _ROUNDING), min(1.0, ceiling + _ROUNDING)

    def shared_errors(self, model: int) -> dict[str, dict[str, float]]:
        """Return covariances of the errors of one model's tasks, by task and other task.

        Scores are on [0, 1] and unweighted. The result is empty if tasks are independent. One part
        of the covariances comes from the prior across tasks. The other part is what that leaves of
        the variance of the sum, which replays raise or lower and a place beyond the banks raises:
        it is stated as one correlation for all pairs of tasks.
        """
        # Replays know nothing of tasks with several outcomes: these have the prior's part alone.
        replayed = len(self.outcomes) == len(self.tasks)
        if len(self.tasks) == 1 or (self._prior is None and not replayed):
            return {}
        names = [term.task.name for term in self._terms]
        shared = np.zeros((len(names), len(names)))
        if self._prior is not None:
            places = [self.tasks.index(number) for number in self._prior.tasks]
            shared[np.ix_(places, places)] = self._prior.covariances(model)
        if replayed:
            of_tasks = [term.beliefs(BENCHMARK)[0].variance[model, model] for term in self._terms]
            np.fill_diagonal(shared, np.maximum(of_tasks + shared.diagonal(), 0.0))
            variance = self.belief().variance[model, model]
            unexplained = variance - self.weights @ shared @ self.weights
            if self._prior is None and abs(unexplained) <= _ROUNDING * variance:
                return {}
            shared += self._as_correlated(shared.diagonal(), unexplained)
        return {
            task: {
                other_task: float(shared[i, j])
                for j, other_task in enumerate(names)
                if other_task != task
            }
            for i, task in enumerate(names)
        }

    def _as_correlated(self, variances: Floats, variance_of_sum: float) -> Floats:
        """Return covariances that add `variance_of_sum` to the sum's, of one correlation for all.

        Shape (n_tasks, n_tasks), 0 on the diagonal.
        """
        covariances = np.sqrt(np.outer(variances, variances))
        np.fill_diagonal(covariances, 0.0)
        of_sum = self.weights @ covariances @ self.weights
        return np.asarray(covariances * variance_of_sum / max(of_sum, 1e-300))

    def findings(self, model: int) -> list[str]:
        """Return the findings of each task's first outcome on `model`, each sentence once."""
        findings = [
            finding
            for term in self._terms
            for finding in term.states[0].policy.describe(model).findings
        ]
        return list(dict.fromkeys(findings))

    def item_cap(self) -> int:
        """Return the most items that a model may get if the user states no limit."""
        shares = [term.states[0].policy.max_share for term in self._terms]
        return sum(
            int(n * share) for n, share in zip(self._contents.n_kept[self.tasks].tolist(), shares)
        )

    # -- which item ---------------------------------------------------------------------------

    def _gain(self, model: int, pending: Sequence[int]) -> Floats:
        """Return how much one more item of each task lowers the variance of the sum, per unit.

        With ``v`` the variance of a task's part of the sum (its weight is in it), ``n`` the answers
        of `model` and ``p`` its items in flight there, and ``u`` the task's mean units, this is
        about

            v / ((n + p + 1) u).

        Shape (n_tasks,); 0 if the model has every item of a task.
        """
        # Every outcome of a task is told of every answer, so the first one tells their number.
        n = np.array([len(term.states[0].scores[model]) for term in self._terms])
        variance = np.array([term.belief(BENCHMARK).variance[model, model] for term in self._terms])
        gain = variance * (n < self._contents.n_kept[self.tasks])
        n_pending = [
            sum(positions.start <= item < positions.stop for item in pending)
            for positions in (term.task.positions for term in self._terms)
        ]
        return np.asarray(gain / ((n + n_pending + 1) * self._units))

    def next(
        self,
        model: int,
        available: NDArray[np.bool_],
        pending: Sequence[int],
        price: Floats,
        k: int = 1,
    ) -> list[Choice]:
        """Return the candidates for the next item of `model`, best first, among all items."""
        term = self._next_term(model, available, pending)
        positions = term.task.positions
        outcome = term.next_outcome(model, available[positions])
        # A policy knows its task alone, and items by their positions in it.
        in_flight, start = pending, positions.start
        if len(self._contents.tasks) > 1:  # hundreds of items may be in flight
            in_flight = [item - start for item in pending if start <= item < positions.stop]
        askable = available[positions] & outcome.kept_items
        choices = outcome.policy.next(model, askable, in_flight, price[positions], k)
        return [Choice(choice.item + start, choice.probability) for choice in choices]

    def _next_term(self, model: int, available: NDArray[np.bool_], pending: Sequence[int]) -> _Term:
        """Return the task whose next item tells most about the sum."""
        askable = [
            position
            for position, term in enumerate(self._terms)
            if np.count_nonzero(available[term.task.positions])
        ]
        if len(askable) == 1:
            return self._terms[askable[0]]
        gain = rounded(self._gain(model, pending)[askable])
        return self._terms[askable[int(np.argmax(gain))]]


class _Term:
    """One task of the sum: its outcomes of positive weight, and their weights.

    Parameters
    ----------
    task : Task
    factor : float
        Factor on the weights that the outcomes have in the ranked score.
    only : OutcomeState or None
        If given, the term has this outcome alone, with weight 1.
    """

    def __init__(self, task: Task, factor: float, only: OutcomeState | None) -> None:
        self.task = task
        # Numbers of the outcomes among all of the task's. One of weight 0 is only reported.
        self._numbers = [
            number
            for number, state in enumerate(task.states)
            if (state is only if only else state.outcome.weight > 0.0)
        ]
        self.states = [task.states[number] for number in self._numbers]
        self.weights = np.array(
            [1.0 if only else factor * state.outcome.weight for state in self.states]
        )
        # By question, each with `Task.changes` as it was then.
        self._cached: dict[str, tuple[int, Belief]] = {}
        # By model, each with the number of the model's scores then.
        self._refusals: dict[int, tuple[int, Refusals | None]] = {}

    def next_outcome(self, model: int, available: NDArray[np.bool_]) -> OutcomeState:
        """Return the outcome that chooses the next item: of largest weight^2 x variance."""
        if len(self.states) == 1:
            return self.states[0]
        weights, beliefs = self.weights.tolist(), self.beliefs(BENCHMARK)
        worth = [
            weight * weight * belief.variance[model, model]
            # An outcome without an item left cannot choose.
            if (available & state.kept_items).any()
            else -1.0
            for state, belief, weight in zip(self.states, beliefs, weights)
        ]
        return self.states[int(np.argmax(rounded(np.array(worth))))]

    def zero_loss(self, model: int) -> float:
        """Return how much one more answer that scores 0, by all outcomes, lowers the sum."""
        return sum(
            float(weight) * state.policy.describe(model).zero_loss
            for weight, state in zip(self.weights, self.states)
        )

    def refusals(self, model: int) -> Refusals | None:
        """Return what the task's answers say of refusals; None if a method does not know that."""
        n_scores = sum(len(state.scores[model]) for state in self.states)
        if model not in self._refusals or self._refusals[model][0] != n_scores:
            self._refusals[model] = n_scores, self._current_refusals(model)
        return self._refusals[model][1]

    def _current_refusals(self, model: int) -> Refusals | None:
        """Return what `refusals` does, read anew from the policies."""
        first, *_ = by_outcome = [state.policy.refusals(model) for state in self.states]
        effects = [refusals.effect for refusals in by_outcome if refusals is not None]
        if first is None or len(effects) < len(by_outcome):
            return None
        # Outcomes are scores of the same answers, so those of the first tell the share.
        return first._replace(effect=float(self.weights @ effects))

    def beliefs(self, question: str) -> list[Belief]:
        """Return the beliefs about the task's outcomes, on the scale of scores."""
        return [state.belief(question).on_scores for state in self.states]

    @property
    def known(self) -> dict[str, float]:
        """Weighted scores of the models that calibrated the task's banks, by name.

        Empty if a method has no ability effects: its estimates are no extrapolation from a bank.
        """
        if any(
            state.policy.ability_effects(state.belief(BENCHMARK)) is None for state in self.states
        ):
            return {}
        return known_scores([state.outcome.bank for state in self.states], self.weights)

    def belief(self, question: str) -> Belief:
        """Return the belief about the weighted sum of the task's outcomes."""
        cached = self._cached.get(question)
        if cached is None or cached[0] != self.task.changes:
            correlation = None
            if len(self._numbers) > 1:
                correlation = self.task.correlation()[np.ix_(self._numbers, self._numbers)]
            belief = Belief.sum(self.beliefs(question), self.weights, correlation)
            cached = self._cached[question] = self.task.changes, belief
        return cached[1]

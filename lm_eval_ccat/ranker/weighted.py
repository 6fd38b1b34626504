"""A weighted sum of outcomes: what is believed of it, and which item tells most about it.

The score of a model is ``sum over outcomes of weight x score``; a ranking by one outcome is the
simple case. What decides is the error of that sum, not of each outcome by itself: a task that
weighs little, or is known well already, gets little. Tasks are different items, so their errors
add; outcomes of one task are scores of the same answers, so theirs are correlated as the residuals
are (`Parts.correlation`). Where a prior across tasks is known (`Across`), answers in one task count
in the others, and errors of tasks are correlated.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ..methods.belief import BENCHMARK, Belief, Floats
from ..methods.policy import Choice, Policy
from .across import Across, Replays
from .parts import Part, Parts

_NEARLY_FREE = 1e-12


class Weighted:
    """One weighted sum. It reads what the parts' policies know; `Parts` tells them.

    Parameters
    ----------
    parts : Parts
    units : ndarray of shape (n_items,)
        Of all items.
    factor : mapping of int to float
        What the weights of each task (by number) that counts are multiplied by.
    across : Across, optional
        What tasks say of each other.
    only : Part, optional
        Of the tasks' outcomes this one alone, whatever its weight.
    replays : Replays, optional
        By which errors of sums of several tasks are stated.
    """

    def __init__(
        self,
        parts: Parts,
        units: Floats,
        factor: Mapping[int, float],
        across: Across | None = None,
        only: Part | None = None,
        replays: Replays | None = None,
    ) -> None:
        self._parts, self._all_units, self._prior = parts, units, across
        self._terms = [_Term(t, parts, w, only) for t, w in factor.items()]
        self.tasks = list(factor)
        shared = {} if across is None else dict.fromkeys(across.tasks)
        self._across = across if any(t in shared for t in self.tasks) else None
        self._shared = [t.task in shared for t in self._terms]
        mean = np.array([float(units[t.where].mean()) for t in self._terms])
        self._units = np.maximum(mean, _NEARLY_FREE)
        self._belief: tuple[tuple[str, int], Belief] | None = None
        self._replays, self._stated = replays, np.ones(0)
        weight = np.zeros(len(parts.of_task))
        weight[self.tasks] = self.weights
        alone = all(len(t.parts) == 1 for t in self._terms)
        if replays is not None and alone and (weight > 0.0).sum() > 1:
            self._stated = replays.factors(weight, across)

    def of(self, factor: Mapping[int, float], only: Part | None = None) -> Weighted:
        """Another sum of the same outcomes; parameters as the class has them."""
        return Weighted(self._parts, self._all_units, factor, self._prior, only, self._replays)

    @property
    def parts(self) -> list[Part]:
        """The outcomes that count."""
        return [p for t in self._terms for p in t.parts]

    @property
    def _weighed(self) -> list[tuple[Part, float]]:
        return [(p, float(w)) for t in self._terms for p, w in zip(t.parts, t.weights)]

    @property
    def weights(self) -> list[float]:
        """Weight of each task; shape (n_tasks,)."""
        return [float(t.weights.sum()) for t in self._terms]

    @property
    def alone(self) -> Part | None:
        """The only outcome, where the score is that of one; it then decides by itself."""
        term = self._terms[0]
        one = len(self._terms) == len(term.parts) == 1 and term.weights[0] == 1.0
        return term.parts[0] if one and self._across is None else None

    @property
    def leader(self) -> Policy:
        """The policy that sets the ranking's ways: of the first task's weightiest outcome."""
        return self._parts.leader.policy

    # -- what is known ------------------------------------------------------------------------

    def belief(self, question: str = BENCHMARK) -> Belief:
        """Where the models stand by this score."""
        # Changes are only ever added to: their sum says whether there is any.
        key = question, sum(self._parts.changes)
        if self._belief is None or self._belief[0] != key:
            found = self._summed(question)
            if any(any(p.failed) for p in self.parts):
                of = range(len(found.location))
                each = [w * np.array([p.lean(j) for j in of]) for p, w in self._weighed]
                found = replace(found, lean=np.sum(each, axis=0))
            self._belief = key, found
        return self._belief[1]

    def _summed(self, question: str) -> Belief:
        if (part := self.alone) is not None:
            return part.belief(question, self._parts.changes[self.tasks[0]])
        of = [t.belief(question) for t in self._terms]
        if self._across is not None and question == BENCHMARK:
            of = self._lent(self._across, of)
        found = of[0] if len(of) == 1 else Belief.sum(of, np.ones(len(of)))
        if self._replays is not None and len(self._stated) and question == BENCHMARK:
            found = self._replays.judge(found, self._stated, len(self.tasks))
        return replace(found, location=np.clip(found.location, 0.0, 1.0))

    def _lent(self, across: Across, of: list[Belief]) -> list[Belief]:
        """The belief in which correlated tasks share what they say of abilities."""
        lent = [b for b, s in zip(of, self._shared) if s]
        weight = {t.task: float(t.weights[0]) for t, s in zip(self._terms, self._shared) if s}
        weights = np.array([weight.get(t, 0.0) for t in across.tasks])
        across.refresh()
        together = Belief.sum(lent, np.ones(len(lent)))
        together = together.lent(weights @ across.shift, across.variances(weights))
        return [together, *(b for b, s in zip(of, self._shared) if not s)]

    def shared_errors(self, model: int) -> dict[str, dict[str, float]]:
        """Covariances of the errors of one model's tasks, by name of the task and of the other.

        What models left out had in common beyond the prior across tasks counts as one correlation.
        """
        names = [self._parts.contents.tasks[t].name for t in self.tasks]
        found = np.zeros((len(names), len(names)))
        if self._across is not None:
            at = [self.tasks.index(t) for t in self._across.tasks]
            found[np.ix_(at, at)] = self._across.covariances(model)
        if len(self._stated):
            w = np.array(self.weights)
            own = [t.beliefs(BENCHMARK)[0].variance[model, model] for t in self._terms]
            own = np.maximum(own + found.diagonal(), 0.0)
            alike = np.sqrt(np.outer(own, own))
            np.fill_diagonal(alike, 0.0)
            np.fill_diagonal(found, own)
            rest = self.belief().variance[model, model] - w @ found @ w
            found += alike * rest / max(w @ alike @ w, 1e-300)
        elif self._across is None:
            return {}
        return {
            a: {b: float(found[i, j]) for j, b in enumerate(names) if b != a}
            for i, a in enumerate(names)
        }

    def findings(self, model: int) -> list[str]:
        """What each task's first outcome says of `model`, each sentence once."""
        found = [x for t in self._terms for x in t.parts[0].policy.describe(model).findings]
        return list(dict.fromkeys(found))

    def item_cap(self) -> int:
        """Items that a model may get where the user states no limit."""
        return sum(int(t.n_kept * t.parts[0].policy.most_items) for t in self._terms)

    # -- who is next --------------------------------------------------------------------------

    def _gain(self, models: Sequence[int], pending: Sequence[Sequence[int]]) -> Floats:
        """Fall of the variance of a model's score by one more item of each task, per unit.

        Shape (n_tasks, len(models)); 0 where a model has every item of a task.
        """
        of = list(models)
        n = np.array([t.parts[0].n_told[of] for t in self._terms])
        variance = np.array([t.belief(BENCHMARK).variance.diagonal()[of] for t in self._terms])
        gain = variance * (n < np.array([[t.n_kept] for t in self._terms]))
        if any(pending):
            n += np.array([[t.among(items) for items in pending] for t in self._terms])
        return np.asarray(gain / ((n + 1) * self._units[:, None]))

    def priorities(
        self,
        belief: Belief,
        models: Sequence[int],
        pending: Sequence[Sequence[int]],
        prices: Sequence[float],
    ) -> Floats:
        """How much the next item is worth if each of `models` gets it; see `Policy.priorities`."""
        if (part := self.alone) is not None:
            return part.policy.priorities(belief, models, pending, prices)
        # All models that are open count alike. To prefer those whose order looks least clear made
        # replays err more and decide no more: one that looks clear after few items of each task may
        # not be, and would hardly be asked again.
        return np.asarray(self._gain(models, pending).max(axis=0) / np.asarray(prices))

    def next(
        self,
        model: int,
        available: NDArray[np.bool_],
        pending: Sequence[int],
        price: Floats,
        k: int = 1,
    ) -> list[Choice]:
        """The items of which `model` gets one next, best first; positions among all items."""
        term, part = self._next(model, available, pending)
        here = available[term.where] & part.outcome.bank.kept
        own = [i - term.where.start for i in pending if term.holds(i)]
        chosen = part.policy.next(model, here, own, price[term.where], k)
        return [replace(c, item=c.item + term.where.start) for c in chosen]

    def _next(
        self, model: int, available: NDArray[np.bool_], pending: Sequence[int]
    ) -> tuple[_Term, Part]:
        """The task whose next item helps most, and the outcome whose policy chooses it."""
        ready = [n for n, t in enumerate(self._terms) if available[t.where].any()]
        at = ready[0]
        if len(ready) > 1:
            at = ready[int(np.argmax(self._gain([model], [pending])[ready, 0]))]
        term = self._terms[at]
        if len(term.parts) == 1:
            return term, term.parts[0]
        here = available[term.where]
        worth = [
            w * w * b.variance[model, model] if (here & p.outcome.bank.kept).any() else -1.0
            for p, b, w in zip(term.parts, term.beliefs(BENCHMARK), term.weights.tolist())
        ]
        return term, term.parts[int(np.argmax(worth))]


class _Term:
    """One task of the sum: its outcomes that count, and their weights."""

    def __init__(self, task: int, parts: Parts, factor: float, only: Part | None) -> None:
        self.task = task
        self.where = parts.contents.tasks[task].where
        self.n_kept = int(parts.contents.n_kept[task])
        every = parts.of_task[task]
        self._of = [
            n for n, p in enumerate(every) if (p is only if only else p.outcome.weight > 0.0)
        ]
        self.parts = [every[n] for n in self._of]
        self.weights = np.array([1.0 if only else factor * p.outcome.weight for p in self.parts])
        self._all = parts
        self._kept: dict[str, tuple[int, Belief]] = {}

    def beliefs(self, question: str) -> list[Belief]:
        """Beliefs of the task's outcomes, on the scale of scores."""
        version = self._all.changes[self.task]
        return [p.belief(question, version).on_scores for p in self.parts]

    def belief(self, question: str) -> Belief:
        """Belief of the weighted sum of the task's outcomes."""
        version = self._all.changes[self.task]
        kept = self._kept.get(question)
        if kept is None or kept[0] != version:
            at, r = self._of, None
            if len(at) > 1:
                r = self._all.correlation(self.task)[np.ix_(at, at)]
            found = Belief.sum(self.beliefs(question), self.weights, r)
            kept = self._kept[question] = version, found
        return kept[1]

    def holds(self, item: int) -> bool:
        """Whether an item is of this task."""
        return bool(self.where.start <= item < self.where.stop)

    def among(self, items: Sequence[int]) -> int:
        """How many of these are items of this task."""
        return sum(map(self.holds, items))

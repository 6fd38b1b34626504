"""One policy made of several: the ranking by a weighted sum of outcomes.

The score of a model is ``sum over outcomes of w x score``. What decides is the error of that sum,
not of each outcome by itself: a task that weighs little, or is known well already, gets little.
Tasks are different items, so their errors add; outcomes of one task are scores of the same answers,
so theirs are correlated as the residuals are (`Outcomes.correlation`). Where a prior across tasks
is known (`Across`), answers in one task count in the others, and errors of tasks are correlated.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, stdtr

from ..methods.policy import DECIDED, EQUIVALENT, OPEN, Choice, Differences, Floats, Policy
from .across import Across
from .contents import Contents
from .outcomes import Outcome, Outcomes

_LEAST_VARIANCE = 1e-18
_LEAST_DF = 1e-6
_NEARLY_FREE = 1e-12


class WeightedPolicy(Policy):
    """The statistical side of a ranking by a weighted sum.

    It reads what the outcomes' own policies know; they are told of answers by `Outcomes`.
    Quantities of a (model, task) are kept until something is told there.

    Parameters
    ----------
    outcomes : Outcomes
    units : ndarray of shape (n_items,)
        Of all items.
    weights : mapping of int to (mapping of str to float)
        Of the outcomes of each task (by number) that counts.
    across : Across, optional
        What tasks say of each other.
    """

    def __init__(
        self,
        outcomes: Outcomes,
        units: Floats,
        weights: Mapping[int, Mapping[str, float]],
        across: Across | None = None,
    ) -> None:
        self.tests = []
        self._outcomes = outcomes
        self._contents = outcomes.contents
        self._parts = [
            _Part(t, outcomes, {k: w for k, w in of.items() if w > 0.0}, self._contents)
            for t, of in weights.items()
        ]
        first = self._parts[0].outcomes[0].policy
        self.warmup_ignores_budget = first.warmup_ignores_budget
        self.affords_mean = first.affords_mean
        self.draws = first.draws
        mean = np.array([float(units[p.where].mean()) for p in self._parts])
        self._units = np.maximum(mean, _NEARLY_FREE)
        self._n_kept = np.array([p.n_kept for p in self._parts])
        self._lent = None if across is None else _Lent.of(across, self._parts)
        self._clear()

    def _clear(self) -> None:
        n, m = len(self._parts), self._outcomes.n_models
        self._n_models = m
        self._seen = np.full((n, m), -1)
        self._mean = np.zeros((n, m))
        self._variance = np.zeros((n, m, m))
        self._df = np.full((n, m, m), np.inf)
        self._error = np.zeros((n, m))
        self._error_at = np.full((n, m), -1)  # `Outcomes.changes` when the error was computed
        self._curable = np.zeros((n, m))
        self._total: Differences | None = None
        self._at = [-1] * n  # `Outcomes.changes` when all of this was computed
        self._version = -1

    @property
    def tasks(self) -> list[int]:
        """Numbers of the tasks in the sum."""
        return [p.task for p in self._parts]

    @property
    def n_models(self) -> int:
        return self._n_models

    def add_model(self) -> None:
        """The outcomes' policies have one more model already."""
        self._clear()

    # -- what is known ------------------------------------------------------------------------

    def _refresh(self) -> None:
        """Bring up to date what depends on tasks that learned something."""
        # Changes are only ever added to: their sum says whether there is any.
        version = sum(self._outcomes.changes)
        if version == self._version:
            return
        self._version = version
        now = [self._outcomes.changes[p.task] for p in self._parts]
        if self._lent is not None and self._lent.refresh():
            self._total = None
        if self._at == now:
            return
        for n, part in enumerate(self._parts):
            if self._at[n] != now[n]:
                self._take(n, part)
        self._at, self._total = now, None

    def _take(self, n: int, part: _Part) -> None:
        w, r, policies = part.weights, part.correlation(), [o.policy for o in part.outcomes]
        found = [p.differences() for p in policies]
        self._mean[n] = sum(x * d.estimate for x, d in zip(w, found))
        self._variance[n] = _quadratic(w, r, np.array([np.sqrt(d.variance) for d in found]))
        self._df[n] = np.min([d.df for d in found], axis=0)
        told = np.array([len(s) for s in part.outcomes[0].scores])
        # One more answer moves the correlation of outcomes, and with it every model's share.
        changed = np.flatnonzero((self._seen[n] != told) | (len(w) > 1)).tolist()
        for j in changed:
            curable = np.array([p.curable(j) for p in policies])
            self._curable[n, j] = _quadratic(w, r, np.sqrt(curable))
        self._seen[n] = told

    def differences(self) -> Differences:
        self._refresh()
        if self._total is None:
            total, mean = self._variance.sum(axis=0), self._mean.sum(axis=0)
            # Welch and Satterthwaite's degrees of freedom of a sum of estimated variances.
            spread = (self._variance**2 / np.maximum(self._df, _LEAST_DF)).sum(axis=0)
            df = np.full(total.shape, np.inf)
            np.divide(total**2, spread, out=df, where=spread > 0.0)
            if self._lent is not None:
                mean = np.clip(mean + self._lent.shift, 0.0, 1.0)
                total = total + self._lent.of_pairs(self._variance[self._lent.parts].sum(axis=0))
            self._total = Differences(mean, np.maximum(total, _LEAST_VARIANCE), df)
        return self._total

    def estimate(self, model: int) -> tuple[float, float]:
        self.differences()
        # Also what another model answered may have moved this one's error.
        for n in np.flatnonzero(self._error_at[:, model] != self._at).tolist():
            part = self._parts[n]
            errors = np.array([o.policy.estimate(model)[1] for o in part.outcomes])
            self._error[n, model] = _quadratic(part.weights, part.correlation(), errors)
            self._error_at[n, model] = self._at[n]
        variance = float(self._error[:, model].sum())
        if self._lent is not None:
            variance = max(variance + float(self._lent.more[model]), 0.0)
        return float(self.differences().estimate[model]), variance**0.5

    def interval(self, model: int, confidence: float) -> tuple[float, float]:
        """The intervals of the tasks, their halves added in squares."""
        mean, square = 0.0, np.zeros(2)
        for part in self._parts:
            at = np.array([o.policy.estimate(model)[0] for o in part.outcomes])
            ends = np.array([o.policy.interval(model, confidence) for o in part.outcomes])
            mean += float(part.weights @ at)
            for side in (0, 1):
                half = np.abs(ends[:, side] - at)
                square[side] += _quadratic(part.weights, part.correlation(), half)
        low, high = np.sqrt(square)
        if self._lent is not None:
            alone = float(self._error[:, model].sum()) ** 0.5
            mean, error = self.estimate(model)
            low, high = (half * error / max(alone, 1e-12) for half in (low, high))
        return max(0.0, mean - float(low)), min(1.0, mean + float(high))

    def findings(self, model: int) -> list[str]:
        """What each task's first outcome says of `model`, each sentence once."""
        said = [text for p in self._parts for text in p.outcomes[0].policy.findings(model)]
        return list(dict.fromkeys(said))

    def location(self, model: int) -> float:
        return float(self.differences().estimate[model])

    def locations(self) -> Floats:
        return self.differences().estimate

    def standing(self, model: int) -> tuple[float, float]:
        mean, error = self.estimate(model)
        return mean, error**2

    def _distance(self) -> tuple[Floats, Floats]:
        d = self.differences()
        sd = np.sqrt(d.variance)
        return (d.estimate[:, None] - d.estimate[None, :]) / sd, sd

    def pairwise(self) -> Floats:
        z, df = self._distance()[0], self.differences().df
        return np.asarray(np.where(np.isinf(df), ndtr(z), stdtr(np.minimum(df, 1e9), z)))

    def adjacent(self, order: Sequence[int]) -> Floats:
        o = np.asarray(order, dtype=np.intp)
        return np.asarray(self.pairwise()[o[:-1], o[1:]])

    def probability(self, z: Floats) -> Floats:
        df = float(np.min(self.differences().df))
        return np.asarray(ndtr(z) if np.isinf(df) else stdtr(df, z))

    def critical(self, level: float) -> Floats:
        """The tasks' own, combined by their shares in the variance (as Cochran has it)."""
        self.differences()
        total = np.maximum(self._variance.sum(axis=0), _LEAST_VARIANCE)
        square = np.zeros_like(total)
        for variance, part in zip(self._variance, self._parts):
            reach = np.max([o.policy.critical(level) for o in part.outcomes], axis=0)
            # A task without any error left may have no finite critical value.
            there = variance > 0.0
            square[there] += variance[there] * reach[there] ** 2
        return np.asarray(np.sqrt(square / total))

    def decisions(
        self, confidence: float, min_difference: float = 0.0, familywise: bool = False
    ) -> NDArray[np.int8]:
        d = self.differences()
        m = self._n_models
        level = (1.0 - confidence) / (max(m * (m - 1) // 2, 1) if familywise else 1)
        half = self.critical(level) * np.sqrt(d.variance)
        gap = np.abs(d.estimate[:, None] - d.estimate[None, :])
        out = np.where(gap > half, DECIDED, OPEN).astype(np.int8)
        if min_difference > 0.0:
            out[gap + half <= min_difference] = EQUIVALENT
        np.fill_diagonal(out, OPEN)
        return out

    def item_cap(self, n_kept: int) -> int:
        return sum(p.outcomes[0].policy.item_cap(p.n_kept) for p in self._parts)

    # -- who is next --------------------------------------------------------------------------

    def curable(self, model: int) -> float:
        self.differences()
        return float(self._curable[:, model].sum())

    def _gain(self, models: Sequence[int], pending: Sequence[Sequence[int]]) -> Floats:
        """Fall of the variance of a model's score by one more item of each task, per unit.

        Shape (n_tasks, len(models)); 0 where a model has every item of a task.
        """
        self._refresh()
        n = self._seen[:, models]
        gain = self._curable[:, models] * (n < self._n_kept[:, None])
        if any(pending):
            n += np.array([[p.among(items) for items in pending] for p in self._parts])
        n += 1
        return np.asarray(gain / (n * self._units[:, None]))

    def priority(self, model: int, pending: Sequence[int], price: float) -> float:
        return float(self.priorities([model], [pending], [price])[0])

    def priorities(
        self, models: Sequence[int], pending: Sequence[Sequence[int]], prices: Sequence[float]
    ) -> Floats:
        # All models that are open count alike. To prefer those whose order looks least clear made
        # replays err more and decide no more: one that looks clear after few items of each task may
        # not be, and would hardly be asked again.
        best = np.maximum.reduce(self._gain(models, pending), 0)
        return np.asarray(best / np.asarray(prices))

    def select(
        self, model: int, available: NDArray[np.bool_], pending: Sequence[int], price: Floats
    ) -> Choice:
        part, leader = self._next(model, available, pending)
        within = part.within(leader, available, pending, price)
        found = leader.policy.select(model, *within)
        return Choice(found.item + part.where.start, found.probability)

    def shortlist(
        self,
        model: int,
        available: NDArray[np.bool_],
        pending: Sequence[int],
        price: Floats,
        k: int,
    ) -> list[int]:
        part, leader = self._next(model, available, pending)
        within = part.within(leader, available, pending, price)
        return [i + part.where.start for i in leader.policy.shortlist(model, *within, k)]

    def _next(
        self, model: int, available: NDArray[np.bool_], pending: Sequence[int]
    ) -> tuple[_Part, Outcome]:
        """The task whose next item helps most, and the outcome whose policy chooses it."""
        some = np.logical_or.reduceat(available, self._contents.starts)
        there = np.flatnonzero(some[[p.task for p in self._parts]])
        at = there[0]
        if len(there) > 1:
            at = there[np.argmax(self._gain([model], [pending])[there, 0])]
        part = self._parts[int(at)]
        if len(part.outcomes) == 1:
            return part, part.outcomes[0]
        here = available[part.where]
        worth = [
            w * w * o.policy.curable(model) if (here & o.bank.kept).any() else -1.0
            for o, w in zip(part.outcomes, part.weights.tolist())
        ]
        return part, part.outcomes[int(np.argmax(worth))]


class _Part:
    """One task of the sum: its outcomes that count, and their weights."""

    def __init__(
        self, task: int, outcomes: Outcomes, weights: Mapping[str, float], contents: Contents
    ) -> None:
        self.task = task
        self.where = contents.tasks[task].where
        self.n_kept = int(contents.n_kept[task])
        self.outcomes = [o for o in outcomes.of_task[task] if o.name in weights]
        self.weights = np.array([weights[o.name] for o in self.outcomes])
        self._all = outcomes
        self._of = [n for n, o in enumerate(outcomes.of_task[task]) if o.name in weights]

    def correlation(self) -> Floats:
        """Of the errors of its outcomes."""
        if len(self._of) == 1:
            return np.ones((1, 1))
        return self._all.correlation(self.task)[np.ix_(self._of, self._of)]

    def among(self, items: Sequence[int]) -> int:
        """How many of these are items of this task."""
        return sum(self.where.start <= i < self.where.stop for i in items)

    def within(
        self, leader: Outcome, available: NDArray[np.bool_], pending: Sequence[int], price: Floats
    ) -> tuple[NDArray[np.bool_], list[int], Floats]:
        """What the policy of one outcome is asked with."""
        where = self.where
        own = [i - where.start for i in pending if where.start <= i < where.stop]
        return available[where] & leader.bank.kept, own, price[where]


class _Lent:
    """What the prior across tasks makes of one weighted sum.

    Attributes
    ----------
    parts : list of int
        Which tasks of the sum take part.
    shift : ndarray of shape (n_models,)
        Of the estimates.
    more : ndarray of shape (n_models,)
        Of the variance of each.
    """

    def __init__(self, across: Across, weights: Floats, parts: list[int]) -> None:
        self.parts = parts
        self._across = across
        self._weights = weights
        self._at: list[int] | None = None

    @classmethod
    def of(cls, across: Across, parts: Sequence[_Part]) -> _Lent | None:
        """None where no task of the sum takes part."""
        share = {p.task: float(p.weights[0]) for p in parts}
        weights = np.array([share.get(t, 0.0) for t in across.tasks])
        there = [n for n, p in enumerate(parts) if p.task in across.tasks]
        return cls(across, weights, there) if there else None

    def refresh(self) -> bool:
        """Bring up to date; whether anything changed."""
        across = self._across
        across.refresh()
        if self._at == across.at:
            return False
        self._at = across.at
        self.shift = self._weights @ across.shift
        self.more = across.variances(self._weights)
        self._alone = self._weights**2 @ across.errors
        return True

    def of_pairs(self, total: Floats) -> Floats:
        """What variances of differences become more, being `total` if tasks are independent.

        What the errors of two models have in common stays that share.
        """
        alone = np.maximum(self._alone, _LEAST_VARIANCE)
        now = np.maximum(alone + self.more, _LEAST_VARIANCE)
        before, after = np.sqrt(np.outer(alone, alone)), np.sqrt(np.outer(now, now))
        alike = (alone[:, None] + alone - total) / (2.0 * before)
        more = now - alone
        return np.asarray(more[:, None] + more - 2.0 * alike * (after - before))


def _quadratic(w: Floats, r: Floats, sd: Floats) -> Floats:
    """Variance of a weighted sum of correlated errors; the first axis is that of the parts."""
    if len(w) == 1:
        return np.asarray((w[0] * sd[0]) ** 2)
    scaled = (w * sd.T).T
    return np.asarray(np.maximum(np.einsum("i...,ij,j...->...", scaled, r, scaled), 0.0))

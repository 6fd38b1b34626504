"""A weighted sum of outcomes: the belief about it, and the item that says most about it.

The score of a model is ``sum over outcomes of weight x score``; a ranking by one outcome is the
simple case. Items are chosen to reduce the error of that sum, not of each outcome: a task of small
weight, or one that is known well already, gets few. Tasks have different items, so their errors
add; outcomes of one task score the same answers, so their errors are correlated as their residuals
are (`Task.correlation`). With a prior across tasks (`Across`), answers in one task inform the
others, and errors of tasks are correlated.

The prior across tasks uses a model's answers in other tasks to estimate its ability in one.

Each bank states the abilities of its calibration models. ``R`` is the correlation of these
abilities between tasks over the models in all banks, shrunk towards 0 as far as its entries are
uncertain (J. Schäfer and K. Strimmer, "A shrinkage approach to large-scale covariance
matrix estimation", Statistical Applications in Genetics and Molecular Biology 4, 2005). With
``p_t`` the standard deviation of the prior of an ability in task ``t``, and ``x_t``, ``S_t`` its
posterior by the answers of that task alone, all answers together give

    precision  (p R p)^-1 + diag(1 / S_t - 1 / p_t^2),        mean  covariance . (x / S),

which is ``x`` and ``S`` if ``R`` is the identity: an uncorrelated task neither informs the others
nor learns from them. An estimate moves by its slope times the shift of the ability. Only the part
of its variance that the ability explains changes, and these parts are correlated between tasks:
the error of the average is not that of independent tasks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..bank import ItemBank
from ..methods.belief import BENCHMARK, Belief, Floats
from ..methods.policy import Choice, Policy, rounded
from .contents import Contents, OutcomeState, Task

#: Fewest models in all banks for a prior across tasks.
FEWEST_MODELS = 10


def correlation(abilities: Sequence[Mapping[str, float]]) -> Floats | None:
    """Return the shrunk correlation of abilities between tasks; shape (n_tasks, n_tasks).

    Parameters
    ----------
    abilities : sequence of mapping of str to float
        Abilities of each task's calibration models, by name.

    Returns
    -------
    ndarray or None
        None if fewer than `FEWEST_MODELS` models are in all tasks, or their abilities do not vary.

    Examples
    --------
    >>> x = {f"m{i}": float(i) for i in range(12)}
    >>> r = correlation([x, {m: 2.0 * a for m, a in x.items()}])
    >>> r.round(3).tolist()
    [[1.0, 1.0], [1.0, 1.0]]
    >>> correlation([x, {"m1": 0.0}]) is None
    True
    """
    first, *others = abilities
    shared = [m for m in first if all(m in of for of in others)]
    if len(shared) < FEWEST_MODELS:
        return None
    x = np.array([[of[m] for m in shared] for of in abilities], dtype=np.float64)
    x -= x.mean(axis=1, keepdims=True)
    size = np.sqrt((x * x).sum(axis=1, keepdims=True))
    if not (np.isfinite(size).all() and (size > 0.0).all()):
        return None
    x /= size
    r = x @ x.T
    apart = ~np.eye(len(x), dtype=bool)
    uncertain = float(((1.0 - r**2) ** 2)[apart].sum()) / (len(shared) - 1)
    share = min(uncertain / max(float((r**2)[apart].sum()), 1e-12), 1.0)
    # Always shrink a little, so that the matrix has an inverse however few models there are.
    return np.where(apart, (1.0 - max(share, 1e-4)) * r, 1.0)


class Across:
    """Joint state of the tasks that share a prior on abilities.

    Parameters
    ----------
    parts : mapping of int to Task
        Tasks that take part, by number, each with one outcome.
    correlation : ndarray of shape (n_tasks, n_tasks)

    Attributes
    ----------
    tasks : tuple of int
    shift : ndarray of shape (n_tasks, n_models)
        What the other tasks add to each task's own estimate.
    """

    def __init__(self, parts: Mapping[int, Task], correlation: Floats) -> None:
        self.tasks, self._parts = tuple(parts), list(parts.values())
        self._correlation = correlation
        self._apart: Floats | None = None  # precision of the prior, which does not change
        self._clear()

    @classmethod
    def of(cls, tasks: Sequence[Task]) -> Across | None:
        """Build from the tasks that can take part; None if fewer than two can."""
        parts, known = {}, []
        for t, task in enumerate(tasks):
            first, *more = task.states
            stated = {} if more else _report(first.outcome.bank, "abilities")
            abilities = {
                str(m): float(a)
                for m, a in stated.items()
                if isinstance(a, (int, float)) and np.isfinite(a)
            }
            if abilities and first.policy.levers(first.belief(BENCHMARK)) is not None:
                parts[t] = task
                known.append(abilities)
        r = correlation(known) if len(parts) > 1 else None
        return None if r is None else cls(parts, r)

    def _clear(self) -> None:
        n, m = len(self.tasks), len(self._parts[0].states[0].scores)
        self._at = [-1] * n
        self._ability = np.full((n, m), np.nan)
        self._variance, self._slope, self._loose, self._hangs = np.zeros((4, n, m))
        self._moved, self.shift = np.zeros((2, n, m))
        self._joint = np.zeros((m, n, n))  # covariances of abilities, all answers known
        self._prior = np.zeros(n)

    def refresh(self) -> None:
        """Bring the state up to date for tasks that have changed."""
        if self._at == [task.changes for task in self._parts]:
            return
        if self._ability.shape[1] != len(self._parts[0].states[0].scores):
            self._clear()
        before = np.array([self._ability, self._variance])
        for n, task in enumerate(self._parts):
            if task.changes == self._at[n]:
                continue
            self._at[n], first = task.changes, task.states[0]
            levers = first.policy.levers(first.belief(BENCHMARK))
            assert levers is not None
            self._ability[n], self._variance[n] = levers.ability, levers.variance
            self._slope[n], self._prior[n] = levers.slope, levers.prior_variance
            self._loose[n] = levers.share * levers.error
            # The part of the error that depends on the ability, as a slope in it.
            self._hangs[n] = np.sqrt(self._loose[n] / levers.variance)
        changed = (before != np.array([self._ability, self._variance])).any(axis=(0, 1))
        moved = np.flatnonzero(changed)
        self._joint[moved], more = self.together(
            self._ability[:, moved].T, self._variance[:, moved].T
        )
        self._moved[:, moved] = more.T
        self.shift = self._slope * self._moved

    def together(self, x: Floats, s: Floats) -> tuple[Floats, Floats]:
        """Return covariances of abilities given all answers, and the shift of each ability.

        Parameters
        ----------
        x, s : ndarray of shape (n_models, n_tasks)
            Posterior means and variances given the answers of each task alone.
        """
        if self._apart is None:
            sd = np.sqrt(self._prior)
            self._apart = np.asarray(np.linalg.inv(sd[:, None] * self._correlation * sd))
        precision = np.repeat(self._apart[None], len(x), axis=0)
        on = np.arange(len(self._prior))
        precision[:, on, on] += np.maximum(1.0 / s - 1.0 / self._prior, 0.0)
        joint: Floats = np.asarray(np.linalg.inv(precision), dtype=np.float64)
        return joint, np.asarray(np.einsum("mst,mt->ms", joint, x / s) - x)

    def variances(self, weights: Floats) -> Floats:
        """Return by how much the prior changes the variance of a weighted sum, for each model.

        Parameters
        ----------
        weights : ndarray of shape (n_tasks,)
            Weights of the tasks that take part.

        Returns
        -------
        ndarray of shape (n_models,)
        """
        return _more(weights, self._hangs, self._joint, self._loose)

    def covariances(self, model: int) -> Floats:
        """Return covariances of the errors of one model's tasks; shape (n_tasks, n_tasks).

        The diagonal is the change of each task's own variance.
        """
        self.refresh()
        hangs = self._hangs[:, model]
        return np.asarray(
            hangs[:, None] * self._joint[model] * hangs - np.diag(self._loose[:, model])
        )


def _more(weights: Floats, hangs: Floats, joint: Floats, loose: Floats) -> Floats:
    """Return what errors that depend on abilities add to a sum's variance, for each model."""
    w = weights[:, None] * hangs
    return np.asarray(np.einsum("sm,mst,tm->m", w, joint, w) - (weights**2) @ loose)


def _report(bank: ItemBank, what: str) -> Mapping[str, Any]:
    """Return one part of a bank's calibration report, by model; empty if it is missing."""
    report = bank.provenance.get("report")
    each = report.get(what) if isinstance(report, Mapping) else None
    return each if isinstance(each, Mapping) else {}


#: Fewest models that all banks must have left out; the prior's weight in models; and the usual
#: factor (1.2 on four 0/1 tasks, 1.4 on five pairs of WMT, which share their source texts).
FEWEST, PRIOR, USUAL = 6, 4.0, 1.3
#: Groups in which models are left out; models of one group share the bank's curves and the draws.
GROUPS = 5
#: Number of items of a task up to which estimates rest on the bank, and from which on draws.
EARLY, LATE = 10, 20


@dataclass(frozen=True)
class Replays:
    """Replays of models left out of all banks, to correct the stated error of a mean over tasks.

    Calibration records what a ranking would have estimated for each model left out after some items
    of its task, and the true error. Errors of one model in several tasks are not independent (a
    model that departs from the bank in one task departs in others), so a sum errs by more than
    independent errors would. The weighted sum is therefore formed for the models left out as well,
    and its squared errors are divided by its stated variances. The mean of these ratios, with
    `PRIOR` further models at the usual factor, multiplies the stated variances.

    Attributes
    ----------
    n : ndarray of shape (n_stops,)
        Items of each task.
    rows : ndarray of shape (n_stops, 7, n_tasks, n_models)
        Error of the estimate, its stated variance and degrees of freedom; the ability, its
        variance, the estimate's slope in it, and the share of the error that it explains.
    """

    n: Floats
    rows: Floats

    @classmethod
    def of(cls, banks: Sequence[ItemBank]) -> Replays | None:
        """Read the banks' replays; None if fewer than `FEWEST` models were left out of all."""
        each = [_report(b, "left_out") for b in banks]
        shared = [m for m in each[0] if all(m in of for of in each)]
        if len(banks) < 2 or len(shared) < FEWEST:
            return None
        stops = [n for n in each[0][shared[0]] if all(n in of[m] for of in each for m in shared)]
        rows = np.array([[[of[m][n] for m in shared] for of in each] for n in stops])
        if rows.ndim != 4:
            return None
        return cls(np.array(stops, dtype=np.float64), rows.transpose(0, 3, 1, 2))

    def judged(self, weights: Floats, across: Across | None) -> tuple[Floats, Floats]:
        """Return squared errors of the sum, and their ratios to stated variances.

        Both of shape (n_stops, n_models).
        """
        if across is not None:
            across.refresh()
        squares, ratios = [], []
        for e, v, df, x, s, slope, share in self.rows:
            w2 = (weights**2) @ v
            freedom = w2**2 / ((weights**4) @ (v**2 / df))
            error, variance = weights @ e, w2
            if across is not None:
                at = list(across.tasks)
                joint, moved = across.together(x[at].T, s[at].T)
                error = error + weights[at] @ (slope[at] * moved.T)
                loose = (share * v)[at]
                variance = w2 + _more(weights[at], np.sqrt(loose / s[at]), joint, loose)
            squares.append(error**2)
            ratios.append(error**2 / np.maximum(variance, 1e-18) * (1.0 - 2.0 / freedom))
        return np.array(squares), np.array(ratios)

    def gains(self, weights: Floats, across: Across) -> bool:
        """Return whether a prior across tasks lowers the sum's error by over a standard error."""
        with_, without = (self.judged(weights, a)[0][self._early] for a in (across, None))
        gain = ((without - with_) / without.mean(axis=1, keepdims=True)).mean(axis=0)
        return bool(gain.mean() > gain.std(ddof=1) / len(gain) ** 0.5)

    @property
    def _early(self) -> NDArray[np.bool_]:
        early = self.n <= EARLY
        return early if early.any() else ~early

    def factors(self, weights: Floats, across: Across | None) -> Floats:
        """Return the factors on variances of the sum after few items of each task, and after more.

        Many answers of a few models are still few models, so each model is averaged first. No
        factor is below 1: luck in a few replays is no reason for smaller errors.
        """
        ratios, late = self.judged(weights, across)[1], self.n > EARLY
        means = [ratios[at].mean(axis=0) for at in (self._early, late if late.any() else ~late)]
        shown = [(x.sum() + PRIOR * USUAL) / (len(x) + PRIOR) for x in means]
        return np.maximum(shown, 1.0)

    def judge(self, belief: Belief, factors: Floats, n_tasks: int) -> Belief:
        """Scale the variances of a belief by the factors from the replays."""
        each = np.maximum(belief.n.diagonal() / n_tasks, 1.0)
        scale = np.interp(np.log(each), np.log([EARLY, LATE]), factors)
        scale = 0.5 * (scale[:, None] + scale)
        most = min(self.rows.shape[3], GROUPS) + PRIOR - 2.0
        return replace(belief, variance=belief.variance * scale, df=np.minimum(belief.df, most))


_NEARLY_FREE = 1e-12


class WeightedSum:
    """One weighted sum of outcomes, read from their policies.

    Parameters
    ----------
    contents : Contents
    units : ndarray of shape (n_items,)
        Units of all items.
    across : Across or None
        Prior across tasks.
    replays : Replays or None
        Corrections to the stated errors of sums over tasks.
    factor : mapping of int to float
        Tasks in the sum, by number, and the factor on each one's weights.
    only : OutcomeState, optional
        Use only this one of the tasks' outcomes, whatever its weight.

    Attributes
    ----------
    tasks : list of int
    outcomes : list of OutcomeState
        Outcomes in the sum.
    weights : ndarray of shape (n_tasks,)
        Weight of each task.
    """

    def __init__(
        self,
        contents: Contents,
        units: Floats,
        across: Across | None,
        replays: Replays | None,
        factor: Mapping[int, float],
        only: OutcomeState | None = None,
    ) -> None:
        self._contents, self._common = contents, (contents, units, across, replays)
        self._terms = [_Term(contents.tasks[t], w, only) for t, w in factor.items()]
        self.tasks = list(factor)
        self.outcomes = [o for t in self._terms for o in t.states]
        self.weights = np.array([t.weights.sum() for t in self._terms])
        self._shared = [across is not None and t in across.tasks for t in self.tasks]
        self._across = across if any(self._shared) else None
        mean = np.array([float(units[t.task.where].mean()) for t in self._terms])
        self._units = np.maximum(mean, _NEARLY_FREE)
        self._n_kept = contents.n_kept[self.tasks]
        self._belief: tuple[tuple[str, int], Belief] | None = None
        self._replays, self._stated = replays, np.ones(0)
        weight = np.zeros(len(contents.tasks))
        weight[self.tasks] = self.weights
        single = len(self.outcomes) == len(self.tasks)
        if replays is not None and single and (weight > 0.0).sum() > 1:
            self._stated = replays.factors(weight, across)

    def of(self, factor: Mapping[int, float], only: OutcomeState | None = None) -> WeightedSum:
        """Return another sum over the same contents; for the parameters see the class."""
        return WeightedSum(*self._common, factor, only)

    @property
    def alone(self) -> OutcomeState | None:
        """The only outcome if the score is that of one, whose policy then decides; else None."""
        one = len(self.outcomes) == 1 and self._terms[0].weights[0] == 1.0
        return self.outcomes[0] if one and self._across is None else None

    @property
    def leader(self) -> Policy:
        """The policy that sets how the ranking proceeds: that of the first task's `leader`."""
        return self._contents.tasks[0].leader.policy

    # -- what is known ------------------------------------------------------------------------

    def belief(self, question: str = BENCHMARK) -> Belief:
        """Return where the models stand by this score."""
        key = question, self._contents.changes
        if self._belief is None or self._belief[0] != key:
            belief = self._sum(question) if self.alone is None else self.alone.belief(question)
            if any(any(o.failed) for o in self.outcomes):
                weights = np.concatenate([t.weights for t in self._terms])
                each = [[o.lean(j) for j in range(len(belief.location))] for o in self.outcomes]
                belief = replace(belief, lean=(weights[:, None] * np.array(each)).sum(axis=0))
            self._belief = key, belief
        return self._belief[1]

    def _sum(self, question: str) -> Belief:
        of = [t.belief(question) for t in self._terms]
        if (across := self._across) is not None and question == BENCHMARK:
            # Correlated tasks share their information on abilities.
            lent = [b for b, s in zip(of, self._shared) if s]
            weight = dict(zip(self.tasks, self.weights))
            weights = np.array([weight.get(t, 0.0) for t in across.tasks])
            across.refresh()
            together = Belief.sum(lent, np.ones(len(lent)))
            together = together.lent(weights @ across.shift, across.variances(weights))
            of = [together, *(b for b, s in zip(of, self._shared) if not s)]
        belief = of[0] if len(of) == 1 else Belief.sum(of, np.ones(len(of)))
        if self._replays is not None and len(self._stated) and question == BENCHMARK:
            belief = self._replays.judge(belief, self._stated, len(self.tasks))
        return replace(belief, location=np.clip(belief.location, 0.0, 1.0))

    def shared_errors(self, model: int) -> dict[str, dict[str, float]]:
        """Return covariances of the errors of one model's tasks, by task and other task.

        What the errors of models left out share beyond the prior counts as one correlation.
        """
        names = [t.task.name for t in self._terms]
        shared = np.zeros((len(names), len(names)))
        if self._across is not None:
            at = [self.tasks.index(t) for t in self._across.tasks]
            shared[np.ix_(at, at)] = self._across.covariances(model)
        if len(self._stated):
            w = self.weights
            alone = [t.beliefs(BENCHMARK)[0].variance[model, model] for t in self._terms]
            alone = np.maximum(alone + shared.diagonal(), 0.0)
            alike = np.sqrt(np.outer(alone, alone))
            np.fill_diagonal(alike, 0.0)
            np.fill_diagonal(shared, alone)
            rest = self.belief().variance[model, model] - w @ shared @ w
            shared += alike * rest / max(w @ alike @ w, 1e-300)
        elif self._across is None:
            return {}
        return {
            a: {b: float(shared[i, j]) for j, b in enumerate(names) if b != a}
            for i, a in enumerate(names)
        }

    def findings(self, model: int) -> list[str]:
        """Return the findings of each task's first outcome on `model`, each sentence once."""
        each = [x for t in self._terms for x in t.states[0].policy.describe(model).findings]
        return list(dict.fromkeys(each))

    def item_cap(self) -> int:
        """Return the most items that a model may get if the user states no limit."""
        most = [t.states[0].policy.most_items for t in self._terms]
        return sum(int(n * share) for n, share in zip(self._n_kept.tolist(), most))

    # -- who is next --------------------------------------------------------------------------

    def _gain(self, models: Sequence[int], pending: Sequence[Sequence[int]]) -> Floats:
        """Return how much one more item of each task lowers the variance of a score, per unit.

        Shape (n_tasks, len(models)); 0 if a model has every item of a task.
        """
        of = list(models)
        n = np.array([[len(t.states[0].scores[j]) for j in of] for t in self._terms])
        variance = np.array([t.belief(BENCHMARK).variance.diagonal()[of] for t in self._terms])
        gain = variance * (n < self._n_kept[:, None])
        for row, term in zip(n, self._terms):
            where = term.task.where
            row += [sum(where.start <= i < where.stop for i in items) for items in pending]
        return np.asarray(gain / ((n + 1) * self._units[:, None]))

    def priorities(
        self,
        belief: Belief,
        models: Sequence[int],
        pending: Sequence[Sequence[int]],
        prices: Sequence[float],
    ) -> Floats:
        """Return how much the next item of each model is worth; see `Policy.priorities`."""
        if self.alone is not None:
            return self.alone.policy.priorities(belief, models, pending, prices)
        # All open models count alike. In replays, preferring those whose order looks least clear
        # caused more errors and no more decisions: a model that looks clear after few items of each
        # task may not be, and would hardly be asked again.
        return np.asarray(self._gain(models, pending).max(axis=0) / np.asarray(prices))

    def next(
        self,
        model: int,
        available: NDArray[np.bool_],
        pending: Sequence[int],
        price: Floats,
        k: int = 1,
    ) -> list[Choice]:
        """Return the candidates for the next item of `model`, best first, among all items."""
        ready = [n for n, t in enumerate(self._terms) if available[t.task.where].any()]
        at = ready[0]
        if len(ready) > 1:
            at = ready[int(np.argmax(rounded(self._gain([model], [pending])[ready, 0])))]
        term = self._terms[at]
        where, outcome = term.task.where, term.states[0]
        here = available[where]
        if len(term.states) > 1:  # the outcome whose error counts most, if it has items left
            worth = [
                w * w * b.variance[model, model] if (here & o.outcome.bank.kept).any() else -1.0
                for o, b, w in zip(term.states, term.beliefs(BENCHMARK), term.weights.tolist())
            ]
            outcome = term.states[int(np.argmax(rounded(np.array(worth))))]
        flying = [i - where.start for i in pending if where.start <= i < where.stop]
        kept = here & outcome.outcome.bank.kept
        chosen = outcome.policy.next(model, kept, flying, price[where], k)
        return [replace(c, item=c.item + where.start) for c in chosen]


class _Term:
    """One task of the sum: its outcomes of positive weight (or `only`), and their weights."""

    def __init__(self, task: Task, factor: float, only: OutcomeState | None) -> None:
        every = list(enumerate(task.states))
        counts = [(n, o) for n, o in every if (o is only if only else o.outcome.weight > 0.0)]
        self.task, self._at = task, [n for n, _ in counts]
        self.states = [o for _, o in counts]
        self.weights = np.array([1.0 if only else factor * o.outcome.weight for o in self.states])
        self._kept: dict[str, tuple[int, Belief]] = {}

    def beliefs(self, question: str) -> list[Belief]:
        """Return the beliefs about the task's outcomes, on the scale of scores."""
        return [o.belief(question).on_scores for o in self.states]

    def belief(self, question: str) -> Belief:
        """Return the belief about the weighted sum of the task's outcomes."""
        kept = self._kept.get(question)
        if kept is None or kept[0] != self.task.changes:
            correlation = None
            if len(self._at) > 1:
                correlation = self.task.correlation()[np.ix_(self._at, self._at)]
            belief = Belief.sum(self.beliefs(question), self.weights, correlation)
            kept = self._kept[question] = self.task.changes, belief
        return kept[1]

"""What a model's answers in other tasks say of its ability in one: a prior across tasks.

Each bank states the abilities of its calibration models. Of the models that all banks know,
``R`` is the correlation of these abilities between tasks, shrunk towards none by as much as its
entries are uncertain (J. Schäfer and K. Strimmer, "A shrinkage approach to large-scale covariance
matrix estimation", Statistical Applications in Genetics and Molecular Biology 4, 2005). With
``p_t`` the standard deviation of the prior of an ability in task ``t``, and ``x_t``, ``S_t`` its
posterior by the answers of that task alone, all answers together give

    precision  (p R p)^-1 + diag(1 / S_t - 1 / p_t^2),        mean  covariance . (x / S),

which is ``x`` and ``S`` where ``R`` is the identity: a task that stands apart gives nothing and
takes nothing. An estimate moves by its slope times what the ability moves. Of its variance only
the part that the ability explains changes, and these parts of two tasks are correlated: the error
of the average is not that of independent tasks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..bank import ItemBank
from ..methods.belief import BENCHMARK, Belief, Floats
from .contents import Task

#: Models that all banks must know before one task says anything of another.
FEWEST_MODELS = 10


def correlation(abilities: Sequence[Mapping[str, float]]) -> Floats | None:
    """Correlation of abilities between tasks, shrunk; shape (n_tasks, n_tasks).

    Parameters
    ----------
    abilities : sequence of mapping of str to float
        Of each task's calibration models.

    Returns
    -------
    ndarray or None
        None where fewer than `FEWEST_MODELS` models are in all tasks.

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
    # Never a matrix without inverse, however few models there are.
    return np.where(apart, (1.0 - max(share, 1e-4)) * r, 1.0)


class Across:
    """The joint state of the tasks that have something to say of each other.

    Parameters
    ----------
    parts : mapping of int to Task
        Tasks that take part, by number, each of one outcome.
    correlation : ndarray of shape (n_tasks, n_tasks)

    Attributes
    ----------
    tasks : tuple of int
    shift : ndarray of shape (n_tasks, n_models)
        What the other tasks add to a task's own estimate.
    """

    def __init__(self, parts: Mapping[int, Task], correlation: Floats) -> None:
        self.tasks, self._parts = tuple(parts), list(parts.values())
        self._correlation = correlation
        self._apart: Floats | None = None  # precision of the prior, which does not change
        self._clear()

    @classmethod
    def of(cls, tasks: Sequence[Task]) -> Across | None:
        """The tasks of a ranking that take part; None where there are fewer than two."""
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
        """Bring up to date what depends on tasks that learned something."""
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
            # The part of the error that hangs on the ability, as a slope of it.
            self._hangs[n] = np.sqrt(self._loose[n] / levers.variance)
        changed = (before != np.array([self._ability, self._variance])).any(axis=(0, 1))
        moved = np.flatnonzero(changed)
        self._joint[moved], more = self.together(
            self._ability[:, moved].T, self._variance[:, moved].T
        )
        self._moved[:, moved] = more.T
        self.shift = self._slope * self._moved

    def together(self, x: Floats, s: Floats) -> tuple[Floats, Floats]:
        """Covariances of abilities by all answers, and what they add to each ability.

        Parameters
        ----------
        x, s : ndarray of shape (n_models, n_tasks)
            Posterior means and variances by the answers of each task alone.
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
        """By how much dependence between tasks raises a weighted sum's variance, for each model.

        Parameters
        ----------
        weights : ndarray of shape (n_tasks,)
            Of the tasks that take part.

        Returns
        -------
        ndarray of shape (n_models,)
        """
        return _more(weights, self._hangs, self._joint, self._loose)

    def covariances(self, model: int) -> Floats:
        """Of the errors of one model's tasks; on the diagonal what is added to their own variances.

        Shape (n_tasks, n_tasks).
        """
        self.refresh()
        hangs = self._hangs[:, model]
        return np.asarray(
            hangs[:, None] * self._joint[model] * hangs - np.diag(self._loose[:, model])
        )


def _more(weights: Floats, hangs: Floats, joint: Floats, loose: Floats) -> Floats:
    """What errors that hang on abilities together add to the variance of a sum, for each model."""
    w = weights[:, None] * hangs
    return np.asarray(np.einsum("sm,mst,tm->m", w, joint, w) - (weights**2) @ loose)


def _report(bank: ItemBank, what: str) -> Mapping[str, Any]:
    """What the report of a bank's calibration says of each model, as far as it is there."""
    report = bank.provenance.get("report")
    each = report.get(what) if isinstance(report, Mapping) else None
    return each if isinstance(each, Mapping) else {}


#: Models that all banks must have left out, those that what is usual counts as, and what is usual
#: (between 1.2 on four 0/1 tasks and 1.4 on five pairs of WMT, which share their source texts).
FEWEST, PRIOR, USUAL = 6, 4.0, 1.3
#: Groups that models are left out in: those of one have the bank's curves and the draws in common.
GROUPS = 5
#: Items of a task up to which the bank alone speaks, and from which on draws do.
EARLY, LATE = 10, 20


@dataclass(frozen=True)
class Replays:
    """Models left out of the banks of all tasks: how true the stated error of a mean over tasks is.

    Calibration notes what a ranking would have said of each model left out after some items of its
    task, and how far that was from the truth. Errors of one model in several tasks are not
    independent (who departs from the bank in one task departs in others): a sum errs more than they
    say. So the weighted sum is made of the models left out as of those ranked, and its squared
    errors are divided by its stated variances: their mean over the models, with `PRIOR` models more
    that show what is usual, is what stated variances are multiplied by.

    Attributes
    ----------
    n : ndarray of shape (n_stops,)
        Items of each task.
    rows : ndarray of shape (n_stops, 7, n_tasks, n_models)
        Error of the estimate, its stated variance and degrees of freedom; ability and its variance,
        slope of the estimate in it, and the part of the error that it explains.
    """

    n: Floats
    rows: Floats

    @classmethod
    def of(cls, banks: Sequence[ItemBank]) -> Replays | None:
        """What the banks hold; None where fewer than `FEWEST` models were left out of all."""
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
        """Squared errors of the sum, and over what is stated; shape (n_stops, n_models)."""
        if across is not None:
            across.refresh()
        squares, ratios = [], []
        for e, v, df, x, s, slope, share in self.rows:
            w2 = (weights**2) @ v
            freedom = w2**2 / ((weights**4) @ (v**2 / df))
            error, variance = weights @ e, w2
            if across is not None:
                joint, moved = across.together(x.T, s.T)
                error = error + weights @ (slope * moved.T)
                variance = w2 + _more(weights, np.sqrt(share * v / s), joint, share * v)
            squares.append(error**2)
            ratios.append(error**2 / np.maximum(variance, 1e-18) * (1.0 - 2.0 / freedom))
        return np.array(squares), np.array(ratios)

    def gains(self, weights: Floats, across: Across) -> bool:
        """Whether the sum errs less with a prior across tasks, by more than a standard error."""
        with_, without = (self.judged(weights, a)[0][self._early] for a in (across, None))
        gain = ((without - with_) / without.mean(axis=1, keepdims=True)).mean(axis=0)
        return bool(gain.mean() > gain.std(ddof=1) / len(gain) ** 0.5)

    @property
    def _early(self) -> NDArray[np.bool_]:
        early = self.n <= EARLY
        return early if early.any() else ~early

    def factors(self, weights: Floats, across: Across | None) -> Floats:
        """What variances of the sum are multiplied by after few items of each task and after more.

        Many answers of a few models are still a few models: what each shows is averaged first. None
        is below 1: luck in a few replays is no reason to be surer.
        """
        ratios, late = self.judged(weights, across)[1], self.n > EARLY
        means = [ratios[at].mean(axis=0) for at in (self._early, late if late.any() else ~late)]
        shown = [(x.sum() + PRIOR * USUAL) / (len(x) + PRIOR) for x in means]
        return np.maximum(shown, 1.0)

    def judge(self, belief: Belief, factors: Floats, n_tasks: int) -> Belief:
        """Scale the errors of a belief by what the replays show."""
        each = np.maximum(belief.n.diagonal() / n_tasks, 1.0)
        scale = np.interp(np.log(each), np.log([EARLY, LATE]), factors)
        scale = 0.5 * (scale[:, None] + scale)
        most = min(self.rows.shape[3], GROUPS) + PRIOR - 2.0
        return replace(belief, variance=belief.variance * scale, df=np.minimum(belief.df, most))

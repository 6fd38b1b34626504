"""What tasks have in common: a prior on abilities across them, and errors that go together.

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

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, log_ndtr, ndtr

from ..bank import ItemBank
from ..methods.belief import BENCHMARK, Belief
from ..methods.calibration import GROUPS
from ..methods.policy import Refusals
from ..metrics.scale import Floats
from .contents import Task

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
    shared = [model for model in abilities[0] if all(model in of_task for of_task in abilities)]
    if len(shared) < FEWEST_MODELS:
        return None
    x = np.array([[of_task[model] for model in shared] for of_task in abilities], dtype=np.float64)
    x -= x.mean(axis=1, keepdims=True)
    size = np.sqrt((x * x).sum(axis=1, keepdims=True))
    if not (np.isfinite(size).all() and (size > 0.0).all()):
        return None
    x /= size
    r = x @ x.T
    off_diagonal = ~np.eye(len(x), dtype=bool)
    uncertain = float(((1.0 - r**2) ** 2)[off_diagonal].sum()) / (len(shared) - 1)
    share = min(uncertain / max(float((r**2)[off_diagonal].sum()), 1e-12), 1.0)
    # Always shrink a little, so that the matrix has an inverse however few models there are.
    return np.where(off_diagonal, (1.0 - max(share, 1e-4)) * r, 1.0)


class JointAbilities(NamedTuple):
    """Covariances of abilities given all answers, and by how much these shift each ability.

    Shapes (n_models, n_tasks, n_tasks) and (n_models, n_tasks).
    """

    covariance: Floats
    shift: Floats


class PriorAcrossTasks:
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
        # The inverse of the prior's covariance: computed when first needed, it does not change.
        self._prior_precision: Floats | None = None
        self._clear()

    @classmethod
    def of(cls, tasks: Sequence[Task]) -> PriorAcrossTasks | None:
        """Build from the tasks that can take part.

        None if fewer than two can, or if `correlation` returns none: too few models are in all
        banks, or their abilities do not vary.
        """
        parts, known = {}, []
        for number, task in enumerate(tasks):
            first, *more_states = task.states
            # A model has an ability for each outcome: a task of several has no single one to share.
            abilities = {} if more_states else _abilities(first.outcome.bank)
            # Some methods estimate without abilities: their `ability_effects` are None.
            if abilities and first.policy.ability_effects(first.belief(BENCHMARK)) is not None:
                parts[number] = task
                known.append(abilities)
        matrix = correlation(known) if len(parts) > 1 else None
        return None if matrix is None else cls(parts, matrix)

    def _clear(self) -> None:
        """Begin with nothing known, of the models that there are now.

        Arrays of shape (n_tasks, n_models): ability and variance of the ability by a task's own
        answers, the slope of the estimate in the ability, the part of the estimate's variance that
        the ability explains, and the slope of the estimate's error.
        """
        n_tasks, n_models = len(self.tasks), len(self._parts[0].states[0].scores)
        self._changes = [-1] * n_tasks
        self._ability = np.full((n_tasks, n_models), np.nan)
        self._variance, self._slope, self._explained, self._error_slope = np.zeros(
            (4, n_tasks, n_models)
        )
        self._ability_shift, self.shift = np.zeros((2, n_tasks, n_models))
        # Covariances of abilities given all answers, and prior variances of abilities.
        self._joint = np.zeros((n_models, n_tasks, n_tasks))
        self._prior = np.zeros(n_tasks)

    def refresh(self) -> None:
        """Compute the state anew for the tasks, and the models, of which something has changed."""
        if self._changes == [task.changes for task in self._parts]:
            return
        # A model has joined: every array has a column more.
        if self._ability.shape[1] != len(self._parts[0].states[0].scores):
            self._clear()
        before = np.array([self._ability, self._variance])
        for row, task in enumerate(self._parts):
            if task.changes == self._changes[row]:
                continue
            self._changes[row], first = task.changes, task.states[0]
            effects = first.policy.ability_effects(first.belief(BENCHMARK))
            assert effects is not None
            self._ability[row], self._variance[row] = effects.ability, effects.variance
            self._slope[row], self._prior[row] = effects.slope, effects.prior_variance
            self._explained[row] = effects.share * effects.estimate_variance
            # Explained variance = slope^2 x variance of the ability.
            self._error_slope[row] = np.sqrt(self._explained[row] / effects.variance)
        changed = (before != np.array([self._ability, self._variance])).any(axis=(0, 1))
        changed_models = np.flatnonzero(changed)
        self._joint[changed_models], shifts = self.given_all(
            self._ability[:, changed_models].T, self._variance[:, changed_models].T
        )
        self._ability_shift[:, changed_models] = shifts.T
        self.shift = self._slope * self._ability_shift

    def given_all(self, x: Floats, s: Floats) -> JointAbilities:
        """Return the abilities given the answers of all tasks.

        Abilities of a model have the prior N(0, P). With ``p`` the diagonal of P, and means ``x``
        and variances ``s`` by the answers of each task alone, they have by all answers

            covariance = (P^-1 + diag(1 / s - 1 / p))^-1,  mean = covariance (x / s).

        Parameters
        ----------
        x, s : ndarray of shape (n_models, n_tasks)
            Posterior means and variances given the answers of each task alone.

        Returns
        -------
        JointAbilities
            The covariance, and the mean less `x`.
        """
        if self._prior_precision is None:
            sd = np.sqrt(self._prior)
            self._prior_precision = np.asarray(np.linalg.inv(sd[:, None] * self._correlation * sd))
        precision = np.repeat(self._prior_precision[None], len(x), axis=0)
        tasks = np.arange(len(self._prior))
        # Answers add to the precision of an ability what its posterior has more than its prior.
        precision[:, tasks, tasks] += np.maximum(1.0 / s - 1.0 / self._prior, 0.0)
        joint: Floats = np.asarray(np.linalg.inv(precision), dtype=np.float64)
        return JointAbilities(joint, np.asarray(np.einsum("mst,mt->ms", joint, x / s) - x))

    def change_of_sum(self, weights: Floats) -> Floats:
        """Return by how much the prior changes the variance of a weighted sum, for each model.

        Parameters
        ----------
        weights : ndarray of shape (n_tasks,)
            Weights of the tasks that take part.

        Returns
        -------
        ndarray of shape (n_models,)
        """
        return _change_of_variance(weights, self._error_slope, self._joint, self._explained)

    def own_changes(self) -> Floats:
        """Return by how much the prior changes the variance of each task's estimate.

        Shape (n_tasks, n_models); below 0 where other tasks inform it.
        """
        return np.asarray(
            self._error_slope**2 * np.einsum("mtt->tm", self._joint) - self._explained,
            dtype=np.float64,
        )

    def covariances(self, model: int) -> Floats:
        """Return covariances of the errors of one model's tasks; shape (n_tasks, n_tasks).

        The diagonal has `own_changes`: by how much the variances change.
        """
        self.refresh()
        error_slope = self._error_slope[:, model]
        return np.asarray(
            error_slope[:, None] * self._joint[model] * error_slope
            - np.diag(self._explained[:, model])
        )


def _change_of_variance(
    weights: Floats, error_slope: Floats, joint: Floats, explained: Floats
) -> Floats:
    """Return by how much a prior across tasks changes a sum's variance, for each model.

    Parameters
    ----------
    weights : ndarray of shape (n_tasks,)
    error_slope, explained : ndarray of shape (n_tasks, n_models)
        Of each estimate, the slope of its error in the ability, and the part of its variance that
        the ability explains by the task's own answers.
    joint : ndarray of shape (n_models, n_tasks, n_tasks)
        Covariances of abilities given the answers of all tasks.
    """
    sloped = weights[:, None] * error_slope
    return np.asarray(np.einsum("sm,mst,tm->m", sloped, joint, sloped) - (weights**2) @ explained)


def _report(bank: ItemBank, what: str) -> Mapping[str, Any]:
    """Return one part of a bank's calibration report, by model; empty if it is missing."""
    report = bank.provenance.get("report")
    by_model = report.get(what) if isinstance(report, Mapping) else None
    return by_model if isinstance(by_model, Mapping) else {}


def _abilities(bank: ItemBank) -> dict[str, float]:
    """Return the abilities that a bank's report states of its calibration models, by name.

    Those of `default` are logits of mean scores.
    """
    # Reading a bank does not check its report: leave out what is no number.
    return {
        str(model): float(ability)
        for model, ability in _report(bank, "abilities").items()
        if isinstance(ability, (int, float)) and np.isfinite(ability)
    }


def known_scores(banks: Sequence[ItemBank], weights: Floats) -> dict[str, float]:
    """Return the weighted sum of the mean scores of each model that all banks know.

    The banks are those of a method whose abilities are logits of mean scores.
    """
    abilities = [_abilities(bank) for bank in banks]
    return {
        model: float(weights @ expit([of_bank[model] for of_bank in abilities]))
        for model in abilities[0]
        if all(model in of_bank for of_bank in abilities)
    }


class KnownScores(NamedTuple):
    """The lowest and the highest scores of the models that calibrated the banks of several tasks.

    Attributes
    ----------
    places : list of int
        Tasks with a bank.
    mean_ends : ndarray of shape (2,)
        Lowest and highest weighted mean over these tasks, of the models that all banks know. If
        these are too few, the means of a model that would be the weakest, and of one that would be
        the best, in every task.
    """

    places: list[int]
    mean_ends: Floats

    @classmethod
    def of(cls, tasks: Sequence[Mapping[str, float]]) -> KnownScores | None:
        """Read the weighted scores of each task; None if fewer than two tasks have any."""
        places = [place for place, scores in enumerate(tasks) if scores]
        if len(places) < 2:
            return None
        banked = [tasks[place] for place in places]
        shared = [model for model in banked[0] if all(model in scores for scores in banked)]
        means = [sum(scores[model] for scores in banked) for model in shared]
        if len(means) < FEWEST_SHARED:
            means = [sum(end(scores.values()) for scores in banked) for end in (min, max)]
        return cls(places, np.array([min(means), max(means)]))

    def beyond(self, mean: Floats, error: Floats, location: Floats) -> Floats:
        """Return the probability that means are below the lowest, and above the highest.

        Parameters
        ----------
        mean, error : ndarray of shape (n_models,)
            Weighted means, and their standard errors.
        location : ndarray of shape (n_tasks, n_models)
            Estimates in all tasks, times their weights.

        Returns
        -------
        ndarray of shape (2, n_models)
        """
        # Of each mean, the part of the tasks with a bank is compared.
        without_bank = location.sum(axis=0) - location[self.places].sum(axis=0)
        away = self.mean_ends[:, None] - (mean - without_bank)
        away[1] = -away[1]
        return np.asarray(ndtr(away / np.maximum(error, 1e-150)))


#: Standard deviation of the share of items that new models refuse, as believed before any answer:
#: for intervals, and for comparisons with known models, where it widens ranges of ranks.
REFUSED, REFUSED_BESIDE_KNOWN = 0.2, 0.1


def loss_by_refusals(refusals: Refusals, refused: float) -> float:
    """Return by how much an estimate may be too high, in root mean square, because of refusals.

    Before any answer the share of refused items has half a normal distribution. Given answers, it
    has the normal distribution of mean ``score / precision``, cut at 0, with
    ``precision = information + refused^-2``: here ``score`` is the first derivative of the
    answers' log likelihood in the share, at 0, and ``information`` (Fisher's) its variance.

    Parameters
    ----------
    refusals : Refusals
        Of all tasks together.
    refused : float
        Standard deviation of that distribution, before it is cut at 0.

    Examples
    --------
    >>> # No answer; a fifth of the zeros too many; fewer zeros than expected.
    >>> loss_by_refusals(Refusals(0.0, 0.0, effect=0.5), 0.2)
    0.1
    >>> round(loss_by_refusals(Refusals(80.0, 400.0, effect=0.5), 0.2), 3)
    0.097
    >>> round(loss_by_refusals(Refusals(-40.0, 400.0, effect=0.5), 0.2), 3)
    0.012
    """
    precision = refusals.information + refused**-2
    share, error = refusals.score / precision, precision**-0.5
    z = share / error
    # The normal density at 0 over the probability of a share above it.
    hazard = float(np.exp(-0.5 * z * z - log_ndtr(z))) / math.sqrt(2.0 * math.pi)
    mean_square = error * error + share * (share + error * hazard)
    return refusals.effect * math.sqrt(max(mean_square, 0.0))


#: Fewest models in common: left out by all banks for `Replays`, known by all for `KnownScores`.
FEWEST_SHARED = 6
#: Usual factor on variances (1.2 on four 0/1 tasks, 1.4 on five pairs of WMT, which share their
#: source texts), and how many models of replays it counts as.
USUAL_FACTOR, PRIOR_MODELS = 1.3, 4.0
#: Number of items of a task up to which estimates rest on the bank, and from which on draws.
FEW_ITEMS, MANY_ITEMS = 10, 20


class LeftOut(NamedTuple):
    """What replays of models left out gave after a number of items; shapes (n_tasks, n_models).

    Attributes
    ----------
    error, variance, df : ndarray
        Error of the estimate, its stated variance and degrees of freedom.
    ability, ability_variance, slope, share : ndarray
        The ability, its variance, the estimate's slope in it, and the share of the variance that it
        explains.
    """

    error: Floats
    variance: Floats
    df: Floats
    ability: Floats
    ability_variance: Floats
    slope: Floats
    share: Floats


class SumErrors(NamedTuple):
    """Squared errors of a weighted sum, and their ratios to its variances; (n_stops, n_models)."""

    squares: Floats
    ratios: Floats


def _or_all(stops: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return a mask of stops; one of all stops if it has none."""
    return stops if stops.any() else ~stops


@dataclass(frozen=True)
class Replays:
    """Replays of models left out of all banks, to correct the stated error of a mean over tasks.

    Calibration records what a ranking would have estimated for each model left out after some items
    of its task, and the true error. Errors of one model in several tasks are not independent (a
    model that departs from the bank in one task departs in others), so a sum errs by more than
    independent errors would. The weighted sum is therefore formed for the models left out as well,
    and its squared errors are divided by its stated variances. The mean of these ratios, with
    `PRIOR_MODELS` further models at the usual factor, multiplies the stated variances.

    Attributes
    ----------
    n : ndarray of shape (n_stops,)
        Numbers of items of each task at which the replays stopped to estimate.
    rows : ndarray of shape (n_stops, 7, n_tasks, n_models)
        The figures of `LeftOut` at each stop.
    """

    n: Floats
    rows: Floats

    @classmethod
    def of(cls, banks: Sequence[ItemBank]) -> Replays | None:
        """Read the banks' replays; None if all left out fewer than `FEWEST_SHARED` models."""
        # For each task, a mapping of left-out model to number of items to figures.
        replays = [_report(bank, "left_out") for bank in banks]
        shared = [model for model in replays[0] if all(model in by_model for by_model in replays)]
        if len(banks) < 2 or len(shared) < FEWEST_SHARED:
            return None
        # Numbers of items after which every bank has the figures of every shared model.
        stops = [
            stop
            for stop in replays[0][shared[0]]
            if all(stop in by_model[model] for by_model in replays for model in shared)
        ]
        rows = np.array(
            [
                [[by_model[model][stop] for model in shared] for by_model in replays]
                for stop in stops
            ]
        )
        # Without a common stop, or with records of unequal length, there is nothing to compare.
        if rows.ndim != 4:
            return None
        return cls(np.array(stops, dtype=np.float64), rows.transpose(0, 3, 1, 2))

    def sum_errors(self, weights: Floats, prior: PriorAcrossTasks | None) -> SumErrors:
        """Return the errors of the sum for the models left out, by `prior` unless it is None."""
        if prior is not None:
            prior.refresh()
        squares, ratios = [], []
        for left_out in map(LeftOut._make, self.rows):
            # Variance and Welch's degrees of freedom of a sum of independent errors.
            independent = (weights**2) @ left_out.variance
            df = independent**2 / ((weights**4) @ (left_out.variance**2 / left_out.df))
            error, variance = weights @ left_out.error, independent
            if prior is not None:
                columns = list(prior.tasks)
                ability, spread = left_out.ability[columns], left_out.ability_variance[columns]
                joint, shifts = prior.given_all(ability.T, spread.T)
                error = error + weights[columns] @ (left_out.slope[columns] * shifts.T)
                explained = (left_out.share * left_out.variance)[columns]
                variance = independent + _change_of_variance(
                    weights[columns], np.sqrt(explained / spread), joint, explained
                )
            squares.append(error**2)
            # The mean of a squared error over its estimated variance is df / (df - 2), not 1.
            ratios.append(error**2 / np.maximum(variance, 1e-18) * (1.0 - 2.0 / df))
        return SumErrors(np.array(squares), np.array(ratios))

    def gains(self, weights: Floats, prior: PriorAcrossTasks) -> bool:
        """Return whether a prior across tasks lowers squared errors of the sum after few items.

        It has to by more than a standard error of the mean gain over the models left out.
        """
        with_prior = self.sum_errors(weights, prior).squares[self._after_few]
        without_prior = self.sum_errors(weights, None).squares[self._after_few]
        gains = (without_prior - with_prior) / without_prior.mean(axis=1, keepdims=True)
        gain = gains.mean(axis=0)
        return bool(gain.mean() > gain.std(ddof=1) / len(gain) ** 0.5)

    @property
    def _after_few(self) -> NDArray[np.bool_]:
        """Which stops are after at most `FEW_ITEMS` items; all stops if none is."""
        return _or_all(self.n <= FEW_ITEMS)

    def factors(self, weights: Floats, prior: PriorAcrossTasks | None) -> Floats:
        """Return two factors on variances of the sum: after few items of each task, and after more.

        Each is the mean of the ratios of `sum_errors` over the models, of each of which the mean
        over stops counts, and of `PRIOR_MODELS` further ones at the usual factor. A few replays may
        be lucky: against that there are these and the degrees of freedom that `judge` sets.
        """
        ratios, after_more = self.sum_errors(weights, prior).ratios, _or_all(self.n > FEW_ITEMS)
        means = [ratios[stops].mean(axis=0) for stops in (self._after_few, after_more)]
        return np.array(
            [
                (mean.sum() + PRIOR_MODELS * USUAL_FACTOR) / (len(mean) + PRIOR_MODELS)
                for mean in means
            ]
        )

    def judge(self, belief: Belief, factors: Floats, n_tasks: int) -> Belief:
        """Scale the variances of a belief by the factors from the replays.

        A model's variance is multiplied by the factor at its number of items per task, that of a
        difference by the mean of both models' factors, each raised to at least 1: the factors were
        found for means, and do not show that differences err by less than stated.
        """
        items_per_task = np.maximum(belief.n.diagonal() / n_tasks, 1.0)
        of_means = np.interp(np.log(items_per_task), np.log([FEW_ITEMS, MANY_ITEMS]), factors)
        at_least_1 = np.maximum(of_means, 1.0)
        scale = 0.5 * (at_least_1[:, None] + at_least_1)
        np.fill_diagonal(scale, of_means)
        # The models of a group share a task's curves and draws, but every task has its own: the
        # factors rest on at most so many independent cases.
        largest_df = min(self.rows.shape[3], GROUPS * n_tasks) + PRIOR_MODELS - 2.0
        return replace(
            belief, variance=belief.variance * scale, df=np.minimum(belief.df, largest_df)
        )

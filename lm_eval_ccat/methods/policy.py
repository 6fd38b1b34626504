"""What a method decides in a ranking: the order, its confidence, and what to spend on next."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri, stdtr, stdtrit

from .adaptive_test import AdaptiveTest

Floats = NDArray[np.float64]

#: What `Policy.decisions` says of a pair.
OPEN, DECIDED, EQUIVALENT = 0, 1, 2


@dataclass(frozen=True)
class Choice:
    """The item that a model gets next.

    Attributes
    ----------
    item : int
        Position in bank order.
    probability : float or None
        Of the draw, among the items left and given all that came before; None for an item that
        was chosen, not drawn.
    """

    item: int
    probability: float | None = None


@dataclass(frozen=True)
class Differences:
    """Estimates of full-benchmark means on [0, 1], and how sure their differences are.

    Attributes
    ----------
    estimate : ndarray of shape (n_models,)
    variance : ndarray of shape (n_models, n_models)
        Of ``estimate[i] - estimate[j]``; symmetric, the diagonal is not used.
    df : ndarray of shape (n_models, n_models)
        Degrees of freedom of that variance; infinite where it is known.
    """

    estimate: Floats
    variance: Floats
    df: Floats


@dataclass(frozen=True)
class Drawn:
    """What the items drawn at random say of a model by themselves, whatever the bank is worth.

    Attributes
    ----------
    n : int
        Draws with a score.
    estimate, standard_error : float
        Of the full-benchmark mean, on [0, 1]; the error is NaN for a single draw.
    misfit_p : float
        Probability of a departure from the bank as large as that found, for a model of its kind.
    """

    n: int
    estimate: float
    standard_error: float
    misfit_p: float

    def interval(self, confidence: float) -> tuple[float, float]:
        """Student's interval of the mean, cut to [0, 1]; all of it below two draws."""
        if self.n < 2:
            return 0.0, 1.0
        half = float(stdtrit(self.n - 1, (1.0 + confidence) / 2.0)) * self.standard_error
        return max(0.0, self.estimate - half), min(1.0, self.estimate + half)


@dataclass(frozen=True)
class Levers:
    """How estimates hang on abilities; arrays of shape (n_models,).

    Attributes
    ----------
    ability, variance : ndarray
        Posterior mean and variance of the ability, less the mean of its prior.
    prior_variance : float
        Of an ability.
    slope : ndarray
        What an estimate moves by when the ability moves by 1.
    error : ndarray
        Squared standard error of an estimate.
    share : ndarray
        Part of it that the ability explains, 0 to 1.
    """

    ability: Floats
    variance: Floats
    prior_variance: float
    slope: Floats
    error: Floats
    share: Floats


class Policy(ABC):
    """The statistical side of a `Ranker`: several adaptive tests seen together.

    The ranker keeps the books (what was asked, told, spent, what is in flight); the policy
    answers its questions. Models are positions ``0 .. n_models - 1``. `place`, `unplace`,
    `update`, `skip` and `add_model` change its state, everything else only looks at it: a ranking
    rebuilt from a journal places what was recorded and derives no choice again.

    Attributes
    ----------
    tests : list of AdaptiveTest
        One per model; empty for a method that has no tests of single models.
    warmup_ignores_budget : bool
        Whether the warm-up is administered whatever the budget.
    draws : bool
        Whether the policy draws items at random by itself; an audit then draws no more.
    affords_mean : bool
        A model stays a candidate while the *mean* price of its remaining items fits the budget
        left (the paper's rule); else while its cheapest does, and only items that fit are chosen.
    """

    tests: list[AdaptiveTest]
    warmup_ignores_budget = False
    draws: bool = False
    affords_mean = False

    @property
    def n_models(self) -> int:
        """Models that are ranked."""
        return len(self.tests) or len(self.differences().estimate)

    @property
    def answers_per_look(self) -> int:
        """Answers after which turns are decided on what is known then; 1: after each."""
        return 1

    def still(self) -> Policy:
        """What is known now, to be read when more has been learned."""
        raise TypeError(f"{type(self).__name__} is looked at after each answer")

    @abstractmethod
    def location(self, model: int) -> float:
        """What the order sorts by, largest first."""

    @abstractmethod
    def adjacent(self, order: Sequence[int]) -> Floats:
        """``P(order[i] better than order[i + 1])``; shape (len(order) - 1,)."""

    @abstractmethod
    def pairwise(self) -> Floats:
        """``P(i better than j)``; shape (n_models, n_models), the diagonal 1/2."""

    @abstractmethod
    def priority(self, model: int, pending: Sequence[int], price: float) -> float:
        """How much the next item is worth if `model` gets it; the largest is asked.

        Parameters
        ----------
        model : int
        pending : sequence of int
            Items of `model` in flight.
        price : float
            Price of one unit of this model, above 0.
        """

    def priorities(
        self, models: Sequence[int], pending: Sequence[Sequence[int]], prices: Sequence[float]
    ) -> Floats:
        """`priority` of several models at once; shape (len(models),)."""
        found = [self.priority(m, w, p) for m, w, p in zip(models, pending, prices)]
        return np.array(found, dtype=np.float64)

    def locations(self) -> Floats:
        """`location` of every model; shape (n_models,)."""
        return np.array([self.location(j) for j in range(self.n_models)], dtype=np.float64)

    def select(
        self,
        model: int,
        available: NDArray[np.bool_],
        pending: Sequence[int],
        price: Floats,
    ) -> Choice:
        """The item `model` gets next; the state stays as it is.

        Parameters
        ----------
        model : int
        available : ndarray of bool, shape (n_items,)
            Items that may be asked; at least one.
        pending : sequence of int
            Items of `model` in flight.
        price : ndarray of shape (n_items,)
            Of each item for this model.
        """
        return Choice(self.tests[model].select(available, pending, price))

    def shortlist(
        self,
        model: int,
        available: NDArray[np.bool_],
        pending: Sequence[int],
        price: Floats,
        k: int,
    ) -> list[int]:
        """The `k` items of which `model` gets one next, best first."""
        return self.tests[model].shortlist(available, pending, price, k)

    # -- what happened ------------------------------------------------------------------------

    @abstractmethod
    def add_model(self) -> None:
        """One more model joins, at position ``n_models``."""

    def place(self, model: int, item: int, probability: float | None = None) -> None:
        """`model` has been asked `item`, drawn with `probability` or (None) chosen."""
        return None

    def unplace(self, model: int, item: int) -> None:
        """`item` was given back and may be asked again."""
        return None

    def update(self, model: int, item: int, score: float) -> None:
        """Take in the score, on [0, 1], of `model` on `item`, asked or at hand."""
        self.tests[model].update(item, score)

    def skip(self, model: int, item: int) -> None:
        """`model` cannot do `item`: it will have no score."""
        return None

    # -- what is known ------------------------------------------------------------------------

    def estimate(self, model: int) -> tuple[float, float]:
        """Estimated full-benchmark mean of `model` and its standard error, on [0, 1]."""
        test = self.tests[model]
        return test.estimate, test.standard_error

    def expected(self, model: int) -> Floats:
        """Expected score of `model` on every item, on [0, 1]; shape (n_items,)."""
        return self.tests[model].expected()

    def ability(self, model: int) -> tuple[float, float]:
        """Ability of `model` and its standard error, in logits."""
        test = self.tests[model]
        return test.ability, test.ability_se

    def interval(self, model: int, confidence: float) -> tuple[float, float]:
        """Interval of the full-benchmark mean of `model`, cut to [0, 1]."""
        mean, se = self.estimate(model)
        half = float(ndtri((1.0 + confidence) / 2.0)) * se
        return max(0.0, mean - half), min(1.0, mean + half)

    def predictive_variance(self, model: int, item: int) -> float:
        """Variance that the score of `model` on `item` is expected to have."""
        if self.tests:
            return self.tests[model].predictive_variance(item)
        mu = float(self.expected(model)[item])
        return mu * (1.0 - mu)

    def curable(self, model: int) -> float:
        """What more items lower of the variance of `estimate`, on [0, 1].

        One more item lowers it by about this over the number of items, itself counted.
        """
        if self.tests:
            return self.tests[model].curable_variance
        return self.estimate(model)[1] ** 2

    def findings(self, model: int) -> list[str]:
        """What a person should know of `model`, as ends of a sentence that begins with its name."""
        return []

    def sample(self, model: int) -> Drawn | None:
        """What the items that the policy drew say by themselves; None where it drew none."""
        return None

    def standing(self, model: int) -> tuple[float, float]:
        """Where `model` stands on the scale of `location`, and the variance of that."""
        test = self.tests[model]
        return test.estimate, test.standard_error**2

    def fixed_points(self, mean: Floats, standard_error: Floats) -> tuple[Floats, Floats]:
        """Where models of known mean score stand on the scale of `location`, and the variance.

        Parameters
        ----------
        mean, standard_error : ndarray of shape (n_known,)
            Mean score over the items that may be administered, on [0, 1].
        """
        return mean, standard_error**2

    def levers(self) -> Levers | None:
        """How estimates hang on abilities that have a prior; None where there is no such prior."""
        return None

    def differences(self) -> Differences:
        """Estimated means and the variances of their differences; independent unless overridden."""
        found = np.array([self.estimate(j) for j in range(self.n_models)]).reshape(-1, 2)
        v = found[:, 1] ** 2
        variance = v[:, None] + v[None, :]
        return Differences(found[:, 0], variance, np.full(variance.shape, np.inf))

    def critical(self, level: float) -> Floats:
        """Half the interval of a difference that errs with probability `level`, in its errors.

        Returns
        -------
        ndarray of shape (n_models, n_models)
            What a standard error of `differences` is multiplied by.
        """
        return quantile(1.0 - level / 2.0, self.differences().df)

    def probability(self, z: Floats) -> Floats:
        """``P(better)`` for differences in standard errors."""
        return np.asarray(ndtr(z))

    def item_cap(self, n_kept: int) -> int:
        """Items per model where the user gives no ``max_items``."""
        return n_kept

    def decisions(
        self, confidence: float, min_difference: float = 0.0, familywise: bool = False
    ) -> NDArray[np.int8]:
        """What is known of each pair: open (0), decided (1) or equivalent (2).

        Equivalent is a pair whose interval of the difference lies within +-`min_difference`, also
        where it excludes 0; decided one whose interval excludes 0.

        Parameters
        ----------
        confidence : float
            Two-sided.
        min_difference : float, optional
            On [0, 1]; 0 calls no pair equivalent.
        familywise : bool, optional
            Whether the confidence is that of all pairs together, by Holm's step-down rule; the
            intervals of equivalence are then Bonferroni's.

        Returns
        -------
        ndarray of int8, shape (n_models, n_models)
            Symmetric; the diagonal 0.
        """
        level = 1.0 - confidence
        if familywise:
            p = self.pairwise()
            upper = np.triu_indices(len(p), 1)
            decided = np.zeros(p.shape, dtype=bool)
            decided[upper] = holm(2.0 * np.minimum(p, 1.0 - p)[upper], level)
            decided |= decided.T
            level /= max(len(upper[0]), 1)
        else:
            decided = self.decided(level)
        out = np.where(decided, DECIDED, OPEN).astype(np.int8)
        if min_difference > 0.0:
            d = self.differences()
            gap = np.abs(d.estimate[:, None] - d.estimate[None, :])
            half = self.critical(level) * np.sqrt(d.variance)
            out[gap + half <= min_difference] = EQUIVALENT
        np.fill_diagonal(out, OPEN)
        return out

    def decided(self, level: float) -> NDArray[np.bool_]:
        """Pairs whose probability leaves the band of `level`; shape (n_models, n_models)."""
        p, tail = self.pairwise(), level / 2.0
        return np.asarray((p < tail) | (p > 1.0 - tail))


def holm(wrong: Floats, level: float) -> NDArray[np.bool_]:
    """Which hypotheses Holm's step-down rule rejects at `level`.

    Parameters
    ----------
    wrong : ndarray of shape (n,)
        Two-sided probabilities.

    References
    ----------
    S. Holm, "A Simple Sequentially Rejective Multiple Test Procedure", Scandinavian Journal of
    Statistics 6 (1979).

    Examples
    --------
    >>> holm(np.array([0.04, 0.001, 0.02]), 0.05).tolist()
    [True, True, True]
    >>> holm(np.array([0.04, 0.001, 0.03]), 0.05).tolist()
    [False, True, False]
    """
    ascending = np.argsort(wrong, kind="stable")
    bound = level / np.arange(len(wrong), 0, -1)
    passed = np.logical_and.accumulate(wrong[ascending] < bound)
    out = np.zeros(len(wrong), dtype=bool)
    out[ascending[passed]] = True
    return out


def decided_by_student(d: Differences, level: float) -> NDArray[np.bool_]:
    """Pairs that Student's distribution decides at `level`; shape (n_models, n_models).

    The distribution is asked only for pairs between the normal quantile and that of the fewest
    degrees of freedom, which are few: it takes a microsecond for each.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        z = (d.estimate[:, None] - d.estimate[None, :]) / np.sqrt(d.variance)
    size, tail = np.abs(z), level / 2.0
    fewest = float(d.df.min(initial=np.inf))
    most = float(ndtri(1.0 - tail) if np.isinf(fewest) else stdtrit(fewest, 1.0 - tail))
    out = size > most * (1.0 + 1e-9)
    near = np.nonzero((size >= float(ndtri(1.0 - tail)) * (1.0 - 1e-9)) & ~out)
    df = d.df[near]
    p = np.where(np.isinf(df), ndtr(z[near]), stdtr(np.minimum(df, 1e9), z[near]))
    out[near] = (p < tail) | (p > 1.0 - tail)
    return np.asarray(out)


def quantile(p: float, df: Floats) -> Floats:
    """Student's quantiles, the normal ones where `df` is infinite; shape of `df`."""
    different, where = np.unique(df, return_inverse=True)
    found = np.where(np.isinf(different), ndtri(p), stdtrit(np.minimum(different, 1e9), p))
    return np.asarray(found[where].reshape(np.shape(df)))

"""`Policy`: the ranking side of a method, several adaptive tests seen together."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from ..bank import ItemBank
from ..errors import UsageError
from .belief import BENCHMARK, Belief, Floats, References

Mask = NDArray[np.bool_]
Items = Sequence[int]


@dataclass(frozen=True)
class Choice:
    """An item that a model may get next.

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
class Drawn:
    """What the randomly drawn items alone say about a model, without the bank.

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
class Description:
    """What a method says of one model beside the belief.

    Attributes
    ----------
    ability, ability_error : float
        In logits.
    findings : tuple of str
        What a person should know of the model, as ends of a sentence that begins with its name.
    drawn : Drawn or None
        What the items that the method drew say by themselves; None where it drew none.
    interval : callable or None
        ``confidence -> (low, high)`` of the mean score, where the method's own interval holds
        whatever the number of items.
    """

    ability: float
    ability_error: float
    findings: tuple[str, ...] = ()
    drawn: Drawn | None = None
    interval: Callable[[float], tuple[float, float]] | None = None


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
    """What a method knows of the models of a ranking, and which item it would ask next.

    The ranker keeps the books (what was asked, told, spent, what is in flight) and takes the
    verdicts. Models are positions ``0 .. n_models - 1``, items positions in bank order. `placed`,
    `unplaced`, `told`, `failed` and `add_model` change the state, everything else only looks at
    it: a ranking rebuilt from a journal places what was recorded and derives no choice again.

    Attributes
    ----------
    warmup_ignores_budget : bool
        Whether the warm-up is administered whatever the budget.
    draws : bool
        Whether the policy draws items at random by itself; an audit then draws no more.
    affords_mean : bool
        A model stays a candidate while the *mean* price of its remaining items fits the budget
        left (the paper's rule); else while its cheapest does, and only items that fit are chosen.
    most_items : float
        Share of the items that a model may get where the user gives no ``max_items``.
    """

    warmup_ignores_budget: bool = False
    draws: bool = False
    affords_mean: bool = False
    most_items: float = 1.0

    @property
    def answers_per_look(self) -> int:
        """Answers after which turns are decided on what is known then; 1: after each."""
        return 1

    # -- what happened ------------------------------------------------------------------------

    @abstractmethod
    def add_model(self) -> None:
        """One more model joins, at position ``n_models``."""

    def placed(self, model: int, item: int, probability: float | None = None) -> None:
        """`model` has been asked `item`, drawn with `probability` or (None) chosen."""
        return None

    def unplaced(self, model: int, item: int) -> None:
        """`item` was given back and may be asked again."""
        return None

    @abstractmethod
    def told(self, model: int, item: int, score: float) -> None:
        """`model` scored `score`, on [0, 1], on `item`, which was asked or known before.

        Raises
        ------
        ValueError
            The score is not in [0, 1], or the item has one.
        """

    def failed(self, model: int, item: int) -> None:
        """`model` cannot do `item`: it will have no score."""
        return None

    # -- what is known ------------------------------------------------------------------------

    @abstractmethod
    def belief(self, question: str = BENCHMARK) -> Belief:
        """Where the models stand.

        Parameters
        ----------
        question : {"benchmark", "population"}, optional
            Full runs of these items, or of items like these.
        """

    @abstractmethod
    def expected(self, model: int) -> Floats:
        """Expected score of `model` on every item, on [0, 1]; shape (n_items,)."""

    def noise(self, model: int) -> Floats:
        """Variance that the score of `model` on each item is expected to have; shape (n_items,).

        The default is the largest that a score in [0, 1] of its expectation can have.
        """
        mu = self.expected(model)
        return np.asarray(mu * (1.0 - mu))

    @abstractmethod
    def describe(self, model: int) -> Description:
        """Ability, findings and draws of `model`."""

    def references(
        self, names: tuple[str, ...], mean: Floats, kept_mean: Floats, error: Floats
    ) -> References:
        """Where models of known mean score stand on the scale of `Belief.location`.

        Parameters
        ----------
        names : tuple of str
        mean, kept_mean, error : ndarray of shape (n_references,)
            Mean score over all items, over those that may be asked, and the standard error.
        """
        return References(names, kept_mean, error**2, mean, error)

    def levers(self, belief: Belief) -> Levers | None:
        """How estimates hang on abilities that have a prior; None where there is no such prior."""
        return None

    # -- what next ----------------------------------------------------------------------------

    @abstractmethod
    def next(
        self, model: int, available: Mask, pending: Items, price: Floats, k: int = 1
    ) -> list[Choice]:
        """The items of which `model` gets one next, best first; the state stays as it is.

        Parameters
        ----------
        model : int
        available : ndarray of bool, shape (n_items,)
            Items that may be asked; at least one.
        pending : sequence of int
            Items of `model` in flight.
        price : ndarray of shape (n_items,)
            Of each item for this model.
        k : int, optional
            How many; what is drawn at random stands alone.
        """

    @abstractmethod
    def priorities(
        self, belief: Belief, models: Items, pending: Sequence[Items], prices: Sequence[float]
    ) -> Floats:
        """How much the next item is worth if each of `models` gets it; the largest is asked.

        Parameters
        ----------
        belief : Belief
            By which turns are decided; it may be some answers old.
        models : sequence of int
        pending : sequence of sequence of int
            Items of each in flight.
        prices : sequence of float
            Of one unit of each, above 0.
        """


def largest(values: Floats, k: int) -> list[int]:
    """Positions of the `k` largest finite values, largest first, the first of equals first.

    Examples
    --------
    >>> largest(np.array([1.0, 3.0, -np.inf, 3.0]), 2)
    [1, 3]
    """
    if k == 1:
        return [int(values.argmax())]
    k = min(k, int(np.isfinite(values).sum()))
    near = np.flatnonzero(values >= np.partition(values, len(values) - k)[len(values) - k])
    return [int(i) for i in near[np.argsort(-values[near], kind="stable")][:k]]


def check_score(score: float, item: int, *, seen: bool) -> None:
    """Refuse what a policy cannot be told: a score off the scale, or a second one of an item.

    Raises
    ------
    ValueError
        Naming the item.
    """
    if not 0.0 <= score <= 1.0:
        raise ValueError(f"score {score!r} of item {item} is not in [0, 1]")
    if seen:
        raise ValueError(f"item {item} was administered before")


class BesidePolicy(Policy):
    """An outcome that is only reported: what the draws of another outcome's method say of it.

    Its bank knows nothing, and the other method chooses the items.

    Draw ``k`` with probability ``p`` among the items left gives

        T_k = ( sum over the items asked before of y  +  L m  +  (y_k - m) / p ) / N,

    ``L`` items being left and ``m`` the mean of the scores before it: an unbiased estimate whatever
    the method chose (D. Raj, Journal of the American Statistical Association 51, 1956), and the
    estimate is their mean. A method that draws nothing gives none. Items without a score count at
    the mean of the others.

    Parameters
    ----------
    bank : ItemBank
        Its items; parameters are not used.
    n_models : int
    """

    def __init__(self, bank: ItemBank, n_models: int) -> None:
        self._n_items = bank.n_items
        # Of each model: items asked, in order, with the probability of each draw; scores.
        self._asked: list[dict[int, float | None]] = [{} for _ in range(n_models)]
        self._scores: list[dict[int, float]] = [{} for _ in range(n_models)]

    def add_model(self) -> None:
        self._asked.append({})
        self._scores.append({})

    def placed(self, model: int, item: int, probability: float | None = None) -> None:
        self._asked[model][item] = probability

    def unplaced(self, model: int, item: int) -> None:
        del self._asked[model][item]

    def told(self, model: int, item: int, score: float) -> None:
        check_score(score, item, seen=item in self._scores[model])
        self._scores[model][item] = score
        self._asked[model].setdefault(item, None)

    def _totals(self, model: int) -> Floats:
        """``T_k`` of every item drawn that has a score, else NaN; shape (n_items,)."""
        out, total, n = np.full(self._n_items, np.nan), 0.0, 0
        for n_asked, (item, probability) in enumerate(self._asked[model].items()):
            mean = total / n if n else 0.5
            if (y := self._scores[model].get(item)) is None:
                continue
            if probability is not None:
                missing, left = (n_asked - n) * mean, self._n_items - n_asked
                value = total + missing + left * mean + (y - mean) / probability
                out[item] = value / self._n_items
            total, n = total + y, n + 1
        return out

    def belief(self, question: str = BENCHMARK) -> Belief:
        """Of pairs by the draws that both have; before two draws nothing is known."""
        totals = np.array([self._totals(j) for j in range(len(self._asked))])
        seen = np.isfinite(totals)
        n = seen.astype(np.float64) @ seen.T
        variance, df = np.full(n.shape, 0.25), np.maximum(n - 1.0, 1.0)
        mean = np.array([t[at].mean() if at.any() else 0.5 for t, at in zip(totals, seen)])
        for i, j in zip(*np.nonzero(np.triu(n > 1.0))):
            both = totals[[i, j]][:, seen[i] & seen[j]]
            spread = both[0] if i == j else both[0] - both[1]
            variance[i, j] = variance[j, i] = spread.var(ddof=1) / len(spread)
        n_items = float(self._n_items) if question == BENCHMARK else math.inf
        return Belief(np.clip(mean, 0.0, 1.0), variance, df, n, n_items, question)

    def expected(self, model: int) -> Floats:
        seen = list(self._scores[model].values())
        return np.full(self._n_items, np.mean(seen) if seen else 0.5)

    def describe(self, model: int) -> Description:
        totals = self._totals(model)
        totals = totals[np.isfinite(totals)]
        if len(totals) < 2:
            return Description(0.0, math.inf)
        mean = float(np.clip(totals.mean(), 1e-6, 1.0 - 1e-6))
        error = float(totals.std(ddof=1) / len(totals) ** 0.5)
        drawn = Drawn(len(totals), mean, error, 1.0)
        ability = math.log(mean / (1.0 - mean))
        return Description(ability, error / (mean * (1.0 - mean)), drawn=drawn)

    def next(
        self, model: int, available: Mask, pending: Items, price: Floats, k: int = 1
    ) -> list[Choice]:
        raise UsageError("an outcome that is only reported chooses no items")

    def priorities(
        self, belief: Belief, models: Items, pending: Sequence[Items], prices: Sequence[float]
    ) -> Floats:
        raise UsageError("an outcome that is only reported chooses no items")

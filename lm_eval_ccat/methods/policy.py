"""`Policy`: the ranking side of a method, which runs several adaptive tests together."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from ..bank import ItemBank
from ..errors import UsageError
from ..metrics.scale import Floats
from .belief import BENCHMARK, Belief, Indices, References
from .sample.pairs import imagined_square

Mask = NDArray[np.bool_]
Items = Sequence[int]

_ROUNDING = 1e-9  # differences of estimates up to it are rounding alone
_DIGITS = 10  # in which equal values agree; sums of the same terms differ from about the 12th on


@dataclass(frozen=True)
class Choice:
    """An item that a model may get next.

    Attributes
    ----------
    item : int
        Position in bank order.
    probability : float or None
        Probability of the draw among the items left, given everything before; None for an item
        that was chosen, not drawn.
    """

    item: int
    probability: float | None = None


@dataclass(frozen=True)
class Drawn:
    """Estimate for a model from its randomly drawn items, unbiased however wrong the bank is.

    Attributes
    ----------
    n : int
        Number of draws with a score.
    estimate, standard_error : float
        Estimated full-benchmark mean, on [0, 1], and its error, which is NaN for a single draw.
    """

    n: int
    estimate: float
    standard_error: float

    @classmethod
    def of(cls, estimates: Sequence[float] | Floats) -> Drawn | None:
        """Return the mean of what the draws estimate, with its error; None without draws.

        Parameters
        ----------
        estimates : sequence of float
            One of each draw, as `mean_by_draw` returns them; NaN where the draw has no score.

        Examples
        --------
        >>> Drawn.of([0.25, float("nan"), 0.75])
        Drawn(n=2, estimate=0.5, standard_error=0.25)
        """
        means = np.asarray(estimates, dtype=np.float64)
        means = means[np.isfinite(means)]
        n = len(means)
        if not n:
            return None
        error = float(means.std(ddof=1) / n**0.5) if n > 1 else math.nan
        return cls(n, float(means.mean()), error)

    def interval(self, confidence: float) -> tuple[float, float]:
        """Return Student's interval of the mean, cut to [0, 1]; all of [0, 1] below two draws."""
        if self.n < 2:
            return 0.0, 1.0
        half = float(stdtrit(self.n - 1, (1.0 + confidence) / 2.0)) * self.standard_error
        low, high = np.clip([self.estimate - half, self.estimate + half], 0.0, 1.0).tolist()
        return low, high


@dataclass(frozen=True)
class Description:
    """What a method says about one model in addition to the belief.

    Attributes
    ----------
    ability, ability_error : float
        In logits.
    findings : tuple of str
        What a person should know about the model; each completes a sentence that begins with its
        name.
    drawn : Drawn or None
        Estimate from the method's own random draws alone; None if it drew nothing.
    interval : callable or None
        ``confidence -> (low, high)`` for the mean score, if the method's own interval holds for
        any number of items.
    noise : float or None
        Variance of a sampled answer's score within its item, on [0, 1]; None if it is not known.
    zero_loss : float
        How much lower the mean score would be if one more score were 0; 0 where the method's error
        allows for that.
    """

    ability: float
    ability_error: float
    findings: tuple[str, ...] = ()
    drawn: Drawn | None = None
    interval: Callable[[float], tuple[float, float]] | None = None
    noise: float | None = None
    zero_loss: float = 0.0

    @classmethod
    def of_mean(cls, mean: float, error: float, edge: float, **figures: Any) -> Description:
        """Take for the ability, for want of another, the logit of a mean score.

        Its error follows by the delta method. As 0 and 1 have no logit, the mean is kept `edge`
        from these.
        """
        inside = min(max(mean, edge), 1.0 - edge)
        ability, slope = math.log(inside / (1.0 - inside)), inside * (1.0 - inside)
        return cls(ability, error / slope, **figures)


@dataclass(frozen=True)
class AbilityEffects:
    """How estimates depend on abilities; arrays of shape (n_models,).

    Attributes
    ----------
    ability, variance : ndarray
        Posterior mean of the ability, less the mean of its prior, and posterior variance.
    prior_variance : float
        Prior variance of an ability.
    slope : ndarray
        Change of an estimate when the ability changes by 1.
    estimate_variance : ndarray
        Variance of an estimate.
    share : ndarray
        Share of `estimate_variance` that the ability explains, 0 to 1.
    """

    ability: Floats
    variance: Floats
    prior_variance: float
    slope: Floats
    estimate_variance: Floats
    share: Floats


class Refusals(NamedTuple):
    """What answers say of refusals: of the share of items on which a model scores 0, however easy.

    Other answers are as the bank expects them of some ability.

    Attributes
    ----------
    score, information : float
        First derivative of the log-likelihood in that share, at a share of 0, and its variance:
        statistics calls these the score, which here is no item's, and the Fisher information.
    effect : float
        By how much the estimate is too high, per unit of the share.
    """

    score: float
    information: float
    effect: float


class Policy(ABC):
    """What a method knows about the models of a ranking, and which item it would ask next.

    The ranker keeps the accounts (items asked, told and in flight, and money) and decides the
    verdicts. Models are positions ``0 .. n_models - 1``, items positions in bank order. `asked`,
    `released`, `told`, `failed` and `add_model` change the state; everything else only reads it.
    Thus a ranking rebuilt from a journal places the recorded items without choosing again.

    Attributes
    ----------
    warmup_ignores_limits : bool
        Whether models get their warm-up even if it exceeds the budget or ``max_items``.
    affords_mean : bool
        If True, a model stays a candidate while the *mean* price of its remaining items fits the
        budget left (the paper's rule); else while the cheapest does, and only items that fit are
        chosen.
    max_share : float
        Largest share of the items that a model may get if the user gives no ``max_items``.
    looks_after_every_answer : bool
        Whether turns are decided anew after every answer, however many models there are.
    """

    warmup_ignores_limits: bool = False
    affords_mean: bool = False
    max_share: float = 1.0
    looks_after_every_answer: bool = False

    # -- what happened ------------------------------------------------------------------------

    @abstractmethod
    def add_model(self) -> None:
        """Add one more model, at position ``n_models``."""

    def raise_repeats(self, repeats: int) -> None:
        """Let items be asked up to `repeats` times; only of a policy that asks them repeatedly."""
        return None

    def asked(self, model: int, item: int, probability: float | None = None) -> None:
        """Record that `model` was asked `item`, drawn with `probability` or (None) chosen."""
        return None

    def released(self, model: int, item: int) -> None:
        """Record that `item` was given back and may be asked again."""
        return None

    @abstractmethod
    def told(self, model: int, item: int, score: float) -> None:
        """Record the score of `model`, on [0, 1], on `item`, whether or not it was asked.

        Raises
        ------
        ValueError
            The score is not in [0, 1], or the item already has one.
        """

    def failed(self, model: int, item: int) -> None:
        """Record that `model` failed on `item`, which will have no score."""
        return None

    # -- what is known ------------------------------------------------------------------------

    @abstractmethod
    def belief(self, question: str = BENCHMARK) -> Belief:
        """Return where the models stand.

        Parameters
        ----------
        question : {"benchmark", "population"}, optional
            Whether the belief is about full runs of these items, or of items like these.
        """

    @abstractmethod
    def expected(self, model: int) -> Floats:
        """Return the expected score of `model` on every item, on [0, 1]; shape (n_items,)."""

    @abstractmethod
    def describe(self, model: int) -> Description:
        """Return ability, findings and draws of `model`."""

    def references(
        self, names: tuple[str, ...], mean: Floats, kept_mean: Floats, error: Floats
    ) -> References:
        """Place models of known mean score on the scale of `Belief.location`.

        Parameters
        ----------
        names : tuple of str
        mean, kept_mean, error : ndarray of shape (n_references,)
            Mean score over all items, mean over those that may be asked, and standard error.
        """
        return References(names, kept_mean, error**2, mean, error)

    def ability_effects(self, belief: Belief) -> AbilityEffects | None:
        """Return how estimates depend on abilities; None if abilities have no prior."""
        return None

    def refusals(self, model: int) -> Refusals | None:
        """Return what the answers of `model` say of refusals; None if that is not known."""
        return None

    # -- what next ----------------------------------------------------------------------------

    @abstractmethod
    def next(
        self, model: int, available: Mask, pending: Items, price: Floats, k: int = 1
    ) -> list[Choice]:
        """Return the candidates for the next item of `model`, best first; change no state.

        Parameters
        ----------
        model : int
        available : ndarray of bool, shape (n_items,)
            Items that may be asked; at least one.
        pending : sequence of int
            Items of `model` in flight.
        price : ndarray of shape (n_items,)
            Price of each item for this model.
        k : int, optional
            Most candidates; an item drawn at random comes alone.
        """

    def priorities(
        self, models: Items, pending: Iterable[Items], prices: Sequence[float]
    ) -> Floats | None:
        """Return how much the next item of each of `models` is worth; the largest goes first.

        None, the default, lets the ranker choose whose turn it is: only items that both models of a
        pair have tell of the pair.

        Parameters
        ----------
        models : sequence of int
        pending : iterable of sequence of int
            Items in flight, by model.
        prices : sequence of float
            Price of one unit, above 0, by model.
        """
        return None


def rounded(values: Floats) -> Floats:
    """Return values over the largest absolute value, without the digits that rounding reaches.

    Values that would be equal in exact arithmetic are then equal, so that whoever compares or sorts
    them does not depend on the order in which a processor adds.

    Examples
    --------
    >>> float(np.argmax([0.3, 0.1 + 0.2])), float(np.argmax(rounded(np.array([0.3, 0.1 + 0.2]))))
    (1.0, 0.0)
    """
    # Selecting by `where=` of a maximum takes several times as long.
    sizes = np.abs(values)
    sizes = np.where(sizes < np.inf, sizes, 0.0)
    largest_value = float(sizes.max(initial=1e-300))
    return np.asarray((values / largest_value).round(_DIGITS))


def tie_order(seed: Items, n_items: int) -> Indices:
    """Return all items in a random order, by which `largest` takes those of equal value."""
    return np.random.default_rng([*seed, 7]).permutation(n_items)


def largest(values: Floats, k: int, tie_order: Indices) -> list[int]:
    """Return positions of the `k` largest finite values, or of all if fewer, largest first.

    Parameters
    ----------
    values : ndarray of shape (n,)
        At least one is finite; -inf keeps a position out.
    k : int
    tie_order : ndarray of int, shape (n,)
        All positions, in the order in which those of equal value are taken.

    Examples
    --------
    >>> largest(np.array([1.0, 0.3, -np.inf, 0.1 + 0.2, 0.3]), 3, np.array([4, 3, 2, 1, 0]))
    [0, 4, 3]
    """
    values = rounded(values[tie_order])
    if k == 1:
        return [int(tie_order[values.argmax()])]
    k = min(k, int(np.isfinite(values).sum()))
    # A partition finds the k-th value without sorting thousands; equal ones all stay, in tie order.
    candidates = np.flatnonzero(values >= np.partition(values, len(values) - k)[len(values) - k])
    return [
        int(i) for i in tie_order[candidates[np.argsort(-values[candidates], kind="stable")][:k]]
    ]


def check_score(score: float, item: int, *, answered: bool) -> None:
    """Refuse a score outside [0, 1], or a second score of an item.

    Raises
    ------
    ValueError
        The message names the item.
    """
    if not 0.0 <= score <= 1.0:
        raise ValueError(f"score {score!r} of item {item} is not in [0, 1]")
    if answered:
        raise ValueError(f"item {item} was administered before")


def mean_by_draw(
    asked: float, others: float, score: float, expected: float, probability: float, n_items: int
) -> float:
    """Return a model's mean score over the benchmark as one random draw estimates it.

        T = ( sum of y over items asked before  +  sum of e over others  +  (y - e) / p ) / N

    Whatever chose the items before, and whatever scores ``e`` were expected at that time, ``T`` is
    unbiased, and so is the mean of several (D. Raj, Journal of the American Statistical Association
    51, 1956; see `Drawn.of`).

    Parameters
    ----------
    asked, others : float
        Sum of the scores on the items asked before, and of those expected on all others.
    score, expected : float
        ``y`` and ``e`` of the item drawn, which is one of the others.
    probability : float
        ``p``: the chance that the item had of being drawn, given all before.
    n_items : int
        ``N``: items of the benchmark.

    Examples
    --------
    >>> mean_by_draw(1.0, 1.5, 1.0, 0.5, 0.25, 4)
    1.125
    """
    return (asked + others + (score - expected) / probability) / n_items


class ReportedPolicy(Policy):
    """Estimates for an outcome that is only reported, from the draws of another outcome's method.

    Its bank is blank, and the other method chooses the items. Each draw gives an estimate
    (`mean_by_draw`) that takes the mean of the scores before the draw for the score of every item
    without one, 0.5 before the first. Without draws there is no estimate.

    Parameters
    ----------
    bank : ItemBank
        Supplies the items; its parameters are not used.
    n_models : int
    sampled : bool, optional
        Whether an answer is one draw of the item's expected score.
    """

    def __init__(self, bank: ItemBank, n_models: int, sampled: bool = False) -> None:
        self._n_items, self._sampled = bank.n_items, sampled
        # By model: items asked, in order, with the probability of each draw; scores.
        self._asked: list[dict[int, float | None]] = [{} for _ in range(n_models)]
        self._scores: list[dict[int, float]] = [{} for _ in range(n_models)]

    def add_model(self) -> None:
        self._asked.append({})
        self._scores.append({})

    def asked(self, model: int, item: int, probability: float | None = None) -> None:
        self._asked[model][item] = probability

    def released(self, model: int, item: int) -> None:
        del self._asked[model][item]

    def told(self, model: int, item: int, score: float) -> None:
        check_score(score, item, answered=item in self._scores[model])
        self._scores[model][item] = score
        self._asked[model].setdefault(item, None)

    def _means(self, model: int) -> Floats:
        """Return the mean that each draw estimates, by its item; NaN elsewhere; (n_items,)."""
        # Sum and number of the scores so far.
        out, total, n = np.full(self._n_items, np.nan), 0.0, 0
        for n_asked, (item, probability) in enumerate(self._asked[model].items()):
            # Before this score, so that the draw's estimate is unbiased.
            mean = total / n if n else 0.5
            # In flight, or failed.
            if (y := self._scores[model].get(item)) is None:
                continue
            # A chosen item estimates nothing by itself, but later draws know its score.
            if probability is not None:
                asked, others = total + (n_asked - n) * mean, (self._n_items - n_asked) * mean
                out[item] = mean_by_draw(asked, others, y, mean, probability, self._n_items)
            total, n = total + y, n + 1
        return out

    def belief(self, question: str = BENCHMARK) -> Belief:
        """Return the belief that draws alone give.

        A model's mean is that of its draws' estimates, 0.5 before the first. The variance of a pair
        is by the draws that both models have, that of a model by its own. With fewer than two of
        these it is 0.25, the largest of a score on [0, 1].
        """
        means = np.array([self._means(model) for model in range(len(self._asked))])
        present = np.isfinite(means)
        n = present.astype(np.float64) @ present.T
        variance, df = np.full(n.shape, 0.25), np.maximum(n - 1.0, 1.0)
        mean = np.array(
            [
                of_model[items].mean() if items.any() else 0.5
                for of_model, items in zip(means, present)
            ]
        )
        for i, j in zip(*np.nonzero(np.triu(n > 1.0))):
            common = np.flatnonzero(present[i] & present[j])
            values = means[[i, j]][:, common]
            # A draw's estimate (`_means`) contains the answers before it. If answers are sampled,
            # these are noisy: use the scores themselves where they vary more.
            if self._sampled:
                scores = np.array(
                    [[self._scores[model][item] for item in common] for model in (i, j)]
                )
                if scores.var() > values.var():
                    values = scores
            estimates = values[0] if i == j else values[0] - values[1]
            variance[i, j] = variance[j, i] = _variance_of_mean(estimates)
        n_items = float(self._n_items) if question == BENCHMARK else math.inf
        return Belief(np.clip(mean, 0.0, 1.0), variance, df, n, n_items, question)

    def expected(self, model: int) -> Floats:
        scores = list(self._scores[model].values())
        return np.full(self._n_items, np.mean(scores) if scores else 0.5)

    def describe(self, model: int) -> Description:
        means = self._means(model)
        drawn = Drawn.of(means)
        if drawn is None or drawn.n < 2:  # which has no error
            return Description(0.0, math.inf)
        mean = float(np.clip(drawn.estimate, 0.0, 1.0))
        error = math.sqrt(_variance_of_mean(means[np.isfinite(means)]))
        drawn = replace(drawn, estimate=mean, standard_error=error)
        return Description.of_mean(mean, error, edge=1e-6, drawn=drawn)

    def next(
        self, model: int, available: Mask, pending: Items, price: Floats, k: int = 1
    ) -> list[Choice]:
        raise UsageError("an outcome that is only reported chooses no items")


def _variance_of_mean(estimates: Floats) -> float:
    """Return the variance of the mean of two or more draws' estimates, or of their differences.

    As in a ranking without a bank, part of a draw is imagined (`imagined_square`): a model that
    scores 0 on one item in ten does so on none of the first four in two of three cases.
    """
    n, away = len(estimates), np.abs(estimates - estimates.mean())
    # Estimates add and divide, so that equal scores give equal ones but for rounding.
    largest = np.where(away > _ROUNDING, away, 0.0).max()
    squares = float((away**2).sum() + imagined_square(largest, plausible=0.0))
    return squares / (n - 1) / n

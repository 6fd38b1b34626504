"""Betting: evidence and intervals that hold for any number of items, at every look.

A *null* is a value that the mean of all items may have, to be refuted. Bets on the next value, at
odds that are fair if a null is the mean, are not expected to win. Capital of ``1 / alpha`` refutes
the null at one-sided level ``alpha``, however often one looks (Ville's inequality). Without
replacement the fair price of the next value is the mean of what would be left
(I. Waudby-Smith and A. Ramdas, "Estimating means of bounded random variables by betting",
arXiv:2010.09686, section 5). Decisions bet against the nulls that they need; an interval replays
the same bets against a grid of nulls.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from ...metrics.scale import Floats
from ..belief import Indices, PairEvidence

#: Number of items from which pairs are decided: a variance of fewer is unreliable.
FEWEST_ITEMS = 10
#: Largest share of the capital to stake.
LARGEST_STAKE = 0.7
#: Items imagined at the middle of the scale before the first, and the variance of their values:
#: stakes are computed from the mean and the variance so far. Validity does not depend on either.
PRIOR_ITEMS, PRIOR_VARIANCE = 4.0, 0.02
#: Nulls of the grid against which an interval of a difference is replayed.
N_NULLS = 401


class Bets:
    """Capital of bets that the means of series of values in [0, 1] are larger than some nulls.

    The capital begins at 1. An item multiplies it by ``1 + stake (value - fair)``, ``fair`` being
    the mean of the values left if the null is the mean of all.

    Parameters
    ----------
    n_series : int
    size : float
        Items of the benchmark.
    nulls : ndarray of shape (n_nulls,)
        Means to refute, on [0, 1].

    Attributes
    ----------
    count, total, spread : ndarray of shape (n_series,)
        Number and sum of the values so far, and sum of squares of each about the mean before it.
    log_capital : ndarray of shape (n_nulls, n_series)
    largest : ndarray of shape (n_nulls, n_series)
        The largest `log_capital` from item `FEWEST_ITEMS` on, at least 0: ``log(1 / alpha)`` or
        more refutes every mean up to the null at level alpha.
    """

    def __init__(self, n_series: int, size: float, nulls: Floats) -> None:
        self.size, self.nulls = float(size), np.asarray(nulls, dtype=np.float64)[:, None]
        self.count, self.total, self.spread = (np.zeros(n_series) for _ in range(3))
        self.log_capital, self.largest = np.zeros((2, len(self.nulls), n_series))

    def learn(self, series: Indices, values: Floats) -> None:
        """Take in the values of one item for some series, each named once; NaN if missing.

        An item without a value counts as not drawn.
        """
        present = np.isfinite(values)
        series, values = series[present], values[present]
        k, before = self.count[series], self.total[series]
        left = self.size - k
        # If a null is the mean of all, the values left have the sum null x size - total.
        fair = (self.nulls * (left + k) - before) / np.maximum(left, 1.0)
        guess = (0.5 * PRIOR_ITEMS + before) / (PRIOR_ITEMS + k)
        variance = (PRIOR_ITEMS * PRIOR_VARIANCE + self.spread[series]) / (PRIOR_ITEMS + k)
        edge = guess - fair
        # About the stake of the fastest growth, if values come by `guess` and `variance`.
        stake = np.clip(edge / (variance + edge**2), 0.0, LARGEST_STAKE / np.maximum(fair, 1e-6))
        # A bet on a mean above the null is only placed while the values so far speak for one.
        stake = np.where(before >= self.nulls * k, stake, 0.0)
        growth = np.log(np.maximum(1.0 + stake * (values - fair), 1e-12))
        # If the fair price is below 0, no values left can bring the mean down to the null.
        growth = np.where(fair < -1e-9, np.inf, growth)
        self.log_capital[:, series] += growth
        self.spread[series] += (values - guess) ** 2
        self.count[series] += 1.0
        self.total[series] += values
        ready = series[self.count[series] >= FEWEST_ITEMS]
        self.largest[:, ready] = np.maximum(self.largest[:, ready], self.log_capital[:, ready])


def betting_interval(
    values: Floats, size: float, alpha: float, grid: int = 1001
) -> tuple[float, float]:
    """Return an interval of the mean of values in [0, 1] that holds at all looks, by betting.

    Parameters
    ----------
    values : ndarray of shape (n,)
        In the order drawn; NaN if an item has no value.
    size : float
        Items of the benchmark.
    alpha : float
        Two-sided error.
    grid : int, optional
        Number of nulls tried, which limits the resolution.

    Returns
    -------
    low, high : float

    Examples
    --------
    >>> low, high = betting_interval(np.tile([0.0, 1.0, 1.0], 40), 1000, 0.05)
    >>> bool(low < 2 / 3 < high)
    True
    """
    nulls = np.linspace(0.0, 1.0, grid)
    # How high a mean is refuted from below, and how low one from above: for 1 less the values.
    edges = []
    for x in (values, 1.0 - values):
        bets = Bets(1, size, nulls)
        for value in x:
            bets.learn(np.zeros(1, dtype=np.intp), np.array([value]))
        refuted = np.logical_and.accumulate(bets.largest[:, 0] >= np.log(2.0 / alpha))
        edges.append(float(nulls[max(int(refuted.sum()) - 1, 0)]))
    return edges[0], max(1.0 - edges[1], edges[0])


class _ScoredItem(NamedTuple):
    """A model's score on an item, and those of its rivals: models that had the item before."""

    model: int
    score: float
    rivals: Indices
    rival_scores: Floats


class Betting:
    """Bets that models differ from one another, and from known means.

    Each pair, and each model beside a mean, is bet on from both sides.

    Parameters
    ----------
    size : float
        Items of the benchmark.
    min_difference : float
        Difference by which two models may differ and be equivalent; 0 for none.

    Attributes
    ----------
    known : ndarray of shape (n_known,)
        Known means that are bet against, in the order of the reference models.
    """

    def __init__(self, size: float, min_difference: float) -> None:
        self.size, self.min_difference = size, min_difference
        self.known = np.zeros(0)

    def bet_against(self, known: Floats) -> None:
        """Bet, before the first score, that each model's mean differs from known means."""
        self.known = known
        self.start(self.n_models)

    def start(self, n_models: int) -> None:
        """Forget all values."""
        self.n_models = n_models
        self.scored_items: list[_ScoredItem] = []
        self._bets = _BetsOnModels(n_models, self.size, *self._nulls(()))
        self._start_replay()

    def _start_replay(self) -> None:
        """Begin again the replay of all bets against a grid, which intervals need."""
        nulls = self._nulls(np.linspace(-1.0, 1.0, N_NULLS))
        self._replay, self._n_replayed = _BetsOnModels(self.n_models, self.size, *nulls), 0

    def learn(self, model: int, score: float, rivals: Indices, rival_scores: Floats) -> None:
        """Take in a model's score on an item, and those of its rivals, which had it before."""
        self.scored_items.append(_ScoredItem(model, score, rivals, rival_scores))
        self._bets.learn(model, score, rivals, rival_scores)

    def _nulls(self, grid: Sequence[float] | Floats) -> tuple[Floats, Floats]:
        """Return the nulls, on [-1, 1] for differences and on [0, 1] for means, ascending.

        They are those that verdicts need, and the values of a `grid` on [-1, 1].
        """
        differences = np.array([-self.min_difference, 0.0, self.min_difference])
        means = [*(self.known[:, None] + differences).ravel(), *(0.5 + 0.5 * np.asarray(grid))]
        return np.union1d(differences, grid), np.unique(means)

    def evidence(self) -> BettingEvidence:
        """Return the evidence so far, on models and known means."""
        bets, known, min_difference = self._bets, self.known, self.min_difference
        # Two models are close if each is better than the other less `min_difference`.
        better, close = bets.exceeding(0.0), bets.exceeding(-min_difference)
        kinds = [better, better.T, np.minimum(close, close.T)]
        if len(known):
            above, below = bets.beyond(known)
            near_known = np.minimum(
                bets.beyond(known - min_difference).above,
                bets.beyond(known + min_difference).below,
            )
            kinds = [
                np.concatenate(blocks, axis=1) for blocks in zip(kinds, (above, below, near_known))
            ]
        # Each pair is bet on from both sides, each at half the level.
        evidence = PairEvidence(*(np.maximum(kind - math.log(2.0), 0.0) for kind in kinds))
        return BettingEvidence(self, evidence, tuple(range(self.n_models)), len(self.scored_items))

    def replayed(self, n_scores: int) -> _BetsOnModels:
        """Return the bets on the first `n_scores` scores against a grid of nulls.

        The next call changes them: the replay goes on from where the last call left it.
        """
        # Capital cannot be given back: an earlier moment is replayed from the start.
        if n_scores < self._n_replayed:
            self._start_replay()
        for scored_item in self.scored_items[self._n_replayed : n_scores]:
            self._replay.learn(*scored_item)
        self._n_replayed = n_scores
        return self._replay


class BeyondMeans(NamedTuple):
    """Evidence that each model is above, and below, each of some means; (n_models, n_means)."""

    above: Floats
    below: Floats


class _BetsOnModels:
    """Bets on all pairs against some differences, and on all models against some means.

    Parameters
    ----------
    n_models : int
    size : float
        Items of the benchmark.
    gaps : ndarray of shape (n_gaps,)
        Differences to refute, ascending: that a pair's is not larger.
    means : ndarray of shape (n_means,)
        Means to refute, ascending: that a model's is not larger, and that it is not smaller.

    Attributes
    ----------
    pairs, above, below : Bets
        On differences of all pairs (series ``a n_models + b`` is a less b), on means above `means`,
        and on means below, whose nulls are in the reverse order. Differences are mapped to [0, 1].
    """

    def __init__(self, n_models: int, size: float, gaps: Floats, means: Floats) -> None:
        self.n_models, self.gaps, self.means = n_models, gaps, means
        self.pairs = Bets(n_models**2, size, 0.5 + 0.5 * gaps)
        # That a score is below a null is a bet that 1 - score is above 1 - null.
        self.above, self.below = (
            Bets(n_models, size, means),
            Bets(n_models, size, 1.0 - means[::-1]),
        )

    def learn(self, model: int, score: float, rivals: Indices, rival_scores: Floats) -> None:
        """Take in a model's score on an item, and those of its rivals."""
        alone, n_models = np.array([model]), self.n_models
        self.above.learn(alone, np.array([score]))
        self.below.learn(alone, np.array([1.0 - score]))
        if len(rivals):
            series = np.concatenate([model * n_models + rivals, rivals * n_models + model])
            self.pairs.learn(
                series, 0.5 + 0.5 * np.concatenate([score - rival_scores, rival_scores - score])
            )

    def exceeding(self, gap: float) -> Floats:
        """Return the evidence that each row exceeds each column by more than `gap`, of `gaps`."""
        null = int(np.searchsorted(self.gaps, gap))
        return np.asarray(self.pairs.largest[null].reshape(self.n_models, self.n_models))

    def beyond(self, means: Floats) -> BeyondMeans:
        """Return the evidence that each model is above, and below, some means of `means`."""
        above = self.above.largest[np.searchsorted(self.means, means)].T
        below = self.below.largest[::-1][np.searchsorted(self.means, means)].T
        return BeyondMeans(above, below)


@dataclass(frozen=True, eq=False)
class BettingEvidence:
    """Evidence of bets (`ProvenEvidence`), on some of the models and all known means.

    Attributes
    ----------
    betting : Betting
    evidence : PairEvidence
        On all models, rows against all models and known means.
    models : tuple of int
        The models that this evidence is about.
    n_scores : int
        The scores behind it: how many of those that `betting` has learned, from the first on.
    """

    betting: Betting
    evidence: PairEvidence
    models: tuple[int, ...]
    n_scores: int

    @property
    def _columns(self) -> Indices:
        """The columns of `evidence` of these models, then those of all known means."""
        rows, columns = self.evidence.better.shape
        return np.array([*self.models, *range(rows, columns)])

    def at(self, i: Indices, j: Indices) -> PairEvidence:
        """Return the evidence on some pairs; NaN on known models that no bets are against."""
        columns = self._columns
        without = j >= len(columns)
        rows = np.array(self.models)[i]
        chosen_pairs = self.evidence.at((rows, columns[np.where(without, 0, j)]))
        return PairEvidence(*(np.where(without, np.nan, kind) for kind in chosen_pairs))

    def interval(self, below: Floats, above: Floats) -> tuple[Floats, Floats]:
        """Return both ends of all intervals; see `ProvenEvidence.interval`.

        NaN on known models that no bets are against.
        """
        bets, rows = self.betting.replayed(self.n_scores), np.array(self.models)
        known = self.betting.known
        n_models, low, high = len(rows), np.full(below.shape, np.nan), np.full(below.shape, np.nan)
        capital = bets.pairs.largest.reshape(-1, bets.n_models, bets.n_models)
        pairs = capital[:, rows[:, None], rows]
        low[:, :n_models] = _last_refuted(pairs, bets.gaps, below[:, :n_models])
        high[:, :n_models] = -_last_refuted(
            pairs.transpose(0, 2, 1), bets.gaps, above[:, :n_models]
        )
        if len(known) and below.shape[1] > n_models:
            from_above, from_below = (
                side.largest[:, rows, None] for side in (bets.above, bets.below)
            )
            low[:, n_models:] = _last_refuted(from_above, bets.means, below[:, n_models:]) - known
            high[:, n_models:] = (
                _last_refuted(from_below, bets.means[::-1], above[:, n_models:]) - known
            )
        return low, high

    def only(self, models: Sequence[int]) -> BettingEvidence:
        """Return the evidence on these models alone, in this order."""
        return replace(self, models=tuple(self.models[model] for model in models))


def _last_refuted(log_capital: Floats, nulls: Floats, level: Floats) -> Floats:
    """Return, of ascending or descending nulls, the last up to which all are refuted.

    The first null if none is refuted. It has the shape of `level`, which is two-sided: each side is
    bet on at half of it. Nulls are the first axis of `log_capital`.
    """
    refuted = np.logical_and.accumulate(log_capital >= np.log(2.0 / level), axis=0)
    return np.asarray(nulls[np.maximum(refuted.sum(axis=0) - 1, 0)])

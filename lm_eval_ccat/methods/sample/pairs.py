"""Pairs of models on the items that both have had, as a prefix of one shared random sequence.

Items are drawn without replacement. After ``n`` of ``N`` draws with mean ``m``,
``(m - mean) n N / (N - n)`` is a martingale in ``n`` whatever the scores are, whose variance is
``n N / (N - n)`` times that of the items. `belief.log_p` bounds such a martingale at all times
simultaneously; for few items that is measured (benchmarks/sample.py), not proven.

An item without a value (a model failed on it) counts as not drawn: values are assumed to be missing
at random.
"""

from __future__ import annotations

import numpy as np

from ...metrics.scale import Floats
from ..belief import Places

#: Number of items from which pairs are decided: a variance from fewer is unreliable.
LEAST = 10
#: Part of an item, with the largest difference seen, that is added to the variance: models that
#: differ on one item in fifty show no variance before the first of these.
IMAGINED = 0.5
#: A mean is near an end of the scale if it is within so many standard deviations of an item.
NEAR = 4.0
#: Largest share of the capital to stake.
MOST = 0.7
#: Items imagined at the middle of the scale before the first, for the mean and the variance that
#: stakes are computed from; the validity does not depend on it.
PRIOR_ITEMS, PRIOR_VARIANCE = 4.0, 0.02


class Sums:
    """Sums of several series of values in [-1, 1], one value per item drawn.

    Parameters
    ----------
    n_series : int
    size : int
        Items of the benchmark.

    Attributes
    ----------
    count, total, square : ndarray of shape (n_series,)
        Number, sum and sum of squares of the values.
    largest : ndarray of shape (n_series,)
        Largest absolute value.
    """

    def __init__(self, n_series: int, size: int) -> None:
        self.size = size
        self.count, self.total, self.square, self.largest = np.zeros((4, n_series))

    def learn(self, series: Places, values: Floats) -> None:
        """Take in the values of one item for some series, each named once; NaN if missing."""
        seen = np.isfinite(values)
        series, values = series[seen], values[seen]
        self.count[series] += 1.0
        self.total[series] += values
        self.square[series] += values * values
        self.largest[series] = np.maximum(self.largest[series], np.abs(values))

    def items(self, series: Places) -> Floats:
        """Return the number of items with a value."""
        return np.asarray(self.count[series])

    def means(self, series: Places) -> Floats:
        """Return the estimated mean over the benchmark; 0 without items."""
        return np.asarray(self.total[series] / np.maximum(self.count[series], 1.0))

    def variances(
        self, series: Places, imagined: Floats | float = 0.0, whole: bool = True
    ) -> tuple[Floats, Floats]:
        """Return the variance of `means`, and that of one item.

        Parameters
        ----------
        series : ndarray of int
        imagined : ndarray of shape (len(series),), optional
            Sum of squares that is added at least, for values still to come.
        whole : bool, optional
            Whether the benchmark's items are all there are, not a sample of a population.

        Returns
        -------
        of_mean, of_one : ndarray of shape (len(series),)
            The first is infinite with fewer than two items, and 0 if all are seen.
        """
        n, largest = self.count[series], self.largest[series]
        least = np.maximum(n, 1.0)
        squares = self.square[series] - self.total[series] ** 2 / least
        more = np.maximum(IMAGINED * np.where(largest > 0.0, largest, 1.0) ** 2, imagined)
        of_one = (np.maximum(squares, 0.0) + more) / np.maximum(n - 1.0, 1.0)
        unseen = np.maximum(1.0 - n / self.size, 0.0) if whole else np.ones_like(n)
        of_mean = np.where((n < 2.0) & (unseen > 0.0), np.inf, of_one * unseen / least)
        return of_mean, of_one


class SharedSequence:
    """The order in which every model gets the items.

    The order is random and determined by the seed; a run rebuilt from a journal imposes its
    recorded order, item by item.

    Parameters
    ----------
    items : ndarray of int
        Items that may be drawn, as positions in bank order.
    seed : int
    """

    def __init__(self, items: Places, seed: int) -> None:
        turn = np.random.default_rng([seed, 0x5A]).permutation(len(items))
        self.order: Places = items[np.argsort(turn)]
        self.position = np.full(int(items.max()) + 1, -1, dtype=np.intp)
        self.position[self.order] = np.arange(len(items))
        self.fixed = 0  # number of items at the beginning that some model was asked

    def fix(self, item: int, least: int = 0) -> None:
        """Make `item` the next of the sequence, unless it is fixed or among the `least` first."""
        at, end = int(self.position[item]), max(self.fixed, least)
        if at < end:
            return
        other = int(self.order[end])
        self.order[end], self.order[at] = item, other
        self.position[item], self.position[other] = end, at
        self.fixed = end + 1

    def probability(self, item: int) -> float:
        """Return the probability of drawing `item` among those not drawn before."""
        return 1.0 / (len(self.order) - int(self.position[item]))


class Bets:
    """Capital of bets that series of values in [0, 1] have larger means than some nulls.

    Bets on the next value, at odds that are fair if the null is the mean, are not expected to win.
    Capital of ``1 / alpha`` refutes the mean at level ``alpha``,
    however often one looks, for any number of items (Ville's inequality). Without replacement the
    fair price of the next value is the mean of what would be left (I. Waudby-Smith and A. Ramdas,
    "Estimating means of bounded random variables by betting", arXiv:2010.09686, section 5).

    Parameters
    ----------
    n_series : int
    size : float
        Items of the benchmark.
    nulls : ndarray of shape (n_nulls,)
        Means to refute, on [0, 1].

    Attributes
    ----------
    log_capital : ndarray of shape (n_nulls, n_series)
        `log(1 / alpha)` or more refutes every mean up to the null at level alpha.
    """

    def __init__(self, n_series: int, size: float, nulls: Floats) -> None:
        self.size, self.nulls = float(size), np.asarray(nulls, dtype=np.float64)[:, None]
        self.count, self.total, self.spread = (np.zeros(n_series) for _ in range(3))
        self.log_capital = np.zeros((len(self.nulls), n_series))

    def learn(self, series: Places, values: Floats) -> None:
        """Take in the values of one item for some series, each named once; NaN if missing.

        An item without a value counts as not drawn.
        """
        seen = np.isfinite(values)
        series, values = series[seen], values[seen]
        k, before = self.count[series], self.total[series]
        left = self.size - k
        fair = (self.nulls * (left + k) - before) / np.maximum(left, 1.0)
        guess = (0.5 * PRIOR_ITEMS + before) / (PRIOR_ITEMS + k)
        spread = (PRIOR_ITEMS * PRIOR_VARIANCE + self.spread[series]) / (PRIOR_ITEMS + k)
        edge = guess - fair
        stake = np.clip(edge / (spread + edge**2), 0.0, MOST / np.maximum(fair, 1e-6))
        stake = np.where(before >= self.nulls * k, stake, 0.0)
        growth = np.log(np.maximum(1.0 + stake * (values - fair), 1e-12))
        # A negative fair price: no values left can bring the mean down to the null.
        growth = np.where(fair < -1e-9, np.inf, growth)
        self.log_capital[:, series] += growth
        self.spread[series] += (values - guess) ** 2
        self.count[series] += 1.0
        self.total[series] += values


class Pairs:
    """Sums over the items of every pair, updated item by item.

    A pair has seen the longest beginning of the sequence that both models are done with, by a score
    or a failure. What it has seen then does not depend on which answer came first, and the bounds
    hold under any rule that allocates items to models.

    Parameters
    ----------
    n_models : int
    sequence : SharedSequence
    n_items : int
        Items in bank order.
    nulls : ndarray, optional
        Differences to bet against, on [-1, 1]; default no bets.

    Attributes
    ----------
    sums, single : Sums
        Sums of the differences of all pairs (series ``a n_models + b``: model `a` minus `b`), and
        of the scores of each model minus its first.
    bets : Bets or None
        Bets that the first model of each pair is better.
    against : tuple of Bets
        Bets that each model is above the means of `bet_against`, and below them; empty without any.
    """

    def __init__(
        self, n_models: int, sequence: SharedSequence, n_items: int, nulls: Floats | None = None
    ) -> None:
        self.sequence, self._nulls = sequence, nulls
        self._known: tuple[Floats, ...] = ()
        self.scores = np.full((n_models, n_items), np.nan)
        self.done = np.zeros((n_models, n_items), dtype=bool)
        self._start()

    def _start(self) -> None:
        n_models, size = len(self.scores), len(self.sequence.order)
        self.seen = np.zeros(n_models, dtype=np.intp)  # length of each model's beginning
        self.shift = np.full(n_models, np.nan)  # first scores: `single` sums up the rest
        self.sums, self.single = Sums(n_models**2, size), Sums(n_models, size)
        self.bets: Bets | None = None
        if self._nulls is not None:
            self.bets = Bets(n_models**2, size, 0.5 + 0.5 * self._nulls)
        self.against = tuple(Bets(n_models, size, x) for x in self._known)

    def bet_against(self, above: Floats, below: Floats) -> None:
        """Bet, before the first score, that each model's mean is above or below known means.

        Parameters
        ----------
        above, below : ndarray of shape (n_nulls,)
            Means to refute, on [0, 1].
        """
        self._known = above, 1.0 - below
        self._start()

    def add_model(self) -> None:
        """Add a model, and compute all sums again."""
        self.scores = np.pad(self.scores, ((0, 1), (0, 0)), constant_values=np.nan)
        self.done = np.pad(self.done, ((0, 1), (0, 0)))
        self._start()
        for model in range(len(self.scores)):
            self._advance(model)

    def settle(self, model: int, item: int, score: float) -> None:
        """Record that `model` is done with `item`; the score of a failure is NaN."""
        self.scores[model, item], self.done[model, item] = score, True
        self._advance(model)

    def _advance(self, model: int) -> None:
        """Take in the items of the sequence that `model` is done with by now."""
        order, done, n_models = self.sequence.order, self.done[model], len(self.scores)
        at = int(self.seen[model])
        while at < len(order) and done[item := int(order[at])]:
            self.seen[model] = at + 1
            score, one = self.scores[model, item], np.array([model])
            if np.isnan(self.shift[model]):
                self.shift[model] = score
            self.single.learn(one, np.array([score - self.shift[model]]))
            for bets, value in zip(self.against, (score, 1.0 - score)):
                bets.learn(one, np.array([value]))
            others = np.flatnonzero(self.seen > at)
            others = others[others != model]
            if len(others):
                series = np.concatenate([model * n_models + others, others * n_models + model])
                away = score - self.scores[others, item]
                values = np.concatenate([away, -away])
                self.sums.learn(series, values)
                if self.bets is not None:
                    self.bets.learn(series, 0.5 + 0.5 * values)
            at += 1

    # -- errors that are stated ---------------------------------------------------------------

    # Ten scores between 0.9990 and 0.9999 show next to no variance, and the eleventh may be 0.
    # Half an item is therefore imagined at the largest departure that a model may plausibly have:
    # the whole scale if its scores crowd an end of it. As with the imagined items of Wilson's and
    # of Agresti and Coull's intervals (The American Statistician 52, 1998), what this adds falls
    # with one over the number of items; without replacement it ends at 0.

    def largest_departures(self, models: Places) -> Floats:
        """Return the departure to imagine: the whole scale if a model's scores crowd an end of it.

        They do if a single item at the other end would move the mean by more than all items seen
        have moved it, and if their spread reaches the end: scores of BERTScore lie narrowly around
        0.9 and do not crowd 1.

        Parameters
        ----------
        models : ndarray of int

        Returns
        -------
        ndarray of shape (len(models),)
            1 or 0, on [0, 1].
        """
        mean = self.single.means(models) + self.shift[models]
        edge = np.minimum(mean, 1.0 - mean)
        near = edge <= NEAR * np.sqrt(self.single.variances(models)[1])
        return np.where(near & (edge * self.single.items(models) <= 1.0), 1.0, 0.0)

    def stated(self, pairs: Places, whole: bool) -> Floats:
        """Return the variance of the mean difference of pairs; infinite if unknown.

        The departure to imagine is at least the typical difference of two unrelated models on an
        item: two models that were equal on all items so far may differ on the next one.
        """
        models = np.arange(len(self.scores))
        of_one = self.single.variances(models, IMAGINED * self.largest_departures(models))[1]
        one, other = np.divmod(pairs, len(models))
        apart = np.minimum(of_one[one] + of_one[other], 1.0)
        return self.sums.variances(pairs, IMAGINED * apart, whole)[0]


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
    edges = []
    for x in (values, 1.0 - values):
        bets = Bets(1, size, nulls)
        best = np.zeros(grid)
        for value in x:
            bets.learn(np.zeros(1, dtype=np.intp), np.array([value]))
            best = np.maximum(best, bets.log_capital[:, 0])
        refuted = np.logical_and.accumulate(best >= np.log(2.0 / alpha))
        edges.append(float(nulls[max(int(refuted.sum()) - 1, 0)]))
    return edges[0], max(1.0 - edges[1], edges[0])

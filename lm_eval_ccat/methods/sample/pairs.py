"""Pairs of models on the items that both have had: a prefix of one shared random sequence.

Items are drawn without replacement. After ``n`` of ``N`` draws with mean ``m``,
``(m - mean of all N) n N / (N - n)`` is a martingale in ``n`` whatever the scores are: after the
next draw it is expected to be what it is. Its variance is ``n N / (N - n)`` times that of the
items. `belief.log_p` bounds such a martingale at all times simultaneously; for few items that is
measured (benchmarks/sample.py), not proven.

An item without a value (a model failed on it) counts as not drawn: values are assumed to be missing
at random.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...bank.bank import ItemBank
from ...metrics.scale import Floats
from ..belief import Indices
from .bets import Betting

#: Part of an item that is imagined in addition to those drawn (`imagined_square`). Models that
#: differ on one item in fifty show no variance before the first of these.
IMAGINED_ITEMS = 0.5
#: Scores may crowd an end of the scale if their mean is within so many standard deviations of it.
CROWDED_WITHIN = 4.0


def rare_loss(squares: Floats | float, sizes: Floats | float) -> Floats:
    """Return the size of a rare loss: the mean size of differences, each weighed by its size.

    Where most differences are small, the few large ones may all be still to come. Half an item with
    a difference of the whole scale, 1, is imagined: ``(sum d^2 + 1/2) / (sum |d| + 1/2)``.

    Parameters
    ----------
    squares, sizes : float or ndarray
        Sums of the squares and of the sizes of all differences.

    Examples
    --------
    >>> rare_loss(np.array([0.0, 5.0, 0.2]), np.array([0.0, 5.0, 2.0])).round(2).tolist()
    [1.0, 1.0, 0.28]
    """
    return np.asarray((squares + IMAGINED_ITEMS) / (sizes + IMAGINED_ITEMS))


def imagined_square(
    largest: Floats, plausible: Floats | float, divisor: Floats | float = 1.0
) -> Floats:
    """Return what half an imagined item adds to a sum of squared differences.

    Models that have not differed so far may do so on the next item. Its squared difference is the
    larger of two: that of the largest difference so far (while all are 0, of the whole scale), and
    `plausible`.

    Parameters
    ----------
    largest : ndarray
        Size of the largest difference so far.
    plausible : float or ndarray
        Mean square of what two unrelated models differ by on an item; more than 1 counts as 1.
    divisor : float or ndarray, optional
        What the differences of the sum, and `largest`, are divided by.

    Examples
    --------
    >>> imagined_square(np.array([0.0, 0.4, 0.4]), np.array([0.1, 0.1, 0.2])).round(2).tolist()
    [0.5, 0.08, 0.1]
    """
    largest = np.where(largest > 0.0, largest, 1.0 / divisor)
    usual = np.minimum(plausible, 1.0) / (divisor * divisor)
    return np.asarray(IMAGINED_ITEMS * np.maximum(largest**2, usual))


class SeriesVariances(NamedTuple):
    """Variances of some series.

    Attributes
    ----------
    of_mean : ndarray of shape (n_series,)
        Of the mean; infinite with fewer than two items, 0 if it is of all of the benchmark's items.
    of_item : ndarray of shape (n_series,)
        Of a value on one item.
    """

    of_mean: Floats
    of_item: Floats


class Sums:
    """Sums of several series of values in [-1, 1], one value per item drawn.

    A series is what is compared: the differences of one pair of models, or one model's scores.

    Parameters
    ----------
    n_series : int
    size : int
        Items of the benchmark.

    Attributes
    ----------
    count, total, absolute, square : ndarray of shape (n_series,)
        Number, sum, sum of absolute values and sum of squares of the values.
    largest : ndarray of shape (n_series,)
        Largest absolute value.
    squared_losses : ndarray of shape (n_series,)
        Sum of the squares of the values below 0.
    """

    def __init__(self, n_series: int, size: int) -> None:
        self.size = size
        self.count, self.total, self.absolute, self.square = np.zeros((4, n_series))
        self.largest, self.squared_losses = np.zeros((2, n_series))

    def learn(self, series: Indices, values: Floats) -> None:
        """Take in the values of one item for some series, each named once; NaN if missing."""
        present = np.isfinite(values)
        series, values = series[present], values[present]
        self.count[series] += 1.0
        self.total[series] += values
        self.absolute[series] += np.abs(values)
        self.square[series] += values * values
        self.largest[series] = np.maximum(self.largest[series], np.abs(values))
        self.squared_losses[series] += np.minimum(values, 0.0) ** 2

    def items(self, series: Indices) -> Floats:
        """Return the number of items with a value."""
        return np.asarray(self.count[series])

    def means(self, series: Indices) -> Floats:
        """Return the estimated mean over the benchmark; 0 without items."""
        return np.asarray(self.total[series] / np.maximum(self.count[series], 1.0))

    def variances(
        self, series: Indices, plausible: Floats | float = 0.0, finite: bool = True
    ) -> SeriesVariances:
        """Return the variance of `means`, and that of a value on one item.

        Parameters
        ----------
        series : ndarray of int
        plausible : ndarray of shape (len(series),), optional
            Square of a value that may be still to come; see `imagined_square`.
        finite : bool, optional
            Whether the benchmark's items are all there are, not a sample of a population.
        """
        n = self.count[series]
        divisor = np.maximum(n, 1.0)
        squares = self.square[series] - self.total[series] ** 2 / divisor
        imagined = imagined_square(self.largest[series], plausible)
        of_item = (np.maximum(squares, 0.0) + imagined) / np.maximum(n - 1.0, 1.0)
        # The finite-population correction: the share of the items that is not drawn.
        unseen = np.maximum(1.0 - n / self.size, 0.0) if finite else np.ones_like(n)
        of_mean = np.where((n < 2.0) & (unseen > 0.0), np.inf, of_item * unseen / divisor)
        return SeriesVariances(of_mean, of_item)


def seed_of_draws(bank: ItemBank, seed: int) -> int:
    """Return the seed by which a ranking of this seed draws a bank's items.

    It is `seed` but for a bank of `sample` that holds answers of earlier rankings, which has
    another one after each answer. By one seed every ranking would draw the same items: the others
    would never get an answer, and scores on just these items could not tell whether they are easy.
    """
    n_answers = sum(len(observation.items) for observation in bank.observations)
    # Beyond the seeds that rankings state.
    return seed + (n_answers << 64) if bank.method == "sample" else seed


class SharedSequence:
    """The order in which every model gets the items.

    The order is random and determined by the seed; a run rebuilt from a journal imposes its
    recorded order, item by item.

    Parameters
    ----------
    items : ndarray of int
        Items that may be drawn, as positions in bank order.
    seed : int

    Attributes
    ----------
    order : ndarray of int, shape (len(items),)
        The items in the order of the sequence.
    position : ndarray of int
        Place of each item in `order`, by position in bank order; -1 if it cannot be drawn.
    fixed : int
        How many items at the beginning keep their places, because some model was asked them.
    """

    def __init__(self, items: Indices, seed: int) -> None:
        rank = np.random.default_rng([seed, 0x5A]).permutation(len(items))
        self.order: Indices = items[np.argsort(rank)]
        self.position = np.full(int(items.max()) + 1, -1, dtype=np.intp)
        self.position[self.order] = np.arange(len(items))
        self.fixed = 0

    def fix(self, item: int, start: int = 0) -> None:
        """Fix `item` in the first place that is not fixed, from `start` on, by an exchange.

        With one place fixed, ``fix(0)`` makes ``[3, 0, 4, 1]`` of ``[3, 1, 4, 0]``. Nothing changes
        if its place is fixed already, or is among the first `start`: a model is done with the items
        there, and they may have come to it without a draw.
        """
        position, end = int(self.position[item]), max(self.fixed, start)
        if position < end:
            return
        displaced = int(self.order[end])
        self.order[end], self.order[position] = item, displaced
        self.position[item], self.position[displaced] = end, position
        self.fixed = end + 1

    def probability(self, item: int) -> float:
        """Return the probability that a draw took `item`: one over the items left before it."""
        return 1.0 / (len(self.order) - int(self.position[item]))


class ZeroLosses(NamedTuple):
    """What scores of 0 lose; see `Pairs.zero_losses`."""

    loss: Floats
    zero_count: Floats


class Pairs:
    """Sums over the items of every pair, updated item by item.

    A pair counts the items of the longest beginning of the sequence that both models are done with,
    by a score or a failure. Which items these are does not depend on which answer came first, and
    the bounds hold under any rule that allocates items to models.

    Parameters
    ----------
    n_models : int
    sequence : SharedSequence
    n_items : int
        Items in bank order.
    bets : Betting, optional
        Bets on the pairs and against known means, which see the same items.

    Attributes
    ----------
    score_sum, n_positive : ndarray of shape (n_models,)
        Sum of each model's scores, and how many of them are above 0.
    progress : ndarray of int, shape (n_models,)
        How many items at the beginning of the sequence each model is done with.
    first_score : ndarray of shape (n_models,)
        Each model's first score, or NaN.
    sums : Sums
        Of the differences of all pairs: series ``a n_models + b`` is model `a` minus model `b`.
    single : Sums
        Of each model's scores less its `first_score`, as sums of values near 0 are exact.
    """

    def __init__(
        self, n_models: int, sequence: SharedSequence, n_items: int, bets: Betting | None = None
    ) -> None:
        self.sequence, self.bets = sequence, bets
        self.scores = np.full((n_models, n_items), np.nan)
        self.done = np.zeros((n_models, n_items), dtype=bool)
        self.score_sum, self.n_positive = np.zeros((2, n_models))
        self._start()

    def _start(self) -> None:
        """Set all sums over the sequence to those of no item."""
        n_models, size = len(self.scores), len(self.sequence.order)
        self.progress = np.zeros(n_models, dtype=np.intp)
        self.first_score = np.full(n_models, np.nan)
        self.sums, self.single = Sums(n_models**2, size), Sums(n_models, size)
        self._item_variances: Floats | None = None
        if self.bets is not None:
            self.bets.start(n_models)

    def add_model(self) -> None:
        """Add a model, and compute all sums again."""
        self.scores = np.pad(self.scores, ((0, 1), (0, 0)), constant_values=np.nan)
        self.done = np.pad(self.done, ((0, 1), (0, 0)))
        self.score_sum = np.pad(self.score_sum, (0, 1))
        self.n_positive = np.pad(self.n_positive, (0, 1))
        self._start()
        for model in range(len(self.scores)):
            self._advance(model)

    def record(self, model: int, item: int, score: float) -> None:
        """Record that `model` is done with `item`; the score of a failure is NaN."""
        self.scores[model, item], self.done[model, item] = score, True
        self._item_variances = None
        if score > 0.0:  # not NaN
            self.score_sum[model] += score
            self.n_positive[model] += 1.0
        self._advance(model)

    def _advance(self, model: int) -> None:
        """Take in the items of the sequence that `model` is done with by now."""
        order, done = self.sequence.order, self.done[model]
        position = int(self.progress[model])
        while position < len(order) and done[item := int(order[position])]:
            self.progress[model] = position + 1
            # The item counts for the pairs of all models that are past it.
            self._learn(model, item, np.flatnonzero(self.progress > position))
            position += 1

    def _learn(self, model: int, item: int, past_item: Indices) -> None:
        """Take in an item of `model` and its pairs with models `past_item`, itself among these."""
        score, n_models = self.scores[model, item], len(self.scores)
        if np.isnan(self.first_score[model]):
            self.first_score[model] = score
        self.single.learn(np.array([model]), np.array([score - self.first_score[model]]))
        rivals = past_item[past_item != model]
        if len(rivals):
            series = np.concatenate([model * n_models + rivals, rivals * n_models + model])
            differences = score - self.scores[rivals, item]
            self.sums.learn(series, np.concatenate([differences, -differences]))
        if self.bets is not None:
            self.bets.learn(model, score, rivals, self.scores[rivals, item])

    # -- errors that are stated ---------------------------------------------------------------

    # Ten scores between 0.9990 and 0.9999 show next to no variance, and the eleventh may be 0. Half
    # an item is therefore imagined at the largest distance from the mean that is plausible: the
    # whole scale if its scores crowd an end of it. As with the imagined items of Wilson's and of
    # Agresti and Coull's intervals (The American Statistician 52, 1998), what this adds falls with
    # one over the number of items; without replacement it ends at 0.

    @property
    def item_variances(self) -> Floats:
        """The variance of each model's score on an item, half an item imagined; (n_models,).

        The imagined item lies as far from the mean as the whole scale is long if a model's scores
        crowd an end of the scale. They do if all items together are at most 1 away from the end, as
        far as a single item at the other end is, and if their spread reaches the end: scores of
        BERTScore lie narrowly around 0.9 and do not crowd 1.
        """
        if self._item_variances is None:
            single, models = self.single, np.arange(len(self.scores))
            mean = single.means(models) + self.first_score
            variance = single.variances(models).of_item
            edge = np.minimum(mean, 1.0 - mean)
            crowded = (edge <= CROWDED_WITHIN * np.sqrt(variance)) & (
                edge * single.items(models) <= 1.0
            )
            self._item_variances = single.variances(models, np.where(crowded, 1.0, 0.0)).of_item
        return self._item_variances

    def zero_losses(self, models: Indices) -> ZeroLosses:
        """Return what a score of 0 in place of a usual one loses, and how many such losses came.

        Parameters
        ----------
        models : ndarray of int

        Returns
        -------
        loss : ndarray of shape (len(models),)
            Mean of a model's scores above 0, on [0, 1]; 1 if it has none.
        zero_count : ndarray of shape (len(models), n_models)
            Sum of the squares of how much lower the row scored than the column, in units of `loss`
            squared.
        """
        n_positive = self.n_positive[models]
        loss = np.where(n_positive > 0.0, self.score_sum[models] / np.maximum(n_positive, 1.0), 1.0)
        losses = self.sums.squared_losses.reshape(len(self.scores), -1)[models]
        return ZeroLosses(loss, losses / (loss * loss)[:, None])

    def rare_losses(self) -> Floats:
        """Return `rare_loss` of the differences of all pairs; shape (n_models, n_models)."""
        n_models = len(self.scores)
        return rare_loss(self.sums.square, self.sums.absolute).reshape(n_models, n_models)

    def mean_variances(self, pairs: Indices, finite: bool) -> Floats:
        """Return the variance of the mean difference of some pairs; infinite below two items.

        `pairs` are series of `sums`; for `finite` see `Sums.variances`. Half a difference is
        imagined (`imagined_square`).
        """
        row, column = np.divmod(pairs, len(self.scores))
        variances = self.item_variances
        return self.sums.variances(pairs, variances[row] + variances[column], finite).of_mean

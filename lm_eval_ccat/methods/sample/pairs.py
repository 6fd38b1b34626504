"""Pairs of models on the items that both have had, as a prefix of one shared random sequence.

Items are drawn without replacement. After ``n`` of ``N`` draws with mean ``m``,
``(m - mean) n N / (N - n)`` is a martingale in ``n`` whatever the scores are, whose variance is
``n N / (N - n)`` times that of the items. `belief.log_p` bounds such a martingale at all times
simultaneously; for few items that is measured (benchmarks/sample.py), not proven.

An item without a value (a model failed on it) counts as not drawn: values are assumed to be missing
at random.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...metrics.scale import Floats
from ..belief import Places
from .bets import Betting

#: Part of an item, with the largest difference seen, that is added to the variance: models that
#: differ on one item in fifty show no variance before the first of these.
IMAGINED = 0.5
#: A mean is near an end of the scale if it is within so many standard deviations of an item.
NEAR = 4.0


def rare_loss(squares: Floats | float, sizes: Floats | float) -> Floats:
    """Return by how much few items are lost: differences in the mean, each weighed by its size.

    Where most differences are small, the few large ones may all be still to come. Half an item with
    a difference of the whole scale is imagined; many usual differences outweigh it.

    Parameters
    ----------
    squares, sizes : float or ndarray
        Sums of the squares and of the sizes of all differences.

    Examples
    --------
    >>> rare_loss(np.array([0.0, 5.0, 0.2]), np.array([0.0, 5.0, 2.0])).round(2).tolist()
    [1.0, 1.0, 0.28]
    """
    return np.asarray((squares + IMAGINED) / (sizes + IMAGINED))


class Sums:
    """Sums of several series of values in [-1, 1], one value per item drawn.

    Parameters
    ----------
    n_series : int
    size : int
        Items of the benchmark.

    Attributes
    ----------
    count, total, distance, square : ndarray of shape (n_series,)
        Number, sum, sum of sizes and sum of squares of the values.
    largest : ndarray of shape (n_series,)
        Largest absolute value.
    losses : ndarray of shape (n_series,)
        Sum of the squares of the values below 0.
    """

    def __init__(self, n_series: int, size: int) -> None:
        self.size = size
        self.count, self.total, self.distance, self.square = np.zeros((4, n_series))
        self.largest, self.losses = np.zeros((2, n_series))

    def learn(self, series: Places, values: Floats) -> None:
        """Take in the values of one item for some series, each named once; NaN if missing."""
        present = np.isfinite(values)
        series, values = series[present], values[present]
        self.count[series] += 1.0
        self.total[series] += values
        self.distance[series] += np.abs(values)
        self.square[series] += values * values
        self.largest[series] = np.maximum(self.largest[series], np.abs(values))
        self.losses[series] += np.minimum(values, 0.0) ** 2

    def items(self, series: Places) -> Floats:
        """Return the number of items with a value."""
        return np.asarray(self.count[series])

    def means(self, series: Places) -> Floats:
        """Return the estimated mean over the benchmark; 0 without items."""
        return np.asarray(self.total[series] / np.maximum(self.count[series], 1.0))

    def variances(
        self, series: Places, imagined: Floats | float = 0.0, finite: bool = True
    ) -> tuple[Floats, Floats]:
        """Return the variance of `means`, and that of one item.

        Parameters
        ----------
        series : ndarray of int
        imagined : ndarray of shape (len(series),), optional
            Sum of squares that is added at least, for values still to come.
        finite : bool, optional
            Whether the benchmark's items are all there are, not a sample of a population.

        Returns
        -------
        of_mean, of_one : ndarray of shape (len(series),)
            The first is infinite with fewer than two items, and 0 if all are seen.
        """
        n, largest = self.count[series], self.largest[series]
        divisor = np.maximum(n, 1.0)
        squares = self.square[series] - self.total[series] ** 2 / divisor
        imagined_square = np.maximum(
            IMAGINED * np.where(largest > 0.0, largest, 1.0) ** 2, imagined
        )
        of_one = (np.maximum(squares, 0.0) + imagined_square) / np.maximum(n - 1.0, 1.0)
        unseen = np.maximum(1.0 - n / self.size, 0.0) if finite else np.ones_like(n)
        of_mean = np.where((n < 2.0) & (unseen > 0.0), np.inf, of_one * unseen / divisor)
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

    def fix(self, item: int, start: int = 0) -> None:
        """Make `item` the next of the sequence, unless it is fixed or among the `start` first."""
        position, end = int(self.position[item]), max(self.fixed, start)
        if position < end:
            return
        displaced = int(self.order[end])
        self.order[end], self.order[position] = item, displaced
        self.position[item], self.position[displaced] = end, position
        self.fixed = end + 1

    def probability(self, item: int) -> float:
        """Return the probability of drawing `item` among those not drawn before."""
        return 1.0 / (len(self.order) - int(self.position[item]))


class ItemVariances(NamedTuple):
    """The variance of one item of each model: as seen, and with a departure to imagine."""

    as_seen: Floats
    imagined: Floats


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
    bets : Betting, optional
        Bets on the pairs and against known means, which see the same items.

    Attributes
    ----------
    earned, positive : ndarray of shape (n_models,)
        Sum of each model's scores, and how many of them are above 0.
    sums, single : Sums
        Sums of the differences of all pairs (series ``a n_models + b``: model `a` minus `b`), and
        of the scores of each model minus its first.
    """

    def __init__(
        self, n_models: int, sequence: SharedSequence, n_items: int, bets: Betting | None = None
    ) -> None:
        self.sequence, self.bets = sequence, bets
        self.scores = np.full((n_models, n_items), np.nan)
        self.done = np.zeros((n_models, n_items), dtype=bool)
        self.earned, self.positive = np.zeros((2, n_models))
        self._start()

    def _start(self) -> None:
        n_models, size = len(self.scores), len(self.sequence.order)
        self.progress = np.zeros(n_models, dtype=np.intp)  # length of each model's beginning
        self.shift = np.full(n_models, np.nan)  # first scores: `single` sums up the rest
        self.sums, self.single = Sums(n_models**2, size), Sums(n_models, size)
        self._of_one: ItemVariances | None = None
        if self.bets is not None:
            self.bets.start(n_models)

    def add_model(self) -> None:
        """Add a model, and compute all sums again."""
        self.scores = np.pad(self.scores, ((0, 1), (0, 0)), constant_values=np.nan)
        self.done = np.pad(self.done, ((0, 1), (0, 0)))
        self.earned, self.positive = np.pad(self.earned, (0, 1)), np.pad(self.positive, (0, 1))
        self._start()
        for model in range(len(self.scores)):
            self._advance(model)

    def settle(self, model: int, item: int, score: float) -> None:
        """Record that `model` is done with `item`; the score of a failure is NaN."""
        self.scores[model, item], self.done[model, item] = score, True
        self._of_one = None
        if score > 0.0:
            self.earned[model] += score
            self.positive[model] += 1.0
        self._advance(model)

    def _advance(self, model: int) -> None:
        """Take in the items of the sequence that `model` is done with by now."""
        order, done, n_models = self.sequence.order, self.done[model], len(self.scores)
        position = int(self.progress[model])
        while position < len(order) and done[item := int(order[position])]:
            self.progress[model] = position + 1
            score, own_series = self.scores[model, item], np.array([model])
            if np.isnan(self.shift[model]):
                self.shift[model] = score
            self.single.learn(own_series, np.array([score - self.shift[model]]))
            rivals = np.flatnonzero(self.progress > position)
            rivals = rivals[rivals != model]
            if len(rivals):
                series = np.concatenate([model * n_models + rivals, rivals * n_models + model])
                away = score - self.scores[rivals, item]
                values = np.concatenate([away, -away])
                self.sums.learn(series, values)
            if self.bets is not None:
                self.bets.learn(model, score, rivals, self.scores[rivals, item])
            position += 1

    # -- errors that are stated ---------------------------------------------------------------

    # Ten scores between 0.9990 and 0.9999 show next to no variance, and the eleventh may be 0.
    # Half an item is therefore imagined at the largest departure that a model may plausibly have:
    # the whole scale if its scores crowd an end of it. As with the imagined items of Wilson's and
    # of Agresti and Coull's intervals (The American Statistician 52, 1998), what this adds falls
    # with one over the number of items; without replacement it ends at 0.

    @property
    def of_one(self) -> ItemVariances:
        """The variances of one item of each model.

        The departure to imagine is the whole scale if a model's scores crowd an end of it. They do
        if a single item at the other end would move the mean by more than all items seen have, and
        if their spread reaches the end: scores of BERTScore lie narrowly around 0.9 and do not
        crowd 1.
        """
        if self._of_one is None:
            single, models = self.single, np.arange(len(self.scores))
            mean, variance = single.means(models) + self.shift, single.variances(models)[1]
            edge = np.minimum(mean, 1.0 - mean)
            crowded = (edge <= NEAR * np.sqrt(variance)) & (edge * single.items(models) <= 1.0)
            departure = np.where(crowded, 1.0, 0.0)
            imagined = single.variances(models, IMAGINED * departure)[1]
            self._of_one = ItemVariances(variance, imagined)
        return self._of_one

    def zero_losses(self, models: Places) -> tuple[Floats, Floats]:
        """Return what one score of 0 loses, and how many each of two models has lost so far.

        A score of 0 is one in place of a usual score above 0.

        Parameters
        ----------
        models : ndarray of int

        Returns
        -------
        loss : ndarray of shape (len(models),)
            On [0, 1]; 1 for a model without a score above 0.
        zero_count : ndarray of shape (len(models), n_models)
            Squares of how much lower the row scored than the column, in units of `loss` squared.
        """
        positive = self.positive[models]
        loss = np.where(positive > 0.0, self.earned[models] / np.maximum(positive, 1.0), 1.0)
        losses = self.sums.losses.reshape(len(self.scores), -1)[models]
        return loss, losses / (loss * loss)[:, None]

    def rare_losses(self) -> Floats:
        """Return `rare_loss` of the differences of all pairs; shape (n_models, n_models)."""
        n_models = len(self.scores)
        return rare_loss(self.sums.square, self.sums.distance).reshape(n_models, n_models)

    def stated(self, pairs: Places, finite: bool) -> Floats:
        """Return the variance of the mean difference of pairs; infinite if unknown.

        The departure to imagine is at least the typical difference of two unrelated models on an
        item: two models that were equal on all items so far may differ on the next one.
        """
        row, column = np.divmod(pairs, len(self.scores))
        apart = np.minimum(self.of_one.imagined[row] + self.of_one.imagined[column], 1.0)
        return self.sums.variances(pairs, IMAGINED * apart, finite)[0]

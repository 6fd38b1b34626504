"""Running sums of values on random items: the mean over the benchmark, and its variance.

Items are drawn without replacement from strata of known size (from one stratum, the whole
benchmark, as a rule), in proportion to their sizes. After ``n`` of ``N`` draws with mean ``m``,
``(m - mean) n N / (N - n)`` is a martingale in ``n`` whatever the scores are, whose variance is
``n N / (N - n)`` times that of the items. Under proportional allocation the martingales of the
strata add up to one on the same clock, with the variance within strata. `mixture` bounds such a
martingale at all times together; what it does on few items is measured (benchmarks/sample.py),
not proven.

An item without a value (a model failed on it) is as one that was not drawn: values are taken to be
missing at random.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.intp]

#: Items of which nothing is decided before: a variance estimated from fewer is worth little.
LEAST = 10
#: Part of an item, at the largest difference seen, that the variance counts as seen once more:
#: models that differ on one item in fifty show no variance at all before they do.
IMAGINED = 0.5


class Sums:
    """Sums of several series of values in [-1, 1], one value per item drawn.

    Parameters
    ----------
    n_series : int
    sizes : ndarray of shape (n_strata,)
        Items of each stratum.

    Attributes
    ----------
    count, total, square : ndarray of shape (n_strata, n_series)
        Number, sum and sum of squares of the values.
    largest : ndarray of shape (n_series,)
        Largest absolute value.
    """

    def __init__(self, n_series: int, sizes: Floats) -> None:
        self.sizes = sizes[:, None]
        self.count = np.zeros((len(sizes), n_series))
        self.total, self.square = np.zeros_like(self.count), np.zeros_like(self.count)
        self.largest = np.zeros(n_series)

    def learn(self, series: Ints, values: Floats, stratum: int) -> None:
        """Take in one item for some series, each named once; NaN where it has no value."""
        seen = np.isfinite(values)
        series, values = series[seen], values[seen]
        self.count[stratum, series] += 1.0
        self.total[stratum, series] += values
        self.square[stratum, series] += values * values
        self.largest[series] = np.maximum(self.largest[series], np.abs(values))

    def items(self, series: Ints) -> Floats:
        """Items with a value."""
        return np.asarray(self.count[:, series].sum(axis=0))

    def means(self, series: Ints) -> Floats:
        """Estimated mean over the benchmark; 0 without items."""
        n = np.maximum(self.count[:, series], 1.0)
        return np.asarray((self._weight * self.total[:, series] / n).sum(axis=0))

    @property
    def _weight(self) -> Floats:
        return np.asarray(self.sizes / self.sizes.sum())

    def variances(
        self, series: Ints, imagined: Floats | float = 0.0, whole: bool = True
    ) -> tuple[Floats, Floats]:
        """Variance of `means`, and of one item within its stratum.

        Parameters
        ----------
        series : ndarray of int
        imagined : ndarray of shape (len(series),), optional
            Least size of the value that counts as seen once more.
        whole : bool, optional
            Whether these items are all that there is; else they are a sample of a population.

        Returns
        -------
        of_mean, of_one : ndarray of shape (len(series),)
            The first infinite where a stratum has fewer than two items, and 0 where all are seen.
        """
        n, weight = self.count[:, series], self._weight
        least = np.maximum(n, 1.0)
        within = self.square[:, series] - self.total[:, series] ** 2 / least
        largest = self.largest[series]
        one_more = IMAGINED * np.maximum(np.where(largest > 0.0, largest, 1.0), imagined) ** 2
        within = (np.maximum(within, 0.0) + weight * one_more) / np.maximum(n - 1.0, 1.0)
        unseen = np.maximum(1.0 - n / self.sizes, 0.0) if whole else np.ones_like(n)
        of_mean = np.where((n < 2.0) & (unseen > 0.0), np.inf, weight**2 * within * unseen / least)
        return of_mean.sum(axis=0), (weight * within).sum(axis=0)

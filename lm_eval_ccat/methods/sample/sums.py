"""Running sums of differences on random items, and the interval of their mean at every look.

Items are drawn without replacement from strata of known size (from one stratum, the whole
benchmark, as a rule), in proportion to their sizes.  After ``n`` of ``N`` draws with mean ``m``,
``(m - mean) n N / (N - n)`` is a martingale in ``n`` whatever the scores are, whose variance is
``n N / (N - n)`` times that of the items.  Under proportional allocation the martingales of the
strata add up to one on the same clock, with the variance within strata.  Robbins' normal mixture
bounds such a martingale at all times together::

    |m - mean| <= sqrt(V (r t + 1) / (r t) log((r t + 1) / alpha^2)),   t = (variance of one) / V

with ``V`` the variance of the estimate (finite population included) and ``r`` the time at which the
bound is tightest.  The variance is estimated, so that the bound holds asymptotically: an asymptotic
confidence sequence in the sense of I. Waudby-Smith, D. Arbour, R. Sinha, E. H. Kennedy and
A. Ramdas, "Time-uniform central limit theory and asymptotic confidence sequences",
arXiv:2103.06476.  What it does on few items is measured (benchmarks/sample.py), not proven.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.intp]

#: Items of which nothing is decided before: a variance estimated from fewer is worth little.
LEAST = 10
#: Draws at which the sequence is tightest.  Between 30 and 100 the share of pairs decided by 100
#: items changes by less than a point.
TIGHT_AT = 60.0
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
    missing : ndarray of shape (n_strata, n_series)
        Items drawn that have no value, as one of two models failed on them. What is inferred is
        then about the items that have one; how many those are is bounded by the rest.
    largest : ndarray of shape (n_series,)
        Largest absolute value.
    """

    def __init__(self, n_series: int, sizes: Floats) -> None:
        self.sizes = sizes[:, None]
        self.count = np.zeros((len(sizes), n_series))
        self.total, self.square, self.missing = (np.zeros_like(self.count) for _ in range(3))
        self.largest = np.zeros(n_series)

    def learn(self, series: Ints, values: Floats, stratum: int) -> None:
        """Take in one item for some series, each named once; NaN where it has no value."""
        seen = np.isfinite(values)
        if not seen.all():
            self.missing[stratum, series[~seen]] += 1.0
            series, values = series[seen], values[seen]
        self.count[stratum, series] += 1.0
        self.total[stratum, series] += values
        self.square[stratum, series] += values * values
        self.largest[series] = np.maximum(self.largest[series], np.abs(values))

    def items(self, series: Ints) -> Floats:
        """Items with a value."""
        return np.asarray(self.count[:, series].sum(axis=0))

    def left(self, series: Ints) -> Floats:
        """Items that have no value yet and may get one."""
        gone = (self.count + self.missing)[:, series]
        return np.asarray((self.sizes - gone).sum(axis=0))

    def means(self, series: Ints) -> Floats:
        """Estimated mean over the benchmark; 0 without items."""
        n, weight = self.count[:, series], self._weight(series)
        return np.asarray((weight * self.total[:, series] / np.maximum(n, 1.0)).sum(axis=0))

    def _weight(self, series: Ints) -> Floats:
        if len(self.sizes) == 1:
            return np.ones((1, len(series)))
        size = self.sizes - self.missing[:, series]
        return np.asarray(size / np.maximum(size.sum(axis=0), 1.0))

    def variances(self, series: Ints, imagined: Floats | float = 0.0) -> tuple[Floats, Floats]:
        """Variance of `means`, and of one item within its stratum.

        Parameters
        ----------
        series : ndarray of int
        imagined : ndarray of shape (len(series),), optional
            Least size of the value that counts as seen once more.

        Returns
        -------
        of_mean, of_one : ndarray of shape (len(series),)
            The first infinite where a stratum has fewer than two items, and 0 where all are seen.
        """
        n, size = self.count[:, series], self.sizes - self.missing[:, series]
        weight = self._weight(series)
        least = np.maximum(n, 1.0)
        within = self.square[:, series] - self.total[:, series] ** 2 / least
        largest = self.largest[series]
        one_more = IMAGINED * np.maximum(np.where(largest > 0.0, largest, 1.0), imagined) ** 2
        within = (np.maximum(within, 0.0) + weight * one_more) / np.maximum(n - 1.0, 1.0)
        unseen = np.maximum(1.0 - n / np.maximum(size, 1.0), 0.0)
        of_mean = np.where((n < 2.0) & (unseen > 0.0), np.inf, weight**2 * within * unseen / least)
        return of_mean.sum(axis=0), (weight * within).sum(axis=0)

    def radius(self, series: Ints, alpha: float, imagined: Floats | float = 0.0) -> Floats:
        """Half the width of the interval of the mean that holds at all looks together.

        Parameters
        ----------
        series : ndarray of int
        alpha : float
            Two-sided error.
        imagined : ndarray of shape (len(series),), optional
            As `variances` has it.

        Returns
        -------
        ndarray of shape (len(series),)
            Infinite before `LEAST` items, 0 once no item is left.
        """
        of_mean, of_one = self.variances(series, imagined)
        out = np.full(len(series), np.inf)
        known = of_mean == 0.0
        out[known] = 0.0
        usable = ~known & np.isfinite(of_mean) & (self.items(series) >= LEAST)
        out[usable] = reach(of_mean[usable], of_one[usable], alpha)
        return out


def reach(of_mean: Floats, of_one: Floats, alpha: float) -> Floats:
    """The bound that holds at all looks, by the variances of a mean and of one draw."""
    clock = of_one / of_mean * _tightness(alpha)
    return np.asarray(np.sqrt(of_mean * (clock + 1.0) / clock * np.log((clock + 1.0) / alpha**2)))


def _tightness(alpha: float) -> float:
    """The mixture's variance per draw at which its bound is tightest after `TIGHT_AT` draws."""
    log = -2.0 * float(np.log(alpha))
    return (log + float(np.log(log + 1.0))) / TIGHT_AT

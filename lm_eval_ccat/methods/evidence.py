"""What a difference must be to be believed at every look, however often one looks.

*Asymptotic*: Robbins' normal mixture. A mean over ``n`` items drawn without replacement is Brownian
motion on the clock ``n / (1 - n/N)``, one over its variance in units of one item's. The mixture
bounds it at all times together (H. Robbins, "Statistical methods related to the law of the iterated
logarithm", Annals of Mathematical Statistics 41, 1970); with an estimated variance the bound holds
asymptotically (I. Waudby-Smith, D. Arbour, R. Sinha, E. H. Kennedy and A. Ramdas, "Time-uniform
central limit theory and asymptotic confidence sequences", arXiv:2103.06476).

*For any number of items*: betting on the mean of bounded scores, drawn without replacement. Whoever
bets on the next value against a hypothetical mean, at odds that are fair if it is true, cannot
expect to grow rich. Capital of ``1 / alpha`` refutes the mean at level ``alpha``, however often one
looks (Ville's inequality). Without replacement the fair price of the next value is the mean of what
would be left (I. Waudby-Smith and A. Ramdas, "Estimating means of bounded random variables by
betting", arXiv:2010.09686, section 5).
"""

from __future__ import annotations

import numpy as np

from .belief import Floats, Places

#: Items at which the bound is tightest. Between 30 and 100 the share of pairs decided by 100 items
#: changes by less than a point.
TIGHT_AT = 60.0
#: The mixture's variance per item at which that is so, at a level of 0.05.
_RATE = (-2.0 * np.log(0.05) + np.log(1.0 - 2.0 * np.log(0.05))) / TIGHT_AT
#: Largest share of the capital that is staked.
MOST = 0.7
#: Items imagined at the middle of the scale before the first, for the mean and the variance that
#: stakes are computed from; the validity does not depend on it.
PRIOR_ITEMS, PRIOR_VARIANCE = 4.0, 0.02


def log_p(z: Floats, clock: Floats) -> Floats:
    """Log of the two-sided level at which a difference is believed, whatever looks came before.

    Parameters
    ----------
    z : ndarray
        Its size, in standard errors.
    clock : ndarray
        Variance of one item over that of the mean.
    """
    r = clock * _RATE
    return np.asarray(np.minimum(0.5 * np.log1p(r) - 0.5 * z * z * r / (1.0 + r), 0.0))


def boundary(level: float, clock: Floats) -> Floats:
    """The inverse: standard errors from which a difference is believed at a two-sided level.

    Examples
    --------
    >>> boundary(0.05, np.array([60.0, 600.0])).round(2).tolist()
    [3.04, 3.24]
    """
    r = clock * _RATE
    return np.asarray(np.sqrt((1.0 + 1.0 / r) * (np.log1p(r) - 2.0 * np.log(level))))


class Bets:
    """Capital of bets that series of values in [0, 1] have a larger mean than some null.

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
        """Take in one item for some series, each named once; NaN where it has no value.

        An item without a value is as one that was not drawn.
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
        # A price below what the values left can come to: the null is refuted for certain.
        growth = np.where(fair < -1e-9, np.inf, growth)
        self.log_capital[:, series] += growth
        self.spread[series] += (values - guess) ** 2
        self.count[series] += 1.0
        self.total[series] += values


def betting_interval(
    values: Floats, size: float, alpha: float, grid: int = 1001
) -> tuple[float, float]:
    """Interval of the mean of values in [0, 1] that holds at all looks, by betting.

    Parameters
    ----------
    values : ndarray of shape (n,)
        In the order drawn; NaN where an item has no value.
    size : float
        Items of the benchmark.
    alpha : float
        Two-sided error.
    grid : int, optional
        Nulls tried; the interval is as fine as that.

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

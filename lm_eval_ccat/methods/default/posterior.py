"""What a few scores of one model say about its full-benchmark mean: a Laplace posterior.

With ``A`` the items seen, ``U`` the others and ``N`` of both, the estimand and its variance are

    t     = ( sum over A of y_i  +  sum over U of mu_i ) / N
    Var t = ( g' S g  +  sum over U of kappa_i w_i ) / N^2,      g = sum over U of w_i l_i,

where ``S`` is the posterior covariance of ability and factors, ``l_i`` the gradient of item i's
linear predictor, ``w = mu (1 - mu)`` and ``kappa_i = k_i (s(x) + w_i v_i(x))`` its noise: the
item's own, and what calibration leaves open of its curve at this ability (``k_i v_i``). Seeing item
i is expected to lower the sum of squares by ``c_i^2 / p_i``, with ``c_i = w_i l_i' S g + kappa_i
w_i`` the covariance of its score with the unseen sum and ``p_i = kappa_i w_i + w_i^2 l_i' S l_i``
its variance.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.lapack import dposv
from scipy.special import expit

from .fractional import FractionalItems, weight

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]

_STEPS = 30
_LONGEST_STEP = 1.0
_TOLERANCE = 2e-4  # of a Newton step; what is left after it is far smaller


class ScorePosterior:
    """Posterior of one model, given scores on some items.

    Parameters
    ----------
    items : FractionalItems

    Attributes
    ----------
    z : ndarray of shape (1 + q,)
        Mode: the ability, then residual factors.
    covariance : ndarray of shape (1 + q, 1 + q)
        Of `z`.
    mu, w : ndarray of shape (n_items,)
        Expected scores and their slopes at the mode.
    kappa : ndarray of shape (n_items,)
        Noise of a score on each item.
    estimate, variance : float
        ``t`` and ``Var t``.
    unseen_noise : float
        Mean variance ``kappa w`` of the scores not seen.
    """

    def __init__(self, items: FractionalItems) -> None:
        self.items = items
        self.seen: list[int] = []
        self.scores: list[float] = []
        self._unseen = np.ones(items.n_items)  # 1 or 0: products are cheaper than indexing
        self._score = np.zeros(items.n_items)
        self._prior = items.prior_precision
        self.z = np.zeros(items.n_dimensions)
        self.covariance = np.diag(1.0 / self._prior)
        self._predict()

    @property
    def n_items(self) -> int:
        """Items of the benchmark."""
        return self.items.n_items

    @property
    def slope(self) -> float:
        """What the estimate moves by when the ability moves by 1, and the factors with it."""
        along = self._gradient @ self.covariance[:, 0]
        return float(along) / (float(self.covariance[0, 0]) * self.n_items)

    def learn(self, items: Sequence[int], scores: Sequence[float]) -> None:
        """Take in scores, on [0, 1], of items not seen before."""
        self.seen.extend(items)
        self.scores.extend(scores)
        self._unseen[list(items)] = 0.0
        self._score[list(items)] = scores
        self._fit()
        self._predict()

    def gains(self, pending: Sequence[int] = ()) -> Floats:
        """Expected fall of the variance of ``N t`` for each item; shape (n_items,).

        Parameters
        ----------
        pending : sequence of int
            Items whose scores are on their way; taken as known.
        """
        covariance, g = self.covariance, self._gradient
        if len(pending):
            covariance, g = self._after(pending)
        along = self.w[:, None] * self._slopes
        spread = along @ covariance
        own = self.kappa * self.w
        with_sum = spread @ g + own
        total = own + np.einsum("ij,ij->i", spread, along)
        return np.asarray(with_sum**2 / total)

    def residuals(self, at: NDArray[np.intp], most_leverage: float) -> Floats:
        """Scores less expectations of items seen, about as if the fit had not known them."""
        g = self._slopes[at]
        leverage = ((g @ self.covariance) * g).sum(axis=1) * self.w[at] / self.kappa[at]
        y = self._score[at]
        return np.asarray((y - self.mu[at]) / (1.0 - np.minimum(leverage, most_leverage)))

    def open_after(self, items: Sequence[int]) -> float:
        """Variance of the mean expected score of the items not seen, if only `items` were."""
        g = self._slopes[items]
        precision = (g.T * (self.w[items] / self.kappa[items])) @ g
        precision.flat[:: len(self.z) + 1] += self._prior
        along = self._gradient / max(self.n_items - len(self.seen), 1)
        return float(along @ solved(precision, along))

    def predictive_variance(self, item: int) -> float:
        """Variance that the score of `item` is expected to have."""
        along = self.w[item] * self._slopes[item]
        own = self.kappa[item] * self.w[item]
        return float(own + along @ self.covariance @ along)

    def _fit(self) -> None:
        """Newton steps to the mode, from the last one."""
        seen, prior, z = self.items.at(self.seen), self._prior, self.z
        y = np.array(self.scores)
        covariance, every = self.covariance, np.eye(len(z))
        for _ in range(_STEPS):
            eta, gradient, value = seen.predictor(z)
            mu = expit(eta)
            w = weight(mu)
            kappa = seen.noise * (seen.model_noise(float(z[0])) + w * seen.curve_variance(value))
            scaled = gradient.T / kappa
            precision = (scaled * w) @ gradient
            precision.flat[:: len(z) + 1] += prior
            covariance = solved(precision, every)
            step = covariance @ (scaled @ (y - mu) - prior * z)
            longest = max(map(abs, step.tolist()))
            z = z + (step if longest < _LONGEST_STEP else step * (_LONGEST_STEP / longest))
            if longest < _TOLERANCE:
                break
        self.z, self.covariance = z, covariance

    def _predict(self) -> None:
        items = self.items
        eta, self._slopes, value = items.predictor(self.z)
        self.mu = expit(eta)
        self.w = weight(self.mu)
        noise = items.model_noise(float(self.z[0])) + self.w * items.curve_variance(value)
        self.kappa = items.noise * noise
        left = self._unseen * self.w
        self._gradient = left @ self._slopes
        g = self._gradient
        n = self.n_items
        self.estimate = (sum(self.scores) + float(self._unseen @ self.mu)) / n
        own = float(self.kappa @ left)
        self.variance = float(g @ self.covariance @ g + own) / n**2
        self.unseen_noise = own / max(n - len(self.seen), 1)

    def _after(self, pending: Sequence[int]) -> tuple[Floats, Floats]:
        """Covariance and gradient once `pending` are in, at the present mode."""
        at = np.asarray(pending, dtype=np.intp)
        slopes, w = self._slopes[at], self.w[at]
        data = (slopes * (w / self.kappa[at])[:, None]).T @ slopes
        every = np.eye(len(data))
        covariance = solved(solved(self.covariance, every) + data, every)
        return covariance, self._gradient - (self._unseen[at] * w) @ slopes


def solved(matrix: Floats, right: Floats) -> Floats:
    """``matrix^-1 right`` for a positive definite matrix; numpy's checks cost ten times as much."""
    _, found, failed = dposv(matrix, right)
    return np.asarray(np.linalg.solve(matrix, right) if failed else found)

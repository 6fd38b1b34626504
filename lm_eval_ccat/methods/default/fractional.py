"""The response model of the method "default": fractional logit curves with residual factors.

A model of ability ``x`` and residual factors ``z`` has on item ``i`` the linear predictor

    eta_i = c_i . f(x) + l_i . z,      expected score  mu_i = logistic(eta_i),

with ``f`` the basis of `AbilityBasis`, so that items differ in difficulty, discrimination and,
where the calibration shows it, in bend. A score has the variance ``k_i s(x) mu_i (1 - mu_i)``:
``k_i`` is the item's noise, ``s(x)`` says how much noisier than usual models of that ability are.
The quasi-likelihood ``(y eta - log(1 + e^eta)) / k`` has just this variance, is concave in ``eta``
and takes any score in [0, 1]; for 0/1 scores with ``k = 1`` it is the likelihood of the ordinary
logistic model (Papke and Wooldridge 1996 for fractions; Wedderburn 1974 for the principle).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from math import exp

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from .basis import AbilityBasis

Floats = NDArray[np.float64]

SMALLEST_WEIGHT = 2.5e-3  # mu (1 - mu) is not let below this: no item is ever free of noise
_BANDWIDTH = 0.4  # of the noise of models at an ability, in standard deviations of ability
_PRIOR_MODELS = 0.5  # that many models of usual noise stand beside the near ones


def weight(mu: Floats) -> Floats:
    """``mu (1 - mu)``, bounded below; the slope of the logistic curve."""
    return np.maximum(mu * (1.0 - mu), SMALLEST_WEIGHT)


def weight_into(out: Floats, mu: Floats) -> Floats:
    """`weight`, written into `out`."""
    np.multiply(np.subtract(1.0, mu, out=out), mu, out=out)
    return np.maximum(out, SMALLEST_WEIGHT, out=out)


def quasi_log_likelihood(y: Floats, eta: Floats, k: Floats | float) -> Floats:
    """``(y eta - log(1 + e^eta)) / k``, elementwise.

    Examples
    --------
    >>> import numpy as np
    >>> float(quasi_log_likelihood(np.array(1.0), np.array(0.0), 1.0).round(4))
    -0.6931
    """
    return np.asarray((y * eta - np.logaddexp(0.0, eta)) / k)


@cache
def packed(n: int) -> tuple[NDArray[np.intp], NDArray[np.intp], Floats]:
    """The stored entries of a symmetric matrix of size `n`: row, column, how often they count."""
    row, column = np.triu_indices(n)
    return row, column, np.where(row == column, 1.0, 2.0)


@dataclass(frozen=True)
class FractionalItems:
    """Calibrated items, and what is known of models in general.

    Attributes
    ----------
    coefficients : ndarray of shape (n_items, p)
        ``c_i``, the intercept first, then the slope, then bends.
    covariance : ndarray of shape (n_items, p (p + 1) / 2)
        Upper triangle of the posterior covariance of ``c_i``, divided by ``k_i``.
    noise : ndarray of shape (n_items,)
        ``k_i``, above 0.
    loadings : ndarray of shape (n_items, q)
        ``l_i``, for factors of variance 1.
    basis : AbilityBasis
    prior_sd : float
        Of the ability, whose prior mean is 0 (logits).
    abilities, log_noise : ndarray of shape (n_models,)
        Abilities of the calibration models and ``log s`` of each.
    spread : float
        Standard deviation of the calibration models' abilities.
    """

    coefficients: Floats
    covariance: Floats
    noise: Floats
    loadings: Floats
    basis: AbilityBasis
    prior_sd: float
    abilities: Floats
    log_noise: Floats
    spread: float

    @property
    def n_items(self) -> int:
        """Number of items."""
        return len(self.noise)

    @property
    def n_dimensions(self) -> int:
        """Ability and residual factors."""
        return 1 + int(self.loadings.shape[1])

    @property
    def prior_precision(self) -> Floats:
        """Diagonal of the prior precision of ability and factors."""
        return np.concatenate([[self.prior_sd**-2], np.ones(self.loadings.shape[1])])

    def at(self, which: Sequence[int]) -> FractionalItems:
        """Only some items, in that order."""
        at = np.asarray(which, dtype=np.intp)
        return replace(
            self,
            coefficients=self.coefficients[at],
            covariance=self.covariance[at],
            noise=self.noise[at],
            loadings=self.loadings[at],
        )

    def predictor(self, z: Floats) -> tuple[Floats, Floats, Floats]:
        """Linear predictor, its gradient in `z`, and the basis at the ability.

        Parameters
        ----------
        z : ndarray of shape (1 + q,)
            Ability and residual factors.

        Returns
        -------
        eta : ndarray of shape (n,)
        gradient : ndarray of shape (n, 1 + q)
        value : ndarray of shape (p,)
        """
        value, slope = self.basis.value_and_slope(float(z[0]))
        eta = self.coefficients @ value
        along = self.coefficients @ slope
        if len(z) == 1:
            return eta, along[:, None], value
        eta += self.loadings @ z[1:]
        gradient = np.empty((len(eta), len(z)))
        gradient[:, 0] = along
        gradient[:, 1:] = self.loadings
        return eta, gradient, value

    def expected(self, z: Floats) -> Floats:
        """Expected score of every item; shape (n_items,)."""
        return np.asarray(expit(self.predictor(z)[0]))

    def curve_variance(self, value: Floats) -> Floats:
        """Posterior variance of ``c_i . f``, divided by ``k_i``; shape (n_items,).

        Parameters
        ----------
        value : ndarray of shape (p,)
            The basis at an ability.
        """
        row, column, times = packed(len(value))
        return np.asarray(self.covariance @ (value[row] * value[column] * times))

    def model_noise(self, x: float) -> float:
        """``s(x)``: noise of models of ability near `x` relative to the usual one."""
        away, unit, noise = self._in_bandwidths
        away = away - x / unit
        total, weighted = (noise @ np.exp(-0.5 * (away * away))).tolist()
        return exp(weighted / (total + _PRIOR_MODELS))

    @cached_property
    def _in_bandwidths(self) -> tuple[Floats, float, Floats]:
        """Abilities of the calibration models in bandwidths, the bandwidth; 1 and log noise."""
        unit = _BANDWIDTH * self.spread
        return self.abilities / unit, unit, np.array([np.ones_like(self.log_noise), self.log_noise])

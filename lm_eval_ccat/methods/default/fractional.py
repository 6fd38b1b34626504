"""The response model of the method "default": fractional logit curves with residual factors.

A model of ability ``x`` and residual factors ``z`` has on item ``i`` the linear predictor

    eta_i = c_i . f(x) + l_i . z,      expected score  mu_i = logistic(eta_i),

with ``f`` the basis of `AbilityBasis`, so that items differ in difficulty, discrimination and,
where the calibration shows it, in bend. A score has the variance ``k_i s(x) mu_i (1 - mu_i)``:
``k_i`` is the item's noise, ``s(x)`` the noise of models of that ability relative to the usual one.
The quasi-likelihood ``(y eta - log(1 + e^eta)) / k`` has just this variance, is concave in ``eta``
and takes any score in [0, 1]; for 0/1 scores with ``k = 1`` it is the log likelihood of the
ordinary logistic model (Papke and Wooldridge 1996 for fractions; Wedderburn 1974 for the
principle). An item's curve is itself uncertain, which makes the noise of a score on it, over
``w = mu (1 - mu)``, ``kappa_i = k_i (s(x) + w f(x)' V_i f(x))`` with ``k_i V_i`` the covariance of
``c_i``.

*Beyond the abilities that a bank knows.* An ability is the logit of a mean score. This holds within
the bank's range, but not where curves are extended by their last slopes: an item that is flat among
weak models would stay flat among strong ones, and the mean of the curves would fall behind the
ability. Past an edge ``e`` of the range, items therefore keep a share of their slope there, and all
get the same shift,

    eta_i(x) = eta_i(e) + OWN_SLOPE eta_i'(e) (x - e) + shift(x),

such that the logit of the mean expected score grows exactly as the ability does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from math import erfc, exp, log, sqrt
from typing import NamedTuple

import numpy as np
from scipy.special import expit, log_expit, logit

from ...metrics.scale import Floats
from ..belief import Indices
from ..curves import AbilityBasis

SMALLEST_WEIGHT = 2.5e-3  # lower bound of mu (1 - mu), because no item is free of noise
_MANY = 300  # values from which the hyperbolic tangent is faster than `expit`
_BANDWIDTH = 0.4  # of the noise of models at an ability, in standard deviations of ability
#: Share of models of another league in the prior of abilities, and how much wider than that of the
#: others their part of it is.
FAR_SHARE, FAR_WIDTH = 0.4, 4.0
_GRID = 41  # abilities of a `Profile`
_PRIOR_MODELS = 0.5  # models of usual noise that are added to those nearby
#: Share of its slope at the edge that an item keeps beyond it.
OWN_SLOPE = 0.4
#: Logits beyond the edge up to which shifts are tabulated, and their distance; then linear.
FARTHEST, STEP = 8.0, 0.2
_MOST_ITEMS = 4000  # for the mean; of more, an even part
_STEPS, _TOLERANCE, _LONGEST = 60, 1e-9, 1.0
SQRT_2 = sqrt(2.0)


def to_logistic(eta: Floats) -> None:
    """Make ``1 / (1 + e^-eta)`` of `eta` in place."""
    if len(eta) < _MANY:
        expit(eta, out=eta)
        return
    eta *= 0.5
    np.tanh(eta, out=eta)
    eta += 1.0
    eta *= 0.5


def weight(mu: Floats, out: Floats | None = None) -> Floats:
    """Return ``mu (1 - mu)``, at least `SMALLEST_WEIGHT`, in `out`: the logistic curve's slope."""
    out = np.subtract(1.0, mu, out=out)
    out *= mu
    return np.maximum(out, SMALLEST_WEIGHT, out=out)


class PackedEntries(NamedTuple):
    """The stored entries of a symmetric matrix, and how often each stands in the whole one.

    Arrays of shape (n (n + 1) / 2,).
    """

    row: Indices
    column: Indices
    times: Floats


@cache
def packed(n: int) -> PackedEntries:
    """Return the entries of a symmetric matrix of size `n` that are stored: its upper triangle."""
    row, column = np.triu_indices(n)
    return PackedEntries(row, column, np.where(row == column, 1.0, 2.0))


class CurvesAt(NamedTuple):
    """The curves of some items at one ability; arrays of shape (n,).

    Attributes
    ----------
    mu, w, kappa : ndarray
        As in the module's docstring.
    along : ndarray
        Slope of the linear predictor in the ability.
    """

    mu: Floats
    w: Floats
    kappa: Floats
    along: Floats


class Profile(NamedTuple):
    """Abilities on a grid, and the likelihood of scores of models of each ability.

    Attributes
    ----------
    x, mean, prior : ndarray of shape (n_grid,)
        Abilities, mean expected scores over all items, and log prior density up to a constant.
    log_likelihood : ndarray of shape (n_items, 3, n_grid)
        Three parts: log likelihood of a score of 1, of a score of 0, and a factor on the entropy of
        a score y between 0 and 1. y times the first, 1 - y times the second and the entropy times
        the third make the log likelihood of y (`of`).
    """

    x: Floats
    mean: Floats
    prior: Floats
    log_likelihood: Floats

    def of(self, item: int, y: float) -> Floats:
        """Return the log likelihood of a score `y` on an item, at each ability.

        It is that of a double exponential family (B. Efron, Journal of the American Statistical
        Association 81, 1986): minus half the deviance (which is 0 where `y` is expected) over the
        noise ``kappa``, and minus half the log of the noise.
        """
        entropy = -y * log(y) - (1.0 - y) * log(1.0 - y) if 0.0 < y < 1.0 else 0.0
        return np.asarray(np.array([y, 1.0 - y, entropy]).dot(self.log_likelihood[item]))


class Beyond:
    """The curves of all items for a model better than the bank's best, or weaker than its weakest.

    Past that edge every item goes on with `OWN_SLOPE` times its slope there, and all items have one
    shift, by which the logit of their mean expected score grows as the ability does.

    Parameters
    ----------
    coefficients : ndarray of shape (n_items, p)
    basis : AbilityBasis
    edge : float
        Ability of the best, or the weakest, model of the bank.
    sign : float
        1 above the edge, -1 below.
    """

    def __init__(self, coefficients: Floats, basis: AbilityBasis, edge: float, sign: float) -> None:
        self.edge, self._sign = edge, sign
        value, slope = map(np.array, basis.value_and_slope(edge))
        self._value, self._slope = value, OWN_SLOPE * slope
        sample = coefficients[:: -(-len(coefficients) // _MOST_ITEMS)]
        # Linear predictors at the edge, and their change per logit away from it.
        eta, along = sample @ value, sign * (sample @ self._slope)
        start, shifts = float(logit(expit(eta).mean())), [0.0]
        for distance in np.arange(1, round(FARTHEST / STEP) + 1) * STEP:
            shift, target = shifts[-1], float(expit(start + sign * distance))
            # Newton's steps towards the shift at which the mean is that; cut where curves are flat.
            for _ in range(_STEPS):
                mu = expit(eta + distance * along + shift)
                step = (target - float(mu.mean())) / max(float((mu * (1.0 - mu)).mean()), 1e-9)
                shift += min(max(step, -_LONGEST), _LONGEST)
                if abs(step) < _TOLERANCE:
                    break
            shifts.append(shift)
        self._shifts = shifts

    def at(self, x: float) -> tuple[list[float], list[float], float, float]:
        """Return the linear predictor at an ability beyond the edge, in four parts.

        Values and slopes of the basis, by which an item's coefficients are multiplied, then the
        shift of all items, and its slope.
        """
        # Between shifts that are tabulated, and beyond the last, the shift is linear.
        steps = abs(x - self.edge) / STEP
        k = min(int(steps), len(self._shifts) - 2)
        tilt = self._shifts[k + 1] - self._shifts[k]
        value = self._value + (x - self.edge) * self._slope
        shift = self._shifts[k] + tilt * (steps - k)
        return value.tolist(), self._slope.tolist(), shift, self._sign * tilt / STEP


@dataclass(frozen=True)
class FractionalItems:
    """Calibrated items, and the distribution of models.

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
        Prior standard deviation of the ability, whose prior mean is 0 (logits).
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

    def prior_precision_at(self, x: float) -> float:
        """Return the precision of the normal prior that is as steep at ability `x` as the true one.

        The true prior is a mixture of two normals of mean 0, one of models like the bank's and a
        wide one (`FAR_SHARE`). With its log density ``U``, the precision is ``-U'(x) / x``: the
        mean of those of the two, weighed by how likely `x` is to be of each.
        """
        narrow, wide = self.prior_sd, FAR_WIDTH * self.prior_sd
        # Log densities, up to a constant; `exp` of more than 700 overflows.
        a = log((1.0 - FAR_SHARE) / narrow) - 0.5 * (x / narrow) ** 2
        b = log(FAR_SHARE / wide) - 0.5 * (x / wide) ** 2
        share = 1.0 / (1.0 + exp(min(b - a, 700.0)))
        return share / narrow**2 + (1.0 - share) / wide**2

    @cached_property
    def rows(self) -> Floats:
        """Parameters by item, contiguous by row; shape (p + q + p (p + 1) / 2, n_items).

        Coefficients, loadings, and covariances times their multiplicity. Curves and their
        variances are linear in these.
        """
        times = packed(self.basis.size).times
        parts = [self.coefficients.T, self.loadings.T, (self.covariance * times).T]
        return np.ascontiguousarray(np.vstack(parts))

    def curves(
        self, z: Sequence[float], rows: Floats, noise: Floats, out: Floats | None = None
    ) -> CurvesAt:
        """Return the curves of some items at `z`, by the equations of the module's docstring.

        Parameters
        ----------
        z : sequence of float, of length 1 + q
            Ability and residual factors.
        rows : ndarray of shape (p + q + p (p + 1) / 2, n)
            Columns of `rows` of these items.
        noise : ndarray of shape (n,)
            ``k_i`` of these items.
        out : ndarray of shape (4, n), optional
            Where to write them.
        """
        value, slope, shift, tilt = self.at(z[0])
        p, last = len(value), len(value) + len(z) - 1
        curves = CurvesAt(*(np.empty((4, len(noise))) if out is None else out))
        mu, w, kappa, along = curves
        np.array([*value, *z[1:]]).dot(rows[:last], mu)
        if shift:
            mu += shift
        to_logistic(mu)
        weight(mu, w)
        squares = np.array([a * b for i, a in enumerate(value) for b in value[i:]])
        squares.dot(rows[last:], kappa)
        kappa *= w
        kappa += self.model_noise(z[0])
        kappa *= noise
        np.array(slope).dot(rows[:p], along)
        if tilt:
            along += tilt
        return curves

    def at(self, x: float) -> tuple[list[float], list[float], float, float]:
        """Return values and slopes of the basis at an ability, the curves' shift, and its slope.

        The shift is 0 within the range of the calibration models' abilities.
        """
        low, high = self._beyond
        if x > high.edge:
            return high.at(x)
        if x < low.edge:
            return low.at(x)
        return (*self.basis.value_and_slope(x), 0.0, 0.0)

    @cached_property
    def edges(self) -> tuple[float, float]:
        """Abilities of the weakest and the best calibration model."""
        return float(self.abilities.min()), float(self.abilities.max())

    def position(self, x: float) -> float:
        """Return -1 at the weakest model, 1 at the best; beyond, by standard deviations."""
        low, high = self.edges
        if x > high:
            return 1.0 + (x - high) / self.spread
        if x < low:
            return -1.0 - (low - x) / self.spread
        return 2.0 * (x - low) / max(high - low, 1e-12) - 1.0

    def outside(self, x: float, sd: float) -> float:
        """Return the chance that a normal ability of mean `x` and error `sd` is beyond `edges`."""
        low, high = self.edges
        # `scipy.special.ndtr` takes much longer for a single number.
        return 0.5 * (erfc((high - x) / (sd * SQRT_2)) + erfc((x - low) / (sd * SQRT_2)))

    @cached_property
    def _beyond(self) -> tuple[Beyond, Beyond]:
        """The curves below the weakest and above the best calibration model."""
        c, basis, (low, high) = self.coefficients, self.basis, self.edges
        return Beyond(c, basis, low, -1.0), Beyond(c, basis, high, 1.0)

    @cached_property
    def profile(self) -> Profile:
        """Likelihood of scores over the whole range of abilities, with factors averaged out."""
        low, high = self.edges
        x = np.linspace(low - self.spread, high + self.spread, _GRID)
        q = self.n_dimensions - 1
        # Averaging a logistic curve over a normal factor of variance v flattens it by about this.
        shrink = 1.0 / np.sqrt(1.0 + np.pi / 8.0 * (self.loadings**2).sum(axis=1))
        mean, log_likelihood = np.empty(_GRID), np.empty((self.n_items, 3, _GRID))
        for point, ability in enumerate(x.tolist()):
            mu, _, kappa, _ = self.curves([ability] + [0.0] * q, self.rows, self.noise)
            eta = shrink * logit(np.clip(mu, 1e-9, 1.0 - 1e-9))
            mean[point] = expit(eta).mean()
            spread = 0.5 * np.log(kappa)
            right, wrong = (log_expit(e) / kappa - spread for e in (eta, -eta))
            log_likelihood[:, :, point] = np.column_stack([right, wrong, 1.0 / kappa])
        narrow, wide = self.prior_sd, FAR_WIDTH * self.prior_sd
        prior = (1.0 - FAR_SHARE) / narrow * np.exp(-0.5 * (x / narrow) ** 2)
        prior += FAR_SHARE / wide * np.exp(-0.5 * (x / wide) ** 2)
        return Profile(x, mean, np.log(prior), log_likelihood)

    def model_noise(self, x: float) -> float:
        """Return ``s(x)``: exp of the mean log noise of models near `x`, by a normal kernel.

        `_PRIOR_MODELS` of usual noise, whose log is 0, count among them.
        """
        away, unit, noise = self._in_bandwidths
        away = away - x / unit
        away *= away
        away *= -0.5
        total, weighted = noise.dot(np.exp(away, out=away)).tolist()
        return exp(weighted / (total + _PRIOR_MODELS))

    @cached_property
    def _in_bandwidths(self) -> tuple[Floats, float, Floats]:
        """Abilities of the calibration models in bandwidths, the bandwidth, rows of 1 and log s."""
        unit = _BANDWIDTH * self.spread
        return self.abilities / unit, unit, np.array([np.ones_like(self.log_noise), self.log_noise])

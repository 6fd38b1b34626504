"""The item curves of a bank of any method, and abilities fitted to full results on them.

Checks and updates of a bank need less than an adaptive test: one expected score ``mu`` per ability
and item, and one noise per item, which is the variance of a score over ``mu (1 - mu)``. Methods
derive both from their parameters, so that checks and updates are written once, for curves.

The logit of an expected score, the *linear predictor*, combines functions of ability: a line and
natural splines. A natural cubic spline is a line
beyond its outermost knots, so a model better than every calibration model is judged by the slope
that items have among the best ones, not by a polynomial that runs away. The splines are orthogonal
to the line over the calibration models, so that shrinking them to 0 leaves the ordinary
two-parameter curve; they are called *bends*.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from operator import mul
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit

from ..metrics.scale import Floats

PRIOR_PRECISION = 1.0 / 25.0  # the paper's; keeps an ability finite if all scores are 0 or 1
_STEPS, _LONGEST_STEP = 60, 2.0  # of Newton's method, in logits
_LEAST_INFORMATION = 1e-9
#: Drawn scores have means and noises this far from 0 and 1, as beta distributions need.
_CLOSE = 1e-6
CLOSEST_KNOTS = 0.15  # in standard deviations of ability; a bend needs room


class BasisAt(NamedTuple):
    """Values and derivatives of the functions of an `AbilityBasis` at one ability."""

    value: list[float]
    slope: list[float]


class _BasisNumbers(NamedTuple):
    """The arrays of an `AbilityBasis` as plain numbers: its knots, its line, and its `turn`."""

    first_knots: list[float]  # all but the last two
    knot_before_last: float
    last_knot: float
    intercepts: list[float]
    slopes: list[float]
    columns_of_turn: list[list[float]]


@dataclass(frozen=True)
class AbilityBasis:
    """``f(x) = (1, x, b_1(x), ..., b_B(x))``.

    Attributes
    ----------
    knots : ndarray of shape (B + 2,) or (0,)
        Knots of the natural spline, ascending, in logits.
    line : ndarray of shape (2, B)
        Intercept and slope of the line that is subtracted from each raw spline.
    turn : ndarray of shape (B, B)
        The matrix that turns these splines into the bends ``b_1, ..., b_B``: orthogonal, and scaled
        to the spread of the abilities.
    """

    knots: Floats
    line: Floats
    turn: Floats

    @classmethod
    def over(cls, abilities: Floats, bends: int) -> AbilityBasis:
        """Build the basis for calibration models.

        Parameters
        ----------
        abilities : ndarray of shape (n_models,)
            In logits.
        bends : int
            ``B``, the number of bends.
        """
        if bends < 1:
            return STRAIGHT
        spread = float(abilities.std(ddof=1))
        knots = np.quantile(abilities, np.linspace(0.02, 0.98, bends + 2))
        for i in range(1, len(knots)):
            # Models of equal ability would put two knots in one place, where a spline divides by 0.
            knots[i] = max(knots[i], knots[i - 1] + CLOSEST_KNOTS * spread)
        raw = _splines(abilities, knots)
        straight = np.column_stack([np.ones(len(abilities)), abilities])
        # What is left of the splines after least squares on the line adds only bend.
        line = np.asarray(np.linalg.lstsq(straight, raw, rcond=None)[0], dtype=np.float64)
        _, size, turn = np.linalg.svd(raw - straight @ line, full_matrices=False)
        # Drop a direction that the abilities do not determine: its factor would be huge.
        usable = size > max(1e-300, 1e-6 * float(np.linalg.norm(raw)))
        # Over the models, each bend gets the standard deviation of the abilities.
        scale = np.where(usable, np.sqrt(len(abilities)) * spread / np.where(usable, size, 1.0), 0)
        return cls(knots, line, turn.T * scale)

    @property
    def size(self) -> int:
        """Number of functions."""
        return 2 + int(self.line.shape[1])

    def at(self, x: ArrayLike) -> Floats:
        """Return the functions' values at abilities of shape (n,); shape (n, size)."""
        x = np.atleast_1d(np.asarray(x, dtype=np.float64))
        straight = np.column_stack([np.ones(len(x)), x])
        if not len(self.knots):
            return straight
        bends = (_splines(x, self.knots) - straight @ self.line) @ self.turn
        return np.column_stack([straight, bends])

    def value_and_slope(self, x: float) -> BasisAt:
        """Return values and derivatives at one ability, by plain numbers: `at` is slow for one.

        Examples
        --------
        >>> STRAIGHT.value_and_slope(2.0)
        BasisAt(value=[1.0, 2.0], slope=[0.0, 1.0])
        """
        if not len(self.knots):
            return BasisAt([1.0, x], [0.0, 1.0])
        # What `_splines` and `at` do for arrays.
        numbers, last = self._numbers, self._numbers.last_knot
        over_last = max(x - last, 0.0)
        over_before_last = max(x - numbers.knot_before_last, 0.0)
        end = (over_before_last**3 - over_last**3) / (last - numbers.knot_before_last)
        end_slope = 3.0 * (over_before_last**2 - over_last**2) / (last - numbers.knot_before_last)
        value, slope = [], []
        for knot, a, b in zip(numbers.first_knots, numbers.intercepts, numbers.slopes):
            over = max(x - knot, 0.0)
            value.append((over**3 - over_last**3) / (last - knot) - end - (a + x * b))
            slope.append(3.0 * (over**2 - over_last**2) / (last - knot) - end_slope - b)
        bend = [sum(map(mul, value, column)) for column in numbers.columns_of_turn]
        bend_slope = [sum(map(mul, slope, column)) for column in numbers.columns_of_turn]
        return BasisAt([1.0, x, *bend], [0.0, 1.0, *bend_slope])

    @cached_property
    def _numbers(self) -> _BasisNumbers:
        *first, before_last, last = self.knots.tolist()
        intercepts, slopes = self.line.tolist()
        return _BasisNumbers(first, before_last, last, intercepts, slopes, self.turn.T.tolist())

    def to_dict(self) -> dict[str, object]:
        """JSON values."""
        return {part: getattr(self, part).tolist() for part in ("knots", "line", "turn")}

    @classmethod
    def from_dict(cls, content: Mapping[str, object]) -> AbilityBasis:
        """Rebuild from `to_dict`.

        Raises
        ------
        ValueError
            The parts do not fit one another.
        """
        knots = np.array(content["knots"], dtype=np.float64)
        bends = max(len(knots) - 2, 0)
        line = np.array(content["line"], dtype=np.float64).reshape(2, bends)
        turn = np.array(content["turn"], dtype=np.float64).reshape(bends, bends)
        if len(knots) in (1, 2) or not (np.diff(knots) > 0.0).all():
            raise ValueError("the knots of the basis are not ascending")
        return cls(knots, line, turn)


#: ``f(x) = (1, x)``.
STRAIGHT = AbilityBasis(np.empty(0), np.empty((2, 0)), np.empty((0, 0)))


def _splines(x: Floats, knots: Floats) -> Floats:
    """Return the bent functions of a natural cubic spline at `x`; shape (n, n_knots - 2).

    They are differences of truncated powers ``max(x - knot, 0)^3``, cubic between knots, and lines
    beyond the outermost ones.
    """
    cubes = np.maximum(x[:, None] - knots[None, :], 0.0) ** 3
    divided = (cubes[:, :-1] - cubes[:, -1:]) / (knots[-1] - knots[:-1])
    return np.asarray(divided[:, :-1] - divided[:, -1:])


@dataclass(frozen=True)
class Curves:
    """Expected score ``logistic(c_i . f(theta))``, variance ``noise_i mu (1 - mu)``.

    Attributes
    ----------
    coefficients : ndarray of shape (n_items, p)
        ``c_i``: intercept, slope and any further coefficients of the method.
    noise : ndarray of shape (n_items,)
        ``noise_i``, above 0.
    basis : AbilityBasis
        ``f``, of size p.
    centre : float
        Ability at which a fit starts (logits, on the scale of ``f``).
    origin : float
        Added to an ability on that scale when an adaptive test states it.
    loadings : ndarray of shape (n_items, q), optional
        Of residual factors, q standard normal variables of a model by which its linear predictors
        leave the curves: those of the items grow by ``loadings @ factors``.
    model_noise : callable
        ``ability -> factor`` on the noise of models of that ability.
    """

    coefficients: Floats
    noise: Floats
    basis: AbilityBasis
    centre: float
    origin: float = 0.0
    loadings: Floats | None = None
    model_noise: Callable[[float], float] = lambda ability: 1.0

    @property
    def intercept(self) -> Floats:
        """Linear predictor of each item at ability 0, in logits."""
        return np.asarray(self.coefficients[:, 0])

    def with_intercept(self, intercept: Floats) -> Curves:
        """Return the same curves with other intercepts."""
        return replace(self, coefficients=np.column_stack([intercept, self.coefficients[:, 1:]]))

    def predictor(self, theta: Floats) -> Floats:
        """Return linear predictors; shape (n_models, n_items)."""
        return np.asarray(self.basis.at(theta) @ self.coefficients.T)

    def slope(self, theta: Floats) -> Floats:
        """Return the derivative of `predictor` in the ability; shape (n_models, n_items)."""
        rows = [self.basis.value_and_slope(float(ability)).slope for ability in theta]
        return np.asarray(np.array(rows).reshape(len(theta), -1) @ self.coefficients.T)

    def expected(self, theta: Floats) -> Floats:
        """Return expected scores; shape (n_models, n_items)."""
        return np.asarray(expit(self.predictor(theta)))

    def drawn(self, ability: float, rng: np.random.Generator) -> Floats:
        """Draw the scores of a new model of some ability, beta distributed; shape (n_items,).

        Examples
        --------
        >>> curves = Curves(np.tile([-1.0, 1.0], (9999, 1)), np.full(9999, 0.5), STRAIGHT, 0.0)
        >>> scores = curves.drawn(0.0, np.random.default_rng(0))
        >>> mu = float(expit(-1.0))
        >>> round(float(scores.mean()) - mu, 2), round(float(scores.var()) / mu / (1 - mu), 2)
        (0.0, 0.5)
        """
        [eta] = self.predictor(np.array([ability]))
        if self.loadings is not None:
            eta = eta + self.loadings @ rng.normal(size=self.loadings.shape[1])
        mu = np.clip(expit(eta), _CLOSE, 1.0 - _CLOSE)
        noise = np.clip(self.noise * self.model_noise(ability), _CLOSE, 1.0 - _CLOSE)
        # Beta(mu s, (1 - mu) s) has the mean mu and the variance mu (1 - mu) / (s + 1).
        s = 1.0 / noise - 1.0
        # Beta draws come as close as 1e-263 to 0, and no metric gives such a score.
        return np.asarray(np.round(rng.beta(mu * s, (1.0 - mu) * s), 6))


def fit_abilities(curves: Curves, scores: Floats, precision: float = PRIOR_PRECISION) -> Floats:
    """Fit abilities to full results on known curves, by quasi-likelihood.

    For each model, solve ``sum_i slope_i (y_i - mu_i) / noise_i = precision (theta - centre)`` over
    items i by damped Newton steps.

    Parameters
    ----------
    curves : Curves
    scores : ndarray of shape (n_models, n_items)
        On [0, 1], NaN where missing.
    precision : float, optional
        Precision of the prior around ``curves.centre``, in 1 / logit^2.

    Returns
    -------
    ndarray of shape (n_models,)
        In logits.
    """
    present = np.isfinite(scores)
    y = np.where(present, scores, 0.0)
    theta = np.full(len(scores), curves.centre)
    for _ in range(_STEPS):
        mu = np.where(present, curves.expected(theta), 0.0)
        slope, noise = curves.slope(theta), curves.noise
        gradient = ((y - mu) * slope / noise).sum(axis=1) - precision * (theta - curves.centre)
        curvature = (mu * (1.0 - mu) * slope**2 / noise).sum(axis=1) + precision
        # Far from the answer a Newton step overshoots: the logistic curve is flat there.
        step = np.clip(gradient / curvature, -_LONGEST_STEP, _LONGEST_STEP)
        theta = theta + step
        if np.abs(step).max(initial=0.0) < 1e-9:
            break
    return theta


class FittedIntercepts(NamedTuple):
    """Intercepts fitted to scores, in logits, and the information of these scores alone.

    Arrays of shape (n_items,). Information is one over the variance that an intercept would have
    without the prior.
    """

    intercept: Floats
    information: Floats


def fit_intercepts(
    curves: Curves, theta: Floats, scores: Floats, precision: float = PRIOR_PRECISION
) -> FittedIntercepts:
    """Fit intercepts to scores of models of known ability; slopes and bends stay as they are.

    For each item, solve ``sum_j (y_j - mu_j) / noise = precision (intercept - present intercept)``
    over models j, as `fit_abilities` does.

    Parameters
    ----------
    curves : Curves
    theta : ndarray of shape (n_models,)
        Abilities, in logits.
    scores : ndarray of shape (n_models, n_items)
        On [0, 1], NaN where missing.
    precision : float, optional
        Precision of the prior around the present intercept, in 1 / logit^2.
    """
    present = np.isfinite(scores)
    y = np.where(present, scores, 0.0)
    start = curves.intercept
    fixed_part = curves.predictor(theta) - start
    intercept = start.copy()
    information = np.zeros_like(intercept)
    for _ in range(_STEPS):
        mu = np.where(present, expit(intercept + fixed_part), 0.0)
        gradient = (y - mu).sum(axis=0) / curves.noise - precision * (intercept - start)
        information = (mu * (1.0 - mu)).sum(axis=0) / curves.noise
        step = np.clip(gradient / (information + precision), -_LONGEST_STEP, _LONGEST_STEP)
        intercept = intercept + step
        if np.abs(step).max(initial=0.0) < 1e-9:
            break
    # Above 0, so that the error of an intercept without scores is large and finite.
    return FittedIntercepts(intercept, np.maximum(information, _LEAST_INFORMATION))

"""The item curves of a bank, whatever its method, and abilities fitted to full results on them.

Looking after a bank (is it still true? what do new models add?) needs less than an adaptive test:
one expected score per ability and item, and one noise per item.  Every method's parameters give
that, so checks and updates are written once, on curves.

Curves are made of functions of ability: a line, and natural splines beside it. A natural cubic
spline is a line beyond its outermost knots, so that a model better than every calibration model is
judged by the slope items have among the best ones, not by a polynomial that runs away. The splines
are made orthogonal to the line over the calibration models: what they add is bend, and shrinking
them to nothing leaves the ordinary two-parameter curve.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from operator import mul
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit

from .belief import Floats

PRIOR_PRECISION = 1.0 / 25.0  # holds a model with all scores 0 or 1 at a finite ability
_STEPS = 60
_LONGEST_STEP = 2.0
_LEAST_WEIGHT = 1e-9
CLOSEST_KNOTS = 0.15  # in standard deviations of ability; a bend needs room


@dataclass(frozen=True)
class AbilityBasis:
    """``f(x) = (1, x, b_1(x), ..., b_B(x))``.

    Attributes
    ----------
    knots : ndarray of shape (B + 2,) or (0,)
        Of the natural spline, ascending, in logits.
    line : ndarray of shape (2, B)
        What is taken from the raw splines as intercept and slope.
    turn : ndarray of shape (B, B)
        Makes the bends orthogonal and of the size of the abilities' spread.
    """

    knots: Floats
    line: Floats
    turn: Floats

    @classmethod
    def over(cls, abilities: Floats, bends: int) -> AbilityBasis:
        """The basis for calibration models of these abilities (shape (n_models,), logits)."""
        if bends < 1:
            return STRAIGHT
        spread = float(abilities.std(ddof=1))
        knots = np.quantile(abilities, np.linspace(0.02, 0.98, bends + 2))
        for i in range(1, len(knots)):
            knots[i] = max(knots[i], knots[i - 1] + CLOSEST_KNOTS * spread)
        raw = _splines(abilities, knots)
        straight = np.column_stack([np.ones(len(abilities)), abilities])
        line = np.asarray(np.linalg.lstsq(straight, raw, rcond=None)[0], dtype=np.float64)
        _, size, turn = np.linalg.svd(raw - straight @ line, full_matrices=False)
        # A direction that the abilities cannot show is given no room rather than a huge factor.
        usable = size > max(1e-300, 1e-6 * float(np.linalg.norm(raw)))
        scale = np.where(usable, np.sqrt(len(abilities)) * spread / np.where(usable, size, 1.0), 0)
        return cls(knots, line, turn.T * scale)

    @property
    def size(self) -> int:
        """Number of functions."""
        return 2 + int(self.line.shape[1])

    def at(self, x: ArrayLike) -> Floats:
        """Values at abilities of shape (n,); shape (n, size)."""
        x = np.atleast_1d(np.asarray(x, dtype=np.float64))
        straight = np.column_stack([np.ones(len(x)), x])
        if not len(self.knots):
            return straight
        bends = (_splines(x, self.knots) - straight @ self.line) @ self.turn
        return np.column_stack([straight, bends])

    def value_and_slope(self, x: float) -> tuple[list[float], list[float]]:
        """Values and derivatives at one ability, as plain numbers: tests need them at every step.

        Examples
        --------
        >>> STRAIGHT.value_and_slope(2.0)
        ([1.0, 2.0], [0.0, 1.0])
        """
        if not len(self.knots):
            return [1.0, x], [0.0, 1.0]
        first, last, but_one, start, tilt, turn = self._scalars
        over_last = max(x - last, 0.0)
        over_but_one = max(x - but_one, 0.0)
        end = (over_but_one**3 - over_last**3) / (last - but_one)
        end_slope = 3.0 * (over_but_one**2 - over_last**2) / (last - but_one)
        value, slope = [], []
        for knot, a, b in zip(first, start, tilt):
            over = max(x - knot, 0.0)
            value.append((over**3 - over_last**3) / (last - knot) - end - (a + x * b))
            slope.append(3.0 * (over**2 - over_last**2) / (last - knot) - end_slope - b)
        bend = [sum(map(mul, value, column)) for column in turn]
        bend_slope = [sum(map(mul, slope, column)) for column in turn]
        return [1.0, x, *bend], [0.0, 1.0, *bend_slope]

    @cached_property
    def _scalars(self) -> tuple[list[float], float, float, list[float], list[float], Any]:
        """Knots but the last two, the last, the one before it, the line, columns of the turn."""
        *first, but_one, last = self.knots.tolist()
        return first, last, but_one, *self.line.tolist(), self.turn.T.tolist()

    def to_dict(self) -> dict[str, object]:
        """JSON values."""
        return {part: getattr(self, part).tolist() for part in ("knots", "line", "turn")}

    @classmethod
    def from_dict(cls, d: Mapping[str, object]) -> AbilityBasis:
        """The inverse of `to_dict`.

        Raises
        ------
        ValueError
            The parts do not fit one another.
        """
        knots = np.array(d["knots"], dtype=np.float64)
        bends = max(len(knots) - 2, 0)
        line = np.array(d["line"], dtype=np.float64).reshape(2, bends)
        turn = np.array(d["turn"], dtype=np.float64).reshape(bends, bends)
        if len(knots) in (1, 2) or not (np.diff(knots) > 0.0).all():
            raise ValueError("the knots of the basis are not ascending")
        return cls(knots, line, turn)


#: ``f(x) = (1, x)``.
STRAIGHT = AbilityBasis(np.empty(0), np.empty((2, 0)), np.empty((0, 0)))


def _splines(x: Floats, knots: Floats) -> Floats:
    """Natural cubic splines beyond the line (truncated powers); shape (n, n_knots - 2)."""
    cubes = np.maximum(x[:, None] - knots[None, :], 0.0) ** 3
    d = (cubes[:, :-1] - cubes[:, -1:]) / (knots[-1] - knots[:-1])
    return np.asarray(d[:, :-1] - d[:, -1:])


@dataclass(frozen=True)
class Curves:
    """Expected score ``logistic(c_i . f(theta))``, variance ``noise_i mu (1 - mu)``.

    Attributes
    ----------
    coefficients : ndarray of shape (n_items, p)
        Intercept, slope and what the method has beside them.
    noise : ndarray of shape (n_items,)
    basis : AbilityBasis
        ``f``, of size p.
    centre : float
        Ability at which a fit starts (logits, on the scale of ``f``).
    origin : float
        What an adaptive test adds to an ability on that scale when it states one.
    """

    coefficients: Floats
    noise: Floats
    basis: AbilityBasis
    centre: float
    origin: float = 0.0

    @property
    def intercept(self) -> Floats:
        """Linear predictor of each item at ability 0, in logits."""
        return np.asarray(self.coefficients[:, 0])

    def with_intercept(self, intercept: Floats) -> Curves:
        """The same curves, shifted."""
        return replace(self, coefficients=np.column_stack([intercept, self.coefficients[:, 1:]]))

    def predictor(self, theta: Floats) -> Floats:
        """Linear predictors; shape (n_models, n_items)."""
        return np.asarray(self.basis.at(theta) @ self.coefficients.T)

    def slope(self, theta: Floats) -> Floats:
        """Derivative of `predictor` in the ability; shape (n_models, n_items)."""
        rows = [self.basis.value_and_slope(float(t))[1] for t in theta]
        return np.asarray(np.array(rows).reshape(len(theta), -1) @ self.coefficients.T)

    def expected(self, theta: Floats) -> Floats:
        """Expected scores; shape (n_models, n_items)."""
        return np.asarray(expit(self.predictor(theta)))


def fit_abilities(c: Curves, scores: Floats, precision: float = PRIOR_PRECISION) -> Floats:
    """Abilities that full results give on known curves, by quasi-likelihood.

    Solves ``sum_i slope_i (y_i - mu_i) / noise_i = precision (theta - centre)`` by damped Newton
    steps, all models at once.

    Parameters
    ----------
    c : Curves
    scores : ndarray of shape (n_models, n_items)
        On [0, 1], NaN where missing.
    precision : float, optional
        Of the prior around ``c.centre``, in 1 / logit^2.

    Returns
    -------
    ndarray of shape (n_models,)
        In logits.
    """
    seen = np.isfinite(scores)
    y = np.where(seen, scores, 0.0)
    theta = np.full(len(scores), c.centre)
    for _ in range(_STEPS):
        mu = np.where(seen, c.expected(theta), 0.0)
        slope = c.slope(theta)
        gradient = ((y - mu) * slope / c.noise).sum(axis=1) - precision * (theta - c.centre)
        curvature = (mu * (1.0 - mu) * slope**2 / c.noise).sum(axis=1) + precision
        step = np.clip(gradient / curvature, -_LONGEST_STEP, _LONGEST_STEP)
        theta = theta + step
        if np.abs(step).max(initial=0.0) < 1e-9:
            break
    return theta


def fit_intercepts(
    c: Curves, theta: Floats, scores: Floats, precision: float = PRIOR_PRECISION
) -> tuple[Floats, Floats]:
    """Intercepts that scores of models of known ability give, the rest of each curve as it is.

    Parameters
    ----------
    c : Curves
    theta : ndarray of shape (n_models,)
    scores : ndarray of shape (n_models, n_items)
        On [0, 1], NaN where missing.
    precision : float, optional
        Of the prior around the present intercept.

    Returns
    -------
    intercept, information : ndarray of shape (n_items,)
        Information is that of the scores alone, in 1 / logit^2.
    """
    seen = np.isfinite(scores)
    y = np.where(seen, scores, 0.0)
    start = c.intercept
    rest = c.predictor(theta) - start
    intercept = start.copy()
    information = np.zeros_like(intercept)
    for _ in range(_STEPS):
        mu = np.where(seen, expit(intercept + rest), 0.0)
        gradient = (y - mu).sum(axis=0) / c.noise - precision * (intercept - start)
        information = (mu * (1.0 - mu)).sum(axis=0) / c.noise
        step = np.clip(gradient / (information + precision), -_LONGEST_STEP, _LONGEST_STEP)
        intercept = intercept + step
        if np.abs(step).max(initial=0.0) < 1e-9:
            break
    return intercept, np.maximum(information, _LEAST_WEIGHT)

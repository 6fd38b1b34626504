"""The item curves of a bank, whatever its method, and abilities fitted to full results on them.

Looking after a bank (is it still true? what do new models add?) needs less than an adaptive test:
one expected score per ability and item, and one noise per item.  Every method's parameters give
that, so checks and updates are written once, on curves.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

Floats = NDArray[np.float64]

PRIOR_PRECISION = 1.0 / 25.0  # holds a model with all scores 0 or 1 at a finite ability
_STEPS = 60
_LONGEST_STEP = 2.0
_LEAST_WEIGHT = 1e-9


class Basis(Protocol):
    """Functions ``f`` of ability that an item's curve is a combination of."""

    def at(self, ability: Floats) -> Floats:
        """``f`` of each ability; shape (n, p)."""

    def value_and_slope(self, ability: float) -> tuple[Floats, Floats]:
        """``f`` and its derivative at one ability; shapes (p,)."""


class Straight:
    """``f(theta) = (1, theta)``.

    Examples
    --------
    >>> Straight().at(np.array([2.0])).tolist()
    [[1.0, 2.0]]
    """

    def at(self, ability: Floats) -> Floats:
        """``f`` of each ability; shape (n, 2)."""
        return np.column_stack([np.ones_like(ability), ability])

    def value_and_slope(self, ability: float) -> tuple[Floats, Floats]:
        """``f`` and its derivative at one ability; shapes (2,)."""
        return np.array([1.0, ability]), np.array([0.0, 1.0])


@dataclass(frozen=True)
class Curves:
    """Expected score ``logistic(c_i . f(theta))``, variance ``noise_i mu (1 - mu)``.

    Attributes
    ----------
    coefficients : ndarray of shape (n_items, p)
        Intercept, slope and what the method has beside them.
    noise : ndarray of shape (n_items,)
    basis : Basis
        ``f``, of size p.
    centre : float
        Ability at which a fit starts (logits, on the scale of ``f``).
    origin : float
        What an adaptive test adds to an ability on that scale when it states one.
    """

    coefficients: Floats
    noise: Floats
    basis: Basis
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

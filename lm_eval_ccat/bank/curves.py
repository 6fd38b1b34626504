"""The item curves of a bank, whatever its method, and abilities fitted to full results on them.

Looking after a bank (is it still true? what do new models add?) needs less than an adaptive test:
one expected score per ability and item, and one noise per item.  Every method's parameters give
that, so checks and updates are written once, on curves.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit

from .bank import ItemBank
from .paper import SQUEEZE

Floats = NDArray[np.float64]

PRIOR_PRECISION = 1.0 / 25.0  # holds a model with all scores 0 or 1 at a finite ability
_STEPS = 60
_LONGEST_STEP = 2.0


@dataclass(frozen=True)
class Curves:
    """Expected score ``logistic(intercept + slope x ability)``, variance ``noise mu (1 - mu)``.

    Attributes
    ----------
    intercept, slope, noise : ndarray of shape (n_items,)
        NaN where an item has no parameters.
    centre : float
        Ability at which the median item is solved half, where a fit starts (logits).
    """

    intercept: Floats
    slope: Floats
    noise: Floats
    centre: float

    def expected(self, theta: Floats) -> Floats:
        """Expected scores; shape (n_models, n_items) for abilities of shape (n_models,)."""
        return np.asarray(expit(self.intercept + np.multiply.outer(theta, self.slope)))


def curves(bank: ItemBank) -> Curves:
    """The item curves of a bank.

    Parameters
    ----------
    bank : ItemBank
        Of either method. Residual factors of the method "default" are left out: a curve is the
        expectation of a model about which only its ability is known.

    Returns
    -------
    Curves

    Examples
    --------
    >>> from lm_eval_ccat import ScoreTable, calibrate
    >>> bank = calibrate(ScoreTable.from_arrays(
    ...     [[0.1, 0.5, 0.9], [0.2, 0.4, 0.8], [0.0, 0.3, 1.0]], models=["a", "b", "c"]
    ... ), method="paper")
    >>> curves(bank).expected(np.array([0.0])).shape
    (1, 3)
    """
    n = bank.n_items
    if bank.method == "paper":
        intercept, slope = _unstretched(bank), np.ones(n)
        noise = np.full(n, float(bank.constants["k"]))
    else:
        intercept, slope = bank.parameters["intercept"], bank.parameters["slope"]
        noise = bank.parameters["noise"]
    usable = np.isfinite(intercept) & (slope > 0.0)
    centre = float(np.median(-intercept[usable] / slope[usable])) if usable.any() else 0.0
    return Curves(intercept, slope, noise, centre)


def _unstretched(bank: ItemBank) -> Floats:
    """Intercepts of the method "paper" for scores as they are.

    Its difficulties are of mean scores stretched over all of [0, 1], which puts the easiest and the
    hardest item at +-6.9 logits wherever they were.
    """
    difficulty = bank.parameters["difficulty"]
    try:
        low, high = (float(v) for v in bank.constants["mean_range"])
    except (KeyError, TypeError, ValueError):
        return np.asarray(-difficulty)
    share = (expit(-difficulty) - SQUEEZE) / (1.0 - 2.0 * SQUEEZE)
    return np.asarray(logit(np.clip(low + share * (high - low), SQUEEZE, 1.0 - SQUEEZE)))


def fit_abilities(c: Curves, scores: Floats, precision: float = PRIOR_PRECISION) -> tuple:
    """Abilities that full results give on known curves, by quasi-likelihood.

    Solves ``sum_i slope_i (y_i - mu_i) / noise_i = precision (theta - centre)`` by damped Newton
    steps, all models at once.

    Parameters
    ----------
    c : Curves
    scores : ndarray of shape (n_models, n_items)
        On [0, 1], NaN where missing; items without a curve are left out.
    precision : float, optional
        Of the prior around ``c.centre``, in 1 / logit^2.

    Returns
    -------
    theta, standard_error : ndarray of shape (n_models,)
        In logits.
    """
    seen = np.isfinite(scores) & np.isfinite(c.intercept)
    y = np.where(seen, scores, 0.0)
    weight = np.where(np.isfinite(c.intercept), c.slope / c.noise, 0.0)
    slope = np.where(np.isfinite(c.intercept), c.slope, 0.0)
    theta = np.full(len(scores), c.centre)
    curvature = np.full(len(scores), precision)
    for _ in range(_STEPS):
        mu = np.where(seen, c.expected(theta), 0.0)
        gradient = (y - mu) @ weight - precision * (theta - c.centre)
        curvature = (mu * (1.0 - mu)) @ (weight * slope) + precision
        step = np.clip(gradient / curvature, -_LONGEST_STEP, _LONGEST_STEP)
        theta = theta + step
        if np.abs(step).max(initial=0.0) < 1e-9:
            break
    return theta, curvature**-0.5


def fit_intercepts(
    c: Curves,
    theta: Floats,
    scores: Floats,
    prior: Floats | None = None,
    prior_precision: Floats | float = PRIOR_PRECISION,
) -> tuple[Floats, Floats]:
    """Intercepts that scores of models of known ability give, slopes as they are.

    Parameters
    ----------
    c : Curves
    theta : ndarray of shape (n_models,)
    scores : ndarray of shape (n_models, n_items)
        On [0, 1], NaN where missing.
    prior : ndarray of shape (n_items,), optional
        Where each intercept is expected; default the bank's.
    prior_precision : float or ndarray of shape (n_items,), optional

    Returns
    -------
    intercept, information : ndarray of shape (n_items,)
        Information is that of the scores alone, in 1 / logit^2.
    """
    start = c.intercept if prior is None else prior
    seen = np.isfinite(scores)
    y = np.where(seen, scores, 0.0)
    intercept = start.copy()
    information = np.zeros_like(intercept)
    at = np.multiply.outer(theta, c.slope)
    for _ in range(_STEPS):
        mu = np.where(seen, expit(intercept + at), 0.0)
        gradient = (y - mu).sum(axis=0) / c.noise - prior_precision * (intercept - start)
        information = (mu * (1.0 - mu)).sum(axis=0) / c.noise
        step = np.clip(gradient / (information + prior_precision), -_LONGEST_STEP, _LONGEST_STEP)
        intercept = intercept + step
        if np.nanmax(np.abs(step), initial=0.0) < 1e-9:
            break
    return intercept, information

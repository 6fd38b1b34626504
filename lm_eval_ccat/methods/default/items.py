"""Fit of the method "default": item curves, noise and residual factors from a score matrix.

Everything is shrunk towards what items have in common, by amounts that the scores themselves give:

- a model's ability is the logit of its mean score, so that the curves describe the estimand;
- curves ``c_i`` have a normal prior (slope about 1, bends about 0) whose variances are fitted by
  expectation-maximisation over all items; the mode is found by Newton steps, all items at once;
- models that follow the curves badly (weak outliers, mostly) count less: each model has its own
  noise ``s_j``, estimated along with the curves;
- an item's noise ``k_i`` is shrunk to what items of its difficulty have;
- residual factors are singular vectors of the Pearson residuals, shrunk at the noise edge.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from scipy.special import logit

from ...scores.table import ScoreTable
from ..belief import Floats, Places
from ..curves import AbilityBasis
from .cells import Cells, Data, Groups
from .fractional import FractionalItems, packed

ITERATIONS = 14
BENDS_FROM = (8, 15, 30)  # models from which on there are one, two and three bends
#: Models from which on a bank tells by itself how far new ones depart from it.
MANY = 200
_FACTORS, _FACTORS_OF_MANY = 2, 8  # of the residuals, at most
_PRIOR_DF = 10.0  # models' worth of the noise that items of like difficulty have
_PRIOR_WIDTH = 1.5  # standard deviation of a new model's ability, in those of calibration
_CLIP = 1e-3  # mean scores are kept this far from 0 and 1 before the logit
_NARROWEST = 0.05  # logits; models closer than that hold no information on slopes
_LEAST_NOISE = 1e-6
_TOGETHER = 4096  # matrices whose entries stay in the processor's cache
#: Fewer models than that, or a smaller table, is fitted model by model.
FEWEST_MODELS, FEWEST_CELLS = 500, 5_000_000


@dataclass(frozen=True)
class ItemFit:
    """Fitted items, the mean of all scores, and what the fit says of itself."""

    items: FractionalItems
    mean: float
    report: dict[str, Any]


def factors_for(n_models: int) -> int:
    """Residual factors that so many calibration models can carry at most."""
    return _FACTORS if n_models < MANY else _FACTORS_OF_MANY


def mean_scores(scores: Floats) -> Floats:
    """Mean score per model as if every item had been run; shape (n_models,).

    Missing cells count at the item's mean shifted by how the model does on the items it has.
    """
    seen = np.isfinite(scores)
    y = np.where(seen, scores, 0.0)
    overall = y.sum() / max(seen.sum(), 1)
    item = (y.sum(axis=0) + 0.5 * overall) / (seen.sum(axis=0) + 0.5)
    n = np.maximum(seen.sum(axis=1), 1)
    return np.asarray((y.sum(axis=1) - seen @ item) / n + item.mean())


def means_of(table: ScoreTable) -> Floats:
    """As `mean_scores`, from a table read in parts."""
    o = table.overview
    overall = o.item_sum.sum() / o.item_count.sum()
    item = (o.item_sum + 0.5 * overall) / (o.item_count + 0.5)
    if o.whole:
        return np.asarray(o.model_mean)
    expected = np.empty(len(o.model_mean))
    for at, scores in table.parts():
        expected[at] = np.isfinite(scores) @ item
    return np.asarray(o.model_mean - expected / o.model_count + item.mean())


def fit_table(table: ScoreTable, factors: int, extra: float = 0.0) -> ItemFit:
    """`fit_items` for a table; of a large one memory beside it grows with its items only."""
    n_models = len(table.models)
    if n_models <= FEWEST_MODELS or n_models * table.n_items <= FEWEST_CELLS:
        return fit_items(table.model_scores(), factors, extra)
    return fit_groups(table, factors, extra)


def fit_groups(table: ScoreTable, factors: int, extra: float = 0.0) -> ItemFit:
    """`fit_items` with models in groups of like ability."""
    x = abilities_of(means_of(table))
    return fit_at(x, lambda basis, x: Groups(table, x, basis), factors, extra)


def fit_items(scores: Floats, factors: int = _FACTORS, extra: float = 0.0) -> ItemFit:
    """Fit the response model.

    Parameters
    ----------
    scores : ndarray of shape (n_models, n_items)
        On [0, 1], NaN where missing.
    factors : int, optional
        Residual factors at most.
    extra : float, optional
        Variance, in units of ``mu (1 - mu)``, that a single score has and the entries of `scores`,
        being means over several configs, have not.

    Returns
    -------
    ItemFit
    """
    x = abilities_of(mean_scores(scores))
    return fit_at(x, lambda basis, x: Cells(scores, basis.at(x)), factors, extra)


def abilities_of(means: Floats) -> Floats:
    """Logits of mean scores that are kept off 0 and 1."""
    return np.asarray(logit(np.clip(means, _CLIP, 1.0 - _CLIP)))


def fit_at(
    x: Floats,
    data_at: Callable[[AbilityBasis, Floats], Data],
    factors: int = _FACTORS,
    extra: float = 0.0,
) -> ItemFit:
    """Fit the response model at known abilities.

    Parameters
    ----------
    x : ndarray of shape (n_models,)
        Abilities (logits).
    data_at : callable
        Scores, given the basis and the abilities less their mean.
    factors, extra
        As `fit_items` has them.
    """
    centre = float(x.mean())
    x = x - centre
    spread = max(float(x.std(ddof=1)), _NARROWEST)
    bends = int(np.searchsorted(BENDS_FROM, len(x), side="right")) if x.std() > _NARROWEST else 0
    basis = AbilityBasis.over(x, bends)
    data = data_at(basis, x)
    curves = _fit_curves(data)
    c, covariance, s = curves.coefficients, curves.inverse, curves.model_noise
    rest = data.rest(c, s, factors)
    # Degrees of freedom that the curve takes: trace of inverse Hessian x Hessian of the data.
    count = data.item_count
    used = (covariance * rest.hessian * packed(basis.size)[2]).sum(axis=1)
    df = np.maximum(count - used - rest.loadings.shape[1], 1.0)
    shown = rest.squares / np.maximum(rest.mass * df / count, 1e-9)
    # A mean score near 0 or 1 leaves its variance little room, whatever bounds the weights below.
    room = np.minimum(rest.mass, np.minimum(data.item_sum, count - data.item_sum))
    usual = _usual_noise(shown, room * df / count, c[:, 0])
    telling = df * _telling(usual, room / count)
    noise = (_PRIOR_DF * usual + telling * shown) / (_PRIOR_DF + telling)
    noise = np.maximum(noise, _LEAST_NOISE) + extra
    items = FractionalItems(
        coefficients=c,
        covariance=covariance,
        noise=noise,
        loadings=rest.loadings,
        basis=basis,
        prior_sd=_PRIOR_WIDTH * spread,
        abilities=x,
        log_noise=np.log(s),
        spread=spread,
    )
    report = {
        "centre": centre,
        "slope_sd": float(np.sqrt(curves.slope_variance)),
        "bend_sd": float(np.sqrt(curves.bend_variance)) if bends else 0.0,
        "bends": bends,
        "factors": rest.loadings.shape[1],
        "noise": float(np.average(noise, weights=rest.mass)),
    }
    return ItemFit(items, data.overall, report)


@dataclass(frozen=True)
class _Curves:
    coefficients: Floats  # (n_items, p)
    inverse: Floats  # (n_items, p (p + 1) / 2): inverse Hessian, to be multiplied by the noise
    model_noise: Floats  # (n_models,)
    slope_variance: float
    bend_variance: float


def _fit_curves(data: Data) -> _Curves:
    n_models, n_items, p = data.n_models, data.n_items, data.size
    row, column, _ = packed(p)
    easiness = (data.item_sum + 0.5 * data.overall) / (data.item_count + 0.5)
    c = np.zeros((n_items, p))
    c[:, 0] = logit(np.clip(easiness, 0.005, 0.995))
    c[:, 1] = 1.0
    prior_mean = np.concatenate([[c[:, 0].mean(), 1.0], np.zeros(p - 2)])
    easiness_variance = 2.0 * max(float(c[:, 0].var()), 0.1)
    slope_variance, bend_variance = 0.25, 0.05
    s, noise = np.ones(n_models), 1.0
    inverse = np.empty((n_items, len(row)))
    for step in range(ITERATIONS):
        squares, total, hessian, gradient = data.look(c, s)
        if step % 2 == 0:
            freedom = max(n_models - 1.5, 1.0) / n_models
            noise = max((squares / s).sum() / (total / s).sum() / freedom, _LEAST_NOISE)
        precision = noise / np.concatenate(
            [[easiness_variance, slope_variance], np.full(p - 2, bend_variance)]
        )
        hessian[:, row == column] += precision
        inverse = inverted(hessian, p)
        gradient -= precision * (c - prior_mean)
        step_of_c = np.einsum("npq,nq->np", inverse[:, places(p)], gradient)
        c = c + np.clip(step_of_c, -1.0, 1.0)
        if step < 3:  # the curves have to settle before anything is learned from their spread
            continue
        spread = noise * inverse[:, row == column]
        slope_variance = float(np.clip(((c[:, 1] - 1.0) ** 2 + spread[:, 1]).mean(), 1e-3, 4.0))
        if p > 2:
            bend_variance = float(np.clip((c[:, 2:] ** 2 + spread[:, 2:]).mean(), 1e-4, 1.0))
        # What the curves were bent towards a model does not count as its fitting well.
        leverage = data.leverage(inverse) / s
        s = squares / (noise * np.maximum(total - leverage, 0.2 * total))
        s = np.clip(s, 0.2, 5.0)
        s = s / np.exp(np.log(s).mean())
    return _Curves(c, inverse, s, slope_variance, bend_variance)


def _telling(noise: Floats, w: Floats) -> Floats:
    """How much squared residuals tell of an item's noise, beside normal ones; shape (n_items,).

    Over their mean, squares of normal residuals have the variance 2, those of 0/1 scores, whose
    noise is 1, the variance ``1/w - 4``: an item that one model in a hundred solves shows its noise
    by one residual in a hundred, and an item that nobody solves shows nothing.
    """
    return np.asarray(2.0 * w / np.maximum(2.0 * w + noise * (1.0 - 4.0 * w), 1e-12))


def _usual_noise(noise: Floats, mass: Floats, easiness: Floats) -> Floats:
    """Noise as a smooth function of easiness: quadratic log-linear regression, gamma errors."""
    pooled = max(float(np.average(noise, weights=np.maximum(mass, 1e-12))), _LEAST_NOISE)
    a = (easiness - easiness.mean()) / max(float(easiness.std()), 1e-9)
    design = np.column_stack([np.ones(len(a)), a, a * a - 1.0])
    mass = np.minimum(mass, np.quantile(mass, 0.9))
    ridge = np.diag([0.0, 1.0, 1.0]) * mass.sum() * 0.02
    hessian = (design * mass[:, None]).T @ design + ridge + 1e-12 * np.eye(3)
    b = np.array([np.log(pooled), 0.0, 0.0])
    for _ in range(12):
        fitted = np.exp(np.clip(design @ b, np.log(pooled) - 3.0, np.log(pooled) + 3.0))
        gradient = design.T @ (mass * (noise / fitted - 1.0)) - ridge @ b
        b = b + np.clip(np.linalg.solve(hessian, gradient), -0.5, 0.5)
    return np.asarray(pooled * np.exp(np.clip(design @ b - np.log(pooled), -1.5, 1.5)))


# -- many small symmetric matrices at once, as their upper triangles (`fractional.packed`) --------


@cache
def places(n: int) -> Places:
    """Where each entry of a symmetric matrix of size `n` is stored; shape (n, n).

    Examples
    --------
    >>> places(2).tolist()
    [[0, 1], [1, 2]]
    """
    row, column, _ = packed(n)
    at = np.empty((n, n), dtype=np.intp)
    at[row, column] = at[column, row] = np.arange(len(row))
    return at


def inverted(matrices: Floats, p: int) -> Floats:
    """Inverses of positive definite matrices, by Goodnight's (1979) sweep.

    LAPACK takes one matrix at a time; for a small one the call costs more than the arithmetic.

    Parameters
    ----------
    matrices : ndarray of shape (n, p (p + 1) / 2)
        Packed.
    p : int

    Returns
    -------
    ndarray of the same shape

    Examples
    --------
    >>> inverted(np.array([[2.0, 1.0, 1.0]]), 2).round(12).tolist()
    [[1.0, -1.0, 2.0]]
    """
    at, out = places(p), np.empty_like(matrices)
    for start in range(0, len(matrices), _TOGETHER):
        a = np.array(matrices[start : start + _TOGETHER].T, order="C")
        for k in range(p):
            scale = 1.0 / a[at[k, k]]
            others = [i for i in range(p) if i != k]
            scaled = {i: a[at[i, k]] * scale for i in others}
            for n, i in enumerate(others):
                for j in others[n:]:
                    a[at[i, j]] -= scaled[i] * a[at[j, k]]
            for i in others:
                a[at[i, k]] = scaled[i]
            a[at[k, k]] = -scale
        out[start : start + _TOGETHER] = -a.T
    return out

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

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit

from .basis import AbilityBasis, bends_for
from .fractional import FractionalItems, packed, weight, weight_into

Floats = NDArray[np.float64]

ITERATIONS = 14
_PRIOR_DF = 10.0  # models' worth of the noise that items of like difficulty have
_PRIOR_WIDTH = 1.5  # standard deviation of a new model's ability, in those of calibration
_CLIP = 1e-3  # mean scores are kept this far from 0 and 1 before the logit
_NARROWEST = 0.05  # logits; models closer than that hold no information on slopes
_LEAST_NOISE = 1e-6


@dataclass(frozen=True)
class FitOptions:
    """Parts of the response model that can be switched off, for comparison.

    Attributes
    ----------
    discrimination : bool
        Let items differ in slope and bend.
    factors : int
        Residual factors at most.
    """

    discrimination: bool = True
    factors: int = 2


@dataclass(frozen=True)
class ItemFit:
    """Fitted items and what the fit says of itself."""

    items: FractionalItems
    report: dict[str, Any]


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


def fit_items(scores: Floats, options: FitOptions | None = None, extra: float = 0.0) -> ItemFit:
    """Fit the response model.

    Parameters
    ----------
    scores : ndarray of shape (n_models, n_items)
        On [0, 1], NaN where missing.
    options : FitOptions, optional
    extra : float, optional
        Variance, in units of ``mu (1 - mu)``, that a single score has and the entries of `scores`,
        being means over several configs, have not.

    Returns
    -------
    ItemFit
    """
    options = options or FitOptions()
    n_models = len(scores)
    seen = np.isfinite(scores)
    y = np.where(seen, scores, 0.0)
    count = seen.sum(axis=0).astype(np.float64)
    x = np.asarray(logit(np.clip(mean_scores(scores), _CLIP, 1.0 - _CLIP)))
    centre = float(x.mean())
    x = x - centre
    spread = max(float(x.std(ddof=1)), _NARROWEST)
    bends = bends_for(n_models) if options.discrimination and x.std() > _NARROWEST else 0
    basis = AbilityBasis.over(x, bends)
    f = basis.at(x)
    curves = _fit_curves(y, seen, f, options.discrimination)
    c, inverse, s = curves.coefficients, curves.inverse, curves.model_noise

    mu = expit(f @ c.T)
    w = weight(mu)
    residual = np.where(seen, y - mu, 0.0) / np.sqrt(w * s[:, None])
    loadings, residual = _factors(residual, seen, w.mean(axis=0), options.factors)
    # Degrees of freedom that the curve takes: trace of inverse Hessian x Hessian of the data.
    row, column, _ = packed(f.shape[1])
    data = (np.where(seen, w, 0.0) / s[:, None]).T @ (f[:, row] * f[:, column])
    used = (inverse[:, row, column] * data * packed(f.shape[1])[2]).sum(axis=1)
    df = np.maximum(count - used - loadings.shape[1], 1.0)
    mass = np.where(seen, w, 0.0).sum(axis=0)
    own = np.where(seen, residual**2 * w, 0.0).sum(axis=0) / np.maximum(mass * df / count, 1e-9)
    usual = _usual_noise(own, mass * df / count, c[:, 0])
    noise = np.maximum((_PRIOR_DF * usual + df * own) / (_PRIOR_DF + df), _LEAST_NOISE) + extra
    items = FractionalItems(
        coefficients=c,
        covariance=inverse[:, row, column],
        noise=noise,
        loadings=loadings,
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
        "factors": loadings.shape[1],
        "noise": float(np.average(noise, weights=mass)),
    }
    return ItemFit(items, report)


@dataclass(frozen=True)
class _Curves:
    coefficients: Floats  # (n_items, p)
    inverse: Floats  # (n_items, p, p): inverse Hessian, to be multiplied by the noise
    model_noise: Floats  # (n_models,)
    slope_variance: float
    bend_variance: float


def _fit_curves(y: Floats, seen: NDArray[np.bool_], f: Floats, discrimination: bool) -> _Curves:
    n_models, n_items = y.shape
    p = f.shape[1]
    row, column, _ = packed(p)
    products = f[:, row] * f[:, column]
    overall = y.sum() / seen.sum()
    easiness = (y.sum(axis=0) + 0.5 * overall) / (seen.sum(axis=0) + 0.5)
    c = np.zeros((n_items, p))
    c[:, 0] = logit(np.clip(easiness, 0.005, 0.995))
    c[:, 1] = 1.0
    prior_mean = np.concatenate([[c[:, 0].mean(), 1.0], np.zeros(p - 2)])
    easiness_variance = 2.0 * max(float(c[:, 0].var()), 0.1)
    slope_variance, bend_variance = (0.25, 0.05) if discrimination else (1e-6, 1e-6)
    s, noise = np.ones(n_models), 1.0
    inverse = np.empty((n_items, p, p))
    # Written into again and again: with many models and items, new arrays would cost the most.
    mu, w, residual = np.empty_like(y), np.empty_like(y), np.empty_like(y)
    for step in range(ITERATIONS):
        expit(np.matmul(f, c.T, out=mu), out=mu)
        np.multiply(weight_into(w, mu), seen, out=w)
        np.multiply(np.subtract(y, mu, out=residual), seen, out=residual)
        by_model = np.einsum("ij,ij->i", residual, residual)
        if step % 2 == 0:
            freedom = max(n_models - 1.5, 1.0) / n_models
            noise = max((by_model / s).sum() / (w.sum(axis=1) / s).sum() / freedom, _LEAST_NOISE)
        precision = noise / np.concatenate(
            [[easiness_variance, slope_variance], np.full(p - 2, bend_variance)]
        )
        hessian = np.empty((n_items, p, p))
        hessian[:, row, column] = w.T @ (products / s[:, None])
        hessian[:, column, row] = hessian[:, row, column]
        hessian[:, range(p), range(p)] += precision
        inverse = np.asarray(np.linalg.inv(hessian))
        gradient = residual.T @ (f / s[:, None]) - precision * (c - prior_mean)
        c = c + np.clip(np.einsum("npq,nq->np", inverse, gradient), -1.0, 1.0)
        if step < 3:  # the curves have to settle before anything is learned from their spread
            continue
        if discrimination:
            spread = noise * np.einsum("npp->np", inverse)
            slope_variance = float(np.clip(((c[:, 1] - 1.0) ** 2 + spread[:, 1]).mean(), 1e-3, 4.0))
            if p > 2:
                bend_variance = float(np.clip((c[:, 2:] ** 2 + spread[:, 2:]).mean(), 1e-4, 1.0))
        total = w.sum(axis=1)
        # What the curves were bent towards a model does not count as its fitting well.
        squared = np.multiply(w, w, out=mu)
        leverage = (squared @ inverse[:, row, column] * products * packed(p)[2]).sum(axis=1) / s
        s = by_model / (noise * np.maximum(total - leverage, 0.2 * total))
        s = np.clip(s, 0.2, 5.0)
        s = s / np.exp(np.log(s).mean())
    return _Curves(c, inverse, s, slope_variance, bend_variance)


def _factors(
    residual: Floats, seen: NDArray[np.bool_], w: Floats, most: int
) -> tuple[Floats, Floats]:
    """Loadings of the residual factors above the noise, and the residuals without them."""
    n_models, n_items = residual.shape
    edge = np.sqrt((residual**2).sum() / seen.sum()) * (np.sqrt(n_items) + np.sqrt(n_models))
    columns = []
    for _ in range(min(most, n_models - 3)):
        left, size, right = _leading(residual)
        kept = 1.0 - (edge / size) ** 2 if size > edge else 0.0
        if kept <= 0.0:
            break
        columns.append(kept * size * right / np.sqrt(n_models * w))
        residual = residual - kept * size * np.outer(left, right)
    if not columns:
        return np.zeros((n_items, 0)), residual
    return np.column_stack(columns), residual


def _leading(matrix: Floats) -> tuple[Floats, float, Floats]:
    """The leading singular triple, its sign fixed so that it does not depend on the library."""
    gram = matrix @ matrix.T if len(matrix) <= matrix.shape[1] else matrix.T @ matrix
    if len(gram) <= 400:
        vector = np.linalg.eigh(gram)[1][:, -1]
    else:
        vector = gram[:, int(np.argmax(np.diag(gram)))]
        for _ in range(60):
            vector = gram @ vector
            vector = vector / max(float(np.linalg.norm(vector)), 1e-300)
    if len(matrix) <= matrix.shape[1]:
        left, right = vector, matrix.T @ vector
        size = float(np.linalg.norm(right))
        right = right / max(size, 1e-300)
    else:
        right, left = vector, matrix @ vector
        size = float(np.linalg.norm(left))
        left = left / max(size, 1e-300)
    sign = 1.0 if right[int(np.argmax(np.abs(right)))] > 0.0 else -1.0
    return sign * left, size, sign * right


def _usual_noise(own: Floats, mass: Floats, easiness: Floats) -> Floats:
    """Noise as a smooth function of easiness: quadratic log-linear regression, gamma errors."""
    pooled = max(float(np.average(own, weights=np.maximum(mass, 1e-12))), _LEAST_NOISE)
    a = (easiness - easiness.mean()) / max(float(easiness.std()), 1e-9)
    design = np.column_stack([np.ones(len(a)), a, a * a - 1.0])
    mass = np.minimum(mass, np.quantile(mass, 0.9))
    ridge = np.diag([0.0, 1.0, 1.0]) * mass.sum() * 0.02
    hessian = (design * mass[:, None]).T @ design + ridge + 1e-12 * np.eye(3)
    b = np.array([np.log(pooled), 0.0, 0.0])
    for _ in range(12):
        fitted = np.exp(np.clip(design @ b, np.log(pooled) - 3.0, np.log(pooled) + 3.0))
        b = b + np.clip(
            np.linalg.solve(hessian, design.T @ (mass * (own / fitted - 1.0)) - ridge @ b),
            -0.5,
            0.5,
        )
    return np.asarray(pooled * np.exp(np.clip(design @ b - np.log(pooled), -1.5, 1.5)))

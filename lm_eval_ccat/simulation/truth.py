"""The truth by full scores: the true order, the true ties, and agreement with an order."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]

RESAMPLES = 1000
BOOTSTRAP_SEED = 0
INTERVAL = 0.95
_BLOCK_CELLS = 1 << 22  # counts of a large benchmark are drawn piece by piece


def full_means(scores: Floats) -> Floats:
    """Mean score of each model over the items it has.

    Parameters
    ----------
    scores : ndarray of shape (n_models, n_items)
        NaN where missing.

    Returns
    -------
    ndarray of shape (n_models,)
    """
    seen = np.isfinite(scores)
    return np.asarray(np.where(seen, scores, 0.0).sum(axis=1) / seen.sum(axis=1))


def bootstrap_intervals(
    scores: Floats, resamples: int = RESAMPLES, seed: int = BOOTSTRAP_SEED
) -> tuple[Floats, Floats]:
    """95% percentile bootstrap interval of each model's mean over items.

    A resample of N items with replacement is a multinomial count of each item, so that all models'
    resampled means are one matrix product. Every model sees the same resamples.

    Parameters
    ----------
    scores : ndarray of shape (n_models, n_items)
        NaN where missing; such items weigh nothing.
    resamples : int
    seed : int

    Returns
    -------
    low, high : ndarray of shape (n_models,)
    """
    n_models, n_items = scores.shape
    rng = np.random.default_rng(seed)
    seen = np.isfinite(scores)
    filled = np.where(seen, scores, 0.0).T
    complete = bool(seen.all())
    present = seen.T.astype(np.float64)
    means = np.empty((resamples, n_models))
    block = max(1, _BLOCK_CELLS // n_items)
    for start in range(0, resamples, block):
        rows = slice(start, min(start + block, resamples))
        counts = rng.multinomial(n_items, np.full(n_items, 1.0 / n_items), rows.stop - rows.start)
        weight = counts.astype(np.float64)
        total = n_items if complete else np.maximum(weight @ present, 1e-300)
        means[rows] = weight @ filled / total
    tail = (1.0 - INTERVAL) / 2.0
    low, high = np.quantile(means, [tail, 1.0 - tail], axis=0)
    return low, high


def true_ties(low: Floats, high: Floats) -> NDArray[np.bool_]:
    """Which pairs of models have overlapping intervals; symmetric, shape (n_models, n_models)."""
    return np.asarray((low[:, None] <= high[None, :]) & (low[None, :] <= high[:, None]))


def kendall_tau(a: ArrayLike, b: ArrayLike) -> float:
    """Kendall's tau-b of two vectors; NaN where one of them is constant.

    Examples
    --------
    >>> kendall_tau([1, 2, 3, 4], [1, 2, 4, 3])
    0.6666666666666666
    """
    x, y = np.asarray(a, dtype=np.float64), np.asarray(b, dtype=np.float64)
    upper = np.triu_indices(len(x), 1)
    dx = np.sign(x[:, None] - x[None, :])[upper]
    dy = np.sign(y[:, None] - y[None, :])[upper]
    scale = np.sqrt((dx**2).sum() * (dy**2).sum())
    return float((dx * dy).sum() / scale) if scale > 0 else float("nan")


def z_scores(errors: Floats, standard_errors: Floats) -> Floats:
    """Errors in standard errors; 0 where a model's every item was administered."""
    exact = (np.abs(errors) < 1e-9) & (standard_errors < 1e-9)
    return np.where(exact, 0.0, errors / np.maximum(standard_errors, 1e-9))

"""Baselines without a response model: they choose items blindly and rank by mean score.

``random`` is the paper's baseline. ``common`` and ``limit`` give every model the same items: models
are then compared on the same difficulty, which makes them much stronger. ``static`` is the classic
short form: the items that discriminate best, chosen once.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

# A budget is a sum of the same prices in another order; rounding must not cost an item.
_SLACK = 1e-9


def random_items(
    scores: Floats, prices: Floats, units: Floats, budget: float, rng: np.random.Generator
) -> tuple[NDArray[np.bool_], float]:
    """A random model and an item it has not had, up to the first draw that does not fit.

    Parameters
    ----------
    scores : ndarray of shape (n_models, n_items)
        NaN where missing; such items are not drawn.
    prices : ndarray of shape (n_models,)
    units : ndarray of shape (n_items,)
    budget : float
    rng : numpy Generator

    Returns
    -------
    administered : ndarray of bool, shape (n_models, n_items)
    spent : float
    """
    n_models = len(scores)
    queues = [
        rng.permutation(np.flatnonzero(np.isfinite(scores[m]))).tolist() for m in range(n_models)
    ]
    administered = np.zeros(scores.shape, dtype=bool)
    spent = 0.0
    while open_ := [m for m in range(n_models) if queues[m]]:
        m = open_[int(rng.integers(len(open_)))]
        item = queues[m].pop()
        price = prices[m] * units[item]
        if spent + price > budget * (1 + _SLACK):
            break
        administered[m, item] = True
        spent += price
    return administered, spent


def items_for_all(
    order: Iterable[int], scores: Floats, prices: Floats, units: Floats, budget: float
) -> tuple[NDArray[np.bool_], float]:
    """The items of an order for every model, up to the first that does not fit.

    Parameters and returns as :func:`random_items`; ``order`` is of item positions.
    """
    seen = np.isfinite(scores)
    administered = np.zeros(scores.shape, dtype=bool)
    spent = 0.0
    for item in order:
        price = float(prices @ seen[:, item]) * units[item]
        if spent + price > budget * (1 + _SLACK):
            break
        administered[:, item] = seen[:, item]
        spent += price
    return administered, spent


def discriminating_order(calibration: Floats) -> NDArray[np.intp]:
    """Items by corrected item-total correlation over the calibration models, highest first.

    The correlation of an item's scores with the models' mean score over their other items. Items
    without one (constant, or fewer than three models) come last, equal ones in the given order.

    Parameters
    ----------
    calibration : ndarray of shape (n_models, n_items)
        NaN where missing.
    """
    seen = np.isfinite(calibration)
    y = np.where(seen, calibration, 0.0)
    others = seen.sum(axis=1)[:, None] - seen
    rest = np.where(seen, (y.sum(axis=1)[:, None] - y) / np.maximum(others, 1), 0.0)
    count = np.maximum(seen.sum(axis=0), 1)
    dy = np.where(seen, y - y.sum(axis=0) / count, 0.0)
    dr = np.where(seen, rest - rest.sum(axis=0) / count, 0.0)
    norm = np.sqrt((dy**2).sum(axis=0) * (dr**2).sum(axis=0))
    usable = (seen.sum(axis=0) >= 3) & (norm > 1e-12)
    correlation = np.divide(
        (dy * dr).sum(axis=0), norm, out=np.full(y.shape[1], -np.inf), where=usable
    )
    return np.argsort(-correlation, kind="stable")


def mean_of_seen(scores: Floats, administered: NDArray[np.bool_]) -> Floats:
    """Mean score of each model over the items it was given.

    A model without any stands at the mean of all scores seen: nothing is known of it.
    """
    count = administered.sum(axis=1)
    total = np.where(administered, scores, 0.0).sum(axis=1)
    overall = total.sum() / count.sum() if count.sum() else 0.5
    means: Floats = np.divide(total, count, out=np.full(len(count), overall), where=count > 0)
    return means

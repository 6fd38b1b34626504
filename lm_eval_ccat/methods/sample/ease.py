"""How easy items are elsewhere, and in how far that holds here.

The mean of random items errs by how easy these happen to be. Where a bank says how easy each item
is in other tasks on the same documents (its parameter ``ease``), or was for the models that it has
answers of, the mean of all models moves by
``slope (mean ease of all items - mean ease of those drawn)``: the regression estimator of survey
sampling. The slope is that of the scores on the ease, the same for all models, learned from the
draws: before any it may be anything from 0, where these say nothing of this ranking, to 1, where
differences in ease are what they are there. Differences between models do not move, so that
verdicts rest on the draws alone.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...bank.bank import ItemBank

Floats = NDArray[np.float64]

EASE = "ease"
_USUAL, _VARIANCE = 0.5, 0.25  # of a slope, before any draw
_FEWEST = 3  # items that show a slope
_ANSWERS = 2  # models that an item must have answers of to say how easy it is
#: What is known elsewhere is left out once the scores are so many times as likely if the slope is 0
#: as if it is 1, and it is less than two standard errors from 0.
_ODDS = 10.0


@dataclass(frozen=True)
class Slope:
    """Slope of the scores on the ease of items elsewhere.

    Attributes
    ----------
    value, variance : float
    explained : float
        Share of the variance of scores within a model that goes with the ease.
    misleads : bool
        Whether scores speak against it; the slope is 0 then.
    """

    value: float = _USUAL
    variance: float = _VARIANCE
    explained: float = 0.0
    misleads: bool = False


def ease_of(bank: ItemBank) -> Floats | None:
    """Expected score of a usual model on each item, less the mean; None if the bank has no word.

    Items that nothing is known of stand at the mean.
    """
    ease = bank.parameters.get(EASE)
    if ease is None:
        total, count = np.zeros(bank.n_items), np.zeros(bank.n_items)
        for one in bank.observations:
            if len(one.items):
                total[one.items] += one.scores - one.scores.mean()
                count[one.items] += 1
        if not (count >= _ANSWERS).any():
            return None
        ease = np.where(count >= _ANSWERS, total / np.maximum(count, 1.0), 0.0)
    return np.asarray(ease - ease.mean())


def slope_of(scores: Floats, ease: Floats) -> Slope:
    """Learn the slope.

    Parameters
    ----------
    scores : ndarray of shape (n_models, n_items)
        NaN where there is none.
    ease : ndarray of shape (n_items,)

    Examples
    --------
    >>> ease = np.linspace(-0.4, 0.4, 40)
    >>> noise = np.random.default_rng(0).normal(0.0, 0.05, (2, 40))
    >>> round(slope_of(0.5 + ease + noise, ease).value, 1)
    1.0
    >>> slope_of(0.5 + noise, ease).misleads
    True
    """
    seen = np.isfinite(scores)
    n = seen.sum(axis=1, keepdims=True)
    shown = int(seen.any(axis=0).sum())
    x, y = (
        np.where(seen, v - np.where(seen, v, 0.0).sum(axis=1, keepdims=True) / np.maximum(n, 1), 0)
        for v in (np.broadcast_to(ease, scores.shape), np.nan_to_num(scores))
    )
    squares, along, total = float((x * x).sum()), float((x * y).sum()), float((y * y).sum())
    if shown < _FEWEST or squares <= 0.0:
        return Slope()
    found = along / squares
    rest = np.where(seen, y - found * x, 0.0)
    # Scores of several models on one item are not so many items.
    by_item = float(((x * rest).sum(axis=0) ** 2).sum()) / squares
    alone = float((rest * rest).sum()) / max(float(n.sum()), 1.0)
    error = max(by_item, alone) * shown / (shown - 2.0) / squares
    if found < min(0.5 - error * math.log(_ODDS), 2.0 * error**0.5):
        return Slope(0.0, 0.0, 0.0, misleads=True)
    weight = _VARIANCE / (_VARIANCE + error)
    value = max(weight * found + (1.0 - weight) * _USUAL, 0.0)
    explained = value * (2.0 * along - value * squares) / max(total, 1e-300)
    return Slope(value, weight * error, min(max(explained, 0.0), 1.0))

"""Means of models that have had different items, and what is known of the items from elsewhere.

*Least squares on models and items.* A score is taken as the model's effect plus the item's. Where
all models have had the same items the estimates are their plain means; where one has had more, the
others' means are moved by how much easier or harder those items were for the models that had them.

*How easy items are elsewhere.* The mean of random items errs by how easy these happen to be. Where
a bank says how easy each item is in other tasks on the same documents (its parameter ``ease``), or
was for the models that it has answers of, the mean of all models moves by
``slope (mean ease of all items - mean ease of those drawn)``: the regression estimator of survey
sampling. The slope is that of the scores on the ease, the same for all models, learned from the
draws: before any it may be anything from 0, where these say nothing of this ranking, to 1, where
differences in ease are what they are there. Differences between models do not move, so that
verdicts rest on the draws alone.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from ...bank.bank import ItemBank
from ..belief import Floats, Places

EASE = "ease"
_USUAL, _VARIANCE = 0.5, 0.25  # of a slope, before any draw
_FEWEST = 3  # items that show a slope
_ANSWERS = 2  # models that an item must have answers of to say how easy it is
#: What is known elsewhere is left out once the scores are so many times as likely if the slope is 0
#: as if it is 1, and it is less than two standard errors from 0.
_ODDS = 10.0
_RIDGE = 1e-12


class Effects:
    """The normal equations, kept up to date score by score.

    Parameters
    ----------
    n_models, n_items : int
    """

    def __init__(self, n_models: int, n_items: int) -> None:
        self.scores = np.full((n_models, n_items), np.nan)
        self.laplacian = np.zeros((n_models, n_models))
        self.right = np.zeros(n_models)
        self.share = np.zeros(n_models)  # over items, one over the number of models that have it
        self.n_seen = 0  # items that some model has
        self.counts = np.zeros(n_models, dtype=np.intp)
        self.item_means = 0.0  # their sum
        self.within = 0.0  # sum of squares around the items' means
        self._solved: tuple[Floats, float] | None = None

    def add_model(self) -> None:
        """One more model, without scores."""
        self.scores = np.pad(self.scores, ((0, 1), (0, 0)), constant_values=np.nan)
        self.laplacian = np.pad(self.laplacian, (0, 1))
        self.right, self.share = np.append(self.right, 0.0), np.append(self.share, 0.0)
        self.counts = np.append(self.counts, 0)
        self._solved = None

    def learn(self, model: int, item: int, score: float) -> None:
        """Take in a score."""
        column = self.scores[:, item]
        had = np.flatnonzero(np.isfinite(column))
        if len(had):
            self._item(had, column[had], -1.0)
        column[model] = score
        now = np.flatnonzero(np.isfinite(column))
        self._item(now, column[now], 1.0)
        self.counts[model] += 1
        self._solved = None

    def _item(self, models: Places, y: Floats, sign: float) -> None:
        size = len(models)
        mean = float(y.sum()) / size
        part = sign * (np.eye(size) - 1.0 / size)
        self.laplacian[np.ix_(models, models)] += part
        self.right[models] += sign * (y - mean)
        self.share[models] += sign / size
        self.item_means += sign * mean
        self.within += sign * float(((y - mean) ** 2).sum())
        self.n_seen += int(sign)

    def solve(self) -> tuple[Floats, float]:
        """Estimated mean of each model over all items, and the variance of a residual.

        A model without items stands at the mean of the others.
        """
        if self._solved is None:
            n_models = len(self.right)
            ridge = _RIDGE * max(self.n_seen, 1) * np.eye(n_models)
            effect = np.linalg.solve(self.laplacian + ridge, self.right)
            level = (self.item_means - float(effect @ self.share)) / max(self.n_seen, 1)
            freedom = int(self.counts.sum()) - self.n_seen - n_models + 1
            rest = max(self.within - float(effect @ self.right), 0.0) / max(freedom, 1)
            estimate = effect + (level if self.n_seen else 0.5)
            self._solved = np.clip(estimate, 0.0, 1.0), rest
        return self._solved

    def expected(self, model: int) -> Floats:
        """Expected score of one model on every item: what it scored, or what the effects give."""
        estimate, _ = self.solve()
        effect = estimate - estimate.mean()
        seen = np.isfinite(self.scores)
        count = seen.sum(axis=0)
        rest = np.where(seen, self.scores - effect[:, None], 0.0).sum(axis=0)
        level = float(estimate.mean())
        ease = np.divide(rest, count, out=np.full(len(count), level), where=count > 0)
        scored, rest = self.scores[model], np.clip(ease + effect[model], 0.0, 1.0)
        return np.asarray(np.where(np.isfinite(scored), scored, rest))


class Slope(NamedTuple):
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
    plain = along / squares
    rest = np.where(seen, y - plain * x, 0.0)
    # Scores of several models on one item are not so many items.
    by_item = float(((x * rest).sum(axis=0) ** 2).sum()) / squares
    alone = float((rest * rest).sum()) / max(float(n.sum()), 1.0)
    error = max(by_item, alone) * shown / (shown - 2.0) / squares
    if plain < min(0.5 - error * math.log(_ODDS), 2.0 * error**0.5):
        return Slope(0.0, 0.0, 0.0, misleads=True)
    weight = _VARIANCE / (_VARIANCE + error)
    value = max(weight * plain + (1.0 - weight) * _USUAL, 0.0)
    explained = value * (2.0 * along - value * squares) / max(total, 1e-300)
    return Slope(value, weight * error, min(max(explained, 0.0), 1.0))

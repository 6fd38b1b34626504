"""Means of models that have had different items, by least squares on models and items.

A score is taken as the model's effect plus the item's.  Where all models have had the same items
the estimates are their plain means; where one has had more, the others' means are moved by how much
easier or harder those items were for the models that had them.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

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

    def add_model(self) -> Effects:
        """The same scores with one more model."""
        n_models, n_items = self.scores.shape
        larger = Effects(n_models + 1, n_items)
        larger.scores[:-1] = self.scores
        for name in ("laplacian", "right", "share", "counts"):
            old = getattr(self, name)
            setattr(larger, name, np.pad(old, [(0, 1)] * old.ndim))
        for name in ("n_seen", "item_means", "within"):
            setattr(larger, name, getattr(self, name))
        return larger

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

    def _item(self, models: NDArray[np.intp], y: Floats, sign: float) -> None:
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
        own = self.scores[model]
        return np.asarray(np.where(np.isfinite(own), own, np.clip(ease + effect[model], 0.0, 1.0)))

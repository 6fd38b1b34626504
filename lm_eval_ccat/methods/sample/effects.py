"""Models and items of the method "sample": least-squares effects."""

from __future__ import annotations

import numpy as np

from ...metrics.scale import Floats
from ..belief import Places

_RIDGE = 1e-12


class Effects:
    """The least-squares fit of model and item effects, updated score by score.

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
        """Add a model without scores."""
        self.scores = np.pad(self.scores, ((0, 1), (0, 0)), constant_values=np.nan)
        self.laplacian = np.pad(self.laplacian, (0, 1))
        self.right, self.share = np.append(self.right, 0.0), np.append(self.share, 0.0)
        self.counts = np.append(self.counts, 0)
        self._solved = None

    def learn(self, model: int, item: int, score: float) -> None:
        """Take in a score, or the mean that replaces one after a further answer."""
        column = self.scores[:, item]
        self.counts[model] += np.isnan(column[model])
        models = np.flatnonzero(np.isfinite(column))
        if len(models):
            self._item(models, column[models], -1.0)
        column[model] = score
        models_after = np.flatnonzero(np.isfinite(column))
        self._item(models_after, column[models_after], 1.0)
        self._solved = None

    def _item(self, models: Places, y: Floats, sign: float) -> None:
        size = len(models)
        mean = float(y.sum()) / size
        part = sign * (np.eye(size) - 1.0 / size)
        self.laplacian[models[:, None], models] += part
        self.right[models] += sign * (y - mean)
        self.share[models] += sign / size
        self.item_means += sign * mean
        self.within += sign * float(((y - mean) ** 2).sum())
        self.n_seen += int(sign)

    def solve(self) -> tuple[Floats, float]:
        """Return the estimated mean of each model over all items, and the variance of a residual.

        A model without items gets the mean of the others.
        """
        if self._solved is None:
            n_models = len(self.right)
            ridge = _RIDGE * max(self.n_seen, 1) * np.eye(n_models)
            effect = np.linalg.solve(self.laplacian + ridge, self.right)
            level = (self.item_means - float(effect @ self.share)) / max(self.n_seen, 1)
            freedom = int(self.counts.sum()) - self.n_seen - n_models + 1
            residual_variance = max(self.within - float(effect @ self.right), 0.0) / max(freedom, 1)
            estimate = effect + (level if self.n_seen else 0.5)
            self._solved = np.clip(estimate, 0.0, 1.0), residual_variance
        return self._solved

    def expected(self, model: int) -> Floats:
        """Return a model's score on every item, or the sum of the effects if there is none."""
        estimate, _ = self.solve()
        effect = estimate - estimate.mean()
        present = np.isfinite(self.scores)
        count = present.sum(axis=0)
        sums = np.where(present, self.scores - effect[:, None], 0.0).sum(axis=0)
        level = float(estimate.mean())
        ease = np.divide(sums, count, out=np.full(len(count), level), where=count > 0)
        scored, predicted = self.scores[model], np.clip(ease + effect[model], 0.0, 1.0)
        return np.asarray(np.where(np.isfinite(scored), scored, predicted))

"""Models and items of the method "sample": least-squares effects."""

from __future__ import annotations

import numpy as np
from scipy.linalg.blas import dger

from ...metrics.scale import Floats

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
        # The item's mean over models changes: what it said of all is taken away and added anew.
        column = self.scores[:, item]
        self._item(column, -1.0)
        if np.isnan(column[model]):
            self.counts[model] += 1
            self._connect(model, np.isfinite(column).astype(np.float64))
        column[model] = score
        self._item(column, 1.0)
        self._solved = None

    def _connect(self, model: int, others: Floats) -> None:
        """Add a model to the `others` that have an item, all of which it is compared with."""
        size, laplacian = float(others.sum()), self.laplacian
        share = 1.0 / (size + 1.0)
        if size:  # an update of rank one, in place
            dger(share / size, others, others, a=laplacian.T, overwrite_a=1)
        laplacian[model] -= share * others
        laplacian[:, model] -= share * others
        laplacian[model, model] += 1.0 - share

    def _item(self, column: Floats, sign: float) -> None:
        """Add what the scores of one item say of effects, or take it away."""
        models = np.flatnonzero(np.isfinite(column))
        y, size = column[models], len(models)
        if not size:
            return
        mean = float(y.sum()) / size
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
            # Effects are known up to a constant, for each group of models that share items: the
            # ridge makes the system solvable.
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

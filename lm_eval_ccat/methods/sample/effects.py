"""Models and items of the method "sample": least-squares effects."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.linalg.blas import dger

from ...metrics.scale import Floats

_RIDGE = 1e-12
_DIGITS = 9  # of sums that are compared


class EffectFit(NamedTuple):
    """A least-squares fit of effects.

    Attributes
    ----------
    means : ndarray of shape (n_models,)
        Estimated mean of each model over all items.
    squared_weights : ndarray of shape (n_models,)
        Sum of squares of the weights that each of `means` gives to the scores: times
        `residual_variance` its variance on the items that some model has. One over the number of
        items if all models have the same.
    residual_variance : float
        Variance of what is left of a score without the effects.
    """

    means: Floats
    squared_weights: Floats
    residual_variance: float


class Effects:
    """The least-squares fit of model and item effects, updated score by score.

    Parameters
    ----------
    n_models, n_items : int
    """

    def __init__(self, n_models: int, n_items: int) -> None:
        self.scores = np.full((n_models, n_items), np.nan)
        #: The normal equations of the models' effects: ``laplacian @ effect = right_side``.
        self.laplacian = np.zeros((n_models, n_models))
        self.right_side = np.zeros(n_models)
        #: Of each model, one over the number of models that have an item, summed over its items.
        self.inverse_counts = np.zeros(n_models)
        #: Items that each model has, and items that any model has.
        self.counts, self.n_scored_items = np.zeros(n_models, dtype=np.intp), 0
        self.sum_of_item_means = 0.0
        #: One over the number of models that have an item, summed over items.
        self.sum_of_inverse_counts = 0.0
        #: Squares of scores around their items' means.
        self.within_squares = 0.0
        self._solution: EffectFit | None = None

    def add_model(self) -> None:
        """Add a model without scores."""
        self.scores = np.pad(self.scores, ((0, 1), (0, 0)), constant_values=np.nan)
        self.laplacian = np.pad(self.laplacian, (0, 1))
        self.right_side = np.append(self.right_side, 0.0)
        self.inverse_counts = np.append(self.inverse_counts, 0.0)
        self.counts = np.append(self.counts, 0)
        self._solution = None

    def learn(self, model: int, item: int, score: float) -> None:
        """Take in a score, or the mean that replaces one after a further answer."""
        # The item's mean over models changes: what it said of all is taken away and added anew.
        column = self.scores[:, item]
        self._add_item(column, -1.0)
        if np.isnan(column[model]):
            self.counts[model] += 1
            self._connect(model, np.isfinite(column).astype(np.float64))
        column[model] = score
        self._add_item(column, 1.0)
        self._solution = None

    def _connect(self, model: int, others: Floats) -> None:
        """Add a model to the `others` that have an item, all of which it is compared with."""
        size, laplacian = float(others.sum()), self.laplacian
        share = 1.0 / (size + 1.0)
        if size:  # an update of rank one, in place
            dger(share / size, others, others, a=laplacian.T, overwrite_a=1)
        laplacian[model] -= share * others
        laplacian[:, model] -= share * others
        laplacian[model, model] += 1.0 - share

    def _add_item(self, column: Floats, sign: float) -> None:
        """Add what the scores of one item say of effects; take it away if `sign` is -1."""
        models = np.flatnonzero(np.isfinite(column))
        y, size = column[models], len(models)
        if not size:
            return
        mean = float(y.sum()) / size
        self.right_side[models] += sign * (y - mean)
        self.inverse_counts[models] += sign / size
        self.sum_of_inverse_counts += sign / size
        self.sum_of_item_means += sign * mean
        self.within_squares += sign * float(((y - mean) ** 2).sum())
        self.n_scored_items += int(sign)

    def solve(self) -> EffectFit:
        """Return the fit; a model without items gets the mean of the others."""
        if self._solution is None:
            n_models, size = len(self.right_side), max(self.n_scored_items, 1)
            # Models with the same items err alike, and of a thousand models most do.
            _, first, same_as = np.unique(
                self.inverse_counts.round(_DIGITS), return_index=True, return_inverse=True
            )
            # A mean is the mean of the items' means and this contrast of the effects, whose errors
            # are independent.
            contrasts = np.repeat(-self.inverse_counts[:, None] / size, len(first), axis=1)
            contrasts[first, np.arange(len(first))] += 1.0
            # Effects are known up to a constant, for each group of models that share items: the
            # ridge makes the system solvable.
            ridge = _RIDGE * size * np.eye(n_models)
            solved = np.linalg.solve(
                self.laplacian + ridge, np.column_stack([self.right_side, contrasts])
            )
            effect, of_effects = solved[:, 0], (contrasts * solved[:, 1:]).sum(axis=0)
            level = self.sum_of_item_means - float(effect @ self.inverse_counts)
            level /= size
            freedom = int(self.counts.sum()) - self.n_scored_items - n_models + 1
            squares = max(self.within_squares - float(effect @ self.right_side), 0.0)
            estimate = effect + (level if self.n_scored_items else 0.5)
            self._solution = EffectFit(
                np.clip(estimate, 0.0, 1.0),
                of_effects[same_as] + self.sum_of_inverse_counts / size**2,
                squares / max(freedom, 1),
            )
        return self._solution

    def expected(self, model: int) -> Floats:
        """Return a model's score on every item, or the sum of the effects if there is none."""
        estimate = self.solve().means
        effect = estimate - estimate.mean()
        present = np.isfinite(self.scores)
        count = present.sum(axis=0)
        sums = np.where(present, self.scores - effect[:, None], 0.0).sum(axis=0)
        level = float(estimate.mean())
        ease = np.divide(sums, count, out=np.full(len(count), level), where=count > 0)
        scored, predicted = self.scores[model], np.clip(ease + effect[model], 0.0, 1.0)
        return np.asarray(np.where(np.isfinite(scored), scored, predicted))

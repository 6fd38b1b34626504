"""Models and items of the method "sample": least-squares effects.

The effect of a model is how much it scores above others on the same items, that of an item how much
higher scores on it are.
"""

from __future__ import annotations

import numpy as np

from ...metrics.scale import Floats
from ..belief import Indices

_RIDGE = 1e-12
#: Answers from which those that wait are added to the normal equations.
_MOST_WAITING = 64


def correction_variances(
    pair_variance: Floats, pair_items: Floats, n: Indices, n_scored_items: int
) -> Floats:
    """Return the variance that a model's mean has because other models stand for it on some items.

    On items that a model has not had, the mean ``sum w y_i`` of those that have had them stands for
    its score ``y``. The weight ``w`` of each is in proportion to how many items more it has had.
    The correction has the variance of ``y - sum w y_i`` on an item, times
    ``1 / n - 1 / n_scored_items``, with

        Var(y - sum w y_i) = sum w Var(y - y_i) - sum w_i w_j Var(y_i - y_j) / 2.

    It is a variance of each model by itself: how well the others stand for one says nothing of how
    well they stand for another.

    Parameters
    ----------
    pair_variance, pair_items : ndarray of shape (n_models, n_models)
        Variances of two models' mean differences, as of a population, and the items behind each.
    n : ndarray of shape (n_models,)
        Items of each model.
    n_scored_items : int
        Items that some model has.

    Returns
    -------
    ndarray of shape (n_models,)
        At most 1, which it is for a model that lacks items and has fewer than two in common with
        each other model.

    Examples
    --------
    >>> of_mean, items = np.array([[0.0, 0.04], [0.04, 0.0]]), np.array([[9, 5], [5, 5]])
    >>> correction_variances(of_mean, items, np.array([9, 5]), 9).round(4).tolist()
    [0.0, 0.0178]
    """
    compared = (pair_items > 1.0) & ~np.eye(len(n), dtype=bool)
    # The variance of a pair's difference on a single item.
    of_pair = np.where(compared, pair_variance, 0.0) * pair_items
    # At least one item more: failures may leave models equally many items, but other ones.
    weight = np.where(compared, np.maximum(n - n[:, None], 1.0), 0.0)
    weight /= np.maximum(weight.sum(axis=1, keepdims=True), 1.0)
    from_each = (weight * of_pair).sum(axis=1)
    among_others = ((weight @ of_pair) * weight).sum(axis=1)
    # The two sums are of different items: by chance the second may be larger. Half of the first
    # stays at least.
    variance_on_item = from_each - 0.5 * np.minimum(among_others, from_each)
    variance = variance_on_item * (1.0 / np.maximum(n, 1) - 1.0 / max(n_scored_items, 1))
    alone = ~compared.any(axis=1) & (n < n_scored_items)
    return np.where(alone, 1.0, np.clip(variance, 0.0, 1.0))


class Effects:
    """The least-squares fit of model and item effects, updated score by score.

    A model's score on an item is its effect ``a_m`` plus the item's ``b_i``. With ``k_i`` models
    that have item ``i``, and bars for means over these, the effects of items drop out of the normal
    equations, one for each model, whose sums are over its items:

        sum (a_m - mean of a over i's models) = sum (y_mi - ybar_i).

    The mean of all ``b_i`` is ``(sum ybar_i - sum over m of a_m sum 1 / k_i)`` over the number of
    items.

    Parameters
    ----------
    n_models, n_items : int

    Attributes
    ----------
    scores : ndarray of shape (n_models, n_items)
        NaN where there is none.
    laplacian, right_side : ndarray
        The normal equations: ``laplacian @ a = right_side``.
    inverse_counts : ndarray of shape (n_models,)
        ``sum 1 / k_i`` over each model's items.
    sum_of_item_means : float
        ``sum ybar_i``.
    counts : ndarray of int, shape (n_models,)
        Items of each model.
    n_scored_items : int
        Items that some model has.
    """

    def __init__(self, n_models: int, n_items: int) -> None:
        self.scores = np.full((n_models, n_items), np.nan)
        self.laplacian = np.zeros((n_models, n_models))
        self._waiting: list[tuple[float, Floats]] = []
        self.right_side, self.inverse_counts = np.zeros((2, n_models))
        self.counts, self.n_scored_items = np.zeros(n_models, dtype=np.intp), 0
        self.sum_of_item_means = 0.0
        self._means: Floats | None = None

    def add_model(self) -> None:
        """Add a model without scores."""
        self._add_waiting()
        self.scores = np.pad(self.scores, ((0, 1), (0, 0)), constant_values=np.nan)
        self.laplacian = np.pad(self.laplacian, (0, 1))
        self.right_side = np.append(self.right_side, 0.0)
        self.inverse_counts = np.append(self.inverse_counts, 0.0)
        self.counts = np.append(self.counts, 0)
        self._means = None

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
        self._means = None

    def _connect(self, model: int, present: Floats) -> None:
        """Add a model to those that have an item, all of which it is compared with.

        `present` is 1 for each model that had the item before, else 0. For each of its ``k`` models
        an item adds 1 to the diagonal of `laplacian`, and ``-1 / k`` in the columns of all of them.
        """
        size, laplacian = float(present.sum()), self.laplacian
        share = 1.0 / (size + 1.0)
        # The models before have ``-1 / (k + 1)`` in place of ``-1 / k``: an update of rank one. Of
        # many answers together it takes little longer than of one, so it waits.
        if size:
            self._waiting.append((share / size, present))
        if len(self._waiting) >= _MOST_WAITING:
            self._add_waiting()
        laplacian[model] -= share * present
        laplacian[:, model] -= share * present
        laplacian[model, model] += 1.0 - share

    def _add_waiting(self) -> None:
        """Add to `laplacian` the updates of rank one that wait."""
        self.laplacian += self._waiting_updates()
        self._waiting.clear()

    def _waiting_updates(self) -> Floats | float:
        """Return the sum of the updates of rank one that wait."""
        if not self._waiting:
            return 0.0
        shares, vectors = map(np.array, zip(*self._waiting))
        return np.asarray((vectors.T * shares) @ vectors)

    def _add_item(self, column: Floats, sign: float) -> None:
        """Add the part of one item to all sums but `laplacian`; with `sign` -1 take it away.

        `column` has the item's score by model, NaN without one.
        """
        models = np.flatnonzero(np.isfinite(column))
        scores, n_models = column[models], len(models)
        if not n_models:
            return
        mean = float(scores.sum()) / n_models
        self.right_side[models] += sign * (scores - mean)
        self.inverse_counts[models] += sign / n_models
        self.sum_of_item_means += sign * mean
        self.n_scored_items += int(sign)

    def means(self) -> Floats:
        """Return the estimated mean of each model over the items that some model has; (n_models,).

        A model without items gets the mean of the others. Groups of models that have no item in
        common cannot be compared: the models of each group get the same mean on average.
        """
        if self._means is None:
            size = max(self.n_scored_items, 1)
            # Effects are known up to a constant, for each group of models that share items: the
            # ridge makes the system solvable, with effects of the mean 0 in each group.
            ridge = _RIDGE * size * np.eye(len(self.right_side))
            # Whoever reads changes nothing: updates added at other times would round otherwise.
            laplacian = self.laplacian + self._waiting_updates()
            effect = np.linalg.solve(laplacian + ridge, self.right_side)
            usual = (self.sum_of_item_means - float(effect @ self.inverse_counts)) / size
            self._means = np.clip(effect + (usual if self.n_scored_items else 0.5), 0.0, 1.0)
        return self._means

    def expected(self, model: int) -> Floats:
        """Return a model's score on every item, or its effect plus the item's if it has none."""
        estimate = self.means()
        usual = float(estimate.mean())
        effect = estimate - usual
        # An item's effect is the mean of its scores less the models' effects; without scores, the
        # usual one.
        present = np.isfinite(self.scores)
        count = present.sum(axis=0)
        sums = np.where(present, self.scores - effect[:, None], 0.0).sum(axis=0)
        ease = np.divide(sums, count, out=np.full(len(count), usual), where=count > 0)
        scored, predicted = self.scores[model], np.clip(ease + effect[model], 0.0, 1.0)
        return np.asarray(np.where(np.isfinite(scored), scored, predicted))

"""Sums, counts and extremes of a score table by model and by item, in one pass over it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Overview:
    """A score table's sums, counts and extremes, with no response model; scores on [0, 1].

    Attributes
    ----------
    model_mean, model_count : ndarray of shape (n_models,)
        Mean of the scores that a model has (NaN where none), and how many.
    item_sum, item_count, item_low, item_high : ndarray of shape (n_items,)
        Extremes are NaN where no model has a score.
    """

    model_mean: Floats
    model_count: Floats
    item_sum: Floats
    item_count: Floats
    item_low: Floats
    item_high: Floats

    @property
    def whole(self) -> bool:
        """Whether no score is missing."""
        return bool((self.item_count == len(self.model_mean)).all())

    @classmethod
    def of(cls, parts: Iterable[tuple[slice, Floats]], n_models: int, n_items: int) -> Overview:
        """Look at a table in the parts that `ScoreTable.parts` gives."""
        mean, per_model = np.full(n_models, np.nan), np.zeros(n_models)
        total, count = np.zeros(n_items), np.zeros(n_items)
        low, high = np.full(n_items, np.nan), np.full(n_items, np.nan)
        for at, scores in parts:
            np.fmin(low, np.fmin.reduce(scores, axis=0), out=low)
            np.fmax(high, np.fmax.reduce(scores, axis=0), out=high)
            seen = np.isfinite(scores)
            scores[~seen] = 0.0
            here = seen.sum(axis=1)
            np.divide(scores.sum(axis=1), here, out=mean[at], where=here > 0)
            per_model[at] = here
            total += scores.sum(axis=0)
            count += seen.sum(axis=0)
        return cls(mean, per_model, total, count, low, high)

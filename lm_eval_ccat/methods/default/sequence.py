"""One sequence of items for all models of a ranking: chosen ones, and draws of known probability.

Every model gets the items in this order; one that lags takes the next, one that is ahead makes it
grow. A draw takes an item that is not in the sequence yet, with a probability that goes with the
standard deviation expected of its residual; it is recorded, given all that came before. For
residuals ``r_i`` of any model from expectations that do not depend on the draw (0 where the score
was known),

    E ( r_i / p_i | all before )  =  sum over items not in the sequence of r,

whatever rule chose items or decided to draw (Des Raj 1956). Each draw so gives an unbiased estimate
of a known part of the same total, and the estimates, a martingale less its mean, are averaged with
weights that are known before each draw: one over the variance expected. With equal probabilities
the average is as good as a simple random sample's mean.

References
----------
D. Raj, "Some Estimators in Sampling with Varying Probabilities without Replacement", Journal of the
American Statistical Association 51 (1956).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


class Sequence:
    """The items asked so far, in order.

    Parameters
    ----------
    n_items : int
    seed : int
    kept : ndarray of bool, shape (n_items,), optional
        Items that may be in the sequence; default all.

    Attributes
    ----------
    items : list of int
    probabilities : list of float or None
        None for chosen items.
    weights : list of float
        Of the draws; 0 for chosen items.
    where : dict of int to int
        The place of each item.
    left : ndarray of bool, shape (n_items,)
        Items that may be in the sequence and are not.
    n_drawn : int
    """

    def __init__(self, n_items: int, seed: int, kept: NDArray[np.bool_] | None = None) -> None:
        self._seed = seed
        self.left = np.ones(n_items, dtype=bool) if kept is None else kept.copy()
        self.items: list[int] = []
        self.probabilities: list[float | None] = []
        self.weights: list[float] = []
        self.where: dict[int, int] = {}
        self.n_drawn = 0

    def __len__(self) -> int:
        return len(self.items)

    def draw(self, size: Floats) -> tuple[int, float]:
        """The item that a draw takes now, and its probability; nothing changes.

        Parameters
        ----------
        size : ndarray of shape (n_items,)
            What probabilities go with, above 0.

        Examples
        --------
        >>> Sequence(4, seed=0).draw(np.array([1.0, 1.0, 1.0, 1.0]))[1]
        0.25
        """
        below = np.cumsum(np.where(self.left, size, 0.0))
        x = np.random.default_rng([self._seed, len(self.items)]).random() * below[-1]
        item = int(np.searchsorted(below, x, side="right"))
        return item, float(size[item] / below[-1])

    def weight(self, size: Floats) -> float:
        """Of a draw that falls now: one over the variance expected of its estimate."""
        left = size[self.left]
        return 1.0 / max(float(left.sum() ** 2 - left @ left), 1e-12 * float(left @ left), 1e-300)

    def append(self, item: int, probability: float | None, weight: float) -> None:
        """Put an item at the end."""
        self.where[item] = len(self.items)
        self.items.append(item)
        self.probabilities.append(probability)
        self.weights.append(weight)
        self.left[item] = False
        self.n_drawn += probability is not None

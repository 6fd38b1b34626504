"""Random draws that measure what the response model misses.

Calibration finds an error of variance ``m`` that more items of the same kind do not cure: where a
model departs from all the bank knows, selected items show only how it does on the items selection
likes. Items drawn at random show how it does on the rest. With ``B`` the mean departure over the
items not seen, prior ``B ~ N(0, m)``, and ``q`` random draws whose residuals ``y - mu`` have the
variance ``s``,

    E B = m / (m + s/q) x mean residual,        Var B = 1 / (1/m + q/s),

and the estimate of the full-benchmark mean moves by ``(1 - n/N) E B``. A random item is worth the
fall of ``Var B`` besides what any item tells; it is drawn when that beats the best selected item.
So a bank without misfit never draws, and a bank with much of it ends as a random sample with the
response model as its control variate.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..adaptive_test import Floats, Mask


class Probe:
    """The random draws of one model.

    Parameters
    ----------
    order : ndarray of int, shape (n_items,)
        A random order of all items. Models of one ranking share it, so that their draws are the
        same items and the difference of two models is free of the items' own error.
    m : float
        Variance of the mean departure over all items, on the squared scale of scores.
    """

    def __init__(self, order: NDArray[np.intp], m: float) -> None:
        self._order = order
        self._next = 0
        self._m = m
        self.drawn: set[int] = set()
        self.told: list[int] = []
        self._weight, self._mean, self._variance = 0.0, 0.0, m

    @property
    def departure(self) -> float:
        """``E B``."""
        return self._weight * self._mean

    @property
    def variance(self) -> float:
        """``Var B``."""
        return self._variance

    @property
    def influence(self) -> float:
        """How much ``E B`` moves per unit of one drawn score."""
        return self._weight / len(self.told) if self.told else 0.0

    def worth(self, n_pending: int, spread: float) -> float:
        """Expected fall of ``Var B`` from one more draw.

        Parameters
        ----------
        n_pending : int
            Draws whose scores are not known yet; taken as known.
        spread : float
            Variance ``s`` of one residual.
        """
        if self._m <= 0.0 or spread <= 0.0:
            return 0.0
        q = len(self.told) + n_pending
        return 1.0 / (1.0 / self._m + q / spread) - 1.0 / (1.0 / self._m + (q + 1) / spread)

    def draw(self, available: Mask) -> int:
        """The next item of the order that is available."""
        while self._next < len(self._order) and not available[self._order[self._next]]:
            self._next += 1
        if self._next == len(self._order):  # an item was given back after it was passed
            self._next = 0
            return self.draw(available)
        item = int(self._order[self._next])
        self.drawn.add(item)
        return item

    def learn(self, item: int) -> None:
        """Count an item whose score is known now, if it was drawn."""
        if item in self.drawn:
            self.told.append(item)

    def measure(self, residuals: Floats, spread: float) -> None:
        """Take the residuals of the drawn items at the present ability.

        Parameters
        ----------
        residuals : ndarray of shape (len(told),)
        spread : float
            As `worth` has it.
        """
        q = len(self.told)
        if not q or self._m <= 0.0 or spread <= 0.0:
            return
        self._weight = self._m / (self._m + spread / q)
        self._mean = float(residuals.mean())
        self._variance = 1.0 / (1.0 / self._m + q / spread)

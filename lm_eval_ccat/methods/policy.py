"""What a method decides in a ranking: the order, its confidence, and what to spend on next."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from .adaptive_test import AdaptiveTest

Floats = NDArray[np.float64]


class Policy(ABC):
    """The statistical side of a `Ranker`: several adaptive tests seen together.

    The ranker keeps the books (what was asked, told, spent, what is in flight); the policy
    answers its questions. Models are positions ``0 .. n_models - 1``.

    Attributes
    ----------
    tests : list of AdaptiveTest
        One per model.
    warmup_ignores_budget : bool
        Whether the warm-up is administered whatever the budget.
    affords_mean : bool
        A model stays a candidate while the *mean* price of its remaining items fits the budget
        left (the paper's rule); else while its cheapest does, and only items that fit are chosen.
    """

    tests: list[AdaptiveTest]
    warmup_ignores_budget = False
    affords_mean = False

    @abstractmethod
    def location(self, model: int) -> float:
        """What the order sorts by, largest first."""

    @abstractmethod
    def adjacent(self, order: Sequence[int]) -> Floats:
        """``P(order[i] better than order[i + 1])``; shape (len(order) - 1,)."""

    @abstractmethod
    def pairwise(self) -> Floats:
        """``P(i better than j)``; shape (n_models, n_models), the diagonal 1/2."""

    @abstractmethod
    def priority(self, model: int, pending: Sequence[int], price: float) -> float:
        """How much the next item is worth if `model` gets it; the largest is asked.

        Parameters
        ----------
        model : int
        pending : sequence of int
            Items of `model` in flight.
        price : float
            Price of one unit of this model, above 0.
        """

    def select(
        self,
        model: int,
        available: NDArray[np.bool_],
        pending: Sequence[int],
        price: Floats,
    ) -> int:
        """The item `model` gets next (a position in bank order)."""
        return self.tests[model].select(available, pending, price)

    def shortlist(
        self,
        model: int,
        available: NDArray[np.bool_],
        pending: Sequence[int],
        price: Floats,
        k: int,
    ) -> list[int]:
        """The `k` items of which `model` gets one next, best first."""
        return self.tests[model].shortlist(available, pending, price, k)

    def standing(self, model: int) -> tuple[float, float]:
        """Where `model` stands on the scale of `location`, and the variance of that."""
        test = self.tests[model]
        return test.estimate, test.standard_error**2

    def fixed_points(self, mean: Floats, standard_error: Floats) -> tuple[Floats, Floats]:
        """Where models of known mean score stand on the scale of `location`, and the variance.

        Parameters
        ----------
        mean, standard_error : ndarray of shape (n_known,)
            Mean score over the items that may be administered, on [0, 1].
        """
        return mean, standard_error**2

    def score_differences(self) -> tuple[Floats, Floats]:
        """Estimates of the full-benchmark means, and the variances of their differences.

        Returns
        -------
        estimates : ndarray of shape (n_models,)
        variances : ndarray of shape (n_models, n_models)
        """
        v = np.array([t.standard_error**2 for t in self.tests])
        return np.array([t.estimate for t in self.tests]), v[:, None] + v[None, :]

    def probability(self, z: Floats) -> Floats:
        """``P(better)`` for differences in standard errors."""
        return np.asarray(ndtr(z))

    def item_cap(self, n_kept: int) -> int:
        """Items per model where the user gives no ``max_items``."""
        return n_kept

    def undecided(self, order: Sequence[int], confidence: float) -> NDArray[np.bool_]:
        """Which adjacent pairs of `order` are not decided yet; shape (len(order) - 1,)."""
        tail = (1.0 - confidence) / 2.0
        p = self.adjacent(order)
        return np.asarray((p >= tail) & (p <= 1.0 - tail))

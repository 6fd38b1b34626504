"""One model's adaptive test: what every response model must be able to do for the ranker."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ..bank import ItemBank

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]


class AdaptiveTest(ABC):
    """Posterior of one model's ability, item selection, and the estimate of its full score.

    Items are positions in bank order, scores are on [0, 1] with higher better. An instance knows
    nothing of budgets, other models or time; its state is a function of the bank and of the
    sequence of `update` calls.

    Attributes
    ----------
    bank : ItemBank
    items : list of int
        Items administered, in order.
    scores : list of float
        Their scores.
    """

    def __init__(self, bank: ItemBank) -> None:
        self.bank = bank
        self.items: list[int] = []
        self.scores: list[float] = []

    @property
    @abstractmethod
    def ability(self) -> float:
        """Posterior location of the ability, in logits."""

    @property
    @abstractmethod
    def ability_se(self) -> float:
        """Posterior standard error of the ability, in logits."""

    @property
    @abstractmethod
    def estimate(self) -> float:
        """Estimated mean score over the full benchmark, in [0, 1]."""

    @property
    @abstractmethod
    def standard_error(self) -> float:
        """Standard error of `estimate`, in [0, 1]."""

    @property
    def curable_variance(self) -> float:
        """What more items lower of the squared standard error: all of it, unless overridden."""
        return self.standard_error**2

    @abstractmethod
    def expected(self) -> Floats:
        """Expected score of every item at the current ability; shape (n_items,)."""

    def predictive_variance(self, item: int) -> float:
        """Variance that the score of `item` is expected to have, ability uncertain.

        The default is the largest that a score in [0, 1] of that expectation can have.
        """
        mu = float(self.expected()[item])
        return mu * (1.0 - mu)

    @abstractmethod
    def select(
        self,
        available: Mask,
        pending: Sequence[int] = (),
        price: Floats | None = None,
    ) -> int:
        """The item to administer next.

        Parameters
        ----------
        available : ndarray of bool, shape (n_items,)
            Items that may be chosen; at least one.
        pending : sequence of int
            Items already asked whose scores are not known yet. The choice takes their
            information as given, so that the items of one batch are not redundant.
        price : ndarray of shape (n_items,), optional
            Price of each item, for methods that weigh information against it.

        Returns
        -------
        int
            A position in bank order.
        """

    def shortlist(
        self,
        available: Mask,
        pending: Sequence[int] = (),
        price: Floats | None = None,
        k: int = 1,
    ) -> list[int]:
        """The `k` items that `select` would choose first, best first; all of them if fewer.

        Parameters
        ----------
        available, pending, price
            As `select` has them.
        k : int, optional
        """
        left = available.copy()
        best: list[int] = []
        while len(best) < k and left.any():
            best.append(self.select(left, pending, price))
            left[best[-1]] = False
        return best

    @abstractmethod
    def _learn(self, item: int, score: float) -> None:
        """Move the posterior by one score."""

    def update(self, item: int, score: float) -> None:
        """Take in the score of one item.

        Raises
        ------
        ValueError
            The score is not in [0, 1], or the item was administered before.
        """
        if not 0.0 <= score <= 1.0:
            raise ValueError(f"score {score!r} of item {item} is not in [0, 1]")
        if item in self.items:
            raise ValueError(f"item {item} was administered before")
        self._learn(item, score)
        self.items.append(item)
        self.scores.append(score)


def largest(values: Floats, k: int) -> list[int]:
    """Positions of the `k` largest finite values, largest first, the first of equals first.

    Examples
    --------
    >>> largest(np.array([1.0, 3.0, -np.inf, 3.0]), 2)
    [1, 3]
    """
    k = min(k, int(np.isfinite(values).sum()))
    floor = np.partition(values, len(values) - k)[len(values) - k]
    near = np.flatnonzero(values >= floor)
    return [int(i) for i in near[np.argsort(-values[near], kind="stable")][:k]]

"""What a ranker writes down of each model."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from .audit import Draw


@dataclass
class Seat:
    """The books of one model.

    Attributes
    ----------
    available : ndarray of bool, shape (n_items,)
        Items that may still be asked.
    told, pending, failed
        Items by what became of them; `pending` with the cost committed.
    measured : (float, float)
        Cost and units of the items told with their cost.
    asked : int
        Items ever asked, those given back included.
    probability
        Of the items that were drawn at random, at the moment of the draw.
    ahead : float or None
        Units of the item that must fit the budget, while it stays so.
    """

    name: str
    price: float
    available: NDArray[np.bool_]
    told: list[int] = field(default_factory=list)
    pending: dict[int, float] = field(default_factory=dict)
    failed: dict[int, str] = field(default_factory=dict)
    spent: float = 0.0
    measured: tuple[float, float] = (0.0, 0.0)
    dropped: str | None = None
    asked: int = 0
    probability: dict[int, float] = field(default_factory=dict)
    draws: list[Draw] = field(default_factory=list)
    ahead: float | None = None

    @property
    def load(self) -> int:
        """Items told and in flight."""
        return len(self.told) + len(self.pending)

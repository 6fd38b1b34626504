"""All that the method "default" needs of a bank: item curves, and departures from them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from .departures import Departures, Range
from .fractional import FractionalItems

#: Items before the first draw: with fewer the ability is too rough to choose by (replays).
FIRST = 10
#: Share of draws with a bank of many models, found by replays: what these draws are to find, models
#: unlike all of the bank, is rare then.
SHARE_OF_MANY = 0.2


@dataclass(frozen=True)
class DefaultModel:
    """What a bank of this method holds.

    Attributes
    ----------
    items : FractionalItems
    departures : Departures
    centre : float
        Ability at the items' origin, in logits.
    share : float, optional
        Share of draws among the items that follow the first ones, or 1 where all items are drawn;
        else at least half, and more where a draw tells more.
    kept : ndarray of bool, shape (n_items,), optional
        Items that may be asked (default: all); what is drawn among them stands for the others.
    """

    items: FractionalItems
    departures: Departures
    centre: float = 0.0
    share: float | None = None
    kept: NDArray[np.bool_] | None = None

    @property
    def first(self) -> int:
        """Items before the first draw."""
        return 0 if self.share == 1.0 else FIRST

    @cached_property
    def range(self) -> Range:
        """Abilities that the bank knows."""
        x = self.items.abilities
        return Range(float(x.min()), float(x.max()), self.items.spread)

"""All that the method "default" needs of a bank: item curves, and departures from them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from .departures import Departures, Range
from .fractional import FractionalItems


@dataclass(frozen=True)
class DefaultModel:
    """What a bank of this method holds.

    Attributes
    ----------
    items : FractionalItems
    departures : Departures
    centre : float
        Ability at the items' origin, in logits.
    """

    items: FractionalItems
    departures: Departures
    centre: float = 0.0

    @cached_property
    def range(self) -> Range:
        """Abilities that the bank knows."""
        x = self.items.abilities
        return Range(float(x.min()), float(x.max()), self.items.spread)

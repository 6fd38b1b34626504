"""The adaptive test of the method "default": one model of a field, alone or with others."""

from __future__ import annotations

from collections.abc import Sequence

from ...bank import ItemBank
from ..adaptive_test import AdaptiveTest, Floats, Mask
from .calibration import model_of
from .field import Field

ITEM_PRICE = 0.5


class DefaultTest(AdaptiveTest):
    """Adaptive test by the fractional logit model, corrected by draws.

    Parameters
    ----------
    bank : ItemBank
        A bank of method "default".
    item_price : float, optional
        Power of an item's price that the gain of a chosen item is divided by; 0 ignores prices.
        The square root is between buying the most informative item and buying the cheapest.
    seed : int, optional
        Of the draws.
    draws : bool, optional
        Whether items are drawn at all.
    field, position : Field and int, optional
        The ranking that the model is part of, and its place in it; else it is alone.
    """

    def __init__(
        self,
        bank: ItemBank,
        *,
        item_price: float = ITEM_PRICE,
        seed: int = 0,
        draws: bool = True,
        field: Field | None = None,
        position: int = 0,
    ) -> None:
        super().__init__(bank)
        self._field = field or Field(model_of(bank), 1, seed, item_price, draws)
        self._at = position
        self._posterior = self._field.members[position].posterior
        self._drawn: dict[int, float] = {}  # what `select` would draw, until it is told

    @property
    def ability(self) -> float:
        return float(self._posterior.z[0]) + self._field.model.centre

    @property
    def ability_se(self) -> float:
        d, look = self._field.model.departures, self._field.look()
        variance = float(self._posterior.covariance[0, 0])
        return float((d.inflation * d.single[0] * look.level[self._at] * variance) ** 0.5)

    @property
    def estimate(self) -> float:
        return float(self._field.result().estimate[self._at])

    @property
    def standard_error(self) -> float:
        return float(self._field.result().variance[self._at] ** 0.5)

    @property
    def curable_variance(self) -> float:
        """What more items lower of the squared error: all of it, since draws cure misfit too."""
        return float(self._field.result().variance[self._at])

    def expected(self) -> Floats:
        mu: Floats = self._posterior.mu.copy()
        return mu

    def predictive_variance(self, item: int) -> float:
        d, look = self._field.model.departures, self._field.look()
        level = float(look.level[self._at])
        return d.noise * self._posterior.predictive_variance(item) + d.floor * level

    def select(
        self, available: Mask, pending: Sequence[int] = (), price: Floats | None = None
    ) -> int:
        return self.shortlist(available, pending, price, 1)[0]

    def shortlist(
        self,
        available: Mask,
        pending: Sequence[int] = (),
        price: Floats | None = None,
        k: int = 1,
    ) -> list[int]:
        """As the base class has it; an item of the sequence, or a draw, stands alone."""
        found, probability = self._field.next(self._at, available, price, k, pending)
        if probability is not None:
            self._drawn[found[0]] = probability
        return found

    def _learn(self, item: int, score: float) -> None:
        if self._field.members[self._at].unasked[item]:
            self._field.place(self._at, item, self._drawn.pop(item, None))
        self._field.learn(self._at, [item], [score])

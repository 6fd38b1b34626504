"""The adaptive test of the method "default": the item that tells most of the mean score."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..bank import ItemBank
from ..bank.default import DefaultModel, model_of
from ..response.posterior import ScorePosterior
from .base import AdaptiveTest, Floats, Mask


class DefaultTest(AdaptiveTest):
    """Adaptive test by the fractional logit model.

    The estimate is the mean of the scores seen and of the expected scores of all other items;
    the next item is the one whose score is expected to lower the variance of that estimate most.
    The standard error is the posterior's, widened by what calibration found on models it left out
    (`Misfit`); it is 0 once every item was seen.

    Parameters
    ----------
    bank : ItemBank
        A bank of method "default".
    item_price : float, optional
        Power of an item's price that its gain is divided by; 0 ignores prices.
    model : DefaultModel, optional
        What `model_of` read from the bank, where several tests share it.
    """

    def __init__(
        self, bank: ItemBank, *, item_price: float = 0.0, model: DefaultModel | None = None
    ) -> None:
        super().__init__(bank)
        self._model = model_of(bank) if model is None else model
        self._posterior = ScorePosterior(self._model.items)
        self._item_price = item_price

    @property
    def ability(self) -> float:
        return float(self._posterior.z[0]) + self._model.centre

    @property
    def ability_se(self) -> float:
        variance = float(self._posterior.covariance[0, 0])
        return (self._model.misfit.c * self._level() * variance) ** 0.5

    @property
    def estimate(self) -> float:
        return self._posterior.estimate

    @property
    def standard_error(self) -> float:
        return self.error_variance**0.5

    @property
    def error_variance(self) -> float:
        """Expected squared error of `estimate`."""
        p = self._posterior
        return self._model.misfit.variance(p.variance, p.unseen_share, self._position())

    @property
    def curable_variance(self) -> float:
        """The part of `error_variance` that more items lower."""
        return self._model.misfit.c * self._level() * self._posterior.variance

    def error_profile(self) -> Floats:
        """Which items the estimate's error comes from: a unit vector of shape (n_items,).

        The product of two models' profiles is the correlation their errors would have if an
        item's error were the same for both. All 0 before the first score.
        """
        p = self._posterior
        profile = p.influence() * np.sqrt(p.kappa * p.w)
        norm = float(np.linalg.norm(profile))
        return np.asarray(profile / norm if norm > 0.0 else profile)

    def influence(self) -> Floats:
        """How much the estimate moves per unit of each seen score; shape (n_items,)."""
        return self._posterior.influence()

    def expected(self) -> Floats:
        return self._posterior.mu.copy()

    def predictive_variance(self, item: int) -> float:
        return self._model.misfit.c * self._level() * self._posterior.predictive_variance(item)

    def select(
        self,
        available: Mask,
        pending: Sequence[int] = (),
        price: Floats | None = None,
        shared: tuple[float, Floats] | None = None,
    ) -> int:
        """As the base class has it; `shared` is described at `ScorePosterior.gains`."""
        gain = self._posterior.gains(pending, shared)
        if self._item_price and price is not None and (price > 0.0).all():
            gain = gain / price**self._item_price
        return int(np.argmax(np.where(available, gain, -np.inf)))

    def _learn(self, item: int, score: float) -> None:
        self._posterior.learn(item, score)

    def _position(self) -> float:
        return self._model.range.position(float(self._posterior.z[0]))

    def _level(self) -> float:
        return self._model.misfit.level(self._position())

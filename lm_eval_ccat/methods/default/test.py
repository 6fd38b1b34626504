"""The adaptive test of the method "default": the item that tells most of the mean score."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ...bank import ItemBank
from ..adaptive_test import AdaptiveTest, Floats, Mask, largest
from .calibration import DefaultModel, model_of
from .posterior import ScorePosterior
from .probe import Probe

ITEM_PRICE = 0.5
_CAUTION = 0.6  # from replays of items priced by length


class DefaultTest(AdaptiveTest):
    """Adaptive test by the fractional logit model.

    The estimate is the mean of the scores seen and of the expected scores of all other items;
    the next item is the one whose score is expected to lower the variance of that estimate most,
    or a random one where that tells more of what the response model misses (`Probe`).
    The standard error is the posterior's, widened by what calibration found on models it left out
    (`Misfit`); it is 0 once every item was seen.

    Parameters
    ----------
    bank : ItemBank
        A bank of method "default".
    item_price : float, optional
        Power of an item's price that its gain is divided by; 0 ignores prices. The square root
        is between buying whatever tells most and buying only what is cheap.
    model : DefaultModel, optional
        What `model_of` read from the bank, where several tests share it.
    order : ndarray of int, shape (n_items,), optional
        Random order of items that random draws follow, where several tests share it.
    seed : int, optional
        Of that order, where none is given.
    probe : bool, optional
        Whether random items are drawn at all.
    """

    def __init__(
        self,
        bank: ItemBank,
        *,
        item_price: float = ITEM_PRICE,
        model: DefaultModel | None = None,
        order: NDArray[np.intp] | None = None,
        seed: int = 0,
        probe: bool = True,
    ) -> None:
        super().__init__(bank)
        self._model = model_of(bank) if model is None else model
        self._posterior = ScorePosterior(self._model.items)
        self._item_price = item_price
        self._uneven: float | None = None  # relative spread of the items' prices, at most 1
        if order is None:
            order = np.random.default_rng(seed).permutation(bank.n_items)
        self._probing = probe and self._model.misfit.m > 0.0
        self._probe = Probe(order, self._model.misfit.m)

    @property
    def ability(self) -> float:
        return float(self._posterior.z[0]) + self._model.centre

    @property
    def ability_se(self) -> float:
        variance = float(self._posterior.covariance[0, 0])
        return (self._caution * self._model.misfit.c * self._level() * variance) ** 0.5

    @property
    def estimate(self) -> float:
        p = self._posterior
        return min(max(p.estimate + p.unseen_share * self._probe.departure, 0.0), 1.0)

    @property
    def standard_error(self) -> float:
        return self.error_variance**0.5

    @property
    def error_variance(self) -> float:
        """Expected squared error of `estimate`."""
        p = self._posterior
        return self._caution * self._model.misfit.variance(
            p.variance, p.unseen_share, self._position(), self._probe.variance
        )

    @property
    def curable_variance(self) -> float:
        """What more items lower of `error_variance`: about ``n + 1`` times what the next does."""
        p, c = self._posterior, self._model.misfit.c
        if not self._probing:
            return self._caution * self._level() * c * p.variance
        by_draws = p.unseen_share**2 * self._probe.worth(0, self._spread) * (len(self.items) + 1)
        return self._caution * self._level() * (c * p.variance + by_draws)

    def error_profile(self, influence: Floats) -> Floats:
        """Which items the estimate's error comes from: a unit vector of shape (n_items,).

        The product of two models' profiles is the correlation their errors would have if an
        item's error were the same for both. All 0 before the first score.

        Parameters
        ----------
        influence : ndarray of shape (n_items,)
            What `influence` returns.
        """
        p = self._posterior
        profile = influence * np.sqrt(p.kappa * p.w)
        norm = float(profile @ profile) ** 0.5
        return np.asarray(profile / norm if norm > 0.0 else profile)

    def influence(self) -> Floats:
        """How much the estimate moves per unit of each seen score; shape (n_items,)."""
        out = self._posterior.influence()
        out[self._probe.told] += self._posterior.unseen_share * self._probe.influence
        return out

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
        return self.shortlist(available, pending, price, 1, shared)[0]

    def shortlist(
        self,
        available: Mask,
        pending: Sequence[int] = (),
        price: Floats | None = None,
        k: int = 1,
        shared: tuple[float, Floats] | None = None,
    ) -> list[int]:
        """As the base class has it; a random draw stands alone, whatever `k`."""
        gain = self._posterior.gains(pending, shared)
        if self._item_price and price is not None:
            gain = gain / self._relative(price) ** self._item_price
        left = np.where(available, gain, -np.inf)
        best = int(np.argmax(left))
        if self._probing:
            n_drawn = sum(i in self._probe.drawn for i in pending)
            scale = self._model.misfit.c / self.bank.n_items**2
            worth = self._posterior.unseen_share**2 * self._probe.worth(n_drawn, self._spread)
            if scale * float(gain[available].mean()) + worth > scale * float(gain[best]):
                return [self._probe.draw(available)]
        return [best] if k == 1 else largest(left, k)

    def _relative(self, price: Floats) -> Floats | float:
        """Prices relative to their mean; 1 where they do not differ or some item is free."""
        mean = float(price.mean())
        if self._uneven is None:
            low = float(price.min())
            spread = float(price.std()) / mean if low > 0.0 else 0.0
            self._uneven = min(spread, 1.0) if spread > 1e-9 else 0.0
        return price / mean if self._uneven else 1.0

    @property
    def _caution(self) -> float:
        """Growth of variances where prices had a say in which items were asked.

        Cheap items are of another kind than those the calibration's self-check asked for.
        """
        return 1.0 + _CAUTION * self._item_price * (self._uneven or 0.0)

    def _learn(self, item: int, score: float) -> None:
        p = self._posterior
        p.learn(item, score)
        if not self._probing:
            return
        probe = self._probe
        probe.learn(item)
        told = np.array(probe.told, dtype=np.intp)
        of_item = dict(zip(p.seen, p.scores))
        probe.measure(np.array([of_item[i] for i in probe.told]) - p.mu[told], self._spread)

    @property
    def _spread(self) -> float:
        """Variance of the residual of an item drawn at random."""
        return self._model.misfit.c * self._posterior.unseen_noise

    def _position(self) -> float:
        return self._model.range.position(float(self._posterior.z[0]))

    def _level(self) -> float:
        return self._model.misfit.level(self._position())

"""The ranking of the method "default": by full-benchmark mean, with paired confidence."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtr

from ...bank import ItemBank
from ...errors import UsageError
from ..adaptive_test import AdaptiveTest
from ..policy import Choice, Differences, Floats, Policy
from .calibration import model_of
from .test import ITEM_PRICE, DefaultTest

_LEAST_VARIANCE = 1e-18


class DefaultPolicy(Policy):
    """Ranking by estimated full-benchmark mean.

    Two models that saw the same items share part of those items' errors, so that

        Var(t_a - t_b) = V_a + V_b - 2 rho o_ab sqrt(V_a V_b),

    with ``V`` the error variances, ``o_ab`` how much the two estimates rest on the same items
    (`DefaultTest.error_profile`), and ``rho`` measured by the calibration on pairs of models it
    left out; probabilities are Student's, with the degrees of freedom of that check. The next item
    goes where the expected loss from misordering falls fastest per price:
    the derivative of ``E |t_a - t_b| 1(order wrong)``, that is of ``sd psi(z)``, by ``V_a`` is
    ``phi(z_ab) / (2 sd_ab)``, and one more item lowers ``V_a`` by about ``V_a / (n + 1)``. The item
    itself is chosen for the difference from the closest rival.

    Parameters
    ----------
    bank : ItemBank
    n_models : int
    seed : int, optional
        Of the random draws that measure the misfit; all models share their order.
    pairing : bool, optional
        Use the correlation of errors on shared items.
    estimand : {"score", "ability"}, optional
        What the order is by; "ability" is for comparison.
    allocation : {"loss", "variance"}, optional
        Who is next: as above, or the largest variance per item and price, as the paper has it.
    item_price : float, optional
        Power of an item's price that its gain is divided by.
    probe : bool, optional
        Draw random items where they tell more of the misfit than the best selected one.
    """

    def __init__(
        self,
        bank: ItemBank,
        n_models: int,
        *,
        seed: int = 0,
        pairing: bool = True,
        estimand: str = "score",
        allocation: str = "loss",
        item_price: float = ITEM_PRICE,
        probe: bool = True,
    ) -> None:
        if estimand not in ("score", "ability"):
            raise UsageError(f"estimand {estimand!r} is neither 'score' nor 'ability'")
        if allocation not in ("loss", "variance"):
            raise UsageError(f"allocation {allocation!r} is neither 'loss' nor 'variance'")
        if not (math.isfinite(item_price) and item_price >= 0.0):
            raise UsageError(f"item_price {item_price!r} is not a number of at least 0")
        model = model_of(bank)
        order = np.random.default_rng(seed).permutation(bank.n_items)
        self._new_test = partial(
            DefaultTest, bank, item_price=item_price, model=model, order=order, probe=probe
        )
        self._default: list[DefaultTest] = []
        self.tests: list[AdaptiveTest] = []
        self._rho = model.misfit.rho if pairing else 0.0
        self._df = model.misfit.df
        self._by_ability = estimand == "ability"
        self._by_variance = allocation == "variance"
        self._known: list[int] = []  # items told when the model's row below was computed
        self._where = np.zeros(0)
        self._error = np.zeros(0)
        self._curable = np.zeros(0)
        self._profile = np.zeros((0, bank.n_items if self._rho else 0))
        self._influence = np.zeros_like(self._profile)
        self._shared = np.zeros((0, 0))
        self._pairs: tuple[Floats, Floats] | None = None
        self._told: list[list[int]] = []
        self._seen = -1  # items told, of all models, when all of this was computed
        for _ in range(n_models):
            self.add_model()

    def add_model(self) -> None:
        test = self._new_test()
        self._default.append(test)
        self.tests.append(test)
        self._told.append(test.items)
        self._known.append(-1)
        self._where, self._error, self._curable = (
            np.append(a, 0.0) for a in (self._where, self._error, self._curable)
        )
        self._profile, self._influence = (
            np.pad(a, ((0, 1), (0, 0))) for a in (self._profile, self._influence)
        )
        self._shared = np.pad(self._shared, (0, 1))
        self._seen = -1

    def item_cap(self, n_kept: int) -> int:
        """Half the items, as the paper has it: who is not told apart by then is called tied.

        A model alone may see them all, since nothing but its standard error stops it.
        """
        return n_kept if len(self.tests) == 1 else max(n_kept // 2, 1)

    def location(self, model: int) -> float:
        self._refresh()
        return float(self._where[model])

    def standing(self, model: int) -> tuple[float, float]:
        self._refresh()
        return float(self._where[model]), float(self._error[model])

    def fixed_points(self, mean: Floats, standard_error: Floats) -> tuple[Floats, Floats]:
        if self._by_ability:
            raise UsageError("known models are placed by score, not with estimand='ability'")
        return mean, standard_error**2

    def adjacent(self, order: Sequence[int]) -> Floats:
        self._refresh()
        o = np.asarray(order, dtype=np.intp)
        return self.probability(self._distance()[0][o[:-1], o[1:]])

    def pairwise(self) -> Floats:
        self._refresh()
        return self.probability(self._distance()[0])

    def differences(self) -> Differences:
        if self._by_ability:
            return super().differences()
        self._refresh()
        variance = self._distance()[1] ** 2
        return Differences(self._where.copy(), variance, np.full(variance.shape, self._df))

    def probability(self, z: Floats) -> Floats:
        return np.asarray(stdtr(self._df, z))

    def priority(self, model: int, pending: Sequence[int], price: float) -> float:
        self._refresh()
        n = self._known[model] + len(pending)
        fall = self._curable[model] / ((n + 1) * price)
        if self._by_variance or len(self.tests) == 1:
            return float(fall)
        z, sd = self._distance()
        worth = np.exp(-0.5 * z[model] ** 2) / sd[model]
        worth[model] = 0.0
        return float(fall * (worth.sum() + 1e-12))

    def select(
        self,
        model: int,
        available: NDArray[np.bool_],
        pending: Sequence[int],
        price: Floats,
    ) -> Choice:
        return Choice(self.shortlist(model, available, pending, price, 1)[0])

    def shortlist(
        self,
        model: int,
        available: NDArray[np.bool_],
        pending: Sequence[int],
        price: Floats,
        k: int,
    ) -> list[int]:
        test, rival = self._default[model], self._rival(model)
        if rival is None:
            return test.shortlist(available, pending, price, k)
        return test.shortlist(available, pending, price, k, (self._rho, self._influence[rival]))

    def _rival(self, model: int) -> int | None:
        """The model hardest to tell from `model`, if sharing items with it helps at all."""
        self._refresh()
        if not self._rho or len(self.tests) == 1:
            return None
        z = np.abs(self._distance()[0][model])
        z[model] = np.inf
        return int(np.argmin(z))

    def _distance(self) -> tuple[Floats, Floats]:
        """Differences of all pairs in standard errors, and the standard errors."""
        if self._pairs is not None:
            return self._pairs
        sd = np.sqrt(self._error)
        variance = self._error[:, None] + self._error[None, :]
        variance = variance - 2.0 * self._rho * self._shared * (sd[:, None] * sd[None, :])
        out = np.sqrt(np.maximum(variance, _LEAST_VARIANCE))
        self._pairs = (self._where[:, None] - self._where[None, :]) / out, out
        return self._pairs

    def _refresh(self) -> None:
        """Bring up to date what depends on models that learned something."""
        told = sum(map(len, self._told))
        if told == self._seen:
            return
        self._seen, self._pairs = told, None
        for j, test in enumerate(self._default):
            if self._known[j] == len(test.items):
                continue
            self._known[j] = len(test.items)
            self._where[j] = test.ability if self._by_ability else test.estimate
            self._error[j] = test.ability_se**2 if self._by_ability else test.error_variance
            self._curable[j] = test.ability_se**2 if self._by_ability else test.curable_variance
            if self._rho:
                self._influence[j] = test.influence()
                self._profile[j] = test.error_profile(self._influence[j])
                row = self._profile @ self._profile[j]
                self._shared[j, :] = row
                self._shared[:, j] = row

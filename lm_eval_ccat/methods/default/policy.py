"""The ranking of the method "default": by full-benchmark mean, on one shared sequence of items."""

from __future__ import annotations

import math
from collections.abc import Sequence
from copy import copy

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtr, stdtrit

from ...bank import ItemBank
from ...errors import UsageError
from ..adaptive_test import AdaptiveTest
from ..policy import Choice, Differences, Drawn, Floats, Levers, Policy, decided_by_student
from .calibration import model_of
from .field import Field
from .joint import Result
from .test import ITEM_PRICE, DefaultTest

#: Scores (and draws) below which nothing is said of a model.
FEWEST_TO_FIND = 10
#: Models above which turns are decided on a joint look at all of them not after every answer, but
#: after one answer of every fifth of them: it takes 25 ms with 300 models.
FEW, SHARE_PER_LOOK = 50, 5
#: A departure that fewer than this share of new models shows is worth a word.
UNLIKE = 0.01


class DefaultPolicy(Policy):
    """Ranking by estimated full-benchmark mean.

    All models get a prefix of one sequence of chosen and drawn items (`Field`); estimates,
    variances of differences and their degrees of freedom are those of the field, probabilities are
    Student's. The next item goes where the expected loss from misordering falls fastest per price:
    the derivative of ``E |t_a - t_b| 1(order wrong)``, that is of ``sd psi(z)``, by ``V_a`` is
    ``phi(z_ab) / (2 sd_ab)``, and one more item lowers ``V_a`` by about ``V_a / (n + 1)``.

    Parameters
    ----------
    bank : ItemBank
    n_models : int
    seed : int, optional
        Of the draws.
    allocation : {"loss", "variance"}, optional
        Who is next: as above, or the largest variance per item and price, as the paper has it.
    item_price : float, optional
        Power of an item's price that the gain of a chosen item is divided by; what is drawn does
        not depend on prices.
    draws : bool, optional
        Whether items are drawn at all; without draws nothing corrects the bank.
    """

    def __init__(
        self,
        bank: ItemBank,
        n_models: int,
        *,
        seed: int = 0,
        allocation: str = "loss",
        item_price: float = ITEM_PRICE,
        draws: bool = True,
    ) -> None:
        if allocation not in ("loss", "variance"):
            raise UsageError(f"allocation {allocation!r} is neither 'loss' nor 'variance'")
        if not (math.isfinite(item_price) and item_price >= 0.0):
            raise UsageError(f"item_price {item_price!r} is not a number of at least 0")
        self._bank = bank
        self.draws = draws
        self._field = Field(model_of(bank), 0, seed, item_price, draws)
        self._by_variance = allocation == "variance"
        self._fixed: Result | None = None
        self.tests: list[AdaptiveTest] = []
        for _ in range(n_models):
            self.add_model()

    # -- what happened ------------------------------------------------------------------------

    def add_model(self) -> None:
        self._field.add_model()
        self.tests.append(DefaultTest(self._bank, field=self._field, position=len(self.tests)))

    def place(self, model: int, item: int, probability: float | None = None) -> None:
        self._field.place(model, item, probability)

    def unplace(self, model: int, item: int) -> None:
        self._field.members[model].unplace(item)

    def skip(self, model: int, item: int) -> None:
        self._field.members[model].fail(item)

    # -- what next ----------------------------------------------------------------------------

    def select(
        self,
        model: int,
        available: NDArray[np.bool_],
        pending: Sequence[int],
        price: Floats,
    ) -> Choice:
        found, probability = self._field.next(model, available, price, 1, pending)
        return Choice(found[0], probability)

    def shortlist(
        self,
        model: int,
        available: NDArray[np.bool_],
        pending: Sequence[int],
        price: Floats,
        k: int,
    ) -> list[int]:
        return self._field.next(model, available, price, k, pending)[0]

    def priority(self, model: int, pending: Sequence[int], price: float) -> float:
        return float(self.priorities([model], [pending], [price])[0])

    def priorities(
        self, models: Sequence[int], pending: Sequence[Sequence[int]], prices: Sequence[float]
    ) -> Floats:
        result, of = self._now(), np.array(models, dtype=np.intp)
        n = self._field.n_told[of] + np.array([*map(len, pending)], dtype=np.intp)
        fall = result.variance[of] / ((n + 1) * np.asarray(prices))
        if self._by_variance or len(self.tests) == 1:
            return np.asarray(fall)
        return np.asarray(fall * (result.loss[of] + 1e-12))

    # -- what is known ------------------------------------------------------------------------

    @property
    def answers_per_look(self) -> int:
        return 1 if len(self.tests) <= FEW else len(self.tests) // SHARE_PER_LOOK

    def still(self) -> DefaultPolicy:
        found = copy(self)
        found._fixed = self._now()
        return found

    def _now(self) -> Result:
        return self._field.result() if self._fixed is None else self._fixed

    def estimate(self, model: int) -> tuple[float, float]:
        result = self._now()
        return float(result.estimate[model]), float(result.variance[model] ** 0.5)

    def location(self, model: int) -> float:
        return float(self._now().estimate[model])

    def locations(self) -> Floats:
        return self._now().estimate

    def decided(self, level: float) -> NDArray[np.bool_]:
        return decided_by_student(self.differences(), level)

    def standing(self, model: int) -> tuple[float, float]:
        result = self._now()
        return float(result.estimate[model]), float(result.variance[model])

    def levers(self) -> Levers:
        """By the ability's posterior; draws that measured a departure make the slope smaller."""
        look, result, model = self._field.look(), self._field.result(), self._field.model
        d, n_items = model.departures, model.items.n_items
        at = [m.posterior for m in self._field.members]
        u = look.left / n_items
        before, whole = look.M.diagonal(), np.maximum(d.inflation * u * u, 1e-300)
        noise = look.S.diagonal() / np.maximum(look.left, 1.0)
        # What draws leave of the departures, and what of these the ability explains.
        after = np.clip(result.variance / whole - noise, 0.0, before)
        explained = np.minimum(d.single[0] * look.v * look.level / before, 1.0)
        share = after * explained * whole / np.maximum(result.variance, 1e-300)
        return Levers(
            np.array([p.z[0] for p in at]),
            np.array([p.covariance[0, 0] for p in at]),
            model.items.prior_sd**2,
            np.array([p.slope for p in at]) * after / before,
            result.variance,
            np.clip(share, 0.0, 1.0),
        )

    def differences(self) -> Differences:
        result = self._now()
        return Differences(result.estimate, result.spread, result.df_of_pairs)

    def pairwise(self) -> Floats:
        result = self._now()
        gap = result.estimate[:, None] - result.estimate
        return np.asarray(stdtr(result.df_of_pairs, gap / np.sqrt(result.spread)))

    def interval(self, model: int, confidence: float) -> tuple[float, float]:
        """Student's interval of the full-benchmark mean, cut to [0, 1]."""
        result = self._now()
        half = stdtrit(result.df[model], 0.5 + confidence / 2.0) * result.variance[model] ** 0.5
        mean = float(result.estimate[model])
        return max(mean - float(half), 0.0), min(mean + float(half), 1.0)

    def findings(self, model: int) -> list[str]:
        """What a person should know of `model`: where the bank does not speak for it."""
        member, look = self._field.members[model], self._field.look()
        if member.n_told < FEWEST_TO_FIND:
            return []
        found = []
        if "departures" not in self._bank.constants:
            found.append(
                "is judged by a bank that does not say how far models depart from it, so its "
                "interval is wide; calibrate the bank again"
            )
        if abs(member.position) > 1.0:
            side = "better" if member.position > 0 else "worse"
            rests = (
                f"its estimate rests on the {member.q} items drawn at random"
                if member.q
                else "its estimate is an extrapolation, for no item was drawn at random yet"
            )
            found.append(f"scores {side} than every model of the bank: {rests}")
        if member.q >= FEWEST_TO_FIND:
            if self._misfit(model) < UNLIKE:
                more = "more" if look.rbar[model] > 0 else "less"
                found.append(
                    f"is unlike the models of the bank: on items drawn at random it scores "
                    f"{abs(look.rbar[model]):.2g} {more} than the bank expects (scores on 0 to 1); "
                    "the draws correct its estimate"
                )
        return found

    def _misfit(self, model: int) -> float:
        """Probability of departures as large as those of the draws."""
        look = self._field.look()
        z = look.rbar[model] / (look.M[model, model] + look.T[model, model]) ** 0.5
        return float(2.0 * stdtr(self._field.model.departures.df, -abs(z)))

    def sample(self, model: int) -> Drawn | None:
        mean, error, n = self._field.members[model].sample()
        return Drawn(n, mean, error, self._misfit(model)) if n else None

    def adjacent(self, order: Sequence[int]) -> Floats:
        o = np.asarray(order, dtype=np.intp)
        return np.asarray(self.pairwise()[o[:-1], o[1:]])

    def probability(self, z: Floats) -> Floats:
        """``P(better)`` with the degrees of freedom of the self-check, the least there are."""
        return np.asarray(stdtr(self._field.model.departures.df, z))

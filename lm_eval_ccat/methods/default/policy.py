"""The ranking of the method "default": by full-benchmark mean, on one shared sequence of items."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from scipy.special import stdtr

from ...bank import ItemBank
from ...errors import UsageError
from ..belief import BENCHMARK, POPULATION, Belief
from ..policy import Choice, Description, Drawn, Floats, Levers, Mask, Policy
from .calibration import model_of
from .departures import spread
from .field import Field

#: Scores (and draws) below which nothing is said of a model.
FEWEST_TO_FIND = 10
#: Models above which turns are decided on a joint look at all of them not after every answer, but
#: after one answer of every fifth of them: it takes 25 ms with 300 models.
FEW, SHARE_PER_LOOK = 50, 5
#: A departure that fewer than this share of new models shows is worth a word.
UNLIKE = 0.01
#: Power of an item's price that the gain of a chosen item is divided by: between buying the most
#: informative item and buying the cheapest.
ITEM_PRICE = 0.5


class DefaultPolicy(Policy):
    """Ranking by estimated full-benchmark mean.

    All models get a prefix of one sequence of chosen and drawn items (`Field`); estimates,
    variances of differences and their degrees of freedom are those of the field. The next item
    goes where the expected loss from misordering falls fastest per price: the derivative of
    ``E |t_a - t_b| 1(order wrong)``, that is of ``sd psi(z)``, by ``V_a`` is
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
        self.field = Field(model_of(bank), n_models, seed, item_price, draws)
        self._by_variance = allocation == "variance"

    @property
    def answers_per_look(self) -> int:
        n_models = len(self.field.members)
        return 1 if n_models <= FEW else n_models // SHARE_PER_LOOK

    # -- what happened ------------------------------------------------------------------------

    def add_model(self) -> None:
        self.field.add_model()

    def placed(self, model: int, item: int, probability: float | None = None) -> None:
        self.field.place(model, item, probability)

    def unplaced(self, model: int, item: int) -> None:
        self.field.members[model].unplace(item)

    def told(self, model: int, item: int, score: float) -> None:
        if not 0.0 <= score <= 1.0:
            raise ValueError(f"score {score!r} of item {item} is not in [0, 1]")
        if self.field.members[model].posterior.is_seen(item):
            raise ValueError(f"item {item} was administered before")
        if self.field.members[model].unasked[item]:
            self.field.place(model, item, None)
        self.field.learn(model, [item], [score])

    def failed(self, model: int, item: int) -> None:
        self.field.members[model].fail(item)

    # -- what is known ------------------------------------------------------------------------

    def belief(self, question: str = BENCHMARK) -> Belief:
        r, n = self.field.result(), self.field.n_told.astype(np.float64)
        n_items = float(self._bank.n_items)
        found = Belief(r.estimate, r.variance, r.df, np.minimum(n[:, None], n), n_items)
        if question != POPULATION:
            return found
        variance = r.variance + self._sampling()
        return replace(found, variance=variance, n_items=math.inf, question=POPULATION)

    def _sampling(self) -> Floats:
        """Sampling variance of the benchmark's items; shape (n_models, n_models).

        Of differences of mean scores, on the diagonal of the means: the variance over items of
        what is expected of them, and of what scores depart from that, over the number of items.
        """
        mu = np.array([m.posterior.mu for m in self.field.members])
        # One item shows no variance; no scores have more than a quarter.
        over = np.cov(mu).reshape(len(mu), -1) if mu.shape[1] > 1 else 0.25 * np.eye(len(mu))
        covariance = over + self.field.look().S
        out = spread(covariance)
        out.flat[:: len(mu) + 1] = covariance.diagonal()
        return np.asarray(out / self._bank.n_items)

    def levers(self, belief: Belief) -> Levers:
        """By the ability's posterior; draws that measured a departure make the slope smaller."""
        look, variance, model = self.field.look(), belief.variance.diagonal(), self.field.model
        d, n_items = model.departures, model.items.n_items
        at = [m.posterior for m in self.field.members]
        u = look.left / n_items
        before, whole = look.M.diagonal(), np.maximum(d.inflation * u * u, 1e-300)
        noise = look.S.diagonal() / np.maximum(look.left, 1.0)
        # What draws leave of the departures, and what of these the ability explains.
        after = np.clip(variance / whole - noise, 0.0, before)
        explained = np.minimum(d.single[0] * look.v * look.level / before, 1.0)
        share = after * explained * whole / np.maximum(variance, 1e-300)
        return Levers(
            np.array([p.z[0] for p in at]),
            np.array([p.covariance[0, 0] for p in at]),
            model.items.prior_sd**2,
            np.array([p.slope for p in at]) * after / before,
            variance,
            np.clip(share, 0.0, 1.0),
        )

    def expected(self, model: int) -> Floats:
        return self.field.members[model].posterior.mu.copy()

    def noise(self, model: int) -> Floats:
        d, look = self.field.model.departures, self.field.look()
        variance = self.field.members[model].posterior.predictive_variances()
        return np.asarray(d.noise * variance + d.floor * float(look.level[model]))

    def describe(self, model: int) -> Description:
        member, look, d = self.field.members[model], self.field.look(), self.field.model.departures
        z = member.posterior
        error = d.inflation * d.single[0] * look.level[model] * z.covariance[0, 0]
        mean, se, n = member.sample()
        misfit = self._misfit(model) if n else 1.0
        return Description(
            float(z.z[0]) + self.field.model.centre,
            float(error**0.5),
            tuple(self._findings(model, misfit)),
            Drawn(n, mean, se, misfit) if n else None,
        )

    def _misfit(self, model: int) -> float:
        """Probability of departures as large as those of the draws."""
        look = self.field.look()
        z = look.rbar[model] / (look.M[model, model] + look.T[model, model]) ** 0.5
        return float(2.0 * stdtr(self.field.model.departures.df, -abs(z)))

    def _findings(self, model: int, misfit: float) -> list[str]:
        """Where the bank does not speak for a model."""
        member, found = self.field.members[model], []
        if member.n_told < FEWEST_TO_FIND:
            return []
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
        if member.q >= FEWEST_TO_FIND and misfit < UNLIKE:
            departure = self.field.look().rbar[model]
            found.append(
                "is unlike the models of the bank: on items drawn at random it scores "
                f"{abs(departure):.2g} {'more' if departure > 0 else 'less'} than the bank "
                "expects (scores on 0 to 1); the draws correct its estimate"
            )
        return found

    # -- what next ----------------------------------------------------------------------------

    def next(
        self, model: int, available: Mask, pending: Sequence[int], price: Floats, k: int = 1
    ) -> list[Choice]:
        items, probability = self.field.next(model, available, price, k, pending)
        return [Choice(i, probability) for i in items]

    def priorities(
        self,
        belief: Belief,
        models: Sequence[int],
        pending: Sequence[Sequence[int]],
        prices: Sequence[float],
    ) -> Floats:
        of = np.array(models, dtype=np.intp)
        n = self.field.n_told[of] + np.array([*map(len, pending)], dtype=np.intp)
        fall = belief.variance.diagonal()[of] / ((n + 1) * np.asarray(prices))
        if self._by_variance or len(belief.location) == 1:
            return np.asarray(fall)
        return np.asarray(fall * (belief.loss[of] + 1e-12))

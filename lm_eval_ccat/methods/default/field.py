"""What is known of all models of a ranking together: model first, then sample.

The estimate of a model is what the response model makes of its scores, plus the mean departure
over the items it was not asked, which has the bank's prior and is measured by the draws of the
shared sequence (`departures`, `member`): ``Var t = u^2 ( Var beta + S / |U| )``. Here stands also
which item makes the sequence grow: a chosen one, or a draw.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ..belief import Floats
from ..policy import Items, Mask, largest
from .departures import FIRST, DefaultModel, Departures, spread
from .joint import Joint, Look, Result
from .member import Member, solved

#: Least share of draws after the first items, found by replays: long tests end as samples.
SHARE = 0.5
#: Part of a draw's chance that is the same for all items: no score then counts more than twice what
#: it would in a simple random sample, however wrong the bank is about residuals. Replays of real
#: tables: errors of models better than the bank fall by a fifth to a third, others stay.
EVEN = 0.5
#: Mean distance from the middle of the bank's range, 1 at its edge, from which on draws take over.
EDGE = 0.8
_LEAST_WEIGHT = 0.05  # of a pair whose order is clear


class Sequence:
    """The items asked so far, in order: chosen ones, and draws of known probability.

    Every model gets the items in this order; one that lags takes the next, one that is ahead
    makes it grow. A draw takes an item that is not in the sequence yet, with a probability that
    goes with the standard deviation expected of its residual; it is recorded, given all that
    came before. For residuals ``r_i`` of any model from expectations that do not depend on the
    draw (0 where the score was known),

        E ( r_i / p_i | all before )  =  sum over items not in the sequence of r,

    whatever rule chose items or decided to draw (Des Raj 1956). Each draw so gives an unbiased
    estimate of a known part of the same total, and the estimates, a martingale less its mean,
    are averaged with weights that are known before each draw: one over the variance expected.
    With equal probabilities the average is as good as a simple random sample's mean.

    Parameters
    ----------
    n_items : int
    seed : int
    kept : ndarray of bool, shape (n_items,), optional
        Items that may be in the sequence; default all.

    Attributes
    ----------
    items : list of int
    probabilities : list of float or None
        None for chosen items.
    weights : list of float
        Of the draws; 0 for chosen items.
    where : dict of int to int
        The place of each item.
    left : ndarray of bool, shape (n_items,)
        Items that may be in the sequence and are not.
    n_drawn : int

    References
    ----------
    D. Raj, "Some Estimators in Sampling with Varying Probabilities without Replacement",
    Journal of the American Statistical Association 51 (1956).
    """

    def __init__(self, n_items: int, seed: int, kept: Mask | None = None) -> None:
        self._seed = seed
        self.left = np.ones(n_items, dtype=bool) if kept is None else kept.copy()
        self.items: list[int] = []
        self.probabilities: list[float | None] = []
        self.weights: list[float] = []
        self.where: dict[int, int] = {}
        self.n_drawn = 0

    def __len__(self) -> int:
        return len(self.items)

    def draw(self, size: Floats) -> tuple[int, float]:
        """The item that a draw takes now, and its probability; nothing changes.

        Parameters
        ----------
        size : ndarray of shape (n_items,)
            What probabilities go with, above 0.

        Examples
        --------
        >>> Sequence(4, seed=0).draw(np.array([1.0, 1.0, 1.0, 1.0]))[1]
        0.25
        """
        below = np.cumsum(np.where(self.left, size, 0.0))
        x = np.random.default_rng([self._seed, len(self.items)]).random() * below[-1]
        item = int(np.searchsorted(below, x, side="right"))
        return item, float(size[item] / below[-1])

    def weight(self, size: Floats) -> float:
        """Of a draw that falls now: one over the variance expected of its estimate."""
        left = size[self.left]
        return 1.0 / max(float(left.sum() ** 2 - left @ left), 1e-12 * float(left @ left), 1e-300)

    def append(self, item: int, probability: float | None, weight: float) -> None:
        """Put an item at the end."""
        self.where[item] = len(self.items)
        self.items.append(item)
        self.probabilities.append(probability)
        self.weights.append(weight)
        self.left[item] = False
        self.n_drawn += probability is not None


class Field:
    """The models of one ranking.

    Parameters
    ----------
    model : DefaultModel
        Of the bank.
    n_models : int
    seed : int, optional
        Of the draws.
    item_price : float, optional
        Power of an item's price that the gain of a chosen item is divided by.
    draws : bool, optional
        Whether items are drawn at all.
    """

    def __init__(
        self,
        model: DefaultModel,
        n_models: int,
        seed: int = 0,
        item_price: float = 0.0,
        draws: bool = True,
    ) -> None:
        self.model = model
        self.sequence = Sequence(model.items.n_items, seed, model.kept)
        self.members: list[Member] = []
        self._item_price, self._draws = item_price, draws
        self._joint = Joint(model.departures)
        # Models that it does not know as they are, in the order of their last scores.
        self._changed: dict[int, None] = {}
        self._per_draw = 1.0
        for _ in range(n_models):
            self.add_model()
        self._forget()

    # -- what happened --------------------------------------------------------------------------

    def add_model(self) -> None:
        """One more model joins; it gets the sequence from its beginning."""
        self._changed[len(self.members)] = None
        self.members.append(Member(self.model))
        self._joint.add_model()
        self._forget()

    def place(self, a: int, item: int, probability: float | None) -> None:
        """Model `a` has been asked `item`; see `Policy.place`."""
        member, sequence = self.members[a], self.sequence
        at, weight = sequence.where.get(item), 0.0
        if probability is not None:
            weight = sequence.weight(self.sizes()) if at is None else sequence.weights[at]
        if at is None and self._next_shared(member) is None:
            sequence.append(item, probability, weight)
        if probability is not None:
            self._joint.fell(item)
        member.place(item, probability, weight)

    def learn(self, a: int, items: Items, scores: list[float]) -> None:
        """Model `a` has scores on `items`, asked or known before."""
        self.members[a].learn(items, scores)
        self._changed.pop(a, None)
        self._changed[a] = None
        self._forget()

    def use(self, departures: Departures) -> None:
        """Go on with another prior of departures."""
        self.model = replace(self.model, departures=departures)
        self._joint.departures = departures
        for member in self.members:
            member.use(self.model)
        self._changed = dict.fromkeys(range(len(self.members)))
        self._forget()

    def _forget(self) -> None:
        self._look: Look | None = None
        self._result: Result | None = None
        self._size: Floats | None = None

    # -- what next ------------------------------------------------------------------------------

    def next(
        self,
        a: int,
        available: Mask,
        price: Floats | None = None,
        k: int = 1,
        pending: Items = (),
    ) -> tuple[list[int], float | None]:
        """The items of which model `a` gets one next, best first, and the probability of a draw.

        Parameters
        ----------
        a : int
        available : ndarray of bool, shape (n_items,)
        price : ndarray of shape (n_items,), optional
        k : int, optional
            How many; an item of the sequence stands alone.
        pending : sequence of int, optional
            Items of `a` in flight that it was not placed on.
        """
        member, sequence = self.members[a], self.sequence
        item = self._next_shared(member, available)
        if item is not None:
            return [item], sequence.probabilities[sequence.where[item]]
        # A draw is one among all that is left, or none: not one among what happens to fit a budget.
        whole = not (sequence.left & ~available & member.unasked).any()
        wanted = self._draw_wanted() if self._draws and whole and sequence.left.any() else False
        chosen: list[int] = []
        if wanted is not True:
            free = available & sequence.left
            gains = self._gains(a, price, pending)
            chosen = largest(np.where(free if free.any() else available, gains, -np.inf), k)
            if wanted is None:
                wanted = self._draw_tells_more(chosen[0])
        if wanted:
            item, probability = sequence.draw(self.sizes())
            if available[item]:
                return [item], probability
            chosen = largest(np.where(available, self._gains(a, price, pending), -np.inf), k)
        return chosen, None

    def _next_shared(self, member: Member, available: Mask | None = None) -> int | None:
        """The first item of the sequence that a model was not asked (and may be asked)."""
        items = self.sequence.items
        while member.passed < len(items) and not member.unasked[items[member.passed]]:
            member.passed += 1
        for item in items[member.passed :]:
            if member.unasked[item] and (available is None or available[item]):
                return item
        return None

    def _gains(self, a: int, price: Floats | None, pending: Items) -> Floats:
        """What each item tells of all models; those that are far behind `a` count less."""
        far = len(self.members[a].asked) + 1
        gain = np.zeros(self.model.items.n_items)
        for b, member in enumerate(self.members):
            weight = 1.0 if b == a else min((len(member.asked) + 1) / far, 1.0)
            if weight > 0.2:
                ahead = member.pending(self.sequence.items)
                if b == a:
                    ahead += [i for i in pending if member.unasked[i]]
                gain += weight * member.posterior.gains(ahead)
        if self._item_price and price is not None:
            low, mean = float(price.min()), float(price.mean())
            if low > 0.0 and float(price.max()) > low:  # a free item has no ratio
                gain /= (price / mean) ** self._item_price
        return gain

    def _draw_wanted(self) -> bool | None:
        """Whether the next item is drawn by the rules alone; None where what it tells decides."""
        n, edge = len(self.sequence) + 1 - self.model.first, 0.0
        if n <= 0:
            return False
        if min(m.n_told for m in self.members) >= FIRST // 2:
            for a in self._changed:
                self.members[a].refresh()
            position = sum(abs(m.position) for m in self.members) / len(self.members)
            edge = min(max((position - EDGE) / (1.0 - EDGE), 0.0), 1.0)
        fixed = self.model.share
        share = SHARE if fixed is None else fixed
        if self.sequence.n_drawn < (share + (1.0 - share) * edge) * n:
            return True
        return None if fixed is None else False

    def _draw_tells_more(self, chosen: int) -> bool:
        """Whether a draw leaves less open than a chosen item.

        What is open is the mean variance of scores, and of differences where the order is not
        clear.
        """
        look, q, size = self.look(), self.sequence.n_drawn, self.sizes()
        per_draw = look.S * self._per_draw
        rest = look.S / max(look.left.mean(), 1.0)
        gap = look.t[:, None] - look.t
        w = np.exp(-0.5 * gap**2 / spread(look.M + look.S / len(size))) + _LEAST_WEIGHT
        np.fill_diagonal(w, 0.0)
        total = max(float(w.sum()), _LEAST_WEIGHT)

        def left_open(M: Floats, draws: float) -> float:
            C = M - M.dot(solved(M + per_draw / max(draws, 1e-9), M)) + rest
            return float(C.diagonal().mean() + 0.5 * (w * spread(C)).sum() / total)

        v = np.array([m.left_by_chosen(chosen) for m in self.members])
        after = self.model.departures.prior(v, look.t, look.level)
        return left_open(look.M, q + 1) < left_open(after, q)

    def sizes(self) -> Floats:
        """What the chances of a draw go with; shape (n_items,).

        One part is even, the other the standard deviation of a residual, over all models: T. C.
        Hesterberg's defensive mixture (Technometrics 37, 1995).
        """
        if self._size is None:
            d, v = self.model.departures, np.zeros(self.model.items.n_items)
            for member in self.members:
                v += member.posterior.kappa * member.posterior.w
            floor = d.floor * float(np.mean(self.look().level))
            sd = np.sqrt(d.noise / len(self.members) * v + floor)
            self._size = (1.0 - EVEN) * sd + EVEN * sd.mean()
            # Variance of a draw's estimate beside that of a simple random one.
            self._per_draw = float((sd**2 / self._size).mean() * sd.mean() / (sd @ sd / len(sd)))
        return self._size

    # -- what is known --------------------------------------------------------------------------

    def look(self) -> Look:
        """The current field."""
        if self._look is None:
            for a in self._changed:
                self._joint.put(a, self.members[a])
            self._changed.clear()
            self._look = self._joint.look()
        return self._look

    def abilities(self) -> Floats:
        """Ability of each model, its variance, and the slope of the estimate; shape (3, n)."""
        of = [m.posterior for m in self.members]
        return np.array([(p.z[0], p.covariance[0, 0], p.slope) for p in of]).T

    def levers(self, variance: Floats) -> Floats:
        """Ability, its variance, slope, `variance` of the estimate and share; shape (5, n)."""
        z, d = self.abilities(), self.model.departures
        slope, share = self.look().levers(d, variance, z[2], self.model.items.n_items)
        return np.array([z[0], z[1], slope, variance, share])

    def result(self) -> Result:
        """Estimates and their errors."""
        if self._result is None:
            self._result = self.look().result(self.model.departures, self.model.items.n_items)
        return self._result

"""Whose turn it is: which model gets the next item, which item, and whether any is left to ask."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ..bank import ItemBank
from ..methods.policy import OPEN, Choice, Policy
from .audit import Draw, draw, is_due
from .exposure import draw_one
from .known import KnownModels
from .seat import Seat

#: How much more an item of another model must be worth before a model that is asked for by itself
#: leaves its turn. The worth falls with the square of the items, so 4 lets a quick model run ahead
#: to twice the items that it would get in turn.
_PATIENCE = 4.0
#: Share of the budget by which a sum of prices may exceed it through rounding alone.
_ROUNDING = 1e-9


class Turns:
    """The deciding part of a `Ranker`, which keeps the books that are read here."""

    bank: ItemBank
    confidence: float
    budget: float
    seed: int
    _seats: list[Seat]
    _position: dict[str, int]
    _policy: Policy
    _units: NDArray[np.float64]
    _known: KnownModels | None
    _warmup: int
    _cap: int
    _min_difference: float
    _familywise: bool
    _target_se: float | None
    _stop_when_decided: bool
    _audit: float
    _exposure: int
    _stopped: str | None
    _cached_candidates: list[int] | None

    @property
    def item_cap(self) -> int:
        """Most items that one model may get."""
        return self._cap

    @property
    def spent(self) -> float:
        """Spent so far, without what is in flight."""
        return sum(s.spent for s in self._seats)

    @property
    def committed(self) -> float:
        """Spent so far, with what is in flight at its expected cost."""
        return self.spent + sum(sum(s.pending.values()) for s in self._seats)

    @property
    def _left(self) -> float:
        """Budget left, forgiving what sums of prices lose: ten items at 0.001 fit into 0.01."""
        return self.budget * (1.0 + _ROUNDING) - self.committed

    def _order(self) -> list[int]:
        """Active models, best first; equal ones in the order they were given."""
        active = [j for j, s in enumerate(self._seats) if s.dropped is None]
        return sorted(active, key=lambda j: -self._policy.location(j))

    def _candidates(self) -> list[int]:
        """Models that may get the next item; depends on the state alone, so it is kept."""
        if self._cached_candidates is None:
            self._cached_candidates = [] if self._stopped is not None else self._find_candidates()
        return self._cached_candidates

    def _find_candidates(self) -> list[int]:
        left = self._left
        warming = [j for j in self._warming() if self._affords(self._seats[j], left, warmup=True)]
        if warming:
            fewest = min(self._seats[j].load for j in warming)
            return [j for j in warming if self._seats[j].load == fewest]
        return [
            j
            for j in self._unsettled()
            if self._seats[j].load < self._cap and self._affords(self._seats[j], left)
        ]

    def _candidate_alone(self, seat: Seat) -> list[int]:
        """The position of `seat` if it may get an item now, else nothing.

        Asked for by itself a model waits for no other: it takes its whole warm-up at once and goes
        on while others are still warming up, whose warm-up stays reserved in the budget. Only
        where the budget is too small for all does it leave the turn to a model whose next item is
        worth much more for its price.
        """
        j = self._position[seat.name]
        if self._stopped is not None or seat.dropped is not None:
            return []
        warming = self._warming()
        left = self._left
        if j in warming:
            return [j] if self._affords(seat, left, warmup=True) else []
        mean = float(self._units[self.bank.kept].mean())
        for s in (self._seats[other] for other in warming):
            if self._affords(s, left, warmup=True):
                left -= self._price(s) * mean * (self._warmup - s.load)
        open_ = j in self._unsettled() and seat.load < self._cap
        if not (open_ and self._affords(seat, left)):
            return []
        return [] if self._others_are_worth_more(j, left) else [j]

    def _others_are_worth_more(self, j: int, left: float) -> bool:
        if math.isinf(left):
            return False
        candidates = {*self._candidates(), *self._warming()}
        mean = float(self._units[self.bank.kept].mean())
        needed = sum(
            self._price(s) * mean * (self._cap - s.load)
            for s in (self._seats[k] for k in {*candidates, j})
        )
        if needed <= left:
            return False
        paid = {k: p for k in {*candidates, j} if (p := self._price(self._seats[k])) > 0.0}
        if j not in paid:
            return False
        worth = {
            k: self._policy.priority(k, tuple(self._seats[k].pending), p) for k, p in paid.items()
        }
        return worth[j] * _PATIENCE < max(worth.values())

    def _warming(self) -> list[int]:
        return [
            j
            for j, s in enumerate(self._seats)
            if s.dropped is None and s.load < self._warmup and s.available.any()
        ]

    def _unsettled(self) -> list[int]:
        """Models on which something still depends: an open neighbour, or a wide interval."""
        order = self._order()
        if not self._stop_when_decided:
            return sorted(order)
        wanted: set[int] = set()
        if len(order) > 1:
            for i in np.flatnonzero(self._undecided(order)):
                wanted |= {order[i], order[i + 1]}
        if self._target_se is not None:
            wanted |= {j for j in order if self._policy.estimate(j)[1] > self._target_se}
        if self._known is not None:
            wanted |= self._known.open_models(self._policy, order, self.confidence)
        elif len(order) == 1 and self._target_se is None:
            wanted |= set(order)  # one model, no target: to the budget, or to the last item
        return sorted(wanted)

    def _undecided(self, order: Sequence[int]) -> NDArray[np.bool_]:
        """Which adjacent pairs of `order` are open; shape (len(order) - 1,)."""
        decisions = self._policy.decisions(
            self.confidence, self._min_difference, familywise=self._familywise
        )
        o = np.asarray(order, dtype=np.intp)
        return np.asarray(decisions[o[:-1], o[1:]] == OPEN)

    def _affords(self, seat: Seat, left: float, warmup: bool = False) -> bool:
        if not seat.available.any():
            return False
        if math.isinf(left) or (warmup and self._policy.warmup_ignores_budget):
            return True
        if seat.ahead is None:
            units = self._units[seat.available]
            seat.ahead = float(units.mean() if self._policy.affords_mean else units.min())
        return bool(self._price(seat) * seat.ahead <= left)

    def _choosable(self, seat: Seat) -> NDArray[np.bool_]:
        """Items of `seat` that may be asked: not had, and within the budget left."""
        left = self._left
        if self._policy.affords_mean or math.isinf(left):
            return seat.available
        return seat.available & (self._price(seat) * self._units <= left)

    def _select(self, j: int, price: NDArray[np.float64]) -> Choice:
        seat = self._seats[j]
        available, pending = self._choosable(seat), tuple(seat.pending)
        if self._exposure == 1:
            return self._policy.select(j, available, pending, price)
        best = self._policy.shortlist(j, available, pending, price, self._exposure)
        return Choice(draw_one(best, self.seed, j, seat.asked))

    def _choose(self, candidates: Sequence[int]) -> int:
        if len(candidates) == 1 or self._seats[candidates[0]].load < self._warmup:
            return candidates[0]
        # A free model comes first, whatever the others would tell.
        return max(
            candidates,
            key=lambda j: (
                (price := self._price(self._seats[j])) == 0.0,
                self._policy.priority(j, tuple(self._seats[j].pending), price or 1.0),
                -j,
            ),
        )

    def _price(self, seat: Seat) -> float:
        """Price of one unit: the one given, corrected by the costs told."""
        cost, units = seat.measured
        if not units:
            return seat.price
        weight = float(self._units.mean())  # the price given counts as one item's observation
        return (seat.price * weight + cost) / (weight + units)

    def _audited(self, j: int, price: NDArray[np.float64]) -> Choice | None:
        """The item that the audit draws for model `j` now, if one is due.

        Near the end of the budget nothing is drawn once any item left is too dear: drawing among
        the affordable ones only would not be a draw among all.
        """
        seat = self._seats[j]
        if not self._audit or not is_due(seat.asked, self._audit):
            return None
        if float(price[seat.available].max()) > self._left:
            return None
        item = draw(seat.available, self.seed, j, seat.asked)
        return Choice(item, 1.0 / int(seat.available.sum()))

    def _place(self, j: int, choice: Choice) -> None:
        """Put an item of model `j` in flight."""
        seat, item = self._seats[j], choice.item
        n_left = int(seat.available.sum())
        uniform = choice.probability is not None and round(n_left * choice.probability, 9) == 1.0
        if self._audit and uniform and is_due(seat.asked, self._audit):
            mu = self._policy.expected(j)
            seat.draws.append(
                Draw(
                    item=item,
                    asked=(*seat.told, *seat.pending),
                    n_left=n_left,
                    expected_left=float(mu[seat.available].sum()),
                    expected=float(mu[item]),
                )
            )
        if choice.probability is not None:
            seat.probability[item] = choice.probability
        seat.asked += 1
        seat.pending[item] = float(self._price(seat) * self._units[item])
        seat.available[item] = False
        seat.ahead = None
        self._cached_candidates = None
        self._policy.place(j, item, choice.probability)

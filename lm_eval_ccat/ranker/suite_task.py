"""One task of a suite: a `Ranker` that keeps books and chooses items, but decides no stopping."""

from __future__ import annotations

import math

from ..methods.policy import Differences, Floats
from .ranker import Ranker

_NEARLY_FREE = 1e-12


class TaskRanker(Ranker):
    """A `Ranker` whose budget and stopping its suite decides."""

    def load(self, model: str) -> int:
        """Items asked of a model so far, those in flight included."""
        return self._seat(model).load

    def warms_up(self, model: str) -> bool:
        """Whether a model has not had its first items of this task yet."""
        return self._position[self._seat(model).name] in self._warming()

    def allow(self, amount: float) -> None:
        """Let the task spend `amount` more than it has committed."""
        self.budget = self.committed + amount
        self._cached_candidates = None

    def may_ask(self, model: str) -> bool:
        """Whether a model may get an item of this task within what is allowed."""
        return bool(self._candidate_alone(self._seat(model)))

    def fall_per_price(self, model: str) -> float:
        """How much the next item lowers the variance of the model's score, per price."""
        seat = self._seat(model)
        test = self._policy.tests[self._position[model]]
        curable = getattr(test, "curable_variance", test.standard_error**2)
        units = float(self._units[seat.available].mean()) if seat.available.any() else 1.0
        price = max(self._price(seat) * units, _NEARLY_FREE)
        return float(curable) / ((seat.load + 1) * price)

    def differences(self) -> Differences:
        """Estimates and variances of their differences, in model order."""
        return self._policy.differences()

    def likelihood(self, z: Floats) -> Floats:
        """``P(better)`` for differences in standard errors, as the method has it."""
        return self._policy.probability(z)

    def _others_are_worth_more(self, j: int, left: float) -> bool:
        """Whose turn it is over all tasks the suite knows."""
        return False

    @property
    def has_items_left(self) -> bool:
        """Whether some model could get an item if money did not matter."""
        limit, self.budget = self.budget, math.inf
        try:
            return any(self._candidate_alone(s) for s in self._seats)
        finally:
            self.budget = limit

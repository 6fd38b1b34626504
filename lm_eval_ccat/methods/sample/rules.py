"""Rules that say of each pair of models, after every item, whether it is decided: for good."""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from ..policy import DECIDED, EQUIVALENT, OPEN
from .betting import Bets
from .sums import LEAST, Floats, Ints, Sums

#: What rounding of sums may come to.
ROUNDING = 1e-12

Signs = NDArray[np.int8]


class Rule(Protocol):
    """What is known of a difference, two-sided, at every look together.

    ``within`` is whether its interval lies within +-d, ``sign`` that of a difference whose interval
    excludes 0.
    """

    def look(self, sums: Sums, pairs: Ints, values: Floats) -> tuple[Signs, NDArray[np.bool_]]:
        """`sign` and `within` of some pairs, whose last `values` are in the sums already."""


class BySequence:
    """The asymptotic confidence sequence of `Sums.radius`."""

    def __init__(self, alpha: float, min_difference: float) -> None:
        self.alpha, self.min_difference = alpha, min_difference

    def look(self, sums: Sums, pairs: Ints, values: Floats) -> tuple[Signs, NDArray[np.bool_]]:
        mean, radius = sums.means(pairs), sums.radius(pairs, self.alpha)
        size = np.abs(mean)
        sign = np.where(size - radius > ROUNDING, np.sign(mean), 0.0).astype(np.int8)
        return sign, size + radius <= self.min_difference + ROUNDING


class ByBetting:
    """Bets on the difference, as a score on [0, 1], and against it."""

    def __init__(self, alpha: float, min_difference: float, n_pairs: int, size: float) -> None:
        self.min_difference = min_difference
        self.bound = float(np.log(2.0 / alpha))
        nulls = 0.5 + 0.5 * np.array([0.0, -min_difference])
        self.above, self.below = Bets(n_pairs, size, nulls), Bets(n_pairs, size, nulls)

    def look(self, sums: Sums, pairs: Ints, values: Floats) -> tuple[Signs, NDArray[np.bool_]]:
        self.above.learn(pairs, 0.5 + 0.5 * values)
        self.below.learn(pairs, 0.5 - 0.5 * values)
        up = self.above.log_capital[:, pairs] >= self.bound
        down = self.below.log_capital[:, pairs] >= self.bound
        ready = sums.items(pairs) >= LEAST
        sign = np.where(ready, up[0].astype(np.int8) - down[0].astype(np.int8), 0).astype(np.int8)
        within = ready & up[1] & down[1] & (self.min_difference > 0.0)
        mean, all_seen = sums.means(pairs), sums.left(pairs) <= 0.0
        exact = np.where(np.abs(mean) > ROUNDING, np.sign(mean), 0.0)
        sign = np.where(all_seen, exact, sign).astype(np.int8)
        return sign, np.where(all_seen, np.abs(mean) <= self.min_difference + ROUNDING, within)


class Verdicts:
    """What a rule has said of every pair, which stays said.

    Attributes
    ----------
    state : ndarray of int8, shape (n_pairs,)
        Open, decided or equivalent.
    sign : ndarray of int8, shape (n_pairs,)
        1 where the first model of a decided pair is better, -1 where the second is.
    """

    def __init__(self, rule: Rule, n_pairs: int) -> None:
        self.rule = rule
        self.state = np.full(n_pairs, OPEN, dtype=np.int8)
        self.sign = np.zeros(n_pairs, dtype=np.int8)

    def look(self, sums: Sums, pairs: Ints, values: Floats) -> None:
        """Look at some pairs after an item more."""
        sign, within = self.rule.look(sums, pairs, values)
        state, all_seen = self.state[pairs], sums.left(pairs) <= 0.0
        said = np.where(within, EQUIVALENT, np.where(sign != 0, DECIDED, OPEN))
        # Seen in full, a difference is known, and a wrong decision is seen to be one.
        refuted = np.where(state == DECIDED, sign == 0, ~within) & all_seen
        news = (state == OPEN) | refuted
        self.state[pairs] = np.where(news, said, state)
        self.sign[pairs] = np.where((news | all_seen) & (sign != 0), sign, self.sign[pairs])

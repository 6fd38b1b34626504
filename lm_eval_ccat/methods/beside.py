"""An outcome that is only reported, beside another method's: what the draws of that method say."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ..bank import ItemBank
from ..errors import UsageError
from .belief import BENCHMARK, Belief, Floats
from .policy import Choice, Description, Drawn, Items, Mask, Policy, check_score


class BesidePolicy(Policy):
    """Means of an outcome whose bank knows nothing, from items that another method drew.

    Draw ``k`` with probability ``p`` among the items left gives

        T_k = ( sum over the items asked before of y  +  L m  +  (y_k - m) / p ) / N,

    ``L`` items being left and ``m`` the mean of the scores before it: an unbiased estimate whatever
    the method chose (D. Raj, Journal of the American Statistical Association 51, 1956), and the
    estimate is their mean. A method that draws nothing gives none. Items without a score count at
    the mean of the others.

    Parameters
    ----------
    bank : ItemBank
        Its items; parameters are not used.
    n_models : int
    """

    def __init__(self, bank: ItemBank, n_models: int) -> None:
        self._n_items = bank.n_items
        self._models = [_Model() for _ in range(n_models)]

    def add_model(self) -> None:
        self._models.append(_Model())

    def placed(self, model: int, item: int, probability: float | None = None) -> None:
        self._models[model].asked[item] = probability

    def unplaced(self, model: int, item: int) -> None:
        del self._models[model].asked[item]

    def told(self, model: int, item: int, score: float) -> None:
        one = self._models[model]
        check_score(score, item, seen=item in one.scores)
        one.scores[item] = score
        one.asked.setdefault(item, None)

    def _totals(self, one: _Model) -> dict[int, float]:
        """``T_k`` of every draw with a score, by item."""
        out, total, n = {}, 0.0, 0
        for n_asked, (item, probability) in enumerate(one.asked.items()):
            mean = total / n if n else 0.5
            if (y := one.scores.get(item)) is None:
                continue
            if probability is not None:
                missing, left = (n_asked - n) * mean, self._n_items - n_asked
                value = total + missing + left * mean + (y - mean) / probability
                out[item] = value / self._n_items
            total, n = total + y, n + 1
        return out

    def belief(self, question: str = BENCHMARK) -> Belief:
        """Of pairs by the draws that both have; before two draws nothing is known."""
        totals = [self._totals(one) for one in self._models]
        m = len(totals)
        variance, df, n = np.full((m, m), 0.25), np.ones((m, m)), np.zeros((m, m))
        mean = np.array([np.mean(list(t.values())) if t else 0.5 for t in totals])
        for i, j in zip(*np.triu_indices(m)):
            both = [k for k in totals[i] if k in totals[j]]
            n[i, j] = n[j, i] = len(both)
            if len(both) > 1:
                other = 0.0 if i == j else np.array([totals[j][k] for k in both])
                spread = np.array([totals[i][k] for k in both]) - other
                variance[i, j] = variance[j, i] = spread.var(ddof=1) / len(both)
                df[i, j] = df[j, i] = len(both) - 1.0
        n_items = float(self._n_items) if question == BENCHMARK else math.inf
        return Belief(np.clip(mean, 0.0, 1.0), variance, df, n, n_items, question)

    def expected(self, model: int) -> Floats:
        seen = list(self._models[model].scores.values())
        return np.full(self._n_items, np.mean(seen) if seen else 0.5)

    def describe(self, model: int) -> Description:
        totals = np.array(list(self._totals(self._models[model]).values()))
        if len(totals) < 2:
            return Description(0.0, math.inf)
        mean = float(np.clip(totals.mean(), 1e-6, 1.0 - 1e-6))
        error = float(totals.std(ddof=1) / len(totals) ** 0.5)
        drawn = Drawn(len(totals), mean, error, 1.0)
        ability = math.log(mean / (1.0 - mean))
        return Description(ability, error / (mean * (1.0 - mean)), drawn=drawn)

    def next(
        self, model: int, available: Mask, pending: Items, price: Floats, k: int = 1
    ) -> list[Choice]:
        raise UsageError("an outcome that is only reported chooses no items")

    def priorities(
        self, belief: Belief, models: Items, pending: Sequence[Items], prices: Sequence[float]
    ) -> Floats:
        raise UsageError("an outcome that is only reported chooses no items")


class _Model:
    """Items asked, in order, with the probability of each draw; scores."""

    def __init__(self) -> None:
        self.asked: dict[int, float | None] = {}
        self.scores: dict[int, float] = {}

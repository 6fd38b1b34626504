"""An outcome that is only reported, beside another method's: what the draws of that method say."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ..bank import ItemBank
from ..errors import UsageError
from .belief import BENCHMARK, Belief
from .policy import Choice, Description, Drawn, Floats, Mask, Policy


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
        self._scores: list[dict[int, float]] = [{} for _ in range(n_models)]
        self._order: list[list[int]] = [[] for _ in range(n_models)]
        self._drawn: list[dict[int, float]] = [{} for _ in range(n_models)]

    def add_model(self) -> None:
        self._scores.append({})
        self._order.append([])
        self._drawn.append({})

    def placed(self, model: int, item: int, probability: float | None = None) -> None:
        self._order[model].append(item)
        if probability is not None:
            self._drawn[model][item] = probability

    def unplaced(self, model: int, item: int) -> None:
        self._order[model].remove(item)
        self._drawn[model].pop(item, None)

    def told(self, model: int, item: int, score: float) -> None:
        if not 0.0 <= score <= 1.0 or item in self._scores[model]:
            raise ValueError(f"score {score!r} of item {item} is none, or its second")
        self._scores[model][item] = score
        if item not in self._order[model]:
            self._order[model].append(item)

    def _totals(self, model: int) -> dict[int, float]:
        """``T_k`` of every draw with a score, by item."""
        scores, drawn, out = self._scores[model], self._drawn[model], {}
        total, n, n_asked = 0.0, 0, 0
        for item in self._order[model]:
            mean = total / n if n else 0.5
            y = scores.get(item)
            if item in drawn and y is not None:
                left = self._n_items - n_asked
                missing = (n_asked - n) * mean
                value = total + missing + left * mean + (y - mean) / drawn[item]
                out[item] = value / self._n_items
            if y is not None:
                total, n = total + y, n + 1
            n_asked += 1
        return out

    def belief(self, question: str = BENCHMARK) -> Belief:
        """Of pairs by the draws that both have; before two draws nothing is known."""
        totals = [self._totals(j) for j in range(len(self._scores))]
        m = len(totals)
        variance, df, n = np.full((m, m), 0.25), np.ones((m, m)), np.zeros((m, m))
        mean = np.array([np.mean(list(t.values())) if t else 0.5 for t in totals])
        for i in range(m):
            for j in range(i, m):
                both = [k for k in totals[i] if k in totals[j]]
                n[i, j] = n[j, i] = len(both)
                if len(both) > 1:
                    other = 0.0 if i == j else np.array([totals[j][k] for k in both])
                    spread = np.array([totals[i][k] for k in both]) - other
                    variance[i, j] = variance[j, i] = spread.var(ddof=1) / len(both)
                    df[i, j] = df[j, i] = len(both) - 1.0
        found = Belief(np.clip(mean, 0.0, 1.0), variance, df, n, float(self._n_items))
        if question == BENCHMARK:
            return found
        return replace(found, n_items=math.inf, question=question)

    def expected(self, model: int) -> Floats:
        seen = list(self._scores[model].values())
        return np.full(self._n_items, np.mean(seen) if seen else 0.5)

    def describe(self, model: int) -> Description:
        totals = np.array(list(self._totals(model).values()))
        if len(totals) < 2:
            return Description(0.0, math.inf)
        mean = float(np.clip(totals.mean(), 1e-6, 1.0 - 1e-6))
        error = float(totals.std(ddof=1) / len(totals) ** 0.5)
        logit = math.log(mean / (1.0 - mean))
        drawn = Drawn(len(totals), mean, error, 1.0)
        return Description(logit, error / (mean * (1.0 - mean)), drawn=drawn)

    def next(
        self, model: int, available: Mask, pending: Sequence[int], price: Floats, k: int = 1
    ) -> list[Choice]:
        raise UsageError("an outcome that is only reported chooses no items")

    def priorities(
        self,
        belief: Belief,
        models: Sequence[int],
        pending: Sequence[Sequence[int]],
        prices: Sequence[float],
    ) -> Floats:
        raise UsageError("an outcome that is only reported chooses no items")

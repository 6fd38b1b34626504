"""The method "sample" in a ranking: who gets the next item, and what is decided."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import logit, stdtr

from ...bank.bank import ItemBank
from ...errors import UsageError
from ..policy import Choice, Differences, Floats, Policy
from .betting import betting_interval
from .ease import groups_by_ease
from .effects import Effects
from .pairs import Pairs, SharedSequence, strata_of
from .rules import ByBetting, BySequence, Rule
from .stated import largest_departures, variances_of_pairs

GUARANTEES = ("asymptotic", "finite")
#: Strata smaller than this are taken together: each needs a variance of its own.
SMALLEST_STRATUM = 30


class SamplePolicy(Policy):
    """Models compared on prefixes of one shared random sequence of items.

    Everything is inferred from the draws alone, nothing from a response model. A pair is judged by
    the paired differences on the longest beginning of the sequence that both models are done with.
    An item on which a model failed does not count for its pairs, so that what is compared is the
    items that both can answer; failures are not at random, and no estimate can mend that.

    Parameters
    ----------
    bank : ItemBank
        Its items; parameters are not used.
    n_models : int
    seed : int, optional
        Of the sequence.
    guarantee : {"asymptotic", "finite"}, optional
        Decisions by the asymptotic confidence sequence of `sums`, or by `betting`, which holds for
        any number of items and needs more of them.
    strata : sequence or mapping of doc_id to label, optional
        A group for every item (in bank order), known before any score; each group is then drawn
        from in proportion to its size, which helps where groups differ in their differences. By
        default groups of items that were about as hard for the models that the bank has answers
        of, if it has any.

    Raises
    ------
    UsageError
        An unknown guarantee, strata that do not fit the items, or strata with betting, which is
        not valid for them.
    """

    draws = True
    affords_mean = True  # what is dear must not be left out of a random sample

    def __init__(
        self,
        bank: ItemBank,
        n_models: int,
        seed: int = 0,
        guarantee: str = "asymptotic",
        strata: Sequence[Any] | Mapping[Any, Any] | None = None,
    ) -> None:
        if guarantee not in GUARANTEES:
            raise UsageError(f"guarantee {guarantee!r}: choose one of {', '.join(GUARANTEES)}")
        if strata is not None and guarantee == "finite":
            raise UsageError("betting (guarantee 'finite') is not valid with strata; give one")
        self.bank, self.tests = bank, []
        self.guarantee = guarantee
        items = np.flatnonzero(bank.kept)
        labels = _labels(bank, strata)
        if labels is None and guarantee == "asymptotic":
            labels = groups_by_ease(bank)
        stratum = strata_of(labels, items, SMALLEST_STRATUM)
        self.sequence = SharedSequence(items, stratum, seed)
        self.pairs = Pairs(n_models, self.sequence, bank.n_items)
        self.effects = Effects(n_models, bank.n_items)
        self.asked = np.zeros(n_models, dtype=np.intp)
        self._loss = np.zeros((n_models, n_models))
        self._stale = set(range(n_models))  # models of which a pair's loss may have changed

    # -- what happens -------------------------------------------------------------------------

    def select(
        self, model: int, available: NDArray[np.bool_], pending: Sequence[int], price: Floats
    ) -> Choice:
        rest = self.sequence.order[self.pairs.seen[model] :]
        item = int(rest[int(np.argmax(available[rest]))])
        return Choice(item, self.sequence.probability(item))

    def shortlist(
        self,
        model: int,
        available: NDArray[np.bool_],
        pending: Sequence[int],
        price: Floats,
        k: int,
    ) -> list[int]:
        """Nothing but the next: a draw is not chosen among the best."""
        return [self.select(model, available, pending, price).item]

    def place(self, model: int, item: int, probability: float | None = None) -> None:
        self.asked[model] += 1
        if probability is not None:
            self.sequence.fix(item, int(self.pairs.seen.max()))

    def unplace(self, model: int, item: int) -> None:
        self.asked[model] -= 1

    def update(self, model: int, item: int, score: float) -> None:
        if not 0.0 <= score <= 1.0:
            raise ValueError(f"score {score!r} of item {item} is not in [0, 1]")
        if self.pairs.done[model, item]:
            raise ValueError(f"item {item} was administered before")
        self.effects.learn(model, item, score)
        self.pairs.settle(model, item, score)
        self._stale.add(model)

    def skip(self, model: int, item: int) -> None:
        if not self.pairs.done[model, item]:
            self.pairs.settle(model, item, math.nan)
            self._stale.add(model)

    def add_model(self) -> None:
        """One more model joins.

        It gets the sequence from its beginning. With ``familywise`` the confidence is then shared
        by more pairs, and decisions are looked at anew.
        """
        self.effects = self.effects.add_model()
        self.pairs.add_model()
        self.asked = np.append(self.asked, 0)
        self._loss = np.zeros((len(self.asked), len(self.asked)))
        self._stale = set(range(len(self.asked)))

    # -- what is known ------------------------------------------------------------------------

    def estimate(self, model: int) -> tuple[float, float]:
        """Mean by least squares on models and items, as in two-phase sampling."""
        means, rest = self.effects.solve()
        n, seen = int(self.effects.counts[model]), self.effects.n_seen
        if n == 0:
            return float(means[model]), 0.5
        series = np.array([model])
        plain = float(self.pairs.own.variances(series)[1][0])
        imagined = largest_departures(self.pairs, series)
        one = float(self.pairs.own.variances(series, imagined)[1][0])
        rest += one - plain  # what it has not shown yet departs from the other models', too
        size = len(self.sequence.order)
        variance = one * (1.0 / seen - 1.0 / size) + rest * (1.0 / n - 1.0 / seen)
        return float(means[model]), math.sqrt(max(variance, 0.0))

    def interval(self, model: int, confidence: float) -> tuple[float, float]:
        """Interval of the full-benchmark mean of `model` that holds at every look, on [0, 1].

        From its own items alone, in the order of the sequence.
        """
        if self.guarantee == "finite":
            own = self.sequence.order[: self.pairs.seen[model]]
            values = self.pairs.scores[model, own]
            return betting_interval(values, len(self.sequence.order), 1.0 - confidence)
        series = np.array([model])
        imagined = largest_departures(self.pairs, series)
        radius = float(self.pairs.own.radius(series, 1.0 - confidence, imagined)[0])
        if math.isinf(radius):
            return 0.0, 1.0
        mean = float(self.pairs.own.means(series)[0] + self.pairs.shift[model])
        return max(mean - radius, 0.0), min(mean + radius, 1.0)

    def expected(self, model: int) -> Floats:
        return self.effects.expected(model)

    def ability(self, model: int) -> tuple[float, float]:
        """The logit of the mean: there is no other ability."""
        mean, error = self.estimate(model)
        edge = 0.5 / len(self.sequence.order)
        p = min(max(mean, edge), 1.0 - edge)
        return float(logit(p)), error / (p * (1.0 - p))

    def standing(self, model: int) -> tuple[float, float]:
        mean, error = self.estimate(model)
        return mean, error**2

    @property
    def n_models(self) -> int:
        return self.pairs.n_models

    def location(self, model: int) -> float:
        return float(self.effects.solve()[0][model])

    def locations(self) -> Floats:
        return self.effects.solve()[0]

    def differences(self) -> Differences:
        p = self.pairs
        every = np.arange(len(p.first))
        variance = np.minimum(variances_of_pairs(p), 1.0)
        df = np.maximum(p.sums.items(every) - len(self.sequence.sizes), 1.0)
        return Differences(self.effects.solve()[0], p.matrix(variance), p.matrix(df))

    def critical(self, level: float) -> Floats:
        """As wide as the confidence sequence is: a sum over tasks is looked at every item, too."""
        p = self.pairs
        every = np.arange(len(p.first))
        variance, radius = variances_of_pairs(p), p.sums.radius(every, level)
        known = (variance > 0.0) & np.isfinite(variance)
        reach = np.where(variance > 0.0, np.inf, 0.0)
        np.divide(radius, np.sqrt(variance), out=reach, where=known)
        return p.matrix(reach)

    def pairwise(self) -> Floats:
        """By Student's distribution, as if looked at once; `decisions` hold at every look."""
        p = self.pairs
        every = np.arange(len(p.first))
        variance, mean = variances_of_pairs(p), p.sums.means(every)
        df = np.maximum(p.sums.items(every) - len(self.sequence.sizes), 1.0)
        known = np.where(mean > 0.0, 1.0, np.where(mean < 0.0, 0.0, 0.5))
        spread = np.where(variance > 0.0, variance, 1.0)
        better = np.where(variance > 0.0, stdtr(df, mean / np.sqrt(spread)), known)
        return 0.5 + p.matrix(better - 0.5, sign=-1)

    def adjacent(self, order: Sequence[int]) -> Floats:
        return self.pairwise()[list(order[:-1]), list(order[1:])]

    def decisions(
        self, confidence: float, min_difference: float = 0.0, familywise: bool = False
    ) -> NDArray[np.int8]:
        """What is known of each pair, by a rule that holds at every look; final once made.

        A pair decided after some of its items stays so, whatever the later ones say, unless its
        difference is known in the end. ``familywise`` is Bonferroni's rule over all pairs.
        """
        n_pairs = len(self.pairs.first)
        alpha = (1.0 - confidence) / (max(n_pairs, 1) if familywise else 1)

        def rule() -> Rule:
            if self.guarantee == "finite":
                return ByBetting(alpha, min_difference, n_pairs, len(self.sequence.order))
            return BySequence(alpha, min_difference)

        state = self.pairs.by((alpha, min_difference), rule).state
        return self.pairs.matrix(state).astype(np.int8)

    def priority(self, model: int, pending: Sequence[int], price: float) -> float:
        """Expected loss of wrong orders that one more item saves, for its price.

        The loss of a pair is ``s phi(difference / s)`` to first order, which falls with one over
        the items. A pair gains only when both models have had the item: from a model that is
        behind its partner at once, from one that is level half, from one ahead next to nothing.
        """
        return float(self.priorities([model], [pending], [price])[0])

    def priorities(
        self, models: Sequence[int], pending: Sequence[Sequence[int]], prices: Sequence[float]
    ) -> Floats:
        had = np.maximum(self.asked, self.pairs.seen)
        own = had[list(models)]
        lead = own[:, None] - had[None, :]
        gain = np.where(lead < 0, 1.0, np.where(lead == 0, 0.5, 0.05))
        worth = (self._losses()[list(models)] * gain).sum(axis=1) if len(had) > 1 else 1.0
        return np.asarray(worth / (own + 1) / np.asarray(prices, dtype=np.float64))

    def _losses(self) -> Floats:
        """Loss of each pair; shape (n_models, n_models), the diagonal 0."""
        p = self.pairs
        for model in self._stale:
            others = np.flatnonzero(np.arange(p.n_models) != model)
            pairs = p.number[model, others]
            variance = np.minimum(p.sums.variances(pairs)[0], 1.0)
            spread = np.sqrt(np.maximum(variance, 1e-30))
            loss = spread * np.exp(-0.5 * (p.sums.means(pairs) / spread) ** 2)
            self._loss[model, others] = self._loss[others, model] = loss
        self._stale.clear()
        return self._loss


def _labels(bank: ItemBank, strata: Any) -> list[object] | None:
    if strata is None:
        return None
    if isinstance(strata, Mapping):
        unknown = [d for d in bank.doc_ids if d not in strata]
        if unknown:
            raise UsageError(f"strata: no group of doc_id {unknown[0]!r}")
        return [strata[d] for d in bank.doc_ids]
    if len(strata) != bank.n_items:
        raise UsageError(f"strata: {len(strata)} groups for {bank.n_items} items")
    return list(strata)


def make_policy(
    bank: ItemBank,
    n_models: int,
    *,
    seed: int = 0,
    guarantee: str = "asymptotic",
    strata: Sequence[Any] | Mapping[Any, Any] | None = None,
) -> SamplePolicy:
    """The policy of `n_models` models over the items of a bank; see `SamplePolicy`."""
    return SamplePolicy(bank, n_models, seed, guarantee, strata)

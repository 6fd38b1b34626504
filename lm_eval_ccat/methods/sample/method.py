"""The method "sample": items drawn at random, the same for all models; means, and who is next."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from scipy.special import logit

from ...bank.bank import ItemBank
from ...errors import UsageError
from ..belief import BENCHMARK, Belief, Floats, Places
from ..evidence import betting_interval, log_p
from ..method import Method
from ..policy import Choice, Description, Items, Mask, Policy, check_score
from .means import Effects, Slope, ease_of, slope_of
from .pairs import LEAST, Pairs, SharedSequence

GUARANTEES = ("asymptotic", "finite")
#: Strata smaller than this are taken together: each needs a variance of its own.
SMALLEST_STRATUM = 30
_VARIANCE, _EVIDENCE, _LOSS, _ITEMS = range(4)


class SamplePolicy(Policy):
    """Models compared on prefixes of one shared random sequence of items.

    Everything is inferred from the draws alone, nothing from a response model. Models stand where
    least squares on models and items put them; the error of a pair is that of its paired
    differences on the longest beginning of the sequence that both models are done with, and so is
    the evidence that one is better. An item on which a model failed has no difference: values are
    taken to be missing at random.

    Parameters
    ----------
    bank : ItemBank
        Its items, and how easy they are elsewhere (`ease`), which moves means but no verdict.
    n_models : int
    seed : int, optional
        Of the sequence.
    guarantee : {"asymptotic", "finite"}, optional
        Evidence by the asymptotic confidence sequence of `evidence.log_p`, or by betting, which
        holds for any number of items and needs more of them.
    strata : sequence or mapping of doc_id to label, optional
        A group for every item (in bank order), known before any score; each group is then drawn
        from in proportion to its size, which helps where groups differ in their differences.
    min_difference : float, optional
        On [0, 1]: what betting has to refute for two models to be equivalent. The ranker's own.

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
        *,
        seed: int = 0,
        guarantee: str = "asymptotic",
        strata: Sequence[Any] | Mapping[Any, Any] | None = None,
        min_difference: float = 0.0,
    ) -> None:
        if guarantee not in GUARANTEES:
            raise UsageError(f"guarantee {guarantee!r}: choose one of {', '.join(GUARANTEES)}")
        if strata is not None and guarantee == "finite":
            raise UsageError("betting (guarantee 'finite') is not valid with strata; give one")
        self._finite, self._close_by = guarantee == "finite", min_difference
        items = np.flatnonzero(bank.kept)
        self.sequence = SharedSequence(items, strata_of(bank, strata, items), seed)
        nulls = np.array([0.0, -min_difference]) if self._finite else None
        self.pairs = Pairs(n_models, self.sequence, bank.n_items, nulls)
        self.effects = Effects(n_models, bank.n_items)
        self._ease, self._slope = ease_of(bank), Slope()
        self._lenders = ", ".join((bank.provenance.get("borrowed") or {}).get("donors", ()))
        self._asked = np.zeros(n_models, dtype=np.intp)
        self._forget()

    def _forget(self) -> None:
        n_models = len(self._asked)
        # Of pairs, as seen as a benchmark (True) and as a sample of a population.
        self._known = {w: np.zeros((4, n_models, n_models)) for w in (True, False)}
        self._stale = {w: set(range(n_models)) for w in (True, False)}
        self._learned = -1  # scores that the slope has seen

    # -- what happened ------------------------------------------------------------------------

    def placed(self, model: int, item: int, probability: float | None = None) -> None:
        self._asked[model] += 1
        if probability is not None:
            self.sequence.fix(item, int(self.pairs.seen.max()))

    def unplaced(self, model: int, item: int) -> None:
        self._asked[model] -= 1

    def told(self, model: int, item: int, score: float) -> None:
        check_score(score, item, seen=bool(self.pairs.done[model, item]))
        self.effects.learn(model, item, score)
        self._settle(model, item, score)

    def failed(self, model: int, item: int) -> None:
        if not self.pairs.done[model, item]:
            self._settle(model, item, math.nan)

    def _settle(self, model: int, item: int, score: float) -> None:
        self.pairs.settle(model, item, score)
        for stale in self._stale.values():
            stale.add(model)

    def add_model(self) -> None:
        """One more model joins; it gets the sequence from its beginning."""
        self.effects.add_model()
        self.pairs.add_model()
        self._asked = np.append(self._asked, 0)
        self._forget()

    # -- what is known ------------------------------------------------------------------------

    def belief(self, question: str = BENCHMARK) -> Belief:
        whole = question == BENCHMARK
        pairs = self._of_pairs(whole)
        mean, alone = self._of_models(whole)
        variance, n = np.minimum(pairs[_VARIANCE], 1.0), pairs[_ITEMS].copy()
        on = slice(None, None, len(mean) + 1)
        variance.flat[on], n.flat[on] = alone, self.effects.counts
        df = np.maximum(n - len(self.sequence.sizes), 1.0)
        size = float(len(self.sequence.order)) if whole else math.inf
        belief = Belief(mean, variance, df, n, size, question, evidence=pairs[_EVIDENCE].copy())
        return self._with_bets(belief) if self._finite and whole else belief

    def _of_pairs(self, whole: bool) -> Floats:
        """Variances, evidence, loss and items of all pairs, brought up to date."""
        p, known = self.pairs, self._known[whole]
        for model in self._stale[whole]:
            others = np.flatnonzero(np.arange(p.n_models) != model)
            at = p.number[model, others]
            plain, of_one = p.sums.variances(at, whole=whole)
            mean, items = p.sums.means(at), p.sums.items(at)
            spread = np.sqrt(np.clip(plain, 1e-30, 1.0))
            usable = np.isfinite(plain) & (plain > 0.0) & (items >= LEAST)
            size = np.zeros(len(at))
            clock = of_one[usable] / plain[usable]
            size[usable] = -log_p(mean[usable] / np.sqrt(plain[usable]), clock)
            ahead = np.where(others > model, mean, -mean)  # of the model to the others
            loss = spread * np.exp(-0.5 * (mean / spread) ** 2)
            rows = np.array([p.stated(at, whole), np.where(ahead > 0.0, size, 0.0), loss, items])
            known[:, model, others] = known[:, others, model] = rows
            known[_EVIDENCE, others, model] = np.where(ahead < 0.0, size, 0.0)
        self._stale[whole].clear()
        return known

    def _with_bets(self, belief: Belief) -> Belief:
        """The belief with the evidence of bets in place of that of the mixture."""
        p, size = self.pairs, belief.variance.shape
        assert p.bets is not None
        ready = p.sums.items(np.arange(len(p.first))) >= LEAST
        up, down = (
            np.where(ready, np.maximum(b.log_capital - math.log(2.0), 0.0), 0.0) for b in p.bets
        )
        evidence, closeness = np.zeros(size), np.zeros(size)
        evidence[p.first, p.second], evidence[p.second, p.first] = up[0], down[0]
        if self._close_by > 0.0:
            near = np.minimum(up[1], down[1])
            closeness[p.first, p.second] = closeness[p.second, p.first] = near
        return replace(belief, evidence=evidence, closeness=closeness, close_by=self._close_by)

    def _of_models(self, whole: bool) -> tuple[Floats, Floats]:
        """Means by least squares on models and items, and variances as in two-phase sampling."""
        means, rest = self.effects.solve()
        every, single = np.arange(len(means)), self.pairs.single
        n, seen, size = self.effects.counts, self.effects.n_seen, len(self.sequence.order)
        one = single.variances(every, self.pairs.largest_departures(every))[1]
        # What it has not shown yet departs from the other models', too.
        apart = rest + one - single.variances(every)[1]
        full = n == size
        means = np.where(full, np.nan_to_num(single.means(every) + self.pairs.shift), means)
        every_one = 1.0 / max(seen, 1)
        left = every_one - (1.0 / size if whole else 0.0)
        variance = np.maximum(one * left + apart * (1.0 / np.maximum(n, 1) - every_one), 0.0)
        if self._ease is not None:
            slope, drawn = self._borrowed(), np.isfinite(self.effects.scores).any(axis=0)
            off = float(self._ease @ drawn) / max(seen, 1)
            means = np.where(full, means, np.clip(means - slope.value * off, 0.0, 1.0))
            variance += slope.variance * off**2
            variance -= slope.explained * one * (every_one - 1.0 / size)
        if whole:
            variance[full] = 0.0
        return means, np.where(self.effects.counts > 0, variance, 0.25)

    def _borrowed(self) -> Slope:
        """What the scores so far say of the ease of items elsewhere."""
        n = int(self.effects.counts.sum())
        if self._ease is not None and n != self._learned:
            self._learned, self._slope = n, slope_of(self.effects.scores, self._ease)
        return self._slope

    def expected(self, model: int) -> Floats:
        return self.effects.expected(model)

    def describe(self, model: int) -> Description:
        """The logit of the mean: there is no other ability."""
        means, variances = self._of_models(True)
        mean, variance = float(means[model]), float(variances[model])
        edge = 0.5 / len(self.sequence.order)
        p = min(max(mean, edge), 1.0 - edge)

        def interval(confidence: float) -> tuple[float, float]:
            drawn = self.sequence.order[: self.pairs.seen[model]]
            values = self.pairs.scores[model, drawn]
            return betting_interval(values, len(self.sequence.order), 1.0 - confidence)

        findings = (
            f"finds documents that are hard in {self._lenders} hardly harder than others: that "
            "misleads, and is left out",
        )
        return Description(
            float(logit(p)),
            math.sqrt(variance) / (p * (1.0 - p)),
            findings if self._lenders and self._borrowed().misleads else (),
            interval=interval if self._finite else None,
        )

    # -- what next ----------------------------------------------------------------------------

    def next(
        self, model: int, available: Mask, pending: Items, price: Floats, k: int = 1
    ) -> list[Choice]:
        """Nothing but the next of the sequence: a draw is not chosen among the best."""
        rest = self.sequence.order[self.pairs.seen[model] :]
        item = int(rest[int(np.argmax(available[rest]))])
        return [Choice(item, self.sequence.probability(item))]

    def priorities(
        self, belief: Belief, models: Items, pending: Sequence[Items], prices: Sequence[float]
    ) -> Floats:
        """Expected loss of wrong orders that one more item saves, for its price.

        The loss of a pair is ``s phi(difference / s)`` to first order, which falls with one over
        the items. A pair gains only when both models have had the item: from a model that is
        behind its partner at once, from one that is level half, from one ahead next to nothing.
        """
        had = np.maximum(self._asked, self.pairs.seen)
        theirs = had[list(models)]
        lead = theirs[:, None] - had[None, :]
        gain = np.where(lead < 0, 1.0, np.where(lead == 0, 0.5, 0.05))
        loss = self._of_pairs(belief.question == BENCHMARK)[_LOSS]
        worth = (loss[list(models)] * gain).sum(axis=1) if len(had) > 1 else 1.0
        return np.asarray(worth / (theirs + 1) / np.asarray(prices, dtype=np.float64))


def strata_of(bank: ItemBank, strata: Any, items: Places) -> Places:
    """Number the strata of `items`; those of few items are taken together."""
    if strata is None:
        return np.zeros(len(items), dtype=np.intp)
    if isinstance(strata, Mapping):
        if unknown := [d for d in bank.doc_ids if d not in strata]:
            raise UsageError(f"strata: no group of doc_id {unknown[0]!r}")
        strata = [strata[d] for d in bank.doc_ids]
    if len(strata) != bank.n_items:
        raise UsageError(f"strata: {len(strata)} groups for {bank.n_items} items")
    labels = [str(strata[i]) for i in items]
    count = Counter(labels)
    merged = [label if count[label] >= SMALLEST_STRATUM else "" for label in labels]
    return np.unique(merged, return_inverse=True)[1].astype(np.intp)


METHOD = Method(
    name="sample",
    summary="random items, the same for all models; no bank needed",
    policy=SamplePolicy,
)

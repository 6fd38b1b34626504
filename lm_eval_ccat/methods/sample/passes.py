"""Passes over the items, and the method "sample" where answers are repeated in passes.

A *slot* is one answer to be given to an item: repeat ``r`` of an item is slot
``item + n_items (r - 1)``.
"""

from __future__ import annotations

import math

import numpy as np

from ...bank.bank import ItemBank
from ...metrics.scale import Floats
from ..belief import BENCHMARK, Belief, Indices
from ..policy import Choice, Description, Items, Mask, Policy, check_score
from .effects import Effects, correction_variances
from .pairs import Pairs, SharedSequence, seed_of_draws
from .repeats import RepeatSums

#: Second and later answers of a model, over all items, from which its noise within items is stated.
REPEATS_THAT_TELL = 10
#: By how much the seeds of two passes in a row differ.
_SEED_STEP = 1_000_003


class Passes(SharedSequence):
    """The order of all slots, pass by pass: each pass has every item once, in a new random order.

    A run rebuilt from a journal imposes its recorded order, slot by slot.

    Parameters
    ----------
    items : ndarray of int
        Items that may be drawn, as positions in bank order.
    n_items : int
        Items in bank order.
    repeats : int
    seed : int

    Examples
    --------
    >>> passes = Passes(np.arange(3), n_items=3, repeats=2, seed=0)
    >>> sorted(passes.order[:3].tolist()), sorted(passes.order[3:].tolist())
    ([0, 1, 2], [3, 4, 5])
    >>> passes.probability(int(passes.order[4]))
    0.5
    """

    def __init__(self, items: Indices, n_items: int, repeats: int, seed: int) -> None:
        self._items, self._n_items, self._seed = items, n_items, seed
        self.order = np.zeros(0, dtype=np.intp)
        self.fixed, self._pass_length = 0, len(items)
        self.extend(repeats)

    def extend(self, repeats: int) -> None:
        """Add passes until there are `repeats` in all."""
        orders = [self.order]
        for number in range(len(self.order) // self._pass_length, repeats):
            # The first pass has the order of a ranking of single answers.
            seed = self._seed if number == 0 else self._seed + number * _SEED_STEP
            orders.append(SharedSequence(self._items, seed).order + number * self._n_items)
        self.order = np.concatenate(orders)
        self.position = np.full(self._n_items * repeats, -1, dtype=np.intp)
        self.position[self.order] = np.arange(len(self.order))

    def probability(self, item: int) -> float:
        """Return the probability of drawing a slot among those left in its pass."""
        return 1.0 / (self._pass_length - int(self.position[item]) % self._pass_length)


class RepeatedPairs(Pairs):
    """Pairs of models on the slots that both are done with, as a prefix of the passes.

    A slot on which one of two models failed does not count for the pair. An item may thus have
    fewer answers in one pair than in another.

    Parameters
    ----------
    n_models : int
    sequence : Passes
    n_items : int
        Items in bank order.
    repeats : int

    Attributes
    ----------
    repeat_sums : RepeatSums
        Of all pairs (series ``a n_models + b``), and of each model by itself (``a n_models + a``).
    """

    def __init__(self, n_models: int, sequence: Passes, n_items: int, repeats: int) -> None:
        self._n_items = n_items
        super().__init__(n_models, sequence, n_items * repeats)

    def _start(self) -> None:
        super()._start()
        repeats = max(self.scores.shape[1] // self._n_items, 1)
        n_kept = len(self.sequence.order) // repeats
        self.repeat_sums = RepeatSums(len(self.scores) ** 2, n_kept)

    def extend(self, repeats: int) -> None:
        """Make room for up to `repeats` answers of an item."""
        further = ((0, 0), (0, self._n_items * repeats - self.scores.shape[1]))
        self.scores = np.pad(self.scores, further, constant_values=np.nan)
        self.done = np.pad(self.done, further)

    def earlier_answers(self, slot: int) -> Floats:
        """Return all models' scores on a slot's item in earlier passes; (n_models, n_earlier)."""
        return np.asarray(self.scores[:, slot % self._n_items : slot : self._n_items])

    def _learn(self, model: int, slot: int, past_slot: Indices) -> None:
        """Take in a slot of `model` and its pairs with models `past_slot`, itself among these.

        A pair of models is two series, one in each direction. The model by itself is one, beside a
        rival that always scores 0.
        """
        n_models, answers = len(self.scores), self.scores[:, slot]
        # A slot on which the model failed counts for none of its pairs.
        if np.isnan(answers[model]):
            return
        beside, earlier = past_slot[np.isfinite(answers[past_slot])], self.earlier_answers(slot)
        # Of the item's earlier answers only those count that both models have. Arrays are by model
        # in `beside`.
        common = np.isfinite(earlier[beside]) & np.isfinite(earlier[model])
        count = common.sum(axis=1).astype(np.float64)
        divisor = np.maximum(count, 1.0)
        rival_means = np.where(common, earlier[beside], 0.0).sum(axis=1) / divisor
        own_means = np.where(common, earlier[model], 0.0).sum(axis=1) / divisor
        by_itself = beside == model
        rivals = ~by_itself
        # Two rows: this answer's score, and the mean of the earlier ones.
        model_rows = np.array([np.full(len(beside), answers[model]), own_means])
        rival_rows = np.where(by_itself, 0.0, [answers[beside], rival_means])
        # Pairs with the model first, then the same pairs with the rival first.
        first, mean_of_first = np.concatenate([model_rows, rival_rows[:, rivals]], axis=1)
        second, mean_of_second = np.concatenate([rival_rows, model_rows[:, rivals]], axis=1)
        series = np.concatenate([model * n_models + beside, beside[rivals] * n_models + model])
        counts = np.concatenate([count, count[rivals]])
        self.repeat_sums.learn(series, first, second, counts, mean_of_first, mean_of_second)


class SequencePolicy(Policy):
    """Models that get the items of one random sequence, in its order.

    An item that was given back keeps its place, and is the model's next one.

    Attributes
    ----------
    sequence : SharedSequence
    pairs : Pairs
    effects : Effects
    """

    # A random sample must not leave out expensive items.
    affords_mean = True
    sequence: SharedSequence
    pairs: Pairs
    effects: Effects

    def add_model(self) -> None:
        """Add a model, which gets the sequence from its beginning."""
        self.effects.add_model()
        self.pairs.add_model()

    def asked(self, model: int, item: int, probability: float | None = None) -> None:
        # A draw, now or recorded in a journal, holds its place from now on.
        if probability is not None:
            self.sequence.fix(item, int(self.pairs.progress.max()))

    def failed(self, model: int, item: int) -> None:
        # The score of an earlier answer stays.
        if not self.pairs.done[model, item]:
            self._record(model, item, math.nan)

    def _record(self, model: int, item: int, score: float) -> None:
        """Record that `model` is done with `item`; the score of a failure is NaN."""
        self.pairs.record(model, item, score)

    def expected(self, model: int) -> Floats:
        return self.effects.expected(model)

    def next(
        self, model: int, available: Mask, pending: Items, price: Floats, k: int = 1
    ) -> list[Choice]:
        """Return the next available item of the sequence alone: draws have no second best."""
        items_left = self.sequence.order[self.pairs.progress[model] :]
        item = int(items_left[int(np.argmax(available[items_left]))])
        return [Choice(item, self.sequence.probability(item))]


class RepeatsPolicy(SequencePolicy):
    """Models compared on prefixes of the passes: several sampled answers of every item.

    Items are slots here, as `Passes` numbers them; only `expected` has one value per item.

    Parameters
    ----------
    bank : ItemBank
    n_models : int
    repeats : int
        Most answers of an item.
    seed : int, optional
        Seed of the passes.
    """

    sequence: Passes
    pairs: RepeatedPairs

    def __init__(self, bank: ItemBank, n_models: int, *, repeats: int, seed: int = 0) -> None:
        self._n_items = bank.n_items
        seed = seed_of_draws(bank, seed)
        self.sequence = Passes(np.flatnonzero(bank.kept), bank.n_items, repeats, seed)
        self.pairs = RepeatedPairs(n_models, self.sequence, bank.n_items, repeats)
        self.effects = Effects(n_models, bank.n_items)
        # The belief since the last answer, and the noise of each series: a result describes each
        # model in turn.
        self._described: tuple[Belief, Floats] | None = None

    def add_model(self) -> None:
        super().add_model()
        self._described = None

    def raise_repeats(self, repeats: int) -> None:
        self.sequence.extend(repeats)
        self.pairs.extend(repeats)
        self._described = None

    def told(self, model: int, item: int, score: float) -> None:
        check_score(score, item, answered=bool(self.pairs.done[model, item]))
        self._record(model, item, score)
        answers = self.pairs.scores[model, item % self._n_items :: self._n_items]
        self.effects.learn(model, item % self._n_items, float(np.nanmean(answers)))

    def _record(self, model: int, item: int, score: float) -> None:
        super()._record(model, item, score)
        self._described = None

    def belief(self, question: str = BENCHMARK) -> Belief:
        n_models, sums = len(self.effects.counts), self.pairs.repeat_sums
        figures = sums.figures(population=question != BENCHMARK)
        variance, df, n, event = (
            figure.reshape(n_models, n_models)
            for figure in (figures.variance, figures.df, figures.answers, figures.event)
        )
        alone, items = variance.diagonal(), self.effects.counts
        # The diagonal has the variance of a mean over all items that some model has: `alone` is
        # that over the model's own, and the scores of other models stand for the others.
        pairs = sums.figures(population=True).variance.reshape(n_models, n_models)
        pair_items = sums.items.reshape(n_models, n_models)
        n_scored_items = self.effects.n_scored_items
        correction = correction_variances(pairs, pair_items, items, n_scored_items)
        share = np.maximum(items, 1) / max(n_scored_items, 1)
        np.fill_diagonal(variance, alone * share + correction)
        # Scores on [0, 1] have a variance of at most 1/4, their differences of at most 1. Before
        # two items the variance would be infinite.
        variance = np.minimum(variance, np.where(np.eye(n_models) > 0.0, 0.25, 1.0))
        # What a mean of n answers loses by one more event of noise.
        zero_loss = event / np.maximum(n, 1.0)
        mean = self.effects.means()
        # No number of items ends the errors: answers stay noisy. The variances have the correction
        # for the benchmark's items.
        return Belief(mean, variance, df, n, math.inf, question, pair_zero_loss=zero_loss)

    def describe(self, model: int) -> Description:
        if self._described is None:
            self._described = self.belief(), self.pairs.repeat_sums.figures().noise
        belief, noise_of_series = self._described
        mean, variance = float(belief.location[model]), float(belief.variance[model, model])
        # The series ``a n_models + a`` of the model by itself.
        series, sums = model * (len(belief.location) + 1), self.pairs.repeat_sums
        # From fewer repeats, the variance between items would be taken for noise.
        n_repeats = sums.answers[series] - sums.items[series]
        noise = float(noise_of_series[series]) if n_repeats >= REPEATS_THAT_TELL else None
        edge = 0.5 / len(self.sequence.order)
        return Description.of_mean(mean, math.sqrt(variance), edge, noise=noise)

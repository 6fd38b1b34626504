"""Pairs of models on the items that both have had, as a prefix of one shared random sequence."""

from __future__ import annotations

import numpy as np

from .betting import Bets
from .sums import Floats, Ints, Sums

#: A mean is near an end of the scale that is at most so many standard deviations of an item away.
NEAR = 4.0


class SharedSequence:
    """The order in which every model gets the items.

    The order is random and settled by the seed; a run that is rebuilt from a journal imposes the
    one it had, item by item. Within strata the order is random; the strata take turns in
    proportion to their sizes.

    Parameters
    ----------
    items : ndarray of int
        Those that may be drawn, as positions in bank order.
    stratum : ndarray of int, shape (len(items),)
        Numbers from 0.
    seed : int
    """

    def __init__(self, items: Ints, stratum: Ints, seed: int) -> None:
        rng = np.random.default_rng([seed, 0x5A])
        self.sizes = np.bincount(stratum).astype(np.float64)
        self.stratum_of = dict(zip(items.tolist(), stratum.tolist()))
        turn = np.empty(len(items))
        for h, size in enumerate(self.sizes.astype(int).tolist()):
            turn[stratum == h] = (rng.permutation(size) + rng.random()) / size
        self.order: Ints = items[np.argsort(turn, kind="stable")]
        self.position = np.full(int(items.max()) + 1, -1, dtype=np.intp)
        self.position[self.order] = np.arange(len(items))
        self.fixed = 0  # so many items of the order have been asked of some model

    def fix(self, item: int, least: int = 0) -> None:
        """Make `item` the next of the sequence, unless it stands in it or in its `least` first."""
        at, end = int(self.position[item]), max(self.fixed, least)
        if at < end:
            return
        other = int(self.order[end])
        self.order[end], self.order[at] = item, other
        self.position[item], self.position[other] = end, at
        self.fixed = end + 1

    def probability(self, item: int) -> float:
        """Of drawing `item` among the items of its stratum that stood after it."""
        at = int(self.position[item])
        h = self.stratum_of[item]
        if len(self.sizes) == 1:
            return 1.0 / (len(self.order) - at)
        before = sum(self.stratum_of[int(i)] == h for i in self.order[:at])
        return float(1.0 / (float(self.sizes[h]) - before))


class Pairs:
    """Sums over the items of every pair, kept up to date item by item.

    A pair has seen the longest beginning of the sequence that both models are done with: scored,
    or failed. What a pair has seen does then not depend on which answer came back first, and the
    bounds hold for whatever rule divides the items between the models.

    Parameters
    ----------
    n_models : int
    sequence : SharedSequence
    n_items : int
        Items in bank order.
    nulls : ndarray, optional
        Differences to bet against, on [-1, 1]; without them nothing is bet.

    Attributes
    ----------
    sums, own : Sums
        Of the differences of all pairs, and of the models' scores (less the first of each).
    bets : (Bets, Bets) or None
        That the first model of each pair is better, and that the second is.
    """

    def __init__(
        self, n_models: int, sequence: SharedSequence, n_items: int, nulls: Floats | None = None
    ) -> None:
        self.sequence, self._nulls = sequence, nulls
        self.scores = np.full((n_models, n_items), np.nan)
        self.done = np.zeros((n_models, n_items), dtype=bool)
        self._start(n_models)

    def _start(self, n_models: int) -> None:
        self.first, self.second = np.triu_indices(n_models, 1)
        self.number = np.zeros((n_models, n_models), dtype=np.intp)
        self.number[self.first, self.second] = np.arange(len(self.first))
        self.number += self.number.T
        self.seen = np.zeros(n_models, dtype=np.intp)  # length of each model's beginning
        self.shift = np.full(n_models, np.nan)  # first score: own sums are of what departs from it
        sizes, n_pairs = self.sequence.sizes, len(self.first)
        self.sums, self.own = Sums(n_pairs, sizes), Sums(n_models, sizes)
        self.bets: tuple[Bets, Bets] | None = None
        if self._nulls is not None:
            size, nulls = float(sizes.sum()), 0.5 + 0.5 * self._nulls
            self.bets = Bets(n_pairs, size, nulls), Bets(n_pairs, size, nulls)

    @property
    def n_models(self) -> int:
        return len(self.scores)

    def add_model(self) -> None:
        """One more model; the sums are computed anew."""
        n_models, n_items = self.n_models + 1, self.scores.shape[1]
        self.scores = np.vstack([self.scores, np.full(n_items, np.nan)])
        self.done = np.vstack([self.done, np.zeros(n_items, dtype=bool)])
        self._start(n_models)
        for model in range(n_models):
            self.advance(model)

    def settle(self, model: int, item: int, score: float) -> None:
        """`model` is done with `item`; NaN is the score of a failure."""
        self.scores[model, item], self.done[model, item] = score, True
        self.advance(model)

    def advance(self, model: int) -> None:
        """Take in what of the sequence `model` is done with by now."""
        order, done = self.sequence.order, self.done[model]
        at = int(self.seen[model])
        while at < len(order) and done[item := int(order[at])]:
            h = self.sequence.stratum_of[item]
            self.seen[model] = at + 1
            own = np.array([model], dtype=np.intp)
            if np.isnan(self.shift[model]):
                self.shift[model] = self.scores[model, item]
            self.own.learn(own, self.scores[own, item] - self.shift[own], h)
            others = np.flatnonzero(self.seen > at)
            others = others[others != model]
            if len(others):
                # A difference is that of the model of lower number to the other.
                values = self.scores[model, item] - self.scores[others, item]
                values = np.where(others < model, -values, values)
                pairs = self.number[model, others]
                self.sums.learn(pairs, values, h)
                if self.bets is not None:
                    self.bets[0].learn(pairs, 0.5 + 0.5 * values)
                    self.bets[1].learn(pairs, 0.5 - 0.5 * values)
            at += 1

    # -- errors that are stated ---------------------------------------------------------------

    # Ten scores between 0.9990 and 0.9999 show next to no variance, and the eleventh may be 0.
    # Half an item is imagined at the largest departure that a model may well have and has not
    # shown yet: the whole scale, where its scores crowd an end of it. As with the imagined items
    # of Wilson's and of Agresti and Coull's intervals (The American Statistician 52, 1998), what
    # that adds falls with one over the items, and without replacement it ends at 0.

    def largest_departures(self, models: Ints) -> Floats:
        """Least size of the departure to imagine: the scale where a model's scores crowd an end.

        They do where a single item at the other end would move the mean by more than all the items
        seen have moved it, and where the end is within the reach of their spread: scores of
        BERTScore lie narrowly around 0.9 and do not crowd 1.

        Parameters
        ----------
        models : ndarray of int

        Returns
        -------
        ndarray of shape (len(models),)
            1 or 0, on [0, 1].
        """
        mean = self.own.means(models) + self.shift[models]
        edge = np.minimum(mean, 1.0 - mean)
        near = edge <= NEAR * np.sqrt(self.own.variances(models)[1])
        return np.where(near & (edge * self.own.items(models) <= 1.0), 1.0, 0.0)

    def stated(self, pairs: Ints, whole: bool) -> Floats:
        """Variance of the mean difference of pairs, infinite where none is known.

        The departure to imagine is at least as large as items of two models with nothing in common
        lie apart: two models that were equally bad on all easy items need not be on the next hard
        one.
        """
        models = np.arange(self.n_models)
        of_one = self.own.variances(models, self.largest_departures(models))[1]
        apart = np.minimum(of_one[self.first[pairs]] + of_one[self.second[pairs]], 1.0)
        return self.sums.variances(pairs, np.sqrt(apart), whole)[0]


def strata_of(labels: list[object] | None, items: Ints, least: int) -> Ints:
    """Number the strata of items; those of fewer than `least` items are taken together.

    Parameters
    ----------
    labels : list, or None
        The stratum of each item, in bank order; None for one stratum.
    items : ndarray of int
        Items that may be drawn.
    least : int
    """
    if labels is None:
        return np.zeros(len(items), dtype=np.intp)
    own = [str(labels[i]) for i in items]
    count = {label: own.count(label) for label in set(own)}
    merged = [label if count[label] >= least else "" for label in own]
    return np.unique(merged, return_inverse=True)[1].astype(np.intp)

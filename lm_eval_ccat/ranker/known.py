"""Known models: full results as fixed points among which new models find their place.

A leaderboard has the full results of many models. They need no items and have (almost) no error: a
known model with every score stands where its mean is; one that lacks some items has the
sampling error of its mean. A new model's place is decided once it is separated from its neighbours,
the nearest known model above it and the nearest below; pairs of known models hold nothing open.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from ..bank import ItemBank
from ..errors import UsageError
from ..methods.policy import Floats, Policy
from ..scores.table import ScoreTable

_DRAWS = 512  # of boards with errors, which may have thousands of models
_SEED = 0x4A4C
Known = Mapping[str, float | Sequence[float]] | ScoreTable


class KnownModels:
    """Fixed points of one ranking. Scores are on [0, 1], higher is better.

    Parameters
    ----------
    known : mapping of str to float, or ScoreTable
        Full-benchmark mean of each model (or its mean, standard error, and mean over the items
        that may be asked); or its scores.
    bank : ItemBank or None
        Whose items the scores are of; None for several tasks, where only means can be given.
    policy : Policy
        Says where a mean stands on its own scale.
    new : sequence of str
        Models to be ranked; none may be known.
    sampled : bool, optional
        Whether the benchmark's items count as a sample of a larger population: then the means of
        known models have the sampling error of their items, whole results or not.

    Attributes
    ----------
    names : tuple of str
    mean, standard_error : ndarray of shape (n_known,)
        Full-benchmark means and their errors; 0 where every item was scored.
    location, variance : ndarray of shape (n_known,)
        The same on the scale that the method's order sorts by.

    Raises
    ------
    UsageError
        No model, a mean outside [0, 1], a name twice, or scores of another benchmark.
    """

    def __init__(
        self,
        known: Known,
        bank: ItemBank | None,
        policy: Policy,
        new: Sequence[str],
        sampled: bool = False,
    ) -> None:
        if isinstance(known, ScoreTable):
            if bank is None:
                raise UsageError(
                    "known models of several tasks are given by their means: {name: m}"
                )
            self.names, mean, kept_mean, se = _of_table(known, bank, sampled)
        elif isinstance(known, Mapping):
            self.names, mean, kept_mean, se = _of_means(known)
            if sampled and not se.any():
                raise UsageError(
                    "known_sampled needs the known models' scores, or (mean, standard error, mean)"
                )
        else:
            raise UsageError(f"known {known!r:.60} is neither a mapping of means nor a ScoreTable")
        if not self.names:
            raise UsageError("known names no model")
        bad = np.flatnonzero(~((mean >= 0.0) & (mean <= 1.0)))
        if len(bad):
            raise UsageError(
                f"known mean {float(mean[bad[0]])!r} of model {self.names[bad[0]]!r} is not in "
                "[0, 1]; normalise it with the scale of the metric first"
            )
        self.refuse(new)
        self.mean, self.standard_error = mean, se
        self.location, self.variance = policy.fixed_points(kept_mean, se)
        self._ascending = np.argsort(self.location, kind="stable")
        self._sorted = self.location[self._ascending]

    def refuse(self, new: Sequence[str]) -> None:
        """Refuse a model that is to be ranked and is known."""
        twice = sorted(set(self.names) & set(new))
        if twice:
            raise UsageError(
                f"model {twice[0]!r} is known and is to be ranked; leave it out of one of them"
            )

    def better(
        self, policy: Policy, model: int, of: NDArray[np.intp] | slice = slice(None)
    ) -> Floats:
        """``P(new model better than each known one)``; shape (n_known,)."""
        location, variance = policy.standing(model)
        spread = np.sqrt(variance + self.variance[of])
        gap = location - self.location[of]
        with np.errstate(divide="ignore", invalid="ignore"):
            z = gap / spread
        # Both without error: decided by the gap, and even where there is none.
        return np.asarray(np.where(spread > 0.0, policy.probability(z), 0.5 + 0.5 * np.sign(gap)))

    def equivalent(
        self,
        policy: Policy,
        model: int,
        confidence: float,
        min_difference: float,
        of: NDArray[np.intp] | slice = slice(None),
    ) -> NDArray[np.bool_]:
        """Known models from which a new one surely differs by less; shape (n_known,)."""
        mean, error = policy.estimate(model)
        spread = np.maximum(np.sqrt(error**2 + self.standard_error[of] ** 2), 1e-12)
        gap, tail = mean - self.mean[of], (1.0 - confidence) / 2.0
        if not min_difference:
            return np.zeros(len(gap), dtype=bool)
        above = policy.probability((gap - min_difference) / spread)
        below = policy.probability((gap + min_difference) / spread)
        return np.asarray((above < tail) & (below > 1.0 - tail))

    def neighbours(self, location: float) -> NDArray[np.intp]:
        """The nearest known model at or above a place, and the nearest below it."""
        at = int(np.searchsorted(self._sorted, location, side="left"))
        near = [self._ascending[at]] if at < len(self._sorted) else []
        if at:
            first = int(np.searchsorted(self._sorted, self._sorted[at - 1], side="left"))
            near.append(self._ascending[first])
        return np.array(near, dtype=np.intp)

    def open_models(
        self, policy: Policy, models: Sequence[int], confidence: float, min_difference: float = 0.0
    ) -> set[int]:
        """New models that are not separated from their nearest known neighbours.

        With one error per new model and (almost) none of the known, a model further off is
        separated before a nearer one is, so the nearest on either side decide.
        """
        tail = (1.0 - confidence) / 2.0
        found = set()
        for j in models:
            of = self.neighbours(policy.location(j))
            p = self.better(policy, j, of)
            open_ = (p >= tail) & (p <= 1.0 - tail)
            if (open_ & ~self.equivalent(policy, j, confidence, min_difference, of)).any():
                found.add(j)
        return found

    def decided(
        self, policy: Policy, models: Sequence[int], confidence: float
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """How many known models are decidedly better, and worse; shapes (len(models),)."""
        tail = (1.0 - confidence) / 2.0
        p = [self.better(policy, j) for j in models]
        return (
            np.array([int((x < tail).sum()) for x in p], dtype=np.int64),
            np.array([int((x > 1.0 - tail).sum()) for x in p], dtype=np.int64),
        )

    def draw(self, top: int, n_draws: int) -> tuple[list[str], Floats]:
        """Scores of known models as they may truly be, for who is among the best `top`.

        Returns
        -------
        names : list of str
            Without errors the best `top` alone: no other can be among them.
        scores : ndarray of shape (at most n_draws, len(names))
        """
        if not self.standard_error.any():
            best = np.argsort(-self.mean, kind="stable")[:top]
            return [self.names[i] for i in best], np.tile(self.mean[best], (n_draws, 1))
        noise = np.random.default_rng(_SEED).standard_normal((_DRAWS, len(self.names)))
        return list(self.names), self.mean + noise * self.standard_error

    def ranges(self, confidence: float) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Known models that are surely better than each, and worse; shapes (n_known,).

        Models with whole results are better or worse as they stand; sampling errors leave room.
        """
        n = len(self.names)
        if not self.variance.any():
            better = np.empty(n, dtype=np.int64)
            better[self._ascending[::-1]] = np.arange(n)
            return better, n - 1 - better
        z = float(ndtri((1.0 + confidence) / 2.0))
        better, worse = np.zeros(n, dtype=np.int64), np.zeros(n, dtype=np.int64)
        for i in range(n):  # by rows: a board of thousands has no room for all pairs
            gap = self.location - self.location[i]
            reach = z * np.sqrt(self.variance + self.variance[i])
            better[i], worse[i] = int((gap > reach).sum()), int((-gap > reach).sum())
        return better, worse


def _of_means(known: Mapping[str, Any]) -> tuple[tuple[str, ...], Floats, Floats, Floats]:
    rows = []
    for name, value in known.items():
        row = [value, 0.0, value] if np.ndim(value) == 0 else list(value)
        try:
            rows.append([float(v) for v in row])
        except (TypeError, ValueError):
            raise UsageError(f"known mean {value!r} of model {name!r} is not a number") from None
        if len(row) != 3 or not (0.0 <= rows[-1][1] < math.inf):
            raise UsageError(f"known {value!r} of model {name!r} is not (mean, error, mean)")
    mean, se, kept_mean = np.array(rows).reshape(-1, 3).T
    return tuple(known), mean, kept_mean, se


def scores_of_known(table: ScoreTable, bank: ItemBank) -> Floats:
    """Scores of known models in bank order; shape (n_models, n_items), NaN where there is none.

    Raises
    ------
    UsageError
        The table is on another scale, or of none of the bank's items.
    """
    if table.scale != bank.scale:
        raise UsageError(
            f"the known results are on the scale {table.scale.describe()}, the bank's is "
            f"{bank.scale.describe()}"
        )
    columns = [(i, bank.index[d]) for i, d in enumerate(table.doc_ids) if d in bank.index]
    if not columns:
        raise UsageError("the known results are of other items than the bank's")
    of, to = np.array(columns).T
    scores = np.full((len(table.models), bank.n_items), np.nan)
    scores[:, to] = table.model_scores()[:, of]
    return scores


def _of_table(
    table: ScoreTable, bank: ItemBank, sampled: bool
) -> tuple[tuple[str, ...], Floats, Floats, Floats]:
    """Names, means over all items and over the kept ones, and standard errors."""
    scores = scores_of_known(table, bank)
    rows = np.asarray(np.isfinite(scores[:, bank.kept]).any(axis=1))
    names = tuple(m for m, r in zip(table.models, rows) if r)
    scores = scores[rows]
    seen = np.isfinite(scores)
    n = seen.sum(axis=1)
    mean = np.where(seen, scores, 0.0).sum(axis=1) / n
    squares = np.where(seen, (scores - mean[:, None]) ** 2, 0.0).sum(axis=1)
    # Sampling without replacement; of a larger population, what is left of it is no smaller.
    share = np.zeros(len(n)) if sampled else n / bank.n_items
    # A model with a single score has the widest spread there is.
    spread = np.where(n > 1, squares / np.maximum(n - 1, 1), 0.25)
    kept = seen & bank.kept
    kept_mean = np.where(kept, scores, 0.0).sum(axis=1) / kept.sum(axis=1)
    return names, mean, kept_mean, np.sqrt(spread / n * (1.0 - share))

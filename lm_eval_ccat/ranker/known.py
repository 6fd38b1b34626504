"""Known models: full results as fixed points among which new models find their place.

A leaderboard has the full results of many models. They need no items and have (almost) no error: a
known model with every score stands where its mean is; one that lacks some items has the
sampling error of its mean. A new model's place is decided once it is separated from its neighbours,
the nearest known model above it and the nearest below; pairs of known models hold nothing open.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise as pairs
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..bank import ItemBank
from ..errors import UsageError
from ..scores.table import ScoreTable
from .ties import tie_groups

if TYPE_CHECKING:
    from ..methods.policy import Policy
    from .result import Ranking

Floats = NDArray[np.float64]

_SHOWN = 6  # models of a long tie that are named in words


@dataclass(frozen=True)
class Place:
    """Where a new model stands among all models, known and new.

    Attributes
    ----------
    rank : int
        By the point estimates, 1 is best.
    best, worst : int
        Rank interval: one more than the number of models decidedly better, and the number of
        models less those decidedly worse.
    n_models : int
    above, below : str or None
        The nearest model that is decidedly better, and the nearest decidedly worse.
    tied_with : tuple of str
        Models from which it could not be separated, best first.
    """

    rank: int
    best: int
    worst: int
    n_models: int
    above: str | None
    below: str | None
    tied_with: tuple[str, ...]

    def in_words(self) -> str:
        """One line.

        Examples
        --------
        >>> Place(4, 3, 4, 9, "X", "Y", ("Z",)).in_words()
        'rank 4 of 9 (3 to 4), between X and Y, tied with Z'
        """
        ranks = f"{self.best} to {self.worst}" if self.best < self.worst else "decided"
        words = [f"rank {self.rank} of {self.n_models} ({ranks})"]
        if self.above and self.below:
            words.append(f"between {self.above} and {self.below}")
        elif self.above:
            words.append(f"below {self.above}")
        elif self.below:
            words.append(f"above {self.below}")
        if self.tied_with:
            # The nearest ones: they stand around the model's own place among those tied with it.
            start = min(
                max(self.rank - self.best - _SHOWN // 2, 0), max(len(self.tied_with) - _SHOWN, 0)
            )
            near = self.tied_with[start : start + _SHOWN]
            more = len(self.tied_with) - len(near)
            words.append(f"tied with {', '.join(near)}" + (f" and {more:,} more" if more else ""))
        return ", ".join(words)

    def to_dict(self) -> dict[str, Any]:
        """JSON values."""
        return {
            "rank": self.rank,
            "rank_interval": [self.best, self.worst],
            "models": self.n_models,
            "above": self.above,
            "below": self.below,
            "tied_with": list(self.tied_with),
            "in_words": self.in_words(),
        }


@dataclass(frozen=True)
class KnownModels:
    """Fixed points of one ranking. Scores are on [0, 1], higher is better.

    Attributes
    ----------
    names : tuple of str
    mean, standard_error : ndarray of shape (n_known,)
        Full-benchmark means; 0 where every item was scored.
    location, variance : ndarray of shape (n_known,)
        The same on the scale that the method's order sorts by.
    """

    names: tuple[str, ...]
    mean: Floats
    standard_error: Floats
    location: Floats
    variance: Floats

    @classmethod
    def of(
        cls,
        known: Mapping[str, float] | ScoreTable,
        bank: ItemBank,
        policy: Policy,
        new: Sequence[str],
    ) -> KnownModels:
        """Fixed points from full means or from full results.

        Parameters
        ----------
        known : mapping of str to float, or ScoreTable
            Full-benchmark mean of each model on [0, 1], higher is better; or its scores.
        bank : ItemBank
        policy : Policy
            Says where a mean stands on its own scale.
        new : sequence of str
            Models to be ranked; none may be known.

        Raises
        ------
        UsageError
            No model, a mean outside [0, 1], a name twice, or scores of another benchmark.
        """
        if isinstance(known, ScoreTable):
            names, mean, kept_mean, se = _of_table(known, bank)
        else:
            names = tuple(known)
            mean = np.array([float(v) for v in known.values()])
            kept_mean, se = mean, np.zeros(len(mean))
        if not names:
            raise UsageError("known names no model")
        bad = np.flatnonzero(~((mean >= 0.0) & (mean <= 1.0)))
        if len(bad):
            raise UsageError(
                f"known mean {float(mean[bad[0]])!r} of model {names[bad[0]]!r} is not in [0, 1]; "
                "normalise it with the scale of the metric first"
            )
        twice = sorted(set(names) & set(new))
        if twice:
            raise UsageError(
                f"model {twice[0]!r} is known and is to be ranked; leave it out of one of them"
            )
        location, variance = policy.fixed_points(kept_mean, se)
        return cls(names, mean, se, location, variance)

    def better(self, policy: Policy, model: int) -> Floats:
        """``P(new model better than each known one)``; shape (n_known,)."""
        location, variance = policy.standing(model)
        spread = np.sqrt(variance + self.variance)
        gap = location - self.location
        with np.errstate(divide="ignore", invalid="ignore"):
            z = gap / spread
        # Both without error: decided by the gap, and even where there is none.
        return np.asarray(np.where(spread > 0.0, policy.probability(z), 0.5 + 0.5 * np.sign(gap)))

    def open_models(self, policy: Policy, models: Sequence[int], confidence: float) -> set[int]:
        """New models that are not separated from their nearest known neighbours.

        With one error per new model and (almost) none of the known, a model further off is
        separated before a nearer one is, so the nearest on either side decide.
        """
        tail = (1.0 - confidence) / 2.0
        found = set()
        for j in models:
            p = self.better(policy, j)
            at = policy.location(j)
            near = np.concatenate(
                [
                    _nearest(p, self.location >= at, self.location, first=True),
                    _nearest(p, self.location < at, self.location, first=False),
                ]
            )
            if ((near >= tail) & (near <= 1.0 - tail)).any():
                found.add(j)
        return found

    def merged(self, ranking: Ranking, policy: Policy, models: Mapping[str, int]) -> Ranking:
        """The ranking of new models with the known ones put in, and every new model's place.

        Parameters
        ----------
        ranking : Ranking
            Of the new models alone.
        policy : Policy
        models : mapping of str to int
            Position of each new model.
        """
        tail = (1.0 - ranking.confidence) / 2.0
        pairwise = dict(ranking.pairwise)
        at = dict(zip(self.names, self.location.tolist()))
        for name in ranking.order:
            at[name] = policy.location(models[name])
            for other, p in zip(self.names, self.better(policy, models[name]).tolist()):
                pairwise[name, other] = p
                pairwise[other, name] = 1.0 - p
        everyone = [*ranking.order, *self.names]
        order = sorted(everyone, key=lambda m: -at[m])
        new = set(ranking.order)

        def undecided(a: str, b: str) -> bool:
            return bool(tail <= pairwise[a, b] <= 1.0 - tail) if {a, b} & new else False

        ties = tie_groups(order, [undecided(a, b) for a, b in pairs(order)])
        places = {}
        for name in ranking.order:
            others = [m for m in order if m != name]
            better = [m for m in others if pairwise[name, m] < tail]
            worse = [m for m in others if pairwise[name, m] > 1.0 - tail]
            places[name] = Place(
                rank=order.index(name) + 1,
                best=len(better) + 1,
                worst=len(order) - len(worse),
                n_models=len(order),
                above=better[-1] if better else None,
                below=worse[0] if worse else None,
                tied_with=tuple(m for m in others if undecided(name, m)),
            )
        mean = dict(zip(self.names, self.mean.tolist()))
        error = dict(zip(self.names, self.standard_error.tolist()))
        return replace(
            ranking,
            order=order,
            estimates={**ranking.estimates, **mean},
            standard_errors={**ranking.standard_errors, **error},
            pairwise=pairwise,
            ties=ties,
            separated_within_ties=[
                (a, b)
                for group in ties
                for i, a in enumerate(group)
                for b in group[i + 1 :]
                if not undecided(a, b)
            ],
            items={**ranking.items, **{m: [] for m in self.names}},
            cost={**ranking.cost, **dict.fromkeys(self.names, 0.0)},
            known=self.names,
            places=places,
        )


def _nearest(p: Floats, side: NDArray[np.bool_], location: Floats, first: bool) -> Floats:
    """P against the nearest known model on one side; empty where there is none."""
    where = np.flatnonzero(side)
    if not len(where):
        return np.empty(0)
    pick = np.argmin(location[where]) if first else np.argmax(location[where])
    return p[where[[pick]]]


def _of_table(table: ScoreTable, bank: ItemBank) -> tuple[tuple[str, ...], Floats, Floats, Floats]:
    """Names, means over all items and over the kept ones, and standard errors."""
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
    rows = np.isfinite(scores[:, bank.kept]).any(axis=1)
    names = tuple(m for m, r in zip(table.models, rows.tolist()) if r)
    scores = scores[rows]
    seen = np.isfinite(scores)
    n = seen.sum(axis=1)
    mean = np.where(seen, scores, 0.0).sum(axis=1) / n
    squares = np.where(seen, (scores - mean[:, None]) ** 2, 0.0).sum(axis=1)
    share = n / bank.n_items
    # Sampling without replacement; a model with a single score has the widest there is.
    spread = np.where(n > 1, squares / np.maximum(n - 1, 1), 0.25)
    kept = seen & bank.kept
    kept_mean = np.where(kept, scores, 0.0).sum(axis=1) / kept.sum(axis=1)
    return names, mean, kept_mean, np.sqrt(spread / n * (1.0 - share))

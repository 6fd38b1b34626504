"""New models among known ones: the ranking of all of them, and every new model's place."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise as pairs

import numpy as np

from ..methods.policy import Floats
from .known import KnownModels
from .place import Place
from .ranks import tie_groups
from .result import Ranking
from .standing import Standing


def among_known(ranking: Ranking, known: KnownModels, standing: Standing) -> Ranking:
    """The ranking of new models with the known ones put in, and every new model's place.

    Parameters
    ----------
    ranking : Ranking
        Of the new models alone.
    known : KnownModels
    standing : Standing
    """
    policy, position = standing.policy, standing.ledger.position
    tail = (1.0 - ranking.confidence) / 2.0
    p_new = {m: known.better(policy, position[m]) for m in ranking.order}
    at = dict(zip(known.names, known.location.tolist()))
    at |= {m: policy.location(position[m]) for m in ranking.order}
    order = sorted([*ranking.order, *known.names], key=lambda m: -at[m])
    rank = {m: i + 1 for i, m in enumerate(order)}
    pairwise, decisions = dict(ranking.pairwise), dict(ranking.decisions)
    wrong = 0.0
    for name, p in p_new.items():
        near = known.equivalent(policy, position[name], ranking.confidence, standing.min_difference)
        word = np.where(
            near, "equivalent", np.where((p < tail) | (p > 1.0 - tail), "decided", "open")
        )
        wrong += float(np.minimum(p, 1.0 - p)[word == "decided"].sum())
        for other, chance, what in zip(known.names, p.tolist(), word.tolist()):
            pairwise[name, other], pairwise[other, name] = chance, 1.0 - chance
            decisions[name, other] = decisions[other, name] = what

    def undecided(a: str, b: str) -> bool:
        """Pairs of known models are never."""
        return (a in p_new or b in p_new) and decisions[a, b] != "decided"

    ties = tie_groups(order, [undecided(a, b) for a, b in pairs(order)])
    ranges = _ranges(ranking, known, p_new)
    places = {}
    for name, p in p_new.items():
        better = [known.names[i] for i in np.flatnonzero(p < tail)]
        worse = [known.names[i] for i in np.flatnonzero(p > 1.0 - tail)]
        for other in ranking.order:
            if other != name and decisions[name, other] == "decided":
                (better if rank[other] < rank[name] else worse).append(other)
        tied = [known.names[i] for i in np.flatnonzero((p >= tail) & (p <= 1.0 - tail))]
        tied += [o for o in ranking.order if o != name and decisions[name, o] != "decided"]
        places[name] = Place(
            rank=rank[name],
            best=ranges[name][0],
            worst=ranges[name][1],
            n_models=len(order),
            above=max(better, key=lambda m: rank[m], default=None),
            below=min(worse, key=lambda m: rank[m], default=None),
            tied_with=tuple(sorted(tied, key=lambda m: rank[m])),
        )
    return replace(
        ranking,
        order=order,
        estimates={**ranking.estimates, **dict(zip(known.names, known.mean.tolist()))},
        standard_errors={
            **ranking.standard_errors,
            **dict(zip(known.names, known.standard_error.tolist())),
        },
        pairwise=pairwise,
        decisions=decisions,
        expected_wrong=ranking.expected_wrong + wrong,
        ties=ties,
        separated_within_ties=[
            (a, b)
            for group in ties
            for i, a in enumerate(group)
            for b in group[i + 1 :]
            if not undecided(a, b)
        ],
        rank_ranges=ranges,
        items={**ranking.items, **{m: [] for m in known.names}},
        cost={**ranking.cost, **dict.fromkeys(known.names, 0.0)},
        known=known.names,
        places=places,
    )


def _ranges(
    ranking: Ranking, known: KnownModels, p_new: dict[str, Floats]
) -> dict[str, tuple[int, int]]:
    """Rank ranges of all: the new models have theirs, new models push known ones down or up."""
    tail = (1.0 - ranking.confidence) / 2.0
    better, worse = known.ranges(ranking.confidence)
    n = len(known.names) + len(p_new)
    for p in p_new.values():
        better = better + (p > 1.0 - tail)
        worse = worse + (p < tail)
    theirs = zip((1 + better).tolist(), (n - worse).tolist())
    return {**ranking.rank_ranges, **dict(zip(known.names, theirs))}

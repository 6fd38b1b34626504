"""What would decide the pairs that are open, in items and in cost."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..methods.policy import OPEN
from .standing import Standing

#: Gaps below this share of the scale are taken as this: their items are all that there are.
_SMALLEST_GAP = 1e-6


@dataclass(frozen=True)
class OpenPair:
    """Two neighbours of the order that are not decided, and what would decide them.

    Attributes
    ----------
    a, b : str
        `a` stands before `b`.
    p : float
        ``P(a better than b)``.
    items : dict of str to int
        Further items of each of the two, if the difference stays what it is now.
    cost : float
        Of these items, at what each model's items cost so far.
    all_items : bool
        Whether nothing short of nine tenths of the benchmark would do.
    """

    a: str
    b: str
    p: float
    items: dict[str, int]
    cost: float
    all_items: bool

    def to_dict(self) -> dict[str, Any]:
        """JSON values."""
        return dict(vars(self))


def items_to_decide(asked: int, n_items: int, ratio: float) -> int:
    """Items after which an interval is narrower by `ratio`.

    The variance of a mean over `n` of `N` items is taken to fall as ``1/n - 1/N``: it is 0 where
    every item is known.

    Parameters
    ----------
    asked : int
        Items so far, at least 1.
    n_items : int
        Items of the benchmark.
    ratio : float
        Half width now over the half width that decides.

    Examples
    --------
    >>> items_to_decide(50, 1_000_000, 2.0), items_to_decide(50, 100, 2.0)
    (200, 80)
    """
    if asked >= n_items:
        return n_items
    now = 1.0 / asked - 1.0 / n_items
    needed = math.ceil(1.0 / (1.0 / n_items + now / max(ratio, 1.0) ** 2) - 1e-9)
    return min(n_items, max(needed, asked + 1))


def open_pairs(
    standing: Standing,
    items: Mapping[str, Sequence[Any]],
    cost: Mapping[str, float],
    n_items: int,
) -> list[OpenPair]:
    """The open neighbours of the order, the cheapest to decide first.

    Parameters
    ----------
    standing : Standing
    items : mapping of str to sequence
        Items told of each model.
    cost : mapping of str to float
        What each spent.
    n_items : int
        Items of the benchmark.
    """
    order, policy = standing.order, standing.policy
    neighbours = [
        (a, b) for a, b, d in zip(order, order[1:], standing.adjacent().tolist()) if d == OPEN
    ]
    if not neighbours:
        return []
    names = [account.name for account in standing.ledger.accounts]
    p, d = policy.pairwise(), policy.differences()
    half = policy.critical(1.0 - standing.confidence) * np.sqrt(d.variance)
    found = []
    for a, b in neighbours:
        pair = (names[a], names[b])
        if not all(items[m] for m in pair):
            continue
        gap = max(abs(float(d.estimate[a] - d.estimate[b])), _SMALLEST_GAP)
        ratio = float(half[a, b]) / gap
        needed = {
            m: items_to_decide(len(items[m]), n_items, ratio if math.isfinite(ratio) else 1e9)
            for m in pair
        }
        more = {m: needed[m] - len(items[m]) for m in pair}
        found.append(
            OpenPair(
                *pair,
                p=float(p[a, b]),
                items=more,
                cost=sum(cost[m] / len(items[m]) * more[m] for m in pair),
                all_items=max(needed.values()) > 0.9 * n_items,
            )
        )
    return sorted(found, key=lambda o: (o.all_items, o.cost, sum(o.items.values())))

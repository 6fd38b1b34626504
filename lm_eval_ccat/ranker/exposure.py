"""Item exposure: a draw among the most informative items, so that no few items are always asked.

A test that always asks the most informative item asks the same first items of everyone; who learns
those gains rank. Drawing at random among the K most informative (the "randomesque" rule of
computerized adaptive testing) spreads use at a small loss of precision.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Mask = NDArray[np.bool_]


def select_among(
    select: Callable[[Mask], int], available: Mask, k: int, seed: int, model: int, n_asked: int
) -> int:
    """One of the `k` items that `select` would choose first, each equally likely.

    Parameters
    ----------
    select : callable
        The best item among those available.
    available : ndarray of bool, shape (n_items,)
        At least one is true; not changed.
    k : int
        At least 1.
    seed, model, n_asked : int
        The draw depends on nothing else, so a journal replays to the same draws.

    Examples
    --------
    >>> first = lambda mask: int(np.argmax(mask))
    >>> select_among(first, np.array([False, True, True, True]), 2, 0, 0, 0) in (1, 2)
    True
    """
    left = available.copy()
    best: list[int] = []
    while len(best) < k and left.any():
        item = select(left)
        best.append(item)
        left[item] = False
    rng = np.random.default_rng([seed, 0xE4905, model, n_asked])
    return best[int(rng.integers(len(best)))]

"""Item exposure: a draw among the most informative items, so that no few items are always asked.

A test that always asks the most informative item asks the same first items of everyone; who learns
those gains rank. Drawing at random among the K most informative (the "randomesque" rule of
computerized adaptive testing) spreads use at a small loss of precision.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def draw_one(items: Sequence[int], seed: int, model: int, n_asked: int) -> int:
    """One of the items, each equally likely.

    Parameters
    ----------
    items : sequence of int
        The most informative ones, at least one.
    seed, model, n_asked : int
        The draw depends on nothing else, so a journal replays to the same draws.

    Examples
    --------
    >>> draw_one([7, 3], seed=0, model=0, n_asked=0) in (3, 7)
    True
    """
    rng = np.random.default_rng([seed, 0xE4905, model, n_asked])
    return int(items[int(rng.integers(len(items)))])

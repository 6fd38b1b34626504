"""Ranks of full results and estimates side by side."""

from __future__ import annotations

import numpy as np
import pytest

from lm_eval_ccat.board.folder import rank_ranges


@pytest.mark.parametrize("seed", range(8))
def test_ranks_are_those_of_every_pair_compared(seed):
    """Thousands of full results are ranked without comparing them two by two."""
    rng = np.random.default_rng(seed)
    arms = np.where(rng.random(30) < 0.3, 0.2 * rng.random(30), 0.0)
    scores = np.round(rng.random(30), 1)
    for score, arm, best, worst in zip(scores, arms, *rank_ranges(scores, arms)):
        gap, apart = scores - score, np.hypot(arms, arm)
        assert best == 1 + int((gap > apart).sum()) and worst == 30 - int((-gap > apart).sum())

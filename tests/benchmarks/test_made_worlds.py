"""Synthetic worlds."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.made_worlds import WORLDS, world
from lm_eval_ccat.errors import UsageError


@pytest.mark.parametrize("kind", WORLDS)
def test_worlds_are_reproducible_and_rank_by_ability_on_the_whole(kind):
    table = world(kind, 20, 300, seed=3)
    np.testing.assert_array_equal(table.scores, world(kind, 20, 300, seed=3).scores)
    assert not np.array_equal(table.scores, world(kind, 20, 300, seed=4).scores)
    means = dict(zip(table.models, table.scores.mean(axis=1)))
    ability = [means[f"m{k}"] for k in range(20)]
    assert np.corrcoef(ability, np.arange(20))[0, 1] > 0.7


def test_an_unknown_world_is_refused():
    with pytest.raises(UsageError, match="no world"):
        world("flat")

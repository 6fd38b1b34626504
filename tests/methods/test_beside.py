"""An outcome without a bank beside another method's: estimates from that method's draws."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest

from lm_eval_ccat import ItemBank
from lm_eval_ccat.methods.policy import BesidePolicy


def test_the_mean_over_all_draws_is_the_benchmarks_whatever_was_chosen_before():
    y = np.array([0.9, 0.2, 0.4, 0.7, 0.0])
    values = []
    for drawn in permutations(range(1, 5), 2):
        policy = BesidePolicy(ItemBank.blank(range(5)), 1)
        policy.placed(0, 0)
        policy.told(0, 0, y[0])
        for k, item in enumerate(drawn):
            policy.placed(0, item, 1 / (4 - k))
            policy.told(0, item, y[item])
        belief = policy.belief()
        values.append(np.nanmean(policy._totals(0)))
        assert belief.location[0] == pytest.approx(np.clip(values[-1], 0.0, 1.0))
        assert belief.n[0, 0] == 2 and belief.n_items == 5
    assert np.mean(values) == pytest.approx(y.mean())

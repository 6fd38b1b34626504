"""How many items a ranking by random items is expected to take."""

from __future__ import annotations

import numpy as np
import pytest

from lm_eval_ccat import ItemBank
from lm_eval_ccat.methods.sample.method import SamplePolicy
from lm_eval_ccat.methods.sample.pairs import items_for_error, items_needed


def test_it_is_about_when_two_such_models_are_told_apart() -> None:
    gap, spread, size, found = 0.1, 0.2, 600, []
    for seed in range(9):
        rng = np.random.default_rng(seed)
        difference = rng.normal(size=size)
        difference = gap + spread * (difference - difference.mean()) / difference.std()
        y = np.clip([0.5 + difference / 2, 0.5 - difference / 2], 0.0, 1.0)
        policy = SamplePolicy(ItemBank.blank(range(size)), 2, seed=seed)
        for n, item in enumerate(policy.sequence.order.tolist(), start=1):
            for model in (0, 1):
                policy.told(model, item, float(y[model, item]))
            if policy.belief().evidence[0, 1] >= np.log(1 / 0.05):
                found.append(n)
                break
    assert np.median(found) == pytest.approx(items_needed(gap, spread, size), rel=0.3)


def test_the_items_for_an_error_are_those_of_drawing_without_replacement() -> None:
    y = np.random.default_rng(0).normal(0.5, 0.2, 400)
    n = items_for_error(0.02, float(y.std()), 400)
    draws = np.random.default_rng(1)
    means = [draws.choice(y, n, replace=False).mean() for _ in range(4000)]
    assert np.std(means) == pytest.approx(0.02, rel=0.05)
    assert items_for_error(0.0001, 0.5, 400) == 400 and items_for_error(0.5, 0.2, 400) == 10

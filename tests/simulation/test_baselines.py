"""Baselines: what they choose, and that they stop where the budget does."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lm_eval_ccat.simulation.baselines import discriminating_order, items_for_all, random_items
from lm_eval_ccat.simulation.benchmark import mean_of_seen


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10_000), st.floats(0.5, 60))
def test_random_spends_up_to_the_first_draw_that_does_not_fit(seed, budget):
    rng = np.random.default_rng(seed)
    scores = rng.random((3, 12))
    scores[rng.random(scores.shape) < 0.2] = np.nan
    prices, units = rng.uniform(0.1, 3, 3), rng.uniform(0.5, 2, 12)
    given_, spent = random_items(scores, prices, units, budget, np.random.default_rng(seed))
    assert not given_[~np.isfinite(scores)].any()
    assert spent == pytest.approx((given_ * prices[:, None] * units).sum())
    assert spent <= budget * (1 + 1e-6)
    left = np.isfinite(scores) & ~given_
    if (
        left.any()
    ):  # what stopped it cannot have been the cheapest if that still fits... the dearest
        assert spent + (prices[:, None] * units)[left].max() > budget


def test_a_dear_model_that_is_drawn_ends_the_random_baseline():
    """It is drawn first in half of all runs: one item of the cheap model is asked on average."""
    prices, budget = np.array([1.0, 100.0]), 50.0
    asked = [
        random_items(np.ones((2, 40)), prices, np.ones(40), budget, np.random.default_rng(s))[0]
        for s in range(200)
    ]
    assert np.mean([a.sum() for a in asked]) == pytest.approx(1.0, abs=0.4)


def test_common_items_are_the_same_for_all_and_in_order():
    scores = np.array([[0.1, 0.2, 0.3, 0.4], [0.5, np.nan, 0.7, 0.8]])
    given_, spent = items_for_all([2, 1, 3, 0], scores, np.array([1.0, 2.0]), np.ones(4), 7.5)
    assert given_.tolist() == [[False, True, True, True], [False, False, True, True]]
    assert spent == 3 + 1 + 3
    assert mean_of_seen(scores, given_) == pytest.approx([0.3, 0.75])


def test_a_model_without_scores_stands_at_the_mean():
    scores = np.array([[0.2, 0.6], [0.9, 0.9]])
    seen = np.array([[True, True], [False, False]])
    assert mean_of_seen(scores, seen) == pytest.approx([0.4, 0.4])


def test_static_order_is_by_corrected_item_total_correlation():
    rng = np.random.default_rng(2)
    scores = rng.random((9, 15)) + np.linspace(0, 2, 9)[:, None] * rng.random(15)
    scores[3, 4] = scores[0, 7] = np.nan
    scores[:, 11] = 0.5  # constant: no correlation
    wanted = []
    for i in range(15):
        there = np.isfinite(scores[:, i])
        rest = np.nanmean(np.delete(scores, i, axis=1), axis=1)
        if i == 11:
            wanted.append(-np.inf)
        else:
            wanted.append(np.corrcoef(scores[there, i], rest[there])[0, 1])
    assert discriminating_order(scores).tolist() == np.argsort(-np.array(wanted)).tolist()

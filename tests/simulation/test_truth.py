"""The truth of a replay, against independent computation."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lm_eval_ccat.simulation.judging import bootstrap_intervals, full_means, kendall_tau, true_ties


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=2, max_size=9))
def test_tau_is_that_of_scipy(pairs):
    from scipy.stats import kendalltau

    a, b = np.array(pairs).T
    wanted = kendalltau(a, b)[0]
    assert kendall_tau(a, b) == pytest.approx(wanted, abs=1e-12, nan_ok=True)


def test_means_leave_out_missing_scores():
    scores = np.array([[0.2, np.nan, 0.4], [1.0, 0.5, 0.0]])
    assert full_means(scores) == pytest.approx([0.3, 0.5])


def test_intervals_agree_with_resampling_item_by_item():
    rng = np.random.default_rng(5)
    scores = rng.beta(2, 3, size=(3, 80))
    scores[1, :30] = np.nan
    low, high = bootstrap_intervals(scores, resamples=4000)
    for m in range(3):
        own = scores[m]
        means = [np.nanmean(own[rng.integers(0, 80, 80)]) for _ in range(4000)]
        wanted = np.percentile(means, [2.5, 97.5])
        np.testing.assert_allclose([low[m], high[m]], wanted, atol=0.004)


def test_intervals_do_not_depend_on_how_the_resamples_are_cut(monkeypatch):
    from lm_eval_ccat.simulation import judging

    scores = np.random.default_rng(0).random((4, 50))
    once = bootstrap_intervals(scores)
    monkeypatch.setattr(judging, "_BLOCK_CELLS", 500)
    np.testing.assert_allclose(bootstrap_intervals(scores), once, atol=1e-12)


def test_ties_are_overlaps():
    low, high = np.array([0.1, 0.3, 0.6]), np.array([0.3, 0.5, 0.7])
    assert true_ties(low, high).tolist() == [
        [True, True, False],
        [True, True, False],
        [False, False, True],
    ]

"""Paired baselines, against the same by other means."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import ttest_rel

from lm_eval_ccat import ScoreTable, calibrate
from lm_eval_ccat.simulation.paired import paired, paired_difference


def test_paired_is_the_paired_t_test_with_the_finite_population_factor():
    rng = np.random.default_rng(0)
    y = np.clip(np.linspace(0.3, 0.7, 4)[:, None] + rng.normal(0, 0.2, (4, 200)), 0, 1)
    items = rng.choice(200, 50, replace=False).tolist()
    claim = paired(y, items, 0.95)
    left = np.sqrt(1 - 50 / 200)
    for a in range(4):
        for b in range(a):
            t = ttest_rel(y[a, items], y[b, items])
            mean = y[a, items].mean() - y[b, items].mean()
            assert np.sqrt(claim.variance[a, b]) == pytest.approx(mean / t.statistic * left)
            assert claim.df[a, b] == 49
            if t.pvalue < 0.05:
                assert claim.ahead[a, b] == np.sign(mean) == -claim.ahead[b, a]


def test_seen_in_full_both_are_exact():
    rng = np.random.default_rng(1)
    ease, skill = rng.normal(size=60), np.linspace(-1, 1, 12)[:, None]
    y = np.clip(1 / (1 + np.exp(-skill - ease)) + rng.normal(0, 0.05, (12, 60)), 0, 1)
    bank = calibrate(ScoreTable.from_arrays(y[4:], models=[f"m{k}" for k in range(8)]))
    every = list(range(60))
    for claim in (
        paired(y[:4], every, 0.95),
        paired_difference(y[:4], every, bank, np.arange(60), 0.95),
    ):
        np.testing.assert_allclose(claim.estimates, y[:4].mean(axis=1), atol=1e-12)
        assert (claim.ahead == np.sign(np.subtract.outer(*[y[:4].mean(axis=1)] * 2))).all()


def test_predictions_take_out_what_they_explain():
    rng = np.random.default_rng(2)
    ease, skill = rng.normal(size=400), np.linspace(-1, 1, 12)[:, None]
    y = np.clip(1 / (1 + np.exp(-skill - 2 * ease)) + rng.normal(0, 0.05, (12, 400)), 0, 1)
    bank = calibrate(ScoreTable.from_arrays(y[4:], models=[f"m{k}" for k in range(8)]))
    items = rng.choice(400, 20, replace=False).tolist()
    plain, helped = (
        paired(y[:4], items, 0.95),
        paired_difference(y[:4], items, bank, np.arange(400), 0.95),
    )
    assert (helped.standard_errors < 0.5 * plain.standard_errors).all()
    truth = y[:4].mean(axis=1)
    assert np.abs(helped.estimates - truth).max() < np.abs(plain.estimates - truth).max()

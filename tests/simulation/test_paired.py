"""Paired baselines, against the same by other means."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import t, ttest_rel

from lm_eval_ccat import ScoreTable, calibrate
from lm_eval_ccat.simulation.baselines import Stratum, paired


def only(y, items):
    known = np.full(y.shape, np.nan)
    known[:, items] = y[:, items]
    return known


def test_paired_is_the_paired_t_test_with_the_finite_population_factor():
    rng = np.random.default_rng(0)
    y = np.clip(np.linspace(0.3, 0.7, 4)[:, None] + rng.normal(0, 0.2, (4, 200)), 0, 1)
    items = rng.choice(200, 50, replace=False).tolist()
    claim = paired([Stratum.plain(1.0, only(y, items))], 0.95)
    left = np.sqrt(1 - 50 / 200)
    for a in range(4):
        for b in range(a):
            test = ttest_rel(y[a, items], y[b, items])
            mean = y[a, items].mean() - y[b, items].mean()
            assert np.sqrt(claim.variance[a, b]) == pytest.approx(mean / test.statistic * left)
            assert claim.df[a, b] == 49
            if test.pvalue < 0.05:
                assert claim.ahead[a, b] == np.sign(mean) == -claim.ahead[b, a]


def test_tasks_are_strata_with_satterthwaites_degrees_of_freedom():
    """By simulation: the standard error is the spread of the estimate, and 95% of tests hold."""
    rng = np.random.default_rng(3)
    tasks = [
        np.clip(rng.normal(m, s, (2, n)), 0, 1) for m, s, n in [(0.4, 0.2, 90), (0.6, 0.1, 60)]
    ]
    weights, held, gaps, variances = (0.7, 0.3), 0, [], []
    truth = sum(w * (y[0] - y[1]).mean() for w, y in zip(weights, tasks))
    for _ in range(600):
        known = [only(y, rng.choice(y.shape[1], 15, replace=False)) for y in tasks]
        claim = paired([Stratum.plain(w, y) for w, y in zip(weights, known)], 0.95)
        gaps.append(claim.estimates[0] - claim.estimates[1])
        variances.append(claim.variance[0, 1])
        assert 14 < claim.df[0, 1] < 28
        held += abs(gaps[-1] - truth) < t.ppf(0.975, claim.df[0, 1]) * variances[-1] ** 0.5
    assert np.mean(gaps) == pytest.approx(truth, abs=4 * np.std(gaps) / 600**0.5)
    assert np.mean(variances) == pytest.approx(np.var(gaps), rel=0.2)
    assert 0.92 < held / 600 < 0.975


@pytest.fixture(scope="module")
def outside():
    """Four models and a bank of eight others."""
    rng = np.random.default_rng(2)
    ease, skill = rng.normal(size=400), np.linspace(-1, 1, 12)[:, None]
    y = np.clip(1 / (1 + np.exp(-skill - 2 * ease)) + rng.normal(0, 0.05, (12, 400)), 0, 1)
    return y[:4], calibrate(ScoreTable.from_arrays(y[4:], models=[f"m{k}" for k in range(8)]))


def test_seen_in_full_both_are_exact(outside):
    y, bank = outside
    for stratum in (Stratum.plain(1.0, y), Stratum.predicted(1.0, y, bank)):
        claim = paired([stratum], 0.95)
        np.testing.assert_allclose(claim.estimates, y.mean(axis=1), atol=1e-12)
        assert (claim.ahead == np.sign(np.subtract.outer(*[y.mean(axis=1)] * 2))).all()


def test_predictions_take_out_what_they_explain(outside):
    y, bank = outside
    known = only(y, np.random.default_rng(2).choice(400, 20, replace=False))
    plain = paired([Stratum.plain(1.0, known)], 0.95)
    helped = paired([Stratum.predicted(1.0, known, bank)], 0.95)
    assert (helped.standard_errors < 0.5 * plain.standard_errors).all()
    truth = y.mean(axis=1)
    assert np.abs(helped.estimates - truth).max() < np.abs(plain.estimates - truth).max()

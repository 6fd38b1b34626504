"""Calibration of tables too large to be looked at as a whole: the same bank, in less memory."""

import tracemalloc

import numpy as np
import pytest
from artificial import world
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import expit

from lm_eval_ccat import ScoreTable, calibrate
from lm_eval_ccat.methods.default import items
from lm_eval_ccat.methods.default.fractional import packed
from lm_eval_ccat.methods.default.items import fit_items


def with_holes(table: ScoreTable, share: float) -> ScoreTable:
    raw = table.raw.copy()
    raw[np.random.default_rng(0).random(raw.shape) < share] = np.nan
    return ScoreTable.from_arrays(raw, table.models)


def test_half_of_a_symmetric_matrix_stands_for_all_of_it():
    rng = np.random.default_rng(0)
    whole, x = np.cov(rng.normal(size=(4, 9))), rng.normal(size=4)
    row, column, times = packed(4)
    assert (x[row] * x[column] * times) @ whole[row, column] == pytest.approx(x @ whole @ x)


@pytest.mark.long
@pytest.mark.parametrize(("binary", "missing"), [(False, 0.2), (True, 0.0)])
def test_groups_of_like_ability_give_the_curves_of_single_models(binary, missing):
    table = with_holes(world(800, 150, binary=binary, second_skill=0.6), missing)
    one = fit_items(table.model_scores()).items
    other = items.fit_groups(table, 2).items
    f = one.basis.at(np.quantile(one.abilities, np.linspace(0.02, 0.98, 25)))
    row, column, times = packed(one.basis.size)
    mu, found = expit(f @ one.coefficients.T), expit(f @ other.coefficients.T)
    variance = ((f[:, row] * f[:, column] * times) @ one.covariance.T) * one.noise
    error = np.sqrt(variance) * mu * (1 - mu)
    assert np.sqrt(np.mean(((found - mu) / error) ** 2)) < 0.05
    assert np.abs(found - mu).max() < 0.005
    assert other.noise == pytest.approx(one.noise, rel=0.02)
    assert other.covariance[:, 0] == pytest.approx(one.covariance[:, 0], rel=0.02)
    assert other.log_noise == pytest.approx(one.log_noise, abs=0.1)
    assert other.loadings.shape == one.loadings.shape and one.loadings.shape[1] >= 1
    assert other.loadings[:, 0] == pytest.approx(one.loadings[:, 0], abs=0.02)


@pytest.mark.long
def test_steep_curves_leave_no_factor_of_the_groups_width():
    # Without noise, what a group's models differ in would be the largest residual there is.
    skill, ease = np.random.default_rng(0).normal(size=(700, 1)), np.linspace(-1, 1, 100)
    noise = 0.02 * np.random.default_rng(1).standard_normal((700, 100))
    table = ScoreTable.from_arrays(expit(2 * skill + ease + noise), [f"m{j}" for j in range(700)])
    one = fit_items(table.model_scores()).items
    other = items.fit_groups(table, 2).items
    assert other.noise == pytest.approx(one.noise, rel=0.15)


@pytest.mark.long
def test_a_large_table_is_calibrated_in_groups_and_says_the_same(monkeypatch):
    table = world(36, 60)
    one = calibrate(table)
    monkeypatch.setattr(items, "FEWEST_MODELS", 30)
    monkeypatch.setattr(items, "FEWEST_CELLS", 1000)
    other = calibrate(table)
    assert other.parameters["slope"] == pytest.approx(one.parameters["slope"], abs=0.02)
    assert (other.parameters["slope"] != one.parameters["slope"]).any()
    # The self-check looks at a bounded part of the table by the same fit either way.
    assert other.self_check["rms_error"] == one.self_check["rms_error"]
    assert other.warnings == one.warnings


@pytest.mark.long
def test_blocks_of_items_give_the_fit_of_all_at_once(monkeypatch):
    scores = with_holes(world(24, 300), 0.1).model_scores()
    whole = fit_items(scores).items
    monkeypatch.setattr(items, "_CELLS_AT_ONCE", 24 * 37)
    parts = fit_items(scores).items
    for name in ("coefficients", "covariance", "noise", "loadings", "log_noise"):
        assert getattr(parts, name) == pytest.approx(getattr(whole, name), rel=1e-9, abs=1e-10)


@pytest.mark.long
def test_beside_a_large_table_a_fit_takes_less_memory_than_the_table(monkeypatch):
    table = ScoreTable.from_arrays(
        np.random.default_rng(0).random((1200, 600)), [f"m{j}" for j in range(1200)]
    )
    monkeypatch.setattr(items, "_CELLS_AT_ONCE", 1 << 14)
    monkeypatch.setattr(items, "_GROUP_CELLS", 0)
    tracemalloc.start()
    try:
        items.fit_groups(table, 1)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < table.raw.nbytes


@pytest.mark.long
@settings(max_examples=30)
@given(st.integers(0, 2**32 - 1), st.integers(1, 6), st.sampled_from([1.0, 1e-3, 1e6]))
def test_inverses_are_those_of_numpy(seed, p, precision):
    rng = np.random.default_rng(seed)
    f = rng.normal(size=(9, 12, p))
    whole = np.einsum("nkp,nkq->npq", f, f) + np.diag(np.geomspace(1.0, precision, p))
    row, column, _ = packed(p)
    stored = whole[:, row, column]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(items, "_MATRICES_AT_ONCE", 4)
        found = items.inverted(stored, p)
    assert found == pytest.approx(np.linalg.inv(whole)[:, row, column], rel=1e-8, abs=1e-12)
    assert (stored == whole[:, row, column]).all()

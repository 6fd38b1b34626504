"""A bank that names a model does not calibrate that model's test."""

from __future__ import annotations

import numpy as np
import pytest

from lm_eval_ccat import ItemBank, ScoreTable, calibrate
from lm_eval_ccat.upkeep.grow import of_others

NAMES = [f"m{j}" for j in range(12)]


def table() -> ScoreTable:
    rng = np.random.default_rng(3)
    skill = np.linspace(-1.0, 1.0, 12)[:, None]
    scores = 1 / (1 + np.exp(-skill - rng.normal(size=40) + 0.3 * rng.normal(size=(12, 40))))
    return ScoreTable.from_arrays(np.round(scores, 6), NAMES, task="t")


@pytest.mark.parametrize("method", ["default", "paper"])
@pytest.mark.parametrize("hashed", [False, True])
def test_scores_that_the_bank_holds_of_a_ranked_model_are_left_out(method, hashed, tmp_path):
    calibrate(table(), method, keep_scores=True, hash_names=hashed).save(tmp_path / "b.json")
    found, warning = of_others(ItemBank.load(tmp_path / "b.json"), ["m3", "new"])
    assert "calibrated on m3 too: its scores of them are left out" in warning
    without = calibrate(table().without(["m3"]), method)
    assert len(found.models) == 11 and found.method == method and len(found.observations) == 11
    assert set(found.parameters) == set(without.parameters)
    for name, values in without.parameters.items():
        np.testing.assert_allclose(found.parameters[name], values, rtol=1e-4, atol=1e-5)


def test_a_bank_without_scores_warns_and_stays():
    bank = calibrate(table(), "paper", hash_names=True)
    found, warning = of_others(bank, NAMES[:5])
    assert found is bank
    assert "of t was calibrated on m0, m1, m2, ... too" in warning and "--keep_scores" in warning


def test_what_cannot_be_left_out_stays_and_is_told():
    bank = calibrate(table(), "paper", keep_scores=True)
    found, warning = of_others(bank, NAMES[1:])
    assert found is bank and "cannot do without them" in warning


def test_models_that_are_not_in_the_bank_change_nothing():
    bank = calibrate(table(), "paper", keep_scores=True)
    assert of_others(bank, ["new"]) == (bank, "")

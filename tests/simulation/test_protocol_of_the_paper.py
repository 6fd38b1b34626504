"""What the paper's experiments do beyond a plain replay: one temperature tested, one range."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import expit

from lm_eval_ccat import ScoreTable, calibrate, simulate
from lm_eval_ccat.errors import ScoreTableError
from lm_eval_ccat.simulation import Method


def warm(n_models=9, n_items=80, seed=0):
    """Models at two temperatures; the warmer one reverses their order."""
    rng = np.random.default_rng(seed)
    ease = rng.normal(size=n_items)[None]
    skill = np.linspace(-1.2, 1.2, n_models)[:, None]
    cold, hot = (
        np.clip(expit(s + ease) + 0.05 * rng.normal(size=(n_models, n_items)), 0, 1)
        for s in (skill, -0.3 * skill)
    )
    names = [f"m{n}" for n in range(n_models)]
    both = ScoreTable.from_arrays(
        np.vstack([cold, hot]), models=names * 2, configs=["t=0"] * n_models + ["t=1"] * n_models
    )
    return both, ScoreTable.from_arrays(cold, models=names), cold


def test_held_out_models_are_tested_and_judged_at_one_temperature():
    both, cold, values = warm()
    sets = [("m0", "m3", "m5", "m8")]
    found = simulate(both, ["paper"], holdouts=sets, tested=cold, processes=1)
    (outcome,) = found.outcomes
    truth = values[[0, 3, 5, 8]].mean(axis=1)
    plain = simulate(both, ["paper"], holdouts=sets, processes=1).outcomes[0]
    assert outcome.tau == 1.0
    assert not np.allclose(outcome.errors, plain.errors)
    # The estimates are of the tested temperature: near its truth, far from the mean of both.
    assert np.abs(outcome.errors).max() < 0.1 < np.abs(truth - 0.5).max()
    # Calibration sees both temperatures.
    bank = calibrate(both.without(sets[0]), "paper")
    assert bank.provenance["rows"] == 10


def test_scores_to_test_by_must_be_of_the_same_models():
    both, cold, _ = warm()
    with pytest.raises(ScoreTableError, match="not of the same models and items"):
        simulate(both, ["paper"], tested=cold.without(["m4"]), processes=1)


def test_the_range_of_the_held_out_models():
    _, cold, values = warm()
    sets = [("m0", "m3", "m5", "m8")]
    peek = Method("peek", "ranker", "paper", holdout_range=True, own_budget=True)
    held = values[[0, 3, 5, 8]]
    same = Method(
        "same", "ranker", "paper", rank={"score_range": (held.min(), held.max())}, own_budget=True
    )
    own = Method("own", "ranker", "paper", own_budget=True)
    found = simulate(cold, [peek, same, own], holdouts=sets, processes=1)
    a, b, c = found.outcomes
    assert a.items_of == b.items_of and (a.errors == b.errors).all()
    assert not (a.errors == c.errors).all()

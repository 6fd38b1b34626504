"""Calibration by the method "default": what it must not depend on, refuse, and say of itself."""

from __future__ import annotations

import numpy as np
import pytest
from artificial import world
from hypothesis import given, settings
from hypothesis import strategies as st

from lm_eval_ccat import ScoreTable, calibrate
from lm_eval_ccat.errors import BankError, CcatError
from lm_eval_ccat.methods.default.selfcheck import groups
from lm_eval_ccat.scores.table import ScoreTable as Table


def table_of(scores: np.ndarray, **kwargs) -> Table:
    return ScoreTable.from_arrays(scores, models=[f"m{i}" for i in range(len(scores))], **kwargs)


def test_finds_the_items_that_are_noisy():
    rng = np.random.default_rng(1)
    mu = 1.0 / (1.0 + np.exp(-rng.normal(size=(40, 1)) - rng.normal(size=60)))
    size = np.r_[np.full(30, 3.0), np.full(30, 60.0)]
    bank = calibrate(table_of(rng.beta(size * mu, size * (1 - mu))))
    noise = bank.parameters["noise"]
    # The variance of a beta score is mu (1 - mu) / (size + 1).
    assert np.median(noise[:30]) == pytest.approx(1 / 4.0, rel=0.3)
    assert np.median(noise[30:]) < np.median(noise[:30]) / 3


def test_the_order_of_models_and_items_does_not_matter():
    scores = world(9, 40).raw
    rng = np.random.default_rng(3)
    rows, columns = rng.permutation(9), rng.permutation(40)
    one, other = calibrate(table_of(scores)), calibrate(table_of(scores[rows][:, columns]))
    for name in ("intercept", "slope", "noise"):
        assert other.parameters[name] == pytest.approx(one.parameters[name][columns], abs=1e-4)


def test_missing_scores_are_used_as_missing():
    scores = world(14, 60, seed=4).raw
    full = calibrate(table_of(scores))
    # A model that lacks the hard items is not taken for a strong one.
    hard = np.argsort(full.parameters["intercept"])[:20]
    partial = scores.copy()
    partial[5, hard] = np.nan
    ability = calibrate(table_of(partial)).provenance["report"]["abilities"]
    usual = full.provenance["report"]["abilities"]
    assert ability["m5"] == pytest.approx(usual["m5"], abs=0.3)


@pytest.mark.parametrize("n_models", [2, 4, 8])
def test_few_models_still_give_a_bank_that_says_so(n_models):
    bank = calibrate(world(n_models, 30))
    assert all(np.isfinite(v).all() for v in bank.parameters.values())
    assert bank.self_check["trust"]
    if n_models < 8:
        assert any("models" in w for w in bank.warnings)
        assert not bank.self_check["trust"].startswith("yes")
    assert bank.constants["departures"]["inflation"] >= 0.7


def test_says_in_words_whether_it_can_be_trusted():
    good = calibrate(world(24, 120, second_skill=0.0))
    assert good.self_check["trust"].startswith("yes")
    assert good.self_check["models_left_out"] == 24
    assert 0.6 < good.self_check["z_rms"] < 1.5
    assert good.self_check["rms_error"] < 0.1
    poor = calibrate(world(5, 50))
    assert poor.self_check["trust"].startswith("with care")
    assert poor.self_check["trust"] in poor.warnings


def test_what_a_table_leaves_open_is_said_in_words():
    """Items alike for every model, and configurations: they are no models of their own."""
    base = world(9, 40).raw
    base[:, :4] = 1.0
    names, configs = zip(*((f"m{i}", str(c)) for i in range(9) for c in range(2)))
    table = ScoreTable.from_arrays(np.repeat(base, 2, axis=0), models=names, configs=configs)
    bank = calibrate(table)
    assert any(w.startswith("10% of the items have the same score") for w in bank.warnings)
    assert bank.self_check["models_left_out"] == 9
    with pytest.raises(CcatError, match="factors"):
        calibrate(table, factors=9)


@pytest.mark.parametrize(
    "scores",
    [
        np.full((6, 10), 0.4),
        np.vstack([np.full((1, 10), np.nan), np.random.default_rng(0).random((5, 10))]),
        np.hstack([np.full((6, 1), np.nan), np.random.default_rng(0).random((6, 9))]),
    ],
    ids=["constant", "a model without scores", "an item without scores"],
)
def test_refuses_what_cannot_be_calibrated(scores):
    with pytest.raises(BankError):
        calibrate(table_of(scores))


@settings(max_examples=10, deadline=None)
@given(
    st.integers(2, 9),
    st.integers(1, 12),
    st.integers(0, 10_000),
    st.sampled_from(["beta", "binary", "ties", "holes"]),
)
def test_any_table_is_calibrated_or_refused_by_name(n_models, n_items, seed, kind):
    rng = np.random.default_rng(seed)
    scores = rng.beta(0.5, 0.5, size=(n_models, n_items))
    if kind == "binary":
        scores = np.round(scores)
    if kind == "ties":
        scores = np.round(scores * 2) / 2
    if kind == "holes":
        scores[rng.random(scores.shape) < 0.4] = np.nan
    try:
        bank = calibrate(table_of(scores))
    except CcatError:
        return
    for values in bank.parameters.values():
        assert np.isfinite(values).all()
    assert (bank.parameters["noise"] > 0).all()


def test_the_self_check_leaves_families_out_together():
    mean = np.linspace(0.2, 0.8, 12)
    families = ["gpt", "llama", "qwen", *(f"own{i}" for i in range(6)), "gpt", "llama", "qwen"]
    together = groups(mean, families)[:-2]
    for family in ("gpt", "llama", "qwen"):
        own = {i for i, f in enumerate(families) if f == family}
        assert sum(bool(own & set(out.tolist())) for out, _ in together) == 1
    assert sorted(np.concatenate([out for out, _ in together]).tolist()) == list(range(12))
    # One name for all says nothing: the groups are then those of no families.
    alone, all_one = groups(mean, [*"abcdefghijkl"]), groups(mean, ["m"] * 12)
    assert all((a == b).all() for (a, _), (b, _) in zip(alone, all_one))


@pytest.mark.parametrize("last", ["qwen-7b", "llama-1b"])
def test_four_models_nearly_all_of_one_family(last):
    """What a family leaves over may be too little to calibrate on; the others are checked."""
    rng = np.random.default_rng(0)
    logit = rng.normal(size=60) - np.linspace(-1, 1, 4)[:, None] + 0.3 * rng.normal(size=(4, 60))
    names = ["llama-7b", "llama-13b", "llama-70b", last]
    bank = calibrate(ScoreTable.from_arrays(1 / (1 + np.exp(logit)), names))
    assert np.isfinite(bank.parameters["slope"]).all() and bank.constants["prior_sd"] > 0

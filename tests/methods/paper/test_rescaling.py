"""The method "paper" tells its test scores on the scale of its calibration."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import expit, logit

from lm_eval_ccat import Ranker, ScoreTable, calibrate, simulate
from lm_eval_ccat.errors import BankError, UsageError
from lm_eval_ccat.methods.paper.policy import PaperPolicy
from lm_eval_ccat.methods.paper.test import PaperTest
from lm_eval_ccat.simulation import Method


def scores(seed=0, n_models=8, n_items=40):
    rng = np.random.default_rng(seed)
    eta = np.linspace(-1.2, 1.2, n_models)[:, None] + rng.normal(size=n_items)[None]
    return np.clip(expit(eta) + 0.1 * rng.normal(size=eta.shape), 0.0, 1.0)


def made(values):
    return ScoreTable.from_arrays(values, models=[f"m{n}" for n in range(len(values))])


def ranked(bank, values, **options):
    ranker = Ranker(bank, models={"a": 1.0, "b": 1.0, "c": 1.0}, budget=60, **options)
    while not ranker.done:
        for model, item in ranker.ask():
            ranker.tell(model, item, values["abc".index(model), item])
    return ranker.result()


@settings(max_examples=15, deadline=None)
@given(low=st.floats(0.0, 0.9), span=st.floats(0.02, 1.0), seed=st.integers(0, 5))
def test_a_narrow_metric_is_tested_like_a_wide_one(low, span, seed):
    """Squeezing all scores into a narrow range moves estimates along and changes nothing else."""
    span = min(span, 1.0 - low)
    wide = scores(seed)
    wide = (wide - wide[3:].min()) / (wide[3:].max() - wide[3:].min())
    wide = np.clip(wide, 0.0, 1.0)
    narrow = low + span * wide
    one, two = (calibrate(made(x[3:]), "paper") for x in (wide, narrow))
    tests = [PaperTest(bank) for bank in (one, two)]
    for item in range(0, 40, 3):
        for test, x in zip(tests, (wide, narrow)):
            test.update(item, float(x[0, item]))
    a, b = tests
    assert b.ability == pytest.approx(a.ability, abs=1e-6)
    assert b.ability_se == pytest.approx(a.ability_se, abs=1e-6)
    assert b.estimate == pytest.approx(low + span * a.estimate, abs=1e-6)
    assert b.standard_error == pytest.approx(span * a.standard_error, abs=1e-6)
    np.testing.assert_allclose(b.expected(), low + span * a.expected(), atol=1e-6)


def test_one_step_by_hand():
    bank = calibrate(made(0.6 + 0.2 * scores()), "paper")
    low, high = bank.constants["score_range"]
    assert (low, high) == pytest.approx((0.6, 0.8))
    test = PaperTest(bank)
    theta, k, b = bank.constants["start"], bank.constants["k"], bank.parameters["difficulty"][5]
    mu = expit(theta - b)
    test.update(5, 0.75)
    precision = 1 / 25 + mu * (1 - mu) / k
    assert test.ability == pytest.approx(theta + ((0.75 - low) / 0.2 - mu) / (k * precision))
    assert test.ability_se == pytest.approx(precision**-0.5)
    # A score beyond the calibration's range counts as its end.
    low_end, beyond = PaperTest(bank), PaperTest(bank)
    low_end.update(5, low)
    beyond.update(5, 0.1)
    assert beyond.ability == low_end.ability


def test_a_bank_without_the_record_takes_scores_as_given():
    values = 0.6 + 0.2 * scores()
    bank = calibrate(made(values[3:]), "paper")
    assert bank.constants["rescale"] == "range"
    given_ = calibrate(made(values[3:]), "paper", rescale="none")
    old = replace(bank, constants={k: v for k, v in bank.constants.items() if k != "rescale"})
    assert ranked(old, values).abilities == ranked(given_, values).abilities
    assert ranked(old, values).abilities != ranked(bank, values).abilities
    wider = ranked(bank, values, score_range=(0.0, 1.0))
    assert wider.abilities == ranked(given_, values).abilities


def test_what_cannot_be_a_rescaling_is_refused():
    table = made(scores())
    with pytest.raises(UsageError, match="rescale 'max' is neither"):
        calibrate(table, "paper", rescale="max")
    bank = calibrate(table, "paper")
    for wrong in (None, [0.4], [0.5, 0.5], [-1.0, 0.5], ["a", "b"]):
        broken = replace(bank, constants={**bank.constants, "score_range": wrong})
        with pytest.raises(BankError, match="low < high"):
            PaperTest(broken)


def test_the_ability_of_known_scores_is_where_a_whole_test_ends():
    values = 0.3 + 0.4 * scores(n_items=200)
    bank = calibrate(made(values[2:]), "paper")
    theta, _ = PaperPolicy(bank, 1).fixed_points(np.array([0.5]), np.array([0.01]))
    low, high = bank.constants["score_range"]
    mu = expit(theta[0] - bank.parameters["difficulty"][bank.kept]).mean()
    assert low + (high - low) * mu == pytest.approx(0.5)
    assert abs(theta[0]) < abs(logit(1e-3))


def test_unscaled_bertscore(shared):
    """Scores between 0.85 and 0.90, as BERTScore gives them without its baseline.

    This is where the method fails when the test takes scores as they are: all models look better
    than the bank's hardest items, and their order is that of the items they happened to get.
    """
    read = ScoreTable.read(
        shared / "data" / "scores" / "realsumm_abs.parquet", metric="bert_f_score", range=(-1, 1)
    )
    x = (read.raw - read.raw.min()) / np.ptp(read.raw)
    table = ScoreTable.from_arrays(0.85 + 0.05 * x, models=read.row_model)
    plain = Method("none", "ranker", "paper", calibrate={"rescale": "none"}, own_budget=True)
    found = simulate(table, [plain, "paper"], folds=10, processes=1).summary
    assert found["none"]["tau"] < 0.3
    assert found["paper"]["tau"] > 0.7
    assert found["paper"]["rmse"] < 0.1 * found["none"]["rmse"]


def told(bank, values, n):
    policy = PaperPolicy(bank, len(values))
    for model, row in enumerate(values):
        for item in range(n):
            policy.tests[model].update(item, float(row[item]))
    return policy


def test_decisions():
    values = 0.3 + 0.4 * scores(n_models=9, n_items=120)
    bank = calibrate(made(values[::2]), "paper")
    policy = told(bank, values[[1, 4, 4, 8]], 60)
    found = policy.decisions(0.95)
    p = policy.pairwise()
    off = ~np.eye(4, dtype=bool)
    assert ((found == 1) == ((p < 0.025) | (p > 0.975)) & off).all()
    assert found[0, 3] == 1 and found[1, 2] == 0 and (found == found.T).all()
    # A margin calls the twins equivalent, and no pair that is farther apart than it.
    close = policy.decisions(0.95, min_difference=0.1)
    assert close[1, 2] == 2 and close[0, 3] == 1
    # Equivalent stands before decided: a margin of everything settles every pair.
    assert (policy.decisions(0.95, min_difference=1.0)[off] == 2).all()
    mean = [t.estimate for t in policy.tests]
    se = [t.standard_error for t in policy.tests]
    edge = abs(mean[1] - mean[4 - 1]) + 1.959963984540054 * np.hypot(se[1], se[3])
    assert policy.decisions(0.95, min_difference=edge + 1e-9)[1, 3] == 2
    assert policy.decisions(0.95, min_difference=edge - 1e-9)[1, 3] != 2


def test_familywise_decisions_share_the_error():
    values = scores(n_models=9, n_items=120)
    policy = told(calibrate(made(values[::2]), "paper"), values[[1, 3, 4, 7]], 30)
    p = policy.pairwise()
    found = policy.decisions(0.95, familywise=True)
    one, all_ = ((p < t) | (p > 1 - t) for t in (0.025, 0.025 / 6))
    assert (found[all_] == 1).all() and (found[~one] == 0).all()

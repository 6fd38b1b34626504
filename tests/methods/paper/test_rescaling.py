"""The method "paper" tells its test scores on the scale of its calibration."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import expit

from lm_eval_ccat import Ranker, ScoreTable, calibrate
from lm_eval_ccat.errors import BankError, UsageError
from lm_eval_ccat.methods.paper.method import PaperPolicy
from lm_eval_ccat.methods.paper.test import PaperTest
from lm_eval_ccat.ranker.looks import Looks
from lm_eval_ccat.ranker.verdicts import DECIDED, EQUIVALENT, OPEN, Verdicts


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


@settings(max_examples=2, deadline=None)
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
            test.learn(item, float(x[0, item]))
    a, b = tests
    assert b.ability == pytest.approx(a.ability, abs=1e-6)
    assert b.ability_error == pytest.approx(a.ability_error, abs=1e-6)
    assert b.estimate == pytest.approx(low + span * a.estimate, abs=1e-6)
    assert b.slope == pytest.approx(span * a.slope, abs=1e-6)
    np.testing.assert_allclose(b.expected(), low + span * a.expected(), atol=1e-6)


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


def test_decisions_are_of_abilities_and_a_margin_is_of_scores():
    values = 0.3 + 0.4 * scores(n_models=9, n_items=120)
    policy = PaperPolicy(calibrate(made(values[::2]), "paper"), 4)
    for model, row in enumerate(values[[1, 4, 4, 8]]):
        for item in range(60):
            policy.told(model, item, float(row[item]))
    belief, once = policy.belief(), Looks(once=True)
    theta, se = belief.location, np.sqrt(belief.variance.diagonal())

    def state(d=0.0):
        looks = once.after(belief, 0.05, d)
        return Verdicts(belief, looks, "abcd", min_difference=d).state

    z = np.abs(theta[:, None] - theta) / np.hypot(se[:, None], se)
    off = ~np.eye(4, dtype=bool)
    assert ((state() == DECIDED) == (z >= 1.959963984540054))[off].all()
    assert state()[0, 3] == DECIDED and state()[1, 2] == OPEN
    # A margin calls the twins equivalent, and no pair that is farther apart than it.
    assert state(0.1)[1, 2] == EQUIVALENT and state(0.1)[0, 3] == DECIDED
    assert (state(1.0)[off] == EQUIVALENT).all()
    s = belief.on_scores
    edge = abs(s.location[1] - s.location[3]) + 1.959963984540054 * s.variance[1, 3] ** 0.5
    assert state(edge + 1e-9)[1, 3] == EQUIVALENT != state(edge - 1e-9)[1, 3]

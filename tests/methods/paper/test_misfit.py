"""Errors of the method "paper" are widened by what models left out show, and by nothing else."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import expit

from lm_eval_ccat import Ranker, ScoreTable, calibrate
from lm_eval_ccat.errors import BankError
from lm_eval_ccat.methods.paper.method import STOPS, USUAL, Misfit

NAMES = [f"m{j}" for j in range(14)]


def table(own):
    """0/1 scores of 14 models on 300 items; `own` is the spread of tastes that the model lacks."""
    rng = np.random.default_rng(3)
    kind, taste = rng.normal(size=300), own * rng.normal(size=14)
    logit = np.linspace(-1, 1, 14)[:, None] + rng.normal(size=300) + np.outer(taste, kind)
    return ScoreTable.from_arrays((rng.random((14, 300)) < expit(logit)).astype(float), NAMES)


@pytest.fixture(scope="module")
def wrong():
    return table(2.0)


@pytest.fixture(scope="module")
def bank(wrong):
    return calibrate(wrong.without(["m4", "m9"]), method="paper")


def ranked(bank, scores, **options):
    ranker = Ranker(bank, dict.fromkeys(["m4", "m9"], 1.0), stop="limits", max_items=45, **options)
    values = scores.select(["m4", "m9"]).model_scores()
    while not ranker.done:
        for model, item in ranker.ask():
            ranker.tell(model, item, values[["m4", "m9"].index(model), item])
    return ranker


def test_what_the_response_model_gets_wrong_shows(bank):
    fits, lacks = Misfit.of(calibrate(table(0.0), method="paper")), Misfit.of(bank)
    assert fits.n == lacks.n == STOPS and lacks.df == 14.0
    assert 2.0 * sum(fits.single) < sum(lacks.single) and sum(fits.pair) < sum(lacks.pair)


def test_only_errors_are_widened_and_with_one_look_nothing_is(bank, wrong):
    every, one = (ranked(bank, wrong, looks=looks) for looks in ("every", "one"))
    assert every.result().items == one.result().items
    assert every.result().abilities == one.result().abilities
    factor, paper = Misfit.of(bank), one.verdicts.belief.variance
    wide = every.verdicts.belief.variance
    at = factor.n.index(45.0)
    np.testing.assert_allclose(wide.diagonal(), factor.single[at] * paper.diagonal())
    assert wide[0, 1] == pytest.approx(factor.pair[at] * paper[0, 1])
    assert paper[0, 1] == pytest.approx(sum(e * e for _, e in one.result().abilities.values()))


def test_a_bank_that_measured_nothing_has_the_usual_misfit(bank, wrong):
    few = calibrate(wrong.select(NAMES[:3]), method="paper")
    assert "misfit" not in few.constants and Misfit.of(few) is USUAL
    for broken in ({}, {**bank.constants["misfit"], "pair": [0.5] * 5}):
        damaged = replace(bank, constants={**bank.constants, "misfit": broken})
        with pytest.raises(BankError, match="misfit"):
            ranked(damaged, wrong)

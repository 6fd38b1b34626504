"""Ranking by the method "default": confidence in pairs, who is asked next, when it stops."""

from __future__ import annotations

from functools import cache

import pytest
from artificial import held_out, world

from lm_eval_ccat import ItemBank, Ranker, calibrate
from lm_eval_ccat.errors import UsageError

NAMES = ["m4", "m9", "m14", "m19"]
CALIBRATION, SCORES = held_out(world(24, 90, seed=7), NAMES)
EVEN = dict.fromkeys(NAMES, 1.0)


@cache
def the_bank() -> ItemBank:
    return calibrate(CALIBRATION)


@pytest.fixture(scope="module")
def bank() -> ItemBank:
    return the_bank()


def drive(ranker: Ranker, scores=SCORES):
    while not ranker.done:
        for model, item in ranker.ask():
            ranker.tell(model, item, float(scores[model][item]))
    return ranker.result()


def test_two_models_that_answer_alike_are_a_tie_even_at_the_end(bank):
    twins = {"a": SCORES["m9"], "b": SCORES["m9"].copy()}
    result = drive(Ranker(bank, {"a": 1.0, "b": 1.0}, budget=120), twins)
    assert result.pairwise["a", "b"] == pytest.approx(0.5, abs=0.02)
    assert result.ties == [tuple(result.order)]


def test_a_dear_model_gets_fewer_items(bank):
    prices = dict(zip(NAMES, (0.1, 0.1, 3.0, 3.0)))
    result = drive(Ranker(bank, prices, budget=120, stop="limits", warmup=4))
    spent = [len(result.items[m]) for m in NAMES]
    assert min(spent[:2]) > max(spent[2:])


def test_stopping_by_itself_seldom_leaves_a_wrong_pair():
    wrong = confident = 0
    for seed in range(3):
        names = ["m2", "m8", "m13", "m18", "m25"]
        calibration, scores = held_out(world(28, 120, seed=500 + seed), names)
        result = drive(Ranker(calibrate(calibration), dict.fromkeys(names, 1.0)), scores)
        for (a, b), p in result.pairwise.items():
            if result.decisions[a, b] == "decided" and p > 0.5:
                confident += 1
                wrong += scores[a].mean() < scores[b].mean()
    assert confident > 12 and wrong <= 1


def test_the_ablations_of_the_benchmarks_work(bank):
    for options in (
        {"draws": False},
        {"allocation": "variance"},
        {"item_price": 0.0},
    ):
        result = drive(Ranker(bank, EVEN, budget=60, **options))
        assert len(result.order) == 4
    for options in ({"allocation": "x"}, {"item_price": -1.0}):
        with pytest.raises(UsageError):
            Ranker(bank, EVEN, **options)

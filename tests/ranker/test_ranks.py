"""Decisions, rank ranges, chances, and the line of the order."""

from __future__ import annotations

import numpy as np
import pytest
from boards import bank_of, draw, drive, of

from lm_eval_ccat import Ranker
from lm_eval_ccat.ranker.ranks import order_in_words

METHODS = ["paper", "default", "sample"]


def test_the_line_of_the_order():
    ranges = {"A": (1, 2), "B": (1, 3), "C": (2, 3), "D": (4, 4)}
    ties = [("A", "B", "C")]
    assert order_in_words("ABCD", ties, [], ranges) == "{A, B, C} > D"
    assert order_in_words("ABCD", ties, [("A", "C")], ranges) == (
        "A (1 to 2) >~ B (1 to 3) >~ C (2 to 3) > D"
    )


@pytest.mark.parametrize("method", METHODS)
def test_a_result_has_decisions_that_fit_each_other(method):
    scores = draw([-0.8, -0.1, 0.0, 0.9], 80, 4)
    ranker = Ranker(bank_of(method), dict.fromkeys("abcd", 1.0), max_items=30)
    result = drive(ranker, of(scores))
    assert set(result.decisions) == set(result.pairwise)
    assert all(result.decisions[a, b] == result.decisions[b, a] for a, b in result.decisions)
    assert sum(result.p_best.values()) == pytest.approx(1.0)
    for rank, model in enumerate(result.order, 1):
        best, worst = result.rank_ranges[model]
        assert best <= rank <= worst
    decided = [
        p for (a, b), p in result.pairwise.items() if result.decisions[a, b] == "decided" and a < b
    ]
    assert result.expected_wrong == pytest.approx(sum(min(p, 1 - p) for p in decided))
    block = result.to_dict()["models"]["d"]
    assert block["rank_range"] == list(result.rank_ranges["d"])
    assert block["p_best"] == result.p_best["d"] > 0.5


def test_two_models_are_best_with_the_probability_of_their_pair():
    scores = draw([0.0, 0.3], 80, 4)
    result = drive(Ranker(bank_of("default"), {"a": 1.0, "b": 1.0}, max_items=12), of(scores))
    assert result.p_best["a"] == pytest.approx(result.pairwise["a", "b"])


@pytest.mark.parametrize("method", ["default", "sample"])
def test_equal_models_are_called_equivalent_and_stop_early(method):
    same = draw([0.2], 400, 8, noise=0.3)[0]
    bank = bank_of(method, 400)
    usual = Ranker(bank, {"a": 1.0, "b": 1.0}, max_items=400)
    close = Ranker(bank, {"a": 1.0, "b": 1.0}, max_items=400, min_difference=0.1)
    rng = np.random.default_rng(0)
    jitter = np.clip(same + 0.02 * rng.normal(size=(2, 400)), 0, 1)
    told = of(jitter)
    wide, narrow = drive(usual, told), drive(close, told)
    assert narrow.decisions["a", "b"] == "equivalent" and narrow.goal_met
    assert sum(map(len, narrow.items.values())) < sum(map(len, wide.items.values()))
    assert narrow.in_words() in ("{a, b}", "{b, a}")
    assert narrow.stopped_because == "every adjacent pair is decided or equivalent"


@pytest.mark.parametrize("method", METHODS)
def test_familywise_decides_no_pair_that_single_pairs_leave_open(method):
    scores = draw([-0.5, -0.2, 0.0, 0.2, 0.6], 80, 4)
    models = dict.fromkeys("abcde", 1.0)
    found = []
    for familywise in (False, True):
        ranker = Ranker(bank_of(method), models, max_items=60, familywise=familywise, warmup=20)
        while (pairs := ranker.ask(1)) and min(map(len, ranker.result().items.values())) < 20:
            for model, item in pairs:
                ranker.tell(model, item, of(scores)(model, item))
        found.append({p for p, d in ranker.result().decisions.items() if d == "decided"})
    assert found[1] <= found[0]

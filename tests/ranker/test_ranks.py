"""Decisions, rank ranges, chances, and the line of the order."""

from __future__ import annotations

import numpy as np
import pytest
from boards import bank_of, draw, drive, of

from lm_eval_ccat import Ranker
from lm_eval_ccat.ranker.headline import order_in_words

METHODS = ["paper", "default", "sample"]


def test_the_line_of_the_order():
    ranges = {"A": (1, 2), "B": (1, 3), "C": (2, 3), "D": (4, 4)}
    ties = [("A", "B", "C")]
    assert order_in_words("ABCD", ties, [], ranges) == "{A, B, C} > D"
    assert order_in_words("ABCD", ties, [("A", "C")], ranges) == (
        "A (1 to 2) >~ B (1 to 3) >~ C (2 to 3) > D"
    )


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

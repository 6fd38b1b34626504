"""Decisions, rank ranges, chances, and the line of the order."""

from __future__ import annotations

import numpy as np
from boards import bank_of, draw, drive, of

from lm_eval_ccat import Ranker
from lm_eval_ccat.ranker.headline import order_in_words


def test_the_line_of_the_order():
    ranges = {"A": (1, 2), "B": (1, 3), "C": (2, 3), "D": (4, 4)}
    ties = [("A", "B", "C")]
    assert order_in_words("ABCD", ties, [], ranges) == "{A, B, C} > D"
    assert order_in_words("ABCD", ties, [("A", "C")], ranges) == (
        "A (1 to 2) >~ B (1 to 3) >~ C (2 to 3) > D"
    )


def test_equal_models_are_called_equivalent_and_stop_early():
    same = draw([0.2], 400, 8, noise=0.3)[0]
    bank = bank_of("sample", 400)
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

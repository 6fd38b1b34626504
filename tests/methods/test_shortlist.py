"""The items a test would choose first: what exposure control draws from."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lm_eval_ccat import ScoreTable, calibrate
from lm_eval_ccat.methods.default.method import DefaultPolicy
from lm_eval_ccat.methods.paper.method import PaperPolicy
from lm_eval_ccat.methods.policy import largest


@cache
def bank():
    rng = np.random.default_rng(0)
    skill, ease = np.linspace(-1.5, 1.5, 10)[:, None], rng.normal(size=40)
    raw = 1 / (1 + np.exp(-skill - ease - 0.3 * rng.normal(size=(10, 40))))
    return calibrate(ScoreTable.from_arrays(raw, [f"m{j}" for j in range(10)]), "paper")


@settings(max_examples=60, deadline=None)
@given(
    values=st.lists(st.floats(-5, 5) | st.just(-np.inf), min_size=1, max_size=30).filter(
        lambda v: max(v) > -np.inf
    ),
    k=st.integers(1, 40),
)
def test_largest_is_what_sorting_gives(values, k):
    array = np.array(values)
    order = [i for i in np.argsort(-array, kind="stable") if np.isfinite(array[i])]
    assert largest(array, k) == order[:k]


@pytest.mark.parametrize("k", [1, 2, 5, 100])
def test_the_best_items_are_repeated_selection(k):
    policy = PaperPolicy(bank(), 1)
    available, price = bank().kept.copy(), np.ones(bank().n_items)
    for item in (3, 8, 21):
        policy.told(0, item, 0.7)
        available[item] = False
    found = [choice.item for choice in policy.next(0, available, (), price, k)]
    one_by_one, left = [], available.copy()
    for _ in range(min(k, int(available.sum()))):
        [choice] = policy.next(0, left, (), price)
        one_by_one.append(choice.item)
        left[choice.item] = False
    assert found == one_by_one


def test_looking_at_the_best_items_leaves_no_trace():
    rng = np.random.default_rng(1)
    skill, ease = np.linspace(-1.5, 1.5, 16)[:, None], rng.normal(size=60)
    raw = 1 / (1 + np.exp(-skill - ease - 0.6 * rng.normal(size=(16, 60))))
    made = calibrate(ScoreTable.from_arrays(raw, [f"m{j}" for j in range(16)]), "default")
    policy, available, price = DefaultPolicy(made, 1), made.kept.copy(), np.ones(60)
    one = policy.next(0, available, (), price)
    assert policy.next(0, available, (), price, 5)[:1] == one
    assert policy.next(0, available, (), price) == one

"""Items of equal information: a seeded draw decides, and no last bit of a sum does."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lm_eval_ccat import Ranker, ScoreTable, calibrate
from lm_eval_ccat.methods.paper.method import PaperPolicy
from lm_eval_ccat.methods.paper.test import JITTER, PaperTest
from lm_eval_ccat.methods.policy import largest


@pytest.fixture(scope="module")
def table():
    """0/1 scores of nine models: 60 items have at most ten distinct means."""
    rng = np.random.default_rng(4)
    chance = 1.0 / (1.0 + np.exp(-np.linspace(-1.5, 1.5, 9)[:, None] - rng.normal(size=60)))
    return ScoreTable.from_arrays((rng.random((9, 60)) < chance).astype(float), list("abcdefghi"))


@pytest.fixture(scope="module")
def bank(table):
    return calibrate(table.without(["b", "e", "h"]), method="paper")


def asked(bank, table, **options):
    ranker = Ranker(bank, dict.fromkeys("beh", 1.0), max_items=15, **options)
    scores = dict(zip("beh", table.select(list("beh")).model_scores()))
    while not ranker.done:
        for model, item in ranker.ask():
            ranker.tell(model, item, scores[model][item])
    return ranker.result().items


def test_the_last_bit_of_a_difficulty_decides_nothing(bank, table):
    difficulty = bank.parameters["difficulty"]
    noise = np.random.default_rng(1).choice([-1.0, 0.0, 1.0], len(difficulty))
    moved = replace(
        bank, parameters={**bank.parameters, "difficulty": difficulty * (1.0 + 2.2e-16 * noise)}
    )
    assert asked(bank, table, seed=3) == asked(moved, table, seed=3)


def test_the_seed_decides_among_equal_items_and_nothing_else(bank):
    available = bank.kept.copy()
    first = [PaperTest(bank, seed=(s,)).select(available)[0] for s in range(60)]
    difficulty = bank.parameters["difficulty"]
    nearest = np.abs(difficulty - bank.constants["start"])[bank.kept].min()
    equal = np.flatnonzero(np.isclose(np.abs(difficulty - bank.constants["start"]), nearest))
    equal = equal[bank.kept[equal]]
    assert len(equal) > 1 and set(first) == set(equal.tolist())
    assert first == [PaperTest(bank, seed=(s,)).select(available)[0] for s in range(60)]


def test_jitter_moves_difficulties_by_next_to_nothing(bank, table):
    still, moved = PaperTest(bank), PaperTest(bank, jitter=True)
    for item in np.flatnonzero(bank.kept)[:12]:
        still.learn(int(item), 1.0)
        moved.learn(int(item), 1.0)
    assert 0.0 < abs(still.ability - moved.ability) < 12 * JITTER
    free = bank.kept.copy()
    free[[*moved.seen]] = False
    far = abs(bank.parameters["difficulty"][moved.select(free)[0]] - moved.ability)
    near = np.abs(bank.parameters["difficulty"] - moved.ability)[free].min()
    assert far <= near + 2 * JITTER
    assert asked(bank, table, jitter=True, seed=1) == asked(bank, table, jitter=True, seed=1)


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
def test_the_best_items_are_repeated_selection(bank, k):
    policy = PaperPolicy(bank, 1)
    available, price = bank.kept.copy(), np.ones(bank.n_items)
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

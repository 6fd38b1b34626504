"""The items a test would choose first: what exposure control draws from."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lm_eval_ccat import ScoreTable, calibrate
from lm_eval_ccat.methods.adaptive_test import AdaptiveTest, largest
from lm_eval_ccat.methods.paper.test import PaperTest


def bank():
    rng = np.random.default_rng(0)
    skill, ease = np.linspace(-1.5, 1.5, 10)[:, None], rng.normal(size=40)
    raw = 1 / (1 + np.exp(-skill - ease - 0.3 * rng.normal(size=(10, 40))))
    return calibrate(ScoreTable.from_arrays(raw, [f"m{j}" for j in range(10)]), "paper")


BANK = bank()


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
def test_a_shortlist_is_repeated_selection(k):
    test = PaperTest(BANK)
    for item in (3, 8, 21):
        test.update(item, 0.7)
    available = BANK.kept.copy()
    available[[3, 8, 21]] = False
    quick = test.shortlist(available, k=k)
    assert quick == AdaptiveTest.shortlist(test, available, k=k)
    assert quick[0] == test.select(available) and len(set(quick)) == min(k, available.sum())


def test_exposure_of_the_default_method_draws_nothing_twice():
    """Asking for a shortlist must leave no trace of the items that were not asked."""
    rng = np.random.default_rng(1)
    skill, ease = np.linspace(-1.5, 1.5, 16)[:, None], rng.normal(size=60)
    raw = 1 / (1 + np.exp(-skill - ease - 0.6 * rng.normal(size=(16, 60))))
    made = calibrate(ScoreTable.from_arrays(raw, [f"m{j}" for j in range(16)]), "default")
    from lm_eval_ccat.methods.default.test import DefaultTest

    test = DefaultTest(made)
    available = made.kept.copy()
    one = test.select(available)
    assert test.shortlist(available, k=5)[0] == one == test.select(available)

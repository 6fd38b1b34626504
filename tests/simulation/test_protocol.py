"""Hold-out sets, prices and sizes."""

from __future__ import annotations

from itertools import combinations
from math import comb

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lm_eval_ccat.bank.names import family_of
from lm_eval_ccat.errors import UsageError
from lm_eval_ccat.simulation.benchmark import item_units
from lm_eval_ccat.simulation.folds import drawn_prices, hold_out_sets, hold_outs, prices_by_seed


@given(st.integers(6, 30), st.integers(2, 4), st.integers(1, 25), st.integers(0, 3))
def test_sets_come_from_successive_partitions_and_are_distinct(n_models, size, folds, seed):
    models = [f"m{n}" for n in range(n_models)]
    sets = hold_out_sets(models, size, folds, seed)
    assert all(len(set(s)) == size for s in sets)
    assert len({frozenset(s) for s in sets}) == len(sets) == min(folds, comb(n_models, size))
    first = [m for s in sets[: n_models // size] for m in s]
    assert len(first) == len(set(first))  # within a partition nobody is held out twice
    assert sets == hold_out_sets(models, size, folds + 3, seed)[:folds]


def test_at_the_frontier_only_models_below_the_best_third_calibrate():
    models, means = [f"m{n}" for n in range(12)], np.linspace(0.2, 0.9, 12)
    found = hold_outs("frontier", models, means, 3, 20, 0)
    assert {frozenset(names) for names, _ in found} == {
        frozenset(c) for c in combinations(models[8:], 3)
    }
    assert all(below == tuple(models[:8]) for _, below in found)


def test_families_leave_together():
    models = ["a-1", "a-2", "b-1", "b-2", "b-3", "c", "d", "Org/e-1", "e2"]
    found = hold_outs("family", models, np.zeros(9), 3, 20, 0)
    assert len({frozenset(names) for names, _ in found}) == len(found) > 3
    for names, calibrate in found:
        assert len(names) == 3 and not {family_of(m) for m in names} & {
            family_of(m) for m in calibrate
        }
    with pytest.raises(UsageError, match="families"):
        hold_outs("family", ["a", "b", "c", "d", "e"], np.zeros(5), 2, 3, 0)
    with pytest.raises(UsageError, match="no kind of folds"):
        hold_outs("best", models, np.zeros(9), 3, 3, 0)


@pytest.mark.parametrize("size", [0, 1, 9, 10, 11])
def test_too_few_models_are_refused(size):
    with pytest.raises(UsageError, match="at least 2"):
        hold_out_sets([f"m{n}" for n in range(10)], size, 3, 0)


def test_prices_are_log_uniform_and_seeded():
    models = [f"m{n}" for n in range(4000)]
    drawn = np.array(list(drawn_prices(models, 3).values()))
    assert drawn.min() > 0.1 and drawn.max() < 3.2
    quarters = np.quantile(np.log(drawn), [0.25, 0.5, 0.75])
    wanted = np.log(0.1) + np.log(32) * np.array([0.25, 0.5, 0.75])
    np.testing.assert_allclose(quarters, wanted, atol=0.1)
    assert drawn_prices(models, 3) == drawn_prices(models, 3) != drawn_prices(models, 4)


def test_prices_of_ones_own_are_for_every_model():
    assert prices_by_seed({"a": 1, "b": 0.5, "c": 2}, ["a", "b"], 2) == [{"a": 1.0, "b": 0.5}] * 2
    for prices in ({"a": 1}, {"a": 1, "d": -1}):
        with pytest.raises(UsageError, match="no positive price of model 'd'"):
            prices_by_seed(prices, ["a", "d"], 1)


def test_sizes_of_items_by_id_and_by_array():
    items = [2, 5, 9]
    assert item_units(items, None).tolist() == [1, 1, 1]
    assert item_units(items, {9: 3, 2: 1.5, 5: 2}).tolist() == [1.5, 2, 3]
    assert item_units(items, [4, 5, 6]).tolist() == [4, 5, 6]
    with pytest.raises(UsageError, match=r"2 of 3 items have no positive units \(doc_id 2\)"):
        item_units(items, {9: 30, 2: 0})
    with pytest.raises(UsageError, match="2 values for 3 items"):
        item_units(items, [1, 2])

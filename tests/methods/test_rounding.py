"""Neither rounding errors nor the order of a table's models decide anything.

Scores of 0 and 1 leave many items equally informative, and many models with equal means.
"""

import numpy as np
import pytest

from lm_eval_ccat import Ranker, ScoreTable, calibrate


def asked(method, y, seed=0):
    """What four models are asked, in order, and how far models left out of `default` departed."""
    names = [f"m{j:02d}" for j in range(len(y))]
    bank = calibrate(ScoreTable.from_arrays(y[4:], names[4:]), method)
    ranker, out = Ranker(bank, names[:4], seed=seed, max_items=20), []
    while batch := ranker.ask(2):
        out += batch
        for model, item in batch:
            ranker.tell(model, item, float(y[names.index(model), item]))
    found = bank.constants.get("departures", {})
    return out, {key: np.ravel(value).tolist() for key, value in found.items()}


@pytest.mark.long
@pytest.mark.parametrize("method", ["default", "paper"])
def test_the_seed_tells_equal_items_apart_and_scores_moved_by_a_few_ulps_change_nothing(method):
    rng = np.random.default_rng(3)
    skill, ease = np.linspace(-2.0, 2.0, 22)[:, None], rng.normal(size=20)
    y = (skill + ease > rng.logistic(size=(22, 20))).astype(float).repeat(3, axis=1)
    # Every other item differs from its likes for one model: when that is left out, they are alike.
    y[rng.integers(0, 22, 30), np.arange(0, 60, 2)] = rng.integers(0, 2, 30)
    items, found = asked(method, y)
    for seed in range(2):
        ulps = np.random.default_rng(seed).integers(0, 5, y.shape) * 1.2e-16
        items_of_moved, found_of_moved = asked(method, np.abs(y - ulps))
        assert items_of_moved == items
        for key in found:
            assert found_of_moved[key] == pytest.approx(found[key], rel=1e-7, abs=1e-12), key
    # Five items of each model: no draw falls so early.
    assert asked(method, y, seed=1)[0][:20] != items[:20]


@pytest.mark.long
@pytest.mark.parametrize("method", ["default", "paper"])
def test_a_bank_does_not_depend_on_the_order_of_its_models(method):
    rng = np.random.default_rng(4)
    y = (np.linspace(-2.0, 2.0, 12).round()[:, None] > rng.logistic(size=(12, 60))).astype(float)
    names = np.array([f"m{j:02d}" for j in range(12)])
    assert len(np.unique(y.mean(axis=1))) < 12
    order = rng.permutation(12)
    tables = (ScoreTable.from_arrays(y[rows], names[rows]) for rows in (np.arange(12), order))
    one, other = (calibrate(table, method).constants for table in tables)
    measured = "departures" if method == "default" else "misfit"
    for key, value in one[measured].items():
        assert other[measured][key] == pytest.approx(value, rel=1e-9), key

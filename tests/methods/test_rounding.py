"""Rounding errors decide nothing, though scores of 0 and 1 leave many items equally informative."""

from __future__ import annotations

import numpy as np
import pytest

from lm_eval_ccat import Ranker, ScoreTable, calibrate

pytestmark = pytest.mark.parametrize("method", ["default", "paper"])


@pytest.fixture(scope="module")
def twins():
    """Scores of 0 and 1 of 22 models on 30 items, of which each stands in the table three times."""
    rng = np.random.default_rng(3)
    skill, ease = np.linspace(-2.0, 2.0, 22)[:, None], rng.normal(size=30)
    right = skill + ease > rng.logistic(size=(22, 30))
    return np.repeat(right.astype(float), 3, axis=1)


def asked(method, y, seed=0):
    """What four models are asked, in order, and how far models left out of `default` departed."""
    names = [f"m{j:02d}" for j in range(len(y))]
    bank = calibrate(ScoreTable.from_arrays(y[4:], names[4:]), method)
    ranker, out = Ranker(bank, names[:4], seed=seed, max_items=30), []
    while batch := ranker.ask(2):
        out += batch
        for model, item in batch:
            ranker.tell(model, item, float(y[names.index(model), item]))
    found = bank.constants.get("departures", {})
    return out, {key: np.ravel(value).tolist() for key, value in found.items()}


def test_scores_moved_by_a_few_ulps_change_neither_a_bank_nor_what_is_asked(method, twins):
    # To all models but one the three items of a kind are alike: to those that are left in, mostly.
    rng = np.random.default_rng(0)
    twins = twins.copy()
    twins[rng.integers(0, 22, 90), np.arange(90)] = rng.integers(0, 2, 90)
    items, found = asked(method, twins)
    for seed in range(3):
        ulps = np.random.default_rng(seed).integers(0, 5, twins.shape) * 1.2e-16
        items_of_moved, found_of_moved = asked(method, np.abs(twins - ulps))
        assert items_of_moved == items
        for key in found:
            assert found_of_moved[key] == pytest.approx(found[key], rel=1e-7, abs=1e-12), key


def test_the_seed_tells_equally_informative_items_apart(method, twins):
    (first, _), (again, _), (other, _) = (asked(method, twins, seed) for seed in (0, 0, 1))
    assert first == again
    assert first[:20] != other[:20]  # five items of each model: no draw falls so early

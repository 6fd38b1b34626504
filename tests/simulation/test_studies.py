"""The measurements of `experiments`, against computation by hand."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import expit

from lm_eval_ccat import ScoreTable, calibrate, simulate
from lm_eval_ccat.experiments.studies import (
    Design,
    _jaccard,
    break_even,
    calibration,
    conformance,
    families,
    information,
    replay,
    residuals,
)
from lm_eval_ccat.simulation import Method
from lm_eval_ccat.simulation.outcome import Outcome
from lm_eval_ccat.simulation.protocol import drawn_prices

DESIGN = Design(methods=("paper",), folds=3, items_per_model=15, levels=(15.0,))


def made(n_models=12, n_items=120, seed=0, spread=1.2):
    rng = np.random.default_rng(seed)
    eta = np.linspace(-spread, spread, n_models)[:, None] + rng.normal(size=n_items)[None]
    scores = np.clip(expit(eta) + 0.1 * rng.normal(size=eta.shape), 0, 1)
    return ScoreTable.from_arrays(scores, models=[f"m{n:02d}" for n in range(n_models)])


def test_break_even_is_where_the_totals_cross():
    for models, n_items, per_model in [(10, 1000, 20), (22, 997, 31.4), (3, 50, 49)]:
        found = break_even(models, n_items, per_model)
        assert models * n_items + found * per_model < found * n_items
        assert models * n_items + (found - 1) * per_model >= (found - 1) * n_items
    assert break_even(10, 100, 100) is None


def test_conformance_of_data_from_the_model_and_of_other_data():
    rng = np.random.default_rng(0)
    mu, k = rng.uniform(0.02, 0.98, 200_000), np.full(200_000, 0.1)
    true = rng.normal(0, np.sqrt(k * mu * (1 - mu)))
    found = conformance(mu, true**2, k)
    assert found["r2"] > 0.98 and found["correlation2"] > 0.98
    assert [b["mu"] for b in found["bins"]] == sorted(b["mu"] for b in found["bins"])
    assert sum(b["n"] for b in found["bins"]) == 200_000
    assert all(b["predicted"] == pytest.approx(0.1 * b["mu"] * (1 - b["mu"]), rel=0.1)
               for b in found["bins"][1:-1])  # fmt: skip
    # A variance that grows to the ends, where the model's shrinks.
    assert conformance(mu, rng.normal(0, np.abs(mu - 0.5)) ** 2, k)["r2"] < 0


def test_residuals_give_back_the_noise_of_the_bank():
    table = made()
    bank = calibrate(table, method="paper")
    mu, squares, noise = residuals(table, bank)
    # The definition of k: sum of squares over sum of mu (1 - mu), over the items kept.
    assert squares.sum() / (mu * (1 - mu)).sum() == pytest.approx(bank.constants["k"])
    assert len(mu) == 12 * bank.kept.sum() and set(noise) == {bank.constants["k"]}


def test_residuals_of_the_default_method_are_of_its_own_scale():
    """The variance a bank predicts adds up to what its calibration scores show."""
    table = made(n_models=25, n_items=300)
    bank = calibrate(table, method="default")
    mu, squares, noise = residuals(table, bank)
    assert len(mu) == 25 * 300
    assert np.corrcoef(mu, table.unit.ravel())[0, 1] > 0.9
    assert squares.sum() / (noise * mu * (1 - mu)).sum() == pytest.approx(1.0, abs=0.25)


def test_calibration_reports_discrimination_of_the_bank():
    table = made()
    row = calibration(table, DESIGN)["paper"]
    k = calibrate(table, method="paper").constants["k"]
    assert row["discrimination"] == pytest.approx(k**-0.5)
    assert row["scores"] == 12 * 120


def test_fixed_length_is_as_long_as_the_longest_adaptive_test():
    table = made(spread=0.4)
    found = replay(table, DESIGN, None, None)["fixed_length"]["paper"]
    own = Method("own", "ranker", "paper", own_budget=True)
    long = Method("long", "fixed", "paper", as_long_as="own")
    both = simulate(table, [own, long], folds=3, items_per_model=15, processes=1)
    adaptive = [o for o in both.outcomes if o.method == "own"]
    fixed = [o for o in both.outcomes if o.method == "long"]
    for a, f in zip(adaptive, fixed):
        assert {len(items) for items in f.items_of.values()} == {max(map(len, a.items_of.values()))}
        prices = drawn_prices(table.models, 0)
        assert f.cost == pytest.approx(
            sum(prices[m] * len(items) for m, items in f.items_of.items())
        )
    spent = sum(o.items for o in adaptive) / sum(o.items for o in fixed)
    assert found["item_savings"] == pytest.approx(1 - spent)
    assert 0 < found["item_savings"] < 1 and 0 < found["cost_savings"] < 1
    assert found["tau_equal_length"] == pytest.approx(np.mean([o.tau for o in fixed]))


def test_families_are_held_out_whole_and_small_ones_passed_over():
    design = Design(methods=("paper",), families={
        "low": ["m00", "m01", "m02"], "pair": ["m05", "m06", "absent"], "single": ["m09"],
    })  # fmt: skip
    found = families(made(), design, None, None)
    assert found["families"] == {"low": 3, "pair": 2}
    assert found["summary"]["paper"]["runs"] == 2
    assert families(made(), DESIGN, None, None) == {}


def test_information_compares_the_same_runs():
    found = information(made(), DESIGN, None, None)
    assert found["runs"] == 3 and 0 <= found["identical_runs"] <= found["jaccard"] <= 1


def test_jaccard_is_the_mean_over_models():
    def outcome(items):
        counts = (0,) * 6
        return Outcome(
            "x", 0, 0, ("a", "b"), 1.0, None, 0, 0.0, None, *counts, np.zeros(2), None, 0.0, items
        )

    one = outcome({"a": (1, 2, 3), "b": (4,)})
    two = outcome({"a": (3, 2, 9, 8), "b": (4,)})
    assert _jaccard(one, two) == pytest.approx((2 / 5 + 1) / 2)

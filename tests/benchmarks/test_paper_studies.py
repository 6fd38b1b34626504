"""The studies of `benchmarks/paper`, against computation by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import expit

from benchmarks.paper.conformance import conformance, observations
from benchmarks.paper.design import Design, at_temperature
from benchmarks.paper.studies import break_even, families, of_runs, replay, sweep, tie_scores
from lm_eval_ccat import ScoreTable, calibrate
from lm_eval_ccat.errors import ScoreTableError
from lm_eval_ccat.simulation import Strategy
from lm_eval_ccat.simulation.folds import drawn_prices
from lm_eval_ccat.simulation.judging import Replay

DESIGN = Design(methods=("paper",), folds=3, seeds=1, items_per_model=15, levels=(5.0, 15.0))


def made(n_models=12, n_items=120, seed=0, spread=1.2):
    rng = np.random.default_rng(seed)
    eta = np.linspace(-spread, spread, n_models)[:, None] + rng.normal(size=n_items)[None]
    scores = np.clip(expit(eta) + 0.1 * rng.normal(size=eta.shape), 0, 1)
    return ScoreTable.from_arrays(scores, models=[f"m{n:02d}" for n in range(n_models)])


def outcome(**changes):
    known = dict(
        method="x", fold=0, seed=0, holdout=("a", "b"), items_per_model=1.0, tau=None, items=0,
        cost=0.0, budget=None, pairs=6, true_ties=0, ties=0, ties_right=0, decided=6,
        decided_right=6, errors=np.zeros(2), standard_errors=None, seconds=0.0, items_of={},
    )  # fmt: skip
    return Replay(**{**known, **changes})


def test_break_even_is_where_the_totals_cross():
    for calibration, full, adaptive in [(227.47, 3.46, 0.044), (1.51, 0.022, 0.0006)]:
        found = break_even(calibration, full, adaptive)
        assert calibration + found * adaptive == pytest.approx(found * full)
    assert break_even(10, 1, 1) is None


def test_ties_of_a_run_as_the_paper_counts_them():
    assert tie_scores(outcome(ties=3, true_ties=2, ties_right=1)) == pytest.approx(
        (1 / 3, 1 / 2, 0.4)
    )
    assert tie_scores(outcome(ties=0, true_ties=0)) == (1.0, 1.0, 1.0)
    assert tie_scores(outcome(ties=2, true_ties=0, ties_right=0)) == (0.0, 1.0, 0.0)
    assert tie_scores(outcome(ties=0, true_ties=1)) == (0.0, 0.0, 0.0)
    runs = [outcome(tau=1.0, decided=2, decided_right=1), outcome(tau=0.0, decided=0, ties=6)]
    found = of_runs(runs)
    assert (found["tau"], found["tau_sd"], found["confident_accuracy"]) == (0.5, 0.5, 0.5)
    assert found["tied"] == 0.5
    blind = of_runs([outcome(ties=None, decided=None)])
    assert blind["tied"] is None and blind["confident_accuracy"] is None


def test_one_temperature_of_each_model():
    table = ScoreTable.from_arrays(
        np.arange(10).reshape(5, 2) / 10,
        models=["a", "a", "b", "c", "c"],
        configs=["temperature=0.0", "temperature=0.7", "", "t=1", "t=0"],
    )
    cold = at_temperature(table, 0.0)
    assert cold.row_model == ("a", "b", "c")
    assert cold.raw[:, 0].tolist() == [0.0, 0.4, 0.8]
    with pytest.raises(ScoreTableError, match=r"model 'a' has 0 configs at temperature 0\.4"):
        at_temperature(table, 0.4)


@pytest.mark.long
def test_conformance_of_data_from_the_model_and_of_other_data():
    rng = np.random.default_rng(0)
    mu, k = rng.uniform(0.02, 0.98, 200_000), np.full(200_000, 0.1)
    found = conformance(mu, mu + rng.normal(0, np.sqrt(k * mu * (1 - mu))), k)
    # What is expected differs within a bin: that counts as noise in one definition only.
    assert found["r2_residual"] > 0.98
    assert found["r2"] < found["r2_residual"]
    assert [b["mu"] for b in found["bins"]] == sorted(b["mu"] for b in found["bins"])
    assert sum(b["n"] for b in found["bins"]) == 200_000
    assert all(b["predicted"] == pytest.approx(0.1 * b["mu"] * (1 - b["mu"]), rel=0.1)
               for b in found["bins"][1:-1])  # fmt: skip
    fine = conformance(mu, mu + rng.normal(0, np.sqrt(k * mu * (1 - mu))), k, bins=200)
    assert fine["r2"] > 0.95
    # A variance that grows to the ends, where the model's shrinks.
    assert conformance(mu, mu + rng.normal(0, np.abs(mu - 0.5)), k)["r2_residual"] < 0


@pytest.mark.long
def test_residuals_give_back_the_noise_of_the_bank():
    table = made()
    bank = calibrate(table, method="paper")
    mu, y, noise = observations(table, bank)
    squares = (y - mu) ** 2
    # The definition of k: sum of squares over sum of mu (1 - mu), over the items kept.
    assert squares.sum() / (mu * (1 - mu)).sum() == pytest.approx(bank.constants["k"])
    assert len(mu) == 12 * bank.kept.sum() and set(noise) == {bank.constants["k"]}


@pytest.mark.slow
def test_fixed_length_is_as_long_as_the_longest_adaptive_test():
    table = made(spread=0.4)
    found = replay(table, DESIGN, None)
    fixed_length = found["fixed_length"]["paper"]
    adaptive, fixed = DESIGN.replay(table, [DESIGN.method("paper")], None), []
    for a, stage in zip(adaptive, DESIGN.stages(table, ["paper"], None)):
        rank = {"looks": "one", "max_items": max(map(len, a.items_of.values()))}
        f = stage.run(Strategy("long", "fixed", "paper", rank=rank), 0, None, None)
        fixed.append(f)
        assert {len(items) for items in f.items_of.values()} == {max(map(len, a.items_of.values()))}
        prices = drawn_prices(table.models, 0)
        assert f.cost == pytest.approx(
            sum(prices[m] * len(items) for m, items in f.items_of.items())
        )
    savings = [1 - a.items / f.items for a, f in zip(adaptive, fixed)]
    assert fixed_length["item savings"] == pytest.approx(np.mean(savings))
    assert 0 < fixed_length["cost savings"] < 1
    assert fixed_length["tau fixed"] == pytest.approx(np.mean([o.tau for o in fixed]))
    assert found["summary"]["paper"]["tau"] == pytest.approx(np.mean([o.tau for o in adaptive]))


@pytest.mark.long
def test_three_models_of_three_families_that_calibration_has_not_seen(monkeypatch):
    of = {
        "low": ["m00", "m01", "m02"], "mid": ["m05", "m06", "absent"], "high": ["m11"],
        "top": ["m09", "m10"],
    }  # fmt: skip
    seen = []

    def watch(self, table, methods, units, sets):
        seen.append((table.models, sets))
        return replay_(self, table, methods, units, sets=sets)

    replay_ = Design.replay
    monkeypatch.setattr(Design, "replay", watch)
    found = families(made(), replace(DESIGN, families=of), None)
    assert len(found["sets"]) == 3 == len({tuple(s["families"]) for s in found["sets"]})
    for (models, [held]), one in zip(seen, found["sets"]):
        assert one["models"] == held and len(held) == 3
        for family, model in zip(one["families"], held):
            assert model in of[family]
            assert not set(of[family]) & set(models) - {model}
        assert one["calibration"] == len(models) - 3
    assert found["summary"]["paper"]["runs"] == 3 == found["summary"]["static"]["runs"]
    assert families(made(), DESIGN, None) == {}
    # Four models must be left to calibrate on.
    two = {"low": [f"m{n:02d}" for n in range(7)], "a": ["m07"], "b": ["m08", "m09"]}
    assert families(made(), replace(DESIGN, families=two), None) == {}


@pytest.mark.long
def test_the_sweep_does_not_stop_early():
    table = made(spread=3.0)  # so far apart that ten items decide
    found = sweep(table, replace(DESIGN, folds=1, levels=(5.0, 15.0, 40.0)), None)
    paper, random = found["paper"], found["random"]
    assert [s["budget"] for s in paper] == [5, 15, 40]
    assert [s["budget"] for s in random] == [5, 15, 40, 80, 120]
    for s in paper:
        assert s["asked"] / s["holdout"] > 0.8 * s["budget"]
    assert paper[0]["asked"] / 4 == pytest.approx(5, abs=1)  # no warm-up of ten
    assert random[-1]["tau"] == pytest.approx(1.0)


SETS = [("m00", "m03", "m05", "m08")]


@pytest.mark.long
def test_held_out_models_are_tested_and_judged_at_one_temperature():
    """The warmer temperature reverses the order; calibration sees both."""
    cold, hot = made(9, 80), made(9, 80, spread=-0.4)
    configs = ["t=0"] * 9 + ["t=1"] * 9
    both = ScoreTable.from_arrays(np.vstack([cold.raw, hot.raw]), cold.models * 2, configs=configs)
    [at_zero] = DESIGN.replay(both, ["paper"], None, sets=SETS)
    [plain] = replace(DESIGN, temperature=None).replay(both, ["paper"], None, sets=SETS)
    assert at_zero.tau == 1.0 and not np.allclose(at_zero.errors, plain.errors)
    [stage] = DESIGN.stages(both, ["paper"], None, sets=SETS)
    np.testing.assert_array_equal(stage.scores, cold.select(SETS[0]).scores)
    assert stage.banks["paper", "[]"][""].provenance["rows"] == 10


@pytest.mark.long
def test_the_range_of_the_held_out_models():
    scores = made(9, 80).scores.copy()
    scores[[0, 3, 5, 8]] = held = 0.3 + 0.4 * scores[[0, 3, 5, 8]]
    table = ScoreTable.from_arrays(scores, [f"m{n:02d}" for n in range(9)])
    told = {"looks": "one", "score_range": (held.min(), held.max())}
    same = Strategy("same", "ranker", "paper", {"rescale": "none"}, told)
    peek = replace(DESIGN, rescale="holdout")
    [a] = peek.replay(table, [peek.method("paper")], None, sets=SETS)
    [b] = DESIGN.replay(table, [same], None, sets=SETS)
    [c] = DESIGN.replay(table, [DESIGN.method("paper")], None, sets=SETS)
    assert a.items_of == b.items_of and (a.errors == b.errors).all()
    assert not (a.errors == c.errors).all()


def test_scores_scaled_by_item_make_the_order_and_the_truth():
    """Ends of each item are those of the calibration models; what lies beyond is cut."""
    rng = np.random.default_rng(2)
    scores = rng.random((9, 40)) * rng.uniform(0.02, 1, 40)
    held, rest = scores[:4], scores[4:]
    low, high = rest.min(axis=0), rest.max(axis=0)
    scaled = np.clip((held - low) / (high - low), 0.0, 1.0).mean(axis=1)
    assert (np.argsort(scaled) != np.argsort(held.mean(axis=1))).any()
    table = ScoreTable.from_arrays(scores, [f"m{n}" for n in range(9)])
    design = replace(DESIGN, item_scaling=True)
    [outcome] = design.replay(table, ["common"], None, levels=[400.0], sets=[table.models[:4]])
    assert outcome.order == tuple(table.models[i] for i in np.argsort(-scaled))
    assert outcome.tau == 1.0 and outcome.errors == pytest.approx(np.zeros(4), abs=1e-12)

"""The pieces of a replay, each against independent computation: truth, baselines, protocol."""

from dataclasses import replace
from itertools import combinations
from math import comb

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom, kendalltau, norm, t, ttest_rel

from lm_eval_ccat import ScoreTable, calibrate
from lm_eval_ccat.bank.bank import family_of
from lm_eval_ccat.errors import UsageError
from lm_eval_ccat.metrics import Scale
from lm_eval_ccat.ranker.arguments import item_units
from lm_eval_ccat.simulation import judging
from lm_eval_ccat.simulation.audit import audit
from lm_eval_ccat.simulation.folds import (
    Benchmark,
    drawn_prices,
    hold_outs,
    lengths_to_replay,
    mean_of_asked,
    prices_by_seed,
)
from lm_eval_ccat.simulation.judging import (
    Claim,
    Truth,
    bootstrap_intervals,
    items_for_tau,
    kendall_tau,
    quantiles,
    replay_of,
    summarise,
    true_ties,
)
from lm_eval_ccat.simulation.strategies import (
    TaskScores,
    administer,
    discriminating_order,
    draws_for_all,
    paired,
    random_draws,
)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=2, max_size=9))
def test_tau_is_that_of_scipy(pairs):
    a, b = np.array(pairs).T
    wanted = kendalltau(a, b)[0]
    assert kendall_tau(a, b) == pytest.approx(wanted, abs=1e-12, nan_ok=True)


@pytest.mark.long
def test_intervals_agree_with_resampling_item_by_item():
    rng = np.random.default_rng(5)
    scores = rng.beta(2, 3, size=(3, 80))
    scores[1, :30] = np.nan
    low, high = bootstrap_intervals(scores, resamples=2000)
    for m in range(3):
        own = scores[m]
        means = [np.nanmean(own[rng.integers(0, 80, 80)]) for _ in range(2000)]
        wanted = np.percentile(means, [2.5, 97.5])
        np.testing.assert_allclose([low[m], high[m]], wanted, atol=0.006)


def test_intervals_do_not_depend_on_how_the_resamples_are_cut(monkeypatch):
    scores = np.random.default_rng(0).random((4, 50))
    once = bootstrap_intervals(scores)
    monkeypatch.setattr(judging, "_BLOCK_CELLS", 500)
    np.testing.assert_allclose(bootstrap_intervals(scores), once, atol=1e-12)


def test_means_are_of_what_was_seen_and_of_all_scores_where_nothing_was():
    scores = np.array([[0.2, np.nan, 0.4], [1.0, 0.5, 0.0]])
    assert mean_of_asked(scores, np.isfinite(scores)) == pytest.approx([0.3, 0.5])
    first = np.array([[True, False, True], [False, False, False]])
    assert mean_of_asked(scores, first) == pytest.approx([0.3, 0.3])


def test_overlapping_intervals_are_ties():
    low, high = np.array([0.1, 0.3, 0.6]), np.array([0.3, 0.5, 0.7])
    assert true_ties(low, high).tolist() == [[1, 1, 0], [1, 1, 0], [0, 0, 1]]


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10_000), st.floats(0.5, 60))
def test_random_spends_up_to_the_first_draw_that_does_not_fit(seed, budget):
    rng = np.random.default_rng(seed)
    scores = rng.random((3, 12))
    scores[rng.random(scores.shape) < 0.2] = np.nan
    prices, units = rng.uniform(0.1, 3, 3), rng.uniform(0.5, 2, 12)
    given_, spent = administer(
        random_draws(scores, np.random.default_rng(seed)), prices, units, budget
    )
    assert not given_[~np.isfinite(scores)].any()
    assert spent == pytest.approx((given_ * prices[:, None] * units).sum())
    assert spent <= budget * (1 + 1e-6)
    left = np.isfinite(scores) & ~given_
    if left.any():  # the dearest does not fit any more
        assert spent + (prices[:, None] * units)[left].max() > budget


def test_a_dear_model_that_is_drawn_ends_the_random_baseline():
    """It is drawn first in half of all runs: one item of the cheap model is asked on average."""
    prices, budget = np.array([1.0, 100.0]), 50.0
    asked = [
        administer(
            random_draws(np.ones((2, 40)), np.random.default_rng(s)), prices, np.ones(40), budget
        )[0]
        for s in range(200)
    ]
    assert np.mean([a.sum() for a in asked]) == pytest.approx(1.0, abs=0.4)


def test_common_items_are_the_same_for_all_and_in_order():
    scores = np.array([[0.1, 0.2, 0.3, 0.4], [0.5, np.nan, 0.7, 0.8]])
    given_, spent = administer(
        draws_for_all(scores, [2, 1, 3, 0]), np.array([1.0, 2.0]), np.ones(4), 7.5
    )
    assert given_.tolist() == [[False, True, True, True], [False, False, True, True]]
    assert spent == 3 + 1 + 3


def test_static_order_is_by_corrected_item_total_correlation():
    rng = np.random.default_rng(2)
    scores = rng.random((9, 15)) + np.linspace(0, 2, 9)[:, None] * rng.random(15)
    scores[3, 4] = scores[0, 7] = np.nan
    scores[:, 11] = 0.5  # constant: no correlation
    scores[2:, 13] = np.nan  # of two models, which always agree or disagree
    wanted = np.full(15, -np.inf)
    for i in set(range(15)) - {11, 13}:
        there = np.isfinite(scores[:, i])
        rest = np.nanmean(np.delete(scores, i, axis=1), axis=1)
        wanted[i] = np.corrcoef(scores[there, i], rest[there])[0, 1]
    assert discriminating_order(scores).tolist() == np.argsort(-wanted).tolist()
    of_one_item = np.where(np.arange(15) == wanted.argmax(), 5.0, np.nan)
    found = discriminating_order(np.vstack([scores, of_one_item]))
    assert found.tolist() == np.argsort(-wanted).tolist()


def only(y, items):
    known = np.full(y.shape, np.nan)
    known[:, items] = y[:, items]
    return known


def test_paired_is_the_paired_t_test_with_the_finite_population_factor():
    rng = np.random.default_rng(0)
    y = np.clip(np.linspace(0.3, 0.7, 4)[:, None] + rng.normal(0, 0.2, (4, 200)), 0, 1)
    items = rng.choice(200, 50, replace=False).tolist()
    claim = paired([TaskScores(1.0, only(y, items), None)], 0.95)
    left = np.sqrt(1 - 50 / 200)
    for a in range(4):
        for b in range(a):
            test = ttest_rel(y[a, items], y[b, items])
            mean = y[a, items].mean() - y[b, items].mean()
            assert np.sqrt(claim.variance[a, b]) == pytest.approx(mean / test.statistic * left)
            assert claim.df[a, b] == 49
            p = 2.0 * t.sf(abs(test.statistic) / left, 49)
            for level, decided in ((1.1 * p, np.sign(mean)), (0.9 * p, 0)):
                if 1e-9 < level < 1.0:
                    ahead = paired([TaskScores(1.0, only(y, items), None)], 1.0 - level).ahead
                    assert ahead[a, b] == decided == -ahead[b, a]


def test_equal_values_that_binary_numbers_round_prove_nothing():
    y = np.full((2, 100), np.nan)
    y[0, :3], y[1, :3] = 0.4, 0.1
    claim = paired([TaskScores(1.0, y, None)], 0.95)
    # Half an item of variance 1 among three, of a hundred.
    assert claim.standard_errors == pytest.approx([np.sqrt(0.5 / 3 * 0.97 / 3)] * 2)
    assert not claim.ahead.any()


def test_tasks_are_strata_with_satterthwaites_degrees_of_freedom():
    rng, tasks, parts = np.random.default_rng(3), [], []
    for weight, size, n in ((0.7, 90, 15), (0.3, 60, 20)):
        y, items = rng.random((2, size)), rng.choice(size, n, replace=False)
        gap = y[0, items] - y[1, items]
        tasks.append(TaskScores(weight, only(y, items), None))
        parts.append((weight * gap.mean(), weight**2 * gap.var(ddof=1) * (1 / n - 1 / size), n))
    gaps, v, n = np.transpose(parts)
    claim = paired(tasks, 0.95)
    assert claim.estimates[0] - claim.estimates[1] == pytest.approx(gaps.sum())
    assert claim.variance[0, 1] == pytest.approx(v.sum())
    assert claim.df[0, 1] == pytest.approx(v.sum() ** 2 / (v**2 / (n - 1)).sum())


@pytest.fixture(scope="module")
def outside():
    """Four models and a bank of eight others."""
    rng = np.random.default_rng(2)
    ease, skill = rng.normal(size=400), np.linspace(-1, 1, 12)[:, None]
    y = np.clip(1 / (1 + np.exp(-skill - 2 * ease)) + rng.normal(0, 0.05, (12, 400)), 0, 1)
    return y[:4], calibrate(ScoreTable.from_arrays(y[4:], models=[f"m{k}" for k in range(8)]))


def test_seen_in_full_both_are_exact(outside):
    y, bank = outside
    for predictions in (None, bank):
        claim = paired([TaskScores(1.0, y, predictions)], 0.95)
        np.testing.assert_allclose(claim.estimates, y.mean(axis=1), atol=1e-12)
        assert (claim.ahead == np.sign(np.subtract.outer(*[y.mean(axis=1)] * 2))).all()


def test_predictions_take_out_what_they_explain(outside):
    y, bank = outside
    known = only(y, np.random.default_rng(2).choice(400, 20, replace=False))
    plain = paired([TaskScores(1.0, known, None)], 0.95)
    helped = paired([TaskScores(1.0, known, bank)], 0.95)
    assert (helped.standard_errors < 0.5 * plain.standard_errors).all()
    truth = y.mean(axis=1)
    assert np.abs(helped.estimates - truth).max() < np.abs(plain.estimates - truth).max()


@given(st.integers(6, 30), st.integers(2, 4), st.integers(1, 25), st.integers(0, 3))
def test_sets_come_from_successive_partitions_and_are_distinct(n_models, size, folds, seed):
    models = [f"m{n}" for n in range(n_models)]

    def drawn(folds):
        found = hold_outs("random", models, np.zeros(n_models), size=size, folds=folds, seed=seed)
        assert all(set(names) | set(rest) == set(models) for names, rest in found)
        return [names for names, _ in found]

    sets = drawn(folds)
    assert all(len(set(s)) == size for s in sets)
    assert len({frozenset(s) for s in sets}) == len(sets) == min(folds, comb(n_models, size))
    first = [m for s in sets[: n_models // size] for m in s]
    assert len(first) == len(set(first))  # within a partition nobody is held out twice
    assert sets == drawn(folds + 3)[:folds]


def test_at_the_frontier_only_models_below_the_best_third_calibrate():
    models, means = [f"m{n}" for n in range(12)], np.linspace(0.2, 0.9, 12)
    found = hold_outs("frontier", models, means, size=3, folds=20, seed=0)
    assert {frozenset(names) for names, _ in found} == {
        frozenset(c) for c in combinations(models[8:], 3)
    }
    assert all(below == tuple(models[:8]) for _, below in found)


def test_families_leave_together():
    models = ["a-1", "a-2", "b-1", "b-2", "b-3", "c", "d", "Org/e-1", "e2"]
    found = hold_outs("family", models, np.zeros(9), size=3, folds=20, seed=0)
    assert len({frozenset(names) for names, _ in found}) == len(found) > 3
    for names, rest in found:
        assert len(names) == 3 and not {family_of(m) for m in names} & {family_of(m) for m in rest}
    with pytest.raises(UsageError, match="families"):
        hold_outs("family", ["a", "b", "c", "d", "e"], np.zeros(5), size=2, folds=3, seed=0)
    with pytest.raises(UsageError, match="`kind` must be one of"):
        hold_outs("best", models, np.zeros(9), size=3, folds=3, seed=0)


def test_prices_are_log_uniform_and_seeded():
    assert prices_by_seed({"a": 1, "b": 0.5, "c": 2}, ["a", "b"], 2) == [{"a": 1.0, "b": 0.5}] * 2
    models = [f"m{n}" for n in range(4000)]
    drawn = np.array(list(drawn_prices(models, 3).values()))
    assert drawn.min() > 0.1 and drawn.max() < 3.2
    quarters = np.quantile(np.log(drawn), [0.25, 0.5, 0.75])
    wanted = np.log(0.1) + np.log(32) * np.array([0.25, 0.5, 0.75])
    np.testing.assert_allclose(quarters, wanted, atol=0.1)
    assert drawn_prices(models, 3) == drawn_prices(models, 3) != drawn_prices(models, 4)


@pytest.mark.parametrize(
    ("arguments", "wanted"),
    [
        ((None, 20, 100, "budget"), (10, 20, 40, 80)),
        ((None, 40, 100, "budget"), (20, 40, 80)),
        ((None, 20, 150, "fixed"), (10, 20, 50, 100)),
        ((None, 6, 100, "budget", 2), (6, 12, 24)),
        (((), 20, 100, "budget"), (20,)),
        (((5, 300), 20, 100, "fixed"), (5, 20)),
        (((5,), None, 100, "budget"), (None,)),
    ],
)
def test_levels_of_spending(arguments, wanted):
    assert lengths_to_replay(*arguments) == wanted


def test_sizes_of_items_by_id_and_by_array():
    items = [2, 5, 9]
    assert item_units(items, None).tolist() == [1, 1, 1]
    assert item_units(items, {9: 3, 2: 1.5, 5: 2}).tolist() == [1.5, 2, 3]
    assert item_units(items, [4, 5, 6]).tolist() == [4, 5, 6]
    with pytest.raises(UsageError, match=r"2 of 3 items have no positive units \(doc_id 2\)"):
        item_units(items, {9: 30, 2: 0})
    with pytest.raises(UsageError, match="2 values for 3 items"):
        item_units(items, [1, 2])


SAID = {"estimate": 0.5, "standard_error": 0.1, "interval": [0.3, 0.7], "n_items": 5}


def test_claims_are_held_against_full_results_and_a_model_set_aside_has_no_place():
    scores = np.tile([[0.9], [0.2], [0.5], [0.6]], (1, 20)) + np.linspace(0, 0.05, 20)
    table = ScoreTable.from_arrays(scores, models=["aside", "c", "b", "d"], metric="my")
    ranking = {
        "terms": [{"task": "t", "metric": "my", "filter": None, "weight": 1.0}],
        "models": dict.fromkeys(table.models, SAID), "order": ["c", "d", "b"],
        "pairwise": [
            {"a": "c", "b": "d", "p": 0.2, "decision": "decided"},
            {"a": "c", "b": "b", "p": 0.8, "decision": "decided"},
            {"a": "d", "b": "b", "p": 0.6, "decision": "open"},
        ],
        "scale": Scale().to_dict(), "confidence": 0.95, "items_of_benchmark": 20,
    }  # fmt: skip
    judged = audit(ranking, table).to_dict()
    assert judged["true_order"] == ["d", "b", "c"]
    assert judged["tau"] == pytest.approx(kendalltau([3, 2, 1], [0.2, 0.6, 0.5])[0])
    assert {m: one["held"] for m, one in judged["models"].items()} == {
        "aside": False, "c": False, "b": True, "d": True,
    }  # fmt: skip
    assert [(one["claim"], one["held"]) for one in judged["pairs"]] == [
        ("d better", True), ("c better", False), ("tied", None),
    ]  # fmt: skip
    assert judged["decided"] == {"held": 1, "of": 2}
    assert judged["ties"] == {"truly_tied": 0, "of": 1}
    assert judged["intervals"]["chance"] == pytest.approx(binom.sf(1, 4, 0.05))
    known = {**ranking["models"], "d": {**SAID, "n_items": 0}}  # its results are no claim
    judged = audit({**ranking, "models": known}, table).to_dict()
    assert judged["intervals"]["chance"] == pytest.approx(binom.sf(1, 3, 0.05))
    # The harness may report a metric for none of a model's documents.
    unscored = ScoreTable.from_arrays(
        np.where([[False], [True], [False], [False]], np.nan, scores), table.models, metric="my"
    )
    judged = audit(ranking, unscored).to_dict()
    assert "c" not in judged["models"] and judged["order"] == ["d", "b"]
    assert judged["warnings"] == ["not compared, for lack of full results: c"]
    with pytest.raises(UsageError, match="scales of my: the run 0 to 1, lower is better"):
        audit({**ranking, "scale": Scale(higher_is_better=False).to_dict()}, table)
    for names, refusal in (
        ({"c": "b"}, "two models of the run are called 'b'"),
        ({"C": "c"}, "the run has no model 'C'; it has"),
    ):
        with pytest.raises(UsageError, match=refusal):
            audit(ranking, table, names)
    unasked = {**ranking, "models": {name: {**SAID, "n_items": 0} for name in table.models}}
    with pytest.raises(UsageError, match="the run asked no model"):
        audit(unasked, table)


def test_an_interval_that_holds_is_nowhere_said_to_fail():
    """It holds at every look, so that it may be wider than two standard errors: here z is -3."""
    table = ScoreTable.from_arrays(np.full((1, 20), 0.8), models=["a"], metric="my")
    ranking = {
        "terms": [{"task": "t", "metric": "my", "filter": None, "weight": 1.0}],
        "models": {"a": {**SAID, "interval": [0.1, 0.9]}}, "order": ["a"], "pairwise": [],
        "scale": Scale().to_dict(), "confidence": 0.95, "items_of_benchmark": 20,
    }  # fmt: skip
    text = audit(ranking, table).to_text()
    assert "-3.00  yes" in text and "1 of 1 hold" in text and "fail" not in text


def test_pairs_are_covered_by_students_quantiles():
    wanted = [t.ppf(0.95, 2), norm.ppf(0.95)]
    assert quantiles(0.9, np.array([2.0, np.inf])) == pytest.approx(wanted)


@pytest.mark.parametrize(
    ("taus", "wanted", "items"),
    [
        ({10: 0.7, 40: 0.9}, 0.8, 20),
        ({10: 0.7, 40: 0.8}, 0.9, None),
        ({10: 0.95, 40: 0.97}, 0.9, 10),
        # A level that reached it by luck does not count when a higher one falls below.
        ({10: 0.92, 20: 0.85, 40: 0.95}, 0.9, 20 * 2**0.5),
        # Nor where a smaller one falls below as well.
        ({10: 0.5, 20: 0.8, 40: 0.6, 80: 0.9}, 0.7, 40 * 2 ** (1 / 3)),
    ],
)
def test_items_for_a_wanted_tau(taus, wanted, items):
    points = [{"items_per_model": n, "tau": tau} for n, tau in taus.items()]
    assert items_for_tau(points, wanted) == (items and pytest.approx(items))


def test_a_level_at_which_all_true_means_are_equal_is_named_as_that():
    point = {"items_per_model": 10, "tau": None, "tau_se": None, "tied_share": None}
    [_, course] = judging.advice({"random": [point]}, 100, 0.9, 0.95)
    assert course == "random: no tau with 10 items per model"


def test_models_without_a_score_on_a_task_are_left_out_of_all():
    first = ScoreTable.from_arrays([[0.1, 0.5], [0.2, 0.4], [0.9, 0.7]], "abc")
    second = ScoreTable.from_arrays([[0.3, 0.6], [np.nan, np.nan], [0.8, 0.1]], "abc")
    benchmark = Benchmark.of({"t": first, "u": second})
    left_out = ("no score of b on u; left out",)
    assert benchmark.models == ("a", "c") and benchmark.warnings == left_out
    assert all(table.models == ("a", "c") for table in benchmark.tables.values())
    # A model that the other table does not name is as one without scores there; rows agree.
    absent = Benchmark.of({"t": first, "u": second.select(["c", "a"])})
    assert absent.models == ("a", "c") and absent.warnings == left_out
    assert [table.models for table in absent.tables.values()] == [("a", "c")] * 2
    with pytest.raises(UsageError, match="no model has scores of every task"):
        Benchmark.of({"t": first.select("a"), "u": second.select("c")})


def test_truths_of_several_tasks_weigh_as_their_means_do():
    """Signed scores resample as the weighted mean does: their mean is the truth."""
    rng = np.random.default_rng(0)
    tables = {
        name: ScoreTable.from_arrays(scale.restore(rng.random((3, n))), "xyz", scale=scale)
        for name, n, scale in (("a", 5, Scale(0, 10, False)), ("b", 20, Scale()))
    }
    one = Benchmark.of(tables["a"])
    for found in (one.signed.mean(axis=1), Truth.of(one).signed_means):
        np.testing.assert_allclose(found, -tables["a"].raw.mean(axis=1))
    both = Benchmark.of(tables, {"a": 3.0, "b": 1.0})
    truth = sum(w * x.scores.mean(axis=1) for w, x in zip((0.75, 0.25), tables.values()))
    for found in (both.signed.mean(axis=1), Truth.of(both).means, Truth.of(both).signed_means):
        np.testing.assert_allclose(found, truth)


def test_items_of_tasks_take_turns_by_weight():
    tables = {t: ScoreTable.from_arrays(np.eye(3, n), "xyz") for t, n in (("a", 8), ("b", 8))}
    both = Benchmark.of(tables, {"a": 3.0, "b": 1.0})
    order = both.interleaved([np.arange(8), np.arange(8, 16)])
    assert (order[:8] < 8).sum() == 6 and sorted(order) == list(range(16))


def test_pairs_are_pooled_over_runs_and_taus_over_folds():
    truth = Truth(
        signed_means=np.array([3.0, 2.0, 1.0]),
        means=np.array([0.3, 0.2, 0.1]),
        tied=np.array([[1, 1, 0], [1, 1, 0], [0, 0, 1]], dtype=bool),
    )
    runs = []
    for fold, estimates, error, ahead in (
        (0, [0.3, 0.2, 0.1], 0.0, [0, 1, 1]),  # of the pairs ab, ac, bc
        (0, [0.1, 0.2, 0.3], 0.1, [0, 0, -1]),
        (1, [0.3, 0.2, 0.1], 0.1, [0, 1, 0]),
    ):
        signs = np.zeros((3, 3), dtype=np.int8)
        signs[np.triu_indices(3, 1)] = ahead
        claim = Claim(np.array(estimates), standard_errors=np.full(3, error), ahead=signs)
        run = dict(method="x", fold=fold, seed=0, holdout=tuple("abc"), items_per_model=1.0)
        runs.append(replay_of(truth, 0.0, claim, cost=2.0, budget=None, items=6, **run))
    found = summarise(runs, n_items=10, confidence=0.95)["x"]
    wanted = {
        "runs": 3, "tau": 0.5, "tau_se": 0.5, "items": 6, "items_per_model": 2,
        "share_of_items": 0.2, "cost": 2, "ties": 5, "true_ties": 3, "tied_share": 5 / 9,
        "tie_precision": 3 / 5, "tie_recall": 1, "tie_f1": 6 / 8, "confident_pairs": 4,
        "confident_accuracy": 3 / 4, "runs_with_wrong_pair": 1 / 3, "z_rms": (8 / 9) ** 0.5,
        "rmse": (0.08 / 9) ** 0.5, "bias": 0,
    }  # fmt: skip
    assert {key: found[key] for key in wanted} == pytest.approx(wanted)
    # Of a method that decides nothing, no tie is right or wrong; what ties there are is known.
    silent = replay_of(truth, 0.0, Claim(truth.means), cost=2.0, budget=None, items=6, **run)
    found = summarise([silent], n_items=10, confidence=0.95)["x"]
    wanted = {"ties": None, "true_ties": 1, "tied_share": None, "tie_recall": None,
              "confident_pairs": None, "runs_with_wrong_pair": None}  # fmt: skip
    assert {key: found[key] for key in wanted} == wanted
    # Beside the paper's in the same folds, of which two pairs of three are in order: tau 1/3.
    paper = [replace(runs[place], method="paper", tau=1 / 3) for place in (0, 2)]
    found = summarise([*runs, *paper], n_items=10, confidence=0.95)["x"]
    assert found["tau_minus_paper"] == pytest.approx(0.5 - 1 / 3)

"""`simulate` as a whole: the protocol's promises, its records and its sums."""

from __future__ import annotations

import json

import numpy as np
import pytest
from scipy import stats

from lm_eval_ccat import Ranker, ScoreTable, calibrate, simulate
from lm_eval_ccat.errors import UsageError
from lm_eval_ccat.metrics import Scale
from lm_eval_ccat.simulation import Method
from lm_eval_ccat.simulation.judging import items_for_tau, quantiles

BASELINES = ["random", "common", "limit", "static"]
KEYS = [
    "method", "fold", "seed", "holdout", "tau", "items", "cost", "budget", "ties", "true_ties",
    "tie_precision", "tie_recall", "tie_f1", "confident_pairs", "confident_accuracy", "z_rms",
    "coverage", "seconds",
]  # fmt: skip


def made(n_models=14, n_items=150, seed=0, noise=0.15, scale=None):
    rng = np.random.default_rng(seed)
    eta = np.linspace(-1.2, 1.2, n_models)[:, None] + rng.normal(size=n_items)[None]
    scores = np.clip(1 / (1 + np.exp(-eta)) + noise * rng.normal(size=eta.shape), 0, 1)
    scale = scale or Scale()
    names = [f"m{n:02d}" for n in rng.permutation(n_models)]
    return ScoreTable.from_arrays(scale.restore(scores), models=names, scale=scale)


@pytest.fixture(scope="module")
def found():
    return simulate(
        made(), ["paper", *BASELINES, "fixed"], folds=3, seeds=2, levels=[10, 40], processes=1
    )


def test_every_method_runs_on_every_fold_and_seed(found):
    ran = {(r["method"], r["fold"], r["seed"]) for r in found.runs}
    assert len(found.runs) == len(ran) == 6 * 3 * 2
    for run in found.runs:
        assert [key for key in run if "rmse" not in key and "differences" not in key] == KEYS
        assert len(run["holdout"]) == 4 and -1 <= run["tau"] <= 1
    json.dumps(found.to_dict(), allow_nan=False)


def test_all_methods_of_a_fold_spend_what_the_papers_spent(found):
    for fold in range(3):
        own = [r for r in found.runs if r["fold"] == fold]
        spent = np.mean([r["cost"] for r in own if r["method"] == "paper"])
        for run in own:
            if run["method"] != "paper":
                assert run["budget"] == pytest.approx(spent)
                assert run["cost"] <= spent * (1 + 1e-6)


def test_the_papers_runs_are_those_of_the_ranker(found):
    """The record of a run, recomputed by hand from the ranker and the table."""
    table = made()
    run = next(r for r in found.runs if r["method"] == "paper" and r["fold"] == 2)
    held = table.select(run["holdout"])
    from lm_eval_ccat.simulation.folds import drawn_prices

    prices = drawn_prices(table.models, 0)
    prices = {m: prices[m] for m in run["holdout"]}
    bank = calibrate(table.without(run["holdout"]), method="paper")
    ranker = Ranker(bank, models=prices, budget=20 * sum(prices.values()))
    while not ranker.done:
        for model, doc_id in ranker.ask():
            ranker.tell(model, doc_id, held.select([model]).scores[0, doc_id])
    ranking = ranker.result()
    assert run["items"] == sum(map(len, ranking.items.values()))
    assert run["cost"] == pytest.approx(sum(ranking.cost.values()))
    truth = dict(zip(held.models, held.scores.mean(axis=1)))
    agree = undecided = right = 0
    for i, a in enumerate(ranking.order):
        for b in ranking.order[i + 1 :]:
            agree += 1 if truth[a] > truth[b] else -1
            if ranking.decisions[a, b] != "decided":
                undecided += 1
            else:
                right += (ranking.pairwise[a, b] > 0.5) == (truth[a] > truth[b])
    assert run["tau"] == pytest.approx(agree / 6)
    assert run["ties"] == undecided and run["confident_pairs"] == 6 - undecided
    if undecided < 6:
        assert run["confident_accuracy"] == pytest.approx(right / (6 - undecided))
    z = [(ranking.estimates[m] - truth[m]) / ranking.standard_errors[m] for m in held.models]
    assert run["z_rms"] == pytest.approx(np.sqrt(np.mean(np.square(z))))
    inside = [lo <= truth[m] <= hi for m in held.models for lo, hi in [ranking.interval(m)]]
    assert run["coverage"] == pytest.approx(np.mean(inside))


def test_held_out_models_do_not_touch_calibration(monkeypatch):
    from lm_eval_ccat.simulation import stage

    seen = []

    def recording(table, **options):
        bank = calibrate(table, **options)
        seen.append((set(table.models), bank.sha256))
        return bank

    monkeypatch.setattr(stage, "calibrate", recording)
    table = made(scale=Scale(0, 100))
    holdouts = [table.models[:4]]
    simulate(table, ["paper"], holdouts=holdouts, calibration_models=6, processes=1)
    raw = table.raw.copy()
    raw[:4] = np.random.default_rng(9).uniform(0, 100, raw[:4].shape)
    other = ScoreTable.from_arrays(raw, models=table.models, scale=table.scale)
    simulate(other, ["paper"], holdouts=holdouts, calibration_models=6, processes=1)
    assert seen[0] == seen[1] and not seen[0][0] & set(holdouts[0]) and len(seen[0][0]) == 6


def test_missing_scores_and_configs_are_used():
    table = made(n_items=80)
    rng = np.random.default_rng(0)
    both = np.vstack([table.raw, np.clip(table.raw + 0.02, 0, 1)])
    both[rng.random(both.shape) < 0.1] = np.nan
    models = [*table.models, *table.models]
    configs = ["cold"] * len(table.models) + ["hot"] * len(table.models)
    one = table.models[0]
    both[[m != one for m in models], 0] = np.nan  # of item 0 where it is held out: no scores
    holey = ScoreTable.from_arrays(both, models=models, configs=configs)
    methods = ["paper", "random", "common", "fixed", "default"]
    found = simulate(holey, methods, holdouts=[table.models[:4], table.models[4:8]], processes=1)
    assert found.summary["paper"]["tau"] > 0.6


def test_more_items_are_spent_at_higher_levels_and_advice_names_them(found):
    for points in found.sweep.values():
        assert [p["asked_items_per_model"] for p in points] == [10, 20, 40]
        items = [p["items_per_model"] for p in points]
        assert items == sorted(items) and items[0] < items[-1]
    assert "for a mean tau of 0.9" in found.advice[0] or "no method reaches" in found.advice[0]


def test_items_for_a_wanted_tau():
    def points(*pairs):
        return [{"items_per_model": n, "tau": t} for n, t in pairs]

    assert items_for_tau(points((10, 0.7), (40, 0.9)), 0.8) == pytest.approx(20)
    assert items_for_tau(points((10, 0.7), (40, 0.8)), 0.9) is None
    assert items_for_tau(points((10, 0.95), (40, 0.97)), 0.9) == 10
    # A level that reached it by luck does not count when a higher one falls below.
    assert items_for_tau(points((10, 0.92), (20, 0.85), (40, 0.95)), 0.9) == pytest.approx(
        20 * 2**0.5
    )


def test_folds_and_seeds_draw_each_their_own():
    replayed = simulate(
        made(n_models=8), ["sample"], folds=2, seeds=2, items_per_model=15, spend="fixed",
        processes=1,
    )  # fmt: skip
    drawn = {tuple(next(iter(o.items_of.values()))) for o in replayed.outcomes}
    assert len(drawn) == len(replayed.outcomes) == 4


def test_pairs_are_covered_by_students_quantiles():
    wanted = [stats.t.ppf(0.95, 2), stats.norm.ppf(0.95)]
    assert quantiles(0.9, np.array([2.0, np.inf])) == pytest.approx(wanted)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"methods": ["best"]}, "no method 'best'"),
        ({"methods": ["paper", "paper"]}, "appears twice"),
        ({"methods": []}, "at least one method"),
        ({"methods": [Method("f", "fixed", "paper", as_long_as="x")]}, "needs 'x' before it"),
        ({"holdout": 13, "methods": ["paper"]}, "at least 2"),
        ({"holdout": 15}, "at most all"),
        ({"items_per_model": -1}, "positive number"),
        ({"seeds": 0}, "at least 1"),
        ({"confidence": 1.5}, "between 0 and 1"),
        ({"holdouts": [["m00", "who"]]}, "who"),
        ({"calibration_models": 1}, "at least 2"),
        ({"prices": {"m00": 1}}, "no positive price"),
    ],
)
def test_arguments_that_cannot_be_meant(changes, said):
    with pytest.raises(Exception, match=said) as error:
        simulate(made(), **{"methods": ["common"], "processes": 1, **changes})
    assert isinstance(error.value, UsageError) or "who" in said


def test_real_translations(shared):
    """What `--limit` reaches on real data, recomputed with pandas and scipy."""
    import pandas as pd
    from scipy.stats import kendalltau

    path = shared / "data" / "scores" / "wmt24_en-de.parquet"
    found = simulate(path, ["paper", "random", "common", "limit"], metric="bleu", folds=2)
    scores = pd.read_parquet(path)
    wide = scores[scores.metric == "bleu"].pivot(index="model", columns="doc_id", values="score")
    for run in found.runs:
        if run["method"] == "limit":
            held = wide.loc[run["holdout"]]
            first = held.iloc[:, : run["items"] // 4].mean(axis=1)
            assert run["tau"] == pytest.approx(kendalltau(first, held.mean(axis=1))[0])
            assert run["rmse"] == pytest.approx(np.sqrt(((first - held.mean(axis=1)) ** 2).mean()))
    assert 0.55 < found.summary["paper"]["tau"] < 0.95
    assert found.summary["common"]["tau"] >= found.summary["random"]["tau"]
    assert found.summary["paper"]["z_rms"] > 1  # its errors know nothing of misfit


def test_at_fixed_numbers_every_model_has_as_many_items_whatever_it_costs():
    table = made(n_models=10)
    names = ["paper", "sample", "paired", "paired_difference", "common"]
    found = simulate(
        table,
        names,
        spend="fixed",
        levels=[10, 40],
        folds=2,
        units=dict.fromkeys(table.doc_ids, 7.0),
        processes=1,
    )
    for method, points in found.sweep.items():
        assert [p["items_per_model"] for p in points] == [10, 20, 40], method
        assert [p["cost"] for p in points] == [40, 80, 160]
    same = zip(found.sweep["paired"], found.sweep["common"])
    assert all(a["rmse"] == pytest.approx(b["rmse"]) and a["tau"] == b["tau"] for a, b in same)
    for method in ("paper", "sample", "paired", "paired_difference"):
        last = found.sweep[method][-1]
        assert 0.3 < last["z_rms_differences"] < 3 and 0.5 < last["coverage_differences"] <= 1
    with pytest.raises(UsageError, match="whole number"):
        simulate(table, ["common"], spend="fixed", items_per_model=2.5)
    with pytest.raises(UsageError, match="needs a number of items"):
        simulate(table, ["common"], spend="fixed", items_per_model=None)


def test_three_models_and_no_others_are_ranked_by_what_calibrates_nothing():
    table = made(n_models=3)
    found = simulate(table, ["sample", "paired", "common"], holdout=3, seeds=2, processes=1)
    assert {tuple(sorted(r["holdout"])) for r in found.runs} == {tuple(sorted(table.models))}
    assert len(found.runs) == 6 and found.settings["calibration_models"] == 0
    with pytest.raises(UsageError, match="leaves 0 to calibrate on"):
        simulate(table, ["sample", "static"], holdout=3)


def test_without_calibration_all_documents_may_be_drawn():
    """Method `sample` uses items on which no calibration model has a score."""
    table = made(n_models=8, n_items=40)
    raw = table.raw.copy()
    raw[4:, 30:] = np.nan
    partial = ScoreTable.from_arrays(raw, models=table.models)
    found = simulate(
        partial, ["sample"], holdouts=[table.models[:4]], items_per_model=40, spend="fixed",
        processes=1,
    )  # fmt: skip
    assert found.runs[0]["items"] == 160 and found.runs[0]["tau"] == 1.0

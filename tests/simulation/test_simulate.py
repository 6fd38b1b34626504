"""`simulate` as a whole, on one task and on several: its protocol, its records and its sums."""

import json
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.special import expit
from worlds.boards import drive

from lm_eval_ccat import Ranker, ScoreTable, calibrate, simulate
from lm_eval_ccat.cli.main import main
from lm_eval_ccat.errors import UsageError
from lm_eval_ccat.metrics import Scale
from lm_eval_ccat.simulation import fold_replay, simulation
from lm_eval_ccat.simulation.folds import HoldOut, drawn_prices
from lm_eval_ccat.simulation.simulation import _folds_of

BASELINES = ["random", "common", "limit", "static"]
PAIRED = ["paired", "paired_difference"]
KEYS = [
    "method", "fold", "seed", "holdout", "tau", "items", "cost", "budget", "ties", "true_ties",
    "tie_precision", "tie_recall", "tie_f1", "confident_pairs", "confident_accuracy", "z_rms",
    "coverage", "seconds",
]  # fmt: skip


def made(n_models=14, n_items=150, seed=0, task=None, scale=None):
    """Scores of models of different skill, the same in every task."""
    rng = np.random.default_rng(seed)
    skill = np.random.default_rng(1).permutation(np.linspace(-1.2, 1.2, n_models))
    eta = skill[:, None] + rng.normal(size=n_items)[None]
    scores = np.clip(expit(eta) + 0.15 * rng.normal(size=eta.shape), 0, 1)
    scale = scale or Scale()
    models = [f"m{n:02d}" for n in range(n_models)]
    return ScoreTable.from_arrays(scale.restore(scores), models, scale=scale, task=task)


def two_tasks(n_models=14):
    return {t: made(n_models, n, seed=n, task=t) for t, n in (("a", 50), ("b", 90))}


UNITS = np.where(np.arange(150) % 2, 3.0, 1.0)


@pytest.fixture(scope="module")
def found():
    methods, how = ["paper", *BASELINES, "fixed"], dict(folds=3, seeds=2, processes=1)
    return simulate(made(), methods, lengths=[10, 40], units=UNITS, **how)


@pytest.mark.long
def test_every_method_runs_on_every_fold_and_seed(found):
    ran = {(r["method"], r["fold"], r["seed"]) for r in found.runs}
    assert len(found.runs) == len(ran) == 6 * 3 * 2
    for run in found.runs:
        assert [key for key in run if "rmse" not in key and "differences" not in key] == KEYS
        assert len(run["holdout"]) == 4 and -1 <= run["tau"] <= 1
    sizes = ("models", "items_of_benchmark", "holdout", "calibration_models", "folds", "seeds")
    assert [found.settings[key] for key in sizes] == [14, 150, 4, 10, 3, 2]
    json.dumps(found.to_dict(), allow_nan=False)


@pytest.mark.long
def test_all_methods_of_a_fold_spend_what_the_papers_spent(found):
    for fold in range(3):
        own = [r for r in found.runs if r["fold"] == fold]
        spent = np.mean([r["cost"] for r in own if r["method"] == "paper"])
        for run in own:
            if run["method"] != "paper":
                assert run["budget"] == pytest.approx(spent)
                assert run["cost"] <= spent * (1 + 1e-6)


@pytest.mark.long
def test_a_limit_is_the_first_documents(found):
    for run in (r for r in found.runs if r["method"] == "limit"):
        scores = made().select(run["holdout"]).scores
        errors = scores[:, : run["items"] // 4].mean(axis=1) - scores.mean(axis=1)
        assert run["rmse"] == pytest.approx(np.sqrt(np.mean(errors**2)))


@pytest.mark.long
def test_the_papers_runs_are_those_of_the_ranker(found):
    """The record of a run, recomputed by hand from the ranker and the table."""
    table = made()
    run = next(r for r in found.runs if r["method"] == "paper" and r["fold"] == 2)
    held = table.select(run["holdout"])
    drawn = drawn_prices(table.models, 0)
    prices = {m: drawn[m] for m in run["holdout"]}
    bank = calibrate(table.without(run["holdout"]), method="paper")
    budget = 20 * sum(prices.values()) * UNITS.mean()
    ranker = Ranker(bank, prices, units=UNITS, budget=budget, seed=2)
    ranking = drive(ranker, dict(zip(held.models, held.scores)))
    truth = dict(zip(held.models, held.scores.mean(axis=1)))
    pairs = [(a, b) for i, a in enumerate(ranking.order) for b in ranking.order[i + 1 :]]
    decided = [pair for pair in pairs if ranking.decisions[pair] == "decided"]
    right = [(ranking.pairwise[a, b] > 0.5) == (truth[a] > truth[b]) for a, b in decided]
    errors = np.array([ranking.estimates[m] - truth[m] for m in held.models])
    stated = np.array([ranking.standard_errors[m] for m in held.models])
    inside = [lo <= truth[m] <= hi for m in held.models for lo, hi in [ranking.interval(m)]]
    wanted = {
        "items": sum(map(len, ranking.items.values())),
        "cost": sum(ranking.cost.values()),
        "tau": sum(1 if truth[a] > truth[b] else -1 for a, b in pairs) / 6,
        "ties": 6 - len(decided),
        "confident_pairs": len(decided),
        "confident_accuracy": np.mean(right),
        "rmse": np.sqrt(np.mean(errors**2)),
        "z_rms": np.sqrt(np.mean((errors / stated) ** 2)),
        "coverage": np.mean(inside),
    }
    assert decided and {key: run[key] for key in wanted} == pytest.approx(wanted)


@pytest.mark.long
def test_held_out_models_do_not_touch_calibration(monkeypatch):
    seen = []

    def recording(table, **options):
        bank = calibrate(table, **options)
        seen.append((set(table.models), bank.sha256))
        return bank

    monkeypatch.setattr(fold_replay, "calibrate", recording)
    table = made(scale=Scale(0, 100))
    raw = table.raw.copy()
    for _ in range(2):
        other = ScoreTable.from_arrays(raw, models=table.models, scale=table.scale)
        [run] = simulate(other, ["paper"], folds=1, processes=1).runs
        held = [table.models.index(model) for model in run["holdout"]]
        raw[held] = np.random.default_rng(9).uniform(0, 100, raw[held].shape)
    (models, _), again = seen
    assert (models, _) == again and not models & set(run["holdout"]) and len(models) == 10


def test_folds_and_seeds_draw_each_their_own():
    replayed = simulate(
        made(n_models=8), ["sample"], folds=2, seeds=2, items_per_model=15, spend="fixed",
        processes=1,
    )  # fmt: skip
    drawn = {tuple(next(iter(o.items_of.values()))) for o in replayed.replays}
    assert len(drawn) == len(replayed.replays) == 4


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"methods": ["best"]}, "no method 'best'"),
        ({"methods": ["paper", "paper"]}, "appears twice"),
        ({"methods": []}, "at least one method"),
        ({"holdout": 13, "methods": ["paper"]}, "at least 2"),
        ({"holdout": 14, "methods": ["sample", "static"]}, "leaves 0 to calibrate on"),
        ({"holdout": 15}, "at most all"),
        ({"items_per_model": -1}, "positive number"),
        ({"items_per_model": 2.5, "spend": "fixed"}, "whole number"),
        ({"items_per_model": None, "spend": "fixed"}, "needs a number of items"),
        ({"seeds": 0}, "at least 1"),
        ({"confidence": 0.3}, "`confidence` must .* not 0.3"),
        ({"prices": {"m00": 1}}, "`price of .* must be a number"),
        ({"table": two_tasks(), "items_per_model": 3}, "at least 2 of each"),
        ({"table": two_tasks(), "weights": "much"}, "neither 'documents' nor 'equal'"),
        ({"table": two_tasks(), "weights": {"a": 1.0}}, "a positive number for each of a, b"),
    ],
)
def test_arguments_that_cannot_be_meant(changes, said):
    with pytest.raises(UsageError, match=said):
        simulate(**{"table": made(), "methods": ["common"], "processes": 1, **changes})


def test_what_tells_how_to_read_is_refused_with_scores_that_are_read():
    with pytest.raises(TypeError, match="takes no holdouts"):
        simulate(made(), ["common"], holdouts=[["m00", "m01"]])


@pytest.mark.long
@pytest.mark.parametrize("tables", [made(n_models=10), two_tasks(10)], ids=["one", "two"])
def test_at_fixed_numbers_every_model_has_as_many_items_whatever_it_costs(tables):
    if isinstance(tables, dict):
        items = [(task, d) for task, table in tables.items() for d in table.doc_ids]
    else:
        items = tables.doc_ids
    stated = ["paper", "sample", *PAIRED]
    found = simulate(
        tables, [*stated, "common", "static"], spend="fixed", lengths=[12, 40], folds=2,
        weights="equal", units=dict.fromkeys(items, 7.0), processes=1,
    )  # fmt: skip
    for method, points in found.sweep.items():
        assert [p["items_per_model"] for p in points] == [12, 20, 40], method
        assert [p["cost"] for p in points] == [48, 80, 160]
    for paired, common in zip(found.sweep["paired"], found.sweep["common"]):
        assert [paired["rmse"], paired["tau"]] == pytest.approx([common["rmse"], common["tau"]])
    for method in stated:
        last = found.sweep[method][-1]
        assert 0.3 < last["z_rms_differences"] < 3 and 0.5 < last["coverage_differences"] <= 1


def test_without_calibration_all_documents_may_be_drawn():
    """Method `sample` uses items on which no calibration model has a score."""
    table = made(n_models=8, n_items=40)
    how = dict(folds=1, items_per_model=40, spend="fixed", processes=1)
    [run] = simulate(table, ["sample"], **how).runs
    raw = table.raw.copy()
    raw[[m not in run["holdout"] for m in table.models], 30:] = np.nan
    raw[table.models.index(run["holdout"][0]), 3] = np.nan  # nor what the model has no score on
    [run] = simulate(replace(table, raw=raw), ["sample"], **how).runs
    assert run["items"] == 159 and run["tau"] == 1.0


# -- several tasks --------------------------------------------------------------------------------


def test_weights_of_ones_own_make_the_order():
    """Who is best in one task is worst in the other; all items are asked."""
    one = made(n_models=6)
    several = {"a": one, "b": ScoreTable.from_arrays(1.0 - one.scores, one.models)}
    best_first = tuple(one.models[i] for i in np.argsort(-one.scores.mean(axis=1)))
    prices = dict.fromkeys(one.models, 1.0)
    how = dict(holdout=6, folds=1, items_per_model=300, prices=prices, processes=1)
    for share, order in ((0.9, best_first), (0.1, best_first[::-1])):
        weights = {"a": share, "b": 1.0 - share}
        [outcome] = simulate(several, ["common"], weights=weights, **how).replays
        assert outcome.order == order and outcome.tau == 1.0
        assert outcome.errors == pytest.approx(np.zeros(6), abs=1e-12)


@pytest.mark.long
def test_the_command_takes_a_list_of_tasks(tmp_path, capsys):
    lines = ["model,task,doc_id,metric,score"]
    for task, table in two_tasks().items():
        for model, row in zip(table.models, table.scores):
            lines += [f"{model},{task},{i},acc,{x}" for i, x in enumerate(row)]
    (tmp_path / "s.csv").write_text("\n".join(lines))
    command = f"simulate --scores {tmp_path}/s.csv --folds 1 --task a,b --methods sample,random"
    out = tmp_path / "o.json"
    assert main([*command.split(), "--items_per_model", "12", "--json", str(out)]) == 0
    assert "2 tasks, their weights: a 0.357, b 0.643" in capsys.readouterr().out
    content = json.loads(out.read_text())
    assert content["settings"]["tasks"] == ["a", "b"]
    assert set(content["summary"]) == {"sample", "random"}


def test_each_seed_has_prices_of_its_own():
    seeds = [{"a": 1.0, "b": 2.0, "c": 3.0}, {"a": 4.0, "b": 5.0, "c": 6.0}]
    [fold] = _folds_of([HoldOut(["c", "a"], ["b"])], seeds)
    assert fold.prices == ({"c": 3.0, "a": 1.0}, {"c": 6.0, "a": 4.0})


@pytest.mark.parametrize("higher", [True, False])
def test_at_the_frontier_a_simulation_holds_out_the_best_whichever_end_is_better(higher):
    table = made(12, 40, scale=Scale(0, 100, higher))
    best = np.argsort(table.raw.mean(axis=1) * (-1 if higher else 1))[:4]
    replayed = simulate(table, ["random"], folds=3, kind="frontier", holdout=3, processes=1)
    held_out = {model for run in replayed.runs for model in run["holdout"]}
    assert held_out == {table.models[n] for n in best}


def test_a_warning_of_some_folds_says_of_how_many(monkeypatch):
    warned = [["few models", "few models"], ["few models", "gaps"], ["few models"]]
    replayed = [SimpleNamespace(replays=[], warnings=texts, seconds={}) for texts in warned]
    monkeypatch.setattr(simulation, "in_processes", lambda *_: replayed)
    found = simulation._replay(range(3), None, None, 1, None)
    assert found.warnings == ["few models", "gaps (1 of 3 folds)"]


@pytest.mark.long
def test_a_figure_that_one_method_has_is_shown(found):
    shown = found._grid()
    lacking = [
        column
        for place, column in enumerate(shown.columns)
        if any(row[place] is None for row in shown.rows)
    ]
    assert lacking and "tau" in shown.columns


@pytest.mark.long
def test_a_method_that_agrees_in_nothing_is_named_in_the_title_too(found):
    """A tau of 0 is a figure; only a method that has none is left out."""
    summary = {name: {**found.summary["common"], "tau": tau} for name, tau in TAUS.items()}
    assert replace(found, summary=summary)._grid().title == "tau equal 0.00, better 0.50"


TAUS = {"equal": 0.0, "better": 0.5, "none": None}

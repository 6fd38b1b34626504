"""Replays of rankings over several tasks."""

from __future__ import annotations

import json

import numpy as np
import pytest

from lm_eval_ccat import ScoreTable, simulate
from lm_eval_ccat.cli.main import main
from lm_eval_ccat.errors import UsageError

PRICES = {f"m{j:02}": 1.0 for j in range(14)}


def tables(n_models=14, sizes=(50, 90)) -> dict[str, ScoreTable]:
    rng = np.random.default_rng(4)
    skill = rng.normal(size=(n_models, 1))
    names = [f"m{j:02}" for j in range(n_models)]
    found = {}
    for task, n in zip("ab", sizes):
        eta = skill + 0.4 * rng.normal(size=(n_models, 1)) + rng.normal(size=n)
        x = np.clip(1 / (1 + np.exp(-eta)) + 0.1 * rng.normal(size=eta.shape), 0, 1)
        found[task] = ScoreTable.from_arrays(x, names, metric="acc", task=task)
    return found


def test_the_truth_is_the_weighted_mean_and_the_budget_holds():
    given = tables()
    found = simulate(
        given, ["sample", "random"], weights="equal", folds=2, items_per_model=24, processes=1
    )
    shares = [0.5, 0.5]
    assert list(found.settings["weights"].values()) == pytest.approx(shares)
    mean = sum(w * np.mean(t.scores, axis=1) for w, t in zip(shares, given.values()))
    truth = dict(zip(given["a"].models, mean))
    for one in found.outcomes:
        assert one.cost <= one.budget * (1 + 1e-9) or one.method == "random"
        if one.method == "sample":
            best = max(one.holdout, key=truth.__getitem__)
            assert one.order == () or best in one.order[:2]
    assert found.summary["sample"]["tau"] > 0.5
    # What is stated of the weighted mean is about as wide as what is wrong with it.
    assert 0.3 < found.summary["sample"]["z_rms"] < 2.0


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (dict(items_per_model=3), "at least 2 of each"),
        (dict(weights="much"), "neither 'documents' nor 'equal'"),
        (dict(weights={"a": 1.0}), "a positive number for each of a, b"),
    ],
)
def test_what_cannot_be_replayed_is_refused(change, says):
    with pytest.raises(UsageError, match=says):
        simulate(tables(), **{"methods": ["sample"], **change})


def test_the_command_takes_a_list_of_tasks(tmp_path, capsys):
    lines = ["model,task,doc_id,metric,score"]
    for task, table in tables().items():
        for model, row in zip(table.models, table.scores):
            lines += [f"{model},{task},{i},acc,{x}" for i, x in enumerate(row)]
    (tmp_path / "s.csv").write_text("\n".join(lines))
    arguments = ["simulate", "--scores", str(tmp_path / "s.csv"), "--folds", "2"]
    several = [*arguments, "--task", "a,b", "--methods", "sample,random"]
    several += ["--items_per_model", "12"]
    assert main([*several, "--json", str(tmp_path / "o.json")]) == 0
    assert "2 tasks, their weights: a 0.357, b 0.643" in capsys.readouterr().out
    content = json.loads((tmp_path / "o.json").read_text())
    assert content["settings"]["tasks"] == ["a", "b"] and set(content["summary"]) == {
        "sample",
        "random",
    }


def test_weights_of_ones_own_make_the_order():
    """Who is best in one task is worst in the other; all items are asked."""
    one = tables(n_models=6)["a"]
    several = {"a": one, "b": ScoreTable.from_arrays(1.0 - one.scores, one.models, metric="acc")}
    best_first = tuple(one.models[i] for i in np.argsort(-one.scores.mean(axis=1)))
    how = dict(holdout=6, folds=1, items_per_model=100, prices=PRICES, processes=1)
    for share, order in ((0.9, best_first), (0.1, best_first[::-1])):
        weights = {"a": share, "b": 1.0 - share}
        [outcome] = simulate(several, ["common"], weights=weights, **how).outcomes
        assert outcome.order == order
        assert outcome.errors == pytest.approx(np.zeros(6), abs=1e-12)


def test_every_method_and_option_of_one_task_takes_several(tmp_path):
    """Equal numbers of items and each task's share of them, whatever the method."""
    several = tables()
    units = {(t, d): 2.0 for t, x in several.items() for d in x.doc_ids}
    methods = ["paper", "common", "static", "fixed", "paired", "paired_difference"]
    how = dict(folds=1, units=units, item_scaling=True, processes=1, weights="equal")
    within = simulate(several, methods, items_per_model=20, **how)
    assert {r["method"] for r in within.runs} >= set(methods)
    for run in within.runs:
        assert run["cost"] <= run["budget"] * (1 + 1e-9)
    fixed = simulate(several, methods, spend="fixed", items_per_model=40, **how)
    for run in fixed.outcomes:
        assert run.items == 160 and run.tau > -1
    assert fixed.summary["paired"]["rmse"] == pytest.approx(fixed.summary["common"]["rmse"])

"""Replays of rankings over several tasks."""

from __future__ import annotations

import json

import numpy as np
import pytest

from lm_eval_ccat import ScoreTable
from lm_eval_ccat.cli.main import main
from lm_eval_ccat.errors import UsageError
from lm_eval_ccat.simulation.suite import simulate_suite


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


@pytest.mark.parametrize("weights", ["documents", "equal"])
def test_the_truth_is_the_weighted_mean_and_the_budget_holds(weights):
    given = tables()
    found = simulate_suite(
        given, ["sample", "random"], weights=weights, folds=3, items_per_model=24
    )
    shares = [50 / 140, 90 / 140] if weights == "documents" else [0.5, 0.5]
    assert list(found.settings["weights"].values()) == pytest.approx(shares)
    mean = sum(w * np.mean(t.unit, axis=1) for w, t in zip(shares, given.values()))
    truth = dict(zip(given["a"].models, mean))
    for one in found.outcomes:
        assert one.items <= 24 * len(one.holdout) + 2
        if one.method == "sample":
            best = max(one.holdout, key=truth.__getitem__)
            assert one.order == () or best in one.order[:2]
    assert found.summary["sample"]["tau"] > 0.5
    # What is stated of the weighted mean is about as wide as what is wrong with it.
    assert 0.3 < found.summary["sample"]["z_rms"] < 2.0


def test_all_items_leave_nothing_to_be_wrong_about():
    given = tables(sizes=(6, 8))
    found = simulate_suite(given, ["random"], folds=2, items_per_model=14)
    assert found.summary["random"]["rmse"] == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (dict(methods=["static"]), "does not rank several tasks"),
        (dict(items_per_model=3), "at least 2 of each"),
        (dict(weights="much"), "neither 'documents' nor 'equal'"),
    ],
)
def test_what_cannot_be_replayed_is_refused(change, says):
    with pytest.raises(UsageError, match=says):
        simulate_suite(tables(), **{"methods": ["sample"], **change})
    with pytest.raises(UsageError, match="at least two tasks"):
        simulate_suite({"a": tables()["a"]}, ["sample"])


def test_the_command_takes_a_list_of_tasks(tmp_path, capsys):
    lines = ["model,task,doc_id,metric,score"]
    for task, table in tables().items():
        for model, row in zip(table.models, table.unit):
            lines += [f"{model},{task},{i},acc,{x}" for i, x in enumerate(row)]
    (tmp_path / "s.csv").write_text("\n".join(lines))
    arguments = ["simulate", "--scores", str(tmp_path / "s.csv"), "--folds", "2"]
    several = [*arguments, "--task", "a,b", "--methods", "sample,random"]
    assert main([*several, "--weights", "equal", "--json", str(tmp_path / "o.json")]) == 0
    assert "2 tasks, their weights: a 0.5, b 0.5" in capsys.readouterr().out
    content = json.loads((tmp_path / "o.json").read_text())
    assert content["settings"]["tasks"] == ["a", "b"] and set(content["summary"]) == {
        "sample",
        "random",
    }
    assert main([*several, "--seeds", "3"]) == 2
    assert "--seeds is for one task" in capsys.readouterr().err
    assert main([*arguments, "--task", "a", "--weights", "equal"]) == 2

"""What `run --adaptive --leaderboard` writes once the model has run."""

from __future__ import annotations

import csv
from typing import Any

import numpy as np
import pytest

from lm_eval_ccat import ScoreTable
from lm_eval_ccat.cli.run_after import update_leaderboards
from lm_eval_ccat.live.known import KnownResults
from lm_eval_ccat.metrics.scale import Scale

SIZES = {"a": 40, "b": 60}


def results() -> dict[str, ScoreTable]:
    rng = np.random.default_rng(0)
    found = {}
    for task, n in SIZES.items():
        names = [f"m{j}" for j in range(5 if task == "a" else 4)]  # one lacks a task
        found[task] = ScoreTable.from_arrays(rng.uniform(size=(len(names), n)), names, metric="acc")
    return found


def blocks(**weights: float) -> dict[str, Any]:
    usual = {"key": "acc,none", "filter": "none", "confidence": 0.95, "signature": "s"}
    of_tasks = {
        t: {"estimate": 0.9, "standard_error": 0.02, "items": 10, "items_total": n, **usual}
        for t, n in SIZES.items()
    }
    score = {"estimate": 0.9, "standard_error": 0.015, "weights": weights}
    group = {"scores": {"acc,none": score}, "items": 20, "items_total": 100}
    return {**of_tasks, "both": group}


def test_a_group_has_a_board_of_models_with_all_its_tasks(tmp_path, capsys):
    tables = results()
    known = KnownResults(None, "new", tables, dict.fromkeys(SIZES, Scale()))
    update_leaderboards(known, blocks(a=0.25, b=0.75), str(tmp_path / "board"), None)
    with open(tmp_path / "board_both.csv") as f:
        rows = {r["model"]: r for r in csv.DictReader(f)}
    means = {t: dict(zip(x.models, x.unit.mean(axis=1))) for t, x in tables.items()}
    assert set(rows) == {"new", "m0", "m1", "m2", "m3"}
    for model in set(rows) - {"new"}:
        mean = 0.25 * means["a"][model] + 0.75 * means["b"][model]
        assert float(rows[model]["acc"]) == pytest.approx(mean)
    assert rows["new"]["rank"] == "1" and rows["new"]["items"] == "20"
    assert float(rows["new"]["standard_error"]) == 0.015 and rows["new"]["estimated"] == "True"
    assert "new: rank 1 of 5" in capsys.readouterr().out
    assert (tmp_path / "board_a.csv").exists() and (tmp_path / "board_both.html").exists()


def test_a_group_with_a_task_that_has_no_board_gets_none(tmp_path):
    known = KnownResults(None, "new", {"a": results()["a"]}, {"a": Scale()})
    update_leaderboards(known, blocks(a=0.5, b=0.5), str(tmp_path / "board"), None)
    assert (tmp_path / "board.csv").exists() and not (tmp_path / "board_both.csv").exists()

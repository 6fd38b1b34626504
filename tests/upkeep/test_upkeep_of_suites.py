"""A folder of several tasks' scores makes a suite, and every command takes its folder."""

from __future__ import annotations

import json

import pytest

from lm_eval_ccat import ScoreTable
from lm_eval_ccat.bank import SuiteBank
from lm_eval_ccat.cli.main import main
from lm_eval_ccat.testing.methods import example_table


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with one Parquet per task, whose names no column states, and its suite."""
    place = tmp_path_factory.mktemp("suite")
    table = example_table()
    for task, raw in (("one", table.raw), ("two", table.raw[:, ::-1])):
        (place / "scores").mkdir(exist_ok=True)
        own = ScoreTable.from_arrays(raw, table.models, metric="acc")
        own.write(place / "scores" / f"{task}.parquet")
        own.select(table.models[:2]).write(place / f"{task}.parquet")
    making = ["calibrate", str(place / "scores"), "-o", str(place / "suite"), "--method", "paper"]
    assert main([*making, "--keep_scores"]) == 0
    return place


def json_of(capsys, *line):
    capsys.readouterr()
    assert main([*map(str, line), "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_calibrate_makes_a_suite_without_being_told_the_tasks(place):
    suite = SuiteBank.load(place / "suite")
    assert {task: list(outcomes) for task, outcomes in suite.items()} == {
        "one": ["acc"], "two": ["acc"]
    }  # fmt: skip
    one, two = (suite[task]["acc"].parameters["difficulty"] for task in suite)
    assert one.tolist() == pytest.approx(two[::-1].tolist())


def test_a_suite_is_shown_and_checked_bank_by_bank(place, tmp_path, capsys):
    assert set(json_of(capsys, "bank", "show", place / "suite")["tasks"]) == {"one", "two"}
    assert main(["bank", "show", str(place / "suite")]) == 0
    shown = capsys.readouterr().out
    assert "2 banks of 2 tasks" in shown and "two acc  paper, " in shown
    assert json_of(capsys, "bank", "check", place / "suite", "--scores", place / "scores")["ok"]
    table = example_table()
    for task, raw in (("one", table.raw), ("two", table.raw[:, :9:-1])):  # ten are lost
        ScoreTable.from_arrays(raw, table.models, metric="acc").write(tmp_path / f"{task}.parquet")
    line = ["bank", "check", str(place / "suite"), "--scores", str(tmp_path), "--json"]
    assert main(line) == 3
    tasks = json.loads(capsys.readouterr().out)["tasks"]
    assert tasks["one"]["acc"]["ok"] and not tasks["two"]["acc"]["ok"]


def test_a_suite_is_updated_and_its_items_are_retired_by_task(place, tmp_path, capsys):
    making = ["calibrate", str(place / "scores"), "--method", "paper", "--exclude", "m00,m05"]
    making += ["--keep_scores"]
    assert main([*making, "-o", str(tmp_path / "s")]) == 0
    line = ["bank", "update", tmp_path / "s", "--scores", place / "scores", "-o", tmp_path / "t"]
    line = [*map(str, line), "--retire", "two=0,3"]
    assert main(line) == 0
    assert "two acc: 2 models added to 10" in capsys.readouterr().out
    banks, whole = SuiteBank.load(tmp_path / "t"), example_table()
    assert {len(b.models) for _, _, b in banks.banks()} == {12}
    assert [b.n_items for _, _, b in banks.banks()] == [whole.n_items, whole.n_items - 2]
    assert list(SuiteBank.load(tmp_path / "t", ["two"])) == ["two"]
    for ids, says in (("0,3", "name its task, too"), ("two=x", "doc_ids are numbers")):
        assert main([*line[:-1], ids]) == 2
        assert says in capsys.readouterr().err


def test_a_suite_has_forms_that_are_scored_together(place, tmp_path, capsys):
    made = json_of(
        capsys, "bank", "form", place / "suite", "--items", 5, "-o", tmp_path / "forms"
    )  # fmt: skip
    assert set(made["tasks"]) == {"one", "two"}
    found = json_of(capsys, "bank", "form", tmp_path / "forms", "--score", place / "scores")
    assert len(found["forms"]) == 2


def test_a_suite_is_drawn_and_its_scores_are_replayed(place, tmp_path, capsys):
    line = ["report", place / "suite", "--plots", tmp_path]
    assert main(list(map(str, line))) == 0
    assert {f.name for f in tmp_path.rglob("*.svg")} == {"one.acc.svg", "two.acc.svg"}
    found = json_of(
        capsys, "simulate", "--scores", place / "scores", "--methods", "random", "--folds", 2,
        "--items_per_model", 10,
    )  # fmt: skip
    assert set(found["settings"]["weights"]) == {"one", "two"}

"""Rows of a board were scored alike: by the same targets, code and settings of the metric."""

from __future__ import annotations

import json
import shlex
from dataclasses import replace
from pathlib import Path

import pytest
from scores.test_harness_logs import rows_of, write_run

from lm_eval_ccat import ItemBank, ScoreTable
from lm_eval_ccat.board import Board, add, init, place, publish, standing

SCORES = [n % 3 / 2 for n in range(12)]
METRIC = {"metric": "exact_match", "ignore_case": True}


def logs(folder: Path, model: str, target="t" * 64, documents=12, **config) -> Path:
    """Logs of a model whose third document has this target, with this configuration of the task."""
    rows = rows_of(SCORES[:documents])
    rows[2]["target_hash"] = target
    changes = {
        "samples": {"original": 12, "effective": documents},
        "adaptive": {"demo": {"items": 8}},
    }
    write_run(folder, model, rows, **changes)
    [file] = (folder / model).glob("results_*.json")
    content = json.loads(file.read_text())
    content["configs"]["demo"] |= {"metric_list": [METRIC], "process_results": "", **config}
    file.write_text(json.dumps(content))
    return folder


@pytest.fixture
def board(tmp_path: Path) -> Board:
    scores = [[float(n < m + d) for n in range(12)] for d in (0, 2) for m in range(1, 6)]
    table = ScoreTable.from_arrays(scores, metric="exact_match", models=list("abcdefghij"))
    table.write(tmp_path / "full.csv")
    board = init(tmp_path / "board", tmp_path / "full.csv", task="demo")
    assert add(board, logs(tmp_path / "first", "first")).rows  # the first logs say how
    return board


@pytest.mark.long
@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"target": "f" * 64}, "target of document 2 is tttttttt in the board and ffffffff in the"),
        (
            {"process_results": "def process_results"},
            "process_results differs between the board and the source",
        ),
        ({"metric_list": [{**METRIC, "ignore_case": False}]}, "the setting of metric exact_match"),
    ],
)
def test_logs_that_were_scored_otherwise_take_no_row(board, tmp_path, changes, says, ccat):
    assert add(board, logs(tmp_path / "alike", "alike")).rows
    before = standing(board).placed
    other = logs(tmp_path / "other", "new", **changes)
    err = ccat("board", "add", board.path, other, code=4).err
    assert f"new: left out: demo: the {says}" in err or f"new: left out: demo: {says}" in err
    part = logs(tmp_path / "part", "new", documents=8, **changes)
    assert says in place(board, part).left_out["new"]
    assert standing(board).placed == before
    remedy = err.partition("`lm-eval-ccat ")[2].partition("`")[0]
    words = [str(tmp_path / "NEW" if w == "NEW_DIR" else other if w == "LOGS" else w)
             for w in shlex.split(remedy)]  # fmt: skip
    ItemBank.blank(range(12), task="demo", metric="exact_match").save(tmp_path / "bank.json")
    fresh = init(tmp_path / "fresh", tmp_path / "bank.json")
    assert words[:2] == ["board", "init"] and add(fresh, other).rows


def test_most_logs_of_the_first_source_say_how_a_board_is_scored(tmp_path):
    ItemBank.blank(range(12), task="demo", metric="exact_match").save(tmp_path / "bank.json")
    board = init(tmp_path / "board", tmp_path / "bank.json")
    for model, target in (("a", "f" * 64), ("b", "t" * 64), ("c", "t" * 64)):
        logs(tmp_path / "logs", model, target)
    added = add(board, tmp_path / "logs")
    assert [row.model for row in added.rows] == ["b", "c"] and list(added.left_out) == ["a"]
    init(board.path, tmp_path / "bank.json")  # new banks may be of another scoring
    assert add(board, logs(tmp_path / "again", "a", "f" * 64)).rows


def test_answers_that_were_cut_off_elsewhere_take_no_row(tmp_path):
    ItemBank.blank(range(12), task="demo", metric="exact_match").save(tmp_path / "bank.json")
    board = init(tmp_path / "board", tmp_path / "bank.json")
    for model, limit in (("long", 64), ("short", 9)):
        source = logs(tmp_path / model, model, generation_kwargs={"max_gen_toks": limit})
        added = add(board, source)
    assert not added.rows and "max_gen_toks is 64 in the board and 9" in added.left_out["short"]


@pytest.mark.long
def test_results_of_another_temperature_are_marked_by_name(board, tmp_path, ccat):
    sampled = {"generation_kwargs": {"temperature": 0.9, "do_sample": True}}
    words = "generation setting temperature is 0.0 in the board and 0.9 in the source"
    err = ccat("board", "add", board.path, logs(tmp_path / "other", "drawn", **sampled)).err
    assert f"drawn: {words}" in err
    part = logs(tmp_path / "part", "partly", documents=8, **sampled)
    assert f"partly: {words}" in place(board, part).notes
    for model in ("alike", "too"):
        add(board, logs(tmp_path / model, model))
    [text] = [file.read_text() for file in publish(board, tmp_path / "site") if "html" in file.name]
    drawn = "(temperature 0.9, do_sample true)"
    for way in (f"drawn {drawn}", f"partly {drawn}", "than those of most rows (greedy)"):
        assert way in text
    assert "alike (" not in text


@pytest.mark.parametrize(("n", "named"), [(3, "a, b, c"), (5, "a, b, c and 2 more")])
def test_what_is_told_of_many_models_names_the_first_and_counts_the_others(tmp_path, n, named):
    ItemBank.blank(range(12), task="demo", metric="exact_match").save(tmp_path / "bank.json")
    board = init(tmp_path / "board", tmp_path / "bank.json")
    for model in "uvwxyz":
        logs(tmp_path / "logs", model)
    for model in "abcde"[:n]:
        logs(tmp_path / "logs", model, generation_kwargs={"temperature": 0.9})
    words = "generation setting temperature is 0.0 in the board and 0.9 in the source"
    assert f"{named}: {words}" in add(board, tmp_path / "logs").notes


@pytest.mark.long
def test_a_board_without_its_scoring_tells_that_and_takes_no_other_as_its_measure(
    board, tmp_path, ccat
):
    file = board.path / "scoring.json"
    content = file.read_text()
    assert "scoring.json" not in ccat("board", "check", board.path).err
    file.unlink()
    first = logs(tmp_path / "other", "other", process_results="def process_results")
    for command in (("add", board.path, first), ("check", board.path)):
        err = ccat("board", *command).err
        assert "scoring.json is missing, so it is not known how" in err and not file.exists()
    site = publish(board, tmp_path / "site")
    assert any("Scoring.json is missing" in file.read_text() for file in site)
    for emptied in ("{}", '{"another": {"settings": {}, "targets": [], "generation": {}}}'):
        file.write_text(emptied)
        for command in (("add", board.path, first), ("check", board.path)):
            err = ccat("board", *command, code=1).err
            assert "scoring.json was changed" in err and "restore it from git" in err
        assert file.read_text() == emptied
    file.write_text(content)
    again = logs(tmp_path / "again", "again", process_results="def process_results")
    assert "process_results differs" in add(board, again).left_out["again"]
    assert "scoring.json" not in ccat("board", "check", board.path).err


@pytest.mark.long
def test_logs_of_which_no_model_gets_a_row_say_nothing_of_how_a_board_is_scored(tmp_path):
    bank = ItemBank.blank(range(12), task="demo", metric="exact_match")
    replace(bank, settings={"num_fewshot": 0}).save(tmp_path / "bank.json")
    board, other = init(tmp_path / "board", tmp_path / "bank.json"), {"process_results": "def f"}
    folder = logs(tmp_path / "shown", "shown", **other)
    [file] = folder.rglob("results_*.json")
    file.write_text(json.dumps({**json.loads(file.read_text()), "n-shot": {"demo": 3}}))
    shown = add(board, folder)
    assert not shown.rows and "num_fewshot" in shown.left_out["shown"]
    assert add(board, logs(tmp_path / "whole", "whole")).rows
    left_out = add(board, logs(tmp_path / "other", "other", **other)).left_out["other"]
    assert "process_results differs" in left_out


@pytest.mark.long
def test_new_banks_take_their_measure_from_the_next_logs(board, tmp_path, ccat):
    """The earlier one is kept, so that a file without it is known to lack something."""
    bank = tmp_path / "new.bank.json"
    ItemBank.blank(range(12), task="demo", metric="exact_match").save(bank)
    for _ in range(2):
        ccat("board", "init", board.path, "--from", bank)
        assert "scoring.json" not in ccat("board", "check", board.path).err
    other = {"process_results": "def process_results"}
    assert add(board, logs(tmp_path / "other", "other", **other)).rows
    assert "process_results differs" in add(board, logs(tmp_path / "x", "x")).left_out["x"]
    assert sorted(json.loads((board.path / "scoring.json").read_text())) == [
        "demo 1.0", "demo 1.0, before",
    ]  # fmt: skip

"""`run --adaptive --leaderboard`: a new model is placed among full results of others."""

from __future__ import annotations

import csv
import json

import numpy as np
import pytest

from lm_eval_ccat import ScoreTable
from lm_eval_ccat.cli.main import main


@pytest.fixture
def board(bench, tmp_path):
    """A bank in a directory of its own, and the logs it was calibrated on."""
    bench.bank("texts", "chrf").save(tmp_path / "texts.bank.json")
    return tmp_path, bench.folder / "logs" / "texts"


def call(bench, folder, logs, skill, *more, model="new"):
    return main(
        [
            *("run", "--model", "copyist", "--include_path", str(bench.tasks)),
            *("--model_args", f"skill={skill},model={model}", "--tasks", "texts", "--adaptive"),
            *("--bank", str(folder / "texts.bank.json"), "--leaderboard", str(logs)),
            *("--output_path", str(folder / "out"), *more),
        ]
    )


def rows(folder, name="out/leaderboard_texts"):
    with open(folder / f"{name}.csv") as f:
        return list(csv.DictReader(f))


def test_a_new_model_gets_a_row_and_a_rank_interval(bench, board, capsys):
    folder, logs = board
    assert call(bench, folder, logs, 0.97) == 0
    printed = capsys.readouterr().out
    assert "new: rank 1 of 7" in printed and "leaderboard: " in printed
    table = rows(folder)
    assert len(table) == 7 and table[0]["model"] == "new" and table[0]["estimated"] == "True"
    assert int(table[0]["items"]) < 36 and float(table[0]["standard_error"]) > 0
    assert {r["estimated"] for r in table[1:]} == {"False"}
    full = ScoreTable.read(logs, metric="chrf", task="texts")
    means = dict(zip(full.models, np.nanmean(full.model_scores(unit=False), axis=1)))
    for r in table[1:]:
        assert float(r["chrf"] if "chrf" in r else r["sentence_chrf"]) == pytest.approx(
            means[r["model"]]
        )
    page = (folder / "out" / "leaderboard_texts.md").read_text()
    assert "≈" in page and page.count("| new |") == 1
    [results] = (folder / "out").rglob("results_*.json")
    place = json.loads(results.read_text())["adaptive"]["texts"]["place"]
    assert place["rank"] == 1 and place["models"] == 7


def test_rows_are_added_and_replaced(bench, board):
    folder, logs = board
    base = str(folder / "board.md")
    more = ["--max_items", "12", "--leaderboard_out", base, "--leaderboard_name"]
    assert call(bench, folder, logs, 0.4, *more, "one") == 0
    table = rows(folder, "board")
    assert len(table) == 7 and [int(r["rank"]) for r in table] == list(range(1, 8))
    # A model with full results there is no fixed point for itself, and its row is replaced.
    known = next(r["model"] for r in table if r["estimated"] == "False")
    assert call(bench, folder, logs, 0.5, *more, known) == 0
    table = rows(folder, "board")
    assert sorted(r["model"] for r in table if r["estimated"] == "True") == sorted(["one", known])
    assert len(table) == 7


def test_it_stops_once_the_rank_is_known_well_enough(bench, board, capsys):
    folder, logs = board
    found = {}
    for flag in ((), ("--rank_width", "4"), ("--question", "population")):
        assert call(bench, folder, logs, 0.6, *flag, "--adaptive_batch_size", "1") == 0
        newest = max((folder / "out").rglob("results_*.json"), key=lambda p: p.stat().st_mtime_ns)
        block = json.loads(newest.read_text())["adaptive"]["texts"]
        low, high = block["place"]["rank_interval"]
        found[flag[:1]] = block["items"], high - low + 1, block["stopped_because"]
        newest.unlink()
    assert found["--rank_width",][1] <= 4 and "known to 4 ranks" in found["--rank_width",][2]
    assert found["--rank_width",][0] < found[()][0]
    assert found["--question",][1] >= found[()][1]  # the known are not known so well, then
    capsys.readouterr()
    assert main(["run", "--model", "copyist", "--tasks", "texts", "--adaptive", "--rank_width",
                 "3"]) == 2  # fmt: skip
    assert "needs leaderboard" in capsys.readouterr().err


def test_mistakes_are_named_before_the_model_is_asked(bench, board, capsys):
    folder, _ = board
    assert call(bench, folder, "nowhere", 0.5) == 2
    assert "nowhere" in capsys.readouterr().err
    assert main(["run", "--model", "copyist", "--tasks", "texts", "--leaderboard_out", "x"]) == 2
    other = ScoreTable.from_arrays([[0.5, 0.2]], ["x"], metric="acc")
    other.write(folder / "acc.parquet")
    assert call(bench, folder, folder / "acc.parquet", 0.5) == 1
    assert "chrf" in capsys.readouterr().err

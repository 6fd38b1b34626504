"""`run --adaptive --leaderboard`: a new model is placed among full results of others."""

from __future__ import annotations

import json

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


def placed(folder):
    """The block of the newest results."""
    newest = max((folder / "out").rglob("results_*.json"), key=lambda p: p.stat().st_mtime_ns)
    return json.loads(newest.read_text())["adaptive"]["texts"]


def test_a_new_model_is_placed_and_its_own_results_are_left_out(bench, board, capsys):
    folder, logs = board
    assert call(bench, folder, logs, 0.97) == 0
    assert "new: rank 1 of 7" in capsys.readouterr().out
    block = placed(folder)
    assert block["items"] < 36
    assert (block["place"]["rank"], block["place"]["models"]) == (1, 7)
    known = ScoreTable.read(logs, metric="chrf", task="texts").models[0]
    assert call(bench, folder, logs, 0.5, "--max_items", "12", "--leaderboard_name", known) == 0
    assert placed(folder)["place"]["models"] == 6


def test_it_stops_once_the_rank_is_known_well_enough(bench, board):
    folder, logs = board
    found = {}
    for flag in ((), ("--rank_width", "4"), ("--question", "population")):
        assert call(bench, folder, logs, 0.6, *flag, "--adaptive_batch_size", "1") == 0
        block = placed(folder)
        low, high = block["place"]["rank_interval"]
        found[flag[:1]] = block["items"], high - low + 1, block["stopped_because"]
        about = "documents like these 36" if "population" in flag else "all 36 documents"
        assert f"over {about} of texts, from" in block["estimand"]
    assert found["--rank_width",][1] <= 4 and "known to 4 ranks" in found["--rank_width",][2]
    assert found["--rank_width",][0] < found[()][0]
    assert found["--question",][1] >= found[()][1]  # the known are not known so well, then

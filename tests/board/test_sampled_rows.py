"""Full results of a board of which every answer is one draw."""

from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scores.test_harness_logs import rows_of, write_run
from worlds.bench import TASK

from lm_eval_ccat import ItemBank, ScoreTable
from lm_eval_ccat.board import add, check, init, place, publish, standing
from lm_eval_ccat.journal import read_journal


@pytest.mark.long
def test_equal_models_of_one_draw_each_are_not_called_different(tmp_path: Path) -> None:
    """Sixty models alike on each of 100 items: at most one in twenty of their pairs may differ."""
    rng = np.random.default_rng(0)
    answers = rng.random((60, 100)) < rng.uniform(0.2, 0.8, 100)
    models = [f"m{k}" for k in range(60)]
    numbers = ["repeat 1"] * 60
    table = ScoreTable.from_arrays(answers * 1.0, models, configs=numbers, task="t", metric="acc")
    table.write(tmp_path / "t.parquet")
    ItemBank.blank(range(100), task="t", metric="acc").save(tmp_path / "bank.json")
    board = init(tmp_path / "board", tmp_path / "bank.json")
    assert len(add(board, tmp_path / "t.parquet").rows) == 60
    placed = standing(board).placed
    assert np.std([place.row.score for place in placed]) > 0.02  # chance alone
    different = sum(place.best - 1 for place in placed)
    assert different <= 0.05 * 60 * 59 / 2
    assert {found.verdict for found in check(board)} == {"sound"}


@pytest.mark.long
def test_logs_at_a_temperature_are_draws_on_every_surface(tmp_path: Path, ccat) -> None:
    ItemBank.blank(range(100), task="demo", metric="exact_match").save(tmp_path / "bank.json")
    board = init(tmp_path / "board", tmp_path / "bank.json")
    for model, right, temperature in (("drawn", 60, 0.7), ("greedy", 55, 0.0)):
        scores = [1] * right + [0] * (100 - right)
        write_run(
            tmp_path / "logs", model, rows_of(scores), generation={"temperature": temperature}
        )
    out = ccat("board", "add", board.path, tmp_path / "logs").out
    assert (
        "drawn: 0.6 (0.4983 to 0.6997, sampled answers), rank 1 to 2 of 2" in out
        and "greedy: 0.55, rank 1 to 2 of 2" in out
    )
    drawn, greedy = board.ledger.rows()
    # Of 60 right answers in 100 Wilson's interval is .502 to .691.
    assert (drawn.low, drawn.high) == pytest.approx((0.502, 0.691), abs=0.01)
    assert drawn.confidence == 0.95 and greedy.confidence is None
    assert greedy.low == greedy.high == greedy.score
    first, second = standing(board).placed
    assert first.lead is not None and first.lead.low < 0.0 < first.lead.high
    assert (first.best, first.worst, second.best, second.worst) == (1, 2, 1, 2)
    assert {found.verdict for found in check(board)} == {"sound"}
    publish(board, tmp_path / "site")
    page = (tmp_path / "site" / "index.html").read_text()
    assert "The full results of 1 model are sampled answers" in page
    lines = {line["model"]: line for line in csv.DictReader((tmp_path / "site/board.csv").open())}
    for end in ("low", "high"):
        shown = {float(lines["drawn"][column]) for column in (end, f"demo_{end}")}
        assert shown == {getattr(drawn, end)}
    assert (lines["drawn"]["best"], lines["drawn"]["worst"]) == ("1", "2")
    assert lines["greedy"]["low"] == lines["greedy"]["high"] == "0.55"
    assert "in the ledger already" in ccat("board", "add", board.path, tmp_path / "logs").err


@pytest.mark.long
def test_newcomers_are_placed_among_draws_with_their_noise(world, tmp_path: Path) -> None:
    table = replace(ScoreTable.read(world.bench.folder / "known.parquet"), task=TASK)
    table.as_first_repeats(["m00"]).write(tmp_path / "full.parquet")
    board = init(tmp_path / "own", tmp_path / "full.parquet")
    assert [row.model for row in board.ledger.rows() if row.low < row.high] == ["m00"]
    [row] = place(board, world.config(["m01"])).rows
    [file] = row.evidence
    known = read_journal(board.path / file)[0].header.ranker["known"]
    noise = table.select(["m00"]).model_scores()[0].std(ddof=1) / table.n_items**0.5
    errors = {model: error for model, (_, error, _) in known.items()}
    assert errors.pop("m00") == pytest.approx(noise)
    assert set(errors.values()) == {0.0}

"""The leaderboard's table: ranks, formats, and updates that lose nothing."""

from __future__ import annotations

import csv
import io
import json
from multiprocessing import get_context

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lm_eval_ccat.errors import RunError
from lm_eval_ccat.metrics.scale import Scale
from lm_eval_ccat.report.board import Board, Row, ranked
from lm_eval_ccat.report.board_files import update_board

FULL = Board("t", "acc", "none", Scale(), 100).with_rows(
    Row(f"k{i}", 0.1 * i, 0.0, 100, False) for i in range(1, 6)
)


def est(name, score, se=0.02) -> Row:
    return Row(name, score, se, 20, True, signature="task:t")


@settings(max_examples=60, deadline=None)
@given(
    values=st.lists(
        st.tuples(st.floats(0, 1), st.sampled_from([0.0, 0.01, 0.2])), min_size=1, max_size=20
    ),
    higher=st.booleans(),
)
def test_ranks_are_in_their_intervals(values, higher):
    rows = [Row(f"m{i}", s, e, 1, e > 0) for i, (s, e) in enumerate(values)]
    found = ranked(rows, Scale(higher_is_better=higher), 0.95)
    assert [r.rank for r in found] == list(range(1, len(rows) + 1))
    assert all(1 <= r.best <= r.rank <= r.worst <= len(rows) for r in found)
    scores = [r.score for r in found]
    assert scores == sorted(scores, reverse=higher)


def test_estimates_stay_until_full_results_come(tmp_path):
    update_board(tmp_path / "b", FULL, [est("new", 0.33)])
    board = update_board(tmp_path / "b", FULL, [est("other", 0.9)])
    assert [r.model for r in board.rows][:2] == ["other", "k5"] and board.row("new").estimated
    later = FULL.with_rows([Row("new", 0.35, 0.0, 100, False)])
    board = update_board(tmp_path / "b", later, [])
    assert not board.row("new").estimated and len(board.rows) == 7
    assert json.loads((tmp_path / "b.json").read_text())["rows"][0]["model"] == "other"


def test_markdown_marks_estimates_and_cannot_be_broken_out_of(tmp_path):
    board = update_board(tmp_path / "b", FULL, [est("evil | name\n# head", 0.31)])
    text = (tmp_path / "b.md").read_text()
    assert text == board.to_markdown()
    table = [line for line in text.splitlines() if line.startswith("|")]
    assert len(table) == 8 and "≈ 0.31 ± 0.039" in text and "evil \\| name # head" in text
    assert len(list(csv.reader(io.StringIO(board.to_csv())))) == 7


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        '{"format": "lm-eval-ccat/leaderboard", "version": 1}',
        '{"format": "lm-eval-ccat/leaderboard", "version": 2}',
    ],
)
def test_a_damaged_table_is_left_alone(tmp_path, text):
    (tmp_path / "b.json").write_text(text)
    with pytest.raises(RunError, match=r"b\.json"):
        update_board(tmp_path / "b", FULL, [est("new", 0.3)])
    assert (tmp_path / "b.json").read_text() == text


def test_a_table_of_something_else_is_left_alone(tmp_path):
    update_board(tmp_path / "b", FULL, [])
    with pytest.raises(RunError, match="metric 'acc', not 'f1'"):
        update_board(tmp_path / "b", Board("t", "f1", "none", Scale(), 100), [])


def _add(base, start):
    for i in range(start, start + 8):
        update_board(base, FULL, [est(f"new{i}", 0.3)])


def test_processes_do_not_lose_each_others_rows(tmp_path):
    base = str(tmp_path / "b")
    workers = [get_context("fork").Process(target=_add, args=(base, 8 * i)) for i in range(3)]
    for w in workers:
        w.start()
    for w in workers:
        w.join(120)
        assert w.exitcode == 0
    rows = json.loads((tmp_path / "b.json").read_text())["rows"]
    assert sum(r["estimated"] for r in rows) == 24 and len(rows) == 29


@pytest.mark.parametrize("seed", range(8))
def test_ranks_are_those_of_every_pair_compared(seed):
    """Thousands of full results are ranked without comparing them two by two."""
    rng = np.random.default_rng(seed)
    error = np.where(rng.random(30) < 0.3, 0.1 * rng.random(30), 0.0)
    score = np.round(rng.random(30), 1)
    rows = [Row(f"m{i}", float(score[i]), float(error[i]), 5, False) for i in range(30)]
    for row in ranked(rows, Scale(), 0.95):
        gap, apart = score - row.score, 1.959964 * np.hypot(error, row.standard_error)
        assert row.best == 1 + int((gap > apart).sum())
        assert row.worst == 30 - int((-gap > apart).sum())

"""A row of a board whose model was asked every document several times."""

from __future__ import annotations

import csv
import zlib
from pathlib import Path

import numpy as np
import pytest
from worlds.bench import TASK, make_bench
from worlds.server import CompletionsServer

from lm_eval_ccat import ItemBank, ScoreTable
from lm_eval_ccat.bank import SuiteBank
from lm_eval_ccat.board import check, init, place, publish
from lm_eval_ccat.board.cheats import suspicions

N_DOCS, REPEATS, ANSWERS = 30, 4, 75


@pytest.mark.long
def test_a_row_says_how_often_its_documents_were_asked(tmp_path: Path) -> None:
    bench = make_bench(tmp_path, n_docs=N_DOCS)
    blank = ItemBank.blank(range(N_DOCS), task=TASK, metric="share")
    SuiteBank({TASK: blank}).save(tmp_path / "suite")
    board = init(tmp_path / "board", tmp_path / "suite", max_items=ANSWERS, reserve=0)

    def text(model: str, prompt: str, seed: int) -> str:
        said = bench.outputs[model][prompt].split()
        lost = zlib.crc32(f"{model} {prompt} {seed}".encode()) % len(said)
        return " ".join("0" if place == lost else word for place, word in enumerate(said))

    with CompletionsServer({}) as server:
        server.draws = text
        harness = {"include_path": "tasks", "gen_kwargs": {"temperature": 0.7}}
        settings = {"bank": None, "repeats": REPEATS, "harness": harness, "stop": "limits"}
        place(board.path, bench.config(server.url, ["m03", "m07"], **settings))
    rows = board.ledger.rows()
    assert [row.model for row in rows] == ["m03", "m07"]
    for row in rows:
        score = row.tasks[TASK]
        assert (score.repeats, score.items, score.documents) == (REPEATS, N_DOCS, N_DOCS)
        assert sorted(row.asked[TASK]) == list(range(N_DOCS))
        assert "sampled:yes" in row.signature and f"repeats:{REPEATS}" in row.signature
    assert sum(server.asked.values()) == 2 * ANSWERS
    assert {found.verdict for found in check(board.path)} == {"sound"}
    assert suspicions(board) == {}
    publish(board.path, tmp_path / "site")
    [head, *lines] = csv.reader((tmp_path / "site" / "board.csv").open())
    assert [line[head.index(f"{TASK}_repeats")] for line in lines] == [str(REPEATS)] * 2


@pytest.mark.long
def test_full_results_of_repeats_have_the_interval_of_their_noise(tmp_path: Path) -> None:
    """Two tasks of 40 documents: right in every other answer, and always the same."""
    rng, n = np.random.default_rng(1), 40
    scores = {
        "noisy": (rng.random((REPEATS, n)) < 0.5) * 1.0,
        "sure": np.tile(np.eye(2)[0], n // 2),
    }
    (tmp_path / "tables").mkdir()
    for task in ("t", "u"):
        rows = np.concatenate([scores["noisy"], np.tile(scores["sure"], (REPEATS, 1))])
        ScoreTable.from_arrays(
            rows, ["noisy"] * REPEATS + ["sure"] * REPEATS, task=task, metric="acc",
            configs=[f"repeat {k + 1}" for k in range(REPEATS)] * 2,
        ).write(tmp_path / "tables" / f"{task}.parquet")  # fmt: skip
    board = init(tmp_path / "board", tmp_path / "tables")
    noisy, sure = (next(r for r in board.ledger.rows() if r.model == m) for m in scores)
    for row in (noisy, sure):
        for score in row.tasks.values():
            assert (score.repeats, score.items) == (
                REPEATS,
                n,
            ) and score.low < row.score < score.high
        assert row.confidence == 0.95
    error = 0.5 / (REPEATS * n) ** 0.5
    assert (noisy.tasks["t"].high - noisy.tasks["t"].low) / (4.0 * error) == pytest.approx(
        1, abs=0.1
    )
    assert (noisy.high - noisy.low) / (4.0 * error / 2**0.5) == pytest.approx(1, abs=0.1)
    assert sure.high - sure.low < 0.3 * (noisy.high - noisy.low)
    assert {found.verdict for found in check(board.path)} == {"sound"}

"""A row of a board whose model was asked every document several times."""

from __future__ import annotations

import zlib
from pathlib import Path

from worlds.bench import TASK, make_bench
from worlds.server import CompletionsServer

from lm_eval_ccat import ItemBank
from lm_eval_ccat.bank import SuiteBank
from lm_eval_ccat.board import check, init, place

N_DOCS, REPEATS, ANSWERS = 30, 4, 75


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

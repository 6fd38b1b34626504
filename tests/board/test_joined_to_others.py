"""Full results that no hashes verify must go with the board's documents, and in its direction."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from worlds.bench import TASK

from lm_eval_ccat import ItemBank, ScoreTable
from lm_eval_ccat.board import add, init, place, standing

MODEL = "m03"


@pytest.fixture
def table(world):
    """Write scores of the model as a table, with other hashes of documents if wanted."""

    def written(change, path, hashes=None) -> str:
        full = world.bench.table.select([MODEL])
        table = ScoreTable.from_arrays(
            change(full.raw), [MODEL], full.doc_ids, metric="share", doc_hashes=hashes
        )
        replace(table, task=TASK).write(path)
        return str(path)

    return written


def permuted(scores):
    return scores[:, np.random.default_rng(0).permutation(scores.shape[1])]


def turned(scores):
    return 1.0 - scores


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (permuted, "are joined to other documents (another order, another split)"),
        (turned, "run in the other direction than the bank's"),
    ],
)
def test_a_table_of_other_documents_or_direction_takes_no_row(board, table, tmp_path, change, says):
    add(board, table(lambda scores: scores, tmp_path / "right.csv"))
    before = standing(board).placed
    added = add(board, table(change, tmp_path / "wrong.csv"))
    assert not added.rows and says in added.left_out[MODEL] and added.partial
    assert standing(board).placed == before
    assert says in place(board, tmp_path / "wrong.csv", name="new").left_out[MODEL]


def test_what_the_refusal_says_mends_it(board, table, tmp_path):
    scores = table(turned, tmp_path / "wrong.csv")
    assert "state 1 - score in their place" in add(board, scores).left_out[MODEL]
    right = ScoreTable.read(scores, "share", range=(0, 1))
    replace(right, raw=1 - right.raw).write(tmp_path / "mended.csv")
    assert [row.model for row in add(board, tmp_path / "mended.csv").rows] == [MODEL]


def test_an_unusual_model_is_taken(board, table, tmp_path):
    """A third of its scores are noise, and it is far below the others."""
    rng = np.random.default_rng(1)

    def unusual(scores):
        return np.where(rng.random(scores.shape) < 0.3, 0.2 * rng.random(scores.shape), scores / 2)

    assert add(board, table(unusual, tmp_path / "unusual.csv")).rows


@pytest.mark.long
def test_a_board_takes_the_results_that_its_banks_were_calibrated_on(tmp_path):
    """One of the models guesses: only the calibration says that it is of these documents."""
    rng = np.random.default_rng(0)
    ease, skill = rng.normal(size=300), np.linspace(-1.0, 1.5, 12)
    chances = 1.0 / (1.0 + np.exp(-skill[:, None] - 1.5 * ease))
    chances[6] = 0.5
    scores = (rng.random(chances.shape) < chances).astype(float)
    names = [f"m{n}" for n in range(12)]
    ScoreTable.from_arrays(scores, names, metric="acc", task="t").write(tmp_path / "t.csv")
    board = init(tmp_path / "board", tmp_path / "t.csv")
    assert {row.model for row in board.ledger.rows()} == set(names)
    guesser = ScoreTable.from_arrays(scores[6:7], ["guesser"], metric="acc", task="t")
    guesser.write(tmp_path / "guesser.csv")
    assert "hashes of documents" in add(board, tmp_path / "guesser.csv").left_out["guesser"]
    replace(guesser, row_model=("m6",)).write(tmp_path / "m6.csv")
    assert "in the ledger already" in add(board, tmp_path / "m6.csv").left_out["m6"]


def test_a_board_that_can_compare_nothing_says_so(table, tmp_path):
    """It has neither hashes nor a bank that was calibrated."""
    scores = table(permuted, tmp_path / "t.csv")
    doc_ids = ScoreTable.read(scores, "share").doc_ids
    ItemBank.blank(doc_ids, task=TASK, metric="share").save(tmp_path / "bank.json")
    added = add(init(tmp_path / "board", tmp_path / "bank.json"), scores)
    assert [row.model for row in added.rows] == [MODEL]
    assert any("no hashes of documents and no bank, so ids alone" in note for note in added.notes)

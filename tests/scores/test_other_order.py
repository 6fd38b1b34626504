"""Logs of the same documents in another order, as of a data set that was shuffled."""

import hashlib
import shutil

import numpy as np
import pytest
from scores.test_harness_logs import sample_row, write_run
from worlds.boards import draw

from lm_eval_ccat import ItemBank, Ranker, ScoreTable
from lm_eval_ccat.bank.settings import check_bank
from lm_eval_ccat.board import check, init
from lm_eval_ccat.errors import BankMismatchError
from lm_eval_ccat.scores.numbering import renumbered

N_ITEMS = 60
SHUFFLED = np.random.default_rng(5).permutation(N_ITEMS).tolist()
SCORES = (
    np.random.default_rng(0).random((12, N_ITEMS)) < draw(np.linspace(-1, 1.5, 12), N_ITEMS, seed=3)
).astype(int)


def rows(model: int, order=range(N_ITEMS)):
    """Rows of a model whose data set has the documents in this order."""
    lines = []
    for n, document in enumerate(order):
        doc = {"question": f"question {document}"}
        row = sample_row(n, {"exact_match": float(SCORES[model][document])}, doc=doc)
        row["arguments"]["gen_args_0"]["arg_0"] = f"Q {document}"
        for what in ("prompt", "target"):
            row[f"{what}_hash"] = hashlib.sha256(f"{what} {document}".encode()).hexdigest()
        lines.append(row)
    return lines


@pytest.fixture
def logs(tmp_path):
    """Ten models' logs in one order (full), and two models' in another (shuffled)."""
    for model in range(10):
        write_run(tmp_path / "full", f"m{model}", rows(model))
    for model in (10, 11):
        write_run(tmp_path / "shuffled", f"m{model}", rows(model, SHUFFLED))
    return tmp_path


@pytest.mark.long
def test_scores_in_another_order_are_joined_to_the_bank_by_hash(logs, ccat):
    bank = logs / "b.json"
    ccat("calibrate", logs / "full", "--method", "paper", "-o", bank)
    said = ccat("bank", "check", bank, "--scores", logs / "shuffled").out
    assert "nothing wrong found" in said and "are joined by their hashes" in said


@pytest.mark.long
def test_full_results_in_another_order_stand_on_a_board(logs, ccat):
    board = init(logs / "board", logs / "full")
    ccat("board", "add", board.path, logs / "shuffled")
    scores = {row.model: row.score for row in board.ledger.rows()}
    for model in range(12):
        assert scores[f"m{model}"] == pytest.approx(SCORES[model].mean())
    table = ScoreTable.read(board.path / next(iter(board.ledger.rows()[-1].evidence)))
    assert table.raw.tolist() == SCORES[[10, 11]].tolist()
    assert {checked.verdict for checked in check(board)} == {"sound"}


def test_logs_of_one_folder_in_two_orders_are_one_table(logs):
    shutil.copytree(logs / "shuffled", logs / "full", dirs_exist_ok=True)
    table = ScoreTable.read(logs / "full")
    assert table.raw.tolist() == [SCORES[int(model[1:])].tolist() for model in table.models]
    moved, unmoved = (table.prompts.of_row(table.models.index(name)) for name in ("m10", "m0"))
    assert len(set(moved)) == N_ITEMS and moved == unmoved
    [note] = [text for text in table.warnings if "another order" in text]
    assert note.startswith("m10, m11: the same documents in another order than in most logs")


def test_one_other_document_is_no_other_order(logs):
    lines = rows(10, SHUFFLED)
    lines[7]["doc_hash"] = "f" * 64
    write_run(logs / "full", "m10", lines)
    table = ScoreTable.read(logs / "full")
    moved = sum(n != document for n, document in enumerate(SHUFFLED))
    assert np.isnan(table.raw[table.models.index("m10")]).sum() >= moved
    assert any("not all of the same data set" in text for text in table.warnings)


def test_a_task_in_another_order_than_the_bank_is_called_so():
    hashes = [f"{n:064x}" for n in range(9)]
    bank = ItemBank.blank(range(9), task="t", doc_hashes=hashes)
    task = {"task": "t", "filters": ["none"], "settings": {}, "doc_ids": range(9)}
    with pytest.raises(BankMismatchError, match="the same documents in another order than the ba"):
        check_bank(bank, doc_hashes=hashes[::-1], **task)
    with pytest.raises(BankMismatchError, match="1 of 9 documents differ"):
        check_bank(bank, doc_hashes=["e" * 64, *hashes[1:]], **task)


def test_known_models_in_another_order_are_joined(logs):
    known = ScoreTable.read(logs / "shuffled")
    first = ScoreTable.read(logs / "full")
    bank = ItemBank.blank(first.doc_ids, metric="exact_match", doc_hashes=first.doc_hashes)
    estimates = Ranker(bank, ["new"], known=known).result().estimates
    assert estimates["m10"] == pytest.approx(SCORES[10].mean())


def test_sides_in_two_orders_are_refused_with_the_remedy(logs, ccat):
    err = ccat("compare", logs / "full" / "m1", logs / "shuffled" / "m10", code=2).err
    assert "are of the same documents in another order" in err and "its shuffle" in err


def test_equal_documents_take_each_place_once():
    assert renumbered({0: "x", 1: "y", 2: "x"}, {0: "y", 1: "x", 2: "x"}) == {0: 1, 1: 0, 2: 2}
    assert renumbered({0: "x", 1: "x"}, {0: "x", 1: "y"}) == {}
    assert renumbered({0: "x", 1: None}, {0: "y", 1: "x"}) == {}

"""A model whose answers say nothing gets no row of a board, which could not be withdrawn."""

from __future__ import annotations

import pytest
from worlds.server import CompletionsServer

from lm_eval_ccat.board import Board, check, place, placing, standing
from lm_eval_ccat.board.checking import unnamed_evidence
from lm_eval_ccat.board.ledger import BoardLedger
from lm_eval_ccat.errors import UsageError


@pytest.fixture
def silent(world):
    """A server at which m03 refuses every question, and m05 answers with nothing."""
    outputs = dict(world.bench.outputs)
    outputs["m03"] = dict.fromkeys(outputs["m03"], "I cannot answer this question.")
    outputs["m05"] = dict.fromkeys(outputs["m05"], "")
    with CompletionsServer(outputs) as server:
        world.server = server
        yield server


@pytest.mark.long
def test_who_says_nothing_gets_no_row_until_its_entry_is_corrected(world, board, silent, ccat):
    before = board.ledger.rows(), standing(board).headline
    config = world.config(["m03", "m05"])
    said = ccat("board", "place", board.path, config, code=4)
    assert said.out == "No row was added.\n"
    for model in ("m03", "m05"):
        [line] = [
            line for line in said.err.splitlines() if model in line and ": left out: " in line
        ]
        assert " answers are empty or refusals" in line and "correct its entry" in line
        assert "`fail_on_empty: 1`" in line and str(board.path / ".runs" / "rank") in line
    assert (board.ledger.rows(), standing(board).headline) == before
    # Corrected where no setting tells: at the server.
    silent.outputs = world.bench.outputs
    added = place(board.path, config)
    assert [row.model for row in added.rows] == ["m03", "m05"] and not added.left_out
    for row in added.rows:
        assert row.low <= world.bench.truth[row.model] <= row.high
    # The first answers are kept, and nothing else is.
    assert [path.name for path in (board.path / ".runs").iterdir()] == ["rank.1"]


@pytest.mark.long
def test_who_says_nothing_is_placed_if_its_configuration_accepts_it(world, board, silent):
    place(board.path, world.config(["m03"]))
    asked = sum(silent.asked.values())
    [row] = place(board.path, world.config(["m03"], fail_on_empty=1)).rows
    assert row.model == "m03" and row.score < 0.2
    assert sum(silent.asked.values()) == asked, "its answers are paid for already"
    assert {checked.verdict for checked in check(board.path)} == {"sound"}
    assert not list((board.path / ".runs").iterdir())


@pytest.mark.long
def test_who_says_nothing_holds_up_nobody_placed_with_it(world, board, silent):
    added = place(board.path, world.config(["m03", "m09"]))
    assert [row.model for row in added.rows] == ["m09"] and list(added.left_out) == ["m03"]
    [journal] = set(added.rows[0].evidence)
    assert journal in added.left_out["m03"], "where its answers are kept"


@pytest.mark.long
def test_answers_of_a_model_whose_server_ends_are_paid_once(world, board):
    """No row has them, so the board's own copies of journals do not."""
    with CompletionsServer(world.bench.outputs) as server:
        world.server = server
        server.mood = lambda model, *_: ("status", 400) if server.answers(model) >= 12 else None
        config = world.config(["m03"])
        added = place(board.path, config)
        assert not added.rows and " failed" in added.left_out["m03"]
        server.mood = None
        [row] = place(board.path, config).rows
        assert sum(server.answered.values()) == row.items
    assert not list((board.path / ".runs").iterdir())


@pytest.mark.long
def test_a_placing_without_any_answer_leaves_no_folder(world, board):
    with CompletionsServer(world.bench.outputs) as server:
        world.server = server
        server.mood = lambda *_: ("status", 400)
        added = place(board.path, world.config(["m03"]))
        assert list(added.left_out) == ["m03"] and not sum(server.answered.values())
    assert not list((board.path / ".runs").iterdir())


@pytest.mark.long
@pytest.mark.parametrize("moment", ["before the rows", "after the rows"])
def test_a_kill_while_a_row_is_added_leaves_nothing_once_the_command_is_repeated(
    world, board, monkeypatch, moment
):
    adds = placing._add_run

    def killed(*arguments):
        if moment == "after the rows":
            adds(*arguments)
        raise SystemExit

    def journals():
        return list((board.path / "journals").iterdir())

    before = len(journals())
    config, where = world.config(["m05"]), (placing, "_add_run")
    if moment == "before the rows":
        where = BoardLedger, "append"
    with monkeypatch.context() as patch:
        patch.setattr(*where, killed)
        with pytest.raises(SystemExit):
            place(board.path, config)
    assert len(journals()) == before + 1
    assert [path.name for path in (board.path / ".runs").glob("rank")] == ["rank"]
    asked = sum(world.server.asked.values())
    if moment == "before the rows":
        [row] = place(board.path, config).rows
        assert row.model == "m05" and sum(world.server.asked.values()) == asked
    else:
        with pytest.raises(UsageError, match="stands on the board since"):
            place(board.path, config)
    assert {checked.verdict for checked in check(board.path)} == {"sound"}
    assert not unnamed_evidence(Board(board.path))
    assert len(journals()) == before + 1
    assert not list((board.path / ".runs").glob("rank"))

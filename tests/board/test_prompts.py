"""What a board says of runs of other prompts can be done as it is typed."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from worlds.bench import TASK

from lm_eval_ccat.bank import SuiteBank
from lm_eval_ccat.board import Board, init, standing
from lm_eval_ccat.scores.prompts import mark_of


@pytest.fixture
def prompted(world, tmp_path) -> Board:
    """A board whose bank has prompts that are not the task's."""
    bank = Board(world.board).banks[TASK]
    marks = tuple(mark_of(f"Say {doc_id}.") for doc_id in bank.doc_ids)
    (tmp_path / "suite").mkdir()
    SuiteBank({TASK: replace(bank, prompts=marks)}).save(tmp_path / "suite")
    return init(tmp_path / "prompted", tmp_path / "suite", reserve=0)


@pytest.mark.long
def test_a_run_that_accepted_prompts_that_are_not_known_is_asked_again_without(world, board, ccat):
    """Its bank was widened, so that it is no longer the board's."""
    config = world.bench.config(
        world.server.url, ["m05"], bank=str(board.path / "suite"), max_items=12
    )
    run = ("rank", config, "--run_dir", board.path.parent / "unsure.run")
    ccat(*run, "--accept_change", "prompts", code=(0, 3))
    err = ccat("board", "place", board.path, run[-1], code=4).err
    assert "prompts unknown" in err and "`rank` it without `accept_change: prompts`" in err
    assert "descend" not in err
    ccat(*run[:-1], board.path.parent / "plain.run", code=(0, 3))
    ccat("board", "place", board.path, board.path.parent / "plain.run")
    assert "m05" in {place.row.model for place in standing(board).placed}


@pytest.mark.long
def test_other_prompts_begin_another_board(world, prompted, ccat):
    place, beside = ("board", "place", prompted.path), prompted.path.parent
    config = world.bench.config(
        world.server.url, ["m05"], bank=str(prompted.path / "suite"), max_items=12
    )
    ccat("rank", config, "--accept_change", "prompts", code=(0, 3))
    remedy = "begin a board of these prompts: `lm-eval-ccat board init NEW_DIR --from LOGS`"
    for source, code in ((world.bench.run(), 4), (world.config(["m05"]), 2)):
        err = ccat(*place, source, code=code).err
        assert "the prompt of document 0 is" in err and remedy in err
        assert "--accept_change" not in err and "descend" not in err
    known = [f"m{n:02}" for n in range(12) if n != 5]
    ccat("board", "init", beside / "new", "--from", world.scores(beside / "full.parquet", known))
    others = {"task": "mp_math", "bank": "nothing.json", "seed": 3, "max_items": 7}
    stated = world.bench.config(world.server.url, ["m05"], name="stated", **others)
    said = ccat("board", "place", beside / "new", stated).err
    for key, value in others.items():
        assert re.search(rf"the board sets {key}: .*, not .*{value}\n", said), key
    assert "the board sets max_items: 100, not 7" in said and "the board sets conf" not in said
    assert "m05" in {place.row.model for place in standing(Board(beside / "new")).placed}

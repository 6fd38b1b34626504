"""Scores on another scale, or in another direction, than what they are put beside."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scores.test_harness_logs import rows_of, write_run
from worlds.bench import write_adaptive
from worlds.boards import draw

from lm_eval_ccat import ItemBank, ScoreTable, calibrate
from lm_eval_ccat.board import Board, init, standing
from lm_eval_ccat.errors import ScaleError, UsageError
from lm_eval_ccat.live.earlier import read_known
from lm_eval_ccat.metrics import Scale
from lm_eval_ccat.ranker.references import means_of_known

NAMES = [f"m{n}" for n in range(8)]
RAW = draw(np.linspace(-1, 1.5, 8), 40, seed=5)
LOWER = Scale(0, 1, higher_is_better=False)


@pytest.fixture(scope="module")
def bank() -> ItemBank:
    full = ScoreTable.from_arrays(RAW, NAMES, metric="misses", task="t", scale=LOWER)
    return calibrate(full, "paper")


@pytest.fixture
def board(tmp_path, bank) -> Board:
    """A board of errors of which no table knows the scale: less is better."""
    bank.save(tmp_path / "t.bank.json")
    return init(tmp_path / "board", tmp_path / "t.bank.json")


def scores(path: Path, scale: Scale, columns: tuple[str, ...], part: int = 40) -> Path:
    """A table of one more model, which states these columns of a scale."""
    stated = {"scale_min": scale.low, "scale_max": scale.high,
              "higher_is_better": str(scale.higher_is_better).lower()}  # fmt: skip
    head = ["model", "doc_id", "task", "metric", "score", *columns]
    raw = np.round(RAW[3, :part] * scale.high, 6)
    rows = [["new", n, "t", "misses", value, *(stated[name] for name in columns)]
            for n, value in enumerate(raw.tolist())]  # fmt: skip
    path.write_text("\n".join(",".join(map(str, row)) for row in (head, *rows)))
    return path


ALL = ("scale_min", "scale_max", "higher_is_better")
OTHER = {"direction": (Scale(), ALL), "direction alone": (Scale(), ALL[2:]),
         "scale": (Scale(0, 2, higher_is_better=False), ALL)}  # fmt: skip


@pytest.mark.parametrize("case", OTHER)
@pytest.mark.parametrize("way", ["add", "place", "known", "bank check", "bank update"])
def test_scores_on_another_scale_are_refused_by_name(board, tmp_path, ccat, case, way):
    file = scores(tmp_path / "new.csv", *OTHER[case])
    bank = tmp_path / "t.bank.json"
    if way in ("add", "place"):
        said = ccat("board", way, board.path, file, code=2).err
    elif way == "known":
        with pytest.raises(ScaleError) as caught:
            read_known(str(file), board.banks["t"])
        said = str(caught.value)
    else:
        output = () if way == "bank check" else ("-o", tmp_path / "again.json")
        said = ccat(*way.split(), bank, "--scores", file, *output, code=2).err
    other = "0 to 2, lower" if case == "scale" else "0 to 1, higher"
    assert "different scales of misses: the bank 0 to 1, lower is better" in said
    assert f"new.csv {other} is better" in said
    assert read_known(done(said, tmp_path), board.banks["t"]).scale == LOWER


def done(said: str, folder: Path) -> str:
    """Do what a message says, as it is printed; the file that is written."""
    [remedy] = re.findall(r"ScoreTable\.read\(.*\)\.write\('scores\.parquet'\)", said)
    exec(remedy.replace("scores.parquet", str(folder / "right.parquet")))
    return str(folder / "right.parquet")


@pytest.mark.parametrize("source", ["table", "logs"])
@pytest.mark.parametrize("way", ["add", "place"])
def test_scores_outside_the_scale_can_be_written_on_it_as_printed(
    board, tmp_path, ccat, source, way
):
    percent = np.round(100 * RAW[3], 4)
    if source == "table":
        file = scores(tmp_path / "new.csv", Scale(0, 100, higher_is_better=False), ())
    else:
        file, direction = tmp_path / "logs", {"higher_is_better": {"t": {"misses": False}}}
        write_run(file, "new", rows_of(percent, metric="misses"), task="t", **direction)
    err = ccat("board", way, board.path, file, code=1).err
    assert "outside" in err and "--range" not in err
    message = err.partition(" outside ")[0]
    assert message.count(str(file)) == 1, "the error names the file once"
    ccat("board", way, board.path, done(err, tmp_path))
    [row] = [place.row for place in standing(board).placed]
    assert row.score == pytest.approx(RAW[3].mean(), abs=1e-6 if way == "add" else 0.02)


def test_the_range_that_is_offered_holds_the_score(tmp_path, ccat):
    write_run(tmp_path, "new", rows_of(100 * RAW[3], metric="acc"), task="t")
    err = ccat("calibrate", tmp_path, "-o", tmp_path / "x.json", code=1).err
    assert "--range 0,100 for logs" in err and "{acc: {range: [0, 100]}}" in err


@pytest.mark.parametrize(
    ("columns", "said"),
    [((), "the scale of misses"), (ALL[2:], "the ends of the scale of misses"), (ALL, "")],
)
def test_a_scale_that_nothing_states_is_the_bank_s_and_said(board, tmp_path, ccat, columns, said):
    whole = scores(tmp_path / "new.csv", LOWER, columns)
    part = scores(tmp_path / "some.csv", LOWER, columns, part=20)
    for action, file in (("place", part), ("add", whole)):
        heard = ccat("board", action, board.path, file)
        words = f"{file} does not state {said}; the bank has 0 to 1, lower is better"
        assert (words in " ".join(heard.err.split())) == bool(said)
    [row] = [place.row for place in standing(board).placed]
    assert row.score == pytest.approx(RAW[3].mean(), abs=1e-6)


@pytest.mark.parametrize("higher", [True, False])
def test_a_harness_log_states_its_direction(board, tmp_path, ccat, higher):
    write_run(tmp_path / "logs", "new", rows_of(RAW[3], metric="misses"), task="t",
              higher_is_better={"t": {"misses": higher}})  # fmt: skip
    said = ccat("board", "add", board.path, tmp_path / "logs", code=2 * higher).err
    assert ("different scales of misses" in said) == higher


def test_an_adaptive_run_is_verified_by_full_results_of_its_scale(tmp_path, ccat):
    block = {"metric": "misses", "scale": LOWER.to_dict(), "items": 20, "items_total": 40}
    run = write_adaptive(tmp_path / "results_2026-01-01T00-00-00.json", "new", 0.5, 0.1,
                         block=block)  # fmt: skip
    good = scores(tmp_path / "good.csv", LOWER, ALL)
    ccat("verify", run, "--full", good)
    for case in OTHER.values():
        bad = scores(tmp_path / "bad.csv", *case)
        said = ccat("verify", run, "--full", bad, code=2).err
        assert "different scales of misses: the run 0 to 1, lower" in said


@pytest.mark.long
def test_new_banks_of_another_scale_are_no_banks_of_the_board(board, tmp_path):
    full = ScoreTable.from_arrays(RAW, NAMES, metric="misses", task="t")
    calibrate(full, "paper").save(tmp_path / "other.bank.json")
    with pytest.raises(UsageError, match=r"different scales of misses: the board 0 to 1, lower"):
        init(board.path, tmp_path / "other.bank.json")
    assert Board(board.path).banks["t"].scale == LOWER


def test_a_table_in_memory_is_on_the_bank_s_scale_too(board):
    other = ScoreTable.from_arrays(RAW, NAMES, metric="misses")
    with pytest.raises(UsageError, match="different scales of misses: the bank"):
        means_of_known(replace(other, task="t"), board.banks["t"])

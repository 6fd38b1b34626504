"""What an operator is told to look at: models that answer alike, and items that were known."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
from worlds.bench import TASK
from worlds.boards import draw

from lm_eval_ccat import ItemBank, ScoreTable, calibrate
from lm_eval_ccat.bank import SuiteBank
from lm_eval_ccat.board import BoardRow, TaskScore, init, publish, suspicions
from lm_eval_ccat.board.cheats import (
    PeerScores,
    alike_in_words,
    gain_on_shown_items,
    same_texts,
)
from lm_eval_ccat.board.ledger import sha256_of

RNG = np.random.default_rng(3)
SKILLS = np.linspace(-2.0, 2.0, 40)
CHANCE = draw(SKILLS, 300, seed=2, noise=0.3)
SCORES = (RNG.random(CHANCE.shape) < CHANCE).astype(float)
KNOWN, NEW = SCORES[::2], SCORES[1::2]


@pytest.fixture(scope="module")
def bank():
    return calibrate(ScoreTable.from_arrays(KNOWN, [f"k{n}" for n in range(20)], task="t"))


def part(scores, items):
    out = np.full(len(scores), np.nan)
    out[items] = scores[items]
    return out


def test_a_likeness_over_thousands_of_items_is_not_said_to_be_impossible(bank):
    tasks = [f"t{n}" for n in range(15)]
    among = PeerScores(dict.fromkeys(tasks, bank), {"k12": dict.fromkeys(tasks, KNOWN[12])})
    likenesses = among.like(dict.fromkeys(tasks, KNOWN[12]))
    assert "k12 on 4,500 of 4,500 documents" in alike_in_words(likenesses)
    assert "(chance 1e-100)" in alike_in_words(likenesses)


@pytest.mark.long
def test_a_copy_is_named_and_models_that_are_alike_are_not(bank):
    among = PeerScores({"t": bank}, {f"k{n}": {"t": scores} for n, scores in enumerate(KNOWN)})
    for n_items, changed in ((100, 0), (100, 1), (200, 1), (200, 4)):
        items = RNG.permutation(300)[:n_items]
        copy = KNOWN[12].copy()
        copy[items[:changed]] = 1.0 - copy[items[:changed]]
        said = alike_in_words(among.like({"t": part(copy, items)}))
        same = f"its scores equal those of k12 on {n_items - changed} of {n_items} documents"
        assert said.startswith(same) and "may be the same model" in said
        for scores in NEW:
            assert among.like({"t": part(scores, items)}) == []
        for n, scores in enumerate(KNOWN):
            assert among.like({"t": part(scores, items)}, f"k{n}") == []
    # Equal answers to easy items are no evidence.
    easy = np.argsort(-KNOWN.mean(axis=0))[:20]
    assert among.like({"t": part(KNOWN[15], easy)}) == []


@pytest.mark.long
def test_who_knows_the_items_that_are_shown_most_is_named_and_nobody_else(bank):
    times = np.zeros(300)
    for _ in range(30):
        times[RNG.permutation(150)[:60]] += 1.0
    chances = []
    for scores in NEW:
        items = np.concatenate([RNG.permutation(150)[:50], 150 + RNG.permutation(150)[:50]])
        chances.append(gain_on_shown_items(bank, part(scores, items), times, KNOWN)[1])
        cheat = part(np.where(times > 0, 1.0, scores), items)
        gain, chance = gain_on_shown_items(bank, cheat, times, KNOWN)
        if scores.mean() < 0.5:  # who is right anyway gains nothing
            assert gain > 0.2 and chance < 1e-3
    assert min(chances) > 1e-3
    assert gain_on_shown_items(bank, part(NEW[0], items[:10]), times, KNOWN) == (0.0, 1.0)


@pytest.mark.long
def test_place_add_and_check_warn_of_a_copy(world, board, tmp_path, ccat):
    table = ScoreTable.read(world.scores(tmp_path / "m.parquet", ["m04"]))
    replace(table, row_model=("copy/of-m04",)).write(tmp_path / "copy.parquet")
    half = np.arange(0, 120, 2)
    some = replace(table.take(half), row_model=("part/of-m04",), task=TASK)
    some.write(tmp_path / "part.parquet")
    said = ccat("board", "add", board.path, tmp_path / "copy.parquet").err
    assert "copy/of-m04: its scores equal those of m04 on 120 of 120 documents in common" in said
    out, said = ccat("board", "place", board.path, tmp_path / "part.parquet")
    assert re.search(r"part/of-m04: ≈ \S+ \(\S+ to \S+, 60 of 120 documents asked\), rank", out)
    [line] = [text for text in said.splitlines() if "part/of-m04: its scores equal those" in text]
    assert {" m04 on 60 of 60", " copy/of-m04 on 60 of 60"} <= set(
        re.findall(r" \S+ on 60 of 60", line)
    )
    publish(board, tmp_path / "site")
    table = (tmp_path / "site" / "board.csv").read_text().splitlines()
    marked = {line.split(",")[3]: line.rpartition(",")[2] for line in table[1:]}
    assert {*marked["part/of-m04"].split("; ")} == {"m04", "copy/of-m04"}
    assert {name for name, twins in marked.items() if twins} == {"m04", *suspicions(board)}
    # The later of two is said to be like the earlier, and that once.
    checked = ccat("board", "check", board.path).err
    alike = re.findall(r"warning: (\S+): its scores equal those of (.*) documents", checked)
    assert {model: set(re.findall(r"(\S+) on", peers)) for model, peers in alike} == {
        "copy/of-m04": {"m04"}, "part/of-m04": {"m04", "copy/of-m04"},
    }  # fmt: skip


@pytest.mark.long
def test_a_placed_model_under_another_name_is_known_by_its_answers(world, board, ccat):
    """Its scores are on other items in part; its mistakes are the same, word for word."""
    config = world.config(["m03", "m09"], of={"m03": {"name": "weak"}, "m09": {"name": "able"}})
    ccat("board", "place", board.path, config)
    other = {"of": {"m03": {"name": "new"}}, "model_args": {"max_length": 2048}}
    config = world.config(["m03"], name="again", **other)
    said = ccat("board", "place", board.path, config).err
    [line] = [line for line in said.splitlines() if "word for word" in line]
    assert (
        line.startswith("warning: new: ")
        and "answers that are not fully right are those of weak" in line
    )
    found = suspicions(board)
    assert set(found) == {"new"}


def test_models_that_err_in_the_only_way_there_is_are_no_copies():
    """Of a question with two answers, both wrong answers are the same."""
    able, weak = ({("t", n): "it is no" * (n < wrong) for n in range(90)} for wrong in (30, 60))
    assert same_texts(able, {"weak": weak}) == same_texts(weak, {"able": able}) == ""
    assert same_texts(weak, {"able": able, "again": weak}).startswith("60 of 60 answers")


def test_the_page_counts_one_estimate_and_one_model_in_the_singular(tmp_path):
    bank = ItemBank.blank(range(50), task="t", metric="acc")
    SuiteBank({"t": bank}).save(tmp_path / "suite")
    board = init(tmp_path / "board", tmp_path / "suite")
    (board.path / "evidence.txt").write_text("answers")
    proof = "evidence.txt", sha256_of(board.path / "evidence.txt")
    score = TaskScore(0.5, 0.4, 0.6, 20, 50, "acc,none", *proof, bank=bank.sha256)
    row = BoardRow("a", "estimate", 0.5, 0.4, 0.6, {"t": score}, "2026-01-31", confidence=0.95)
    board.ledger.append([replace(row, shares={"t": 1.0}, asked={"t": list(range(20))})])
    page = publish(board.path, tmp_path / "site")[0].read_text()
    assert "≈ marks 1 estimate from" in page
    assert "the most used was shown to 1 model, and 30 to none" in page

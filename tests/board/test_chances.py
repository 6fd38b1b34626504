"""Chances by which a board suspects a row, against what they are by enumeration."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import beta

from lm_eval_ccat import ItemBank, ScoreTable, calibrate
from lm_eval_ccat.board import cheats
from lm_eval_ccat.board.cheats import PeerScores, alike_in_words, gain_on_shown_items
from lm_eval_ccat.board.ledger import BoardRow, TaskScore
from lm_eval_ccat.methods.curves import fit_abilities
from lm_eval_ccat.methods.method import method_of
from lm_eval_ccat.records import Item, Tell


@pytest.fixture(scope="module")
def bank() -> ItemBank:
    rng = np.random.default_rng(1)
    p = 1 / (1 + np.exp(-rng.normal(size=(30, 1)) - rng.normal(size=60)))
    right = (rng.uniform(size=p.shape) < p).astype(float)
    return calibrate(ScoreTable.from_arrays(right, [f"m{n}" for n in range(30)]), "default")


def answers(bank, seed):
    return (np.random.default_rng(seed).uniform(size=bank.n_items) < 0.6).astype(float)


def like(bank, new, known):
    return PeerScores({"t": bank}, {m: {"t": s} for m, s in known.items()}).like({"t": new})


@pytest.mark.parametrize("changed", [0, 1, 3])
def test_the_chance_is_that_of_one_s_own_errors_over_that_of_a_changed_copy(bank, changed):
    """A copy has the known model's scores but on a share of items, 1 in 20 of them on average."""
    known = answers(bank, 3)
    new = np.where(np.arange(60) < changed, 1.0 - known, known)
    known[55:] = np.nan  # only items of both count
    [found] = like(bank, new, {"known": known, "other": 1.0 - known})
    curves = method_of(bank).curves(bank)
    right = np.clip(curves.expected(fit_abilities(curves, new[None]))[0], 0.02, 0.98)
    by_itself = np.prod(np.where(new == 1.0, right, 1.0 - right)[:55])
    copied = quad(lambda e: beta(1, 19).pdf(e) * e**changed * (1 - e) ** (55 - changed), 0.0, 1.0)
    assert found.chance == pytest.approx(2 * by_itself / copied[0], rel=1e-6, abs=0.0)  # of two
    assert (found.model, found.same, found.items) == ("known", 55 - changed, 55)
    assert found.expected == pytest.approx(np.where(known == 1.0, right, 1.0 - right)[:55].sum())


@pytest.mark.long
def test_chance_names_no_model_that_errs_by_itself(bank):
    """Every model that the bank's own curves draw is compared with every known one."""
    rng, curves = np.random.default_rng(8), method_of(bank).curves(bank)
    expected = curves.expected(np.linspace(-2.0, 2.0, 60))
    known, *draws = (rng.uniform(size=(12, *expected.shape)) < expected).astype(float)
    among = PeerScores({"t": bank}, {f"m{n}": {"t": row} for n, row in enumerate(known)})
    assert not any(among.like({"t": new}) for draw in draws for new in draw)


@pytest.mark.long
def test_relatives_are_not_alike_however_many_items_show_that_they_share_errors():
    """Half of the errors of two models in common are beyond chance, and not a copy's."""
    rng = np.random.default_rng(2)
    ease = rng.normal(size=3000)
    p = 1 / (1 + np.exp(-rng.normal(size=(20, 1)) - ease))
    right = (rng.uniform(size=p.shape) < p).astype(float)
    bank = calibrate(ScoreTable.from_arrays(right, [f"m{n}" for n in range(20)]), "default")

    def relative(share):
        again = (rng.uniform(size=3000) < p[0]).astype(float)
        return np.where(rng.uniform(size=3000) < share, right[0], again)

    assert like(bank, relative(0.5), {"base": right[0]}) == []
    [found] = like(bank, relative(0.9), {"base": right[0]})
    assert found.chance <= 1e-100  # no less is said


def test_scores_between_0_and_1_are_equal_by_chance_at_one_item_of_ten(bank):
    known = np.random.default_rng(1).uniform(0.1, 0.9, bank.n_items)
    [found] = like(bank, np.where(np.arange(60) < 7, known, np.nan), {"known": known})
    assert (found.same, found.items) == (7, 7) and found.expected == pytest.approx(0.7)
    assert like(bank, known + 1e-3, {"known": known}) == []
    assert like(bank, known + 1e-9, {"known": known})  # as a file of fewer decimals has it


def test_a_chance_is_shared_among_all_the_models_that_might_be_alike(bank):
    """What is no chance beside one model is one beside a thousand."""
    scores, others = answers(bank, 3), {f"o{k}": 1 - answers(bank, 3) for k in range(1000)}
    for n in range(1, 60):
        first = np.where(np.arange(60) < n, scores, np.nan)
        if alone := like(bank, first, {"twin": first}):
            break
    assert "equal those of twin on" in alike_in_words(alone) and 1e-9 < alone[0].chance < 1e-6
    assert like(bank, first, {"twin": first, **others}) == []


def test_what_no_task_shows_alone_several_show_together(bank):
    known = answers(bank, 3)
    some = {"t": np.where(np.arange(60) < 15, known, np.nan), "u": np.where(np.arange(60) < 45,
            np.nan, known)}  # fmt: skip
    among = PeerScores({"t": bank, "u": bank}, {"twin": dict.fromkeys("tu", known)})
    assert not any(among.like({task: scores}) for task, scores in some.items())
    [found] = among.like(some)
    assert (found.model, found.same, found.items) == ("twin", 30, 30)


def test_items_shown_as_often_as_the_median_count_with_the_others(bank):
    """Half of the items were shown once and half never, but for one that was shown twice."""
    known = np.stack([answers(bank, seed) for seed in range(20, 40)])
    scores = answers(bank, 5)
    times = np.array([1.0] * 45 + [2.0] * 15)
    scores[45:] = 1.0
    gain, p = gain_on_shown_items(bank, scores, times, known)
    assert gain > 0.1 and p < 0.5
    times[:] = 1.0
    assert gain_on_shown_items(bank, scores, times, known) == (0.0, 1.0)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), True, "0.5", None])
def test_what_is_no_number_is_no_score_of_a_row(value):
    of_task = TaskScore(0.5, 0.5, 0.5, 9, 9, "acc,none", "scores/0.t.parquet", "ab")
    row = BoardRow("a", "full", 0.5, 0.5, 0.5, {"t": of_task}, "2026-01-31").to_dict()
    assert BoardRow.from_dict(json.loads(json.dumps(row))).score == 0.5
    with pytest.raises(ValueError, match="score"):
        BoardRow.from_dict({**row, "score": value})


def test_of_several_tasks_one_looks_odd_by_accident_more_often(bank, monkeypatch):
    monkeypatch.setattr(cheats, "gain_on_shown_items", lambda *_: (0.31, 0.6e-3))
    for tasks, told in (("t", True), ("tu", False)):
        new = {task: answers(bank, 1) for task in tasks}
        said = cheats.knew_items(dict.fromkeys(tasks, bank), new, {}, {})
        assert ("it scores 0.31 more on the items of t" in said) == told


def test_a_document_was_known_or_not_as_the_first_answer_says(monkeypatch):
    records = [
        Tell(model="m", item=Item(("t", 0, *repeat)), score=score, responses=[[text]])
        for repeat, score, text in (((), 1.0, "right"), ((2,), 0.0, "wrong, at some length"))
    ]
    journal = SimpleNamespace(header=None)
    monkeypatch.setattr(cheats, "read_journal", lambda path: (journal, records))
    monkeypatch.setattr(cheats, "bank_hashes_of", lambda header: {"t": ""})
    board = SimpleNamespace(path=Path(), banks={"t": ItemBank.blank(range(2), task="t")})
    row = SimpleNamespace(in_journal="", model="m", evidence=["journal"])
    answers = cheats._answers(board, row)
    assert answers.scores["t"][0] == 1.0 and answers.texts == {("t", 0): ""}


def test_a_model_may_have_learned_what_was_shown_before_it_and_not_what_itself_was_shown(
    monkeypatch,
):
    asked = {"first": [0], "second": [0, 1]}
    rows = [
        BoardRow(name, "estimate", 0.5, 0.4, 0.6, {}, "2026-01-31", asked={"t": items})
        for name, items in asked.items()
    ]
    answers = {name: cheats.PlacedAnswers({}, {}) for name in asked}
    scores = SimpleNamespace(full={}, by_model={}, answers=answers)
    shown = []
    monkeypatch.setattr(cheats._BoardScores, "of", lambda board, rows: scores)
    placed = [SimpleNamespace(row=row) for row in rows]
    monkeypatch.setattr(cheats, "standing", lambda board: SimpleNamespace(placed=placed))
    monkeypatch.setattr(cheats, "knew_items", lambda *args: shown.append(args[-1]) or "")
    ledger = SimpleNamespace(rows=lambda: rows)
    assert cheats.suspicions(SimpleNamespace(banks={}, ledger=ledger)) == {}
    assert shown == [{}, {"t": {0: 1}}]

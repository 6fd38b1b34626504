"""Chances by which a board suspects a row, against what they are by enumeration."""

from __future__ import annotations

import json

import numpy as np
import pytest

from lm_eval_ccat import ItemBank, ScoreTable, calibrate
from lm_eval_ccat.board.cheats import alike, equal_chance, known_items
from lm_eval_ccat.board.ledger import BoardRow, TaskScore
from lm_eval_ccat.methods.curves import fit_abilities
from lm_eval_ccat.methods.method import method_of


@pytest.fixture(scope="module")
def bank() -> ItemBank:
    rng = np.random.default_rng(1)
    p = 1 / (1 + np.exp(-rng.normal(size=(30, 1)) - rng.normal(size=60)))
    right = (rng.uniform(size=p.shape) < p).astype(float)
    return calibrate(ScoreTable.from_arrays(right, [f"m{n}" for n in range(30)]), "default")


def answers(bank, seed):
    return (np.random.default_rng(seed).uniform(size=bank.n_items) < 0.6).astype(float)


def test_two_models_are_alike_if_both_are_right_or_both_are_wrong(bank):
    scores = answers(bank, 3)
    scores[10:] = np.nan
    curves = method_of(bank).curves(bank)
    theta = fit_abilities(curves, np.stack([scores, scores]))
    a, b = np.clip(curves.expected(theta)[:, :10], 0.01, 0.99)
    by_enumeration = sum(
        np.prod(np.where(both, a * b, (1 - a) * (1 - b)))
        for both in (np.array([n >> k & 1 for k in range(10)], bool) for n in range(1024))
    )
    assert equal_chance(bank, scores, scores) == pytest.approx(by_enumeration)
    other = scores.copy()
    other[4] = 1 - other[4]
    assert equal_chance(bank, scores, other) == 1.0


def test_a_chance_is_shared_among_all_the_models_that_might_be_alike(bank):
    """What is no chance beside one model is one beside a thousand."""
    scores = answers(bank, 3)
    for n in range(1, 60):
        first = np.where(np.arange(60) < n, scores, np.nan)
        if equal_chance(bank, first, first) < 1e-7:
            break
    chance = equal_chance(bank, first, first)
    assert 1e-9 < chance < 1e-6
    different = {f"o{k}": {"t": 1 - first} for k in range(1000)}
    assert "equal those of twin" in alike({"t": bank}, {"t": first}, {"twin": {"t": first}})
    among = {"twin": {"t": first}, **different}
    assert alike({"t": bank}, {"t": first}, among) == ""


def test_items_shown_as_often_as_the_median_count_with_the_others(bank):
    """Half of the items were shown once and half never, but for one that was shown twice."""
    known = np.stack([answers(bank, seed) for seed in range(20, 40)])
    scores = answers(bank, 5)
    times = np.array([1.0] * 45 + [2.0] * 15)
    scores[45:] = 1.0
    gain, p = known_items(bank, scores, times, known)
    assert gain > 0.1 and p < 0.5
    times[:] = 1.0
    assert known_items(bank, scores, times, known) == (0.0, 1.0)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), True, "0.5", None])
def test_what_is_no_number_is_no_score_of_a_row(value):
    of_task = TaskScore(0.5, 0.5, 0.5, 9, 9, "acc,none", "scores/0.t.parquet", "ab")
    row = BoardRow("a", "full", 0.5, 0.5, 0.5, {"t": of_task}, "2026-01-31").to_dict()
    assert BoardRow.from_dict(json.loads(json.dumps(row))).score == 0.5
    with pytest.raises(ValueError, match="score"):
        BoardRow.from_dict({**row, "score": value})

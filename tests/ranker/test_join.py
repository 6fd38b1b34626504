"""The running test of a bank's join: a bank that says nothing about its documents is set aside."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from worlds.boards import draw

from lm_eval_ccat import ItemBank, Ranker, ScoreTable, calibrate
from lm_eval_ccat.methods.curves import STRAIGHT, Curves
from lm_eval_ccat.ranker import join
from lm_eval_ccat.ranker.join import FEWEST, fault_of, join_of

SCORES = draw(np.linspace(-1.5, 1.5, 14), 300, seed=4)
TESTED = {f"m{n}": SCORES[n] for n in (2, 6, 11)}


@cache
def bank_of(method="default"):
    rest = [n for n in range(14) if f"m{n}" not in TESTED]
    table = ScoreTable.from_arrays(SCORES[rest], [f"m{n}" for n in rest], task="t")
    return calibrate(table, method)


def shuffled(bank, seed=0):
    """The bank, its parameters joined to other items."""
    order = np.random.default_rng(seed).permutation(bank.n_items)
    moved = {
        name: values[order] if len(values) == bank.n_items else values
        for name, values in bank.parameters.items()
    }
    return replace(bank, parameters=moved, kept=bank.kept[order], doc_hashes=None)


def drive(ranker, most=120):
    calls = []
    while not ranker.done and len(calls) < 3 * most:
        for model, item in ranker.ask(2):
            ranker.tell(model, item, TESTED[model][item])
            calls.append((model, item))
    return calls


@pytest.mark.long
def test_a_shuffled_bank_is_set_aside_by_name_and_a_right_one_never():
    right = bank_of()
    options = {"models": list(TESTED), "confidence": 0.999, "max_items": 120}
    ranker = Ranker(right, **options)
    drive(ranker)
    assert not ranker.join.findings and ranker.bank is right
    ranker = Ranker(shuffled(right), **options)
    asked = drive(ranker)
    [finding] = ranker.join.findings
    assert "without the bank of t, which says nothing about its documents" in finding
    assert ranker.bank.method == "sample"
    result = ranker.result()
    assert all(finding in rows for rows in result.findings.values())
    assert result.order == ["m11", "m6", "m2"]
    items = {(model, item) for model, items in result.items.items() for item in items}
    assert items == set(asked), "no answer is lost"


@pytest.mark.long
def test_which_model_had_an_item_is_no_evidence_for_a_bank():
    """Joined at random, the correlation's z has mean 0 and variance 1, however far models differ.

    Poor models have nearly equal scores, able ones a few high ones, and so have expected scores.
    """
    rng, items, z = np.random.default_rng(0), 120, []
    for _ in range(300):
        ease = np.column_stack([rng.normal(0.0, 1.5, items), np.ones(items)])
        curves = Curves(ease, np.ones(items), STRAIGHT, centre=0.0)
        chances = curves.expected(np.array([-1.5, -3.5, -5.0]))[:, rng.permutation(items)]
        scores, order = np.full((3, items), np.nan), rng.permutation(items)
        for model in range(3):
            asked = np.append(order[:15], order[15 * (model + 1) : 15 * (model + 2)])
            scores[model, asked] = rng.random(30) < chances[model, asked]
        join = join_of(curves, scores)
        z.append(math.atanh(join.correlation) * math.sqrt(join.n - 3))
    assert abs(np.mean(z)) < 0.25 and 0.85 < np.std(z) < 1.15


@pytest.mark.long
def test_one_model_alone_may_be_the_odd_one():
    ranker = Ranker(shuffled(bank_of()), ["m6"], max_items=120)
    drive(ranker)
    [finding] = ranker.result().findings["m6"][:1]
    assert "do not fit, or it is joined to other documents" in finding
    assert ranker.bank.method == "default"


@pytest.mark.long
def test_a_journal_of_the_calls_rebuilds_a_ranking_that_set_its_bank_aside():
    bank = shuffled(bank_of())
    ranker = Ranker(bank, list(TESTED), max_items=60, confidence=0.999)
    other = Ranker(bank, list(TESTED), max_items=60, confidence=0.999)
    while not ranker.done:
        pairs = ranker.ask(3)
        other.impose([(m, item, ranker.probability(m, item)) for m, item in pairs])
        for model, item in pairs:
            for twin in (ranker, other):
                twin.tell(model, item, TESTED[model][item])
    assert ranker.join.findings == other.join.findings != []
    assert ranker.result().estimates == other.result().estimates
    assert ranker.probability(*pairs[-1]) == other.probability(*pairs[-1])


@pytest.mark.long
def test_failures_money_and_models_that_join_survive_the_bank():
    ranker = Ranker(shuffled(bank_of()), {"m2": 1.0, "m6": 2.0}, confidence=0.999, budget=900.0)
    ranker.change(add={"m11": 0.5})
    ranker.lose(3.0)
    [(model, item)] = ranker.ask(1)
    ranker.fail(model, item, "refused", cost=0.25)
    spent = 0.25
    prices = {"m2": 1.0, "m6": 2.0, "m11": 0.5}
    while not ranker.join.findings:
        for name, at in ranker.ask(2):
            ranker.tell(name, at, TESTED[name][at])
            spent += prices[name]
    assert ranker.spent == pytest.approx(spent) and ranker.budget == 897.0
    assert ranker.result().failed[model] == {item: "refused"}


@pytest.mark.long
def test_scores_that_do_not_vary_and_a_blank_bank_prove_nothing():
    ranker = Ranker(bank_of(), ["a", "b"], max_items=60, confidence=0.999)
    for model, item in ((m, i) for i in range(60) for m in ("a", "b")):
        if ranker.bank.kept[ranker.bank.index[item]]:
            ranker.tell(model, item, 0.5)
    assert not ranker.join.findings
    blank = Ranker(ItemBank.blank(range(300)), list(TESTED), max_items=60, confidence=0.999)
    drive(blank, 60)
    assert not blank.join.findings


def test_a_bank_is_tested_at_every_fifth_item(monkeypatch):
    """At every answer, a right bank would be set aside by chance five times as often."""
    tested = []

    def counting(curves, scores):
        tested.append(int(np.isfinite(scores).any(axis=0).sum()))
        return join_of(curves, scores)

    monkeypatch.setattr(join, "join_of", counting)
    # Every other score is another item's, so that the bank is neither trusted nor set aside.
    own = TESTED["m2"]
    scores = np.where(np.arange(len(own)) % 2, own, np.roll(own, 150))
    ranker = Ranker(bank_of(), ["m2"])
    for item in range(46):
        ranker.tell("m2", item, scores[item])
    assert tested == [FEWEST, 25, 30, 35, 40, 45]


@pytest.mark.parametrize(("shift", "place"), [(-1, "after"), (1, "before")])
def test_scores_that_stand_a_document_off_are_said_to_be_those_of_the_next(shift, place):
    scores = np.roll(np.array(list(TESTED.values())), shift, axis=1)
    words = fault_of(bank_of("paper"), scores).words
    assert words.startswith("the scores are joined to the wrong documents")
    assert f"as scores of the documents {place} theirs" in words

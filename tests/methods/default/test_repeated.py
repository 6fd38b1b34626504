"""The method "default" where answers are repeated: the bank leads the first pass."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from worlds.boards import bank_of

from lm_eval_ccat import ItemBank, Ranker, ScoreTable, calibrate
from lm_eval_ccat.errors import BankError
from lm_eval_ccat.methods.method import method_of

N_ITEMS, REPEATS, NAMES = 12, 3, ("a", "b", "c")


def probabilities(n_models: int, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    ease = np.random.default_rng(0).normal(0.0, 1.5, N_ITEMS)
    return 1.0 / (1.0 + np.exp(-rng.normal(size=(n_models, 1)) - ease))


@pytest.fixture(scope="module")
def bank() -> ItemBank:
    p = probabilities(12, 1)
    right = (np.random.default_rng(2).random(p.shape) < p) * 1.0
    return calibrate(ScoreTable.from_arrays(right, [f"m{number}" for number in range(12)]))


#: Scores by (model, repeat, item).
ANSWERS = (
    np.random.default_rng(4).random((len(NAMES), REPEATS, N_ITEMS))
    < probabilities(len(NAMES), 3)[:, None]
) * 1.0


def told(ranker: Ranker, most: int = 999, fails: Any = lambda model, item, repeat: False) -> list:
    """Answer what is asked, and return it in order: model, item, repeat."""
    had = Counter((m, i) for m, items in ranker.result().items.items() for i in items)
    asked: list[tuple[str, int, int]] = []
    while not ranker.done and len(asked) < most:
        for model, item in ranker.ask():
            had[model, item] += 1
            repeat = had[model, item]
            asked.append((model, item, repeat))
            if fails(model, item, repeat):
                ranker.fail(model, item, "HTTP 500")
            else:
                ranker.tell(model, item, ANSWERS[NAMES.index(model), repeat - 1, item])
    return asked


@pytest.mark.long
def test_the_first_pass_is_that_of_single_sampled_answers(bank) -> None:
    single = Ranker(bank, ["a", "b"], sampled=True, stop="limits", seed=3)
    ranker = Ranker(bank, ["a", "b"], repeats=REPEATS, stop="limits", seed=3)
    for _ in range(N_ITEMS - 1):
        assert told(ranker, 2) == told(single, 2)
        assert (ranker.belief().variance == single.belief().variance).all()
        assert ranker.result().estimates == single.result().estimates


@pytest.mark.long
def test_all_answers_are_compared_as_without_a_bank(bank) -> None:
    ranker = Ranker(bank, ["a", "b"], repeats=REPEATS, stop="limits")
    without = Ranker(ItemBank.blank(range(N_ITEMS)), ["a", "b"], repeats=REPEATS, stop="limits")
    asked = told(ranker)
    told(without)
    assert len(asked) == 2 * N_ITEMS * REPEATS
    for figure in ("location", "variance", "df", "n", "zero_loss"):
        found, expected = getattr(ranker.belief(), figure), getattr(without.belief(), figure)
        assert found.ravel().tolist() == pytest.approx(expected.ravel().tolist()), figure
    assert ranker.belief().location.tolist() == pytest.approx(ANSWERS[:2].mean(axis=(1, 2)))
    by_pass = [{(m, i) for m, i, repeat in asked if repeat == r} for r in range(1, REPEATS + 1)]
    assert all(len(slots) == 2 * N_ITEMS for slots in by_pass)
    assert "scatter" in ranker.result().to_dict()["models"]["a"]


@pytest.mark.long
def test_models_that_are_through_the_first_pass_are_compared_by_all_answers(bank) -> None:
    """A third that joins is beside both by the bank, until it is through as well."""
    ranker = Ranker(bank, ["a", "b"], repeats=REPEATS, stop="limits")
    told(ranker)
    before = float(ranker.belief().variance[0, 1])
    ranker.change(add={"c": 1.0})
    told(ranker, 5)
    assert float(ranker.belief().variance[0, 1]) == before
    assert float(ranker.belief().n[0, 2]) <= 5.0
    single = Ranker(bank, ["a", "b"], sampled=True, stop="limits")
    told(single)
    single.change(add={"c": 1.0})
    told(single, 5)  # what the bank says of the pair is the same
    assert ranker.belief().variance[0, 2] == pytest.approx(single.belief().variance[0, 2])
    told(ranker)
    together = Ranker(bank, NAMES, repeats=REPEATS, stop="limits")
    told(together)
    assert ranker.belief().variance == pytest.approx(together.belief().variance)


def test_a_failed_answer_ends_the_first_pass_all_the_same(bank) -> None:
    ranker = Ranker(bank, ["a", "b"], repeats=REPEATS, stop="limits")
    asked = told(ranker, fails=lambda model, item, repeat: (model, item, repeat) == ("a", 5, 1))
    assert len(asked) == 2 * N_ITEMS * REPEATS
    answers = ANSWERS[0].copy()
    answers[0, 5] = np.nan
    mean = float(np.nanmean(answers, axis=0).mean())
    assert ranker.belief().location[0] == pytest.approx(mean)


@pytest.mark.long
def test_a_ranking_is_rebuilt_and_raised(bank) -> None:
    ranker, again = (Ranker(bank, ["a", "b"], repeats=2, stop="limits", seed=s) for s in (5, 6))
    had: Counter = Counter()
    while not ranker.done:
        for model, item in ranker.ask():
            had[model, item] += 1
            repeat = had[model, item]
            drawn = ranker.probability(model, item, repeat)
            again.impose([(model, item, drawn)])
            for side in (ranker, again):
                side.tell(model, item, ANSWERS[NAMES.index(model), repeat - 1, item])
    assert (ranker.belief().variance == again.belief().variance).all()
    ranker.change(repeats=REPEATS)
    told(ranker)
    whole = Ranker(bank, ["a", "b"], repeats=REPEATS, stop="limits", seed=5)
    told(whole)
    assert ranker.belief().variance == pytest.approx(whole.belief().variance)


# -- what a bank of repeated answers knows ---------------------------------------------------------

#: Items, models of the bank and new ones, and answers of each of the former to an item.
MANY, KNOWN, NEW, ANSWERED = 60, 24, 40, 4


def unlike(n_models: int, seed: int) -> np.ndarray:
    """Chances of models that agree on few items, so that little of their scores is noise."""
    rng = np.random.default_rng(seed)
    ease = np.random.default_rng(1).normal(0.0, 1.0, MANY)
    apart = rng.normal(size=(n_models, 1)) + rng.normal(0.0, 3.0, (n_models, MANY))
    return 1.0 / (1.0 + np.exp(-apart - ease))


def answered(p: np.ndarray, rows: int, seed: int, copied: bool = False) -> ScoreTable:
    drawn = np.random.default_rng(seed).random((1 if copied else rows, *p.shape)) < p
    scores = np.broadcast_to(drawn, (rows, *p.shape)).reshape(-1, MANY) * 1.0
    models = [f"m{model}" for model in range(len(p))] * rows
    configs = [f"repeat {row // len(p) + 1}" for row in range(len(models))]
    return ScoreTable.from_arrays(scores, models, configs=configs if rows > 1 else None)


@pytest.fixture(scope="module")
def measured() -> ItemBank:
    return calibrate(answered(unlike(KNOWN, 5), ANSWERED, 6))


def after_all_items(bank: ItemBank, p: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Errors of pairs' differences, and the standard errors stated for them."""
    right = (np.random.default_rng(8).random(p.shape) < p) * 1.0
    ranker = Ranker(bank, [f"n{model}" for model in range(len(p))], sampled=True)
    for model, item in np.ndindex(right.shape):
        ranker.tell(f"n{model}", item, right[model, item])
    belief = ranker.belief()
    first, second = np.arange(0, len(p), 2), np.arange(1, len(p), 2)
    error = belief.location - p.mean(axis=1)
    return error[first] - error[second], np.sqrt(belief.variance[first, second])


@pytest.mark.long
def test_a_bank_of_repeated_answers_knows_what_single_ones_leave_in_noise(measured) -> None:
    p = unlike(NEW, 7)
    error, stated = after_all_items(measured, p)
    exact = np.sqrt((p * (1.0 - p)).sum(axis=1).reshape(-1, 2).sum(axis=1)) / MANY
    assert 1.0 < (stated / exact).mean() < 1.3
    assert np.sqrt((error**2 / stated**2).mean()) < 1.2
    of_single = calibrate(answered(unlike(KNOWN, 5), 1, 6))
    assert after_all_items(of_single, p)[1].mean() > 1.08 * stated.mean()


@pytest.mark.long
def test_models_less_sure_than_those_of_a_bank_count_most_of_what_differs_as_noise() -> None:
    """The noise of models that know says nothing of models that guess."""
    sure = 1.0 / (1.0 + (1.0 / unlike(KNOWN, 5) - 1.0) ** 4)
    p = 0.5 + 0.2 * (unlike(NEW, 7) - 0.5)
    exact = np.sqrt((p * (1.0 - p)).sum(axis=1).reshape(-1, 2).sum(axis=1)) / MANY
    assert (after_all_items(calibrate(answered(sure, ANSWERED, 6)), p)[1] / exact).mean() > 0.8


def test_the_noise_of_a_bank_is_kept_in_its_file_and_checked(measured, tmp_path) -> None:
    measured.save(tmp_path / "bank.json")
    again = ItemBank.load(tmp_path / "bank.json")
    assert (again.parameters["within"] == measured.parameters["within"]).all()
    bad = replace(again, parameters={**again.parameters, "within": -again.parameters["within"]})
    with pytest.raises(BankError, match="noise within items"):
        Ranker(bad, ["a", "b"], sampled=True)


@pytest.mark.long
@pytest.mark.parametrize(("rows", "copied"), [(1, False), (3, True)])
def test_single_answers_and_copies_tell_no_noise(rows: int, copied: bool) -> None:
    table = answered(unlike(4, 5), rows, 6, copied)
    assert "within" not in calibrate(table).parameters


@pytest.mark.long
def test_the_noise_of_an_item_is_its_own() -> None:
    """Half of the items are guessed anew at each answer; on the others a model is always sure."""
    p = np.random.default_rng(9).random((KNOWN, MANY))
    p = np.where(np.arange(MANY) < MANY // 2, 0.5, p > 0.5)
    within = calibrate(answered(p, ANSWERED, 6)).parameters["within"]
    assert within[: MANY // 2].min() > 0.7 and within[MANY // 2 :].max() < 0.4


@pytest.mark.long
def test_a_repeat_that_is_in_flight_is_no_answer_of_the_first_pass():
    """What an item's second answer will tell, no item of the first pass need leave to it."""
    bank, n = bank_of("default"), 80
    available = np.arange(2 * n) != 7

    def choices(*pending):
        policy = method_of(bank).rank(bank, 2, seed=0, min_difference=0.0, sampled=True, repeats=2)
        chosen = policy.next(0, available, list(pending), np.ones(2 * n), 30)
        return [choice.item for choice in chosen]

    first = choices()
    assert choices(*(item + n for item in first[:3])) == first != choices(*first[:3])

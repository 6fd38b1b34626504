"""With many models turns are decided on a look at all of them that is some answers old."""

from dataclasses import replace

import numpy as np
import pytest
from worlds.boards import bank_of, draw

from lm_eval_ccat import Ranker
from lm_eval_ccat.methods.belief import Belief, References
from lm_eval_ccat.methods.default.field import Moments
from lm_eval_ccat.ranker import turns
from lm_eval_ccat.ranker.looks import Looks

NAMES = "abcdefgh"
SCORES = draw(np.linspace(-1, 1, 8), 80, 5, noise=0.8)


@pytest.fixture(autouse=True)
def eight_are_many(monkeypatch):
    monkeypatch.setattr(turns, "FEW", 5)
    monkeypatch.setattr(turns, "SHARE_PER_LOOK", 2)  # a look after each fourth answer


def ranker(method: str = "default", **more) -> Ranker:
    return Ranker(bank_of(method), dict.fromkeys(NAMES, 1.0), warmup=4, seed=2, **more)


def told(made: Ranker, model: str, item: int) -> None:
    made.tell(model, item, float(SCORES[NAMES.index(model), item]))


def look_at(made: Ranker) -> None:
    assert made.done in (False, True)
    made.result(), made.estimate("a"), made.belief()


def test_a_look_is_taken_after_so_many_answers(monkeypatch):
    made, answers = ranker(stop="limits", budget=80), 0
    taken, result = [], Moments.result
    monkeypatch.setattr(Moments, "result", lambda *given: taken.append(1) or result(*given))
    while not made.done:
        for model, item in made.ask():
            told(made, model, item)
            answers += 1
    assert answers == 80 and len(taken) == 1 + (80 - 32) // 4


def test_few_models_are_looked_at_once_each_has_answered_and_after_the_last_answer(monkeypatch):
    """A pair counts the items that both have; a limit may end the ranking in between."""
    monkeypatch.setattr(turns, "FEW", 50)
    monkeypatch.setattr(turns, "SHARE_PER_LOOK", 5)
    made = Ranker(bank_of("default"), list("abc"), warmup=4, budget=53, seed=2)
    taken, after = [], Looks.after
    monkeypatch.setattr(Looks, "after", lambda *given: taken.append(len(told)) or after(*given))
    told = []
    while not made.done:
        for model, item in made.ask():
            told.append(model)
            made.tell(model, item, float(SCORES[0, item]))  # equal models, so that all stay open
    assert taken == [*range(12, 53, 3), 53]


@pytest.mark.parametrize("method", ["default", "sample"])
@pytest.mark.parametrize("n_tasks", [1, 2])
def test_looks_at_pairs_are_as_rare_whatever_the_method_and_the_score(method, n_tasks, monkeypatch):
    """A verdict needs a look, and `paper` alone, which is as published, takes one every time."""
    banks = {f"t{number}": bank_of(method) for number in range(n_tasks)}
    made = Ranker(banks, list(NAMES), warmup=2, budget=80.0, seed=2)
    answers, taken, after = 0, [], Looks.after
    monkeypatch.setattr(Looks, "after", lambda *given: taken.append(answers) or after(*given))
    while not made.done:
        for model, (task, item) in made.ask():
            answers += 1
            made.tell(model, (task, item), float(SCORES[NAMES.index(model), item]))
    first = 2 * len(NAMES) * n_tasks
    assert len(taken) > 8 and taken == list(range(first, answers + 1, 4))


@pytest.mark.parametrize("known", [(), (0.4, 0.6)])
def test_looks_hold_the_largest_evidence_of_every_pair_in_both_of_its_places(known):
    """From scratch: all pairs of all beliefs, though an answer changes few and each is judged once.

    The second figures are those of the same pairs turned round: better is worse.
    """
    rng, errors = np.random.default_rng(3), np.full(6, 0.2)
    means, counts, references = rng.random(6), np.full(6, 10.0), None
    if known:
        nothing = np.zeros(len(known))
        references = References(("x", "y"), np.array(known), nothing, np.array(known), nothing)
    looks, largest = Looks(horizons=(60,)), np.zeros((3, 6, 6 + len(known)))
    for answer in range(60):
        model = answer % 5  # the sixth model gets none
        errors[model], counts[model] = 0.2 / (1 + answer // 5), counts[model] + 1.0
        means[model] = np.clip(means[model] + rng.normal(0.0, 0.3 * errors[model]), 0.0, 1.0)
        belief = Belief.independent(means.copy(), errors, n=counts, n_items=500)
        belief = replace(belief, references=references)
        looks = looks.after(belief, 0.05, 0.1)
        i, j = np.indices(largest.shape[1:]).reshape(2, -1)
        look = np.where(i == j, 0.0, looks.evidence_at(belief, i, j, 0.05, 0.1))
        largest = np.maximum(largest, look.reshape(largest.shape))
    assert looks.evidence is not None
    assert np.array_equal(np.array(looks.evidence), largest)
    better, worse, close = looks.evidence
    assert np.array_equal(better[:, :6], worse[:, :6].T) and (better > 0.0).sum() > 5
    assert (close > 0.0).any() and np.array_equal(close[:, :6], close[:, :6].T)


def test_a_single_look_decides_by_its_own_belief_alone():
    before, now = (
        Belief.independent(means, [0.02, 0.02], n=[50, 50], n_items=500)
        for means in ([0.9, 0.1], [0.1, 0.9])
    )
    looks = Looks(single_look=True)
    alone, again = looks.after(now, 0.05), looks.after(before, 0.05).after(now, 0.05)
    assert alone.evidence is not None and alone.evidence.better[1, 0] > 0.0
    assert np.array_equal(np.array(again.evidence), np.array(alone.evidence))


@pytest.mark.long
@pytest.mark.parametrize("method", ["default", "sample"])
def test_turns_are_the_same_whoever_looks_and_in_a_ranking_rebuilt(method):
    """Results are read at other times, and a rebuilt ranking is told what was asked."""
    plain, watched, n = ranker(method), ranker(method), 3
    history = []
    for step in range(26):
        if step == 14:
            for made in (plain, watched):
                made.change(add={"x": 1.0}, elapsed=3.0)
        pairs = plain.ask(n)
        look_at(watched)
        assert watched.ask(n) == pairs
        if not pairs:
            break
        asked = [(m, i, plain.probability(m, i)) for m, i in pairs]
        history.append((step == 14, asked))
        for model, item in reversed(pairs):
            for made in (plain, watched):
                made.tell(model, item, float(SCORES["abcdefghx".index(model) % 8, item]))
            look_at(watched)
    again = ranker(method)
    for joined, asked in history:
        if joined:
            again.change(add={"x": 1.0}, elapsed=3.0)
        again.impose(asked)
        for model, item, _ in reversed(asked):
            again.tell(model, item, float(SCORES["abcdefghx".index(model) % 8, item]))
    assert again.ask(5) == plain.ask(5)
    assert again.result().estimates == plain.result().estimates == watched.result().estimates

"""Whose turn it is: the warm-up, caps, a model that is asked for by itself, free models."""

from collections import Counter
from copy import deepcopy
from types import SimpleNamespace

import numpy as np
import pytest
from worlds.boards import bank_of, draw, drive, of

from lm_eval_ccat import ItemBank, Ranker
from lm_eval_ccat.methods.belief import Belief
from lm_eval_ccat.ranker.looks import Looks
from lm_eval_ccat.ranker.standing import Standing
from lm_eval_ccat.ranker.stopping import AllDecided, TopDecided
from lm_eval_ccat.ranker.verdicts import OPEN, Verdicts

SCORES = draw([-0.8, -0.1, 0.1, 0.8], 80, 4)
TELL = of(SCORES)


@pytest.mark.long
def test_a_model_asked_for_by_itself_leaves_the_warm_up_of_others_in_the_budget():
    ranker = Ranker(bank_of("default"), {"a": 1.0, "b": 1.0}, budget=12, warmup=5)
    assert len(ranker.ask(5, model="a")) == 5 and len(ranker.ask(3, model="b")) == 3
    for model, item in sorted(ranker.in_flight):
        ranker.tell(model, item, TELL("b", item))
    # 12 less 5 of its own, 3 of b, and 2 that b has yet to get.
    assert len(ranker.ask(100, model="a")) == 2
    assert len(ranker.ask(100, model="b")) == 2


@pytest.mark.long
@pytest.mark.parametrize("method", ["default", "sample"])
def test_a_limit_of_items_cuts_the_first_items_and_a_raised_one_gives_the_others(method):
    ranker = Ranker(bank_of(method), ["a", "b"], max_items=5)
    drive(ranker, TELL)
    assert {name: len(items) for name, items in ranker.result().items.items()} == {"a": 5, "b": 5}
    assert set(ranker.result().decisions.values()) == {"open"}  # never on fewer than ten items
    ranker.change(max_items=12)
    assert Counter(model for model, _ in ranker.ask(100)) == {"a": 7, "b": 7}
    banks = {"x": bank_of(method, 30, 1), "y": bank_of(method, 20, 2)}
    of_two = Ranker(banks, ["a"], max_items=5, stop="limits")
    assert Counter(task for _, (task, _) in of_two.ask(20)) == {"x": 3, "y": 2}


@pytest.mark.long
@pytest.mark.parametrize(("price", "n"), [(4.0, 1), (4.01, 0)])
def test_four_times_the_worth_takes_a_turn_away(price, n):
    models = {"a": 1.0, "b": price}
    ranker = Ranker(bank_of("paper"), models, budget=20.0, warmup=0, stop="limits")
    assert len(ranker.ask(1, model="b")) == n


def test_while_free_models_are_busy_the_others_take_turns():
    ranker = Ranker(
        ItemBank.blank(range(60)), {"free": 0.0, "b": 1.0, "c": 1.0}, warmup=2, stop="limits"
    )
    for model in ("free", "b", "c"):
        for _, item in ranker.ask(4 if model == "b" else 2, model=model):
            ranker.tell(model, item, 0.5)
    assert [model for model, _ in ranker.ask(2, among=["b", "c"])] == ["c", "c"]


def test_free_models_come_first():
    ranker = Ranker(
        bank_of("default"), {"a": 1.0, "b": 0.0, "c": 0.0}, warmup=2, max_items=10,
        stop="limits",
    )  # fmt: skip
    for pair in ranker.ask(6):
        ranker.tell(*pair, TELL(*pair))
    found = []
    while not ranker.done:
        for pair in ranker.ask():
            found.append(pair[0])
            ranker.tell(*pair, TELL(*pair))
    assert set(found[:16]) == {"b", "c"} and set(found[16:]) == {"a"}


@pytest.mark.parametrize("k", [2, 3])
def test_exposure_draws_among_so_many_items(k):
    bank = bank_of("paper")
    assert len({Ranker(bank, ["a"], seed=s, exposure=k).ask()[0] for s in range(40)}) == k


@pytest.mark.long
def test_models_do_not_share_the_draws_of_exposure():
    names = [f"m{n}" for n in range(8)]
    ranker = Ranker(bank_of("paper", 60), names, exposure=4)
    first = [ranker.ask(1, model=name)[0][1] for name in names]
    assert len(set(first)) == 4


@pytest.mark.long
def test_the_papers_warm_up_is_asked_even_if_the_budget_is_too_small():
    banks = {"x": bank_of("paper", 30, 1), "y": bank_of("paper", 20, 2)}
    ranker = Ranker(banks, {"a": 1.0}, budget=3.0, warmup=3, stop="limits")
    assert Counter(task for _, (task, _) in ranker.ask(20)) == {"x": 3, "y": 3}


@pytest.mark.long
@pytest.mark.parametrize("method", ["default", "sample"])
@pytest.mark.parametrize("price", [1.0, 30.0])
def test_models_whose_place_is_open_take_turns_whatever_their_prices(method, price):
    ranker = Ranker(bank_of(method), {"a": 1.0, "b": price, "c": 0.3, "d": 1.0}, max_items=60)
    n = Counter[str]()
    for _ in range(150):
        open_models = sorted(m for m in "abcd" if not ranker.done and ranker.ask(1, model=m))
        for model, item in sorted(ranker.in_flight):
            ranker.release(model, item)
        for model, item in ranker.ask(1):
            assert n[model] == min(n[m] for m in open_models)
            ranker.tell(model, item, TELL(model, item))
            n[model] += 1
    assert max(n.values()) > 30


@pytest.mark.long
@pytest.mark.parametrize(("ahead", "asked"), [(0, ["b"]), (11, ["b"]), (13, [])])
def test_a_choice_that_is_worth_too_little_is_not_made(ahead, asked):
    """A model that is not asked for gets at most twice the items of the others, of equal prices."""
    scores = draw([0.0, 0.05], 80, 3)
    for price in (1.0, 0.0):
        ranker = Ranker(bank_of("default"), {"a": price, "b": price}, max_items=70)
        for pair in [*ranker.ask(20), *ranker.ask(ahead, model="b")]:
            ranker.tell(*pair, of(scores)(*pair))
        assert [m for m, _ in ranker.ask(1, among=["b"], least_share=0.25)] == asked
        assert [m for m, _ in ranker.ask(1, among=["a"], least_share=0.25)] == ["a"]
    free = Ranker(bank_of("default"), {"a": 1.0, "b": 0.0}, max_items=70)
    for pair in free.ask(20):
        free.tell(*pair, of(scores)(*pair))
    assert free.ask(1, among=["a"], least_share=0.25) == []


@pytest.mark.parametrize("method", ["default", "paper"])
def test_the_budget_is_spent_down_to_the_cheapest_item_that_is_left(method):
    """The paper's method stops by the mean price of what is left."""
    bank, prices = bank_of(method), {"a": 1.0, "b": 0.7}
    units = np.random.default_rng(1).uniform(0.2, 6.0, bank.n_items)
    ranker = Ranker(bank, prices, units=units, budget=60.0, warmup=3, stop="limits", max_items=80)
    result = drive(ranker, SCORES)
    for model, items in result.items.items():
        rest = [u for i, u in enumerate(units) if bank.kept[i] and bank.doc_ids[i] not in items]
        least = min(rest) if method == "default" else np.mean(rest)
        assert prices[model] * least > 60.0 - ranker.spent
    assert "the budget is used up" in result.stopped_because


def test_an_item_waits_for_a_busy_model_that_is_worth_more_or_free():
    """Models without a bank take turns: an item after n answers is worth 1 / (n + 1)^2."""

    def after_the_warm_up(prices: dict[str, float]) -> Ranker:
        ranker = Ranker(ItemBank.blank(range(90)), prices, stop="limits")
        for model, item in ranker.ask(20):
            ranker.tell(model, item, 0.5)
        return ranker

    ranker, worth = after_the_warm_up({"a": 1.0, "b": 1.0}), (11 / 16) ** 2
    for model, item in ranker.ask(5, model="a"):
        ranker.tell(model, item, 0.5)
    assert not ranker.ask(1, among=["a"], least_share=worth + 0.01)
    assert ranker.ask(1, among=["a"], least_share=worth - 0.01)
    ranker = after_the_warm_up({"a": 1.0, "b": 0.0})
    assert not ranker.ask(1, among=["a"], least_share=0.01)
    assert ranker.ask(1, among=["a"])


def test_decided_is_said_while_items_are_in_flight():
    told = of(draw([-1.5, 1.5], 80, 3))
    ranker = Ranker(bank_of("default"), {"a": 1.0, "b": 1.0})
    pairs = ranker.ask(30)
    assert not ranker.decided
    for pair in pairs[:25]:
        ranker.tell(*pair, told(*pair))
    assert ranker.decided and not ranker.done
    assert (ranker.spent, ranker.committed) == (25.0, 30.0)
    alone = Ranker(bank_of("default"), {"a": 1.0}, warmup=1)  # no pair is open, but it warms up
    assert not alone.decided
    alone.ask(1)
    assert alone.decided
    endless = Ranker(bank_of("default"), {"a": 1.0}, stop="limits", max_items=12)
    for pair in endless.ask(12):
        endless.tell(*pair, told(*pair))
    assert endless.done and not endless.decided


@pytest.mark.parametrize("method", ["default", "sample", "paper"])
def test_a_model_that_is_asked_for_by_name_stops_at_its_limit_too(method):
    ranker = Ranker(bank_of(method), {"a": 1.0, "b": 1.0}, max_items=12, warmup=5, stop="limits")
    answers = Counter[str]()
    while asks := [*ranker.ask(5, model="a"), *ranker.ask(2, model="b")]:
        for model, item in asks:
            ranker.tell(model, item, TELL(model, item))
            answers[model] += 1
    assert answers == {"a": 12, "b": 12}


@pytest.mark.long
@pytest.mark.parametrize(("other", "share"), [(0.01, 0.5), (0.4, 1.0), (1.5, 1.0)])
def test_looks_that_are_left_out_cost_no_answer(other, share, monkeypatch):
    """Where no pair is near its boundary nothing is looked at, and verdicts come as soon."""
    tell = of(draw([0.0, other], 400, 6))

    def looks_and_items(stop: str, *, waits: bool = True) -> tuple[int, dict[str, list[int]]]:
        looks = []
        with monkeypatch.context() as patch:
            patch.setattr(Standing, "look", lambda standing: looks.append(look(standing)))
            if not waits:
                patch.setattr(Verdicts, "items_to_wait", 0)
            ranker = Ranker(bank_of("sample", 400), ["a", "b"], max_items=200, stop=stop)
            drive(ranker, tell)
        return len(looks), ranker.result().items

    look = Standing.look
    (few, items), (every, same_items) = (
        looks_and_items("decided", waits=waits) for waits in (True, False)
    )
    assert items == same_items and few <= share * every
    # An error may be small enough at any answer.
    assert looks_and_items("decided and se 0.9")[0] == every


def test_a_pair_waits_only_as_far_as_it_is_from_its_boundary():
    def to_wait(gap: float, **more) -> int:
        belief = Belief.independent([0.5 + gap, 0.5], [0.02] * 2, n=[100] * 2, n_items=1000)
        looks = Looks(horizons=(200,)).after(belief, 0.05)
        return Verdicts(belief, looks, "ab", **more).items_to_wait

    # 100 items have moved the difference by a standard error: so many, by a tenth of it, one.
    boundary = float(Looks(horizons=(200,)).boundary(0.05, np.array([100.0]), 1000.0)[0])
    error = 0.02 * 2**0.5
    waits = [to_wait((boundary - distance) * error) for distance in (2.0, 0.9, 0.6, 0.1)]
    assert waits == sorted(waits, reverse=True) and waits[0] == 9 and waits[-1] == 0
    assert 0 < waits[2] <= 100 * (0.6 / 3.0) ** 2
    # Equivalence is as near as its own boundary.
    assert to_wait(0.0, min_difference=0.9 * boundary * error) < to_wait(0.0) == 9


@pytest.mark.parametrize(("gap", "near"), [(0.0, 0.0), (0.05, 0.0), (0.09, 0.0), (0.02, 0.11)])
def test_the_items_to_go_are_those_after_which_the_error_is_small_enough(gap, near):
    """By trying one more item after the other, as of a mean of random items."""
    n, n_items, error = 60, 500, 0.03 * 2**0.5
    belief = Belief.independent([0.5 + gap, 0.5], [0.03] * 2, n=[n] * 2, n_items=n_items)
    looks = Looks(horizons=(300,)).after(belief, 0.05)
    boundary = float(looks.boundary(0.05, np.array([60.0]), 500.0)[0])
    per_item = error**2 / (1 / n - 1 / n_items)
    goal, more = max(gap, near - gap), 1
    while boundary * (per_item * (1 / (n + more) - 1 / n_items)) ** 0.5 > goal:
        more += 1
    verdicts = Verdicts(belief, looks, "ab", min_difference=near)
    found = float(verdicts.items_to_go(np.array([0]), np.array([1]))[0])
    assert more - 1 < found <= more or (more == 1 and found == 1.0)


@pytest.mark.filterwarnings("error")
def test_no_number_of_answers_decides_two_models_of_equal_expected_score():
    belief = Belief.independent([0.5, 0.5], [0.03] * 2, n=[60] * 2, n_items=float("inf"))
    verdicts = Verdicts(belief, Looks(horizons=(300,)).after(belief, 0.05), "ab")
    assert np.isinf(verdicts.items_to_go(np.array([0]), np.array([1])))


@pytest.mark.parametrize("stop", ["decided", "ranks 1"])
def test_where_the_budget_is_short_a_pair_that_is_soon_decided_goes_ahead(stop):
    """Of four models the better two differ, and the other two do not."""
    noise = np.random.default_rng(4).normal(0.0, 0.2, (4, 400))
    scores = np.clip(np.array([[0.64], [0.5], [0.25], [0.25]]) + noise, 0.0, 1.0)
    asked, when_decided = {}, {}
    for budget in (None, 320.0, 400.0):  # the last takes all models to the limit
        limits = {"budget": budget, "max_items": 100, "stop": stop}
        ranker, asked[budget] = Ranker(ItemBank.blank(range(400)), list("abcd"), **limits), []
        while len(asked[budget]) < 300 and not ranker.done:
            for model, item in ranker.ask():
                ranker.tell(model, item, float(scores["abcd".index(model), item]))
                asked[budget].append(model)
            if budget not in when_decided and ranker.verdicts.sign[0, 1]:
                when_decided[budget] = Counter(asked[budget])
    in_turn, ahead = when_decided[None], when_decided[320.0]
    assert asked[400.0] == asked[None] and max(in_turn.values()) <= min(in_turn.values()) + 1
    assert sum(ahead.values()) < sum(in_turn.values())
    a, b, c, d = (ahead[model] for model in "abcd")
    assert abs(a - b) <= 1 and abs(c - d) <= 1 and min(c, d) + 1 < min(a, b) <= 2 * max(c, d) + 1


def test_who_goes_ahead_does_not_depend_on_who_was_next_before_a_model_left():
    """A ranking that is taken up again after that asks the same."""
    rng = np.random.default_rng(0)
    means = np.array([0.62, 0.54, 0.46, 0.38, 0.3]) + rng.normal(0.0, 0.03, 5)
    scores = np.clip(means[:, None] + rng.normal(0.0, 0.2, (5, 400)), 0.0, 1.0)
    ranker = Ranker(ItemBank.blank(range(400)), list("abcde"), budget=400.0, max_items=100)
    for _ in range(55):
        for model, item in ranker.ask():
            ranker.tell(model, item, float(scores["abcde".index(model), item]))
    next_models = []
    for ranker_asks_before in (True, False):
        resumed = deepcopy(ranker)
        if ranker_asks_before:
            resumed.release(*resumed.ask()[0])
        else:
            resumed._turns._soon = None
        resumed.drop("c", "away")
        next_models.append([model for model, _ in resumed.ask(3)])
    assert next_models[0] == next_models[1]


@pytest.mark.parametrize("rule", [AllDecided(), TopDecided(1), TopDecided(2), TopDecided(3)])
def test_the_pairs_that_a_rule_waits_for_are_those_of_the_models_that_it_wants(rule):
    rng, open_pairs = np.random.default_rng(0), 0
    for _ in range(20):
        means = rng.uniform(0.3, 0.7, 5)
        belief = Belief.independent(means, [0.02] * 5, n=[60] * 5, n_items=500)
        verdicts = Verdicts(belief, Looks(horizons=(200,)).after(belief, 0.05), "abcde")
        standing = SimpleNamespace(verdicts=verdicts, nobody=np.zeros(5, dtype=bool))
        rows, columns = rule.open_pairs(standing)
        assert {*rows, *columns} == {*np.flatnonzero(rule.wants(standing))}
        place = {model: k for k, model in enumerate(verdicts.best_first.tolist())}
        for pair in zip(rows.tolist(), columns.tolist()):
            first, second = sorted(place[model] for model in pair)
            assert verdicts.state[pair] == OPEN
            assert second == first + 1 if rule == AllDecided() else first < rule.k <= second
            open_pairs += 1
    assert open_pairs > 20


def test_limits_compare_no_models_once_each_has_its_last_item_until_a_result_is_read(monkeypatch):
    models = [f"m{number}" for number in range(60)]
    ranker = Ranker(ItemBank.blank(range(9)), models, max_items=3, stop="limits")
    asked, beliefs = ranker.ask(180), []
    belief = Standing.belief
    monkeypatch.setattr(Standing, "belief", lambda *args: beliefs.append(1) or belief(*args))
    for number, (model, item) in enumerate(asked):
        ranker.tell(model, item, float(number % 7 < 3))
    assert ranker.done and len(asked) == 180 and not beliefs
    assert ranker.result().order and beliefs
    # A raised limit compares them again, on what is known by then.
    ranker.change(max_items=4)
    assert len(ranker.ask(180)) == 60

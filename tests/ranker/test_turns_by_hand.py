"""Whose turn it is, over a policy and a rule whose answers are given: every figure by hand."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from boards import bank_of

from lm_eval_ccat.methods.policy import Choice
from lm_eval_ccat.ranker.allocation import Turn, Turns
from lm_eval_ccat.ranker.audit import draw
from lm_eval_ccat.ranker.contents import Contents
from lm_eval_ccat.ranker.ledger import Ledger

ONE = Contents(bank_of("sample", 6))
TWO = Contents({"x": bank_of("sample", 6), "y": bank_of("sample", 4)})


class Given:
    """A score, its leading policy and a rule at once, which remembers what it was asked with."""

    warmup_ignores_budget = draws = False

    def __init__(self, worth: list[float]) -> None:
        self.worth, self.wanted = worth, [True] * len(worth)
        self.picks, self.drawn = [0, 1, 2], None
        self.asked: list[Any] = []

    @property
    def leader(self):
        return self

    def wants(self, standing):
        return np.array(self.wanted)[self.ledger.there]

    def priorities(self, belief, models, pending, prices):
        self.asked.append((list(models), [list(p) for p in pending], list(prices)))
        return np.array([self.worth[m] / p for m, p in zip(models, prices)])

    def next(self, model, available, pending, price, k=1):
        self.asked.append((model, available.tolist(), list(pending), price.tolist()))
        return [Choice(i, self.drawn) for i in self.picks[: 1 if self.drawn else k]]


def turns(contents=ONE, prices=(1.0, 1.0), budget=math.inf, units=None, by_mean=False, **more):
    """Turns of models a, b, ... and what they are decided on."""
    given = Given([1.0] * len(prices))
    units = np.ones(contents.n_items) if units is None else np.array(units, dtype=float)
    ledger = Ledger(contents, dict(zip("abcd", prices)), units, budget, by_mean)
    given.ledger = ledger
    settings = {"warmup": 0, "cap": 100, "seed": 3, "audit_share": 0.0, "exposure": 1, **more}
    judge: Any = SimpleNamespace(score=given, seen=None, standing=lambda: None)
    return Turns(judge, ledger, given, **settings), ledger, given  # type: ignore[arg-type]


def draw_one(items, seed, model, n_asked):
    return items[int(np.random.default_rng([seed, 0xE4905, model, n_asked]).integers(len(items)))]


def place(ledger: Ledger, model: int, *items: int) -> None:
    for item in items:
        ledger.place(ledger.accounts[model], item, None)


def test_candidates_are_found_again_when_something_happened():
    made, ledger, given = turns()
    assert made.candidates() == [Turn(0), Turn(1)]
    given.wanted = [False, True]
    assert made.candidates() == [Turn(0), Turn(1)]  # nothing has happened
    made.forget()
    assert made.candidates() == [Turn(1)] and made.unsettled() == [1]
    given.wanted = [True, True]
    place(ledger, 0, 0)
    assert made.candidates() == [Turn(0), Turn(1)]
    ledger.set_aside(ledger.accounts[0], "gone")
    assert made.alone(ledger.accounts[0]) is None and made.alone(ledger.accounts[1]) == Turn(1)
    made.stopped = "enough"
    assert made.candidates() == [] and made.alone(ledger.accounts[1]) is None


def test_the_warm_up_is_of_those_with_the_fewest_items_by_task():
    made, ledger, _ = turns(TWO, warmup=2)
    every = [Turn(0, 0), Turn(1, 0), Turn(0, 1), Turn(1, 1)]
    assert made.warming() == made.candidates() == every
    place(ledger, 0, 0, 1)  # its warm-up of the first task, not of the second
    assert made.warming() == [Turn(1, 0), Turn(0, 1), Turn(1, 1)]
    place(ledger, 1, 2, 6)
    assert made.candidates() == [Turn(0, 1)]
    place(ledger, 0, 7)
    assert made.candidates() == [Turn(1, 0), Turn(0, 1), Turn(1, 1)]
    place(ledger, 0, 8)
    place(ledger, 1, 3)
    assert made.candidates() == [Turn(1, 1)]
    place(ledger, 1, 9)
    assert made.warming() == [] and made.candidates() == [Turn(0), Turn(1)]


def test_the_fewest_items_are_those_of_the_task():
    made, ledger, _ = turns(TWO, warmup=2)
    place(ledger, 0, 0)
    place(ledger, 1, 0, 6)
    assert made.candidates() == [Turn(0, 1)]  # of the first task both have one


def test_no_warm_up_of_a_task_that_has_no_more_items():
    made, ledger, _ = turns(TWO, warmup=7)
    place(ledger, 0, *range(9))
    assert made.warming() == [Turn(1, 0), Turn(0, 1), Turn(1, 1)]  # its last item
    place(ledger, 0, 9)
    assert made.warming() == [Turn(1, 0), Turn(1, 1)]
    ledger.set_aside(ledger.accounts[1], "gone")
    assert made.warming() == [] and made.unsettled() == [0]


def test_a_warm_up_beyond_the_budget_is_left_out_unless_the_method_ignores_it():
    made, ledger, given = turns(prices=(1.0, 9.0), budget=5.0, warmup=1)
    assert made.candidates() == [Turn(0, 0)] and made.alone(ledger.accounts[1]) is None
    given.warmup_ignores_budget = True
    made.forget()
    assert made.candidates() == [Turn(0, 0), Turn(1, 0)]
    assert made.alone(ledger.accounts[1]) == Turn(1, 0)


def test_after_the_warm_up_those_below_the_cap_that_the_budget_affords():
    made, ledger, _ = turns(prices=(1.0, 1.0, 4.0), budget=6.0, cap=2)
    place(ledger, 0, 0, 1)
    assert made.candidates() == [Turn(1), Turn(2)]
    place(ledger, 1, 0)
    assert made.candidates() == [Turn(1)]
    assert [made.alone(a) for a in ledger.accounts] == [None, Turn(1), None]


def test_asked_for_by_itself_a_model_takes_the_task_that_it_has_least_of():
    made, ledger, _ = turns(TWO, warmup=3)
    a = ledger.accounts[0]
    assert made.alone(a) == Turn(0, 0)
    place(ledger, 0, 0)
    assert made.alone(a) == Turn(0, 1)
    place(ledger, 0, 6, 7, 8)
    assert made.alone(a) == Turn(0, 0)  # not Turn(0): its warm-up is not over
    place(ledger, 0, 1, 2)
    assert made.alone(a) == Turn(0)
    made.rule.wanted = [False, True]  # type: ignore[attr-defined]
    assert made.alone(a) is None


def test_asked_for_by_itself_it_gets_nothing_that_its_warm_up_cannot_afford():
    # The items of the first task are too dear, those of the second are not.
    made, ledger, _ = turns(TWO, budget=3.0, units=[5.0] * 6 + [1.0] * 4, warmup=1)
    assert made.alone(ledger.accounts[0]) == Turn(0, 1)
    place(ledger, 0, 6)
    assert made.alone(ledger.accounts[0]) is None


@pytest.mark.parametrize(("budget", "there"), [(9.9, None), (10.0, Turn(0))])
def test_the_warm_up_of_others_stays_reserved(budget, there):
    made, ledger, _ = turns(prices=(1.0, 2.0), budget=budget, warmup=3, cap=4)
    place(ledger, 0, 0, 1, 2)
    place(ledger, 1, 0)
    # 5.0 is in flight, 2 x 2.0 reserved for model b, and the next item of model a costs 1.0.
    assert made.alone(ledger.accounts[0]) == there


def test_a_warm_up_that_cannot_be_afforded_is_not_reserved():
    made, ledger, given = turns(prices=(1.0, 9.0), budget=5.0, warmup=2)
    place(ledger, 0, 0, 1)
    assert made.alone(ledger.accounts[0]) == Turn(0)
    given.warmup_ignores_budget = True  # then it comes whatever is left
    assert made.alone(ledger.accounts[0]) is None


def test_a_turn_is_left_only_where_the_budget_is_too_small_for_all():
    made, ledger, given = turns(prices=(1.0, 2.0), budget=1000.0, cap=4)
    given.worth = [1.0, 100.0]
    place(ledger, 0, 0)
    needed = 1.0 * 3 + 2.0 * 4
    assert not made._others_are_worth_more(0, [], needed)
    assert made._others_are_worth_more(0, [], needed - 1e-9)
    assert given.asked[-1] == ([0, 1], [[0], []], [1.0, 2.0])
    assert not made._others_are_worth_more(0, [], math.inf)
    given.wanted = [True, False]  # who needs no more items is no rival
    made.forget()
    assert not made._others_are_worth_more(0, [], needed - 1.0)
    assert made._others_are_worth_more(0, [Turn(1, 0)], needed - 1.0)  # but warming up it is one


@pytest.mark.parametrize(("worth", "more"), [(4.0, False), (4.01, True)])
def test_a_turn_is_left_for_more_than_four_times_the_worth(worth, more):
    made, _, given = turns(budget=5.0)
    given.worth = [1.0, worth]
    assert made._others_are_worth_more(0, [], 5.0) is more
    assert not made._others_are_worth_more(1, [], 5.0)


def test_a_free_model_leaves_no_turn_and_takes_none():
    made, _, given = turns(prices=(0.0, 1.0, 1.0), budget=5.0)
    given.worth = [1e9, 1.0, 9.0]
    assert not made._others_are_worth_more(0, [], 5.0)
    assert made._others_are_worth_more(1, [], 5.0)
    assert given.asked[-1][0] == [1, 2]  # the free one is not compared
    given.worth = [1e9, 1.0, 2.0]
    assert not made._others_are_worth_more(1, [], 5.0)


def test_the_most_worth_for_its_price_is_next_and_the_free_come_first():
    made, ledger, given = turns(prices=(1.0, 2.0, 5.0))
    given.worth = [1.0, 3.0, 4.0]
    place(ledger, 1, 4)
    assert made._choose([Turn(0), Turn(1), Turn(2)]) == Turn(1)
    assert given.asked == [([0, 1, 2], [[], [4], []], [1.0, 2.0, 5.0])]
    given.worth = [9.0, 1.0, 4.0]
    assert made._choose([Turn(1, 0), Turn(0, 0)]) == Turn(1, 0)  # a warm-up goes in turn
    free, _, given = turns(prices=(1.0, 0.0, 0.0))
    given.worth = [1e9, 2.0, 3.0]
    assert free._choose([Turn(0), Turn(1), Turn(2)]) == Turn(2)
    assert free._choose([Turn(1)]) == Turn(1)


def test_the_policy_is_asked_for_an_item_of_the_task_within_the_budget():
    units = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 1.0, 2.0, 3.0, 4.0]
    made, ledger, given = turns(TWO, prices=(2.0,), budget=12.0, units=units)
    place(ledger, 0, 0)  # 2.0 of 12.0
    assert made.item(Turn(0)) == Choice(0)
    model, available, pending, price = given.asked[-1]
    assert (model, pending, price) == (0, [0], [2.0 * u for u in units])
    assert available == [False, True, True, True, True, False, True, True, True, True]
    made.item(Turn(0, 1))
    assert given.asked[-1][1] == [False] * 6 + [True] * 4
    made.item(Turn(0, 0))
    assert given.asked[-1][1] == [False, True, True, True, True, False] + [False] * 4


def test_only_a_warm_up_by_mean_prices_has_no_limit():
    made, _, given = turns(TWO, prices=(1.0,), budget=2.0, units=[3.0] * 6 + [1.0] * 4)
    made.item(Turn(0, 0))
    assert not any(given.asked[-1][1])
    by_mean, _, given = turns(TWO, (1.0,), 2.0, [3.0] * 6 + [1.0] * 4, by_mean=True)
    by_mean.item(Turn(0, 0))
    assert given.asked[-1][1] == [True] * 6 + [False] * 4
    by_mean.item(Turn(0))
    assert given.asked[-1][1] == [False] * 6 + [True] * 4


def test_exposure_draws_one_of_the_best_by_the_items_asked_of_the_task():
    made, ledger, given = turns(TWO, exposure=3)
    place(ledger, 1, 0, 1)
    place(ledger, 1, 6)
    given.picks = [9, 4, 3]
    assert made.item(Turn(1)) == Choice(draw_one([9, 4, 3], 3, 1, 1))
    given.picks = [5, 8, 7]
    assert made.item(Turn(1)) == Choice(draw_one([5, 8, 7], 3, 1, 2))
    given.drawn = 0.25  # drawn at random already
    assert made.item(Turn(1)) == Choice(5, 0.25)
    for exposure, last in ((1, 1), (2, 2)):
        drawn = {turns(TWO, exposure=exposure, seed=s)[0].item(Turn(0)).item for s in range(20)}
        assert drawn == set(range(last))


def test_the_audit_draws_what_is_due_among_all_items_left_of_the_task():
    made, ledger, given = turns(TWO, audit_share=0.5)
    assert made.item(Turn(0, 1)) == Choice(0)  # the second of two is due, not the first
    place(ledger, 0, 6)
    left = np.array([False, True, True, True])
    assert made.item(Turn(0, 1)) == Choice(6 + draw(left, 3, 0, 1), 1 / 3)
    assert made.audited(Turn(0, 0)) is None
    given.picks = [8]  # outside a warm-up: of the task that the policy is in
    assert made.item(Turn(0)) == Choice(6 + draw(left, 3, 0, 1), 1 / 3)
    given.picks = [4]
    assert made.audited(Turn(0)) is None
    given.draws = True  # a method that draws by itself is not audited
    assert made.item(Turn(0, 1)) == Choice(4)
    place(ledger, 0, 7, 8)
    ledger.tell(ledger.accounts[0], 9, None)  # told without being asked: 3 asked, none left
    assert made.audited(Turn(0, 1)) is None


@pytest.mark.parametrize(("budget", "drawn"), [(7.9, False), (8.0, True)])
def test_the_audit_draws_only_while_every_item_left_is_affordable(budget, drawn):
    # 2.0 is in flight; the dearest item left costs 2.0 x 3.0. What is gone does not count.
    made, ledger, _ = turns(ONE, (2.0,), budget, [9.0, 1.0, 1.0, 3.0, 1.0, 1.0], audit_share=0.5)
    ledger.accounts[0].available[0] = False
    place(ledger, 0, 1)
    assert (made.audited(Turn(0)) is not None) is drawn
    assert (made.audited(Turn(0, 0)) is not None) is drawn
    ledger.left = lambda: 6.0  # exactly what the dearest costs
    assert made.audited(Turn(0)) is not None


def test_the_audit_of_one_task_needs_no_policy():
    made, ledger, given = turns(audit_share=0.5)
    place(ledger, 0, 1)
    assert made.audited(Turn(0)) is not None and given.asked == []

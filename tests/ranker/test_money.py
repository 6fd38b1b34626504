"""Money: prices, what costs told make of them, budgets to the last item."""

from __future__ import annotations

import numpy as np
import pytest
from boards import bank_of, draw, drive, of

from lm_eval_ccat import Ranker

SCORES = draw([-0.5, 0.0, 0.5], 80, 1)


def test_costs_told_correct_a_price_as_one_observation_among_others():
    ranker = Ranker(bank_of("default"), {"a": 1.0})
    (_, first), (_, second) = ranker.ask(2)
    assert ranker.committed == 2.0
    ranker.tell("a", first, 0.5, cost=4.0)
    # The price given counts as the observation of one item: (1 + 4) / 2.
    ranker.ask(1)
    assert ranker.spent == 4.0 and ranker.committed == 4.0 + 1.0 + 2.5
    ranker.tell("a", second, 0.5, cost=4.0)
    ranker.ask(1)
    assert ranker.committed == 8.0 + 2.5 + 3.0  # (1 + 4 + 4) / 3


def test_a_failed_attempt_is_paid_and_teaches_no_price():
    ranker = Ranker(bank_of("default"), {"a": 1.0})
    (_, item), _ = ranker.ask(2)
    ranker.fail("a", item, "refused", cost=9.0)
    ranker.ask(1)
    assert ranker.spent == 9.0 and ranker.committed == 9.0 + 1.0 + 1.0


@pytest.mark.parametrize("seed", range(4))
def test_the_budget_is_spent_down_to_the_cheapest_item_that_is_left(seed):
    bank, rng = bank_of("default"), np.random.default_rng(seed)
    units = rng.uniform(0.2, 6.0, bank.n_items)
    prices = {"a": 1.0, "b": 0.7}
    ranker = Ranker(bank, prices, units=units, budget=60.0, warmup=3, stop="limits", max_items=80)
    result = drive(ranker, of(SCORES))
    left = 60.0 - ranker.spent
    for model, items in result.items.items():
        rest = np.delete(units, [bank.index[i] for i in items])
        assert prices[model] * rest.min() > left >= 0.0
    assert "the budget is used up" in result.stopped_because


def test_paper_stops_by_the_mean_price_of_what_is_left():
    bank = bank_of("paper")
    units = np.where(np.arange(bank.n_items) % 2, 9.0, 1.0)
    ranker = Ranker(
        bank, {"a": 1.0}, units=units, budget=40.0, warmup=0, stop="limits", max_items=80
    )
    result = drive(ranker, of(SCORES))
    rest = np.delete(
        units, [*np.flatnonzero(~bank.kept), *[bank.index[i] for i in result.items["a"]]]
    )
    assert rest.mean() > 40.0 - ranker.spent


def test_a_budget_is_of_what_is_in_flight_too():
    ranker = Ranker(bank_of("default"), {"a": 2.0, "b": 1.0}, budget=9.0, warmup=1)
    asked = ranker.ask(100)
    assert ranker.spent == 0.0 and 8.0 < ranker.committed <= 9.0
    assert ranker.ask(1) == [] and not ranker.done
    ranker.release(*asked[0])
    assert ranker.ask(1) != []


def test_costs_of_a_model_are_by_task():
    banks = {"x": bank_of("default", 30, 1), "y": bank_of("default", 40, 2)}
    ranker = Ranker(banks, {"a": 1.0}, budget=20.0)
    while not ranker.done:
        for model, (task, item) in ranker.ask():
            ranker.tell(model, (task, item), 0.5, cost={"x": 0.5, "y": 1.5}[task])
    result = ranker.result()
    for task, price in (("x", 0.5), ("y", 1.5)):
        part = result.tasks[task]
        assert part.cost["a"] == pytest.approx(price * len(part.items["a"]))
    assert result.cost["a"] == pytest.approx(sum(t.cost["a"] for t in result.tasks.values()))

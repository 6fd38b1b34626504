"""Money: prices, what costs told make of them, budgets to the last item."""

from __future__ import annotations

import numpy as np
import pytest
from worlds.boards import bank_of, draw, drive, of

from lm_eval_ccat import Ranker

SCORES = draw([-0.5, 0.0, 0.5], 80, 1)


@pytest.mark.parametrize("seed", range(2))
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

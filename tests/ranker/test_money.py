"""Money: prices, what costs told make of them, budgets to the last item."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
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


@settings(max_examples=8, deadline=None)
@given(
    method=st.sampled_from(["paper", "default"]),
    seed=st.integers(0, 1000),
    price=st.lists(st.floats(0.05, 20.0), min_size=2, max_size=5),
    items=st.floats(3.0, 40.0),
    batch=st.integers(1, 7),
)
def test_the_budget_is_never_passed_by_more_than_the_last_items(method, seed, price, items, batch):
    bank = bank_of(method, 60)
    rng = np.random.default_rng(seed)
    units = rng.uniform(0.2, 5.0, bank.n_items)
    models = {f"m{j}": p for j, p in enumerate(price)}
    budget = items * sum(price) * units.mean()
    ranker = Ranker(bank, models, units=units, budget=budget, warmup=3)
    scores = draw(np.linspace(-1.5, 1.5, len(price)), bank.n_items, seed)
    result = drive(ranker, lambda model, item: float(scores[int(model[1:]), item]), batch)
    # The paper's rule looks at the mean price ahead, so its last item may pass the budget.
    slack = max(price) * units.max() * (1 if method == "paper" else 0)
    warmup = 3 * sum(price) * units.max() if method == "paper" else 0.0
    assert ranker.spent <= max(budget, warmup) + slack + 1e-9
    assert sorted(result.order) == sorted(models)
    assert all(0.0 <= e <= 1.0 for e in result.estimates.values())
    for model, told in result.items.items():
        assert result.cost[model] == pytest.approx(
            sum(models[model] * units[bank.index[i]] for i in told)
        )

"""Ask and tell: what a user of `Ranker` relies on, whatever the method."""

from __future__ import annotations

import numpy as np
import pytest
from boards import bank_of, draw, drive, of
from hypothesis import given, settings
from hypothesis import strategies as st

from lm_eval_ccat import ItemBank, Ranker

METHODS = ["paper", "default"]
NAMES = ["a", "b", "c", "d"]
TELL = of(draw([-1.5, -0.5, 0.5, 1.5], 60, 5), "abcd")


@pytest.fixture(scope="module", params=METHODS)
def bank(request) -> ItemBank:
    return bank_of(request.param, 60)


def test_ranks_models_that_differ(bank):
    result = drive(Ranker(bank, models=dict.fromkeys(NAMES, 1.0)), TELL)
    assert result.order == ["d", "c", "b", "a"]
    assert result.decided and result.stopped_because == "every adjacent pair is decided"
    for (a, b), p in result.pairwise.items():
        assert p == pytest.approx(1.0 - result.pairwise[b, a])
    assert all(len(set(items)) == len(items) >= 10 for items in result.items.values())


@settings(max_examples=8, deadline=None)
@given(
    method=st.sampled_from(METHODS),
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

"""Models that are asked for by themselves share a budget wisely, and never get stuck."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from bench import Bench

from lm_eval_ccat import ItemBank, Ranker


def drive(ranker: Ranker, models: list[str], per_turn: dict[str, int], rng) -> dict[str, int]:
    """Each model asks for itself in turn, ``per_turn`` items at a time; items of each."""
    skill = {m: s for m, s in zip(models, np.linspace(0.4, 0.6, len(models)))}
    idle = 0
    for model in itertools.cycle(models):
        pairs = ranker.ask(per_turn[model], model=model)
        for name, doc in pairs:
            ranker.tell(name, doc, float(np.clip(skill[name] + rng.normal(0, 0.2), 0, 1)))
        idle = 0 if pairs else idle + 1
        if ranker.done:
            break
        assert idle <= len(models), "nobody gets anything and the ranking is not done"
    return {m: len(v) for m, v in ranker.result().items.items()}


def test_an_expensive_model_does_not_eat_the_budget_of_a_cheap_one(bench: Bench) -> None:
    bank = ItemBank.load(bench.bank)
    prices = {"cheap": 1.0, "dear": 30.0}
    items = drive(
        Ranker(bank, prices, budget=700.0, warmup=5, stop="limits", max_items=100),
        list(prices), {"cheap": 1, "dear": 8}, np.random.default_rng(0),
    )  # fmt: skip
    # Alone the dear model would take 23 items and leave nothing.
    assert items["cheap"] > 1.4 * items["dear"]


def test_a_budget_that_is_large_enough_for_all_holds_nobody_back(bench: Bench) -> None:
    bank = ItemBank.load(bench.bank)
    ranker = Ranker(
        bank, {"cheap": 1.0, "dear": 30.0}, budget=700.0, warmup=5, max_items=20,
        stop="limits",
    )  # fmt: skip
    assert len(ranker.ask(20, model="dear")) == 20
    assert len(ranker.ask(20, model="cheap")) == 20


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("budget", [20.0, 90.0, 400.0, None])
@pytest.mark.parametrize("bank", ["bank.json", "default.bank.json"])
def test_asking_each_model_in_turn_always_comes_to_an_end(
    bench: Bench, seed: int, budget: float | None, bank: str
) -> None:
    rng = np.random.default_rng(seed)
    models = ["a", "b", "c", "d"]
    prices = dict(zip(models, rng.uniform(0.1, 3.0, 4).round(2)))
    per_turn = {m: int(rng.integers(1, 9)) for m in models}
    ranker = Ranker(ItemBank.load(bench.folder / bank), prices, budget=budget, warmup=6, seed=seed)
    items = drive(ranker, models, per_turn, rng)
    assert any(items.values())
    if budget is not None and budget > 60:
        assert ranker.spent <= budget

"""Models that are asked for by themselves share a budget wisely, and never get stuck."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from worlds.bench import Bench

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


@pytest.mark.parametrize(
    ("bank", "budget", "seed"),
    [
        ("bank.json", 20.0, 0),
        ("bank.json", None, 1),
        ("default.bank.json", 90.0, 0),
        ("default.bank.json", 400.0, 1),
    ],
)
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

"""What would decide the pairs that are open."""

from __future__ import annotations

import numpy as np
import pytest

from lm_eval_ccat import ItemBank, Ranker


def _ranking(gap: float, until: int | None, seed: int = 0):
    rng = np.random.default_rng(seed)
    n = 2000
    base = rng.normal(0.5, 0.15, n)
    scores = {
        "a": np.clip(base + gap + rng.normal(0, 0.15, n), 0, 1),
        "b": np.clip(base + rng.normal(0, 0.15, n), 0, 1),
    }
    ranker = Ranker(ItemBank.blank(range(n)), dict.fromkeys(scores, 2.0), seed=seed, warmup=10)
    told = 0
    while not ranker.done and (until is None or told < until):
        for model, item in ranker.ask(4):
            ranker.tell(model, item, float(scores[model][item]))
            told += 1
    return ranker.result(), told


def test_the_forecast_of_an_open_pair_is_near_what_it_takes() -> None:
    ratios = []
    for seed in (1,):
        early, told = _ranking(0.04, 100, seed)
        if not early.open_pairs:
            continue
        [pair] = early.open_pairs
        assert pair["cost"] == pytest.approx(2.0 * sum(pair["items"].values()))
        assert {pair["a"], pair["b"]} == {"a", "b"}
        _, took = _ranking(0.04, None, seed)
        ratios.append((told + sum(pair["items"].values())) / took)
    assert ratios
    assert 0.25 < float(np.median(ratios)) < 5.0


def test_open_pairs_say_what_they_need_and_decided_ones_need_nothing() -> None:
    found, _ = _ranking(0.0, 100)
    [pair] = found.to_dict()["open_pairs"]
    assert pair["items"].keys() == {"a", "b"} and min(pair["items"].values()) > 0
    decided, _ = _ranking(0.3, None)
    assert decided.open_pairs == []

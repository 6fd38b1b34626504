"""Banks of hundreds of models: more factors, fewer draws, departures that shrink with scores."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from artificial import world

from lm_eval_ccat import ItemBank, Ranker, calibrate
from lm_eval_ccat.errors import BankError, CcatError
from lm_eval_ccat.methods.default.departures import fit_components
from lm_eval_ccat.methods.default.items import MANY

N = 60
TABLE = world(MANY + 8, N, second_skill=0.8)
NEW = TABLE.models[50:-50:14][:8]  # within what the others know


@cache
def many_bank():
    return calibrate(TABLE.without(NEW))


def asked(bank: ItemBank, model: str, n: int) -> tuple[Ranker, int]:
    ranker = Ranker(bank, {model: 1.0}, max_items=n, stop="limits")
    row = TABLE.select([model]).scores[0]
    while not ranker.done:
        for _, item in ranker.ask():
            ranker.tell(model, item, row[item])
    return ranker, ranker.result().samples[model].n


def test_hundreds_of_models_leave_a_fifth_to_the_draws_and_cover():
    inside = []
    for model in NEW:
        ranker, drawn = asked(many_bank(), model, 30)
        assert drawn == 4
        low, high = ranker.result().interval(model)
        inside.append(low <= TABLE.select([model]).scores[0].mean() <= high)
    assert sum(inside) >= 7


def test_their_bank_says_so_and_keeps_it(tmp_path):
    assert len(many_bank().models) == MANY and many_bank().constants["draws"] == 0.2
    departures = many_bank().constants["departures"]
    assert departures["single"][1:] == departures["pair"][1:] == [0.0, 0.0]
    path = tmp_path / "b.json"
    many_bank().save(path)
    assert ItemBank.load(path).constants == many_bank().constants
    damaged = replace(many_bank(), constants={**many_bank().constants, "draws": 3.0})
    with pytest.raises(BankError, match="share of draws"):
        Ranker(damaged, {"a": 1.0})


def test_the_share_of_draws_is_an_option():
    """Of all draws, if it is 1: what no model left out has confirmed chooses no item."""
    for bank in (calibrate(world(8, 30), draws=1.0), calibrate(world(3, 30))):
        ranker = Ranker(bank, {"m": 1.0, "n": 1.0}, max_items=12, stop="limits")
        while not ranker.done:
            for model, item in ranker.ask():
                ranker.tell(model, item, 0.5)
        assert [len(draws) for draws in ranker.result().draws.values()] == [12, 12]
    with pytest.raises(CcatError, match="draws"):
        calibrate(world(8, 30), draws=1.5)


def test_departures_of_many_are_a_multiple_of_what_is_open():
    rng = np.random.default_rng(0)
    v = rng.uniform(0.001, 0.01, 4000)
    key = np.repeat(np.arange(800.0), 5)
    e2 = 3.0 * v * rng.standard_normal(4000) ** 2
    records = np.array([key, e2, v, np.zeros(4000), np.ones(4000)])
    c, m, g = fit_components(records, 800, many=True)
    assert c == pytest.approx(3.0, rel=0.1) and m == g == 0.0
    records[1] = 0.0
    assert fit_components(records, 800, many=True)[0] == 1.4

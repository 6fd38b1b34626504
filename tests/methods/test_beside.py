"""An outcome without a bank beside another method's: estimates from that method's draws."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest

from lm_eval_ccat import ItemBank, Ranker, ScoreTable, calibrate
from lm_eval_ccat.bank.outcome import Outcome
from lm_eval_ccat.methods.policy import BesidePolicy


def test_the_mean_over_all_draws_is_the_benchmarks_whatever_was_chosen_before():
    y = np.array([0.9, 0.2, 0.4, 0.7, 0.0])
    values = []
    for drawn in permutations(range(1, 5), 2):
        policy = BesidePolicy(ItemBank.blank(range(5)), 1)
        policy.placed(0, 0)
        policy.told(0, 0, y[0])
        for k, item in enumerate(drawn):
            policy.placed(0, item, 1 / (4 - k))
            policy.told(0, item, y[item])
        belief = policy.belief()
        values.append(np.nanmean(policy._totals(0)))
        assert belief.location[0] == pytest.approx(np.clip(values[-1], 0.0, 1.0))
        assert belief.n[0, 0] == 2 and belief.n_items == 5
    assert np.mean(values) == pytest.approx(y.mean())


def test_it_is_reported_and_moves_nothing():
    rng = np.random.default_rng(0)
    y = 1 / (1 + np.exp(-np.linspace(-1, 1, 14)[:, None] - rng.normal(size=(14, 60))))
    bank = calibrate(ScoreTable.from_arrays(y[2:], [f"m{j}" for j in range(12)], task="t"))
    beside = Outcome.of(ItemBank.blank(range(60), task="t", metric="judge"), weight=0.0)
    found = []
    for outcomes in ([Outcome.of(bank)], [Outcome.of(bank), beside]):
        ranker = Ranker(outcomes, {"a": 1.0, "b": 1.0}, max_items=30)
        while not ranker.done:
            for model, item in ranker.ask():
                j, i = "ab".index(model), item[1] if isinstance(item, tuple) else item
                value = float(y[j, i])
                more = {Outcome.of(bank).name: value, "judge": 1.0 - value}
                ranker.tell(model, item, value if len(outcomes) == 1 else more)
        found.append(ranker.result())
    alone, both = found
    assert both.order == alone.order
    assert [i[1] if isinstance(i, tuple) else i for i in both.items["a"]] == alone.items["a"]
    parts = both.outcomes or both.tasks["t"].outcomes
    for j, model in enumerate("ab"):
        row = parts["judge"].row(model).estimate
        assert abs(row.mean - (1.0 - y[j].mean())) < 4 * row.error < 1.0

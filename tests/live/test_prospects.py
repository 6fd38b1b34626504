"""What is said beforehand of how many items a ranking needs, beside what such items show."""

from __future__ import annotations

import re
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from lm_eval_ccat import ItemBank
from lm_eval_ccat.live import rehearsal
from lm_eval_ccat.live.forecast import GAPS, forecast, need_in_words, powers, prospects
from lm_eval_ccat.live.outcomes import outcomes_of_banks
from lm_eval_ccat.live.plan import Plan, plan_of
from lm_eval_ccat.live.ranking_run import _ceiling
from lm_eval_ccat.live.spec import Spec
from lm_eval_ccat.metrics import known_scale
from lm_eval_ccat.ranker.references import KnownMean


def plan_by(metric: str, n_items: int = 500, **options) -> Plan:
    """Two models on a task without a calibrated bank, that is scored by a metric."""
    bank = ItemBank.blank(range(n_items), task="t", metric=metric, scale=known_scale(metric))
    bank = replace(bank, provenance={"tokens": {"input": 30.0, "output": 5.0}})
    models = [{"name": name, "model": "dummy"} for name in "ab"]
    spec = Spec.read({"task": "t", "models": models, **options})
    return plan_of(spec, {"t": outcomes_of_banks(bank, {}, "t", only_task=True)}, {})


@pytest.mark.parametrize(("metric", "span"), [("exact_match", 1.0), ("bleu", 100.0)])
def test_the_items_that_are_said_to_decide_a_difference_are_the_fewest_that_do(metric, span):
    plan = plan_by(metric)
    said, ways = need_in_words(plan), powers(plan)
    assert said.endswith(" The task has 500.") and ("fewer for graded" in said) == (len(ways) > 1)
    parts = re.findall(r"([\d to]+) if they differ by ([\d.]*\d)", said)
    assert [float(gap) for _, gap in parts] == [gap * span for gap in GAPS]
    for numbers, gap in parts:
        for n, power in zip(map(int, numbers.split(" to ")), ways.values(), strict=True):
            fewest = max(n - 1, plan.warmup_items)
            assert power.smallest_difference(n) <= float(gap) / span + 1e-9
            assert n == fewest or power.smallest_difference(fewest) > float(gap) / span


def test_a_difference_takes_the_answers_and_the_tokens_of_all_models():
    plan = plan_by("exact_match")
    needs = prospects(plan, powers(plan), 0.1)["by_gap"]["0.1"]
    n = needs["right or wrong"]["items_per_model"]
    assert needs["right or wrong"]["answers"] == 2 * n
    assert needs["right or wrong"]["input_tokens"] == 2 * n * 30
    assert needs["full"]["items_per_model"] == 500


def test_a_full_run_of_two_tasks_reads_the_tokens_of_all_their_documents():
    lengths = {"small": (20, 1000.0), "large": (380, 10.0)}
    outcomes = {}
    for task, (n_items, tokens) in lengths.items():
        bank = ItemBank.blank(range(n_items), task=task, metric="exact_match")
        bank = replace(bank, provenance={"tokens": {"input": tokens, "output": 5.0}})
        outcomes[task] = outcomes_of_banks(bank, {}, task, only_task=False)
    models = [{"name": name, "model": "dummy"} for name in "ab"]
    plan = plan_of(Spec.read({"tasks": ["small", "large"], "models": models}), outcomes, {})
    full = prospects(plan, powers(plan), 0.1)["by_gap"]["0.1"]["full"]
    assert full["input_tokens"] == 2 * sum(n * tokens for n, tokens in lengths.values())


@pytest.mark.parametrize(
    ("known", "n_pairs"),
    [({}, 1), ({"k": 0.4}, 3), ({"k": 0.4, "l": 0.5}, 3), ({"k": 0.4, "l": (0.5, 0.02, 0.5)}, 5)],
)
def test_what_items_decide_of_all_pairs_counts_those_with_known_models(known, n_pairs):
    """Enumerated: two equal models equal one exact known model, or any that are not exact."""
    plan = plan_by("exact_match", familywise=True)
    means = {name: KnownMean(*np.broadcast_to(mean, 3) * [1, 0, 1]) for name, mean in known.items()}
    means |= {name: KnownMean(*mean) for name, mean in known.items() if isinstance(mean, tuple)}
    [power] = powers(replace(plan, known=means or None)).values()
    assert power.level == pytest.approx(0.05 / n_pairs)


@pytest.mark.long
def test_only_a_ranking_that_may_end_early_has_a_window_of_asks():
    assert forecast(plan_by("exact_match", 40))["ahead"] == 16
    assert forecast(plan_by("exact_match", 40, stop="limits", max_items=20))["ahead"] == 0


def test_the_most_that_a_run_costs_has_tokens_time_and_judge():
    """Two models, one of them rented by the hour, answer 40 items of 30 + 5 tokens in a second."""
    prices = {"a": {"input": 1, "output": 2}, "b": {"input": 1, "output": 2, "hour": 36}}
    models = [{"name": name, "model": "dummy", "price": price} for name, price in prices.items()]
    plan = plan_by("exact_match", 40, models=models, judge={"item": 0.5})
    assert _ceiling(plan).usd == pytest.approx(40 * (2 * (40 / 1e6 + 0.5) + 0.01))


@pytest.mark.parametrize(("needed", "decided"), [((10, 20), True), ((10, 21), False)])
def test_a_ranking_is_decided_if_every_model_gets_the_items_that_it_needs(
    monkeypatch, needed, decided
):
    monkeypatch.setattr(rehearsal, "MOST_ANSWERS", 0)
    monkeypatch.setattr(rehearsal, "_needed", lambda *_: dict(zip("ab", needed)))
    newcomers, slots = SimpleNamespace(scores=lambda rng: {}), dict.fromkeys("ab", 1)
    limits = dict.fromkeys("ab", 20)
    plan = plan_by("exact_match", 40)
    played = rehearsal._play(plan, newcomers, slots, limits, 0, powers(plan)["right or wrong"])
    assert played.decided == decided
    assert played.answers == {"a": 10, "b": 20}  # no more than the limit

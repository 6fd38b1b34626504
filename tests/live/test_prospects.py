"""What is said beforehand of how many items a ranking needs, beside what such items show."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from lm_eval_ccat import ItemBank
from lm_eval_ccat.live.forecast import GAPS, need_in_words, powers, prospects
from lm_eval_ccat.live.outcomes import outcomes_of_banks
from lm_eval_ccat.live.plan import Plan, plan_of
from lm_eval_ccat.live.spec import Spec
from lm_eval_ccat.metrics import known_scale


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

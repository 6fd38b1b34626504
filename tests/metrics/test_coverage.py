"""The page on coverage, and what was taken in for it."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lm_eval_ccat.errors import MetricError
from lm_eval_ccat.metrics import find_metric

ROOT = Path(__file__).resolve().parents[2]


def test_the_page_shows_what_the_script_counted_and_reasons_are_told_apart():
    file = ROOT / "benchmarks" / "coverage.py"
    spec = importlib.util.spec_from_file_location("coverage_page", file)
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    counted = json.loads(script.MEASURED.read_text(encoding="utf-8"))
    page = (ROOT / "docs" / "coverage.md").read_text(encoding="utf-8")
    assert page == script.page(counted), "run benchmarks/coverage.py --write"
    assert sum(counted["tasks"].values()) > 10_000
    assert not any(counts.get("other") for counts in counted["metrics"].values())
    for metric, reason in (
        ("mcc", "one statistic of the whole corpus"),
        ("bits_per_byte", "ratio or exponential of corpus sums"),
    ):
        with pytest.raises(MetricError) as raised:
            find_metric(metric)
        assert script.why(str(raised.value)) == reason
    assert script.why("something else") == "other"


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(*[st.text("aT. ,xe'h", max_size=14)] * 2), min_size=1, max_size=5))
def test_word_f1_is_the_one_that_the_harness_averages(pairs):
    utils = pytest.importorskip("lm_eval.tasks.afrobench.afriqa.prompt_1.utils")
    entry = {"metric": "f1", "aggregation": "/x/afriqa/utils.f1"}
    config = {"output_type": "generate_until", "metric_list": [entry]}
    metric = find_metric("f1", task="afriqa_bem_prompt_1", config=config)
    assert metric.key() == "f1,none"
    ours = [metric.score(list(pair), task="afriqa_bem_prompt_1") for pair in pairs]
    assert sum(ours) / len(ours) == pytest.approx(utils.f1(pairs))
    with pytest.raises(MetricError, match="aggregates it by a function of its own"):
        find_metric("f1", task="masakhaner_am_prompt_1", config=config)

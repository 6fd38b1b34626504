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


def script():
    file = ROOT / "benchmarks" / "coverage.py"
    spec = importlib.util.spec_from_file_location("coverage_page", file)
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


def test_the_page_shows_what_the_script_counted():
    made = script()
    found = json.loads(made.MEASURED.read_text(encoding="utf-8"))
    page = (ROOT / "docs" / "coverage.md").read_text(encoding="utf-8")
    assert page == made.page(found), "run benchmarks/coverage.py --write"
    assert sum(found["tasks"].values()) > 10_000
    for counts in found["metrics"].values():
        assert counts.get("other", 0) == 0  # every reason has a row of its own


def test_reasons_are_told_apart():
    why = script().why
    for metric, reason in (
        ("mcc", "one statistic of the whole corpus"),
        ("bits_per_byte", "ratio or exponential of corpus sums"),
    ):
        with pytest.raises(MetricError) as raised:
            find_metric(metric)
        assert why(str(raised.value)) == reason
    assert why("something else") == "other"


CONFIG = {
    "task": "afriqa_bem_prompt_1",
    "output_type": "generate_until",
    "metric_list": [{"metric": "f1", "aggregation": "/x/afriqa/utils.f1"}],
}


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(*[st.text("aT. ,xe'h", max_size=14)] * 2), min_size=1, max_size=5))
def test_word_f1_is_the_one_that_the_harness_averages(pairs):
    utils = pytest.importorskip("lm_eval.tasks.afrobench.afriqa.prompt_1.utils")
    metric = find_metric("f1", task="afriqa_bem_prompt_1", config=CONFIG)
    assert metric.key() == "f1,none"
    ours = [metric.score(list(pair), task="afriqa_bem_prompt_1") for pair in pairs]
    assert sum(ours) / len(ours) == pytest.approx(utils.f1(pairs))


def test_f1_of_the_corpus_stays_refused():
    with pytest.raises(MetricError, match="aggregates it by a function of its own"):
        find_metric("f1", task="masakhaner_am_prompt_1", config=CONFIG)

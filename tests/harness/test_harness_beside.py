"""Every score of an answer is kept: what a task reports beside the run's metric is estimated."""

from __future__ import annotations

import numpy as np
import pytest
from local_bench import N_DOCS, Copyist

from lm_eval_ccat.harness.estimates import in_words
from lm_eval_ccat.metrics import find_metric


@pytest.mark.long
@pytest.mark.parametrize(
    "task, metric, of, other",
    [
        ("choices", "acc", "none", "acc_norm,none"),
        ("sums", "exact_match", "strict", "exact_match,majority"),
    ],
)
def test_another_metric_or_filter_is_estimated_from_the_same_draws(bench, task, metric, of, other):
    lm = Copyist()
    found = bench.adaptive([task], lm=lm, metrics=[metric], max_items=20)
    block, values = found["adaptive"][task], found["results"][task]
    assert len(block["documents"]) == 20 >= len(lm.calls) and block["not_estimated"] == []
    name, filter = other.split(",")
    rows = [r for r in bench.stock([task])["samples"][task] if r["filter"] == filter]
    drawn = np.array([float(r[name]) for r in rows if r["doc_id"] in block["documents"]])
    assert values[other] == pytest.approx(drawn.mean())
    simple = drawn.std(ddof=1) * ((1 - 20 / N_DOCS) / 20) ** 0.5
    assert values[f"{name}_stderr,{filter}"] == pytest.approx(simple, rel=0.1)
    assert [one["key"] for one in block["outcomes"]] == [f"{metric},{of}", other]


@pytest.mark.long
def test_a_bank_s_draws_estimate_the_metrics_that_it_does_not_know(bench):
    """An interval says at which looks it holds; of a few draws nothing is said."""
    bank = bench.bank("texts", "chrf", method="default")
    few, most = (bench.adaptive(["texts"], bank, max_items=n) for n in (16, 34))
    assert "sentence_bleu,none" not in few["results"]["texts"]
    block, values = most["adaptive"]["texts"], most["results"]["texts"]
    assert block["method"] == "default" and values["sentence_bleu_stderr,none"] > 0
    full = bench.stock(["texts"], bootstrap_iters=0)["samples"]["texts"]
    truth = np.mean([find_metric("bleu").score(row["bleu"], task="texts") for row in full])
    error = values["sentence_bleu,none"] - truth
    assert abs(error) < 4 * values["sentence_bleu_stderr,none"] < 40
    assert in_words(block, "texts").count("hold for one look, the one at which the run ended") == 1

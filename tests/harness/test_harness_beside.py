"""Every score of an answer is kept: what a task reports beside the run's metric is estimated."""

from __future__ import annotations

import numpy as np
import pytest
from local_bench import N_DOCS, Copyist

from lm_eval_ccat.harness.estimates import in_words
from lm_eval_ccat.metrics import find_metric


def stock_values(bench, task, metric, filter="none"):
    """What the harness itself reports for each document."""
    rows = bench.stock([task], bootstrap_iters=0)["samples"][task]
    return {row["doc_id"]: float(row[metric]) for row in rows if row["filter"] == filter}


@pytest.mark.parametrize(
    "task, metric, others",
    [
        ("choices", "acc", [("acc_norm", "none")]),
        ("sums", "exact_match", [("exact_match", "majority")]),
    ],
)
def test_other_metrics_and_filters_are_estimated_from_the_same_draws(bench, task, metric, others):
    lm = Copyist()
    found = bench.adaptive([task], lm=lm, metrics=[metric], max_items=20)
    asked = found["adaptive"][task]["documents"]
    assert len(asked) == 20 and found["adaptive"][task]["not_estimated"] == []
    for name, filter in others:
        values = stock_values(bench, task, name, filter)
        drawn = np.array([values[doc] for doc in asked])
        label = "_stderr".join((name, ""))
        assert found["results"][task][f"{name},{filter}"] == pytest.approx(drawn.mean())
        error = found["results"][task][f"{label},{filter}"]
        simple = drawn.std(ddof=1) * ((1 - 20 / N_DOCS) / 20) ** 0.5
        assert error == pytest.approx(simple, rel=0.1)
        keys = [one["key"] for one in found["adaptive"][task]["outcomes"]]
        assert keys == [f"{metric},{'strict' if task == 'sums' else 'none'}", f"{name},{filter}"]
    # The same requests as without: no score costs one.
    assert len(lm.calls) <= 20


def test_corpus_metrics_are_estimated_as_sentence_scores(bench):
    part = bench.adaptive(["texts"], metrics=["chrf"], max_items=20)
    keys = {one["key"] for one in part["adaptive"]["texts"]["outcomes"]}
    assert keys == {"sentence_chrf,none", "sentence_bleu,none", "sentence_ter,none"}
    assert {"sentence_bleu,none", "sentence_ter_stderr,none"} <= set(part["results"]["texts"])


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
    assert in_words(block, "texts").count("hold for one look, at a number of items fixed") == 1

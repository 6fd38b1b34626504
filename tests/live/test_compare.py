"""`compare`: what it says of two models, and what a pull request gets to see."""

from __future__ import annotations

import hashlib
import json
import math
import re
import shutil
import xml.etree.ElementTree as ElementTree
from dataclasses import asdict, replace
from itertools import permutations, product
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import stdtrit
from scipy.stats import binom, multinomial, ttest_rel
from scores.test_harness_logs import sample_row, write_run
from worlds.bench import TASK, write_adaptive
from worlds.boards import draw, drive, of

from lm_eval_ccat import ItemBank, Ranker, ScoreTable, calibrate, compare
from lm_eval_ccat.errors import RunError, ScaleError, UsageError
from lm_eval_ccat.journal import JournalFile, read_journal
from lm_eval_ccat.live.comparison import Compared, Gate
from lm_eval_ccat.live.live_comparison import MarginKnown
from lm_eval_ccat.live.losses import losses_of, n_documents_of
from lm_eval_ccat.live.mean_scores import MeanScore, _difference_of_independent
from lm_eval_ccat.live.result import state
from lm_eval_ccat.live.shared_documents import (
    SharedDocuments,
    _documents_without_score,
    _DocumentScore,
    _in_common,
)
from lm_eval_ccat.live.stored import StoredRanking, stored_ranking
from lm_eval_ccat.methods.sample.repeats import RepeatSums
from lm_eval_ccat.metrics import Scale
from lm_eval_ccat.ranker.difference import Difference, compare_scores
from lm_eval_ccat.records import Tell
from lm_eval_ccat.report.plain import chance_in_words, forecast, junit, markdown
from lm_eval_ccat.report.plain import lines as in_lines
from lm_eval_ccat.report.stored_run import read_run
from lm_eval_ccat.scores.prompts import Prompts
from lm_eval_ccat.scores.reading import Logged


def sha(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


SUBJECTS = ["algebra", "biology", "chemistry"]
TWO = np.random.default_rng(0).random((2, 30))


@pytest.fixture
def logs(tmp_path):
    """Writes logs of a model in the harness's layout: two metrics, a subject per document."""

    def write(place: str, share: float, seed: int, documents=range(300), model="m") -> str:
        rng, rows = np.random.default_rng(seed), []
        for k in documents:
            right = float(rng.random() < share - 0.1 * (k % 3))
            doc = {"subject": SUBJECTS[k % 3], "passage": k // 10}
            rows.append(sample_row(k, {"acc": right, "exact_match": right}, doc=doc))
        write_run(tmp_path / "logs", place, rows, model_name=model or place)
        return str(tmp_path / "logs" / place)

    return write


def pair(rows, **about) -> list[ScoreTable]:
    """A table for each of two models."""
    return [ScoreTable.from_arrays([row], [name], **about) for row, name in zip(rows, "ab")]


@pytest.mark.long
@given(st.integers(0, 10**6), st.floats(0.0, 0.3), st.sampled_from([True, False]))
def test_it_is_the_paired_t_test_with_a_margin(seed, margin, higher):
    rng = np.random.default_rng(seed)
    a = rng.random(40)
    b = np.clip(a + rng.normal(rng.normal(0, 0.15), 0.2, 40), 0, 1)
    scale = Scale(-20, 30, higher_is_better=higher)
    found = compare_scores(a, b, margin=50 * margin, scale=scale)
    low, high = ttest_rel(b, a).confidence_interval(0.95)
    ends = [50 * low, 50 * high] if higher else [-50 * high, -50 * low]
    assert [found.low, found.high] == pytest.approx(ends)
    assert (found.verdict == "worse") == (high < -margin)
    assert (found.verdict == "equivalent") == (low >= -margin and high <= margin)
    assert (found.verdict == "not known") == (low < -margin <= high and low <= 0)
    assert (found.p_better > 0.5) == ((found.difference > 0) == higher)
    swapped = compare_scores(b, a, margin=50 * margin, scale=scale)
    assert swapped.difference == pytest.approx(-found.difference)


@pytest.mark.parametrize("column", ["bleu", "score"])
@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_two_columns_suffice_and_the_metric_is_the_one_that_is_named(
    tmp_path, ccat, column, suffix
):
    """Two tables of a document and its score, of a metric whose scale no table states."""
    rng = np.random.default_rng(0)
    scores = {"good": rng.uniform(20, 40, 30)}
    scores["worse"] = scores["good"] - rng.uniform(1, 3, 30)
    for name, values in scores.items():
        frame = pd.DataFrame({"id" if suffix == ".csv" else "doc_id": range(30), column: values})
        path = tmp_path / f"{name}{suffix}"
        frame.to_csv(path, index=False) if suffix == ".csv" else frame.to_parquet(path, index=False)
    paths = [tmp_path / f"{name}{suffix}" for name in ("worse", "good")]
    found = compare(*paths, metric="bleu")
    gain = float(np.mean(scores["good"] - scores["worse"]))
    assert found.verdict == "better"
    assert found.outcomes[0].overall.difference == pytest.approx(gain, abs=1e-6)
    assert ccat("compare", *paths[::-1], "--metric", "bleu", code=5).out.startswith(
        "bleu (0 to 100"
    )
    if column == "bleu":
        with pytest.raises(UsageError, match="share no metric 'chrf'"):
            compare(*paths, metric="chrf")


def test_tables_in_memory_are_of_the_metric_that_they_name():
    scores = np.random.default_rng(0).random((2, 30))
    tables = [ScoreTable.from_arrays([row], [name]) for name, row in zip("ab", scores)]
    with pytest.raises(UsageError, match="share no metric 'bleu'; they hold score"):
        compare(*tables, metric="bleu")


def test_clusters_are_compared_by_students_t_of_as_many_as_there_are():
    rng, of = np.random.default_rng(5), np.repeat(np.arange(30), 5)
    d = rng.normal(0.1, 0.1, 30)[of] + rng.normal(0.0, 0.02, 150)
    found = compare_scores(np.full(150, 0.4), 0.4 + d, clusters=of)
    sums = np.bincount(of, d - d.mean())
    half = stdtrit(29, 0.975) * np.sqrt((sums**2).sum() / 150**2 * 30 / 29)
    assert found.high - found.difference == pytest.approx(half)


@pytest.mark.parametrize("losses", [1, 3])
def test_documents_that_repeat_one_another_in_a_cluster_tell_nothing_more(losses):
    """Each of 60 documents stands five times, as a cluster of five equal ones."""
    candidate = (np.arange(60) >= losses).astype(float)
    alone = compare_scores(np.ones(60), candidate, margin=0.2)
    many = compare_scores(
        np.ones(300), np.repeat(candidate, 5), margin=0.2, clusters=np.repeat(np.arange(60), 5)
    )
    assert (many.low, many.high) == pytest.approx((alone.low, alone.high), abs=1e-12)
    assert many.verdict == alone.verdict


def test_one_answer_to_each_document_tells_nothing_of_others_to_it():
    answers = np.random.default_rng(2).random((2, 1, 40))
    figures = RepeatSums.of_answers(*answers).figures()
    found = compare_scores(*answers[:, 0], repeats=figures, these_items=True)
    assert found == replace(compare_scores(*answers[:, 0]), answers=40)


def test_two_answers_to_each_document_err_by_the_noise_within_documents():
    answers = np.random.default_rng(2).random((2, 2, 40))
    figures = RepeatSums.of_answers(*answers).figures()
    found = compare_scores(*answers.mean(axis=1), repeats=figures, these_items=True)
    error = np.sqrt(answers.var(axis=1, ddof=1).sum() / 2) / 40
    assert found.high - found.difference == pytest.approx(stdtrit(78, 0.975) * error, rel=0.1)


def test_more_documents_of_the_same_kind_decide():
    rng = np.random.default_rng(3)
    a = rng.random(60)
    b = a + rng.normal(0.03, 0.2, 60)
    few = compare_scores(a, b)
    assert few.verdict == "not known"
    times = -(-(60 + few.more_documents) // 60) + 1
    assert compare_scores(np.tile(a, times), np.tile(b, times)).verdict == "better"
    with_margin = compare_scores(a, b, margin=0.01)
    half = 0.5 * (with_margin.high - with_margin.low)  # shrinks with the root of the documents
    wanted = 60 * (half / (with_margin.difference + 0.01)) ** 2
    assert 60 + with_margin.more_documents == pytest.approx(wanted, abs=1)


@pytest.mark.parametrize("n", [30, 50, 100, 200, 300, 1000])
@pytest.mark.parametrize("margin", [0.01, 0.02, 0.05, 0.1, 0.9])
def test_rare_losses_or_gains_pass_and_fail_at_the_margin_in_one_comparison_of_twenty(n, margin):
    """Of right-or-wrong answers all but some are alike; the chance of each number is binomial."""
    chances = binom.pmf(range(n + 1), n, margin)
    likely = [int(losses) for losses in np.flatnonzero(chances > 1e-5)]
    rates = dict.fromkeys(("pass", "fail", "equivalent"), float(chances[chances <= 1e-5].sum()))
    for losses in likely:
        full, some = np.ones(n), np.arange(n) >= losses
        lost, gained = (
            compare_scores(full, some, margin=margin),
            compare_scores(some, full, margin=margin),
        )
        rates["pass"] += chances[losses] * (lost.verdict in ("better", "equivalent", "not worse"))
        rates["fail"] += chances[losses] * (lost.verdict == "worse")
        rates["equivalent"] += chances[losses] * (gained.verdict == "equivalent")
    assert max(rates.values()) <= 0.05, rates


@pytest.mark.long
@pytest.mark.parametrize(("n", "rate", "before"), [(100, 0.015, 0.17), (300, 0.005, 0.17)])
def test_a_rare_loss_larger_than_any_that_came_passes_a_margin_once_in_20_at_most(n, rate, before):
    """By enumeration: of all documents some lose .1, as many lose 1, and together the margin."""
    margin, student, passed = 1.1 * rate, 0.0, 0.0
    for small, large in np.ndindex(9, 9):
        chance = multinomial.pmf([small, large, n - small - large], n, [rate, rate, 1 - 2 * rate])
        lost = np.repeat([0.1, 1.0, 0.0], [small, large, n - small - large])
        verdict = compare_scores(np.ones(n), 1.0 - lost, margin=margin).verdict
        passed += chance * (verdict in ("better", "equivalent", "not worse"))
        error = lost.std(ddof=1) / np.sqrt(n)
        student += chance * (lost.mean() + stdtrit(n - 1, 0.975) * error <= margin)
    assert passed <= 0.05 < before < student


@pytest.mark.parametrize("losses", range(8))
def test_rare_losses_move_no_verdict_without_a_margin(losses):
    """As the paired t-test says: three losses among thousand decide nothing, and four do."""
    candidate = np.arange(1000) >= losses
    worse = losses and ttest_rel(candidate, np.ones(1000)).pvalue < 0.05
    found = compare_scores(np.ones(1000), candidate).verdict
    assert found == ("worse" if worse else "not known" if losses else "equivalent")
    assert worse == (losses > 3)


@pytest.mark.parametrize(("n", "margin"), [(50, 0.01), (100, 0.01), (100, 0.02), (200, 0.001)])
def test_as_many_more_documents_decide_about_equal_scores_as_is_said(n, margin):
    """None of k differs with a chance of 5% if log(.05) / log(1 - margin) = k."""
    found = compare_scores(np.ones(n), np.ones(n), margin=margin)
    decides = np.log(0.05) / np.log(1 - margin)
    assert (found.verdict, found.more_documents) == (
        "not known",
        pytest.approx(decides - n, rel=0.05),
    )


@pytest.mark.long
@pytest.mark.parametrize(("size", "margin", "n"), [(300, 0.02, 50), (1000, 0.01, 100)])
def test_live_models_with_equal_scores_need_about_as_many_more_documents_as_is_said(
    size, margin, n
):
    ranker = Ranker(ItemBank.blank(range(size)), ["a", "b"], stop=MarginKnown(margin))
    said = 0
    while not ranker.done:
        for model, item in ranker.ask(2):
            ranker.tell(model, item, 1.0)
        documents = len(ranker.result().items["b"])
        if documents == n and not said:
            said = Difference.of(ranker.verdicts, documents=n, margin=margin).more_documents
    assert said == pytest.approx(documents - n, rel=0.3)


def test_equal_scores_are_equivalent_and_one_document_tells_nothing():
    assert compare_scores(np.ones(10), np.ones(10)).verdict == "equivalent"
    assert compare_scores(np.ones(9), np.ones(9)).verdict == "not known"
    assert compare_scores(np.ones(9), np.ones(9), exact=True).verdict == "equivalent"
    assert compare_scores(np.zeros(1), np.ones(1), margin=0.5).verdict == "not known"


@pytest.mark.long
@pytest.mark.parametrize(
    "sizes",
    [(60, *[2] * 8), [60 // k for k in range(1, 11)], [6] * 6, [50, *[9] * 9]],
)
def test_equal_models_differ_in_one_comparison_of_twenty_though_a_cluster_dominates(sizes):
    """All documents of a cluster are gained or lost, by every sequence of as many coins.

    The first is gained: what is lost in its place is the same with the models exchanged.
    """
    of = np.repeat(np.arange(len(sizes)), sizes)
    coins = np.array(list(product((0.5,), *[(-0.5, 0.5)] * (len(sizes) - 1))))[:, of]
    verdicts = [compare_scores(0.5 - 0.5 * d, 0.5 + 0.5 * d, clusters=of).verdict for d in coins]
    assert sum(verdict in ("better", "worse") for verdict in verdicts) <= 0.05 * len(coins)


def test_one_cluster_that_holds_most_documents_tells_nothing_and_is_named():
    """Nine clusters, one of which holds 60 of 76 documents, are 76^2 / 3632 = 1.6 of one size."""
    rows, passages = (
        np.random.default_rng(0).random((2, 76)) / 2,
        np.repeat(range(9), [60] + [2] * 8),
    )
    items = {k: {"passage": int(label), "half": k % 2} for k, label in enumerate(passages)}
    found = compare(*pair([rows[0], 0.5 + rows[1]]), cluster="passage", by="half", items=items)
    overall = found.outcomes[0].overall
    assert (found.verdict, overall.low, overall.high) == ("not known", -1.0, 1.0)
    warned = [text for text in found.warnings if "--question benchmark" in text]
    told = "9 clusters of documents tell as much as 1.6 of equal size, and fewer than 5.3 tell"
    assert [text.partition(told)[0] for text in warned] == ["", "0: ", "1: "]


@pytest.mark.parametrize("none", [None, "", float("nan")])
def test_documents_without_the_field_of_clusters_are_clusters_of_their_own(none):
    """Sixteen of a hundred lie in pairs on one passage: eight clusters and 84."""
    rows = np.random.default_rng(1).random((2, 100))
    fields = {k: {"p": k // 2 if k < 16 else none} for k in range(100)}
    found = compare(*pair(rows), cluster="p", items=fields)
    labels = {k: {"p": k // 2 if k < 16 else k} for k in range(100)}
    known = compare(*pair(rows), cluster="p", items=labels)
    ends = [
        [getattr(c.outcomes[0].overall, end) for end in ("low", "high")] for c in (found, known)
    ]
    assert ends[0] == pytest.approx(ends[1])
    assert found.outcomes[0].overall.clusters == 92
    assert "84 documents without 'p': each counts as a cluster of its own" in found.warnings


@pytest.mark.parametrize(
    ("baseline", "candidate"),
    [
        ([0, 1 / 3], [1 / 3, 2 / 3]), ([0.2, 0.3], [0.3, 0.4]),
        ([0, 0.333333], [0.333333, 0.666667]),
        ([0, 0.3333], [0.3333, 0.6667]), ([0, 0.333], [0.333, 0.667]),
        (np.float32([0.1, 0.2]), np.float32([0.4, 0.5])),
    ],
)  # fmt: skip
def test_equal_gains_are_equal_up_to_the_rounding_of_logs(baseline, candidate):
    """Two documents that gain a third, or a tenth, each tell nothing of others."""
    found = compare_scores(baseline, candidate)
    assert found.verdict == "not known" and (found.low, found.high) == (-1.0, 1.0)
    # The same text scored in 32 and in 64 bits is no gain, on whatever number of documents.
    same = compare_scores(np.float32(TWO[0]), TWO[0])
    assert (same.verdict, same.difference) == ("equivalent", 0.0)
    assert compare_scores([0, 0.5], [0.25, 0.76]).verdict == "better"  # .01 is more than rounding
    one_lower = compare_scores(np.full(12, 0.5), [0.499, *[0.5] * 11])  # Student's p is .34
    assert one_lower.verdict == "not known" and one_lower.low < one_lower.difference < 0.0


def test_clusters_of_equal_sums_prove_no_certainty():
    """Each of two or ten clusters holds one gain among three documents, or a gain and a loss."""
    few = compare_scores(np.zeros(6), np.array([1.0, 0.0, 0.0] * 2), clusters=np.arange(6) // 3)
    assert few.verdict == "not known"  # though 1 - 1/3 - 1/3 - 1/3 leaves a last bit
    gains = np.array([1.0, -1.0] * 10)
    many = compare_scores(np.zeros(20) + 1.0, 1.0 + gains, clusters=np.arange(20) // 2)
    assert many.verdict == "not known" and many.low < -0.3 < 0.3 < many.high


@pytest.mark.parametrize(("raw", "doubt"), [(0, "extracted wrongly"), (100, "too easy"), (50, "")])
def test_scores_that_are_all_the_lowest_or_all_the_highest_are_told(raw, doubt):
    """As where no answer is found in the texts, so that a gate passes whatever the models say."""
    found = compare(*pair([np.full(30, raw)] * 2, scale=Scale(0, 100)), margin=20)
    assert found.verdict == "equivalent"
    for text in ("\n".join(found.warnings), markdown(found), junit(found)):
        assert (f"all 60 answers of a, b score {raw} on score: " in text) == bool(doubt)
        assert doubt in text


def test_equal_scores_of_one_side_beside_a_run_have_the_same_error():
    scores = ScoreTable.from_arrays([np.ones(100)], ["full"], scale=Scale())
    of_scores = MeanScore.of(scores, "full", {"question": "population"}, Gate(0.0, 0.95, ""))
    # So many others could come that none of a hundred showed: (1 - x) ** 100 = .025 or less.
    assert 0.93 < of_scores.low < 0.025**0.01 and of_scores.high == pytest.approx(2 - of_scores.low)


def test_equal_scores_are_told_to_leave_documents_like_these_open(ccat, tmp_path):
    """Of ten, none of which differs, up to 26% of all may: .74 ** 10 = .05."""
    for name in "ab":
        ScoreTable.from_arrays([np.ones(10)], [name], metric="acc").write(tmp_path / f"{name}.csv")
    said = ccat("compare", tmp_path / "a.csv", tmp_path / "b.csv")
    assert "b is equivalent to a: +0.00 [95%: -0.26 to +0.26]" in said.out
    told = "of documents like these may still differ, so a margin below 0.26 may not be kept"
    assert f"all 10 scores are equal; up to 26% {told}" in said.err
    for margin, code in ((0.25, 3), (0.26, 0)):
        asked = "--margin", margin
        err = ccat("compare", tmp_path / "a.csv", tmp_path / "b.csv", *asked, code=code).err
        assert told in err
    known = ccat("compare", tmp_path / "a.csv", tmp_path / "b.csv", "--question", "benchmark")
    assert "may still differ" not in known.err
    of_hundred = [
        ScoreTable.from_arrays([np.full(10, 100.0)], [name], metric="my", scale=Scale(0, 100))
        for name in "ab"
    ]
    [warning] = [text for text in compare(*of_hundred).warnings if "may still" in text]
    assert "up to 26%" in warning and "a margin below 26 may" in warning


@pytest.mark.parametrize("scale", [Scale(), Scale(0, 100), Scale(cap=3.0)])
def test_an_interval_of_a_difference_has_no_value_that_the_metric_cannot_have(scale):
    sides = [ScoreTable.from_arrays([x], ["m"], metric="x", scale=scale)
             for x in (scale.restore([0.0, 1.0, 0.0]), scale.restore([1.0, 0.0, 1.0]))]  # fmt: skip
    found = compare(*sides, models=("m", "m"))
    one = found.outcomes[0].overall
    assert found.verdict == "not known" and (one.low, one.high) == (-scale.span, scale.span)
    assert one.more_documents > 3  # by the width of the interval before it was cut


def test_of_several_outcomes_the_worst_that_counts_is_the_verdict():
    found = compare(*pair(TWO))
    y, n = np.random.default_rng(1).random(40), np.arange(40)
    of = {
        "better": compare_scores(y, y + 0.1), "worse": compare_scores(y, y - 0.1),
        "equivalent": compare_scores(y, y), "not known": compare_scores(y, y + (-1.0) ** n),
    }  # fmt: skip
    assert [one.verdict for one in of.values()] == list(of)
    for verdicts, whole, code in (
        (["better", "not known", "worse"], "worse", 5), (["better", "not known"], "not known", 3),
        (["better", "equivalent"], "not worse", 0), (["better"], "better", 0),
    ):  # fmt: skip
        outcomes = [replace(found.outcomes[0], overall=of[verdict]) for verdict in verdicts]
        outcomes.append(replace(outcomes[0], overall=of["worse"], decisive=False))
        joined = replace(found, outcomes=outcomes)
        assert (joined.verdict, joined.exit_code) == (whole, code)


@pytest.mark.long
@pytest.mark.parametrize(
    ("share", "margin", "code", "said"),
    [
        (0.9, 0.0, 0, "cand is better than base"),
        (0.3, 0.05, 5, "cand is worse than base by more than 0.05"),
        (0.62, 0.005, 3, "it is not known whether cand is worse than base by more than 0.005"),
    ],
)
def test_two_logs_one_line_and_an_exit_code(logs, ccat, share, margin, code, said):
    a, b = logs("base", 0.6, 1, model=""), logs("cand", share, 2, model="")
    shown = ccat("compare", a, b, "--metric", "acc", "--margin", margin, code=code).out
    line, other, scores, _ = shown.splitlines()
    assert re.fullmatch(r"  scores: base 0\.\d+, cand 0\.\d+", scores)
    assert said in line and "300 documents" in line
    assert ("would not decide" in line) == (code == 3)
    better = "better" if share > 0.6 else "worse"
    assert f"full runs of these 300 documents: cand is {better} than base" in other
    narrow = compare(a, b, "acc", margin, question="benchmark")
    [one] = narrow.outcomes
    assert narrow.verdict == better and one.other_question.low < one.overall.low


def test_sides_of_one_name_are_named_by_their_paths_and_a_metric_may_only_be_reported(logs, ccat):
    a, b = logs("v1/same", 0.9, 1), logs("v2/same", 0.3, 2)
    out = ccat("compare", a, b, "--metric", "exact_match", "acc=0", code=5).out
    about = "for documents like these"
    assert f"acc (reported; 0 to 1, higher is better), {about}: v2 is worse than v1" in out
    assert f"exact_match (0 to 1, higher is better), {about}: v2" in out
    empty = Path(a).parent / "empty"
    empty.mkdir()
    err = ccat("compare", a, empty, code=1).err
    assert "candidate holds no results; its run failed or has not" in err


@pytest.mark.long
def test_a_side_of_two_models_each_with_another_metric_is_refused_by_name(tmp_path, ccat):
    """Nothing was measured of X on f1, nor of Y on acc: a verdict on both is on no model."""
    head = ["model,doc_id,metric,score"]
    rows = {
        "base.csv": [
            f"base,{k},{metric},{k % 3 > 0:d}" for k in range(60) for metric in ("acc", "f1")
        ],
        "new.csv": [f"X,{k},acc,1" for k in range(60)] + [f"Y,{k},f1,0" for k in range(60)],
    }
    for name, lines in rows.items():
        (tmp_path / name).write_text("\n".join(head + lines))
    sides = [tmp_path / name for name in rows]
    for order, which in ((sides, "candidate"), (sides[::-1], "baseline")):
        err = ccat("compare", *order, code=2).err
        assert f"the {which} holds acc of X and f1 of Y: compare one model" in err
    assert "X is better than base" in ccat("compare", *sides, "--metric", "acc").out
    assert "Y is worse than base" in ccat("compare", *sides, "--metric", "f1", code=5).out


@pytest.mark.long
def test_a_metric_decides_with_all_of_its_filters_or_with_the_one_that_is_named(tmp_path, ccat):
    """By the strict filter the candidate is worse, by the flexible one it is better."""
    for place, right in (("old", (3, 7)), ("new", (7, 3))):
        rows = [
            sample_row(k, {"exact_match": float(k % 10 < n)}, filter=name)
            for name, n in zip(("flexible", "strict"), right)
            for k in range(100)
        ]
        write_run(tmp_path, place, rows, model_name=place, filters=("flexible", "strict"))
    sides = tmp_path / "old", tmp_path / "new"
    for metrics, lines, code in (
        ((), ["exact_match,flexible", "exact_match,strict"], 5),
        (("exact_match",), ["exact_match,flexible", "exact_match,strict"], 5),
        (("exact_match,flexible",), ["exact_match,flexible"], 0),
        (("exact_match,strict",), ["exact_match,strict"], 5),
        (
            ("exact_match=0", "exact_match,flexible"),
            ["exact_match,flexible", "exact_match,strict reported"], 0,
        ),
    ):  # fmt: skip
        named = ("--metric", *metrics) if metrics else ()
        said = ccat("compare", *sides, *named, code=code).out.splitlines()
        heads = [line.partition("/")[2].partition("; 0 to 1")[0] for line in said[:-1:3]]
        assert [head.partition(" (0 to 1")[0].replace(" (", " ") for head in heads] == lines
    err = ccat("compare", *sides, "--metric", "exact_match,strickt", code=2).err
    assert "share no metric 'exact_match,strickt'; they hold demo/exact_match,flexible, demo" in err


@pytest.mark.long
def test_logs_are_found_by_the_file_that_defines_their_task(logs, tmp_path, monkeypatch, ccat):
    """`rank` and `compare` with a live model take the file, so the next command has it, too."""
    sides = logs("base", 0.9, 1), logs("cand", 0.3, 2)
    monkeypatch.chdir(tmp_path)
    Path("mine.yaml").write_text('task: "demo" # of one\noutput_type: generate_until\n')
    told = ccat("compare", *sides, "--task", "mine.yaml", "--metric", "acc", code=5).out
    for metric in ("acc", "demo/acc"):  # as the line before names it
        plain = ccat("compare", *sides, "--task", "demo", "--metric", metric, code=5).out
        assert plain == told and "demo/acc (0 to 1, higher is better)" in plain
    demoted = ("--metric", "acc=0", "demo/acc")
    assert ccat("compare", *sides, *demoted, code=5).out == told
    err = ccat("compare", *sides, "--task", "dmo", "--metric", "acc", code=2).err
    assert "share no task 'dmo'; they hold demo/acc, demo/exact_match" in err
    assert "filter" not in ccat("compare", *sides, "--task", "dmo", code=2).err
    first, again = (
        ccat("calibrate", "logs", "--metric", "acc", "--task", task, "-o", "b.json", code=1).err
        for task in ("demo", "mine.yaml")
    )
    assert first == again and "the scores of several models" in first
    assert compare(*sides, "acc", task="mine.yaml").verdict == "worse"


@pytest.mark.long
def test_every_metric_in_common_and_groups_of_documents(logs, tmp_path, ccat):
    a, b = logs("base", 0.6, 1), logs("cand", 0.9, 2, range(30, 330))
    out, report = tmp_path / "x" / "c.json", tmp_path / "r.xml"
    fields = ["--by", "subject", "--cluster", "passage"]
    said = ccat("compare", a, b, *fields, "--json", out)
    found = json.loads(out.read_text())
    assert [o["metric"] for o in found["outcomes"]] == ["acc", "exact_match"]
    first = found["outcomes"][0]
    assert list(first["groups"]) == SUBJECTS
    assert first["documents"] == 270 == sum(g["documents"] for g in first["groups"].values())
    assert (first["missing"], first["clusters"]) == (30, 30)  # the baseline ran all of its 300
    assert "candidate lacks a score on 30 documents (doc_id 0, " in said.err
    assert "30 scores left out: the baseline was not asked these" in said.err
    assert [line.split()[0] for line in said.out.splitlines()[1:4]] == SUBJECTS
    # A group that is worse is shown, and fails nothing.
    ccat("compare", b, a, "--by", "subject", "-o", report, code=5)
    suite = ElementTree.parse(report).getroot()
    assert suite.attrib["tests"] == "8" and suite.attrib["failures"] == "2"


@pytest.mark.long
@pytest.mark.parametrize(
    ("question", "about", "other"),
    [
        ("population", "for documents like these", "in full runs of these 300 documents"),
        ("benchmark", "in full runs of these documents", "for documents like these"),
    ],
)
def test_every_form_of_a_comparison_names_the_question_it_decides(
    logs, tmp_path, ccat, question, about, other
):
    a, b = logs("baseline", 0.6, 1, model=""), logs("candidate", 0.4, 2, model="")
    files = [tmp_path / name for name in ("c.md", "c.xml", "c.html")]
    outputs = [text for file in files for text in ("-o", file)]
    asked = ["--metric", "exact_match", "--margin", 0.01, "--question", question]
    first, second, *_, step = ccat("compare", a, b, *asked, *outputs, code=5).out.splitlines()
    assert first.startswith(
        f"demo/exact_match (0 to 1, higher is better), {about}: candidate is worse"
    )
    assert second.startswith(f"  {other}: candidate is worse")
    assert step.startswith(f"Next: open {files[2]}")
    comment, report, page = (file.read_text() for file in files)
    assert f"\nVerdicts {about}, margin 0.01" in comment
    title, _, head, _, row, *_ = comment.splitlines()
    assert title == "### candidate against baseline: **worse**"
    assert head.split(" | ")[3:6] == ["difference", "95% interval", "P(better)"]
    name, *_, difference, interval, better, documents, verdict = row.strip("| ").split(" | ")
    of_metric = "demo/exact\\_match (0 to 1, higher is better)"
    assert (name, better, documents, verdict) == (of_metric, "<1%", "300", "worse")
    assert re.fullmatch(r"-0\.\d+", difference)
    assert interval == "exact" or re.fullmatch(r"-0\.\d+ to -0\.\d+", interval)
    failure = ElementTree.fromstring(report).find("testcase/failure")
    assert failure is not None and failure.attrib["message"].startswith(
        f"0 to 1, higher is better, {about}: candidate is"
    )
    assert f"candidate is worse than baseline by more than 0.01, {about}." in page
    assert f"{about[0].upper()}{about[1:]}: candidate is worse" in page


@pytest.mark.parametrize("documents", [300, 20_000])
def test_no_more_documents_than_the_task_has_are_said_to_decide(tmp_path, ccat, documents):
    rng, sides = np.random.default_rng(3), []
    for name, share in (("base", 0.61), ("cand", 0.6)):
        rows = [sample_row(k, {"acc": float(rng.random() < share)}) for k in range(300)]
        samples = {"original": documents, "effective": 300}
        limit = None if documents == 300 else 300
        write_run(tmp_path / "logs", name, rows, samples=samples, limit=limit)
        sides.append(tmp_path / "logs" / name)
    comment = tmp_path / "c.md"
    line, _, _, step = ccat("compare", *sides, "-o", comment, code=3).out.splitlines()
    if documents == 300:
        assert "; at this difference even all 300 documents would not decide" in line
        assert step.startswith("Next: the same command with -o page.html")
    else:
        found = re.search(r"; about ([\d,]+) more documents would decide", line)
        more = int(found[1].replace(",", ""))
        assert 0 < more <= documents - 300
        assert f"on about {more:,} more of the task's 20,000 documents" in step
    assert line.rpartition("; ")[2] in comment.read_text()


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("<script>", "\\<script\\>"),
        ("[x](http://evil)", "\\[x\\](http\\://evil)"),
        ("@team", "@&#8203;team"),
        ("a\n# H", "a␊\\# H"),
    ],
)
def test_no_name_is_markup_in_a_comment(name, shown):
    one, other = (
        ScoreTable.from_arrays([row], [model], task=name, metric="m")
        for row, model in zip(TWO, (name, "b"))
    )
    comment = markdown(replace(compare(one, other), warnings=[f"{name} is slow"]))
    assert name not in comment and comment.count(shown) == 5
    assert len(comment.splitlines()) == 10
    assert f"- {shown} is slow" in comment


@pytest.mark.parametrize("code", [0, 3, 5])
def test_a_test_report_stops_a_job_where_the_exit_code_does(logs, tmp_path, ccat, code):
    share = {0: 0.9, 3: 0.62, 5: 0.3}[code]
    sides, report = (logs("base", 0.6, 1), logs("cand", share, 2)), tmp_path / "r.xml"
    ccat("compare", *sides, "--metric", "acc", "-o", report, code=code)
    suite = ElementTree.parse(report).getroot()
    counts = {key: int(suite.attrib[key]) for key in ("failures", "errors", "skipped")}
    assert counts == {"failures": int(code == 5), "errors": int(code == 3), "skipped": 0}
    assert len(suite.findall("testcase/failure")) == counts["failures"]
    assert len(suite.findall("testcase/error")) == counts["errors"]


def test_one_table_of_two_models_repeats_averaged_lower_is_better():
    base, scale = np.random.default_rng(5).uniform(20, 80, 80), Scale(0, 100, False)
    raw = [base, base + 10, base + 14]
    table = ScoreTable.from_arrays(raw, ["a", "b", "b"], configs=["", "t0", "t1"], scale=scale)
    found = compare(table, table, models=("a", "b"), margin=5)
    as_in_task = ScoreTable.from_arrays(raw, ["a", "b", "b"], configs=["", "", "t1"], scale=scale)
    said = compare(as_in_task, as_in_task, models=("a", "b")).warnings
    assert any("of 2 configs (the task's own, t1)" in warning for warning in said)
    with pytest.raises(UsageError, match="--margin 100 lets every candidate pass"):
        compare(table, table, models=("a", "b"), margin=100)
    told = "the candidate is of 2 configs (t0, t1): their mean on each document is compared"
    assert told in found.warnings and "the baseline is of" not in str(found.warnings)
    [one] = found.outcomes
    assert one.overall.difference == pytest.approx(12) and one.overall.documents == 80
    assert found.verdict == "worse" and found.exit_code == 5
    with pytest.raises(UsageError, match="--models"):
        compare(table, table)
    with pytest.raises(UsageError, match="no model 'c'"):
        compare(table, table, models=("a", "c"))


@pytest.mark.parametrize(
    ("more", "given", "chosen"),
    [((), "a,b/c@d,other", ("a,b/c@d", "other")), ((), "other,a,b/c@d", ("other", "a,b/c@d")),
     ((), "a,b/c,other", None), (("a", "b/c@d,other"), "a,b/c@d,other", None),
     (("a",), "a,b/c@d,other", ("a,b/c@d", "other"))],
)  # fmt: skip
def test_a_name_with_a_comma_is_one_name_where_only_one_split_names_two_models(
    tmp_path, ccat, more, given, chosen
):
    models, file = ["a,b/c@d", "other", *more], tmp_path / "table.csv"
    table = ScoreTable.from_arrays([[0.0, 1.0] * 20] * len(models), models, scale=Scale(0, 1))
    table.write(file)
    for sides in ([file], [file, file]):
        if chosen is None:
            error = ccat("compare", *sides, "--models", given, code=2).err
            assert f"--models {given!r} is not BASELINE,CANDIDATE" in error
        else:
            call = ["compare", *sides, "--models", given, "--range", "0,1", "--json"]
            found = json.loads(ccat(*call, code=(0, 3)).out)
            assert (found["baseline"], found["candidate"]) == chosen


def test_documents_that_changed_are_left_out():
    (one, _), (_, other) = (
        pair(TWO, doc_hashes=[first, *(f"h{k}" for k in range(1, 30))]) for first in ("old", "new")
    )
    found = compare(one, other)
    assert found.outcomes[0].overall.documents == 29
    assert "1 document left out: the same doc_id" in found.warnings[1]


def test_sides_without_a_document_in_common_are_wrong_input(logs, ccat):
    a, b = logs("base", 0.6, 1), logs("cand", 0.9, 2, range(300, 330))
    told = "in common: the baseline has 0, 1, 2, ...; the candidate has 300, 301, 302, ..."
    assert told in ccat("compare", a, b, code=2).err
    (one, _), (_, other) = (pair(TWO, doc_hashes=[f"{h}{k}" for k in range(30)]) for h in "xy")
    with pytest.raises(UsageError, match=r"in common: 30 documents left out: .* different text"):
        compare(one, other)
    as_text = ScoreTable.from_arrays([TWO[1]], ["b"], doc_ids=[str(k) for k in range(30)])
    with pytest.raises(UsageError, match=r"has 0, 1, 2, .*; .* has '0', '1', '10', "):
        compare(ScoreTable.from_arrays([TWO[0]], ["a"]), as_text)


@pytest.mark.parametrize("key", ["num_fewshot", "fewshot_as_multiturn", "dataset_revision"])
def test_settings_in_which_the_sides_differ_are_told(key):
    one, other = (pair(TWO, settings={key: n})[n] for n in (0, 1))
    assert any(f"{key} differs: 0 and 1" in warning for warning in compare(one, other).warnings)


def test_another_prompt_is_refused_by_name_or_accepted_and_told():
    marks = [f"{k:08x}" for k in range(30)]
    one, same = pair(TWO, prompts=Prompts.of_rows([marks]))
    _, other = pair(TWO, prompts=Prompts.of_rows([["4e5f6a7b", *marks[1:]]]))
    with pytest.raises(UsageError, match=r"document 0 is 00000000 in the baseline and 4e5f6a7b in"):
        compare(one, other)
    found = compare(one, other, accept_change=("prompts",))
    assert found.warnings[0].startswith("accepted: the prompt of document 0")
    assert not compare(one, same).warnings
    assert "prompts unknown: the candidate" in compare(one, pair(TWO)[1]).warnings[0]


def test_the_first_place_in_which_prompts_in_logs_differ_is_named(tmp_path, ccat):
    for place, question in (("old", "Say {}."), ("new", "Say it: {}.")):
        rows = [
            {**sample_row(k, {"acc": float(k % 2)}), "prompt_hash": sha(question.format(k)),
             "arguments": {"gen_args_0": {"arg_0": question.format(k), "arg_1": {}}}}
            for k in range(20)
        ]  # fmt: skip
        write_run(tmp_path, place, rows, model_name=place)
    said = ccat("compare", tmp_path / "old", tmp_path / "new", code=2).err
    assert "document 0 is" in said and ", from character 5 on '0.' and 'it: 0.'; 20 of 20" in said


def test_another_judge_is_refused_and_its_temperature_told():
    def table(n, judge, temperature=0.0):
        judges = [{"model": judge, "temperature": temperature}]
        about = {"metric": "judge_score", "scale": Scale(1, 10)}
        settings = {"scorer": {"judge_score": {"judges": judges}}}
        return pair(1 + 9 * TWO, **about, settings=settings)[n]

    assert not any("judges" in w for w in compare(table(0, "a"), table(1, "a")).warnings)
    with pytest.raises(UsageError, match=r"judges is .*'b'.*, the baseline has .*'a'.*one scorer"):
        compare(table(0, "a"), table(1, "b"))
    found = compare(table(0, "a"), table(1, "a", temperature=0.7))
    assert any("the baseline has" in w for w in found.warnings)


@pytest.mark.long
def test_a_stored_ranking_is_compared_by_what_it_says(tmp_path):
    """Estimates of a run with full logs, and two models of one run by their pair."""
    y, names = draw(np.linspace(-1, 1, 10), 200, seed=1), [f"m{k}" for k in range(10)]
    table = ScoreTable.from_arrays(y, names, metric="acc")
    ranker = Ranker(calibrate(table.without(["m2", "m8"])), {"m2": 1.0, "m8": 1.0})
    r, path = drive(ranker, of(y, names)), tmp_path / "run" / "result.json"
    terms = [{"task": "t", "metric": "acc", "filter": None, "weight": 1.0}]
    content = {"terms": terms, **r.to_dict()}
    path.parent.mkdir()
    path.write_text(json.dumps(content))
    one_run = compare(path.parent, path, models=("m2", "m8"))
    assert one_run.verdict == "better"
    said = one_run.outcomes[0].overall
    assert said.difference == pytest.approx(r.estimates["m8"] - r.estimates["m2"])
    assert said.p_better == pytest.approx(r.pairwise["m8", "m2"], abs=1e-6)
    with_full = compare(path, table.select(["m8"]), models=("m2", None))
    assert with_full.verdict == "better"
    assert with_full.outcomes[0].overall.candidate == pytest.approx(y[8].mean())
    # Full scores have no error; a part of them is no mean over the benchmark.
    arms, gain = np.subtract(r.interval("m2"), r.estimates["m2"]), y[8].mean() - r.estimates["m2"]
    beside = with_full.outcomes[0].overall
    assert [beside.low, beside.high] == pytest.approx([gain - arms[1], gain - arms[0]])
    with pytest.raises(UsageError, match=r"scores on 80 documents, the baseline .* over 200\."):
        compare(path, table.select(["m8"]).take(np.arange(80)), models=("m2", None))
    gap, low, high = r.difference("m8", "m2")
    assert (said.difference, said.low, said.high) == pytest.approx((gap, low, high))
    # What the ranking's rule, valid at every look, left open is not decided by one look at it.
    content["pairwise"] = [
        {**pair, "decision": "open", "low": -0.9, "high": 0.9} for pair in content["pairwise"]
    ]
    path.write_text(json.dumps(content))
    for models in (("m2", "m8"), ("m8", "m2")):
        assert compare(path, path, models=models).verdict == "not known"
    assert one_run.outcomes[0].question == "benchmark"


def test_a_part_of_what_a_run_ranked_by_decides_where_the_other_side_has_no_more(tmp_path):
    names, y = ["m2", "m8"], draw([1.0, -1.0], 60, seed=1)
    r = drive(Ranker(ItemBank.blank(range(60), task="t", metric="acc"), names), of(y, names))
    terms = [{"task": "t", "metric": m, "filter": None, "weight": 0.5} for m in ("acc", "f1")]
    part = {**r.to_dict(), "terms": terms[:1]}
    content = {**r.to_dict(), "terms": terms, "outcomes": {"acc": part}}
    (tmp_path / "result.json").write_text(json.dumps(content))
    worse = ScoreTable.from_arrays([y[1]], ["m8"], metric="acc", task="t")
    found = compare(tmp_path / "result.json", worse, models=("m2", None))
    assert [one.decisive for one in found.outcomes] == [True]
    content["terms"] = [{**term, "task": task} for term, task in zip(terms, "tu")]
    assert StoredRanking("result.json", content).tasks == ["t", "u"]
    assert (found.verdict, found.exit_code) == ("worse", 5)


@pytest.mark.long
def test_a_run_answers_no_other_question_than_its_own(tmp_path, ccat):
    ranker, file = Ranker(ItemBank.blank(range(12)), ["a", "b"]), tmp_path / "result.json"
    ranking = drive(ranker, of(draw([-1, 1], 12, seed=1), ["a", "b"]))
    terms = [{"task": "t", "metric": "acc", "filter": None, "weight": 1.0}]
    for run, questions in (
        ({"question": "benchmark", "sampled": False}, {"benchmark", "run"}),
        ({"question": "benchmark", "sampled": True}, {"benchmark"}),
        ({"question": "run", "sampled": True}, {"run"}),
        ({"question": "population", "sampled": False}, {"population"}),
    ):
        file.write_text(json.dumps({"terms": terms, **ranking.to_dict(), **run}))
        told = ccat("compare", file, "--models", "a,b", "--json", code=(0, 3)).out
        assert json.loads(told)["outcomes"][0]["question"] == run["question"]
        for question in ("population", "benchmark", "run"):
            asked = "compare", file, "--models", "a,b", "--question", question
            err = ccat(*asked, code=(0, 3) if question in questions else 2).err
            refused = f"answers the question '{run['question']}', not '{question}'" in err
            assert refused == (question not in questions)


def test_live_models_decide_nothing_about_documents_like_these(tmp_path):
    side = {"model": "echo"}
    with pytest.raises(UsageError, match="leave --question out"):
        compare(side, side, task="t", question="population")
    file = tmp_path / "side.yaml"
    file.write_text("task: t\nquestion: population\nmodels: [{model: echo}]\n")
    with pytest.raises(UsageError, match="leave --question out"):
        compare(side, file)


def test_groups_by_fields_of_ones_own():
    items = {k: {"level": "easy" if k < 12 else "hard"} for k in range(30)}
    groups = compare(*pair(TWO), by="level", items=items).outcomes[0].groups
    assert {name: d.documents for name, d in groups.items()} == {"easy": 12, "hard": 18}
    assert groups["easy"].difference == pytest.approx((TWO[1] - TWO[0])[:12].mean())
    with pytest.raises(UsageError, match="no document has a field 'topic'"):
        compare(*pair(TWO), by="topic", items=items)
    with pytest.raises(UsageError, match="no document has a field 'level'; give items="):
        compare(*pair(TWO), by="level")


@pytest.mark.long
def test_a_folder_that_run_adaptive_wrote_is_a_side_of_a_comparison(bench, server, tmp_path, ccat):
    out, arms = tmp_path / "out", []
    for name in ("m01", "m11"):
        about = "--max_items", 40, "--log_samples", "--output_path", out / name
        ccat(*bench.adaptive(server, name, *about))
    said = ccat("compare", out / "m01", out / "m11", "--json")
    [one] = json.loads(said.out)["outcomes"]
    assert said.err.count("holds adaptive runs: their estimates of the full benchmark") == 2
    assert (one["metric"], one["documents"], one["verdict"]) == ("share", 40, "better")
    for name, estimate in (("m01", one["baseline"]), ("m11", one["candidate"])):
        [file] = (out / name).rglob("results_*.json")
        block = json.loads(file.read_text())["adaptive"][TASK]
        assert block["estimate"] == estimate
        arms.append([abs(end - estimate) for end in block["interval"]])
    (down, _), (_, up) = arms
    assert one["high"] - one["difference"] == pytest.approx((down**2 + up**2) ** 0.5)
    # Two models of one folder, by name; and a model that is not there.
    ccat("compare", out, out, "--models", "m01,m11")
    [file] = (out / "m11").rglob("results_*.json")
    content, whole = json.loads(file.read_text()), file.read_text()
    content["adaptive"][TASK]["confidence"] = 0.51
    file.write_text(json.dumps(content))
    err = ccat("compare", out, "--models", "m01,m11", code=2).err
    assert "differ in confidence (0.95 and 0.51)" in err or "(0.51 and 0.95)" in err
    file.write_text(whole)
    # Two folders whose runs decide different questions.
    other = out.parent / "other"
    shutil.copytree(out, other)
    [file] = (other / "m11").rglob("results_*.json")
    content["adaptive"][TASK] |= {"confidence": 0.95, "question": "population"}
    file.write_text(json.dumps(content))
    err = ccat("compare", out / "m01", other / "m11", code=2).err
    assert "differ in question (benchmark and population)" in err
    # A model of another task is no later run of the same model.
    content = json.loads(whole)
    content["adaptive"]["another"] = content["adaptive"].pop(TASK)
    file.with_name("results_2031-01-01T00-00-00.000000.json").write_text(json.dumps(content))
    file.write_text(whole)
    assert "earlier run" not in ccat("compare", out / "m01", other / "m11").err
    err = ccat("compare", out, out, "--models", "m01,m12", code=2).err
    assert "no model 'm12'; did you mean m11 or m01?" in err


def test_a_weighted_mean_is_called_by_its_terms():
    difference, terms = compare_scores(np.zeros(2), np.ones(2)), "0.7 x one/acc + 0.3 x two/acc"
    mean = Compared(terms, "acc", None, "", difference, {}, weighted=True)
    assert mean.name == "0.7 x one/acc + 0.3 x two/acc"
    assert replace(mean, task="one", weighted=False).name == "one/acc"
    many = " + ".join(f"0.05 x t{k}/acc" for k in range(20))
    assert replace(mean, task=many).name == "0.05 x t0/acc + 0.05 x t1/acc + 18 more"


def test_no_more_documents_decide_between_estimates_than_are_left(tmp_path):
    a, b = (write_adaptive(tmp_path / f"{n}.json", n, x, 0.1) for n, x in (("a", 0.5), ("b", 0.51)))
    [one] = compare(a, b).outcomes
    assert one.overall.verdict == "not known" and one.overall.more_documents == 6


@pytest.mark.parametrize(
    ("documents", "verdict"), [(2, "not known"), (9, "not known"), (10, "better")]
)
@pytest.mark.parametrize(("low", "high"), [(0.2, 0.3), (0.25, 0.5), (0.3, 0.7)])
def test_differences_that_are_equal_but_for_rounding_prove_nothing_of_other_documents(
    documents, verdict, low, high
):
    first = np.round(low + 0.1 * (np.arange(documents) % 2), 12)
    tables = pair([first, np.round(first + (high - low), 12)], scale=Scale(0, 2))
    items = {k: {"half": "ab"[2 * k // documents]} for k in range(documents)}
    found = compare(*tables, by="half", items=items)
    [outcome] = found.outcomes
    assert outcome.overall.verdict == verdict and outcome.other_question.verdict == "better"
    assert f"in full runs of these {documents} documents: b is better than a" in "\n".join(
        in_lines(found)
    )
    assert {d.verdict for d in outcome.groups.values()} == {"not known"}
    # Groups are about what the whole is about.
    found = compare(*tables, by="half", items=items, question="benchmark")
    [outcome] = found.outcomes
    assert outcome.overall.verdict == "better" and outcome.other_question.verdict == verdict
    assert {d.verdict for d in outcome.groups.values()} == {"better"}


@pytest.mark.parametrize("step", [1e-16, -1e-14, 1e-12, -1e-11, 4e-11, -4e-10])
@pytest.mark.parametrize("documents", [2, 3, 9, 10, 12])
@pytest.mark.parametrize("best", [1, 100])
def test_scores_that_are_equal_up_to_rounding_say_what_equal_scores_say(documents, step, best):
    first = np.full(documents, 0.3)
    for second in (
        first + step * (np.arange(documents) % 3),
        first + step * (-1.0) ** np.arange(documents),
    ):
        for question in ("population", "benchmark"):
            equal, rounded = (
                compare(*pair([best * first, best * side], scale=Scale(0, best)), question=question)
                for side in (first, second)
            )
            [of_equal], [of_rounded] = equal.outcomes, rounded.outcomes
            assert not of_rounded.losses
            of_rounded, of_equal = asdict(of_rounded.overall), asdict(of_equal.overall)
            assert of_rounded == pytest.approx(of_equal, abs=1e-9)


@pytest.mark.parametrize("documents", [3, 5, 9])
def test_few_documents_whose_differences_cancel_are_not_equivalent(documents):
    """Differences far beyond rounding, of which the mean and its error are tiny."""
    for size in (2e-9, 1e-8, 1e-6):
        gaps = np.zeros(documents)
        gaps[:2] = size, -size
        found = compare(*pair([np.full(documents, 0.3), 0.3 + gaps]))
        assert found.verdict == "not known"


def test_sides_of_different_scales_are_refused_by_name_until_the_scale_is_stated(tmp_path, ccat):
    """A good model near 30 and one near 0, both on 0 to 100: the second looks like 0 to 1."""
    rng, files = np.random.default_rng(0), []
    for name, raw in (("good", rng.uniform(25, 35, 40)), ("bad", rng.uniform(0.1, 0.9, 40))):
        rows = [f"{name},{k},bleu,{score}" for k, score in enumerate(raw)]
        files.append(tmp_path / f"{name}.csv")
        files[-1].write_text("\n".join(["model,doc_id,metric,score", *rows]))
    said = ccat("compare", *files, "--metric", "bleu", code=2).err
    assert "bad.csv: scores of 'bleu' look like 0 to 1, but the metric table has 0 to 100" in said
    assert "--range" in said
    out = ccat("compare", *files, "--metric", "bleu", "--range", "0,100", code=5).out
    assert "bad is worse than good: -2" in out


def test_scores_that_look_like_another_scale_than_the_metric_s_are_refused_or_announced(tmp_path):
    """Two models of BLEU below 1, on 0 to 100; of f1 the metric table has 0 to 1."""
    raw = np.random.default_rng(0).uniform(0.1, 0.9, 40)

    def sides(metric):
        for n, name in enumerate(("good", "bad")):
            rows = [f"{name},{k},{metric},{score / (n + 1)}" for k, score in enumerate(raw)]
            file = tmp_path / f"{name}-{metric}.csv"
            file.write_text("\n".join(["model,doc_id,metric,score", *rows]))
            yield file

    bleu = list(sides("bleu"))
    for metric in (None, "bleu"):
        with pytest.raises(ScaleError, match=r"look like 0 to 1, but .* has 0 to 100, .*--range"):
            compare(*bleu, metric=metric)
    tables = [ScoreTable.read(file) for file in bleu]
    assert all("look like 0 to 1" in table.warnings[0] for table in tables)
    with pytest.raises(ScaleError, match="was guessed"):
        compare(*tables)
    for best, scale in ((1, "0 to 1, higher is better"), (100, "0 to 100, higher is better")):
        [outcome] = compare(*bleu, range=(0, best)).outcomes
        assert outcome.scale == scale and outcome.overall.verdict == "worse"
    assert compare(*sides("f1")).outcomes[0].scale == "0 to 1, higher is better"
    assert not ScoreTable.read(tmp_path / "good-f1.csv").warnings


UNIT_SCORES = np.append(np.random.default_rng(1).random(37), [0.001, 0.002, 0.003])
BY_PERCENT = ("--range", "0,100")


@pytest.mark.parametrize(
    ("metric", "low", "high", "flags", "told"),
    [
        # Nothing but the metric's name states the scale.
        ("bleu", UNIT_SCORES, 90 * UNIT_SCORES, (), "refused: state the scale"),
        ("wer", UNIT_SCORES, 90 * UNIT_SCORES, (), "refused: state the scale"),
        # A weak model beside a good one, or two scales: nobody can tell.
        ("bleu", UNIT_SCORES, 90 * UNIT_SCORES, BY_PERCENT, "warned"),
        ("wer", UNIT_SCORES, 90 * UNIT_SCORES, ("--range", "100,0"), "warned"),
        # Right and wrong on two scales, which ten scores show and three do not.
        ("judge", UNIT_SCORES > 0.5, 100 * (UNIT_SCORES > 0.4), BY_PERCENT, "refused: 0 or 1"),
        ("judge", np.array([0, 1, 1]), np.array([100, 100, 0]), BY_PERCENT, "warned"),
        ("judge", UNIT_SCORES > 0.5, 85 + 5 * (UNIT_SCORES > 0.5), BY_PERCENT, "warned"),
        # A metric that is known to reach from 0 to 1, which one side leaves and the other does not.
        ("rougeL", UNIT_SCORES, 90 * UNIT_SCORES, BY_PERCENT, "refused: rougeL is known to have"),
        # No more than what a weak and a less weak model have; or no score that says anything.
        ("bleu", UNIT_SCORES, 9 * UNIT_SCORES, (), ""),
        ("bleu", 0 * UNIT_SCORES, 90 * UNIT_SCORES, (), ""),
        ("bleu", 20 + UNIT_SCORES, 90 * UNIT_SCORES, (), ""),
        # Of an error rate a few are large.
        ("wer", UNIT_SCORES, np.where(UNIT_SCORES > 0.9, 50.0, UNIT_SCORES), (), ""),
    ],
)  # fmt: skip
def test_a_side_within_0_to_1_beside_one_far_above_is_refused_or_told(
    tmp_path, ccat, metric, low, high, flags, told
):
    rows = [f"{name},{k},{metric},{float(score)}" for name, side in (("low", low), ("high", high))
            for k, score in enumerate(side)]  # fmt: skip
    table, file = tmp_path / "t.csv", tmp_path / "c.json"
    table.write_text("\n".join(["model,doc_id,metric,score", *rows]))
    for models in ("low,high", "high,low"):
        asked = "compare", table, "--models", models, "--metric", metric, *flags, "--json", file
        said = ccat(*asked, code=2 if told.startswith("refused") else (0, 3, 5))
        assert (f"{metric} of low lies within 0 to 1" in said.err) == bool(told)
        assert told.removeprefix("refused: ").removeprefix("warned") in said.err
        if not told.startswith("refused"):
            content = json.loads(file.read_text())
            assert [w for w in content["warnings"] if "within 0 to 1" in w] == [
                line.removeprefix("warning: ") for line in said.err.splitlines() if "within" in line
            ]
            better = "high" if metric in ("bleu", "judge") else "low"
            if len(low) == 40:
                assert content["verdict"] == ("better" if models.endswith(better) else "worse")


def test_a_cap_that_the_file_states_is_not_of_the_metric_s_name(tmp_path, ccat):
    table = tmp_path / "t.csv"
    rows = [
        f"{name},{k},wer,{float(score)},100"
        for name, side in (("low", UNIT_SCORES), ("high", 90 * UNIT_SCORES))
        for k, score in enumerate(side)
    ]
    table.write_text("\n".join(["model,doc_id,metric,score,scale_cap", *rows]))
    said = ccat("compare", table, "--models", "low,high", "--metric", "wer", code=(0, 3, 5))
    assert "wer of low lies within 0 to 1" in said.err and "state the scale" not in said.err


def test_every_warning_that_is_printed_stands_in_the_json(logs, tmp_path, ccat):
    for name, seed in (("a", 1), ("b", 2)):
        rng = np.random.default_rng(seed)
        rows = [f"{name},{k},f1,{score}" for k, score in enumerate(rng.random(40))]
        (tmp_path / f"{name}.csv").write_text("\n".join(["model,doc_id,metric,score", *rows]))
    said = ccat(
        "compare", tmp_path / "a.csv", tmp_path / "b.csv", "--range", "1,0", "--json",
        code=(0, 3, 5),
    )  # fmt: skip
    warnings = json.loads(said.out)["warnings"]
    assert said.err.splitlines() == [f"warning: {warning}" for warning in warnings]
    assert "a higher f1 is known to be better, but" in warnings[1]
    assert warnings[0].startswith("prompts unknown: neither side states them")


@pytest.mark.parametrize("tasks", [("a",), ("a", "b"), ("a", "b", "c")])
def test_a_warning_names_the_side_and_the_outcomes_that_it_is_about_unless_these_are_all(
    tmp_path, tasks
):
    for n, name in enumerate(("base", "cand")):
        for task in tasks:
            # Above the cap of 1 lie one and two of the sides' scores; of the third task two more.
            above = n + 1 + 2 * (task == "c")
            errors = [1.5] * above + [0.5] * (20 - above)
            samples = [sample_row(k, {"wer": error}) for k, error in enumerate(errors)]
            write_run(tmp_path / name, "m", samples, task=task, day=1 + tasks.index(task))
    found = compare(tmp_path / "base", tmp_path / "cand")
    told = dict(text.split("wer is unbounded") for text in found.warnings if "capped" in text)
    shares = {about: re.search(r"\((.*?)%", text)[1] for about, text in told.items()}
    if "c" not in tasks:
        assert shares == {"baseline: ": "5.0", "candidate: ": "10.0"}
        return
    assert shares == {
        "a/wer, b/wer: baseline: ": "5.0", "a/wer, b/wer: candidate: ": "10.0",
        "c/wer: baseline: ": "15.0", "c/wer: candidate: ": "20.0",
    }  # fmt: skip


@pytest.mark.long
@pytest.mark.parametrize("lower", [False, True])
def test_a_direction_that_a_side_states_is_not_turned(tmp_path, lower):
    """By the column of a table, the task of logs, a table that was read, a run."""
    word = "lower" if lower else "higher"
    for n, name in enumerate(("a", "b")):
        rows = [f"{name},{k},mine,{(k % 7 + n) / 9},{not lower}" for k in range(40)]
        head = "model,doc_id,metric,score,higher_is_better"
        (tmp_path / f"{name}.csv").write_text("\n".join([head, *rows]))
        samples = [sample_row(k, {"mine": (k % 7 + n) / 9}) for k in range(40)]
        direction = {"demo": {"mine": not lower}}
        write_run(tmp_path / "logs", name, samples, higher_is_better=direction)
        block = {"metric": "mine", "scale": Scale(0, 1, not lower).to_dict()}
        write_adaptive(tmp_path / f"{name}.json", name, 0.5 + 0.1 * n, 0.01, block=block)
    tables = [ScoreTable.read(tmp_path / f"{name}.csv", range=(0, 1)) for name in "ab"]
    logs = [tmp_path / "logs"] * 2
    for sides, names in (
        ([tmp_path / "a.csv", tmp_path / "b.csv"], (None, None)), (tables, (None, None)),
        (logs, ("a", "b")), ([tmp_path / "a.json", tmp_path / "b.json"], (None, None)),
    ):  # fmt: skip
        with pytest.raises(UsageError, match=rf"(states that a {word} mine|{word} is better)"):
            compare(*sides, models=names, range=(0, 1), lower_is_better=not lower)
        found = compare(*sides, models=names, range=(0, 1), lower_is_better=lower)
        assert found.verdict == ("worse" if lower else "better")
    # What only reads says so.
    table = ScoreTable.read(tmp_path / "a.csv", range=(0, 1), lower_is_better=not lower)
    assert f"states that a {word} mine is better" in table.warnings[0]


@pytest.mark.long
@pytest.mark.parametrize("range_flag, code", [("0,1", 0), ("1,0", 5)])
def test_a_metric_of_which_nothing_is_known_is_refused_until_its_scale_is_stated(
    tmp_path, ccat, range_flag, code
):
    """`match` in [0, 1] may be a share of matches or of errors: the file does not say."""
    files, base = {}, np.random.default_rng(0).uniform(0.1, 0.5, 40)
    for metric in ("match", "acc", ""):
        for name, raw in (("old", base), ("new", base + np.linspace(0.2, 0.3, 40))):
            rows = [f"{name},{k},{score},{metric}" for k, score in enumerate(raw)]
            head = "model,doc_id,score" + (",metric" if metric else "")
            files[metric, name] = tmp_path / f"{metric}-{name}.csv"
            files[metric, name].write_text("\n".join([head, *(r.rstrip(",") for r in rows)]))
    sides = files["match", "old"], files["match", "new"]
    for stated in ((), ("--metric", "match")):
        said = ccat("compare", *sides, *stated, code=2).err
        assert "neither the scale nor the direction of 'match' is known" in said
        assert "--range WORST,BEST" in said
    ccat("compare", *sides, "--range", range_flag, code=code)
    for known in ("acc", ""):
        ccat("compare", files[known, "old"], files[known, "new"], code=0)
    # A direction alone leaves the scale open; a table that was read keeps in mind that it guessed.
    guessed = [ScoreTable.read(path) for path in sides]
    with pytest.raises(ScaleError, match="the scale of 'match' of the baseline was guessed"):
        compare(*guessed)
    guessed[0].write(tmp_path / "again.csv")
    assert ScoreTable.read(tmp_path / "again.csv").guessed
    ends = {"range": (0, 1), "lower_is_better": code != 0}
    assert compare(*(ScoreTable.read(path, **ends) for path in sides)).exit_code == code
    for column, value in (("higher_is_better", code == 0), ("scale_min", 0), ("scale_max", 1)):
        said = ccat("compare", *sides, code=2).err
        if column == "scale_min":
            assert "the direction of 'match' is known, but not its scale; state it" in said
            ccat("compare", *sides, "--range", range_flag, code=code)
        for path in sides:
            head, *rows = path.read_text().split("\n")
            lines = [f"{head},{column}", *(f"{row},{str(value).lower()}" for row in rows)]
            path.write_text("\n".join(lines))
    ccat("compare", *sides, code=code)


def test_a_run_is_compared_on_the_scale_that_it_states_or_not_at_all(tmp_path):
    """Lower is better of a metric that no table knows."""
    lower = {"scale": Scale(0, 1, higher_is_better=False).to_dict(), "metric": "mine"}
    a, b = (
        write_adaptive(tmp_path / f"{n}.json", n, x, 0.02, block=lower)
        for n, x in (("a", 0.3), ("b", 0.6))
    )
    assert [compare(a, b).verdict, compare(b, a).verdict] == ["worse", "better"]
    higher = write_adaptive(tmp_path / "c.json", "c", 0.6, 0.02, block={"metric": "mine"})
    with pytest.raises(
        UsageError, match=r"scales of mine: .*a.json 0 to 1, lower.*c.json 0 to 1, "
    ):
        compare(a, higher)
    table = ScoreTable.from_arrays([[0.5, 0.7] * 20], ["d"], metric="mine")
    with pytest.raises(UsageError, match="different scales of mine"):
        compare(a, table)
    content = json.loads(a.read_text())
    del content["adaptive"]["t"]["scale"]
    a.write_text(json.dumps(content))
    with pytest.raises(RunError, match=r"a\.json: not a complete result .*states no scale"):
        compare(a, b)


def test_adaptive_runs_of_one_model_are_told_apart_by_their_configurations(tmp_path):
    for day, (revision, estimate) in enumerate([("step1", 0.9), ("step2", 0.7), ("step1", 0.2)], 1):
        config = {"model_args": f"pretrained=m,revision={revision}"}
        file = tmp_path / f"results_2026-01-{day:02d}T00-00-00.000000.json"
        write_adaptive(file, "m", estimate, 0.02, config=config)
    found = compare(tmp_path, tmp_path, models=("m@step1", "m@step2"))
    assert found.outcomes[0].overall.baseline == 0.2 and found.verdict == "better"
    assert "1 earlier run left out, as a later one is of the same model" in found.warnings[0]


@pytest.mark.long
@pytest.mark.parametrize("lower", [False, True])
def test_two_models_of_a_run_are_judged_by_the_interval_that_the_run_states(tmp_path, lower):
    """By margins on both sides of each end, whichever of the two is the candidate."""
    y, names = draw([-1.2, -0.3, -0.2, 0.9], 200, seed=4), list("abcd")
    scale = Scale(0, 40, higher_is_better=not lower)
    ranker = Ranker(ItemBank.blank(range(200), scale=scale), names, max_items=60, stop="limits")
    result = drive(ranker, of(y, names))
    terms = [{"task": "t", "metric": "acc", "filter": None, "weight": 1.0}]
    path = tmp_path / "result.json"
    path.write_text(json.dumps({"terms": terms, **result.to_dict()}))
    seen = set()
    for baseline, candidate in permutations(names, 2):
        gain, low, high = (40 * end for end in result.difference(candidate, baseline))
        decided = result.decisions[baseline, candidate] == "decided"
        ends = [abs(end) for end in (low, high) if abs(end) > 0.1]
        for margin in [0.0, *(end + step for end in ends for step in (-0.05, 0.05))]:
            found = compare(path, path, margin=margin, models=(baseline, candidate))
            overall = found.outcomes[0].overall
            wanted = (
                "better" if decided and gain > 0
                else "worse" if (decided if margin == 0 else high < -margin)
                else "not worse" if 0 < margin and -margin <= low
                else "not known"
            )  # fmt: skip
            if 0 < margin and -margin <= low and high <= margin:
                wanted = "equivalent"
            assert overall.verdict == wanted, (baseline, candidate, margin)
            said = [-overall.high, -overall.low] if lower else [overall.low, overall.high]
            assert said == pytest.approx([low, high])
            seen.add(wanted)
    assert seen == {"better", "worse", "not worse", "not known", "equivalent"}
    with pytest.raises(
        UsageError, match=r"states its intervals at a confidence of 0\.95, not 0\.9"
    ):
        compare(path, path, models=("a", "b"), confidence=0.9)


def test_an_exact_difference_is_told_by_its_own_digits_beside_a_wide_interval(tmp_path, ccat):
    for side, score in (("a", 0.5), ("b", 0.47)):
        rows = "".join(f"{doc},acc,{score}\n" for doc in range(5))
        (tmp_path / f"{side}.csv").write_text(f"doc_id,metric,score\n{rows}")
    told = ccat("compare", tmp_path / "a.csv", tmp_path / "b.csv", code=3).out
    assert "in full runs of these 5 documents: b is worse than a (-0.030)" in told


def test_a_margin_is_not_the_smallest_difference_of_the_ranking(tmp_path):
    """The ranking calls models equivalent within 0.3; a gate of 0.01 does not pass the worse."""
    y, path = draw([0.0, -0.4], 200, seed=4), tmp_path / "result.json"
    ranker = Ranker(ItemBank.blank(range(200)), ["a", "b"], min_difference=0.3)
    result = drive(ranker, of(y, ["a", "b"]))
    assert result.decisions["a", "b"] == "equivalent"
    terms = [{"task": "t", "metric": "acc", "filter": None, "weight": 1.0}]
    path.write_text(json.dumps({"terms": terms, **result.to_dict()}))
    verdicts = {
        margin: compare(path, path, margin=margin, models=("a", "b")).verdict
        for margin in (0.0, 0.01, 0.3)
    }
    assert verdicts == {0.0: "not known", 0.01: "not known", 0.3: "equivalent"}
    with pytest.raises(UsageError, match="--margin says how much worse is still good enough"):
        side = tmp_path / "side.yaml"
        side.write_text("task: t\nmin_difference: 0.2\nmodels: [{model: echo}]\n")
        compare({"model": "echo"}, side)


@pytest.mark.parametrize("n", [2, 9, 20])
def test_equal_scores_beside_a_run_do_not_prove_that_none_is_lower(n, tmp_path):
    y, path = draw([-1.0], 100, seed=4), tmp_path / "result.json"
    result = drive(Ranker(ItemBank.blank(range(100)), ["a"], max_items=50), of(y, ["a"]))
    terms = [{"task": "t", "metric": "acc", "filter": None, "weight": 1.0}]
    of_like = {"question": "population", "items_of_benchmark": n}  # of all it would be exact
    path.write_text(json.dumps({"terms": terms, **result.to_dict(), **of_like}))
    table = ScoreTable.from_arrays(np.ones((1, n)), ["b"], metric="acc", task="t")
    said = compare(path, table, models=("a", "b")).outcomes[0].overall
    width = said.high - said.low
    low, high = result.interval("a")
    assert width > 1.05 * (high - low) if n > 9 else said.low < 0.0 < said.high


@pytest.mark.long
def test_a_result_beside_a_journal_of_other_answers_is_made_anew(bench, server, ccat):
    """The journal has as many lines as before, each with the seal that fits it."""
    bench.ranked(server, ["m01", "m05"], bank=None, budget={"items": 60}, stop="limits")
    run = bench.run()
    before, file = compare(run, run, models=("m01", "m05")), run / "journal.jsonl"
    whole, records = file.read_bytes(), list(read_journal(file)[1])
    file.unlink()
    JournalFile(file).append(
        replace(record, score=0.0, raw=0.0)
        if isinstance(record, Tell) and record.model == "m05"
        else record
        for record in records
    )
    assert len(file.read_bytes().splitlines()) == len(whole.splitlines())
    after = compare(run, run, models=("m01", "m05"))
    assert (before.verdict, after.verdict) == ("better", "worse")
    assert read_run(run).result["models"]["m05"]["estimate"] < 0.1
    file.write_bytes(whole)
    assert compare(run, run, models=("m01", "m05")) == before


@pytest.mark.long
def test_a_result_of_the_journal_as_it_was_before_is_made_anew(bench, server):
    setting = {"bank": None, "stop": "limits"}
    bench.ranked(server, ["m01", "m05"], budget={"items": 40}, **setting)
    run = bench.run()
    shorter = (run / "result.json").read_bytes()
    bench.ranked(server, ["m01", "m05"], more=["--resume"], budget={"items": 60}, **setting)
    after = compare(run, run, models=("m01", "m05"))
    (run / "result.json").write_bytes(shorter)
    assert compare(run, run, models=("m01", "m05")) == after
    assert read_run(run).result["models"]["m05"]["n_items"] == 30


@pytest.mark.long
def test_a_result_that_was_edited_is_not_believed(bench, server):
    """Its journal is as it was, and says what the run found."""
    bench.ranked(server, ["m01", "m05"], bank=None, budget={"items": 60}, stop="limits")
    run = bench.run()
    before, file = compare(run, run, models=("m01", "m05")), run / "result.json"
    content = json.loads(file.read_text())
    for pair in content["pairwise"]:
        ends = {"low": -pair["high"], "high": -pair["low"], "difference": -pair["difference"]}
        pair.update(ends, p=1.0 - pair["p"])
    models = content["models"]
    models["m01"], models["m05"] = models["m05"], models["m01"]
    file.write_text(json.dumps(content))
    for side in (run, file):
        assert compare(side, side, models=("m01", "m05")) == before
    assert before.verdict == "better"


@pytest.mark.long
def test_a_result_that_is_not_of_the_journal_beside_it_is_made_anew(bench, server, ccat):
    """An older one, one of a journal that was longer, and one that is missing."""
    some = ["m01", "m05", "m11"]
    bench.ranked(server, some, bank=None, budget={"items": 45}, stop="limits")
    run = bench.run()
    file, journal = run / "result.json", run / "journal.jsonl"
    old, short = file.read_bytes(), journal.read_bytes()
    ccat("rank", run.with_suffix(".yaml"), "--resume", "--budget_items", 150, code=(0, 3))
    new, whole = compare(run, run, models=("m01", "m05")), file.read_bytes()
    file.write_bytes(old)
    found = compare(run, file, models=("m01", "m05"))
    assert found == new and found.outcomes[0].overall.documents > 15
    assert stored_ranking(run).content == state(run).content
    file.unlink()
    assert compare(run, run, models=("m01", "m05")) == new
    journal.write_bytes(short)
    file.write_bytes(old)
    shorter = compare(run, run, models=("m01", "m05"))
    for content in (old, whole):
        file.write_bytes(content)
        assert compare(run, run, models=("m01", "m05")) == shorter != new
        assert read_run(run).result["items_administered"] == 45
    # Without a result, and without an end of its journal, it is no finished run.
    file.unlink()
    journal.write_bytes(b"".join(short.splitlines(keepends=True)[:30]))
    with pytest.raises(RunError, match=r"no result.json; the run has not ended"):
        compare(run, run, models=("m01", "m05"))


def test_nothing_is_given_twice():
    """An option has one place: a second name or value is refused, and none is passed over."""
    sides = pair(TWO)
    found = compare(*sides, "score", question="benchmark", confidence=0.9)
    assert (found.confidence, found.outcomes[0].question) == (0.9, "benchmark")
    with pytest.raises(UsageError, match="`metric:` and `metrics:` mean the same"):
        compare(*sides, "score", metrics=["score"])
    with pytest.raises(UsageError, match="`task:` and `tasks:` mean the same"):
        compare(*sides, task="t", tasks=["t"])
    with pytest.raises(UsageError, match="unknown key `settings`"):
        compare(*sides, settings={"question": "run"})


@pytest.mark.parametrize(
    ("source", "code"), [("variants/demo_adaptive.yaml", 0), ("tasks/own.yaml", 2)]
)
def test_an_adaptive_variant_is_compared_with_logs_of_its_task(logs, tmp_path, ccat, source, code):
    """`check --write_variants` names it so; a task of one's own that is called so is another."""
    file = write_adaptive(tmp_path / "results_new.json", "new", 0.9, 0.01)
    content = json.loads(file.read_text())
    content["adaptive"] = {"demo_adaptive": {**content["adaptive"]["t"], "items_total": 300}}
    content["configs"] = {"demo_adaptive": {"metadata": {"config_source": source}}}
    file.write_text(json.dumps(content))
    done = ccat("compare", logs("base", 0.6, 1), file, "--metric", "acc", code=code)
    assert ("new is better than m" in done.out) == (code == 0)
    assert ("they hold demo/acc" in done.err) == (code == 2)


def test_sides_of_two_filters_are_told_so(tmp_path, ccat):
    for name, filter_name in (("base", "none"), ("cand", "strip")):
        rows = [{**sample_row(k, {"acc": 1.0}), "filter": filter_name} for k in range(20)]
        write_run(tmp_path / "logs", name, rows)
    sides = [tmp_path / "logs" / name for name in ("base", "cand")]
    assert "they differ in the filter" in ccat("compare", *sides, code=2).err


def test_the_task_of_logs_is_a_name_whatever_files_lie_beside(logs, tmp_path, ccat, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("one.yaml", "two.yaml"):
        (tmp_path / name).write_text("task: demo\noutput_type: generate_until\n")
    sides = logs("base", 0.3, 1), logs("cand", 0.9, 2)
    done = ccat("compare", *sides, "--task", "demo", "--metric", "acc")
    assert "is better than" in done.out


@pytest.mark.long
def test_tasks_and_metrics_that_one_side_lacks_are_named(tmp_path, ccat) -> None:
    """A crashed task must not look like one that passed."""
    for side, tasks in (("base", ("demo", "t2")), ("new", ("demo",))):
        rows = [sample_row(i, {"acc": i % 2}) for i in range(40)]
        for day, task in enumerate(tasks, 1):
            write_run(tmp_path / side, side, rows, task=task, day=day)
    done = ccat("compare", tmp_path / "base", tmp_path / "new")
    assert "not compared, as the candidate has no scores of it: t2/acc" in done.err
    assert (
        "not compared"
        not in ccat("compare", tmp_path / "base", tmp_path / "new", "--task", "demo").err
    )
    assert (
        "as the baseline has no scores of it: t2/acc"
        in ccat("compare", tmp_path / "new", tmp_path / "base").err
    )


def test_a_model_is_not_compared_with_itself(logs, ccat) -> None:
    assert "names m twice" in ccat("compare", logs("a", 0.5, 1), "--models", "m,m", code=2).err


def test_two_runs_of_one_model_are_told_apart_by_their_folders_where_models_are_named(
    tmp_path, ccat
) -> None:
    rows = [sample_row(i, {"acc": i % 2}) for i in range(40)]
    sides = tmp_path / "old", tmp_path / "new"
    for side in sides:
        write_run(side, "m", rows)
    assert "new is worse than old" in ccat("compare", *sides, "--margin", "0.01", code=3).out
    said = ccat("compare", *sides, "--models", "m,m", "--margin", "0.01", code=3).out
    assert "new is worse than old" in said


@pytest.mark.long
@pytest.mark.parametrize("question", ["population", "benchmark"])
@pytest.mark.parametrize("place", ["one side", "both sides"])
def test_what_a_crashed_document_would_score_is_unknown(tmp_path, ccat, question, place):
    """The candidate scores 1 where it answers; 20 of its 100 scores are null, or all of these."""
    lost = {"base": 20 * (place == "both sides"), "new": 20}
    for name, right in (("base", 0.9), ("new", 1.0)):
        rows = [
            sample_row(k, {"acc": None if k < lost[name] else float(k % 10 < 10 * right)})
            for k in range(100)
        ]
        write_run(tmp_path, name, rows)
    files = [tmp_path / name for name in ("c.md", "c.xml", "c.html", "c.json")]
    outputs = [text for file in files[:3] for text in ("-o", file)]
    sides = tmp_path / "base", tmp_path / "new"
    asked = ("--question", question, *outputs, "--json", files[3])
    said = ccat("compare", *sides, *asked, code=3)
    for text in (said.out, *(file.read_text() for file in files[:3])):
        assert "20 without a score" in text
    assert "a score on 20 documents" in said.err
    assert "in full runs of these documents: it is not known whether new is worse" in said.out
    [found] = json.loads(files[3].read_text())["outcomes"]
    assert (found["verdict"], found["documents"], found["missing"]) == ("not known", 80, 20)
    # Of 100, the candidate is right on 80 to 100, and the baseline on 90, or on 72 to 92.
    of_benchmark = found if question == "benchmark" else found["other_question"]
    ends = (-0.10, 0.10) if place == "one side" else (-0.12, 0.28)
    assert [of_benchmark["low"], of_benchmark["high"]] == pytest.approx(ends)
    assert of_benchmark["p_better"] == 0.5  # as the sign of the difference is not known
    assert ccat("compare", *sides, "--margin", 0.1, "--question", "benchmark", "--json",
                code=0 if place == "one side" else 3)  # fmt: skip


def test_documents_beyond_a_limit_were_not_asked(tmp_path, ccat):
    """Of the fifty that it was asked, the candidate has no score of five."""
    write_run(tmp_path, "base", [sample_row(k, {"acc": float(k % 2)}) for k in range(100)])
    counts = {"original": 100, "effective": 50}
    for name, first in (("short", 0), ("crashed", 5)):
        rows = [sample_row(k, {"acc": 1.0 if k >= first else None}) for k in range(50)]
        write_run(tmp_path, name, rows, limit=50, samples=counts)
        sides = tmp_path / "base", tmp_path / name
        said = ccat("compare", *sides, "--question", "benchmark", "--json")
        [found] = json.loads(said.out)["outcomes"]
        assert (found["documents"], found["missing"]) == (50 - first, first)
        assert "50 scores left out: the candidate was not asked these" in said.err
        assert (found["low"] < found["high"]) == bool(first)


@pytest.mark.long
def test_documents_named_to_the_harness_are_compared_as_those_that_both_were_asked(tmp_path, ccat):
    """Of the 30 that it was asked, the candidate has no score of three."""
    write_run(tmp_path, "base", [sample_row(k, {"acc": float(k % 2)}) for k in range(100)])
    named, part = range(2, 92, 3), {"samples": {"original": 100, "effective": 30}}
    for name, lost in (("part", 0), ("crashed", 3)):
        rows = [sample_row(k, {"acc": 1.0 if n >= lost else None}) for n, k in enumerate(named)]
        write_run(tmp_path, name, rows, **part)
        said = ccat("compare", tmp_path / "base", tmp_path / name, "--json", code=(0, 3))
        [found] = json.loads(said.out)["outcomes"]
        assert (found["documents"], found["missing"]) == (30 - lost, lost)
        assert "as with --samples" in said.err and "70 scores left out" in said.err
        assert "only if they were named blind to scores" in said.err
    # Two runs of the same named documents: what neither was asked is missing in neither.
    said = ccat("compare", tmp_path / "part", tmp_path / "part", "--json")
    assert json.loads(said.out)["outcomes"][0]["missing"] == 0
    rows = [sample_row(k, {"acc": 1.0}) for k in (5, 3, 8)]
    write_run(tmp_path, "wrong", rows, samples={"original": 100, "effective": 3})
    said = ccat("compare", tmp_path / "base", tmp_path / "wrong", code=1).err
    assert "unless --samples names each once, in ascending order: run them so" in said


def test_a_table_of_fewer_documents_is_no_failure_and_one_with_gaps_may_be_one(tmp_path):
    rng = np.random.default_rng(0)
    scores = rng.random((2, 200))
    gap = np.array([0.0, 0.2])[:, None]

    def table(side: int, ids: list[int]) -> ScoreTable:
        return ScoreTable.from_arrays([(0.8 * scores + gap)[side][ids]], ["ab"[side]], ids)

    window = compare(table(0, [*range(150)]), table(1, [*range(50, 200)]))
    [found] = window.outcomes
    assert (window.verdict, found.overall.documents, found.overall.missing) == ("better", 100, 0)
    assert sum("50 scores left out" in warning for warning in window.warnings) == 2
    failed = ScoreTable.from_arrays([np.where(np.arange(200) < 190, 0.9, np.nan)], ["b"])
    failed.write(tmp_path / "failed.csv")
    for side in (failed, tmp_path / "failed.csv"):  # its last documents were asked
        [found] = compare(table(0, [*range(200)]), side).outcomes
        assert (found.overall.documents, found.overall.missing) == (190, 10)
    gaps = compare(table(0, [*range(200)]), table(1, [*range(0, 200, 2)]))
    assert (gaps.verdict, gaps.outcomes[0].overall.missing) == ("not known", 99)


def test_a_side_without_any_score_is_refused_by_name():
    answered, none = pair([[0.5, 0.7], [np.nan, np.nan]])
    with pytest.raises(UsageError, match="a and b have no document of "):
        compare(answered, none)


def test_a_missing_score_of_a_metric_of_which_less_is_better_may_be_the_largest():
    errors = ScoreTable.from_arrays(
        [np.full(10, 40.0), np.array([20.0] * 8 + [np.nan] * 2)], ["a", "b"],
        scale=Scale(0, 100, False),
    )  # fmt: skip
    [found] = compare(errors, errors, models=("a", "b"), question="benchmark").outcomes
    worst, best = (8 * -20 + 2 * 60) / 10, (8 * -20 + 2 * -40) / 10
    assert [found.overall.low, found.overall.high] == pytest.approx([best, worst])
    assert (found.overall.verdict, found.overall.p_better) == ("better", 1.0)
    assert found.overall.difference == pytest.approx(-20)
    [turned] = compare(errors, errors, models=("b", "a"), question="benchmark").outcomes
    assert turned.overall.difference == pytest.approx(20), "on either side"


def test_a_model_has_the_settings_of_its_latest_results(tmp_path):
    for day, temperature in ((2, 0.7), (1, 0.0)):
        rows = [sample_row(n, {"acc": 1.0}) for n in range(3)]
        write_run(tmp_path, "m", rows, day=day, generation={"temperature": temperature})
    content = {"terms": [{"task": "demo", "metric": "acc", "filter": "none", "weight": 1.0}]}
    ranking = StoredRanking(str(tmp_path / "m"), content)
    assert ranking.settings_of("m", "demo")["generation_kwargs"] == {"temperature": 0.7}


def test_losses_of_logs_have_the_answers_of_both_sides_in_their_order(tmp_path, ccat):
    for model, right in (("old", 1.0), ("new", 0.0)):
        rows = [
            sample_row(k, {"acc": float(k > 2 or right)}, answer=f"{model} {k}") for k in range(30)
        ]
        write_run(tmp_path / "logs", model, rows)
    sides, page = [tmp_path / "logs" / name for name in ("old", "new")], tmp_path / "page.html"
    ccat("compare", *sides, "--margin", "0.3", "-o", page)
    assert re.findall(r"\b(?:old|new) \d+\b", page.read_text()) == [
        f"{side} {k}" for k in range(3) for side in ("old", "new")
    ]


def test_a_task_with_exactly_the_documents_that_decide_has_enough():
    rng = np.random.default_rng(3)
    base = rng.random(60)
    [outcome] = compare(*pair([base, np.clip(base + rng.normal(0.02, 0.2, 60), 0, 1)])).outcomes
    difference = outcome.overall
    assert difference.verdict == "not known" and difference.more_documents
    needed = 60 + difference.more_documents
    for n_items, words in (
        (needed, f"about {difference.more_documents:,} more documents would decide"),
        (needed - 1, f"at this difference even all {needed - 1:,} documents would not decide"),
    ):
        assert forecast(replace(outcome, n_items=n_items), difference) == words
    single = replace(difference, more_documents=1)
    assert forecast(outcome, single) == "about 1 more document would decide"


def test_documents_that_a_side_was_not_asked_and_that_it_failed_on_are_told_apart():
    """Of six documents the baseline failed on 3, the candidate was not asked 0, and 5 both lost."""
    scored = {0: 1, 1: 1, 2: 1}, {1: 1, 2: 1, 3: 1}
    asked, said = ({0, 1, 2, 3, 5}, {1, 2, 3, 5}), []
    assert _documents_without_score(scored, asked, range(6), said) == [3, 5]
    assert said[1] == "1 score left out: the candidate was not asked these"
    assert "the baseline lacks" in said[0] and "doc_id 3" in said[0]
    assert "both sides lack" in said[2] and "doc_id 5" in said[2]


def test_a_document_of_a_table_that_neither_side_has_a_score_of_counts_as_any_score(tmp_path, ccat):
    """Of ten documents of a table both models lack a score on two; the other eight differ by .1.

    In the worst case the difference is (8 x .1 - 2) / 10, in the best (8 x .1 + 2) / 10.
    """
    rows = [
        (model, doc_id, "" if doc_id in (4, 7) else score)
        for model, score in (("a", 0.5), ("b", 0.6))
        for doc_id in range(10)
    ]
    file = tmp_path / "t.csv"
    lines = [f"{model},{doc_id},acc,{score}" for model, doc_id, score in rows]
    file.write_text("\n".join(["model,doc_id,metric,score", *lines]))
    asked = ("--models", "a,b", "--question", "benchmark", "--json", tmp_path / "c.json")
    said = ccat("compare", file, *asked, code=3)
    [found] = json.loads((tmp_path / "c.json").read_text())["outcomes"]
    assert (found["documents"], found["missing"]) == (8, 2)
    assert (found["low"], found["high"]) == pytest.approx((-0.12, 0.28))
    assert "both sides lack a score on 2 documents (doc_id 4, 7)" in said.err
    # Nothing is known of which is better, which no number says.
    assert "P(better) unknown" in said.out


@pytest.mark.parametrize(
    ("sign", "words"),
    [(1, "at least [6-9][0-9]%"), (-1, "at most [1-3]?[0-9]%")],
    ids=["better", "worse"],
)
def test_a_chance_that_missing_scores_bound_is_stated_as_a_bound(sign, words):
    gaps = sign * np.r_[np.linspace(-0.7, 0.9, 60), math.nan]
    tables = pair([np.full(61, 0.5), 0.5 + 0.5 * gaps])
    [outcome] = compare(*tables, question="population").outcomes
    assert re.fullmatch(words, chance_in_words(outcome.overall))


def test_a_document_is_another_only_where_both_texts_are_known():
    """One of three has the same number and another text; of one a side does not state the hash."""
    scored = (
        {n: _DocumentScore(0.5, hash) for n, hash in enumerate(("a", "b", None))},
        {n: _DocumentScore(0.5, hash) for n, hash in enumerate(("a", "x", "c"))},
    )
    said = []
    assert _in_common(scored, ("old", "new"), "acc", said) == [0, 2]
    assert said == ["1 document left out: the same doc_id, but different text"]


def test_a_document_without_its_passage_is_a_cluster_of_its_own():
    scores = np.zeros(5)
    documents = SharedDocuments(
        Logged("t", "acc", None), Scale(), list("abcde"), scores, scores, None, False
    )
    said, fields = (
        [],
        {"a": {"passage": "1"}, "b": {"passage": "1"}, "c": {"passage": "2"}, "d": {}},
    )
    clusters = documents._clusters(fields, "passage", said).tolist()
    assert clusters[0] == clusters[1] and len(set(clusters)) == 4
    assert said == ["2 documents without 'passage': each counts as a cluster of its own"]


def test_an_interval_of_two_estimates_takes_of_each_the_arm_that_moves_them_apart():
    """The baseline's .5 (.4 to .7) beside .6 (.55 to .9) of fewer documents."""
    baseline = MeanScore(0.5, 0.1, 0.4, 0.7, documents=80)
    candidate = MeanScore(0.6, 0.1, 0.55, 0.9, documents=50)
    found = _difference_of_independent(
        baseline, candidate, Scale(), Gate(0.0, 0.95, "benchmark"), 100.0
    )
    assert found.difference == pytest.approx(0.1) and found.documents == 50
    assert found.low == pytest.approx(0.1 - np.hypot(0.2, 0.05))
    assert found.high == pytest.approx(0.1 + np.hypot(0.1, 0.3))


@pytest.mark.parametrize("sampled", [False, True])
def test_all_documents_answered_once_leave_no_chance_unless_answers_are_drawn(sampled):
    rng = np.random.default_rng(0)
    first, second = rng.random((2, 40))
    documents = SharedDocuments(
        Logged("t", "acc", None), Scale(), list(range(40)), first, second, None, sampled
    )
    everything = np.ones(40, dtype=bool)
    for question, exact in (("population", False), ("benchmark", not sampled), ("run", True)):
        found = documents._difference(Gate(0.0, 0.95, question), question, everything, None)
        assert (found.low == found.high) == exact


def test_losses_stand_on_the_metric_s_scale_and_the_largest_comes_first():
    scale = Scale(0, 50, higher_is_better=False)
    found = losses_of(["a", "b", "c"], np.array([0.9, 0.8, 0.5]), np.array([0.7, 0.2, 0.5]), scale)
    assert [loss.doc_id for loss in found] == ["b", "a"]
    assert (found[0].baseline, found[0].candidate) == pytest.approx((10.0, 40.0))


def test_a_task_has_as_many_documents_as_its_largest_run_states(tmp_path):
    for model, size in (("old", 40), ("new", 60)):
        rows = [sample_row(k, {"acc": 1.0}) for k in range(size)]
        write_run(tmp_path / "logs", model, rows)
    sides = [tmp_path / "logs" / name for name in ("old", "new")]
    assert (n_documents_of(sides, "demo"), n_documents_of(sides[:1], "demo")) == (60, 40)
    assert n_documents_of([ScoreTable.from_arrays([[1.0]], ["a"])], None) is None

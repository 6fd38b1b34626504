"""Metrics by name: scale, key, scores, and every refusal with metric, task and remedy."""

from __future__ import annotations

import numpy as np
import pytest
import sacrebleu

from lm_eval_ccat.errors import MetricError, ScaleError
from lm_eval_ccat.metrics import Scale, check_column, find_metric, known_scale

REF, PRED = "The cat sat on the mat today .", "The cat sat on a mat ."


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("bleu", sacrebleu.sentence_bleu(PRED, [REF]).score),
        ("chrf", sacrebleu.sentence_chrf(PRED, [REF]).score),
        ("chrf++", sacrebleu.sentence_chrf(PRED, [REF], word_order=2).score),
        ("ter", sacrebleu.sentence_ter(PRED, [REF]).score),
    ],
)
def test_pairs_get_sacrebleus_sentence_score(name, expected):
    metric = find_metric(name)
    assert metric.score((REF, PRED)) == pytest.approx(expected, abs=1e-12)
    assert metric.score([REF, PRED]) == pytest.approx(expected, abs=1e-12)  # as read from a log
    assert metric.corpus
    assert metric.key("none") == f"sentence_{name},none"


def test_reference_order_follows_the_family_or_the_known_answer():
    metric = find_metric("bleu")
    forward, backward = metric.score((REF, PRED)), metric.score((PRED, REF))
    assert forward != pytest.approx(backward)  # else this test would prove nothing
    assert metric.score((PRED, REF), task="wmt-ro-en-t5-prompt") == pytest.approx(forward)
    assert metric.score((PRED, REF), prediction=PRED) == pytest.approx(forward)
    assert metric.score((REF, PRED), prediction=PRED) == pytest.approx(forward)


def test_several_references_may_stand_on_either_side():
    metric = find_metric("chrf")
    expected = sacrebleu.sentence_chrf(PRED, [REF, "A cat ."]).score
    assert metric.score(([REF, "A cat ."], PRED)) == pytest.approx(expected)
    assert metric.score((PRED, [REF, "A cat ."])) == pytest.approx(expected)
    assert metric.score(([REF], [PRED])) == pytest.approx(metric.score((REF, PRED)))


@pytest.mark.parametrize(
    ("name", "low", "high", "higher"),
    [
        ("acc", 0, 1, True),
        ("acc_norm", 0, 1, True),
        ("exact_match", 0, 1, True),
        ("f1", 0, 1, True),
        ("pass@1", 0, 1, True),
        ("pass@10", 0, 1, True),
        ("pass_at_1", 0, 1, True),
        ("rouge1", 0, 1, True),
        ("rougeLsum", 0, 1, True),
        ("bleu_max", 0, 100, True),
        ("rougeL_max", 0, 100, True),
        ("rouge2_diff", -100, 100, True),
        ("bleu_acc", 0, 1, True),
        ("rouge1_acc", 0, 1, True),
        ("bert_score", 0, 1, True),
        ("bertscore_f1", 0, 1, True),
        ("score", 0, 1, True),
        ("eqbench", -199.08, 100, True),
        ("percent_parseable", 0, 100, True),
        ("ter", 0, 100, False),
        ("wer", 0, 1, False),
    ],
)
def test_scales_of_the_harness_metrics(name, low, high, higher):
    scale = known_scale(name)
    assert (scale.low, scale.high, scale.higher_is_better) == (
        pytest.approx(low),
        pytest.approx(high),
        higher,
    )
    assert find_metric(name).scale == scale


def test_numbers_of_any_kind_become_floats():
    metric = find_metric("acc")
    for value in (True, 1, 1.0, np.bool_(True), np.int64(1), np.float32(1), np.array(1)):
        assert metric.score(value) == 1.0
        assert type(metric.score(value)) is float


def test_ter_beyond_the_cap_is_a_score():
    metric = find_metric("ter")
    assert metric.score(("x", "a b c")) == pytest.approx(300)
    assert metric.scale.normalise([300]) == [0]


@pytest.mark.parametrize(
    "name", ["mcc", "perplexity", "word_perplexity", "bits_per_byte", "bypass"]
)
def test_corpus_metrics_are_refused_with_metric_task_and_remedy(name):
    with pytest.raises(MetricError, match=rf"metric {name} of task my_task .*; (use|run|name) "):
        find_metric(name, task="my_task")


def test_f1_is_refused_where_it_is_a_corpus_statistic_only():
    glue = {"output_type": "multiple_choice", "metric_list": [{"metric": "acc"}, {"metric": "f1"}]}
    with pytest.raises(MetricError, match=r"metric f1 of task mrpc .* use acc"):
        find_metric("f1", task="mrpc", config=glue)
    drop = {
        "output_type": "generate_until",
        "process_results": "def process_results(doc, results): ...",
        "metric_list": [{"metric": "f1", "aggregation": "mean", "higher_is_better": True}],
    }
    assert find_metric("f1", config=drop).scale == Scale(0, 1)


def test_own_aggregations_are_refused_unless_a_scale_is_declared():
    config = {
        "output_type": "multiple_choice",
        "metric_list": [{"metric": "acc_norm", "aggregation": lambda items: 0}],
    }
    with pytest.raises(MetricError, match=r"acc_norm of task tiny .* function of its own"):
        find_metric("acc_norm", task="tiny", config=config)
    declared = find_metric("acc_norm", config=config, range=(0, 1))
    assert declared.corpus and declared.key("none") == "mean_acc_norm,none"


def test_multi_target_metrics_are_refused_because_the_harness_makes_them_0_or_1():
    config = {
        "output_type": "generate_until",
        "metric_list": [{"metric": "rouge1", "aggregation": "mean"}, {"metric": "exact_match"}],
    }
    with pytest.raises(MetricError, match=r"rouge1 of task t .* 0 or 1 .* several targets; give"):
        find_metric("rouge1", task="t", config=config, multiple_targets=True)
    assert find_metric("exact_match", config=config, multiple_targets=True).name == "exact_match"
    with pytest.raises(MetricError, match=r"metric bleu of task t .* number 1\.0.*several targets"):
        find_metric("bleu").score(1.0, task="t")


def test_a_bleu_that_the_task_averages_itself_needs_a_scale_of_its_family():
    config = {
        "output_type": "generate_until",
        "process_results": "def process_results_gen(doc, results): ...",
        "metric_list": [{"metric": "bleu", "aggregation": "nanmean", "higher_is_better": True}],
    }
    metric = find_metric("bleu", task="meqsum", config=config)
    assert metric.scale == Scale(0, 1) and metric.key("none") == "bleu,none"
    assert metric.score(0.25) == 0.25
    with pytest.raises(MetricError, match=r"scale of metric bleu of task mine is not known; state"):
        find_metric("bleu", task="mine", config=config)


def test_declared_scales_in_the_yaml():
    entry = {"metric": "grade", "aggregation": "mean", "higher_is_better": False}
    by_metadata = {
        "metric_list": [entry],
        "metadata": {"version": 1.0, "ccat_scales": {"grade": {"range": [0, 20]}}},
    }
    assert find_metric("grade", config=by_metadata).scale == Scale(0, 20, False)
    by_entry = {"metric_list": [{**entry, "range": [0, 20]}], "process_results": "def f(): ..."}
    assert find_metric("grade", config=by_entry).scale == Scale(0, 20, False)
    capped = {"metric_list": [entry], "metadata": {"ccat_scales": {"grade": {"cap": 2}}}}
    assert find_metric("grade", config=capped).scale == Scale(cap=2)
    wrong = {"metric_list": [entry], "metadata": {"ccat_scales": {"grade": [0, 1]}}}
    with pytest.raises(ScaleError, match=r"ccat_scales\.grade"):
        find_metric("grade", config=wrong)


def test_flags_go_before_the_declaration_and_the_table():
    config = {"metadata": {"ccat_scales": {"grade": {"range": [0, 20]}}}}
    assert find_metric("grade", config=config, range=(0, 5)).scale == Scale(0, 5)
    assert find_metric("acc", range=(0, 100)).scale == Scale(0, 100)
    assert find_metric("acc", lower_is_better=True).scale == Scale(0, 1, False)
    assert find_metric("wholly_new", lower_is_better=True).scale == Scale(cap=1)


def test_the_direction_a_yaml_states_is_believed():
    config = {
        "metric_list": [{"metric": "score", "aggregation": "mean", "higher_is_better": False}]
    }
    assert find_metric("score", config=config).scale == Scale(0, 1, False)


def test_hf_evaluate_bleu_is_no_percentage():
    config = {"metric_list": [{"metric": "bleu", "aggregation": "mean", "hf_evaluate": True}]}
    metric = find_metric("bleu", config=config)
    assert metric.scale == Scale(0, 1) and not metric.corpus


def test_rouge_that_a_task_reports_as_pairs_is_scored_by_document():
    def rouge1(items):
        return items

    def rouge1_agg(items):
        return 0.0

    config = {
        "output_type": "generate_until",
        "metric_list": [{"metric": rouge1, "aggregation": rouge1_agg, "higher_is_better": True}],
    }
    metric = find_metric("rouge1", task="french_bench_trivia", config=config)
    assert metric.key("none") == "mean_rouge1,none" and metric.scale == Scale(0, 1)
    assert metric.score(["the cat sat", "the cat ran"]) == pytest.approx(2 / 3)
    assert metric.score((["the cat", "a cat"], "a cat")) == 1.0
    with pytest.raises(MetricError, match=r"rouge1 of task noticia .* function of its own"):
        find_metric("rouge1", task="noticia", config=config)


@pytest.mark.parametrize(
    ("source", "key", "scale"),
    [
        ("sacrebleu", "score", Scale(0, 100)),
        ("ter", "score", Scale(cap=100)),
        ("squad", "f1", Scale(0, 100)),
        ("rouge", "rougeL", Scale(0, 1)),
        ("accuracy", "accuracy", Scale(0, 1)),
    ],
)
def test_hf_evaluate_metrics_report_under_their_own_names_and_scales(source, key, scale):
    entry = {"aggregation": "mean", "hf_evaluate": True}
    config = {
        "output_type": "generate_until",
        "metric_list": [{"metric": source, **entry}, {"metric": "meteor", **entry}],
    }
    assert find_metric(key, config=config).scale == scale


def test_pass_at_k_inherits_the_entry_of_its_function():
    def pass_at_k(references, predictions, k):
        return {"pass@1": 0.0}

    config = {
        "output_type": "generate_until",
        "metric_list": [{"metric": pass_at_k, "aggregation": "mean", "higher_is_better": True}],
    }
    assert find_metric("pass@1", config=config).key("create_test") == "pass@1,create_test"


@pytest.mark.parametrize("value", [None, "text", [0.5], (1, 2), {"a": 1}])
def test_values_that_are_no_number_are_refused(value):
    with pytest.raises(MetricError, match=r"metric acc of task t came as .*; (give|the task)"):
        find_metric("acc").score(value, task="t")


def test_nan_and_values_outside_the_scale_are_refused():
    with pytest.raises(MetricError, match=r"rouge1 of task t is NaN .*; leave"):
        find_metric("rouge1").score(float("nan"), task="t")
    with pytest.raises(ScaleError, match=r"rouge1 of task t gave 43.2, outside .*--range"):
        find_metric("rouge1").score(43.2, task="t")
    with pytest.raises(ScaleError, match=r"gave inf"):
        find_metric("wer").score(float("inf"), task="t")


def test_unknown_metrics_are_refused_with_both_remedies():
    with pytest.raises(
        MetricError, match=r"novelty of task t is not known; .*--range.*ccat_scales"
    ):
        find_metric("novelty", task="t")
    listed = {"metric_list": [{"metric": "acc"}, {"metric": "novelty"}]}
    with pytest.raises(
        MetricError, match=r"; the task itself lists acc, novelty: did you mean novelty\?$"
    ):
        find_metric("noveltty", task="t", config=listed)
    with pytest.raises(MetricError, match=r"; the task itself lists acc, novelty$"):
        find_metric("xyz", task="t", config=listed)


def test_constant_columns_are_refused():
    with pytest.raises(MetricError, match=r"metric acc of task t is 1 for every document"):
        check_column([1.0, 1.0, np.nan], metric="acc", task="t")
    with pytest.raises(MetricError, match=r"no score at all"):
        check_column([np.nan], metric="acc", task="t")
    check_column([0.0, 1.0], metric="acc")

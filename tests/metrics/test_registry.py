"""Metrics by name: scale, key, scores, and every refusal with metric, task and remedy."""

import importlib.util
import json
from pathlib import Path

import numpy as np
import pytest
import sacrebleu
from hypothesis import given, settings
from hypothesis import strategies as st

from lm_eval_ccat.errors import CcatError, MetricError, ScaleError
from lm_eval_ccat.metrics import Scale, check_column, find_metric, known_scale
from lm_eval_ccat.metrics.text_pairs import script_warning

REF, PRED = "The cat sat on the mat today .", "The cat sat on a mat ."
ZH_REF, ZH = "今天天气很好。", "今天天气非常好。"


def listed(metric, *others, **entry):
    """A task's configuration with one metric, and others by name."""
    entries = [{"metric": metric, "aggregation": "mean", **entry}, *({"metric": m} for m in others)]
    return {"output_type": "generate_until", "metric_list": entries}


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("bleu", sacrebleu.sentence_bleu(PRED, [REF]).score),
        ("chrf", sacrebleu.sentence_chrf(PRED, [REF]).score),
        ("chrf++", sacrebleu.sentence_chrf(PRED, [REF], word_order=2).score),
        ("ter", sacrebleu.sentence_ter(PRED, [REF]).score),
        ("bleu@char", sacrebleu.sentence_bleu(PRED, [REF], tokenize="char").score),
        ("ter@asian", sacrebleu.sentence_ter(
            PRED, [REF], normalized=True, asian_support=True).score),
    ],
)  # fmt: skip
def test_pairs_get_sacrebleus_sentence_score(name, expected):
    metric = find_metric(name)
    assert metric.score((REF, PRED)) == pytest.approx(expected, abs=1e-12)
    assert metric.score([REF, PRED]) == pytest.approx(expected, abs=1e-12)  # as read from a log
    assert metric.key("none") == f"sentence_{name},none"
    assert metric.source == name.partition("@")[0] and metric.scale == known_scale(name)


def test_scripts_without_spaces_need_a_tokenizer_and_are_told_which():
    assert find_metric("bleu").score((ZH_REF, ZH)) == 0.0  # noise
    expected = sacrebleu.sentence_bleu(ZH, [ZH_REF], tokenize="zh").score
    assert find_metric("bleu@zh").score((ZH_REF, ZH)) == pytest.approx(expected) != 0
    thai, khmer, japanese = "วันนี้อากาศดีมาก", "ថ្ងៃនេះអាកាសធាតុល្អណាស់", "今日はとても良い天気です"
    for metric, text, use in (
        ("bleu", ZH, "use bleu@zh, or chrf"), ("bleu", japanese, "use bleu@ja-mecab, or chrf"),
        ("ter", ZH, "use ter@asian, or chrf"), ("rougeL", thai, "Thai"), ("bleu", khmer, "Khmer"),
        ("bleu", "東京都知事選挙の開票結果", "use bleu@ja-mecab"),  # one kana of twelve
    ):  # fmt: skip
        assert use in script_warning(metric, [text])
    for metric, text in (("chrf", ZH), ("bleu@zh", ZH), ("acc", ZH), ("bleu", REF),
                         ("bleu", "오늘 날씨 좋다"), ("bleu", "")):  # fmt: skip
        assert script_warning(metric, [text]) == ""


def test_reference_order_follows_the_family_or_the_known_answer():
    metric = find_metric("bleu")
    forward, backward = metric.score((REF, PRED)), metric.score((PRED, REF))
    assert forward != pytest.approx(backward)  # else this test would prove nothing
    assert metric.score((PRED, REF), task="wmt-ro-en-t5-prompt") == pytest.approx(forward)
    # A known answer goes before the family's order.
    known = metric.score((REF, PRED), task="wmt-ro-en-t5-prompt", prediction=PRED)
    assert known == pytest.approx(forward)
    several = sacrebleu.sentence_bleu(PRED, [REF, "A cat ."]).score
    for pair in ((PRED, REF), (REF, PRED)):
        assert metric.score(pair, prediction=PRED) == pytest.approx(forward)
    for pair in (([REF, "A cat ."], PRED), (PRED, [REF, "A cat ."])):
        assert metric.score(pair) == pytest.approx(several)
        # A task may trim the answer, which then stands in neither half.
        assert metric.score(pair, prediction=f" {PRED}\n") == pytest.approx(several)


@pytest.mark.parametrize(
    ("names", "scale"),
    [
        ("acc acc_norm exact_match f1 pass@1 pass@10 pass_at_1 rouge1 rougeLsum bleu_acc "
         "rouge1_acc bert_score bertscore_f1 score", Scale(0, 1)),
        ("bleu_max rougeL_max percent_parseable chrf", Scale(0, 100)),
        ("rouge2_diff", Scale(-100, 100)),
        ("eqbench", Scale(100 - 7.477 * 40, 100)),
        ("judge_score", Scale(1, 10)),
        ("ter", Scale(cap=100)),
        ("wer", Scale(cap=1)),
    ],
)  # fmt: skip
def test_scales_of_the_harness_metrics(names, scale):
    for name in names.split():
        assert known_scale(name) == find_metric(name).scale == scale, name


def test_numbers_of_any_kind_become_floats_and_rounding_is_no_mistake():
    metric = find_metric("acc")
    for value in (True, 1, 1.0, np.bool_(True), np.int64(1), np.float32(1), np.array(1)):
        assert metric.score(value) == 1.0 and type(metric.score(value)) is float
    ter = find_metric("ter")
    assert ter.score(("x", "a b c")) == pytest.approx(300)  # beyond the cap is a score
    perfect = find_metric("chrf", config=listed("chrf", higher_is_better=True), range=(0, 100))
    assert perfect.score(100.00000000000004) == pytest.approx(100)


def test_what_cannot_be_used_is_refused_with_metric_task_and_remedy():
    classes = {"output_type": "multiple_choice", "metric_list": [{"metric": "f1"}]}
    two, listing = listed("acc", "novelty"), {"metadata": {"ccat_scales": {"grade": [0, 1]}}}
    of_text = {"metadata": {"ccat_scales": {"grade": {"range": [0, 1], "lower_is_better": "no"}}}}
    turned = {"metadata": {"ccat_scales": {"grade": {"range": [100, -100]}}}}
    up = {"higher_is_better": True}
    for name, config, words in (
        ("grade", by_metadata({"cap": 10} | up), "grade has a cap.*leave out"),
        ("grade", by_metadata({"cap": 10, "range": [0, 10]}), "grade has a cap.*leave out"),
        ("grade", by_metadata({"range": [0, 5], "lower_is_better": True} | up), "contradict"),
        ("mcc", None, r"metric mcc of task t .*; use "),
        ("word_perplexity", None, "; run "),
        ("f1", classes, "use acc"),
        ("acc_norm", listed("acc_norm", aggregation=lambda items: 0), "of its own"),
        ("bleu", listed("bleu"), r"scale of metric bleu of task t is not known; state"),
        ("novelty", None, r"novelty of task t is not known; .*--range.*ccat_scales"),
        ("chrff", None, r"is not known; .*; did you mean chrf"),
        ("noveltty", two, r"only acc, novelty; did you mean novelty"),
        ("bleu@klingon", None, "the tokenizers are 13a, char"),
        ("ter@zh", None, "the tokenizer of TER is asian"),
        ("bleu@zh", listed("bleu"), "`lm-eval-ccat score bleu@zh`"),
        ("grade", listing, r"ccat_scales\.grade"),
        ("grade", turned, r"write it as \[-100, 100\]"),
        ("grade", of_text, "lower_is_better of metric grade must be true or false, not 'no'"),
        ("acc", listed("acc", higher_is_better="no"), "metric acc must be true or false, not 'no'"),
    ):
        with pytest.raises(CcatError, match=words):
            find_metric(name, task="t", config=config)
    with pytest.raises(ScaleError, match=r"higher_is_better of a scale must be .*, not 'false'"):
        Scale.from_dict({"low": 0, "high": 1, "higher_is_better": "false"})
    with pytest.raises(MetricError, match="several targets; give"):
        find_metric("rouge1", config=listed("rouge1", "exact_match"), multiple_targets=True)
    for name in ("acc", "exact_match"):  # right where any target is
        assert find_metric(name, config=listed(name), multiple_targets=True).name == name


@pytest.mark.parametrize(("aggregation", "missing"), [("nanmean", True), ("mean", False)])
def test_nan_is_no_score_where_the_task_leaves_it_out_of_its_mean(aggregation, missing):
    metric = find_metric("acc", config={**listed("acc", aggregation=aggregation), **WRITTEN})
    assert metric.is_missing(float("nan")) == missing and not metric.is_missing(0.0)


def by_metadata(scale, **entry):
    return {**listed("grade", **entry), "metadata": {"ccat_scales": {"grade": scale}}}


WRITTEN = {"process_results": "def f(doc, results): ..."}


@pytest.mark.parametrize(
    ("name", "arguments", "scale"),
    [
        # What the YAML declares, in either place, and its direction.
        ("grade", {"config": by_metadata({"range": [0, 20]}, higher_is_better=False)},
         Scale(0, 20, False)),
        ("grade", {"config": by_metadata({"cap": 2})}, Scale(cap=2)),
        ("grade", {"config": {**listed("grade", range=[0, 20], higher_is_better=False), **WRITTEN}},
         Scale(0, 20, False)),
        ("score", {"config": listed("score", higher_is_better=False)}, Scale(0, 1, False)),
        # Flags go before the declaration and the table.
        ("grade", {"config": by_metadata({"range": [0, 20]}), "range": (0, 5)}, Scale(0, 5)),
        ("acc", {"range": (0, 100)}, Scale(0, 100)),
        ("acc", {"lower_is_better": True}, Scale(0, 1, False)),
        ("wholly_new", {"lower_is_better": True}, Scale(cap=1)),
        ("wer", {"range": (0, 2)}, Scale(0, 2, False)),
        # f1 and bleu of tasks that average them themselves; HF evaluate's scales and names.
        ("f1", {"config": {**listed("f1"), **WRITTEN}}, Scale()),
        ("bleu", {"config": {**listed("bleu", aggregation="nanmean"), **WRITTEN},
                  "task": "meqsum"}, Scale()),
        ("bleu", {"config": listed("bleu", hf_evaluate=True)}, Scale()),
        ("score", {"config": listed("sacrebleu", "meteor", hf_evaluate=True)}, Scale(0, 100)),
        ("score", {"config": listed("ter", "meteor", hf_evaluate=True)}, Scale(cap=100)),
        ("f1", {"config": listed("squad", "meteor", hf_evaluate=True)}, Scale(0, 100)),
        ("rougeL", {"config": listed("rouge", "meteor", hf_evaluate=True)}, Scale()),
    ],
)  # fmt: skip
def test_the_scale_is_that_of_flags_then_yaml_then_table(name, arguments, scale):
    metric = find_metric(name, **arguments)
    assert metric.scale == scale and metric.label == name


@pytest.mark.long
def test_a_metric_that_the_task_aggregates_itself_has_a_name_of_its_own():
    config = listed("acc_norm", aggregation=lambda items: 0)
    declared = find_metric("acc_norm", config=config, range=(0, 1))
    assert declared.key("none") == "mean_acc_norm,none"

    def rouge1(items):
        return items

    config = listed(rouge1, aggregation=max)
    # Six characters in common.
    chars = find_metric("rouge1@char", task="xlsum_zh", config=config)
    assert chars.score((ZH_REF, ZH)) == pytest.approx(2 * 6 / (7 + 8))
    assert chars.key() == "mean_rouge1@char,none" and chars.source == "rouge1"
    pairs = find_metric("rouge1", task="french_bench_trivia", config=config)
    assert pairs.key("none") == "mean_rouge1,none" and pairs.scale == Scale(0, 1)
    assert pairs.score(["the cat sat", "the cat ran"]) == pytest.approx(2 / 3)
    assert pairs.score((["the cat", "a cat"], "a cat")) == 1.0
    with pytest.raises(MetricError, match=r"rouge1 of task noticia .* function of its own"):
        find_metric("rouge1", task="noticia", config=config)

    def pass_at_k(references, predictions, k):
        return {"pass@1": 0.0}

    assert find_metric("pass@1", config=listed(pass_at_k)).key("test") == "pass@1,test"


def test_what_a_task_returns_beside_its_only_metric_does_not_take_its_direction():
    """The harness averages every key that process_results returns, and states nothing of it."""
    config = {**listed("errors", higher_is_better=False), "process_results": "def process(..."}
    assert find_metric("errors", config=config, range=(0, 1)).scale == Scale(0, 1, False)
    assert find_metric("exact_match", config=config).scale == Scale(0, 1, True)
    assert find_metric("wer", config={**config, **listed("acc", higher_is_better=True)}).scale == (
        known_scale("wer")
    )


ERRORS = """pass@1_error pass_at_1_error pass@1Error r@1_err bertscore_error bert_score_distance
retrieval_error_score rougeL_error_acc rouge1_diff_max rouge1_loss_diff error_item_scaled
prompt_level_failure_acc acc_drop""".split()


@pytest.mark.parametrize("name", ERRORS)
def test_a_name_with_a_word_of_error_tells_no_direction_and_the_task_may_state_it(name):
    assert known_scale(name) is None
    with pytest.raises(MetricError, match=f"{name}.*(is not known|higher_is_better)"):
        find_metric(name)
    # HF's `evaluate` says nothing of the direction of a name that it has no scale for.
    with pytest.raises(MetricError, match=f"{name}.*(is not known|higher_is_better)"):
        find_metric(name, config=listed(name, hf_evaluate=True))
    if name.startswith("rouge"):
        return  # no family of the table
    for higher in (True, False):
        config = listed(name, higher_is_better=higher)
        assert find_metric(name, config=config).scale == Scale(0, 1, higher)


def test_metrics_of_the_harness_with_such_a_word_keep_their_direction():
    for name in ("bleu_diff", "rouge1_diff", "rouge2_diff", "rougeL_diff"):
        assert known_scale(name) == Scale(-100, 100), name
        listing = listed(name, higher_is_better=True)
        assert find_metric(name, task="truthfulqa_gen", config=listing).scale == Scale(-100, 100)
    for name in "bertscore_precision retrieval_zh_score prompt_level_strict_acc pass@k".split():
        assert known_scale(name) == Scale(), name


def test_a_metric_that_is_not_listed_takes_the_direction_of_the_only_one_if_its_name_tells_none():
    for higher in (True, False):
        config = listed("acc", higher_is_better=higher)
        for name in ("f1", "wer", "pass@1"):  # their names tell
            metric = find_metric(name, config=config)
            assert (metric.scale, metric.directed_by) == (known_scale(name), "")
        for name in ("acc_error", "acc_drop", "pct_wrong", "exact_match_error", *ERRORS):
            with pytest.raises(MetricError, match=name):
                find_metric(name, config=config)
            # What the results say of this very metric counts.
            if name.startswith("acc"):
                stated = find_metric(name, config=config, higher_is_better=not higher)
                assert stated.scale == Scale(0, 1, not higher)
        inheriting = find_metric("acc_strict", config=config)
        assert (inheriting.scale, inheriting.directed_by) == (Scale(0, 1, higher), "acc")
        of_results = find_metric("acc_strict", config=config, higher_is_better=not higher)
        assert (of_results.scale, of_results.directed_by) == (Scale(0, 1, not higher), "")
        stated = find_metric("acc_strict", config=config, range=(0, 1), lower_is_better=higher)
        assert (stated.scale, stated.directed_by) == (Scale(0, 1, not higher), "")
        config["metadata"] = {"ccat_scales": {"edits": {"cap": 1.0}}}
        assert find_metric("edits", config=config).scale == Scale(cap=1.0)


@pytest.mark.parametrize(
    ("metric", "higher", "scale"),
    [
        ("err", False, {"range": [0, 1], "lower_is_better": False}),
        ("err", True, {"range": [0, 1], "lower_is_better": True}),
        ("f1", True, {"cap": 1.0}),
        ("wer", True, None),
    ],
)
def test_a_direction_that_the_task_contradicts_is_refused(metric, higher, scale):
    config = listed(metric, higher_is_better=higher)
    config["metadata"] = {"ccat_scales": {metric: scale}} if scale else {}
    with pytest.raises(ScaleError, match=rf"direction of metric {metric} is contradictory"):
        find_metric(metric, config=config)
    config["metric_list"][0]["higher_is_better"] = not higher
    assert find_metric(metric, config=config).scale.higher_is_better is not higher


def test_scores_that_cannot_be_are_refused():
    for name, value, error, words in (
        *(("acc", value, MetricError, r"acc of task t came as .*; (give|the task)")
          for value in (None, "text", [0.5], {"a": 1})),
        ("rouge1", float("nan"), MetricError, r"rouge1 of task t is NaN .*; leave"),
        ("rouge1", 43.2, ScaleError, r"rouge1 of task t gave 43.2, outside .*--range"),
        ("wer", float("inf"), ScaleError, "gave inf"),
        ("bleu", 1.0, MetricError, r"bleu of task t .* number 1\.0.*several targets"),
        ("bleu", "text", MetricError, "not as a .reference, prediction. pair of texts"),
        ("bleu", (1, "x"), MetricError, "pair of texts"),
        ("bleu", ([], "x"), MetricError, "does not hold one prediction"),
    ):  # fmt: skip
        with pytest.raises(error, match=words):
            find_metric(name).score(value, task="t")


def test_constant_columns_are_refused():
    with pytest.raises(MetricError, match=r"same score \(1\), so metric acc of task t cannot"):
        check_column([1.0, 1.0, np.nan], metric="acc", task="t")
    with pytest.raises(MetricError, match="has no scores"):
        check_column([np.nan], metric="acc", task="t")
    check_column([0.0, 1.0], metric="acc")


# -- the page on coverage, and what was taken in for it ------------------------------------------

ROOT = Path(__file__).resolve().parents[2]


def test_the_page_shows_what_the_script_counted_and_reasons_are_told_apart():
    file = ROOT / "benchmarks" / "coverage.py"
    spec = importlib.util.spec_from_file_location("coverage_page", file)
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    counted = json.loads(script.MEASURED.read_text(encoding="utf-8"))
    page = (ROOT / "docs" / "evidence" / "coverage.md").read_text(encoding="utf-8")
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

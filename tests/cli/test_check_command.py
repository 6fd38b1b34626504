"""`check`: what is said of real harness tasks, with and without their documents."""

from __future__ import annotations

import json
import logging
import textwrap

import pytest

from lm_eval_ccat.cli.main import main
from lm_eval_ccat.errors import MetricError, ScaleError
from lm_eval_ccat.harness import internals
from lm_eval_ccat.harness.check import check_tasks
from lm_eval_ccat.harness.outcomes import metric_of_task

ROWS = [
    {"source": "eins zwei", "target": "one two", "targets": ["one two", "a b"], "label": 0},
    {"source": "drei", "target": "three", "targets": ["three"], "label": 1},
]

COMMON = """\
dataset_path: json
dataset_kwargs: {data_files: {test: %s}}
test_split: test
doc_to_text: "{{source}}"
"""

TASKS = {
    "t_translate": """\
output_type: generate_until
doc_to_target: "{{target}}"
metric_list:
  - {metric: bleu, aggregation: bleu, higher_is_better: true}
  - {metric: chrf++, aggregation: chrf++, higher_is_better: true}
  - {metric: ter, aggregation: ter, higher_is_better: false}
""",
    "t_two_filters": """\
output_type: generate_until
doc_to_target: "{{target}}"
filter_list:
  - {name: strict, filter: [{function: take_first}]}
  - {name: loose, filter: [{function: take_first}]}
metric_list:
  - {metric: exact_match, aggregation: mean, higher_is_better: true}
""",
    "t_several_targets": """\
output_type: generate_until
doc_to_target: targets
metric_list:
  - {metric: exact_match, aggregation: mean, higher_is_better: true}
  - {metric: bleu, aggregation: bleu, higher_is_better: true}
""",
    "t_choice": """\
output_type: multiple_choice
doc_to_choice: ["yes", "no"]
doc_to_target: label
metric_list:
  - {metric: acc}
  - {metric: f1}
  - {metric: mcc}
""",
    "t_own": """\
output_type: generate_until
doc_to_target: "{{target}}"
process_results: !function own.process
metric_list:
  - {metric: grade, aggregation: mean, higher_is_better: false}
  - {metric: broken, aggregation: mean, higher_is_better: true}
metadata: {version: 1.0, ccat_scales: {grade: {range: [0, 20]}, broken: {range: [0, 1]}}}
""",
}

TASKS["t_hf"] = """\
output_type: generate_until
doc_to_target: "{{target}}"
metric_list:
  - {metric: %s, aggregation: mean, higher_is_better: true, hf_evaluate: true}
  - {metric: no_such_metric, aggregation: mean, higher_is_better: true, hf_evaluate: true}
metadata: {version: 1.0, ccat_scales: {overlap: {range: [0, 1]}}}
"""

HF_METRIC = """\
import datasets
import evaluate


class Overlap(evaluate.Metric):
    def _info(self):
        texts = {"predictions": datasets.Value("string"), "references": datasets.Value("string")}
        return evaluate.MetricInfo(
            description="", citation="", inputs_description="", features=datasets.Features(texts)
        )

    def _compute(self, predictions, references):
        words = set(predictions[0].split()), set(references[0].split())
        return {"overlap": len(words[0] & words[1]) / len(words[0] | words[1])}
"""

OWN = """\
def process(doc, results):
    return {"grade": float(len(results[0])), "broken": [1.0]}
"""


@pytest.fixture(autouse=True)
def logging_is_left_as_it_was():
    before = logging.root.manager.disable
    yield
    assert logging.root.manager.disable == before


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tasks")
    data = folder / "rows.jsonl"
    data.write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    (folder / "own.py").write_text(OWN)
    (folder / "overlap").mkdir()
    (folder / "overlap" / "overlap.py").write_text(HF_METRIC)
    for name, text in TASKS.items():
        text = text % (folder / "overlap") if name == "t_hf" else text
        (folder / f"{name}.yaml").write_text(f"task: {name}\n" + COMMON % data + text)
    (folder / "group.yaml").write_text(
        "group: t_group\ntask:\n  - t_choice\n  - task: t_two_filters\n    num_fewshot: 0\n"
    )
    return folder


@pytest.fixture(scope="module")
def checks(folder):
    return {c.task: c for c in check_tasks([*TASKS], include_path=str(folder))}


def _loaded(folder, name):
    return internals.task_manager([name], str(folder)).load([name])["tasks"][name]


def _by_metric(check):
    return {m.metric: m for m in check.metrics}


def test_corpus_metrics_stand_at_a_name_of_their_own(checks):
    check = checks["t_translate"]
    assert check.documents == 2 and check.usable
    found = _by_metric(check)
    assert {m.key for m in check.metrics} == {
        "sentence_bleu,none",
        "sentence_chrf++,none",
        "sentence_ter,none",
    }
    assert found["ter"].words == "0 upwards, capped at 100, lower is better"
    assert found["bleu"].words == "0 to 100, higher is better"
    assert "corpus bleu appears only when every document was run" in found["bleu"].estimand


def test_each_filter_has_its_key(checks):
    assert [m.key for m in checks["t_two_filters"].metrics] == [
        "exact_match,strict",
        "exact_match,loose",
    ]


def test_metrics_of_several_targets_are_refused_before_anything_runs(checks):
    found = _by_metric(checks["t_several_targets"])
    assert found["exact_match"].usable
    assert not found["bleu"].usable
    assert "bleu of task t_several_targets" in found["bleu"].reason
    assert "several targets; give" in found["bleu"].reason


def test_corpus_f1_and_mcc_are_refused_by_name(checks):
    found = _by_metric(checks["t_choice"])
    assert found["acc"].usable and found["acc"].key == "acc,none"
    for metric in ("f1", "mcc"):
        assert not found[metric].usable
        assert f"metric {metric} of task t_choice" in found[metric].reason


def test_a_range_declared_in_the_yaml_is_found(checks):
    assert _by_metric(checks["t_own"])["grade"].words == "0 to 20, lower is better"


def test_metrics_of_hf_evaluate_are_used_and_missing_ones_named(folder, checks):
    found = _by_metric(checks["t_hf"])
    assert found["overlap"].usable and found["overlap"].key == "overlap,none"
    assert "no_such_metric of task t_hf could not be loaded" in found["no_such_metric"].reason
    task = _loaded(folder, "t_hf")
    task._metric_fn_list.pop("no_such_metric")
    reported = task.process_results(task.eval_docs[0], ["one three"])
    assert metric_of_task(task, "overlap").score(reported["overlap"]) == pytest.approx(1 / 3)


def test_groups_are_opened(folder):
    names = [c.task for c in check_tasks(["t_group"], include_path=str(folder))]
    assert names == ["t_choice", "t_two_filters"]


def test_probing_runs_the_metric_on_the_first_target(folder):
    [check] = check_tasks(["t_own"], include_path=str(folder), probe=True)
    found = _by_metric(check)
    assert found["grade"].usable
    assert not found["broken"].usable and "[1.0], not as one number" in found["broken"].reason


def test_a_loaded_task_scores_pairs_in_the_harness_order(folder):
    task = _loaded(folder, "t_translate")
    doc = task.eval_docs[0]
    reported = task.process_results(doc, ["one two three four"])
    metric = metric_of_task(task, "ter")
    # Two words too many against a reference of two: 100, not the 50 of the reversed pair.
    assert metric.score(reported["ter"], task="t_translate") == pytest.approx(100)
    with pytest.raises(MetricError, match="t_translate"):
        metric_of_task(task, "mcc")


def test_declared_ranges_are_enforced_on_what_the_task_reports(folder):
    task = _loaded(folder, "t_own")
    metric = metric_of_task(task, "grade")
    reported = task.process_results(task.eval_docs[0], ["x" * 21])
    with pytest.raises(ScaleError, match=r"grade of task t_own gave 21"):
        metric.score(reported["grade"], task="t_own")


def test_without_documents_the_yaml_is_judged(capsys):
    assert main(["check", "truthfulqa_gen,wmt-ro-en-t5-prompt", "--json"]) == 0
    tasks = {t["task"]: t for t in json.loads(capsys.readouterr().out)}
    truthful = {m["metric"]: m for m in tasks["truthfulqa_gen"]["metrics"]}
    assert truthful["rougeL_diff"]["scale"]["low"] == -100
    assert truthful["bleu_max"]["key"] == "bleu_max,none"
    wmt = {m["metric"]: m for m in tasks["wmt-ro-en-t5-prompt"]["metrics"]}
    assert wmt["bleu"]["key"] == "sentence_bleu,none"


def test_exit_codes_and_one_line_errors(folder, capsys):
    include = ["--include_path", str(folder)]
    assert main(["check", "t_choice", *include]) == 0
    assert "acc,none" in capsys.readouterr().out
    assert main(["check", "t_choice", "--metric", "mcc", *include]) == 3
    assert "refused: metric mcc of task t_choice" in capsys.readouterr().out
    assert main(["check", "t_choice", "--metric", "nope", *include]) == 3
    assert "no metric nope; it has acc, f1, mcc" in " ".join(capsys.readouterr().out.split())
    assert main(["check", "no_such_task", *include]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_a_perplexity_task_is_refused_whole(tmp_path, capsys):
    data = tmp_path / "rows.jsonl"
    data.write_text(json.dumps({"text": "a b"}) + "\n")
    (tmp_path / "ppl.yaml").write_text(
        textwrap.dedent(f"""\
            task: t_ppl
            dataset_path: json
            dataset_kwargs: {{data_files: {{test: {data}}}}}
            test_split: test
            output_type: loglikelihood_rolling
            doc_to_text: ""
            doc_to_target: "{{{{text}}}}"
            metric_list: [{{metric: word_perplexity}}]
            """)
    )
    assert main(["check", str(tmp_path / "ppl.yaml")]) == 3
    assert "cannot be run adaptively: task t_ppl" in capsys.readouterr().out

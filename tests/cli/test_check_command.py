"""`check`: what is said of real harness tasks, with and without their documents."""

from __future__ import annotations

import json
import logging
import sys
from types import SimpleNamespace

import pytest

from lm_eval_ccat.errors import MetricError, ScaleError
from lm_eval_ccat.harness import internals
from lm_eval_ccat.harness.check import check_tasks
from lm_eval_ccat.harness.task_metrics import metric_of_task

ROWS = [
    {"source": "eins zwei", "target": "one two", "targets": ["one two", "a b"], "label": 0},
    {"source": "drei", "target": "three", "targets": ["three"], "label": 1},
]
#: By name the output type, the target, and the rest of a task.
TASKS = {
    "t_translate": ("generate_until", '"{{target}}"', """
metric_list:
  - {metric: bleu, aggregation: bleu, higher_is_better: true}
  - {metric: chrf++, aggregation: chrf++, higher_is_better: true}
  - {metric: ter, aggregation: ter, higher_is_better: false}
"""),
    "t_two_filters": ("generate_until", '"{{target}}"', """
filter_list:
  - {name: strict, filter: [{function: take_first}]}
  - {name: loose, filter: [{function: take_first}]}
metric_list: [{metric: exact_match, aggregation: mean, higher_is_better: true}]
"""),
    "t_several_targets": ("generate_until", "targets", """
metric_list:
  - {metric: exact_match, aggregation: mean, higher_is_better: true}
  - {metric: bleu, aggregation: bleu, higher_is_better: true}
"""),
    "t_choice": ("multiple_choice", "label", """
doc_to_choice: ["yes", "no"]
metric_list: [{metric: acc}, {metric: f1}, {metric: mcc}]
"""),
    "t_own": ("generate_until", '"{{target}}"', """
process_results: !function own.process
metric_list:
  - {metric: grade, aggregation: mean, higher_is_better: false}
  - {metric: broken, aggregation: mean, higher_is_better: true}
metadata: {version: 1.0, ccat_scales: {grade: {range: [0, 20]}, broken: {range: [0, 1]}}}
"""),
    "t_hf": ("generate_until", '"{{target}}"', """
metric_list:
  - {metric: overlap, aggregation: mean, higher_is_better: true, hf_evaluate: true}
  - {metric: nowhere, aggregation: mean, higher_is_better: true, hf_evaluate: true}
metadata: {version: 1.0, ccat_scales: {overlap: {range: [0, 1]}}}
"""),
    "t_ppl": ("loglikelihood_rolling", '"{{target}}"', "metric_list: [{metric: word_perplexity}]"),
}  # fmt: skip
OWN = """\
def process(doc, results):
    return {"grade": float(len(results[0])), "broken": [1.0]}
"""


def _overlap(predictions, references):
    ours, wanted = (set(texts[0].split()) for texts in (predictions, references))
    return {"overlap": len(ours & wanted) / len(ours | wanted)}


@pytest.fixture(scope="module", autouse=True)
def evaluate():
    """In place of Hugging Face's, which takes seconds to import; it knows one metric."""
    known = {"overlap": SimpleNamespace(compute=_overlap)}
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "evaluate", SimpleNamespace(load=known.__getitem__))
        yield


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
    for name, (kind, target, rest) in TASKS.items():
        (folder / f"{name}.yaml").write_text(
            f"task: {name}\ndataset_path: json\ntest_split: test\noutput_type: {kind}\n"
            f"dataset_kwargs: {{data_files: {{test: {data}}}}}\n"
            f'doc_to_text: "{{{{source}}}}"\ndoc_to_target: {target}\n{rest.strip()}\n'
        )
    return folder


@pytest.fixture(scope="module")
def checks(folder):
    return {c.task: c for c in check_tasks([*TASKS], include_path=str(folder))}


def _loaded(folder, name):
    return internals.task_manager([name], str(folder)).load([name])["tasks"][name]


def _by_metric(check):
    return {m.metric: m for m in check.metrics}


@pytest.mark.parametrize(
    "task, metric, key, words",
    [
        ("t_translate", "ter", "sentence_ter,none", "0 upwards, capped at 100, lower is better"),
        ("t_translate", "bleu", "sentence_bleu,none", "0 to 100, higher is better"),
        ("t_translate", "chrf++", "sentence_chrf++,none", ""),
        ("t_several_targets", "exact_match", "exact_match,none", ""),
        ("t_several_targets", "bleu", None, "bleu of task t_several_targets"),
        ("t_choice", "acc", "acc,none", ""),
        ("t_choice", "f1", None, "metric f1 of task t_choice"),
        ("t_choice", "mcc", None, "metric mcc of task t_choice"),
        ("t_own", "grade", "grade,none", "0 to 20, lower is better"),
        ("t_hf", "overlap", "overlap,none", "0 to 1, higher is better"),
        ("t_hf", "nowhere", None, "nowhere of task t_hf could not be loaded"),
    ],
)
def test_a_metric_has_a_key_and_a_scale_or_is_refused_by_name(checks, task, metric, key, words):
    found = _by_metric(checks[task])[metric]
    assert found.usable == (key is not None) and checks[task].documents == 2
    assert found.key == key or not found.usable
    assert words in (found.words if found.usable else found.reason)
    if metric == "bleu" and found.usable:
        assert "corpus bleu appears only when every document was run" in found.estimand


def test_each_filter_has_its_key(checks):
    keys = [m.key for m in checks["t_two_filters"].metrics]
    assert keys == ["exact_match,strict", "exact_match,loose"]


def test_a_loaded_task_scores_pairs_in_the_harness_order(folder):
    task = _loaded(folder, "t_translate")
    doc = task.eval_docs[0]
    reported = task.process_results(doc, ["one two three four"])
    metric = metric_of_task(task, "ter")
    # Two words too many against a reference of two: 100, not the 50 of the reversed pair.
    assert metric.score(reported["ter"], task="t_translate") == pytest.approx(100)
    with pytest.raises(MetricError, match="t_translate"):
        metric_of_task(task, "mcc")


def test_declared_ranges_hold_what_a_task_reports(folder):
    task = _loaded(folder, "t_own")
    reported = task.process_results(task.eval_docs[0], ["x" * 21])
    with pytest.raises(ScaleError, match=r"grade of task t_own gave 21, outside its scale"):
        metric_of_task(task, "grade").score(reported["grade"], task="t_own")


def test_metrics_of_hf_evaluate_are_scored_as_the_harness_reports_them(folder):
    task = _loaded(folder, "t_hf")
    task._metric_fn_list.pop("nowhere")
    reported = task.process_results(task.eval_docs[0], ["one three"])
    assert metric_of_task(task, "overlap").score(reported["overlap"]) == pytest.approx(1 / 3)


def test_without_documents_the_yaml_is_judged(ccat):
    [task] = json.loads(ccat("check", "truthfulqa_gen", "--json").out)
    truthful = {m["metric"]: m for m in task["metrics"]}
    assert truthful["rougeL_diff"]["scale"]["low"] == -100
    assert truthful["bleu_max"]["key"] == "bleu_max,none"


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        ("t_choice", 0, "acc,none"),
        ("t_choice --metric mcc", 3, "refused: metric mcc of task t_choice"),
        ("t_choice --metric nope", 3, "no metric nope; it has acc, f1, mcc"),
        ("t_ppl", 3, "cannot be run adaptively: task t_ppl"),
        ("no_such_task", 2, None),
    ],
)
def test_exit_codes_and_one_line_errors(folder, ccat, arguments, code, said):
    out, err = ccat("check", *arguments.split(), "--include_path", folder, code=code)
    assert err.count("\n") == 1 if said is None else said in " ".join(out.split())

"""`check`: what is said of real harness tasks, with and without their documents."""

from __future__ import annotations

import json
import logging
import sys
from types import SimpleNamespace

import pytest
import yaml

from lm_eval_ccat.cli.check import _in_words
from lm_eval_ccat.errors import MetricError, ScaleError, UsageError
from lm_eval_ccat.harness import internals
from lm_eval_ccat.harness.task_check import TaskCheck, check_config, check_tasks, write_variants
from lm_eval_ccat.harness.task_metrics import metric_of_task
from lm_eval_ccat.live.plan import make_plan
from lm_eval_ccat.live.spec import Spec

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
metadata: {version: 1.0, ccat_scales: {overlap: {range: [0, 1]}}}
"""),
    "t_nowhere": ("generate_until", '"{{target}}"', """
metric_list:
  - {metric: rouge, aggregation: mean, higher_is_better: true, hf_evaluate: true}
  - {metric: exact_match, aggregation: mean, higher_is_better: true}
"""),
    "t_ppl": ("loglikelihood_rolling", '"{{target}}"', "metric_list: [{metric: word_perplexity}]"),
}  # fmt: skip
#: A task that is known by its YAML alone, and whether several targets would spoil its metrics.
BY_YAML = [
    ("exact_match", {}, False),
    ("bleu", {}, True),
    ("bleu", {"process_results": "!function own.process"}, False),
    ("acc", {"output_type": "multiple_choice"}, False),
]


@pytest.mark.parametrize(("metric", "keys", "told"), BY_YAML)
def test_several_targets_are_told_of_where_they_would_make_grades_0_or_1(metric, keys, told):
    notes = check_config("t", {"metric_list": [{"metric": metric}], **keys}).notes
    assert any("several targets" in note for note in notes) == told


def test_a_metric_is_checked_with_the_tokenizer_that_is_asked_for():
    found = check_config("t", {"metric_list": [{"metric": "bleu"}, {"metric": "ter"}]}, "bleu@zh")
    assert [(metric.metric, metric.usable) for metric in found.metrics] == [("bleu@zh", True)]


def test_a_metric_of_hf_evaluate_is_known_by_the_names_that_it_reports():
    found = check_config("t", {"metric_list": [{"metric": "rouge"}, {"metric": "bleu"}]})
    assert [m.metric for m in found.metrics] == ["rouge1", "rouge2", "rougeL", "rougeLsum", "bleu"]


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


@pytest.mark.long
def test_a_configuration_of_a_ranking_is_no_task_and_hides_none(folder, checks, tmp_path, ccat):
    (tmp_path / "t_choice.yaml").write_text((folder / "t_choice.yaml").read_text())
    (ranking := tmp_path / "ranking.yaml").write_text("task: t_choice\nmodels: [{model: dummy}]\n")
    assert check_tasks(["t_choice"], include_path=str(tmp_path)) == [checks["t_choice"]]
    error = ccat("check", ranking, code=2).err
    assert f"{ranking} is no task but a configuration of `rank`" in error
    ranking.write_text("task: 3\nmodels: [{model: dummy}]\n")  # YAML's number, not a text
    assert "cannot load task '3': nothing has that name" in ccat("rank", ranking, code=2).err


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
    ],
)
def test_a_metric_has_a_key_and_a_scale_or_is_refused_by_name(checks, task, metric, key, words):
    [found] = [m for m in checks[task].metrics if m.metric == metric]
    assert found.usable == (key is not None) and checks[task].documents == 2
    assert found.key == key or not found.usable
    assert words in (found.words if found.usable else found.reason)
    if metric == "bleu" and found.usable:
        assert "corpus bleu appears only when every document was run" in found.estimand


def test_no_metric_of_a_task_is_scored_where_one_could_not_be_loaded(checks, folder):
    loaded = internals.task_manager(["t_nowhere"], str(folder)).load(["t_nowhere"])["tasks"]
    with pytest.raises(TypeError):
        loaded["t_nowhere"].process_results(ROWS[0], ["one two"])
    assert "metric rouge of task t_nowhere could not be loaded" in checks["t_nowhere"].reason
    models = [{"model": "dummy", "name": name} for name in "ab"]
    config = {"task": "t_nowhere", "metric": "exact_match", "models": models}
    with pytest.raises(MetricError, match="rouge of task t_nowhere could not be loaded"):
        make_plan(Spec.read({**config, "harness": {"include_path": str(folder)}}))
    assert [task for task, check in checks.items() if not check.usable] == ["t_nowhere", "t_ppl"]


def test_each_filter_has_its_key(checks):
    keys = [m.key for m in checks["t_two_filters"].metrics]
    assert keys == ["exact_match,strict", "exact_match,loose"]


@pytest.mark.parametrize(
    ("task", "metric", "answer", "score"),
    [
        # Two words too many against a reference of two: 100, not the 50 of the reversed pair.
        ("t_translate", "ter", "one two three four", 100),
        ("t_hf", "overlap", "one three", 1 / 3),
        ("t_own", "grade", "x" * 20, 20),
        ("t_own", "grade", "x" * 21, "grade of task t_own gave 21, outside its scale"),
    ],
)
def test_a_loaded_task_is_scored_as_the_harness_reports_it(folder, task, metric, answer, score):
    loaded = internals.task_manager([task], str(folder)).load([task])["tasks"][task]
    reported = loaded.process_results(loaded.eval_docs[0], [answer])[metric]
    scored = metric_of_task(loaded, metric)
    if isinstance(score, str):
        with pytest.raises(ScaleError, match=score):
            scored.score(reported, task=task)
    else:
        assert scored.score(reported, task=task) == pytest.approx(score)


@pytest.mark.long
def test_without_documents_the_yaml_is_judged(ccat):
    [task] = json.loads(ccat("check", "truthfulqa_gen", "--json").out)
    truthful = {m["metric"]: m for m in task["metrics"]}
    assert truthful["rougeL_diff"]["scale"]["low"] == -100
    assert truthful["bleu_max"]["key"] == "bleu_max,none"


def test_tasks_that_are_alike_are_told_of_together_with_what_is_said_of_each():
    tasks = [TaskCheck("a", 5, (), notes=("of a",)), TaskCheck("b", 6, (), notes=("of b",))]
    words = _in_words(tasks)
    assert "a, b (2 tasks, 11 documents)" in words and "of a" in words and "of b" in words
    absent = _in_words([tasks[0], TaskCheck("b", None, ())])
    assert "2 tasks, documents not downloaded" in absent


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        ("t_choice", 0, "acc,none"),
        ("t_choice --metric acc", 0, "acc,none"),
        ("t_choice --metric mcc", 3, "refused: metric mcc of task t_choice"),
        ("t_choice --metric nope", 3, "no metric nope; it has acc, f1, mcc"),
        ("t_ppl", 3, "cannot be run adaptively: task t_ppl"),
        ("t_ppl,t_choice", 3, "cannot be run adaptively: task t_ppl"),
        ("no_such_task", 2, None),
    ],
)
def test_exit_codes_and_one_line_errors(folder, ccat, arguments, code, said):
    out, err = ccat("check", *arguments.split(), "--include_path", folder, code=code)
    task, _, metric = arguments.partition(" --metric ")
    step = f"Next: lm-eval-ccat rank --task {task} --include_path {folder}"
    step += f" --metric {metric}, with " if metric else ", with "
    assert (step in out) == (code == 0)
    assert err.count("\n") == 1 if said is None else said in " ".join(out.split())


def test_a_variant_of_a_group_keeps_what_the_group_sets_and_changes(tmp_path):
    own = tmp_path / "own"
    own.mkdir()
    (own / "one.yaml").write_text("task: one\nnum_fewshot: 0\n")
    means = {"aggregate_metric_list": [{"metric": "acc", "weight_by_size": False}]}
    group = {"group": "g", "group_alias": "G", "task": [{"task": "one", "num_fewshot": 3}], **means}
    (own / "g.yaml").write_text(yaml.safe_dump(group))
    variants = write_variants(tmp_path / "new", ["g"], str(own))
    written = yaml.safe_load(variants.files["g"].read_text())
    assert written == {
        "group": "g_adaptive", "group_alias": "G", **means,
        "task": [{"task": "one_adaptive", "num_fewshot": 3}],
    }  # fmt: skip


def test_a_group_inside_a_group_is_named_as_one_that_runs_in_full(tmp_path):
    (tmp_path / "one.yaml").write_text("task: one\n")
    group = {"group": "outer", "task": ["one", {"group": "inner", "task": ["one"]}]}
    (tmp_path / "g.yaml").write_text(yaml.safe_dump(group))
    variants = write_variants(tmp_path / "new", ["outer"], str(tmp_path))
    assert list(variants.in_full) == ["outer::inner"]


def test_a_variant_of_a_variant_is_refused_by_name(tmp_path):
    own = tmp_path / "own"
    own.mkdir()
    (own / "one.yaml").write_text("task: one\n")
    (own / "two.yaml").write_text("task: two\noutput_type: loglikelihood_rolling\n")
    write_variants(tmp_path / "new", ["one"], str(own))
    again, folders = tmp_path / "again", [str(own), str(tmp_path / "new")]
    with pytest.raises(UsageError) as refused:
        write_variants(again, ["one_adaptive", "two"], folders)
    assert str(refused.value).startswith("one_adaptive: is adaptive already; two: a perplexity")
    # One that has a variant is enough, and the others stand for themselves.
    written = write_variants(again, ["two", "one"], str(own))
    assert written.names == ["two", "one_adaptive"] and list(written.files) == ["one"]


def test_a_task_that_cannot_be_loaded_says_why(tmp_path):
    data = tmp_path / "nowhere.jsonl"
    (tmp_path / "t_gone.yaml").write_text(
        f"task: t_gone\ndataset_path: json\ndataset_kwargs: {{data_files: {{test: {data}}}}}\n"
        "test_split: test\noutput_type: generate_until\ndoc_to_text: q\ndoc_to_target: a\n"
        "metric_list: [{metric: exact_match}]\n"
    )
    [found] = check_tasks(["t_gone"], include_path=str(tmp_path))
    [note] = [note for note in found.notes if note.startswith("not loaded (")]
    assert "nowhere.jsonl" in note

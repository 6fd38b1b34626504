"""Reading logs: what is taken, what is left out and said, what is refused."""

from __future__ import annotations

import gzip
import json

import numpy as np
import pytest
from sample_rows import sample_row

from lm_eval_ccat.errors import CcatError, MetricError, ScaleError, ScoreTableError
from lm_eval_ccat.scores import ScoreTable
from lm_eval_ccat.scores.readers.lm_eval import rows as log_rows


def rows_of(scores, metric="exact_match", **fields):
    return [sample_row(n, {metric: float(s)}, **fields) for n, s in enumerate(scores)]


def test_models_and_documents_become_rows_and_columns(write_run):
    write, logs = write_run
    write("org/first", rows_of([1, 0, 1]))
    write("second", rows_of([0, 0, 1]), compress=True)
    table = ScoreTable.read(logs)
    assert table.models == ("org/first", "second")
    assert table.raw.tolist() == [[1, 0, 1], [0, 0, 1]]
    assert table.doc_ids == (0, 1, 2)
    assert (table.task, table.metric, table.filter) == ("demo", "exact_match", "none")
    assert table.doc_hashes[0] == sample_row(0, {})["doc_hash"]
    assert table.settings["num_fewshot"] == 0 and table.settings["task_version"] == 1.0
    assert not table.warnings


def test_of_two_runs_the_later_counts_document_by_document(write_run):
    write, logs = write_run
    write("a", rows_of([1, 1, 1]), day=3)
    write("a", rows_of([0, 0]), day=9)
    write("a", rows_of([0, 0, 0]), day=1)
    table = ScoreTable.read(logs)
    assert table.raw.tolist() == [[0, 0, 1]]


def test_of_a_document_twice_in_one_file_the_last_row_counts(write_run):
    write, logs = write_run
    write("a", [*rows_of([0, 0]), sample_row(0, {"exact_match": 1.0})])
    assert ScoreTable.read(logs).raw.tolist() == [[1, 0]]


@pytest.mark.parametrize(("shots", "said"), [(0, False), (5, True)])
def test_turns_of_examples_are_told_of_where_there_are_examples(write_run, shots, said):
    write, logs = write_run
    for model, turns in (("a", False), ("b", True)):
        write(model, rows_of([0, 1]), shots=shots, fewshot_as_multiturn=turns)
    warnings = ScoreTable.read(logs).warnings
    assert any("fewshot_as_multiturn differs" in text for text in warnings) is said


def test_generation_settings_of_one_model_are_its_configs(write_run):
    write, logs = write_run
    write("a", rows_of([1, 0]), day=1, generation={"temperature": 0.0, "until": ["\n"]})
    write("a", rows_of([0, 0]), day=2, generation={"temperature": 0.7, "until": ["\n"]})
    write("b", rows_of([1, 1]), day=3, generation={"temperature": 0.0, "until": ["\n"]})
    table = ScoreTable.read(logs)
    assert list(zip(table.row_model, table.row_config)) == [
        ("a", "temperature=0.0"),
        ("a", "temperature=0.7"),
        ("b", "temperature=0.0"),
    ]
    assert table.model_scores().tolist() == [[0.5, 0], [1, 1]]
    assert table.settings["generation_kwargs"] == {"until": ["\n"]}
    assert table.settings["differing"] == ["generation_kwargs.temperature"]


def test_the_only_filter_is_taken_and_of_several_one_must_be_named(write_run):
    write, logs = write_run
    both = rows_of([1, 0], filter="strict") + rows_of([1, 1], filter="flexible")
    write("a", both)
    write("b", both, results=False)
    with pytest.raises(ScoreTableError, match=r"2 filters \(flexible, strict\).*--filter"):
        ScoreTable.read(logs)
    assert ScoreTable.read(logs, filter="strict").raw.tolist() == [[1, 0], [1, 0]]
    # Without a results file the filters are only in the rows.
    with pytest.raises(ScoreTableError, match="2 filters"):
        ScoreTable.read(logs / "b")


def test_a_metric_or_task_that_must_be_named_or_is_absent(write_run):
    write, logs = write_run
    write("a", [sample_row(0, {"acc": 1.0, "f1": 0.25}), sample_row(1, {"acc": 0.0, "f1": 1.0})])
    with pytest.raises(ScoreTableError, match="reports acc, f1; name one"):
        ScoreTable.read(logs)
    with pytest.raises(ScoreTableError, match="no metric 'bleu'; it reports acc, f1"):
        ScoreTable.read(logs, metric="bleu")
    write("a", rows_of([1]), task="other_task")
    with pytest.raises(ScoreTableError, match=r"2 tasks \(demo, other_task\); name one"):
        ScoreTable.read(logs, metric="acc")
    with pytest.raises(ScoreTableError, match="no samples of task third; there are demo"):
        ScoreTable.read(logs, task="third")
    assert ScoreTable.read(logs, metric="f1", task="demo").raw.tolist() == [[0.25, 1.0]]


@pytest.mark.parametrize(
    "wreck",
    [
        lambda text: text[: len(text) // 2],
        lambda text: "{",
        lambda text: "[1, 2]",
        lambda text: text[:60] + text,  # a write cut off and later continued by a whole row
        lambda text: text[:40] + "\0" * 8 + text[48:],
        lambda text: text.replace('"doc_id": 1', '"id": 1'),
    ],
)
def test_a_broken_line_is_named_and_the_rest_is_used(write_run, wreck):
    write, logs = write_run
    rows = rows_of([1, 0, 1])
    rows[1] = wreck(json.dumps(rows[1]))
    file = write("a", rows)
    table = ScoreTable.read(logs)
    assert table.doc_ids == (0, 2) and table.raw.tolist() == [[1, 1]]
    assert any(f"{file}, line 2: not readable" in w for w in table.warnings)


def test_line_numbers_hold_over_ranges_of_bytes(write_run, monkeypatch):
    write, logs = write_run
    rows = [json.dumps(r) for r in rows_of(np.arange(400) % 2)]
    rows[321] = rows[321][:-30]
    file = write("a", rows, results=False)
    monkeypatch.setattr(log_rows, "RANGE_BYTES", 1000)
    monkeypatch.setattr(log_rows, "_WORTH_PROCESSES", 1)
    table = ScoreTable.read(logs)
    assert table.n_items == 399
    assert [w for w in table.warnings if f"{file}, line 322:" in w]
    assert table.raw[0, :321].tolist() == (np.arange(321) % 2).tolist()


def test_a_damaged_gz_is_named_and_what_was_read_is_used(write_run):
    write, logs = write_run
    file = write("a", rows_of(np.arange(5000) % 2), compress=True)
    file.write_bytes(file.read_bytes()[:-2000])
    table = ScoreTable.read(logs)
    assert 0 < table.n_items < 5000
    assert any(str(file) in w and "not readable" in w for w in table.warnings)


def test_keys_inside_a_document_are_not_taken_for_the_rows_own(write_run):
    write, logs = write_run
    trap = {"filter": "x", "doc_hash": "y", "metrics": ["exact_match"], "exact_match": 0.0}
    text = 'quoted "filter": "none", "metrics": [], "doc_hash": "z", "exact_match": 0.0}'
    write(
        "a",
        [
            sample_row(0, {"exact_match": 1.0}, doc={"inner": trap}, answer=text),
            sample_row(1, {"exact_match": 1.0, "detail": {"filter": "q", "metrics": []}}),
        ],
    )
    table = ScoreTable.read(logs, metric="exact_match")
    assert table.raw.tolist() == [[1, 1]]
    assert table.filter == "none"


def test_documents_that_changed_are_said_and_the_rarer_version_is_missing(write_run):
    write, logs = write_run
    for model in "abc":
        write(model, rows_of([1, 0, 1]))
    changed = rows_of([1, 1, 1])
    changed[1] = sample_row(1, {"exact_match": 1.0}, doc={"question": "another"})
    write("d", changed)
    table = ScoreTable.read(logs)
    assert any(
        "1 of 3 documents differs" in w and "doc_id 1" in w and "d (1)" in w for w in table.warnings
    )
    assert table.doc_hashes[1] == sample_row(1, {})["doc_hash"]
    assert np.isnan(table.raw[3, 1]) and np.isfinite(table.raw).sum() == 11


def test_adaptive_runs_are_never_taken_for_full_results(write_run):
    write, logs = write_run
    write("full", rows_of([1, 0, 1, 1]))
    part = {"original": 4, "effective": 2}
    write("adaptive", rows_of([1, 1]), samples=part, adaptive={"bank": "x"})
    write("chosen", rows_of([1, 1]), samples=part)
    write("limited", rows_of([0, 1]), samples=part, limit=2.0)
    table = ScoreTable.read(logs)
    assert table.models == ("full", "limited")
    said = "\n".join(table.warnings)
    assert "adaptive run (2 of 4 documents); left out" in said
    assert "not a full run (2 of 4 documents); left out" in said
    assert "--limit (2 of 4 documents)" in said
    with pytest.raises(ScoreTableError, match="no full results"):
        ScoreTable.read(logs / "adaptive")


def test_an_adaptive_run_of_every_document_is_a_full_run(write_run):
    write, logs = write_run
    write("a", rows_of([1, 0]), adaptive={"demo": {"items": 2}})
    assert ScoreTable.read(logs).models == ("a",)


def test_runs_with_other_examples_are_left_out_and_named(write_run):
    write, logs = write_run
    write("a", rows_of([1, 0]))
    write("b", rows_of([0, 0]))
    write("c", rows_of([1, 1]), shots=5)
    table = ScoreTable.read(logs)
    assert table.models == ("a", "b")
    assert any("num_fewshot differs" in w and "logs/c/" in w for w in table.warnings)


def test_pairs_of_texts_get_the_sentence_score(write_run):
    import sacrebleu

    write, logs = write_run
    pairs = [("the cat sat on the mat", "a cat sat on a mat"), ("dogs bark", "dogs bark loudly")]
    rows = [sample_row(n, {"bleu": [r, p]}, answer=p) for n, (r, p) in enumerate(pairs)]
    # A task family that gives the pair in the other order: the answer tells.
    rows.append(
        sample_row(
            2,
            {"bleu": ["a cat sat on a mat", "the cat sat on the mat"]},
            answer="a cat sat on a mat",
        )
    )
    write("a", rows)
    table = ScoreTable.read(logs)
    wanted = [sacrebleu.sentence_bleu(p, [r]).score for r, p in pairs]
    assert table.raw[0].tolist() == pytest.approx([*wanted, wanted[0]], abs=1e-12)
    assert table.scale.high == 100


def test_scales_known_told_and_not_known(write_run):
    write, logs = write_run
    write("a", rows_of([0.2, 0.9], metric="my_score"))
    assert ScoreTable.read(logs).scores.tolist() == [[0.2, 0.9]]
    write("b", rows_of([3.0, 9.0], metric="my_score"))
    with pytest.raises(ScaleError, match="--range LO,HI"):
        ScoreTable.read(logs)
    table = ScoreTable.read(logs, range=(0, 10), lower_is_better=True)
    assert table.scores[1].tolist() == pytest.approx([0.7, 0.1])
    write("c", rows_of([1.0, 7.0]), task="acc_task")
    with pytest.raises(ScaleError, match=r"doc_id 1: .*outside its scale"):
        ScoreTable.read(logs, task="acc_task")


def test_the_results_file_tells_the_direction_of_an_unknown_metric(write_run):
    write, logs = write_run
    write(
        "a", rows_of([0.2, 0.9], metric="my_error"), higher_is_better={"demo": {"my_error": False}}
    )
    assert ScoreTable.read(logs).scores.tolist() == [[0.8, pytest.approx(0.1)]]


def test_unusable_scores_are_missing_but_an_unusable_metric_is_refused(write_run):
    write, logs = write_run
    write("a", rows_of([1.0, float("nan"), 0.0]))
    table = ScoreTable.read(logs)
    assert np.isnan(ScoreTable.read(logs).raw).sum() == 0 and table.doc_ids == (0, 2)
    assert any("1 scores unusable" in w and "line 2" in w for w in table.warnings)
    write("b", [sample_row(0, {"acc": [1, 2]})], task="lists")
    with pytest.raises(MetricError, match=r"line 1: .*not as one number"):
        ScoreTable.read(logs, task="lists")


def test_a_directory_without_logs_and_a_file_that_is_none(tmp_path):
    with pytest.raises(ScoreTableError, match="--log_samples"):
        ScoreTable.read(tmp_path)
    (tmp_path / "samples_x_2026-01-01T00-00-00.jsonl").write_text("nothing\n")
    with pytest.raises(CcatError, match="no readable rows"):
        ScoreTable.read(tmp_path)


def test_one_file_can_be_read_alone(write_run):
    write, logs = write_run
    file = write("a", rows_of([1, 0]))
    write("b", rows_of([1, 1]))
    assert ScoreTable.read(file).models == ("a",)
    results = next((logs / "b").glob("results_*.json"))
    assert ScoreTable.read(results).models == ("b",)
    packed = gzip.compress(results.read_bytes())
    results.unlink()
    results.with_suffix(".json.gz").write_bytes(packed)
    assert ScoreTable.read(logs / "b").settings["num_fewshot"] == 0


def test_a_system_without_weights_keeps_its_name_over_runs(write_run):
    write, logs = write_run
    for day, made_up in ((1, "a8ck3jf0"), (2, "zz0123ab")):
        write(
            made_up,
            rows_of([day - 1, 1]),
            day=day,
            model_source="my-system",
            config={"model_args": {"quality": 3}},
        )
    table = ScoreTable.read(logs)
    assert table.models == ("my-system:quality=3",)
    assert table.raw.tolist() == [[1, 1]]


@pytest.mark.parametrize("name", ["frequent", "lead2016"])
def test_a_name_that_looks_made_up_is_kept_where_it_is_an_argument_or_a_word(write_run, name):
    write, logs = write_run
    write(name, rows_of([1, 0]), model_source="my-system", config={"model_args": {"system": name}})
    assert ScoreTable.read(logs).models == (name,)


def test_nameless_model_objects_are_told_apart_by_the_directories_they_were_saved_in(write_run):
    write, logs = write_run
    for model, scores in (("first", [1, 0]), ("second", [0, 0])):
        write(f"{model}/None", rows_of(scores), model_name=None, model_source=None, config={})
    table = ScoreTable.read(logs)
    assert table.models == ("first", "second")
    assert table.raw.tolist() == [[1, 0], [0, 0]]

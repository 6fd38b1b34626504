"""Reading logs: what is taken, what is left out and said, what is refused."""

import gzip
import hashlib
import itertools
import json
import re
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
import sacrebleu
from hypothesis import given, settings
from hypothesis import strategies as st

from lm_eval_ccat.bank import ItemBank
from lm_eval_ccat.cli.main import main
from lm_eval_ccat.errors import (
    CcatError,
    MetricError,
    ScaleError,
    ScoreTableError,
    UnknownMetricError,
    UnknownScoresError,
)
from lm_eval_ccat.methods.calibration import calibrate
from lm_eval_ccat.metrics import Scale
from lm_eval_ccat.scores import ScoreTable
from lm_eval_ccat.scores.answers import earlier_answers, read_answers
from lm_eval_ccat.scores.readers.samples import tail_of
from lm_eval_ccat.scores.reading import Logged, share_above_cap
from lm_eval_ccat.scores.table import READERS, read_beside
from lm_eval_ccat.testing.readers import ReaderSuite


def sample_row(doc_id, values, *, filter="none", doc=None, answer="an answer", target="gold"):
    """One row as lm_eval.evaluator writes it, keys in its order."""
    doc = {"question": f"question {doc_id}"} if doc is None else doc
    return {
        "doc_id": doc_id,
        "doc": doc,
        "target": target,
        "arguments": {"gen_args_0": {"arg_0": 'a "prompt"\n', "arg_1": {"until": ["\n"]}}},
        "resps": [[answer]],
        "filtered_resps": [answer],
        "filter": filter,
        "metrics": list(values),
        "doc_hash": hashlib.sha256(json.dumps(doc).encode()).hexdigest(),
        "prompt_hash": "p" * 64,
        "target_hash": "t" * 64,
        **values,
    }


def rows_of(scores, metric="exact_match", **fields):
    return [sample_row(n, {metric: float(s)}, **fields) for n, s in enumerate(scores)]


def mean_of(rows, metric, filter):
    """What the results file states: the mean over documents, if their values are numbers."""
    values = {r["doc_id"]: r.get(metric) for r in rows if r.get("filter", filter) == filter}
    numbers = [float(v) for v in values.values() if isinstance(v, (int, float))]
    return sum(numbers) / len(numbers) if numbers else 0.5


def write_run(
    logs, model, rows, *, task="demo", day=1, compress=False, results=True, filters=(), **changes
) -> Path:
    """Write one run of one model; its sample file. `changes` are of its results file."""
    folder, date = logs / model, f"2026-01-{day:02d}T10-00-00.000001"
    folder.mkdir(parents=True, exist_ok=True)
    lines = [r if isinstance(r, str) else json.dumps(r, ensure_ascii=False) for r in rows]
    data = "".join(line + "\n" for line in lines).encode()
    file = folder / f"samples_{task}_{date}.jsonl{'.gz' if compress else ''}"
    file.write_bytes(gzip.compress(data) if compress else data)
    if results:
        named = [r for r in rows if isinstance(r, dict)]
        columns = dict.fromkeys(
            (m, f) for r in named for m in r["metrics"] for f in filters or [r["filter"]]
        )
        keys = {f"{m},{f}": mean_of(named, m, f) for m, f in columns}
        number = len({r["doc_id"] for r in named})
        config = {"generation_kwargs": changes.pop("generation", {})}
        document = {
            "results": {task: {"alias": task, **keys}},
            "configs": {task: {**config, "filter_list": [{"name": name} for name in filters]}},
            "versions": {task: changes.pop("version", 1.0)},
            "n-shot": {task: changes.pop("shots", 0)},
            "n-samples": {task: changes.pop("samples", {"original": number, "effective": number})},
            "config": {"model_args": {"model": model}, "limit": changes.pop("limit", None)},
            "model_name": model,
            "model_source": "local-completions",
            "chat_template": None,
            **changes,
        }
        (folder / f"results_{date}.json").write_text(json.dumps(document))
    return file


class TestHarnessLogs(ReaderSuite):
    reader = READERS.get("lm_eval")
    query = {"metric": "exact_match"}  # noqa: RUF012

    def write(self, folder: Path) -> Path:
        for model, scores in (("a", [1, 0]), ("b", [0, 0])):
            write_run(folder, model, rows_of(scores))
        return folder

    def expected(self) -> ScoreTable:
        return ScoreTable.from_arrays([[1, 0], [0, 0]], ["a", "b"])


RUN = st.tuples(
    st.sampled_from(["org/a", "b"]),
    st.sampled_from([{}, {"temperature": 0.7}]),
    st.dictionaries(st.integers(0, 4), st.sampled_from([0, 1]), min_size=1),
)


@pytest.mark.long
@given(runs=st.lists(RUN, min_size=1, max_size=6), days=st.permutations(range(1, 7)))
def test_of_a_model_config_and_document_the_latest_run_counts(tmp_path_factory, runs, days):
    logs = tmp_path_factory.mktemp("logs")
    for day, (model, generation, scores) in zip(days, runs):
        rows = [sample_row(d, {"exact_match": float(s)}) for d, s in scores.items()]
        write_run(logs, model, rows, day=day, generation=generation)
    table = ScoreTable.read(logs)
    expected = {}
    settings_of = {model: [g for m, g, _ in runs if m == model] for model in ("org/a", "b")}
    varied = any({"temperature": 0.7} in g and {} in g for g in settings_of.values())
    for _, (model, generation, scores) in sorted(zip(days, runs), key=lambda pair: pair[0]):
        config = "temperature=0.7" if generation and varied else ""
        expected |= {(model, config, d): s for d, s in scores.items()}
    labels = list(zip(table.row_model, table.row_config))
    cells = np.argwhere(~np.isnan(table.raw)).tolist()
    assert {(*labels[r], table.doc_ids[c]): table.raw[r, c] for r, c in cells} == expected
    hashes = dict(zip(table.doc_ids, table.doc_hashes))
    assert hashes == {d: sample_row(d, {})["doc_hash"] for d in hashes}


def test_settings_that_runs_share_and_those_that_differ(tmp_path):
    for model in "ab":
        write_run(tmp_path, model, rows_of([1, 0]), generation={"temperature": 0, "until": ["."]})
    table = ScoreTable.read(tmp_path)
    assert (table.task, table.metric, table.filter) == ("demo", "exact_match", "none")
    assert not table.warnings and "differing" not in table.settings
    write_run(tmp_path, "b", rows_of([1, 1]), day=2, generation={"temperature": 0.7})
    settings = ScoreTable.read(tmp_path).settings
    assert settings["differing"] == ["generation_kwargs.temperature", "generation_kwargs.until"]


@pytest.mark.parametrize(
    ("changes", "models", "words"),
    [
        ({"shots": 5}, ("a", "b"), ["num_fewshot differs", "/c/"]),
        ({"version": 2.0}, ("a", "b"), ["task_version differs"]),
        ({"chat_template": "x"}, ("a", "b", "c"), ["chat_template differs", "all are used"]),
        ({"samples": {"original": 4, "effective": 2}, "adaptive": {"bank": "x"}}, ("a", "b"),
         ["adaptive run (2 of 4 documents); left out"]),
        ({"samples": {"original": 4, "effective": 2}}, ("a", "b"), ["not a full run"]),
        ({"samples": {"original": 4, "effective": 2}, "limit": 2.0}, ("a", "b", "c"),
         ["--limit (2 of 4 documents)"]),
        ({"adaptive": {"demo": {"items": 2}}}, ("a", "b", "c"), []),  # of every document
        ({"fewshot_as_multiturn": True}, ("a", "b", "c"), []),  # there are no examples
    ],
)  # fmt: skip
def test_runs_that_measure_something_else_are_left_out_and_named(tmp_path, changes, models, words):
    write_run(tmp_path, "a", rows_of([1, 0]))
    write_run(tmp_path, "b", rows_of([0, 1]))
    write_run(tmp_path, "c", rows_of([1, 1]), **changes)
    table = ScoreTable.read(tmp_path)
    assert table.models == models
    said = "\n".join(table.warnings)
    assert all(word in said for word in words) and bool(said) == bool(words)
    if "adaptive run" in said:
        part = ScoreTable.read(tmp_path, partial=True)
        assert part.chosen == ("", "", "adaptive") and part.models == ("a", "b", "c")
        with pytest.raises(ScoreTableError, match="no full results"):
            ScoreTable.read(tmp_path / "c")


def test_a_run_with_a_limit_beside_an_adaptive_one_is_kept_with_the_items_that_it_had(tmp_path):
    for model in "abcdefgh":
        write_run(tmp_path, model, rows_of([1, 0, 1, 0, len(model)]))
    write_run(tmp_path, "adaptive", rows_of([1, 0]), adaptive={"demo": {"items": 2}},
              samples={"original": 5, "effective": 2})  # fmt: skip
    write_run(tmp_path, "limit", rows_of([1, 0, 0]), limit=3.0,
              samples={"original": 5, "effective": 3})  # fmt: skip
    table = ScoreTable.read(tmp_path, partial=True)
    calibrate(table, keep_scores=True).save(tmp_path / "bank")
    kept = {row.model: row for row in ItemBank.load(tmp_path / "bank").observations}
    assert (kept["a"].chosen, kept["adaptive"].chosen) == ("all", "adaptive")
    assert (kept["limit"].chosen, kept["limit"].items.tolist()) == ("first", [0, 1, 2])


@pytest.mark.parametrize("later", ["a", "b"])
def test_of_versions_that_as_many_models_have_the_latest_counts(tmp_path, later):
    for model, version in (("a", 1.0), ("b", 2.0)):
        write_run(tmp_path, model, rows_of([1, 0]), version=version, day=1 + (model == later))
    assert ScoreTable.read(tmp_path).models == (later,)


def test_a_log_that_states_no_version_may_be_of_any(tmp_path):
    for model, version in (("a", 1.0), ("b", None), ("c", None)):
        write_run(tmp_path, model, rows_of([1, 0]), version=version)
    assert ScoreTable.read(tmp_path).models == ("a", "b", "c")


def test_a_version_counts_by_its_models_not_by_its_runs(tmp_path):
    for day in (4, 5, 6):
        write_run(tmp_path, "a", rows_of([1, 0]), version=1.0, day=day)
    for model in "bc":
        write_run(tmp_path, model, rows_of([0, 1]), version=2.0)
    table = ScoreTable.read(tmp_path)
    assert table.models == ("b", "c")
    assert "1.0 (1 model)" in table.warnings[0] and "2.0 (2 models)" in table.warnings[0]


def test_examples_as_turns_of_a_chat_are_another_configuration_where_there_are_examples(tmp_path):
    for shots, names in ((0, {"m"}), (5, {"m", "m+multiturn"})):
        logs = tmp_path / str(shots)
        for day in (1, 2):
            turns = {"fewshot_as_multiturn": day == 2}
            write_run(logs, "m", rows_of([1, 0]), day=day, shots=shots, **turns)
        assert set(ScoreTable.read(logs).models) == names


def test_filters_metrics_and_tasks_are_the_only_ones_or_must_be_named(tmp_path):
    both = rows_of([1, 0], filter="strict") + rows_of([1, 1], filter="flexible")
    write_run(tmp_path, "a", both)
    write_run(tmp_path, "b", both, results=False)  # then the filters are in the rows
    rows = [sample_row(0, {"acc": 1.0, "f1": 0.25}), sample_row(1, {"acc": 0.0, "f1": 1.0})]
    write_run(tmp_path / "c", "c", rows, task="other_task")
    for place, metric, task, words in (
        (tmp_path, None, "demo", "2 filters"),
        (tmp_path / "b", None, None, "2 filters"),
        (tmp_path, "acc", None, r"2 tasks \(demo, other_task\); name one"),
        (tmp_path, None, "other_task", r"2 metrics \(acc, f1\); name one"),
        (tmp_path, "bleu", "other_task", "no scores of metric 'bleu'; it has acc, f1"),
        (tmp_path, "accc", "other_task", "did you mean acc"),
        (tmp_path / "b", None, "third", "no scores of task 'third'; it has demo"),
    ):
        with pytest.raises(UnknownScoresError, match=words):
            ScoreTable.read(place, metric, task)
    strict = ScoreTable.read(tmp_path, task="demo", filter="strict")
    assert strict.raw.tolist() == [[1, 0], [1, 0]]
    assert ScoreTable.read(tmp_path, "f1", "other_task").raw.tolist() == [[0.25, 1.0]]


@pytest.mark.parametrize("as_list", [False, True])
def test_the_kth_nameless_row_of_a_document_is_of_the_kth_filter(tmp_path, as_list):
    # Before 0.4.7 lm-eval wrote filter by filter, and no row names its own.
    values = {"strict": [1, 0, 0], "flexible": [1, 1, 0], "last": [0, 0, 1]}
    rows = [row for scores in values.values() for row in rows_of(scores)]
    rows = [{k: v for k, v in row.items() if k != "filter"} for row in rows]
    file = write_run(tmp_path, "m", rows, filters=list(values))
    [beside] = file.parent.glob("results_*")
    results = json.loads(beside.read_text())  # whose keys may be sorted
    results["results"]["demo"] = dict(sorted(results["results"]["demo"].items()))
    beside.write_text(json.dumps(results))
    if as_list:  # as the second Open LLM Leaderboard published them
        file.rename(file.with_suffix(".json")).write_text(json.dumps(rows))
    with pytest.raises(UnknownScoresError, match="name one"):
        ScoreTable.read(tmp_path)
    for name, scores in values.items():
        assert ScoreTable.read(tmp_path, filter=name).raw.tolist() == [scores]
        assert [a.doc_id for a in read_answers(tmp_path, filter=name).answers] == [0, 1, 2]
    next(tmp_path.rglob("results_*")).unlink()
    with pytest.raises(ScoreTableError, match=r"put the run's results_<date>\.json beside"):
        ScoreTable.read(tmp_path, metric="exact_match")


WRECKS = (
    lambda text: text[: len(text) // 2],
    lambda text: "[1, 2]",
    lambda text: text[:60] + text,  # a write cut off and later continued by a whole row
    lambda text: text[:40] + "\0" * 8 + text[48:],
    lambda text: text.replace('"doc_id": ', '"id": '),
)


def test_what_of_a_file_cannot_be_used_is_named_and_the_rest_counts(tmp_path):
    lines = [json.dumps(sample_row(n, {"acc": n % 7 / 8})) for n in range(60)]
    lines[5] = ""
    broken = [10, 20, 30, 31, 32]
    for n, wreck in zip(broken, WRECKS):
        lines[n] = wreck(lines[n])
    lines[33] = lines[33].replace('"acc": ', '"acc": NaN, "b": ')
    lines[34] = lines[34].replace('"acc": ', '"acc": Infinity, "b": ')
    lines[40] = lines[40].replace('"acc": ', '"b": ')
    # Keys within a document or an answer are not the row's own.
    trap = {"filter": "x", "doc_hash": "y", "metrics": ["acc"], "acc": 0.0}
    text = 'quoted "filter": "none", "metrics": [], "doc_hash": "z", "acc": 0.0}'
    lines[41] = json.dumps(sample_row(41, {"acc": 6 / 8}, doc={"inner": trap}, answer=text))
    kept = [n for n in range(60) if n not in (5, *broken, 33, 34, 40)]
    for packed in (False, True):
        file = write_run(tmp_path / str(packed), "a", lines, compress=packed, results=False)
        table = ScoreTable.read(file, "acc")
        assert list(table.doc_ids) == kept
        assert table.raw[0].tolist() == [n % 7 / 8 for n in kept]
        notes = "\n".join(table.warnings)
        named = [n for n in broken if f"{file}, line {n + 1}: not readable" in notes]
        assert named == broken[:3]
        assert f"{file}: 2 more unreadable lines" in notes and "1 rows do not report acc" in notes
        assert f"{file}: 2 scores unusable, counted as missing (line 34: " in notes
    file = write_run(tmp_path / "cut", "a", rows_of(np.arange(500) % 2), compress=True)
    file.write_bytes(file.read_bytes()[:-200])
    cut = ScoreTable.read(file)
    assert 0 < cut.n_items < 500 and f"{file}, line" in cut.warnings[0]
    write_run(tmp_path, "b", [sample_row(0, {"acc": [1, 2]})], task="lists")
    with pytest.raises(MetricError, match=r"line 1: .*not as one number"):
        ScoreTable.read(tmp_path, task="lists")


@pytest.mark.parametrize("metric", [None, "acc"])
@pytest.mark.parametrize(
    ("field", "value"),
    [
        *itertools.product(("doc_hash", "metrics", "doc_id"), ([["x"]], {"x": 1}, True)),
        ("doc_hash", 5),
        ("metrics", 5),
        ("metrics", "acc"),
    ],
)
def test_a_field_of_another_kind_makes_one_row_unreadable(tmp_path, field, value, metric):
    """Such rows were written by hand, or by a tool of one's own."""
    rows = [sample_row(n, {"acc": n % 2}) for n in range(4)]
    rows[2] |= {field: value}
    file = write_run(tmp_path, "a", [json.dumps(row) for row in rows], results=False)
    table = ScoreTable.read(tmp_path, metric)
    assert (table.metric, table.doc_ids) == ("acc", (0, 1, 3))
    assert any(note.startswith(f"{file}, line 3: not readable") for note in table.warnings)


@pytest.mark.long
def test_files_are_read_alike_by_several_processes(tmp_path, monkeypatch):
    for model in "abc":
        write_run(tmp_path, model, rows_of(np.arange(50) % 2 == ord(model) % 2))
    alone = ScoreTable.read(tmp_path)
    monkeypatch.setattr("lm_eval_ccat.scores.readers.samples._WORTH_PROCESSES", 1)
    np.testing.assert_array_equal(ScoreTable.read(tmp_path).raw, alone.raw)


def test_pairs_of_texts_get_the_sentence_score_and_a_tokenizer_another(tmp_path):
    pairs = [("the cat sat on the mat", "a cat sat on a mat"), ("dogs bark", "dogs bark loudly")]
    rows = [sample_row(n, {"bleu": [r, p]}, answer=p) for n, (r, p) in enumerate(pairs)]
    # A task family that gives the pair in the other order: the answer tells.
    rows.append(sample_row(2, {"bleu": list(reversed(pairs[0]))}, answer=pairs[0][1]))
    write_run(tmp_path, "a", rows)
    for metric, how in (("bleu", {}), ("sentence_bleu", {}), ("bleu@char", {"tokenize": "char"})):
        table = ScoreTable.read(tmp_path, metric=metric)
        wanted = [sacrebleu.sentence_bleu(p, [r], **how).score for r, p in (*pairs, pairs[0])]
        assert table.raw[0].tolist() == pytest.approx(wanted, abs=1e-12)
        assert table.scale.high == 100 and table.metric == metric.removeprefix("sentence_")
    chinese = [sample_row(0, {"bleu": ["今天很好。", "今天好。"]}, target="今天很好。")]
    write_run(tmp_path, "a", chinese, task="zh")
    assert "use bleu@zh" in ScoreTable.read(tmp_path, task="zh").warnings[-1]


def test_a_scale_that_only_the_values_tell(tmp_path):
    write_run(tmp_path, "a", rows_of([0.2, 0.9], metric="my_score"))
    assert ScoreTable.read(tmp_path).scores.tolist() == [[0.2, 0.9]]
    write_run(tmp_path, "b", rows_of([3.0, 9.0], metric="my_score"))
    with pytest.raises(ScaleError, match="--range WORST,BEST"):
        ScoreTable.read(tmp_path)
    table = ScoreTable.read(tmp_path, range=(0, 10), lower_is_better=True)
    assert table.scores[1].tolist() == pytest.approx([0.7, 0.1])
    write_run(tmp_path, "c", rows_of([1.0, 7.0]), task="acc_task")
    with pytest.raises(ScaleError, match=r"doc_id 1: .*outside its scale"):
        ScoreTable.read(tmp_path, task="acc_task")
    rows = rows_of([0.2, 0.9], metric="my_error")
    write_run(tmp_path, "a", rows, task="e", higher_is_better={"e": {"my_error": False}})
    assert ScoreTable.read(tmp_path, task="e").scores.tolist() == [[0.8, pytest.approx(0.1)]]
    stated = ScoreTable.read(tmp_path, task="e", lower_is_better=False)
    assert stated.scores.tolist() == [[0.2, 0.9]]


def test_a_metric_without_an_upper_end_cannot_be_turned(tmp_path):
    """Without a range its best score would be infinite; with one, the user's word counts."""
    write_run(tmp_path, "a", rows_of([0.2, 0.9], metric="wer"))
    assert ScoreTable.read(tmp_path).scores.tolist() == [[0.8, pytest.approx(0.1)]]
    with pytest.raises(ScaleError, match=r"wer is unbounded above.*--range WORST,BEST"):
        ScoreTable.read(tmp_path, lower_is_better=False)
    stated = ScoreTable.read(tmp_path, range=(0, 1), lower_is_better=False)
    assert stated.scores.tolist() == [[0.2, 0.9]]


def test_a_metric_that_only_some_runs_report_is_theirs_whichever_run_comes_first(tmp_path):
    declared = {"demo": {"metadata": {"ccat_scales": {"novel": {"range": [0, 5]}}}}}
    write_run(tmp_path, "a", [sample_row(n, {"acc": n}) for n in (0, 1)])
    for model in "bc":
        rows = [sample_row(n, {"acc": n, "novel": 4 * n}) for n in (0, 1)]
        write_run(tmp_path, model, rows, configs=declared)
    table = ScoreTable.read(tmp_path, "novel")
    assert (table.models, table.scores.tolist()) == (("b", "c"), [[0.0, 0.8]] * 2)
    assert any("without a usable score are left out: a" in text for text in table.warnings)
    assert ScoreTable.read(tmp_path, "acc").models == ("a", "b", "c")
    with pytest.raises(UnknownScoresError, match=r"no scores of metric 'em'; it has acc, novel$"):
        ScoreTable.read(tmp_path, "em")


def test_a_metric_beside_the_only_listed_one_is_read_by_its_own_name(tmp_path):
    """Of `f1` the name tells the direction, `acc_error` has none, `acc_strict` takes acc's."""
    for task, metric in (("f", "f1"), ("e", "acc_error"), ("s", "acc_strict")):
        config = {"metric_list": [{"metric": "acc", "higher_is_better": False}]}
        rows = rows_of([0.2, 0.9], metric=metric)
        write_run(tmp_path, "a", rows, task=task, configs={task: config})
    by_name = ScoreTable.read(tmp_path, task="f")
    assert by_name.scores.tolist() == [[0.2, 0.9]] and not by_name.warnings
    unknown = "neither the scale nor the direction of 'acc_error' is known; state both: --range"
    with pytest.raises(ScaleError, match=unknown):
        ScoreTable.read(tmp_path, task="e")
    inheriting = ScoreTable.read(tmp_path, task="s")
    assert inheriting.scores.tolist() == [[0.8, pytest.approx(0.1)]]
    [warning] = inheriting.warnings
    assert "does not list acc_strict; as its one metric acc, a lower one" in warning
    assert not ScoreTable.read(tmp_path, task="s", range=(0, 1), lower_is_better=True).warnings


@pytest.mark.long
def test_logs_whose_results_state_no_metric_are_read_by_their_rows_or_refused(tmp_path, capsys):
    old, new = rows_of([0, 1] * 5), rows_of([1, 1] * 5)
    bare = [{key: value for key, value in row.items() if key != "metrics"} for row in new]
    write_run(tmp_path / "plain", "a", old)
    without = write_run(tmp_path / "without", "b", new, results=False)
    config = {"metadata": {"ccat_scorer": {"exact_match": "judgeA"}}}
    write_run(tmp_path / "text", "c", new, configs={"demo": config})
    lacking = write_run(tmp_path / "bare", "d", bare, results=False)
    for name, words in (("without", f"no results_<date>.json beside {without}"),
                        ("text", "'ccat_scorer', 'exact_match' is no JSON object"),
                        ("bare", f"no results_<date>.json beside {lacking}")):  # fmt: skip
        sides = [str(tmp_path / "plain"), str(tmp_path / name)]
        code = main(["compare", *sides])
        error = capsys.readouterr().err
        assert words in error
        assert (code == 2 and "states no metric" in error) if name == "bare" else code in (0, 3)
        assert main(["compare", *sides, "--metric", "exact_match"]) not in (1, 2)
        assert words in capsys.readouterr().err
    logged = READERS.get("lm_eval").outcomes(tmp_path / "without")
    assert [outcome.name for outcome in logged] == ["demo/exact_match"]


def test_what_is_no_log_and_one_file_alone(tmp_path):
    with pytest.raises(ScoreTableError, match="--log_samples"):
        ScoreTable.read(tmp_path)
    (tmp_path / "samples_x_2026-01-01T00-00-00.jsonl").write_text("nothing\n")
    with pytest.raises(CcatError, match="no readable rows"):
        ScoreTable.read(tmp_path)
    logs = tmp_path / "logs"
    assert ScoreTable.read(write_run(logs, "a", rows_of([1, 0]))).models == ("a",)
    write_run(logs, "b", rows_of([1, 1]))
    results = next((logs / "b").glob("results_*.json"))
    assert ScoreTable.read(results).models == ("b",)
    results.with_suffix(".json.gz").write_bytes(gzip.compress(results.read_bytes()))
    results.unlink()
    assert ScoreTable.read(logs / "b").settings["num_fewshot"] == 0


def test_a_task_is_named_by_its_results_where_a_file_name_lacks_characters(tmp_path):
    write_run(tmp_path, "a", rows_of([1, 0]), task="a_b", configs={"a b": {}}, versions={"a b": 2})
    for how in ({}, {"task": "a b"}, {"task": "a_b", "metric": "exact_match"}):
        assert ScoreTable.read(tmp_path, **how).task == how.get("task", "a b")
    assert ScoreTable.read(tmp_path).settings["task_version"] == 2


@pytest.mark.parametrize(
    ("folders", "changes", "models"),
    [
        # A system without weights has a new made-up name in every run, and is one model.
        (["a8ck3jf0", "zz0123ab"], {"model_source": "my-system",
                                    "config": {"model_args": {"quality": 3}}},
         ("my-system:quality=3",)),
        (["lead2016"], {"model_source": "x", "config": {"model_args": {"system": "lead2016"}}},
         ("lead2016",)),
        (["frequent"], {"model_source": "x", "config": {}}, ("frequent",)),
        (["first/None", "second/None"], {"model_name": None, "model_source": None, "config": {}},
         ("first", "second")),
    ],
)  # fmt: skip
def test_models_are_named_as_their_runs_name_them(tmp_path, folders, changes, models):
    for day, folder in enumerate(folders, start=1):
        write_run(tmp_path, folder, rows_of([1, 0]), day=day, **changes)
    assert ScoreTable.read(tmp_path).models == models


@pytest.mark.long
@pytest.mark.parametrize("packed", [False, True])
def test_a_line_that_never_ends_is_refused_before_it_fills_the_memory(
    tmp_path, packed, monkeypatch
):
    monkeypatch.setattr("lm_eval_ccat.scores.reading.MAX_LINE", 4 << 20)
    write_run(tmp_path, "a", rows_of([1, 0]))
    (samples,) = tmp_path.rglob("samples_*.jsonl")
    with gzip.open(f"{samples}.gz", "wb") if packed else samples.open("ab") as stream:
        stream.write(bytes(50 << 20))
    if packed:
        samples.unlink()
    tracemalloc.start()
    with pytest.raises(ScoreTableError, match=rf"{samples.name}.*a line of more than 4,194,304"):
        ScoreTable.read(tmp_path)
    assert tracemalloc.get_traced_memory()[1] < 12 << 20
    tracemalloc.stop()


@pytest.mark.long
def test_a_bank_of_several_folders_is_the_same_each_time_and_names_them(tmp_path, capsys):
    rng = np.random.default_rng(0)
    for place in ("one", "two"):
        for model in "abcde":
            write_run(tmp_path / place, f"{place}-{model}", rows_of(rng.random(30) < 0.5))
    write_run(tmp_path / "one", "cut", rows_of([1]), samples={"original": 30, "effective": 1})
    (tmp_path / "one" / "latest").symlink_to(tmp_path / "one" / "one-e")  # is no other run
    places, names = [str(tmp_path / place) for place in ("one", "two")], ("x", "y")
    for name in names:
        assert main(["calibrate", *places, "--method", "paper", "-o", str(tmp_path / name)]) == 0
    first, second = (ItemBank.load(tmp_path / name) for name in names)
    assert first.sha256 == second.sha256 and len(first.models) == 10
    sources = [str(Path(s).parents[1]) for s in first.provenance["sources"]]
    assert sources == [places[0]] * 5 + [places[1]] * 5
    assert any(w.startswith(f"{places[0]}/cut/") for w in first.warnings)


@pytest.mark.parametrize("is_relative", [True, False])
def test_the_source_of_a_linked_file_is_the_file_that_the_link_leads_to(tmp_path, is_relative):
    file = write_run(tmp_path / "kept", "a", rows_of([1, 0]), results=False)
    (tmp_path / "shown").mkdir()
    target = Path("..", file.relative_to(tmp_path)) if is_relative else file
    (tmp_path / "shown" / file.name).symlink_to(target)
    [source] = ScoreTable.read(tmp_path / "shown").sources
    assert Path(source).samefile(file)


# -- the fast way to read a row gives what parsing all of it gives, or refuses as it does --------

KEYS = ["filter", "doc_id", "doc_hash", "metrics", "filtered_resps", '"filter": ', '{"doc_id": ']
TEXTS = st.sampled_from(KEYS) | st.text(max_size=20)
VALUES = st.recursive(
    st.none() | st.integers() | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=8,
)
NUMBERS = st.integers() | st.floats() | st.sampled_from([-0.0, 10**30, 5e-324])


def agrees(line):
    """Whether a row was read by its end; if so, as a parse of all of it reads it."""
    tail = tail_of(line, "acc")
    if tail is not None:
        row = json.loads(line)
        assert {k: repr(v) for k, v in tail.items()} == {k: repr(row[k]) for k in tail}
        assert "filter" in tail or "filter" not in row
    return tail is not None


@pytest.mark.long
@settings(max_examples=60)
@given(VALUES, TEXTS, NUMBERS, st.dictionaries(TEXTS, VALUES, max_size=2), st.booleans(), st.data())
def test_a_row_read_by_its_end_is_the_row_and_no_torn_one_is(doc, answer, acc, more, first, data):
    scores = {"acc": acc, **more} if first else {**more, "acc": acc}
    row = sample_row(3, scores, doc={"x": doc}, answer=answer)
    agrees(json.dumps(row).encode())
    del row["filter"]
    agrees(json.dumps(row).encode())
    one, other = (
        json.dumps(sample_row(n, {"acc": 1.0}, doc={"x": doc}, answer=answer)).encode()
        for n in (3, 4)
    )
    end = data.draw(st.integers(1, len(one) - 1))
    for torn in (one[:end], one[:end] + other, one + other):
        assert not agrees(torn)


def test_the_rows_that_the_harness_writes_are_read_by_their_end():
    for scores in ({"acc": 1.0}, {"acc": 0, "acc_norm": 0.25}, {"b": -1e-3, "acc": 1}):
        row = sample_row(12, scores, doc={"text": 'a "quoted" «text»\n' * 9, "list": [{"id": 1}]})
        assert agrees(json.dumps(row, ensure_ascii=False).encode() + b"\n")
        del row["filter"]
        assert agrees(json.dumps(row).encode())


def write_old_run(folder: Path, model: str, scores, *, started=None, **config) -> Path:
    """Write one run as lm_eval 0.4.2 did; its folder."""
    folder.mkdir(parents=True)
    rows = [sample_row(n, {"acc": s}) for n, s in enumerate(scores)]
    later = ("filter", "metrics", "doc_hash", "prompt_hash", "target_hash")
    rows = [{key: value for key, value in row.items() if key not in later} for row in rows]
    arguments = f"pretrained={model},dtype=float"
    name = re.sub("[/=]", "__", arguments)
    (folder / f"{name}_arc_easy.jsonl").write_text(json.dumps(rows, indent=2))
    results = {
        "results": {"arc_easy": {"acc,none": sum(scores) / len(scores), "alias": "arc_easy"}},
        "configs": {"arc_easy": {"task": "arc_easy", "num_fewshot": 3}},
        "versions": {"arc_easy": 1.0},
        "n-shot": {"arc_easy": 3},
        "config": {"model": "hf", "model_args": arguments, "limit": None, **config},
        "git_hash": "0" * 7,
    }
    if started is not None:
        results["date"] = started
    (folder / "results.json").write_text(json.dumps(results, indent=2))
    return folder


def test_runs_of_the_harness_before_it_dated_them_are_read(tmp_path):
    write_old_run(tmp_path / "0.4.0", "org/a", [1.0, 0.0, 1.0])
    write_old_run(tmp_path / "first", "b", [0.0, 0.0, 0.0], started=1.7e9)
    folder = write_old_run(tmp_path / "second", "b", [1.0, 1.0, 0.0], started=1.71e9)
    table = ScoreTable.read(tmp_path)
    assert (table.task, table.metric, table.filter) == ("arc_easy", "acc", "none")
    assert dict(zip(table.row_model, table.raw.tolist())) == {"org/a": [1, 0, 1], "b": [1, 1, 0]}
    assert table.settings["num_fewshot"] == 3
    [warning] = table.warnings
    assert warning.startswith("1 earlier run left out where a later run of the same model")
    for alone in (folder / "results.json", next(folder.glob("*.jsonl"))):
        assert ScoreTable.read(alone).models == ("b",)
    later = json.loads((folder / "results.json").read_text())
    later["date"], later["n-shot"]["arc_easy"] = 1.72e9, 5
    (folder / "again.json").write_text(json.dumps(later))  # its samples replaced the earlier ones
    assert ScoreTable.read(folder).settings["num_fewshot"] == 5
    limited = write_old_run(tmp_path / "limited", "c", [1.0], limit=1)
    assert "run with --limit" in ScoreTable.read(limited).warnings[0]


def test_a_short_run_that_contradicts_the_full_one_before_it_is_told(tmp_path):
    """The documents beyond its limit come from a run of other scores."""
    write_run(tmp_path, "m", rows_of([1, 1, 1, 0]))
    counts = {"original": 4, "effective": 2}
    write_run(tmp_path, "m", rows_of([0, 1]), day=2, limit=2, samples=counts)
    [told] = [text for text in ScoreTable.read(tmp_path).warnings if "contradict" in text]
    assert "1 of its 2 scores contradict an earlier run" in told and "(doc_id 0)" in told
    assert "2 further scores are taken" in told
    # A full run after both leaves nothing to be joined, and one that agrees contradicts nothing.
    write_run(tmp_path, "m", rows_of([0, 1, 1, 1]), day=3)
    write_run(tmp_path, "m", rows_of([0, 1]), day=4, limit=2, samples=counts)
    told = ScoreTable.read(tmp_path).warnings
    assert [text for text in told if "day" in text or "contradict" in text] == [
        text for text in told if "2026-01-02" in text and "contradict" in text
    ]


def test_of_the_answers_to_a_document_the_latest_counts_and_its_first_target(tmp_path):
    for day, answer in (2, "late"), (1, "early"):
        rows = rows_of([0, 0], answer=answer, target=["first", "second"])
        write_run(tmp_path, "m", rows, day=day)
    answers = read_answers(tmp_path).answers
    assert [(a.doc_id, a.text, a.target) for a in answers] == [
        (0, "late", "first"), (1, "late", "first"),
    ]  # fmt: skip


def test_answers_of_a_log_are_those_that_the_model_gave(tmp_path):
    """The harness writes a likelihood as two texts, and all repeats of a request as one list."""
    likely, drawn = rows_of([1, 0])
    likely["resps"] = [[["-1.5", "False"]], [["-0.25", "True"]]]
    drawn["resps"] = [["a", "b", "c"]]
    write_run(tmp_path, "m", [likely, drawn])
    first, second = earlier_answers(tmp_path, "demo")
    assert first.by_repeat() == [first] and first.responses == [[[-1.5, False]], [[-0.25, True]]]
    assert [(a.doc_id, a.repeat, a.responses) for a in second.by_repeat()] == [
        (1, 1, [["a"]]), (1, 2, [["b"]]), (1, 3, [["c"]]),
    ]  # fmt: skip


@pytest.mark.parametrize("responses", [["four"], [5], [[["x", "True"]]], [["a"], None]])
def test_a_row_whose_responses_are_of_another_form_has_no_answer_to_take_over(tmp_path, responses):
    """A text in place of a list is not an answer for each of its letters."""
    sound, odd = rows_of([1, 0])
    odd["resps"] = responses
    write_run(tmp_path, "m", [sound, odd])
    told = []
    assert [a.doc_id for a in earlier_answers(tmp_path, "demo", told.append)] == [0]
    assert "1 damaged lines; their answers are asked again" in told[0]


def test_logs_that_state_both_directions_of_a_metric_are_refused(tmp_path):
    for day, (model, higher) in enumerate([("a", True), ("b", True), ("c", False)], 1):
        stated = {"higher_is_better": {"demo": {"oddity": higher}}}
        write_run(tmp_path, model, rows_of([1, 0], "oddity"), day=day, **stated)
    with pytest.raises(ScoreTableError, match=r"b/samples.* and .*c/samples.* both that a higher"):
        ScoreTable.read(tmp_path, range=(0, 1))
    (tmp_path / "c" / "results_2026-01-03T10-00-00.000001.json").unlink()
    assert ScoreTable.read(tmp_path, range=(0, 1)).scale.higher_is_better


def test_the_share_above_a_cap_is_of_the_scores_that_there_are():
    raw = np.array([[150.0, 200.0], [50.0, np.nan], [np.nan, np.nan]])
    with pytest.raises(ScaleError, match=r"from 50 to 200, and 66.7% of them lie above 100"):
        share_above_cap(raw, 100, "perplexity", "logs")
    assert share_above_cap(raw, 150, "perplexity", "logs") == 1 / 3


def test_one_model_is_one_configuration_and_its_name_says_what_differs(tmp_path):
    """The harness files all of them under the model's path."""
    same = {"pretrained": "org/m", "dtype": "auto"}
    for day, (arguments, score) in enumerate([
        (same, 0), ({**same, "revision": "step2000"}, 1), ({**same, "revision": "main"}, 0.1),
        ("pretrained=org/m,load_in_4bit=True", 0.2), ("pretrained=org/m,dtype=float16", 0.3),
        ({**same, "peft": "lora/a", "max_length": 2048}, 0.4), (same, 0.5),
        ({**same, "add_bos_token": True}, 0.7),
    ], 1):  # fmt: skip
        about = {"model_name": "org/m", "config": {"model_args": arguments, "limit": None}}
        write_run(tmp_path, "m", rows_of([score, score]), day=day, **about)
    write_run(tmp_path, "m", rows_of([0.6, 0.6]), task="another", day=9, model_name="org/m",
              config={"model_args": {**same, "revision": "step2000"}, "limit": None})  # fmt: skip
    table = ScoreTable.read(tmp_path, task="demo")
    assert dict(zip(table.models, table.raw[:, 0])) == {
        "org/m": 0.5, "org/m@step2000": 1, "org/m+4bit": 0.2, "org/m+float16": 0.3,
        "org/m+a+max_length=2048": 0.4, "org/m+add_bos_token=True": 0.7,
    }  # fmt: skip
    assert set(table.row_config) == {""}  # generation alone makes configs
    [earlier] = [text for text in table.warnings if "earlier" in text]
    assert earlier == (
        "2 earlier runs left out where a later run of the same model and settings has the "
        "document: org/m (2)"
    )
    for day, base in enumerate(("org/m", "org/large"), 30):  # one adapter on two models
        about = {
            "model_name": "lora/a",
            "config": {"model_args": {"pretrained": base, "peft": "lora/a"}},
        }
        write_run(tmp_path / "adapter", "a", rows_of([0, 0]), day=day, **about)
    assert set(ScoreTable.read(tmp_path / "adapter").models) == {"lora/a+large", "lora/a+m"}
    for day, step in enumerate(("a/step1", "b/step1"), 20):  # the ends of two paths are alike
        about = {"model_name": "org/n", "config": {"model_args": {**same, "revision": step}}}
        write_run(tmp_path / "n", "n", rows_of([0, 0]), day=day, **about)
    assert set(ScoreTable.read(tmp_path / "n").models) == {"org/n@a/step1", "org/n@b/step1"}
    # In every task a configuration has the same name, and alone none is needed.
    assert ScoreTable.read(tmp_path, task="another").models == ("org/m@step2000",)
    [alone] = tmp_path.glob("m/results_2026-01-02*")
    assert ScoreTable.read(alone, task="demo").models == ("org/m",)


def test_numbers_of_documents_written_as_texts_are_the_same_documents(tmp_path):
    rows = rows_of([1, 0])
    write_run(tmp_path, "a", rows)
    write_run(tmp_path, "b", [{**row, "doc_id": str(row["doc_id"])} for row in rows])
    assert ScoreTable.read(tmp_path).raw.tolist() == [[1, 0], [1, 0]]


def test_a_metric_that_is_a_list_is_refused_by_its_name_and_others_are_read(tmp_path):
    rows = [sample_row(n, {"acc": s, "parts": [s, 0.5]}) for n, s in enumerate((1.0, 0.0))]
    write_run(tmp_path, "a", rows)
    assert ScoreTable.read(tmp_path, metric="acc").raw.tolist() == [[1, 0]]
    with pytest.raises(UnknownMetricError, match=r"metric parts .* or take another metric: acc$"):
        ScoreTable.read(tmp_path, metric="parts")


@pytest.mark.long
def test_a_list_ends_calibrate_and_the_board_with_one_code(tmp_path, ccat):
    """Beside others that are numbers it costs the suite of banks only its own."""
    rng = np.random.default_rng(0)
    for model in "abcdef":
        rows = [sample_row(n, {"acc": float(rng.integers(2)), "parts": [1.0]}) for n in range(12)]
        write_run(tmp_path / "logs", model, rows)
    write_run(tmp_path / "lists", "g", [sample_row(n, {"acc": [1.0, 0.0]}) for n in range(12)])
    bank = tmp_path / "a.bank.json"
    ccat("calibrate", tmp_path / "logs", "--metric", "acc", "-o", bank)
    ccat("board", "init", tmp_path / "board", "--from", bank)
    for words in (
        ("calibrate", tmp_path / "lists", "-o", tmp_path / "x"),
        ("calibrate", tmp_path / "logs", "--metric", "parts", "-o", tmp_path / "x"),
        ("board", "add", tmp_path / "board", tmp_path / "lists"),
        ("bank", "check", bank, "--scores", tmp_path / "lists"),
    ):
        assert "not as one number per document" in ccat(*words, code=2).err
    said = ccat("calibrate", tmp_path / "logs", "--metric", "*", "-o", tmp_path / "s", code=3)
    assert "demo parts: no bank: " in said.err and "demo acc: " in said.out


def test_what_an_item_takes_is_the_mean_of_prompts_and_answers(tmp_path):
    """Four characters of plain text are a token."""
    for model, length in (("a", 40), ("b", 80)):
        rows = rows_of([1, 0], answer="x" * length)
        for row, prompt in zip(rows, ("p" * 100, "p" * 300)):
            row["arguments"]["gen_args_0"]["arg_0"] = prompt
        write_run(tmp_path / "generated", model, rows)
    table = ScoreTable.read(tmp_path / "generated")
    assert table.tokens == {"input": 50, "output": 15}
    # A likelihood is no text; every choice is a request.
    choices = {f"gen_args_{n}": {"arg_0": "q" * 36, "arg_1": "c" * 4} for n in range(3)}
    rows = [row | {"arguments": choices, "resps": [["-1.25", "False"]] * 3} for row in rows]
    write_run(tmp_path / "chosen", "a", rows)
    assert ScoreTable.read(tmp_path / "chosen").tokens == {"input": 30, "output": 0}


@pytest.mark.long
def test_a_bank_made_from_logs_plans_without_its_task(few_plays, tmp_path, capsys):
    for number in range(6):
        scores = np.random.default_rng(number).random(30) < 0.2 + 0.1 * number
        write_run(tmp_path / "logs", f"m{number}", rows_of(scores, answer="x" * 80))
    bank = tmp_path / "bank.json"
    assert main(["calibrate", str(tmp_path / "logs"), "-o", str(bank)]) == 0
    assert ItemBank.load(bank).tokens == (3.0, 20.0)  # the prompt has eleven characters
    capsys.readouterr()
    assert main(["plan", "--bank", str(bank), "--json"]) == 0
    needed = json.loads(capsys.readouterr().out)["by_gap"]
    full = next(iter(needed.values()))["full"]
    assert (full["input_tokens"], full["output_tokens"]) == (2 * 30 * 3, 2 * 30 * 20)


def test_logs_of_a_metric_without_an_upper_end_are_cut_where_what_they_are_beside_is(tmp_path):
    # Pairs of reference and answer, and edits per 100 words.
    edits = {
        ("a b", "a b"): 0.0,
        ("a b", "a c"): 50.0,
        ("x", "a b c"): 300.0,
        ("y", "a b c"): 300.0,
    }
    for model in "ab":
        rows = [sample_row(n, {"ter": list(pair)}) for n, pair in enumerate(edits)]
        write_run(tmp_path, model, rows)
    for cap in (310.0, 400.0):  # above the metric's own, beyond which most of the scores lie
        table = read_beside(tmp_path, Logged("demo", "ter", "none"), "the bank", Scale(cap=cap))
        assert table.scale == Scale(cap=cap)
        expected = 1.0 - np.minimum([*edits.values()], cap) / cap
        assert table.model_scores() == pytest.approx(np.tile(expected, (2, 1)))

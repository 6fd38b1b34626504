"""Score tables: what is read, how its scale is found, and what is refused."""

from __future__ import annotations

import csv

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lm_eval_ccat import ScoreTable
from lm_eval_ccat.errors import CcatError, ScaleError, ScoreTableError
from lm_eval_ccat.metrics.scale import Scale
from lm_eval_ccat.scores.table import reader_of

HEADER = "model,doc_id,metric,score"


def write(path, rows, header=HEADER):
    with open(path, "w", newline="") as f:
        f.write(header + "\n")
        csv.writer(f).writerows(rows)
    return path


SCALES = [Scale(), Scale(0, 100), Scale(-1, 1), Scale(0, 25, False), Scale(cap=0.5), Scale(cap=3)]


@given(
    seed=st.integers(0, 2**32 - 1),
    shape=st.tuples(st.integers(1, 5), st.integers(1, 9)),
    way=st.sampled_from([".csv", ".parquet", "pandas", "arrow", "one by one"]),
    text_ids=st.booleans(),
    hashed=st.booleans(),
    scale=st.sampled_from(SCALES),
    metric=st.sampled_from(["mine", "ter"]),
)
def test_a_table_reads_back_the_same_by_every_way(
    tmp_path_factory, seed, shape, way, text_ids, hashed, scale, metric
):
    rng = np.random.default_rng(seed)
    # A capped metric has scores beyond its cap.
    raw = rng.uniform(scale.low, scale.high * (1 if scale.cap is None else 3), shape)
    raw[rng.random(shape) < 0.2] = np.nan
    raw[:, 0], raw[0] = scale.low, scale.high
    ids = rng.choice(10_000, shape[1], replace=False)
    table = ScoreTable.from_arrays(
        raw,
        [f"m{i // 2}" for i in range(shape[0])],
        [f"d{i}" for i in ids] if text_ids else ids.tolist(),
        configs=[f"c{i % 2}" for i in range(shape[0])],
        scale=scale,
        metric=metric,
        task="t",
        doc_hashes=[f"h{i}" for i in ids] if hashed else None,
    )
    path = tmp_path_factory.mktemp("t") / f"t{way if way[0] == '.' else '.parquet'}"
    table.write(path)
    if way in ("pandas", "arrow"):
        frame = pd.read_parquet(path) if way == "pandas" else pa.parquet.read_table(path)
        again = ScoreTable.from_dataframe(frame)
    else:
        with pytest.MonkeyPatch.context() as patch:
            if way == "one by one":  # batches of a row
                patch.setattr("lm_eval_ccat.scores.readers.long_form._BATCH", 1)
            again = ScoreTable.read(path)
    assert again.doc_ids == table.doc_ids and again.scale == table.scale
    assert (again.row_model, again.row_config) == (table.row_model, table.row_config)
    assert (again.doc_hashes, again.task, again.metric) == (table.doc_hashes, "t", metric)
    np.testing.assert_array_equal(again.raw, table.raw)


@given(st.lists(st.tuples(*map(st.sampled_from, ("ab", "tu", ("f1", "em"), range(3)))),
                min_size=1, unique=True), st.integers(1, 9))  # fmt: skip
def test_several_outcomes_in_one_pass_are_those_read_one_by_one(tmp_path_factory, rows, batch):
    """Any mix of models, tasks, metrics and documents, in batches of any size."""
    scored = [(*row, n / 100) for n, row in enumerate(rows)]
    path = write(tmp_path_factory.mktemp("t") / "t.csv", scored, "model,task,metric,doc_id,score")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("lm_eval_ccat.scores.readers.long_form._BATCH", batch)
        outcomes = reader_of(path).outcomes(path)
        tables = list(ScoreTable.read_many(path, outcomes))
        alone = [ScoreTable.read(path, o.metric, o.task) for o in outcomes]
    assert {(o.task, o.metric) for o in outcomes} == {row[1:3] for row in rows}
    cells = {}
    for one, other in zip(tables, alone):
        np.testing.assert_array_equal(one.raw, other.raw)
        assert (one.models, one.doc_ids) == (other.models, other.doc_ids)
        for j, i in np.argwhere(~np.isnan(one.raw)).tolist():
            cells[one.models[j], one.task, one.metric, one.doc_ids[i]] = one.raw[j, i]
    assert cells == {row[:4]: row[4] for row in scored}


def test_a_folder_holds_a_table_of_each_task(tmp_path):
    write(tmp_path / "gsm.csv", [("a", 0, "acc", 1)])
    write(tmp_path / "mmlu.csv", [("a", 0, "acc", 0), ("b", 1, "acc", 1)])
    assert ScoreTable.read(tmp_path, task="gsm").raw.tolist() == [[1.0]]
    with pytest.raises(ScoreTableError, match=r"2 tasks \(gsm, mmlu\)"):
        ScoreTable.read(tmp_path)


def test_ids_and_scores_alone_are_of_the_model_that_the_file_names(tmp_path):
    for name, lines in (
        ("lines.jsonl", ['{"id": "q0", "score": 0.5}', '{"id": "q1", "score": 1}']),
        ("by_doc.jsonl", ['{"doc_id": "q0", "score": 0.5}', '{"doc_id": "q1", "score": 1}']),
        ("columns.csv", ["id,score", "q0,0.5", "q1,1"]),
    ):
        (tmp_path / name).write_text("\n".join(lines) + "\n")
        table = ScoreTable.read(tmp_path / name, metric="f1")
        assert table.models == (name.partition(".")[0],) and table.metric == "f1"
        assert table.raw.tolist() == [[0.5, 1.0]] and table.doc_ids == ("q0", "q1")


@given(st.integers(0, 2**32 - 1), st.integers(1, 3), st.integers(1, 40))
def test_parts_and_overview_are_those_of_the_whole_table(seed, configs, cells):
    rng = np.random.default_rng(seed)
    raw = 100 * rng.random((4 * configs, 6))
    raw[rng.random(raw.shape) < 0.3] = np.nan
    names = [f"m{j // configs}" for j in range(len(raw))]
    scale = Scale(0, 100, higher_is_better=False)
    t = ScoreTable.from_arrays(raw, names, configs=[str(j) for j in range(len(raw))], scale=scale)
    whole = t.model_scores()
    unit = 1 - raw.reshape(4, configs, 6) / 100
    mean = np.nansum(unit, axis=1) / np.maximum(np.isfinite(unit).sum(axis=1), 1)
    np.testing.assert_allclose(whole, np.where(np.isfinite(unit).any(axis=1), mean, np.nan))
    for on_unit in (True, False):
        some = t.model_scores(on_unit, models=np.array([3, 1]), items=np.array([5, 0, 2]))
        np.testing.assert_array_equal(some, t.model_scores(on_unit)[[3, 1]][:, [5, 0, 2]])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("lm_eval_ccat.scores.table._PART", cells)
        np.testing.assert_array_equal(np.concatenate([y for _, y in t.parts()]), whole)
        o = t.overview
    frame = pd.DataFrame(whole)
    for name, expected in (
        ("item_count", frame.count()), ("model_count", frame.count(axis=1)),
        ("item_sum", frame.sum()), ("model_mean", frame.mean(axis=1)),
        ("item_low", frame.min()), ("item_high", frame.max()),
    ):  # fmt: skip
        np.testing.assert_allclose(getattr(o, name), expected, atol=1e-12)
    assert o.whole == frame.notna().all().all()


def test_a_table_is_not_changed_through_what_it_was_made_of_or_gave():
    raw = np.array([[0.25, 0.5], [0.75, 1.0]])
    t = ScoreTable.from_arrays(raw, ["a", "b"])
    raw[:] = 0.0
    for part in (t.model_scores(), t.model_scores(False), next(t.parts())[1]):
        part[:] = 0.0
    assert t.raw.tolist() == t.scores.tolist() == [[0.25, 0.5], [0.75, 1.0]]
    assert ScoreTable.from_arrays(raw, ["a", "b"], copy=False).raw is raw


ONE = ("a", 0, "f1", 0.1)


def test_what_cannot_be_meant_is_refused(tmp_path):
    for rows, more, says in (
        ([ONE, ("a", 0, "f1", 0.2)], "", "2 scores of model 'a'.*doc_id 0"),
        ([ONE, ("a", 1, "f1", 0.2), ONE], "", "2 scores of model 'a'"),
        ([("a", 0, "f1", "high")], "", "score.*not numeric|not a readable"),
        ([("a", 0, "f1", "inf")], "", "infinite"),
        ([("a", 0.5, "f1", 0.1)], "", "doc_id must be an integer or a string"),
        ([("a", "", "f1", 0.1), ONE], "", "1 rows have no doc_id"),
        ([("a", 0, "f1", "")], "", "missing"),
        ([("", 0, "f1", 0.5), ("a", 1, "f1", 0.5)], "", "1 rows name no model"),
        ([], "", "no scores"),
        ([ONE, ("a", 0, "em", 1)], "", r"2 metrics \(em, f1\); name one"),
        ([(*ONE, 0)], ",scale_min", "both scale_min and scale_max"),
        ([(*ONE, 0, 1), ("b", 0, "f1", 0.5, 0, 2)], ",scale_min,scale_max", "must be constant"),
        ([(*ONE, "maybe")], ",higher_is_better", "true or false, not 'maybe'"),
    ):
        with pytest.raises(CcatError, match=says) as e:
            ScoreTable.read(write(tmp_path / "bad.csv", rows, HEADER + more))
        assert "bad.csv" in str(e.value)


def test_files_that_are_not_there_or_no_tables(tmp_path):
    (tmp_path / "x.parquet").write_bytes(b"PAR1 not really")
    for name, says in (("none.csv", "no such file"), ("x.parquet", r"x\.parquet: not a readable")):
        with pytest.raises(ScoreTableError, match=says):
            ScoreTable.read(tmp_path / name)
    with pytest.raises(ScoreTableError, match=r"rouge.*it has f1"):
        ScoreTable.read(write(tmp_path / "t.csv", [ONE]), metric="rouge")


def test_the_scale_is_found(tmp_path):
    for metric, values, how, scale in (
        # What the user gives, then the unit interval, then the metric table.
        ("mine", [0, 25, 5], {"range": (0, 25), "lower_is_better": True}, Scale(0, 25, False)),
        ("mine", [0, 300], {"scale": Scale(cap=50)}, Scale(cap=50)),
        ("mine", [0.1, 1.0000000000000002], {}, Scale()),  # rounding is no mistake
        ("bleu", [12.5, 100.00000000000004], {}, Scale(0, 100)),
        ("judge_score", [1, 4, 10], {}, Scale(1, 10)),
        ("comet", [0.4, 0.9], {}, Scale()),
        ("ter", [0, 0.25, 3], {}, Scale(cap=1)),
        ("ter", [0, 25, 300], {"range": (0, 100)}, Scale(cap=100)),
    ):
        rows = [("a", i, metric, v) for i, v in enumerate(values)]
        table = ScoreTable.read(write(tmp_path / "t.csv", rows), **how)
        assert table.scale == scale and ((table.scores >= 0) & (table.scores <= 1)).all()
        of_table = not how and max(values) > 1.1 and scale.cap is None
        assert any("metric table" in w for w in table.warnings) == of_table
        capped = scale.cap is not None and "scale" not in how
        assert any("capped at" in w for w in table.warnings) == capped


def test_a_scale_that_is_not_known_or_left_is_refused(tmp_path):
    for metric, values, how, says in (
        ("mine", [0, 25], {}, r"0 to 25.*--range"),
        ("mine", [0, 26], {"range": (0, 25)}, "26"),
        ("mine", [0, 1], {"range": (1, 0)}, "from a low to a higher end"),
        ("ter", [0, 25, 300], {}, "--range"),
        ("judge_score", [0, 11], {}, r"judge_score.*--range WORST,BEST"),
    ):
        rows = [("a", i, metric, v) for i, v in enumerate(values)]
        with pytest.raises(ScaleError, match=says):
            ScoreTable.read(write(tmp_path / "t.csv", rows), **how)


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: ScoreTable.of([["x", "y"]]), "scores must be numbers"),
        (lambda: ScoreTable.of("scores.csv"), r"ScoreTable\.read\(path\)"),
        (lambda: ScoreTable.of(np.zeros((2, 2, 2))), "a row per model and a column per item"),
        (lambda: ScoreTable.of([[0.5, 25.0]]), "their scale is not known; state it"),
        (lambda: ScoreTable.of([[np.nan, np.nan]]), "every score"),
        (lambda: ScoreTable.of([[0.5, np.inf]]), "infinite"),
        (lambda: ScoreTable.from_arrays([[0.5]], ["a", "b"]), "rows are models"),
        (lambda: ScoreTable.from_arrays([[0.5], [1]], ["a", "a"]), "name their configs apart"),
        (lambda: ScoreTable.from_arrays([[0.5, 1]], ["a"], [0, 0]), "appears twice"),
        (lambda: ScoreTable.from_arrays([[0.5, 1]], ["a"], [0, "x"]), "all integers or all"),
        (lambda: ScoreTable.from_dataframe({"model": 1}), "not a data frame of scores"),
        (lambda: ScoreTable.from_dataframe(pd.DataFrame({"doc_id": [1]})), "no column 'score'"),
        (lambda: ScoreTable.of(np.eye(2)).select(["x"]), "no scores of model 'x'"),
        (lambda: ScoreTable.of(np.eye(2)).write("x.txt"), r"a \.parquet or a \.csv"),
    ],
)
def test_mistakes_in_python_are_one_error_with_a_remedy(make, says):
    with pytest.raises(CcatError, match=says):
        make()

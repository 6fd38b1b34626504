"""Score tables: what is read, how its scale is found, and what is refused."""

from __future__ import annotations

import csv

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lm_eval_ccat import ScoreTable
from lm_eval_ccat.errors import CcatError, ScaleError, ScoreTableError
from lm_eval_ccat.metrics.scale import Scale


def write(path, rows, header="model,doc_id,metric,score"):
    with open(path, "w", newline="") as f:
        f.write(header + "\n")
        csv.writer(f).writerows(rows)
    return path


def test_reads_a_csv(tmp_path):
    path = write(
        tmp_path / "t.csv",
        [("b", 2, "f1", 0.5), ("a", 10, "f1", 0.25), ("a", 2, "f1", 1.0), ("a", 2, "em", 0)],
    )
    t = ScoreTable.read(path, metric="f1")
    assert t.models == ("b", "a") and t.doc_ids == (2, 10)
    np.testing.assert_array_equal(t.raw, [[0.5, np.nan], [1.0, 0.25]])
    with pytest.raises(ScoreTableError, match="em, f1"):
        ScoreTable.read(path)
    with pytest.raises(ScoreTableError, match=r"'rouge'.*em, f1"):
        ScoreTable.read(path, metric="rouge")


def test_string_ids_stay_strings(tmp_path):
    t = ScoreTable.read(write(tmp_path / "t.csv", [("a", "d10", "f1", 0), ("a", "d9", "f1", 1)]))
    assert t.doc_ids == ("d10", "d9")


def test_configs_of_a_model_are_observations_of_it(tmp_path):
    path = write(
        tmp_path / "t.csv",
        [("a", 0, "f1", 0.2, "t0"), ("a", 0, "f1", 0.6, "t1"), ("b", 0, "f1", 0.1, "t0")],
        "model,doc_id,metric,score,config",
    )
    t = ScoreTable.read(path)
    assert t.raw.shape == (3, 1) and t.models == ("a", "b")
    np.testing.assert_allclose(t.model_scores(), [[0.4], [0.1]])


@settings(max_examples=25)
@given(st.integers(0, 2**32 - 1), st.integers(1, 3), st.integers(1, 40))
def test_parts_and_overview_are_those_of_the_whole_table(seed, configs, cells):
    rng = np.random.default_rng(seed)
    raw = 100 * rng.random((4 * configs, 6))
    raw[rng.random(raw.shape) < 0.3] = np.nan
    names = [f"m{j // configs}" for j in range(len(raw))]
    scale = Scale(0, 100, higher_is_better=False)
    t = ScoreTable.from_arrays(raw, names, configs=[str(j) for j in range(len(raw))], scale=scale)
    whole = t.model_scores()
    for unit in (True, False):
        some = t.model_scores(unit, models=np.array([3, 1]), items=np.array([5, 0, 2]))
        np.testing.assert_array_equal(some, t.model_scores(unit)[[3, 1]][:, [5, 0, 2]])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("lm_eval_ccat.scores.table._PART", cells)
        parts = list(t.parts())
        o = t.overview
    assert [i for at, _ in parts for i in range(4)[at]] == [0, 1, 2, 3]
    np.testing.assert_array_equal(np.concatenate([y for _, y in parts]), whole)
    seen, y = np.isfinite(whole), np.nan_to_num(whole)
    np.testing.assert_array_equal(o.item_count, seen.sum(axis=0))
    np.testing.assert_array_equal(o.model_count, seen.sum(axis=1))
    np.testing.assert_allclose(o.item_sum, y.sum(axis=0), atol=1e-12)
    has = seen.any(axis=1)
    assert (np.isfinite(o.model_mean) == has).all()
    np.testing.assert_allclose(o.model_mean[has], (y.sum(axis=1) / seen.sum(axis=1).clip(1))[has])
    np.testing.assert_array_equal(o.item_low, np.fmin.reduce(whole, axis=0))
    np.testing.assert_array_equal(o.item_high, np.fmax.reduce(whole, axis=0))
    assert o.whole == seen.all()


def test_a_table_is_not_changed_through_what_it_was_made_of_or_gave():
    raw = np.array([[0.25, 0.5], [0.75, 1.0]])
    t = ScoreTable.from_arrays(raw, ["a", "b"])
    raw[:] = 0.0
    for given_out in (t.model_scores(), t.model_scores(False), next(t.parts())[1]):
        given_out[:] = 0.0
    assert t.raw.tolist() == t.scores.tolist() == [[0.25, 0.5], [0.75, 1.0]]
    assert ScoreTable.from_arrays(raw, ["a", "b"], copy=False).raw is raw


@pytest.mark.parametrize(
    ("rows", "says"),
    [
        ([("a", 0, "f1", 0.1), ("a", 0, "f1", 0.2)], "2 scores of model 'a'.*doc_id 0"),
        ([("a", 0, "f1", "high")], "score.*not numeric|not a readable"),
        ([("a", 0, "f1", "inf")], "infinite"),
        ([("a", 0.5, "f1", 0.1)], "doc_id"),
        ([("a", 0, "f1", "")], "missing"),
        ([("", 0, "f1", 0.5), ("a", 1, "f1", 0.5)], "name no model"),
        ([], "no scores"),
    ],
)
def test_what_cannot_be_meant_is_refused(tmp_path, rows, says):
    with pytest.raises(CcatError, match=says) as e:
        ScoreTable.read(write(tmp_path / "bad.csv", rows))
    assert "bad.csv" in str(e.value)


def test_missing_file_and_missing_column(tmp_path):
    with pytest.raises(ScoreTableError, match="no such file"):
        ScoreTable.read(tmp_path / "none.csv")
    with pytest.raises(ScoreTableError, match="'score'"):
        ScoreTable.read(write(tmp_path / "t.csv", [("a", 1)], "model,doc_id"))
    (tmp_path / "x.parquet").write_bytes(b"PAR1 not really")
    with pytest.raises(ScoreTableError, match=r"x\.parquet"):
        ScoreTable.read(tmp_path / "x.parquet")


class TestScale:
    def rows(self, values):
        return [("a", i, "mine", v) for i, v in enumerate(values)]

    def test_given_first(self, tmp_path):
        path = write(tmp_path / "t.csv", self.rows([0, 25, 5]))
        t = ScoreTable.read(path, range=(0, 25), lower_is_better=True)
        np.testing.assert_allclose(t.scores, [[1.0, 0.0, 0.8]])

    def test_columns_next(self, tmp_path):
        rows = [(*r, 0, 25, "false") for r in self.rows([0, 25, 5])]
        header = "model,doc_id,metric,score,scale_min,scale_max,higher_is_better"
        t = ScoreTable.read(write(tmp_path / "t.csv", rows, header))
        assert t.scale == Scale(0, 25, higher_is_better=False)

    def test_unit_interval_next(self, tmp_path):
        t = ScoreTable.read(write(tmp_path / "t.csv", self.rows([0.1, 0.9])))
        assert t.scale == Scale(0, 1)

    def test_else_an_error_that_says_how(self, tmp_path):
        path = write(tmp_path / "t.csv", self.rows([0, 25]))
        with pytest.raises(ScaleError, match=r"0 to 25.*--range"):
            ScoreTable.read(path)

    def test_outside_the_range(self, tmp_path):
        path = write(tmp_path / "t.csv", self.rows([0, 26]))
        with pytest.raises(ScaleError, match="26"):
            ScoreTable.read(path, range=(0, 25))

    def test_ter_is_capped_and_says_so(self, tmp_path):
        path = write(tmp_path / "t.csv", [("a", i, "ter", v) for i, v in enumerate([0, 0.25, 3])])
        t = ScoreTable.read(path)
        np.testing.assert_allclose(t.scores, [[1.0, 0.75, 0.0]])
        assert t.scale.cap == 1 and "capped at 1" in t.warnings[0]

    def test_ter_in_percent_wants_its_cap(self, tmp_path):
        path = write(tmp_path / "t.csv", [("a", i, "ter", v) for i, v in enumerate([0, 25, 300])])
        with pytest.raises(ScaleError, match="--range"):
            ScoreTable.read(path)
        assert ScoreTable.read(path, range=(0, 100)).scale.cap == 100


@settings(max_examples=50, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    shape=st.tuples(st.integers(1, 5), st.integers(1, 9)),
    ending=st.sampled_from([".csv", ".parquet"]),
    text_ids=st.booleans(),
    scale=st.sampled_from([Scale(), Scale(0, 100), Scale(-1, 1), Scale(0, 25, False)]),
)
def test_a_written_table_reads_back_the_same(
    tmp_path_factory, seed, shape, ending, text_ids, scale
):
    rng = np.random.default_rng(seed)
    raw = rng.uniform(scale.low, scale.high, shape)
    raw[rng.random(shape) < 0.2] = np.nan
    raw[:, 0] = scale.low
    raw[0] = scale.high
    ids = rng.choice(10_000, shape[1], replace=False)
    table = ScoreTable.from_arrays(
        raw,
        [f"m{i // 2}" for i in range(shape[0])],
        [f"d{i}" for i in ids] if text_ids else ids.tolist(),
        configs=[f"c{i % 2}" for i in range(shape[0])],
        scale=scale,
        metric="mine",
    )
    path = tmp_path_factory.mktemp("t") / f"t{ending}"
    table.write(path)
    again = ScoreTable.read(path)
    assert again.doc_ids == table.doc_ids and again.scale == scale
    assert (again.row_model, again.row_config) == (table.row_model, table.row_config)
    np.testing.assert_array_equal(again.raw, table.raw)


def test_real_tables(shared):
    t = ScoreTable.read(shared / "data" / "scores" / "wmt24_en-de.parquet", metric="bleu")
    assert (len(t.models), t.n_items) == (26, 997)
    assert np.isfinite(t.raw).all()
    with pytest.raises(ScaleError, match="bert_f_score"):
        ScoreTable.read(shared / "data" / "scores" / "realsumm_abs.parquet", metric="bert_f_score")


@pytest.mark.parametrize(
    ("metric", "values", "scale"),
    [
        ("judge_score", [1, 4, 10], "1 to 10, higher is better"),
        ("fkgl", [3.2, 30, 12], "0 to 30, lower is better"),
        ("bleu", [12.5, 40, 99], "0 to 100, higher is better"),
        ("comet", [0.4, 0.9, 0.8], "0 to 1, higher is better"),
        ("bertscore", [0.85, 0.9, 0.8], "0 to 1, higher is better"),
    ],
)
def test_a_metric_that_we_know_has_its_scale(tmp_path, metric, values, scale):
    file = tmp_path / "t.csv"
    lines = [f"m{m},{i},{metric},{v}" for m in range(2) for i, v in enumerate(values)]
    file.write_text("model,doc_id,metric,score\n" + "\n".join(lines) + "\n")
    table = ScoreTable.read(file)
    assert table.scale.describe() == scale
    assert any("metric table" in w for w in table.warnings) == (max(values) > 1)


def test_a_metric_that_we_know_outside_its_scale_is_refused(tmp_path):
    file = tmp_path / "t.csv"
    file.write_text("model,doc_id,metric,score\na,0,judge_score,0\na,1,judge_score,11\n")
    with pytest.raises(ScaleError, match=r"judge_score.*--range LO,HI"):
        ScoreTable.read(file)

"""Score tables: what is read, how its scale is found, and what is refused."""

from __future__ import annotations

import copy
import csv
from collections import Counter
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lm_eval_ccat import ItemBank, ScoreTable, simulate
from lm_eval_ccat.cli.main import main
from lm_eval_ccat.errors import CcatError, ScaleError, ScoreTableError
from lm_eval_ccat.metrics import Scale
from lm_eval_ccat.scores.grid import Coded, ScoreGrid
from lm_eval_ccat.scores.item_scaling import ItemScaling
from lm_eval_ccat.scores.reading import Wanted
from lm_eval_ccat.scores.table import reader_of
from lm_eval_ccat.upkeep.tables import scores_for

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


def test_a_model_without_scores_is_named_after_a_table_was_written(tmp_path):
    table = ScoreTable.from_arrays([[1.0, 0.0], [np.nan, np.nan]], ["a", "b"])
    for file in ("t.csv", "t.parquet"):
        table.write(tmp_path / file)
        again = ScoreTable.read(tmp_path / file)
        assert again.models == ("a",)
        assert again.warnings == ("models without a usable score are left out: b",)


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


def test_the_scale_is_found_or_must_be_stated(tmp_path):
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
        # It is not known, or a score leaves it.
        ("mine", [0, 25], {}, r"0 to 25.*--range"),
        ("mine", [0, 26], {"range": (0, 25)}, "26"),
        ("mine", [0, 1], {"range": (1, 0)}, "from a low to a higher end"),
        ("ter", [0, 25, 300], {}, "--range"),
        ("judge_score", [0, 11], {}, r"judge_score.*--range WORST,BEST"),
    ):
        path = write(tmp_path / "t.csv", [("a", i, metric, v) for i, v in enumerate(values)])
        if isinstance(scale, str):
            with pytest.raises(ScaleError, match=scale):
                ScoreTable.read(path, **how)
            continue
        table = ScoreTable.read(path, **how)
        assert table.scale == scale and ((table.scores >= 0) & (table.scores <= 1)).all()
        of_table = not how and max(values) > 1.1 and scale.cap is None
        assert any("metric table" in w for w in table.warnings) == of_table
        capped = scale.cap is not None and "scale" not in how
        assert any("capped at" in w for w in table.warnings) == capped


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


# -- the one way from scores to a matrix, against a reference of ten lines -----------------------

CELL = st.tuples(
    st.sampled_from("abc"), st.sampled_from(["", "t=1"]), st.integers(0, 5),
    st.sampled_from([0.0, 0.25, 1.0]), st.sampled_from(["h", "h", "h", "x", None]),
)  # fmt: skip


def reference(ones):
    """Cells by (model, config) and item: of each the last, and none of a rarer version."""
    cells, hashes, own = {}, {}, {}
    for n, (model, config, item, score, text) in enumerate(ones):
        cells[(model, config), item] = (score, text, n)
        if text is not None:
            own.setdefault(item, text)
            hashes.setdefault(text, n)
    for item, first in own.items():
        there = [text or first for (_, i), (_, text, _) in cells.items() if i == item]
        count = Counter(there)
        best = max(count, key=lambda text: (count[text], hashes[text]))
        cells = {k: v for k, v in cells.items() if k[1] != item or (v[1] or first) == best}
        own[item] = best
    return {k: v[0] for k, v in cells.items()}, own


@given(st.lists(CELL, min_size=1, max_size=60), st.integers(1, 9))
def test_the_last_score_counts_and_the_rarer_version_of_a_document_does_not(ones, step):
    grid = ScoreGrid()
    for start in range(0, len(ones), step):  # in batches of any size
        some = ones[start : start + step]
        labels, hashes = [one[:2] for one in some], [text for *_, text in some]
        few = list(dict.fromkeys(hashes))
        coded = Coded(few, np.array([few.index(text) for text in hashes]))
        grid.lay(labels, [one[2] for one in some], [one[3] for one in some], coded)
    labels = list(dict.fromkeys(one[:2] for one in ones))
    made = copy.deepcopy(grid).finish(Path("x"), Wanted(), "acc")
    expected, own = reference(ones)
    kept = list(zip(made.row_model, made.row_config))
    assert kept == [label for label in labels if any(k[0] == label for k in expected)]
    assert list(made.doc_ids) == sorted({one[2] for one in ones})
    found = {
        (kept[r], made.doc_ids[c]): made.raw[r, c] for r, c in np.argwhere(~np.isnan(made.raw))
    }
    assert found == expected
    if own:
        assert dict(zip(made.doc_ids, made.doc_hashes)) == {d: own.get(d) for d in made.doc_ids}
    else:
        assert made.doc_hashes is None
    twice = len(ones) > len({(one[:2], one[2]) for one in ones})
    with pytest.raises(ScoreTableError, match="2 scores of") if twice else nullcontext():
        grid.finish(Path("x"), Wanted(), "acc", unique=True)


def test_what_is_missing_is_said_and_what_cannot_be_is_refused():
    grid = ScoreGrid()
    grid.lay([("a", "")], [1, 0], [0.5, 1.0])
    grid.lay([("b", "t=1")], [0], [np.nan])
    grid.lay([("c", "t=1")], [0], [0.0])
    made = grid.finish(Path("x"), Wanted(), "acc", say_missing=True)
    assert made.models == ("a", "c")
    assert list(made.warnings) == [
        "models without a usable score are left out: b",
        "not all of the 2 documents are scored for: c (t=1) 1",
    ]  # fmt: skip
    mixed = ScoreGrid()
    mixed.lay([("a", "")], [0, "x"], [0.0, 1.0])
    with pytest.raises(ScoreTableError, match="integers and strings"):
        mixed.finish(Path("x"), Wanted(), "acc")
    empty = ScoreGrid()
    empty.lay([("a", "")], [0], [np.nan])
    with pytest.raises(ScoreTableError, match="every score of metric 'acc' is missing"):
        empty.finish(Path("x"), Wanted(), "acc")


# -- per-item scaling: the paper's formula, calibration data alone, and back from a file ---------

RAW = np.array([[8.0, 12.0, 10.0], [12.0, 16.0, 10.0], [10.0, np.nan, 10.0], [2.0, 30.0, 10.0]])
FKGL = {"scale": Scale(0, 30, False), "metric": "fkgl"}


@pytest.fixture
def table():
    configs = ["", "t=0", "t=1", ""]
    return ScoreTable.from_arrays(RAW, ["a", "b", "b", "new"], configs=configs, **FKGL)


def test_each_item_is_spread_over_its_calibration_range(table):
    scaling = ItemScaling.fit(table.without(["new"]))
    scaled = scaling.apply(table)
    # Lower grades are better: the easiest calibration text of an item becomes 1.
    expected = [[1, 1, 0.5], [0, 0, 0.5], [0.5, np.nan, 0.5], [1, 0, 0.5]]
    np.testing.assert_allclose(scaled.raw, expected, atol=1e-12)
    assert [scaling.score(0, raw) for raw in RAW[:, 0]] == scaled.raw[:, 0].tolist()
    assert scaled.metric == "fkgl_item_scaled" and scaled.scale == Scale()
    assert scaled.row_config == table.row_config
    wider = scaling.apply(ScoreTable.from_arrays([[8.0, 9.0]], ["x"], [0, 7], **FKGL))
    assert np.isnan(wider.raw[0]).tolist() == [False, True]
    assert "1 documents have no item scaling" in wider.warnings
    with pytest.raises(ScoreTableError, match=r"of fkgl .* of rougeL"):
        scaling.apply(ScoreTable.from_arrays(RAW / 30, list("abcd"), metric="rougeL"))
    with pytest.raises(ScoreTableError, match="scaled already"):
        ItemScaling.fit(scaled)


def test_a_bank_keeps_the_ends_and_scales_new_scores_by_them(table, tmp_path, capsys):
    table.write(tmp_path / "t.parquet")
    bank, source = str(tmp_path / "b.json"), str(tmp_path / "t.parquet")
    make = ["calibrate", source, "--method", "paper", "--scale_items", "--exclude", "new"]
    assert main([*make, "-o", bank]) == 0
    made = ItemBank.load(bank)
    assert made.metric == "fkgl_item_scaled" and "new" not in made.models
    expected = ItemScaling.fit(table.without(["new"])).apply(table)
    np.testing.assert_array_equal(scores_for(made, source).raw, expected.raw)
    with pytest.raises(ScoreTableError, match="scaling is damaged"):
        ItemScaling.of_bank({"item_scaling": {"low": [0.0]}})


def test_a_replay_scales_by_each_folds_calibration_models():
    rng = np.random.default_rng(3)
    skill = np.linspace(0.3, 0.7, 8)[:, None]
    # Every item uses another narrow part of the scale: what the scaling is for.
    raw = rng.uniform(0, 0.8, 40) + 0.1 * np.clip(skill + 0.2 * rng.normal(size=(8, 40)), 0, 1)
    table = ScoreTable.from_arrays(raw, [f"m{n}" for n in range(8)])
    arguments = dict(methods=["common"], seeds=1, processes=1, holdouts=[["m2", "m5"]])
    by_hand = ItemScaling.fit(table.without(["m2", "m5"])).apply(table)
    one, other, plain = (
        [{**run, "seconds": 0} for run in simulate(scores, item_scaling=scale, **arguments).runs]
        for scores, scale in ((table, True), (by_hand, False), (table, False))
    )
    assert one == other != plain

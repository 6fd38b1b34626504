"""Score tables: what is read, how its scale is found, and what is refused."""

import copy
import csv
import json
import tracemalloc
from collections import Counter
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import parquet

from lm_eval_ccat import ItemBank, ScoreTable
from lm_eval_ccat.cli.main import main
from lm_eval_ccat.errors import CcatError, ScaleError, ScoreTableError
from lm_eval_ccat.metrics import Scale
from lm_eval_ccat.scores.grid import Coded, ScoreGrid
from lm_eval_ccat.scores.item_scaling import ItemScaling
from lm_eval_ccat.scores.readers import long_form
from lm_eval_ccat.scores.reading import Query
from lm_eval_ccat.scores.table import READERS, reader_of
from lm_eval_ccat.shown import first_of
from lm_eval_ccat.testing.methods import example_table
from lm_eval_ccat.testing.readers import ReaderSuite
from lm_eval_ccat.upkeep.score_tables import scores_for
from lm_eval_ccat.upkeep.update import update

HEADER = "model,doc_id,metric,score"
BATCH = "lm_eval_ccat.scores.readers.long_form._BATCH"


def write(path, rows, header=HEADER):
    with open(path, "w", newline="") as f:
        f.write(header + "\n")
        csv.writer(f).writerows(rows)
    return path


@pytest.mark.long
@given(
    seed=st.integers(0, 2**32 - 1),
    shape=st.tuples(st.integers(1, 5), st.integers(1, 9)),
    way=st.sampled_from([".csv", ".parquet", "pandas", "arrow", "one by one"]),
    text_ids=st.booleans(),
    hashed=st.booleans(),
    scale=st.sampled_from(
        [Scale(), Scale(-1, 1), Scale(0, 25, False), Scale(cap=0.5), Scale(cap=3)]
    ),
    metric=st.sampled_from(["mine", "ter"]),
)
def test_a_table_reads_back_the_same_by_every_way(
    tmp_path_factory, seed, shape, way, text_ids, hashed, scale, metric
):
    """But for rows without any score, which a warning names."""
    rng = np.random.default_rng(seed)
    # A capped metric has scores beyond its cap.
    raw = rng.uniform(scale.low, scale.high * (1 if scale.cap is None else 3), shape)
    raw[rng.random(shape) < 0.2] = np.nan
    raw[:, 0], raw[0] = scale.low, scale.high
    raw[1:2] = np.nan
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
    with pytest.MonkeyPatch.context() as patch:
        if way == "one by one":  # batches of a row
            patch.setattr(BATCH, 1)
        if way in ("pandas", "arrow"):
            frame = {"pandas": pd.read_parquet, "arrow": parquet.read_table}[way](path)
            again = ScoreTable.from_dataframe(frame)
        else:
            again = ScoreTable.read(path)
    for name in ("doc_ids", "scale", "doc_hashes", "task", "metric"):
        assert getattr(again, name) == getattr(table, name)
    scored = [n for n in range(shape[0]) if n != 1]
    assert list(again.row_model) == [table.row_model[n] for n in scored]
    assert list(again.row_config) == [table.row_config[n] for n in scored]
    np.testing.assert_array_equal(again.raw, table.raw[scored])
    gone = "models without a usable score are left out: m0"
    assert (gone in again.warnings) == (len(scored) < shape[0])


@pytest.mark.long
@given(st.lists(st.tuples(*map(st.sampled_from, ("ab", "tu", ("f1", "em"), range(3)))),
                min_size=1, unique=True), st.integers(1, 9))  # fmt: skip
def test_several_outcomes_in_one_pass_are_those_read_one_by_one(tmp_path_factory, rows, batch):
    """Any mix of models, tasks, metrics and documents, in batches of any size."""
    scored = {row: n / 100 for n, row in enumerate(rows)}
    lines = [(*row, score) for row, score in scored.items()]
    path = write(tmp_path_factory.mktemp("t") / "t.csv", lines, "model,task,metric,doc_id,score")
    cells = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(BATCH, batch)
        outcomes = reader_of(path).outcomes(path)
        for outcome, table in zip(outcomes, ScoreTable.read_many(path, outcomes), strict=True):
            alone = ScoreTable.read(path, outcome.metric, outcome.task)
            np.testing.assert_array_equal(table.raw, alone.raw)
            assert (table.models, table.doc_ids) == (alone.models, alone.doc_ids)
            for j, i in np.argwhere(~np.isnan(table.raw)).tolist():
                cell = table.models[j], table.task, table.metric, table.doc_ids[i]
                cells[cell] = table.raw[j, i]
    assert cells == scored


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("lines.jsonl", '{"id": "q0", "score": 0.5}\n{"id": "q1", "score": 1}'),
        ("by_doc.jsonl", '{"doc_id": "q0", "score": 0.5}\n{"doc_id": "q1", "score": 1}'),
        ("columns.csv", "id,score\nq0,0.5\nq1,1"),
    ],
)
def test_ids_and_scores_alone_are_of_the_model_that_the_file_names(tmp_path, name, text):
    (tmp_path / name).write_text(text)
    table = ScoreTable.read(tmp_path / name, metric="f1")
    assert table.models == (name.partition(".")[0],) and table.metric == "f1"
    assert table.raw.tolist() == [[0.5, 1.0]] and table.doc_ids == ("q0", "q1")


def test_a_folder_holds_a_table_of_each_task(tmp_path):
    for task, score in (("gsm", 1), ("mmlu", 0)):
        write(tmp_path / f"{task}.csv", [("a", 0, "acc", score)])
    tables = ScoreTable.read_many(tmp_path, reader_of(tmp_path).outcomes(tmp_path))
    assert {table.task: table.raw.tolist() for table in tables} == {"gsm": [[1]], "mmlu": [[0]]}


def test_a_file_that_is_no_table_is_named(tmp_path):
    (tmp_path / "x.parquet").write_bytes(b"PAR1 not really")
    with pytest.raises(ScoreTableError, match=r"x\.parquet: not a readable score table"):
        ScoreTable.read(tmp_path / "x.parquet")


@pytest.mark.long
@given(st.integers(0, 2**32 - 1), st.integers(1, 3), st.integers(1, 40))
def test_parts_and_overview_are_those_of_the_whole_table(seed, configs, cells):
    rng = np.random.default_rng(seed)
    raw = 100 * rng.random((4 * configs, 6))
    raw[rng.random(raw.shape) < 0.3] = np.nan
    names = [f"m{j // configs}" for j in range(len(raw))]
    scale = Scale(0, 100, higher_is_better=False)
    t = ScoreTable.from_arrays(raw, names, configs=[str(j) for j in range(len(raw))], scale=scale)
    whole = t.model_scores()
    expected = pd.DataFrame(1 - raw / 100).groupby(names).mean()  # pandas leaves NaN out
    np.testing.assert_allclose(whole, expected)
    for on_unit in (True, False):
        some = t.model_scores(on_unit, models=np.array([3, 1]), items=np.array([5, 0, 2]))
        np.testing.assert_array_equal(some, t.model_scores(on_unit)[[3, 1]][:, [5, 0, 2]])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("lm_eval_ccat.scores.table._SCORES_AT_A_TIME", cells)
        np.testing.assert_array_equal(np.concatenate([y for _, y in t.parts()]), whole)
        o = t.overview
    for name, values in (
        ("item_count", expected.count()), ("model_count", expected.count(axis=1)),
        ("item_sum", expected.sum()), ("model_mean", expected.mean(axis=1)),
        ("item_low", expected.min()), ("item_high", expected.max()),
    ):  # fmt: skip
        np.testing.assert_allclose(getattr(o, name), values, atol=1e-12)
    assert o.whole == expected.notna().all().all()


def test_a_table_is_not_changed_through_what_it_was_made_of_or_gave():
    raw = np.array([[0.25, 0.5], [0.75, 1.0]])
    t = ScoreTable.from_arrays(raw, ["a", "b"])
    for part in (raw, t.model_scores(), t.model_scores(False), next(t.parts())[1]):
        part[:] = 0.0
    assert t.raw.tolist() == t.scores.tolist() == [[0.25, 0.5], [0.75, 1.0]]
    assert ScoreTable.from_arrays(raw, ["a", "b"], copy=False).raw is raw


def test_a_selection_keeps_what_belongs_to_its_rows_and_items():
    chosen, hashes = ("all", "adaptive", "drawn"), ("x", "y", "z")
    t = ScoreTable.from_arrays(
        np.arange(9).reshape(3, 3) / 9, ["a", "b", "c"], [9, 7, 8], doc_hashes=hashes,
        chosen=chosen, configurations={model: {"dtype": model} for model in "abc"},
    )  # fmt: skip
    assert (t.doc_ids, t.doc_hashes) == ((7, 8, 9), ("y", "z", "x"))
    part = t.select(["c", "a"]).take(np.array([2, 0]))
    assert (part.models, part.chosen) == (("c", "a"), ("drawn", "all"))
    assert (part.doc_ids, part.doc_hashes) == ((9, 7), ("x", "y"))
    assert (9 * part.raw).round().tolist() == [[6, 7], [0, 1]]
    assert part.configurations == {"a": {"dtype": "a"}, "c": {"dtype": "c"}}
    assert t.select(["c", "c"]).row_model == ("c",)


ONE = ("a", 0, "f1", 0.1)


@pytest.mark.parametrize(
    ("rows", "more", "says"),
    [
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
    ],
)
def test_what_a_file_cannot_mean_is_refused_by_its_name(tmp_path, rows, more, says):
    with pytest.raises(CcatError, match=says) as e:
        ScoreTable.read(write(tmp_path / "bad.csv", rows, HEADER + more))
    assert "bad.csv" in str(e.value)


@pytest.mark.parametrize(
    ("metric", "values", "how", "scale", "warning"),
    [
        # What the user gives, then the unit interval, then the metric table.
        ("mine", [0, 25, 5], {"range": (0, 25), "lower_is_better": True}, Scale(0, 25, False), ""),
        ("mine", [0, 300], {"scale": Scale(cap=50)}, Scale(cap=50), ""),
        ("f1", [0.1, 1.0000000000000002], {}, Scale(), ""),  # rounding is no mistake
        ("mine", [0.1, 1.0], {}, Scale(), "'mine' is known: read as 0 to 1, higher is better"),
        ("bleu", [12.5, 100.00000000000004], {}, Scale(0, 100), "metric table"),
        ("judge_score", [1, 4, 10], {}, Scale(1, 10), "metric table"),
        ("comet", [0.4, 0.9], {}, Scale(), ""),
        ("ter", [0, 0.25, 3], {}, Scale(cap=1), "capped at 1 "),
        ("ter", [0, 25, 300], {"range": (0, 100)}, Scale(cap=100), "capped at 100 "),
        ("my_error", [0.1, 1.0], {"lower_is_better": True}, Scale(0, 1, False), ""),
        ("my_error", [0.1, 1.0], {"range": (0, 1)}, Scale(), ""),
        # It is not known (the direction of a name with a word of error), or a score leaves it.
        ("my_error", [0.1, 1.0], {}, "nor the direction of 'my_error'.*state both: --range", ""),
        ("mine", [0, 25], {}, r"0 to 25.*--range", ""),
        ("mine", [0, 26], {"range": (0, 25)}, "26", ""),
        ("mine", [0, 1], {"range": (1, 0)}, "from a low to a higher end", ""),
        ("ter", [0, 25, 300], {}, "--range", ""),
        ("ter", [0, 25, 300], {"range": (0, 1)}, "66.7% of them lie above 1", ""),
        ("judge_score", [0, 11], {}, r"judge_score.*--range WORST,BEST", ""),
    ],
)
def test_the_scale_is_found_or_must_be_stated(tmp_path, metric, values, how, scale, warning):
    path = write(tmp_path / "t.csv", [("a", i, metric, v) for i, v in enumerate(values)])
    if isinstance(scale, str):
        with pytest.raises(ScaleError, match=scale):
            ScoreTable.read(path, **how)
        return
    table = ScoreTable.read(path, **how)
    assert table.scale == scale and ((table.scores >= 0) & (table.scores <= 1)).all()
    assert bool(table.warnings) == bool(warning) and warning in "".join(table.warnings)


@pytest.mark.parametrize(("text", "lower"), [("False", True), ("true", False)])
def test_a_direction_that_is_written_as_text_is_read(tmp_path, text, lower):
    row = {"model": "a", "doc_id": 0, "metric": "mine", "score": 1, "higher_is_better": text}
    path = tmp_path / "t.jsonl"
    path.write_text("".join(json.dumps({**row, "doc_id": n, "score": n}) + "\n" for n in (0, 1)))
    assert ScoreTable.read(path, range=(0, 5)).scale == Scale(0, 5, not lower)


def test_a_file_states_the_scale(tmp_path):
    columns = ",scale_min,scale_max,higher_is_better"
    for metric, stated, how, scale in (
        ("mine", (0, 5, "false"), {}, Scale(0, 5, False)),
        ("mine", (0, 5, "false"), {"lower_is_better": False}, Scale(0, 5)),
    ):
        path = write(tmp_path / "t.csv", [("a", 0, metric, 2.5, *stated)], HEADER + columns)
        assert ScoreTable.read(path, **how).scale == scale


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: ScoreTable.of([["x", "y"]]), "scores must be numbers"),
        (lambda: ScoreTable.of([[np.nan, np.nan]]), "every score"),
        (lambda: ScoreTable.of([[0.5, np.inf]]), "infinite"),
        (lambda: ScoreTable.from_arrays([[0.5]], ["a", "b"]), "rows are models"),
        (lambda: ScoreTable.from_arrays([[0.5], [1]], ["a", "a"]), "name their configs apart"),
        (lambda: ScoreTable.from_arrays([[0.5, 1]], ["a"], [0, 0]), "appears twice"),
        (lambda: ScoreTable.from_arrays([[0.5, 1]], ["a"], [0, "x"]), "all integers or all"),
        (lambda: ScoreTable.from_dataframe({"model": 1}), "not a data frame of scores"),
        (lambda: ScoreTable.from_dataframe([[0.0, 1.0]]), "not a data frame of scores"),
        # A frame of polars has no index that would name its models.
        (
            lambda: ScoreTable.from_dataframe(
                SimpleNamespace(columns=["1"], to_numpy=0, to_arrow=lambda: pa.table({"1": [1.0]}))
            ),
            "no column 'doc_id'",
        ),
        (lambda: ScoreTable.from_dataframe(pd.DataFrame({"doc_id": [1]})), "no column 'score'"),
        (lambda: ScoreTable.of(np.eye(2)).select(["x"]), "no scores of model 'x'"),
        (lambda: ScoreTable.of(np.eye(2)).write("x.txt"), r"a \.parquet or a \.csv"),
        (lambda: ScoreTable.read("none.csv"), "no such file"),
        (lambda: ItemScaling.of_bank({"item_scaling": {"low": [0.0]}}), "scaling is damaged"),
    ],
)
def test_mistakes_in_python_are_one_error_with_a_remedy(make, says):
    with pytest.raises(CcatError, match=says):
        make()


# -- wide tables: a row per model, a column per item -----------------------------------------------

WIDE = "model,10,9,2\na,0.5,,1\nb,0,0.25,\n"


def test_a_wide_table_is_read_as_the_long_one_of_the_same_scores(tmp_path):
    long = [
        ("a", 10, "bleu", 0.5),
        ("a", 2, "bleu", 1),
        ("b", 10, "bleu", 0),
        ("b", 9, "bleu", 0.25),
    ]
    expected = ScoreTable.read(write(tmp_path / "long.csv", long))
    (tmp_path / "wide.csv").write_text(WIDE)
    frame = pd.read_csv(tmp_path / "wide.csv")
    frame.to_parquet(tmp_path / "wide.parquet", index=False)
    frame.set_index("model").rename_axis(None).to_csv(tmp_path / "index.csv")
    frame.set_index("model").rename_axis(None).to_parquet(tmp_path / "index.parquet")
    for name in ("wide.csv", "wide.parquet", "index.csv", "index.parquet"):
        table = ScoreTable.read(tmp_path / name, metric="bleu")
        assert (table.models, table.doc_ids, table.metric) == (("a", "b"), (2, 9, 10), "bleu"), name
        np.testing.assert_array_equal(table.raw, expected.raw, err_msg=name)
    assert ScoreTable.read(tmp_path / "wide.csv").metric == "score"
    in_memory = ScoreTable.from_dataframe(frame, metric="bleu")
    assert in_memory.doc_ids == (2, 9, 10)
    np.testing.assert_array_equal(in_memory.raw, expected.raw)


def test_a_wide_table_may_name_configs_a_scale_and_items_in_words(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("model,config,q2,q1,scale_min,scale_max\na,x,5,1,0,5\na,y,,0,0,5\n")
    table = ScoreTable.read(path)
    assert (table.row_config, table.doc_ids, table.scale) == (("x", "y"), ("q1", "q2"), Scale(0, 5))
    np.testing.assert_array_equal(table.raw, [[1, 5], [0, np.nan]])


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("name,1,2\na,0,1\n", r"a wide one model and a column of numbers per item \(found: name"),
        ("model,item,value\na,q,1\n", "no column 'doc_id'; a long score table has"),
        ("model,doc_id\na,1\n", "no column 'score'"),
        ("model,1,2\na,0,1\na,1,1\n", "model 'a' has two rows in a wide table"),
        ("model,1,2\na,0,1\n,1,1\n", "a row names no model"),
        ("model,1,2\na,0,inf\n", "infinite"),
        ("model,1,1\na,0,1\n", "2 scores of model 'a'"),
        ("model\na\n", "no column 'doc_id'"),
    ],
)
def test_a_table_that_is_neither_long_nor_wide_says_what_it_lacks(tmp_path, text, says):
    (tmp_path / "t.csv").write_text(text)
    with pytest.raises(ScoreTableError, match=says):
        ScoreTable.read(tmp_path / "t.csv", metric="acc")


# -- the one way from scores to a matrix, against a reference of ten lines -----------------------

CELL = st.tuples(
    st.sampled_from("abc"), st.sampled_from(["", "t=1"]), st.integers(0, 5),
    st.sampled_from([0.0, 0.25, 1.0]), st.sampled_from(["h", "h", "h", "x", None]),
).map(lambda cell: (*cell[:4], cell[4] and f"{cell[4]}{cell[2]}"))  # of one document  # fmt: skip


def reference(ones):
    """Cells by (model, config) and item: of each the last, and none of a rarer version."""
    cells, hashes, own = {}, {}, {}
    for model, config, item, score, text in ones:
        cells[(model, config), item] = (score, text)
        if text is not None:
            own.setdefault(item, text)
            hashes.setdefault(text, len(hashes))
    for item, first in own.items():
        count = Counter(text or first for (_, i), (_, text) in cells.items() if i == item)
        own[item] = best = max(count, key=lambda text: (count[text], hashes[text]))
        cells = {k: v for k, v in cells.items() if k[1] != item or (v[1] or first) == best}
    return {k: v[0] for k, v in cells.items()}, own


@pytest.mark.long
@given(st.lists(CELL, min_size=1, max_size=60), st.integers(1, 9))
def test_the_last_score_counts_and_the_rarer_version_of_a_document_does_not(ones, step):
    grid = ScoreGrid()
    for start in range(0, len(ones), step):  # in batches of any size
        models, configs, items, scores, hashes = zip(*ones[start : start + step])
        few = list(dict.fromkeys(hashes))
        coded = Coded(few, np.array([few.index(text) for text in hashes]))
        grid.lay(list(zip(models, configs)), items, scores, coded)
    made = copy.deepcopy(grid).finish(Path("x"), Query(), "acc", say_missing=True)
    expected, own = reference(ones)
    rows, docs = list(zip(made.row_model, made.row_config)), made.doc_ids
    assert rows == [
        r for r in dict.fromkeys(one[:2] for one in ones) if r in {row for row, _ in expected}
    ]
    assert list(docs) == sorted({one[2] for one in ones})
    cells = np.argwhere(~np.isnan(made.raw)).tolist()
    assert {(rows[r], docs[c]): made.raw[r, c] for r, c in cells} == expected
    hashes = made.doc_hashes and dict(zip(docs, made.doc_hashes))
    assert hashes == ({d: own.get(d) for d in docs} if own else None)
    sparse = [
        f"{model}{config and f' ({config})'} {n}"
        for (model, config), n in zip(rows, np.isfinite(made.raw).sum(axis=1))
        if n < len(docs)
    ]
    said = [w.partition(" scored for: ")[2] for w in made.warnings if " scored for: " in w]
    assert said == [first_of(sparse, 5)] * bool(sparse)
    twice = len(ones) > len({one[:3] for one in ones})
    with pytest.raises(ScoreTableError, match="2 scores of") if twice else nullcontext():
        grid.finish(Path("x"), Query(), "acc", unique=True)


@pytest.mark.long
@pytest.mark.parametrize("by_item", [False, True])
def test_a_grid_takes_hardly_more_memory_than_the_matrix_that_it_becomes(by_item):
    raw = np.random.default_rng(0).random((400, 2000))
    cells = np.argwhere(raw.T >= 0)[:, ::-1] if by_item else np.argwhere(raw >= 0)
    batches = [batch.astype(np.int32) for batch in np.array_split(cells, 80)]
    del cells
    models, items = [(f"m{j}", "") for j in range(400)], list(range(2000, 0, -1))
    tracemalloc.start()
    try:
        grid = ScoreGrid()
        for rows, columns in (batch.T for batch in batches):
            (row_numbers, row), (item_numbers, item) = (
                np.unique(numbers, return_inverse=True) for numbers in (rows, columns)
            )
            grid.lay(
                Coded([models[number] for number in row_numbers], row.astype(np.int32)),
                Coded([items[number] for number in item_numbers], item.astype(np.int32)),
                raw[rows, columns],
            )
        table = grid.finish(Path("x"), Query(), "acc", unique=True)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    np.testing.assert_array_equal(table.raw, raw[:, ::-1])
    assert peak < 1.5 * raw.nbytes


@pytest.mark.parametrize("gap_first", [True, False])
@pytest.mark.parametrize("in_one_batch", [True, False])
def test_a_gap_beside_a_score_is_no_second_score_and_hides_none(gap_first, in_one_batch):
    """A merge of tables leaves rows without a score beside those that have it."""
    rows = [(np.nan, "h", "gap"), (0.5, "h", "asked")]
    rows = rows if gap_first else rows[::-1]
    grid = ScoreGrid()
    for batch in [rows] if in_one_batch else [[row] for row in rows]:
        scores, hashes, marks = zip(*batch)
        grid.lay([("a", "")], [7], scores, hashes, marks)
    table = grid.finish(Path("x"), Query(), "acc", unique=True)
    assert table.raw.tolist() == [[0.5]] and table.prompt_marks("a") == {7: "asked"}


def test_an_item_that_only_a_gap_names_keeps_its_hash():
    grid = ScoreGrid()
    grid.lay([("a", "")], [7, 8], [np.nan, 1.0], ["h", "i"])
    table = grid.finish(Path("x"), Query(), "acc")
    assert table.doc_ids == (7, 8) and table.doc_hashes == ("h", "i")


def test_categories_of_pandas_that_are_numbers_are_numbers():
    frame = pd.DataFrame({"model": ["a", "a"], "doc_id": [10, 9], "score": [1.0, 0.0]})
    table = ScoreTable.from_dataframe(frame.astype({"model": "category", "doc_id": "category"}))
    assert (table.doc_ids, table.raw.tolist()) == ((9, 10), [[0.0, 1.0]])


def test_ids_of_two_types_or_scores_that_are_all_missing_are_refused():
    for ids, score, says in (([0, "x"], 0.0, "integers and strings"), ([0, 1], np.nan, "'acc' is")):
        grid = ScoreGrid()
        grid.lay([("a", "")], ids, [score, score])
        with pytest.raises(ScoreTableError, match=says):
            grid.finish(Path("x"), Query(), "acc")


# -- per-item scaling: the paper's formula, calibration data alone, and back from a file ---------

RAW = np.array([[8.0, 12.0, 10.0], [12.0, 16.0, 10.0], [10.0, np.nan, 10.0], [2.0, 30.0, np.nan]])
FKGL = {"scale": Scale(0, 30, False), "metric": "fkgl"}


def test_each_item_is_spread_over_its_calibration_range_which_a_bank_keeps(tmp_path):
    configs = ["", "t=0", "t=1", ""]
    table = ScoreTable.from_arrays(RAW, ["a", "b", "b", "new"], configs=configs, **FKGL)
    scaling = ItemScaling.fit(table.without(["new"]))
    scaled = scaling.apply(table)
    # Lower grades are better: the easiest calibration text of an item becomes 1.
    expected = [[1, 1, 0.5], [0, 0, 0.5], [0.5, np.nan, 0.5], [1, 0, np.nan]]
    np.testing.assert_allclose(scaled.raw, expected, atol=1e-12)
    assert [scaling.score(0, raw) for raw in RAW[:, 0]] == scaled.raw[:, 0].tolist()
    assert (scaled.metric, scaled.scale) == ("fkgl_item_scaled", Scale())
    wider = scaling.apply(ScoreTable.from_arrays([[8.0, 9.0]], ["x"], [0, 7], **FKGL))
    assert np.isnan(wider.raw[0]).tolist() == [False, True]
    assert "1 documents have no item scaling" in wider.warnings
    with pytest.raises(ScoreTableError, match=r"of fkgl .* of rougeL"):
        scaling.apply(ScoreTable.from_arrays(RAW / 30, list("abcd"), metric="rougeL"))
    with pytest.raises(ScoreTableError, match="scaled already"):
        ItemScaling.fit(scaled)
    table.write(tmp_path / "t.parquet")
    bank, source = str(tmp_path / "b.json"), str(tmp_path / "t.parquet")
    make = ["calibrate", source, "--method", "paper", "--scale_items", "--exclude", "new"]
    assert main([*make, "--keep_scores", "-o", bank]) == 0
    made = ItemBank.load(bank)
    assert made.metric == "fkgl_item_scaled" and made.models == ("a", "b")
    np.testing.assert_array_equal(scores_for(made, source).raw, scaled.raw)
    newer = update(made, scores_for(made, source))
    assert newer.models == ("a", "b", "new")
    np.testing.assert_array_equal(scores_for(newer, source).raw, scaled.raw)


class TestLongForm(ReaderSuite):
    reader = READERS.get("long_form")
    query = {"metric": "toy", "task": "toy_task"}  # noqa: RUF012

    def write(self, folder: Path) -> Path:
        example_table().write(folder / "scores.csv")
        return folder / "scores.csv"

    def expected(self) -> ScoreTable:
        return example_table()


@pytest.mark.parametrize("scale", [Scale(0, 1, False), Scale(cap=2), Scale(0, 3)])
@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_a_table_of_a_metric_that_is_usually_capped_says_how_its_own_scale_ends(
    tmp_path, scale, ending
):
    path = tmp_path / f"t.{ending}"
    ScoreTable.from_arrays([[0.2, 0.9]], ["a"], metric="ter", scale=scale).write(path)
    assert ScoreTable.read(path).scale == scale


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_rows_of_one_model_in_two_configurations_are_refused_by_name(tmp_path, ending):
    """Each has other documents, so no document has two scores."""
    columns = {
        "model": ["m"] * 4, "doc_id": [0, 1, 2, 3], "score": [0.0, 1.0, 1.0, 1.0],
        "revision": ["a", "a", "b", "b"],
    }  # fmt: skip
    file = tmp_path / f"t.{ending}"

    def save():
        frame = pd.DataFrame(columns)
        frame.to_csv(file, index=False) if ending == "csv" else frame.to_parquet(file)

    save()
    with pytest.raises(ScoreTableError, match="model 'm' has rows of revision 'a' and of 'b'"):
        ScoreTable.read(file)
    columns["model"] = ["m@a"] * 2 + ["m@b"] * 2
    save()
    assert ScoreTable.read(file).models == ("m@a", "m@b")
    columns.update(model=["m"] * 4, config=["a"] * 2 + ["b"] * 2)
    save()
    assert ScoreTable.read(file).row_config == ("a", "b")


@pytest.mark.long
@pytest.mark.parametrize(("item", "value"), [("doc_id", "score"), ("id", "f1")])
def test_of_a_long_file_a_few_batches_are_in_memory(item, value, tmp_path, monkeypatch):
    monkeypatch.setattr(BATCH, 10_000)
    file, scores = tmp_path / "long.parquet", np.random.default_rng(0).random(20_000)
    schema = pa.schema({"model": pa.string(), item: pa.int64(), value: pa.float64()})
    with parquet.ParquetWriter(file, schema) as writer:
        for model in range(20):
            columns = [pa.array([f"m{model}"] * 20_000), pa.array(range(20_000)), pa.array(scores)]
            writer.write_table(pa.table(columns, schema=schema))
    before, source = pa.total_allocated_bytes(), long_form.Source(file)
    in_memory = [pa.total_allocated_bytes() - before for _ in source.parts()]
    assert len(in_memory) == 40
    assert max(in_memory) < file.stat().st_size / 4
    assert ScoreTable.read(file).raw[19].tolist() == scores.tolist()

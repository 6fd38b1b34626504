"""Tables that are empty, of another encoding or form: refused by name, with what to do."""

import pyarrow as pa
import pytest
from pyarrow import parquet

from lm_eval_ccat.errors import CcatError
from lm_eval_ccat.scores import ScoreTable
from lm_eval_ccat.scores.reading import json_lines

GOOD = "model,doc_id,metric,score\n" + "".join(
    f"m{j},{i},acc,{i * j % 2}\n" for j in range(1, 4) for i in range(6)
)
EMPTY, ENCODED = "the file is empty: write it again", "it looks like UTF-16: save it as UTF-8"
ANEW = "write it again, as UTF-8 with commas or as Parquet"
TEXTS = {
    "empty.csv": ("", EMPTY),
    "blank.csv": ("\n\n", EMPTY),
    "empty.parquet": ("", EMPTY),
    "empty.jsonl": ("", EMPTY),
    "marked.csv": (GOOD.encode("utf-16"), ENCODED),
    "unmarked.csv": (GOOD.encode("utf-16-le"), ENCODED),
    "marked.jsonl": ('{"model": "a", "doc_id": 1, "score": 1}'.encode("utf-16"), ENCODED),
    "latin.csv": (GOOD.replace("m1", "mé").encode("latin-1"), ANEW),
    "text.parquet": (GOOD, ANEW),
    "ragged.csv": (GOOD + "m1,3\n", ANEW),
    "mixed.jsonl": ('{"model": "a", "doc_id": 1, "score": 1}\n'
                    '{"model": "a", "doc_id": "x", "score": 1}\n', ANEW),
    "rows.csv": ("model,doc_id,metric,score\n", "write a row of model, doc_id, score for each"),
    "semicolons.csv": (GOOD.replace(",", ";"), "separate columns by commas"),
    "twice.csv": ("model,doc_id,score,score\na,1,0,1\n", "two columns 'score'; leave one out"),
    "capital.csv": (GOOD.replace("model", "Model"), "'Model'; call it 'model'"),
    "nameless.csv": ("model,doc_id,Score\na,1,0.5\n", "'Score'; call it 'score'"),
    "spaced.csv": (GOOD.replace("model,doc_id", "model, doc_id"), "' doc_id'; call it 'doc_id'"),
    "words.csv": (GOOD + "m1,9,acc,high\n", "write numbers, and leave missing ones empty"),
    "unnamed.csv": (GOOD + "m1,,acc,1\n", "have no doc_id; write it, or leave them out"),
    "decimals.csv": (GOOD.replace(",1,acc", ",1.5,acc"), "write whole numbers or texts"),
}  # fmt: skip


@pytest.mark.parametrize("name", TEXTS)
def test_a_table_that_cannot_be_read_is_named_with_what_to_do(name, tmp_path):
    content, remedy = TEXTS[name]
    file = tmp_path / name
    file.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(CcatError) as refused:
        ScoreTable.read(file)
    text = str(refused.value)
    assert text.startswith(f"{file}: ") and remedy in text and "\n" not in text


def test_names_in_a_csv_are_what_is_written(tmp_path):
    """A version 1.10 is another model than 1.1, and an item 007 another than 7."""
    file = tmp_path / "t.csv"
    file.write_text("model,config,doc_id,score\n1.1,0.70,7,0\n1.10,true,007,1\n1.10,true,7,0.5\n")
    table = ScoreTable.read(file)
    assert (table.row_model, table.row_config) == (("1.1", "1.10"), ("0.70", "true"))
    assert table.doc_ids == ("007", "7") and table.raw[1].tolist() == [1.0, 0.5]
    table.write(file)
    again = ScoreTable.read(file)
    assert (again.row_model, again.row_config) == (table.row_model, table.row_config)
    assert again.doc_ids == table.doc_ids
    file.write_text("model,id,score\na, 7,0\na,-12,1\n")
    assert ScoreTable.read(file).doc_ids == (-12, 7)


def test_a_byte_order_mark_hides_no_first_line(tmp_path):
    """Editors of Windows write one."""
    (tmp_path / "rows.jsonl").write_bytes(b"\xef\xbb\xbf{}\n{}\n")
    assert list(json_lines(tmp_path / "rows.jsonl")) == [(1, {}), (2, {})]


@pytest.mark.parametrize("name", ["scale_min", "scale_max", "scale_cap"])
def test_an_end_of_a_scale_that_is_no_number_is_named(name, tmp_path):
    ends = {"scale_min": 0.0, "scale_max": 1.0, name: "low"}
    columns = {"model": ["a"], "doc_id": [0], "score": [1.0], **{k: [v] for k, v in ends.items()}}
    parquet.write_table(pa.table(columns), tmp_path / "t.parquet")
    with pytest.raises(CcatError, match=f"t.parquet: {name} must be a number, not 'low'"):
        ScoreTable.read(tmp_path / "t.parquet")


@pytest.mark.parametrize("column", ["model", "doc_id", "score"])
def test_a_column_of_lists_is_named_with_what_to_do(column, tmp_path):
    columns = {"model": ["a", "b"], "doc_id": [1, 2], "score": [0.0, 1.0]}
    columns[column] = [[value] for value in columns[column]]
    parquet.write_table(pa.table(columns), tmp_path / "t.parquet")
    with pytest.raises(CcatError, match=r"t\.parquet: .*; write ") as refused:
        ScoreTable.read(tmp_path / "t.parquet")
    assert "list" in str(refused.value)


def test_many_columns_of_settings_with_many_values_are_read(tmp_path):
    """300 models that differ in eight settings: more combinations than 64 bits can number."""
    names = [
        "revision",
        "dtype",
        "tokenizer",
        "peft",
        "delta",
        "subfolder",
        "quantization",
        "model",
    ]
    models = [f"m{j}" for j in range(300)]
    columns = {name: models for name in names}
    parquet.write_table(
        pa.table({**columns, "doc_id": [1] * 300, "score": [0.5] * 300}), tmp_path / "t.parquet"
    )
    assert ScoreTable.read(tmp_path / "t.parquet").models == tuple(models)


@pytest.mark.parametrize("score", ["score", "f1"])
def test_a_damaged_parquet_file_is_named_whatever_its_column_of_scores_is_called(score, tmp_path):
    file, numbers = tmp_path / "t.parquet", list(range(9999))
    columns = {"model": ["m"] * 9999, "doc_id": numbers, score: [n / 9999 for n in numbers]}
    parquet.write_table(pa.table(columns), file)
    content = bytearray(file.read_bytes())
    content[9000:-2000] = bytes(len(content) - 11000)
    file.write_bytes(content)
    with pytest.raises(CcatError, match=r"t\.parquet: not a readable score table .*; write "):
        ScoreTable.read(file)


def test_ids_of_two_types_are_texts_all_of_them(tmp_path):
    file = tmp_path / "t.csv"
    file.write_text("model,doc_id,score\na,1,0\na,x,1\nb,1,1\n")
    assert ScoreTable.read(file).doc_ids == ("1", "x")

"""What a newcomer gets wrong in Python is an error of ours, on one line, that says what to do."""

from __future__ import annotations

import numpy as np
import pytest

from lm_eval_ccat import ItemBank, Ranker, ScoreTable, calibrate
from lm_eval_ccat.errors import CcatError

TABLE = ScoreTable.from_arrays([[0.2, 0.9, 0.4], [0.1, 0.4, 0.7]], ["a", "b"], metric="acc")

MISTAKES = {
    "a path to calibrate": (lambda p: calibrate(str(p)), r"ScoreTable\.read"),
    "None to calibrate": (lambda p: calibrate(None), "a row per model"),
    "a bank to calibrate": (lambda p: calibrate(ItemBank.blank([1])), "a row per model"),
    "texts to calibrate": (lambda p: calibrate([["a"], ["b"]]), "a row per model"),
    "a cube to calibrate": (lambda p: calibrate(np.zeros((2, 2, 2))), "a row per model"),
    "nothing to calibrate": (lambda p: calibrate([]), "a row per model"),
    "one model": (lambda p: calibrate([0.1, 0.5]), "several models, the table has 1"),
    "percentages": (lambda p: calibrate([[10, 90], [30, 40.0]]), "state it with range"),
    "a method misspelt": (lambda p: calibrate(TABLE, "defualt"), "did you mean default"),
    "an option misspelt": (lambda p: calibrate(TABLE, factor=3), "did you mean factors"),
    "no such file": (lambda p: ScoreTable.read(p / "no.parquet"), "no such file"),
    "no path": (lambda p: ScoreTable.read([[0.1]]), "from_arrays"),
    "no data frame": (lambda p: ScoreTable.from_dataframe([1, 2]), "pandas, polars or Arrow"),
    "an empty file": (lambda p: ScoreTable.read(p / "e.csv"), "not a readable score table"),
    "another metric": (lambda p: ScoreTable.read(p / "t.csv", metric="bleu"), "it has acc"),
    "a range of one": (lambda p: ScoreTable.read(p / "t.csv", range=5), r"such as \(0, 100\)"),
    "a model misspelt": (lambda p: TABLE.select(["c"]), "the table has a, b"),
    "names that do not fit": (lambda p: ScoreTable.from_arrays([[1, 0]], ["a", "b"]), "do not fit"),
    "a table as a bank": (lambda p: ItemBank.load(p / "t.csv"), "not a readable item bank"),
    "no such bank": (lambda p: ItemBank.load(p / "b.json"), "make one with `lm-eval-ccat cal"),
    "a number of items": (lambda p: ItemBank.blank(100), r"such as range\(100\)"),
    "no bank": (lambda p: Ranker(None, ["a", "b"]), r"ItemBank\.blank\(doc_ids\)"),
    "a bank's path": (lambda p: Ranker("b.json", ["a", "b"]), r"ItemBank\.load\(path\)"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_one_line_with_the_remedy(tmp_path, mistake):
    TABLE.write(tmp_path / "t.csv")
    (tmp_path / "e.csv").write_text("")
    do, says = MISTAKES[mistake]
    with pytest.raises(CcatError, match=says) as error:
        do(tmp_path)
    assert "\n" not in str(error.value)


def test_one_name_is_one_model():
    assert TABLE.select("a").models == ("a",) and TABLE.without("a").models == ("b",)

"""Several answers of a model to an item, in tables and journals."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from lm_eval_ccat import ScoreTable, compare
from lm_eval_ccat.errors import ScoreTableError


def written(path: Path, answers: dict[str, list[list[float]]], wide: bool = False) -> Path:
    """A table of models' answers, by repeat and item; the last of them may lack items."""
    lines = ["model,repeat,q0,q1,q2" if wide else "model,doc_id,repeat,score"]
    for model, repeats in answers.items():
        for repeat, row in enumerate(repeats, 1):
            if wide:
                cells = map(str, row + [""] * (3 - len(row)))
                lines.append(",".join([model, str(repeat), *cells]))
            else:
                lines += [f"{model},{item},{repeat},{score}" for item, score in enumerate(row)]
    path.write_text("\n".join(lines) + "\n")
    return path


A = [[1.0, 0.0, 1.0], [1.0, 1.0, 0.0]]
B = [[0.0, 0.0, 1.0], [1.0, 0.0, 0.0]]


@pytest.mark.parametrize("wide", [False, True])
def test_a_column_numbers_the_answers_to_an_item(tmp_path: Path, wide: bool) -> None:
    table = ScoreTable.read(written(tmp_path / "t.csv", {"a": A, "b": B}, wide))
    assert table.repeated and table.n_items == 3 and table.models == ("a", "b")
    assert table.model_scores().tolist() == [np.mean(A, axis=0).tolist(), [0.5, 0.0, 0.5]]
    assert not table.warnings


@pytest.mark.parametrize("wide", [False, True])
def test_unequal_repeats_are_told(tmp_path: Path, wide: bool) -> None:
    table = ScoreTable.read(written(tmp_path / "t.csv", {"a": [*A, [1.0]], "b": B}, wide))
    [warning] = table.warnings
    assert "some items have more scores than others: a 2 to 3" in warning
    assert table.model_scores()[0, 0] == 1.0  # each item counts once
    sides = [ScoreTable.read(tmp_path / "t.csv").select([model]) for model in "ab"]
    assert warning in compare(*sides).warnings


def test_two_answers_of_one_number_are_refused(tmp_path: Path) -> None:
    file = written(tmp_path / "t.csv", {"a": A})
    file.write_text(file.read_text() + "a,0,2,1.0\n")
    with pytest.raises(ScoreTableError, match="the answers in a column 'repeat'"):
        ScoreTable.read(file)


def test_repeats_are_draws_of_an_expected_score(tmp_path: Path) -> None:
    rng = np.random.default_rng(4)
    p = rng.random(3)
    drawn = {m: (rng.random((8, 3)) < p).astype(float).tolist() for m in "ab"}
    table = ScoreTable.read(written(tmp_path / "t.csv", drawn))
    [outcome] = compare(table, table, models=("a", "b"), question="benchmark").outcomes
    assert outcome.sampled and outcome.overall.low < outcome.overall.high

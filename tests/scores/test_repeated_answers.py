"""Several answers of a model to an item, in tables and journals."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lm_eval_ccat import ItemBank, ScoreTable, calibrate, compare
from lm_eval_ccat.errors import ScoreTableError
from lm_eval_ccat.report.plain import comparison_page, lines, markdown


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
    assert table.has_repeats and table.n_items == 3 and table.models == ("a", "b")
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


def drawn_table(seed: int, n_items: int, repeats: int) -> ScoreTable:
    """Two models of the same chances, which differ much between items."""
    rng = np.random.default_rng([seed, n_items, repeats])
    p = rng.beta(0.6, 0.4, n_items)
    return ScoreTable.from_arrays(
        (rng.random((2 * repeats, n_items)) < p) * 1.0,
        ["a"] * repeats + ["b"] * repeats,
        configs=[f"repeat {k + 1}" for k in range(repeats)] * 2,
    )


@pytest.mark.long
@pytest.mark.parametrize(("n_items", "repeats"), [(30, 2), (30, 8), (100, 4)])
def test_equal_models_of_repeats_differ_in_at_most_a_twentieth(n_items: int, repeats: int) -> None:
    def verdict(seed: int) -> str:
        table = drawn_table(seed, n_items, repeats)
        return compare(table, table, models=("a", "b"), question="benchmark").verdict

    pairs = 300
    wrong = sum(verdict(seed) in ("better", "worse") for seed in range(pairs))
    assert wrong <= 0.05 * pairs + 2.0 * (0.05 * 0.95 * pairs) ** 0.5


def test_on_these_items_repeats_leave_the_noise_within_items_alone() -> None:
    """Items differ a lot and answers to an item hardly: more of them shrink the interval."""
    rng = np.random.default_rng(2)
    p, q = (rng.random((2, 60)) < 0.5) * 0.96 + 0.02

    def interval(repeats: int, question: str) -> float:
        table = ScoreTable.from_arrays(
            np.concatenate([(rng.random((repeats, 60)) < chance) * 1.0 for chance in (p, q)]),
            ["a"] * repeats + ["b"] * repeats,
            configs=[f"repeat {k + 1}" for k in range(repeats)] * 2,
        )
        found = compare(table, table, models=("a", "b"), question=question).outcomes[0].overall
        assert (found.documents, found.answers) == (60, 60 * repeats)
        return found.high - found.low

    few, many = (interval(repeats, "benchmark") for repeats in (4, 16))
    # The standard error of 60 x 16 answers of chance .02 or .98, and that of 60 items.
    exact = (2.0 * 0.02 * 0.98 / (60 * 16)) ** 0.5
    assert many / (2 * 1.96 * exact) == pytest.approx(1.0, abs=0.2) and many < 0.8 * few
    assert interval(16, "population") > 8.0 * many
    assert interval(16, "run") == 0.0


def test_as_many_more_answers_as_are_named_decide_if_all_goes_on_as_it_is() -> None:
    once = drawn_table(5, 30, 4).raw
    once[:2, :12] = 1.0

    def found(times: int):
        a, b = (np.tile(side, (times, 1)) for side in np.split(once, 2))
        configs = [f"repeat {k + 1}" for k in range(len(a))] * 2
        names = ["a"] * len(a) + ["b"] * len(b)
        table = ScoreTable.from_arrays(np.concatenate([a, b]), names, configs=configs)
        return compare(table, table, models=("a", "b"), question="benchmark")

    contrast = found(1).outcomes[0].overall
    assert contrast.verdict == "not known" and contrast.more_documents is None
    assert f"about {contrast.more_answers:,} more answers would decide" in lines(found(1))[0]
    times = 1.0 + contrast.more_answers / contrast.answers
    assert found(int(np.ceil(times))).verdict == "worse"
    assert found(int(0.7 * times)).verdict == "not known"


def test_unequal_repeats_of_two_models_are_told(tmp_path: Path) -> None:
    file = written(tmp_path / "t.csv", {"a": [*A, *A], "b": B})
    table = ScoreTable.read(file)
    found = compare(table, table, models=("a", "b"), question="benchmark")
    assert any("a has 12 answers" in note and "b 6:" in note for note in found.warnings)
    assert found.outcomes[0].overall.answers == 6
    assert "3, 6 answers" in markdown(found) and "3, 6 answers" in comparison_page(found)


@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("number", ["x", "0", "1.5", "-1"])
def test_a_repeat_that_is_no_number_is_refused(tmp_path: Path, wide: bool, number: str) -> None:
    file = written(tmp_path / "t.csv", {"a": A, "b": B}, wide)
    lines = file.read_text().splitlines()
    cells = lines[2].split(",")
    cells[1 if wide else 2] = number
    file.write_text("\n".join([*lines[:2], ",".join(cells), *lines[3:]]) + "\n")
    with pytest.raises(ScoreTableError, match=f"model 'a' has repeat {number!r}"):
        ScoreTable.read(file)


@pytest.mark.long
def test_runs_of_one_sampled_model_give_a_bank_what_a_column_of_repeats_gives(
    tmp_path: Path, ccat: Any
) -> None:
    """The harness has one answer a run, so who wants four runs the model four times."""
    rng = np.random.default_rng(11)
    n_items, models = 40, [f"m{number}" for number in range(6)]
    chances = rng.beta(1.0, 1.0, n_items) ** np.linspace(0.3, 3.0, len(models))[:, None]
    answers = (rng.random((4, len(models), n_items)) < chances) * 1.0
    for (run, model), scores in zip(np.ndindex(answers.shape[:2]), answers.reshape(-1, n_items)):
        settings = {"temperature": 0.8, "seed": run}
        write_log(tmp_path / "logs", models[model], scores, day=run + 1, **settings)
    write_log(tmp_path / "logs", "greedy", np.zeros(n_items), day=1, temperature=0.0)
    write_log(tmp_path / "logs", "greedy", np.ones(n_items), day=2, temperature=0.0)
    rows = np.vstack([answers.transpose(1, 0, 2).reshape(-1, n_items), np.ones(n_items)])
    repeats = [f"repeat {run + 1}" for run in range(4)] * len(models)
    known = ScoreTable.from_arrays(
        rows, [*np.repeat(models, 4).tolist(), "greedy"], configs=[*repeats, ""]
    )
    read = ScoreTable.read(tmp_path / "logs", repeats=True)
    assert read.has_repeats and read.model_scores().tolist() == [
        known.model_scores()[known.models.index(model)].tolist() for model in read.models
    ]
    earlier, repeated = read.warnings
    assert "1 earlier run left out" in earlier and "greedy (1)" in earlier
    assert "read as its repeats: m0 (4), m1 (4)" in repeated
    ccat("calibrate", tmp_path / "logs", "-o", tmp_path / "bank.json")
    within = ItemBank.load(tmp_path / "bank.json").parameters["within"]
    assert within == pytest.approx(calibrate(known).parameters["within"], rel=1e-3)
    for folder, run in (("a", 0), ("b", 1)):
        write_log(tmp_path / "two" / folder, "m0", answers[run, 0], day=2 - run, temperature=0.8)
    two = ScoreTable.read(tmp_path / "two", repeats=True)  # numbered by date, not by folder
    assert two.raw[two.row_config.index("repeat 1")].tolist() == answers[1, 0].tolist()
    write_log(tmp_path / "again", "m0", answers[0, 0], day=1, temperature=0.8)
    write_log(tmp_path / "again", "m0", answers[1, 0], day=2, temperature=0.8)
    latest = ScoreTable.read(tmp_path / "again")
    assert not latest.has_repeats and (latest.raw == answers[1, 0]).all()


def write_log(logs: Path, model: str, scores: Any, *, day: int, **generation: Any) -> None:
    """Write one run of the harness with its samples."""
    folder, date = logs / model, f"2026-01-{day:02d}T10-00-00.000001"
    folder.mkdir(parents=True, exist_ok=True)
    rows = [
        {"doc_id": item, "doc": {"q": item}, "target": "t", "resps": [["a"]], "filter": "none",
         "filtered_resps": ["a"], "metrics": ["acc"], "doc_hash": f"h{item}", "acc": score}
        for item, score in enumerate(scores)
    ]  # fmt: skip
    (folder / f"samples_t_{date}.jsonl").write_text("".join(f"{json.dumps(r)}\n" for r in rows))
    results = {
        "results": {"t": {"acc,none": float(np.mean(scores))}},
        "configs": {"t": {"generation_kwargs": generation}},
        "higher_is_better": {"t": {"acc": True}},
        "n-samples": {"t": {"original": len(scores), "effective": len(scores)}},
        "model_name": model,
        "config": {"model_args": {"model": model}, "limit": None},
    }
    (folder / f"results_{date}.json").write_text(json.dumps(results))

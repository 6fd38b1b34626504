"""Boards of tasks whose metrics have other scales, and runs of some of their tasks."""

from __future__ import annotations

import hashlib
import json
import shutil
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from scores.test_harness_logs import rows_of, sample_row, write_run
from worlds.boards import draw

from lm_eval_ccat import ItemBank, ScoreTable
from lm_eval_ccat.bank import SuiteBank
from lm_eval_ccat.board import (
    Board,
    add,
    adding,
    admission,
    check,
    creating,
    init,
    place,
    placing,
    publish,
    standing,
    suspicions,
)
from lm_eval_ccat.board.cheats import copies
from lm_eval_ccat.board.checking import _sample, rows_of_journal
from lm_eval_ccat.board.folder import (
    HASHES,
    OTHER_WEIGHTS,
    Reserve,
    keep_hashes,
    why_not_comparable,
    without_reserve,
)
from lm_eval_ccat.board.ledger import FULL, BoardRow, TaskScore
from lm_eval_ccat.board.placing import _reserve_of
from lm_eval_ccat.board.publish import _drawn_otherwise, _metrics_in_words, _score_in_words
from lm_eval_ccat.board.scoring import unknown_scoring
from lm_eval_ccat.errors import UsageError
from lm_eval_ccat.journal import JournalFile
from lm_eval_ccat.live.spec import Spec
from lm_eval_ccat.methods.policy import Drawn
from lm_eval_ccat.metrics import Scale
from lm_eval_ccat.records import Drop, Item, Tell

NAMES = [f"m{n}" for n in range(12)]
SCALES = {"points": Scale(0, 100), "errors": Scale(0, 40, higher_is_better=False)}
SIZES = {"points": 60, "errors": 50}


@pytest.fixture(scope="module")
def tables() -> dict[str, ScoreTable]:
    return {
        task: ScoreTable.from_arrays(
            scale.restore(draw(np.linspace(-1, 1.5, 12), SIZES[task], seed=n, task=n)),
            NAMES, metric=task, scale=scale, task=task,
        )
        for n, (task, scale) in enumerate(SCALES.items())
    }  # fmt: skip


def written(folder: Path, *tables: ScoreTable) -> Path:
    """The folder, with a file for each table."""
    folder.mkdir()
    for table in tables:
        table.write(folder / f"{table.task}.parquet")
    return folder


def some(table: ScoreTable, models: list[str], step: int = 2) -> ScoreTable:
    """Every second document of some models."""
    return table.select(models).take(np.arange(0, table.n_items, step))


@pytest.fixture(scope="module")
def made(tables, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("two")
    full = (table.without(["m6", "m7"]) for table in tables.values())
    return init(folder / "board", written(folder / "full", *full)).path


@pytest.fixture
def board(made, tmp_path) -> Board:
    """A board of both tasks that the test may change."""
    return Board(shutil.copytree(made, tmp_path / "board"))


@pytest.mark.long
def test_a_score_is_on_the_scale_of_its_metric_and_their_average_on_that_of_shares(
    board, tables, tmp_path
):
    points, errors = (table.raw.mean(axis=1) for table in tables.values())
    truth = dict(zip(NAMES, (points / 100 + 1 - errors / 40) / 2))
    placed = [place.row for place in standing(board).placed]
    assert [row.model for row in placed] == sorted(truth.keys() - {"m6", "m7"},
                                                   key=truth.__getitem__, reverse=True)  # fmt: skip
    for row in placed:
        n = NAMES.index(row.model)
        assert row.score == pytest.approx(truth[row.model])
        assert [row.tasks[task].score for task in SCALES] == pytest.approx([points[n], errors[n]])
    logs = written(tmp_path / "some", *(some(table, ["m6"]) for table in tables.values()))
    [row] = place(board, logs).rows
    for task, true in (("points", points[6]), ("errors", errors[6])):
        figures = row.tasks[task]
        assert figures.low < figures.score < figures.high and figures.low < true < figures.high
    assert row.low < truth["m6"] < row.high
    assert {row.verdict for row in check(board)} == {"sound"}


@pytest.mark.long
def test_the_best_of_a_board_of_errors_has_the_fewest(tables, tmp_path):
    errors = tables["errors"].raw.mean(axis=1)
    full = tables["errors"].without(["m6", "m7"])
    board = init(tmp_path / "board", written(tmp_path / "full", full))
    [row] = place(board, written(tmp_path / "some", some(full, ["m5"])), name="new").rows
    assert row.low < row.score < row.high
    found = standing(board)
    scores = [place.row.score for place in found.placed]
    assert scores == sorted(scores) and found.placed[0].row.model == "m11"
    assert scores[0] == pytest.approx(errors.min())
    assert all(place.lead.difference >= 0.0 for place in found.placed[:-1])
    assert {row.verdict for row in check(board)} == {"sound"}
    publish(board, tmp_path / "site")
    rows = json.loads((tmp_path / "site" / "board.json").read_text())["rows"]
    for row, following in pairwise(rows):  # its score less that of the next, as it stands
        lead = row["lead"]
        assert lead["difference"] == pytest.approx(row["score"] - following["score"])
        assert lead["low"] <= lead["difference"] <= lead["high"]


def test_a_metric_whose_name_is_part_of_the_boards_is_another(tmp_path):
    """`acc` is no `acc_norm`: the source has nothing of the board's task."""
    ItemBank.blank([0, 1], task="t", metric="acc_norm").save(tmp_path / "bank.json")
    board = init(tmp_path / "board", tmp_path / "bank.json")
    scores = ScoreTable.from_arrays([[0.0, 1.0]], models=["m"], task="t", metric="acc")
    scores.write(tmp_path / "t.parquet")
    with pytest.raises(UsageError, match="no results of the board's tasks"):
        add(board, tmp_path / "t.parquet")


def test_copies_are_alike_on_every_task(board, tables, tmp_path):
    """Scores of m0, of m1, or of one on points and the other on errors."""
    names = ["both", "points", "errors"]
    rows = {"points": [0, 0, 1], "errors": [0, 1, 0]}
    alike = [
        replace(table.select(NAMES), raw=table.raw[rows[task]], **dict(
            row_model=tuple(names), row_config=("",) * 3))
        for task, table in tables.items()
    ]  # fmt: skip
    assert len(add(board, written(tmp_path / "alike", *alike)).rows) == 3
    assert copies(board, [place.row for place in standing(board).placed]) == {
        "m0": ("both",),
        "both": ("m0",),
    }


@pytest.mark.long
def test_sampled_answers_in_logs_have_their_noise_on_the_board(tmp_path):
    scores = draw(np.linspace(-1, 1.5, 12), 60, seed=3)
    full = ScoreTable.from_arrays(scores[1:], NAMES[1:], metric="acc", task="demo")
    made = init(tmp_path / "board", written(tmp_path / "full", full)).path
    rows = {}
    for temperature in (0.0, 0.7):
        board = shutil.copytree(made, tmp_path / f"board {temperature}")
        answers = [sample_row(k, {"acc": float(scores[0, k])}) for k in range(54)]
        part = {"samples": {"original": 60, "effective": 54}, "adaptive": {"demo": {"items": 54}}}
        logs = tmp_path / f"logs {temperature}"
        write_run(logs, "new", answers, generation={"temperature": temperature}, **part)
        [rows[temperature]] = place(board, logs).rows
        assert {found.verdict for found in check(board)} == {"sound"}
    fixed, drawn = (row.high - row.low for row in rows.values())
    assert drawn > 1.5 * fixed and "sampled:yes" in rows[0.7].signature


def test_results_on_another_version_are_another_row(tmp_path):
    ItemBank.blank(range(9), task="demo", metric="exact_match").save(tmp_path / "bank.json")
    board = init(tmp_path / "board", tmp_path / "bank.json")
    for version in (1.0, 2.0):
        logs = tmp_path / f"logs {version}"
        write_run(logs, "a", rows_of([1, 0, 1] * 3), version=version)
        [row] = add(board, logs).rows
        assert row.tasks["demo"].version == str(version)
        again = add(board, logs)
        assert not again.rows and again.left_out["a"].endswith("in the ledger already")


@pytest.mark.long
def test_a_model_without_results_on_a_task_is_left_out_by_name(board, tables, tmp_path):
    logs = written(
        tmp_path / "some", some(tables["points"], ["m6", "m7"]), some(tables["errors"], ["m6"])
    )
    placed = place(board, logs)
    assert [row.model for row in placed.rows] == ["m6"]
    assert placed.left_out == {"m7": "no results on errors"} and placed.partial


@pytest.mark.long
def test_the_first_reason_for_leaving_a_model_out_stands(board, tables, tmp_path):
    halves = {task: some(table, ["m6", "m7"]) for task, table in tables.items()}
    added = admission.Added(left_out={"m6": "scored otherwise"})
    admission.leave_out_by_documents(board, tmp_path, halves, added, in_full=True)
    assert added.left_out.pop("m6") == "scored otherwise"
    assert [*added.left_out] == ["m7"] and "30 of 60 documents of points" in added.left_out["m7"]


def test_a_run_held_back_what_every_task_of_it_held_back(board):
    """Else a run with banks of its own for one task is taken for one of the board."""
    parts = [
        {
            task: without_reserve(bank, task, Reserve(part, 5)).sha256
            for task, bank in board.banks.items()
        }
        for part in range(5)
    ]
    for part, hashes in enumerate(parts):
        assert _reserve_of(board, hashes, Reserve(0, 5)) == (part, 5)
    for first, second in (("points", "errors"), ("errors", "points")):
        mixed = {first: parts[0][first], second: parts[1][second]}
        assert _reserve_of(board, mixed, Reserve(0, 5)) is None
    whole = {task: bank.sha256 for task, bank in board.banks.items()}
    assert _reserve_of(board, whole, None) is None


def test_whoever_knows_what_one_task_holds_back_knows_nothing_of_another(board):
    common = range(SIZES["errors"])
    for part in range(3):
        kept = [
            {doc_id for doc_id in common if bank.kept[bank.index[doc_id]]}
            for task, full in board.banks.items()
            for bank in [without_reserve(full, task, Reserve(part, 3))]
        ]
        held_back = [set(common) - of_task for of_task in kept]
        assert 0 < len(held_back[0] & held_back[1]) < 0.7 * min(map(len, held_back))


@pytest.mark.long
def test_a_model_that_was_set_aside_has_no_row(board, tables, tmp_path):
    logs = [some(table, ["m6", "m7"]) for table in tables.values()]
    place(board, written(tmp_path / "some", *logs))
    [journal] = (board.path / "journals").iterdir()
    hashes = {task: bank.sha256 for task, bank in board.banks.items()}
    assert list(rows_of_journal(board, journal, hashes, None)[0]) == ["m6", "m7"]
    file = JournalFile(journal)
    list(file.read_new())
    file.append([Drop(model="m6", reason="its server is gone")])
    rows, left_out = rows_of_journal(board, journal, hashes, None)
    assert list(rows) == ["m7"] and left_out == {"m6": "its server is gone"}


@pytest.mark.long
@pytest.mark.parametrize("same", ["short", "perfect", "long"])
def test_only_long_answers_with_mistakes_are_alike_word_for_word(board, tables, tmp_path, same):
    """Who is right says what others say who are right; and everybody says 42."""
    logs = [some(table, ["m6", "m7"]) for table in tables.values()]
    place(board, written(tmp_path / "some", *logs))
    [journal] = (board.path / "journals").iterdir()
    records = list(JournalFile(journal).read_new())
    for n, record in enumerate(records):
        if isinstance(record, Tell):
            few = record.item[1] < 4  # documents with mistakes
            text = "42" if same == "short" else f"the answer to question {record.item} is 42"
            if same == "perfect" and few:
                text += f", says {record.model}"
            unit = 1.0 if same == "perfect" and not few else 0.5
            metric = next(iter(record.score))
            records[n] = replace(record, responses=[[text]], score={metric: unit})
    journal.unlink()
    JournalFile(journal).append(records)
    warnings = [text for texts in suspicions(board).values() for text in texts]
    assert any("word for word" in text for text in warnings) == (same == "long")


@pytest.mark.long
def test_the_first_documents_do_not_stand_for_the_others(tmp_path, ccat):
    chances = draw(np.linspace(-1, 1.5, 12), 60, seed=3)
    scores = (np.random.default_rng(0).random(chances.shape) < chances).astype(int).tolist()
    for name, row in zip(NAMES, scores):
        write_run(tmp_path / "full", name, rows_of(row))
    board = init(tmp_path / "board", tmp_path / "full")
    part = {"limit": 25.0, "samples": {"original": 60, "effective": 25}}
    write_run(tmp_path / "limited", "new", rows_of(scores[0][:25]), **part)
    before = board.ledger.rows()
    for action in ("place", "add"):
        err = ccat("board", action, board.path, tmp_path / "limited", code=4).err
        assert "new: left out: demo: run with --limit (25 of 60 documents)" in err
        assert "`board place DIR MODELS.yaml`" in err and "estimates the rest" not in err
    assert board.ledger.rows() == before


@pytest.mark.long
def test_who_was_limited_to_exactly_the_documents_of_the_board_is_placed(tmp_path):
    """The board is of the first 60 documents of 100, and so is the model's log."""
    part = {"limit": 60.0, "samples": {"original": 100, "effective": 60}}
    chances = draw(np.linspace(-1, 1.5, 12), 60, seed=3)
    scores = (np.random.default_rng(0).random(chances.shape) < chances).astype(int).tolist()
    for name, row in zip(NAMES, scores):
        write_run(tmp_path / "full", name, rows_of(row))
    board = init(tmp_path / "board", tmp_path / "full")
    write_run(tmp_path / "limited", "new", rows_of(scores[4][::-1]), **part)
    added = place(board, tmp_path / "limited")
    assert not added.left_out
    assert [(row.model, row.items) for row in added.rows] == [("new", 60)]


@pytest.mark.long
def test_models_are_not_placed_beside_rows_of_other_weights(board, tables, tmp_path, ccat):
    logs = written(tmp_path / "some", *(some(table, ["m6"]) for table in tables.values()))
    rules, before = board.path / "board.json", board.ledger.rows()
    stated = rules.read_text()
    rules.write_text(stated.replace('"equal"', '"documents"'))
    models = tmp_path / "models.yaml"
    models.write_text("models: [{name: new, model: dummy}]")
    for source in (logs, models):
        err = ccat("board", "place", board.path, source, code=2).err
        assert "`weights: documents` (errors 0.455, points 0.545)" in err
        assert "all of its 10 rows have other weights (errors 0.5, points 0.5)" in err
    assert board.ledger.rows() == before and not (board.path / ".runs").exists()
    told = (
        "10 of 10 models not comparable: other weights of the tasks (m0, m1, m2, ...): `board add`"
    )
    for action in ("publish", "check"):
        assert told in ccat("board", action, board.path).err
    # Both remedies: the weights as they were, and rows of the new ones.
    rules.write_text(stated)
    assert [row.model for row in place(board.path, logs, name="first").rows] == ["first"]
    rules.write_text(stated.replace('"equal"', '"documents"'))
    full = (table.without(["m6", "m7"]) for table in tables.values())
    add(board.path, written(tmp_path / "full", *full))
    assert [row.model for row in place(board.path, logs).rows] == ["m6"]


@pytest.mark.long
def test_a_task_of_which_no_bank_can_be_made_is_told(tmp_path, ccat):
    rng = np.random.default_rng(0)
    for task in ("ta", "tb"):
        scores = rng.random((9, 30))
        table = ScoreTable.from_arrays(scores, [f"m{j}" for j in range(9)], metric="acc", task=task)
        (tmp_path / "full").mkdir(exist_ok=True)
        table.write(tmp_path / "full" / f"{task}.csv")
    file = tmp_path / "full" / "ta.csv"
    file.write_text(file.read_text() + file.read_text().splitlines()[1] + "\n")
    said = ccat("board", "init", tmp_path / "board", "--from", tmp_path / "full")
    assert "a board of tb." in said.out and "ta acc: not on the board" in said.err


def test_a_resumed_run_holds_back_what_it_did_and_draws_as_it_did(tmp_path, monkeypatch):
    """Its board has gone on to another part since."""
    bank = ItemBank.blank(range(30), task="t", metric="acc")
    own, current = Reserve(1, 3), Reserve(0, 3)
    offered = without_reserve(bank, "t", own)
    rules = SimpleNamespace(reserve=3, max_items=20, exposure=2)
    board = SimpleNamespace(
        banks={"t": bank}, rules=rules, draws_at_random=True,
        ledger=SimpleNamespace(rows=list), current_reserve=lambda rows: current,
    )  # fmt: skip
    header = SimpleNamespace(ranker={"seed": 77})
    run = SimpleNamespace(read_header=lambda: header)
    monkeypatch.setattr(placing, "RunDirectory", lambda _: run)
    monkeypatch.setattr(placing, "bank_hashes_of", lambda _: {"t": offered.sha256})
    spec = Spec.read({"task": "t"})
    options = placing._options_of_board(board, spec, tmp_path)
    assert (options["seed"], options["bank"].sha256) == (77, offered.sha256)
    options = placing._options_of_board(board, spec, None)
    assert options["bank"].sha256 == without_reserve(bank, "t", current).sha256


def test_all_tasks_that_are_named_are_added(tmp_path):
    SuiteBank({n: ItemBank.blank([0], task=n) for n in ("a1", "a2", "b", "c")}).save(tmp_path)
    assert creating._tasks_named(tmp_path, "a*, c") == ["a1", "a2", "c"]
    with pytest.raises(UsageError, match="has no bank of task d; it has: a1, a2, b"):
        creating._tasks_named(tmp_path, "a1,d")


def test_files_that_are_gone_have_no_hash_and_others_keep_theirs(tmp_path):
    for name in ("kept", "new"):
        (tmp_path / name).write_text(name)
    keep_hashes(tmp_path, [tmp_path / "kept"])
    keep_hashes(tmp_path, [tmp_path / "new", tmp_path / "gone"])
    known = json.loads((tmp_path / HASHES).read_text())
    assert known == {name: hashlib.sha256(name.encode()).hexdigest() for name in ("kept", "new")}


def test_only_models_that_state_how_every_task_was_drawn_are_said_to_be_drawn_otherwise():
    def place_of(model, *configurations):
        tasks = {str(n): SimpleNamespace(configuration=c) for n, c in enumerate(configurations)}
        return SimpleNamespace(row=SimpleNamespace(model=model, tasks=tasks))

    greedy, drawn = {"model": "m"}, {"model": "m", "temperature": 0.7}
    usual = [place_of(name, greedy, greedy) for name in "abc"]
    for place_of_other, said in ((place_of("x", drawn, {}), 0), (place_of("x", drawn, drawn), 1)):
        notes = _drawn_otherwise(SimpleNamespace(placed=[*usual, place_of_other]))
        assert len(notes) == said and all("x (temperature 0.7)" in note for note in notes)


def test_a_row_that_states_no_weights_is_of_its_task_alone():
    banks = {task: ItemBank.blank(range(4), task=task, metric="acc") for task in "tu"}
    score = TaskScore(0.5, 0.4, 0.6, items=4, documents=4, metric="acc,none")
    for tasks, shares, why in (
        ("t", {"t": 1.0}, ""),
        ("tu", {"t": 0.5, "u": 0.5}, OTHER_WEIGHTS),
    ):
        row = BoardRow("m", FULL, 0.5, 0.4, 0.6, dict.fromkeys(tasks, score), "2026-01-31")
        of_tasks = {task: banks[task] for task in tasks}
        assert why_not_comparable(row, of_tasks, shares) == why
        assert why_not_comparable(replace(row, shares=shares), of_tasks, shares) == ""


def test_a_model_is_silent_of_its_configuration_unless_every_task_states_it():
    def row(model, *configurations):
        tasks = {str(n): SimpleNamespace(configuration=c) for n, c in enumerate(configurations)}
        return SimpleNamespace(model=model, tasks=tasks)

    known = {"model": "m"}
    for rows, said in (
        ([row("all", known, known)], []),
        ([row("all", known), row("part", known, {})], ["part"]),
    ):
        added = SimpleNamespace(rows=rows, notes=[])
        adding._say_unconfigured(added)
        assert added.notes == [f"the source states no configuration of {name}" for name in said]


def test_a_full_run_beside_one_of_some_documents_is_no_limited_one(tmp_path):
    part = {"limit": 3, "samples": {"original": 20, "effective": 3}}
    scores = [n % 2 for n in range(20)]
    write_run(tmp_path, "both", rows_of(scores))
    write_run(tmp_path, "both", rows_of(scores[:3]), day=2, **part)
    write_run(tmp_path, "part", rows_of(scores[:3]), **part)
    table = ScoreTable.from_arrays(np.zeros((1, 20)), ["both"], task="demo")
    reasons = admission.why_limited(tmp_path, "demo", table)
    assert list(reasons) == ["part"] and reasons["part"].startswith("demo: ")


def test_what_drawn_items_say_is_on_the_scale_of_the_metric():
    part = SimpleNamespace(samples={"m": Drawn(12, 0.4, 0.05)})
    assert _sample(part, "m", SCALES["errors"]) == pytest.approx([24.0, 2.0, 12.0])
    assert _sample(part, "other", SCALES["errors"]) is None


def test_the_score_of_a_row_is_told_with_the_documents_of_all_tasks():
    banks = {
        task: ItemBank.blank(range(n), task=task, metric="acc")
        for task, n in (("t", 60), ("u", 50))
    }
    for weights, words in (("equal", "equal weights"), ("documents", "weights by documents")):
        board = SimpleNamespace(banks=banks, rules=SimpleNamespace(weights=weights))
        assert _score_in_words(board) == f"average over 2 tasks (110 documents, {words})"
    single = SimpleNamespace(banks={"t": banks["t"]})
    assert _score_in_words(single) == "mean acc over the 60 documents of t"
    assert _metrics_in_words(single) == []


def test_the_page_says_by_which_metric_a_column_is_and_which_end_of_it_is_better():
    """A column of error rates looks like one of scores, and its best model like its worst."""
    metrics = {
        "en": ("ter", Scale(cap=100)), "a": ("acc", Scale()), "b": ("acc", Scale()),
    }  # fmt: skip
    banks = {
        task: ItemBank.blank(range(9), task=task, metric=metric, scale=scale)
        for task, (metric, scale) in metrics.items()
    }
    [text] = _metrics_in_words(SimpleNamespace(banks=banks))
    assert text == (
        "en: mean ter (0 upwards, capped at 100, lower is better); a, b: mean acc (0 to 1, higher "
        "is better). Each is put on 0 to 1, with 1 the best, before they are averaged."
    )
    [text] = _metrics_in_words(SimpleNamespace(banks={task: banks[task] for task in "ab"}))
    assert text == "a, b: mean acc (0 to 1, higher is better)."


@pytest.mark.parametrize(("empty", "left_out"), [(4, False), (5, False), (6, True)])
def test_a_model_may_leave_as_many_answers_empty_as_are_allowed(monkeypatch, empty, left_out):
    answers = [Tell(model="m", item=Item(("t", n)), score=0.0, empty=n < empty) for n in range(10)]
    monkeypatch.setattr(placing, "read_journal", lambda _: (None, answers))
    found = placing._mostly_empty(Path(), 0.5)
    assert list(found) == ["m"] * left_out


def test_full_results_are_proved_by_the_same_scores_and_the_same_gaps(monkeypatch):
    bank = ItemBank.blank(range(4), task="t", metric="acc")
    board = SimpleNamespace(banks={"t": bank}, path=Path())

    def table(*scores):
        return ScoreTable.from_arrays([scores], ["m"], task="t", metric="acc")

    added = table(1.0, 0.0, np.nan, 0.5)
    row = SimpleNamespace(score=adding.full_score(added, "m").score, evidence="scores.parquet")
    for evidence, proved in (
        (added, True), (table(1.0, 0.0, 0.5, np.nan), False), (table(0.0, 1.0, np.nan, 0.5), False),
    ):  # fmt: skip
        monkeypatch.setattr(adding, "read_beside", lambda *_, evidence=evidence: evidence)
        assert adding._proves(board, row, "t", added, "m") is proved


def test_only_full_results_of_logs_need_a_file_that_says_how_they_were_scored(tmp_path):
    for estimated, configuration, missing in (
        (False, {"model": "m"}, True), (True, {"model": "m"}, False), (False, {}, False),
    ):  # fmt: skip
        tasks = {"t": SimpleNamespace(configuration=configuration)}
        line = SimpleNamespace(row=SimpleNamespace(estimated=estimated, tasks=tasks))
        board = SimpleNamespace(
            path=tmp_path, ledger=SimpleNamespace(lines=lambda line=line: [line])
        )
        assert bool(unknown_scoring(board)) is missing


@pytest.fixture
def many_outcomes(tmp_path):
    """Tables of two tasks: one reports acc and f1 by two filters, the other acc alone."""
    folder, rng = tmp_path / "outcomes", np.random.default_rng(0)
    folder.mkdir()
    outcomes = [
        *(("first", metric, cut) for metric in ("acc", "f1") for cut in ("strict", "loose")),
        ("second", "acc", "none"),
    ]
    for task, metric, cut in outcomes:
        raw = rng.random((9, 30))
        table = ScoreTable.from_arrays(raw, list("abcdefghi"), metric=metric, task=task, filter=cut)
        table.write(folder / f"{task}.{metric}.{cut}.csv")
    return folder


@pytest.mark.long
@pytest.mark.parametrize(
    ("metric", "chosen"),
    [
        ("f1,strict,acc", {"first": ("f1", "strict"), "second": ("acc", "none")}),
        ("acc,loose", {"first": ("acc", "loose"), "second": ("acc", "none")}),
    ],
)
def test_each_task_of_a_board_takes_the_first_metric_and_the_filter_that_are_named(
    many_outcomes, tmp_path, ccat, metric, chosen
):
    ccat("board", "init", tmp_path / "b", "--from", many_outcomes, "--metric", metric)
    banks = Board(tmp_path / "b").banks
    assert {task: (bank.metric, bank.filter) for task, bank in banks.items()} == chosen
    assert len(standing(Board(tmp_path / "b")).placed) == 9


@pytest.mark.parametrize(
    ("metric", "says"),
    [
        ("acc", "by the filters loose, strict; name one (--metric acc,loose)"),
        ("f1,strict", "no results of metric f1, strict of 1 task (second reports acc)"),
    ],
)
def test_a_board_never_leaves_out_a_task_that_was_named(
    many_outcomes, tmp_path, ccat, metric, says
):
    line = ["--from", many_outcomes, "--task", "first,second", "--metric", metric]
    assert says in ccat("board", "init", tmp_path / "b", *line, code=2).err
    assert not (tmp_path / "b").exists()

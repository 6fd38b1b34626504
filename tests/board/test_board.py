"""A board from its first row to its check: what was tampered with is refused by name."""

from __future__ import annotations

import csv
import errno
import json
import re
import shutil
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import yaml
from worlds.bench import PROMPT, TASK
from worlds.boards import draw

from lm_eval_ccat import ItemBank, ScoreTable, calibrate, rank
from lm_eval_ccat.bank import SuiteBank
from lm_eval_ccat.board import Board, Checked, add, check, init, place, publish, standing
from lm_eval_ccat.board.cheats import _full_results, copies
from lm_eval_ccat.board.checking import in_words, unpublished_facts
from lm_eval_ccat.board.folder import (
    DRAFT,
    Reserve,
    Rules,
    keep_hashes,
    why_not_comparable,
    without_reserve,
)
from lm_eval_ccat.board.ledger import BoardLedger, BoardRow, TaskScore, sha256_of
from lm_eval_ccat.board.publish import _exposure_in_words
from lm_eval_ccat.errors import RunError, UsageError
from lm_eval_ccat.journal import JournalFile
from lm_eval_ccat.live.result import Observer
from lm_eval_ccat.ranker.verdicts import clearly_apart
from lm_eval_ccat.records import Tell
from lm_eval_ccat.scores.prompts import Prompts, mark_of
from lm_eval_ccat.upkeep.update import update


def all_sound(board: Board | Path) -> bool:
    return {one.verdict for one in check(board)} == {"sound"}


def hand_over(board: Board, bank: ItemBank) -> None:
    """Another bank in the place of the board's, with its hash."""
    SuiteBank({TASK: bank}).save(board.path / "suite")
    keep_hashes(board.path, (board.path / "suite").iterdir())


def edit(path: Path, number: int, **values: object) -> None:
    """Change a line of the ledger and leave its link."""
    lines = path.read_text().splitlines()
    lines[number] = json.dumps({**json.loads(lines[number]), **values})
    path.write_text("\n".join(lines) + "\n")


def rewrite(board: Board, rows: list[BoardRow]) -> None:
    """The whole ledger anew, with a chain that holds."""
    board.ledger.path.unlink()
    BoardLedger(board.ledger.path).append(rows)


@pytest.mark.long
def test_newcomers_stand_where_their_full_results_would(world, board):
    truth = world.bench.truth
    found = standing(board)
    assert [one.row.model for one in found.placed] == sorted(
        (one.row.model for one in found.placed), key=truth.__getitem__, reverse=True
    )
    lead = found.placed[0].lead
    assert found.headline == f"m10 is the best of 8, and leads m08 by {lead.in_words()}."
    for one in found.placed:
        row = one.row
        assert row.low <= truth[row.model] <= row.high < row.low + 0.15
        assert row.estimated == (row.model in ("m01", "m07"))
        if row.estimated:
            estimate, error, n = row.tasks[TASK].sample
            assert abs(estimate - truth[row.model]) < 4 * error and 10 <= n < row.items
            assert row.items == len(row.asked[TASK]) <= board.rules.max_items < row.documents == 120
            assert "exposure:5" in row.signature
            bank = without_reserve(board.banks[TASK], TASK, Reserve(*row.reserve))
            assert all(bank.kept[bank.index[d]] for d in row.asked[TASK])
            assert 70 < bank.kept.sum() < 120
        else:
            assert row.score == pytest.approx(truth[row.model]) and row.items == 120
    assert all_sound(board)
    assert not (board.path / ".runs" / "rank").exists()


def change_journal(board: Board) -> None:
    [journal] = (board.path / "journals").iterdir()
    journal.write_bytes(journal.read_bytes().replace(b'"score":1.0', b'"score":0.9', 1))


def change_scores(board: Board) -> None:
    [scores] = (board.path / "scores").iterdir()
    table = ScoreTable.read(scores)
    raw = table.raw.copy()
    raw[0, 0] = 1.0 - raw[0, 0]
    replace(table, raw=raw).write(scores)


@pytest.mark.long
@pytest.mark.parametrize(
    ("tamper", "refused"),
    [(change_journal, {"m01", "m07"}), (change_scores, {f"m{n:02}" for n in (0, 2, 4, 6, 8, 10)})],
)
def test_who_stands_on_tampered_evidence_is_refused_by_name(board, tamper, refused, ccat):
    tamper(board)
    said = ccat("board", "check", board.path, code=1).out
    lines = [line for line in said.splitlines() if "REFUSED" in line]
    assert {line.split(", ")[1].split(":")[0] for line in lines} == refused
    assert all("was changed (its hash differs)" in line for line in lines)
    publish(board, board.path / "site")
    content = json.loads((board.path / "site" / "board.json").read_text())
    assert not refused & {row["model"] for row in content["rows"]}
    apart = content["not_comparable"]
    assert {row["model"] for row in apart} == refused
    assert all("refused" in row["reason"] for row in apart)


@pytest.mark.long
def test_every_figure_of_a_row_is_recomputed(board):
    """One row for each figure that is another than its evidence gives."""
    rows = {row.kind: row for row in board.ledger.rows()}
    changed = [replace(row, **{end: getattr(row, end) + 0.01})
               for row in rows.values() for end in ("score", "low", "high")]  # fmt: skip
    estimate = rows["estimate"]
    task, asked = estimate.tasks[TASK], estimate.asked[TASK]
    not_asked = next(doc_id for doc_id in range(120) if doc_id not in asked)
    for figures in ({"low": 0.0}, {"high": 1.0}, {"items": 1}, {"documents": 121}, {"repeats": 2},
                    {"sample": [1.0, *task.sample[1:]]}, {"sample": None}):  # fmt: skip
        changed.append(replace(estimate, tasks={TASK: replace(task, **figures)}))
    changed += [replace(row, confidence=0.5) for row in rows.values()]
    changed.append(replace(estimate, asked={TASK: [*asked[:-1], not_asked]}))
    changed.append(replace(rows["full"], tasks={TASK: replace(rows["full"].tasks[TASK], items=1)}))
    rewrite(board, [*rows.values(), *changed])
    sound, refused = [], []
    for checked in check(board):
        (sound if checked.verdict == "sound" else refused).append(checked)
    assert [checked.number for checked in sound] == [1, 2]
    ends, of_task = ["score", "interval", "interval"], f"interval of {TASK}"
    other = "recorded other items than the journal"
    at_random = f"random items of {TASK}"
    named = [
        *ends, *ends, of_task, of_task, "items", "documents", f"repeats of {TASK}", at_random,
        at_random, "confidence", "confidence", other, "items",
    ]  # fmt: skip
    assert [checked.reason.split(":")[0] for checked in refused] == named


@pytest.mark.long
def test_full_results_are_of_this_task_and_of_all_its_documents(tmp_path):
    """A row may name any file of the board: scores on an easier task, or on easier documents."""
    models, easy, hard = ["a", "b", "c"], tmp_path / "t" / "easy.parquet", "hard"
    easy.parent.mkdir()
    right = np.tile([1.0, 1.0, 1.0, 0.0], (3, 10))
    for task, raw in (("easy", right), (hard, 1.0 - right)):
        table = ScoreTable.from_arrays(raw, models, task=task, metric="acc")
        table.write(easy.with_stem(task))
    board = init(tmp_path / "board", easy.parent)
    first, *others = board.ledger.rows()
    whole = ScoreTable.read(easy.with_stem(hard)).select(["a"])
    solved = whole.take(np.flatnonzero(whole.raw[0] == 1.0))
    elsewhere = replace(whole, raw=right[:1], doc_ids=tuple(range(40, 80)))

    def claimed(hard_score: TaskScore) -> BoardRow:
        """A row with this score on the hard task, and the average that goes with it."""
        overall = (first.tasks["easy"].score + hard_score.score) / 2
        about = {"score": overall, "low": overall, "high": overall}
        return replace(first, **about, tasks={**first.tasks, hard: hard_score})

    def kept(name: str, table: ScoreTable) -> TaskScore:
        """The score by a table that is put into the board's folder."""
        file = board.path / "scores" / f"{name}.parquet"
        table.write(file)
        mean = float(table.raw.mean())
        return replace(
            first.tasks[hard], score=mean, low=mean, high=mean, items=table.n_items,
            evidence=f"scores/{file.name}", sha256=sha256_of(file),
        )  # fmt: skip

    scores = first.tasks["easy"], kept("solved", solved), kept("elsewhere", elsewhere)
    rows = [*map(claimed, scores), *others]
    rewrite(board, rows)
    assert [checked.verdict for checked in check(board)] == [*["refused"] * 3, "sound", "sound"]
    task, some, other, *_ = (checked.reason for checked in check(board))
    assert "no scores of task 'hard'; it has easy" in task
    assert some == "documents: recorded 80, now 50"
    assert "documents of hard that are not the board's (doc_id 40, 41, 42, ...)" in other
    rewrite(board, [first, *others])
    assert all_sound(board)


@pytest.mark.long
@pytest.mark.parametrize("way", ["path", "link"])
def test_a_file_outside_the_board_proves_nothing(board, tmp_path, way):
    """Whoever clones the board would not have it."""
    *_, last = [row for row in board.ledger.rows() if not row.estimated]
    [(file, sha256)] = last.evidence.items()
    shutil.copy(board.path / file, tmp_path / "outside.parquet")
    elsewhere = "../outside.parquet" if way == "path" else "scores/link.parquet"
    if way == "link":
        (board.path / elsewhere).symlink_to(tmp_path / "outside.parquet")
    tasks = {t: replace(s, evidence=elsewhere, sha256=sha256) for t, s in last.tasks.items()}
    board.ledger.append([replace(last, model="new", tasks=tasks)])
    *_, checked = check(board)
    assert (checked.model, checked.verdict) == ("new", "refused")
    assert checked.reason == f"{elsewhere} lies outside the board"


def test_a_file_that_is_not_there_has_no_hash_that_a_row_could_state(board):
    *others, last = [row for row in board.ledger.rows() if not row.estimated]
    tasks = {t: replace(s, evidence="scores/x", sha256="") for t, s in last.tasks.items()}
    rewrite(board, [*others, replace(last, model="new", tasks=tasks)])
    publish(board, board.path / "site")
    content = json.loads((board.path / "site" / "board.json").read_text())
    assert [row["model"] for row in content["not_comparable"]] == ["new"]


def test_a_ledger_without_the_end_of_its_last_line_goes_on_after_it(board):
    path, row = board.ledger.path, board.ledger.rows()[0]
    path.write_bytes(path.read_bytes().rstrip(b"\n"))
    board.ledger.append([replace(row, model="new")])
    assert [line.damage for line in board.ledger.lines()] == [""] * 9


def test_a_full_disk_leaves_no_part_of_a_row(board, monkeypatch):
    before, row = board.ledger.path.read_bytes(), board.ledger.rows()[0]

    def full(handle):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("lm_eval_ccat.board.ledger.sync_file", full)
    with pytest.raises(RunError, match=r"ledger\.jsonl"):
        board.ledger.append([replace(row, model="new")])
    assert board.ledger.path.read_bytes() == before


def test_an_estimate_is_refused_without_its_bank(board):
    blank = ItemBank.blank(range(120), task=TASK, metric="share")
    hand_over(board, blank)
    found = {one.model: one.reason for one in check(board.path)}
    assert "the board has no bank" in found["m07"] and not found["m00"]


@pytest.mark.parametrize("change", ["date", "lost", "hashes"])
def test_banks_that_were_changed_outside_their_checksum_are_named(board, change, ccat):
    [bank] = (board.path / "suite").glob("*.bank.json")
    file = {"date": bank, "lost": bank, "hashes": board.path / "hashes.json"}[change]
    if change == "date":
        changed = re.sub('"made": *"[0-9-]+"', '"made": "2020-01-01"', bank.read_text())
        assert changed != bank.read_text() and ItemBank.load(bank).made != "2020-01-01"
        bank.write_text(changed)
        assert ItemBank.load(bank).made == "2020-01-01"
    else:
        file.unlink()
    said = ccat("board", "check", board.path, code=1)
    assert str(file) in said.out + said.err and "from git or another copy" in said.out + said.err
    assert str(file) in ccat("board", "publish", board.path, code=1).err


def test_a_board_whose_suite_lost_a_task_is_named(tmp_path, ccat):
    banks = {task: ItemBank.blank(range(9), task=task, metric="acc") for task in ("ta", "tb")}
    SuiteBank(banks).save(tmp_path / "suite")
    board = init(tmp_path / "board", tmp_path / "suite")
    ccat("board", "check", board.path)
    suite = board.path / "suite" / "suite.json"
    content = json.loads(suite.read_text())
    del content["tasks"]["tb"]
    suite.write_text(json.dumps(content))
    err = ccat("board", "check", board.path, code=1).err
    assert f"{suite} was changed" in err and "restore it from git or another copy" in err


@pytest.mark.long
def test_who_mends_every_hash_is_found_by_the_figures(board):
    """A better score with its line's checksum, its file's hash and the ledger's chain anew."""
    [journal] = (board.path / "journals").iterdir()
    records = list(JournalFile(journal).read_new())
    low = next(
        n for n, record in enumerate(records)
        if isinstance(record, Tell) and record.model == "m01" and record.score < 0.5
    )  # fmt: skip
    records[low] = replace(records[low], score=1.0)
    journal.unlink()
    JournalFile(journal).append(records)
    mended = [
        replace(row, tasks={t: replace(s, sha256=sha256_of(journal)) for t, s in row.tasks.items()})
        if row.estimated
        else row
        for row in board.ledger.rows()
    ]
    head = board.ledger.head()
    rewrite(board, mended)
    refused = {one.model: one.reason for one in check(board) if one.verdict == "refused"}
    assert refused["m01"].startswith("score: recorded 0.") and ", now 0." in refused["m01"]
    assert board.ledger.head() != head, "and whoever wrote the chain anew has another last link"


@pytest.mark.long
def test_check_names_every_changed_row_and_the_files_to_restore(board, ccat):
    originals = {path: path.read_bytes() for path in (board.ledger.path, *board.path.glob("j*/*"))}
    for number, score in ((0, 0.99), (3, 0.98), (6, 0.97)):  # the last two rows share a journal
        edit(board.ledger.path, number, score=score)
    change_journal(board)
    said = ccat("board", "check", board.path, code=1).out.splitlines()
    refused = [line.split(", ")[0] for line in said if "REFUSED" in line]
    assert sorted(refused) == ["row 1", "row 4", "row 7", "row 8"]
    assert "4 sound, " in said[-2] and "4 refused" in said[-2]
    [journal] = [path.relative_to(board.path) for path in originals if path != board.ledger.path]
    damaged = said[-1].removeprefix("Restore ").partition(" from git or another copy")[0]
    assert set(damaged.split(", ")) == {"ledger.jsonl", str(journal)}
    for file in damaged.split(", "):
        (board.path / file).write_bytes(originals[board.path / file])
    assert all_sound(board)


def test_a_reason_that_many_rows_share_is_told_of_the_first_rows():
    rows = [Checked(n, f"m{n}", "refused", "t.parquet is missing") for n in range(1, 301)]
    lines = in_words([*rows, Checked(301, "m301", "refused", "score: recorded 1, now 0")])
    assert lines[20:] == [
        "280 more rows for the same reason: t.parquet is missing",
        "row 301, m301: REFUSED: score: recorded 1, now 0",
    ]


@pytest.mark.parametrize("content", ["[]", "null", "3", "{", "[" * 9999, '{"format": []}', "{}"])
def test_rules_that_are_none_are_refused_by_the_name_of_their_file(board, content, ccat):
    (board.path / "board.json").write_text(content)
    for action in ("check", "publish"):
        err = ccat("board", action, board.path, code=1).err
        assert "board.json: not readable as a board's rules" in err and "restore it from git" in err


def test_a_board_without_its_ledger_or_its_scores_is_told_and_publishes_nothing_empty(
    board, tmp_path, ccat
):
    ledger = board.ledger.path.read_text()
    for damage in (board.ledger.path.unlink, board.ledger.path.touch):
        damage()
        for action in ("check", "publish"):
            err = ccat("board", action, board.path, code=1).err
            assert "ledger.jsonl: no rows, but scores/" in err and "restore the ledger" in err
    board.ledger.path.write_text("".join(ledger.splitlines(keepends=True)[:6]))
    err = ccat("board", "check", board.path).err  # the rows of the journal were taken out
    assert "warning: journals/" in err and "no row names them" in err
    board.ledger.path.write_text(ledger)
    [scores] = (board.path / "scores").iterdir()
    scores.rename(tmp_path / scores.name)
    err = ccat("board", "publish", board.path).err
    assert f"warning: 6 of 8 rows stand apart: scores/{scores.name} is missing" in err
    assert f"restore scores/{scores.name} from git" in err
    shutil.rmtree(board.path / "journals")
    before = (board.path / "site" / "index.html").read_text()
    assert "nothing proves any row" in ccat("board", "publish", board.path, code=1).err
    assert (board.path / "site" / "index.html").read_text() == before


@pytest.mark.long
def test_results_that_are_left_out_leave_no_scores_behind(world, board, tmp_path, ccat):
    other = ScoreTable.read(world.scores(tmp_path / "m.parquet", ["m02"]))
    raw = other.raw.copy()
    raw[0, 0] += 0.1 if raw[0, 0] < 0.5 else -0.1
    replace(other, raw=raw).write(tmp_path / "other.parquet")
    assert "full results of" in add(board, tmp_path / "other.parquet").left_out["m02"]
    assert "no row names" not in ccat("board", "check", board.path).err


def test_a_table_of_facts_with_unknown_or_repeated_models_is_told(board, tmp_path, ccat):
    facts = board.path / "models.csv"
    facts.write_text("model,size\nm00,7B\nM01,3B\nm-2,3B\n")
    err = ccat("board", "publish", board.path, "-o", tmp_path / "site").err
    assert "warning: models.csv: 2 models not on the board: M01, m-2" in err
    for row, says in (("m00,9B", "line 4: another row of m00; keep"), (",9B", "line 4: no model")):
        facts.write_text(f"model,size\nm00,7B\nm01,3B\n{row}\n")
        assert says in ccat("board", "publish", board.path, code=1).err


@pytest.mark.parametrize("change", [{"score": 0.99}, {"score": 0.99, "chain": "0" * 64}, None])
def test_a_changed_ledger_is_refused_at_its_row(board, change):
    path, hit = board.ledger.path, "m04"
    if change is None:  # taken out
        lines = path.read_text().splitlines()
        path.write_text("\n".join(lines[:2] + lines[3:]) + "\n")
        hit = "m06"
    else:
        edit(path, 2, **change)
    first = next(line for line in board.ledger.lines() if line.damage)
    assert first.model == hit and "chain is broken" in first.damage
    for refused in (lambda: publish(board, board.path / "site"), lambda: board.ledger.append([])):
        with pytest.raises(RunError, match=rf"model '{hit}'.*chain is broken"):
            refused()


@pytest.mark.long
def test_a_row_of_an_older_version_is_shown_and_not_refused(board, ccat):
    *rest, last = board.ledger.rows()
    better = replace(last, score=last.score + 0.01)
    rewrite(board, [*rest, replace(better, made_by="0.0.9")])
    ccat("board", "check", board.path)
    rewrite(board, [*rest, replace(better, made_by="0.0.9"), better])
    *_, older, refused = check(board)
    assert str(older).startswith(f"row 8, {last.model}: older: made by 0.0.9: score: recorded ")
    assert refused.verdict == "refused" and refused.reason.startswith("score: recorded ")


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({}, ""),
        ({"documents": 200}, f"200 documents of {TASK}, not 120"),
        ({"version": "1.0"}, f"version 1.0 of {TASK}, not 2.0"),
        ({"metric": "bleu,none"}, f"bleu,none of {TASK}, not share,none"),
        ({"bank": "0" * 64}, f"a bank of {TASK} from which the board's does not descend"),
        (None, f"no results on {TASK}"),
    ],
)
def test_only_results_of_the_same_benchmark_are_compared(board, change, reason):
    row = board.ledger.rows()[0]
    tasks = {} if change is None else {TASK: replace(row.tasks[TASK], **change)}
    banks = {TASK: replace(board.banks[TASK], settings={"task_version": 2.0})}
    assert why_not_comparable(replace(row, tasks=tasks), banks, board.shares) == reason
    if not reason:
        other = replace(row, shares={TASK: 0.5})
        assert why_not_comparable(other, banks, board.shares) == "other weights of the tasks"


def test_full_results_count_before_an_estimate(world, board, tmp_path):
    full = world.scores(tmp_path / "full.parquet", ["m07", "m09"])

    def now(model):
        return [one.row for one in standing(board).placed if one.row.model == model]

    # Those of the same documents take its place; it stays in the history.
    assert [row.model for row in add(board, full).rows] == ["m07", "m09"]
    better = replace(now("m07")[0], kind="estimate", score=1.0, low=0.9, high=1.0)
    board.ledger.append([better])
    history = [row.kind for row in standing(board).history["m07"]]
    assert history == ["estimate", "full", "estimate"]
    assert [row.kind for row in now("m07")] == ["full"]
    assert add(board, full).rows == [] and len(board.ledger.rows()) == 11


@pytest.mark.long
@pytest.mark.parametrize("change", ["more", "ids", "hashes", "prompts"])
def test_results_on_other_documents_or_prompts_are_left_out(world, board, tmp_path, change, ccat):
    """As many documents are no proof that they are the board's."""
    table = ScoreTable.read(world.scores(tmp_path / "full.parquet", ["m07", "m09"]))
    hashes = tuple(f"{n:064x}" for n in range(120))
    marks = Prompts.of_rows([["0a1b2c3d"] * 120] * 2)
    table = replace(table, doc_hashes=hashes, prompts=marks)
    bank = replace(board.banks[TASK], doc_hashes=hashes, prompts=("0a1b2c3d",) * 120)
    hand_over(board, bank)
    if change == "more":
        raw = np.hstack([table.raw, table.raw[:, :1]])
        table = ScoreTable.from_arrays(raw, table.models, metric="share", task=TASK)
        said = f"1 of its 121 documents of {TASK} are not the board's (doc_id 120)"
    elif change == "ids":
        table = replace(table, doc_ids=tuple(range(1, 121)), doc_hashes=(*hashes[1:], "f" * 64))
        said = "documents of loopback_task are not the board's (doc_id 120)"
    elif change == "hashes":
        table = replace(table, doc_hashes=("f" * 64, *hashes[1:]))
        said = "1 of its 120 documents of loopback_task are not the board's (doc_id 0)"
    else:
        table = replace(table, prompts=Prompts.of_rows([["4e5f6a7b"] * 120] * 2))
        said = "prompt of document 0 is 0a1b2c3d in the bank and 4e5f6a7b in the source"
    table.write(tmp_path / "other.parquet")
    for action in ("add", "place"):  # of answers to other documents no estimate is made either
        err = ccat("board", action, board.path, tmp_path / "other.parquet", code=4).err
        assert err.count(said) == 1 and "m07, m09: left out: " in err
        other_documents = change in ("more", "ids", "hashes")
        assert ("begin a board of these prompts: `lm-eval-ccat" in err) != other_documents
    assert len(Board(board.path).ledger.rows()) == 8
    if change != "more":
        same = replace(table, doc_ids=tuple(range(120)), doc_hashes=hashes, prompts=marks)
        same.write(tmp_path / "same.parquet")
        added = add(board.path, tmp_path / "same.parquet")
        said = "the source states no configuration of m07, m09"
        assert len(added.rows) == 2 and added.notes == [said]
        silent = replace(same, doc_hashes=None, prompts=None)  # by ids alone they may be others
        silent.write(tmp_path / "silent.parquet")
        for action in ("add", "place"):
            err = ccat("board", action, board.path, tmp_path / "silent.parquet", code=(0, 4)).err
            assert err.count("states no hashes of documents, so ids alone name them") == 1
            assert err.count("prompts unknown: the source does not state them") == 1


@pytest.mark.long
def test_a_run_that_accepted_other_prompts_is_not_placed(world, board, ccat):
    bench, ours = world.bench, board.banks[TASK]
    prompts = {name: tuple(mark_of(text.format(id=doc_id)) for doc_id in ours.doc_ids)
               for name, text in (("other", "Say {id}."), ("same", PROMPT))}  # fmt: skip
    for name in prompts:
        hand_over(board, replace(ours, prompts=prompts[name]))
        bank = board.path.parent / f"{name}.bank.json"
        Board(board.path).banks[TASK].save(bank)
        settings = {"bank": str(bank), "max_items": 12, "name": name}
        config = bench.config(world.server.url, ["m03"], **settings)
        accepting = ["--accept_change", "prompts"] if name == "other" else []
        ccat("rank", config, *accepting, code=(0, 3))
        run, rows = bench.run(name), len(Board(board.path).ledger.rows())
        shown = ccat("board", "place", board.path, run, code=4 if accepting else 0)
        assert len(Board(board.path).ledger.rows()) == rows + (not accepting)
        assert "prompts unknown" not in shown.err
        if accepting:
            said = f"m03: left out: {TASK}: the prompt of document 0 is {mark_of('Say 0.')} in"
            assert said in shown.err
            config = bench.config(world.server.url, ["m05"], accept_change="prompts")
            refused = ccat("board", "place", board.path, config, code=2).err
            assert "rows of a board answer the same prompts" in refused


def test_ranks_and_leads_count_the_longer_arm_of_an_interval(board):
    first = standing(board).placed[0].row
    wide = replace(first, model="wide", low=0.0, high=first.score + 0.001, kind="estimate")
    board.ledger.append([wide, replace(wide, model="wider", low=0.1)])
    found = standing(board)
    [place] = [place for place in found.placed if place.row == wide]
    assert (place.best, place.worst) == (1, 10)
    # Nobody decides between the three, though one of them is the first.
    assert found.headline.startswith("3 models may be the best of 10; ")
    for place, following in zip(found.placed, found.placed[1:]):
        gap = place.row.score - following.row.score
        arms = [max(p.row.high - p.row.score, p.row.score - p.row.low) for p in (place, following)]
        lead = (place.lead.difference, place.lead.low, place.lead.high)
        assert lead == pytest.approx((gap, gap - np.hypot(*arms), gap + np.hypot(*arms)))


def test_a_row_that_can_be_compared_takes_the_place_of_one_that_cannot(board):
    row = replace(board.ledger.rows()[0], model="again")
    other = replace(row, tasks={TASK: replace(row.tasks[TASK], documents=200)})
    board.ledger.append([other])
    assert [apart.model for apart, _ in standing(board).apart] == ["again"]
    board.ledger.append([row])
    found = standing(board)
    assert not found.apart and row in [place.row for place in found.placed]
    assert found.history["again"] == [other, row]


@pytest.mark.long
def test_items_that_the_bank_dropped_are_no_part_of_a_placement(world, board, tmp_path):
    """What says nothing of a model in the bank says nothing of a new one."""
    bank = board.banks[TASK]
    dropped = [5, 17, 40]
    kept = bank.kept & ~np.isin(np.arange(bank.n_items), dropped)
    hand_over(board, replace(bank, kept=kept))
    part = world.scores(tmp_path / "part.parquet", ["m05"], documents=50)
    now = Board(board.path)
    [row] = place(now, part).rows
    expected = [doc_id for doc_id in range(50) if kept[bank.index[doc_id]]]
    assert sorted(row.asked[TASK]) == expected and row.items == len(expected) < 50
    assert [checked.verdict for checked in check(now)][-1] == "sound"


@pytest.mark.long
def test_logs_of_some_documents_are_placed(world, board, tmp_path):
    part = world.scores(tmp_path / "part.parquet", ["m05"], documents=50)
    added = add(board, part)
    assert not added.rows and "50 of 120 documents" in added.left_out["m05"] and added.partial
    [row] = place(board, part, name="five").rows
    assert row.items == 50 and row.model == "five" and row.in_journal == "m05"
    assert row.low < world.bench.truth["m05"] < row.high
    assert all_sound(board)
    assert place(board, part, name="five").left_out["five"].endswith("in the ledger already")
    two = world.scores(tmp_path / "two.parquet", ["m03", "m05"], documents=20)
    with pytest.raises(UsageError, match=r"--name is for one model; here are m03, m05"):
        place(board, two, name="three")


@pytest.mark.long
def test_a_stranger_s_run_counts_by_its_bank(world, board, tmp_path):
    options = {"budget": {"items": 40}, "stop": "limits"}
    rank(world.config(["m05"], bank=str(board.path / "suite"), **options), run_dir=tmp_path / "own")
    [row] = place(board, tmp_path / "own").rows
    assert row.reserve is None and row.items == 40
    # A bank of the stranger's own: verified all the same, and not comparable.
    rank(world.config(["m09"], bank="default.bank.json", **options), run_dir=tmp_path / "other")
    [other] = place(board, tmp_path / "other").rows
    [(apart, reason)] = standing(board).apart
    assert apart == other and "from which the board's does not descend" in reason
    assert all_sound(board)


@pytest.mark.long
def test_a_run_at_another_confidence_gets_the_board_s_intervals(world, board, tmp_path):
    rows = {}
    for confidence, looks in ((0.95, "every"), (0.51, "one")):
        options = {"budget": {"items": 40}, "stop": "limits", "seed": 5}
        folder = tmp_path / looks
        config = world.config(
            ["m05"], bank=str(board.path / "suite"), confidence=confidence, looks=looks,
            model_args={"max_length": 2048 if looks == "one" else 1024}, **options,
        )  # fmt: skip
        rank(config, run_dir=folder)
        [rows[looks]] = place(board, folder, name=looks).rows
    low, high = ((row.tasks[TASK].low, row.tasks[TASK].high) for row in rows.values())
    assert low == pytest.approx(high) and rows["one"].confidence == 0.95
    assert rows["one"].score == pytest.approx(rows["every"].score)
    assert all_sound(board)


@pytest.mark.long
def test_a_model_is_placed_once(world, board, tmp_path):
    """Else whoever asks again and again keeps the luckiest row."""
    asked = [world.server.requests(model) for model in ("m00", "m03", "m07")]
    for config in (world.config(["m03", "m07"]), world.config(["m00"])):
        with pytest.raises(UsageError, match=r"m0[70] stands on the board since .* --name"):
            place(board, config)
    assert asked == [world.server.requests(model) for model in ("m00", "m03", "m07")]
    options = {"budget": {"items": 80}, "stop": "limits"}
    config = world.config(["m07", "m09"], bank=str(board.path / "suite"), **options)
    rank(config, run_dir=tmp_path / "own")
    added = place(board, tmp_path / "own")
    assert [row.model for row in added.rows] == ["m09"] and added.partial
    assert added.left_out["m07"].startswith("m07 stands on the board since ")
    # A configuration of its own has a name of its own.
    short = {"include_path": "tasks", "gen_kwargs": {"max_gen_toks": 32}}
    [row] = place(board, world.config(["m07"], confidence=0.6, harness=short), name="short").rows
    assert row.model == "short" and row.confidence == 0.95
    # The same one under another name is a second chance to be lucky: by the model, or by a run.
    for name, here in (("m07", {}), ("short", {"harness": short})):
        asked = world.server.requests("m07")
        with pytest.raises(UsageError, match=rf"as {name} in the same configuration, and is not"):
            place(board, world.config(["m07"], **here), name="again")
        assert asked == world.server.requests("m07")
        run = tmp_path / name
        rank(world.config(["m07"], bank=str(board.path / "suite"), **options, **here), run_dir=run)
        assert f"as {name} in the same" in place(board, run, name="again").left_out["again"]
    # Another address, or name in one configuration, is no other model.
    config = yaml.safe_load(world.config(["m05", "m07"]).read_text())
    arguments = {**config["models"][1]["model_args"], "base_url": "http://127.0.0.1:1/v1"}
    config["models"][1] = {**config["models"][1], "name": "moved", "model_args": arguments}
    with pytest.raises(UsageError, match=r"moved stands on the board since .*, as m07 in the same"):
        place(board, config)
    config["models"][1]["model_args"] |= {"model": "m05"}
    with pytest.raises(UsageError, match="m05 and moved are one configuration"):
        place(board, config)


@pytest.mark.long
def test_a_task_may_be_named_by_its_file(world, board, ccat):
    """Alone, beside `include_path`, or as a file that includes another of another folder."""
    own = world.bench.folder / "own"
    own.mkdir(exist_ok=True)
    (own / "mine.yaml").write_text(f"include: ../tasks/{TASK}.yaml\ntask: {TASK}\n")
    asked = world.server.requests("m03")
    for model, name, file, harness in (
        ("m03", "by-file", f"tasks/{TASK}.yaml", {}),
        ("m05", "beside", f"tasks/{TASK}.yaml", {"include_path": "tasks"}),
        ("m09", "including", "own/mine.yaml", {"include_path": "tasks"}),
    ):
        here = {"harness": harness, "of": {model: {"name": name}}}
        config = world.config([model], task=file, **here)
        [row] = json.loads(ccat("board", "place", board.path, config, "--json").out)["rows"]
        assert row["model"] == name and list(row["tasks"]) == [TASK]
    assert world.server.requests("m03") > asked and all_sound(board)
    (world.bench.folder / "other.yaml").write_text("task: something_else\n")
    with pytest.raises(UsageError, match=rf"other.yaml defines no task of the board \({TASK}\)"):
        place(board, world.config(["m11"], task="other.yaml"))


@pytest.mark.long
def test_an_interrupted_place_goes_on(world, board, monkeypatch):
    class Impatient(Observer):
        def tick(self) -> None:
            raise KeyboardInterrupt

    config = world.config(["m03"], name="late")
    with pytest.raises(RunError, match="run the same command to continue"):
        place(board, config, observer=Impatient())
    monkeypatch.setattr("lm_eval_ccat.board.placing.randbits", lambda bits: 9)
    [row] = place(board, config).rows
    assert row.model == "m03" and "seed:7" in row.signature, "the seed that it began with"
    assert all_sound(board)


@pytest.mark.long
def test_an_interrupted_place_of_other_settings_says_what_to_type(world, board):
    class Impatient(Observer):
        def tick(self) -> None:
            raise KeyboardInterrupt

    with pytest.raises(RunError, match="run the same command"):
        place(board, world.config(["m03"], name="late"), observer=Impatient())
    include = {"include_path": str(world.bench.folder / "tasks")}
    changed = {"harness": {**include, "gen_kwargs": {"max_gen_toks": 32}}}
    with pytest.raises(RunError, match="cannot resume") as refused:
        place(board, world.config(["m03"], name="late", **changed))
    said = str(refused.value)
    assert "run_dir" not in said and "--resume" not in said
    prior = said.partition("`prior: ")[2].partition("`")[0]
    [row] = place(board, world.config(["m03"], name="another", prior=prior, **changed)).rows
    assert row.model == "m03" and all_sound(board)


def test_a_folder_of_banks_begins_a_board_whatever_their_names(tmp_path):
    source = tmp_path / "banks"
    ItemBank.blank(range(9), task="t", metric="acc").save(source / "mine.json")
    (source / "notes.json").write_text("{}")
    assert list(init(tmp_path / "board", source).banks) == ["t"]
    packed = tmp_path / "mine.bank.json.gz"
    ItemBank.load(source / "mine.json").save(packed)
    assert list(init(tmp_path / "of_packed", packed).banks) == ["t"]


@pytest.mark.long
def test_a_board_begins_by_saying_who_lacks_documents(tmp_path, ccat):
    scores = draw(np.linspace(-1, 1, 8), 40, seed=1)
    scores[3, :5] = np.nan
    table = ScoreTable.from_arrays(scores, list("abcdefgh"), metric="share", task="t")
    table.write(tmp_path / "full.parquet")
    said = ccat("board", "init", tmp_path / "board", "--from", tmp_path / "full.parquet")
    assert "warning: d: left out: it has 35 of 40 documents of t; `board place`" in said.err
    assert "of 7" in said.out
    # Begun again, it says so before it calibrates anything or names a model.
    error = ccat("board", "init", tmp_path / "board", "--from", tmp_path / "nowhere", code=2).err
    assert f"board is a board already: add models with `lm-eval-ccat board add {tmp_path}" in error
    assert "warning" not in error


@pytest.mark.long
@pytest.mark.long
def test_a_model_is_asked_as_many_items_as_the_board_says_though_its_pairs_are_decided(
    world, board
):
    """Every pair is equivalent at once; the intervals that the board compares are still wide."""
    [row] = place(board, world.config(["m11"], min_difference=0.9)).rows
    assert row.items == board.rules.max_items == 40
    [early] = place(board, world.config(["m09"], stop="se 0.4")).rows
    assert early.items < 40


def test_new_banks_wait_for_whoever_writes_to_the_board(tmp_path, monkeypatch):
    monkeypatch.setattr("lm_eval_ccat.board.folder._LOCK_SECONDS", 0.05)
    ItemBank.blank(range(9), task="t", metric="acc").save(tmp_path / "t.bank.json")
    board = init(tmp_path / "board", tmp_path / "t.bank.json", name="before")
    with board.locked(), pytest.raises(RunError, match="another process is writing"):
        init(board.path, tmp_path / "t.bank.json", name="after")
    assert Board(board.path).rules.name == "before"


def test_banks_of_one_lineage_are_compared(world, board, tmp_path):
    bank = board.banks[TASK]
    more = ScoreTable.read(world.scores(tmp_path / "more.parquet", ["m09", "m11"]))
    old = ScoreTable.read(world.scores(tmp_path / "old.parquet", list(bank.models)))
    SuiteBank({TASK: update(bank, more, old)}).save(tmp_path / "updated")
    init(board.path, tmp_path / "updated")
    assert not standing(Board(board.path)).apart
    SuiteBank({TASK: replace(calibrate(more, "paper"), task=TASK)}).save(tmp_path / "fresh")
    init(board.path, tmp_path / "fresh")
    now = Board(board.path)
    assert {row.model for row, _ in standing(now).apart} == {"m01", "m07"}
    assert all_sound(now), "by the banks they were made with"


@pytest.mark.long
def test_a_line_end_in_a_name_ends_no_line(tmp_path, ccat):
    names = ["best\nrow", *"abcdefgh"]
    raw = np.random.default_rng(0).binomial(10, np.linspace(0.9, 0.2, 9)[:, None], (9, 60)) / 10
    table = ScoreTable.from_arrays(raw, names, metric="share", task="t")
    table.write(tmp_path / "table.parquet")
    said = ccat("board", "init", tmp_path / "board", "--from", tmp_path / "table.parquet")
    assert ". best␊row is the best of 9, and leads a by" in said.out and "\nrow" not in said.err
    new = ScoreTable.from_arrays(raw[1:2], ["new\nb: 1.0, rank 1"], metric="share", task="t")
    new.write(tmp_path / "new.parquet")
    said = ccat("board", "add", tmp_path / "board", tmp_path / "new.parquet")
    assert said.out.startswith("new␊b: 1.0, rank 1: 0.") and "\nb: 1.0" not in said.err


@pytest.mark.long
def test_a_folder_of_tables_is_a_board_of_several_tasks(tmp_path, ccat):
    rng = np.random.default_rng(0)
    names = [f"m{j}" for j in range(12)]
    tables = {}
    for task, n in (("first", 60), ("second", 90)):
        raw = rng.binomial(10, draw(np.linspace(-1, 1.5, 12), n, seed=0, noise=0.0)) / 10
        tables[task] = ScoreTable.from_arrays(raw, names, metric="share", task=task)
        (tmp_path / "tables").mkdir(exist_ok=True)
        tables[task].without(["m5", "m6"]).write(tmp_path / "tables" / f"{task}.parquet")
    folder = tmp_path / "board"
    out = ccat("board", "init", folder, "--from", tmp_path / "tables").out
    assert "a board of first, second. m11 is the best of 10, and leads m10 by 0.01" in out
    assert out.splitlines()[-1].startswith(f"Next: lm-eval-ccat board place {folder} MODELS.yaml")
    board = Board(folder)
    means = {t: dict(zip(names, table.raw.mean(axis=1))) for t, table in tables.items()}
    for one in standing(board).placed:
        expected = (means["first"][one.row.model] + means["second"][one.row.model]) / 2
        assert one.row.score == pytest.approx(expected)
    # One task alone stands apart; some documents of both are an estimate of the average.
    tables["first"].select(["m5"]).write(tmp_path / "one.parquet")
    out = ccat("board", "add", folder, tmp_path / "one.parquet").out
    assert f"m5: {means['first']['m5']:.4g}, not comparable: no results on second" in out
    step = out.splitlines()[-1].removeprefix("Next: lm-eval-ccat ").split()
    site = tmp_path / "site"
    assert step == ["board", "publish", str(folder), "-o", "site"]
    assert "m5" in Path(ccat(*step[:-1], site).out.splitlines()[0]).read_text()
    assert ccat("board", "add", folder, tmp_path / "one.parquet").out == "No row was added.\n"
    (tmp_path / "some").mkdir()
    for task, table in tables.items():
        part, keep = table.select(["m6"]), np.arange(0, table.n_items, 2)
        half = replace(part, raw=part.raw[:, keep], doc_ids=tuple(keep.tolist()))
        half.write(tmp_path / "some" / f"{task}.parquet")
    [row] = place(board, tmp_path / "some").rows
    assert row.tasks["first"].items == 30 and row.tasks["second"].items == 45
    truth = (means["first"]["m6"] + means["second"]["m6"]) / 2
    assert row.low < truth < row.high
    assert row.score == pytest.approx(np.mean([one.score for one in row.tasks.values()]))
    assert all_sound(board)
    site = tmp_path / "site"
    out = ccat("board", "publish", folder, "-o", site).out
    assert out.endswith(f"Next: open {site / 'index.html'}\n")
    step = ccat("board", "check", folder).out.splitlines()[-1]
    assert step == f"Next: lm-eval-ccat board publish {folder} -o site"
    lines = (folder / "exposure.csv").read_text().splitlines()
    assert lines[0] == "task,doc_id,models" and len(lines) == 1 + 75
    assert not (site / "exposure.csv").exists()
    published = json.loads((site / "board.json").read_text())
    assert not any("asked" in row for row in published["rows"] + published["not_comparable"])
    head = (site / "board.csv").read_text().splitlines()[0]
    ends = ",".join(f"{task},{task}_low,{task}_high" for task in ("first", "second"))
    assert head.endswith(f"confidence,items,documents,date,{ends},copies")
    cite = published["citation"]
    assert cite["sha256"] == published["ledger_head"] == board.ledger.head()
    assert cite["version"] == len(board.ledger.rows()) and cite["sha256"] in cite["line"]
    assert f"version {cite['version']} of {cite['date']}" in (site / "index.html").read_text()


@pytest.mark.long
def test_what_holds_of_fourteen_tasks_is_told_once(tmp_path, ccat):
    tasks, rng = [f"task_{n}" for n in range(14)], np.random.default_rng(0)
    chances = draw(np.linspace(-1, 1.5, 9), 20, seed=0)
    for task in tasks:
        raw = (rng.random(chances.shape) < chances).astype(float)
        table = ScoreTable.from_arrays(raw, list("abcdefghi"), metric="acc", task=task)
        for part, models in (("full", "abcdefg"), ("more", "h"), ("some", "i")):
            rows = table.select(list(models)).take(np.arange(8 if part == "some" else 20))
            (tmp_path / part).mkdir(exist_ok=True)
            rows.write(tmp_path / part / f"{task}.parquet")
    board = tmp_path / "board"
    said = ccat("board", "init", board, "--from", tmp_path / "full").err
    said += ccat("board", "add", board, tmp_path / "more").err
    said += ccat("board", "place", board, tmp_path / "some").err
    known = "warning: 14 of 14 (task_0, task_1, task_10 and 11 more): prompts unknown: "
    lines = said.splitlines()
    assert [line.startswith(known) for line in lines] == [True, False, True, False, True]
    assert all("states no configuration" in lines[n] for n in (1, 3))
    for action in ("publish", "check"):
        assert ccat("board", action, board).err == ""


def test_models_with_equal_results_are_marked_and_facts_are_those_of_the_file(
    world, board, tmp_path
):
    table = ScoreTable.read(world.scores(tmp_path / "m.parquet", ["m02"]))
    twins = ScoreTable.from_arrays(
        np.repeat(table.raw, 3, axis=0), ["x/one", "x/two", "x/two (8 bit)"], table.doc_ids,
        scale=table.scale, metric=table.metric, task=table.task, doc_hashes=table.doc_hashes,
    )  # fmt: skip
    twins.write(tmp_path / "twins.parquet")
    add(board, tmp_path / "twins.parquet")
    (board.path / "models.csv").write_text("model,size,link\nx/one,7B,javascript://%0aalert(1)\n")
    publish(board, tmp_path / "site")
    content = json.loads((tmp_path / "site" / "board.json").read_text())
    rows = {row["model"]: row for row in content["rows"]}
    assert "x/two" in rows["x/one"]["copies"] and "x/one" in rows["x/two"]["copies"]
    [named] = [line for line in csv.DictReader((tmp_path / "site" / "board.csv").open())
               if line["model"] == "x/one"]  # fmt: skip
    assert named["copies"].split("; ") == rows["x/one"]["copies"]
    assert {"x/two", "x/two (8 bit)"} < set(rows["x/one"]["copies"])
    assert rows["x/one"]["facts"]["size"] == "7B"
    assert "javascript:" not in (tmp_path / "site" / "index.html").read_text()
    (board.path / "models.csv").write_text("name,size\nx/one,7B\n")
    with pytest.raises(RunError, match=r"models\.csv: no column 'model'"):
        publish(board, tmp_path / "site")


@pytest.mark.long
def test_a_name_is_no_formula_in_a_spreadsheet_and_can_be_read_back(tmp_path, ccat):
    """By the rules of OWASP: an apostrophe before what a spreadsheet would compute."""
    names = ["=1+1", "+m", "-2+3", "@SUM(A1)", "'quoted", "'=1", "plain=1"]
    scores = draw(np.linspace(-1, 1, len(names)), 30, seed=1)
    table = ScoreTable.from_arrays(scores, names, metric="share", task="t")
    table.write(tmp_path / "t.parquet")
    board = init(tmp_path / "board", tmp_path / "t.parquet")
    ccat("board", "publish", board.path)
    rows = list(csv.DictReader((board.path / "site" / "board.csv").open()))
    cells = {name: f"'{name}" if name[0] in "=+-@'" else name for name in names}
    assert {row["model"] for row in rows} == {*cells.values()}
    # The operator copies the cells into models.csv, as the warning of unknown models says.
    with (board.path / "models.csv").open("w", newline="") as stream:
        facts = [[cell, f"licence of {name}"] for name, cell in cells.items()]
        csv.writer(stream).writerows([["model", "licence"], *facts])
    assert "models.csv" not in ccat("board", "publish", board.path).err
    published = json.loads((board.path / "site" / "board.json").read_text())["rows"]
    read = {row["model"]: row["facts"] for row in published}
    assert read == {name: {"licence": f"licence of {name}"} for name in names}


def test_the_page_says_how_often_documents_were_shown_and_what_drawn_items_say(board, tmp_path):
    """An estimate by draws alone may lie where no score does; a board is of its latest row."""
    first, *rest = board.ledger.rows()
    *full, placed, last = rest
    asked, figures = (placed, last), replace(last.tasks[TASK], sample=[1.04, 0.02, 12.0])
    changed = replace(last, tasks={TASK: figures})
    rewrite(board, [replace(first, date="2020-01-01"), *full, placed, changed])
    shown = Counter(doc_id for row in asked for doc_id in row.asked[TASK])
    assert max(shown.values()) == 2 < len(shown) < sum(shown.values())
    page = publish(board, tmp_path / "site")[0].read_text()
    assert f"the most used was shown to 2 models, and {120 - len(shown)} to none" in page
    assert f"12 random items of {TASK}, true however wrong the bank is: 1 \\u00b1 0.02" in page
    published = json.loads((tmp_path / "site" / "board.json").read_text())
    assert published["citation"]["date"] == last.date > "2020-01-01"
    for number, row in enumerate(published["rows"], 1):
        best, worst = row["rank_range"]
        assert best <= number <= worst <= len(published["rows"])
    assert any(best < worst for best, worst in (row["rank_range"] for row in published["rows"]))


def test_a_row_that_stands_apart_takes_no_rank_and_is_counted(board, tmp_path, monkeypatch):
    first, second, *others = board.ledger.rows()
    elsewhere = [
        replace(row, tasks={TASK: replace(row.tasks[TASK], metric="other,none")})
        for row in (first, second)
    ]
    rewrite(board, [*elsewhere, *others])
    state = standing(board)
    assert len(state.apart) == 2 and len(state.placed) == len(others)
    assert state.in_words(state.placed[0].row).endswith(f"rank 1 of {len(others)}")
    monkeypatch.setattr(sys.modules[publish.__module__], "_MAX_APART", 1)
    page = publish(board, tmp_path / "site")[0].read_text()
    assert "The page shows 1 of 2; board.json has all." in page


def test_the_full_results_of_a_board_are_of_its_rows_alone(board):
    rows = [row for row in board.ledger.rows() if not row.estimated]
    assert len(rows) > 3 and {*_full_results(board, rows[:2])} == {row.model for row in rows[:2]}


def test_new_banks_leave_estimates_by_others_apart_and_end_with_0(board, tmp_path, ccat):
    ItemBank.blank(range(120), task=TASK, metric="share").save(tmp_path / "new.bank.json")
    said = ccat("board", "init", board.path, "--from", tmp_path / "new.bank.json", code=0).err
    assert "m01: not comparable" in said


def test_a_model_that_is_not_on_the_board_is_no_copy(world, board, tmp_path):
    """A file of evidence may hold more models than those whose rows count."""
    table = ScoreTable.read(world.scores(tmp_path / "m.parquet", ["m02"]))
    trio = ScoreTable.from_arrays(
        np.repeat(table.raw, 3, axis=0), ["x/one", "x/two", "x/gone"], table.doc_ids,
        scale=table.scale, metric=table.metric, task=table.task, doc_hashes=table.doc_hashes,
    )  # fmt: skip
    trio.write(tmp_path / "trio.parquet")
    add(board, tmp_path / "trio.parquet")
    rewrite(board, [row for row in board.ledger.rows() if row.model != "x/gone"])
    twins = copies(board, [place.row for place in standing(board).placed])
    assert set(twins["x/one"]) == {"m02", "x/two"} and "x/gone" not in twins
    # Scores that came again, in a file of their own: the earlier file proves the other rows still.
    rewrite(board, [row for row in board.ledger.rows() if row.model != "x/one"])
    trio.select(["x/one"]).write(tmp_path / "again.parquet")
    add(board, tmp_path / "again.parquet")
    again = copies(board, [place.row for place in standing(board).placed])
    assert again.keys() == twins.keys() and set(again["x/one"]) == set(twins["x/one"])


def test_a_document_that_the_bank_no_longer_has_is_none_that_was_shown(board):
    [first, *others] = board.banks[TASK].doc_ids
    [sentence] = _exposure_in_words(board, {TASK: {first: 2, "left the bank": 3}})
    assert f"was shown to 2 models, and {len(others)} to none" in sentence


@pytest.mark.long
def test_facts_that_were_changed_since_the_page_was_written_are_told(board, ccat):
    facts = board.path / "models.csv"
    facts.write_text("model,licence\nm00,MIT\n")
    ccat("board", "publish", board.path)
    assert "models.csv" not in ccat("board", "check", board.path).err
    published = json.loads((board.path / "site" / "board.json").read_text())
    assert published["hashes"]["models.csv"] == sha256_of(facts)
    facts.write_text("model,licence\nm00,none\n")
    err = ccat("board", "check", board.path).err
    assert "models.csv is another than was published last: `board publish` shows" in err
    facts.unlink()
    assert "models.csv is missing since it was published" in ccat("board", "check", board.path).err
    ccat("board", "publish", board.path)
    assert "models.csv" not in ccat("board", "check", board.path).err


def test_a_folder_in_place_of_the_facts_is_told(board, ccat):
    (board.path / "models.csv").mkdir()
    assert "models.csv: cannot be read" in ccat("board", "publish", board.path, code=1).err


def test_rules_are_checked(world):
    with pytest.raises(UsageError, match="hold back every item"):
        init(world.board, Path(world.board) / "suite", reserve=1)


@pytest.mark.long
def test_nonsense_in_a_row_is_refused_and_stops_nothing(board, tmp_path):
    *rest, last = board.ledger.rows()
    rewrite(board, [*rest, replace(last, reserve=[0, 0]), replace(last, tasks={})])
    edit(board.ledger.path, 0, score=float("nan"))
    edit(board.ledger.path, 4, score=0.99)
    shutil.move(board.path, tmp_path / "elsewhere")  # a board moves as a whole
    found = check(tmp_path / "elsewhere")
    assert [n for n, one in enumerate(found) if one.verdict == "refused"] == [0, 1, 4, 7, 8]
    assert "chain is broken" in found[4].reason


@pytest.mark.parametrize("line", ["[]", "null", "3", '"a"', "{}", '{"chain": []}', "[" * 9999])
def test_a_line_that_is_no_row_is_named_by_its_number(board, line, ccat):
    lines = board.ledger.path.read_text().splitlines()  # the first rows replay no run
    board.ledger.path.write_text("\n".join([*lines[:3], line, lines[3]]) + "\n")
    assert "row 4: REFUSED: " in ccat("board", "check", board.path, code=1).out
    assert "ledger.jsonl, line 4" in ccat("board", "publish", board.path, code=1).err


@pytest.mark.long
def test_rows_that_were_taken_out_at_the_end_are_found_by_the_published_hash(board, ccat):
    head, path = board.ledger.head(), board.ledger.path
    ccat("board", "check", board.path, "--head", head[:12])
    # A site that was published before the last rows came has the hash of an earlier one.
    check(board, board.ledger.lines()[0].link[:12])
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:-1]))
    ccat("board", "check", board.path)
    err = ccat("board", "check", board.path, "--head", head, code=1).err
    assert f"no row ends with {head[:12]}" in err
    for short in ("", head[:11]):
        ccat("board", "check", board.path, "--head", short, code=2)


@pytest.mark.long
def test_what_cannot_begin_leaves_nothing(tmp_path, monkeypatch):
    table, folder = tmp_path / "t.csv", tmp_path / "board"
    scores = np.random.default_rng(0).random((5, 30)).round(2)
    ScoreTable.from_arrays(scores, models=list("abcde"), task="t").write(table)
    with monkeypatch.context() as patch:
        patch.setattr("lm_eval_ccat.board.creating.add_full", lambda *_, **__: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            init(folder, table)
        assert not folder.exists()
        folder.mkdir()
        (folder / "README.md").touch()
        with pytest.raises(ZeroDivisionError):
            init(folder, table)
    assert [path.name for path in folder.iterdir()] == ["README.md"]
    assert len(init(folder, table).ledger.rows()) == 5


def test_ranks_are_those_of_every_pair_compared():
    """Thousands of full results are ranked without comparing them two by two."""
    rng = np.random.default_rng(0)
    for _ in range(8):
        arms = np.where(rng.random(30) < 0.3, 0.2 * rng.random(30), 0.0)
        scores = np.round(rng.random(30), 1)
        for score, arm, *counts in zip(scores, arms, *clearly_apart(scores, arms)):
            gap, apart = scores - score, np.hypot(arms, arm)
            assert counts == [(gap > apart).sum(), (-gap > apart).sum()]


@pytest.mark.parametrize(("placed", "part"), [(0, 0), (1, 0), (2, 0), (3, 1), (4, 1), (6, 0)])
def test_the_part_that_is_held_back_changes_after_so_many_models(placed, part):
    board: Any = SimpleNamespace(rules=Rules(reserve=2, rotate_after=3), draws_at_random=False)
    rows: Any = [SimpleNamespace(estimated=True)] * placed + [SimpleNamespace(estimated=False)] * 4
    assert Board.current_reserve(board, rows) == (part, 2)


@pytest.mark.long
def test_scores_that_were_not_written_whole_prove_no_row(board):
    before = board.evidence_files
    (board.path / "scores" / DRAFT).write_bytes(b"half")
    assert board.evidence_files == before and all_sound(board)


def test_facts_are_of_the_site_that_was_published_last(board, tmp_path):
    file = board.path / "models.csv"
    file.write_text("model,size,link\nm00,7B,https://example.org/0\n")
    publish(board, tmp_path / "site")
    assert unpublished_facts(board) == ""
    page = (tmp_path / "site" / "index.html").read_text()
    assert '"facts": ["size"]' in page or '"facts":["size"]' in page
    file.write_text("model,size\nm00,8B\n")
    assert unpublished_facts(board).startswith("models.csv is another than was published last")
    file.unlink()
    assert unpublished_facts(board).startswith("models.csv is missing since it was published")

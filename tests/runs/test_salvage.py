"""`lm-eval-ccat verify`: what is sound of a journal, and going on from there."""

from __future__ import annotations

import errno
import hashlib
import json
import os
from pathlib import Path
from unittest.mock import Mock

import pytest
from worlds.boards import bank_of
from worlds.journals import Teller

from lm_eval_ccat import __version__
from lm_eval_ccat.cli.main import main
from lm_eval_ccat.errors import RunError
from lm_eval_ccat.live import verify
from lm_eval_ccat.live.result import state
from lm_eval_ccat.metrics.scale import Scale
from lm_eval_ccat.records import Header
from lm_eval_ccat.runs.directory import RunDirectory, rebuild, save_banks


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run that ended with two items in flight, asked before the last four answers."""
    folder, bank = tmp_path / "run", bank_of("paper", 60)
    models = {"a": 1.0, "b": 1.0, "c": 2.0}
    directory = RunDirectory(folder)
    directory.start(
        Header(
            config={"task": "t0"}, bank_sha256=bank.sha256,
            task={"name": "t0", "metric": "acc", "filter": "none"},
            versions={"lm_eval_ccat": __version__, "lm_eval": "0.4.13"},
            ranker={"models": models, "units": None, "seed": 3, "options": {}},
            report={
                "metric": "acc", "key": "acc,none", "scale": Scale().to_dict(),
                "estimand": "Estimates are of the mean acc", "currency": "items",
            },
        )
    )  # fmt: skip
    directory.journal.close()
    save_banks(bank, folder)
    book = Teller.of(folder)
    for n_answers in (36, 4):
        for _ in range(n_answers):
            for pair in book.ask(1):
                book.answer(*pair, 0.25, 1.0)
        if n_answers == 36:
            book.ask(2)
    book.journal.close()
    return folder


def resealed(lines: list[bytes]) -> list[bytes]:
    """The same lines with seals that fit, as somebody writes them who edits a whole journal."""
    out, hashed = [], hashlib.sha256()
    for line in lines:
        body = line.partition(b', "sha256": ')[0]
        hashed.update(body)
        seal = b', "sha256": "%s"}\n' % hashed.hexdigest().encode()
        hashed.update(seal)
        out.append(body + seal)
    return out


def damage(run: Path, number: int) -> bytes:
    journal = run / "journal.jsonl"
    lines = journal.read_bytes().splitlines(keepends=True)
    lines[number - 1] = lines[number - 1].replace(b'"cost":1', b'"cost":2')
    journal.write_bytes(b"".join(lines))
    return journal.read_bytes()


@pytest.mark.long
def test_a_sound_journal_is_called_sound_and_left_alone(run, ccat):
    before = (run / "journal.jsonl").read_bytes()
    n = before.count(b"\n")
    assert f"Sound: {n} records of format 2, chained" in ccat("verify", run).out
    assert "nothing to repair" in ccat("verify", run, "--repair").out
    assert (run / "journal.jsonl").read_bytes() == before
    assert not list(run.glob("*damaged*"))


def test_a_torn_last_line_is_no_damage(run, ccat):
    with (run / "journal.jsonl").open("ab") as stream:
        stream.write(b'{"seq": 60, "op"')
    found = json.loads(ccat("verify", run, "--json").out)
    assert found["journal"]["lost"] == 1 and found["journal"]["damage"] is None


def test_the_longest_sound_prefix_is_kept_and_the_original_too(run, ccat):
    n = (run / "journal.jsonl").read_bytes().count(b"\n")
    original = damage(run, n)
    (run / "result.json").write_text("{}")
    assert f"line {n} does not fit its seal" in ccat("verify", run, code=1).out
    assert "--repair" in ccat("rank", run, code=1).err
    ccat("verify", run, "--repair")
    assert (run / "journal.damaged-1.jsonl").read_bytes() == original
    assert (run / "journal.jsonl").read_bytes() == b"".join(original.splitlines(True)[: n - 1])
    assert not (run / "result.json").exists() and (run / "result.damaged-1.json").exists()
    ranker = rebuild(run)
    assert ranker.journal.count == n - 1 and len(ranker.unanswered) == 3
    damage(run, n - 2)
    ccat("verify", run, "--repair")
    assert (run / "journal.damaged-2.jsonl").exists()  # and the first is still there
    assert rebuild(run).journal.count == n - 3


def test_without_a_sound_header_nothing_is_touched(run, tmp_path, ccat):
    journal = run / "journal.jsonl"
    journal.write_bytes(b"x" + journal.read_bytes())
    before = journal.read_bytes()
    assert "not even the header" in ccat("verify", run, "--repair", code=1).err
    assert journal.read_bytes() == before and not list(run.glob("*damaged*"))
    assert "holds no ranking" in ccat("verify", tmp_path, code=1).err


@pytest.mark.long
def test_a_result_is_compared_with_what_the_journal_gives(run, capsys):
    journal = run / "journal.jsonl"
    content, whole = state(run).content, journal.read_bytes()
    model, n = content["order"][0], content["last_line"]
    money = {"billed": 7.5, "assumed": 0.0, "unknown": 0.0}
    lines = whole.splitlines(keepends=True)
    here = b'"lm_eval_ccat":"%s"' % __version__.encode()
    older = resealed([lines[0].replace(here, b'"lm_eval_ccat":"0.0.9"'), *lines[1:]])
    assert older[0] != lines[0] and resealed(lines) == lines

    def verified(
        journal_lines: list[bytes], of_run: dict[str, object] | None = None, **changes: float
    ) -> tuple[int, str]:
        journal.write_bytes(b"".join(journal_lines))
        result = state(run).content if journal_lines is older else content
        blocks = {**result["models"], model: {**result["models"][model], **changes}}
        result = {**result, "models": blocks, **(of_run or {})}
        (run / "result.json").write_text(json.dumps(result))
        return main(["verify", str(run)]), capsys.readouterr().out

    turned = {**content["scale"], "higher_is_better": not content["scale"]["higher_is_better"]}
    exchanged = [
        {**pair, "low": -pair["high"], "high": -pair["low"]} for pair in content["pairwise"]
    ]
    for code, words, verdict in (
        (0, "they give the recorded result", verified(lines)),
        (1, f"{model}: cost: recorded 0.001, now", verified(lines, cost=1e-3)),
        (1, f"{model}: estimate: recorded 2.0, now", verified(lines, estimate=2.0)),
        (1, "usd: recorded 7.5, now null", verified(lines, {"usd": 7.5})),
        (1, f"money: recorded {json.dumps(money)}, now null", verified(lines, {"money": money})),
        (1, "order: recorded []", verified(lines, {"order": []})),
        (1, "scale: recorded {", verified(lines, {"scale": turned})),
        (1, "high: recorded", verified(lines, {"pairwise": exchanged})),
        (1, 'journal_sha256: recorded "00", now', verified(lines, {"journal_sha256": "00"})),
        (1, "journal_sha256: recorded null, now", verified(lines, {"journal_sha256": None})),
        (1, "usd: recorded 7.5, now null", verified(older, {"usd": 7.5})),
        (1, f"lines of the journal: recorded {n}, now {n - 1}", verified(lines[:-1])),
        (3, "Made by 0.0.9; ", verified(older, estimate=2.0)),
        (1, "The journal gives another result:", verified(older, cost=1e-3)),
    ):
        assert verdict[0] == code and words in verdict[1]


def without(content, key):
    return {name: value for name, value in content.items() if name != key}


@pytest.mark.long
@pytest.mark.parametrize(
    ("edit", "words"),
    [
        (lambda c, m: without(c, "headline"), 'headline: recorded nothing, now "'),
        (lambda c, m: without(c, "journal_sha256"), "journal_sha256: recorded nothing"),
        (lambda c, m: {**c, "models": without(c["models"], m)}, "{m}: recorded nothing, now {{"),
        (
            lambda c, m: {**c, "models": {**c["models"], m: without(c["models"][m], "estimate")}},
            "{m}: estimate: recorded nothing, now",
        ),
        (lambda c, m: {**c, "models": {**c["models"], "x": {}}}, "x: recorded {{}}, now nothing"),
        (lambda c, m: {**c, "pairwise": c["pairwise"][1:]}, " over {m}: recorded nothing, now"),
        (lambda c, m: {**c, "pairwise": [*c["pairwise"]] * 2}, "pairwise: recorded"),
        (lambda c, m: {**c, "exit_code": 7}, "exit_code: recorded 7, now"),
        (lambda c, m: {**c, "estimand": "all"}, 'estimand: recorded "all", now'),
        (lambda c, m: {**c, "new": 1}, "new: recorded 1, now nothing"),
    ],
)
def test_a_result_that_lacks_or_adds_anything_is_not_the_journal_s(run, ccat, edit, words):
    content = json.loads(json.dumps(state(run).content))
    model = content["pairwise"][0]["b"]
    (run / "result.json").write_text(json.dumps(edit(content, model)))
    assert words.format(m=model) in ccat("verify", run, code=1).out
    aside = {"seconds": 1.0, "run_dir": "elsewhere", "warnings": [*content["warnings"], "more"]}
    (run / "result.json").write_text(json.dumps(content | aside))
    ccat("verify", run)


def edited(rows, **changes):
    """Rows of pairs or models, the first of which states something else."""
    if isinstance(rows, dict):
        name, *_ = rows
        return {**rows, name: {**rows[name], **changes}}
    return [{**rows[0], **changes}, *rows[1:]]


@pytest.mark.parametrize(
    ("key", "edit", "words"),
    [
        ("models", lambda rows: edited(rows, estimate=0.99), ": difference "),
        ("models", lambda rows: edited(rows, estimate=0.99), ": estimate 0.99 outside "),
        ("models", lambda rows: edited(rows, rank=9), "order: neither that of the ranks"),
        ("pairwise", lambda rows: edited(rows, difference=0.5), ": difference 0.5"),
        ("pairwise", lambda rows: edited(rows, low=-1.0, high=1.0, decision="decided"), "decided,"),
        ("pairwise", lambda rows: edited(rows, low=1e-9, high=1.0, decision="open"), ": open,"),
        ("pairwise", lambda rows: edited(rows, a="nobody"), "no such model"),
        ("pairwise", lambda rows: rows[1:], "pairs: "),
        ("pairwise", lambda rows: edited(rows, a=rows[0]["b"], b=rows[0]["a"]), "stands before"),
        ("headline", lambda words: "we lead", 'headline: "we lead", of the figures'),
        ("order", lambda order: order[::-1], "order: neither"),
        ("order", lambda order: None, "it is no complete result"),
    ],
)
def test_a_result_without_its_journal_is_compared_with_itself(
    run, tmp_path, ccat, key, edit, words
):
    content, file = json.loads(json.dumps(state(run).content)), tmp_path / "alone" / "result.json"
    file.parent.mkdir()
    file.write_text(json.dumps(content))
    for place in (file, file.parent):
        assert "nothing but self-consistency was checked: its figures" in ccat("verify", place).out
    file.write_text(json.dumps(content | {key: edit(content[key])}))
    assert words in ccat("verify", file, code=1).out


@pytest.mark.long
def test_a_result_older_than_its_journal_is_told(run, ccat):
    """What a result of the first lines says of them is true, but it is not the run's."""
    last = state(run).content["last_line"]
    older = state(run, last - 20).content
    assert older["items_administered"] < state(run).content["items_administered"]
    (run / "result.json").write_text(json.dumps({**older, "last_line": last - 20}))
    said = ccat("verify", run, code=1).out
    counts = [content["items_administered"] for content in (older, state(run).content)]
    assert "The result is of {} answers, the journal has {}: rank --resume".format(*counts) in said
    assert f"lines of the journal: recorded {last - 20}, now {last}" in said


@pytest.mark.long
def test_a_run_that_ends_while_it_is_verified_is_sound(run, ccat, monkeypatch):
    journal, whole = run / "journal.jsonl", (run / "journal.jsonl").read_bytes()
    content, examined = state(run).content, verify._examined
    assert content["last_line"] == len(whole.splitlines())
    journal.write_bytes(b"".join(whole.splitlines(keepends=True)[:-3]))

    def ends_meanwhile(directory):
        found = examined(directory)
        journal.write_bytes(whole)
        (run / "result.json").write_text(json.dumps(content))
        return found

    monkeypatch.setattr(verify, "_examined", ends_meanwhile)
    assert "no result yet" in ccat("verify", run).out
    monkeypatch.undo()
    ccat("verify", run)


def test_the_page_of_a_run_that_goes_on_is_not_said_to_show_another_result(run, ccat):
    (run / "result.json").unlink(missing_ok=True)
    (run / "report.html").write_text("the page of some seconds ago")
    out = ccat("verify", run).out
    assert "no result yet" in out and "another result" not in out


def test_a_run_without_a_result_is_not_compared(run, ccat):
    (run / "result.json").unlink(missing_ok=True)
    err = ccat("compare", run, "--models", "a,b", code=1).err
    assert "no result.json; the run has not ended: go on with its command and --resume" in err
    (run / "journal.jsonl").unlink()
    err = ccat("verify", run, "--full", run, code=1).err
    assert "no result.json and no journal; name the folder of a run" in err


def test_a_full_disk_never_sends_a_run_with_answers_to_another_folder(run, tmp_path, monkeypatch):
    full = Mock(side_effect=OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)))
    monkeypatch.setattr("lm_eval_ccat.runs.directory.replace_text", full)
    with pytest.raises(RunError, match=r"answers are kept, free the space .* and resume"):
        RunDirectory(run).write_json("result.json", {})
    with pytest.raises(RunError, match="choose another with --run_dir"):
        RunDirectory(tmp_path / "new").write_json("config.json", {})


@pytest.mark.parametrize("command", ["verify", "verify --repair", "rank"])
def test_a_journal_of_a_later_version_is_not_called_damaged(run, command, ccat):
    journal = run / "journal.jsonl"
    name, *flags = command.split()
    for newer in (b'"version":3', b'"version":3, "seals": "other"'):
        text = journal.read_bytes().replace(b'"version":2', newer, 1)
        journal.write_bytes(text)
        assert "reads version 2: update lm-eval-ccat" in ccat(name, run, *flags, code=1).err
        assert journal.read_bytes() == text and not list(run.glob("*damaged*"))

"""`lm-eval-ccat verify`: what is sound of a journal, and going on from there."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from worlds.journals import Teller

from lm_eval_ccat.cli.main import main
from lm_eval_ccat.runs.directory import rebuild

FIXTURE = Path(__file__).parent / "format1" / "paper"


@pytest.fixture
def run(tmp_path: Path) -> Path:
    folder = shutil.copytree(FIXTURE, tmp_path / "run")
    ranker = Teller.of(folder)
    for _ in range(4):  # lines with seals, beside those of format 1
        for pair in ranker.ask(1):
            ranker.answer(*pair, 0.25, 1.0)
    ranker.journal.close()
    return folder


def damage(run: Path, number: int) -> bytes:
    journal = run / "journal.jsonl"
    lines = journal.read_bytes().splitlines(keepends=True)
    lines[number - 1] = lines[number - 1].replace(b'"cost": 1', b'"cost": 2')
    journal.write_bytes(b"".join(lines))
    return journal.read_bytes()


def test_a_sound_journal_is_called_sound_and_left_alone(run, capsys):
    before = (run / "journal.jsonl").read_bytes()
    n = before.count(b"\n")
    assert main(["verify", str(run)]) == 0
    assert f"Sound: {n} records of format 1, chained" in capsys.readouterr().out
    assert main(["verify", str(run), "--repair"]) == 0
    assert "nothing to repair" in capsys.readouterr().out
    assert (run / "journal.jsonl").read_bytes() == before
    assert not list(run.glob("*damaged*"))


def test_a_torn_last_line_is_no_damage(run: Path, capsys: pytest.CaptureFixture) -> None:
    with (run / "journal.jsonl").open("ab") as stream:
        stream.write(b'{"seq": 60, "op"')
    assert main(["verify", str(run), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["journal"]["lost"] == 1 and found["journal"]["damage"] is None


def test_the_longest_sound_prefix_is_kept_and_the_original_too(run, capsys):
    n = (run / "journal.jsonl").read_bytes().count(b"\n")
    original = damage(run, n)
    (run / "result.json").write_text("{}")
    assert main(["verify", str(run)]) == 1
    assert f"line {n} does not fit its seal" in capsys.readouterr().out
    assert main(["rank", str(run)]) == 1
    assert "--repair" in capsys.readouterr().err
    assert main(["verify", str(run), "--repair"]) == 0
    assert (run / "journal.damaged-1.jsonl").read_bytes() == original
    assert (run / "journal.jsonl").read_bytes() == b"".join(original.splitlines(True)[: n - 1])
    assert not (run / "result.json").exists() and (run / "result.damaged-1.json").exists()
    ranker = rebuild(run)
    assert ranker.journal.count == n - 1 and len(ranker.unanswered) == 3
    damage(run, n - 2)
    assert main(["verify", str(run), "--repair"]) == 0
    assert (run / "journal.damaged-2.jsonl").exists()  # and the first is still there
    assert rebuild(run).journal.count == n - 3


def test_without_a_sound_header_nothing_is_touched(run, tmp_path, capsys):
    journal = run / "journal.jsonl"
    journal.write_bytes(b"x" + journal.read_bytes())
    before = journal.read_bytes()
    assert main(["verify", str(run), "--repair"]) == 1
    assert "not even the header" in capsys.readouterr().err
    assert journal.read_bytes() == before and not list(run.glob("*damaged*"))
    assert main(["verify", str(tmp_path)]) == 1
    assert "holds no ranking" in capsys.readouterr().err


def test_a_result_that_is_not_what_the_journal_says_is_refused(run, capsys):
    from lm_eval_ccat.live.result import state

    content = state(run).content
    (run / "result.json").write_text(json.dumps(content))
    assert main(["verify", str(run)]) == 0
    assert "they give the recorded result" in capsys.readouterr().out
    model = content["order"][0]
    block = content["models"][model]
    (run / "result.json").write_text(
        json.dumps({**content, "models": {**content["models"], model: {**block, "cost": 1e-3}}})
    )
    assert main(["verify", str(run)]) == 1
    assert f"{model}: cost: recorded 0.001, now" in capsys.readouterr().out
    (run / "result.json").write_text(json.dumps(_with_estimate(content, model, 2.0)))
    assert main(["verify", str(run)]) == 1
    (run / "result.json").write_text(json.dumps(content))
    whole = (run / "journal.jsonl").read_bytes()
    (run / "journal.jsonl").write_bytes(b"".join(whole.splitlines(True)[:-1]))
    capsys.readouterr()
    assert main(["verify", str(run)]) == 1
    n = content["last_line"]
    assert f"lines of the journal: recorded {n}, now {n - 1}" in capsys.readouterr().out
    header, _, rest = whole.partition(b"\n")
    older = header.replace(b'"lm_eval_ccat": "0.1.0"', b'"lm_eval_ccat": "0.0.9"')
    assert older != header
    (run / "journal.jsonl").write_bytes(older + b"\n" + rest.split(b'"sha256"')[0])
    lines = (run / "journal.jsonl").read_bytes().split(b"\n")
    (run / "journal.jsonl").write_bytes(b"\n".join([*lines[:-1], b""]))
    (run / "result.json").write_text(json.dumps(_with_estimate(state(run).content, model, 2.0)))
    assert main(["verify", str(run)]) == 3
    said = capsys.readouterr().out
    assert "Made by 0.0.9; " in said and "recorded 2.0, now" in said


def _with_estimate(content: dict, model: str, value: float) -> dict:
    models = content["models"]
    return {**content, "models": {**models, model: {**models[model], "estimate": value}}}

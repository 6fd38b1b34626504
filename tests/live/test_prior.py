"""Answers that were given before are not paid for again."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from worlds.bench import Bench, content_of
from worlds.server import CompletionsServer

from lm_eval_ccat.cli.main import main
from lm_eval_ccat.live.spec import Spec
from lm_eval_ccat.runs.journal import JournalFile

PAIR = ["m05", "m07"]


def test_a_ranking_takes_the_answers_of_another(
    bench: Bench, server: CompletionsServer, capsys: pytest.CaptureFixture
) -> None:
    whole = {"stop": "limits", "bank": None}
    first = bench.config(server.url, PAIR, name="first", budget={"items": 60}, **whole)
    main(["rank", str(first)])
    asked = sum(server.asked.values())
    second = bench.config(server.url, [*PAIR, "m09"], name="second", budget={"items": 90},
                          prior="first.run", **whole)  # fmt: skip
    assert main(["rank", str(second)]) in (0, 3)
    captured = capsys.readouterr()
    had = {m: block["n_items"] for m, block in content_of(first)["models"].items()}
    assert f"answers found: {had['m05']} of m05, {had['m07']} of m07" in captured.err
    content = content_of(second)
    # Nothing was asked twice, old answers cost nothing, and the budget went to new ones.
    assert max(server.asked.values()) == 1
    assert sum(server.asked.values()) - asked == content["cost"] == 90
    used = {m: content["models"][m]["from_prior"] for m in PAIR}
    assert all(10 <= used[m] <= had[m] for m in PAIR)  # the warm-up at least
    assert f"m05: {used['m05']} of" in captured.out and "are earlier ones" in captured.out
    # They are scored anew, and stand in the files of the harness like any other.
    [rows] = (second.with_suffix(".run") / "m05").glob("samples_*.jsonl")
    logged = [json.loads(line)["doc_id"] for line in rows.read_text().splitlines()]
    assert sorted(logged) == sorted(content["models"]["m05"]["items"])
    records = JournalFile(second.with_suffix(".run") / "journal.jsonl").read_new()
    old = [r for r in records if r["op"] == "tell" and r.get("prior")]
    assert len(old) == sum(used.values()) and all("first.run" in r["prior"] for r in old)


def test_logs_of_the_harness_are_taken_under_another_name(
    bench: Bench, server: CompletionsServer
) -> None:
    first = bench.config(server.url, ["m05"], name="logs", budget={"items": 40}, target_se=0.001,
                         bank=None)  # fmt: skip
    assert main(["rank", str(first)]) in (0, 3)
    asked = sum(server.asked.values())
    second = bench.config(server.url, ["m05", "m07"], name="second", budget={"items": 20},
                          prior=["m05=logs.run/m05"], stop="limits",
                          bank=None)  # fmt: skip
    assert main(["rank", str(second)]) in (0, 3)
    content = content_of(second)
    assert content["models"]["m05"]["from_prior"] > 0
    assert sum(server.asked.values()) - asked == content["cost"] <= 20
    assert max(server.asked.values()) == 1


def test_what_of_earlier_answers_is_damaged_is_named(
    bench: Bench, server: CompletionsServer, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    first = bench.config(server.url, PAIR, name="first", budget={"items": 60}, bank=None)
    main(["rank", str(first)])
    [torn], [unreadable] = (list((tmp_path / "first.run" / m).glob("samples_*")) for m in PAIR)
    lines = torn.read_text().splitlines()
    torn.write_text("\n".join([lines[0][:40], *lines[1:]]))
    unreadable.rename(f"{unreadable}.gz")
    capsys.readouterr()
    prior = [f"{name}=first.run/{name}" for name in PAIR]
    second = bench.config(server.url, PAIR, name="second", budget={"items": 20}, prior=prior[0],
                          bank=None)  # fmt: skip
    assert main(["rank", str(second)]) in (0, 3)
    assert f"{torn.name}: 1 damaged lines; their answers are asked" in capsys.readouterr().err
    assert content_of(second)["models"]["m05"]["from_prior"] > 0
    third = bench.config(server.url, PAIR, name="third", budget={"items": 20}, prior=prior,
                         bank=None)  # fmt: skip
    assert main(["rank", str(third)]) == 1
    said = capsys.readouterr().err
    assert f"{unreadable.name}.gz: 1 damaged lines" in said
    assert "no answer to task loopback_task" in said


def test_an_answer_to_another_prompt_does_not_count(
    bench: Bench, server: CompletionsServer, tmp_path: Path
) -> None:
    first = bench.config(server.url, PAIR, name="first", budget={"items": 40}, bank=None)
    main(["rank", str(first)])
    journal = tmp_path / "first.run" / "journal.jsonl"
    lines = [json.loads(line) for line in journal.read_text().splitlines()]
    other = tmp_path / "other"
    other.mkdir()
    for line in lines:
        if "prompt_sha256" in line:
            line["prompt_sha256"] = "0" * 64
    (other / "journal.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    second = bench.config(server.url, PAIR, name="second", budget={"items": 40}, prior="other",
                          bank=None)  # fmt: skip
    main(["rank", str(second)])
    assert not any("from_prior" in block for block in content_of(second)["models"].values())
    assert max(server.asked.values()) == 2


def test_whose_answers_they_are_can_be_said_before_the_path(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    for given, found in (("a", {"": ["a"]}), (["x=a"], {"x": ["a"]}), ({"x": "a"}, {"x": ["a"]})):
        prior = Spec.read({"prior": given}, folder=tmp_path).prior
        assert prior == {name: [str(tmp_path / path) for path in of] for name, of in found.items()}

"""Servers that go away and come back, hang at the deadline, or leave one model alone."""

from __future__ import annotations

import json
import signal
import threading
import time
from collections import Counter
from typing import Any

import pytest
import yaml
from worlds.bench import Bench, content_of
from worlds.server import CompletionsServer, trouble

from lm_eval_ccat.cli.main import main
from lm_eval_ccat.live.ranking import rank
from lm_eval_ccat.live.result import state
from lm_eval_ccat.money import dollars
from lm_eval_ccat.report import read_run, write_report

THREE = ["m01", "m05", "m11"]


def test_an_outage_loses_neither_model_nor_document(bench: Bench) -> None:
    began: list[float] = []
    slots = 6

    def mood(model: str, prompt: str, before: int) -> tuple | None:
        if model != "m05" or sum(n for (m, _), n in server.answered.items() if m == model) < 6:
            return None
        began.append(time.monotonic())
        return ("status", 503) if began[-1] - began[0] < 1.5 else None

    failures = {"attempts": 2, "backoff": 0.05, "max_backoff": 0.4, "outage_minutes": 1}
    with CompletionsServer(bench.outputs, mood=mood) as server:
        content = bench.ranked(
            server, THREE, max_items=20, stop="limits", failures=failures,
            model_args={"num_concurrent": slots},
        )  # fmt: skip
    assert all(b["n_items"] == 20 and not b["failed"] for b in content["models"].values())
    during = [t for t in began if t - began[0] < 1.5]
    # Two requests of each slot, and one probe after each pause: 0.05, 0.1, 0.2, 0.4, 0.4 ...
    assert len(during) <= 2 * slots + 8


def test_nothing_is_spent_on_comparing_a_model_with_nobody(bench: Bench) -> None:
    with CompletionsServer(bench.outputs, mood=trouble("status", 401, of="m01")) as server:
        content = bench.ranked(server, ["m01", "m11"], (4,), stop="limits")
        assert "only m11 is left" in content["stopped_because"]
        assert content["models"]["m11"]["n_items"] < 10
        # Where its own error is wanted it goes on.
        config = bench.config(server.url, ["m01", "m11"], target_se=0.02, bank="default.bank.json")
        content = rank(config).content
    assert content["models"]["m01"]["set_aside"]
    assert content["models"]["m11"]["n_items"] >= 10


def test_the_deadline_cancels_what_hangs(bench: Bench) -> None:
    mood = trouble("hang", 30.0, of="m05")
    with CompletionsServer(bench.outputs, latency=0.01, mood=mood) as server:
        config = bench.config(
            server.url, THREE, budget={"seconds": 1.5}, stop="limits",
            entry={"price": {"item": 0.5}}, model_args={"timeout": 60, "num_concurrent": 3},
        )  # fmt: skip
        result = rank(config)
    content = result.content
    assert content["stopped_because"] == "the budget of 1.5 seconds is used up"
    assert any("ended at a deadline, so another run" in one for one in content["warnings"])
    assert "|journal:" in content["signature"]
    assert content["seconds"] < 1.5 + 4.0  # the run's own clock; hanging it would be 30 or more
    assert content["money"]["unknown"] >= 0.5  # what hung may be billed
    assert result.run_dir is None and not (bench.folder / "rank.run").exists()


def test_a_rate_limit_of_an_hour_holds_up_nobody_and_is_told(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    monkeypatch.setattr("lm_eval_ccat.live.channel.SILENCE", 0.5)
    mood = trouble("say", 429, '{"error": "quota of the day"}', {"Retry-After": "3600"}, of="m05")
    with CompletionsServer(bench.outputs, mood=mood) as server:
        config = bench.config(
            server.url, THREE, bank=None, max_items=20, stop="limits",
            failures={"outage_minutes": 0.05},
        )  # fmt: skip
        assert main(["rank", str(config)]) == 4
        assert server.answered["m01", "Repeat the numbers of document 4."] == 1
        assert sum(n for (m, _), n in server.asked.items() if m == "m05") <= 4
    shown = capsys.readouterr()
    assert "asked for 3600 s of waiting, longer than the outage limit" in shown.err
    content = content_of(config)
    assert all(content["models"][m]["n_items"] == 20 for m in ("m01", "m11"))


def test_answers_that_wait_for_another_are_told_of(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    monkeypatch.setattr("lm_eval_ccat.report.terminal.PLAIN_SECONDS", 0.5)
    monkeypatch.setattr("lm_eval_ccat.live.sender.FAREWELL", 0.2)
    mood = trouble("hang", 30.0, of="m05")
    threading.Timer(2.5, signal.raise_signal, [signal.SIGINT]).start()
    with CompletionsServer(bench.outputs, mood=mood) as server:
        config = bench.config(
            server.url, ["m05", "m11"], bank=None, entry={"price": {"item": 0.01}},
            budget={"usd": 0.5}, model_args={"timeout": 60},
        )  # fmt: skip
        assert main(["rank", str(config)]) == 4
    waiting = sum(server.answered.values())
    held_up = f"{waiting} answers wait for one of m05"
    shown = capsys.readouterr()
    assert waiting > 8 and f"nothing is ranked yet: {held_up}" in shown.out
    assert f"Warning: {held_up}, and count once it is there." in shown.out
    [*_, line] = (text for text in shown.err.splitlines() if "unanswered" in text)
    assert f"0 items; {dollars(0.01 * waiting)} of {dollars(0.5)}" in line and held_up in line
    assert "; 16 unanswered" in line


def test_a_server_that_comes_back_by_a_rate_limit_is_taken_up_again(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lm_eval_ccat.live.channel.SILENCE", 0.4)
    trouble_of_m05: list[float] = []

    def mood(model: str, prompt: str, before: int) -> tuple | None:
        if model != "m05" or sum(n for (m, _), n in server.answered.items() if m == model) < 4:
            return None
        trouble_of_m05.append(time.monotonic())
        seconds = trouble_of_m05[-1] - trouble_of_m05[0]
        return ("status", 503) if seconds < 1.0 else ("status", 429) if seconds < 2.0 else None

    with CompletionsServer(bench.outputs, latency=0.01, mood=mood) as server:
        config = bench.config(
            server.url, THREE, bank=None, max_items=20, stop="limits",
            failures={"backoff": 0.05, "max_backoff": 0.2, "outage_minutes": 0.2},
        )  # fmt: skip
        content = rank(config).content
    assert all(b["n_items"] == 20 and not b["set_aside"] for b in content["models"].values())


def test_a_document_that_always_hangs_is_given_up_and_its_model_is_not(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lm_eval_ccat.live.channel.AT_LEAST", 0.2)
    mood = trouble("hang", 9.0, of="m01", when=lambda number, before: number == 4)
    with CompletionsServer(bench.outputs, mood=mood) as server:
        config = bench.config(
            server.url, ["m01", "m11"], bank=None, max_items=20, stop="limits",
            model_args={"timeout": 1, "num_concurrent": 4},
            failures={"attempts": 3, "backoff": 0.01},
        )  # fmt: skip
        content = rank(config).content
        hung = server.asked["m01", "Repeat the numbers of document 4."]
    model = content["models"]["m01"]
    assert not model["set_aside"] and model["n_items"] == 20
    assert [one["doc_id"] for one in model["failed"]] == [4]
    assert 3 <= hung <= 4  # a second request is an attempt


def test_a_document_that_hangs_for_ever_is_given_up_after_a_silence(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lm_eval_ccat.live.channel.AT_LEAST", 0.2)
    monkeypatch.setattr("lm_eval_ccat.live.channel.SILENCE", 1.0)
    mood = trouble("hang", 60.0, of="m01", when=lambda number, before: number == 59)
    with CompletionsServer(bench.outputs, mood=mood) as server:
        config = bench.config(
            server.url, ["m01", "m11"], bank=None, max_items=20, stop="limits",
            model_args={"timeout": 300, "num_concurrent": 2}, entry={"price": {"item": 0.01}},
        )  # fmt: skip
        content = rank(config).content
        assert server.asked["m01", "Repeat the numbers of document 59."] == 2
    model = content["models"]["m01"]
    assert not model["set_aside"] and model["n_items"] == 20
    assert [one["doc_id"] for one in model["failed"]] == [59]
    assert content["money"]["unknown"] == pytest.approx(0.02)  # both requests may be billed


def test_a_timed_out_attempt_counts_at_its_expected_cost(bench: Bench) -> None:
    mood = trouble("hang", 3.0, when=lambda number, before: before == 0 and number == 7)
    with CompletionsServer(bench.outputs, mood=mood) as server:
        config = bench.config(
            server.url, ["m01", "m11"], model_args={"timeout": 1}, stop="limits",
            entry={"price": {"item": 0.5}}, failures={"backoff": 0.01},
        )  # fmt: skip
        result = rank(config)
    prompt = "Repeat the numbers of document 7."
    lost = sum(server.asked[m, prompt] - 1 for m in ("m01", "m11") if server.asked[m, prompt])
    assert lost
    content = result.content
    hung = [m for m in ("m01", "m11") if server.asked[m, prompt] == 2]
    assert hung and all(7 in content["models"][m]["items"] for m in hung)
    assert content["money"]["unknown"] == pytest.approx(0.5 * lost)
    assert content["usd"] == pytest.approx(0.5 * content["items_administered"])
    assert sum(block["attempts_lost"]["timeout"] for block in content["models"].values()
               if block.get("attempts_lost")) == lost  # fmt: skip


def test_each_column_of_the_money_stands_on_every_surface(
    bench: Bench, capsys: pytest.CaptureFixture
) -> None:
    usage = {"prompt_tokens": -5, "completion_tokens": 3}
    asked: Counter[str] = Counter()

    def mood(model: str, prompt: str, before: int) -> tuple | None:
        asked[model] += 1
        troubles = {("m01", 1): ("status", 500), ("m11", 9): ("hang", 3.0)}
        return troubles.get((model, asked[model]))

    def says(model: str, n: int) -> dict[str, Any]:
        sound = {"prompt_tokens": 8, "completion_tokens": 10}
        return {"usage": usage if model == "m11" else sound}

    run = bench.folder / "rank.run"
    with CompletionsServer(bench.outputs, mood=mood, usage=False, says=says) as server:
        config = bench.config(
            server.url, ["m01", "m11"], entry={"price": {"input": 1000, "output": 1000}},
            model_args={"timeout": 1}, max_items=12, stop="limits", failures={"backoff": 0.01},
        )  # fmt: skip
        result = rank(config, run_dir=run)
    money = result.content["money"]
    billed = 0.018 * result.content["models"]["m01"]["n_items"]  # 18 tokens each
    assert money["billed"] == pytest.approx(billed) and money["unknown"] > 0.0
    assert billed / 4 < money["assumed"] < 4 * billed  # by the length of the texts, and the error
    assert any("-5 tokens read" in warning for warning in result.warnings)
    assert main(["rank", str(run)]) in (0, 3)
    terminal, page = capsys.readouterr().out, bench.folder / "page.html"
    write_report(read_run(run), page)
    of_m01 = dollars(result.content["models"]["m01"]["usd"])  # with the error that was billed
    assert of_m01 != dollars(result.content["models"]["m01"]["cost"])
    [row] = [line for line in terminal.splitlines() if line.strip(" 12=").startswith("m01 ")]
    assert f" {of_m01} " in row and f">{of_m01}</td>" in page.read_text()
    assert f"<dd>{dollars(result.content['usd'])}</dd>" in page.read_text()
    of_python = (result.to_markdown(), state(run).to_markdown())
    for surface in (terminal, *of_python, page.read_text()):
        text = " ".join(surface.replace("\\", "").split())
        for amount, words in (
            (money["billed"] + money["assumed"], "Spent {}"),
            (money["assumed"], "{} of it is assumed"),
            (money["unknown"], "Up to {} more may have been billed"),
        ):
            assert words.format(dollars(amount)) in text


def test_a_model_that_was_set_aside_is_taken_up_again(bench: Bench) -> None:
    broken = [True]

    mood = trouble("status", 503, of="m05", when=lambda *_: broken[0])
    failures = {"backoff": 0.01, "max_backoff": 0.05, "outage_minutes": 0.003}
    with CompletionsServer(bench.outputs, mood=mood) as server:
        config = bench.config(server.url, THREE, failures=failures)
        assert main(["rank", str(config)]) == 4
        assert "away" in content_of(config)["models"]["m05"]["set_aside"]
        broken[0] = False
        journal = bench.folder / "rank.run" / "journal.jsonl"
        written = journal.read_bytes()
        assert main(["rank", str(config), "--resume", "--retry", "m01", "--max_items", "40"]) == 2
        assert journal.read_bytes() == written
        assert main(["rank", str(config), "--resume", "--retry"]) in (0, 3)
    content = content_of(config)
    assert content["models"]["m05"]["set_aside"] is None and len(content["order"]) == 3
    assert content["models"]["m05"]["n_items"] >= 10
    assert max(server.answered.values()) == 1


def test_what_cannot_work_costs_one_request(bench: Bench) -> None:
    mood = trouble("say", 404, '{"error": {"message": "no such model m05"}}', of="m05")
    with CompletionsServer(bench.outputs, latency=0.02, mood=mood) as server:
        content = bench.ranked(server, THREE, (4,), model_args={"num_concurrent": 8})
        assert sum(n for (m, _), n in server.asked.items() if m == "m05") == 1
    assert "no such model m05" in content["models"]["m05"]["set_aside"]


def test_many_empty_answers_are_loud_and_can_fail_a_run(
    bench: Bench, capsys: pytest.CaptureFixture
) -> None:
    mood = trouble("empty", of="m01", when=lambda number, _: number % 2 == 1)
    with CompletionsServer(bench.outputs, mood=mood) as server:
        content = bench.ranked(
            server, ["m01", "m11"], (4,), max_items=30, stop="limits", fail_on_empty=0.1
        )
    captured = capsys.readouterr()
    assert (captured.out + captured.err).count("answers of m01 are empty") == 1
    assert "are empty" in content["warnings"][0]
    block = content["models"]["m01"]
    assert 0 < block["empty_outputs"] < block["n_items"] == 30


def test_without_bank_or_file_the_order_is_right(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    monkeypatch.chdir(bench.folder)
    with CompletionsServer(bench.outputs) as server:
        flags = ["--task", "loopback_task", "--include_path", "tasks"]
        for name in THREE:
            flags += ["--model", "local-completions", "--model_args",
                      f"model={name},base_url={server.url},tokenizer_backend=none"]  # fmt: skip
        assert main(["rank", *flags]) == 0
        asked = sum(server.asked.values())
        assert main(["rank", *flags, "--resume"]) == 0
        assert sum(server.asked.values()) == asked
    content = json.loads((bench.folder / "loopback_task.run" / "result.json").read_text())
    assert content["order"] == ["m11", "m05", "m01"] and "method:sample" in content["signature"]
    out = capsys.readouterr()
    assert "No bank: every model gets the same random documents" in out.err


def test_models_that_cannot_be_loaded_cost_the_last_one_nothing(
    bench: Bench, capsys: pytest.CaptureFixture
) -> None:
    with CompletionsServer(bench.outputs) as server:
        config = bench.config(server.url, THREE, memory=2)
        content = yaml.safe_load(config.read_text())
        for entry in (content["models"][0], content["models"][2]):
            entry.update(
                model="hf", memory=1, model_args={"pretrained": str(bench.folder / "nowhere")}
            )
        config.write_text(yaml.safe_dump(content))
        assert main(["rank", str(config)]) == 4
        assert not server.asked
    printed = capsys.readouterr()
    assert "No ranking: 2 of 3 models could not be loaded" in printed.out
    assert printed.err.count("m01 is set aside") == 1


def test_a_run_on_arrival_says_that_it_cannot_be_repeated(bench: Bench) -> None:
    with CompletionsServer(bench.outputs) as server:
        [now, before] = (
            rank(bench.config(server.url, THREE, max_items=10, order=order)).content
            for order in ("arrival", "asked")
        )
    assert any("took effect as they arrived, so another run" in one for one in now["warnings"])
    assert "|journal:" in now["signature"] and "|journal:" not in before["signature"]
    assert not before["warnings"]

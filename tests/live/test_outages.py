"""Servers that go away and come back, hang at the deadline, or leave one model alone."""

from __future__ import annotations

import signal
import threading
import time
from collections import Counter
from typing import Any

import pytest
from worlds.bench import PROMPT, content_of, facts
from worlds.server import trouble

from lm_eval_ccat.live.ranking_run import rank
from lm_eval_ccat.live.result import state
from lm_eval_ccat.money import dollars
from lm_eval_ccat.report import read_run, write_report
from lm_eval_ccat.report.terminal import Progress

THREE = ["m01", "m05", "m11"]


@pytest.mark.long
def test_an_outage_ended_by_a_rate_limit_loses_no_model_or_document(bench, server, monkeypatch):
    monkeypatch.setattr("lm_eval_ccat.live.channel.SILENCE", 0.4)
    began: list[float] = []

    def mood(model: str, prompt: str, before: int) -> tuple | None:
        if model != "m05" or server.answers(model) < 6:
            return None
        began.append(time.monotonic())
        seconds = began[-1] - began[0]
        return ("status", 503) if seconds < 1.0 else ("status", 429) if seconds < 2.0 else None

    server.mood, server.latency = mood, 0.01
    content = bench.ranked(
        server, THREE, bank=None, max_items=20, stop="limits", model_args={"num_concurrent": 6},
        failures={"attempts": 2, "backoff": 0.05, "max_backoff": 0.4, "outage_minutes": 0.2},
    )  # fmt: skip
    for block in content["models"].values():
        assert block["n_items"] == 20 and not block["failed"] and not block["set_aside"]
    during = [t for t in began if t - began[0] < 1.0]
    # Two requests of each slot, and one probe after each pause: 0.05, 0.1, 0.2, 0.4 ...
    assert len(during) <= 2 * 6 + 7


@pytest.mark.long
def test_no_item_fails_because_a_server_shared_by_all_models_is_full(bench, server):
    settings = {
        "bank": None, "max_items": 40, "stop": "limits", "model_args": {"num_concurrent": 32},
        "failures": {"backoff": 0.05, "max_backoff": 0.4},
    }  # fmt: skip
    result = facts(bench.ranked(server, THREE, name="calm", **settings))
    places = threading.Semaphore(6)

    def mood(model: str, prompt: str, before: int) -> tuple | None:
        if not places.acquire(blocking=False):
            return "status", 503
        time.sleep(0.05)
        places.release()
        return None

    server.mood = mood
    assert facts(bench.ranked(server, THREE, name="full", **settings)) == result
    refused = sum(called == "status 503" for *_, called in server.log)
    assert refused <= 3 * 40 * len(THREE)


@pytest.mark.long
def test_a_server_that_hangs_is_probed_ever_less_often_and_missed_by_nobody(
    bench, server, monkeypatch
):
    monkeypatch.setattr("lm_eval_ccat.live.failures.LONGEST_HUNG_PAUSE", 3.0)
    began: list[float] = []

    def mood(model: str, prompt: str, before: int) -> tuple | None:
        if model != "m05" or (began and time.monotonic() - began[0] > 6.0):
            return None
        began.append(time.monotonic())
        return "hang", 2.0

    server.mood = mood
    content = bench.ranked(
        server, THREE, bank=None, max_items=20, stop="limits", model_args={"timeout": 1},
        failures={"backoff": 0.05, "max_backoff": 0.05, "outage_minutes": 1},
    )  # fmt: skip
    for block in content["models"].values():
        assert block["n_items"] == 20 and not block["failed"] and not block["set_aside"]
    # Pauses of 0.05, 0.2, 0.8 and 3 seconds, and not of 0.05 each: every probe may be billed.
    assert len(began) <= 4


@pytest.mark.long
@pytest.mark.parametrize("mood", [("hang", 5.0), ("status", 500), ("status", 502), ("drop",)])
def test_an_outage_in_mid_run_costs_a_request_a_slot_and_changes_nothing(bench, server, mood):
    """It is noticed once three documents fail with no answer between them, and then probed."""
    asked: list[float] = []

    def away(model: str, prompt: str, before: int) -> tuple | None:
        if model != "m05" or server.answers(model) < 20:
            return None
        asked.append(time.monotonic())
        return mood if asked[-1] - asked[0] < 5.0 else None

    server.latency = 0.02
    config = {
        "bank": None, "max_items": 60, "stop": "limits", "entry": {"concurrency": 8},
        "model_args": {"timeout": 1}, "failures": {"backoff": 0.25},
    }  # fmt: skip
    calm = bench.ranked(server, THREE, name="calm", **config)
    server.answered.clear()
    server.asked.clear()
    server.mood = away
    content = bench.ranked(server, THREE, **config)
    assert facts(content) == facts(calm)
    during = [moment for moment in asked if moment - asked[0] < 5.0]
    # A request of each slot, two of them tried again, a second one, and the probes.
    assert len(during) <= 8 + 2 + 1 + 5
    back = asked[len(during) :]
    # A request that hangs may be billed, so it is waited longer from one to the next.
    assert back[0] - asked[0] < 5.0 + (5.0 if mood[0] == "hang" else 2.5)
    # Twice as many from answer to answer, and not all slots at once.
    assert sum(moment - back[0] < 0.01 for moment in back) <= 3


@pytest.mark.long
def test_nothing_is_spent_on_comparing_a_model_with_nobody(bench, server):
    server.mood = trouble("status", 401, of="m01")
    content = bench.ranked(server, ["m01", "m11"], (4,), stop="limits")
    assert "only m11 is left" in content["stopped_because"]
    assert content["models"]["m11"]["n_items"] < 10
    # Where its own error is wanted it goes on.
    config = bench.config(server.url, ["m01", "m11"], stop="se 0.02", bank="default.bank.json")
    content = rank(config).content
    assert content["models"]["m01"]["set_aside"]
    assert content["models"]["m11"]["n_items"] >= 10


@pytest.mark.long
def test_the_deadline_cancels_what_hangs(bench, server):
    server.mood = trouble("hang", 30.0, of="m05")
    server.latency = 0.01
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


@pytest.mark.long
def test_a_rate_limit_of_an_hour_holds_up_nobody_and_is_told(bench, server, monkeypatch, capsys):
    monkeypatch.setattr("lm_eval_ccat.live.channel.SILENCE", 0.5)
    server.mood = trouble(
        "say", 429, '{"error": "quota of the day"}', {"Retry-After": "3600"}, of="m05"
    )
    content = bench.ranked(
        server, THREE, (4,), bank=None, max_items=20, stop="limits",
        failures={"outage_minutes": 0.05},
    )  # fmt: skip
    assert server.answered["m01", PROMPT.format(id=4)] == 1
    assert server.requests("m05") <= 4
    shown = capsys.readouterr().err
    assert "asked for 3600 s of waiting, longer than the outage limit" in shown
    assert all(content["models"][m]["n_items"] == 20 for m in ("m01", "m11"))


@pytest.mark.long
def test_answers_that_wait_for_another_are_told_of(bench, server, monkeypatch, ccat):
    monkeypatch.setattr("lm_eval_ccat.report.terminal.PLAIN_SECONDS", 0.5)
    monkeypatch.setattr("lm_eval_ccat.live.sender.WAIT_AFTER_INTERRUPT", 0.2)
    server.mood = trouble("hang", 30.0, of="m05")
    line_of = Progress.line

    def interrupted(progress: Progress) -> str:
        if "16 answers will count once m05" in (line := line_of(progress)):  # m11's whole window
            signal.raise_signal(signal.SIGINT)
        return line

    monkeypatch.setattr(Progress, "line", interrupted)
    config = bench.config(
        server.url, ["m05", "m11"], bank=None, entry={"price": {"item": 0.01}},
        budget={"usd": 0.5}, model_args={"timeout": 60},
    )  # fmt: skip
    shown = ccat("rank", config, code=4)
    waiting = sum(server.answered.values())
    held_up = f"{waiting} answers will count once m05 answers an item that was asked before theirs"
    assert waiting > 8 and f"nothing is ranked yet: {held_up}" in shown.out
    assert f"Warning: {held_up}." in shown.out
    [*_, line] = (text for text in shown.err.splitlines() if "unanswered" in text)
    assert f"0 items; {dollars(0.01 * waiting)} of {dollars(0.5)}" in line and held_up in line
    assert "; 16 unanswered" in line


@pytest.mark.long
@pytest.mark.parametrize("slots", [1, 8])
@pytest.mark.parametrize("mood", [("status", 500), ("drop",)])
def test_a_fifth_of_the_documents_that_always_fail_are_given_up_and_no_model(
    bench, server, slots, mood
):
    """However many of them fail in a row, and are all that is open: others were answered."""
    server.mood = trouble(*mood, when=lambda number, before: number % 10 in (2, 3))
    content = bench.ranked(
        server, ["m01", "m11"], bank=None, max_items=40, stop="limits",
        model_args={"num_concurrent": slots},
        failures={"attempts": 3, "backoff": 0.05, "max_backoff": 0.4, "outage_minutes": 0.2},
    )  # fmt: skip
    for block in content["models"].values():
        assert block["n_items"] == 40 and not block["set_aside"]
        assert {document["doc_id"] % 10 for document in block["failed"]} == {2, 3}


@pytest.mark.long
@pytest.mark.parametrize("slots", [1, 8])
def test_a_fifth_of_the_documents_that_hang_are_given_up_and_no_model(
    bench, server, monkeypatch, capsys, slots
):
    """Long before they time out, although they may hold all slots, or be all that is left."""
    monkeypatch.setattr("lm_eval_ccat.live.channel.LEAST_PATIENCE", 0.4)
    monkeypatch.setattr("lm_eval_ccat.live.channel.SILENCE", 2.0)
    server.mood = trouble("hang", 300.0, when=lambda number, before: number % 10 in (2, 3))
    content = bench.ranked(
        server, ["m01", "m11"], bank=None, max_items=40, stop="limits",
        model_args={"timeout": 300, "num_concurrent": slots},
    )  # fmt: skip
    for block in content["models"].values():
        assert block["n_items"] == 40 and not block["set_aside"]
        assert {document["doc_id"] % 10 for document in block["failed"]} == {2, 3}
    assert content["seconds"] < 60.0 and "set aside" not in capsys.readouterr().err


@pytest.mark.long
def test_a_short_outage_in_which_requests_hang_for_ever_costs_no_document(
    bench, server, monkeypatch
):
    """The server is back before it counts as away, and never answers what it got meanwhile."""
    monkeypatch.setattr("lm_eval_ccat.live.channel.SILENCE", 3.0)
    began: list[float] = []

    def mood(model: str, prompt: str, before: int) -> tuple | None:
        if model != "m05" or server.answers(model) < 20:
            return None
        began.append(time.monotonic())
        return ("hang", 300.0) if began[-1] - began[0] < 2.0 else None

    server.mood, server.latency = mood, 0.02
    content = bench.ranked(
        server, THREE, bank=None, max_items=60, stop="limits",
        model_args={"timeout": 300, "num_concurrent": 8},
    )  # fmt: skip
    for block in content["models"].values():
        assert block["n_items"] == 60 and not block["failed"] and not block["set_aside"]


@pytest.mark.long
@pytest.mark.parametrize("slots", [8, 32])
def test_documents_that_are_refused_sooner_than_others_are_answered_cost_no_model(
    bench, server, capsys, slots
):
    """A third is too long, say: the first refusals arrive before any answer.

    The first of each model is a warning, and the log names all of them.
    """

    def mood(model, prompt, before):
        refused = int(prompt.rstrip(".").split()[-1]) % 3 == 0
        return ("status", 400) if refused else ("hang", 0.2)  # an answer takes a while

    server.mood = mood
    content = bench.ranked(
        server, ["m01", "m11"], bank=None, max_items=40, stop="limits", ahead=40,
        model_args={"num_concurrent": slots},
    )  # fmt: skip
    for block in content["models"].values():
        assert block["n_items"] == 40 and not block["set_aside"]
        assert {document["doc_id"] % 3 for document in block["failed"]} == {0}
    warned = capsys.readouterr().err
    logged = (bench.run() / "run.log").read_text()
    for name, block in content["models"].items():
        assert warned.count(f"{name} failed on document") == 1 < len(block["failed"])
        assert logged.count(f"{name} failed on document") == len(block["failed"])


@pytest.mark.long
def test_a_model_that_refuses_every_document_is_set_aside_after_a_few(bench, server):
    server.mood = trouble("status", 400, of="m05")
    content = bench.ranked(server, ["m01", "m05", "m11"], (4,), bank=None, max_items=20)
    assert "3 documents failed in a row" in content["models"]["m05"]["set_aside"]
    assert server.requests("m05") <= 6


@pytest.mark.long
@pytest.mark.parametrize(
    ("seconds", "model_args", "silence", "requests"),
    [
        # Given up after its attempts, of which a second request is one.
        (9.0, {"timeout": 1, "num_concurrent": 4}, 60.0, (3, 4)),
        (60.0, {"timeout": 300, "num_concurrent": 2}, 1.0, (2,)),  # given up after a silence
    ],
)
def test_a_document_that_always_hangs_is_given_up_and_its_model_is_not(
    bench, server, monkeypatch, seconds, model_args, silence, requests
):
    monkeypatch.setattr("lm_eval_ccat.live.channel.LEAST_PATIENCE", 0.2)
    monkeypatch.setattr("lm_eval_ccat.live.channel.SILENCE", silence)
    server.mood = trouble("hang", seconds, of="m01", when=lambda number, before: number == 59)
    content = bench.ranked(
        server, ["m01", "m11"], bank=None, max_items=20, stop="limits", model_args=model_args,
        entry={"price": {"item": 0.5}}, failures={"attempts": 3, "backoff": 0.01},
    )  # fmt: skip
    hung, model = (
        server.asked["m01", "Repeat the numbers of document 59."],
        content["models"]["m01"],
    )
    assert hung in requests and not model["set_aside"] and model["n_items"] == 20
    assert [one["doc_id"] for one in model["failed"]] == [59]
    # Every request may be billed, and none of them is an item.
    assert content["money"]["unknown"] == pytest.approx(0.5 * hung)
    assert content["usd"] == pytest.approx(0.5 * content["items_administered"])


@pytest.mark.long
def test_each_column_of_the_money_stands_on_every_surface(bench, server, ccat):
    usage = {"prompt_tokens": -5, "completion_tokens": 3}
    asked: Counter[str] = Counter()

    def mood(model: str, prompt: str, before: int) -> tuple | None:
        asked[model] += 1
        troubles = {("m01", 1): ("status", 500), ("m11", 9): ("hang", 3.0)}
        return troubles.get((model, asked[model]))

    def says(model: str, n: int) -> dict[str, Any]:
        sound = {"prompt_tokens": 8, "completion_tokens": 10}
        return {"usage": usage if model == "m11" else sound}

    server.mood, server.usage, server.says = mood, False, says
    config = bench.config(
        server.url, ["m01", "m11"], entry={"price": {"input": 1000, "output": 1000}},
        model_args={"timeout": 1}, max_items=12, stop="limits", failures={"backoff": 0.01},
    )  # fmt: skip
    result = rank(config, run_dir=bench.run())
    money = result.content["money"]
    billed = 0.018 * result.content["models"]["m01"]["n_items"]  # 18 tokens each
    assert money["billed"] == pytest.approx(billed) and money["unknown"] > 0.0
    assert billed / 4 < money["assumed"] < 4 * billed  # by the length of the texts, and the error
    assert any("-5 tokens read" in warning for warning in result.warnings)
    # What hung is asked again, and its first attempt is counted.
    assert not any(block["failed"] for block in result.content["models"].values())
    assert result.content["models"]["m11"]["attempts_lost"]["timeout"] >= 1
    terminal = ccat("rank", bench.run(), code=(0, 3)).out
    page = write_report(read_run(bench.run()), bench.folder / "page.html").read_text()
    of_m01 = dollars(result.content["models"]["m01"]["usd"])  # with the error that was billed
    assert of_m01 != dollars(result.content["models"]["m01"]["cost"])
    [row] = [line for line in terminal.splitlines() if line.strip(" 12=").startswith("m01 ")]
    assert f" {of_m01} " in row and f">{of_m01}</td>" in page
    assert f"<dd>{dollars(result.content['usd'])}</dd>" in page
    for surface in (terminal, page, result.to_markdown(), state(bench.run()).to_markdown()):
        text = " ".join(surface.replace("\\", "").split())
        for amount, words in (
            (money["billed"] + money["assumed"], "Spent {}"),
            (money["assumed"], "{} of it is assumed"),
            (money["unknown"], "Up to {} more may have been billed"),
        ):
            assert words.format(dollars(amount)) in text


@pytest.mark.long
def test_a_model_that_was_set_aside_is_taken_up_again(bench, server, ccat):
    server.mood = trouble("status", 503, of="m05")
    failures = {"backoff": 0.01, "max_backoff": 0.05, "outage_minutes": 0.003}
    config = bench.config(server.url, THREE, failures=failures)
    ccat("rank", config, code=4)
    assert "away" in content_of(config)["models"]["m05"]["set_aside"]
    server.mood = None
    journal = bench.run() / "journal.jsonl"
    written = journal.read_bytes()
    ccat("rank", config, "--resume", "--retry", "m01", "--max_items", 40, code=2)
    assert journal.read_bytes() == written
    ccat("rank", config, "--resume", "--retry", code=(0, 3))
    content = content_of(config)
    assert content["models"]["m05"]["set_aside"] is None and len(content["order"]) == 3
    assert content["models"]["m05"]["n_items"] >= 10
    assert max(server.answered.values()) == 1


@pytest.mark.long
def test_what_cannot_work_costs_one_request(bench, server):
    server.mood = trouble("say", 404, '{"error": {"message": "no such model m05"}}', of="m05")
    server.latency = 0.02
    content = bench.ranked(server, THREE, (4,), model_args={"num_concurrent": 8})
    assert server.requests("m05") == 1
    assert "no such model m05" in content["models"]["m05"]["set_aside"]


@pytest.mark.long
def test_many_empty_answers_are_loud_and_can_fail_a_run(bench, server, capsys):
    server.mood = trouble("empty", of="m01", when=lambda number, _: number % 2 == 1)
    content = bench.ranked(
        server, ["m01", "m11"], (4,), max_items=30, stop="limits", fail_on_empty=0.1
    )
    captured = capsys.readouterr()
    assert (captured.out + captured.err).count("answers of m01 are empty") == 1
    assert "are empty" in content["warnings"][0]
    block = content["models"]["m01"]
    assert 0 < block["empty_outputs"] < block["n_items"] == 30


@pytest.mark.long
def test_without_a_bank_each_metric_is_named_with_its_own_filter(bench, server, monkeypatch, ccat):
    monkeypatch.chdir(bench.folder)
    filters = "filter_list: [{name: first, filter: [{function: take_first}]}]\n"
    task = (bench.folder / "tasks" / "loopback_task.yaml").read_text() + filters
    (bench.folder / "tasks" / "first.yaml").write_text(
        task.replace("task: loopback_task", "task: loopback_first")
    )
    flags = ["--task", "loopback_task,loopback_first", "--include_path", "tasks"]
    for name in THREE[:2]:
        flags += ["--model", "local-completions", "--model_args",
                  f"model={name},base_url={server.url},tokenizer_backend=none"]  # fmt: skip
    said = ccat("rank", *flags, "--max_items", "12").err
    assert "ranked by weighted mean of share,none and share,first." in said


@pytest.mark.long
def test_a_ranking_stopped_while_models_load_is_started_again(bench, server, monkeypatch, ccat):
    def interrupted(self):
        raise KeyboardInterrupt

    config = bench.config(server.url, THREE[:2], max_items=12)
    run = "rank", config, "--run_dir", bench.folder / "a.run"
    with monkeypatch.context() as patch:
        patch.setattr("lm_eval_ccat.live.run.Run._planned", interrupted)
        ccat(*run, code=130)
    said = ccat(*run, "--resume", code=2).err
    ccat(*run, code=(0, 3))
    assert "a.run holds no ranking yet; start it without --resume" in said


@pytest.mark.long
def test_without_bank_or_file_the_order_is_right(bench, server, monkeypatch, ccat):
    monkeypatch.chdir(bench.folder)
    flags = ["--task", "loopback_task", "--include_path", "tasks"]
    for name in THREE:
        flags += ["--model", "local-completions", "--model_args",
                  f"model={name},base_url={server.url},tokenizer_backend=none"]  # fmt: skip
    said = ccat("rank", *flags).err
    assert "No bank: every model gets the same random documents" in said
    asked = sum(server.asked.values())
    ccat("rank", *flags, "--resume")
    assert sum(server.asked.values()) == asked
    content = content_of(bench.run("loopback_task"))
    assert content["order"] == ["m11", "m05", "m01"] and "method:sample" in content["signature"]


@pytest.mark.long
def test_models_that_cannot_be_loaded_cost_the_last_one_nothing(bench, server, ccat):
    gone = {"model": "hf", "memory": 1, "model_args": {"pretrained": f"{bench.folder}/nowhere"}}
    config = bench.config(server.url, THREE, memory=2, of={"m01": gone, "m11": gone})
    printed = ccat("rank", config, code=4)
    assert not server.asked
    assert "No ranking: 2 of 3 models could not be loaded" in printed.out
    assert printed.err.count("m01 is set aside") == 1


@pytest.mark.long
def test_a_run_on_arrival_says_that_it_cannot_be_repeated(bench, server):
    [now, before] = (
        rank(bench.config(server.url, THREE, max_items=10, order=order)).content
        for order in ("arrival", "asked")
    )
    assert any("took effect as they arrived, so another run" in one for one in now["warnings"])
    assert "|journal:" in now["signature"] and "|journal:" not in before["signature"]
    assert not any("as they arrived" in warning for warning in before["warnings"])

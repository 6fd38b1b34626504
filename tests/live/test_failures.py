"""A server that misbehaves on purpose: what is retried, given up, and never lost."""

from __future__ import annotations

import json
import os
import re
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest
from worlds.bench import TASK, content_of
from worlds.server import trouble

from lm_eval_ccat import adaptive_evaluate
from lm_eval_ccat.errors import UsageError
from lm_eval_ccat.harness.estimates import in_words
from lm_eval_ccat.harness.transport import ServerError
from lm_eval_ccat.live.complete import complete
from lm_eval_ccat.live.failures import Signs
from lm_eval_ccat.live.run import Run
from lm_eval_ccat.live.sender import Interrupts
from lm_eval_ccat.money import dollars

THREE = ["m01", "m05", "m11"]
QUICK = {"failures": {"attempts": 3, "backoff": 0.02, "max_backoff": 0.1}}


@pytest.mark.long
@pytest.mark.parametrize(
    ("what", "times", "at_once"), [(("status", 429), 2, 4), (("garbage",), 1, 1)]
)
def test_passing_trouble_is_retried_and_loses_nothing(bench, server, capsys, what, times, at_once):
    server.mood = trouble(*what, when=lambda number, before: before < times and number % 5 == 0)
    content = bench.ranked(
        server, THREE, model_args={"num_concurrent": at_once}, max_items=20, **QUICK
    )
    assert all(not block["failed"] for block in content["models"].values())
    # A server that limits its rate is there, however often it refuses.
    assert "does not answer" not in capsys.readouterr().err
    assert max(server.asked.values()) == times + 1
    # Answers behind the deciding one are paid for and kept, and not counted.
    assert content["items_administered"] <= sum(server.answered.values()) <= 3 * 20


@pytest.mark.long
def test_an_adaptive_run_without_an_answer_has_no_estimate_and_one_that_lost_its_model_says_so(
    bench, server, ccat
):
    out, given = bench.folder / "out", 0
    run = bench.adaptive(server, "m05", "--max_items", 20, "--output_path", out)
    server.mood = trouble("status", 400, when=lambda *_: sum(server.answered.values()) >= given)
    err = ccat(*run, code=1).err
    assert "no document was answered" in err and "HTTP 400: on purpose" in err
    assert not out.exists()
    given = 12
    ccat(*run, code=4)
    [file] = out.rglob("results_*.json")
    block = json.loads(file.read_text())["adaptive"][TASK]
    assert block["items"] == 12 and "HTTP 400: on purpose" in block["set_aside"]
    assert block["set_aside"] in block["stopped_because"]
    budget = "--budget_usd", "0.001", "--price", "item=0.002"
    assert "the budget is used up" in ccat(*run, *budget, code=1).err


@pytest.mark.long
def test_an_interrupted_adaptive_run_says_what_is_lost_and_what_keeps_it(
    bench, server, ccat, caplog, interrupt_at
):
    interrupt_at(9)
    cache = "--use_cache", bench.folder / "cache", "--price", "item=0.5"
    run = bench.adaptive(server, "m05", "--max_items", 20, *cache)
    said = ccat(*run, code=130).err + caplog.text  # the harness may have set up its log before
    lost = re.search(r"(\d+) answers are lost, unless --use_cache.*the same command goes on", said)
    assert lost is not None
    assert f"Spent {dollars(0.5 * (20 - int(lost[1])))}." in ccat(*run).out
    assert max(server.asked.values()) == 1 and sum(server.asked.values()) == 20


@pytest.mark.long
def test_a_model_whose_key_is_set_right_is_asked_without_retry(bench, server, ccat):
    server.mood = trouble("status", 401, of="m05")
    config = bench.config(server.url, THREE, **QUICK)
    assert "type the same command with --resume; all answers" in ccat("rank", config, code=4).out
    server.mood = None
    ccat("rank", config, "--resume", code=(0, 3))
    assert content_of(config)["models"]["m05"]["n_items"] >= 10


@pytest.mark.long
def test_an_adaptive_run_says_what_failed_and_what_the_bank_does_not_know(bench, server):
    server.mood = trouble("status", 400, when=lambda number, before: number % 5 == 0)
    named = {"model": "m05", "base_url": server.url, "tokenizer_backend": "none"}
    results = adaptive_evaluate(
        "local-completions", named, [TASK], include_path=str(bench.folder / "tasks"), max_items=20
    )
    block = results["adaptive"][TASK]
    refused = {line[2].rstrip(".").split()[-1] for line in server.log if line[3] == "status 400"}
    failed = {str(failure["doc_id"]) for failure in block["failed"]}
    # What was refused behind the last answer that counts is no part of the result.
    assert 1 < len(failed) <= len(refused) and failed <= refused
    assert f"the model failed on {len(failed)} documents; they count" in in_words(block, TASK)
    far = {**block, "findings": ["may score better than every model of the bank"]}
    assert "the model may score better than every model" in in_words(far, TASK)


@pytest.mark.long
def test_an_adaptive_run_that_is_resumed_asks_its_model_again(bench, server):
    server.mood = trouble("status", 400, when=lambda *_: sum(server.answered.values()) >= 12)
    named = {"model": "m05", "base_url": server.url, "tokenizer_backend": "none"}

    def run(**more):
        results = adaptive_evaluate(
            "local-completions", named, [TASK], include_path=str(bench.folder / "tasks"),
            max_items=20, run_dir=bench.folder / "one.run", **more,
        )  # fmt: skip
        return results["adaptive"][TASK]

    assert run()["items"] == 12
    server.mood = None
    again = run(resume=True)
    with pytest.raises(UsageError, match="complete the output folder"):
        complete(bench.folder / "one.run")
    assert again["items"] == 20 and again["set_aside"] is None
    assert sum(server.answered.values()) == 20


@pytest.mark.long
def test_a_run_that_lost_every_model_can_be_read(bench, server, ccat):
    server.mood = trouble("status", 401, when=lambda *_: sum(server.answered.values()) >= 24)
    content = bench.ranked(server, THREE[:2], (4,), stop="se 0.001", max_items=30, **QUICK)
    assert content["order"] == [] and content["items_administered"] in range(20, 25)
    for command in ("rank", "report", "verify"):
        ccat(command, bench.run(), code=(0, 4))


@pytest.mark.long
def test_a_model_that_keeps_failing_is_set_aside_and_the_others_finish(bench, server, capsys):
    def late(number, before):
        return server.answers("m05") >= 12

    failures = {**QUICK["failures"], "outage_minutes": 0.01}
    server.mood = trouble("status", 500, of="m05", when=late)
    content = bench.ranked(server, THREE, (4,), stop="limits", max_items=30, failures=failures)
    assert content["order"] == ["m11", "m01"]
    lost = content["models"]["m05"]
    assert lost["rank"] is None and lost["n_items"] == 12
    assert "away for more than 0.01 min" in lost["set_aside"]
    assert "HTTP 500: on purpose" in lost["set_aside"]  # the server's own words
    assert all(content["models"][m]["n_items"] == 30 for m in ("m01", "m11"))
    out = capsys.readouterr().out
    assert "m05 was set aside" in out and "Next: correct what set m05 aside" in out


@pytest.mark.long
def test_a_model_that_fails_at_most_documents_is_set_aside(bench, server):
    server.mood = trouble("status", 422, of="m05", when=lambda number, _: number % 4 > 0)
    failures = {**QUICK["failures"], "in_a_row": 50}
    content = bench.ranked(server, THREE, (4,), stop="limits", max_items=30, failures=failures)
    assert re.search(r" of [12]\d documents failed", content["models"]["m05"]["set_aside"])
    assert server.requests("m05") < 30


@pytest.mark.long
def test_a_refused_document_is_recorded_and_not_scored_zero(bench, server, capsys):
    server.mood = trouble("status", 400, of="m11", when=lambda number, _: number % 10 == 0)
    content = bench.ranked(server, ["m01", "m11"], stop="limits", max_items=90, **QUICK)
    block = content["models"]["m11"]
    failed = {f["doc_id"] for f in block["failed"]}
    assert failed and failed <= set(range(0, 120, 10)) and not failed & set(block["items"])
    assert set(server.asked.values()) == {1}
    assert block["estimate"] == pytest.approx(bench.truth["m11"], abs=0.06)
    assert "they count as not seen, not as 0" in capsys.readouterr().out


@pytest.mark.long
def test_ctrl_c_ends_within_seconds_with_a_ranking_that_can_go_on(bench, server, ccat, monkeypatch):
    monkeypatch.setattr("lm_eval_ccat.live.sender.WAIT_AFTER_INTERRUPT", 0.3)
    hanging, pressed = threading.Event(), []
    server.mood, server.latency = trouble("hang", 30.0, when=lambda *_: hanging.is_set()), 0.01
    config = bench.config(server.url, THREE, stop="limits", model_args={"timeout": 60})
    journal = bench.run() / "journal.jsonl"

    def press():
        while not (journal.exists() and journal.read_bytes().count(b'"tell"') > 45):
            time.sleep(0.01)
        hanging.set()
        time.sleep(0.2)
        pressed.append(time.monotonic())
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=press, daemon=True).start()
    out = ccat("rank", config, code=4).out
    assert time.monotonic() - pressed[0] < 25  # requests hang for 30
    assert "interrupted" in out and "Next: the same command with --resume" in out
    assert content_of(config)["items_administered"] >= 30
    hanging.clear()
    before = set(server.answered)
    ccat("rank", config, "--resume", code=(0, 3))
    assert all(server.answered[pair] == 1 for pair in before)


def test_ctrl_c_during_garbage_collection_is_not_lost():
    interrupts = Interrupts()
    with interrupts:
        with suppress(KeyboardInterrupt):  # as Python does with what a callback raises
            signal.raise_signal(signal.SIGINT)
        interrupts.wait = True
        with pytest.raises(KeyboardInterrupt):
            interrupts.heed()


def test_a_signal_during_the_writing_of_a_result_is_noted_and_none_outlives_its_run():
    woken, interrupts = [], Interrupts()
    interrupts.wake = lambda: woken.append(1)
    try:
        with interrupts:
            interrupts.held = True
            signal.raise_signal(signal.SIGINT)
            signal.raise_signal(signal.SIGTERM)
        with interrupts:
            interrupts.heed()  # that was the run before
            interrupts.wait = True
            signal.raise_signal(signal.SIGTERM)
    except KeyboardInterrupt:  # which would end the tests
        pytest.fail("a run that is held, or the next one, is interrupted")
    assert woken == [1]


@contextmanager
def full_disk(at: int) -> Iterator[None]:
    """Refuse to let a file grow beyond so many bytes, as a disk that is full does."""
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (at, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.long
def test_on_a_full_disk_a_models_files_are_whole_or_not_there(bench, server, ccat, monkeypatch):
    write = Run.write_model_files

    def on_a_full_disk(run: Run) -> None:
        with full_disk(8_000):
            write(run)

    config = bench.config(server.url, ["m01", "m11"], stop="limits", max_items=40)
    with monkeypatch.context() as patch:
        patch.setattr(Run, "write_model_files", on_a_full_disk)
        err = ccat("rank", config).err
    assert all(f"no results files for {m}:" in err for m in ("m01", "m11"))
    assert not [*bench.run().rglob("*m01*"), *bench.folder.rglob("samples_*")]
    ccat("rank", config, "--resume")
    [samples] = bench.run().glob("m01/samples_*.jsonl")
    assert len(samples.read_text().splitlines()) == 40


@pytest.mark.long
def test_a_full_disk_stops_cleanly_and_keeps_everything(bench, server, ccat):
    config = bench.config(server.url, THREE, stop="limits", max_items=40)
    with full_disk(30_000):
        error = ccat("rank", config, code=1).err
    assert "File too large" in error and "everything recorded before is kept" in error
    kept = (bench.run() / "journal.jsonl").read_bytes()
    assert kept.count(b'"tell"') > 0 and kept.endswith(b"\n")
    ccat("rank", config, "--resume", code=(0, 3))
    assert content_of(config)["items_administered"] == 120


def test_a_folder_that_cannot_be_written_is_refused_before_anything_is_asked(bench, server, ccat):
    config = bench.config(server.url, THREE)
    bench.run().write_text("a file stands where the folder should be")
    assert "cannot write in the run directory" in ccat("rank", config, code=1).err
    assert not server.asked


@pytest.mark.long
def test_a_money_budget_holds_where_failures_cost_and_is_told_as_it_was_given(bench, server, ccat):
    # Two in five documents fail twice, at the price of an answer.
    server.mood = trouble("status", 500, when=lambda number, before: number % 5 < 2 and before < 2)
    config = bench.config(
        server.url, THREE, entry={"price": {"item": 0.01}}, budget={"usd": 0.6}, stop="limits",
        failures={"backoff": 0.01, "in_a_row": 99},
    )  # fmt: skip
    out, content = ccat("rank", config).out, content_of(config)
    assumed = content["money"]["assumed"]
    assert assumed > 0.1 and content["usd"] == pytest.approx(0.01 * sum(server.asked.values()))
    assert 0.55 < content["usd"] <= 0.6 + 3 * 0.01 + 1e-9  # one of each model was in flight
    says = f"(0 of 0.6 left; {assumed:.4g} of it paid for lost and second attempts)"
    assert content["stopped_because"].endswith(says) and says in out
    assert says in ccat("rank", bench.run()).out
    ccat("verify", bench.run())


@pytest.mark.long
def test_a_money_budget_is_exceeded_by_what_was_in_flight_at_most(bench, server):
    per_item = (6 * 1.0 + 10 * 4.0) / 1e6
    content = bench.ranked(
        server, THREE, entry={"price": {"input": 1.0, "output": 4.0}}, stop="limits",
        budget={"usd": 60.5 * per_item}, model_args={"num_concurrent": 4},
    )  # fmt: skip
    assert content["cost"] == pytest.approx(per_item * content["items_administered"])
    assert 50 * per_item < content["cost"] <= (60.5 + 12) * per_item


@pytest.mark.long
def test_the_judge_is_paid_from_the_same_budget(bench, server):
    content = bench.ranked(
        server, ["m01", "m11"], entry={"price": {"item": 0.01}}, judge={"item": 0.03},
        budget={"usd": 2.0}, stop="limits",
    )  # fmt: skip
    assert content["cost"] == pytest.approx(0.04 * content["items_administered"])
    assert 1.95 <= content["cost"] <= 2.0 + 1e-9


@pytest.mark.long
def test_an_hour_is_paid_once_by_documents_that_run_at_the_same_time(bench, server):
    server.latency = 0.2
    content = bench.ranked(
        server, ["m01", "m11"], entry={"price": {"hour": 3600.0}}, max_items=16,
        stop="limits", model_args={"num_concurrent": 8},
    )  # fmt: skip
    # 16 documents, 8 at once: two times 0.2 s, at a dollar a second, and more on a busy machine;
    # one by one they would be 3.2 s.
    assert 0.4 <= content["models"]["m01"]["cost"] < 3.0


@pytest.mark.long
def test_a_scoring_that_breaks_is_not_paid_for_again_and_again(bench, server):
    bench.rewrite(lambda name, text: text.replace("return {'share'", "return 1 / 0 * {'share'"))
    failures = {"attempts": 6, "backoff": 0.01}
    content = bench.ranked(server, ["m01", "m11"], (4,), failures=failures)
    aside = [block["set_aside"] for block in content["models"].values() if block["set_aside"]]
    assert aside and all("ZeroDivisionError" in reason for reason in aside)
    assert not any(block["items"] for block in content["models"].values())
    assert max(server.asked.values()) == 2


@pytest.mark.parametrize(("status", "timed_out"), [(504, True), (503, False), (408, False)])
def test_a_gateway_that_waited_in_vain_is_a_time_out(status, timed_out):
    signs = Signs.of(ServerError("status", "no", status=status))
    assert signs.timed_out is timed_out and signs.on_the_way

"""Killed at any moment, a run goes on as if nothing had happened."""

from __future__ import annotations

import json
import multiprocessing
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from worlds.bench import content_of, facts
from worlds.chaos import PRELOADED

from lm_eval_ccat.cli.main import main
from lm_eval_ccat.journal import JournalFile
from lm_eval_ccat.live.result import state
from lm_eval_ccat.records import Drop, Tell

THREE = ["m03", "m05", "m09"]
SETTINGS = {"stop": "limits", "budget": {"items": 100}}


def run_rank(arguments: list[str], code: Any) -> None:
    """In a child process."""
    os.setpgrp()
    signal.signal(signal.SIGHUP, signal.SIG_DFL)  # also where `nohup` started the tests
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    os.dup2(null, 2)
    code.value = main(["rank", *arguments])
    os._exit(0)


@pytest.fixture(scope="session")
def start_rank() -> Callable[..., tuple[Any, Any]]:
    """Starts `rank` in a process that has the harness imported already; it, and its exit code."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(PRELOADED)

    def start(*arguments: object) -> tuple[Any, Any]:
        code = context.Value("i", -1)
        child = context.Process(target=run_rank, args=([str(a) for a in arguments], code))
        child.start()
        return child, code

    return start


def killed(start_rank: Callable[..., tuple[Any, Any]], config: Path) -> int:
    """Kill a ranking twice, at any moment, and let it end; return how often it was alive."""
    journal = config.with_suffix(".run") / "journal.jsonl"
    rng, kills = random.Random(1), 0
    for last in (False, False, True):
        size = journal.stat().st_size if journal.exists() else 0
        child, code = start_rank(config, *(["--resume"] if size else []))
        # Once the run is under way, strike at any moment of it.
        while not last and child.is_alive():
            if journal.exists() and journal.stat().st_size > size + 200:
                child.join(rng.random() * 0.12)
                kills += child.is_alive()
                child.kill()
                break
            time.sleep(0.002)
        child.join(120)
    assert kills and code.value in (0, 3)
    return kills


@pytest.mark.long
def test_kills_change_nothing_and_repeat_only_what_was_in_flight(bench, server, start_rank):
    # No budget that binds: a second request of an ask that lags would cost another item of it.
    settings: dict[str, Any] = {
        "stop": "limits", "max_items": 30, "bank": "default.bank.json",
        "model_args": {"num_concurrent": 4},
    }  # fmt: skip
    bench.ranked(server, THREE, name="calm", **settings)
    server.asked.clear()
    server.latency = 0.004
    config = bench.config(server.url, THREE, name="killed", **settings)
    journal, kills = bench.run("killed") / "journal.jsonl", killed(start_rank, config)
    records = list(JournalFile(journal).read_new())
    told = [(r.model, r.item[1]) for r in records if isinstance(r, Tell)]
    assert len(told) == len(set(told))
    # Every request beyond one per document was in flight when the process died.
    assert sum(server.asked.values()) - len(told) <= kills * 4 * len(THREE)
    found = facts(content_of(bench.run("killed")))
    assert {(m, d) for m, b in found["models"].items() for d in b["items"]} == set(told)
    assert found == facts(content_of(bench.run("calm")))


@pytest.mark.long
def test_a_session_that_opens_no_model_states_what_the_models_warned_of(bench, server, ccat):
    content = bench.ranked(server, THREE, name="late", **SETTINGS)
    journal, config = bench.run("late") / "journal.jsonl", bench.run("late").with_suffix(".yaml")
    assert any("document hashes" in text for text in content["warnings"])
    lines = journal.read_bytes().splitlines(keepends=True)
    assert json.loads(lines[-1])["op"] == "end"
    journal.write_bytes(b"".join(lines[:-1]))  # killed between the last answer and the end
    server.asked.clear()
    ccat("rank", config, "--resume", code=(0, 3))
    assert not server.asked
    assert facts(content_of(bench.run("late"))) == facts(content)


@pytest.fixture
def half(bench, server):
    """A run that was cut off in its 40th record: its configuration, and what it had found."""
    settings = {"name": "half", "ahead": 1, **SETTINGS}
    content = bench.ranked(server, THREE, **settings)
    journal = bench.run("half") / "journal.jsonl"
    journal.write_bytes(b"".join(journal.read_bytes().splitlines(keepends=True)[:40])[:-30])
    return bench.config(server.url, THREE, **settings), facts(content)


@pytest.mark.long
def test_a_run_that_a_crash_cut_off_is_no_success_and_goes_on(half, ccat):
    config, found = half
    state = json.loads(ccat("rank", config.with_suffix(".run"), "--json", code=3).out)
    assert state["finished"] is False and state["exit_code"] == 3
    assert "crash cut off" in ccat("rank", config, "--resume", code=(0, 3)).err
    assert facts(content_of(config)) == found


@pytest.mark.long
def test_a_changed_task_is_refused_and_another_version_goes_on(bench, half, ccat, monkeypatch):
    bench.rewrite(lambda name, text: text.replace("Repeat the numbers", "Copy the numbers"))
    err = ccat("rank", half[0], "--resume", code=1).err
    assert "the prompt of document 0 is" in err and "120 of 120 prompts differ" in err
    bench.rewrite(lambda name, text: text.replace("Copy the numbers", "Repeat the numbers"))
    bench.rewrite(lambda name, text: text + "\n# edited" if name.endswith(".py") else text)
    assert "task.scoring_code_sha256" in ccat("rank", half[0], "--resume", code=1).err
    monkeypatch.setattr("lm_eval_ccat.live.identity.__version__", "9.9.9")
    again = ("rank", half[0], "--resume", "--accept_change")
    assert "task.scoring_code_sha256" in ccat(*again, "prompts,server", code=1).err
    err = ccat(*again, "scoring", code=(0, 3)).err
    assert "changed since the run began: task.scoring_code_sha256" in err


@pytest.mark.long
def test_a_run_is_not_started_twice(bench, server, start_rank, ccat):
    server.latency = 0.02
    config = bench.config(server.url, THREE, ahead=1, **SETTINGS)
    child, _ = start_rank(config)
    journal = bench.run() / "journal.jsonl"
    while not (journal.exists() and journal.read_bytes().count(b'"op":"tell"') > 5):
        assert child.is_alive()
        time.sleep(0.01)
    assert "another process is ranking" in ccat("rank", config, "--resume", code=1).err
    # A polite kill ends it as Ctrl-C does: partial ranking written, everything kept.
    os.kill(child.pid, signal.SIGTERM)
    child.join(60)
    assert not child.is_alive()
    partial = content_of(config)
    for shown in (partial, state(bench.run()).content):  # what `rank RUN` shows
        assert shown["interrupted"] and shown["exit_code"] == 4
        assert shown["stopped_because"] == "interrupted"
    assert "already holds a ranking" in ccat("rank", config, code=1).err


@pytest.mark.long
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_batch_system_that_repeats_its_signal_and_a_lost_terminal_leave_a_result(
    bench, server, start_rank, number
):
    server.latency = 0.3  # the run waits a moment for requests in flight
    config = bench.config(server.url, THREE, **SETTINGS)
    child, _ = start_rank(config)
    journal = bench.run() / "journal.jsonl"
    while not (journal.exists() and b'"op":"tell"' in journal.read_bytes()):
        assert child.is_alive()
        time.sleep(0.01)
    while child.is_alive():
        os.kill(child.pid, number)
        child.join(0.05)
    partial = content_of(config)
    assert partial["interrupted"] and partial["items_administered"]
    assert state(bench.run()).content["interrupted"]


@pytest.mark.skipif(not hasattr(os, "openpty"), reason="no pseudo-terminals here")
def test_after_a_hangup_nothing_is_written_to_the_terminal(tmp_path):
    """Its window is closed, so that each write would fail; files go on."""
    window, terminal = os.openpty()
    code = (
        "import os, signal, sys\n"
        "from lm_eval_ccat.live.interrupts import Interrupts\n"
        "signal.signal(signal.SIGHUP, signal.SIG_DFL)\n"
        "with Interrupts() as interrupts:\n"
        "    interrupts.held = True\n"
        "    print('before', flush=True)\n"
        "    os.kill(os.getpid(), signal.SIGHUP)\n"
        "    print('after', flush=True)\n"
        "    print('a result', file=sys.stderr, flush=True)\n"
    )
    with (tmp_path / "log").open("w") as log:
        subprocess.run([sys.executable, "-c", code], stdout=terminal, stderr=log, check=True)
    assert os.read(window, 100).split() == [b"before"]
    assert (tmp_path / "log").read_text() == "a result\n"
    os.close(terminal)
    os.close(window)


@pytest.mark.long
@pytest.mark.parametrize("bank", ["default.bank.json", None])
def test_a_model_that_joins_gets_its_place_and_a_curve_of_its_own(bench, server, ccat, bank):
    bench.ranked(server, THREE[:2], bank=bank)
    had = set(server.answered)
    content = bench.ranked(server, THREE, bank=bank, more=["--resume"])
    assert set(content["order"]) == set(THREE)
    assert all(server.answered[pair] == 1 for pair in had)
    ccat("verify", bench.run())
    ccat("report", bench.run())
    assert THREE[2] in (bench.run() / "report.html").read_text(encoding="utf-8")


@pytest.mark.long
def test_a_kill_while_the_last_answers_are_waited_for_leaves_them_in_the_bill(bench, server, ccat):
    """Of what was in flight at the deciding answer, nothing is heard after a kill."""
    server.latency = 0.1
    models = ["m01", "m03", "m11"]
    settings = {
        "entry": {"price": {"item": 0.01}, "concurrency": 8},
        "bank": None,
        "max_items": 119,
    }
    bench.ranked(server, models, (0, 3), **settings)
    journal = bench.run() / "journal.jsonl"
    lines = journal.read_text().splitlines(keepends=True)
    [end] = [n for n, line in enumerate(lines) if '"op":"end"' in line]
    billed = 0.01 * sum(server.answered.values())
    whole = content_of(bench.folder / "rank.yaml")
    assert sum(whole["money"].values()) >= billed - 1e-9
    assert lines[end + 1 :] and not state(bench.run()).content["in_flight"]
    # Killed then: at the end, and after one of the answers that were waited for.
    for n_heard in (0, 1):
        journal.write_text("".join(lines[: end + 1 + n_heard]))
        content = state(bench.run()).content
        in_flight = len(content["in_flight"])
        assert sum(content["money"].values()) + 0.01 * in_flight >= billed - 1e-9
        assert in_flight <= 24 - n_heard
        ccat("rank", bench.folder / "rank.yaml", "--resume", code=(0, 3))
        resumed = content_of(bench.folder / "rank.yaml")
        assert sum(resumed["money"].values()) >= billed - 1e-9
        assert journal.read_text().count('"why":"killed"') == in_flight > 0
        assert facts(resumed) == facts(whole)
        assert not state(bench.run()).content["in_flight"]


class OneHangs:
    """A server on which the requests of one model for one prompt, its twentieth, hang at first.

    Parameters
    ----------
    requests : int
        How many of them hang.
    then_refuses : bool
        Whether the server refuses the key of the model in all other requests from then on.
    """

    def __init__(self, requests: int, then_refuses: bool = False) -> None:
        self.requests, self.then_refuses, self.prompts = requests, then_refuses, dict[str, None]()

    @property
    def prompt(self) -> str:
        return [*self.prompts, *[""] * 20][19]

    def __call__(self, model: str, prompt: str, before: int) -> tuple[Any, ...] | None:
        if model != THREE[0]:
            return None
        self.prompts.setdefault(prompt)
        if prompt == self.prompt:
            return ("hang", 60.0) if before < self.requests else None
        return ("status", 401) if self.then_refuses and self.prompt else None


@pytest.mark.long
@pytest.mark.parametrize(
    "mood",
    [OneHangs(2), OneHangs(1), OneHangs(1, then_refuses=True)],
    ids=["both hang", "the second is answered", "then refuses"],
)
def test_the_bill_of_a_killed_run_holds_requests_that_no_open_ask_stands_for(
    bench, server, start_rank, mood
):
    server.mood, server.latency = mood, 0.02
    config = bench.config(
        server.url, THREE, name="bill", max_items=110, stop="limits", bank=None,
        entry={"price": {"item": 0.01}}, model_args={"num_concurrent": 2, "timeout": 90},
        failures={"in_a_row": 2, "backoff": 0.05}, order="arrival",
    )  # fmt: skip
    journal = bench.run("bill") / "journal.jsonl"

    def is_time() -> bool:
        """Whether what is to be in flight is so: a request that no open ask stands for."""
        if not mood.prompt:
            return False
        if mood.requests == 2:
            return server.asked[THREE[0], mood.prompt] == 2
        document = int(mood.prompt.split()[-1].rstrip("."))
        return any(
            isinstance(record, Drop if mood.then_refuses else Tell)
            and record.model == THREE[0]
            and (mood.then_refuses or record.item[1] == document)
            for record in JournalFile(journal).read_new()
        )

    child, _ = start_rank(config)
    end = time.monotonic() + 60.0
    while child.is_alive() and not is_time() and time.monotonic() < end:
        time.sleep(0.01)
    assert child.is_alive() and is_time()
    child.kill()
    child.join()
    server.mood = None
    assert main(["rank", str(config), "--resume"]) in (0, 3, 4)
    money = content_of(config)["money"]
    billed = 0.01 * sum(kind in ("", "hang 60.0") for *_, kind in server.log)
    assert money["billed"] - 1e-9 <= billed <= sum(money.values()) + 1e-9

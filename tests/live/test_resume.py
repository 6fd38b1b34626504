"""Killed at any moment, a run goes on as if nothing had happened."""

from __future__ import annotations

import json
import multiprocessing
import os
import random
import shutil
import signal
import time
from pathlib import Path
from typing import Any

import pytest
from worlds.bench import Bench, content_of
from worlds.server import CompletionsServer

from lm_eval_ccat.cli.main import main
from lm_eval_ccat.live.result import state
from lm_eval_ccat.runs.journal import JournalFile

THREE = ["m03", "m05", "m09"]


def run_rank(arguments: list[str], code: Any = None) -> None:
    """In a child process."""
    os.setpgrp()
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    os.dup2(null, 2)
    result = main(["rank", *arguments])
    if code is not None:
        code.value = result
    os._exit(0)


class Children:
    """Starts `rank` in processes that have the harness imported already."""

    def __init__(self) -> None:
        self.context = multiprocessing.get_context("forkserver")
        self.context.set_forkserver_preload(
            ["lm_eval_ccat.live.models", "lm_eval_ccat.harness.evaluation", "lm_eval.evaluator",
             "lm_eval.models.openai_completions", "datasets", "aiohttp", "requests"]
        )  # fmt: skip

    def start(self, *arguments: str) -> tuple[Any, Any]:
        code = self.context.Value("i", -1)
        child = self.context.Process(target=run_rank, args=(list(arguments), code))
        child.start()
        return child, code


@pytest.fixture(scope="session")
def children() -> Children:
    return Children()


def comparable(run_dir: Path) -> dict:
    content = json.loads((run_dir / "result.json").read_text())
    for block in content["models"].values():
        for key in ("seconds", "attempts_lost"):
            block.pop(key, None)
    return {k: content[k] for k in ("models", "pairwise", "order", "ties", "stopped_because")}


def kill_and_resume(
    bench: Bench, children: Children, kills: int, seed: int, **settings: Any
) -> tuple[Path, CompletionsServer, int]:
    """Kill a run ``kills`` times at random moments; (run directory, server, most in flight)."""
    rng, done = random.Random(seed), 0
    with CompletionsServer(bench.outputs, latency=0.004) as server:
        config = bench.config(server.url, THREE, name=f"killed{seed}", **settings)
        run_dir = config.with_suffix(".run")
        journal = run_dir / "journal.jsonl"
        while True:
            resume = ["--resume"] if journal.exists() and journal.stat().st_size else []
            child, code = children.start(str(config), *resume)
            size = journal.stat().st_size if journal.exists() else 0
            if done < kills:
                # Wait until the run is under way, then strike at any moment of it.
                limit = time.monotonic() + 30
                while child.is_alive() and time.monotonic() < limit:
                    if journal.exists() and journal.stat().st_size > size + 200:
                        break
                    time.sleep(0.002)
                child.join(rng.random() * 0.12)
                if child.is_alive():
                    os.kill(child.pid, signal.SIGKILL)
                    done += 1
                child.join()
            else:
                child.join(120)
                assert not child.is_alive()
            if code.value != -1:
                assert code.value in (0, 3)
                return run_dir, server, done
            assert child.exitcode == -signal.SIGKILL, f"it died by itself: {child.exitcode}"


def assert_nothing_lost_or_repeated(run_dir: Path, server: CompletionsServer, extra: int) -> None:
    records = JournalFile(run_dir / "journal.jsonl").read_new()
    told = [(r["model"], r["item"][1]) for r in records if r["op"] == "tell"]
    assert len(told) == len(set(told))
    # Every request beyond one per document was in flight when the process died.
    assert sum(server.asked.values()) - len(told) <= extra
    content = json.loads((run_dir / "result.json").read_text())
    items = {(m, d) for m, block in content["models"].items() for d in block["items"]}
    assert items == set(told)


SETTINGS = {"stop": "limits", "budget": {"items": 100}}


def test_kills_change_nothing_and_repeat_only_what_was_in_flight(bench, children):
    # No budget that binds: a second request of an ask that lags would cost another item of it.
    settings: dict[str, Any] = {
        "stop": "limits", "max_items": 30, "bank": "default.bank.json",
        "model_args": {"num_concurrent": 4},
    }  # fmt: skip
    with CompletionsServer(bench.outputs) as calm:
        config = bench.config(calm.url, THREE, name="calm", **settings)
        assert main(["rank", str(config)]) in (0, 3)
    run_dir, server, done = kill_and_resume(bench, children, 2, seed=1, **settings)
    assert done
    assert_nothing_lost_or_repeated(run_dir, server, extra=done * 4 * len(THREE))
    assert comparable(run_dir) == comparable(config.with_suffix(".run"))


@pytest.fixture(scope="module")
def whole(shared_bench: Bench, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run directory of a finished run."""
    bench = shared_bench.at(tmp_path_factory.mktemp("whole"))
    with CompletionsServer(bench.outputs) as server:
        config = bench.config(server.url, THREE, name="half", ahead=1, **SETTINGS)
        assert main(["rank", str(config)]) in (0, 3)
    return config.with_suffix(".run")


@pytest.fixture
def half(bench: Bench, server: CompletionsServer, whole: Path) -> tuple[Path, Path]:
    """That run, cut back to its first 40 records: its configuration and journal."""
    config = bench.config(server.url, THREE, name="half", ahead=1, **SETTINGS)
    journal = shutil.copytree(whole, config.with_suffix(".run")) / "journal.jsonl"
    journal.write_bytes(b"".join(journal.read_bytes().splitlines(keepends=True)[:40]))
    return config, journal


def test_the_state_of_an_unfinished_ranking_is_no_success(half, capsys):
    config, _ = half
    assert main(["rank", str(config.with_suffix(".run")), "--json"]) == 3
    state = json.loads(capsys.readouterr().out)
    assert state["finished"] is False and state["exit_code"] == 3


def test_a_torn_last_line_is_dropped_and_reported(half, capsys):
    config, journal = half
    whole = comparable(config.with_suffix(".run"))
    journal.write_bytes(journal.read_bytes()[:-30])
    assert main(["rank", str(config), "--resume"]) in (0, 3)
    assert "crash cut off" in capsys.readouterr().err
    assert comparable(config.with_suffix(".run")) == whole


def test_a_changed_configuration_is_refused_with_the_difference(bench, server, half, capsys):
    for change, shown in (
        ({"confidence": 0.9}, "config.confidence: 0.95 -> 0.9"),
        ({"seed": 3}, "config.seed: 0 -> 3"),
        ({"model_args": {"max_gen_toks": 7}}, "model_args.max_gen_toks: null -> 7"),
    ):
        config = bench.config(server.url, THREE, name="half", ahead=1, **SETTINGS | change)
        assert main(["rank", str(config), "--resume"]) == 1
        assert shown in capsys.readouterr().err


def test_a_changed_task_is_refused_and_another_version_goes_on(bench, half, capsys, monkeypatch):
    config, _ = half
    bench.rewrite(lambda name, text: text.replace("Repeat the numbers", "Copy the numbers"))
    assert main(["rank", str(config), "--resume"]) == 1
    assert "task.prompts_sha256" in capsys.readouterr().err
    bench.rewrite(lambda name, text: text.replace("Copy the numbers", "Repeat the numbers"))
    bench.rewrite(lambda name, text: text + "\n# edited" if name.endswith(".py") else text)
    assert main(["rank", str(config), "--resume"]) == 1
    assert "task.scoring_code_sha256" in capsys.readouterr().err
    monkeypatch.setattr("lm_eval_ccat.live.plan.__version__", "9.9.9")
    assert main(["rank", str(config), "--resume", "--accept_change"]) in (0, 3)
    assert "changed since the run began: task.scoring_code_sha256" in capsys.readouterr().err


def test_a_run_is_not_started_twice(bench, server, children, capsys):
    with CompletionsServer(bench.outputs, latency=0.02) as slow:
        config = bench.config(slow.url, THREE, ahead=1, **SETTINGS)
        child, _ = children.start(str(config))
        journal = config.with_suffix(".run") / "journal.jsonl"
        while not (journal.exists() and journal.read_bytes().count(b'"op": "tell"') > 5):
            assert child.is_alive()
            time.sleep(0.01)
        assert main(["rank", str(config), "--resume"]) == 1
        assert "another process is ranking" in capsys.readouterr().err
        # A polite kill ends it as Ctrl-C does: partial ranking written, everything kept.
        started = time.monotonic()
        os.kill(child.pid, signal.SIGTERM)
        child.join(60)
        assert time.monotonic() - started < 60
    partial = content_of(config)
    assert partial["interrupted"] and partial["exit_code"] == 4
    shown = state(config.with_suffix(".run")).content  # what `rank RUN` shows
    assert shown["interrupted"] and shown["exit_code"] == 4
    assert shown["stopped_because"] == partial["stopped_because"] == "interrupted"
    assert main(["rank", str(config)]) == 1
    assert "already holds a ranking" in capsys.readouterr().err


@pytest.mark.parametrize("bank", ["default.bank.json", None])
def test_a_model_that_joins_gets_its_place_and_a_curve_of_its_own(bench, server, bank):
    config = bench.config(server.url, THREE[:2], bank=bank)
    assert main(["rank", str(config)]) in (0, 3)
    config, had = bench.config(server.url, THREE, bank=bank), set(server.answered)
    assert main(["rank", str(config), "--resume"]) in (0, 3)
    assert set(content_of(config)["order"]) == set(THREE)
    assert all(server.answered[pair] == 1 for pair in had)
    run = config.with_suffix(".run")
    assert main(["verify", str(run)]) == 0
    assert main(["report", str(run)]) == 0
    assert THREE[2] in (run / "report.html").read_text(encoding="utf-8")

"""Several processes, one ranking: they meet in the run directory and nowhere else."""

from __future__ import annotations

import json
import os
import signal
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from bench import TASK, Bench
from loopback import CompletionsServer
from test_resume import Children

from lm_eval_ccat.cli.main import main
from lm_eval_ccat.runs.journal import JournalFile

THREE = ["m01", "m05", "m11"]


def run_join(arguments: list[str], code: Any) -> None:
    """In a child process."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    log = os.open(os.environ.get("JOIN_LOG", os.devnull), os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(log, 2)
    code.value = main(["--debug", "run", *arguments])
    os._exit(0)


class Joiners(Children):
    def join(self, run_dir: Path, server: CompletionsServer, name: str) -> tuple[Any, Any]:
        code = self.context.Value("i", -1)
        arguments = [
            "--adaptive", "--ranking", str(run_dir), "--name", name,
            "--model", "local-completions",
            "--model_args",
            f"model={name},base_url={server.url},tokenizer_backend=none,num_concurrent=4",
        ]  # fmt: skip
        child = self.context.Process(target=run_join, args=(arguments, code))
        child.start()
        return child, code


@pytest.fixture(scope="session")
def joiners() -> Joiners:
    return Joiners()


def prepare(bench: Bench, **settings: Any) -> Path:
    config = bench.config("http://127.0.0.1:9/unused", THREE, name="shared", **settings)
    assert main(["rank", str(config), "--prepare"]) == 0
    return config.with_suffix(".run")


def tells(run_dir: Path) -> list[tuple[str, int]]:
    records = JournalFile(run_dir / "journal.jsonl").read_new()
    return [(r["model"], r["item"]) for r in records if r["op"] == "tell"]


def test_three_processes_rank_together(
    bench: Bench, joiners: Joiners, capsys: pytest.CaptureFixture
) -> None:
    run_dir = prepare(bench)
    with CompletionsServer(bench.outputs, latency=0.01) as server:
        started = [joiners.join(run_dir, server, name) for name in THREE]
        for child, _ in started:
            child.join(90)
        assert [code.value for _, code in started] == [0, 0, 0]
    told = tells(run_dir)
    assert len(told) == len(set(told)) == sum(server.asked.values())
    content = json.loads((run_dir / "result.json").read_text())
    assert content["order"] == sorted(THREE, key=lambda m: -bench.truth[m])
    for name in THREE:
        [file] = (run_dir / name).glob("results_*.json")
        saved = json.loads(file.read_text())
        assert saved["n-samples"][TASK]["effective"] == content["models"][name]["n_items"]
    capsys.readouterr()
    assert main(["rank", str(run_dir), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["finished"]


def test_a_dead_process_gives_its_documents_back_after_the_lease(
    bench: Bench, joiners: Joiners
) -> None:
    run_dir = prepare(bench, lease=2.0, stop_when_decided=False, max_items=40)
    with CompletionsServer(bench.outputs, latency=0.05) as server:
        first = [joiners.join(run_dir, server, name) for name in THREE]
        journal = run_dir / "journal.jsonl"
        limit = time.monotonic() + 60
        while journal.read_bytes().count(b'"m05"') < 10 and time.monotonic() < limit:
            time.sleep(0.01)
        victim = first[THREE.index("m05")][0]
        os.kill(victim.pid, signal.SIGKILL)
        victim.join()
        again, code = joiners.join(run_dir, server, "m05")
        for child, _ in [*first, (again, code)]:
            child.join(90)
            assert not child.is_alive()
        assert code.value in (0, 3)
    records = JournalFile(journal).read_new()
    released = [r for r in records if r["op"] == "release"]
    assert released and {r["why"] for r in released} == {"lease expired"}
    repeated = Counter(server.asked) - Counter(set(server.asked))
    assert sum(repeated.values()) <= len(released)
    told = tells(run_dir)
    assert len(told) == len(set(told))


def test_joining_is_refused_with_the_reason(
    bench: Bench, server: CompletionsServer, capsys: pytest.CaptureFixture
) -> None:
    run_dir = prepare(bench)
    base = ["run", "--adaptive", "--ranking", str(run_dir), "--model", "local-completions"]
    for extra, message in (
        ([], "--ranking needs --name"),
        (["--name", "m99"], "no model named 'm99'"),
        (["--name", "m01", "--tasks", "gsm8k"], "the ranking is of task loopback_task"),
        (["--name", "m01", "--num_fewshot", "3"], "--num_fewshot is 3 here and None"),
        (["--name", "m01", "--target_se", "0.1"], "--target_se belongs to the ranking's"),
    ):
        assert main([*base, *extra]) == 2
        assert message in capsys.readouterr().err
    config = bench.folder / "shared.yaml"
    assert main(["rank", str(config), "--resume"]) == 1
    assert "was made with --prepare" in capsys.readouterr().err
    assert not server.asked


def test_an_interrupted_process_leaves_its_documents_to_the_next_at_once(
    bench: Bench, joiners: Joiners
) -> None:
    run_dir = prepare(bench, stop_when_decided=False, max_items=30)
    with CompletionsServer(bench.outputs, latency=0.05) as server:
        child, code = joiners.join(run_dir, server, "m05")
        journal = run_dir / "journal.jsonl"
        limit = time.monotonic() + 60
        while len(tells(run_dir)) < 8 and time.monotonic() < limit:
            time.sleep(0.01)
        os.kill(child.pid, signal.SIGTERM)
        child.join(10)
        assert code.value == 4
        started = [joiners.join(run_dir, server, name) for name in THREE]
        for other, _ in started:
            other.join(90)
        assert [c.value in (0, 3) for _, c in started] == [True] * 3
    told = tells(run_dir)
    assert len(told) == len(set(told)) == 90
    released = [r for r in JournalFile(journal).read_new() if r["op"] == "release"]
    assert {r["why"] for r in released} <= {"interrupted"}

"""Runs that are copied to an object store, here to fsspec's own in memory."""

from __future__ import annotations

import shutil
import time
from pathlib import Path

import fsspec
import pytest
from bench import Bench
from loopback import CompletionsServer

from lm_eval_ccat import rank
from lm_eval_ccat.errors import RunError, UsageError
from lm_eval_ccat.live import Observer
from lm_eval_ccat.runs import store
from lm_eval_ccat.runs.book import Book
from lm_eval_ccat.runs.directory import RunDirectory

URL = "memory://bucket/models.run"
TWO = ["m03", "m09"]


class Stopping(Observer):
    """Stops a run once the store has some of its answers; keeps what is warned of."""

    def __init__(self, stops: bool) -> None:
        self.stops, self.warnings = stops, []

    def warn(self, text: str) -> None:
        self.warnings.append(text)

    def begin(self, plan: object, book: Book) -> None:
        self.book = book

    def tick(self) -> None:
        if self.stops and sum(self.book.tally.answered.values()):
            while not fsspec.filesystem("memory").exists("/bucket/models.run/journal.jsonl"):
                time.sleep(0.01)  # it is copied while the run lasts
            raise KeyboardInterrupt


@pytest.fixture(autouse=True)
def empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(store, "SECONDS", 0.02)
    monkeypatch.setattr("lm_eval_ccat.live.sender.TICK", 0.0)
    fsspec.filesystem("memory").store.clear()


def test_a_run_goes_on_from_the_store_on_another_machine(
    bench: Bench, server: CompletionsServer
) -> None:
    config = bench.config(server.url, TWO, max_items=20, stop="limits")
    assert rank(config, run_dir=URL, observer=Stopping(True)).interrupted
    shutil.rmtree("models.run")  # the machine is gone
    with pytest.raises(RunError, match=r"holds a run; continue it with --resume"):
        rank(config, run_dir=URL)
    asked = sum(server.asked.values())
    result = rank(config, run_dir=URL, resume=True)
    assert 0 < asked < 40 and sum(server.asked.values()) <= 40 + 2 * 8  # what was on the wire
    assert {len(items) for items in result.ranking.items.values()} == {20}
    files = [p for p in Path("models.run").rglob("*") if p.is_file() and p.suffix != ".lock"]
    here = {p.relative_to("models.run").as_posix(): p.read_bytes() for p in files}
    memory = fsspec.filesystem("memory")
    far = memory.find("/bucket/models.run")
    assert {name.split("models.run/")[1]: memory.cat(name) for name in far} == here


def test_a_store_that_fails_stops_no_run(
    bench: Bench, server: CompletionsServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*args: object, **known: object) -> None:
        raise RuntimeError("no such bucket")

    monkeypatch.setattr(type(fsspec.filesystem("memory")), "put_file", refuse)
    watcher = Stopping(False)
    rank(bench.config(server.url, TWO, max_items=20), run_dir=URL, observer=watcher)
    [said] = [text for text in watcher.warnings if "cannot copy" in text]
    assert "no such bucket" in said and (Path("models.run") / "result.json").is_file()


def test_other_commands_and_unknown_stores_are_refused() -> None:
    with pytest.raises(UsageError, match="only `rank` copies a run to an object store"):
        RunDirectory(URL)
    with pytest.raises(UsageError, match="nowhere"), store.stored("nowhere://a/b", False, print):
        pass

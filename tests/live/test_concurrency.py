"""Models work at the same time, each as wide as its backend wants, and wait for nobody."""

from __future__ import annotations

import json
import math
import threading
import time
from pathlib import Path

import pytest
from bench import Bench
from loopback import CompletionsServer

from lm_eval_ccat.cli.main import main

FOUR = ["m01", "m05", "m07", "m11"]


@pytest.mark.parametrize("at_once", [pytest.param(4, marks=pytest.mark.slow), 8])
def test_every_model_works_at_its_full_width(bench: Bench, at_once: int) -> None:
    latency = 0.2
    with CompletionsServer(bench.outputs, latency=latency) as server:
        config = bench.config(
            server.url,
            FOUR,
            name=f"wide{at_once}",
            model_args={"num_concurrent": at_once},
            stop="limits",
            max_items=100,
        )
        assert main(["rank", str(config), "--quiet"]) in (0, 3)
    assert sum(server.answered.values()) == 400
    # Every model was given as much at once as it takes; benchmarks/live.py prints the ratio of
    # the time to the ideal, which a busy machine would spoil as a test.
    assert server.most_at_once == dict.fromkeys(FOUR, at_once)


def test_a_slow_model_holds_nobody_up(bench: Bench) -> None:
    latency = {"m01": 0.15, "m05": 0.001, "m07": 0.001, "m11": 0.001}
    with CompletionsServer(bench.outputs, latency=latency) as server:
        config = bench.config(server.url, FOUR, stop="limits", max_items=20, budget={"items": 80})
        assert main(["rank", str(config)]) in (0, 3)
    last: dict[str, float] = {}
    for line in (config.with_suffix(".run") / "journal.jsonl").read_text().splitlines():
        record = json.loads(line)
        if record["op"] == "tell":
            last[record["model"]] = record["time"]
    for name in FOUR[1:]:
        assert last[name] < last["m01"]


def test_requests_of_multiple_choice_count_against_the_limit() -> None:
    from types import SimpleNamespace

    from lm_eval_ccat.harness.internals import requests_at_once

    assert requests_at_once(SimpleNamespace(_concurrent=8, _batch_size=1)) == (8, 1)
    assert requests_at_once(SimpleNamespace(batch_size=16)) == (1, 16)
    assert requests_at_once(SimpleNamespace(batch_size="auto")) == (1, 64)
    assert requests_at_once(SimpleNamespace(lm=SimpleNamespace(_concurrent=3))) == (3, 1)


class Turns:
    """A model of known memory that notes when it is loaded."""

    loaded: set[str] = set()  # noqa: RUF012
    together = 0

    def __init__(self, name: str, score: float, log: list[str]) -> None:
        self.name, self.score, self.log = name, score, log
        self.slots, self.batch, self.memory = 1, 4, 6.0

    def open(self) -> None:
        Turns.loaded.add(self.name)
        Turns.together = max(Turns.together, len(Turns.loaded))
        self.log.append(self.name)

    def close(self) -> None:
        Turns.loaded.discard(self.name)

    def administer(self, doc_ids: list) -> list:
        from lm_eval_ccat.live.worker import Answer

        assert self.name in Turns.loaded
        return [Answer(item=d, score=self.score, raw=self.score) for d in doc_ids]


def test_weights_that_do_not_fit_take_turns_with_few_swaps(bench: Bench, tmp_path: Path) -> None:
    from lm_eval_ccat import ItemBank, Ranker
    from lm_eval_ccat.live.scheduler import Scheduler
    from lm_eval_ccat.runs.journal import JournalFile
    from lm_eval_ccat.runs.journaled import JournaledRanker

    log: list[str] = []
    names = {"a": 0.4, "b": 0.5, "c": 0.6}
    ranker = JournaledRanker(
        Ranker(
            ItemBank.load(bench.bank), dict.fromkeys(names, 1.0), max_items=40,
            stop="limits",
        ),
        JournalFile(tmp_path / "journal.jsonl"),
    )  # fmt: skip
    ranker.note("start", op="session")
    Scheduler(ranker, [Turns(n, s, log) for n, s in names.items()], memory=10.0).run()
    assert Turns.together == 1
    assert all(len(v) == 40 for v in ranker.ranker.result().items.values())
    # 40 items in turns of 10, 20, 40: three rounds, and each round begins where the last ended.
    assert len(log) <= 7


class Late(Turns):
    """A model of unknown memory, which says only when it is loaded how much it takes at once."""

    def __init__(self, name: str, score: float, log: list[str]) -> None:
        super().__init__(name, score, log)
        self.batch, self.memory, self.sizes = 1, math.inf, []

    def open(self) -> None:
        super().open()
        self.batch = 32

    def administer(self, doc_ids: list) -> list:
        self.sizes.append(len(doc_ids))
        return super().administer(doc_ids)


def test_models_of_unknown_memory_take_turns_in_whole_batches(bench: Bench) -> None:
    from lm_eval_ccat import ItemBank, Ranker
    from lm_eval_ccat.live.scheduler import Scheduler
    from lm_eval_ccat.runs.journal import MemoryJournal
    from lm_eval_ccat.runs.journaled import JournaledRanker

    log: list[str] = []
    Turns.together = 0
    workers = [Late("a", 0.4, log), Late("b", 0.6, log)]
    bank = ItemBank.load(bench.folder / "default.bank.json")
    ranker = Ranker(bank, {"a": 1.0, "b": 1.0}, stop="limits", max_items=96)
    Scheduler(JournaledRanker(ranker, MemoryJournal()), workers).run()
    assert Turns.together == 1
    assert [worker.sizes for worker in workers] == [[32, 32, 32]] * 2


def test_one_journal_is_told_by_many_threads_without_a_gap(bench: Bench, tmp_path: Path) -> None:
    from lm_eval_ccat import ItemBank, Ranker
    from lm_eval_ccat.runs.journal import JournalFile
    from lm_eval_ccat.runs.journaled import JournaledRanker

    def fresh() -> Ranker:
        return Ranker(ItemBank.load(bench.bank), {"a": 1.0, "b": 2.0}, stop="limits",
                      max_items=50)  # fmt: skip

    ranker = JournaledRanker(fresh(), JournalFile(tmp_path / "j.jsonl"))

    def work(model: str) -> None:
        while pairs := ranker.ask(2, model):
            for _, doc in pairs:
                time.sleep(0.0005)
                ranker.tell(model, doc, (int(doc) % 10) / 10, 1.0)

    threads = [threading.Thread(target=work, args=(m,)) for m in ("a", "a", "b", "b", "b")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    again = JournaledRanker(fresh(), JournalFile(tmp_path / "j.jsonl"))
    again.sync()
    assert again.ranker.result() == ranker.ranker.result()
    assert all(len(v) == 50 for v in again.ranker.result().items.values())

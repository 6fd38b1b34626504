"""Fixtures of the live-run tests."""

from __future__ import annotations

import itertools
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from worlds.bench import Bench, make_bench
from worlds.server import CompletionsServer

from lm_eval_ccat.ranker.contents import Task


@pytest.fixture(scope="session")
def shared_bench(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    return make_bench(tmp_path_factory.mktemp("bench"))


@pytest.fixture
def bench(shared_bench: Bench, tmp_path: Path) -> Bench:
    """The bench with a folder of its own for configurations and run directories."""
    return shared_bench.at(tmp_path)


@pytest.fixture
def server(shared_bench: Bench) -> Iterator[CompletionsServer]:
    with CompletionsServer(shared_bench.outputs) as running:
        yield running


@pytest.fixture
def interrupt_at(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Has Ctrl-C pressed while the answer of a number is taken in."""

    def interrupt(number: int) -> None:
        taken_in, calls = Task.told, itertools.count()

        def told(self: Task, *args: object) -> object:
            if next(calls) == number:
                signal.raise_signal(signal.SIGINT)
            return taken_in(self, *args)

        monkeypatch.setattr(Task, "told", told)

    return interrupt

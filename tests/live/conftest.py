"""Fixtures of the live-run tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from worlds.bench import Bench, make_bench
from worlds.server import CompletionsServer


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

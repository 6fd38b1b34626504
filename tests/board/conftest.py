"""A board of a small benchmark, on which two models were placed by a real loopback server."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from worlds.bench import TASK, Bench, make_bench
from worlds.server import CompletionsServer

from lm_eval_ccat import ScoreTable
from lm_eval_ccat.board import Board, init, place, placing

#: In place of the seed that nobody can guess.
SEED = 7


@dataclass
class World:
    """A benchmark, its server, and a board with six full results and two placed models."""

    bench: Bench
    server: CompletionsServer
    board: Path

    def config(self, models: list[str], **settings: Any) -> Path:
        """A configuration without a bank: the board has it."""
        return self.bench.config(self.server.url, models, **{"bank": None, **settings})

    def scores(self, path: Path, models: list[str], documents: int = 120) -> Path:
        """The true scores of some models on the first documents, as a table."""
        table = self.bench.table.select(models)
        about = {"raw": table.raw[:, :documents], "doc_ids": table.doc_ids[:documents]}
        replace(table, task=TASK, **about).write(path)
        return path


@pytest.fixture(scope="session")
def shared_world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("board")
    bench = make_bench(folder)
    full = folder / "full.parquet"
    replace(ScoreTable.read(folder / "known.parquet"), task=TASK).write(full)
    with CompletionsServer(bench.outputs) as server, pytest.MonkeyPatch.context() as patch:
        patch.setattr(placing, "randbits", lambda bits: SEED)
        world = World(bench, server, folder / "board")
        init(world.board, full, name="Shares", max_items=40)
        place(world.board, world.config(["m01", "m07"]))
        patch.undo()
        yield world


@pytest.fixture
def world(shared_world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    """The world with a board that the test may change."""
    monkeypatch.setattr(placing, "randbits", lambda bits: SEED)
    shutil.copytree(shared_world.board, tmp_path / "board")
    return replace(shared_world, board=tmp_path / "board")


@pytest.fixture
def board(world: World) -> Board:
    return Board(world.board)

"""The tutorial is run once; every other page starts in a copy of the folder that it leaves."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from pages import DOCS, run_page
from worlds.server import CompletionsServer


@pytest.fixture(scope="session")
def environment() -> dict[str, str]:
    scripts = str(Path(sys.executable).parent)
    return {**os.environ, "PATH": scripts + os.pathsep + os.environ["PATH"], "COLUMNS": "100"}


#: An eighth of the demo's documents take an eighth of its time, one fold a quarter of a replay's.
LESS = {"demo --dir demo": "demo 100 --dir demo", "--folds 4": "--folds 1"}


@pytest.fixture(scope="session")
def tutorial(tmp_path_factory, environment) -> tuple[Path, str]:
    """The folder after the tutorial, and what its commands printed."""
    folder = tmp_path_factory.mktemp("tutorial")
    return folder, run_page(DOCS / "tutorial.md", folder, environment, LESS)


@pytest.fixture
def folder(tutorial, tmp_path) -> Path:
    target = tmp_path / "work"
    shutil.copytree(tutorial[0], target)
    return target


class Beginning(dict):
    """What a model says to any prompt: some of its first words."""

    def get(self, prompt, default=None):
        return " ".join(prompt.split()[1:12][: self["words"]])


@pytest.fixture(scope="session")
def server() -> Iterator[str]:
    """``host:port`` of a loopback server."""
    outputs = {"large": Beginning(words=11), "small": Beginning(words=3)}
    with CompletionsServer(outputs) as running:
        yield urlsplit(running.url).netloc

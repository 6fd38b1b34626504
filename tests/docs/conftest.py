"""The tutorial is run once; every other page starts in a copy of the folder that it leaves."""

from __future__ import annotations

import json
import os
import shutil
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from pages import DOCS, run_page


@pytest.fixture(scope="session")
def environment() -> dict[str, str]:
    scripts = str(Path(sys.executable).parent)
    return {**os.environ, "PATH": scripts + os.pathsep + os.environ["PATH"], "COLUMNS": "100"}


#: An eighth of the demo's documents take an eighth of its time, one fold a quarter of a replay's.
LESS = {"demo --dir demo": "demo --dir demo --documents 100", "--folds 4": "--folds 1"}


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


class Completions(BaseHTTPRequestHandler):
    """Enough of the OpenAI completions protocol: answers with the beginning of the prompt."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        prompt = body["prompt"] if isinstance(body["prompt"], str) else body["prompt"][0]
        words = prompt.split()[1:12] if body["model"] == "large" else prompt.split()[:4]
        answer = {
            "choices": [{"index": 0, "text": " ".join(words), "finish_reason": "stop"}],
            "usage": {"prompt_tokens": len(prompt.split()), "completion_tokens": len(words)},
        }
        data = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *arguments: object) -> None:
        pass


@pytest.fixture(scope="session")
def server() -> Iterator[str]:
    """``host:port`` of a loopback server."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Completions) as running:
        threading.Thread(target=running.serve_forever, daemon=True).start()
        yield f"127.0.0.1:{running.server_port}"
        running.shutdown()

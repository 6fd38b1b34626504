"""A loopback server that speaks the OpenAI chat protocol and replies as a test scripts it."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class JudgeServer:
    """Answers ``/v1/chat/completions``.

    ``script(messages, n)`` gives the reply to the ``n``-th request (from 0): a text, a status code,
    the bytes of a body, or a status code with the text of a body.
    """

    def __init__(self, script: Callable[[list[dict], int], Any]) -> None:
        self.requests: list[dict] = []
        self.headers: list[dict] = []
        lock = threading.Lock()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                with lock:
                    n = len(outer.requests)
                    outer.requests.append({"path": self.path, **body})
                    outer.headers.append(dict(self.headers))
                status, content = answer(script(body["messages"], n))
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.base_url = f"http://127.0.0.1:{self._server.server_port}/v1"

    def __enter__(self) -> JudgeServer:
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()


def answer(reply: str | int | bytes | tuple[int, str]) -> tuple[int, bytes]:
    """The status and the body of a scripted reply."""
    match reply:
        case int():
            return reply, b"no"
        case bytes():
            return 200, reply
        case tuple():
            return reply[0], reply[1].encode()
    choices = [{"index": 0, "message": {"role": "assistant", "content": reply}}]
    usage = {"prompt_tokens": 100, "completion_tokens": 10}
    return 200, json.dumps({"choices": choices, "usage": usage}).encode()

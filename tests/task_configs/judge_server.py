"""A loopback server that speaks the OpenAI chat protocol and replies as a test scripts it."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from worlds.server import CompletionsServer


class JudgeServer(CompletionsServer):
    """Answers ``/v1/chat/completions``.

    ``script(messages, n)`` gives the reply to the ``n``-th request (from 0): a text, a status code,
    the bytes of a body, or a status code with the text of a body.
    """

    def __init__(self, script: Callable[[list[dict], int], Any]) -> None:
        self.script = script
        self.requests: list[dict] = []
        self.headers: list[dict] = []
        super().__init__({})
        self.base_url = self.url.removesuffix("/completions")

    def _serve(self, handler: Any, body: dict[str, Any]) -> None:
        with self._lock:
            n = len(self.requests)
            self.requests.append({"path": handler.path, **body})
            self.headers.append(dict(handler.headers))
        status, content = answer(self.script(body["messages"], n))
        self._reply(handler, status, content)


def answer(reply: str | int | bytes | tuple[int, str]) -> tuple[int, str]:
    """The status and the body of a scripted reply."""
    match reply:
        case int():
            return reply, "no"
        case bytes():
            return 200, reply.decode()
        case tuple():
            return reply
    choices = [{"index": 0, "message": {"role": "assistant", "content": reply}}]
    usage = {"prompt_tokens": 100, "completion_tokens": 10}
    return 200, json.dumps({"choices": choices, "usage": usage})

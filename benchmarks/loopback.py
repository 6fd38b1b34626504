"""A server with a fixed latency that costs next to nothing: what a client reaches is its own limit.

    python benchmarks/loopback.py OUTPUTS.json LATENCY          # prints its port

Speaks the OpenAI completions protocol over connections that stay open, in one process of its own.
OUTPUTS.json holds ``{model: {prompt: text}}``; a prompt that is not there is answered by itself.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any


class Connection(asyncio.Protocol):
    """One connection; requests on it are answered in order."""

    received, first, last = 0, 0.0, 0.0

    def __init__(self, outputs: dict[str, dict[str, str]], latency: float) -> None:
        self.outputs, self.latency, self.buffer = outputs, latency, b""
        self.transport: Any = None

    def connection_made(self, transport: Any) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.buffer += data
        head, separator, rest = self.buffer.partition(b"\r\n\r\n")
        if not separator:
            return
        [length] = [
            int(line.split(b":")[1])
            for line in head.split(b"\r\n")
            if line.lower().startswith(b"content-length")
        ] or [0]
        if len(rest) < length:
            return
        self.buffer = rest[length:]
        if head.startswith(b"GET"):
            seconds, Connection.first = Connection.last - Connection.first, 0.0
            return self.write({"received": Connection.received, "seconds": seconds})
        Connection.received += 1
        loop = asyncio.get_running_loop()
        Connection.first = Connection.first or loop.time()
        loop.call_later(self.latency, self.answer, json.loads(rest[:length] or b"{}"))

    def answer(self, asked: dict[str, Any]) -> None:
        prompts = asked.get("prompt", "")
        prompts = prompts if isinstance(prompts, list) else [prompts]
        known = self.outputs.get(asked.get("model", ""), {})
        texts = [known.get(str(p), str(p)) for p in prompts]
        usage = {
            "prompt_tokens": sum(len(str(p).split()) for p in prompts),
            "completion_tokens": sum(len(t.split()) for t in texts),
        }
        choices = [{"index": i, "text": t} for i, t in enumerate(texts)]
        self.write({"choices": choices, "usage": usage})
        Connection.last = asyncio.get_running_loop().time()

    def write(self, content: dict[str, Any]) -> None:
        body = json.dumps(content).encode()
        head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: "
        self.transport.write(f"{head}{len(body)}\r\n\r\n".encode() + body)


async def serve(outputs: dict[str, dict[str, str]], latency: float) -> None:
    loop = asyncio.get_running_loop()
    server = await loop.create_server(
        lambda: Connection(outputs, latency), "127.0.0.1", 0, backlog=1024
    )
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


@contextlib.contextmanager
def running(outputs: Path, latency: float) -> Iterator[str]:
    """The server in a process of its own; the URL of its completions."""
    command = [sys.executable, __file__, str(outputs), str(latency)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        try:
            assert child.stdout is not None
            yield f"http://127.0.0.1:{child.stdout.readline().strip()}/v1/completions"
        finally:
            child.kill()


def received(url: str) -> int:
    """How many requests the server has received since it began."""
    return traffic(url)[0]


def traffic(url: str) -> tuple[int, float]:
    """Return `received`, and seconds from the first request since the last call to an answer."""
    with urllib.request.urlopen(url) as answer:
        content = json.load(answer)
    return int(content["received"]), float(content["seconds"])


if __name__ == "__main__":
    asyncio.run(serve(json.loads(Path(sys.argv[1]).read_text()), float(sys.argv[2])))

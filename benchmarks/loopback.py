"""A server with a fixed latency that costs next to nothing: what a client reaches is its own limit.

    python benchmarks/loopback.py OUTPUTS.json LATENCY [LIMIT]          # prints its port

Speaks the OpenAI completions protocol over connections that stay open, in one process of its own.
OUTPUTS.json holds ``{model: {prompt: text}}``; a prompt that is not there is answered by itself.
LIMIT is the JSON of a `Limit`.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import math
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any


@dataclass
class Limit:
    """Token buckets that requests are taken from: one of all models, or one of each.

    Attributes
    ----------
    rate, burst : float
        Tokens a second of a bucket, and how many it holds.
    shared : bool
    whole : bool
        Whether ``Retry-After`` names whole seconds, as most servers do.
    """

    rate: float
    burst: float
    shared: bool = True
    whole: bool = False
    refused: int = 0
    _filled: dict[str, tuple[float, float]] = field(default_factory=dict, init=False, repr=False)

    def pause(self, model: str) -> float:
        """Take a token for a request of a model; return 0, or how long to wait if there is none."""
        bucket, moment = "" if self.shared else model, time.monotonic()
        tokens, filled = self._filled.get(bucket, (self.burst, moment))
        tokens = min(self.burst, tokens + self.rate * (moment - filled))
        self._filled[bucket] = (tokens - (tokens >= 1.0), moment)
        if tokens >= 1.0:
            return 0.0
        self.refused += 1
        pause = (1.0 - tokens) / self.rate
        return math.ceil(pause) if self.whole else pause


class Connection(asyncio.Protocol):
    """One connection; requests on it are answered in order."""

    received, first, last = 0, 0.0, 0.0

    def __init__(
        self, outputs: dict[str, dict[str, str]], latency: float, limit: Limit | None
    ) -> None:
        self.outputs, self.latency, self.limit, self.buffer = outputs, latency, limit, b""
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
            refused = self.limit.refused if self.limit else 0
            content = {"received": Connection.received, "seconds": seconds, "refused": refused}
            return self.write(content)
        Connection.received += 1
        loop, asked = asyncio.get_running_loop(), json.loads(rest[:length] or b"{}")
        Connection.first = Connection.first or loop.time()
        if self.limit and (pause := self.limit.pause(asked.get("model", ""))):
            status = f"429 Too Many Requests\r\nRetry-After: {pause:.3f}"
            return self.write({"error": "too many requests"}, status)
        loop.call_later(self.latency, self.answer, asked)

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

    def write(self, content: dict[str, Any], status: str = "200 OK") -> None:
        body = json.dumps(content).encode()
        head = f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: "
        self.transport.write(f"{head}{len(body)}\r\n\r\n".encode() + body)


async def serve(
    outputs: dict[str, dict[str, str]], latency: float, limit: Limit | None = None
) -> None:
    loop = asyncio.get_running_loop()
    server = await loop.create_server(
        lambda: Connection(outputs, latency, limit), "127.0.0.1", 0, backlog=1024
    )
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


@contextlib.contextmanager
def running(outputs: Path, latency: float, limit: Limit | None = None) -> Iterator[str]:
    """The server in a process of its own; the URL of its completions."""
    command = [sys.executable, __file__, str(outputs), str(latency)]
    if limit is not None:
        about = {key: value for key, value in asdict(limit).items() if key != "_filled"}
        command.append(json.dumps(about))
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
    content = counted(url)
    return int(content["received"]), float(content["seconds"])


def counted(url: str) -> dict[str, float]:
    """Return what `traffic` does by name, and how many requests were refused since it began."""
    with urllib.request.urlopen(url) as answer:
        return dict(json.load(answer))


if __name__ == "__main__":
    limits = [Limit(**json.loads(text)) for text in sys.argv[3:]]
    asyncio.run(serve(json.loads(Path(sys.argv[1]).read_text()), float(sys.argv[2]), *limits))

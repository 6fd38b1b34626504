"""A loopback server that speaks the OpenAI completions protocol and can misbehave on purpose."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

#: Decides what a request gets: None for the answer, or ("status", 429), ("drop",), ("garbage",),
#: ("empty",), ("hang", seconds), ("drip", seconds), ("say", status, body, headers), ("cut",) after
#: the answer was made, ("swap", another model), ("truncate",).
Mood = Callable[[str, str, int], tuple | None]


def trouble(
    *mood: Any,
    of: str | None = None,
    when: Callable[[int, int], bool] = lambda number, before: True,
) -> Mood:
    """The mood in which requests of one model (of all, if None) get `mood`.

    `when` decides by the number of the document and how many times it was asked before.
    """

    def decide(model: str, prompt: str, before: int) -> tuple | None:
        hit = of in (None, model) and when(int(prompt.rstrip(".").split()[-1]), before)
        return mood if hit else None

    return decide


@dataclass
class CompletionsServer:
    """Serves recorded outputs.

    Parameters
    ----------
    outputs : mapping of model to mapping of prompt to text
        A prompt that is not there is answered by itself.
    latency : float or mapping of model to float
        Seconds before each answer.
    mood : callable, optional
        ``(model, prompt, how many times this prompt was asked before) -> misbehaviour or None``.
    usage : bool
        Whether answers carry a ``usage`` block (one token per word).
    says : callable, optional
        ``(model, answers of it so far) -> further keys of an answer`` (``model``, ...).
    """

    outputs: Mapping[str, Mapping[str, str]]
    latency: float | Mapping[str, float] = 0.0
    mood: Mood | None = None
    usage: bool = True
    says: Callable[[str, int], Mapping[str, Any]] = lambda model, n: {}
    asked: Counter[tuple[str, str]] = field(default_factory=Counter)
    answered: Counter[tuple[str, str]] = field(default_factory=Counter)
    at_once: Counter[str] = field(default_factory=Counter)
    most_at_once: Counter[str] = field(default_factory=Counter)
    bodies: list[dict[str, Any]] = field(default_factory=list)
    #: When each prompt was asked, in seconds of the epoch, and what became of it ("" is an
    #: answer, else the misbehaviour, as "status 503").
    log: list[tuple[float, str, str, str]] = field(default_factory=list)
    #: Per (model, prompt): who answered, with which text, and whether it was cut at the limit.
    said: dict[tuple[str, str], list[Any]] = field(default_factory=lambda: defaultdict(list))
    connections: int = 0
    _lock: Any = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def setup(self) -> None:
                with outer._lock:
                    outer.connections += 1
                super().setup()

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                outer._serve(self, body)

            def do_GET(self) -> None:
                self.send_error(404)

            def log_message(self, *args: Any) -> None:
                pass

        class Server(ThreadingHTTPServer):
            daemon_threads = True
            request_queue_size = 128

            def handle_error(self, *args: Any) -> None:
                pass  # clients that were killed

        self._server = Server(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True
        )
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}/v1/completions"

    def requests(self, model: str) -> int:
        """How many requests there were of a model."""
        return sum(n for (name, _), n in self.asked.items() if name == model)

    def answers(self, model: str) -> int:
        """How many answers of a model were given."""
        return sum(n for (name, _), n in self.answered.items() if name == model)

    def __enter__(self) -> CompletionsServer:
        return self

    def __exit__(self, *exc: Any) -> None:
        self._server.shutdown()
        self._server.server_close()

    def _serve(self, handler: BaseHTTPRequestHandler, body: dict[str, Any]) -> None:
        model = body["model"]
        prompts = body["prompt"] if isinstance(body["prompt"], list) else [body["prompt"]]
        prompts = [str(prompt) for prompt in prompts]
        arrived = time.time()
        with self._lock:
            self.bodies.append(body)
            before = max(self.asked[model, p] for p in prompts)
            self.asked.update((model, p) for p in prompts)
            self.at_once[model] += 1
            self.most_at_once[model] = max(self.most_at_once[model], self.at_once[model])
        try:
            delay = self.latency if isinstance(self.latency, float) else self.latency[model]
            time.sleep(delay)
            mood = self.mood(model, prompts[0], before) if self.mood else None
            with self._lock:
                kind = "" if mood is None else " ".join(map(str, mood[:2]))
                self.log += [(arrived, model, prompt, kind) for prompt in prompts]
            if mood is not None and not self._misbehave(handler, mood):
                return
            who = mood[1] if mood is not None and mood[0] == "swap" else model
            short = mood == ("truncate",)
            texts = ["" if mood == ("empty",) else self.outputs.get(who, {}).get(p, p)
                     for p in prompts]  # fmt: skip
            texts = [text[: len(text) // 2] if short else text for text in texts]
            with self._lock:
                self.answered.update((model, p) for p in prompts)
                for prompt, text in zip(prompts, texts):
                    self.said[model, prompt].append((who, text, short))
                asked = self.answers(model)
            end = {"finish_reason": "length" if short else "stop"}
            reply: dict[str, Any] = {
                "model": who,
                "choices": [
                    {"index": i, "text": t, "logprobs": _logprobs(p), **end}
                    for i, (p, t) in enumerate(zip(body["prompt"], texts))
                ]
                if body.get("echo")
                else [{"index": i, "text": t, **end} for i, t in enumerate(texts)],
            }
            reply |= self.says(model, asked)
            if self.usage:
                reply["usage"] = {
                    "prompt_tokens": sum(len(p.split()) for p in prompts),
                    "completion_tokens": sum(len(t.split()) for t in texts),
                }
            drip = mood[1] if mood is not None and mood[0] == "drip" else 0.0
            self._reply(handler, 200, json.dumps(reply).encode(), drip=drip)
        finally:
            with self._lock:
                self.at_once[model] -= 1

    def _misbehave(self, handler: BaseHTTPRequestHandler, mood: tuple) -> bool:
        """True if a proper answer follows all the same."""
        kind = mood[0]
        if kind == "say":
            self._reply(handler, mood[1], mood[2].encode(), mood[3] if len(mood) > 3 else {})
        elif kind == "status":
            self._reply(handler, mood[1], b'{"error": "on purpose"}')
        elif kind == "garbage":
            self._reply(handler, 200, b'{"choices": [{"index": 0, "te')
        elif kind == "drop":
            handler.connection.shutdown(socket.SHUT_RDWR)
            handler.close_connection = True
        elif kind == "cut":
            handler.wfile.write(b'HTTP/1.1 200 OK\r\nContent-Length: 999\r\n\r\n{"choices": [{"te')
            handler.wfile.flush()
            handler.connection.shutdown(socket.SHUT_RDWR)
            handler.close_connection = True
        elif kind == "hang":
            time.sleep(mood[1])
        return kind in ("empty", "hang", "drip", "swap", "truncate")

    def _reply(
        self,
        handler: BaseHTTPRequestHandler,
        status: int,
        body: bytes,
        headers: Mapping[str, str] | None = None,
        drip: float = 0.0,
    ) -> None:
        try:
            handler.send_response(status)
            for name, value in (headers or {}).items():
                handler.send_header(name, value)
            handler.send_header("Content-Type", "application/json")
            handler.send_header("Content-Length", str(len(body)))
            handler.end_headers()
            pieces = 10 if drip else 1
            size = -(-len(body) // pieces)
            for start in range(0, len(body), size):
                handler.wfile.write(body[start : start + size])
                handler.wfile.flush()
                time.sleep(drip / pieces)
        except OSError:
            pass  # the client gave up


def _logprobs(tokens: Any) -> dict[str, Any]:
    """Likelihoods of an echoed prompt of tokens, and of one token more."""
    values = [-float(int(token) % 7) for token in tokens] + [0.0]
    return {"token_logprobs": values, "top_logprobs": [{"x": -(i % 3)} for i in range(len(values))]}

"""A loopback server that speaks the OpenAI completions protocol and can misbehave on purpose."""

from __future__ import annotations

import json
import socket
import ssl
import subprocess
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

#: Decides what a request gets: None for the answer, or ("status", 429), ("drop",), ("garbage",),
#: ("empty",), ("hang", seconds), ("drip", seconds), ("say", status, body, headers), ("cut",) after
#: the answer was made, ("swap", another model), ("truncate",), ("think", tokens that only the total
#: counts).
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
        A prompt that is not there is answered by itself. A text ends before a request's `stop`.
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
    #: ``(model, prompt, seed) -> text``, in place of `outputs`: a model at a temperature.
    draws: Callable[[str, str, int], str] | None = None
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
                if self.path.endswith("completions"):
                    outer._serve(self, body)
                else:
                    self.send_error(404)

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
        return sum(n for (name, _), n in [*self.asked.items()] if name == model)

    def answers(self, model: str) -> int:
        """How many answers of a model were given."""
        return sum(n for (name, _), n in [*self.answered.items()] if name == model)

    def __enter__(self) -> CompletionsServer:
        return self

    def __exit__(self, *exc: Any) -> None:
        self._server.shutdown()
        self._server.server_close()

    def _serve(self, handler: BaseHTTPRequestHandler, body: dict[str, Any]) -> None:
        model = body["model"]
        chat = body.get("messages")
        asked = chat[-1]["content"] if chat else body["prompt"]
        prompts = asked if isinstance(asked, list) else [asked]
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
            kind, *about = (self.mood(model, prompts[0], before) if self.mood else None) or ("",)
            with self._lock:
                called = " ".join(map(str, (kind, *about[:1])))
                self.log += [(arrived, model, prompt, called) for prompt in prompts]
            if kind in ("say", "status", "garbage", "drop", "cut"):
                return self._misbehave(handler, kind, *about)
            if kind == "hang":
                time.sleep(about[0])
            who = about[0] if kind == "swap" else model
            part = {"empty": 0.0, "truncate": 0.5}.get(kind, 1.0)
            texts = [self.outputs.get(who, {}).get(p, p) for p in prompts]
            if self.draws is not None:
                texts = [self.draws(who, prompt, body["seed"]) for prompt in prompts]
            texts = [text[: int(part * len(text))] for text in texts]
            for stop in body.get("stop") or ():
                texts = [text.split(stop)[0] for text in texts]
            short = kind == "truncate"
            with self._lock:
                self.answered.update((model, p) for p in prompts)
                for prompt, text in zip(prompts, texts):
                    self.said[model, prompt].append((who, text, short))
            end = {"finish_reason": "length" if short else "stop"}
            said = [{"message": {"content": text}} if chat else {"text": text} for text in texts]
            choices = [{"index": i, **text, **end} for i, text in enumerate(said)]
            if body.get("echo"):
                for choice, tokens in zip(choices, body["prompt"]):
                    choice["logprobs"] = _logprobs(tokens)
            reply = {"model": who, "choices": choices, **self.says(model, self.answers(model))}
            if self.usage:
                reply["usage"] = {
                    "prompt_tokens": sum(len(p.split()) for p in prompts),
                    "completion_tokens": sum(len(t.split()) for t in texts),
                }
            if kind == "think":
                reply["usage"]["total_tokens"] = sum(reply["usage"].values()) + about[0]
            drip = about[0] if kind == "drip" else 0.0
            self._reply(handler, 200, json.dumps(reply), drip=drip)
        finally:
            with self._lock:
                self.at_once[model] -= 1

    def _misbehave(self, handler: BaseHTTPRequestHandler, kind: str, *about: Any) -> None:
        if kind in ("drop", "cut"):
            if kind == "cut":
                head = b"HTTP/1.1 200 OK\r\nContent-Length: 999\r\n\r\n"
                handler.wfile.write(head + b'{"choices": [{"te')
                handler.wfile.flush()
            handler.connection.shutdown(socket.SHUT_RDWR)
            handler.close_connection = True
        elif kind == "garbage":
            self._reply(handler, 200, '{"choices": [{"index": 0, "te')
        else:
            self._reply(handler, *about, *(['{"error": "on purpose"}'] if kind == "status" else []))

    def _reply(
        self, handler: Any, status: int, body: str, headers: Any = None, drip: float = 0.0
    ) -> None:
        headers, data = {"Content-Type": "application/json", **(headers or {})}, body.encode()
        try:
            handler.send_response(status)
            for name, value in {**headers, "Content-Length": str(len(data))}.items():
                handler.send_header(name, value)
            handler.end_headers()
            pieces = 10 if drip else 1
            size = -(-len(data) // pieces)
            for start in range(0, len(data), size):
                handler.wfile.write(data[start : start + size])
                handler.wfile.flush()
                time.sleep(drip / pieces)
        except OSError:
            pass  # the client gave up


@contextmanager
def untrusted_server(folder: Path) -> Iterator[str]:
    """The address of a server whose certificate nobody trusts; needs openssl."""
    key, certificate = folder / "key.pem", folder / "certificate.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj",
         "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(key), "-out",
         str(certificate)],
        check=True, capture_output=True,
    )  # fmt: skip
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)

    def greet() -> None:
        with suppress(OSError):  # closed at the end
            while True:
                connection, _ = listener.accept()
                with suppress(OSError), context.wrap_socket(connection, server_side=True):
                    pass

    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=greet, daemon=True).start()
        yield f"https://127.0.0.1:{listener.getsockname()[1]}/v1/completions"


def _logprobs(tokens: Any) -> dict[str, Any]:
    """Likelihoods of an echoed prompt of tokens, and of one token more."""
    values = [-float(int(token) % 7) for token in tokens] + [0.0]
    return {"token_logprobs": values, "top_logprobs": [{"x": -(i % 3)} for i in range(len(values))]}

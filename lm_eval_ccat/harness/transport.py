"""Requests to models behind servers: one event loop, and one pool of connections per model.

The harness's own loop (`generate_until` and `loglikelihood` of its `TemplateAPI`) makes an event
loop, a session and a handshake for every call. Here the model still builds the requests and reads
the answers, but connections are reused and shared by threads, and all requests in flight can be
cancelled at once. A session is here one of aiohttp, which holds a pool of connections. Nothing is
retried here: the caller decides, and learns from `ServerError` what the server said and whether the
request was sent.
"""

from __future__ import annotations

import asyncio
import base64
import copy
import errno
import json
import os
import re
import ssl
import threading
import urllib.request
import weakref
from collections.abc import Callable, Coroutine, Hashable, Iterator, Mapping, Sequence
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple
from urllib.parse import unquote, urljoin, urlsplit

from ..errors import HarnessError
from ..grouping import grouped
from ..masking import mask_text
from ..shown import short
from . import internals
from .served import Served, note_served, pause_of, seconds_to_wait

__all__ = [
    "ServerError",
    "Transport",
    "begin",
    "seconds_to_wait",
    "server_calls",
    "uses_template_api",
]

#: Statuses that a retry cannot fix, because they are about the model: wrong key, no permission, no
#: such model or address.
MODEL_STATUSES = frozenset({401, 402, 403, 404})
#: Statuses that are about this one document: malformed, too long, unprocessable, refused.
DOCUMENT_STATUSES = frozenset({400, 413, 422, 451})
#: Statuses of a server that is temporarily unavailable to everyone.
AWAY_STATUSES = frozenset({429, 502, 503, 504, 529})
#: Of these, statuses of a server that may have as many requests as it can bear.
FULL_STATUSES = frozenset({503, 529})
#: Most characters to keep of a server's message.
LONGEST_MESSAGE = 500
#: Largest answer to read, in bytes; likelihoods of a large batch take some ten million.
LARGEST_BODY = 128 * 1024 * 1024
#: Error codes after which the account gets no more answers, however long one waits.
_FINAL = frozenset(
    "insufficient_quota billing_hard_limit_reached billing_not_active account_deactivated".split()
)
#: Least time in seconds to get a connection in.
CONNECTING = 30.0
#: Least number of turns of the event loop in which a request runs out of time.
TURNS = 10
#: Methods of a model that go through its transport.
_REPLACED_METHODS = ("generate_until", "loglikelihood")


@dataclass
class RequestProgress:
    """How far a request got: whether it went out, and over a connection that was used before.

    `limit` is the time limit of what it waits for: a connection, then an answer within `seconds`.
    """

    seconds: float
    limit: asyncio.Timeout = field(default_factory=partial(asyncio.timeout, None))
    sent: bool = False
    reused: bool = False
    _timer: asyncio.TimerHandle | None = None

    def has_slot(self) -> None:
        """Note that a slot is free, and a connection is looked for."""
        self._allow(max(self.seconds, CONNECTING))

    def goes_out(self, reused: bool) -> None:
        """Note that there is a connection; from now on the server has its time to answer."""
        self.sent, self.reused = True, reused
        self._allow(self.seconds)

    def ends(self) -> None:
        """Note that nothing is waited for any more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _allow(self, seconds: float, turns: int = TURNS) -> None:
        """Let the limit run out after so many seconds, counted in so many turns of the loop.

        A loop that was busy for seconds in one turn has not read the answers that came meanwhile;
        a single timer would end their requests.
        """
        self.ends()
        loop = asyncio.get_running_loop()
        if turns:
            self._timer = loop.call_later(seconds / TURNS, self._allow, seconds, turns - 1)
        elif not self.limit.expired():
            self.limit.reschedule(loop.time())

    @property
    def overdue(self) -> str:
        """What has not come in time."""
        if self.sent:
            return f"no answer within {self.seconds:g} s"
        return f"no connection within {max(self.seconds, CONNECTING):g} s"


#: That of the request whose task runs, for the connector, which is not told of requests.
_PROGRESS: ContextVar[RequestProgress | None] = ContextVar("progress", default=None)
# Tokenizers that are set up anew at each call are not thread-safe.
_ENCODING = threading.Lock()


class ServerError(ConnectionError):
    """A request without a usable answer.

    Attributes
    ----------
    kind : str
        ``"status"`` (refused by an HTTP status), ``"answer"`` (the answer states an error or cannot
        be read), ``"request"`` (it could not be sent, for example to an invalid address, or was
        redirected), ``"timeout"``, ``"connection"`` (not made, broken, or not HTTP) or
        ``"cancelled"``.
    status : int or None
        The HTTP status, or the one that the answer names.
    words : str
        The server's message, on one line.
    headers : mapping
        The answer's headers.
    code : str
        The server's code of the error, such as ``"insufficient_quota"``; else "".
    sent : bool
        Whether the request may have reached the server, which may then bill it.
    address : str
        The address and what to correct, if it may be wrong because nobody was found there; else "".
    served : tuple of Served
        Reports on other requests of the same batch that were answered (see `Transport.send_all`).
    """

    def __init__(
        self,
        kind: str,
        message: str,
        *,
        status: int | None = None,
        words: str = "",
        headers: Mapping[str, str] | None = None,
        code: str = "",
        sent: bool = True,
        address: str = "",
    ) -> None:
        super().__init__(message)
        self.kind = kind
        self.status = status
        self.words = words
        self.headers: Mapping[str, str] = headers or {}
        self.code = code
        self.sent = sent
        self.address = address
        self.served: tuple[Served, ...] = ()

    @property
    def retry_after(self) -> float | None:
        """Seconds that the server asks to wait, in any of its headers; None if it does not."""
        return pause_of({name.lower(): value for name, value in self.headers.items()})

    @property
    def final(self) -> bool:
        """Whether waiting is useless, because the account's quota is spent or it is disabled."""
        return self.code in _FINAL


@dataclass(frozen=True)
class ServerCall:
    """One HTTP request: its body, the harness's requests it answers, and how to read the answer.

    Attributes
    ----------
    payload : dict
        The body, as the model builds it.
    positions : tuple of int
        Positions of the harness's requests that it answers.
    read : callable
        Turns the answer's JSON into one response per position.
    """

    payload: dict[str, object]
    positions: tuple[int, ...]
    read: Callable[[Any], list[Any]]


class ServerAnswer(NamedTuple):
    """The JSON of an answer, and what the server reported with it."""

    content: Any
    served: Served


class Target(NamedTuple):
    """Where a request goes: address, headers, and the seconds that the server has to answer."""

    url: str
    headers: dict[str, str]
    seconds: float


def uses_template_api(lm: Any) -> bool:
    """Whether a model sends its requests as the harness's own `TemplateAPI` does."""
    inner, sending = internals.unwrapped(lm), internals.SENDING
    # Of this one model, as by a transport that it has already; then of its class.
    changed = any(name in vars(inner) for name in sending.split())
    stock = internals.is_api(type(inner)) and internals.is_stock(
        type(inner), sending, internals.API_MODELS
    )
    return stock and not changed and internals.is_stock(type(inner), "loglikelihood", "lm_eval.")


class Transport:
    """Sends a model's requests through the common event loop and a connection pool of its own.

    Once it is created, the model's ``generate_until`` and ``loglikelihood`` go through it, so their
    callers (a session, the response cache) need not change; several threads may call them at once.
    A coroutine on the loop (see `begin`) awaits `send` instead.

    Parameters
    ----------
    lm : LM
        A model for which `uses_template_api` is true.
    in_flight : int, optional
        Largest number of requests at once; by default the model's ``num_concurrent``.

    Raises
    ------
    HarnessError
        The model has no address.

    Examples
    --------
    >>> transport = Transport(lm)                     # doctest: +SKIP
    >>> session.administer([17])                      # doctest: +SKIP
    >>> transport.cancel()                            # doctest: +SKIP
    """

    def __init__(self, lm: Any, in_flight: int | None = None) -> None:
        self._lm = lm = internals.unwrapped(lm)
        if not lm.base_url:
            raise HarnessError(
                f"model {internals.model_name(lm)} has no server to ask: give base_url in its "
                "model_args"
            )
        self._limit = in_flight or max(1, int(lm._concurrent))  # requests on the wire
        self._waiting: set[Any] = set()  # tasks that wait for an answer, to be cancelled
        self._session: Any = None
        self._finalizers: list[weakref.finalize[Any, Any]] = []  # which close sessions
        self._slots: asyncio.Semaphore | None = None  # made on the loop, with the session
        self._cancelled = False
        # `note_server_reports` may have wrapped them; answers would be noted twice.
        for name in ("parse_generations", "parse_logprobs"):
            vars(lm).pop(name, None)
        for name in _REPLACED_METHODS:
            setattr(lm, name, partial(self._ask, getattr(lm, name)))

    @property
    def account(self) -> Hashable:
        """The host and the key of its requests: what a server may limit the rate of."""
        url, headers = self._address()
        return urlsplit(url).netloc, headers.get("Authorization", "")

    async def send(self, call: ServerCall) -> ServerAnswer:
        """Send one request and return its answer; called on the event loop's thread.

        Raises
        ------
        ServerError
            If there is no usable answer, or the transport was cancelled.
        """

        if self._cancelled:
            why = "the run has ended; no more requests are sent"
            raise ServerError("cancelled", why, sent=False)
        # The session belongs to the loop, so that it is opened there, at the first request.
        if self._session is None:
            self._open()
        try:
            target = self._target()
            data = json.dumps(call.payload).encode()
        except (ValueError, TypeError) as error:
            why = f"the request cannot be sent: {_reason(error)}"
            raise ServerError("request", why, sent=False) from error
        response, body = await self._posted(target, data)
        status, headers = response.status, response.headers
        if 300 <= status < 400 and (location := headers.get("Location")):
            raise _redirected(target.url, location)
        answer = _checked(status, headers, body, target, chat="messages" in call.payload)
        return ServerAnswer(answer, Served.of(answer, headers, call.payload))

    async def _posted(self, target: Target, data: bytes) -> tuple[Any, bytearray]:
        """Post a request as soon as a slot is free, and return the response and its body.

        Raises
        ------
        ServerError
            No response came whole, or the transport was cancelled.
        """
        assert self._slots is not None
        # The connector notes in it how far the request came. While many models begin, requests wait
        # in this process for seconds, which are not the server's.
        task, progress = asyncio.current_task(), RequestProgress(target.seconds)
        before = _PROGRESS.set(progress)
        # To follow a redirect would hand prompts and the key to an address that nobody named.
        options: dict[str, Any] = {
            "headers": target.headers, "proxy": self._proxy, "allow_redirects": False
        }  # fmt: skip
        failure: ServerError | None = None
        self._waiting.add(task)
        try:
            async with self._slots, progress.limit:
                progress.has_slot()
                async with self._session.post(target.url, data=data, **options) as response:
                    body = await _body(response)
        # CancelledError is no Exception, and yet a failure of this one request.
        except (Exception, asyncio.CancelledError) as error:
            failure = self._failure(error, progress, mask_text(target.url))
            if failure is None:
                raise
        finally:
            progress.ends()
            # The progress knows its task, whose context would else hold it: only the garbage
            # collector, which goes through all that is in flight, frees such a ring.
            _PROGRESS.reset(before)
            self._waiting.discard(task)
        # Raised outside the handler, so that it has no cause: aiohttp's own error invents a status
        # if the answer is not HTTP, and whoever looks at causes would believe it.
        if failure is not None:
            raise failure
        return response, body

    def _failure(
        self, error: BaseException, progress: RequestProgress, url: str
    ) -> ServerError | None:
        """Return the error of a request for what aiohttp or a socket raised; None if it stays.

        Parameters
        ----------
        error : BaseException
        progress : RequestProgress
        url : str
            Without credentials.
        """
        import aiohttp

        kind, address = "connection", ""
        match error:
            # It says all already. Among others it is an OSError, as is a TimeoutError.
            case ServerError():
                return None
            case asyncio.CancelledError():
                kind, why = "cancelled", "the request was cancelled"
            case TimeoutError():
                kind, why = "timeout", progress.overdue
            case aiohttp.InvalidURL() | aiohttp.NonHttpUrlClientError():
                kind = "request"
                why = f"the request cannot be sent: {_reason(error)} (base_url begins with http://)"
            case aiohttp.ClientError() | OSError() | ValueError():
                why = f"the connection failed: {_reason(error)}"
                if remedy := _remedy_of_connection(error):
                    address = f"{url}: {remedy}"
                if progress.reused:
                    self._distrust_idle_connections(error)
            # Any other error is ours.
            case _:
                return None
        return ServerError(kind, why, sent=progress.sent, address=address)

    def _distrust_idle_connections(self, error: Exception) -> None:
        """Open a new connection for each request from now on, if `error` is that one was closed.

        Some servers close an idle connection without a word. Whether they had read, and bill, the
        request that was then sent over it, cannot be known.
        """
        import aiohttp

        closed = isinstance(error, aiohttp.ServerDisconnectedError | aiohttp.ClientOSError)
        connector = getattr(self._session, "connector", None)  # none once it is closed
        lasting = connector is not None and not connector.force_close
        if closed and lasting and not self._cancelled:
            self._connect(force_close=True)

    def _target(self) -> Target:
        """Return where requests go; a change of the model's settings takes effect at once."""
        url, headers = self._address()
        seconds = float(self._lm.timeout)
        return Target(url, {"Content-Type": "application/json", **headers}, seconds)

    def _address(self) -> tuple[str, dict[str, str]]:
        """Return the model's address and headers as its settings are now."""
        return _authorized(str(self._lm.base_url), self._lm.header or {})

    async def send_all(self, calls: Sequence[ServerCall]) -> list[ServerAnswer]:
        """Send a batch of requests as `send` does, and return their answers.

        Raises
        ------
        ServerError
            That of the first request that failed; open ones are cancelled. It carries the reports
            (`served`) on those that were answered, which may be billed although the batch is lost.
        """
        sendings = [asyncio.ensure_future(self.send(call)) for call in calls]
        try:
            return list(await asyncio.gather(*sendings))
        except ServerError as error:
            # One that is cancelled is done, too, and its `exception` would raise.
            answered = [
                sending
                for sending in sendings
                if sending.done() and not sending.cancelled() and sending.exception() is None
            ]
            error.served = tuple(sending.result().served for sending in answered)
            raise
        finally:
            # After an error nobody waits for the others, and a server would bill them.
            for sending in sendings:
                sending.cancel()

    def submit(self, calls: Sequence[ServerCall]) -> list[ServerAnswer]:
        """Call `send_all` from another thread, and wait."""
        return asyncio.run_coroutine_threadsafe(self.send_all(calls), _loop()).result()

    def _ask(
        self, stock: Callable[..., Any], requests: Sequence[Any], disable_tqdm: bool = False
    ) -> list[Any]:
        """Answer requests as `stock`, the model's own method, does."""
        # A request with images has a third argument, which only the model's own method sends.
        if any(len(request.args) > 2 for request in requests):
            return list(stock(requests, disable_tqdm=disable_tqdm))
        calls = server_calls(self._lm, requests)
        answers = self.submit(calls)
        note_served([answer.served for answer in answers])
        return self.read_all(calls, answers, len(requests))

    def read_all(
        self, calls: Sequence[ServerCall], answers: Sequence[ServerAnswer], n_requests: int
    ) -> list[Any]:
        """Return the response to each of the requests that the calls answer."""
        responses: list[Any] = [None] * n_requests
        for call, answer in zip(calls, answers):
            for position, response in zip(call.positions, self.read(call, answer.content)):
                responses[position] = response
        return responses

    def read(self, call: ServerCall, answer: Any) -> list[Any]:
        """Return one response for each request of a call.

        Raises
        ------
        ServerError
            If the answer does not have the form that the model reads.
        """
        trouble = ""
        try:
            read = call.read(answer)
            # Fewer texts than prompts: whose is missing cannot be known.
            if len(read) < len(call.positions):
                trouble = f"the server answered {len(read)} of {len(call.positions)} prompts"
        except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
            trouble = f"the server's answer does not have the expected form ({error!r})"
        if trouble:
            words = short(json.dumps(answer, ensure_ascii=False), LONGEST_MESSAGE)
            raise ServerError("answer", f"{trouble}: {words}", words=words)
        return read

    def cancel(self) -> None:
        """Cancel every request in flight, and refuse further ones."""
        self._cancelled = True
        _loop().call_soon_threadsafe(lambda: [task.cancel() for task in [*self._waiting]])

    def widen(self) -> None:
        """Allow one more request in flight, to replace one that is stuck."""
        self._limit += 1
        if self._slots is not None:
            _loop().call_soon_threadsafe(self._slots.release)

    def close(self) -> None:
        """Cancel all requests in flight, close the connections, and restore the model."""
        self.cancel()
        for name in _REPLACED_METHODS:
            vars(self._lm).pop(name, None)
        self._session = None
        while self._finalizers:
            self._finalizers.pop()()

    # -- on the loop -----------------------------------------------------------------------

    def _open(self) -> None:
        """Open the pool of connections, with a slot for each request that may be in flight."""
        self._connect(force_close=False)
        self._slots = asyncio.Semaphore(self._limit)
        parts = urlsplit(str(self._lm.base_url))
        self._proxy = None  # the environment may name one for the address
        if parts.hostname and not urllib.request.proxy_bypass(parts.hostname):
            self._proxy = urllib.request.getproxies().get(parts.scheme)

    def _connect(self, force_close: bool) -> None:
        """Open a session for requests from now on; those under way go on in the session before.

        Parameters
        ----------
        force_close : bool
            Whether each request gets a connection of its own; else connections are used again.
        """
        import aiohttp

        class Connector(aiohttp.TCPConnector):
            """Notes of each request that it has a connection, and whether that served another."""

            async def connect(self, *args: Any, **kwargs: Any) -> Any:
                connection = await super().connect(*args, **kwargs)
                if (progress := _PROGRESS.get()) is not None:
                    progress.goes_out(reused=connection.protocol in protocols)
                protocols.add(connection.protocol)
                return connection

        # Of connections that a request was sent over.
        protocols: weakref.WeakSet[Any] = weakref.WeakSet()
        trust: Any = bool(self._lm.verify_certificate)
        if trust and (file := getattr(self._lm, "ca_cert_path", None)):
            trust = ssl.create_default_context(cafile=file)
        connector = Connector(limit=0, ssl=trust, ttl_dns_cache=300, force_close=force_close)
        # aiohttp would count a request's time from before it has a connection; see `_posted`.
        unlimited = aiohttp.ClientTimeout(total=None)
        self._session = aiohttp.ClientSession(connector=connector, timeout=unlimited)
        self._finalizers.append(weakref.finalize(self, _close, self._session))


async def _body(response: Any) -> bytearray:
    """Read the body of an answer as it arrives, up to `LARGEST_BODY` bytes.

    Raises
    ------
    ServerError
        It is larger.
    """
    body = bytearray()
    async for piece in response.content.iter_any():
        body += piece
        if len(body) > LARGEST_BODY:
            raise ServerError("answer", f"the answer is larger than {LARGEST_BODY >> 20} MiB")
    return body


def _redirected(url: str, location: str) -> ServerError:
    """Return the error of an answer that names another address, without credentials in it."""
    address = urlsplit(urljoin(url, location))
    bare = address._replace(netloc=address.netloc.rpartition("@")[2], query="", fragment="")
    return ServerError(
        "request",
        f"the server redirects to {bare.geturl()}; neither prompts nor key are sent there (if "
        "that is intended, set it as base_url)",
    )


def _remedy_of_status(status: int, target: Target, chat: bool) -> str:
    """Return what a status says of an entry's address or key, to end an error; "" if nothing.

    An address that replaces the server's words begins with a comma.
    """
    # The words of such an answer are a page in HTML, or "Not Found".
    if status in (404, 405) and (address := _right_address(target.url, chat)):
        return f", write base_url={address}"
    if status == 401 and target.headers.get("Authorization", "").strip() == "Bearer":
        return "; OPENAI_API_KEY is not set"
    return ""


def _json(body: bytes | bytearray) -> Any:
    """Return the JSON of an answer; None if it is none."""
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return None


def _checked(
    status: int, headers: Mapping[str, str], body: bytes | bytearray, target: Target, chat: bool
) -> Any:
    """Return the JSON of an answer; raise a `ServerError` if it is an error in any form.

    Status, headers and body are the answer's; the request went to `target`, and as messages of a
    `chat` or as a prompt.
    """
    answer = _json(body)
    if not (trouble := _trouble_in(status, answer)):
        return answer
    code, http_status = _code_and_status(answer)
    words, refused = _words(answer, body), status >= 300
    remedy = _remedy_of_status(status, target, chat)
    # An interface answers in JSON, if only that it does not know the model.
    if status in (404, 405) and not remedy and _is_page(body):
        remedy = "; base_url leads to a web page, not to an API"
    message = trouble if remedy.startswith(",") else f"{trouble}: {words or 'no words'}"
    raise ServerError(
        "status" if refused else "answer",
        message + remedy,
        status=status if refused else http_status,
        words=words,
        headers=dict(headers),
        code=code,
    )


def _trouble_in(status: int, answer: Any) -> str:
    """Return what makes an answer an error; "" if nothing does."""
    if status >= 300:
        return f"HTTP {status}"
    if answer is None:
        return "the server's answer is not JSON"
    if not isinstance(answer, dict):
        return ""
    if answer.get("error") and not answer.get("choices"):
        return "the server answered with an error"
    return "the server's answer holds no choices" if answer.get("choices") == [] else ""


def _code_and_status(answer: Any) -> tuple[str, int | None]:
    """Return the code that an answer's error names, a final one first, and its HTTP status."""
    error = answer.get("error") if isinstance(answer, dict) else None
    named = [error.get(key) for key in ("code", "type")] if isinstance(error, dict) else []
    names = [name for name in named if isinstance(name, str)]
    code = next((name for name in names if name in _FINAL), "".join(names[:1]))
    return code, next((n for n in named if isinstance(n, int) and 400 <= n < 600), None)


def _words(answer: Any, body: bytes | bytearray) -> str:
    """Return a server's error message on one line."""
    words: Any = answer.get("error", answer) if isinstance(answer, dict) else None
    if isinstance(words, dict):
        words = words.get("message") or words.get("detail") or json.dumps(words, ensure_ascii=False)
    text = str(words) if words else body[: 4 * LONGEST_MESSAGE].decode(errors="replace")
    # A reader wants what a page is called, or its text.
    if not words and _is_page(body):
        title = re.search(r"<title[^>]*>(.*?)</title>", text, re.IGNORECASE | re.DOTALL)
        text = title[1] if title else re.sub(r"<[^>]*>?", " ", text).strip()
    return short(text, LONGEST_MESSAGE)


def _is_page(body: bytes | bytearray) -> bool:
    """Whether an answer is a page in HTML or XML."""
    return body[:200].lstrip()[:1] == b"<"


def _reason(error: Exception) -> str:
    """Return what an error of a connection says, without what its message repeats."""
    refused = getattr(error, "certificate_error", None)  # aiohttp repeats address and settings
    text = getattr(refused, "verify_message", None) or str(error)
    return short(text, LONGEST_MESSAGE) or type(error).__name__


def _authorized(url: str, headers: Mapping[str, str]) -> tuple[str, dict[str, str]]:
    """Return the address and headers, with the address's user and password moved into a header.

    That header replaces the model's own, which the harness sets with or without a key.

    >>> _authorized("http://me:secret@host/v1", {"Authorization": "Bearer "})
    ('http://host/v1', {'Authorization': 'Basic bWU6c2VjcmV0'})
    """
    if "@" not in url or (parts := urlsplit(url)).username is None:
        return url, dict(headers)
    user, password = unquote(parts.username), unquote(parts.password or "")
    code = base64.b64encode(f"{user}:{password}".encode()).decode()
    other_headers = {
        name: value for name, value in headers.items() if name.lower() != "authorization"
    }
    host = parts.netloc.rpartition("@")[2]
    return parts._replace(netloc=host).geturl(), {**other_headers, "Authorization": f"Basic {code}"}


_THREAD = "ccat-transport"
#: The event loop of each process, by its number.
_LOOPS: dict[int, asyncio.AbstractEventLoop] = {}
#: Coroutines handed over to the loop of a process and not yet begun.
_HANDED_OVER: dict[int, list[Coroutine[Any, Any, object]]] = {}
_LOCK = threading.Lock()


def _loop() -> asyncio.AbstractEventLoop:
    """Return this process's event loop, which runs in its own thread; a fork starts its own."""
    with _LOCK:
        if (loop := _LOOPS.get(os.getpid())) is None:
            loop = _LOOPS[os.getpid()] = asyncio.new_event_loop()
            threading.Thread(target=loop.run_forever, name=_THREAD, daemon=True).start()
    return loop


def begin(work: Coroutine[Any, Any, object]) -> None:
    """Run a coroutine on the loop; several handed over together wake it only once."""
    loop, process = _loop(), os.getpid()

    def begin_all() -> None:
        with _LOCK:
            coroutines = _HANDED_OVER.pop(process, [])
        for coroutine in coroutines:
            loop.create_task(coroutine)

    with _LOCK:
        waiting = _HANDED_OVER.setdefault(process, [])
        # Woken before the list grows: after a Ctrl-C in between, the next caller wakes it again.
        if not waiting:
            loop.call_soon_threadsafe(begin_all)
        waiting.append(work)


def _remedy_of_connection(error: BaseException) -> str:
    """Say what to correct if a connection fails as with a wrong address; "" if it does not."""
    import aiohttp

    match error:
        case aiohttp.ClientConnectorCertificateError():
            return "set ca_cert_path=FILE in its model_args, or verify_certificate=False"
        case aiohttp.ClientConnectorSSLError():
            return "if the server has no TLS, begin its base_url with http://"
        case aiohttp.ClientConnectorDNSError():
            return "correct the host in its base_url"
        case aiohttp.ClientConnectorError() if error.errno == errno.ECONNREFUSED:
            return "start the server, or correct the port in its base_url"
    return ""


def _right_address(url: str, chat: bool) -> str:
    """Return a server's address with the path for its kind of model; "" if it may be right.

    >>> _right_address("http://me:key@localhost:8000/v1", chat=True)
    'http://localhost:8000/v1/chat/completions'
    >>> _right_address("http://localhost:8000/v1/chat/completions", chat=False)
    'http://localhost:8000/v1/completions'
    """
    parts = urlsplit(url)
    path = parts.path.rstrip("/")
    base = path.removesuffix("/completions").removesuffix("/chat")
    end = "/chat/completions" if chat else "/completions"
    # An address that already ends right, or has a path of its own, may well be what is meant.
    if path == base + end or (path == base and base not in ("", "/v1")):
        return ""
    right = (base or "/v1") + end
    return parts._replace(netloc=parts.netloc.rpartition("@")[2], path=right).geturl()


def _close(session: Any) -> None:
    """Close a pool of connections, even if its model was never closed."""
    closing = asyncio.run_coroutine_threadsafe(session.close(), _loop())
    # On the loop's own thread, to wait for the loop would never end.
    if threading.current_thread().name != _THREAD:
        with suppress(TimeoutError):  # the loop then closes the connections later
            closing.result(5.0)


# -- building requests and reading answers ------------------------------------------------------


def server_calls(lm: Any, requests: Sequence[Any]) -> list[ServerCall]:
    """Return the calls for requests of one type, of a model that `uses_template_api`."""
    lm = internals.unwrapped(lm)
    # All are encoded by the model's tokenizer at once.
    if requests and requests[0].request_type == "loglikelihood":
        return list(_likelihoods(lm, requests))
    by_settings = grouped((repr(request.args[1]), n) for n, request in enumerate(requests))
    size = max(1, int(lm._batch_size))
    calls = []
    for positions in by_settings.values():
        for start in range(0, len(positions), size):
            chunk = tuple(positions[start : start + size])
            prompts = [requests[position].args[0] for position in chunk]
            calls.append(_generation(lm, chunk, prompts, dict(requests[chunk[0]].args[1])))
    return calls


def _generation(
    lm: Any, positions: tuple[int, ...], prompts: list[Any], settings: dict[str, object]
) -> ServerCall:
    """Return the call that lets a model generate texts for prompts, all with the same settings."""
    messages: Any = prompts
    if lm.tokenized_requests:
        # As the harness does: a prompt that leaves no room for an answer loses its beginning.
        longest = lm.max_length - settings.get("max_gen_toks", lm._max_gen_toks)
        with _ENCODING:
            encoded = lm.tok_encode(prompts, add_special_tokens=lm.add_bos_token)
        messages = [tokens[-longest:] for tokens in encoded]

    def read(answer: Any) -> list[Any]:
        texts = list(lm.parse_generations(outputs=answer, contexts=prompts))
        for prompt, text in zip(prompts, texts):
            # Some servers return parts of another kind, which the task would score as wrong.
            if not isinstance(text, str | None):
                raise TypeError(f"its text is of type {type(text).__name__}")
            # For the harness's response cache, as the model's own method does.
            if text is not None:
                lm.cache_hook.add_partial("generate_until", (prompt, settings), text)
        return [_none_text() if text is None else text for text in texts]

    # The model takes from them and adds to them.
    copied = {key: _copied(value) for key, value in settings.items()}
    return ServerCall(_payload(lm, messages, copied), positions, read)


def _copied(setting: Any) -> Any:
    """Return a copy of a setting; few are more than a number, a text or a list of texts."""
    if isinstance(setting, str | int | float):
        return setting
    if isinstance(setting, list) and all(isinstance(part, str) for part in setting):
        return setting.copy()
    return copy.deepcopy(setting)


def _none_text() -> str:
    """Return what the harness takes for an answer without a text."""
    name = "lm_eval.models.api_models:LMEVAL_MODEL_NONE_ANSWER_PLACEHOLDER?"
    return str(internals.resolve(name) or "")


def _likelihoods(lm: Any, requests: Sequence[Any]) -> Iterator[ServerCall]:
    """Yield the calls that rate the likelihoods of requests, in batches of the model's size."""
    assert lm.tokenizer is not None, (
        "Tokenizer is required for loglikelihood tasks to compute context lengths."
    )
    # What the model's own `loglikelihood` hands on: the texts with their tokens.
    model = copy.copy(lm)
    model._loglikelihood_tokens = lambda encoded, **_: encoded
    with _ENCODING:
        encoded = type(lm).loglikelihood(model, requests, disable_tqdm=True)
    size = max(1, int(lm._batch_size))
    for start in range(0, len(requests), size):
        chunk = encoded[start : start + size]
        inputs, contexts, keys = lm.batch_loglikelihood_requests([chunk])

        # Its defaults hold this chunk: the loop has gone on before an answer is read.
        def read(
            answer: Any, inputs: Any = inputs, contexts: Any = contexts, keys: Any = keys
        ) -> list[Any]:
            pairs = list(lm.parse_logprobs(outputs=answer, tokens=inputs, ctxlens=contexts))
            for key, pair in zip(keys, pairs):
                if key is not None and pair is not None:
                    lm.cache_hook.add_partial("loglikelihood", key, pair)
            return pairs

        yield ServerCall(_payload(lm, inputs), tuple(range(start, start + len(chunk))), read)


def _payload(
    lm: Any, messages: Any, settings: dict[str, object] | None = None
) -> dict[str, object]:
    """Return the body of a request: to generate with settings, or for the prompt's likelihood."""
    # The harness adds the end-of-text string only if requests are sent one at a time.
    end = {"eos": lm.eos_string} if lm._concurrent <= 1 else {}
    options = {"generate": settings is not None, "gen_kwargs": settings, "seed": lm._seed, **end}
    return dict(lm._create_payload(lm.create_message(messages), **options))

"""Requests to models behind servers: one event loop, and for each model one pool of connections.

A connection (and its TLS handshake) is made once and used again, requests of several threads share
it, and all that is in flight can be cancelled at once. Nothing is repeated here: whoever asks
decides, and learns from `ServerError` what the server said and whether the request was sent.
"""

from __future__ import annotations

import asyncio
import base64
import json
import os
import ssl
import threading
import urllib.request
import weakref
from collections import deque
from collections.abc import Callable, Coroutine, Mapping, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as TooLate
from contextlib import suppress
from types import SimpleNamespace
from typing import Any
from urllib.parse import unquote, urljoin, urlsplit

from ..wording import short
from . import internals
from .internals.api import ServerCall
from .served import Served, note_served, pause_of, seconds_to_wait

__all__ = ["ServerError", "Transport", "pooled", "seconds_to_wait"]

#: What the loop runs: makes its coroutine there.
Work = Callable[[], Coroutine[Any, Any, object]]
Answers = list[tuple[Any, Served]]

#: Characters of a server's own words that are kept.
WORDS = 500
#: Bytes of an answer that are read; likelihoods of a large batch take some ten million.
LARGEST_BODY = 128 * 1024 * 1024
#: Times that one request is passed on within its origin.
_REDIRECTS = 5
#: Codes of errors after which no request of this account is answered, however long one waits.
_FINAL = frozenset(
    "insufficient_quota billing_hard_limit_reached billing_not_active account_deactivated".split()
)


class ServerError(ConnectionError):
    """A request that brought no usable answer.

    Attributes
    ----------
    kind : str
        ``"status"`` (refused by an HTTP status), ``"answer"`` (an answer that says it is an error,
        or cannot be read), ``"request"`` (it could not even be sent: a wrong address, say),
        ``"timeout"``, ``"connection"`` (none, one that broke, or one that speaks no HTTP) or
        ``"cancelled"``.
    status : int or None
        The HTTP status; also where the answer names one.
    words : str
        What the server said, on one line.
    headers : mapping
        The answer's headers.
    code : str
        The server's name of the error, such as ``"insufficient_quota"``; else "".
    sent : bool
        Whether the request may have reached the server, which may then bill it.
    served : tuple of Served
        Requests of the same call that were answered all the same.
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
    ) -> None:
        super().__init__(message)
        self.kind = kind
        self.status = status
        self.words = words
        self.headers: Mapping[str, str] = headers or {}
        self.code = code
        self.sent = sent
        self.served: tuple[Served, ...] = ()

    @property
    def retry_after(self) -> float | None:
        """Seconds that the server asks to wait, in whichever of its headers."""
        return pause_of({name.lower(): value for name, value in self.headers.items()})

    @property
    def final(self) -> bool:
        """Whether the account can ask nothing more (its quota is spent), however long one waits."""
        return self.code in _FINAL


class Transport:
    """A model's requests through the common loop and a pool of its own.

    From its making on, the model's ``generate_until`` and ``loglikelihood`` go through it, so
    whatever calls them (a session, the response cache) need not know; they may be called from
    several threads at the same time. A coroutine that `start` runs awaits `put` instead.

    Parameters
    ----------
    lm : LM
        A model for which `pooled` is true.
    in_flight : int, optional
        Requests at once; default the model's own ``num_concurrent``.

    Examples
    --------
    >>> transport = Transport(lm)                     # doctest: +SKIP
    >>> session.administer([17])                      # doctest: +SKIP
    >>> transport.cancel()                            # doctest: +SKIP
    """

    def __init__(self, lm: Any, in_flight: int | None = None) -> None:
        self._lm = lm
        self._url, _ = internals.address(lm)
        self._limit = in_flight or internals.requests_in_flight(lm)
        self._waiting: set[asyncio.Task[Any]] = set()
        self._session: Any = None
        self._slots: asyncio.Semaphore | None = None
        self._cancelled = False
        internals.route(lm, self.ask)

    def start(self, work: Work) -> None:
        """Run a coroutine on the loop, which may `put` requests there."""
        _loop().soon(work)

    async def put(self, calls: Sequence[ServerCall]) -> Answers:
        """Send some requests, from the loop: (the JSON of an answer, what came with it) of each.

        Raises
        ------
        ServerError
            The first error of the requests, or that the transport was cancelled.
        """
        if self._cancelled:
            raise ServerError(
                "cancelled", "the run has ended; no more requests are sent", sent=False
            )
        flags = [SimpleNamespace(sent=False) for _ in calls]
        task = asyncio.current_task()
        assert task is not None
        self._waiting.add(task)
        try:
            return await self._all(calls, flags)
        except asyncio.CancelledError:
            sent = any(flag.sent for flag in flags)
            raise ServerError("cancelled", "the request was cancelled", sent=sent) from None
        finally:
            self._waiting.discard(task)

    def submit(self, calls: Sequence[ServerCall]) -> Answers:
        """As `put`, from any other thread, which waits."""
        answers: Answers = _loop().done(lambda: self.put(calls))
        return answers

    def ask(self, calls: Sequence[ServerCall], n: int) -> list[Any]:
        """Send requests, wait, and read their answers: `n` responses by position.

        Raises
        ------
        ServerError
            With the server's own words.
        """
        answers = self.submit(calls)
        note_served([served for _, served in answers])
        return self.read_all(calls, answers, n)

    def read_all(self, calls: Sequence[ServerCall], answers: Answers, n: int) -> list[Any]:
        """`n` responses by position."""
        responses: list[Any] = [None] * n
        for call, (answer, _) in zip(calls, answers):
            for position, response in zip(call.positions, self.read(call, answer)):
                responses[position] = response
        return responses

    def cancel(self) -> None:
        """Abandon every request in flight, at once, and refuse further ones."""
        self._cancelled = True
        _loop().soon(self._cancel_all)

    async def _cancel_all(self) -> None:
        for task in list(self._waiting):
            task.cancel()

    def widen(self) -> None:
        """Allow one more request in flight, to replace one that is held up."""
        self._limit += 1
        _loop().soon(self._let_in)

    async def _let_in(self) -> None:
        if self._slots is not None:
            self._slots.release()

    def close(self) -> None:
        """Cancel what is in flight, close the connections, and leave the model as it was."""
        self.cancel()
        internals.unroute(self._lm)
        if self._session is not None:
            self._session = None
            self._finalizer()

    def read(self, call: ServerCall, answer: Any) -> list[Any]:
        """One response for each request of a call.

        Raises
        ------
        ServerError
            The answer does not have the form that the model reads.
        """
        trouble = ""
        try:
            read = call.read(answer)
            if len(read) < len(call.positions):
                trouble = f"the server answered {len(read)} of {len(call.positions)} prompts"
        except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
            trouble = f"the server's answer does not have the expected form ({error!r})"
        if trouble:
            words = short(json.dumps(answer, ensure_ascii=False), WORDS)
            raise ServerError("answer", f"{trouble}: {words}", words=words)
        return read

    # -- on the loop -----------------------------------------------------------------------

    async def _all(self, calls: Sequence[ServerCall], flags: Sequence[Any]) -> list[Any]:
        if self._session is None:
            self._open()
        if len(calls) == 1:
            return [await self._one(calls[0].payload, flags[0])]
        tasks = [asyncio.ensure_future(self._one(c.payload, flag)) for c, flag in zip(calls, flags)]
        try:
            return list(await asyncio.gather(*tasks))
        except ServerError as error:
            done = [t for t in tasks if t.done() and not t.cancelled() and t.exception() is None]
            error.served = tuple(task.result()[1] for task in done)
            raise
        finally:
            for task in tasks:  # one that failed leaves the others no one to wait for them
                task.cancel()

    def _open(self) -> None:
        import aiohttp

        async def note(session: Any, context: Any, _: Any) -> None:
            context.trace_request_ctx.sent = True

        trace = aiohttp.TraceConfig()
        trace.on_request_headers_sent.append(note)
        verify, file = internals.certificates(self._lm)
        trust: Any = verify
        if verify and file:
            trust = ssl.create_default_context(cafile=file)
        connector = aiohttp.TCPConnector(limit=0, ssl=trust, ttl_dns_cache=300)
        self._session = aiohttp.ClientSession(connector=connector, trace_configs=[trace])
        self._finalizer = weakref.finalize(self, _close, self._session)
        self._slots = asyncio.Semaphore(self._limit)
        self._proxy = _proxy_of(self._url)

    async def _one(self, payload: Mapping[str, Any], flag: Any) -> tuple[Any, Served]:
        import aiohttp

        assert self._slots is not None
        limit = internals.time_limit(self._lm)
        try:
            url, headers = _authorized(*internals.address(self._lm))
            data = json.dumps(payload).encode()
        except (ValueError, TypeError) as error:
            raise ServerError(
                "request", f"the request cannot be sent: {_said(error)}", sent=False
            ) from error
        headers = {"Content-Type": "application/json", **headers}
        kind, message = "connection", ""
        async with self._slots:
            try:
                status, answer_headers, body = await self._post(url, data, headers, limit, flag)
            except ServerError:
                raise
            except asyncio.TimeoutError:
                kind, message = "timeout", f"no answer within {limit:g} s"
            except (aiohttp.InvalidURL, aiohttp.NonHttpUrlClientError) as error:
                kind, message = "request", f"the request cannot be sent: {_said(error)}"
            except (aiohttp.ClientError, OSError, ValueError) as error:
                message = f"the connection failed: {_said(error)}"
        # Not from the error: aiohttp gives one that is no HTTP at all a status of its own.
        if message:
            raise ServerError(kind, message, sent=flag.sent)
        answer = _checked(status, answer_headers, body)
        return answer, Served.of(answer, answer_headers, payload)

    async def _post(
        self, url: str, data: bytes, headers: Mapping[str, str], limit: float, flag: Any
    ) -> tuple[int, dict[str, str], bytes]:
        """(status, headers, body) of an answer; passed on only within the server's own origin."""
        import aiohttp

        for _ in range(_REDIRECTS + 1):
            async with self._session.post(
                url,
                data=data,
                headers=headers,
                proxy=self._proxy,
                timeout=aiohttp.ClientTimeout(total=limit),
                allow_redirects=False,
                trace_request_ctx=flag,
            ) as response:
                status, answer_headers = response.status, dict(response.headers)
                location = response.headers.get("Location")
                body = bytearray()
                async for piece in response.content.iter_any():
                    body += piece
                    if len(body) > LARGEST_BODY:
                        raise ServerError(
                            "answer", f"the answer is larger than {LARGEST_BODY >> 20} MiB"
                        )
            if not 300 <= status < 400 or not location:
                break
            target = urljoin(url, location)
            # Others of these would be asked again by GET, without the question.
            if status not in (307, 308) or _origin(target) != _origin(url):
                to = urlsplit(target)
                place = to._replace(netloc=to.netloc.rpartition("@")[2], query="", fragment="")
                raise ServerError(
                    "request",
                    f"the server passes requests on to {place.geturl()}; neither prompts nor key "
                    "are sent there (if it is meant, name it as base_url)",
                )
            url = target
        return status, answer_headers, bytes(body)


def pooled(lm: Any) -> bool:
    """Whether a model's requests can go through a `Transport`."""
    return internals.talks_to_a_server(lm)


def _checked(status: int, headers: Mapping[str, str], body: bytes) -> Any:
    """The JSON of an answer, unless it is an error in one form or another."""
    try:
        answer = json.loads(body)
    except ValueError:
        answer = None
    error = answer.get("error") if isinstance(answer, dict) else None
    named = [error.get(k) for k in ("code", "type")] if isinstance(error, dict) else []
    final = [name for name in named if name in _FINAL]
    code = str((final or [name for name in named if isinstance(name, str)] or [""])[0])
    if status >= 300:
        words = _words(answer, body)
        raise ServerError(
            "status",
            f"HTTP {status}: {words or 'no words'}",
            status=status,
            words=words,
            headers=headers,
            code=code,
        )
    trouble = ""
    if answer is None:
        trouble = "the server's answer is not JSON"
    elif isinstance(answer, dict) and answer.get("error") and not answer.get("choices"):
        trouble = "the server answered with an error"
    elif isinstance(answer, dict) and answer.get("choices") == []:
        trouble = "the server's answer holds no choices"
    if trouble:
        words = _words(answer, body)
        stated = next((n for n in named if isinstance(n, int) and 400 <= n < 600), None)
        raise ServerError(
            "answer", f"{trouble}: {words}", status=stated, words=words, headers=headers, code=code
        )
    return answer


def _words(answer: Any, body: bytes) -> str:
    """Return a server's error message on one line."""
    words: Any = answer.get("error", answer) if isinstance(answer, dict) else None
    if isinstance(words, dict):
        words = words.get("message") or words.get("detail") or json.dumps(words, ensure_ascii=False)
    return short(str(words) if words else body[: 4 * WORDS].decode(errors="replace"), WORDS)


def _said(error: Exception) -> str:
    return short(str(error), WORDS) or type(error).__name__


def _origin(url: str) -> tuple[str, str | None, int | None]:
    parts = urlsplit(url)
    port = parts.port or {"http": 80, "https": 443}.get(parts.scheme)
    return parts.scheme, parts.hostname, port


def _authorized(url: str, headers: Mapping[str, str]) -> tuple[str, dict[str, str]]:
    """Address and headers, with user and password of the address as the header they stand for.

    They go before a header of the model, which the harness sets whether there is a key or not.

    >>> _authorized("http://me:secret@host/v1", {"Authorization": "Bearer "})
    ('http://host/v1', {'Authorization': 'Basic bWU6c2VjcmV0'})
    """
    if "@" not in url or (parts := urlsplit(url)).username is None:
        return url, dict(headers)
    user, password = unquote(parts.username), unquote(parts.password or "")
    code = base64.b64encode(f"{user}:{password}".encode()).decode()
    kept = {name: value for name, value in headers.items() if name.lower() != "authorization"}
    host = parts.netloc.rpartition("@")[2]
    return parts._replace(netloc=host).geturl(), {**kept, "Authorization": f"Basic {code}"}


def _proxy_of(url: str) -> str | None:
    """The proxy that the environment names for an address."""
    parts = urlsplit(url)
    if not parts.hostname or urllib.request.proxy_bypass(parts.hostname):
        return None
    return urllib.request.getproxies().get(parts.scheme)


def _close(session: Any) -> None:
    """Close a pool of connections, also of a model that nobody closed."""
    if threading.current_thread().name == _THREAD:
        _loop().soon(session.close)
    else:
        with suppress(TooLate):  # its connections are closed when the loop comes to it
            _loop().done(session.close, 5.0)


_THREAD = "ccat-transport"


class _Loop:
    """An event loop in a thread of its own."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.work: deque[Work] = deque()
        self.woken = False
        self.running: set[asyncio.Task[Any]] = set()  # the loop itself keeps none alive
        threading.Thread(target=self.loop.run_forever, name=_THREAD, daemon=True).start()

    def soon(self, work: Work) -> None:
        """Run a coroutine, from any thread; the loop is woken up once for all that came."""
        self.work.append(work)
        if self.woken:
            return
        try:
            self.woken = True
            self.loop.call_soon_threadsafe(self._begin)
        except BaseException:  # Ctrl-C: whoever comes next wakes it
            self.woken = False
            raise

    def _begin(self) -> None:
        self.woken = False
        while self.work:
            task = self.loop.create_task(self.work.popleft()())
            self.running.add(task)
            task.add_done_callback(self.running.discard)

    def done(self, work: Work, timeout: float | None = None) -> Any:
        """Run a coroutine and wait for what it returns."""
        future: Future[Any] = Future()

        async def run() -> None:
            try:
                future.set_result(await work())
            except BaseException as error:
                future.set_exception(error)

        self.soon(run)
        return future.result(timeout)


_LOOPS: dict[int, _Loop] = {}
_STARTING = threading.Lock()


def _loop() -> _Loop:
    """The event loop of this process (a fork has none yet)."""
    with _STARTING:
        if (loop := _LOOPS.get(os.getpid())) is None:
            loop = _LOOPS[os.getpid()] = _Loop()
    return loop

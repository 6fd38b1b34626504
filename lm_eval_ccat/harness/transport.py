"""Requests to models behind servers: one event loop, and for each model one pool of connections.

A connection (and its TLS handshake) is made once and used again, requests of several threads share
it, and all that is in flight can be cancelled at once. Nothing is repeated here: whoever asks
decides, and learns from `ServerError` what the server said.
"""

from __future__ import annotations

import asyncio
import base64
import json
import os
import ssl
import threading
import urllib.request
from collections.abc import Coroutine, Mapping, Sequence
from concurrent.futures import CancelledError, Future
from datetime import datetime, timezone
from email.utils import parsedate_to_datetime
from typing import Any, TypeVar
from urllib.parse import unquote, urlsplit

from . import internals
from .internals.api import ServerCall

T = TypeVar("T")

#: Characters of a server's own words that are kept.
WORDS = 500


class ServerError(ConnectionError):
    """A request that brought no usable answer.

    Attributes
    ----------
    kind : str
        ``"status"`` (refused by an HTTP status), ``"answer"`` (an answer that says it is an error,
        or cannot be read), ``"request"`` (it could not even be sent: a wrong address, say),
        ``"timeout"``, ``"connection"`` or ``"cancelled"``.
    status : int or None
        The HTTP status; also where the answer names one.
    words : str
        What the server said, on one line.
    headers : mapping
        The answer's headers.
    """

    def __init__(
        self,
        kind: str,
        message: str,
        *,
        status: int | None = None,
        words: str = "",
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.kind = kind
        self.status = status
        self.words = words
        self.headers: Mapping[str, str] = headers or {}

    @property
    def retry_after(self) -> float | None:
        """Seconds that the server asks to wait, from either form of ``Retry-After``."""
        return seconds_to_wait(self.headers.get("Retry-After"))


def seconds_to_wait(header: str | None) -> float | None:
    """Seconds from now that a ``Retry-After`` header asks for: a number, or a date.

    >>> seconds_to_wait("120")
    120.0
    >>> seconds_to_wait("soon") is None
    True
    """
    if header is None:
        return None
    try:
        return max(0.0, float(header))
    except ValueError:
        pass
    try:
        then = parsedate_to_datetime(header)
    except ValueError:
        return None
    if then.tzinfo is None:
        then = then.replace(tzinfo=timezone.utc)
    return max(0.0, (then - datetime.now(timezone.utc)).total_seconds())


class Transport:
    """A model's requests through the common loop and a pool of its own.

    From its making on, the model's ``generate_until`` and ``loglikelihood`` go through it, so
    whatever calls them (a session, the response cache) need not know; they may be called from
    several threads at the same time.

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
        self._lock = threading.Lock()
        self._waiting: set[Future[Any]] = set()
        self._session: Any = None
        self._slots: asyncio.Semaphore | None = None
        self._cancelled = False
        internals.route(lm, self.ask)

    def submit(self, calls: Sequence[ServerCall]) -> Future[list[Any]]:
        """Send some requests; a future of the JSON of their answers, in order.

        Raises
        ------
        ServerError
            The transport was cancelled. The future raises the first error of the requests.
        """
        if self._cancelled:
            raise ServerError("cancelled", "the run has ended; no more requests are sent")
        future = _on_the_loop(self._all(calls))
        with self._lock:
            self._waiting.add(future)
        future.add_done_callback(self._forget)
        if self._cancelled:  # between the question above and now
            future.cancel()
        return future

    def ask(self, calls: Sequence[ServerCall], n: int) -> list[Any]:
        """Send requests, wait, and read their answers: `n` responses by position.

        Raises
        ------
        ServerError
            With the server's own words.
        """
        try:
            answers = self.submit(calls).result()
        except CancelledError:
            raise ServerError("cancelled", "the request was cancelled") from None
        responses: list[Any] = [None] * n
        for call, answer in zip(calls, answers):
            for position, response in zip(call.positions, self._read(call, answer)):
                responses[position] = response
        return responses

    def cancel(self) -> None:
        """Abandon every request in flight, at once, and refuse further ones."""
        with self._lock:
            self._cancelled = True
            waiting = list(self._waiting)
        for future in waiting:
            future.cancel()

    def resume(self) -> None:
        """Take requests again after `cancel`."""
        self._cancelled = False

    def close(self) -> None:
        """Cancel what is in flight, close the connections, and leave the model as it was."""
        self.cancel()
        internals.unroute(self._lm)
        session, self._session = self._session, None
        if session is not None:
            _on_the_loop(session.close()).result()

    def _forget(self, future: Future[Any]) -> None:
        with self._lock:
            self._waiting.discard(future)

    def _read(self, call: ServerCall, answer: Any) -> list[Any]:
        try:
            read = call.read(answer)
        except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
            words = _one_line(json.dumps(answer, ensure_ascii=False))
            raise ServerError(
                "answer",
                f"the server's answer does not have the expected form ({error!r}): {words}",
                words=words,
            ) from error
        if len(read) < len(call.positions):
            words = _one_line(json.dumps(answer, ensure_ascii=False))
            raise ServerError(
                "answer",
                f"the server answered {len(read)} of {len(call.positions)} prompts: {words}",
                words=words,
            )
        return read

    # -- on the loop -----------------------------------------------------------------------

    async def _all(self, calls: Sequence[ServerCall]) -> list[Any]:
        if self._session is None:
            self._open()
        if len(calls) == 1:
            return [await self._one(calls[0].payload)]
        tasks = [asyncio.ensure_future(self._one(call.payload)) for call in calls]
        try:
            return list(await asyncio.gather(*tasks))
        finally:
            for task in tasks:  # one that failed leaves the others no one to wait for them
                task.cancel()

    def _open(self) -> None:
        import aiohttp

        verify, file = internals.certificates(self._lm)
        trust: Any = verify
        if verify and file:
            trust = ssl.create_default_context(cafile=file)
        connector = aiohttp.TCPConnector(limit=0, ssl=trust, ttl_dns_cache=300)
        self._session = aiohttp.ClientSession(connector=connector)
        self._slots = asyncio.Semaphore(self._limit)
        self._proxy = _proxy_of(self._url)

    async def _one(self, payload: Mapping[str, Any]) -> Any:
        import aiohttp

        assert self._slots is not None
        url, headers = _authorized(*internals.address(self._lm))
        limit = internals.time_limit(self._lm)
        async with self._slots:
            try:
                async with self._session.post(
                    url,
                    json=payload,
                    headers=headers,
                    proxy=self._proxy,
                    timeout=aiohttp.ClientTimeout(total=limit),
                ) as response:
                    body = await response.read()
                    status, said = response.status, response.headers
            except asyncio.TimeoutError as error:
                raise ServerError("timeout", f"no answer within {limit:g} s") from error
            except ValueError as error:  # of what was to be sent; no repetition mends it
                text = _one_line(str(error)) or type(error).__name__
                raise ServerError("request", f"the request cannot be sent: {text}") from error
            except (aiohttp.ClientError, OSError) as error:
                text = _one_line(str(error)) or type(error).__name__
                raise ServerError("connection", f"the connection failed: {text}") from error
        return _checked(status, said, body)


def pooled(lm: Any) -> bool:
    """Whether a model's requests can go through a `Transport`."""
    return internals.talks_to_a_server(lm)


def _checked(status: int, headers: Mapping[str, str], body: bytes) -> Any:
    """The JSON of an answer, unless it is an error in one form or another."""
    try:
        answer = json.loads(body)
    except ValueError:
        answer = None
    words = _words(answer, body)
    if status >= 400:
        raise ServerError(
            "status",
            f"HTTP {status}: {words or 'no words'}",
            status=status,
            words=words,
            headers=headers,
        )
    trouble = ""
    if answer is None:
        trouble = "the server's answer is not JSON"
    elif isinstance(answer, dict) and answer.get("error") and not answer.get("choices"):
        trouble = "the server answered with an error"
    elif isinstance(answer, dict) and answer.get("choices") == []:
        trouble = "the server's answer holds no choices"
    if trouble:
        code = answer["error"].get("code") if _has_error(answer) else None
        raise ServerError(
            "answer",
            f"{trouble}: {words}",
            status=code if isinstance(code, int) and 400 <= code < 600 else None,
            words=words,
            headers=headers,
        )
    return answer


def _has_error(answer: Any) -> bool:
    return isinstance(answer, dict) and isinstance(answer.get("error"), dict)


def _words(answer: Any, body: bytes) -> str:
    """What a server says of an error, on one line."""
    said: Any = answer.get("error", answer) if isinstance(answer, dict) else None
    if isinstance(said, dict):
        said = said.get("message") or said.get("detail") or json.dumps(said, ensure_ascii=False)
    return _one_line(str(said) if said else body[: 4 * WORDS].decode(errors="replace"))


def _one_line(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= WORDS else line[: WORDS - 3] + "..."


def _authorized(url: str, headers: Mapping[str, str]) -> tuple[str, dict[str, str]]:
    """Address and headers, with user and password of the address as the header they stand for.

    They go before a header of the model, which the harness sets whether there is a key or not.

    >>> _authorized("http://me:secret@host/v1", {"Authorization": "Bearer "})
    ('http://host/v1', {'Authorization': 'Basic bWU6c2VjcmV0'})
    """
    parts = urlsplit(url)
    if parts.username is None:
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


_LOOPS: dict[int, asyncio.AbstractEventLoop] = {}
_STARTING = threading.Lock()


def _loop() -> asyncio.AbstractEventLoop:
    """The event loop of this process (a fork has none yet), in a thread of its own."""
    with _STARTING:
        if os.getpid() not in _LOOPS:
            loop = _LOOPS[os.getpid()] = asyncio.new_event_loop()
            threading.Thread(target=loop.run_forever, name="ccat-transport", daemon=True).start()
        return _LOOPS[os.getpid()]


def _on_the_loop(work: Coroutine[Any, Any, T]) -> Future[T]:
    return asyncio.run_coroutine_threadsafe(work, _loop())

"""What a failed request means: try again, give the document up, or set the model aside."""

from __future__ import annotations

import enum
import json
from collections.abc import Iterator
from typing import Any

from ..errors import CcatError
from ..harness.transport import ServerError, seconds_to_wait
from ..money import ASSUMED, UNKNOWN
from .entries import FailureRule

#: Answers that no repetition mends, because they are about the model: wrong key, no right, no such
#: model or address.
MODEL_STATUSES = frozenset({401, 402, 403, 404})
#: Answers about this one document: malformed, too long, unprocessable, refused.
DOCUMENT_STATUSES = frozenset({400, 413, 422, 451})
#: Answers of a server that is not there for anybody at the moment.
AWAY_STATUSES = frozenset({429, 502, 503, 504, 529})

#: Packages whose exceptions are about the connection.
_CLIENTS = frozenset({"aiohttp", "requests", "urllib3", "httpx", "httpcore", "openai", "anthropic"})


class ModelGone(ConnectionError):
    """A model that cannot be asked again in this session, however long one waits."""


class Verdict(enum.Enum):
    """What to do after a failed attempt."""

    RETRY = "retry"
    AWAY = "away"
    DOCUMENT = "document"
    MODEL = "model"
    CANCELLED = "cancelled"


def _chain(error: BaseException) -> Iterator[BaseException]:
    seen: set[int] = set()
    current: BaseException | None = error
    while current is not None and id(current) not in seen:
        seen.add(id(current))
        yield current
        current = current.__cause__ or current.__context__


def http_status(error: BaseException) -> int | None:
    """The HTTP status behind an exception of aiohttp, requests, httpx or a vendor's client."""
    if isinstance(error, ServerError):
        return error.status
    for link in _chain(error):
        response = getattr(link, "response", None)
        for holder in (link, response):
            for name in ("status_code", "status"):
                value = getattr(holder, name, None)
                if isinstance(value, int) and 100 <= value < 600:
                    return value
    return None


def retry_after(error: BaseException) -> float | None:
    """Seconds that the server asked to wait, from a ``Retry-After`` header in either form."""
    if isinstance(error, ServerError):
        return error.retry_after
    for link in _chain(error):
        for holder in (link, getattr(link, "response", None)):
            headers: Any = getattr(holder, "headers", None)
            value = headers.get("Retry-After") if hasattr(headers, "get") else None
            if value is not None:
                return seconds_to_wait(str(value))
    return None


def judge(error: BaseException) -> Verdict:
    """Decide by the kind of the error alone.

    No connection, 429 and 503 are about the server at this moment; time-outs, 500 and unreadable
    answers are worth another attempt.  Errors that we raise ourselves (a metric without a usable
    value, say) are about the document.
    """
    if isinstance(error, ServerError) and error.kind == "cancelled":
        return Verdict.CANCELLED
    status = http_status(error)
    impossible = isinstance(error, ServerError) and (error.kind == "request" or error.final)
    if status in MODEL_STATUSES or impossible or isinstance(error, ModelGone):
        return Verdict.MODEL
    if status in DOCUMENT_STATUSES or isinstance(error, CcatError):
        return Verdict.DOCUMENT
    if status in AWAY_STATUSES or (status is None and _no_connection(error)):
        return Verdict.AWAY
    return Verdict.RETRY


def column_of(error: BaseException) -> str | None:
    """Who may bill a failed attempt: assumed, unknown, or (None) nobody.

    A request that was refused, or never left, costs nothing. An error of the server after it had
    the request is assumed to be billed, and so is an answer that cannot be read or scored. Of a
    connection that broke, or was given up, nobody knows.
    """
    status = http_status(error)
    if isinstance(error, ServerError):
        if not error.sent or error.kind == "request":
            return None
        if error.kind in ("timeout", "connection", "cancelled"):
            return UNKNOWN
        if error.kind == "answer":
            return None if status is not None and status != 500 else ASSUMED
    if status is not None:
        return UNKNOWN if status in (502, 504) else ASSUMED if status == 500 else None
    return UNKNOWN if is_on_the_way(error) else ASSUMED


def kind_of(error: BaseException) -> str:
    """Return what became of an attempt, in a word or two, for counting.

    >>> kind_of(ServerError("timeout", "no answer within 5 s"))
    'timeout'
    """
    status = http_status(error)
    if status is not None:
        return f"HTTP {status}"
    return error.kind if isinstance(error, ServerError) else type(error).__name__


def _no_connection(error: BaseException) -> bool:
    if isinstance(error, ServerError):
        return error.kind == "connection"
    return any(
        isinstance(link, ConnectionError) or "Connect" in type(link).__name__
        for link in _chain(error)
    )


def attempts_for(rule: FailureRule, error: BaseException) -> int:
    """How often a document may be tried that fails with this error.

    Trouble on the way to the model passes, so it gets every attempt of the rule.  An error of the
    code that reads or scores the answer will most likely come again, and each attempt is paid for:
    it gets one more.
    """
    return rule.attempts if is_on_the_way(error) else min(rule.attempts, 2)


def is_on_the_way(error: BaseException) -> bool:
    """Whether an error arose on the way to the model, not in the code that reads its answer."""
    if http_status(error) is not None:
        return True
    return any(
        isinstance(link, OSError | TimeoutError | json.JSONDecodeError)
        or type(link).__module__.partition(".")[0] in _CLIENTS
        for link in _chain(error)
    )


def pause(rule: FailureRule, attempt: int, error: BaseException) -> float:
    """Seconds to wait after failed attempt number ``attempt`` (from 1)."""
    backoff = rule.backoff * 2.0 ** (attempt - 1)
    return max(min(backoff, rule.max_backoff), retry_after(error) or 0.0)


def describe(error: BaseException) -> str:
    """One line about an error, with its HTTP status when there is one, at most 300 characters."""
    if isinstance(error, ServerError):  # it says all of that, in the server's own words
        return str(error)[:300]
    status = http_status(error)
    prefix = f"HTTP {status}, " if status is not None else ""
    text = " ".join(str(error).split())
    return (
        f"{prefix}{type(error).__name__}: {text}"[:300] if text else prefix + type(error).__name__
    )

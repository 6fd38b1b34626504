"""What a failed request means: try again, give the document up, or set the model aside."""

from __future__ import annotations

import enum
import json
from collections.abc import Iterator, Sequence
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


class Remedy(enum.Enum):
    """What to do after a failed attempt."""

    RETRY = "retry"
    AWAY = "away"
    DOCUMENT = "document"
    MODEL = "model"
    CANCELLED = "cancelled"


class Failure:
    """A failed attempt, as its error tells of it.

    Attributes
    ----------
    remedy : Remedy
        By the kind of the error alone. No connection, 429 and 503 are about the server at this
        moment; time-outs, 500 and unreadable answers are worth another attempt. Errors that we
        raise ourselves (a metric without a usable value, say) are about the document.
    status : int or None
        The HTTP status behind an exception of aiohttp, requests, httpx or a vendor's client.
    wait : float or None
        Seconds that the server asks to wait, by a ``Retry-After`` header in either form.
    on_the_way : bool
        Whether it arose on the way to the model, not in the code that reads its answer.
    column : str or None
        Who may bill it: assumed, unknown, or (None) nobody. A request that was refused, or never
        left, costs nothing. An error of the server after it had the request is assumed to be
        billed, and so is an answer that cannot be read or scored. Of a connection that broke, or
        was given up, nobody knows.
    kind : str
        What became of it, in a word or two, for counting.
    text : str
        One line, with the HTTP status where there is one, of at most 300 characters.

    Examples
    --------
    >>> failure = Failure(ServerError("timeout", "no answer within 5 s"))
    >>> failure.remedy.value, failure.column, failure.kind
    ('retry', 'unknown', 'timeout')
    """

    def __init__(self, error: BaseException) -> None:
        server = error if isinstance(error, ServerError) else None
        links = list(_chain(error))
        if server is not None:
            self.status, self.wait = server.status, server.retry_after
            lost = server.kind == "connection"
        else:
            self.status, self.wait = _of_http(links)
            lost = any(
                isinstance(link, ConnectionError) or "Connect" in type(link).__name__
                for link in links
            )
        status = self.status
        self.on_the_way = status is not None or any(
            isinstance(link, OSError | TimeoutError | json.JSONDecodeError)
            or type(link).__module__.partition(".")[0] in _CLIENTS
            for link in links
        )
        kind = "" if server is None else server.kind
        final = server is not None and (kind == "request" or server.final)
        if kind == "cancelled":
            self.remedy = Remedy.CANCELLED
        elif status in MODEL_STATUSES or final or isinstance(error, ModelGone):
            self.remedy = Remedy.MODEL
        elif status in DOCUMENT_STATUSES or isinstance(error, CcatError):
            self.remedy = Remedy.DOCUMENT
        elif status in AWAY_STATUSES or (status is None and lost):
            self.remedy = Remedy.AWAY
        else:
            self.remedy = Remedy.RETRY
        if server is not None and (not server.sent or kind == "request"):
            self.column = None
        elif kind in ("timeout", "connection", "cancelled"):
            self.column = UNKNOWN
        elif status is None:
            self.column = UNKNOWN if self.on_the_way and not kind else ASSUMED
        elif status in (502, 504) and kind != "answer":
            self.column = UNKNOWN
        else:
            self.column = ASSUMED if status == 500 else None
        name = type(error).__name__
        self.kind = f"HTTP {status}" if status is not None else kind or name
        text = " ".join(str(error).split())
        prefix = "" if status is None else f"HTTP {status}, "
        self.text = (f"{prefix}{name}: {text}" if text else prefix + name)[:300]
        if server is not None:  # it says all of that, in the server's own words
            self.text = str(error)[:300]

    def attempts(self, rule: FailureRule) -> int:
        """How often a document may be tried that fails so.

        Trouble on the way to the model passes, so it gets every attempt of the rule. An error of
        the code that reads or scores the answer will most likely come again, and each attempt is
        paid for: it gets one more.
        """
        return rule.attempts if self.on_the_way else min(rule.attempts, 2)

    def pause(self, rule: FailureRule, attempt: int) -> float:
        """Seconds to wait after failed attempt number `attempt` (from 1)."""
        backoff = rule.backoff * 2.0 ** (attempt - 1)
        return max(min(backoff, rule.max_backoff), self.wait or 0.0)


def _chain(error: BaseException) -> Iterator[BaseException]:
    seen: set[int] = set()
    current: BaseException | None = error
    while current is not None and id(current) not in seen:
        seen.add(id(current))
        yield current
        current = current.__cause__ or current.__context__


def _of_http(links: Sequence[BaseException]) -> tuple[int | None, float | None]:
    """(status, seconds asked to wait) of the first errors that know them."""
    status, wait = None, None
    for holder in (one for link in links for one in (link, getattr(link, "response", None))):
        for value in (getattr(holder, "status_code", None), getattr(holder, "status", None)):
            if status is None and isinstance(value, int) and 100 <= value < 600:
                status = value
        headers: Any = getattr(holder, "headers", None)
        asked = headers.get("Retry-After") if hasattr(headers, "get") else None
        if wait is None and asked is not None:
            wait = seconds_to_wait(str(asked))
    return status, wait

"""What a failed request means for its document and its model, and when a server is asked again.

Servers restart, and limit rates. While a model is away nobody asks it; after a pause one request
probes, and its answer opens the model again for all. Only an outage longer than the limit closes
the model. Times are in seconds of any clock, which the caller reads.
"""

from __future__ import annotations

import enum
import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from ..errors import CcatError
from ..harness.transport import ServerError, seconds_to_wait
from ..money import ASSUMED, UNKNOWN
from .spec import FailureRule

#: Answers that no repetition mends, because they are about the model: wrong key, no right, no such
#: model or address.
MODEL_STATUSES = frozenset({401, 402, 403, 404})
#: Answers about this one document: malformed, too long, unprocessable, refused.
DOCUMENT_STATUSES = frozenset({400, 413, 422, 451})
#: Answers of a server that is not there for anybody at the moment.
AWAY_STATUSES = frozenset({429, 502, 503, 504, 529})

#: Packages whose exceptions are about the connection.
_CLIENTS = frozenset({"aiohttp", "requests", "urllib3", "httpx", "httpcore", "openai", "anthropic"})

#: The rate after a refusal, as a part of that before; while the limit is not known yet.
BELOW, SEARCH = 0.95, 0.6
#: Answers in which the rate is back where it was refused. It grows twice as fast after every so
#: many answers without a refusal, for a limit that was raised or measured too low.
STEADY, PATIENCE, FASTEST = 65.0, 100, 0.05
#: Answers until the next refusal, for each that the pause after one costs.
WORTH = 10.0
#: Most requests that are saved up in a pause.
BURST = 32.0
#: Longest pause that the server did not ask for, in seconds.
LONGEST = 60.0
#: Answers between two refusals that measure a limit.
ENOUGH = 4
#: Requests at once at the start.
FIRST = 2


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


class State(enum.Enum):
    """Whether one model can be asked."""

    OPEN = "open"
    WAITING = "waiting"
    PROBING = "probing"
    CLOSED = "closed"


@dataclass
class Availability:
    """One model's state.

    Parameters
    ----------
    limit : float
        Longest outage in seconds.
    backoff, max_backoff : float
        Seconds before the first probe; twice as long before each further one, up to the maximum.

    Attributes
    ----------
    state : State
    reason : str
        What the last failure was, and where the limit cut a longer ``Retry-After``, that it did.

    Examples
    --------
    >>> model = Availability(limit=60, backoff=1, max_backoff=30)
    >>> model.failed(now=10, sent=9, reason="HTTP 503")
    >>> model.may_ask(10.5), model.may_ask(11), model.may_ask(11)   # one request probes
    (False, True, False)
    >>> model.succeeded(now=12, sent=11)
    >>> model.state.value
    'open'
    """

    limit: float
    backoff: float = 1.0
    max_backoff: float = 30.0
    state: State = State.OPEN
    reason: str = ""
    _since: float = 0.0
    _until: float = 0.0
    _opened: float = float("-inf")
    _probes: int = 0

    def may_ask(self, now: float) -> bool:
        """Whether a request may go out now; a yes while waiting makes it the probe."""
        if self.state is State.WAITING and now >= self._until:
            self.state = State.PROBING
            return True
        return self.state is State.OPEN

    def not_known_yet(self) -> None:
        """Have a single request find out whether the model is there before any other goes out."""
        self.state, self._until, self._probes = State.WAITING, float("-inf"), 0

    def wait(self, now: float) -> float:
        """Seconds until the next probe is due; 0 where none is awaited."""
        return max(0.0, self._until - now) if self.state is State.WAITING else 0.0

    @property
    def first_failure(self) -> bool:
        """Whether the outage has just begun."""
        return self._probes == 1

    def outage(self, now: float) -> float:
        """Seconds that the present outage has lasted; 0 while there is none."""
        return 0.0 if self.state is State.OPEN or not self._probes else max(0.0, now - self._since)

    def succeeded(self, now: float, sent: float) -> None:
        """An answer came to a request sent at `sent`.

        An answer to a request from before the outage opens nothing: it says nothing of now.
        """
        if self.state is State.PROBING and sent >= self._until:
            self.state, self._opened, self._probes = State.OPEN, now, 0

    def failed(
        self, now: float, sent: float, reason: str, retry_after: float | None = None
    ) -> None:
        """A request sent at `sent` found the model away.

        Failures of requests that were under way when the outage was noticed are the same event.

        Parameters
        ----------
        now, sent : float
        reason : str
        retry_after : float, optional
            Seconds that the server asked to wait.
        """
        if self.state is State.CLOSED or sent < self._opened:
            return
        same_event = self.state is State.WAITING and self._probes > 0
        if same_event and retry_after is None:
            return
        if self.state is State.OPEN or not self._probes:
            self._since, self._probes = now, 0
        end = self._since + self.limit
        self.reason = reason
        if self.state is State.PROBING and now >= end:
            self.state = State.CLOSED
            return
        pause = min(self.backoff * 2.0**self._probes, self.max_backoff)
        until = now + max(pause, retry_after or 0.0)
        if until > end:
            if retry_after is not None and now + retry_after > end:
                self.reason += (
                    f"; it asked for {retry_after:.0f} s of waiting, longer than the outage limit "
                    f"of {self.limit:.0f} s, which wins"
                )
            until = max(end, now)
        self._until = max(until, self._until) if same_event else until
        if not same_event:
            self._probes += 1
        self.state = State.WAITING

    def give_up_probe(self, now: float) -> None:
        """The probing request failed for a reason of its own: let another one probe."""
        if self.state is State.PROBING:
            self.state, self._until = State.WAITING, now


class Pace:
    """When the next request may go out to a server that may limit their rate.

    A run starts with two requests at once and one more for each answer. Nothing else is limited
    until the server refuses a request for its rate; from then on requests are spaced. Between
    two refusals a server takes what its limit lets through and no more, so the answers between
    them measure the limit. At each refusal the rate falls by a twentieth, and is back after 65
    answers (multiplicative decrease, additive increase). During a pause that the server asks
    for, what could have gone out is saved up, as a server with a bucket of tokens saves it up.

    Examples
    --------
    >>> pace = Pace()
    >>> pace.wait(now=0.0, in_flight=0)
    0.0
    >>> pace.sent(0.0)
    >>> pace.refused(0.5, sent=0.0, pause=2.0)
    >>> pace.wait(now=1.0, in_flight=0)
    1.5
    """

    def __init__(self) -> None:
        self.rate = math.inf
        self._at_once = FIRST
        self._began: float | None = None
        self._refusal: float | None = None
        self._accepted = 0
        self._growth = FASTEST
        self._settled = False  # whether the limit was measured
        self._in_vain = 0  # refusals in a row without an answer between them
        self._paused = 0.0  # seconds since the last refusal in which the server took nothing
        self._next = -math.inf
        self._pause = -math.inf
        self._burst, self._most = 1.0, BURST

    def wait(self, now: float, in_flight: int) -> float:
        """Seconds until a request may go out, 0 if one may go now; infinite: after an answer."""
        if in_flight >= self._at_once:
            return math.inf
        return max(0.0, self._pause - now, self._next - now)

    def sent(self, now: float) -> None:
        """A request has gone out."""
        if self._began is None:
            self._began = now
        if math.isfinite(self.rate):
            # What was not used is saved up, but not more than the burst.
            saved = now - (self._burst - 1.0) / self.rate
            self._next = max(self._next, saved) + 1.0 / self.rate

    def answered(self) -> None:
        """A request was answered."""
        self._accepted += 1
        self._at_once += 1
        if math.isfinite(self.rate):
            self.rate *= 1.0 + self._growth
            if self._accepted % PATIENCE == 0:
                self._growth = min(2.0 * self._growth, FASTEST)

    def refused(self, now: float, sent: float, pause: float | None = None) -> None:
        """A request sent at `sent` was refused for its rate.

        Refusals of requests that were under way at the last one are the same event.
        """
        since = self._began if self._refusal is None else self._refusal
        if self._refusal is None or sent >= self._refusal:
            seconds = max(now - (now if since is None else since), 0.05)
            # A pause, and what is saved up in it, say nothing of the rate.
            measured = max(self._accepted, 1) / max(seconds - self._paused, 0.25 * seconds)
            in_vain = self._refusal is not None and not self._accepted
            self._in_vain = self._in_vain + 1 if in_vain else 0
            if self._refusal is None:
                self.rate = measured
            elif self._in_vain > 1:
                pass  # a limit by the minute, say: not slower, but later
            elif 2.0 < self._burst >= self._accepted:
                self._most = max(1.0, 0.8 * self._accepted)  # more was saved up than is taken
            elif self._accepted >= ENOUGH:
                self.rate = min(BELOW * self.rate, measured)
            else:
                self.rate *= BELOW if self._settled else SEARCH
            self._settled = self._refusal is not None and self._accepted >= ENOUGH
            self._refusal, self._accepted, self._paused = now, 0, pause or 0.0
            lost = self.rate * (pause or 0.0)
            self._growth = -math.log(BELOW) / max(WORTH * lost, STEADY)
            self._burst = max(1.0, min(lost, self._most)) if self._settled else 1.0
        if pause is None:
            pause = min(2.0**self._in_vain / self.rate, LONGEST)
        self._pause = max(self._pause, now + pause)
        self._next = max(self._next, now)

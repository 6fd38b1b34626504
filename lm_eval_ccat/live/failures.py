"""Failed requests: what each means for its document and model, and when a server may be asked.

Servers restart; that they limit rates is the matter of `pace`. While a model is unavailable (an
*outage*), the run sends it nothing; after a pause one request *probes*, and an answer to it reopens
the model. Only an outage longer than the limit closes it: the model is set aside, which means that
the run asks it nothing more. Times are in seconds of any clock; the caller reads it.
"""

from __future__ import annotations

import enum
import json
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from ..errors import CcatError
from ..harness.transport import (
    AWAY_STATUSES,
    DOCUMENT_STATUSES,
    FULL_STATUSES,
    MODEL_STATUSES,
    ServerError,
    seconds_to_wait,
)
from ..money import ASSUMED, UNKNOWN
from .spec import FailureRule

#: Packages whose exceptions mean that the request failed on the way to the model.
_CLIENTS = frozenset({"aiohttp", "requests", "urllib3", "httpx", "httpcore", "openai", "anthropic"})

#: Factor on the attempts of a document, if its server refuses it perhaps because it is full.
MORE_ATTEMPTS_WHILE_FULL = 3
#: Longest pause, in seconds, between two requests that ask whether a server is back: a run goes on
#: so soon after its return.
LONGEST_PROBE_PAUSE = 2.0
#: The same where requests time out. Each of them may be billed; an outage of 15 minutes takes about
#: 15 of them.
LONGEST_HUNG_PAUSE = 75.0


class ModelGone(ConnectionError):
    """A model that cannot be asked again in this session, however long the run waits."""


class PlaceLost(ConnectionError):
    """The place of a model is lost, with what it was asked there; it may be opened elsewhere."""


class Remedy(enum.Enum):
    """What to do after a failed attempt.

    Try again; wait until the server is back; give up the document; set the model aside; nothing.
    """

    RETRY = "retry"
    AWAY = "away"
    DOCUMENT = "document"
    MODEL = "model"
    CANCELLED = "cancelled"


@dataclass(frozen=True)
class Signs:
    """What an error shows, by which a failure is classified.

    Attributes
    ----------
    status : int or None
        HTTP status.
    wait : float or None
        Seconds that the server asks to wait.
    kind : str
        Kind of a `ServerError`: "status", "answer" (it states an error, or cannot be read),
        "request" (it cannot be sent), "timeout", "connection" or "cancelled"; "" of other errors.
    address : str
        Its address, if that is wrong.
    ends_model : bool
        Whether nothing that is sent to the model again can be answered.
    sent : bool
        Whether the request left.
    disconnected : bool
        Whether there was no connection, or it broke.
    timed_out : bool
        Whether no answer came in time.
    on_the_way : bool
        Whether the error arose on the way to the model.
    raised_here : bool
        Whether this package raised it, because of the document.
    """

    status: int | None
    wait: float | None
    kind: str
    address: str
    ends_model: bool
    sent: bool
    disconnected: bool
    timed_out: bool
    on_the_way: bool
    raised_here: bool

    @classmethod
    def of(cls, error: BaseException) -> Signs:
        """Read an error and those that caused it."""
        causes = list(_chain(error))
        # A `ServerError` says all this itself; of any other error its type and its causes tell.
        if isinstance(error, ServerError):
            status, wait, kind, address = error.status, error.retry_after, error.kind, error.address
            disconnected, timed_out = kind == "connection", kind == "timeout"
            unsendable = kind == "request"
            ends_model, sent = unsendable or error.final, error.sent and not unsendable
        else:
            (status, wait), kind, address = _status_and_wait(causes), "", ""
            names = [type(cause).__name__ for cause in causes]
            disconnected = any(isinstance(cause, ConnectionError) for cause in causes)
            disconnected = disconnected or any("Connect" in name for name in names)
            timed_out = any("Timeout" in name for name in names)
            ends_model, sent = isinstance(error, ModelGone), True
        on_the_way = status is not None or any(
            isinstance(cause, OSError | TimeoutError | json.JSONDecodeError)
            or type(cause).__module__.partition(".")[0] in _CLIENTS
            for cause in causes
        )
        return cls(
            status=status, wait=wait, kind=kind, address=address, ends_model=ends_model, sent=sent,
            disconnected=disconnected,
            timed_out=timed_out or status == 504,  # the gateway waited for it
            on_the_way=on_the_way, raised_here=isinstance(error, CcatError),
        )  # fmt: skip


#: What to do, by the first case that applies.
REMEDIES: tuple[tuple[Callable[[Signs], bool], Remedy], ...] = (
    (lambda signs: signs.kind == "cancelled", Remedy.CANCELLED),
    (lambda signs: signs.status in MODEL_STATUSES or signs.ends_model, Remedy.MODEL),
    (lambda signs: signs.status in DOCUMENT_STATUSES or signs.raised_here, Remedy.DOCUMENT),
    (lambda signs: signs.status in AWAY_STATUSES, Remedy.AWAY),
    (lambda signs: signs.status is None and signs.disconnected, Remedy.AWAY),
    (lambda signs: True, Remedy.RETRY),
)
#: The column of the money in which the attempt is counted, None if it is not billed, by the first
#: case that applies.
BILLING: tuple[tuple[Callable[[Signs], bool], str | None], ...] = (
    (lambda signs: not signs.sent, None),
    (lambda signs: signs.kind in ("timeout", "connection", "cancelled"), UNKNOWN),
    # An error on the way that no `ServerError` describes: it may have been answered.
    (lambda signs: signs.status is None and signs.on_the_way and not signs.kind, UNKNOWN),
    # An answer that cannot be read or scored.
    (lambda signs: signs.status is None, ASSUMED),
    # A gateway gave up, and the server behind it may have gone on. An answer that states such a
    # status came from the server.
    (lambda signs: signs.status in (502, 504) and signs.kind != "answer", UNKNOWN),
    # The server failed while it worked on the request.
    (lambda signs: signs.status == 500, ASSUMED),
    (lambda signs: True, None),
)


class Failure:
    """A failed attempt to get an answer, classified by its error.

    Attributes
    ----------
    remedy : Remedy
        What to do about such an error, whatever happened before. No connection, 429 and 503 mean
        that the server is away for now; time-outs, 500 and unreadable answers are worth another
        attempt. Errors of this package (such as a metric without a usable value) are about the
        document.
    status : int or None
        The HTTP status behind an exception of aiohttp, requests, httpx or a vendor's client.
    wait : float or None
        Seconds that the server asks to wait, from a ``Retry-After`` header of either form.
    on_the_way : bool
        Whether it arose on the way to the model, not in the code that reads the answer.
    column : str or None
        The column of money to which the attempt belongs: `ASSUMED` to be billed, `UNKNOWN` whether
        it is, or None, as it is not. A request that was refused, or never left, costs nothing. An
        error that the server raised after it received the request counts as billed, and so does an
        answer that cannot be read or scored. If the connection broke or was given up, nobody knows.
    hung : bool
        Whether no answer came in time to a request that may be billed.
    kind : str
        Type of the failure, in a word or two, for counting.
    address : str
        What is wrong with the address, if the server has never answered; see `ServerError`.
    text : str
        One line of at most 300 characters, with the HTTP status if known.

    Examples
    --------
    >>> failure = Failure(ServerError("timeout", "no answer within 5 s"))
    >>> failure.remedy.value, failure.column, failure.kind
    ('retry', 'unknown', 'timeout')
    """

    def __init__(self, error: BaseException) -> None:
        signs = Signs.of(error)
        self.status, self.wait = signs.status, signs.wait
        self.on_the_way, self.address = signs.on_the_way, signs.address
        self.remedy = next(remedy for applies, remedy in REMEDIES if applies(signs))
        self.column = next(column for applies, column in BILLING if applies(signs))
        self.hung = signs.timed_out and self.column is not None
        name = type(error).__name__
        self.kind = f"HTTP {signs.status}" if signs.status is not None else signs.kind or name
        self.text = _one_line(error, signs.status)

    @property
    def may_be_full(self) -> bool:
        """Whether the server may have refused because it had as many requests as it can bear."""
        return self.status in FULL_STATUSES

    @property
    def is_of_item_or_server(self) -> bool:
        """Whether the item or the server is to blame; a rate limit is of neither."""
        return self.remedy in (Remedy.AWAY, Remedy.RETRY) and self.status != 429

    def attempts(self, rule: FailureRule) -> int:
        """Return how often to try a document that fails like this, the first attempt included.

        Trouble on the way to the model passes, so the document gets all attempts of the rule. An
        error in the code that reads or scores the answer will most likely recur, and each attempt
        costs money, so the document gets only one more. A server that may be full refuses whatever
        comes, which costs nothing, so the document gets more attempts than the rule has.
        """
        if self.may_be_full:
            return MORE_ATTEMPTS_WHILE_FULL * rule.attempts
        return rule.attempts if self.on_the_way else min(rule.attempts, 2)

    def pause(self, rule: FailureRule, attempt: int) -> float:
        """Return the seconds to wait after failed attempt number `attempt` (from 1)."""
        return max(doubled(rule.backoff, attempt - 1, rule.max_backoff), self.wait or 0.0)


def _one_line(error: BaseException, status: int | None) -> str:
    """Return at most 300 characters about an error, with the HTTP status if known."""
    if isinstance(error, ServerError):  # its message has the status already
        return str(error)[:300]
    name, text = type(error).__name__, " ".join(str(error).split()) or _asserted(error)
    prefix = "" if status is None else f"HTTP {status}, "
    return (f"{prefix}{name}: {text}" if text else prefix + name)[:300]


def doubled(pause: float, times: int, longest: float) -> float:
    """Return a pause that was doubled so many times, at most the longest.

    >>> doubled(0.5, 3, 30.0), doubled(0.5, 5000, 30.0)
    (4.0, 30.0)
    """
    return min(pause * 2.0 ** min(times, 99), longest)


def _asserted(error: BaseException) -> str:
    """Return the code of a failed assertion, which names the cause where its message does not."""
    frames = traceback.extract_tb(error.__traceback__)
    return str(frames[-1].line) if isinstance(error, AssertionError) and frames else ""


def _chain(error: BaseException) -> Iterator[BaseException]:
    """Yield an error, what it was raised from, and so on; an error that leads back ends it."""
    visited: set[int] = set()
    current: BaseException | None = error
    while current is not None and id(current) not in visited:
        visited.add(id(current))
        yield current
        current = current.__cause__ or current.__context__


def _status_and_wait(causes: Sequence[BaseException]) -> tuple[int | None, float | None]:
    """Return the HTTP status and the requested wait of the first errors that have them."""
    status, wait = None, None
    # Clients keep them on the error, or on the response that it holds.
    for holder in (
        candidate for cause in causes for candidate in (cause, getattr(cause, "response", None))
    ):
        for value in (getattr(holder, "status_code", None), getattr(holder, "status", None)):
            if status is None and isinstance(value, int) and 100 <= value < 600:
                status = value
        headers: Any = getattr(holder, "headers", None)
        asked = headers.get("Retry-After") if hasattr(headers, "get") else None
        if wait is None and asked is not None:
            wait = seconds_to_wait(str(asked))
    return status, wait


class State(enum.Enum):
    """Whether one model can be asked: yes; not before a probe; one probe is out; not any more."""

    OPEN = "open"
    WAITING = "waiting"
    PROBING = "probing"
    CLOSED = "closed"


@dataclass
class Availability:
    """State of one model: open, waiting for a probe, probing or closed.

    Parameters
    ----------
    limit : float
        Longest outage in seconds.
    backoff, max_backoff : float
        Seconds before the first probe; twice as long before each further one, up to the maximum and
        at most `LONGEST_PROBE_PAUSE`. After a probe that hung, four times as long, up to
        `LONGEST_HUNG_PAUSE`.

    Attributes
    ----------
    state : State
    reason : str
        The last failure, and whether the limit cut a longer ``Retry-After`` short.

    Examples
    --------
    >>> model = Availability(limit=60, backoff=1, max_backoff=30)
    >>> model.failed(moment=10, sent=9, reason="HTTP 503")
    >>> model.admit(10.5), model.admit(11), model.admit(11)   # one request probes
    (False, True, False)
    >>> model.succeeded(moment=12, sent=11)
    >>> model.state.value
    'open'
    """

    limit: float
    backoff: float = 1.0
    max_backoff: float = 30.0
    state: State = State.OPEN
    reason: str = ""
    _outage_began: float = 0.0
    _probe_due: float = 0.0
    _outage_ended: float = float("-inf")  # when the last outage ended
    _pauses: int = 0  # pauses of the present outage; 0 before any failure
    _hung_in_a_row: int = 0  # failures that hung, in a row, in the present outage

    def admit(self, moment: float) -> bool:
        """Whether a request may go out; the first that does after a wait is the probe."""
        if self.state is State.WAITING and moment >= self._probe_due:
            self.state = State.PROBING
            return True
        return self.state is State.OPEN

    def require_probe(self) -> None:
        """Let a single request find out whether the model works before any other goes out."""
        self.state, self._probe_due, self._pauses = State.WAITING, float("-inf"), 0

    def wait(self, moment: float) -> float:
        """Return the seconds until the next probe is due; 0 if no probe is due."""
        return max(0.0, self._probe_due - moment) if self.state is State.WAITING else 0.0

    @property
    def first_failure(self) -> bool:
        """Whether the outage has just begun."""
        return self._pauses == 1

    def outage(self, moment: float) -> float:
        """Return the seconds that the present outage has lasted; 0 without an outage."""
        if self.state is State.OPEN or not self._pauses:
            return 0.0
        return max(0.0, moment - self._outage_began)

    def succeeded(self, moment: float, sent: float) -> None:
        """Note a reply to a request sent at `sent`; the reply to a probe ends the outage.

        A reply to a request from before the outage does not: it says nothing about the present.
        """
        if self.state is State.PROBING and sent >= self._probe_due:
            self.state, self._outage_ended, self._pauses = State.OPEN, moment, 0

    def failed(
        self,
        moment: float,
        sent: float,
        reason: str,
        retry_after: float | None = None,
        hung: bool = False,
    ) -> None:
        """Note that a request found the model away: hold requests back until a probe is due.

        The first failure begins an outage, the failure of a probe prolongs it, or closes the model
        if the outage has lasted for the limit. Other requests that were in flight when the outage
        was noticed add nothing to it, unless their failure names a longer pause.

        Parameters
        ----------
        moment, sent : float
            When the request failed, and when it was sent, in seconds of the same clock.
        reason : str
        retry_after : float, optional
            Seconds that the server asked to wait.
        hung : bool
            Whether no answer came in time, so that each probe may be billed.
        """
        # A closed model stays closed; a request sent before the last outage ended belongs to that.
        if self.state is State.CLOSED or sent < self._outage_ended:
            return
        was_in_flight = self.state is State.WAITING and self._pauses > 0
        if was_in_flight and retry_after is None:
            return
        # The first failure of an outage.
        if self.state is State.OPEN or not self._pauses:
            self._outage_began, self._pauses, self._hung_in_a_row = moment, 0, 0
        outage_limit = self._outage_began + self.limit
        self.reason = reason
        # Only a probe shows that the server is still away, so time alone never closes the model.
        if self.state is State.PROBING and moment >= outage_limit:
            self.state = State.CLOSED
            return
        probe_due = moment + max(self._pause_before_probe(hung), retry_after or 0.0)
        if probe_due > outage_limit:
            # The user's limit wins over the server's wish, and the reason has to say so.
            if retry_after is not None and moment + retry_after > outage_limit:
                self.reason += (
                    f"; it asked for {retry_after:.0f} s of waiting, longer than the outage limit "
                    f"of {self.limit:.0f} s, which wins"
                )
            # A last probe at the limit decides.
            probe_due = max(outage_limit, moment)
        # A request that was in flight can delay the next probe, and is none itself.
        if was_in_flight:
            self._probe_due = max(probe_due, self._probe_due)
        else:
            self._probe_due = probe_due
            self._pauses += 1
            self._hung_in_a_row = self._hung_in_a_row + 1 if hung else 0
        self.state = State.WAITING

    def _pause_before_probe(self, hung: bool) -> float:
        """Return the seconds that the backoff asks for before the next probe."""
        # A probe that hangs may be billed, so these become rare sooner.
        if hung:
            return doubled(self.backoff, 2 * self._hung_in_a_row, LONGEST_HUNG_PAUSE)
        return doubled(self.backoff, self._pauses, min(self.max_backoff, LONGEST_PROBE_PAUSE))

    def give_up_probe(self, moment: float) -> None:
        """Let another request probe, as nothing can be sent with which to probe now."""
        if self.state is State.PROBING:
            self.state, self._probe_due = State.WAITING, moment

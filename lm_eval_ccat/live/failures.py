"""Failed requests: what each means for its document and model, and when a server may be asked.

Servers restart and limit rates. While a model is unavailable, the run sends it nothing; after a
pause one request probes, and an answer to it reopens the model. Only an outage longer than the
limit closes it. Times are in seconds of any clock; the caller reads it.
"""

from __future__ import annotations

import enum
import json
import math
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

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
        Kind of a `ServerError`; "" of other errors.
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
#: Whether the attempt is billed, by the first case that applies.
BILLING: tuple[tuple[Callable[[Signs], bool], str | None], ...] = (
    (lambda signs: not signs.sent, None),
    (lambda signs: signs.kind in ("timeout", "connection", "cancelled"), UNKNOWN),
    # An error on the way that no `ServerError` describes: it may have been answered.
    (lambda signs: signs.status is None and signs.on_the_way and not signs.kind, UNKNOWN),
    # An answer that cannot be read or scored.
    (lambda signs: signs.status is None, ASSUMED),
    # A gateway gave up, and the server behind it may have gone on.
    (lambda signs: signs.status in (502, 504) and signs.kind != "answer", UNKNOWN),
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
    _hung_in_a_row: int = 0  # failures that hung, in a row

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
        return (
            0.0
            if self.state is State.OPEN or not self._pauses
            else max(0.0, moment - self._outage_began)
        )

    def succeeded(self, moment: float, sent: float) -> None:
        """Note an answer to a request sent at `sent`; the answer of a probe ends the outage.

        An answer to a request from before the outage does not: it says nothing about the present.
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
        if self.state is State.OPEN or not self._pauses:
            self._outage_began, self._pauses, self._hung_in_a_row = moment, 0, 0
        outage_limit = self._outage_began + self.limit
        self.reason = reason
        # Only a probe shows that the server is still away, so time alone never closes the model.
        if self.state is State.PROBING and moment >= outage_limit:
            self.state = State.CLOSED
            return
        pause = doubled(self.backoff, self._pauses, min(self.max_backoff, LONGEST_PROBE_PAUSE))
        # A probe that hangs may be billed, so these become rare sooner.
        if hung:
            pause = doubled(self.backoff, 2 * self._hung_in_a_row, LONGEST_HUNG_PAUSE)
        probe_due = moment + max(pause, retry_after or 0.0)
        if probe_due > outage_limit:
            # The user's limit wins over the server's wish, and the reason has to say so.
            if retry_after is not None and moment + retry_after > outage_limit:
                self.reason += (
                    f"; it asked for {retry_after:.0f} s of waiting, longer than the outage limit "
                    f"of {self.limit:.0f} s, which wins"
                )
            # A last probe at the limit decides.
            probe_due = max(outage_limit, moment)
        if was_in_flight:
            self._probe_due = max(probe_due, self._probe_due)
        else:
            self._probe_due = probe_due
            self._pauses += 1
            self._hung_in_a_row = self._hung_in_a_row + 1 if hung else 0
        self.state = State.WAITING

    def give_up_probe(self, moment: float) -> None:
        """Let another request probe, as nothing can be sent with which to probe now."""
        if self.state is State.PROBING:
            self.state, self._probe_due = State.WAITING, moment


#: Longest pause, in seconds, between two requests that ask whether a server is back: a run goes on
#: so soon after its return.
LONGEST_PROBE_PAUSE = 2.0
#: The same where requests time out. Each of them may be billed; an outage of 15 minutes takes about
#: 15 of them.
LONGEST_HUNG_PAUSE = 75.0
#: Factor on the rate at a refusal once the limit is known; before, and if others were accepted and
#: the server asks for no pause, so that it may refuse by lot.
SLOWER, SLOWER_AT_FIRST, SLOWER_IF_ALONE = 0.95, 0.6, 0.85
#: Number of answers after which the rate has grown back to where it was refused. The second
#: constant is a number for each answer that could have come in the pause after the refusal; the
#: larger number of the two holds.
RECOVERY, RECOVERY_PER_ANSWER = 65.0, 10.0
#: After every `DOUBLING` answers without a refusal the rate grows twice as fast, up to `FASTEST`:
#: the limit may have been raised, or set too low.
DOUBLING, FASTEST = 100, 0.02
#: Longest pause, in seconds, when the server asks for none.
LONGEST_PAUSE = 60.0
#: Fewest answers between two refusals that measure the limit.
ENOUGH_TO_MEASURE = 4
#: Refusals after which a trial of a rate may be compared with a slower one, and the highest rate of
#: that as a share of its own.
ENOUGH_TO_COMPARE, SLOWER_TRIAL = 3, 0.8
#: Share of requests that are refused near a limit, as the rate recovers now and then beyond it, and
#: far below.
BELOW_LIMIT, FAR_BELOW_LIMIT = 0.02, 0.005
#: Log odds from which refusals are held to be by lot, and by a limit again.
ENOUGH_EVIDENCE, ENOUGH_AGAINST_LOTS = 3.0, 8.0
#: Largest share of requests that may be refused by lot.
MOST_BY_LOT = 0.4
#: By which share the rate grows with each answer while refusals are held to be by lot; half of it
#: after each time that this was wrong.
GROWTH_BY_LOT = 0.05
#: Concurrent requests after the server was away, and how many more each answer allows.
AT_ONCE, ADDED = 2, 1


class _Taken(NamedTuple):
    """The answers that a server gave, and the seconds that it took for them."""

    answers: int
    seconds: float


@dataclass
class _Trial:
    """Requests and refusals from when requests began to go out at a rate.

    Requests in flight count as accepted: a refusal comes sooner than an answer.
    """

    rate: float
    began: float
    requests: int = 0
    refusals: int = 0
    seconds: float = 0.0

    @property
    def accepted(self) -> int:
        return max(self.requests - self.refusals, 0)

    def evidence_of_lots(self, faster: _Trial) -> float:
        """Return the log odds that as many are refused at any rate, not those beyond a limit.

        A server with a limit accepts as many requests a second as in a faster trial, give or take a
        standard error.
        """
        rate, seconds = self.requests / max(self.seconds, 0.05), max(faster.seconds, 0.05)
        error = math.sqrt(faster.accepted + 1.0)
        slowest, fastest = (faster.accepted - error) / seconds, (faster.accepted + error) / seconds
        below_limit = FAR_BELOW_LIMIT if rate < 0.6 * fastest else BELOW_LIMIT
        low, high = (
            max(1.0 - limit / max(rate, 0.01), below_limit) for limit in (fastest, slowest)
        )
        # Within this range a limit explains the refusals as well as it can.
        by_limit = min(max(self.refusals / max(self.requests, 1), low), high, 0.97)
        requests, refusals = faster.requests + self.requests, faster.refusals + self.refusals
        by_lot = min((refusals + 0.5) / (requests + 1.0), MOST_BY_LOT)
        for_refusals = self.refusals * math.log(by_lot / by_limit)
        return for_refusals + self.accepted * math.log((1.0 - by_lot) / (1.0 - by_limit))


class _Lots:
    """The share of requests that a server refuses at any rate, and the evidence against it.

    Where a limit is met, many more are refused. Requests in flight count as accepted.
    """

    def __init__(self, requests: int, refusals: int) -> None:
        self.requests, self.refusals = requests + 1.0, refusals + 0.5
        self.largest = min(1.5 * self.refusals / self.requests, MOST_BY_LOT)
        self._in_flight = 0
        self._for_limit = 0.0  # log odds of a limit, since they were 0

    def sent(self) -> None:
        """Note a request."""
        self.requests += 1.0
        self._in_flight += 1

    def answered(self) -> None:
        """Note that a request was answered."""
        self._in_flight = max(self._in_flight - 1, 0)
        self._for_limit = max(0.0, self._for_limit + self._log_odds(refused=False))

    def refused(self) -> None:
        """Note that a request was refused."""
        self.refusals += 1.0
        self._in_flight = max(self._in_flight - 1, 0)
        self._for_limit += self._log_odds(refused=True)

    @property
    def disproved(self) -> bool:
        """Whether so many are refused that a limit is the reason."""
        in_flight = self._in_flight * self._log_odds(refused=False)
        return self._for_limit + in_flight > ENOUGH_AGAINST_LOTS

    def _log_odds(self, refused: bool) -> float:
        share = min(self.refusals / self.requests, self.largest)
        beyond_limit = 0.5 + 0.5 * share
        return math.log(beyond_limit / share if refused else (1.0 - beyond_limit) / (1.0 - share))


class Pace:
    """When the next request may go out to a server that may limit the rate of requests.

    It limits nothing until the server refuses a request for its rate, which costs nothing; from
    then on it spaces requests, at first by what the server has taken until then, answered or in
    flight. Between two refusals a server accepts just what its limit allows, so the answers between
    them measure the limit. At each refusal the rate falls by a twentieth, and recovers in 65
    answers or more (both faster until the limit is known); it stays at a request in two of the
    longest pauses that the server asked for. Nothing goes out during such a pause. If as many
    requests are refused at a rate as at a faster one, the rate is not the reason: it rises, until
    many more are refused. A server that was away and is back gets two concurrent requests, and one
    more after each answer. One that was full keeps those that it has, and gets one more each time
    that as many are answered.

    Examples
    --------
    >>> pace = Pace()
    >>> pace.wait(moment=0.0, in_flight=0)
    0.0
    >>> pace.sent(0.0)
    >>> pace.refused(0.5, sent=0.0, in_flight=0, pause=2.0)
    >>> pace.wait(moment=1.0, in_flight=0)
    1.5
    """

    def __init__(self) -> None:
        self.rate = math.inf
        self._at_once = math.inf  # most concurrent requests
        self._was_full = False
        self._began: float | None = None  # when the first request went out
        self._refusal: float | None = None  # time of the last one
        self._accepted = 0  # answers since the last refusal
        # What the server took until the first refusal; None once there is a further one.
        self._until_first_refusal: _Taken | None = None
        self._growth = FASTEST
        self._is_measured = False  # whether the limit was measured
        self._refusals_in_a_row = 0  # refusals in a row without an answer between them
        self._longest_pause = 0.0  # pause that the server asked for
        self._trial: _Trial | None = None
        self._earlier_trials: list[_Trial] = []  # each faster than the next one
        self._growth_by_lot = GROWTH_BY_LOT
        self._lots: _Lots | None = None  # while refusals have another reason than the rate
        self._idle = 0.0  # seconds since the last refusal in which the server was asked nothing
        self._next_request = -math.inf  # when the rate allows the next request
        self._paused_until = -math.inf  # until when none goes out

    def wait(self, moment: float, in_flight: int) -> float:
        """Return the seconds until a request may go out; infinite if only an answer allows one."""
        if in_flight >= self._at_once:
            return math.inf
        return max(0.0, self._paused_until - moment, self._next_request - moment)

    def begin_again(self, in_flight: int) -> None:
        """Begin with few requests again, besides those in flight: the server is back."""
        self._at_once = in_flight + AT_ONCE

    def full(self, in_flight: int) -> None:
        """Note that the server refused a request beside those in flight because it is full."""
        self._at_once, self._was_full = max(in_flight, 1), True

    def sent(self, moment: float) -> None:
        """Note that a request has gone out."""
        if self._began is None:
            self._began = moment
        if self._refusal is not None:
            # Requests that the run makes late say nothing about the rate.
            due = max(self._next_request, self._paused_until)
            self._idle += max(moment - due, 0.0)
            self._next_request = max(due, moment) + 1.0 / self.rate
        if self._trial is not None:
            self._trial.requests += 1
        if self._lots is not None:
            self._lots.sent()

    def answered(self) -> None:
        """Note that a request was answered."""
        self._accepted += 1
        self._at_once += ADDED / self._at_once if self._was_full else ADDED
        if self._lots is not None:
            self._lots.answered()
            self.rate *= 1.0 + self._growth_by_lot
        elif math.isfinite(self.rate):
            self.rate *= 1.0 + self._growth
            if self._accepted % DOUBLING == 0:
                self._growth = min(2.0 * self._growth, FASTEST)

    def refused(
        self, moment: float, sent: float, in_flight: int, pause: float | None = None
    ) -> None:
        """Note that a request sent at `sent` was refused for its rate; others are `in_flight`.

        Refusals of requests already in flight at the last refusal are the same event.
        """
        if self._lots is not None:
            self._lots.refused()
            if not self._lots.disproved:
                self._paused_until = max(self._paused_until, moment + (pause or 0.0))
                return
            self._lots = None
            self._growth_by_lot *= 0.5
        if self._trial is not None and sent >= self._trial.began:
            self._trial.refusals += 1
        if self._refusal is None or sent >= self._refusal:
            self._note_refusal(moment, pause or 0.0)
        if self._until_first_refusal is not None:
            before = self._until_first_refusal
            requests = max(before.answers + self._accepted + in_flight, 1)
            self.rate = self._not_too_slow(requests / before.seconds)
        if pause is None:
            pause = doubled(1.0 / self.rate, self._refusals_in_a_row, LONGEST_PAUSE)
        self._paused_until = max(self._paused_until, moment + pause)
        self._next_request = max(self._next_request, moment)

    def _note_refusal(self, moment: float, pause: float) -> None:
        """Note a refusal that is no part of the last one, and let the rate recover from it."""
        self._longest_pause = max(self._longest_pause, pause)
        # The first one may be of many requests that went out together: those that are in flight, or
        # were answered, and are not refused as well, are what the server takes.
        self._until_first_refusal = (
            _Taken(self._accepted, self._seconds(moment)) if self._refusal is None else None
        )
        if self._until_first_refusal is None:
            self._lower_rate(moment)
        self._growth = FASTEST
        if self._is_measured:
            answers = max(RECOVERY_PER_ANSWER * self.rate * pause, RECOVERY)
            self._growth = -math.log(SLOWER) / answers
        self._refusal, self._accepted, self._idle = moment, 0, pause

    def _lower_rate(self, moment: float) -> None:
        """Lower the rate at a further refusal, by what the server accepted since the one before."""
        self._refusals_in_a_row = 0 if self._accepted else self._refusals_in_a_row + 1
        measures = self._accepted >= ENOUGH_TO_MEASURE
        if measures:
            self.rate = min(SLOWER * self.rate, self._accepted_rate(moment))
        # A limit per minute, say: pause longer rather than send more slowly.
        elif self._refusals_in_a_row <= 1:
            may_be_lot = self._accepted and not self._longest_pause
            slower_at_first = SLOWER_IF_ALONE if may_be_lot else SLOWER_AT_FIRST
            self.rate *= SLOWER if self._is_measured else slower_at_first
        self.rate, self._is_measured = self._not_too_slow(self.rate), measures
        self._compare_trials(moment)

    def _compare_trials(self, moment: float) -> None:
        """Go back to the rate of the fastest trial if refusals are as frequent at a slower one."""
        trial = self._trial = self._trial or _Trial(self.rate, moment)
        trial.seconds = moment - trial.began
        for faster in self._earlier_trials:
            if trial.evidence_of_lots(faster) > ENOUGH_EVIDENCE:
                refusals, requests = (
                    trial.refusals + faster.refusals,
                    trial.requests + faster.requests,
                )
                self._lots = _Lots(requests, refusals)
                self.rate, self._is_measured = faster.rate, False
                self._trial, self._earlier_trials = None, []
                return
        if trial.refusals >= ENOUGH_TO_COMPARE and self.rate < SLOWER_TRIAL * trial.rate:
            self._trial = None
            self._earlier_trials.append(trial)

    def _not_too_slow(self, rate: float) -> float:
        """Return a rate, raised to the lowest that is worth trying.

        Some servers refuse as many requests at any rate. So the lowest is a request in two of the
        longest pauses that the server asked for.
        """
        return max(rate, 0.5 / self._longest_pause if self._longest_pause else 0.0)

    def _accepted_rate(self, moment: float) -> float:
        """Return the requests a second that the server accepted since the last refusal."""
        seconds = self._seconds(moment)
        return max(self._accepted, 1) / max(seconds - self._idle, 0.25 * seconds)

    def _seconds(self, moment: float) -> float:
        """Return the seconds since the last refusal, or else since the first request."""
        since = self._began if self._refusal is None else self._refusal
        return max(moment - (moment if since is None else since), 0.05)

"""`Lane`: one model of a run while it is asked: whether it is there, how fast it takes requests.

Servers restart, and limit rates. While a model is away nobody asks it; after a pause one request
probes, and its answer opens the model again for all. Only an outage longer than the limit closes
the model. Times are in seconds of any clock, which the caller reads.
"""

from __future__ import annotations

import enum
import math
import statistics
import time
from collections import deque
from dataclasses import dataclass, field

from ..runs.book import Ask
from .entries import FailureRule
from .models import Model

#: Median latencies after which an ask that holds up the line is sent a second time, the least
#: seconds, and the seconds where no answer has come yet.
SECOND, AT_LEAST, UNKNOWN = 5.0, 1.0, 30.0
#: Seconds without an answer after which a model is put aside, if it also failed or a second
#: request brought none; a slow model gets so many of its median latencies.
SILENCE = 60.0
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


@dataclass(eq=False)
class Sending:
    """One call of a model.

    Attributes
    ----------
    asks : list of Ask
        Of one task.
    attempt : int
        From 1.
    away : int
        Attempts that met nobody.
    sent : float
        When it went out.
    second : bool
        Whether it goes out beside what the slots allow: the second request of an ask that holds
        up the line, or a probe.
    """

    asks: list[Ask]
    attempt: int = 1
    away: int = 0
    sent: float = 0.0
    second: bool = False


@dataclass(eq=False)
class Lane:
    """What a run keeps of one model while it asks it; times in seconds of one clock.

    Parameters
    ----------
    model : Model
    rule : FailureRule

    Attributes
    ----------
    gate : Availability
    pace : Pace
    wire : list of Sending
        Under way.
    again : list of (float, Sending)
        Attempts that wait, with the time at which they may go out.
    left : list of Ask
        What was open when the model was put aside: what a probe asks.
    in_a_row : int
        Documents given up without a success between them.
    refused : float or None
        Since when the server has refused every request for its rate.
    hangs : bool
        Whether it was put aside because it takes requests and answers none.
    opened : bool
        Whether the model is loaded or connected.
    waited : int
        Minutes of the present outage that were reported.
    """

    model: Model
    rule: FailureRule
    pace: Pace = field(default_factory=Pace)
    wire: list[Sending] = field(default_factory=list)
    again: list[tuple[float, Sending]] = field(default_factory=list)
    left: list[Ask] = field(default_factory=list)
    in_a_row: int = 0
    refused: float | None = None
    hangs: bool = False
    opened: bool = False
    waited: int = 0
    _heard: float | None = None
    _latencies: deque[float] = field(default_factory=lambda: deque(maxlen=99))
    _median: float | None = None

    def __post_init__(self) -> None:
        rule = self.rule
        self.gate = Availability(60.0 * rule.outage_minutes, rule.backoff, rule.max_backoff)

    @property
    def name(self) -> str:
        """The model's name."""
        return self.model.name

    @property
    def free(self) -> int:
        """Calls that may go out beside those under way; a second request takes no slot."""
        return self.model.slots - sum(not one.second for one in self.wire)

    def wait(self, now: float) -> float:
        """Return the seconds until the server's rate allows another call."""
        return self.pace.wait(now, len(self.wire)) if self.model.remote else 0.0

    def take_due(self, now: float) -> Sending | None:
        """Return an attempt that is due."""
        for at, (due, sending) in enumerate(self.again):
            if due <= now:
                del self.again[at]
                return sending
        return None

    def take_all(self) -> list[Ask]:
        """Take the asks of all waiting attempts, which are then not retried automatically."""
        asks = [ask for _, sending in self.again for ask in sending.asks]
        self.again.clear()
        return asks

    def sent(self, sending: Sending, now: float) -> None:
        """A call has gone out."""
        sending.sent = now
        if not self.wire:
            self._heard = now
        self.wire.append(sending)
        self.pace.sent(now)

    def answered(self, sending: Sending, now: float) -> None:
        """A call has brought answers."""
        self._heard, self.refused, self.hangs = now, None, False
        self._latencies.append(now - sending.sent)
        self._median = None
        self.pace.answered()
        self.gate.succeeded(now, sending.sent)

    @property
    def median(self) -> float | None:
        """Median latency; None before the first answer."""
        if self._median is None and self._latencies:
            self._median = statistics.median(self._latencies)
        return self._median

    def second_at(self, sending: Sending) -> float:
        """When an ask that holds up the line is sent a second time."""
        median = self.median
        patience = UNKNOWN if median is None else max(AT_LEAST, SECOND * median)
        return sending.sent + patience

    def silent(self, now: float) -> bool:
        """Whether a server has left even a second request unanswered for too long."""
        if self._heard is None or not any(one.second for one in self.wire):
            return False
        return now - self._heard > max(SILENCE, SECOND * (self.median or 0.0))

    def gone(self, now: float, longer: float = 0.0) -> bool:
        """Whether the server has been away so long (plus `longer`) that the others go on."""
        return self.gate.state is not State.OPEN and self.gate.outage(now) > SILENCE + longer

    def refused_for(self, now: float) -> float:
        """Seconds in which the server has refused every request for its rate."""
        return 0.0 if self.refused is None else now - self.refused

    def rest(self) -> float:
        """Seconds that what is under way gets to arrive when nothing more is wanted."""
        return min(10.0, max(1.0, 3.0 * (self.median or 0.0)))


def clock() -> float:
    """Seconds of a clock that nobody sets."""
    return time.monotonic()

"""`Lane`: one model of a run while it is asked: requests in flight, waiting ones, pace."""

from __future__ import annotations

import statistics
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from ..runs.book import Ask
from .availability import Availability, State
from .entries import FailureRule
from .models import Model
from .rates import Pace

#: Median latencies after which an ask that holds up the line is sent a second time, the least
#: seconds, and the seconds where no answer has come yet.
SECOND, AT_LEAST, UNKNOWN = 5.0, 1.0, 30.0
#: Seconds without an answer after which a model is put aside, if it also failed or a second
#: request brought none; a slow model gets so many of its median latencies.
SILENCE = 60.0


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
    more : deque of Ask
        Items beyond the ranking that the model is to answer.
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
    more: deque[Ask] = field(default_factory=deque)
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


def of_one_task(asks: Sequence[Ask]) -> tuple[list[Ask], list[Ask]]:
    """The first asks of one task, and those of others: a call of the harness is of one task."""
    task = _task(asks[0]) if asks else None
    same = [ask for ask in asks if _task(ask) == task]
    return same, [ask for ask in asks if _task(ask) != task]


def _task(ask: Ask) -> str | None:
    return ask.item[0] if isinstance(ask.item, tuple) else None


def clock() -> float:
    """Seconds of a clock that nobody sets."""
    return time.monotonic()

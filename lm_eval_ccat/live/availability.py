"""Whether a model can be asked now: open, waiting, probing, or closed for good.

Servers restart, and limit rates. While a model is away nobody asks it; after a pause one request
probes, and its answer opens the model again for all. Only an outage longer than the limit closes
the model. Times come from the caller, in seconds of any clock.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass


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

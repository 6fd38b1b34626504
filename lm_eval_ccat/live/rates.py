"""`Pace`: when the next request may go out to a server that may limit the rate of requests.

Times are in seconds of any clock; the caller reads it.
"""

from __future__ import annotations

import math

#: Factor on the rate at a refusal, once the limit is known and before.
BELOW, SEARCH = 0.95, 0.6
#: Answers that bring the rate back to where it was refused. After every `DOUBLING` answers without
#: a refusal it grows twice as fast, up to `FASTEST`, in case the limit was raised or set too low.
STEADY, DOUBLING, FASTEST = 65.0, 100, 0.05
#: Answers in which the rate recovers, per answer that the pause after a refusal costs, if more.
WORTH = 10.0
#: Longest pause, in seconds, when the server asks for none.
LONGEST = 60.0
#: Fewest answers between two refusals that measure the limit.
ENOUGH = 4
#: Concurrent requests at the start.
FIRST = 2


class Pace:
    """When the next request may go out to a server that may limit the rate of requests.

    A run starts with two concurrent requests and allows one more after each answer. It limits
    nothing else until the server refuses a request for its rate; from then on it spaces
    requests. Between two refusals a server accepts just what its limit allows, so the answers
    between them measure the limit. At each refusal the rate falls by a twentieth (faster until
    the limit is known), and recovers in 65 answers or more. Nothing goes out during a pause that
    the server asks for.

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

    def wait(self, now: float, in_flight: int) -> float:
        """Return the seconds until a request may go out; infinite if only an answer allows one."""
        if in_flight >= self._at_once:
            return math.inf
        return max(0.0, self._pause - now, self._next - now)

    def sent(self, now: float) -> None:
        """Note that a request has gone out."""
        if self._began is None:
            self._began = now
        if math.isfinite(self.rate):
            self._next = max(self._next, now) + 1.0 / self.rate

    def answered(self) -> None:
        """Note that a request was answered."""
        self._accepted += 1
        self._at_once += 1
        if math.isfinite(self.rate):
            self.rate *= 1.0 + self._growth
            if self._accepted % DOUBLING == 0:
                self._growth = min(2.0 * self._growth, FASTEST)

    def refused(self, now: float, sent: float, pause: float | None = None) -> None:
        """Note that a request sent at `sent` was refused for its rate.

        Refusals of requests already in flight at the last refusal are the same event.
        """
        since = self._began if self._refusal is None else self._refusal
        if self._refusal is None or sent >= self._refusal:
            seconds = max(now - (now if since is None else since), 0.05)
            # A pause says nothing about the rate.
            measured = max(self._accepted, 1) / max(seconds - self._paused, 0.25 * seconds)
            in_vain = self._refusal is not None and not self._accepted
            self._in_vain = self._in_vain + 1 if in_vain else 0
            if self._refusal is None:
                self.rate = measured
            elif self._in_vain > 1:
                pass  # a limit per minute, say: pause longer rather than send more slowly
            elif self._accepted >= ENOUGH:
                self.rate = min(BELOW * self.rate, measured)
            else:
                self.rate *= BELOW if self._settled else SEARCH
            self._settled = self._refusal is not None and self._accepted >= ENOUGH
            self._refusal, self._accepted, self._paused = now, 0, pause or 0.0
            self._growth = -math.log(BELOW) / max(WORTH * self.rate * self._paused, STEADY)
        if pause is None:
            pause = min(2.0**self._in_vain / self.rate, LONGEST)
        self._pause = max(self._pause, now + pause)
        self._next = max(self._next, now)

"""`Pace`: how fast requests go out to a server that may limit their rate.

A run starts with two requests at once and one more for each answer. Nothing else is limited until
the server refuses a request for its rate; from then on requests are spaced. Between two refusals a
server takes what its limit lets through and no more, so the answers between them measure the limit.
At each refusal the rate falls by a twentieth, and is back after 65 answers (multiplicative
decrease, additive increase). During a pause that the server asks for, what could have gone out is
saved up, as a server with a bucket of tokens saves it up.
"""

from __future__ import annotations

import math

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


class Pace:
    """When the next request may go out; times in seconds of any clock.

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

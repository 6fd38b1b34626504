"""How fast requests go to servers that limit rates: `Pace` of a model, `RateLimit` of a host.

Models of one host may share a limit, or have one each, and no server says which. So they begin
with one `RateLimit`, and a model whose requests alone are refused leaves it. Some servers refuse
*by lot*: a share of the requests, at any rate. A *trial* is the time in which requests go out at
about one rate; trials at several rates tell these two reasons apart. A *pause* is a time in which
nothing is sent, as the server asked for after a refusal. Times are in seconds of any clock, which
the caller reads; rates are in requests a second.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

from .failures import doubled

#: Factor on the rate at a refusal: once the limit is known; before that; and before that if the
#: server accepted others and asks for no pause, so that it may refuse by lot.
SLOWER, SLOWER_AT_FIRST, SLOWER_IF_ALONE = 0.95, 0.6, 0.85
#: Factor where a refusal came soon after a pause: after fewer answers than `SOON` such pauses have
#: room for at that rate. What the server saves up in a pause hides how far the rate is beyond the
#: limit.
SLOWER_IF_SOON, SOON = 0.85, 3.0
#: Number of answers after which the rate has grown back to where it was refused. The second
#: constant is a number for each answer that could have come in the pause after the refusal; the
#: larger number of the two holds.
RECOVERY, RECOVERY_PER_ANSWER = 65.0, 20.0
#: After every `DOUBLING` answers without a refusal, or as many as a recovery takes if these are
#: more, the rate grows twice as fast, up to `FASTEST`: the limit may have been raised, or set too
#: low.
DOUBLING, FASTEST = 100, 0.02
#: Longest pause, in seconds, when the server asks for none.
LONGEST_PAUSE = 60.0
#: Fewest answers between two refusals that measure the limit.
ENOUGH_TO_MEASURE = 4
#: Fewest of each model that measure it so well that the rate recovers slowly.
ENOUGH_TO_TRUST = 6
#: Refusals after which a trial may be compared with a slower one, and the highest rate of that as a
#: share of its own.
ENOUGH_TO_COMPARE, SLOWER_TRIAL = 3, 0.8
#: Share of requests that a server with a limit refuses near it, as the rate recovers now and then
#: beyond it, and far below it.
BELOW_LIMIT, FAR_BELOW_LIMIT = 0.02, 0.005
#: Log likelihood ratios from which refusals are held to be by lot, and by a limit again.
ENOUGH_EVIDENCE, ENOUGH_AGAINST_LOTS = 3.0, 8.0
#: Largest share of requests that may be refused by lot.
MOST_BY_LOT = 0.4
#: By which share the rate grows with each answer while refusals are held to be by lot; halved each
#: time that this was wrong.
GROWTH_BY_LOT = 0.05
#: Seconds by which a request may be late without loss to the rate.
CAUGHT_UP = 0.05
#: Log odds from which a model is held to have a limit of its own.
ENOUGH_FOR_PRIVATE_LIMIT = 7.0
#: Concurrent requests after the server was away, and how many more each answer allows.
AT_ONCE, ADDED = 2, 1


class _Taken(NamedTuple):
    """The answers that a server gave, and the seconds in which it gave them."""

    answers: int
    seconds: float


@dataclass
class _Trial:
    """A trial: what became of the requests since they began to go out at a rate.

    Requests in flight count as accepted: a refusal comes sooner than an answer.

    Attributes
    ----------
    rate : float
        Rate at its begin.
    began : float
        Moment at which it began.
    requests, refusals : int
    seconds : float
        Its length so far.
    """

    rate: float
    began: float
    requests: int = 0
    refusals: int = 0
    seconds: float = 0.0

    @property
    def accepted(self) -> int:
        """Requests that were not refused."""
        return max(self.requests - self.refusals, 0)

    def evidence_of_lots(self, faster: _Trial) -> float:
        """Return the log likelihood ratio of this trial's refusals: by lot, against by a limit.

        By lot the server refuses the same share of either trial's requests. With a limit it accepts
        as many requests a second as in the faster trial, give or take a standard error of that
        count, and refuses what goes out beyond.
        """
        rate, seconds = self.requests / max(self.seconds, 0.05), max(faster.seconds, 0.05)
        error = math.sqrt(faster.accepted + 1.0)
        low_limit = (faster.accepted - error) / seconds
        high_limit = (faster.accepted + error) / seconds
        least_share = FAR_BELOW_LIMIT if rate < 0.6 * high_limit else BELOW_LIMIT
        low_share, high_share = (
            max(1.0 - limit / max(rate, 0.01), least_share) for limit in (high_limit, low_limit)
        )
        # Of the shares that a limit in this range would refuse, the one that fits best counts.
        by_limit = min(max(self.refusals / max(self.requests, 1), low_share), high_share, 0.97)
        requests, refusals = faster.requests + self.requests, faster.refusals + self.refusals
        by_lot = min((refusals + 0.5) / (requests + 1.0), MOST_BY_LOT)
        for_refusals = self.refusals * math.log(by_lot / by_limit)
        return for_refusals + self.accepted * math.log((1.0 - by_lot) / (1.0 - by_limit))


class _Lots:
    """The share of requests that a server refuses by lot, and the evidence that a limit does.

    The evidence is a cumulative sum (Page's test for a change): the log likelihood ratios of all
    requests, set to 0 whenever it falls below. It grows once the rate, which rises, meets a limit,
    beyond which more are refused. Requests in flight count as accepted.
    """

    def __init__(self, requests: int, refusals: int) -> None:
        self.requests, self.refusals = requests + 1.0, refusals + 0.5
        self.largest = min(1.5 * self.refusals / self.requests, MOST_BY_LOT)
        self._in_flight = 0
        self._for_limit = 0.0  # the cumulative sum

    def sent(self) -> None:
        """Note a request."""
        self.requests += 1.0
        self._in_flight += 1

    def answered(self) -> None:
        """Note that a request was answered."""
        self._in_flight = max(self._in_flight - 1, 0)
        self._for_limit = max(0.0, self._for_limit + self._log_ratio(refused=False))

    def refused(self) -> None:
        """Note that a request was refused."""
        self.refusals += 1.0
        self._in_flight = max(self._in_flight - 1, 0)
        self._for_limit += self._log_ratio(refused=True)

    @property
    def disproved(self) -> bool:
        """Whether so many are refused that a limit is the reason."""
        in_flight = self._in_flight * self._log_ratio(refused=False)
        return self._for_limit + in_flight > ENOUGH_AGAINST_LOTS

    def _log_ratio(self, refused: bool) -> float:
        """Return the log likelihood ratio of one request: a limit against refusal by lot.

        Beyond a limit half of those are refused that would not be by lot.
        """
        share = min(self.refusals / self.requests, self.largest)
        beyond_limit = 0.5 + 0.5 * share
        return math.log(beyond_limit / share if refused else (1.0 - beyond_limit) / (1.0 - share))


class RateLimit:
    """The rate that a host allows, as far as its refusals tell: for one model, or several.

    It limits nothing until the server refuses a request for its rate, which costs nothing; from
    then on it spaces requests, at first by what the server has taken until then, answered or in
    flight. Between two refusals a server accepts just what its limit allows, so the answers between
    them measure the limit. At each refusal the rate falls by a twentieth, and recovers in 65
    answers or more (both faster until the limit is known); it never falls below a request in two of
    the longest pauses that the server asked for. If as many requests are refused at a rate as at a
    faster one, the rate is not the reason: it rises, until many more are refused.

    Attributes
    ----------
    rate : float
        Requests a second.
    paces : list of Pace
        Those of the models that share it.
    """

    def __init__(self) -> None:
        self.rate = math.inf
        self.paces: list[Pace] = []
        self._began: float | None = None  # when the first request went out
        self._refusal: float | None = None  # time of the last one
        self._last_pause = 0.0  # that the server asked for then
        self._accepted = 0  # answers since the last refusal
        # What the server took until the first refusal; None once there is a further one.
        self._until_first_refusal: _Taken | None = None
        self._growth = FASTEST  # by which share the rate grows with each answer
        self._doubling = DOUBLING  # answers after which the growth doubles
        self._is_measured = False  # whether the limit was measured at the last refusal
        self._refusals_in_a_row = 0  # without an answer between them
        self._longest_pause = 0.0  # that the server asked for at any refusal
        self._trial: _Trial | None = None  # the present one, if any
        self._earlier_trials: list[_Trial] = []  # each faster than the next one
        self._growth_by_lot = GROWTH_BY_LOT
        self._lots: _Lots | None = None  # while refusals have another reason than the rate
        self._idle = 0.0  # seconds since the last refusal in which the server was asked nothing
        self._next_request = -math.inf  # when the rate allows the next request
        # The model that was refused last, and minus the log of the chance that only it was refused
        # since, were all models behind one limit.
        self._last_refused: Pace | None = None
        self._for_private_limit = 0.0

    def wait(self, moment: float) -> float:
        """Return the seconds until the rate allows a further request."""
        return max(0.0, self._next_request - moment)

    def sent(self, moment: float) -> None:
        """Note that a request has gone out."""
        if self._began is None:
            self._began = moment
        if self._refusal is not None:
            # Time in which the run made no request, though the rate allowed one, says nothing about
            # the rate. Where it is only busy for a moment, the next ones make up for it.
            if moment - self._next_request > CAUGHT_UP:
                self._idle += moment - self._next_request
                self._next_request = moment
            self._next_request += 1.0 / self.rate
        if self._trial is not None:
            self._trial.requests += 1
        if self._lots is not None:
            self._lots.sent()

    def answered(self) -> None:
        """Note that a request was answered."""
        self._accepted += 1
        if self._lots is not None:
            self._lots.answered()
            self.rate *= 1.0 + self._growth_by_lot
        # Before the first refusal the rate is infinite.
        elif math.isfinite(self.rate):
            self.rate *= 1.0 + self._growth
            if self._accepted % self._doubling == 0:
                self._growth = min(2.0 * self._growth, FASTEST)

    def refused(self, pace: Pace, moment: float, sent: float, pause: float | None) -> float:
        """Note that a request was refused for its rate; return for how long its model pauses.

        Refusals of requests already in flight at the last refusal are the same event, and so are
        those of other models' requests during the pause that the server asked for.

        Parameters
        ----------
        pace : Pace
            That of the model.
        moment, sent : float
            When it was refused, and when it was sent.
        pause : float or None
            Seconds that the server asks to wait.
        """
        if self._lots is not None:
            self._lots.refused()
            # By lot, a refusal says nothing about the rate.
            if not self._lots.disproved:
                return pause or 0.0
            # The rate has risen so far that a limit is met.
            self._lots = None
            self._growth_by_lot *= 0.5
        # One that was sent before the trial went out at another rate.
        if self._trial is not None and sent >= self._trial.began:
            self._trial.refusals += 1
        if self._refusal is None or sent >= self._refusal + self._last_pause:
            self._note_refused_model(pace, moment)
            self._note_refusal(moment, pause or 0.0)
        # Each of the requests that were refused together first tells more exactly what was taken.
        if self._until_first_refusal is not None:
            before = self._until_first_refusal
            in_flight = sum(pace.in_flight for pace in self.paces)
            requests = max(before.answers + self._accepted + in_flight, 1)
            self.rate = self._not_too_slow(requests / before.seconds)
        # Where the server states none, the pause doubles with each refusal in a row.
        if pause is None:
            pause = doubled(1.0 / self.rate, self._refusals_in_a_row, LONGEST_PAUSE)
        self._next_request = max(self._next_request, moment)
        return pause

    def _note_refused_model(self, pace: Pace, moment: float) -> None:
        """Note whose request was refused; a model that alone is refused again and again leaves.

        Where models share a limit, the chance that the next refusal is of the same model is its
        share of the requests.
        """
        requests = sum(pace.requests for pace in self.paces)
        # A refusal of another model shows that the limit is shared: the count begins again.
        if pace is self._last_refused:
            self._for_private_limit -= math.log(max(pace.requests, 1) / max(requests, 1))
        else:
            self._last_refused, self._for_private_limit = pace, 0.0
        # It gets a limit of its own, and all others begin with a new one.
        if self._for_private_limit > ENOUGH_FOR_PRIVATE_LIMIT:
            private, shared = RateLimit(), RateLimit()
            private.rate = max(pace.requests, 1) / self._seconds(moment)
            private._refusal, private._longest_pause = moment, self._longest_pause
            for neighbour in [*self.paces]:
                neighbour.share(private if neighbour is pace else shared)
        for neighbour in self.paces:
            neighbour.requests = 0

    def _note_refusal(self, moment: float, pause: float) -> None:
        """Note a refusal that is no part of the last one, and let the rate recover from it."""
        self._longest_pause = max(self._longest_pause, pause)
        # The first one may be of many requests that went out together: those that are in flight, or
        # were answered, and are not refused as well, are what the server takes.
        self._until_first_refusal = None
        if self._refusal is None:
            self._until_first_refusal = _Taken(self._accepted, self._seconds(moment))
        else:
            self._lower_rate(moment)
        self._growth, self._doubling = FASTEST, DOUBLING
        # After so many answers the rate is where it was before it fell by the factor `SLOWER`.
        if self._is_measured:
            answers = max(RECOVERY_PER_ANSWER * self.rate * pause, RECOVERY)
            self._growth = -math.log(SLOWER) / answers
            self._doubling = max(DOUBLING, int(answers))
        self._refusal, self._last_pause = moment, pause
        self._accepted, self._idle = 0, 0.0

    def _lower_rate(self, moment: float) -> None:
        """Lower the rate at a further refusal, by what the server accepted since the one before."""
        self._refusals_in_a_row = 0 if self._accepted else self._refusals_in_a_row + 1
        is_measured = self._accepted >= ENOUGH_TO_MEASURE
        if is_measured:
            requests_in_pause = self.rate * self._last_pause
            slower = SLOWER_IF_SOON if self._accepted < SOON * requests_in_pause else SLOWER
            self.rate = min(slower * self.rate, self._accepted_rate(moment))
            # A few answers after a pause may measure far less than the limit is.
            is_measured = self._accepted >= ENOUGH_TO_TRUST * len(self.paces)
        # After several refusals without an answer, as of a limit per minute, the model pauses
        # longer instead; the rate stays.
        elif self._refusals_in_a_row <= 1:
            may_be_lot = self._accepted and not self._longest_pause
            slower_at_first = SLOWER_IF_ALONE if may_be_lot else SLOWER_AT_FIRST
            self.rate *= SLOWER if self._is_measured else slower_at_first
        self.rate, self._is_measured = self._not_too_slow(self.rate), is_measured
        self._compare_trials(moment)

    def _compare_trials(self, moment: float) -> None:
        """Go back to the rate of an earlier trial if as many are refused in the slower one now.

        Once enough are refused, and the rate has fallen, another trial begins.
        """
        trial = self._trial = self._trial or _Trial(self.rate, moment)
        trial.seconds = moment - trial.began
        for faster in self._earlier_trials:
            if trial.evidence_of_lots(faster) > ENOUGH_EVIDENCE:
                self._lots = _Lots(
                    trial.requests + faster.requests, trial.refusals + faster.refusals
                )
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
        """Return the requests a second that the server accepted since the last refusal.

        Time in which it was asked nothing does not count, up to three quarters of the whole.
        """
        seconds = self._seconds(moment)
        return max(self._accepted, 1) / max(seconds - self._idle, 0.25 * seconds)

    def _seconds(self, moment: float) -> float:
        """Return the seconds since the last refusal or the first request, and at least .05."""
        since = self._began if self._refusal is None else self._refusal
        return max(moment - (moment if since is None else since), 0.05)


class Pace:
    """When the next request may go out to a model behind a server.

    Besides the `RateLimit` of its host, it is held back by the pauses after its own refusals. A
    server that was away and is back gets two concurrent requests, and one more after each answer.
    One that was full keeps those that it has, and gets one more each time that as many are
    answered.

    Attributes
    ----------
    limit : RateLimit
    in_flight : int
        Requests in flight, as far as it was told.
    requests : int
        Those that went out since a request to any model of the limit was refused last.

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
        self.in_flight = self.requests = 0
        self._at_once = math.inf  # most concurrent requests
        self._was_full = False
        self._paused_until = -math.inf
        self.limit = RateLimit()
        self.limit.paces.append(self)

    def share(self, limit: RateLimit) -> None:
        """Leave the limit so far for another, which other models may have, too."""
        self.limit.paces.remove(self)
        self.limit = limit
        limit.paces.append(self)

    def wait(self, moment: float, in_flight: int) -> float:
        """Return the seconds until a request may go out; infinite if only an answer allows one."""
        self.in_flight = in_flight
        if in_flight >= self._at_once:
            return math.inf
        return max(0.0, self._paused_until - moment, self.limit.wait(moment))

    def is_paused(self, moment: float, in_flight: int) -> bool:
        """Whether the model itself may get no request, whatever the rate of its host."""
        return in_flight >= self._at_once or moment < self._paused_until

    def begin_again(self, in_flight: int) -> None:
        """Begin with few requests again, besides those in flight: the server is back."""
        self._at_once = in_flight + AT_ONCE

    def full(self, in_flight: int) -> None:
        """Note that the server refused a request beside those in flight because it is full."""
        self._at_once, self._was_full = max(in_flight, 1), True

    def sent(self, moment: float) -> None:
        """Note that a request has gone out."""
        self.in_flight += 1
        self.requests += 1
        self.limit.sent(moment)

    def answered(self) -> None:
        """Note that a request was answered."""
        self.in_flight = max(self.in_flight - 1, 0)
        self._at_once += ADDED / self._at_once if self._was_full else ADDED
        self.limit.answered()

    def refused(
        self, moment: float, sent: float, in_flight: int, pause: float | None = None
    ) -> None:
        """Note that a request sent at `sent` was refused for its rate; others are `in_flight`."""
        self.in_flight = in_flight
        pause = self.limit.refused(self, moment, sent, pause)
        self._paused_until = max(self._paused_until, moment + pause)

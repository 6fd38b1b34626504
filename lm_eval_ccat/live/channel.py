"""`Channel`: one model of a run, its requests in flight, their results and its next attempts.

After a failed call, the channel retries, gives up the document or sets the model aside: see
`failures`. Times are in seconds of one clock.
"""

from __future__ import annotations

import logging
import math
import statistics
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ..errors import RunError
from ..harness.served import Served
from ..harness.transport import ServerError
from ..money import ASSUMED, BILLED
from ..records import BeyondBank, Fail, Item, Lost, Record, Tell
from ..runs.book import LEFT, OPEN, Ask
from .copies import Copies
from .failures import Availability, Failure, Pace, Remedy, State
from .line import Line
from .models import Answer, Model
from .plan import Plan
from .spec import FailureRule

logger = logging.getLogger(__name__)

#: An ask that holds up the line is sent again after this many median latencies of its model,
RESEND = 5.0
#: but not before so many seconds,
AT_LEAST = 1.0
#: and after so many seconds where the model has not answered yet.
AT_FIRST = 30.0
#: Seconds without an answer after which to set a model aside that also failed, or left a second
#: request unanswered; a slow model gets `RESEND` of its median latencies.
SILENCE = 60.0


@dataclass(eq=False)
class Sending:
    """One call to a model.

    Attributes
    ----------
    asks : list of Ask
        Asks of one task.
    attempt : int
        Number of the attempt, from 1.
    away : int
        Attempts that found the server away.
    sent : float
        Time at which it went out.
    second : bool
        Whether it takes no slot: the second request for an ask that holds up the line, or a
        probe.
    """

    asks: list[Ask]
    attempt: int = 1
    away: int = 0
    sent: float = 0.0
    second: bool = False


@dataclass(frozen=True)
class FailedCall:
    """A call that failed, and what is still to be asked of it.

    Attributes
    ----------
    sending : Sending
    asks : list of Ask
        Its open asks that no second request carries.
    failure : Failure
    moment : float
        Time at which the failure was noticed.
    """

    sending: Sending
    asks: list[Ask]
    failure: Failure
    moment: float

    def is_last(self, rule: FailureRule) -> bool:
        """Whether it was the last attempt of a document that fails like this."""
        return self.sending.attempt >= self.failure.attempts(rule)


@dataclass(eq=False)
class Channel:
    """State of one model while a run asks it.

    Parameters
    ----------
    model : Model
    plan : Plan
    line : Line

    Attributes
    ----------
    gate : Availability
    pace : Pace
    wire : list of Sending
        Calls in flight.
    retries : list of (float, Sending)
        Waiting attempts, with the time from which they may go out.
    probe_asks : list of Ask
        Asks that were open when the model was set aside; probes use them.
    in_a_row : int
        Documents given up without a success between them.
    refused : float or None
        Time since which the server has refused every request for its rate.
    hangs : bool
        Whether it was set aside because it accepts requests and answers none.
    opened, to_open : bool
        Whether the model is loaded or connected, and whether it should be.
    waited : int
        Minutes of the present outage that were reported.
    unheard, alone : set of item
        Items that failed since the last answer; those that failed while others were answered.
    known_good : list of Ask
        The last that was answered, or none: a probe asks it again where all that is open failed.
    """

    model: Model
    plan: Plan
    line: Line
    pace: Pace = field(default_factory=Pace)
    wire: list[Sending] = field(default_factory=list)
    retries: list[tuple[float, Sending]] = field(default_factory=list)
    probe_asks: list[Ask] = field(default_factory=list)
    in_a_row: int = 0
    refused: float | None = None
    hangs: bool = False
    opened: bool = False
    to_open: bool = False
    waited: int = 0
    _unscored: bool = False  # whether missing scores were warned of
    _heard: float | None = None  # since when the server has been silent
    _slow_scoring: bool = False  # whether slow scoring was warned of
    _proof: float = -math.inf  # when the youngest request was sent that was answered
    unheard: set[Item] = field(default_factory=set)
    alone: set[Item] = field(default_factory=set)
    known_good: list[Ask] = field(default_factory=list)
    _tried: dict[Item, int] = field(default_factory=dict)  # attempts of items put back by an outage
    _latencies: deque[float] = field(default_factory=lambda: deque(maxlen=99))
    _median: float | None = None

    def __post_init__(self) -> None:
        rule = self.rule = self.plan.spec.failures
        self.gate = Availability(60.0 * rule.outage_minutes, rule.backoff, rule.max_backoff)
        self.name, self.book = self.model.name, self.line.book
        self.copies = Copies(self.model.title)
        if self.plan.most_repeats > 1:  # a resumed run has answers already
            for item, answer in self.book.arrived(self.name):
                self.copies.note(item, answer.responses)

    @property
    def free(self) -> int:
        """Calls that may go out: second requests and answers that are being scored take no slot."""
        scoring = self.model.scoring
        busy = (
            not (sending.second or (scoring and sending.asks[0].item in scoring))
            for sending in self.wire
        )
        return self.model.slots - sum(busy)

    def wait(self, moment: float) -> float:
        """Return the seconds until the server's rate allows another call."""
        return self.pace.wait(moment, len(self.wire)) if self.model.remote else 0.0

    def take_due(self, moment: float) -> Sending | None:
        """Take a waiting attempt that is due, if any."""
        for number, (due, sending) in enumerate(self.retries):
            if due <= moment:
                del self.retries[number]
                return sending
        return None

    def sent(self, sending: Sending, moment: float) -> None:
        """Note that a call has gone out."""
        sending.sent = moment
        if not self.wire:
            self._heard = moment
        self.wire.append(sending)
        self.pace.sent(moment)

    def answered(self, sending: Sending, moment: float) -> None:
        """Note that a call has returned answers."""
        self._heard, self.refused, self.hangs = moment, None, False
        self._proof, self.known_good = max(self._proof, sending.sent), sending.asks[-1:]
        self._latencies.append(moment - sending.sent)
        self._median = None
        waits = self.gate.state is State.PROBING
        self._is_there(sending, moment)
        # A server that has just come back may bear little.
        if waits and self.gate.state is State.OPEN:
            self.pace.begin_again(len(self.wire))
        self.pace.answered()

    def _is_there(self, sending: Sending, moment: float) -> None:
        """Note that the server has replied to a call, if only by a refusal."""
        self.unheard.clear()
        self.gate.succeeded(moment, sending.sent)

    @property
    def median(self) -> float | None:
        """Median latency; None before the first answer."""
        if self._median is None and self._latencies:
            self._median = statistics.median(self._latencies)
        return self._median

    def second_at(self, sending: Sending) -> float:
        """Return the time at which to resend an ask that holds up the line."""
        if any(ask.item in self.model.scoring for ask in sending.asks):
            return math.inf  # its answer is there
        median = self.median
        patience = AT_FIRST if median is None else max(AT_LEAST, RESEND * median)
        return sending.sent + patience

    def silent(self, moment: float) -> bool:
        """Whether a server has left even a second request unanswered for too long."""
        second = any(sending.second for sending in self.wire)
        # An answer that is being scored shows that the server is there.
        if self._heard is None or not second or self.model.scoring:
            return False
        return moment - self._heard > max(SILENCE, RESEND * (self.median or 0.0))

    def give_up_if_alone(self, ask: Ask, moment: float) -> bool:
        """Give up an ask that is not answered while younger ones are: its model is not away."""
        stuck = [attempt for attempt in self.wire if ask in attempt.asks]
        # Nothing that was sent later has been answered, so it may be the server.
        if not stuck or stuck[0].sent >= self._proof:
            return False
        # They take no slot any more; if one is answered yet, that is paid.
        for attempt in stuck:
            attempt.second = True
        self._heard = moment
        error = ServerError("timeout", f"no answer within {moment - stuck[0].sent:.0f} s")
        call = FailedCall(stuck[0], [ask], Failure(error), moment)
        self._give_up(call, perhaps_server=False)
        return True

    def gone(self, moment: float, longer: float = 0.0) -> bool:
        """Whether the server has been away for longer than `SILENCE` plus `longer`."""
        return self.gate.state is not State.OPEN and self.gate.outage(moment) > SILENCE + longer

    def refused_for(self, moment: float) -> float:
        """Return for how many seconds the server has refused every request for its rate."""
        return 0.0 if self.refused is None else moment - self.refused

    def warn_of_scoring(self, sending: Sending, moment: float) -> None:
        """Warn once when an answer has arrived and scoring it takes long."""
        if moment - sending.sent > AT_FIRST and not self._slow_scoring:
            self._slow_scoring = True
            doc = self.book.journal.filed(sending.asks[0].item)
            what = "%s has answered document %r, and scoring it takes long: is a judge away?"
            logger.warning(what, self.name, doc)

    def rest(self) -> float:
        """Return the seconds to wait for calls in flight once nothing more is wanted."""
        return min(10.0, max(1.0, 3.0 * (self.median or 0.0)))

    # -- what came back --------------------------------------------------------------------

    def records(
        self, sending: Sending, answers: Sequence[Answer], new: set[tuple[str, Item]]
    ) -> list[Record]:
        """Return the records of answers, with costs; `new`: pairs answered in the same batch."""
        asks = {ask.item: ask for ask in sending.asks}
        records: list[Record] = []
        for answer in answers:
            ask, tokens = asks[answer.item], answer.tokens
            # Items that run concurrently share the hourly price.
            seconds, prior = answer.seconds / self.model.slots, answer.prior is not None
            cost, usd = self.plan.charges.charge(
                self.name, tokens, seconds, answer.judge_usd, prior
            )
            details: dict[str, Any] = {
                "model": self.name,
                "cost": cost,
                "usd": usd,
                "attempts": sending.attempt if sending.attempt > 1 else None,
                **answer.details(),
            }
            if ask.number < 0:
                records.append(BeyondBank(**details))
            elif self.book.has(ask.pair) or ask.pair in new:
                second = Lost(
                    model=self.name, item=ask.item, why="second answer", usd=usd, cost=cost,
                    column=BILLED if tokens is None or tokens.billed else ASSUMED,
                    after=self.book.n_told,
                )  # fmt: skip
                records.append(second)
            elif answer.score is None:
                reason = "; ".join(answer.unscored) or "the task reports no score for it"
                records.append(Fail(n=self._number(ask), reason=reason, **details))
            else:
                records.append(Tell(n=self._number(ask), score=answer.score, **details))
        return records

    def _number(self, ask: Ask) -> int | None:
        """Return an ask's number for the journal; None where answers count as they arrive."""
        return None if self.line.arrival else ask.number

    def count_unscored(self, answers: Sequence[Answer]) -> None:
        """Count answers that a failed judge left without a score as failed items."""
        for answer in answers:
            lost = answer.score is None and bool(answer.unscored)
            self.in_a_row = self.in_a_row + 1 if lost else 0
            reason, doc = "; ".join(answer.unscored), self.book.journal.filed(answer.item)
            if lost and self.name not in self.book.tally.set_aside:
                logger.warning("%s failed on document %r: %s", self.name, doc, reason)
                self._set_aside_if(self.in_a_row >= self.rule.in_a_row, reason)
            elif reason and not lost:  # warn once per model, then write to the log file only
                level = logging.INFO if self._unscored else logging.WARNING
                self._unscored = True
                what = "%s, document %r: scores are missing, the others are kept: %s"
                logger.log(level, what, self.name, doc, reason)

    def note_copies(self, answers: Sequence[Answer]) -> None:
        """Refuse a model whose repeats are copies of one answer; see `Copies`."""
        if self.plan.most_repeats > 1:
            for answer in answers:
                self.copies.note(answer.item, answer.responses)

    def lose(
        self,
        item: Item,
        column: str | None,
        why: str,
        cost: float | None = None,
        usd: float | None = None,
    ) -> None:
        """Record an attempt without an answer, which may have been billed all the same."""
        attempt = Lost(model=self.name, item=item, why=why)
        if column is not None:
            if cost is None:
                cost, usd = self.plan.charges.of_lost(self.name, item, column, self.book.tally)
            attempt = replace(attempt, column=column, usd=usd, cost=cost)
        self.line.lost(attempt)

    def failed(self, sending: Sending, error: Exception, moment: float) -> None:
        """Record what a failed call cost, and do what its failure calls for."""
        failure = Failure(error)
        if failure.remedy is Remedy.CANCELLED:
            return
        self._lose_attempts(sending, failure, getattr(error, "served", ()))
        call = FailedCall(sending, self._asks_without_twins(sending), failure, moment)
        # An entry that has worked is right: its server has gone, and may return.
        if failure.address and not self.has_answered:
            self._has_wrong_address(call)
        else:
            is_there = self._note_failure(call)
            self._follow_up(call, unreachable=failure.on_the_way and not is_there)

    def _follow_up(self, call: FailedCall, unreachable: bool) -> None:
        """Follow up a failed call by the first case that applies.

        `unreachable`: whether calls fail on the way to the server, and not this one alone.
        """
        asks, failure, remedy = call.asks, call.failure, self._remedy(call)
        retries, takes_part = remedy is Remedy.RETRY, self.name not in self.book.tally.set_aside
        # Asking less often mends a rate limit. One that asks for a pause longer than `SILENCE`, or
        # that refuses the probe of a model set aside as away, is an outage.
        paced = failure.status == 429 and (failure.wait or 0.0) <= SILENCE and takes_part
        hopeless = remedy is Remedy.DOCUMENT or call.is_last(self.rule)
        if takes_part and self._fails_alone(call):
            self._give_up(call, perhaps_server=True)
        elif remedy is Remedy.MODEL:
            self._refuse_beyond(asks, failure)
            self.set_aside(failure.text)
        elif paced:
            self._slow_down(call)
        elif remedy is Remedy.AWAY or (retries and unreachable):
            self._not_reached(call, unreachable)
        # One document may spoil the batch: each is asked by itself.
        elif len(asks) > 1:
            self.retries += [(call.moment, Sending([ask])) for ask in asks]
        elif asks and hopeless:
            self._give_up(call, perhaps_server=retries and failure.on_the_way)
        else:
            if not failure.on_the_way:
                self._is_there(call.sending, call.moment)
            self._try_again(call, call.sending.away)

    def _remedy(self, call: FailedCall) -> Remedy:
        """Return the remedy of a failure; the refusal of a server that answered may be a hiccup."""
        remedy, status = call.failure.remedy, call.failure.status
        hiccup = self.median is not None and status in (401, 403, 404)
        if remedy is Remedy.MODEL and hiccup and call.sending.attempt < self.rule.attempts:
            return Remedy.RETRY
        return remedy

    def displaced(self, sending: Sending, error: Exception) -> None:
        """Put what was asked at a place that is lost back into the line."""
        failure = Failure(error)
        self._lose_attempts(sending, failure, ())
        asks = [*self._asks_without_twins(sending), *self._take_all()]
        self._refuse_beyond(asks, failure)
        self.line.back(asks)

    @property
    def has_answered(self) -> bool:
        """Whether the model has answered, in this session or an earlier one."""
        return self.median is not None or bool(self.book.tally.answered.get(self.name))

    def _lose_attempts(self, sending: Sending, failure: Failure, parts: Sequence[Served]) -> None:
        """Record what a failed call cost: its answered `parts`, and an attempt of each ask."""
        for part in parts:
            if part.usage is not None:
                paid = self.plan.charges.of_part(self.name, part.usage)
                if paid.cost or paid.usd:
                    self.lose(sending.asks[0].item, BILLED, "part of a call", paid.cost, paid.usd)
        for ask in sending.asks:
            self.lose(ask.item, failure.column, failure.kind)

    def _asks_without_twins(self, sending: Sending) -> list[Ask]:
        """Return the open asks of a failed call that no second request carries."""
        calls = [*self.wire, *(waiting for _, waiting in self.retries)]
        twins = [
            call
            for call in calls
            if call is not sending and any(ask in call.asks for ask in sending.asks)
        ]
        for twin in twins:  # else two that take turns would be the first attempt for ever
            twin.attempt = max(twin.attempt, sending.attempt + 1)
        return [
            ask
            for ask in sending.asks
            if ask.state in (OPEN, LEFT) and not any(ask in twin.asks for twin in twins)
        ]

    def _slow_down(self, call: FailedCall) -> None:
        """Ask a server less often that refuses a request for its rate; it is there."""
        sent, wait = call.sending.sent, call.failure.wait
        if self.refused is None:
            self.refused = sent
        longest = 60.0 * self.rule.outage_minutes
        self.pace.refused(call.moment, sent, None if wait is None else min(wait, longest))
        self._is_there(call.sending, call.moment)
        self.line.back(call.asks)

    def _note_failure(self, call: FailedCall) -> bool:
        """Note a failure; return whether the server still counts as there.

        It does while few items have failed in a row. An item fails alone if a later request was
        answered, or if it fails again after an outage; items that fail alone speak against the
        server only once they are as many as the model has slots.
        """
        item, opened = call.sending.asks[0].item, self.gate.state is State.OPEN
        if self._of_item_or_server(call.failure):
            later = call.sending.sent < self._proof
            # Others were answered after it, or it had failed before the outage already.
            if later or (opened and item in self._tried):
                self.alone.add(item)
            if not later:
                self.unheard.add(item)
        fresh = len(self.unheard - self.alone)
        most = max(self.rule.in_a_row, self.model.slots)
        return opened and fresh < self.rule.in_a_row and len(self.unheard) < most

    @staticmethod
    def _of_item_or_server(failure: Failure) -> bool:
        """Whether a failure is of the item or of the server; a rate limit is of neither."""
        return failure.remedy in (Remedy.AWAY, Remedy.RETRY) and failure.status != 429

    def _fails_alone(self, call: FailedCall) -> bool:
        """Whether an item has failed at all attempts, before and after others were answered."""
        asked = call.sending.asks
        alone = bool(call.asks) and len(asked) == 1 and asked[0].item in self.alone
        return alone and self._of_item_or_server(call.failure) and call.is_last(self.rule)

    def sending(self, asks: list[Ask]) -> Sending:
        """Return a call with asks of the line; attempts before an outage count."""
        return Sending(asks, 1 + (self._tried.get(asks[0].item, 0) if len(asks) == 1 else 0))

    def _not_reached(self, call: FailedCall, unreachable: bool) -> None:
        """Try once more, or note that the server is away.

        A first failure may be a single dropped connection; a server that says how long to wait,
        several failures in a row or a probe that fails mean that the server is away.
        """
        told_to_wait = call.failure.wait is not None
        if call.sending.away or told_to_wait or unreachable or call.is_last(self.rule):
            self._is_away(call)
        else:
            self._try_again(call, away=1)

    def _has_wrong_address(self, call: FailedCall) -> None:
        """Set a model aside at first contact: waiting will not mend what its entry says."""
        self._refuse_beyond(call.asks, call.failure)
        self.set_aside(f"wrong address {call.failure.address} ({call.failure.text})")

    def _try_again(self, call: FailedCall, away: int) -> None:
        """Let a call's asks go out again after a pause; `away`: as of `Sending`."""
        # Another call may have answered them, or carries them still.
        if call.asks:
            attempt, failure = call.sending.attempt + 1, call.failure
            wait = failure.pause(self.rule, call.sending.attempt)
            logger.info(
                "%s, item %r: %s; attempt %d of %d in %.1f s", self.name,
                self.book.journal.filed(call.asks[0].item), failure.text, attempt,
                self.rule.attempts, wait,
            )  # fmt: skip
            self.retries.append((call.moment + wait, Sending(call.asks, attempt, away)))

    def _is_away(self, call: FailedCall) -> None:
        """Stop asking a model that is away; keep its open asks until it is back."""
        gate, failure, moment = self.gate, call.failure, call.moment
        self._refuse_beyond(call.asks, failure)
        if gate.state is not State.PROBING:  # a probe that fails says nothing about its item
            self._tried |= {ask.item: call.sending.attempt for ask in call.asks}
            self._tried |= {
                ask.item: retry.attempt - 1 for _, retry in self.retries for ask in retry.asks
            }
        self.line.back([*call.asks, *self._take_all()])
        before = gate.state
        gate.failed(moment, call.sending.sent, failure.text, failure.wait, failure.hung)
        if gate.state is State.CLOSED:
            self.closed(gate.reason)
        elif before is State.OPEN or gate.first_failure:
            logger.warning(
                "%s does not answer (%s); the run waits for it for up to %g minutes", self.name,
                gate.reason, self.rule.outage_minutes,
            )  # fmt: skip
            self.waited = 0
        elif (minutes := int(gate.outage(moment) // 60)) > self.waited:
            self.waited = minutes
            logger.warning(
                "%s has not answered for %d of %g minutes", self.name, minutes,
                self.rule.outage_minutes,
            )  # fmt: skip

    def _refuse_beyond(self, asks: Sequence[Ask], failure: Failure) -> None:
        """Raise for a failed document beyond the bank: a full run needs every document."""
        for ask in asks:
            if ask.number < 0:
                document = f"document {self.book.journal.filed(ask.item)!r}, which a full run needs"
                raise RunError(f"{ask.model} does not answer {document}: {failure.text}")

    def _give_up(self, call: FailedCall, perhaps_server: bool) -> None:
        """Record a failed item; `perhaps_server`: whether the server may be the cause."""
        [ask, *_], reason = call.asks, call.failure.text
        self._refuse_beyond([ask], call.failure)
        document = self.book.journal.filed(ask.item)
        logger.warning("%s failed on document %r: %s", self.name, document, reason)
        failed = Fail(
            n=self._number(ask), model=self.name, item=ask.item,
            reason=reason, attempts=call.sending.attempt, cost=0.0,
        )  # fmt: skip
        self.line.arrive([failed])
        self.in_a_row += 1
        many = self.in_a_row >= self.rule.in_a_row
        # The server answered, if only by refusing this document.
        if not perhaps_server:
            self._is_there(call.sending, call.moment)
        self._set_aside_if(many and not perhaps_server, reason)

    # -- whether it takes part -------------------------------------------------------------

    def _set_aside_if(self, many: bool, reason: str) -> None:
        """Set the model aside if too many of its items failed, in a row or overall."""
        tally = self.book.tally
        failed = len(tally.failures.get(self.name, ()))
        tried = failed + tally.answered.get(self.name, 0)
        if many:
            self.set_aside(f"{self.in_a_row} documents failed in a row; last: {reason}")
        elif tried >= 10 and failed > self.rule.share * tried:
            what = "answers" if self.plan.most_repeats > 1 else "documents"
            self.set_aside(f"{failed} of {tried} {what} failed; last: {reason}")

    def closed(self, reason: str) -> None:
        """Set aside a model whose outage has lasted too long."""
        minutes = self.rule.outage_minutes
        self.set_aside(f"away for more than {minutes:g} minutes; last: {reason}")

    def set_aside(self, reason: str, away: bool = False) -> None:
        """Stop asking the model: for good, or if it is only `away` until it returns."""
        name = self.name
        if away:
            reason = f"away: {reason}"
            logger.warning("%s is set aside for now (%s); the other models continue", name, reason)
            self.probe_asks = [ask for ask in self.book.unanswered if ask.model == name]
        elif name in self.book.tally.set_aside and name not in self.line.away:
            return
        else:
            logger.warning("%s is set aside: %s", name, reason)
            self.probe_asks.clear()
            self.refused = None
        self._take_all()
        self.line.set_aside(name, reason, away)

    def _take_all(self) -> list[Ask]:
        """Take the asks of all waiting attempts, so that they are not retried by themselves."""
        asks = [ask for _, sending in self.retries for ask in sending.asks]
        self.retries.clear()
        return asks

    def back(self) -> None:
        """Take up a model whose server answers again."""
        logger.warning("%s is back", self.name)
        self.probe_asks.clear()
        self.line.take_up(self.name)


def clock() -> float:
    """Return the seconds of a monotonic clock."""
    return time.monotonic()

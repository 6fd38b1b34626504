"""`Channel`: one model of a run, its requests in flight, their results and its next attempts.

After a failed call, the channel tries again, gives up the document or sets the model aside: see
`failures`. A model that is *set aside* is asked nothing more, for good or, if its server is only
*away*, until it answers a *probe*: a single request that finds out whether it is back. The ask that
holds up the *line* (the asks in the order in which answers take effect) may get a *second request*
while the first is in flight. A document *beyond the bank* is asked outside the ranking, for a full
run. Times are in seconds of one clock.
"""

from __future__ import annotations

import logging
import math
import statistics
from collections import deque
from collections.abc import Container, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ..errors import RunError
from ..harness.served import Served
from ..harness.transport import ServerError
from ..money import BILLED, UNKNOWN, column_of
from ..records import BeyondBank, Fail, Item, Lost, Record, Tell, Unrated
from ..runs.book import LEFT, OPEN, Ask
from ..runs.kept_answers import ModelItem
from ..runs.tally import LEFT_BEHIND
from .charges import Charge
from .copies import Copies
from .failures import Availability, Failure, Remedy, State
from .line import Line
from .models import Answer, Model
from .pace import Pace
from .plan import Plan
from .spec import FailureRule

logger = logging.getLogger(__name__)

#: An ask that holds up the line is sent again after this many median latencies of its model, but
#: not before so many seconds; and after so many seconds where the model has not answered yet.
PATIENCE, LEAST_PATIENCE, FIRST_PATIENCE = 5.0, 1.0, 30.0
#: Seconds without an answer after which to set a model aside that also failed, or left a second
#: request unanswered; a slow model gets `PATIENCE` of its median latencies.
SILENCE = 60.0
#: A model that has answered is set aside if so many documents in a row are refused, or if most fail
#: of at least so many.
FEWEST_TRIED = 10
#: What the log says of a document that failed; the table of the result counts them all.
FAILED = "%s failed on document %r: %s"


@dataclass(eq=False)
class Sending:
    """One call to a model.

    Attributes
    ----------
    asks : list of Ask
        Asks of one task.
    attempt : int
        Number of the attempt, from 1.
    attempts_away : int
        Attempts that found the server away.
    sent : float
        Time at which it went out.
    waited_since : float
        The same, later by as long as the run was busy since and collected no answers.
    extra : bool
        Whether it takes no slot: a second request for an ask that holds up the line, or a probe.
    previous : FailedCall or None
        The attempt that failed before it.
    is_pending : bool
        Whether the journal counts it as lost until it says what became of it.
    """

    asks: list[Ask]
    attempt: int = 1
    attempts_away: int = 0
    sent: float = 0.0
    waited_since: float = 0.0
    extra: bool = False
    previous: FailedCall | None = None
    is_pending: bool = False


@dataclass(frozen=True)
class FailedCall:
    """A call that failed, and what is still to be asked of it.

    Attributes
    ----------
    sending : Sending
    asks : list of Ask
        Those of its asks that are open and that no other call carries.
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

    Methods named by a participle (`sent`, `answered`, `failed`, `displaced`) note what happened to
    a call, and do what follows from it.

    Parameters
    ----------
    model : Model
    plan : Plan
    line : Line

    Attributes
    ----------
    availability : Availability
        Whether the model can be asked.
    pace : Pace
        When the next request may go out.
    wire : list of Sending
        Calls in flight.
    retries : list of (float, Sending)
        Waiting attempts, with the time from which they may go out.
    probe_asks : list of Ask
        Asks that were open when the model was set aside; probes use them.
    failed_in_a_row : int
        Documents given up without a success between them.
    refused_since : float or None
        Time since which the server has refused every request for its rate.
    hangs : bool
        Whether it was set aside because it accepts requests and answers none.
    opened, to_open : bool
        Whether the model is loaded or connected, and whether it should be.
    minutes_reported : int
        Minutes of the present outage that were reported.
    failed_since_answer, failing_alone : set of item
        Items that failed since the last answer; those that failed while others were answered.
    last_answered : list of Ask
        The last ask that was answered, if any: a probe asks it again where all that is open failed.
    silent_since : float or None
        Time of the last answer, or of the first request of those in flight, later by as long as the
        run was busy since and collected no answers.
    witness : Sending or None
        A call that asks `last_answered` again while others hang, to tell whether the server is
        there.
    """

    model: Model
    plan: Plan
    line: Line
    pace: Pace = field(default_factory=Pace)
    wire: list[Sending] = field(default_factory=list)
    retries: list[tuple[float, Sending]] = field(default_factory=list)
    probe_asks: list[Ask] = field(default_factory=list)
    failed_in_a_row: int = 0
    refused_since: float | None = None
    hangs: bool = False
    opened: bool = False
    to_open: bool = False
    minutes_reported: int = 0
    failed_since_answer: set[Item] = field(default_factory=set)
    failing_alone: set[Item] = field(default_factory=set)
    silent_since: float | None = None
    witness: Sending | None = None
    last_answered: list[Ask] = field(default_factory=list)
    #: Texts for the log of which the first was a warning; see `_warn_of_first`.
    _warned: set[str] = field(default_factory=set)
    #: When the youngest request was sent that was answered.
    _youngest_answered: float = -math.inf
    #: How each item failed that was given up since a second or later attempt was answered.
    _failed_for_good: list[str] = field(default_factory=list)
    #: Attempts of items that an outage put back into the line.
    _earlier_attempts: dict[Item, int] = field(default_factory=dict)
    #: When the requests went out that were answered last.
    _answered: deque[float] = field(default_factory=lambda: deque(maxlen=1000))
    _latencies: deque[float] = field(default_factory=lambda: deque(maxlen=99))
    _median: float | None = None

    def __post_init__(self) -> None:
        rule = self.failure_rule = self.plan.spec.failures
        self.outage_limit = 60.0 * rule.outage_minutes  # in seconds
        self.availability = Availability(self.outage_limit, rule.backoff, rule.max_backoff)
        self.name, self.book = self.model.name, self.line.book
        self.copies = Copies(self.model.title)
        # A resumed run has answers already.
        if self.plan.most_repeats > 1:
            for item, answer in self.book.arrived(self.name):
                self.copies.note(item, answer.responses)

    @property
    def free_slots(self) -> int:
        """Calls that may go out: second requests and answers that are being scored take no slot."""
        scoring = self.model.scoring
        busy = (
            not (sending.extra or (scoring and sending.asks[0].item in scoring))
            for sending in self.wire
        )
        return self.model.slots - sum(busy)

    @property
    def kept_slots(self) -> int:
        """Slots that are kept for waiting attempts, unless their items fail as usual."""
        return sum(not self._is_usual(sending.previous) for _, sending in self.retries)

    def wait(self, moment: float) -> float:
        """Return the seconds until the server's rate allows another call."""
        return self.pace.wait(moment, len(self.wire)) if self.model.remote else 0.0

    def take_due(self, moment: float) -> Sending | None:
        """Take a waiting attempt that is due, if any."""
        for number, (due, sending) in enumerate(self.retries):
            # A pause gives the server time; an item that is to blame itself needs none.
            if due <= moment or self._is_of_item(sending.previous):
                del self.retries[number]
                return sending
        return None

    def sent(self, sending: Sending, moment: float) -> None:
        """Note that a call has gone out."""
        sending.sent = sending.waited_since = moment
        # No answer was due until now.
        if not self.wire:
            self.silent_since = moment
        self.wire.append(sending)
        self.pace.sent(moment)

    def answered(self, sending: Sending, moment: float) -> None:
        """Note that a call has returned answers."""
        self.refused_since, self.hangs = None, False
        # A witness tells that the server is there, not that it answers what is open.
        if sending is not self.witness:
            self.silent_since, self.witness = moment, None
        # Further attempts help again.
        if sending.attempt > 1:
            self._failed_for_good.clear()
        self._answered.append(sending.sent)
        # The first request of what a second one has answered may hang for long.
        for ask in sending.asks if sending.extra else ():
            for first in self.calls_of(ask):
                self.leave_slot(first)
        self._youngest_answered = max(self._youngest_answered, sending.sent)
        self.last_answered = sending.asks[-1:]
        self._latencies.append(moment - sending.sent)
        self._median = None
        probing = self.availability.state is State.PROBING
        self._note_reply(sending, moment)
        # A server that has just come back may bear little. After the first answer of all it gets as
        # many requests as there are slots: what is wrong with its entry has shown by then.
        if probing and self.availability.state is State.OPEN and len(self._latencies) > 1:
            self.pace.begin_again(len(self.wire))
        self.pace.answered()

    def _note_reply(self, sending: Sending, moment: float) -> None:
        """Note that the server has replied to a call, if only by a refusal."""
        self.failed_since_answer.clear()
        self.availability.succeeded(moment, sending.sent)

    @property
    def median(self) -> float | None:
        """Median latency; None before the first answer."""
        if self._median is None and self._latencies:
            self._median = statistics.median(self._latencies)
        return self._median

    def resend_at(self, sending: Sending) -> float:
        """Return the time at which to send the ask of a call again if it holds up the line."""
        # It has been answered.
        if any(ask.item in self.model.scoring for ask in sending.asks):
            return math.inf
        median = self.median
        patience = FIRST_PATIENCE if median is None else max(LEAST_PATIENCE, PATIENCE * median)
        return sending.waited_since + patience

    def note_break(self, began: float, ended: float) -> None:
        """Note that the run collected no answers for a while, which is no silence of the server."""
        for sending in self.wire:
            sending.waited_since = min(sending.waited_since + ended - began, ended)
        if self.silent_since is not None:
            self.silent_since = min(self.silent_since + ended - began, ended)

    def silent(self, moment: float) -> bool:
        """Whether a server has left even a second request unanswered for too long."""
        # An answer that is being scored shows that the server is there.
        if self.silent_since is None or self.model.scoring:
            return False
        patience = max(SILENCE, PATIENCE * (self.median or 0.0))
        return moment - self.silent_since > patience and bool(self._asked_twice())

    def _asked_twice(self) -> list[Ask]:
        """Return the open asks that a second request carries."""
        asks = (ask for sending in self.wire if sending.extra for ask in sending.asks)
        return list({ask.item: ask for ask in asks if ask.state == OPEN}.values())

    def calls_of(self, ask: Ask) -> list[Sending]:
        """Return the calls in flight that carry an ask, the first one first."""
        return [sending for sending in self.wire if ask in sending.asks]

    def is_late(self, sending: Sending, moment: float) -> bool:
        """Whether a call should have been answered by now."""
        return moment >= self.resend_at(sending)

    def leave_slot(self, sending: Sending) -> None:
        """Free the slot of a call that is overdue; should its answer still come, it is paid."""
        if not sending.extra:
            sending.extra = True
            self.model.widen()
            self.note_pending(sending, LEFT_BEHIND)

    def give_up_alone(self, moment: float) -> bool:
        """Give up items of which two requests hang while others are answered; return False if none.

        The server is there if enough requests were answered that went out between theirs, or if it
        answered its `witness`, and a third request for the item hangs all the same.
        """
        # Never empty: a model without an ask that was sent twice is not `silent`.
        calls = [(ask, self.calls_of(ask)) for ask in self._asked_twice()]
        first = min(requests[0].sent for _, requests in calls)
        last = max(requests[-1].sent for _, requests in calls)
        # The last requests before an outage are answered in any order: as many as are in flight at
        # once tell nothing.
        fewest = len(calls) + self.model.slots
        others_answered = sum(first < sent < last for sent in self._answered) >= fewest
        to_blame = [
            (ask, requests)
            for ask, requests in calls
            if (others_answered or ask.item in self._earlier_attempts)
            and requests[0].sent < self._youngest_answered
            and self.is_late(requests[-1], moment)
        ]
        for ask, requests in to_blame:
            for sending in requests:
                self.leave_slot(sending)
            seconds = moment - requests[0].sent
            error = ServerError("timeout", f"no answer within {seconds:.0f} s")
            call = FailedCall(requests[-1], [ask], Failure(error), moment)
            self._give_up(call, perhaps_server=True)
        return bool(to_blame)

    def note_hanging(self) -> list[Sending]:
        """Return a third request for each item of which two hang, and note that it had two."""
        asks = [ask for ask in self._asked_twice() if ask.item not in self._earlier_attempts]
        further = [Sending([ask], self.calls_of(ask)[-1].attempt + 1, extra=True) for ask in asks]
        self._earlier_attempts |= {call.asks[0].item: call.attempt - 1 for call in further}
        return further

    def has_been_away(self, moment: float, longer: float = 0.0) -> bool:
        """Whether the server has been away for longer than `SILENCE` plus `longer`."""
        return (
            self.availability.state is not State.OPEN
            and self.availability.outage(moment) > SILENCE + longer
        )

    def refused_for(self, moment: float) -> float:
        """Return for how many seconds the server has refused every request for its rate."""
        return 0.0 if self.refused_since is None else moment - self.refused_since

    def warn_of_scoring(self, sending: Sending, moment: float) -> None:
        """Warn once when an answer has arrived and scoring it takes long."""
        what = "%s has answered document %r, and scoring it takes long: is %s?"
        if moment - sending.sent > FIRST_PATIENCE and what not in self._warned:
            doc = self.book.journal.item_to_json(sending.asks[0].item)
            cause = "a judge away" if self.model.is_judged else "this machine busy"
            self._warn_of_first(what, doc, cause)

    def last_wait(self) -> float:
        """Return the seconds to wait for calls in flight once nothing more is asked.

        They are three median latencies, but from 1 to 10.
        """
        return min(10.0, max(1.0, 3.0 * (self.median or 0.0)))

    # -- what came back --------------------------------------------------------------------

    def records(
        self, sending: Sending, answers: Sequence[Answer], arrived: set[ModelItem]
    ) -> list[Record]:
        """Return the journal's records of a call's answers, with costs.

        Parameters
        ----------
        sending : Sending
            The call.
        answers : sequence of Answer
        arrived : set of (model, item)
            Pairs whose answers arrived just before these, and are not in the book yet.
        """
        asks = {ask.item: ask for ask in sending.asks}
        return [
            self._record(asks[answer.item], answer, sending.attempt, arrived) for answer in answers
        ]

    def unrated(
        self,
        sending: Sending,
        answers: Sequence[Answer],
        moment: float,
        arrived: Container[ModelItem],
    ) -> list[Unrated]:
        """Return the journal's records of a call's new answers that a judge is to rate.

        Also note that the server has replied. For `arrived` see `records`; a second answer counts
        once it is rated.
        """
        self._note_reply(sending, moment)
        asks = {ask.item: ask for ask in sending.asks}
        return [
            Unrated(
                n=self._number(ask),
                beyond=ask.is_beyond_bank,
                **self._details(ask, answer, sending.attempt),
            )
            for answer in answers
            if ((ask := asks[answer.item]).is_beyond_bank or not self.book.has(ask.pair))
            and ask.pair not in self.book.unrated
            and ask.pair not in arrived
        ]

    def _record(
        self, ask: Ask, answer: Answer, attempt: int, arrived: Container[ModelItem]
    ) -> Record:
        """Return the journal's record of the answer to an ask; for the arguments see `records`."""
        details, tokens = self._details(ask, answer, attempt), answer.tokens
        # A second request was sent: the first answer counts, and both are paid.
        if not ask.is_beyond_bank and (self.book.has(ask.pair) or ask.pair in arrived):
            return Lost(
                model=self.name, item=ask.item, why="second answer", column=column_of(tokens),
                usd=details["usd"], cost=details["cost"], after=self.book.n_told,
            )  # fmt: skip
        if ask.is_beyond_bank:
            return BeyondBank(**details)
        if answer.score is None:
            reason = "; ".join(answer.unscored) or "the task reports no score for it"
            return Fail(n=self._number(ask), reason=reason, **details)
        return Tell(n=self._number(ask), score=answer.score, **details)

    def _details(self, ask: Ask, answer: Answer, attempt: int) -> dict[str, Any]:
        """Return what the journal keeps of an answer besides its number and its score."""
        # If the model is paid by the hour, items that run at the same time share its price.
        charge = self.plan.charges.charge(
            self.name,
            answer.tokens,
            seconds=answer.seconds / self.model.slots,
            judge_usd=answer.judge_usd,
            prior=answer.prior is not None,
        )
        return {
            "model": self.name,
            "cost": charge.cost,
            "usd": charge.usd,
            "attempts": attempt if attempt > 1 else None,
            **answer.details(),
        }

    def _number(self, ask: Ask) -> int | None:
        """Return an ask's number for the journal; None where its answer has no turn to wait for."""
        return None if self.line.arrival or ask.is_beyond_bank else ask.number

    def count_unscored(self, answers: Sequence[Answer]) -> None:
        """Count answers that a failed judge left without a score as failed items."""
        for answer in answers:
            lost = answer.score is None and bool(answer.unscored)
            self.failed_in_a_row = self.failed_in_a_row + 1 if lost else 0
            reason, doc = "; ".join(answer.unscored), self.book.journal.item_to_json(answer.item)
            if lost and self.name not in self.book.tally.set_aside:
                self._warn_of_first(FAILED, doc, reason)
                has_scores = bool(self.book.tally.answered.get(self.name))
                self._set_aside_if(self.failed_in_a_row >= self._longest_row(has_scores), reason)
            elif reason and not lost:
                what = "%s, document %r: scores are missing, the others are kept: %s"
                self._warn_of_first(what, doc, reason)

    def _warn_of_first(self, what: str, *details: object) -> None:
        """Warn of the model's first event of a kind; further ones go to the log file only.

        Parameters
        ----------
        what : str
            The kind, as a text with places for the model's name and the `details`.
        *details : object
        """
        level = logging.INFO if what in self._warned else logging.WARNING
        self._warned.add(what)
        logger.log(level, what, self.name, *details)

    def note_copies(self, answers: Sequence[Answer]) -> None:
        """Refuse a model whose repeats are copies of one answer; see `Copies`."""
        if self.plan.most_repeats > 1:
            for answer in answers:
                self.copies.note(answer.item, answer.responses)

    def lose(
        self,
        ask: Ask,
        column: str | None,
        why: str,
        charge: Charge | None = None,
    ) -> None:
        """Record an attempt without an answer, which may have been billed all the same.

        Parameters
        ----------
        ask : Ask
        column : str or None
            Whether it is billed, as `Failure.column` says.
        why : str
        charge : Charge, optional
            What it counts as, if known; default: as `Charges.of_lost_attempt` estimates it.
        """
        beyond = ask.is_beyond_bank
        attempt = Lost(model=self.name, item=ask.item, why=why, beyond=beyond)
        if column is not None:
            if charge is None:
                charge = self.plan.charges.of_lost_attempt(*ask.pair, column, self.book.tally)
            # The budget is that of the ranking.
            cost = None if beyond else charge.cost
            attempt = replace(attempt, column=column, usd=charge.usd, cost=cost)
        self.line.record_lost(attempt)

    def note_pending(self, sending: Sending, why: str) -> None:
        """Record a request as lost until its end is recorded, as no open ask stands for it.

        If the process is killed before, its cost then lies within the bill that the run states.
        """
        if sending.is_pending or sending.asks[0].is_beyond_bank:
            return
        sending.is_pending = True
        for ask in sending.asks:
            usd = self.plan.charges.of_lost_attempt(*ask.pair, UNKNOWN, self.book.tally).usd
            request = Lost(model=self.name, item=ask.item, why=why, column=UNKNOWN, usd=usd)
            self.line.record_lost(request)

    def failed(self, sending: Sending, error: Exception, moment: float) -> None:
        """Note a call that failed: record what it cost, and ask again, wait, give up or set aside.

        Parameters
        ----------
        sending : Sending
            The call.
        error : Exception
            What it ended with.
        moment : float
            When it failed, in seconds of the run's clock.
        """
        failure = Failure(error)
        # Nothing failed: the run itself took the call back.
        if failure.remedy is Remedy.CANCELLED:
            return
        self._lose_attempts(sending, failure, getattr(error, "served", ()))
        call = FailedCall(sending, self._asks_left_to(sending), failure, moment)
        # Nobody is at the address. If the model has answered before, its address is right, and the
        # server may return; else the entry is wrong, and waiting would not mend it.
        if failure.address and not self.has_answered:
            self._refuse_beyond_bank(call.asks, failure)
            self.set_aside(f"wrong address {failure.address} ({failure.text})")
            return
        is_there = self._note_failure(call)
        if failure.may_be_full:
            self.pace.full(len(self.wire))
        self._follow_up(call, unreachable=failure.on_the_way and not is_there)

    def _follow_up(self, call: FailedCall, unreachable: bool) -> None:
        """Do what a failed call requires: the first case that applies.

        Parameters
        ----------
        call : FailedCall
        unreachable : bool
            Whether several calls have failed on the way to the server, so that it may be away.
        """
        asks, failure, remedy = call.asks, call.failure, self._remedy(call)
        may_retry, takes_part = remedy is Remedy.RETRY, self.name not in self.book.tally.set_aside
        # A rate limit is mended by asking less often. If the server asks for a pause longer than
        # `SILENCE`, or refuses the probe of a model set aside as away, that is an outage instead.
        is_rate_limit = failure.status == 429 and (failure.wait or 0.0) <= SILENCE and takes_part
        no_attempt_left = remedy is Remedy.DOCUMENT or call.is_last(self.failure_rule)
        # Others are answered, so the server is not to blame for this item.
        if takes_part and (self._fails_alone(call) or self._fails_again(call)):
            self._give_up(call, perhaps_server=True)
        # No request to this model can be answered, as with a wrong key.
        elif remedy is Remedy.MODEL:
            self._refuse_beyond_bank(asks, failure)
            self.set_aside(failure.text)
        elif is_rate_limit:
            self._slow_down(call)
        elif remedy is Remedy.AWAY or (may_retry and unreachable):
            self._handle_unreachable(call, unreachable)
        # One document may spoil the batch: each is asked by itself.
        elif len(asks) > 1:
            self.retries += [(call.moment, Sending([ask])) for ask in asks]
        elif asks and no_attempt_left:
            self._give_up(call, perhaps_server=may_retry and failure.on_the_way)
        else:
            # The server did answer, if what failed is the reading or the scoring of its answer.
            if not failure.on_the_way:
                self._note_reply(call.sending, call.moment)
            self._try_again(call, call.sending.attempts_away)

    def _remedy(self, call: FailedCall) -> Remedy:
        """Return what mends a failure.

        After answers in this session, a 401, 403 or 404 may be a hiccup of the server: it is tried
        again before the model is set aside. Since an earlier session the key or the address may
        have changed.
        """
        remedy, status = call.failure.remedy, call.failure.status
        may_be_hiccup = self.median is not None and status in (401, 403, 404)
        attempts_left = call.sending.attempt < self.failure_rule.attempts
        if remedy is Remedy.MODEL and may_be_hiccup and attempts_left:
            return Remedy.RETRY
        return remedy

    def displaced(self, sending: Sending, error: Exception) -> None:
        """Put the asks of a model whose node was lost back into the line."""
        failure = Failure(error)
        self._lose_attempts(sending, failure, ())
        asks = [*self._asks_left_to(sending), *self._take_waiting_asks()]
        self._refuse_beyond_bank(asks, failure)
        self.line.put_back(asks)

    @property
    def has_answered(self) -> bool:
        """Whether the model has answered, in this session or an earlier one."""
        return self.median is not None or bool(self.book.tally.answered.get(self.name))

    def _lose_attempts(self, sending: Sending, failure: Failure, parts: Sequence[Served]) -> None:
        """Record what a failed call cost: its answered `parts`, and an attempt of each ask."""
        for part in parts:
            # Only what was counted can be charged.
            if part.usage is not None:
                paid = self.plan.charges.of_answered_request(self.name, part.usage)
                if paid.cost or paid.usd:
                    self.lose(sending.asks[0], BILLED, "part of a call", paid)
        for ask in sending.asks:
            # The answer is there and paid: what failed is its scoring, which is tried again.
            if (answer := self.book.unrated.get(ask.pair)) and not failure.on_the_way:
                self.model.unrated[ask.item] = answer
            else:
                self.lose(ask, failure.column, failure.kind)

    def _asks_left_to(self, failed: Sending) -> list[Ask]:
        """Return the open asks that a failed call alone carries; other calls of its asks count on.

        A call that holds up the line is sent a second time, so an ask may be in two calls. Of these
        the one that remains counts its attempts on from the one that failed. Else two calls that
        fail in turns would never come to a last attempt.
        """
        calls = [*self.wire, *(waiting for _, waiting in self.retries)]
        second_requests = [
            call
            for call in calls
            if call is not failed and any(ask in call.asks for ask in failed.asks)
        ]
        for second_request in second_requests:
            second_request.attempt = max(second_request.attempt, failed.attempt + 1)
        # A probe asks what its model left when it was set aside.
        return [
            ask
            for ask in failed.asks
            if ask.state in (OPEN, LEFT)
            and not any(ask in second_request.asks for second_request in second_requests)
        ]

    def _slow_down(self, call: FailedCall) -> None:
        """Ask a server less often that refuses a request for its rate; it is there."""
        sent, wait = call.sending.sent, call.failure.wait
        if self.refused_since is None:
            self.refused_since = sent
        wait = None if wait is None else min(wait, self.outage_limit)
        self.pace.refused(call.moment, sent, len(self.wire), wait)
        self._note_reply(call.sending, call.moment)
        self.line.put_back(call.asks)

    def _note_failure(self, call: FailedCall) -> bool:
        """Note a failure; return whether so few items have failed that the server is not away.

        Items count from the last answer on. An item fails alone if a request that was sent later
        was answered, or if the item failed before an outage and fails again after it. Then the item
        is to blame rather than the server, unless as many items fail alone as the model has slots.
        While an outage lasts, the answer is no.
        """
        item, opened = call.sending.asks[0].item, self.availability.state is State.OPEN
        if call.failure.is_of_item_or_server:
            others_answered = call.sending.sent < self._youngest_answered
            failed_before_outage = opened and item in self._earlier_attempts
            if others_answered or failed_before_outage:
                self.failing_alone.add(item)
            if not others_answered:
                self.failed_since_answer.add(item)
        against_server = len(self.failed_since_answer - self.failing_alone)
        limit = self.failure_rule.in_a_row
        limit_in_all = max(limit, self.model.slots)
        return opened and against_server < limit and len(self.failed_since_answer) < limit_in_all

    def _fails_alone(self, call: FailedCall) -> bool:
        """Whether a single item has failed at every attempt while others were answered."""
        asked = call.sending.asks
        alone = bool(call.asks) and len(asked) == 1 and asked[0].item in self.failing_alone
        return alone and call.failure.is_of_item_or_server and call.is_last(self.failure_rule)

    def _is_usual(self, call: FailedCall | None) -> bool:
        """Whether a call failed in the same way as the last few items that were given up.

        Its item will most likely be given up as well.
        """
        last = self._failed_for_good[-self.failure_rule.in_a_row :]
        return (
            call is not None
            and len(last) == self.failure_rule.in_a_row
            and {*last} == {call.failure.kind}
        )

    def _is_of_item(self, call: FailedCall | None) -> bool:
        """Whether an attempt failed as usual, and a request that was sent since is answered.

        Then the item is to blame, not the server.
        """
        return call is not None and call.moment < self._youngest_answered and self._is_usual(call)

    def _fails_again(self, call: FailedCall) -> bool:
        """Whether a single item has failed twice in the same way, for its own sake."""
        previous, alone = call.sending.previous, len(call.asks) == len(call.sending.asks) == 1
        return (
            alone
            and previous is not None
            and previous.failure.kind == call.failure.kind
            and self._is_of_item(previous)
        )

    def new_sending(self, asks: list[Ask]) -> Sending:
        """Return a call with asks of the line.

        The attempts of a single ask go on from those that it had before an outage.
        """
        before = self._earlier_attempts.get(asks[0].item, 0) if len(asks) == 1 else 0
        return Sending(asks, attempt=before + 1)

    def _handle_unreachable(self, call: FailedCall, unreachable: bool) -> None:
        """Try once more, or note that the server is away.

        A first failure may be a single dropped connection; a server that says how long to wait,
        several failures in a row or a probe that fails mean that the server is away.
        """
        told_to_wait = call.failure.wait is not None
        away_before = call.sending.attempts_away > 0
        if away_before or told_to_wait or unreachable or call.is_last(self.failure_rule):
            self._note_outage(call)
        else:
            self._try_again(call, attempts_away=1)

    def _try_again(self, call: FailedCall, attempts_away: int) -> None:
        """Let a call's asks go out again after a pause; for `attempts_away` see `Sending`."""
        # Another call may have answered them, or carries them still.
        if call.asks:
            attempt, failure = call.sending.attempt + 1, call.failure
            wait = failure.pause(self.failure_rule, call.sending.attempt)
            logger.info(
                "%s, item %r: %s; attempt %d of %d in %.1f s", self.name,
                self.book.journal.item_to_json(call.asks[0].item), failure.text, attempt,
                failure.attempts(self.failure_rule), wait,
            )  # fmt: skip
            further = Sending(call.asks, attempt, attempts_away, previous=call)
            self.retries.append((call.moment + wait, further))

    def _note_outage(self, call: FailedCall) -> None:
        """Stop asking a model that is away; keep its open asks until it is back."""
        availability, failure, moment = self.availability, call.failure, call.moment
        self._refuse_beyond_bank(call.asks, failure)
        # A probe that fails says nothing about its item.
        if availability.state is not State.PROBING:
            self._earlier_attempts |= {ask.item: call.sending.attempt for ask in call.asks}
            self._earlier_attempts |= {
                ask.item: retry.attempt - 1 for _, retry in self.retries for ask in retry.asks
            }
        self.line.put_back([*call.asks, *self._take_waiting_asks()])
        before = availability.state
        availability.failed(moment, call.sending.sent, failure.text, failure.wait, failure.hung)
        # The outage has reached its limit.
        if availability.state is State.CLOSED:
            self.set_aside_for_outage(availability.reason)
        # The outage has just begun, perhaps at a probe that had to show that the model works.
        elif before is State.OPEN or availability.first_failure:
            logger.warning(
                "%s does not answer (%s); it is asked again for up to %g min", self.name,
                availability.reason, self.failure_rule.outage_minutes,
            )  # fmt: skip
            self.minutes_reported = 0
        # Once a minute is enough.
        elif (minutes := int(availability.outage(moment) // 60)) > self.minutes_reported:
            self.minutes_reported = minutes
            logger.warning(
                "%s has not answered for %d of %g min", self.name, minutes,
                self.failure_rule.outage_minutes,
            )  # fmt: skip

    def _refuse_beyond_bank(self, asks: Sequence[Ask], failure: Failure) -> None:
        """Raise for a failed document beyond the bank: a full run needs every document."""
        for ask in asks:
            if ask.is_beyond_bank:
                document = (
                    f"document {self.book.journal.item_to_json(ask.item)!r}, which a full run needs"
                )
                raise RunError(
                    f"{ask.model} does not answer {document}: {failure.text}; all other answers "
                    "are kept, and the same command goes on once it is answered"
                )

    def _give_up(self, call: FailedCall, perhaps_server: bool) -> None:
        """Record a failed item; where the server may be the cause, it says nothing of the model."""
        [ask, *_], reason = call.asks, call.failure.text
        self._refuse_beyond_bank([ask], call.failure)
        self._warn_of_first(FAILED, self.book.journal.item_to_json(ask.item), reason)
        failed = Fail(
            n=self._number(ask), model=self.name, item=ask.item,
            reason=reason, attempts=call.sending.attempt, cost=0.0,
        )  # fmt: skip
        self.line.arrive([failed])
        self.failed_in_a_row += 1
        if call.failure.is_of_item_or_server:
            self._failed_for_good.append(call.failure.kind)
        # The server answered, if only by refusing this document.
        if not perhaps_server:
            self._note_reply(call.sending, call.moment)
        self._set_aside_if(not perhaps_server and self._refuses_all(call.sending), reason)

    def _refuses_all(self, refused: Sending) -> bool:
        """Whether so many documents were refused in a row that the model refuses all."""
        limit = self._longest_row(self.has_answered)
        # A refusal is quicker than an answer: what was asked before it may be answered yet.
        earlier_is_open = any(sending.sent < refused.sent for sending in self.wire)
        return self.failed_in_a_row >= limit and not earlier_is_open

    def _longest_row(self, has_answered: bool) -> int:
        """Return after how many failed documents in a row a model is set aside.

        One that has answered may refuse some (too long for it, or filtered), and its judge may rate
        some not, several in a row by chance, so more of them must fail.
        """
        limit = self.failure_rule.in_a_row
        return max(limit, FEWEST_TRIED) if has_answered else limit

    # -- whether it takes part -------------------------------------------------------------

    def _set_aside_if(self, too_many_in_a_row: bool, reason: str) -> None:
        """Set the model aside if too many of its items failed, in a row or overall."""
        tally = self.book.tally
        failed = len(tally.failures.get(self.name, ()))
        tried = failed + tally.answered.get(self.name, 0)
        if too_many_in_a_row:
            self.set_aside(f"{self.failed_in_a_row} documents failed in a row; last: {reason}")
        elif tried >= FEWEST_TRIED and failed > self.failure_rule.share * tried:
            what = "answers" if self.plan.most_repeats > 1 else "documents"
            self.set_aside(f"{failed} of {tried} {what} failed; last: {reason}")

    def set_aside_for_outage(self, reason: str) -> None:
        """Set aside a model whose outage has lasted too long."""
        minutes = self.failure_rule.outage_minutes
        self.set_aside(f"away for more than {minutes:g} min; last: {reason}")

    def set_aside(self, reason: str, away: bool = False) -> None:
        """Stop asking the model: for good, or if it is only `away` until it returns."""
        name = self.name
        if away:
            reason = f"away: {reason}"
            logger.warning("%s is set aside until it answers again (%s)", name, reason)
            self.probe_asks = [ask for ask in self.book.unanswered if ask.model == name]
        # It is set aside for good already.
        elif name in self.book.tally.set_aside and name not in self.line.away:
            return
        else:
            logger.warning("%s is set aside: %s", name, reason)
            self.probe_asks.clear()
            self.refused_since = None
        self._take_waiting_asks()
        for sending in self.wire:
            self.note_pending(sending, LEFT_BEHIND)
        self.line.set_aside(name, reason, away)

    def _take_waiting_asks(self) -> list[Ask]:
        """Take the asks of all waiting attempts, so that they are not retried by themselves."""
        asks = [ask for _, sending in self.retries for ask in sending.asks]
        self.retries.clear()
        return asks

    def take_up(self) -> None:
        """Ask a model again whose server answers again."""
        logger.warning("%s is back", self.name)
        self.probe_asks.clear()
        self.line.take_up(self.name)

"""`Attempts`: what became of each call, what it cost, and what a failure means for its model."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

from ..errors import RunError
from ..money import ASSUMED, BILLED
from ..runs.book import LEFT, OPEN, Ask, Book
from ..runs.journal import Item, Record
from .failures import Failure, Remedy
from .lane import Lane, Sending, State
from .line import Line
from .models import Answer
from .plan import Plan

logger = logging.getLogger(__name__)


class Attempts:
    """Records answers and failures; decides who is asked again, later, or not at all.

    Parameters
    ----------
    plan : Plan
    book : Book
    line : Line
    """

    def __init__(self, plan: Plan, book: Book, line: Line) -> None:
        self.plan = plan
        self.book = book
        self.line = line
        self.rule = plan.spec.failures
        self._unscored: set[str] = set()

    def records(
        self, lane: Lane, sending: Sending, answers: Sequence[Answer], new: set[Any]
    ) -> list[Record]:
        """An answer's record, with what it cost."""
        asks, records = {ask.item: ask for ask in sending.asks}, []
        for answer in answers:
            ask, details = asks[answer.item], answer.details()
            till = self.plan.tills[lane.name]
            if answer.prior is not None:
                cost, usd = till.charge_judge(answer.judge_usd)
            else:  # items that run at the same time share the hour that is paid for
                seconds = answer.seconds / lane.model.slots
                cost, usd = till.charge(answer.tokens, seconds, answer.judge_usd)
            pair = {"model": lane.name, "item": answer.item}
            if usd is not None:
                details["usd"] = usd
            if sending.attempt > 1:
                details["attempts"] = sending.attempt
            number = {} if self.line.order.arrival else {"n": ask.number}
            tokens = answer.tokens
            if ask.number < 0:
                note = {"op": "note", "event": "beyond the bank", **pair, "cost": cost}
                records.append({**note, **details})
            elif self.book.has(ask.pair) or ask.pair in new:
                column = ASSUMED if tokens is not None and tokens.source != "usage" else BILLED
                paid = {"cost": cost, "usd": usd, "column": column, "why": "second answer"}
                records.append({"op": "lost", "after": self.book.told, **pair, **paid})
            elif answer.score is None:
                reason = "; ".join(answer.unscored) or "the task reports no score for it"
                facts = {"reason": reason, "cost": cost}
                records.append({"op": "fail", **number, **pair, **facts, **details})
            else:
                facts = {"score": answer.score, "cost": cost}
                records.append({"op": "tell", **number, **pair, **facts, **details})
        return records

    # -- what failed -----------------------------------------------------------------------

    def failed(self, lane: Lane, sending: Sending, error: Exception, now: float) -> None:
        failure, gate, rule = Failure(error), lane.gate, self.rule
        remedy = failure.remedy
        if remedy is Remedy.CANCELLED:
            return
        for served in getattr(error, "served", ()):
            price = lane.model.price
            if served.usage is not None and price.by_tokens:
                usd = price.cost(served.usage, 0.0)
                self.lose(lane.name, sending.asks[0].item, BILLED, "part of a call", usd)
        for ask in sending.asks:
            self.lose(lane.name, ask.item, failure.column, failure.kind)
        elsewhere = [one for one in (*lane.wire, *(s for _, s in lane.again)) if one is not sending]
        asks = [a for a in sending.asks if not any(a in one.asks for one in elsewhere)]
        asks = [a for a in asks if a.state in (OPEN, LEFT)]
        hiccup = lane.median is not None and failure.status in (401, 403, 404)
        if remedy is Remedy.MODEL and hiccup and sending.attempt < rule.attempts:
            remedy = Remedy.RETRY  # it has answered before
        probing = gate.state is not State.OPEN and failure.on_the_way
        last = sending.attempt >= failure.attempts(rule)
        if remedy is Remedy.MODEL:
            self._refuse_beyond(asks, failure)
            self.set_aside(lane, failure.text)
        elif failure.status == 429:
            if lane.refused is None:
                lane.refused = sending.sent
            limit = 60.0 * rule.outage_minutes
            wait = None if failure.wait is None else min(failure.wait, limit)
            lane.pace.refused(now, sending.sent, wait)
            gate.succeeded(now, sending.sent)
            self.line.back(asks)
        elif remedy is Remedy.AWAY or (remedy is Remedy.RETRY and probing):
            # A first failure may be one dropped connection; a server that says how long to wait,
            # or a probe that fails, speaks for all.
            if sending.away or failure.wait is not None or probing or last:
                self._is_away(lane, asks, sending.sent, failure, now)
            else:
                self._again(lane, Sending(asks, sending.attempt + 1, 1), failure, now)
        elif len(asks) > 1:
            lane.again += [(now, Sending([ask])) for ask in asks]  # one may spoil a whole batch
        elif asks and (remedy is Remedy.DOCUMENT or last):
            passes = remedy is Remedy.RETRY and failure.on_the_way
            self._give_up(lane, asks[0], failure, sending, passes, now)
        else:
            if not failure.on_the_way:
                gate.succeeded(now, sending.sent)  # the server is there
            self._again(lane, Sending(asks, sending.attempt + 1, sending.away), failure, now)

    def _again(self, lane: Lane, sending: Sending, failure: Failure, now: float) -> None:
        if sending.asks:
            wait = failure.pause(self.rule, sending.attempt - 1)
            logger.info(
                "%s, item %r: %s; attempt %d of %d in %.1f s", lane.name, sending.asks[0].item[1],
                failure.text, sending.attempt, self.rule.attempts, wait,
            )  # fmt: skip
            lane.again.append((now + wait, sending))

    def lose(
        self, name: str, item: Item, column: str | None, why: str, usd: float | None = None
    ) -> None:
        record: Record = {"model": name, "item": item, "why": why}
        if column is not None:
            expected = self.plan.expected_usd(name, item) if usd is None else usd
            in_usd = self.plan.currency == "usd"
            cost = (expected or 0.0) if in_usd else 0.0
            record |= {"column": column, "usd": expected, "cost": cost}
        self.line.lose(record)

    def _is_away(
        self, lane: Lane, asks: Sequence[Ask], sent: float, failure: Failure, now: float
    ) -> None:
        """Stop asking a model that is away; its open asks wait until it is back."""
        gate = lane.gate
        self._refuse_beyond(asks, failure)
        self.line.back([*asks, *lane.take_all()])
        before = gate.state
        gate.failed(now, sent, failure.text, failure.wait)
        if gate.state is State.CLOSED:
            self.closed(lane, gate.reason)
        elif before is State.OPEN or gate.first_failure:
            logger.warning(
                "%s does not answer (%s); the run waits for it for up to %g minutes", lane.name,
                gate.reason, self.rule.outage_minutes,
            )  # fmt: skip
            lane.waited = 0
        elif (minutes := int(gate.outage(now) // 60)) > lane.waited:
            lane.waited = minutes
            logger.warning(
                "%s has not answered for %d of %g minutes", lane.name, minutes,
                self.rule.outage_minutes,
            )  # fmt: skip

    @staticmethod
    def _refuse_beyond(asks: Sequence[Ask], failure: Failure) -> None:
        """Refuse to complete a full run without one of its documents."""
        for ask in asks:
            if ask.number < 0:
                what = (
                    f"{ask.model} does not answer document {ask.item[1]!r}, which a full run needs"
                )
                raise RunError(f"{what}: {failure.text}")

    def closed(self, lane: Lane, reason: str) -> None:
        minutes = self.rule.outage_minutes
        self.set_aside(lane, f"away for more than {minutes:g} minutes; last: {reason}")

    def _give_up(
        self, lane: Lane, ask: Ask, failure: Failure, sending: Sending, passes: bool, now: float
    ) -> None:
        """Record a failed item; `passes`: whether the trouble may be the server's and pass."""
        self._refuse_beyond([ask], failure)
        reason, name = failure.text, lane.name
        logger.warning("%s failed on document %r: %s", name, ask.item[1], reason)
        number = {} if self.line.order.arrival else {"n": ask.number}
        pair = {"model": name, "item": ask.item}
        facts = {"reason": reason, "attempts": sending.attempt, "cost": 0.0}
        self.line.arrive([{"op": "fail", **number, **pair, **facts}])
        lane.in_a_row += 1
        many = lane.in_a_row >= self.rule.in_a_row
        if not passes:
            lane.gate.succeeded(now, sending.sent)  # the server is there
        elif many:
            said_of_all = f"{lane.in_a_row} documents failed in a row; {reason}"
            self.line.back(lane.take_all())
            lane.gate.failed(now, sending.sent, said_of_all)
            lane.in_a_row = 0
            logger.warning("%s is away: %s", name, lane.gate.reason)
        self._set_aside_if(lane, many and not passes, reason)

    def count_unscored(self, lane: Lane, answers: Sequence[Answer]) -> None:
        """Count answers that a failed judge left without a score as failed items."""
        for answer in answers:
            lost = answer.score is None and bool(answer.unscored)
            lane.in_a_row = lane.in_a_row + 1 if lost else 0
            reason, name = "; ".join(answer.unscored), lane.name
            if lost and name not in self.book.tally.set_aside:
                logger.warning("%s failed on document %r: %s", name, answer.item[1], reason)
                self._set_aside_if(lane, lane.in_a_row >= self.rule.in_a_row, reason)
            elif reason and not lost:  # said once for a model, and from then on to the log file
                level = logging.INFO if name in self._unscored else logging.WARNING
                self._unscored.add(name)
                what = "%s, document %r: scores are missing, the others are kept: %s"
                logger.log(level, what, name, answer.item[1], reason)

    def _set_aside_if(self, lane: Lane, many: bool, reason: str) -> None:
        """Set a model aside if too many of its items failed, in a row or in all."""
        tally = self.book.tally
        failed = len(tally.failures.get(lane.name, ()))
        tried = failed + tally.answered.get(lane.name, 0)
        if many:
            self.set_aside(lane, f"{lane.in_a_row} documents failed in a row; last: {reason}")
        elif tried >= 10 and failed > self.rule.share * tried:
            self.set_aside(lane, f"{failed} of {tried} documents failed; last: {reason}")

    # -- who takes part --------------------------------------------------------------------

    def set_aside(self, lane: Lane, reason: str) -> None:
        """Set a model aside: it is asked nothing from now on."""
        if lane.name in self.book.tally.set_aside and lane.name not in self.line.away:
            return
        logger.warning("%s is set aside: %s", lane.name, reason)
        lane.take_all()
        lane.left.clear()
        lane.refused = None
        self.line.put_aside(lane.name, reason, back=False)

    def put_aside(self, lane: Lane) -> None:
        """Go on without a model that is away, until it is back."""
        name, reason = lane.name, f"away: {lane.gate.reason}"
        logger.warning("%s is put aside (%s); the other models continue", name, reason)
        lane.take_all()
        lane.left = [ask for ask in self.book.unanswered if ask.model == name]
        self.line.put_aside(name, reason, back=True)

    def back(self, lane: Lane) -> None:
        logger.warning("%s is back", lane.name)
        lane.left.clear()
        self.line.take_up(lane.name)

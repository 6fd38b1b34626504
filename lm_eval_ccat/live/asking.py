"""One call to a model and what becomes of it: recorded, tried again, given up, or set aside."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from ..errors import RunError
from ..runs.journaled import LOST, JournaledRanker
from .availability import Availability, State
from .entries import FailureRule
from .failures import (
    Verdict,
    attempts_for,
    describe,
    is_on_the_way,
    judge,
    pause,
    retry_after,
)
from .worker import Answer, Item, NoScoresError, Worker

logger = logging.getLogger(__name__)


class Asking:
    """Puts documents to models and keeps the books of what failed.

    Parameters
    ----------
    ranker : JournaledRanker
    names : iterable of str
        Models that this process asks.
    rule : FailureRule
    expected : callable
        ``(model, item) -> cost`` of an attempt of which nobody knows whether it was billed.
    left_over : dict of str to deque
        Documents that are claimed and wait to be asked.
    needs_two : bool
        Whether all is about comparing models, so that a last one left is asked nothing more.
    """

    def __init__(
        self,
        ranker: JournaledRanker,
        names: Iterable[str],
        rule: FailureRule,
        expected: Callable[[str, Item], float],
        left_over: dict[str, deque[Item]],
        needs_two: bool = True,
    ) -> None:
        self.ranker = ranker
        self.rule = rule
        self.stopped = threading.Event()
        self.gates = {
            name: Availability(60.0 * rule.outage_minutes, rule.backoff, rule.max_backoff)
            for name in names
        }
        self.beyond: set[Item] = set()
        self.expected = expected
        self._left_over = left_over
        self._needs_two = needs_two
        self._in_a_row = dict.fromkeys(self.gates, 0)
        self._unscored: set[str] = set()

    def is_out(self, name: str) -> bool:
        """Whether a model is not asked any more."""
        return self.stopped.is_set() or name in self.ranker.tally.set_aside

    def administer(self, worker: Worker, items: list[Item]) -> None:
        """Put a batch to a model, one call for each task."""
        for batch in _by_task(items):
            self._attempt(worker, batch)

    def _attempt(self, worker: Worker, items: list[Item]) -> None:
        """One call, with retries; a failing batch is taken apart."""
        gate, away = self.gates[worker.name], 0
        for attempt in range(1, self.rule.attempts + 1):
            if self.is_out(worker.name):
                return
            sent = time.monotonic()
            try:
                answers = worker.administer(items)
            except NoScoresError:
                raise
            except Exception as error:
                verdict = judge(error)
                if verdict is Verdict.CANCELLED:
                    return
                if verdict is Verdict.MODEL:
                    self.set_aside(worker.name, describe(error))
                    return
                if verdict is Verdict.RETRY:
                    self._lose(worker.name, items)
                probing = gate.state is not State.OPEN and is_on_the_way(error)
                if verdict is Verdict.AWAY or (verdict is Verdict.RETRY and probing):
                    away += 1
                    # A first failure may be one dropped connection; a server that says how long
                    # to wait, or a probe that fails, speaks for all.
                    if away > 1 or retry_after(error) is not None or probing:
                        self._is_away(worker.name, items, sent, error)
                        return
                else:
                    if len(items) > 1:
                        # One document may spoil a whole batch: find it.
                        for item in items:
                            self._attempt(worker, [item])
                        return
                    last = attempt >= attempts_for(self.rule, error)
                    if verdict is Verdict.DOCUMENT or last:
                        mended = verdict is Verdict.RETRY and is_on_the_way(error)
                        self._give_up(worker.name, items[0], error, attempt, sent, mended)
                        return
                wait = pause(self.rule, attempt, error)
                logger.info(
                    "%s, document %r: %s; attempt %d of %d in %.1f s",
                    worker.name, items[0], describe(error), attempt + 1, self.rule.attempts, wait,
                )  # fmt: skip
                self.stopped.wait(wait)
            else:
                self._record(worker.name, answers)
                with self.ranker.changed:
                    gate.succeeded(time.monotonic(), sent)
                self._count_unscored(worker.name, answers)
                return
        # One attempt in all, and no connection.
        self._is_away(worker.name, items, sent, ConnectionError("no connection"))

    def _record(self, name: str, answers: Sequence[Answer]) -> None:
        for answer in answers:
            item, details = answer.item, answer.details()
            cost = answer.cost + self._taken(name, item, details)
            if item in self.beyond:
                # Beyond the bank: part of a full run, nothing that the ranking is told.
                self.ranker.note("beyond the bank", model=name, item=item, **details)
            elif answer.score is None:
                reason = "; ".join(answer.unscored) or "the task reports no score for it"
                self.ranker.fail(name, item, reason, cost=cost, **details)
            else:
                self.ranker.tell(name, item, answer.score, cost, **details)
                if answer.unscored:
                    self._say_unscored(name, answer)

    # -- what failed -----------------------------------------------------------------------

    def _lose(self, name: str, items: Sequence[Item]) -> None:
        """Count an attempt that brought nothing and may have been billed all the same."""
        for item in items:
            if cost := self.expected(name, item):
                self.ranker.note(LOST, model=name, item=item, cost=cost)

    def _taken(self, name: str, item: Item, details: dict[str, Any]) -> float:
        """What lost attempts of a document count, noted among the details of its record."""
        with self.ranker.changed:
            lost = self.ranker.tally.lost.get((name, item), 0.0)
        if lost:
            details["lost_attempts_cost"] = lost
        return lost

    def _is_away(self, name: str, items: list[Item], sent: float, error: Exception) -> None:
        """Nobody asks the model until it is back; what was asked waits for that."""
        gate = self.gates[name]
        if self.beyond.intersection(items):
            raise RunError(f"{name} is away: {describe(error)}") from error
        with self.ranker.changed:
            self._left_over[name].extend(items)
            before = gate.state
            gate.failed(time.monotonic(), sent, describe(error), retry_after(error))
        if gate.state is State.CLOSED:
            minutes = self.rule.outage_minutes
            self.set_aside(name, f"away for more than {minutes:g} minutes; last: {gate.reason}")
        elif before is State.OPEN or gate.first_failure:
            logger.warning("%s is away (%s); it is asked again when it is back", name, gate.reason)

    def _give_up(
        self, name: str, item: Item, error: Exception, attempts: int, sent: float, passes: bool
    ) -> None:
        """Record a failed document; `passes`: whether the trouble may be the server's and pass."""
        reason = describe(error)
        if item in self.beyond:
            raise RunError(f"document {item!r}, which the bank does not know: {reason}") from error
        logger.warning("%s cannot do document %r: %s", name, item, reason)
        details: dict[str, Any] = {}
        cost = self._taken(name, item, details)
        self.ranker.fail(name, item, reason, attempts=attempts, cost=cost, **details)
        gate = self.gates[name]
        with self.ranker.changed:
            self._in_a_row[name] += 1
            count = self._in_a_row[name]
            many = count >= self.rule.in_a_row
            if not passes:
                gate.succeeded(time.monotonic(), sent)  # the server is there
            elif many:
                gate.failed(time.monotonic(), sent, f"{count} documents failed in a row; {reason}")
                self._in_a_row[name] = 0
                logger.warning("%s is away: %s", name, gate.reason)
                many = False
        self._set_aside_if(many, name, count, reason)

    def _say_unscored(self, name: str, answer: Answer) -> None:
        """Say once for a model, and from then on to the log file, that scores are missing."""
        level = logging.INFO if name in self._unscored else logging.WARNING
        self._unscored.add(name)
        logger.log(
            level,
            "%s, document %r: scores are missing, the others are kept: %s",
            name, answer.item, "; ".join(answer.unscored),
        )  # fmt: skip

    def _count_unscored(self, name: str, answers: Sequence[Answer]) -> None:
        """Answers without any score that counts, because a judge failed, are failed documents."""
        for answer in answers:
            lost = answer.score is None and bool(answer.unscored)
            with self.ranker.changed:
                count = self._in_a_row[name] = self._in_a_row[name] + 1 if lost else 0
            if lost and not self.is_out(name):
                reason = "; ".join(answer.unscored)
                logger.warning("%s cannot do document %r: %s", name, answer.item, reason)
                self._set_aside_if(count >= self.rule.in_a_row, name, count, reason)

    def _set_aside_if(self, many: bool, name: str, count: int, reason: str) -> None:
        """Ask a model nothing more of which too many documents failed, in a row or in all."""
        with self.ranker.changed:
            failed = len(self.ranker.tally.failures.get(name, ()))
            tried = failed + self.ranker.tally.answered.get(name, 0)
        if many:
            self.set_aside(name, f"{count} documents failed in a row; last: {reason}")
        elif tried >= 10 and failed > self.rule.share * tried:
            self.set_aside(name, f"{failed} of {tried} documents failed; last: {reason}")

    def set_aside(self, name: str, reason: str) -> None:
        """Ask nothing more of a model; nor of a last one that is left with nobody to compare."""
        logger.warning("%s is set aside: %s", name, reason)
        self.ranker.drop(name, reason)
        if not self._needs_two:
            return
        with self.ranker.changed:
            ranking = self.ranker.ranker.result()
            everyone = len(ranking.estimates)
            left = [model for model in ranking.order if model not in ranking.set_aside]
        if everyone > 1 and len(left) == 1:
            self.ranker.stop(f"only {left[0]} is left, with no model to compare it to")


def _by_task(items: list[Item]) -> list[list[Item]]:
    """Items of each task together, as one call of the harness is of one task."""
    found: dict[Any, list[Item]] = {}
    for item in items:
        found.setdefault(item[0] if isinstance(item, tuple) else None, []).append(item)
    return list(found.values())

"""`Line`: answers take effect in the order in which they were asked.

Every ask has a number, and answers are told to the Ranker in the order of these numbers, whenever
they arrive. After each answer told, before the next, the Ranker asks until every model has as many
untold asks as its window holds, or nothing is wanted. What is asked then depends on the seed and on
the answers told before, and on nothing else: not on slots, latencies, rate limits or retries.

A line knows no clock, no thread and no network. Whoever sends takes asks by `next`, brings answers
by `arrive`, and says when a model is away or the time is up; every call leaves the journal, the
Ranker and the line in step.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from ..runs.book import OPEN, Ask, Book
from ..runs.journal import Item, Record

#: Asks of one model that may run ahead of the answers told, whatever its slots up to half of it.
WINDOW = 16
#: The part of the Ranker's best choice that the best of the models with room must be worth.
WORTH = 0.25


def window_of(slots: int) -> int:
    """Asks of a model that may run ahead, for so many requests at once.

    >>> window_of(1), window_of(8), window_of(20)
    (16, 16, 40)
    """
    return max(WINDOW, 2 * slots)


@dataclass(eq=False)
class Line:
    """Asks in the order of their numbers, between a `Book` and whoever sends them.

    Parameters
    ----------
    book : Book
        In step with its journal.
    windows : dict of model to int
        Most asks of a model that are not told; how far asks may run ahead of answers.
    arrival : bool
        Whether answers are told as they come: more throughput, and no two runs alike.
    warmup : int
        Asks that every model gets whatever the answers are.
    at_once : bool
        Whether these are asked at once, however wide the window is.
    needs_two : bool
        Whether all is about comparing models, so that a last one left is asked nothing.
    most : int or None
        Most asks of all models together that are not told.
    goal : bool
        Whether the run ends when its goal is met; a single model is asked up to its limits.

    Attributes
    ----------
    away : dict of model to str
        Models that were put aside and may come back, with the reason.
    over : str or None
        Why nothing more is asked, "" where the Ranker knows; None while the run goes on.
    """

    book: Book
    windows: Mapping[str, int]
    arrival: bool = False
    warmup: int = 0
    at_once: bool = True
    needs_two: bool = True
    most: int | None = None
    goal: bool = True

    def __post_init__(self) -> None:
        self.away: dict[str, str] = {}
        self.over: str | None = None
        self._waiting: dict[str, deque[Ask]] = {model: deque() for model in self.windows}
        self._new: list[tuple[Ask, int]] = []
        self._started = False

    def start(self) -> None:
        """Ask the first items; after a kill, those that have no answer yet are sent first."""
        for ask in self.book.unanswered:
            self._waiting[ask.model].append(ask)
        self._started = True
        self._advance()

    # -- what a sender calls ---------------------------------------------------------------

    def next(self, model: str, n: int = 1) -> list[Ask]:
        """At most `n` asks of a model to send now, the oldest first."""
        asks: list[Ask] = []
        waiting = self._waiting[model]
        while waiting and len(asks) < n:
            ask = waiting.popleft()
            if ask.state == OPEN:
                asks.append(ask)
        return asks

    def back(self, asks: Iterable[Ask]) -> None:
        """Put asks that could not be sent back at the head of the line."""
        for ask in sorted(asks, key=lambda ask: -ask.number):
            if ask.state == OPEN:
                self._waiting[ask.model].appendleft(ask)

    def has_next(self, model: str) -> bool:
        """Whether a model has something to be sent."""
        waiting = self._waiting[model]
        while waiting and waiting[0].state != OPEN:
            waiting.popleft()
        return bool(waiting)

    def beyond(self, model: str, items: Iterable[Item]) -> None:
        """Have a model asked items that the Ranker does not offer, and nothing else be asked."""
        self.over = self.over or ""
        self._waiting[model].extend(Ask(-1, model, item) for item in items)

    @property
    def head(self) -> Ask | None:
        """The ask that holds up all others: the oldest without an answer."""
        if self.over is not None or self.book.next_told is not None:
            return None
        asks = self.book.asks
        return asks[self.book.head] if self.book.head < len(asks) else None

    def arrive(self, records: Sequence[Record]) -> None:
        """Write answers and failures, then tell them in turn."""
        self.book.write(records)
        self._advance()

    def set_aside(self, model: str, reason: str, back: bool = False) -> None:
        """A model is away (it may come `back`) or set aside for good.

        Its asks leave the line, the answers behind them are told, and the others go on in pairs
        that do not need it.
        """
        if model in self.book.tally.set_aside and (back or model not in self.away):
            return
        if back:
            self.away[model] = reason
        else:
            self.away.pop(model, None)
        self._write_new()
        self.book.event("drop", model=model, reason=reason, away=back)
        self._waiting[model].clear()
        if self._started:  # else nothing is asked before it is known who takes part
            self._advance()

    def take_up(self, model: str) -> None:
        """Take up a model that is back: the Ranker may ask it again, at the end of the line."""
        if model in self.book.tally.set_aside:
            self.away.pop(model, None)
            self.book.event("restore", model=model)
            self._advance()

    def end(self, reason: str) -> None:
        """End the run at a deadline or by hand: answers so far count, open asks are given back."""
        if self.over is None:
            self._finish(reason, gaps=True)

    # -- what happens ------------------------------------------------------------------------

    def _advance(self) -> None:
        """Tell the answers that are due; after each one, make the asks that it allows."""
        if self.over is None:
            self._fill()
            while self.over is None and (ask := self.book.next_told) is not None:
                self.book.tell(ask)
                self._fill()
        self._write_new()

    def _fill(self) -> None:
        """Make asks until the windows are full or no further ask is worth its price."""
        ranker = self.book.ranker
        active = [m for m in self.windows if m not in self.book.tally.set_aside]
        untold = dict.fromkeys(self.windows, 0)
        for ask in self.book.pending:
            untold[ask.model] += 1
        warming = any(untold[m] and self.book.told_of[m] < self.warmup for m in active)
        decided = self.goal and not warming and ranker.decided
        if decided or len(active) < (2 if self.needs_two else 1):
            if not self.away:
                self._finish("" if decided else _alone(active))
            return
        furthest = self.book.head + sum(self.windows.values())
        most = self.most
        while not (self.arrival and len(self.book.asks) >= furthest):
            if most is not None and sum(untold.values()) >= most:
                break
            room = [model for model in active if untold[model] < self._window(model)]
            pairs = ranker.ask(1, among=room, least=WORTH) if room else []
            if not pairs:
                break
            ask = self.book.place(*pairs[0])
            untold[ask.model] += 1
            self._new.append((ask, self.book.told))
            if ask.state == OPEN:
                self._waiting[ask.model].append(ask)
        if not any(untold.values()) and not self.away:
            self._finish("")

    def _window(self, model: str) -> int:
        first = self.warmup - self.book.told_of[model] if self.at_once else 0
        return max(self.windows[model], first)

    def _finish(self, reason: str, gaps: bool = False) -> None:
        self._write_new()
        self.over = reason
        self.book.event("end", reason=reason, **({"gaps": True} if gaps else {}))
        self.book.settle()

    def _write_new(self) -> None:
        new, self._new = self._new, []
        self.book.write_asks(new)


def _alone(active: Sequence[str]) -> str:
    """Explain why a run ends that has lost its models."""
    if not active:
        return "every model was set aside"
    return f"only {active[0]} is left, with no model to compare it to"

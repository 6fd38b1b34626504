"""`Line`: answers take effect in the order in which they were asked.

Every ask has a number. The line passes each answer to the Ranker in the order of its number; an
answer that arrives early waits for those before it. After each answer the Ranker makes new asks,
until the window of every model is full or the Ranker wants nothing. So the asks depend on the seed,
the windows and the earlier answers alone: not on slots, latencies, rate limits or retries.

An ask is *open* until it is answered, or *released*: given back without an answer. It is *untold*
until the Ranker has its answer; the *window* of a model is how many of its asks may be untold. A
model that is *set aside* is asked nothing more: for good, or while its server is *away*. One that
was away is *taken up* when it answers again: the Ranker may ask it once more. Local models that do
not fit into memory together *take turns*: each is loaded, answers all its open asks, and leaves.

A line uses no clock, thread or network. A sender takes asks with `next`, returns answers with
`arrive`, and reports models that are away and the end of the time; every call leaves the journal,
the Ranker and the line in step.
"""

from __future__ import annotations

import math
from bisect import insort
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field

from ..ranker.accounts import SLACK
from ..records import Drop, End, Item, Lost, Record, Release, Restore
from ..runs.book import BEYOND_BANK, OPEN, Ask, Book, NewAsk

#: Asks of one model that may run ahead of the processed answers, however many its server takes:
#: all of them are paid, and those behind the deciding answer for nothing.
WINDOW = 16
#: By this share of its processed answers a model may run ahead in addition. A run is long where
#: models are close; at most this share of what it asks is then asked for nothing.
GROWTH = 0.15
#: The same for a model that takes turns: it is loaded once for half as many answers again.
GROWTH_IN_TURNS = 0.5
#: Least worth of an ask to a model with room, as a share of the Ranker's best choice.
WORTH = 0.25


def turns_for(items: int, ahead: int | None = None) -> int:
    """Return how many turns a model takes to answer so many items.

    In each it answers `ahead` of them; without `ahead`, a window that grows by `GROWTH_IN_TURNS`.

    >>> [turns_for(n) for n in (16, 60, 200, 1000)]
    [1, 3, 5, 9]
    """
    turns = answers = 0
    while answers < items:
        answers += ahead or WINDOW + int(GROWTH_IN_TURNS * answers)
        turns += 1
    return turns


@dataclass(eq=False)
class Line:
    """Asks in the order of their numbers, between a `Book` and a sender.

    Parameters
    ----------
    book : Book
        In step with its journal.
    first_windows : dict of model to int
        Most asks of each model without a processed answer (untold asks), before windows grow.
    growth : dict of model to float
        By which share of its processed answers each model's window grows if `warmup_at_once`;
        default: it does not.
    arrival : bool
        Whether to process answers as they arrive: more throughput, but not reproducible.
    warmup : int
        Asks that every model gets, whatever its answers.
    warmup_at_once : bool
        Whether the asks of the warm-up go out at once, however narrow the window.
    first_alone : bool
        Whether a model is asked a single item until that is answered, as the answer tells what the
        next ones cost.
    compares_only : bool
        Whether the run only compares models, so that a single remaining one is asked nothing.
    max_untold : int or None
        Most asks of all models together without a processed answer.
    ends_at_goal : bool
        Whether the run ends when its goal is met; a single model is asked up to its limits.

    Attributes
    ----------
    end_reason : str or None
        Why the run ended, "" if the Ranker has the reason; None while it goes on.
    """

    book: Book
    first_windows: Mapping[str, int]
    growth: Mapping[str, float] = field(default_factory=dict)
    arrival: bool = False
    warmup: int = 0
    warmup_at_once: bool = True
    first_alone: bool = False
    compares_only: bool = True
    max_untold: int | None = None
    ends_at_goal: bool = True

    def __post_init__(self) -> None:
        self.end_reason: str | None = None
        #: Returns the items in flight by model, which the end of the run states.
        self.in_flight: Callable[[], dict[str, int]] = dict
        # Asks that are to be sent, by model and number; those released meanwhile are not removed.
        self._waiting: dict[str, deque[Ask]] = {model: deque() for model in self.first_windows}
        self._new: list[NewAsk] = []
        self._started = False

    def start(self) -> None:
        """Ask the first items; after a kill, send unanswered asks first."""
        for ask in self.book.unanswered:
            self._waiting[ask.model].append(ask)
        self._started = True
        self._advance()

    @property
    def away(self) -> Set[str]:
        """Models that were set aside and may come back."""
        return self.book.tally.away

    # -- what a sender calls ---------------------------------------------------------------

    def next(self, model: str, n: int = 1) -> list[Ask]:
        """Take at most `n` asks of a model to send now, oldest first."""
        asks: list[Ask] = []
        waiting = self._waiting[model]
        while waiting and len(asks) < n:
            ask = waiting.popleft()
            if ask.state == OPEN:
                asks.append(ask)
        return asks

    def probe(self, model: str, failed: Set[Item]) -> list[Ask]:
        """Take one ask with which to test a model's server: the last whose item has not failed."""
        waiting = self._waiting[model]
        for ask in reversed(waiting):
            # The server may fail on some items alone: another one tells whether it works.
            if ask.state == OPEN and ask.item not in failed:
                waiting.remove(ask)
                return [ask]
        return []

    def put_back(self, asks: Iterable[Ask]) -> None:
        """Put asks that could not be sent back into the line, by their numbers."""
        for ask in asks:
            if ask.state == OPEN:
                insort(self._waiting[ask.model], ask, key=lambda waiting_ask: waiting_ask.number)

    def first(self, model: str) -> Ask | None:
        """Return the ask that `next` would take first, if any."""
        waiting = self._waiting[model]
        while waiting and waiting[0].state != OPEN:
            waiting.popleft()
        return waiting[0] if waiting else None

    def has_next(self, model: str) -> bool:
        """Whether the line has an ask to send to a model."""
        return self.first(model) is not None

    def ask_beyond_bank(self, model: str, items: Iterable[Item]) -> None:
        """Ask a model items that the Ranker does not offer, and nothing else."""
        self.end_reason = self.end_reason or ""  # after its end a line makes no asks of its own
        self._waiting[model].extend(Ask(BEYOND_BANK, model, item) for item in items)

    @property
    def head(self) -> Ask | None:
        """The oldest ask without an answer, which holds up all others."""
        return self.book.head if self.end_reason is None else None

    def arrive(self, records: Sequence[Record]) -> None:
        """Write answers and failures to the journal, then process them in order."""
        self.book.write(records)
        self._advance()

    def record_lost(self, attempt: Lost) -> None:
        """Record an attempt without an answer; give back asks that the budget no longer covers.

        Those that were sent stay: of the others the last are given back, one by one, until what is
        spent and what the open asks are expected to cost are within the budget.
        """
        self.book.event(attempt)
        # At its end the line has given all open asks back.
        if self.end_reason is not None:
            return
        ranker, unsent = self.book.ranker, (ask for asks in self._waiting.values() for ask in asks)
        for ask in sorted(unsent, key=lambda unsent_ask: -unsent_ask.number):
            if ranker.committed <= ranker.budget * (1.0 + SLACK):
                break
            if ask.state == OPEN:
                self.book.event(Release(model=ask.model, item=ask.item))

    def set_aside(self, model: str, reason: str, away: bool = False) -> None:
        """Set a model aside: for now if it is only `away`, else for good.

        Its asks leave the line, the answers behind them take effect, and the other models are still
        compared with each other.
        """
        # A model that is away may still be set aside for good, and not the other way round.
        if model in self.book.tally.set_aside and (away or model not in self.away):
            return
        # The asks made so far come before this event in the journal, as they did in the Ranker.
        self._write_new()
        self.book.event(Drop(model=model, reason=reason, away=away))
        if self._started:  # else wait until it is known which models take part
            self._advance()

    def take_up(self, model: str) -> None:
        """Take up a model that is back: the Ranker may ask it again, after the asks in line."""
        if model in self.book.tally.set_aside:
            self.book.event(Restore(model=model))
            self._advance()

    def end(self, reason: str) -> None:
        """End the run at a deadline or by hand: keep the answers so far, release open asks."""
        if self.end_reason is None:
            self._finish(reason, gaps=True)

    # -- what happens ------------------------------------------------------------------------

    def _advance(self) -> None:
        """Pass on the answers that are due; after each one, make the asks that it allows."""
        if self.end_reason is None:
            self._fill()
            while self.end_reason is None and (ask := self.book.next_told) is not None:
                self.book.tell(ask)
                self._fill()
        self._write_new()

    def _fill(self) -> None:
        """Make asks until the windows are full or the Ranker wants none; then perhaps end the run.

        While a model is away that may come back, the run does not end.
        """
        ranker, n_told = self.book.ranker, self.book.n_told_by_model
        n_untold = self.book.n_untold_by_model
        active = [model for model in self.first_windows if model not in self.book.tally.set_aside]
        # What the warm-up asks is paid anyway, so it counts before a verdict may end the run.
        warming = self.ends_at_goal and any(
            n_untold[model] > 0 and n_told[model] < self.warmup for model in active
        )
        decided = self.ends_at_goal and not warming and ranker.decided
        # Or too few models are left to go on.
        if decided or len(active) < (2 if self.compares_only else 1):
            if not self.away:
                self._finish("" if decided else _why_too_few(active))
            return
        windows = self._windows(active, warming)
        free_slots = {model: window - n_untold[model] for model, window in windows.items()}
        self._ask({model: n for model, n in free_slots.items() if n > 0})
        # Nothing is out and the Ranker wants nothing: no answer is left that could change that.
        if not self.book.n_untold and not self.away:
            self._finish("")

    def _ask(self, free_slots: dict[str, int]) -> None:
        """Make asks of models until each has as many more as it has slots free."""
        book, ranker = self.book, self.book.ranker
        # Where every item will be asked anyway, no model waits for a better one.
        share = WORTH if self.ends_at_goal or math.isfinite(ranker.budget) else 0.0
        # In the order of arrival an ask without an answer holds no other up. So the asks from the
        # oldest such on, told ones too, are limited: the others must not run away from its model.
        windows = self._windows(self.first_windows) if self.arrival else {}
        most_asks = sum(windows.values()) if self.arrival else math.inf
        most_untold = math.inf if self.max_untold is None else self.max_untold
        while free_slots and len(book.asks) < most_asks and book.n_untold < most_untold:
            pairs = ranker.ask(1, among=free_slots, least_share=share)
            # It wants nothing, or waits for a model without a free slot that is better to ask.
            if not pairs:
                break
            ask = book.add_ask(*pairs[0])
            free_slots[ask.model] -= 1
            if not free_slots[ask.model]:
                del free_slots[ask.model]
            self._new.append(NewAsk(ask, after=book.n_told))
            if ask.state == OPEN:
                self._waiting[ask.model].append(ask)

    def _windows(self, models: Iterable[str], warming: bool = False) -> dict[str, int]:
        """Return how many asks of each model may be untold.

        An ask is untold until its answer is processed. While a model is `warming` up in a run that
        may end at its goal, no model's answers and untold asks together exceed its first window, or
        the warm-up if that is larger.
        """
        windows = {model: self.first_windows[model] for model in models}
        for model, window in windows.items():
            answers = self.book.n_told_by_model[model]
            if self.first_alone and not answers:
                windows[model] = 1
            elif self.warmup_at_once:
                grown = -answers if warming else int(self.growth.get(model, 0.0) * answers)
                windows[model] = max(window + grown, self.warmup - answers)
        return windows

    def _finish(self, reason: str, gaps: bool = False) -> None:
        """End the run; without a `reason` the Ranker has one.

        With `gaps`, answers that wait for an earlier one take effect, too.
        """
        self._write_new()
        self.end_reason = reason
        self.book.event(End(reason=reason, gaps=gaps, wire=self.in_flight()))
        self.book.settle()

    def _write_new(self) -> None:
        """Write the asks to the journal that were made since the last time."""
        new, self._new = self._new, []
        self.book.write_asks(new)


#: Why a run ends that has no model left.
ALL_ASIDE = "every model was set aside"


def _why_too_few(active: Sequence[str]) -> str:
    """Explain why a run ends that has too few models left."""
    if not active:
        return ALL_ASIDE
    return f"only {active[0]} is left, with no model to compare it to"

"""`Book`: keeps a Ranker in step with the journal of all its asks and answers.

Every ask has a number, and the book tells the Ranker each answer in the order of its number; an
answer that arrives early waits. No line records the telling itself: a line of asks or an event
states how many answers were told before it, and a replay first tells that many. A run of
``order: arrival`` tells answers in the order of their lines.

Replaying uses the pairs and draws that the journal records and selects nothing again, so a run can
be read after a change of the method that selects.
"""

from __future__ import annotations

import math
import time
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, NamedTuple

from ..errors import RunError
from ..journal import Journal
from ..ranker import Ranker
from ..records import (
    Answered,
    Asks,
    Change,
    End,
    Event,
    Fail,
    Header,
    Item,
    Lost,
    Record,
    Release,
    Tell,
    Unrated,
)
from ..shown import plural
from .differences import COMPARED, CUT_SHORT, NO_LIMIT, SERVER, Differences
from .kept_answers import KeptAnswers, ModelItem
from .tally import CUT_REASONS, Tally

#: States of an ask.
OPEN, ANSWERED, TOLD, LEFT = "open", "answered", "told", "left"
#: Number of an ask of an item beyond the bank.
BEYOND_BANK = -1


@dataclass
class Ask:
    """One item put to a model.

    Attributes
    ----------
    number : int
        Its position in the line; `BEYOND_BANK` of an item that no ranker asks.
    model, item
    state : str
        ``"open"``, ``"answered"`` (but not told yet), ``"told"`` or ``"left"`` (its model was put
        aside, or the run ended first).
    answer : Answered or None
        Its answer or failure.
    """

    number: int
    model: str
    item: Item
    state: str = OPEN
    answer: Answered | None = None

    @property
    def pair(self) -> ModelItem:
        """Model and item."""
        return self.model, self.item

    @property
    def is_beyond_bank(self) -> bool:
        """Whether its item is none that the Ranker offers."""
        return self.number == BEYOND_BANK


class NewAsk(NamedTuple):
    """An ask that the journal lacks yet, and how many answers were told before it was made."""

    ask: Ask
    after: int


class Book:
    """Writes a run's journal and replays it on the run's `Ranker`, so that the two agree.

    Parameters
    ----------
    ranker : Ranker
        Fresh Ranker; `read` replays the journal on it.
    journal : Journal
    clock : callable
        Returns the seconds since the epoch.

    Attributes
    ----------
    asks : deque of Ask
        The asks from the first that is neither told nor left, by number.
    n_asks : int
        Asks so far.
    n_told : int
        Answers and failures that the Ranker was told.
    answers : KeptAnswers
        The answers that the Ranker was told, and those to items beyond its bank.
    waiting : dict of (model, item) to Answered
        Answers that the Ranker was not told yet.
    unrated : dict of (model, item) to Unrated
        Answers that a judge has not rated yet.
    n_told_by_model : dict of model to int
        `n_told` by model.
    n_untold_by_model : dict of model to int
        `n_untold` by model.
    ended : End or None
        With what the last session ended.
    unheard : list of Ask
        After `settle`: asks in flight at the end of the run of which nothing was heard since, as
        after a kill.
    accepted : set of str
        The `CHANGES` that are accepted.
    interrupted : str
        Why the last session ended early; "" if it did not.
    closed : bool
        Whether nothing was asked since a session ended or was interrupted; else the last session
        was killed, or goes on.
    """

    def __init__(
        self, ranker: Ranker, journal: Journal, clock: Callable[[], float] = time.time
    ) -> None:
        self.ranker = ranker
        self.journal = journal
        self.asks: deque[Ask] = deque()
        self.n_asks = self.n_told = 0
        self.answers = KeptAnswers(journal)
        self.waiting: dict[ModelItem, Answered] = {}
        self.unrated: dict[ModelItem, Unrated] = {}
        self.ended: End | None = None
        self.unheard: list[Ask] = []
        self.tally = Tally()
        self.n_told_by_model: dict[str, int] = defaultdict(int)
        self.n_untold_by_model: dict[str, int] = defaultdict(int)
        self._open: dict[ModelItem, Ask] = {}  # neither told nor left
        self._failed: set[ModelItem] = set()  # without an answer
        self._beyond_bank: set[ModelItem] = set()  # answered, and not told to the Ranker
        self.interrupted, self.closed = "", True
        self.accepted: set[str] = set()
        self._barred: set[tuple[str, str]] = set()  # pairs of models
        self._lost = 0.0  # cost of lost attempts, by which the budget is not lowered yet
        self._clock = clock

    # -- what a reader calls ---------------------------------------------------------------

    def read(self) -> None:
        """Replay the records that this book has neither read nor written yet.

        Raises
        ------
        RunError
            The journal is damaged, holds records of a later version, or contradicts itself.
        """
        self.replay(self.journal.read_new())

    def replay(self, records: Iterable[Record]) -> None:
        """Process records that are in the journal already."""
        for record in records:
            self._apply(record)

    def settle(self) -> None:
        """Bring the Ranker up to date for results; nothing may be asked afterwards.

        It tells answers whose turn has come, but none after the answer that ended the run. The
        asks of an ended run that remain are released.
        """
        if self.ended is not None:
            self._tell_to(self.ended.after)
            # After a deadline, answers that wait for a missing one count, too.
            if self.ended.gaps:
                for ask in list(self.asks):
                    if ask.state == ANSWERED:
                        self.tell(ask)
        while self.ended is None and (due := self.next_told) is not None:
            self.tell(due)
        if self.ended is not None:
            self.unheard = self._unheard()
            for ask in list(self._open.values()):
                self._close(ask, LEFT)
                self.ranker.release(*ask.pair)
            if self.ended.reason:
                self.ranker.stop(self.ended.reason)

    def _unheard(self) -> list[Ask]:
        """Return the oldest asks of each model, as many as are `Tally.unheard`."""
        counts = dict(self.tally.unheard)
        asks = []
        for ask in self.unanswered:
            if counts.get(ask.model) and ask.pair not in self.unrated:
                counts[ask.model] -= 1
                asks.append(ask)
        return asks

    @property
    def next_told(self) -> Ask | None:
        """The ask whose answer is told next; None if that answer has not arrived."""
        head = self.head
        return head if head is not None and head.state == ANSWERED else None

    @property
    def head(self) -> Ask | None:
        """The first ask that is neither told nor left."""
        while self.asks and self.asks[0].state in (TOLD, LEFT):
            self.asks.popleft()
        return self.asks[0] if self.asks else None

    @property
    def n_untold(self) -> int:
        """Number of asks that are neither told nor left."""
        return len(self._open)

    @property
    def unanswered(self) -> list[Ask]:
        """The asks without an answer, by number."""
        return [ask for ask in self._open.values() if ask.state == OPEN]

    def held_up(self) -> str:
        """Say how many answers wait for an earlier one, and whose; "" if none do.

        Answers count in the order in which they were asked.
        """
        # Once the run has ended, an answer that waits never counts.
        if not self.waiting or not (unanswered := self.unanswered) or self.ended is not None:
            return ""
        first = unanswered[0]
        what = (
            f"a judge rates {first.model}'s answer to"
            if first.pair in self.unrated
            else f"{first.model} answers"
        )
        return (
            f"{plural(len(self.waiting), 'answer')} will count once {what} an item that was asked "
            "before theirs"
        )

    def has(self, pair: ModelItem) -> bool:
        """Whether a pair has an answer or was given up, told or not."""
        if pair in self._failed or pair in self.waiting:
            return True
        return pair in self.answers and pair not in self._beyond_bank

    def arrived(self, model: str) -> Iterator[tuple[Item, Tell]]:
        """Yield a model's scored answers by item; those that the Ranker was not told come last."""
        untold = ((item, answer) for (name, item), answer in self.waiting.items() if name == model)
        for item, answer in chain(self.answers.of(model).items(), untold):
            if isinstance(answer, Tell):
                yield item, answer

    @property
    def done(self) -> bool:
        """Whether the journal says that the run is over."""
        return self.ended is not None or self.ranker.done

    def elapsed(self) -> float:
        """Return the seconds that the run has taken so far, over all its sessions."""
        return self.tally.elapsed_at(self._clock())

    # -- what a run calls --------------------------------------------------------------------

    def write(self, records: Sequence[Record]) -> None:
        """Write answers and notes in one piece, then process them.

        Raises
        ------
        RunError
            A score is not in [0, 1], a cost is below 0, or the journal cannot be written. None of
            the records count then.
        """
        if not records:
            return
        for record in records:
            if isinstance(record, Tell | Fail):  # write nothing that the Ranker would refuse
                self._require_valid(record)
        moment = round(self._clock(), 3)
        written = [record.masked(moment) for record in records]
        positions = self.journal.append(written)
        if any(isinstance(record, Answered | Lost | Release) for record in written):
            self.journal.make_durable()  # paid for: it survives a power cut
        for record, position in zip(written, positions):
            object.__setattr__(record, "position", position)  # nobody else has this copy
            self._apply(record)

    def _require_valid(self, answer: Tell | Fail) -> None:
        """Refuse an answer whose score or cost the Ranker would refuse."""
        scores: Iterable[Any] = ()
        if isinstance(answer, Tell):
            scores = answer.score.values() if isinstance(answer.score, Mapping) else [answer.score]
        for score in scores:
            if not (isinstance(score, int | float) and math.isfinite(score) and 0 <= score <= 1):
                item = self.journal.item_to_json(answer.item)
                raise RunError(
                    f"score {score!r} of {answer.model} on item {item!r} is not in [0, 1]"
                )
        cost = answer.cost or 0.0
        if not (math.isfinite(cost) and cost >= 0.0):
            raise RunError(f"cost {cost!r} of {answer.model} is not a number of at least 0")

    def event(self, event: Event) -> None:
        """Write an event that takes effect now, between two answers."""
        self.write([replace(event, after=self.n_told)])

    def change(self, differences: Differences, identity: Header) -> None:
        """Apply the changes to a run that `differences` allows.

        Parameters
        ----------
        differences : Differences
            Changes; without any, nothing is written.
        identity : Header
            Identity of the run from now on, to which the next resume is compared.
        """
        if differences.changes or differences.ranker:
            parts = {name: getattr(identity, name) for name in (*COMPARED, "ranker")}
            change = Change(ranker=differences.ranker, settings=differences.changes, identity=parts)
            self.event(change)

    def add_ask(self, model: str, item: Any) -> Ask:
        """Add an ask that the Ranker has just made; `write_asks` records it."""
        _ = self.head  # looking for it removes the asks before it, which are told or left
        ask = Ask(self.n_asks, model, self.journal.item(item))
        self.n_asks += 1
        self.asks.append(ask)
        self._open[ask.pair] = ask
        self.n_untold_by_model[model] += 1
        if (late := self.waiting.get(ask.pair)) is not None:
            ask.state, ask.answer = ANSWERED, late  # it came after its model was set aside
        return ask

    def write_asks(self, new: Sequence[NewAsk]) -> None:
        """Write asks in one line, each with the number of answers told before it."""
        if not new:
            return
        pairs = [new_ask.ask.pair for new_ask in new]
        record = Asks(
            n=new[0].ask.number,
            pairs=pairs,
            draws=[self.ranker.probability(*pair) for pair in pairs],
            after=[new_ask.after for new_ask in new],
        ).masked(round(self._clock(), 3))
        self.journal.append([record])
        self.tally.count(record)
        self.closed = False

    def tell(self, ask: Ask) -> None:
        """Tell the Ranker the answer to an ask."""
        assert ask.answer is not None
        self._tell(ask.answer)
        self._close(ask, TOLD)

    # -- processing, of what was just written or is replayed --------------------------------------

    def _tell(self, answer: Answered) -> None:
        """Tell the Ranker an answer or failure, and count it.

        Its pair is then recorded as answered, or as failed.
        """
        pair = answer.pair
        # Bar pairs first, so that this answer decides no pair that it or an earlier one bars.
        self.tally.count_answer(answer)
        self._bar()
        match answer:
            case Tell():
                self.ranker.tell(*pair, answer.score, cost=answer.cost)
            case Fail():
                self.ranker.fail(*pair, answer.reason, cost=answer.cost)
        self.n_told += 1
        self.n_told_by_model[answer.model] += 1
        self.waiting.pop(pair, None)  # an answer that counts as it arrives never waits
        # A failure may have an answer, which nothing could score; that is kept as well.
        if answer.has_answer:
            self._beyond_bank.discard(pair)
            self._keep_answer(answer)
        else:
            self._failed.add(pair)

    def _keep_answer(self, answer: Answered) -> None:
        """Note where the journal has an answer."""
        assert answer.position is not None
        self.answers.keep(answer.model, answer.item, answer.position)

    def _bar(self) -> None:
        """Bar pairs from a decision if a server changed, or cut off answers at different rates."""
        pairs: set[tuple[str, str]] = set()
        # If its server changed, a name stands for answers of two models: no pair with it counts.
        if SERVER not in self.accepted:
            tested = self.tally.answered
            pairs = {
                (model, other_model)
                for model in self.tally.changed_models
                for other_model in tested
                if model != other_model
            }
        # If one model is cut off more often, a comparison is of token limits, not of models.
        if CUT_SHORT not in self.accepted:
            pairs = pairs.union(*map(self.tally.unlike_pairs, CUT_REASONS))
        if pairs != self._barred:
            self.ranker.bar(pairs)
            self._barred = pairs

    def _tell_to(self, n_told: int | None) -> None:
        """Tell answers in the order of their asks, until so many are told; None tells none."""
        while self.n_told < (n_told or 0):
            ask = self.next_told
            if ask is None:
                raise RunError(
                    f"{self.journal} lacks the answer after the first {self.n_told}; see "
                    "`lm-eval-ccat verify RUN`"
                )
            self.tell(ask)

    def _close(self, ask: Ask, state: str) -> None:
        """Await an ask no longer: it is told, or left."""
        ask.state = state
        del self._open[ask.pair]
        self.n_untold_by_model[ask.model] -= 1

    def _apply(self, record: Record) -> None:
        """Bring Ranker, asks and tally up to date with a record that the journal has."""
        # After a deadline, answers behind missing ones count only once `settle` tells them.
        gaps = self.ended is not None and self.ended.gaps
        # An event took effect after so many answers: tell these first, as when it was written.
        if isinstance(record, Event) and not gaps:
            self._tell_to(record.after)
        record.apply(self)
        self.tally.count(record)

    # -- what records call (see `Replayed`) ------------------------------------------------------

    def repeat_asks(self, asks: Asks) -> None:
        """Make the asks of a line again, each after as many answers as at first."""
        self.closed = False
        for (model, item), probability, after in zip(asks.pairs, asks.draws, asks.after):
            self._tell_to(after)
            self.ranker.impose([(model, item, probability)])
            self.add_ask(model, item)

    def receive(self, answer: Answered) -> None:
        """Process an answer: tell it in its turn, or at once if its line has no number."""
        pair = answer.pair
        self.unrated.pop(pair, None)
        ask = self._open.get(pair)
        if answer.n is not None:
            if not self.has(pair):  # else it answers a second request; the first answer counts
                self.waiting[pair] = answer
                if ask is not None:
                    ask.state, ask.answer = ANSWERED, answer
            return
        self._tell(answer)
        if ask is not None:
            ask.answer = answer
            self._close(ask, TOLD)

    def keep_unrated(self, answer: Unrated) -> None:
        """Keep an answer until a judge has rated it."""
        self.unrated[answer.pair] = answer

    def keep_beyond_bank(self, answer: Answered) -> None:
        """Keep an answer to an item beyond the bank."""
        self.unrated.pop(answer.pair, None)
        self._beyond_bank.add(answer.pair)
        self._keep_answer(answer)

    def withdraw_asks(self, model: str, item: Item | None = None) -> None:
        """Await a model's open asks no longer: all of them, or that of one item."""
        for ask in [ask for ask in self._open.values() if ask.model == model]:
            if item in (None, ask.item):
                self._close(ask, LEFT)

    def record_loss(self, cost: float) -> None:
        """Lower the budget by what an attempt without an answer cost."""
        self._lost += cost
        if self.ended is None:  # else when the run goes on: its result stands
            self.lower_budget()

    def lower_budget(self) -> None:
        """Lower the budget by what was lost since the run ended."""
        if self._lost:
            self.ranker.lose(self._lost)
            self._lost = 0.0

    def accept_change(self, change: str) -> None:
        """Let pairs be decided in spite of a change; see `CHANGES`."""
        self.accepted.add(change)
        self._bar()

    def change_limits(self, arguments: Mapping[str, Any]) -> None:
        """Change the Ranker's limits, prices or models."""
        self.ranker.change(**_ranker_arguments(arguments))

    def require_change(self, arguments: Mapping[str, Any]) -> None:
        """Refuse what `change_limits` would refuse, so that it is not written.

        Raises
        ------
        UsageError
            Repeats fall, or cannot be.
        """
        changed = _ranker_arguments(arguments)
        if "repeats" in changed:
            limits = {name: changed.get(name) for name in ("budget", "max_items", "stop")}
            self.ranker.require_repeats(changed["repeats"], **limits)


def _ranker_arguments(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return changes as the Ranker takes them."""
    changed = dict(arguments)
    if changed.get("budget") == NO_LIMIT:
        changed["budget"] = math.inf
    if changed.get("max_items") == NO_LIMIT:
        del changed["max_items"]  # the separate stopping rule has none
    return changed

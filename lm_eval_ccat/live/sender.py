"""`Sender`: keeps the models of a run busy, and its line moving, until the ranking ends.

One thread drives everything (see `Run.ask`): it sends the asks of the line, collects the results,
passes them to the line and checks the clock. Calls to models run in threads of their own, which
only return an answer or an error; the model's `Channel` decides what follows from it.
"""

from __future__ import annotations

import gc
import logging
import queue
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from ..errors import CcatError, RunError
from ..money import UNKNOWN
from ..ranker.stopping import has_goal
from ..records import Answered, Interrupt, Item, Record, Windows
from ..runs.book import Ask, Book
from ..runs.kept_answers import Pair
from ..scores.reading import share_above_cap
from .channel import Channel, Sending, clock
from .failures import Failure, PlaceLost, State
from .interrupts import Interrupts
from .line import GROWTH, GROWTH_IN_TURNS, WINDOW, Line
from .models import SCORING, Answer, Model, NoScoresError, taking_turns
from .plan import Plan
from .result import Observer

logger = logging.getLogger(__name__)

#: Seconds between two checks of the clock, and between two ticks of the observer.
POLL, TICK = 0.25, 0.1
#: Seconds to wait for requests in flight at the deadline, and after Ctrl-C.
GRACE, FAREWELL = 0.6, 2.0
#: Seconds between two reports of what is missing while a model waits for a node.
REPORT = 10.0
#: Seconds at the start in which every server gets a single request, to show that it works.
CONTACT = 3.0


@dataclass
class Arrived:
    """Results of calls that were collected together.

    Attributes
    ----------
    moment : float
        Time at which the last of them was collected.
    records : list of Record
        The records of all answers.
    answers : list of (Channel, list of Answer)
        The same answers, by call.
    failed : list of (Channel, Sending, Exception)
        Calls that their channels deal with.
    fatal : BaseException or None
        The first error that no channel can deal with: it ends the run.
    """

    moment: float = 0.0
    records: list[Record] = field(default_factory=list)
    answers: list[tuple[Channel, list[Answer]]] = field(default_factory=list)
    failed: list[tuple[Channel, Sending, Exception]] = field(default_factory=list)
    fatal: BaseException | None = None


class Sender:
    """Sends a run's asks to its models, and collects their answers.

    Parameters
    ----------
    plan : Plan
    book : Book
        In step with its journal.
    models : sequence of Model
    observer : Observer
    interrupts : Interrupts
    """

    def __init__(
        self,
        plan: Plan,
        book: Book,
        models: Sequence[Model],
        observer: Observer,
        interrupts: Interrupts,
    ) -> None:
        self.plan = plan
        self.models = models
        self.book = book
        self.observer = observer
        self.rule = plan.spec.failures
        # The models that take turns; those of them that have a place; and the one for which a place
        # is reserved on a cluster.
        self._turns: list[Channel] = []
        self._seats: list[Channel] = []
        self._wish: Channel | None = None
        self.line = new_line(
            plan, book, {model.name: model.slots * model.batch for model in models}
        )
        self.channels = {model.name: Channel(model, plan, self.line) for model in models}
        self._came: queue.SimpleQueue[tuple[Channel, Sending, Any] | None] = queue.SimpleQueue()
        self.interrupts = interrupts
        interrupts.wake = lambda: self._came.put(None)
        # When a model began to wait for a node, and when that was last reported.
        self._waits: dict[str, tuple[float, float]] = {}
        self._began = self._ticked = clock()
        # Outcomes without an upper end: task, name and cap.
        self._capped = [
            (task, name, outcome.metric.scale.cap)
            for task, outcomes in plan.measured.items()
            for name, outcome in outcomes.items()
            if outcome.weight > 0.0 and outcome.metric.scale.cap is not None
        ]

    # -- the run ---------------------------------------------------------------------------

    def open_first(self) -> None:
        """Open models before anything is asked, so that errors show before they cost money.

        Those for which a cluster has no room yet are opened later.
        """
        channels, began = list(self._first()), clock()
        while True:
            for channel in channels:
                self.feed(channel)
            late = clock() - began > REPORT
            if not any(
                channel.to_open and not (late and channel.model.missing) for channel in channels
            ):
                return
            self.interrupts.heed()
            time.sleep(TICK)

    def _first(self) -> Iterator[Channel]:
        """Yield the models that stay open and the first that take turns; none once all is over."""
        ranker, aside = self.book.ranker, self.book.tally.set_aside
        spent = self.late() and self.book.n_told  # a new run gets answers, however short its time
        if ranker.done or (self.line.goal and ranker.decided) or spent:
            return
        resident, self._turns = self._split()
        for channel in self._turns:
            others = [seat.model for seat in self._seats]
            if channel.name not in aside and channel.model.fits_beside(others):
                self._seats.append(channel)
        for channel in (*resident, *self._seats):
            channel.to_open = channel.name not in aside
            yield channel

    def start(self) -> None:
        """Ask the first items."""
        if self._turns or any(
            channel.opened or channel.to_open for channel in self.channels.values()
        ):
            slots = {model.name: model.slots * model.batch for model in self.models}
            in_turns = [channel.name for channel in self._turns]  # what they take is not known yet
            self.line.windows = windows_of(self.plan, slots | dict.fromkeys(in_turns, 1))
            self.line.growth = {**self.line.growth, **dict.fromkeys(in_turns, GROWTH_IN_TURNS)}
            windows = dict(self.line.windows)
            self.book.write([Windows(windows=windows, wire=slots, arrival=self.line.arrival)])
            self._began = clock()
        self.interrupts.wait = True
        self.line.start()

    def late(self) -> bool:
        """Whether the budget in seconds is used up."""
        seconds = self.plan.seconds
        return seconds is not None and self.book.elapsed() >= seconds

    def tick(self) -> None:
        """Call the observer's `tick` at intervals."""
        if clock() - self._ticked >= TICK:
            self.observer.tick()
            self._ticked = clock()

    def finish(self, late: bool) -> None:
        """Wait briefly for requests in flight after the deciding answer, or at the deadline."""
        wait = max((channel.rest() for channel in self.channels.values()), default=0.0)
        self._collect_for(GRACE if late else wait)
        self._abandon("deadline" if late else "behind the deciding answer")
        if late:
            self.line.end(f"the budget of {self.plan.seconds:g} seconds is used up")

    def leave(self) -> None:
        """Wait a moment for requests in flight, keep their answers, and ask nothing more."""
        self._collect_for(FAREWELL)
        self._abandon("interrupted")
        self.book.write([Interrupt()])

    def beyond(self, model: str, items: Sequence[Item]) -> None:
        """Ask an open model items that the Ranker does not offer, without telling the Ranker.

        Raises
        ------
        RunError
            An item gets no answer: a full run needs all of them.
        """
        channel = self.channels[model]
        self.line.beyond(model, items)
        channel.gate.state, channel.opened = State.OPEN, True
        try:
            self.interrupts.wait = True
            while self.line.has_next(model) or channel.wire or channel.retries:
                self.interrupts.heed()
                if channel.refused_for(clock()) > 60.0 * self.rule.outage_minutes:
                    raise RunError(
                        f"{channel.name} rejects every request because of its rate limit"
                    )
                self.feed(channel)
                self.collect(self.pause(clock()))
        except BaseException:
            end = clock() + FAREWELL
            while channel.wire and (left := end - clock()) > 0:
                with suppress(RunError):  # a further document without an answer
                    self._collect_for(left)
            self._abandon("interrupted")
            raise

    # -- opening ---------------------------------------------------------------------------

    def _split(self) -> tuple[list[Channel], list[Channel]]:
        """Return the models that stay open, and those that take turns."""
        turns = taking_turns(self.plan.spec, {model.name: model.memory for model in self.models})
        placed = [model for model in self.models if model.bundle]
        if placed and not placed[0].fits_beside(placed[1:]):
            turns |= {model.name for model in placed}
        channels = self.channels.values()
        return (
            [channel for channel in channels if channel.name not in turns],
            [channel for channel in channels if channel.name in turns],
        )

    def take_turns(self) -> None:
        """Give the places to the models whose asks come first in the line.

        The model at the head of the line gets the place of one that has nothing to do: all others
        wait for its answer anyway. A further model gets only the place of one with no open ask.
        """
        if not self._turns:
            return
        for seat in [seat for seat in self._seats if seat.to_open]:
            others = [other.model for other in self._seats if other is not seat]
            if others and not seat.model.fits_beside(others):  # a node is gone
                self._stand_up(seat)
        ahead = list(dict.fromkeys(ask.model for ask in self.book.unanswered))
        for place, name in enumerate(ahead):
            channel = self.channels[name]
            if channel in self._turns and channel not in self._seats:
                idle = [
                    seat
                    for seat in self._seats
                    if not self._is_busy(seat) and (place == 0 or seat.name not in ahead)
                ]
                if not self._sit_down(channel, idle):
                    self._wish_for_place(channel, clock())
                    return

    def _sit_down(self, channel: Channel, idle: list[Channel]) -> bool:
        """Give a model a place, if there is one or idle models leave one."""
        staying = [seat.model for seat in self._seats if seat not in idle]
        if not channel.model.fits_beside(staying):
            return False
        while idle and not channel.model.fits_beside([seat.model for seat in self._seats]):
            self._stand_up(idle.pop(0))
        self._withdraw_wish(channel)
        self._seats.append(channel)
        channel.to_open = True
        return True

    def _stand_up(self, seat: Channel) -> None:
        """Close a model, so that another gets its place."""
        seat.model.close()
        seat.opened = seat.to_open = False
        self._seats.remove(seat)

    def _is_busy(self, seat: Channel) -> bool:
        """Whether a model has something to do besides having its last answers scored."""
        if seat.to_open or seat.free < seat.model.slots:
            return True
        return seat.opened and bool(seat.retries or self.line.has_next(seat.name))

    def _wish_for_place(self, channel: Channel, moment: float) -> None:
        """Reserve a further place for a model: an autoscaler may add a node for it."""
        if not channel.model.bundle:
            return
        self._withdraw_wish(channel)
        self._wish = channel
        channel.model.ready()
        if channel.model.fits_beside([]):
            self._waits.pop(channel.name, None)  # another model will leave it a place
        else:
            self._waits_for_node(channel, moment)

    def _withdraw_wish(self, channel: Channel) -> None:
        """Free what is reserved for another model than this one."""
        if self._wish is not None and self._wish is not channel:
            self._wish.model.close()
        self._wish = None

    def _waits_for_node(self, channel: Channel, moment: float) -> None:
        """Say what a model waits for, and set it aside once it has waited too long."""
        if not (missing := channel.model.missing):
            self._waits.pop(channel.name, None)  # it is loading
            return
        beginning, report = self._waits.setdefault(channel.name, (moment, moment))
        limit = 60.0 * self.rule.outage_minutes
        if (hopeless := channel.model.too_large) or moment - beginning >= limit:
            late = "and none that may join has" if hopeless else f"within {limit:g} s"
            channel.set_aside(f"no node had room for it {late}: {missing}")
            channel.model.close()
            channel.to_open = False
            self._seats = [seat for seat in self._seats if seat is not channel]
        elif moment - report >= REPORT:
            self.observer.warn(f"{channel.name} is waiting for a node: {missing}")
            self._waits[channel.name] = beginning, moment

    # -- sending ---------------------------------------------------------------------------

    def feed(self, channel: Channel, extra: Sending | None = None) -> None:
        """Open a model if it should be open, and send it all asks that may go out now.

        `extra` goes out first, in addition to the model's slots. A model that cannot be loaded is
        set aside; a signal interrupts the loading.
        """
        if channel.to_open and not channel.model.ready():
            return self._waits_for_node(channel, clock())
        if channel.to_open:
            self._waits.pop(channel.name, None)
            channel.to_open = self.interrupts.wait = False
            trouble: Exception | None = None
            try:
                channel.model.open()
            except Exception as error:  # a model type may raise anything
                trouble = error
            self.interrupts.wait = True
            if isinstance(trouble, PlaceLost):
                channel.to_open = True
                return
            # This package refuses what no other model would mend either: the run ends.
            if isinstance(trouble, CcatError):
                raise trouble
            if trouble is not None:
                return channel.set_aside(f"cannot be loaded: {Failure(trouble).text}")
            channel.opened = True
            if channel.model.remote and channel.median is None:
                # A wrong address, key or name shows at the first item, at the cost of one.
                channel.gate.not_known_yet()
        free = channel.free  # counted once: with hundreds in flight, that is a walk
        sending = extra or self._next(channel, free, clock())
        while sending is not None:
            sending.second = sending.second or free <= 0
            free -= not sending.second
            channel.sent(sending, clock())
            items, come = [ask.item for ask in sending.asks], partial(self._bring, channel, sending)
            channel.model.start(items, come, extra=sending.second)
            sending = self._next(channel, free, clock())

    def _next(self, channel: Channel, free: int, moment: float) -> Sending | None:
        """Return what to send a model now: an attempt that is due, else its next asks."""
        if not self._takes_a_call(channel, free, moment) or not channel.gate.admit(moment):
            return None
        if (retry := channel.take_due(moment)) is not None:
            return retry
        if channel.gate.state is State.PROBING:
            asks = self._ask_to_probe(channel, moment)
            if not asks:
                channel.gate.give_up_probe(moment)
        elif free > len(channel.retries):  # waiting attempts keep their slots
            asks = self._asks_of_a_task(channel)
        else:
            asks = []
        return channel.sending(asks) if asks else None

    def _takes_a_call(self, channel: Channel, free: int, moment: float) -> bool:
        """Whether a model is open, has a slot free, and its server allows a further call."""
        may_return = channel.name in self.line.away
        takes_part = may_return or channel.name not in self.book.tally.set_aside
        # A probe takes no slot, as calls that hang may hold all of them.
        probe_is_next = may_return and channel.gate.state is State.WAITING
        if not (channel.opened and takes_part and (free > 0 or probe_is_next)):
            return False
        return not self._tries_out(channel, moment) and not channel.wait(moment)

    def _tries_out(self, channel: Channel, moment: float) -> bool:
        """Whether a server gets no further call before every server has shown that it works."""
        return channel.model.remote and bool(channel.wire) and self._first_contact(moment)

    def _asks_of_a_task(self, channel: Channel) -> list[Ask]:
        """Take a model's next asks off the line; the harness evaluates one task per call."""
        asks = self.line.next(channel.name, channel.model.batch)
        tasks = [ask.item.task for ask in asks]
        self.line.back([ask for ask, task in zip(asks, tasks) if task != tasks[0]])
        return [ask for ask, task in zip(asks, tasks) if task == tasks[0]]

    def _ask_to_probe(self, channel: Channel, moment: float) -> list[Ask]:
        """Return the ask with which to find out whether a model's server works; none if none is.

        After a failure it is of another item: perhaps the server fails on that one alone.
        """
        after_failure = channel.gate.outage(moment) > 0.0
        if after_failure:
            asks = self.line.probe(channel.name, {*channel.unheard, *channel.alone})
        else:
            asks = self.line.next(channel.name)
        if not asks and channel.probe_asks:  # each probe takes the next of them
            channel.probe_asks.append(channel.probe_asks.pop(0))
            asks = [channel.probe_asks[-1]]
        if not asks and after_failure:
            asks = channel.known_good or self.line.probe(channel.name, set())
        return asks

    def _first_contact(self, moment: float) -> bool:
        """Whether, just after the start, some server has yet to show that it works."""
        # A server that is slow to begin must not hold up all others for longer.
        if moment - self._began > CONTACT:
            return False
        remote = (
            channel for channel in self.channels.values() if channel.model.remote and channel.opened
        )
        return any(
            channel.gate.state is State.PROBING and channel.median is None for channel in remote
        )

    def check_servers(self, moment: float) -> None:
        """Set aside models that are away or silent, and resend the ask that holds up the line."""
        for channel in self.channels.values():
            self._check_server(channel, moment)
        if self.line.head is not None:
            self._resend(self.line.head, moment)

    def _check_server(self, channel: Channel, moment: float) -> None:
        """Set a model aside whose server is away or silent; for good after too long."""
        name, gate, limit = channel.name, channel.gate, 60.0 * self.rule.outage_minutes
        # Refusals for the rate are answers, so the model never counts as away by them.
        if channel.refused_for(moment) > limit:
            channel.closed("the server refused every request because of its rate limit")
        elif name in self.line.away:
            if channel.gone(moment, limit):
                channel.closed(gate.reason)
            # Nothing but this model is left to wait for, and each probe of it may be billed.
            elif channel.hangs and self._others_are_done():
                channel.set_aside(gate.reason)
        elif name in self.book.tally.set_aside:
            pass  # for good
        elif channel.silent(moment):
            self._note_silence(channel, moment)
        elif channel.gone(moment):
            channel.set_aside(gate.reason, away=True)

    def _note_silence(self, channel: Channel, moment: float) -> None:
        """Give up the ask that a model leaves unanswered, or set the model aside for now."""
        head = self.line.head
        # Perhaps the server hangs on this one document, while it answers all others.
        if head and head.model == channel.name and channel.give_up_if_alone(head, moment):
            return
        silence = "no answer, not even to a second request"
        channel.gate.failed(moment, moment, silence, hung=True)
        channel.hangs = True
        channel.set_aside(channel.gate.reason, away=True)

    def _resend(self, head: Ask, moment: float) -> None:
        """Send the ask that holds up the line a second time, if its only call takes long."""
        channel = self.channels[head.model]
        # A local model would compute the same answer twice, and slower.
        if not channel.model.remote:
            return
        calls = [sending for sending in channel.wire if head in sending.asks]
        # The answer is there, and a judge holds it up: a second request would not help.
        if calls and head.item in channel.model.scoring:
            channel.warn_of_scoring(calls[0], moment)
        waits, attempts = channel.gate.state is State.WAITING, max(2, self.rule.attempts)
        # A second request is out already, or could not be answered, or would be one too many.
        if len(calls) != 1 or waits or calls[0].attempt >= attempts:
            return
        if moment >= channel.second_at(calls[0]):
            what = "%s, item %r holds up the others and is sent again"
            logger.info(what, channel.name, self.book.journal.filed(head.item))
            self.feed(channel, Sending([head], calls[0].attempt, second=True))

    def _others_are_done(self) -> bool:
        """Whether the remaining models can be ranked by themselves and have nothing left to do."""
        aside = self.book.tally.set_aside
        present = [channel for name, channel in self.channels.items() if name not in aside]
        busy = any(
            channel.wire or channel.retries or self.line.has_next(channel.name)
            for channel in present
        )
        return len(present) >= (2 if self.line.needs_two else 1) and not busy

    def pause(self, moment: float) -> float:
        """Return the seconds until something is due even if no answer arrives."""
        waits = [POLL]
        for channel in self.channels.values():
            waits += [due - moment for due, _ in channel.retries]
            if channel.gate.state is State.WAITING:
                waits.append(channel.gate.wait(moment))
            may_send = channel.opened and channel.gate.state is State.OPEN
            if may_send and self.line.has_next(channel.name) and channel.free > 0:
                # A first contact ends by an answer, which is waited for.
                waits.append(POLL if self._tries_out(channel, moment) else channel.wait(moment))
        if (head := self.line.head) is not None:
            channel = self.channels[head.model]
            waits += [
                channel.second_at(sending) - moment
                for sending in channel.wire
                if head in sending.asks
            ]
        return min(max(min(waits), 0.002), POLL)

    # -- what comes back -------------------------------------------------------------------

    def _bring(self, channel: Channel, sending: Sending, result: Any) -> None:
        """Queue the answers or the error of a call; runs in its thread."""
        self._came.put(None if result is SCORING else (channel, sending, result))

    def _arrivals(self, timeout: float) -> Iterator[tuple[Channel, Sending, Any]]:
        with suppress(queue.Empty):
            arrival = self._came.get(timeout=timeout)
            while True:
                if arrival is not None:
                    yield arrival
                arrival = self._came.get_nowait()

    def collect(self, timeout: float, refill: bool = False) -> None:
        """Process results that have arrived: all answers together, then the failures.

        With `refill`, the freed slots are filled first.
        """
        arrived = self._arrived(timeout)
        # What arrived together with an error that ends the run is paid, and kept.
        if arrived.fatal is not None:
            self.line.arrive(arrived.records)
            raise arrived.fatal
        # Asks already made need not wait for the processing.
        if refill and not arrived.failed:
            remote = (channel.name for channel, _ in arrived.answers if channel.model.remote)
            for name in dict.fromkeys(remote):
                self.feed(self.channels[name])
        self.line.arrive(arrived.records)
        self._require_below_caps()
        for channel, answers in arrived.answers:
            if channel.name in self.line.away and channel.gate.state is State.OPEN:
                channel.back()
            channel.count_unscored(answers)
        for channel, sending, trouble in arrived.failed:
            if isinstance(trouble, PlaceLost):
                self._displaced(channel)
                channel.displaced(sending, trouble)
            else:
                channel.failed(sending, trouble, arrived.moment)
        # After the deciding answer, copies among what was left on the wire end nothing.
        for channel, answers in arrived.answers if refill else ():
            channel.note_copies(answers)

    def _arrived(self, timeout: float) -> Arrived:
        """Take the results that have arrived off the wire, and sort them."""
        arrived = Arrived()
        new: set[Pair] = set()
        for channel, sending, result in self._arrivals(timeout):
            arrived.moment = clock()
            channel.wire.remove(sending)
            channel.model.scoring.difference_update(ask.item for ask in sending.asks)
            if not isinstance(result, BaseException):
                channel.answered(sending, arrived.moment)
                records = channel.records(sending, result, new)
                new.update(record.pair for record in records if isinstance(record, Answered))
                arrived.records += records
                arrived.answers.append((channel, result))
            elif isinstance(result, NoScoresError) or not isinstance(result, Exception):
                arrived.fatal = arrived.fatal or result
            else:
                arrived.failed.append((channel, sending, result))
        return arrived

    def _require_below_caps(self) -> None:
        """Refuse a metric without an upper end if most of the models' first scores are capped.

        Raises
        ------
        ScaleError
            See `share_above_cap`; what was answered stays in the journal.
        """
        aside = self.book.tally.set_aside
        if not self._capped or any(
            self.book.told_of[name] < self.line.warmup
            for name in self.channels
            if name not in aside
        ):
            return
        for task, metric, cap in self._capped:
            raws = (
                answer.raw for (_, item), answer in self.book.answers.items() if item.task == task
            )
            scores = [raw.get(metric) if isinstance(raw, dict) else raw for raw in raws]
            if any(score is not None for score in scores):
                share_above_cap(np.array(scores, dtype=float), cap, metric, f"task {task}")
        self._capped = []  # later scores are of documents that were chosen by these

    def _displaced(self, channel: Channel) -> None:
        """Let a model whose node was lost, and all others of its cluster, take turns from now on.

        They do so only if they no longer fit together.
        """
        if not channel.opened or channel.model.ready():  # it was placed again since
            return
        logger.warning("%s: its node was lost; starting it again", channel.name)
        if not self._turns:
            self._turns = [other for other in self.channels.values() if other.model.bundle]
            self._seats = [seat for seat in self._turns if seat.opened or seat.to_open]
        channel.opened, channel.to_open = False, True

    # -- the end ---------------------------------------------------------------------------

    def _collect_for(self, seconds: float) -> None:
        """Collect what arrives within `seconds`, and send nothing more."""
        end = clock() + seconds
        channels = [channel for channel in self.channels.values() if not channel.hangs]
        while any(channel.wire for channel in channels) and (left := end - clock()) > 0:
            self.collect(min(left, POLL))

    def _abandon(self, why: str) -> None:
        """Abandon the requests in flight, and record that their billing is unknown."""
        for channel in self.channels.values():
            for sending in channel.wire:
                for ask in sending.asks:
                    channel.lose(ask.item, UNKNOWN, why)
            if channel.wire:
                channel.model.cancel()
            channel.wire.clear()
            channel.model.scoring.clear()


def new_line(plan: Plan, book: Book, slots: Mapping[str, int]) -> Line:
    """Return the line of a run of these models, each with its most items in flight."""
    spec = plan.spec
    return Line(
        book,
        windows_of(plan, slots),
        growth=dict.fromkeys(slots, GROWTH),
        arrival=spec.order == "arrival",
        warmup=plan.first,
        at_once=spec.ahead is None,
        one_first="tokens" in spec.budget
        or ("usd" in spec.budget and any(model.price.by_tokens for model in spec.models)),
        needs_two=spec.target_se is None and len(slots) > 1,
        max_untold=1 if spec.ahead == 1 else None,
        goal=_may_end_early(plan, len(slots)),
    )


def windows_of(plan: Plan, slots: Mapping[str, int]) -> dict[str, int]:
    """Return the windows of models: as the user says, or wide where all answers count."""
    if plan.spec.ahead or _may_end_early(plan, len(slots)):
        return dict.fromkeys(slots, plan.spec.ahead or WINDOW)
    return {model: max(WINDOW, 2 * n) for model, n in slots.items()}


def _may_end_early(plan: Plan, n_models: int) -> bool:
    """Whether a run may end before its limits, so that some answers count for nothing."""
    spec, several = plan.spec, n_models > 1 or bool(plan.known)
    return has_goal(plan.rule or spec.rule) and (several or spec.target_se is not None)


@contextmanager
def settled_heap() -> Iterator[None]:
    """Exempt loaded objects from garbage collection: walking through them takes a sixth of a run.

    Objects that other code has frozen stay frozen. New ones are looked at less often.
    """
    ours, thresholds = not gc.get_freeze_count(), gc.get_threshold()
    if ours:
        gc.collect()  # else unused objects, such as a model's weights, would stay
        gc.freeze()
        gc.set_threshold(10 * thresholds[0], *thresholds[1:])
    try:
        yield
    finally:
        if ours:
            gc.set_threshold(*thresholds)
            gc.unfreeze()

"""`Sender`: keeps the models of a run busy, and its line moving, until the ranking ends.

One thread drives everything (see `Run.ask`): it sends the asks of the line, collects the results,
passes them to the line and checks the clock. Calls to models run in threads of their own, which
only return an answer or an error; the model's `Channel` decides what follows from it.

The *line* has the asks in the order in which their answers take effect, so its *head*, the first
without an answer, holds up all others. Models that do not all fit, into memory or on the nodes of a
cluster, *take turns*: each is loaded once it gets a *place* that another has left. A model that is
*set aside* is asked nothing more, for good or while its server is *away*; a *probe* is one call
that tells whether it is back. A call in flight takes one of its model's *slots*, unless it is
*extra*, as a second request for an ask is, and a probe where no slot is free.
"""

from __future__ import annotations

import gc
import logging
import math
import queue
import time
from collections.abc import Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from time import monotonic as clock
from typing import Any, NamedTuple

import numpy as np

from ..errors import CcatError, JudgeError, RunError
from ..money import UNKNOWN
from ..ranker.stopping import has_goal
from ..records import Answered, Interrupt, Item, Record, Windows
from ..runs.book import OPEN, Ask, Book
from ..runs.kept_answers import ModelItem
from ..runs.tally import SENT_BESIDE
from ..scores.reading import share_above_cap
from .channel import Channel, Sending
from .failures import Failure, PlaceLost, State
from .interrupts import Interrupts
from .line import GROWTH, GROWTH_IN_TURNS, WINDOW, Line
from .models import SCORING, Model, NoScoresError, ToRate, taking_turns
from .pace import RateLimit
from .plan import Plan
from .result import Observer

logger = logging.getLogger(__name__)

#: Seconds between two checks of the clock, and between two ticks of the observer.
POLL, TICK = 0.25, 0.1
#: Seconds to wait for requests in flight at the deadline, and after Ctrl-C.
WAIT_AT_DEADLINE, WAIT_AFTER_INTERRUPT = 0.6, 2.0
#: Seconds between two reports of what is missing while a model waits for a node.
REPORT = 10.0
#: Seconds at the start in which every server gets a single request, to show that it works.
CONTACT = 3.0


class Returned(NamedTuple):
    """A call that has come back: its answers, or the error that it raised."""

    channel: Channel
    sending: Sending
    result: Any


class WaitForNode(NamedTuple):
    """When a model began to wait for a node, and when that was last reported."""

    began: float
    reported: float


@dataclass
class Arrived:
    """Results of calls that were collected together.

    Attributes
    ----------
    moment : float
        Time at which the last of them was collected.
    records : list of Record
        The records of all answers.
    answered : list of Returned
        The calls that returned answers.
    failed : list of Returned
        Those with an error that their channels deal with.
    fatal : BaseException or None
        The first error that no channel can deal with: it ends the run.
    """

    moment: float = 0.0
    records: list[Record] = field(default_factory=list)
    answered: list[Returned] = field(default_factory=list)
    failed: list[Returned] = field(default_factory=list)
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
        # The models that take turns, those of them that hold a place (they are open, or to be
        # opened), and those for which a further place is reserved on a cluster.
        self._taking_turns: list[Channel] = []
        self._holders: list[Channel] = []
        self._reserved_for: list[Channel] = []
        self.line = new_line(
            plan, book, {model.name: model.slots * model.batch for model in models}
        )
        self.channels = {model.name: Channel(model, plan, self.line) for model in models}
        self.line.in_flight = self._in_flight
        self._limits: dict[Hashable, RateLimit] = {}
        self._results: queue.SimpleQueue[Returned | None] = queue.SimpleQueue()
        self.interrupts = interrupts
        interrupts.wake = lambda: self._results.put(None)
        self._waiting_for_node: dict[str, WaitForNode] = {}
        self._began = self._ticked = clock()
        self._heard_until = self._began  # time until which results were collected
        # Outcomes whose metric has no upper end, so that scores above a cap count as the cap.
        self._capped = [
            (name, outcome)
            for outcomes in plan.outcomes_by_task.values()
            for name, outcome in outcomes.items()
            if outcome.weight > 0.0 and outcome.scale.cap is not None
        ]

    # -- the run ---------------------------------------------------------------------------

    def open_first(self) -> None:
        """Open models before anything is asked, so that errors show before they cost money.

        Those for which a cluster has no room yet are opened later.
        """
        channels, began = self._models_to_open_first(), clock()
        while True:
            for channel in channels:
                self.feed(channel)
            waited_long = clock() - began > REPORT
            if not any(
                channel.to_open and not (waited_long and channel.model.missing)
                for channel in channels
            ):
                return
            self.interrupts.heed()
            time.sleep(TICK)

    def _models_to_open_first(self) -> list[Channel]:
        """Return the models that stay open and the first that take turns; none once all is over."""
        ranker, aside = self.book.ranker, self.book.tally.set_aside
        # A new run gets answers, however short its time.
        out_of_time = self.is_out_of_time() and self.book.n_told
        if ranker.done or (self.line.ends_at_goal and ranker.decided) or out_of_time:
            return []
        names, channels = self._names_taking_turns(), self.channels.values()
        self._taking_turns = [channel for channel in channels if channel.name in names]
        for channel in self._taking_turns:
            others = [holder.model for holder in self._holders]
            if channel.name not in aside and channel.model.fits_beside(others):
                self._holders.append(channel)
        staying_open = [channel for channel in channels if channel.name not in names]
        to_open = [*staying_open, *self._holders]
        for channel in to_open:
            channel.to_open = channel.name not in aside
        return to_open

    def start(self) -> None:
        """Ask the first items."""
        # A run that is over, or whose models are all set aside, opens none: it needs no windows.
        if self._taking_turns or any(
            channel.opened or channel.to_open for channel in self.channels.values()
        ):
            slots = {model.name: model.slots * model.batch for model in self.models}
            # What models that take turns take at once is known only when they are loaded.
            in_turns = [channel.name for channel in self._taking_turns]
            windows = windows_of(self.plan, slots | dict.fromkeys(in_turns, 1))
            self.line.first_windows = windows
            self.line.growth = {**self.line.growth, **dict.fromkeys(in_turns, GROWTH_IN_TURNS)}
            self.book.write([Windows(windows=windows, wire=slots, arrival=self.line.arrival)])
            self._began = clock()
        self.interrupts.wait = True
        self.line.start()

    def is_out_of_time(self) -> bool:
        """Whether the budget in seconds is used up."""
        seconds = self.plan.seconds
        return seconds is not None and self.book.elapsed() >= seconds

    def tick(self) -> None:
        """Call the observer's `tick` at intervals."""
        if clock() - self._ticked >= TICK:
            self.observer.tick()
            self._ticked = clock()

    def finish(self, out_of_time: bool) -> None:
        """Wait briefly for requests in flight after the deciding answer, or at the deadline."""
        wait = max((channel.last_wait() for channel in self.channels.values()), default=0.0)
        self._collect_for(WAIT_AT_DEADLINE if out_of_time else wait)
        self._abandon("deadline" if out_of_time else "behind the deciding answer")
        if out_of_time:
            self.line.end(f"the budget of {self.plan.seconds:g} seconds is used up")

    def leave(self, end: Interrupt) -> None:
        """Wait a moment for requests in flight, keep their answers, and end the session."""
        waits_until = clock() + WAIT_AFTER_INTERRUPT
        while (left := waits_until - clock()) > 0 and any(
            channel.wire for channel in self.channels.values() if not channel.hangs
        ):
            # Raised for each answer that its judge does not rate; the answers are kept unrated.
            with suppress(JudgeError):
                self._collect_for(left)
        self._abandon("interrupted")
        self.book.write([end])

    def ask_beyond_bank(self, model: str, items: Sequence[Item]) -> None:
        """Ask an open model items that the Ranker does not offer, without telling the Ranker.

        Raises
        ------
        RunError
            An item gets no answer: a full run needs all of them.
        """
        channel = self.channels[model]
        self.line.ask_beyond_bank(model, items)
        channel.availability.state, channel.opened = State.OPEN, True
        try:
            self.interrupts.wait = True
            while self.line.has_next(model) or channel.wire or channel.retries:
                self.interrupts.heed()
                if channel.refused_for(clock()) > channel.outage_limit:
                    raise RunError(
                        f"{channel.name} rejects every request because of its rate limit"
                    )
                self.feed(channel)
                self.collect(self.pause(clock()))
        except BaseException:
            end = clock() + WAIT_AFTER_INTERRUPT
            while channel.wire and (left := end - clock()) > 0:
                # A further document without an answer, or that its judge does not rate.
                with suppress(RunError, JudgeError):
                    self._collect_for(left)
            self._abandon("interrupted")
            raise

    # -- opening ---------------------------------------------------------------------------

    def _names_taking_turns(self) -> set[str]:
        """Return the models that cannot all be open at once, here or on the nodes of a cluster."""
        names = taking_turns(self.plan.spec, {model.name: model.memory for model in self.models})
        on_nodes = [model for model in self.models if model.bundle]
        if on_nodes and not on_nodes[0].fits_beside(on_nodes[1:]):
            names |= {model.name for model in on_nodes}
        return names

    def take_turns(self) -> None:
        """Give the places to the models whose asks come first in the line.

        The model at the head of the line gets the place of one that has nothing to do: all others
        wait for its answer anyway. A further model gets only the place of one with no open ask.
        """
        if not self._taking_turns:
            return
        for holder in [holder for holder in self._holders if holder.to_open]:
            others = [other.model for other in self._holders if other is not holder]
            # It is not open yet, and the node on which it was to be is gone.
            if others and not holder.model.fits_beside(others):
                self._take_place(holder)
        waiting = list(dict.fromkeys(ask.model for ask in self.book.unanswered))
        without_place: list[Channel] = []
        for position, name in enumerate(waiting):
            channel = self.channels[name]
            if channel in self._taking_turns and channel not in self._holders:
                idle = [
                    holder
                    for holder in self._holders
                    if not self._is_busy(holder) and (position == 0 or holder.name not in waiting)
                ]
                # A model must not take a place for which one before it waits.
                if without_place or not self._give_place(channel, idle):
                    without_place.append(channel)
        if without_place and without_place[0].model.bundle:
            self._reserve_places(without_place, clock())

    def _give_place(self, channel: Channel, idle: list[Channel]) -> bool:
        """Give a model a place, if there is one or idle models leave one."""
        staying = [holder.model for holder in self._holders if holder not in idle]
        if not channel.model.fits_beside(staying):
            return False
        while idle and not channel.model.fits_beside([holder.model for holder in self._holders]):
            self._take_place(idle.pop(0))
        self._holders.append(channel)
        # What is reserved for it is now its own, and others keep theirs where there is room.
        self._reserved_for = [waiting for waiting in self._reserved_for if waiting != channel]
        holders = [holder.model for holder in self._holders]
        self._free_reserved_places(
            [waiting for waiting in self._reserved_for if waiting.model.fits_beside(holders)]
        )
        channel.to_open = True
        return True

    def _take_place(self, holder: Channel) -> None:
        """Close a model, so that another gets its place."""
        holder.model.close()
        holder.opened = holder.to_open = False
        self._holders.remove(holder)

    def _is_busy(self, holder: Channel) -> bool:
        """Whether a model has something to do besides having its last answers scored."""
        if holder.to_open or holder.free_slots < holder.model.slots:
            return True
        return holder.opened and bool(holder.retries or self.line.has_next(holder.name))

    def _reserve_places(self, channels: Sequence[Channel], moment: float) -> None:
        """Reserve further places for models without one: an autoscaler may add nodes for them.

        It may add as many as it states; models beyond them take turns. Where nobody states how
        many, a place is reserved for the first alone.
        """
        first, reserved = channels[0], list[Channel]()
        models = [holder.model for holder in self._holders]
        for channel in channels:
            may_fit = channel.model.may_come_to_fit(models)
            fits_alone = channel.model.fits_beside([])
            # The first, if no present node could hold it, waits for a new one in any case.
            if may_fit or (channel is first and (may_fit is None or not fits_alone)):
                reserved.append(channel)
                models.append(channel.model)
        self._free_reserved_places(reserved)
        self._reserved_for = reserved
        for channel in reserved:
            channel.model.ready()
        for channel in channels:
            if channel.model.fits_beside([]):
                self._waiting_for_node.pop(channel.name, None)  # others will leave it a place
            else:
                self._wait_for_node(channel, moment)

    def _free_reserved_places(self, keep: Sequence[Channel]) -> None:
        """Free what is reserved for other models than these."""
        for channel in self._reserved_for:
            if channel not in keep:
                channel.model.close()
        self._reserved_for = [channel for channel in self._reserved_for if channel in keep]

    def _wait_for_node(self, channel: Channel, moment: float) -> None:
        """Say what a model waits for, and set it aside once it has waited too long."""
        if not (missing := channel.model.missing):
            self._waiting_for_node.pop(channel.name, None)  # it is loading
            return
        wait = self._waiting_for_node.setdefault(channel.name, WaitForNode(moment, moment))
        limit = channel.outage_limit
        if (hopeless := channel.model.too_large) or moment - wait.began >= limit:
            until = "and none that may join has" if hopeless else f"within {limit:g} s"
            channel.set_aside(f"no node had room for it {until}: {missing}")
            channel.model.close()
            channel.to_open = False
            self._holders = [holder for holder in self._holders if holder is not channel]
        elif moment - wait.reported >= REPORT:
            self.observer.warn(f"{channel.name} is waiting for a node: {missing}")
            self._waiting_for_node[channel.name] = wait._replace(reported=moment)

    # -- sending ---------------------------------------------------------------------------

    def feed(self, channel: Channel, again: Sending | None = None) -> None:
        """Open a model if it should be open, and send it all asks that may go out now.

        A call that is sent `again` goes out first, in addition to the model's slots.
        """
        if channel.to_open and not channel.model.ready():
            return self._wait_for_node(channel, clock())
        if channel.to_open:
            self._open(channel)
            if not channel.opened:
                return
        free = channel.free_slots  # counted once, as this looks at every call in flight
        sending = again or self._next_sending(channel, free, clock())
        while sending is not None:
            # Without a slot only a probe goes out.
            sending.extra = sending.extra or free <= 0
            free -= not sending.extra
            # Journalled before it goes out, as a kill leaves no other trace of it. A probe may ask
            # what is answered or has left the line.
            if again is sending or sending.asks[0].state != OPEN:
                channel.note_pending(sending, SENT_BESIDE)
            channel.sent(sending, clock())
            on_result = partial(self._queue_result, channel, sending)
            channel.model.start([ask.item for ask in sending.asks], on_result, sending.extra)
            sending = self._next_sending(channel, free, clock())

    def _open(self, channel: Channel) -> None:
        """Open a model, or set it aside if it cannot be loaded; a signal interrupts the loading."""
        self._waiting_for_node.pop(channel.name, None)
        channel.to_open = self.interrupts.wait = False
        trouble: Exception | None = None
        try:
            channel.model.open()
        except Exception as error:  # a model type may raise anything
            trouble = error
        self.interrupts.wait = True
        # What this package refuses, a person has to mend: the run ends.
        if isinstance(trouble, CcatError):
            raise trouble
        # It may be opened on another node.
        if isinstance(trouble, PlaceLost):
            channel.to_open = True
        elif trouble is not None:
            channel.set_aside(f"cannot be loaded: {Failure(trouble).text}")
        else:
            channel.opened = True
            # Models of one account share the limit of its rate.
            if (account := channel.model.account) is not None and channel.median is None:
                channel.pace.share(self._limits.setdefault(account, RateLimit()))
            # A wrong address, key or name shows at the first item, at the cost of one.
            if channel.model.remote and channel.median is None:
                channel.availability.require_probe()

    def _next_sending(self, channel: Channel, free: int, moment: float) -> Sending | None:
        """Return what to send a model now: an attempt that is due, else its next asks."""
        if not self._takes_a_call(channel, free, moment) or not channel.availability.admit(moment):
            return None
        if (retry := channel.take_due(moment)) is not None:
            return retry
        if channel.availability.state is State.PROBING:
            asks = self._ask_to_probe(channel, moment)
            if not asks:
                channel.availability.give_up_probe(moment)
        elif free > channel.kept_slots:
            asks = self._asks_of_a_task(channel)
        else:
            asks = []
        return channel.new_sending(asks) if asks else None

    def _takes_a_call(self, channel: Channel, free: int, moment: float) -> bool:
        """Whether a model is open, has a slot free, and its server allows a further call."""
        may_return = channel.name in self.line.away
        takes_part = may_return or channel.name not in self.book.tally.set_aside
        # A probe takes no slot, as calls that hang may hold all of them.
        probe_is_next = may_return and channel.availability.state is State.WAITING
        if not (channel.opened and takes_part and (free > 0 or probe_is_next)):
            return False
        if self._awaits_first_contact(channel, moment) or channel.wait(moment):
            return False
        return not self._has_earlier(channel, moment)

    def _has_earlier(self, channel: Channel, moment: float) -> bool:
        """Whether a limited rate leaves the next request to another model, whose ask is older."""
        limit, ask = channel.pace.limit, self.line.first(channel.name)
        if limit.rate == math.inf or ask is None:
            return False
        return any(
            neighbour.pace.limit is limit
            and (first_ask := self.line.first(neighbour.name)) is not None
            and first_ask.number < ask.number
            and self._waits_for_rate(neighbour, moment)
            for neighbour in self.channels.values()
        )

    def _waits_for_rate(self, channel: Channel, moment: float) -> bool:
        """Whether nothing but the rate of its host holds back a model's next request."""
        return (
            channel.opened
            and channel.availability.state is State.OPEN
            and channel.free_slots > channel.kept_slots
            and not channel.pace.is_paused(moment, len(channel.wire))
            and not self._awaits_first_contact(channel, moment)
        )

    def _awaits_first_contact(self, channel: Channel, moment: float) -> bool:
        """Whether a server gets no further call before every server has shown that it works."""
        return channel.model.remote and bool(channel.wire) and self._first_contact(moment)

    def _asks_of_a_task(self, channel: Channel) -> list[Ask]:
        """Take a model's next asks off the line; the harness evaluates one task per call."""
        asks = self.line.next(channel.name, channel.model.batch)
        tasks = [ask.item.task for ask in asks]
        self.line.put_back([ask for ask, task in zip(asks, tasks) if task != tasks[0]])
        return [ask for ask, task in zip(asks, tasks) if task == tasks[0]]

    def _ask_to_probe(self, channel: Channel, moment: float) -> list[Ask]:
        """Return one ask with which to find out whether a model's server works, if there is any.

        After a failure it is of another item: perhaps the server fails on that one alone.
        """
        after_failure = channel.availability.outage(moment) > 0.0
        if after_failure:
            asks = self.line.probe(
                channel.name, {*channel.failed_since_answer, *channel.failing_alone}
            )
        else:
            asks = self.line.next(channel.name)
        # Probes go through the asks of a model that is set aside, one after the other and again.
        if not asks and channel.probe_asks:
            channel.probe_asks.append(channel.probe_asks.pop(0))
            asks = [channel.probe_asks[-1]]
        if not asks and after_failure:
            asks = channel.last_answered or self.line.probe(channel.name, set())
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
            channel.availability.state is State.PROBING and channel.median is None
            for channel in remote
        )

    def check_servers(self, moment: float) -> None:
        """Set aside models that are away or silent, and resend the ask that holds up the line."""
        self._note_break(moment)
        for channel in self.channels.values():
            self._check_server(channel, moment)
        if self.line.head is not None:
            self._resend(self.line.head, moment)

    def _note_break(self, moment: float) -> None:
        """Note if the run was busy or stopped until now: what came meanwhile is not collected."""
        if moment - self._heard_until > POLL:
            for channel in self.channels.values():
                channel.note_break(self._heard_until, moment)
            self._heard_until = moment

    def _check_server(self, channel: Channel, moment: float) -> None:
        """Set a model aside whose server is away or silent; for good after too long."""
        name, availability, limit = channel.name, channel.availability, channel.outage_limit
        # Refusals for the rate are answers, so the model never counts as away by them.
        if channel.refused_for(moment) > limit:
            channel.set_aside_for_outage(
                "the server refused every request because of its rate limit"
            )
        elif name in self.line.away:
            if channel.has_been_away(moment, limit):
                channel.set_aside_for_outage(availability.reason)
            # Nothing but this model is left to wait for, and each probe of it may be billed.
            elif channel.hangs and self._others_are_done():
                channel.set_aside(availability.reason)
        elif name in self.book.tally.set_aside:
            return  # for good
        elif channel.silent(moment):
            self._note_silence(channel, moment)
        elif channel.has_been_away(moment):
            channel.set_aside(availability.reason, away=True)

    def _note_silence(self, channel: Channel, moment: float) -> None:
        """Give up items that a model alone leaves unanswered, or set the model aside for now."""
        # Perhaps the server hangs on some documents, while it answers all others.
        if channel.give_up_alone(moment):
            return
        witness = channel.witness
        # An item that was answered before tells whether the server is there.
        if witness is None and channel.last_answered:
            channel.witness = Sending(channel.last_answered, extra=True)
            self.feed(channel, again=channel.witness)
        # The answer to it may still come.
        elif witness in channel.wire and not channel.is_late(witness, moment):
            return
        # It has come: the server is there now, and may have been away before.
        elif witness is not None and witness not in channel.wire:
            further = channel.note_hanging()
            for call in further:
                self.feed(channel, again=call)
            if not further and all(channel.is_late(call, moment) for call in channel.wire):
                channel.witness = None  # some were sent after it
        # It has not come either, or there is none: the server is away.
        else:
            channel.note_hanging()
            for call in channel.wire:
                channel.leave_slot(call)
            silence = "no answer, not even to a second request"
            channel.availability.failed(moment, moment, silence, hung=True)
            channel.hangs = True
            channel.set_aside(channel.availability.reason, away=True)

    def _resend(self, head: Ask, moment: float) -> None:
        """Send the ask that holds up the line a second time, if its only call takes long.

        If the second takes long as well, what else is late is sent again, too.
        """
        channel = self.channels[head.model]
        calls = channel.calls_of(head)
        # The answer is there, and a judge holds it up: a second request would not help.
        if calls and head.item in channel.model.scoring:
            channel.warn_of_scoring(calls[0], moment)
        if not calls or not all(channel.is_late(call, moment) for call in calls):
            return
        if len(calls) == 1:
            self._send_again(channel, calls[0], head)
            return
        for late_model in self.channels.values():
            for call in [call for call in late_model.wire if late_model.is_late(call, moment)]:
                self._replace_late(late_model, call, moment)

    def _replace_late(self, channel: Channel, call: Sending, moment: float) -> None:
        """Send the ask of a late call again, or give its slot to others if that was of no use."""
        ask = call.asks[0]
        requests = channel.calls_of(ask)
        if len(requests) > 1 and all(channel.is_late(request, moment) for request in requests):
            channel.leave_slot(call)
        elif len(requests) == len(call.asks) == 1 and ask.state == OPEN:
            self._send_again(channel, call, ask)

    def _send_again(self, channel: Channel, call: Sending, ask: Ask) -> None:
        """Send an ask a second time, unless that could not be answered or is one too many."""
        may_answer = channel.availability.state is not State.WAITING
        # A second request is no retry, so one may go out even if a single attempt is allowed.
        attempts_left = call.attempt < max(2, channel.failure_rule.attempts)
        # A local model would compute the same answer twice, and slower.
        if channel.model.remote and may_answer and attempts_left:
            what = "%s, item %r holds up the others and is sent again"
            logger.info(what, channel.name, self.book.journal.item_to_json(ask.item))
            self.feed(channel, again=Sending([ask], call.attempt, extra=True))

    def _others_are_done(self) -> bool:
        """Whether the remaining models can be ranked by themselves and have nothing left to do."""
        aside = self.book.tally.set_aside
        present = [channel for name, channel in self.channels.items() if name not in aside]
        busy = any(
            channel.wire or channel.retries or self.line.has_next(channel.name)
            for channel in present
        )
        return len(present) >= (2 if self.line.compares_only else 1) and not busy

    def pause(self, moment: float) -> float:
        """Return how many seconds to wait for answers: until something is due without one.

        Due may be a retry, a probe, a call that the rate allows, or a second request. The result is
        between 2 ms, so that the loop never spins, and `POLL`.
        """
        waits = [POLL]
        for channel in self.channels.values():
            waits += [due - moment for due, _ in channel.retries]
            if channel.availability.state is State.WAITING:
                waits.append(channel.availability.wait(moment))
            may_send = channel.opened and channel.availability.state is State.OPEN
            if may_send and self.line.has_next(channel.name) and channel.free_slots > 0:
                # Until every server has shown that it works, a busy one gets no further call. What
                # it waits for is an answer, which ends the pause.
                waits.append(
                    POLL if self._awaits_first_contact(channel, moment) else channel.wait(moment)
                )
        if (head := self.line.head) is not None:
            channel = self.channels[head.model]
            due = (channel.resend_at(sending) for sending in channel.calls_of(head))
            waits += [resend_at - moment for resend_at in due if resend_at > moment]
        return min(max(min(waits), 0.002), POLL)

    # -- what comes back -------------------------------------------------------------------

    def _queue_result(self, channel: Channel, sending: Sending, result: Any) -> None:
        """Queue the answers or the error of a call; runs in its thread."""
        # That answers are being scored frees a slot of the model: it only wakes the sender.
        self._results.put(None if result is SCORING else Returned(channel, sending, result))

    def _returned(self, timeout: float) -> Iterator[Returned]:
        """Yield the calls that have come back; wait for the first of them."""
        began = clock()
        self._note_break(began)
        self._heard_until = began + timeout  # while it waits here, it collects
        with suppress(queue.Empty):
            returned = self._results.get(timeout=timeout)
            while True:
                moment = clock()
                self._note_break(moment)
                self._heard_until = moment
                # None only ends the wait: a signal came, or a slot is free.
                if returned is not None:
                    yield returned
                returned = self._results.get_nowait()

    def collect(self, timeout: float, asking: bool = False) -> None:
        """Process results that have arrived: all answers together, then the failures.

        While the run is still `asking`, freed slots are filled first, and copies among repeats end
        it; after the deciding answer neither.
        """
        arrived = self._arrived(timeout)
        # What arrived together with an error that ends the run is paid, and kept.
        if arrived.fatal is not None:
            self.line.arrive(arrived.records)
            raise arrived.fatal
        # Asks already made need not wait for the processing.
        if asking and not arrived.failed:
            remote = (call.channel.name for call in arrived.answered if call.channel.model.remote)
            for name in dict.fromkeys(remote):
                self.feed(self.channels[name])
        self.line.arrive(arrived.records)
        self._require_below_caps()
        for channel, _, answers in arrived.answered:
            if channel.name in self.line.away and channel.availability.state is State.OPEN:
                channel.take_up()
            channel.count_unscored(answers)
        for channel, sending, error in arrived.failed:
            if isinstance(error, PlaceLost):
                self._reopen_elsewhere(channel)
                channel.displaced(sending, error)
            else:
                channel.failed(sending, error, arrived.moment)
        if asking:
            for channel, _, answers in arrived.answered:
                channel.note_copies(answers)

    def _arrived(self, timeout: float) -> Arrived:
        """Take the results that have arrived off the wire, and sort them."""
        arrived = Arrived()
        pairs, unrated_pairs = set[ModelItem](), set[ModelItem]()
        for call in self._returned(timeout):
            channel, sending, result = call
            arrived.moment = clock()
            # The call goes on until a judge has rated its answers.
            if isinstance(result, ToRate):
                unrated = channel.unrated(
                    sending, result.answers, arrived.moment, pairs | unrated_pairs
                )
                unrated_pairs.update(answer.pair for answer in unrated)
                arrived.records += unrated
                continue
            channel.wire.remove(sending)
            channel.model.scoring.difference_update(ask.item for ask in sending.asks)
            if not isinstance(result, BaseException):
                channel.answered(sending, arrived.moment)
                records = channel.records(sending, result, pairs)
                pairs.update(record.pair for record in records if isinstance(record, Answered))
                arrived.records += records
                arrived.answered.append(call)
            # A judge that can be asked nothing is no failure of the model, and ends the run.
            elif isinstance(result, NoScoresError | JudgeError) or not isinstance(
                result, Exception
            ):
                arrived.fatal = arrived.fatal or result
            else:
                arrived.failed.append(call)
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
            self.book.n_told_by_model[name] < self.line.warmup
            for name in self.channels
            if name not in aside
        ):
            return
        for name, outcome in self._capped:
            answers, cap = self.book.answers.items(), outcome.scale.cap
            raws = [answer.raw for (_, item), answer in answers if item.task == outcome.task]
            scores = [raw.get(name) if isinstance(raw, dict) else raw for raw in raws]
            if cap is not None and any(score is not None for score in scores):
                share_above_cap(np.array(scores, float), cap, name, f"task {outcome.task}")
        self._capped = []  # later scores are of documents that were chosen by these

    def _reopen_elsewhere(self, channel: Channel) -> None:
        """Open a model again whose node was lost; all models of the cluster may take turns now.

        They do so only if they no longer fit together; see `take_turns`.
        """
        # Every call in flight reports the loss: the first has noted it, or it was placed again.
        if not channel.opened or channel.model.ready():
            return
        logger.warning("%s: its node was lost; starting it again", channel.name)
        if not self._taking_turns:
            self._taking_turns = [other for other in self.channels.values() if other.model.bundle]
            self._holders = [
                holder for holder in self._taking_turns if holder.opened or holder.to_open
            ]
        channel.opened, channel.to_open = False, True

    # -- the end ---------------------------------------------------------------------------

    def _collect_for(self, seconds: float) -> None:
        """Collect what arrives within `seconds`, and send nothing more."""
        end = clock() + seconds
        channels = [channel for channel in self.channels.values() if not channel.hangs]
        while any(channel.wire for channel in channels) and (left := end - clock()) > 0:
            self.collect(min(left, POLL))

    def _in_flight(self) -> dict[str, int]:
        """Return by model the items in flight whose answers have not come, if any."""
        unrated = self.book.unrated
        counts = {
            name: sum(ask.pair not in unrated for call in channel.wire for ask in call.asks)
            for name, channel in self.channels.items()
        }
        return {name: count for name, count in counts.items() if count}

    def _abandon(self, why: str) -> None:
        """Abandon the requests in flight, and record that their billing is unknown."""
        for channel in self.channels.values():
            for sending in channel.wire:
                for ask in sending.asks:
                    # Its answer is kept, and is rated when the run goes on.
                    if ask.pair not in self.book.unrated:
                        channel.lose(ask, UNKNOWN, why)
            if channel.wire:
                channel.model.cancel()
            channel.wire.clear()
            channel.model.scoring.clear()


def new_line(plan: Plan, book: Book, slots: Mapping[str, int]) -> Line:
    """Return the line of a run; `slots` has the most items in flight of each model."""
    spec = plan.spec
    return Line(
        book,
        windows_of(plan, slots),
        growth=dict.fromkeys(slots, GROWTH),
        arrival=spec.order == "arrival",
        warmup=plan.warmup_items,
        warmup_at_once=spec.ahead is None,
        first_alone=plan.charges.shows_at_answers,
        compares_only=spec.target_se is None and len(slots) > 1,
        max_untold=1 if spec.ahead == 1 else None,  # one at a time, of all models
        ends_at_goal=_may_end_early(plan, len(slots)),
    )


def windows_of(plan: Plan, slots: Mapping[str, int]) -> dict[str, int]:
    """Return by model the most asks whose answers do not count yet.

    They are as the user says (`ahead`), or wide where the run cannot end early, so that no answer
    is paid in vain.
    """
    if plan.spec.ahead or _may_end_early(plan, len(slots)):
        return dict.fromkeys(slots, plan.spec.ahead or WINDOW)
    return {model: max(WINDOW, 2 * n) for model, n in slots.items()}


def _may_end_early(plan: Plan, n_models: int) -> bool:
    """Whether a run may end before its limits, so that some answers count for nothing."""
    spec, several = plan.spec, n_models > 1 or bool(plan.known)
    return has_goal(plan.rule or spec.rule) and (several or spec.target_se is not None)


@contextmanager
def frozen_heap(holds_weights: bool) -> Iterator[None]:
    """Exempt objects that exist now from garbage collection, and collect new ones less often.

    To walk through them would take a sixth of a run, and through those of hundreds of requests in
    flight a tenth. What other code has frozen stays frozen. `holds_weights` says whether models
    compute on this machine: garbage of theirs may hold large arrays.
    """
    ours, thresholds = not gc.get_freeze_count(), gc.get_threshold()
    if ours:
        gc.collect()  # else unused objects, such as a model's weights, would stay
        gc.freeze()
        gc.set_threshold((10 if holds_weights else 200) * thresholds[0], *thresholds[1:])
    try:
        yield
    finally:
        if ours:
            gc.set_threshold(*thresholds)
            gc.unfreeze()

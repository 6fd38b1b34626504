"""Keeps the models busy: who is asked what, when, and what happens to what comes back.

Models wait for nobody: each has its own threads, which ask the Ranker for that model's next
documents while the others work.  Local weights that do not fit together take turns (``rounds``).
With ``one_at_a_time`` a single request is in flight in the whole run and the Ranker alone decides
whose; the run is then reproducible to the last bit.
"""

from __future__ import annotations

import math
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

from ..errors import CcatError, RunError
from ..runs.journaled import JournaledRanker
from .asking import Asking
from .availability import State
from .entries import FailureRule
from .failures import describe
from .worker import Item, Worker

POLL_SECONDS = 0.25
#: Seconds that what is in flight gets to arrive at the deadline, before it is cancelled.
GRACE = 0.8


class Scheduler:
    """Runs a ranking to its end with worker threads.

    Parameters
    ----------
    ranker : JournaledRanker
        Already in step with its journal.  Documents that were in flight when an earlier process
        died are asked first, before anything new.
    workers : sequence of Worker
        One per model.
    rule : FailureRule
        When to try again and when to give up.
    one_at_a_time : bool
        One request in flight in the whole run.
    memory : float, optional
        How much the workers that declare ``memory`` may hold together, in the same unit. Without
        it those whose ``memory`` is infinite, that is unknown, take turns.
    seconds : float, optional
        Time budget of the run, over all its sessions.
    expected : callable, optional
        ``(model, item) -> cost`` that an attempt counts where nobody knows whether it was billed.
    needs_two : bool
        Whether a last model that is left is asked nothing more.
    """

    def __init__(
        self,
        ranker: JournaledRanker,
        workers: Sequence[Worker],
        rule: FailureRule | None = None,
        *,
        one_at_a_time: bool = False,
        memory: float | None = None,
        seconds: float | None = None,
        expected: Callable[[str, Item], float] = lambda name, item: 0.0,
        needs_two: bool = True,
    ) -> None:
        self.ranker = ranker
        self.workers = {worker.name: worker for worker in workers}
        self.one_at_a_time = one_at_a_time
        self.memory = memory
        self.seconds = seconds
        self.error: BaseException | None = None
        self._opened: set[str] = set()
        self._deadline: float | None = None
        self._left_over = {
            name: deque(doc for _, doc in ranker.unanswered(name)) for name in self.workers
        }
        self.asking = Asking(
            ranker, self.workers, rule or FailureRule(), expected, self._left_over, needs_two
        )
        self._stop = self.asking.stopped

    # -- the run ---------------------------------------------------------------------------

    def run(self, on_tick: Callable[[], None] | None = None, grace: float = 2.0) -> None:
        """Work until the ranking is done.

        Parameters
        ----------
        on_tick : callable, optional
            Called a few times a second from the calling thread (for a live display).
        grace : float
            Seconds that documents in flight get to arrive after an interruption.

        Raises
        ------
        KeyboardInterrupt
            After an orderly end: nothing new is asked, what arrived is on disk.
        RunError
            If the journal cannot be written.
        """
        if self.ranker.done:
            return
        threads = self._start_threads()
        try:
            while any(thread.is_alive() for thread in threads):
                with self.ranker.changed:
                    self.ranker.changed.wait(POLL_SECONDS)
                self._look_at_the_clock()
                if self._deadline is not None and time.monotonic() >= self._deadline:
                    self._abandon(threads, GRACE / 4)
                    break
                if on_tick is not None:
                    on_tick()
        except KeyboardInterrupt:
            self._stop.set()
            self._abandon(threads, grace)
            raise
        if self.error is not None:
            raise self.error
        if self._deadline is not None:
            self._give_back()

    def _give_back(self) -> None:
        """Free what the deadline left unanswered; what it may have cost is noted."""
        for name in self.workers:
            waiting = set(self._left_over[name])  # claimed, and not in flight
            for model, item in self.ranker.unanswered(name):
                cost = 0.0 if item in waiting else self.asking.expected(model, item)
                self.ranker.release(model, item, why="deadline", cost=cost)

    def _abandon(self, threads: Sequence[threading.Thread], grace: float) -> None:
        """Cancel calls to servers, and leave calls of local models behind."""
        self._stop.set()
        end = time.monotonic() + grace
        for thread in threads:
            thread.join(max(0.0, end - time.monotonic()))
        for worker in self.workers.values():
            cancel = getattr(worker, "cancel", None)
            if cancel is not None:
                cancel()
        end = time.monotonic() + GRACE / 4
        for thread in threads:
            thread.join(max(0.0, end - time.monotonic()))

    def run_beyond(self, worker: Worker, items: Sequence[Item]) -> None:
        """Run documents that the bank does not offer; the ranking is over and is not told.

        Raises
        ------
        RunError
            If one of them cannot be done: what is wanted is a full run.
        """
        self.asking.beyond = set(items)
        self.asking.gates[worker.name].state = State.OPEN
        size = worker.batch
        batches = [list(items[start : start + size]) for start in range(0, len(items), size)]
        ended = threading.Event()

        def administer(batch: list[Item]) -> None:
            if ended.is_set():
                return
            try:
                self.asking.administer(worker, batch)
            except BaseException:
                ended.set()  # nothing more is asked once one has failed or Ctrl-C was pressed
                raise

        with ThreadPoolExecutor(worker.slots) as pool:
            try:
                for _ in pool.map(administer, batches):
                    pass  # raises what was raised
            finally:
                ended.set()

    def _start_threads(self) -> list[threading.Thread]:
        resident, turns = self._split_by_memory()
        if self.one_at_a_time:
            # Models that take turns are opened when their turn comes.
            self._opened = {w.name for w in resident if self._open(w)}
            targets: list[tuple[str, Callable[[], None]]] = [("one-at-a-time", self._sequence)]
        else:
            # All are opened before anything is asked: what cannot work shows before it costs.
            targets = [
                (f"{worker.name}-{slot}", lambda w=worker: self._serve(w))  # type: ignore[misc]
                for worker in resident
                if self._open(worker)
                for slot in range(worker.slots)
            ]
            if turns:
                targets.append(("rounds", lambda: self._rounds(turns)))
        threads = [
            # Daemons: a request that hangs must not keep the process alive after Ctrl-C.
            threading.Thread(target=self._guard, args=(target,), name=name, daemon=True)
            for name, target in targets
        ]
        for thread in threads:
            thread.start()
        return threads

    def _guard(self, target: Callable[[], None]) -> None:
        try:
            target()
        except BaseException as error:
            if self.error is None:
                self.error = error
            self._stop.set()
        with self.ranker.changed:
            self.ranker.changed.notify_all()

    def _look_at_the_clock(self) -> None:
        late = self.seconds is not None and self.ranker.elapsed() >= self.seconds
        if late and self._deadline is None:
            self._deadline = time.monotonic() + GRACE
            self.ranker.stop(f"the time budget of {self.seconds:g} seconds is used up")

    def _split_by_memory(self) -> tuple[list[Worker], list[Worker]]:
        local = [w for w in self.workers.values() if w.memory is not None]
        unstated = [w for w in local if w.memory == math.inf]
        if self.memory is None:
            # One request at a time among models that take turns would load one for each request.
            turns = [] if self.one_at_a_time or len(local) < 2 else unstated
            return [w for w in self.workers.values() if w not in turns], turns
        if sum(w.memory or 0.0 for w in local) <= self.memory:
            return list(self.workers.values()), []
        for worker in local:
            if worker not in unstated and (worker.memory or 0.0) > self.memory:
                raise RunError(
                    f"model {worker.name} needs memory {worker.memory:g}, more than the "
                    f"{self.memory:g} that `memory:` allows; raise it or leave the model out"
                )
        return [w for w in self.workers.values() if w.memory is None], local

    @property
    def _over(self) -> bool:
        return self._stop.is_set() or self.ranker.done

    # -- ways of taking turns --------------------------------------------------------------

    def _serve(self, worker: Worker) -> None:
        """One slot of a model that is always there."""
        while (docs := self._next_docs(worker, worker.batch, wait=True)) is not None:
            self._administer(worker, docs)

    def _sequence(self) -> None:
        """One request at a time, whoever the Ranker names."""
        loaded: str | None = None
        resident = self._opened
        while not self._over:
            pair = self._next_pair()
            if pair is None:
                if not self._left_over_anywhere() or not self._wait():
                    return
                continue
            worker = self.workers[pair[0]]
            if worker.name not in resident and worker.name != loaded:
                if loaded is not None:
                    self.workers[loaded].close()
                loaded = worker.name
                if not self._open(worker):
                    loaded = None
                    continue
            self._administer(worker, [pair[1]])

    def _next_pair(self) -> tuple[str, Item] | None:
        now = time.monotonic()
        for name, docs in self._left_over.items():
            if docs and not self.asking.is_out(name) and self.asking.gates[name].may_ask(now):
                return name, docs.popleft()
        if self._left_over_anywhere():  # a model is away: whose turn it is does not change
            return None
        pairs = self.ranker.ask(1)
        return pairs[0] if pairs else None

    def _left_over_anywhere(self) -> bool:
        return any(d and not self.asking.is_out(n) for n, d in self._left_over.items())

    def _rounds(self, workers: list[Worker]) -> None:
        """Models that do not fit together, one loaded at a time.

        A turn is of whole batches, and lasts at least as long as loading took, unless a budget is
        to be shared: less would spend more time on loading than on asking. Each turn is twice as
        long as the one before, so that a model that needs n items is loaded about log2(n) times at
        most; the model that ends a round begins the next, which saves a swap.
        """
        turn = 10
        loaded: Worker | None = None
        order = list(workers)
        shared = math.isfinite(self.ranker.ranker.budget)
        try:
            while not self._over:
                progress = False
                for worker in order:
                    given, worth = 0, 0.0
                    while given < turn or (not shared and time.monotonic() < worth):
                        docs = self._next_docs(worker, worker.batch, wait=False)
                        if not docs:
                            break
                        progress = True
                        if loaded is not worker:
                            if loaded is not None:
                                loaded.close()
                            loaded, began = worker, time.monotonic()
                            if not self._open(worker):
                                loaded = None
                                break
                            worth = 2.0 * time.monotonic() - began
                            if len(docs) < worker.batch:  # it says only now what it takes at once
                                missing = worker.batch - len(docs)
                                docs += self._next_docs(worker, missing, wait=False) or []
                        self._administer(worker, docs)
                        given += len(docs)
                if loaded is not None:
                    order.sort(key=lambda w: w is not loaded)
                turn *= 2
                if not progress and not self._wait():
                    return
        finally:
            if loaded is not None:
                loaded.close()

    def _next_docs(self, worker: Worker, count: int, wait: bool) -> list[Item] | None:
        """Documents to put to a model now; None when there is nothing more to do for it."""
        gate = self.asking.gates[worker.name]
        while True:
            if self._over or self.asking.is_out(worker.name):
                return None
            with self.ranker.changed:
                docs: list[Item] = []
                if gate.may_ask(time.monotonic()):
                    probing = gate.state is State.PROBING
                    docs = self._take(worker.name, 1 if probing else count, probing)
                    if probing and not docs:
                        gate.give_up_probe(time.monotonic())
                if docs or not wait:
                    return docs
                if not self._wait():
                    return None

    def _take(self, name: str, count: int, probing: bool) -> list[Item]:
        """Documents claimed before, else new ones."""
        left = self._left_over[name]
        if probing and len(left) == 1:  # it may be this document that the server cannot do
            fresh = [doc for _, doc in self.ranker.ask(1, model=name)]
            if fresh:
                return fresh
        docs = [left.popleft() for _ in range(min(count, len(left)))]
        if len(docs) < count:
            docs += [doc for _, doc in self.ranker.ask(count - len(docs), model=name)]
        return docs

    def _wait(self) -> bool:
        """Wait for news from the other models; False when the run is over."""
        with self.ranker.changed:
            if self._over:
                return False
            pauses = [w for g in self.asking.gates.values() if (w := g.wait(time.monotonic()))]
            self.ranker.changed.wait(min([POLL_SECONDS, *pauses]))
        return not self._stop.is_set()

    # -- one batch -------------------------------------------------------------------------

    def _administer(self, worker: Worker, docs: list[Item]) -> None:
        self.asking.administer(worker, docs)
        self._look_at_the_clock()  # a quick model answers many documents between two polls

    def _open(self, worker: Worker) -> bool:
        try:
            worker.open()
        except CcatError:
            raise
        except Exception as error:
            self.asking.set_aside(worker.name, f"cannot be loaded: {describe(error)}")
            return False
        if getattr(worker, "remote", False):
            # A wrong address, key or name shows at the first document, and costs no more.
            self.asking.gates[worker.name].not_known_yet()
        return True

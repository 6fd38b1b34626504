"""Keeps the models busy: who is asked what, when, and what happens to what comes back.

Models wait for nobody: each has its own threads, which ask the Ranker for that model's next
documents while the others work.  Local weights that do not fit together take turns (``rounds``).
With ``one_at_a_time`` a single request is in flight in the whole run and the Ranker alone decides
whose; the run is then reproducible to the last bit.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence

from ..errors import CcatError, RunError
from ..runs.journaled import DocId, JournaledRanker
from .config import FailureRule
from .failures import Verdict, attempts_for, describe, judge, pause
from .worker import Answer, Worker

logger = logging.getLogger(__name__)

POLL_SECONDS = 0.25


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
        How much the workers that declare ``memory`` may hold together, in the same unit.
    seconds : float, optional
        Time budget of the run, over all its sessions.
    lease : float, optional
        Age in seconds at which another process's claims are given back; None when this process
        is the only one.
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
        lease: float | None = None,
    ) -> None:
        self.ranker = ranker
        self.workers = {worker.name: worker for worker in workers}
        self.rule = rule or FailureRule()
        self.one_at_a_time = one_at_a_time
        self.memory = memory
        self.seconds = seconds
        self.lease = lease
        self.error: BaseException | None = None
        self._stop = threading.Event()
        self._opened: set[str] = set()
        self._failures_in_a_row = dict.fromkeys(self.workers, 0)
        self._left_over = {
            # In a shared ranking what is claimed belongs to a process that may be alive.
            name: deque(doc for _, doc in ranker.unanswered(name) if lease is None)
            for name in self.workers
        }

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
                if on_tick is not None:
                    on_tick()
        except KeyboardInterrupt:
            self._stop.set()
            deadline = time.monotonic() + grace
            for thread in threads:
                thread.join(max(0.0, deadline - time.monotonic()))
            raise
        if self.error is not None:
            raise self.error

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
        if self.seconds is not None and self.ranker.elapsed() >= self.seconds:
            self.ranker.stop(f"time budget of {self.seconds:g} s used")

    def _split_by_memory(self) -> tuple[list[Worker], list[Worker]]:
        local = [w for w in self.workers.values() if w.memory is not None]
        needed = sum(w.memory or 0.0 for w in local)
        if self.memory is None or needed <= self.memory:
            return list(self.workers.values()), []
        for worker in local:
            if (worker.memory or 0.0) > self.memory:
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
                return
            worker = self.workers[pair[0]]
            if worker.name not in resident and worker.name != loaded:
                if loaded is not None:
                    self.workers[loaded].close()
                loaded = worker.name
                if not self._open(worker):
                    loaded = None
                    continue
            self._administer(worker, [pair[1]])

    def _next_pair(self) -> tuple[str, DocId] | None:
        for name, docs in self._left_over.items():
            if docs and name not in self.ranker.tally.set_aside:
                return name, docs.popleft()
        pairs = self.ranker.ask(1)
        return pairs[0] if pairs else None

    def _rounds(self, workers: list[Worker]) -> None:
        """Models that do not fit together, one loaded at a time.

        Each turn is twice as long as the one before, so that a model that needs n items is loaded
        about log2(n) times; the model that ends a round begins the next, which saves a swap.
        """
        turn = 10
        loaded: Worker | None = None
        order = list(workers)
        try:
            while not self._over:
                progress = False
                for worker in order:
                    given = 0
                    while given < turn:
                        size = min(worker.batch, turn - given)
                        docs = self._next_docs(worker, size, wait=False)
                        if not docs:
                            break
                        progress = True
                        if loaded is not worker:
                            if loaded is not None:
                                loaded.close()
                            loaded = worker
                            if not self._open(worker):
                                loaded = None
                                break
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

    def _next_docs(self, worker: Worker, count: int, wait: bool) -> list[DocId] | None:
        """Documents to put to a model now; None when there is nothing more to do for it."""
        while True:
            if self._over or worker.name in self.ranker.tally.set_aside:
                return None
            with self.ranker.changed:
                left = self._left_over[worker.name]
                docs = [left.popleft() for _ in range(min(count, len(left)))]
                if not docs:
                    docs = [doc for _, doc in self.ranker.ask(count, model=worker.name)]
                if docs or not wait:
                    return docs
                if not self._wait():
                    return None

    def _wait(self) -> bool:
        """Wait for news from the other models; False when the run is over."""
        with self.ranker.changed:
            if self._over:
                return False
            self.ranker.changed.wait(POLL_SECONDS)
        if self.lease is not None:
            self.ranker.sync_shared(self.lease)
        return not self._stop.is_set()

    # -- one batch -------------------------------------------------------------------------

    def _open(self, worker: Worker) -> bool:
        try:
            worker.open()
        except CcatError:
            raise
        except Exception as error:
            self._set_aside(worker.name, f"cannot be loaded: {describe(error)}")
            return False
        return True

    def _administer(self, worker: Worker, docs: list[DocId]) -> None:
        """Put a batch to a model, with retries; a failing batch is taken apart."""
        for attempt in range(1, self.rule.attempts + 1):
            if self._stop.is_set() or worker.name in self.ranker.tally.set_aside:
                return
            try:
                answers = worker.administer(docs)
            except Exception as error:
                verdict = judge(error)
                if verdict is Verdict.MODEL:
                    self._set_aside(worker.name, describe(error))
                    return
                if len(docs) > 1:
                    # One document may spoil a whole batch: find it.
                    for doc in docs:
                        self._administer(worker, [doc])
                    return
                if verdict is Verdict.DOCUMENT or attempt >= attempts_for(self.rule, error):
                    self._give_up(worker, docs[0], error, attempt)
                    return
                wait = pause(self.rule, attempt, error)
                logger.info(
                    "%s, document %r: %s; attempt %d of %d in %.1f s",
                    worker.name, docs[0], describe(error), attempt + 1, self.rule.attempts, wait,
                )  # fmt: skip
                self._stop.wait(wait)
            else:
                self._record(worker, answers)
                return

    def _record(self, worker: Worker, answers: Sequence[Answer]) -> None:
        for answer in answers:
            self.ranker.tell(
                worker.name, answer.doc_id, answer.unit, answer.cost, **answer.details()
            )
        self._failures_in_a_row[worker.name] = 0

    def _give_up(self, worker: Worker, doc: DocId, error: Exception, attempts: int) -> None:
        reason = describe(error)
        logger.warning("%s cannot do document %r: %s", worker.name, doc, reason)
        self.ranker.fail(worker.name, doc, reason, attempts=attempts)
        with self.ranker.changed:
            self._failures_in_a_row[worker.name] += 1
            count = self._failures_in_a_row[worker.name]
            failed = len(self.ranker.tally.failures.get(worker.name, ()))
            tried = failed + self.ranker.tally.answered.get(worker.name, 0)
        if count >= self.rule.in_a_row:
            self._set_aside(worker.name, f"{count} documents failed in a row; last: {reason}")
        elif tried >= 10 and failed > self.rule.share * tried:
            why = f"{failed} of {tried} documents failed; last: {reason}"
            self._set_aside(worker.name, why)

    def _set_aside(self, name: str, reason: str) -> None:
        logger.warning("%s is set aside: %s", name, reason)
        self.ranker.drop(name, reason)

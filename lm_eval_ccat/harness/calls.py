"""`Calls`: calls that threads of their own make, one after the other or at once."""

from __future__ import annotations

import math
import queue
import threading
import time
from collections.abc import Callable
from typing import Any, NamedTuple


class Call(NamedTuple):
    """A function to call, its arguments, who takes its result, and seconds to wait before it.

    See `Calls.start`.
    """

    on_result: Callable[[Any], object]
    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    gather: float


class Calls:
    """Daemon threads of one model, started when needed and reused.

    They are daemons because a hanging call must not keep the process alive after Ctrl-C or a
    deadline, as the threads of `concurrent.futures` would.

    Parameters
    ----------
    name : str
        Name of the threads.
    max_threads : float
        Most threads at once; further calls wait for a free one.

    Examples
    --------
    >>> calls, came = Calls("adder"), queue.SimpleQueue()
    >>> calls.start(came.put, sum, [1, 2])
    >>> came.get()
    3
    >>> calls.close()
    """

    def __init__(self, name: str, max_threads: float = math.inf) -> None:
        self.name = name
        self.max_threads = max_threads
        self._threads = 0
        self._work: queue.SimpleQueue[Call | None] = queue.SimpleQueue()
        self._idle = threading.Semaphore(0)  # threads that wait for work, or soon will
        self._lock = threading.Lock()  # models close while others start calls

    def start(
        self,
        on_result: Callable[[Any], object],
        function: Callable[..., Any],
        *arguments: Any,
        gather: float = 0.0,
    ) -> None:
        """Call a function in a thread; pass its result, or the error it raised, to `on_result`.

        The thread calls `on_result`, too, which must not raise and should not take long: a call
        that is started meanwhile may wait for this thread.

        Before the call a thread waits `gather` seconds, in which further calls may come, and then
        makes all in turn without a second wait: waking it, and whoever awaits the results, costs
        as much for one call as for ten.
        """
        with self._lock:
            # A thread is started where none is idle; an idle one is counted as taken by this call.
            if self._threads < self.max_threads and not self._idle.acquire(blocking=False):
                self._threads += 1
                serving = (self._work, self._idle)
                threading.Thread(target=_serve, args=serving, name=self.name, daemon=True).start()
            self._work.put(Call(on_result, function, arguments, gather))

    def close(self) -> None:
        """Let each thread end after its present call; `start` may be called again."""
        with self._lock:
            for _ in range(self._threads):
                self._work.put(None)
            self._threads, self._work, self._idle = 0, queue.SimpleQueue(), threading.Semaphore(0)


def _serve(work: queue.SimpleQueue[Call | None], idle: threading.Semaphore) -> None:
    """Make the calls that arrive in `work` until None does."""
    last_pause = -math.inf
    while (call := work.get()) is not None:
        # Calls that came during the last pause are made without another one.
        if call.gather and time.monotonic() - last_pause > call.gather:
            time.sleep(call.gather)
            last_pause = time.monotonic()
        try:
            result = call.function(*call.arguments)
        except BaseException as error:
            result = error
        idle.release()
        call.on_result(result)

"""`Calls`: blocking calls of one model, in threads that keep no process alive."""

from __future__ import annotations

import math
import queue
import threading
from collections.abc import Callable
from typing import Any


class Calls:
    """Daemon threads of one model, started as they are needed and used again.

    A call that hangs must not keep the process alive after Ctrl-C or a deadline, as the threads of
    `concurrent.futures` would.

    Parameters
    ----------
    name : str
        Of the threads.
    most : float
        Threads at once; further calls wait for one.

    Examples
    --------
    >>> calls, came = Calls("adder"), queue.SimpleQueue()
    >>> calls.start(came.put, sum, [1, 2])
    >>> came.get()
    3
    >>> calls.close()
    """

    def __init__(self, name: str, most: float = math.inf) -> None:
        self.name = name
        self.most = most
        self._work: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._threads = self._begun = 0

    def start(self, come: Callable[[Any], object], call: Callable[..., Any], *args: Any) -> None:
        """Begin a call; `come` gets its result, or the error that it raised."""
        with self._lock:
            self._begun += 1
            if self._threads < min(self._begun, self.most):
                self._threads += 1
                threading.Thread(
                    target=self._serve, args=(self._work,), name=self.name, daemon=True
                ).start()
        self._work.put((come, call, args))

    def _serve(self, work: queue.SimpleQueue[Any]) -> None:
        while (job := work.get()) is not None:
            come, call, args = job
            try:
                result = call(*args)
            except BaseException as error:
                result = error
            with self._lock:
                if work is self._work:
                    self._begun -= 1
            come(result)

    def close(self) -> None:
        """Let the threads end, each after the call that it is in; `start` may follow again."""
        with self._lock:
            work, self._work = self._work, queue.SimpleQueue()
            threads, self._threads, self._begun = self._threads, 0, 0
        for _ in range(threads):
            work.put(None)

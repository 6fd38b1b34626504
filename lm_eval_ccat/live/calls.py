"""`Calls`: blocking calls of one model as futures, in threads that keep no process alive."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

T = TypeVar("T")


class Calls:
    """Daemon threads of one model, started as they are needed and used again.

    A call that hangs must not keep the process alive after Ctrl-C or a deadline, as the threads of
    `concurrent.futures` would.

    Parameters
    ----------
    name : str
        Of the threads.

    Examples
    --------
    >>> calls = Calls("adder")
    >>> calls.start(sum, [1, 2]).result()
    3
    >>> calls.close()
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self._work: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._idle = self._threads = 0

    def start(self, call: Callable[..., T], *arguments: Any) -> Future[T]:
        """Begin a call."""
        future: Future[T] = Future()
        with self._lock:
            if self._idle:
                self._idle -= 1
            else:
                self._threads += 1
                threading.Thread(
                    target=self._serve, args=(self._work,), name=self.name, daemon=True
                ).start()
        self._work.put((future, call, arguments))
        return future

    def _serve(self, work: queue.SimpleQueue[Any]) -> None:
        while (job := work.get()) is not None:
            future, call, arguments = job
            result, trouble = None, None
            try:
                result = call(*arguments)
            except BaseException as error:
                trouble = error
            with self._lock:
                if work is self._work:
                    self._idle += 1
            if trouble is not None:
                future.set_exception(trouble)
            else:
                future.set_result(result)

    def close(self) -> None:
        """Let the threads end, each after the call that it is in; `start` may follow again."""
        with self._lock:
            work, self._work = self._work, queue.SimpleQueue()
            threads, self._threads, self._idle = self._threads, 0, 0
        for _ in range(threads):
            work.put(None)

"""Run independent pieces of work in processes, in order, and fall back to this process.

Reading logs and replaying folds are both many independent pieces of pure computation. Processes
rather than threads, because the work holds the interpreter lock.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeVar

Piece = TypeVar("Piece")
Result = TypeVar("Result")


_inside_worker = False


_shared_here: Any = None


def enter_worker(shared: Any = None) -> None:
    """Say that this process works on one core for another: it starts no workers of its own."""
    global _inside_worker, _shared_here
    _inside_worker = True
    _shared_here = shared


def _call_in_worker(work: Callable[[Any, Any], Any], piece: Any) -> Any:
    return work(piece, _shared_here)


def usable_cores() -> int:
    """Return the number of cores this process may use, at least 1."""
    if hasattr(os, "sched_getaffinity"):
        return max(1, len(os.sched_getaffinity(0)))
    return max(1, os.cpu_count() or 1)


#: Does the work in place of processes: ``(work, pieces, shared)`` to results in order.
Spread = Callable[[Callable[[Any, Any], Any], Sequence[Any], Any], Iterator[Any]]
_SPREAD: ContextVar[Spread | None] = ContextVar("spread", default=None)


@contextmanager
def spreading(spread: Spread) -> Iterator[None]:
    """While this lasts, `in_processes` gives its pieces to something else (`cluster`)."""
    token = _SPREAD.set(spread)
    try:
        yield
    finally:
        _SPREAD.reset(token)


def in_processes(
    work: Callable[[Piece, Any], Result],
    pieces: Sequence[Piece],
    shared: Any = None,
    processes: int | None = None,
    near: bool = False,
) -> Iterator[Result]:
    """Yield ``work(piece, shared)`` for every piece, in the order of the pieces.

    At most ``2 * processes`` results are ever waiting, so that memory does not grow with the
    number of pieces. An exception in a piece is raised here.

    Parameters
    ----------
    work : callable
        A function of module level, so that it can be sent to another process.
    pieces : sequence
        What to call it with; each must be picklable, as must each result.
    shared : optional
        What is large and the same for all pieces; it reaches each process once, and on Linux
        without being copied.
    processes : int, optional
        How many processes; by default one per core this process may use. 1 works in this process.
    near : bool, optional
        The work must stay on this machine, whatever is `spreading`: it reads files, say.

    Examples
    --------
    >>> list(in_processes(pow, [1, 2, 3], shared=2, processes=1))
    [1, 4, 9]
    """
    spread = _SPREAD.get()
    if spread is not None and len(pieces) > 1 and not (near or _inside_worker):
        yield from spread(work, pieces, shared)
        return
    count = min(usable_cores() if processes is None else processes, len(pieces))
    if count <= 1 or _inside_worker:  # a worker has one core: it starts no workers of its own
        for piece in pieces:
            yield work(piece, shared)
        return
    # Forked workers need no `if __name__ == "__main__"` guard in the user's script and start at
    # once. Elsewhere than on Linux forking is unsafe or absent, so the platform's way is taken.
    method = "fork" if sys.platform.startswith("linux") else None
    context = multiprocessing.get_context(method)
    pool = ProcessPoolExecutor(
        count, mp_context=context, initializer=enter_worker, initargs=(shared,)
    )
    try:
        waiting: list[Future[Result]] = []
        for piece in pieces:
            waiting.append(pool.submit(_call_in_worker, work, piece))
            if len(waiting) >= 2 * count:
                yield waiting.pop(0).result()
        while waiting:
            yield waiting.pop(0).result()
    finally:
        pool.shutdown(wait=True, cancel_futures=True)

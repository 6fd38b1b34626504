"""Run independent pieces of work in other processes or on a Ray cluster; keep their order.

Reading logs and replaying folds both consist of many independent computations. They run in
processes rather than threads because they hold the interpreter lock.
"""

from __future__ import annotations

import logging
import multiprocessing
import os
import sys
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from importlib import import_module
from typing import Any, TypeVar

from .errors import CcatError, UsageError
from .plugins import needed, our_extra

Piece = TypeVar("Piece")
Result = TypeVar("Result")

_LOG = logging.getLogger(__name__)
#: Pieces submitted ahead per CPU of a cluster; more would only hold memory here.
_AHEAD = 2
_inside_worker = False
_shared_here: Any = None  # in a worker: the second argument of its work
_ON_RAY: ContextVar[bool] = ContextVar("on_ray", default=False)


def in_processes(
    work: Callable[[Piece, Any], Result],
    pieces: Sequence[Piece],
    shared: Any = None,
    processes: int | None = None,
    local: bool = False,
) -> Iterator[Result]:
    """Yield ``work(piece, shared)`` for every piece, in the order of the pieces.

    At most ``2 * processes`` results are ever waiting, so that memory does not grow with the
    number of pieces. An exception in a piece is raised here.

    Parameters
    ----------
    work : callable
        A module-level function, so that it can be sent to another process.
    pieces : sequence
        First arguments of ``work``; they and the results must be picklable.
    shared : optional
        Second argument of ``work``, for large data that all pieces need. Each process receives it
        once; on Linux it is not copied.
    processes : int, optional
        Number of processes; by default one per core that this process may use. With 1, the work
        runs in this process.
    local : bool, optional
        Keep the work on this machine, whatever is `executing`, because it reads local files.

    Examples
    --------
    >>> list(in_processes(pow, [1, 2, 3], shared=2, processes=1))
    [1, 4, 9]
    """
    if _ON_RAY.get() and len(pieces) > 1 and not (local or _inside_worker):
        yield from _as_ray_tasks(work, pieces, shared)
        return
    count = min(_usable_cores() if processes is None else processes, len(pieces))
    if count <= 1 or _inside_worker:  # a worker has one core: it starts no workers of its own
        for piece in pieces:
            yield work(piece, shared)
        return
    # Forked workers need no `if __name__ == "__main__"` guard in the user's script and start at
    # once. Other systems, where forking is unsafe or absent, use their default method.
    method = "fork" if sys.platform.startswith("linux") else None
    context = multiprocessing.get_context(method)
    pool = ProcessPoolExecutor(
        count, mp_context=context, initializer=_enter_worker, initargs=(shared,)
    )

    def submit(piece: Piece) -> Future[Result]:
        return pool.submit(_call_in_worker, work, piece)

    try:
        yield from _in_order(pieces, submit, Future.result, Future.cancel, 2 * count)
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _in_order(
    pieces: Sequence[Piece],
    submit: Callable[[Piece], Any],
    result: Callable[[Any], Any],
    cancel: Callable[[Any], Any],
    ahead: int,
) -> Iterator[Any]:
    """Yield the results of all pieces in order, with at most `ahead` of them submitted."""
    waiting: deque[Any] = deque()
    try:
        for piece in pieces:
            waiting.append(submit(piece))
            if len(waiting) >= ahead:
                yield result(waiting.popleft())
        while waiting:
            yield result(waiting.popleft())
    finally:
        for submitted in waiting:
            cancel(submitted)


def _usable_cores() -> int:
    """Return the number of cores that this process may use, at least 1."""
    # A container or a batch system may grant fewer cores than the machine has.
    if hasattr(os, "sched_getaffinity"):
        return max(1, len(os.sched_getaffinity(0)))
    return max(1, os.cpu_count() or 1)


def _enter_worker(shared: Any = None) -> None:
    """Mark this process as a worker, which starts no workers of its own."""
    global _inside_worker, _shared_here
    _inside_worker, _shared_here = True, shared


def _call_in_worker(work: Callable[[Any, Any], Any], piece: Any) -> Any:
    """Work on a piece with the data that `_enter_worker` left in this process."""
    return work(piece, _shared_here)


# -- a Ray cluster --------------------------------------------------------------------------------


def connect(address: str | None) -> None:
    """Start a local Ray, or connect to a cluster.

    Raises
    ------
    UsageError
        If Ray is not installed, or no cluster answers at the address.
    """
    ray = needed("ray", "--executor ray", our_extra("ray"))
    if ray.is_initialized():
        return
    try:
        ray.init(
            address=address,
            include_dashboard=None if address else False,
            log_to_driver=_logs_what_nodes_print(),
            configure_logging=False,
        )
    except (ConnectionError, ValueError, RuntimeError) as error:
        raise UsageError(f"cannot connect to Ray at {address or 'this machine'}: {error}") from None


def _logs_what_nodes_print() -> bool:
    """Make what Ray, its nodes and actors say lines of the log; return whether Ray lets us."""
    logging.getLogger("ray").propagate = True
    worker: Any = import_module("ray._private.worker")
    # What prints on the terminal is a private function of Ray's, which another version may lack.
    if not hasattr(worker, "print_to_stdstream"):
        return False
    worker.print_to_stdstream = _log_printed
    return True


def _log_printed(printed: Mapping[str, Any], ignore_prefix: str = "") -> None:
    """Log lines that a process of the cluster has printed."""
    for line in printed["lines"]:
        # The autoscaler prints a page every few seconds; only what it did is news.
        if printed["pid"] != "autoscaler" or ":event_summary:" in line:
            _LOG.info("%s: %s", printed["pid"], line)


def address_of(executor: str) -> str | None:
    """Return the ADDRESS in ``ray:ADDRESS``; None for ``ray``, a local cluster.

    Raises
    ------
    UsageError
        If the executor is neither ``ray`` nor ``ray:ADDRESS``.
    """
    kind, _, address = executor.partition(":")
    if kind != "ray":
        raise UsageError(f"executor {executor!r} is neither 'local', 'ray' nor 'ray:ADDRESS'")
    return address or None


@contextmanager
def executing(executor: str) -> Iterator[None]:
    """Make `in_processes` run its work on an executor while the context lasts.

    Parameters
    ----------
    executor : str
        ``local`` (processes on this machine), ``ray`` (tasks of a Ray cluster on this machine) or
        ``ray:ADDRESS`` (tasks of another Ray cluster).

    Raises
    ------
    UsageError
        If the executor is none of these, or no cluster answers at the address.
    """
    if executor == "local":
        yield
        return
    connect(address_of(executor))
    token = _ON_RAY.set(True)
    try:
        yield
    finally:
        _ON_RAY.reset(token)


def _as_ray_tasks(
    work: Callable[[Any, Any], Any], pieces: Sequence[Any], shared: Any = None
) -> Iterator[Any]:
    """Yield ``work(piece, shared)`` for every piece, in order; each is a task on one CPU.

    Each node receives ``shared`` once. If a node is lost, Ray repeats its pieces. An exception in a
    piece is raised here.
    """
    import ray

    task = ray.remote(num_cpus=1)(_work_alone)
    reference = ray.put(shared)
    resources: dict[str, float] = ray.cluster_resources()  # type: ignore[no-untyped-call]
    ahead = _AHEAD * max(1, int(resources.get("CPU", 1)))

    def result(submitted: Any) -> Any:
        try:
            return ray.get(submitted)
        except ray.exceptions.RayTaskError as error:
            raise cause_of(error) from None
        except ray.exceptions.RayError as error:
            raise CcatError(f"a cluster task was lost: {error}") from None

    yield from _in_order(
        pieces, lambda piece: task.remote(work, piece, reference), result, ray.cancel, ahead
    )


def cause_of(error: Any) -> BaseException:
    """Return the error raised in a task, or a `CcatError` with its text if it was not sent here."""
    cause = getattr(error, "cause", None)
    return cause if isinstance(cause, Exception) else CcatError(str(error).splitlines()[-1])


def _work_alone(work: Callable[[Any, Any], Any], piece: Any, shared: Any) -> Any:
    """Work on one piece, on one CPU of a node."""
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    _enter_worker()
    return work(piece, shared)

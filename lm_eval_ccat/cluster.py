"""Run independent pieces of work elsewhere, in order: in processes, or as tasks of a Ray cluster.

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

from .errors import CcatError, UsageError

Piece = TypeVar("Piece")
Result = TypeVar("Result")

#: Pieces on their way for each CPU of a cluster; what waits for its turn holds memory here.
_AHEAD = 2
_inside_worker = False
_shared_here: Any = None
_ON_RAY: ContextVar[bool] = ContextVar("on_ray", default=False)


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
        The work must stay on this machine, whatever is `executing`: it reads files, say.

    Examples
    --------
    >>> list(in_processes(pow, [1, 2, 3], shared=2, processes=1))
    [1, 4, 9]
    """
    if _ON_RAY.get() and len(pieces) > 1 and not (near or _inside_worker):
        yield from _as_ray_tasks(work, pieces, shared)
        return
    count = min(_usable_cores() if processes is None else processes, len(pieces))
    if count <= 1 or _inside_worker:  # a worker has one core: it starts no workers of its own
        for piece in pieces:
            yield work(piece, shared)
        return
    # Forked workers need no `if __name__ == "__main__"` guard in the user's script and start at
    # once. Elsewhere than on Linux forking is unsafe or absent, so the platform's way is taken.
    method = "fork" if sys.platform.startswith("linux") else None
    context = multiprocessing.get_context(method)
    pool = ProcessPoolExecutor(
        count, mp_context=context, initializer=_enter_worker, initargs=(shared,)
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


def _usable_cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return max(1, len(os.sched_getaffinity(0)))
    return max(1, os.cpu_count() or 1)


def _enter_worker(shared: Any = None) -> None:
    """This process works on one core for another: it starts no workers of its own."""
    global _inside_worker, _shared_here
    _inside_worker, _shared_here = True, shared


def _call_in_worker(work: Callable[[Any, Any], Any], piece: Any) -> Any:
    return work(piece, _shared_here)


# -- a Ray cluster --------------------------------------------------------------------------------


def connect(address: str | None) -> None:
    """Start a local Ray, or connect to a cluster.

    Raises
    ------
    UsageError
        If Ray is not installed, or there is no cluster at the address.
    """
    try:
        import ray
    except ImportError:
        raise UsageError(
            "--executor ray needs Ray; install it with `pip install lm-eval-ccat[ray]`"
        ) from None
    if ray.is_initialized():
        return
    try:
        ray.init(
            address=address,
            include_dashboard=None if address else False,
            log_to_driver=False,
            configure_logging=False,
        )
    except (ConnectionError, ValueError, RuntimeError) as error:
        raise UsageError(f"cannot connect to Ray at {address or 'this machine'}: {error}") from None


def address_of(executor: str) -> str | None:
    """The address of the cluster that ``ray:ADDRESS`` names; None for a local one.

    Raises
    ------
    UsageError
        It is neither ``ray`` nor that.
    """
    kind, _, address = executor.partition(":")
    if kind != "ray":
        raise UsageError(f"executor {executor!r} is neither 'local', 'ray' nor 'ray:ADDRESS'")
    return address or None


@contextmanager
def executing(executor: str) -> Iterator[None]:
    """While this lasts, what `in_processes` is given runs where the user said.

    Parameters
    ----------
    executor : str
        ``local``: in processes of this machine. ``ray`` or ``ray:ADDRESS``: as tasks of a Ray
        cluster on this machine, or of another.

    Raises
    ------
    UsageError
        If the executor is another, or there is no cluster at the address.
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
    """Yield ``work(piece, shared)`` for every piece, in order; each is a task of one CPU.

    ``shared`` reaches each node once. Ray does a piece again where its node was lost. An exception
    in a piece is raised here.
    """
    import ray

    task = ray.remote(num_cpus=1)(_work_alone)
    place = ray.put(shared)
    resources: dict[str, float] = ray.cluster_resources()  # type: ignore[no-untyped-call]
    ahead = _AHEAD * max(1, int(resources.get("CPU", 1)))
    waiting: list[Any] = []
    following = iter(pieces)
    try:
        while True:
            while len(waiting) < ahead and (piece := next(following, waiting)) is not waiting:
                waiting.append(task.remote(work, piece, place))
            if not waiting:
                return
            try:
                result = ray.get(waiting.pop(0))
            except ray.exceptions.RayTaskError as error:
                raise cause_of(error) from None
            except ray.exceptions.RayError as error:
                raise CcatError(f"a cluster task was lost: {error}") from None
            yield result
    finally:
        for one in waiting:
            ray.cancel(one)


def cause_of(error: Any) -> BaseException:
    """Return the error that the far side raised, if it could be sent here."""
    cause = getattr(error, "cause", None)
    return cause if isinstance(cause, Exception) else CcatError(str(error).splitlines()[-1])


def _work_alone(work: Callable[[Any, Any], Any], piece: Any, shared: Any) -> Any:
    """One piece on some node, where it has one CPU."""
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    _enter_worker()
    return work(piece, shared)

"""Independent pieces of work as tasks of a Ray cluster, in place of processes of this machine."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from . import parallel
from .errors import CcatError, UsageError

#: Pieces on their way for each CPU of the cluster; what waits for its turn holds memory here.
_AHEAD = 2


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
    """While this lasts, what `parallel.in_processes` is given runs where the user said.

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
    with parallel.spreading(as_ray_tasks):
        yield


def as_ray_tasks(
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
    parallel.enter_worker()
    return work(piece, shared)

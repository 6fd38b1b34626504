"""A page that follows a run: written again at intervals, and loading itself again."""

from __future__ import annotations

import threading
import time
from dataclasses import replace
from pathlib import Path
from types import TracebackType

from ..errors import CcatError
from .page import write_report
from .run import read_run

#: Seconds between two pages, and the share of the time that writing them may take.
SECONDS = 10.0
_SHARE = 0.1


class LivePage:
    """The page of a run that this process conducts, written by a thread beside it.

    Parameters
    ----------
    run_dir : path
        Where the run is, or will be.
    seconds : float, optional
        Between two pages.

    Examples
    --------
    >>> with LivePage("runs/my_task"):                          # doctest: +SKIP
    ...     rank("models.yaml", run_dir="runs/my_task")
    """

    def __init__(self, run_dir: str | Path, seconds: float = SECONDS) -> None:
        self._folder, self._seconds = run_dir, seconds
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._follow, name="live page", daemon=True)

    def __enter__(self) -> LivePage:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._stop.set()
        self._thread.join()

    def _follow(self) -> None:
        pause = 1.0
        while not self._stop.wait(pause):
            began = time.monotonic()
            try:
                # A result of before may still lie there when a run is resumed.
                run = replace(read_run(self._folder), finished=False)
                write_report(run, refresh=self._seconds)
            except CcatError:
                continue  # not begun yet; a page that cannot be written is said at the end
            pause = max(self._seconds, (time.monotonic() - began) / _SHARE)

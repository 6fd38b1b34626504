"""`Interrupts`: a run that is told to end leaves a result, whoever tells it and however often."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from typing import Any

#: Signals that end a run: Ctrl-C, that of a batch system before it kills, and a lost terminal's.
_SIGNALS = ("SIGINT", "SIGTERM", "SIGHUP")


class Interrupts:
    """Handler of Ctrl-C, of SIGTERM (batch systems) and of SIGHUP (a lost terminal), alike.

    Outside the main thread it changes nothing, nor where other code handles Ctrl-C or a hangup
    (``nohup`` ignores it, say).

    Attributes
    ----------
    wake : callable
        Wakes the thread that calls `heed`, which may wait for answers; called from the signal
        handler.
    wait : bool
        Whether the first signal waits for the next `heed`, so that no answer is half processed.
        A second Ctrl-C does not wait; batch systems repeat theirs, which changes nothing.
    held : bool
        Whether signals are only noted: the run is ending anyway, and writes what it leaves.
    """

    def __init__(self) -> None:
        self.wake: Callable[[], object] = lambda: None
        self.wait = self.held = self._signalled = False
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Interrupts:
        # Python lets the main thread alone handle signals.
        if threading.current_thread() is not threading.main_thread():
            return self
        defaults = (signal.SIG_DFL, signal.default_int_handler)
        for signal_number in (getattr(signal, name) for name in _SIGNALS if hasattr(signal, name)):
            # None if it was not set from Python, so that it cannot be restored.
            before = signal.getsignal(signal_number)
            # Code that handles Ctrl-C, or ignores a hangup, does so on purpose. SIGTERM comes from
            # a batch system and ends every run.
            if before in defaults or (signal_number == signal.SIGTERM and before is not None):
                self._before[signal_number] = signal.signal(signal_number, self._handle)
        return self

    def _handle(self, signal_number: int, frame: Any) -> None:
        """Note a signal; interrupt the run at once, at its next `heed`, or not while `held`."""
        # Noted in any case: Python ignores what is raised during garbage collection.
        first, self._signalled = not self._signalled, True
        if signal_number not in (signal.SIGINT, signal.SIGTERM):
            _leave_terminal()
        # The run is writing its result, which half an interrupt would lose.
        if self.held:
            return
        if first and self.wait:
            self.wake()
        elif first or signal_number == signal.SIGINT:
            raise KeyboardInterrupt

    def heed(self) -> None:
        """Raise `KeyboardInterrupt` if a signal came."""
        if self._signalled:
            raise KeyboardInterrupt

    def __exit__(self, *exc: Any) -> None:
        for signal_number, before in self._before.items():
            signal.signal(signal_number, before)
        self._before.clear()
        self.wait = self.held = self._signalled = False


def _leave_terminal() -> None:
    """Send output to a terminal nowhere: each write to one that is gone fails."""
    null = os.open(os.devnull, os.O_WRONLY)
    for stream in (1, 2):
        if os.isatty(stream):
            os.dup2(null, stream)
    os.close(null)

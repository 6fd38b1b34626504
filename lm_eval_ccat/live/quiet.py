"""Keeps the harness's bars and log lines out of the way while a ranking runs."""

from __future__ import annotations

import contextlib
import logging
import os
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from ..masking import mask_text
from ..shown import visible

#: Handlers of the present rankings, and what restores the state before the first of them when the
#: last one ends: logging, progress bars and standard output belong to the process, and rankings in
#: several threads may overlap.
_RUNNING: list[list[logging.Handler]] = []
_BEFORE = contextlib.ExitStack()
_LOCK = threading.Lock()
_FORMAT = logging.Formatter("%(asctime)s %(levelname)s %(name)s %(message)s")


@contextlib.contextmanager
def quiet_harness(log_file: Path | None, warn: Callable[[str], None]) -> Iterator[None]:
    """Switch the harness's progress bars off and send log lines to a file.

    Output that tasks and models print goes to standard error; standard output is for the result.

    Parameters
    ----------
    log_file : Path or None
        Receives every line of level INFO and above.
    warn : callable
        Receives the text of warnings and errors.
    """
    ours: list[logging.Handler] = [_WarningHandler(warn)]
    if log_file is not None:
        with contextlib.suppress(OSError):  # a log that cannot be written must not stop the run
            ours.append(_LogFile(log_file, encoding="utf-8"))
            ours[-1].setLevel(logging.INFO)
    root = logging.getLogger()
    with _LOCK:
        if not _RUNNING:
            _BEFORE.enter_context(_quiet())
        _RUNNING.append(ours)
        root.handlers.extend(ours)
    try:
        yield
    finally:
        with _LOCK:
            _RUNNING.remove(ours)
            root.handlers[:] = [handler for handler in root.handlers if handler not in ours]
            if not _RUNNING:
                _BEFORE.close()
        for handler in ours[1:]:
            handler.close()


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Switch off the harness's log lines, bars and some warnings; print to standard error.

    Log lines still reach handlers that are added to the root logger. On leaving, each logger has
    the handlers again that it had before, and those alone.
    """
    import huggingface_hub.utils.logging  # noqa: F401 (it sets its handler when first imported)
    from tqdm import std

    # The hub's library prints its lines itself, so they would stand twice.
    root = logging.getLogger()
    loggers = [root, *(logging.getLogger(name) for name in ("lm_eval", "huggingface_hub"))]
    before = [(logger, logger.handlers[:], logger.propagate, logger.level) for logger in loggers]
    bar, draw = std.tqdm.__dict__["__init__"], std.tqdm.__init__

    def no_bar(self: Any, *args: Any, **options: Any) -> None:
        # Whatever the caller says: the hub's downloads say that a terminal shows them.
        draw(self, *args, **{**options, "disable": True})

    for logger in loggers:
        logger.handlers[:], logger.propagate = [], True
    root.setLevel(logging.INFO)
    # A log line that cannot be written (full disk) does not deserve a traceback on the screen.
    raises, logging.raiseExceptions = logging.raiseExceptions, False
    std.tqdm.__init__ = no_bar
    try:
        with warnings.catch_warnings(), contextlib.redirect_stdout(sys.stderr):
            warnings.simplefilter("ignore", FutureWarning)
            warnings.simplefilter("ignore", DeprecationWarning)
            yield
    finally:
        std.tqdm.__init__, logging.raiseExceptions = bar, raises
        for logger, handlers, propagate, level in before:
            logger.handlers[:], logger.propagate = handlers, propagate
            logger.setLevel(level)


class _LogFile(logging.FileHandler):
    """A log file that only its owner can read, credentials masked and control characters shown."""

    def _open(self) -> Any:
        return open(
            self.baseFilename,
            self.mode,
            encoding=self.encoding,
            opener=lambda path, flags: os.open(path, flags, 0o600),
        )

    def format(self, record: logging.LogRecord) -> str:
        return visible(mask_text(_FORMAT.format(record))).replace("\r", "␍")


class _WarningHandler(logging.Handler):
    """Passes on warnings and errors, each text once."""

    def __init__(self, warn: Callable[[str], None]) -> None:
        super().__init__(logging.WARNING)
        self._warn = warn
        self._warned: set[str] = set()

    def emit(self, record: logging.LogRecord) -> None:
        # Lines about a failed request, or a lost node; ours say the same and more.
        if record.name.startswith(("lm_eval.models.api_models", "ray.")):
            return
        text = record.getMessage()
        # A line for each document would hide all others.
        if text not in self._warned:
            self._warned.add(text)
            self._warn(text)

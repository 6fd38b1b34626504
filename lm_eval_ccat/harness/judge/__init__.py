"""Language models as judges: ratings from 1 to 10, with a cache and a count of costs.

A judge is any model of the harness; for an OpenAI-compatible endpoint, it is the harness's
``local-chat-completions``.
"""

from __future__ import annotations

import atexit
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Lock
from typing import Any

from ...errors import UsageError
from ...money import Tokens
from .. import internals
from ..served import unscored
from .judge_settings import JudgeSettings
from .rating import Judge, agreement

__all__ = [
    "Judge", "JudgeSettings", "active_judge", "agreement", "expected_judge_usd", "is_judged",
    "keeping_ratings", "unscored", "watch_judged_models",
]  # fmt: skip

#: The environment variable that names the judge's file.
VARIABLE = "CCAT_JUDGE"
_LOCK = Lock()
_JUDGES: dict[str, Judge] = {}
_WATCHING = False


def active_judge() -> Judge:
    """Return the judge that ``CCAT_JUDGE`` names, one per process and file.

    A task's ``process_results`` receives only the document and the answer, so an environment
    variable names the judge's file.

    Raises
    ------
    UsageError
        If the variable is not set, or its file cannot be used.
    """
    path = os.environ.get(VARIABLE)
    if not path:
        raise UsageError(
            f"this task is scored by a judge: set {VARIABLE} to the path of the judge's file "
            "(task_configs/README.md shows one)"
        )
    with _LOCK:
        if path not in _JUDGES:
            _JUDGES[path] = Judge(JudgeSettings.read(path))
            # One report tells of all judges.
            if len(_JUDGES) == 1:
                atexit.register(_report)
        return _JUDGES[path]


def expected_judge_usd(tokens: Tokens, at_limit: bool = False) -> float:
    """Return the dollars of `Judge.expected_usd` of the active judge; 0 without one."""
    return active_judge().expected_usd(tokens, at_limit) if os.environ.get(VARIABLE) else 0.0


@contextmanager
def keeping_ratings(path: Path) -> Iterator[None]:
    """Keep the active judge's replies in a file while the context lasts, if it has no cache.

    So a run that is resumed pays no rating twice. Nothing happens without such a judge.
    """
    if not os.environ.get(VARIABLE):
        yield
        return
    judge = active_judge()
    judge.keep_in(path)
    try:
        yield
    finally:
        judge.keep_in(None)


def is_judged(metric: str) -> bool:
    """Whether a metric is a judge's rating, by its name.

    >>> [name for name in ("judge_score", "judged", "judgement_acc", "judges") if is_judged(name)]
    ['judge_score', 'judged']
    """
    return metric.partition("_")[0] in ("judge", "judged")


def watch_judged_models() -> None:
    """Announce every model that the harness or a session runs to the active judge from now on."""
    global _WATCHING
    _WATCHING = True
    internals.hook("before", announce)


def announce(lm: Any) -> None:
    """Tell the active judge that a model is under test; nothing happens without judged tasks.

    Raises
    ------
    UsageError
        If the judge is that model.
    """
    if _WATCHING and os.environ.get(VARIABLE):
        active_judge().add_judged_models([internals.model_name(lm)])


def _report() -> None:
    for judge in _JUDGES.values():
        if judge.usage.calls or judge.usage.cached:
            print(f"judge {judge.settings.model}: {judge.describe()}", file=sys.stderr)

"""What happens beside the answers of a session: servers' words, scorers that fail, judges' bills.

The harness hands a prompt to a model and an answer to a task's code, and neither can hand anything
else back. So a session listens to its own thread while it asks and scores.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from .served import Served


@dataclass
class Notes:
    """What was noted in one thread.

    Attributes
    ----------
    served : list of Served
        One for each request that a server answered.
    unscored : list of str
        Why scores are missing, where a scorer failed.
    judge_usd : float
        Dollars that judges cost.
    """

    served: list[Served] = field(default_factory=list)
    unscored: list[str] = field(default_factory=list)
    judge_usd: float = 0.0


_HERE = threading.local()


@contextmanager
def noting() -> Iterator[Notes]:
    """While this lasts, note what happens in this thread; scorers that fail do not raise."""
    before, notes = getattr(_HERE, "notes", None), Notes()
    _HERE.notes = notes
    try:
        yield notes
    finally:
        _HERE.notes = before


def _notes() -> Notes | None:
    return getattr(_HERE, "notes", None)


def note_served(served: Sequence[Served]) -> None:
    """Hand up what a server said; where nobody listens it is dropped."""
    if (notes := _notes()) is not None:
        notes.served.extend(served)


def spend(usd: float) -> None:
    """Add to what judging the answers of this thread cost."""
    if (notes := _notes()) is not None:
        notes.judge_usd += usd


def unscored(error: Exception) -> float:
    """The score of an answer whose scorer failed: NaN, with the reason kept beside the answer.

    A task's ``process_results`` gives all scores of an answer at once, so an exception in it loses
    all of them. For the code of a task whose own judge may fail.

    Parameters
    ----------
    error : Exception
        Why there is no score.

    Returns
    -------
    float
        NaN.

    Raises
    ------
    Exception
        `error` itself, where nobody notes it: in a full run of the harness.

    Examples
    --------
    >>> with noting() as notes:
    ...     unscored(ValueError("HTTP 400"))
    nan
    >>> notes.unscored
    ['HTTP 400']
    """
    notes = _notes()
    if notes is None:
        raise error
    notes.unscored.append(" ".join(str(error).split()) or type(error).__name__)
    return math.nan

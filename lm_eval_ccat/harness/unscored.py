"""What to do where a scorer fails (a judge that refuses, say): the answer keeps its other scores.

A task's ``process_results`` gives all scores of an answer at once, so an exception in it loses all
of them. While a session scores, a scorer that fails gives NaN, and the session keeps the reason.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from threading import local

_NOTED = local()


@contextmanager
def noting_failures() -> Iterator[list[str]]:
    """While this lasts, scorers of this thread that fail are noted and do not raise."""
    before = getattr(_NOTED, "reasons", None)
    reasons: list[str] = []
    _NOTED.reasons = reasons
    try:
        yield reasons
    finally:
        _NOTED.reasons = before


def unscored(error: Exception) -> float:
    """The score of an answer whose scorer failed: NaN, with the reason kept beside the answer.

    For the code of a task whose own judge may fail.

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
    >>> with noting_failures() as reasons:
    ...     unscored(ValueError("HTTP 400"))
    nan
    >>> reasons
    ['HTTP 400']
    """
    reasons = getattr(_NOTED, "reasons", None)
    if reasons is None:
        raise error
    reasons.append(" ".join(str(error).split()) or type(error).__name__)
    return math.nan

"""Checks of the types and ranges of arguments."""

from __future__ import annotations

import math
from numbers import Integral, Real
from typing import Any

import numpy as np

from ..errors import UsageError


def number(
    value: Any, name: str, low: float = -math.inf, high: float = math.inf, above: bool = False
) -> float:
    """Return a finite number of at least `low` (with `above`: more than it) and below `high`.

    Examples
    --------
    >>> number("0.9", "confidence", 0.5, 1.0)
    Traceback (most recent call last):
    lm_eval_ccat.errors.UsageError: confidence '0.9' is not a number
    """
    if isinstance(value, bool) or not isinstance(value, Real) or math.isnan(value):
        raise UsageError(f"{name} {value!r} is not a number")
    size = float(value)
    if not (low < size if above else low <= size) or not size < high:
        wanted = "a finite number"
        if math.isfinite(high):
            wanted = f"in {'(' if above else '['}{low:g}, {high:g})"
        elif math.isfinite(low):
            wanted = f"a number {'above' if above else 'of at least'} {low:g}"
        raise UsageError(f"{name} {value!r} is not {wanted}")
    return size


def whole(value: Any, name: str, low: int | None = None) -> int:
    """Return a whole number of at least `low`.

    Examples
    --------
    >>> whole(3.5, "max_items", 1)
    Traceback (most recent call last):
    lm_eval_ccat.errors.UsageError: max_items 3.5 is not a whole number
    """
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise UsageError(f"{name} {value!r} is not a whole number")
    if low is not None and value < low:
        raise UsageError(f"{name} {value!r} is below {low}")
    return int(value)


def flag(value: Any, name: str) -> bool:
    """Return True or False; refuse anything that merely behaves like one of them."""
    if not isinstance(value, bool | np.bool_):
        raise UsageError(f"{name} {value!r} is neither True nor False")
    return bool(value)


def one_of(value: Any, name: str, known: tuple[str, ...]) -> str:
    """Return one of the `known` words."""
    if value not in known:
        raise UsageError(f"{name} {value!r} is neither {' nor '.join(map(repr, known))}")
    return str(value)

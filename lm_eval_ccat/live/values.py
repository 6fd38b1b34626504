"""Single values of a configuration, checked; every mistake names its key."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from ..errors import UsageError


def text(value: Any, path: str) -> str:
    """A text; a number counts as one.

    Raises
    ------
    UsageError
        It is something else; names the key.
    """
    if not isinstance(value, str | int | float) or isinstance(value, bool):
        raise UsageError(f"`{path}` must be a text, not {value!r}")
    return str(value)


def path(where: str, key: str) -> str:
    """A key with where it stands."""
    return f"{where}.{key}" if where else key


def number(
    values: Mapping[str, Any],
    key: str,
    low: float,
    high: float = math.inf,
    where: str = "",
    open_ends: bool = False,
    default: float | None = None,
) -> float | None:
    """A finite number within bounds, or the default.

    Raises
    ------
    UsageError
        It is something else; names the key.
    """
    value = values.get(key)
    if value is None:
        return default
    bounds = f"above {low:g}" if open_ends else f"at least {low:g}"
    if math.isfinite(high):
        bounds += f" and below {high:g}" if open_ends else f" and at most {high:g}"
    wrong = UsageError(f"`{path(where, key)}` must be a number {bounds}, not {value!r}")
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise wrong
    inside = low < value < high if open_ends else low <= value <= high
    if not inside:
        raise wrong
    return float(value)


def integer(values: Mapping[str, Any], key: str, low: int, where: str = "") -> int | None:
    """A whole number of at least `low`, or None.

    Raises
    ------
    UsageError
        It is something else; names the key.
    """
    value = values.get(key)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or value < low:
        named = path(where, key)
        raise UsageError(f"`{named}` must be a whole number of at least {low}, not {value!r}")
    return value


def choice(values: Mapping[str, Any], key: str, allowed: tuple[str, ...]) -> str | None:
    """One of some words, or None.

    Raises
    ------
    UsageError
        It is something else; names the key.
    """
    value = values.get(key)
    if value is not None and value not in allowed:
        raise UsageError(f"`{key}` must be one of {', '.join(allowed)}, not {value!r}")
    return value


def flag(values: Mapping[str, Any], key: str) -> bool | None:
    """True, False, or None.

    Raises
    ------
    UsageError
        It is something else; names the key.
    """
    value = values.get(key)
    if value is not None and not isinstance(value, bool):
        raise UsageError(f"`{key}` must be true or false, not {value!r}")
    return value

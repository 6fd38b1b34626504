"""`grouped`: values by a key that they share."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import TypeVar

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


def grouped(pairs: Iterable[tuple[Key, Value]]) -> dict[Key, list[Value]]:
    """Return the values of each key; keys and values in the order in which they come.

    Parameters
    ----------
    pairs : iterable of (key, value)

    Examples
    --------
    >>> grouped((len(word), word) for word in ("a", "the", "an", "I"))
    {1: ['a', 'I'], 3: ['the'], 2: ['an']}
    """
    groups: dict[Key, list[Value]] = {}
    for key, value in pairs:
        groups.setdefault(key, []).append(value)
    return groups

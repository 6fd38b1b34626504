"""Lists, counts and values as they stand in messages: short, and on one line."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def some(values: Sequence[Any], most: int = 5) -> str:
    """The first few of a list, as text.

    Examples
    --------
    >>> some([1, 2, 3], most=2)
    '1, 2, ...'
    """
    shown = ", ".join(map(str, values[:most]))
    return shown if len(values) <= most else f"{shown}, ..."


def plural(count: int, what: str) -> str:
    """Count and noun.

    Examples
    --------
    >>> plural(1, "item"), plural(3, "item")
    ('1 item', '3 items')
    """
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def short(text: Any, width: int = 60) -> str:
    """A text, or what a value or an error is as text, on one line of so many characters at most.

    Examples
    --------
    >>> short(ValueError("no\\nnumber")), short("x" * 9, width=5)
    ('no number', 'xx...')
    """
    line = " ".join(str(text).split())
    return line if len(line) <= width else f"{line[: width - 3]}..."

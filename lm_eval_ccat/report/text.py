"""Text of the page: shortened, and as JSON that may stand in a script."""

from __future__ import annotations

import json
from typing import Any

# In JSON inside a <script>, these could end the element, open a comment or an entity.
_SCRIPT_ENDING = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026"}


def shorten(text: str, limit: int) -> tuple[str, int]:
    """The beginning of a text, and how many characters were left off.

    Examples
    --------
    >>> shorten("abcdef", 4)
    ('abcd', 2)
    """
    return (text, 0) if len(text) <= limit else (text[:limit], len(text) - limit)


def item_text(item: Any) -> str:
    """An item as a reader names it.

    Examples
    --------
    >>> item_text(3), item_text(("gsm", 3))
    ('3', 'gsm: 3')
    """
    return f"{item[0]}: {item[1]}" if isinstance(item, tuple) else str(item)


def script_json(value: Any) -> str:
    r"""JSON that may stand inside a ``<script>`` element, whatever texts it holds.

    Only ASCII is written, and no character that HTML could read as markup.

    Examples
    --------
    >>> script_json({"a": "</script>"})
    '{"a":"\\u003c/script\\u003e"}'
    """
    text = json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    for character, escape in _SCRIPT_ENDING.items():
        text = text.replace(character, escape)
    return text

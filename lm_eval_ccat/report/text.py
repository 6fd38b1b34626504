"""Text that models, servers and users wrote, made safe to show.

Escaping for HTML is the template's work (autoescape) and the JSON writer's below. What escaping
leaves is text that misleads a reader: control characters, and marks that turn the direction of
what follows. They are shown as visible signs instead.
"""

from __future__ import annotations

import json
import re
from typing import Any

# C0 and C1 controls except tab, newline and carriage return; embeddings, overrides and isolates of
# the bidirectional algorithm; line and paragraph separators; lone surrogates.
_MISLEADING = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\u2028\u2029\ufeff\ud800-\udfff]"
)
# In JSON inside a <script>, these could end the element, open a comment or an entity.
_SCRIPT_ENDING = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026"}


def visible(text: Any) -> str:
    r"""Text with control and direction characters replaced by visible signs.

    Examples
    --------
    >>> visible("a\x00b\u202ec")
    'a␀b⟨U+202E⟩c'
    """
    return _MISLEADING.sub(_sign, str(text))


def _sign(match: re.Match[str]) -> str:
    code = ord(match.group())
    if code < 0x20:
        return chr(0x2400 + code)  # Unicode has a picture of every C0 control
    return f"⟨U+{code:04X}⟩"


def shorten(text: str, limit: int) -> tuple[str, int]:
    """The beginning of a text, and how many characters were left off.

    Examples
    --------
    >>> shorten("abcdef", 4)
    ('abcd', 2)
    """
    return (text, 0) if len(text) <= limit else (text[:limit], len(text) - limit)


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

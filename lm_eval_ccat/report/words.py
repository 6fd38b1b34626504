"""Numbers as the page writes them."""

from __future__ import annotations

import datetime
import json
from math import floor, inf, log10

from ..content import RankingContent

# In JSON inside a <script>, these could end the element, open a comment or an entity.
_SCRIPT_ENDING = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026"}


def probability(p: float) -> str:
    """A probability in per cent, never rounded to certainty.

    Examples
    --------
    >>> probability(0.5), probability(0.99999), probability(0.973)
    ('50%', '>99.9%', '97.3%')
    """
    if p > 0.999:
        return ">99.9%"
    if p < 0.001:
        return "<0.1%"
    return f"{100 * p:.1f}%".replace(".0%", "%")


def one_look(result: RankingContent) -> str | None:
    """Explain why a pair that one look would decide is still open; None if there is none."""
    if not any(pair.get("one_look") for pair in result.get("open_pairs") or ()):
        return None
    return (
        "These percentages hold for one look. Because results are checked repeatedly, a pair needs "
        "stronger evidence to be decided."
    )


def whole_percent(p: float) -> str:
    """A probability in whole per cent, never rounded to certainty."""
    if p >= 0.995:
        return ">99"
    return "<1" if p < 0.005 else f"{100 * p:.0f}"


def difference(low: float, at: float, high: float) -> list[str]:
    """A difference between the ends of its interval, all to the digits that its width bears.

    Examples
    --------
    >>> difference(-0.0381123, -0.0190812, -0.0000507)
    ['-0.0381', '-0.0191', '-0.0001']
    >>> difference(float("-inf"), 0.25, float("inf"))
    ['-inf', '+0.25', '+inf']
    """
    half = (high - low) / 2.0
    if not 0.0 < half < inf:
        return [f"{v:+.4g}" for v in (low, at, high)]
    decimals = max(0, 2 - floor(log10(half)))
    return [f"{v:+.{decimals}f}" for v in (low, at, high)]


def duration(seconds: float) -> str:
    """Seconds in words.

    Examples
    --------
    >>> duration(42), duration(3700)
    ('42 s', '1 h 2 min')
    """
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


def percent(part: float, whole: float) -> str:
    """A share in per cent, with one decimal where it is small."""
    if not whole:
        return "0%"
    share = 100 * part / whole
    return f"{share:.1f}%" if share < 10 else f"{share:.0f}%"


def listed(names: list[str]) -> str:
    """The first names, and how many more there are."""
    shown = ", ".join(names[:4])
    return shown if len(names) <= 4 else f"{shown} and {len(names) - 4} more"


def date(when: float | None) -> str | None:
    """A moment in UTC, from seconds of the epoch."""
    if when is None:
        return None
    moment = datetime.datetime.fromtimestamp(when, tz=datetime.timezone.utc)
    return moment.strftime("%Y-%m-%d %H:%M:%S UTC")


def plain(value: object) -> str:
    """A JSON value as a short text."""
    if isinstance(value, float):
        return f"{value:.4g}"
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= 300 else text[:297] + "..."


def item_text(item: object) -> str:
    """An item as a reader names it.

    Examples
    --------
    >>> item_text(3), item_text(("gsm", 3))
    ('3', 'gsm: 3')
    """
    return f"{item[0]}: {item[1]}" if isinstance(item, tuple) else str(item)


def script_json(value: object) -> str:
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

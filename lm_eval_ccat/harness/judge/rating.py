"""Read the rating out of a judge's reply."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

LOWEST, HIGHEST = 1.0, 10.0

_NUMBER = r"(-?\d+(?:[.,]\d+)?)"
#: Not part of a longer number, a percentage, or a fraction of anything but ten.
_END = r"(?![\d%]|[.,]\d|\s*(?:/|out of)\s*(?!10(?:\D|$)))"
#: A hyphen before a digit is a minus.
_MARKS = r"(?:[\s\"'*_`#:=–—]|-(?!\d))*"
_RANGE = r"(?:[(\[]\s*(?:from\s+)?1\s*(?:-|–|to)\s*10\s*[)\]])?"
_PATTERNS = (
    # The form that the prompt asks for.
    re.compile(rf"\[\[\s*{_NUMBER}(?:\s*/\s*10)?\s*\]\]"),
    # "Rating: 7", "**Score** (1-10): 7/10", "my overall rating is 7 out of 10".
    re.compile(
        rf"\b(?:rating|score|grade)\b{_MARKS}{_RANGE}{_MARKS}(?:is|of|would be)?{_MARKS}"
        rf"{_NUMBER}{_END}",
        re.IGNORECASE,
    ),
    # "7/10", "7 out of 10".
    re.compile(rf"(?<![\d.,/-]){_NUMBER}\s*(?:/|out of)\s*10(?!\d)", re.IGNORECASE),
)
_BARE = re.compile(rf"^{_MARKS}{_NUMBER}(?:\s*/\s*10)?[\s.*_`]*$")
_THOUGHT = re.compile(r"<think(?:ing)?>.*?(?:</think(?:ing)?>|\Z)", re.DOTALL | re.IGNORECASE)


def grade(reply: str, pattern: str | None, grades: Mapping[str, float]) -> float | None:
    """The rating of a reply, by a given pattern or as `parse_rating` reads it.

    >>> grade("GRADE: C. No: GRADE: P", r"GRADE: (\\w)", {"C": 10, "P": 5.5, "I": 1})
    5.5
    """
    if pattern is None:
        return parse_rating(reply)
    matches = re.findall(pattern, _THOUGHT.sub(" ", reply))
    if not matches:
        return None
    word = matches[-1].strip()
    for name, value in grades.items():
        if word.lower() == str(name).lower():
            return float(value)
    try:
        return _within(float(word))
    except ValueError:
        return None


def parse_rating(reply: str) -> float | None:
    """The rating that a judge's reply states.

    Read are, in this order: ``[[7]]``; a JSON object with ``rating`` or ``score``; ``Rating: 7``;
    ``7/10``; a reply or last line that is nothing but a number. Of several in one form the last
    counts, since judges reason before they conclude. What stands in ``<think>`` is not a rating.

    Parameters
    ----------
    reply : str

    Returns
    -------
    float or None
        From 1 to 10; None if there is no rating, or it lies outside.

    Examples
    --------
    >>> parse_rating("Accurate, though brief. Rating: [[8]]")
    8.0
    >>> parse_rating("I cannot rate this.") is None
    True
    """
    text = _THOUGHT.sub(" ", reply).strip()
    matches = _PATTERNS[0].findall(text)
    if not matches:
        value = _from_json(text)
        if value is not None:
            return _within(value)
        for pattern in _PATTERNS[1:]:
            matches = pattern.findall(text)
            if matches:
                break
    if not matches:
        lines = [line for line in text.splitlines() if line.strip()]
        matches = [match[1] for line in lines[-1:] if (match := _BARE.match(line))]
    return _within(float(matches[-1].replace(",", "."))) if matches else None


def _within(value: float) -> float | None:
    return value if LOWEST <= value <= HIGHEST else None


def _from_json(text: str) -> float | None:
    match = re.search(r"\{[^{}]*\}", text, re.DOTALL)
    if match is None:
        return None
    try:
        content = json.loads(match[0])
    except json.JSONDecodeError:
        return None
    for key in ("rating", "score"):
        value = content.get(key)
        if isinstance(value, str) and re.fullmatch(r"-?\d+(\.\d+)?(\s*/\s*10)?", value.strip()):
            value = float(value.split("/")[0])
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            return float(value)
    return None

"""The bank's file as text: canonical JSON, laid out one part a line.

The checksum is of the canonical JSON of the content (keys sorted, no spaces). In the file each part
stands on a line of its own, in canonical form, so that a person can read its head, a diff shows
which part changed, and the checksum can be had from the lines without writing the numbers again.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

#: Parts of the file that the checksum does not cover.
HEAD = ("format", "version", "sha256", "made")


def as_text(value: Any) -> str:
    """Canonical JSON.

    Examples
    --------
    >>> as_text({"b": [1, None], "a": "x"})
    '{"a":"x","b":[1,null]}'
    """
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def checksum_of_parts(parts: dict[str, str], items: dict[str, str]) -> str:
    """SHA-256 of the content whose parts, and arrays of items, have these canonical texts."""
    whole = _joined(parts | {"items": _joined(items)})
    return hashlib.sha256(whole.encode()).hexdigest()


def file_text(parts: dict[str, str], items: dict[str, str]) -> str:
    """The file: parts in the order given, then the items."""
    lines = [f"{json.dumps(k)}: {v}" for k, v in parts.items()]
    arrays = [f"  {json.dumps(k)}: {v}" for k, v in items.items()]
    return "{\n" + ",\n".join(lines) + ',\n"items": {\n' + ",\n".join(arrays) + "\n}}\n"


def checksum_of_file(text: str) -> str | None:
    """The checksum of a file of this layout, from its lines; None where the layout is another."""
    lines = text.split("\n")
    if len(lines) < 5 or lines[0] != "{" or lines[-2:] != ["}}", ""]:
        return None
    try:
        at = lines.index('"items": {')
    except ValueError:
        return None
    parts, items = _read(lines[1:at], last=False), _read(lines[at + 1 : -2], last=True)
    if parts is None or items is None:
        return None
    return checksum_of_parts({k: v for k, v in parts.items() if k not in HEAD}, items)


def _joined(parts: dict[str, str]) -> str:
    return "{" + ",".join(f"{json.dumps(k)}:{parts[k]}" for k in sorted(parts)) + "}"


def _read(lines: list[str], last: bool) -> dict[str, str] | None:
    """Name and text of each line's part; every line but a block's last one ends with a comma."""
    found: dict[str, str] = {}
    for n, line in enumerate(lines):
        name, colon, value = line.strip(" ").partition(": ")
        if not colon or len(name) < 3 or name[0] != '"' or name[-1] != '"' or name[1:-1] in found:
            return None
        if not (last and n == len(lines) - 1):
            if not value.endswith(","):
                return None
            value = value[:-1]
        found[name[1:-1]] = value
    return found

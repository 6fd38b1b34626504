"""The bank's file as text: canonical JSON, laid out one part a line.

The checksum is of the canonical JSON of the content (keys sorted, no spaces). In the file each part
stands on a line of its own, in canonical form, so that a person can read its head and a diff shows
which part changed. Version 2 added sections that may be absent (observations, outcomes, checksums):
a document of version 1 is one of version 2 without them.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from ..errors import BankError

FORMAT = "lm-eval-ccat/bank"
VERSION = 2
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


def checksum(document: Mapping[str, Any]) -> str:
    """SHA-256 of a bank's content: everything but `HEAD`."""
    content = {k: v for k, v in document.items() if k not in HEAD}
    return hashlib.sha256(as_text(content).encode()).hexdigest()


def file_text(document: Mapping[str, Any]) -> str:
    """The file: parts in the order of the document, then the items, an array a line."""
    lines = [f"{json.dumps(k)}: {as_text(v)}" for k, v in document.items() if k != "items"]
    arrays = [f"  {json.dumps(k)}: {as_text(v)}" for k, v in document["items"].items()]
    return "{\n" + ",\n".join(lines) + ',\n"items": {\n' + ",\n".join(arrays) + "\n}}\n"


def require_sound(document: Any, where: str) -> None:
    """Refuse what is no bank of a known version with its own checksum.

    Raises
    ------
    BankError
    """
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise BankError(f"{where}: not an item bank of lm-eval-ccat")
    version = document.get("version")
    if type(version) is int and version > VERSION:
        raise BankError(
            f"{where}: item bank of format version {version}; this package reads up to version "
            f"{VERSION}: update lm-eval-ccat"
        )
    if type(version) is not int or version < 1:
        raise BankError(
            f"{where}: unknown item bank format version {version!r}: calibrate again with "
            "`lm-eval-ccat calibrate`"
        )
    try:
        sound = checksum(document) == document.get("sha256")
    except (ValueError, TypeError, RecursionError):
        sound = False
    if not sound:
        raise BankError(
            f"{where}: the content does not match its checksum; the file was edited or damaged, "
            "get it again or calibrate again"
        )

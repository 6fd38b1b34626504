"""Read JSON that may have been made to harm, in bounded memory and time.

What a parser builds from 180 MB of brackets takes gigabytes, so brackets, commas and depth are
counted before anything is parsed, chunk by chunk, and reading ends at the first that is too many.
"""

from __future__ import annotations

import json
import re
import stat
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import BankError
from ..plugins import Plugins


@dataclass(frozen=True)
class Place:
    """Somewhere banks are kept.

    Attributes
    ----------
    name : str
        What stands before the colon.
    fetch : callable
        ``(rest of the name) -> Path`` of a local copy; it raises `BankError`.
    """

    name: str
    fetch: Callable[[str], Path]


PLACES = Plugins("bank place", Place, lambda: {"hub": "lm_eval_ccat.integrations.hub:PLACE"})


def located(path: str | Path) -> Path:
    """The file of a bank, fetched first where its name is one in a place.

    Raises
    ------
    BankError
        It cannot be had there.
    """
    place, colon, rest = str(path).partition(":")
    if colon and rest and place.isidentifier() and place in PLACES.names():
        return PLACES.get(place).fetch(rest)
    return Path(path)


MAX_BYTES = 256 << 20
MAX_DEPTH = 32
MAX_CONTAINERS = 4_000_000
MAX_VALUES = 30_000_000
_CHUNK = 1 << 20
_MOST_STRING = 8 << 20
_STRING = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)
_OPEN, _CLOSE, _COMMA = b"[{", b"]}", b","


def bounded_text(path: Path, most: int | None = None) -> str:
    """The text of a regular file that a parser can be given.

    Parameters
    ----------
    path : Path
    most : int, optional
        Largest size in bytes; default `MAX_BYTES`.

    Raises
    ------
    BankError
        Not a regular file, too large, nested too deeply, or too many values.
    OSError, UnicodeDecodeError
        It cannot be read, or is no text.
    """
    most = MAX_BYTES if most is None else most
    chunks: list[bytes] = []
    size = 0
    counts = _Counts(path)
    # Before it is opened: opening a pipe would wait for somebody to write.
    if not stat.S_ISREG(path.stat().st_mode):
        raise BankError(f"{path}: not a regular file")
    with path.open("rb") as stream:
        while chunk := stream.read(_CHUNK):
            size += len(chunk)
            if size > most:
                raise BankError(f"{path}: more than {most:,} bytes are too large for an item bank")
            counts.add(chunk)
            chunks.append(chunk)
    return b"".join(chunks).decode("utf-8")


def parsed(text: str) -> Any:
    """The JSON value of a text; NaN and infinities, which JSON does not know, are refused.

    Raises
    ------
    ValueError, RecursionError
        It is none.
    """
    return json.loads(text, parse_constant=_no_constant)


class _Counts:
    """Brackets and commas outside strings, over the chunks of one file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._rest = b""  # the beginning of a string that ends in a later chunk
        self._depth = self._containers = self._values = 0

    def add(self, chunk: bytes) -> None:
        """Count one more chunk.

        Raises
        ------
        BankError
            There are too many of something.
        """
        plain = _STRING.sub(b"", self._rest + chunk)
        quote = plain.find(b'"')
        self._rest = b"" if quote < 0 else plain[quote:]
        if len(self._rest) > _MOST_STRING:
            raise BankError(f"{self._path}: a text in it never ends: not an item bank")
        codes = np.frombuffer(plain if quote < 0 else plain[:quote], dtype=np.uint8)
        opens, closes = (np.isin(codes, list(kind)) for kind in (_OPEN, _CLOSE))
        steps = np.cumsum(opens.astype(np.int64) - closes)
        deepest = self._depth + int(steps.max(initial=0))
        self._depth += int(steps[-1]) if len(steps) else 0
        self._containers += int(opens.sum())
        self._values += int((codes == _COMMA[0]).sum())
        if deepest > MAX_DEPTH:
            raise BankError(f"{self._path}: nested more than {MAX_DEPTH} deep: not an item bank")
        if self._containers > MAX_CONTAINERS or self._values > MAX_VALUES:
            raise BankError(f"{self._path}: too many values for an item bank")


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not a number JSON knows")

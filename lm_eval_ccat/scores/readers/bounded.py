"""Logs that strangers wrote, read in bounded memory.

A line, or a file that is one JSON value, is held in memory whole, and what a parser builds of it
takes several times its size. So one that is too large for any log is refused by name, before it is
read to its end; compressed files count by what they unpack to.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ...errors import ScoreTableError

#: Bytes of the longest line: one row holds one document, its prompt and its answers.
MAX_LINE = 128 << 20
#: Bytes of the largest file that is one JSON value.
MAX_VALUE = 1 << 30
_CHUNK = 1 << 20


def open_log(path: Path) -> Any:
    """Open a plain or gzip-compressed log for reading bytes."""
    return gzip.open(path, "rb") if path.suffix == ".gz" else open(path, "rb")


def lines(stream: Any, path: Path) -> Iterator[bytes]:
    """The lines of an open log.

    Raises
    ------
    ScoreTableError
        When one has more than `MAX_LINE` bytes.
    """
    while line := stream.readline(MAX_LINE + 1):
        if len(line) > MAX_LINE:
            raise ScoreTableError(f"{path}: a line of more than {MAX_LINE:,} bytes: not a log")
        yield line


def json_value(path: Path) -> Any:
    """The JSON value that is the whole of a plain or compressed file.

    Raises
    ------
    ScoreTableError
        When it has more than `MAX_VALUE` bytes.
    OSError, EOFError, ValueError, RecursionError
        When it cannot be read, or is no JSON.
    """
    chunks, size = [], 0
    with open_log(path) as stream:
        while chunk := stream.read(_CHUNK):
            chunks.append(chunk)
            size += len(chunk)
            if size > MAX_VALUE:
                raise ScoreTableError(
                    f"{path}: more than {MAX_VALUE:,} bytes of one JSON value; write its rows as "
                    "JSON lines"
                )
    return json.loads(b"".join(chunks))

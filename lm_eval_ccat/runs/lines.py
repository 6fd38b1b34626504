"""One line of a journal: a JSON object with its number first and a seal last.

The seal is the SHA-256 of everything in the file up to it, so that no line can be changed, taken
out or added without all that follow.  Journals begun by earlier versions have a checksum (CRC-32)
of each line by itself, those of version 1 none, and say ``doc`` where later ones say ``item``; a
resumed one continues with seals.
"""

from __future__ import annotations

import hashlib
import json
import re
import zlib
from collections.abc import Iterable
from typing import Any

from ..errors import RunError

FORMAT = "lm-eval-ccat/journal"
VERSION = 2

Record = dict[str, Any]
_SEAL = re.compile(rb', "sha256": "([0-9a-f]{64})"\}\Z')
_CHECKSUM = re.compile(rb', "sum": "([0-9a-f]{8})"\}\Z')


class Lines:
    """Turns records into lines and back, and refuses lines that are not as they were written.

    Parameters
    ----------
    where : str
        Name of the journal, for errors.

    Attributes
    ----------
    count : int
        Lines so far.

    Examples
    --------
    >>> lines = Lines("the journal").sealed([{"op": "note"}, {"op": "note"}])
    >>> Lines("the journal").read(lines)
    [{'op': 'note'}, {'op': 'note'}]
    """

    def __init__(self, where: str) -> None:
        self.where = where
        self.count = 0
        self._hash = hashlib.sha256()
        self._bare_allowed = False  # lines without checksum: a journal begun in version 1
        self._sealed = False

    @property
    def chained(self) -> bool:
        """Whether the last line seals all lines before it."""
        return self._sealed

    @property
    def digest(self) -> str:
        """SHA-256 of all lines so far: what names this very run."""
        return self._hash.hexdigest()

    def sealed(self, records: Iterable[Record]) -> list[bytes]:
        """The lines that records become where they follow; `passed` counts them once written."""
        hashed, lines = self._hash.copy(), []
        for number, record in enumerate(records, start=self.count):
            text = json.dumps({"seq": number, **record}, ensure_ascii=False, allow_nan=False)
            body = text[:-1].encode("utf-8", "surrogatepass")
            hashed.update(body)
            seal = b', "sha256": "%s"}' % hashed.hexdigest().encode()
            hashed.update(seal + b"\n")
            lines.append(body + seal)
        return lines

    def passed(self, lines: Iterable[bytes]) -> None:
        """Count lines that this process wrote itself."""
        for line in lines:
            self._hash.update(line + b"\n")
            self.count += 1
            self._bare_allowed, self._sealed = False, True

    def read(self, lines: Iterable[bytes]) -> list[Record]:
        """Records of the lines that follow those so far.

        Raises
        ------
        RunError
            Naming the line that is damaged, missing, changed or repeated.
        """
        return [self._read_one(line) for line in lines]

    def _read_one(self, line: bytes) -> Record:
        name = f"{self.where}, line {self.count + 1}"
        remedy = "`lm-eval-ccat verify RUN` shows which part is sound; --repair keeps that part"
        try:
            record = json.loads(line)
            sequence = record.pop("seq")
        except (ValueError, KeyError, AttributeError, TypeError, RecursionError) as error:
            raise RunError(f"{name} is damaged and not merely torn by a crash; {remedy}") from error
        trouble = self._trouble(line, record)
        if sequence != self.count:
            trouble = f"carries the number {sequence}: lines are missing or repeated"
        if trouble:
            raise RunError(f"{name} {trouble}; {remedy}")
        self._hash.update(line + b"\n")
        self.count += 1
        return _brought_forward(record)

    def _trouble(self, line: bytes, record: Record) -> str:
        """Return what is wrong with a line's seal; "" if nothing is."""
        if seal := _SEAL.search(line):
            hashed = self._hash.copy()
            hashed.update(line[: seal.start()])
            self._sealed, self._bare_allowed = True, False
            del record["sha256"]
            right = hashed.hexdigest().encode() == seal[1]
            return "" if right else "does not fit its seal: it was changed, or one before it"
        if self._sealed:
            return "has no seal, and lines before it have: it was edited by hand"
        if checksum := _CHECKSUM.search(line):
            del record["sum"]
            self._bare_allowed = False
            right = int(checksum[1], 16) == zlib.crc32(line[: checksum.start()])
            return "" if right else "does not fit its checksum: it is damaged"
        if self.count == 0 and record.get("op") == "header":
            self._bare_allowed = record.get("version") == 1
        return "" if self._bare_allowed else "has no checksum: it was edited by hand"


def _brought_forward(record: Record) -> Record:
    """A record of any version in the words of this one; items as Python names them."""
    if "doc" in record:
        record["item"] = record.pop("doc")
    if "item" in record:
        record["item"] = item_of(record["item"])
    if record.get("op") == "ask":
        record["pairs"] = [(model, item_of(item)) for model, item in record["pairs"]]
        record.setdefault("draws", None)  # version 1 did not record them
    return record


def item_of(value: Any) -> Any:
    """An item from its JSON value: a doc_id, or ``[task, doc_id]``."""
    return tuple(value) if isinstance(value, list) else value

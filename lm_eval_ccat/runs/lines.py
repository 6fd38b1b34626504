"""One line of a journal: a JSON object with its number first and a checksum last.

Version 1 of the format had no checksums and said ``doc`` where version 2 says ``item``; its lines
are brought forward as they are read.  A journal of version 1 that is resumed goes on in version 2.
"""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Iterable
from typing import Any

from ..errors import RunError

FORMAT = "lm-eval-ccat/journal"
VERSION = 2

Record = dict[str, Any]
_CHECKSUM = re.compile(rb', "sum": "([0-9a-f]{8})"\}\Z')


def line_of(number: int, record: Record) -> bytes:
    """A record as a line, without its newline.

    Examples
    --------
    >>> line_of(0, {"op": "note"})
    b'{"seq": 0, "op": "note", "sum": "..."}'
    """
    text = json.dumps({"seq": number, **record}, ensure_ascii=False, allow_nan=False)
    body = text[:-1].encode("utf-8", "surrogatepass")
    return body + b', "sum": "%08x"}' % zlib.crc32(body)


class LineReader:
    """Turns lines back into records, and refuses what is not as it was written.

    Parameters
    ----------
    where : str
        Name of the journal, for errors.
    """

    def __init__(self, where: str) -> None:
        self.where = where
        self.count = 0
        self._bare_allowed = False  # lines without checksum: a journal begun in version 1

    def passed(self, lines: Iterable[bytes]) -> None:
        """Count lines that this process wrote itself."""
        self.count += sum(1 for _ in lines)
        self._bare_allowed = False

    def read(self, lines: Iterable[bytes]) -> list[Record]:
        """Records of the lines that follow those read so far.

        Raises
        ------
        RunError
            Naming the line that is damaged, missing or repeated.
        """
        records: list[Record] = []
        for line in lines:
            records.append(self._read_one(line, self.count + len(records)))
        self.count += len(records)
        return records

    def _read_one(self, line: bytes, number: int) -> Record:
        name = f"{self.where}, line {number + 1}"
        remedy = "`lm-eval-ccat journal check` says what is sound, `journal salvage` keeps it"
        try:
            record = json.loads(line)
            sequence = record.pop("seq")
        except (ValueError, KeyError, AttributeError, TypeError) as error:
            raise RunError(f"{name} is damaged and not merely torn by a crash; {remedy}") from error
        checksum = _CHECKSUM.search(line)
        if checksum is None:
            if number == 0 and record.get("op") == "header":
                self._bare_allowed = record.get("version") == 1
            if not self._bare_allowed:
                raise RunError(f"{name} has no checksum: it was edited by hand; {remedy}")
        elif int(checksum[1], 16) != zlib.crc32(line[: checksum.start()]):
            raise RunError(f"{name} does not fit its checksum: it is damaged; {remedy}")
        else:
            del record["sum"]
            self._bare_allowed = False
        if sequence != number:
            raise RunError(
                f"{name} carries the number {sequence}: lines are missing or repeated; {remedy}"
            )
        return _brought_forward(record)


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

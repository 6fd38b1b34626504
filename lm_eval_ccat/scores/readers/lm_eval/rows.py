"""Read the few fields we need from the rows of sample files, fast and in bounded memory.

A row holds the whole document, prompt and response: several kB of which we need under 200 bytes,
and the harness writes those first and last. Large files are cut into ranges of bytes at line ends
and read by one process per core; what comes back is only ids, scores and hashes.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ....errors import MetricError, ScaleError
from ....parallel import in_processes
from .files import open_log
from .metric import MetricInLogs
from .tails import FILTER, FIRST, HEAD, Tails

RANGE_BYTES = 16 << 20
# Small enough to stay in a processor's cache.
BLOCK_BYTES = 1 << 18
# Below this starting processes costs more than it gains.
_WORTH_PROCESSES = 48 << 20
# Scores of a 0/1 metric are always the same two texts.
_KNOWN_SCORES = 1024


@dataclass(frozen=True)
class Part:
    """A range of bytes of one sample file, and what to read from its rows.

    ``end`` is None for a compressed file, which can only be read from its start to its end.
    """

    file: int
    path: Path
    start: int
    end: int | None
    metric: MetricInLogs
    filter: str | None


@dataclass
class Rows:
    """What one part held.

    Attributes
    ----------
    file : int
        The part's file, as numbered by the caller.
    doc_ids, scores, hashes, filters : list
        One entry per usable row, in the file's order. Scores are raw. A filter is None where the
        row names none, as the harness wrote them before 0.4.7.
    nth : list of int
        Of each usable row without a filter's name: how many rows of its document came before.
    seen : Counter
        Rows without a filter's name, by document.
    lines : int
        Lines in the part, blank ones included.
    size : int
        Bytes of the file that the part stands for.
    broken : list of (line, reason)
        Lines that are no rows, counted from 0 at the start of the part.
    unusable : list of (line, reason)
        Rows whose score the metric refuses.
    without : int
        Rows of the wanted filter that do not report the metric.
    """

    file: int
    doc_ids: list[Any] = field(default_factory=list)
    scores: list[float] = field(default_factory=list)
    hashes: list[str | None] = field(default_factory=list)
    filters: list[str | None] = field(default_factory=list)
    nth: list[int] = field(default_factory=list)
    seen: Counter[Any] = field(default_factory=Counter)
    lines: int = 0
    size: int = 0
    broken: list[tuple[int, str]] = field(default_factory=list)
    unusable: list[tuple[int, str]] = field(default_factory=list)
    without: int = 0


def _blocks(part: Part, rows: Rows) -> Iterator[tuple[bytes | bytearray, int]]:
    """Yield whole lines, many at a time: those whose first byte lies in the part.

    Each time, the lines and how many bytes they fill; what is yielded is used again.
    """
    try:
        with open_log(part.path) as stream:
            if _is_list(part.path):
                for row in json.load(stream):
                    line = json.dumps(row).encode()
                    yield line, len(line)
                return
            at = part.start
            if at:
                # A range begins after the line that the range before it finishes.
                stream.seek(at - 1)
                at += len(stream.readline()) - 1
            block, kept = bytearray(BLOCK_BYTES), 0
            while part.end is None or at < part.end:
                if kept == len(block):
                    block.extend(bytes(kept))  # a line longer than a block
                most = len(block) - kept if part.end is None else part.end - at
                # What a damaged .gz gave before the damage comes out of one read alone.
                with memoryview(block)[kept : kept + most] as free:
                    read = stream.readinto1(free)
                if not read:
                    break
                at, kept = at + read, kept + read
                whole = block.rfind(b"\n", 0, kept) + 1
                if whole:
                    yield block, whole
                    block[: kept - whole] = block[whole:kept]
                    kept -= whole
            if kept:
                last = bytes(block[:kept]) + stream.readline()
                yield last, len(last)
    except (
        OSError,
        EOFError,
        ValueError,
        RecursionError,
    ) as error:
        # A truncated or damaged .gz; what came before is good.
        rows.broken.append((rows.lines, f"cannot be read on ({error})"))


def _row(line: bytes, marker: bytes) -> Any:
    """Parse of a row its doc_id and all from the last key ``marker`` on; else the whole row.

    An object made of the rest of the line parses only if that key stands at the row's own level.
    What lies between is not looked at, except for the signs of a write that was cut off and later
    continued by another row: a second beginning, or a block of zero bytes.
    """
    head = FIRST.match(line)
    at = line.rfind(marker)
    if head and at > 0 and line.rfind(HEAD) == 0 and b"\0" not in line:
        try:
            row = json.loads(b"{" + line[at:])
        except ValueError:
            return json.loads(line)
        if "metrics" in row and "doc_hash" in row:
            row["doc_id"] = int(head[1])
            return row
    return json.loads(line)


class _Reading:
    """Takes the rows of one part, line by line."""

    def __init__(self, part: Part, rows: Rows) -> None:
        self.part, self.rows = part, rows
        self.metric = part.metric.find()
        # Pairs of texts are told apart by the answer, which stands before the filter's name.
        self._pairs = bool(getattr(self.metric, "corpus", False))
        self._tails = Tails(part.metric.name)
        self._known: dict[bytes, float] = {}

    def take(self, block: bytes | bytearray, size: int) -> None:
        """Take all lines of a block.

        Raises
        ------
        ScaleError
            When a score lies outside the metric's scale: then all of them are in doubt.
        """
        parse = self._pairs or block.find(b"\0", 0, size) >= 0
        start = 0
        while start < size:
            end = block.find(b"\n", start, size) + 1 or size
            self.rows.lines += 1
            if parse or not self._take_tail(block, start, end):
                self._take_line(bytes(block[start:end]))
            start = end

    def _take_tail(self, block: bytes | bytearray, start: int, end: int) -> bool:
        """Take a row by its end; False where it must be parsed."""
        tail = self._tails.read(block, start, end)
        if tail is None:
            return False
        doc_id, name, doc_hash, number = tail
        score = self._known.get(number)
        if score is None:
            try:
                score = self.metric.score(json.loads(number), task=self.part.metric.task)
            except (MetricError, ScaleError):
                return False
            if not math.isfinite(score):
                return False
            if len(self._known) < _KNOWN_SCORES:
                self._known[number] = score
        before = self._before(doc_id, name)
        if before is not None:
            self._add(doc_id, score, doc_hash, name, before)
        return True

    def _take_line(self, line: bytes) -> None:
        rows, key = self.rows, self.part.metric.name
        number = rows.lines - 1
        if line.isspace():
            return
        try:
            row = _row(line, b'"filtered_resps": ' if self._pairs else FILTER)
        except (ValueError, RecursionError) as error:
            rows.broken.append((number, str(error)))
            return
        if not isinstance(row, dict) or not isinstance(row.get("doc_id"), (int, str)):
            rows.broken.append((number, "not a sample row: no doc_id"))
            return
        name = row.get("filter")
        before = self._before(row["doc_id"], name)
        if before is None:
            return
        if key not in row:
            rows.without += 1
            return
        answers = row.get("filtered_resps")
        answer = answers[0] if isinstance(answers, list) and len(answers) == 1 else None
        try:
            score = self.metric.score(
                row[key],
                task=self.part.metric.task,
                prediction=answer if isinstance(answer, str) else None,
            )
        except ScaleError as error:
            raise ScaleError(f"{self.part.path}, doc_id {row['doc_id']}: {error}") from None
        except MetricError as error:
            rows.unusable.append((number, str(error)))
            return
        if not math.isfinite(score):
            rows.unusable.append((number, f"{key} is {score}"))
            return
        self._add(row["doc_id"], score, row.get("doc_hash"), name, before)

    def _before(self, doc_id: Any, name: str | None) -> int | None:
        """How many nameless rows of the document came before; None for an unwanted filter's row."""
        if name is None:
            before = self.rows.seen[doc_id]
            self.rows.seen[doc_id] += 1
            return before
        return 0 if self.part.filter in (None, name) else None

    def _add(
        self, doc_id: Any, score: float, doc_hash: str | None, name: str | None, before: int
    ) -> None:
        rows = self.rows
        rows.doc_ids.append(doc_id)
        rows.scores.append(score)
        rows.hashes.append(doc_hash)
        rows.filters.append(name)
        rows.nth.append(before)


def read_part(part: Part, _shared: None = None) -> Rows:
    """Read one part; see :class:`Rows`.

    Raises
    ------
    ScaleError
        When a score lies outside the metric's scale: then all of them are in doubt.
    """
    end = part.path.stat().st_size if part.end is None else part.end
    rows = Rows(part.file, size=end - part.start)
    reading = _Reading(part, rows)
    for block, size in _blocks(part, rows):
        reading.take(block, size)
    return rows


def cut(files: Iterable[Path], **fields: Any) -> list[Part]:
    """Cut files into parts of about ``RANGE_BYTES``, in order; ``fields`` go to every part."""
    parts = []
    for number, path in enumerate(files):
        size = path.stat().st_size
        if path.suffix == ".gz" or _is_list(path):
            parts.append(Part(number, path, 0, None, **fields))
            continue
        starts = range(0, max(size, 1), RANGE_BYTES)
        parts += [Part(number, path, s, min(s + RANGE_BYTES, size), **fields) for s in starts]
    return parts


def read_parts(
    parts: list[Part], on_progress: Callable[[int, int], None] | None = None
) -> Iterator[Rows]:
    """Read parts in order, by several processes where that pays.

    Parameters
    ----------
    parts : list of Part
        From :func:`cut`.
    on_progress : callable, optional
        Called with (bytes read, bytes in all).
    """
    ends = [p.path.stat().st_size if p.end is None else p.end for p in parts]
    total = sum(end - part.start for part, end in zip(parts, ends))
    # Compressed text is about a quarter of its size, and takes as long to unpack as to parse.
    work = sum((end - p.start) * (1 if p.end is not None else 8) for p, end in zip(parts, ends))
    done = 0
    processes = None if work >= _WORTH_PROCESSES else 1
    for rows in in_processes(read_part, parts, processes=processes, near=True):
        done += rows.size
        if on_progress is not None:
            on_progress(done, total)
        yield rows


def _is_list(path: Path) -> bool:
    """Whether a sample file is one JSON list; such files end in ``.json``."""
    if path.suffix != ".json":
        return False
    with open(path, "rb") as stream:
        return stream.read(1) == b"["


def first_row(path: Path) -> dict[str, Any] | None:
    """Return the first readable row of a sample file, or None."""
    try:
        with open_log(path) as stream:
            rows = json.load(stream) if _is_list(path) else map(_parsed, stream)
            return next((row for row in rows if isinstance(row, dict)), None)
    except (OSError, EOFError, ValueError, RecursionError):
        return None


def _parsed(line: bytes) -> Any:
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return None

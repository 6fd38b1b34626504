"""Read the few fields we need from the rows of sample files, fast and in bounded memory.

A row holds the whole document, prompt and response: several kB of which we need under 200 bytes,
and the harness writes those first and last. Large files are cut into ranges of bytes at line ends
and read by one process per core; what comes back is only ids, scores and hashes.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ....errors import MetricError, ScaleError
from ....parallel import in_processes
from .files import open_log
from .metric import MetricInLogs

RANGE_BYTES = 16 << 20
# Below this starting processes costs more than it gains.
_WORTH_PROCESSES = 48 << 20


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


def _lines(part: Part, rows: Rows) -> Iterator[bytes]:
    """Yield the lines whose first byte lies in the part."""
    try:
        with open_log(part.path) as stream:
            if _is_list(part.path):
                for row in json.load(stream):
                    rows.lines += 1
                    yield json.dumps(row).encode()
                return
            at = part.start
            if at:
                # A range begins after the line that the range before it finishes.
                stream.seek(at - 1)
                at += len(stream.readline()) - 1
            while part.end is None or at < part.end:
                line = stream.readline()
                if not line:
                    break
                at += len(line)
                rows.lines += 1
                yield line
    except (
        OSError,
        EOFError,
        ValueError,
        RecursionError,
    ) as error:
        # A truncated or damaged .gz; what came before is good.
        rows.broken.append((rows.lines, f"cannot be read on ({error})"))


_HEAD = re.compile(rb'\{"doc_id": (\d+), "doc": ')


def _row(line: bytes, marker: bytes) -> Any:
    """Parse of a row its doc_id and all from the last key ``marker`` on; else the whole row.

    In JSON a quote inside a string is escaped, so ``"key": `` can only be a key; and an object made
    of the rest of the line parses only if that key stands at the row's own level. What lies between
    is not looked at, except for the signs of a write that was cut off and later continued by
    another row: a second beginning, or a block of zero bytes.
    """
    head = _HEAD.match(line)
    at = line.rfind(marker)
    if head and at > 0 and line.find(b'{"doc_id": ', 1) < 0 and b"\0" not in line:
        try:
            row = json.loads(b"{" + line[at:])
        except ValueError:
            return json.loads(line)
        if "metrics" in row and "doc_hash" in row:
            row["doc_id"] = int(head[1])
            return row
    return json.loads(line)


def read_part(part: Part, _shared: None = None) -> Rows:
    """Read one part; see :class:`Rows`.

    Raises
    ------
    ScaleError
        When a score lies outside the metric's scale: then all of them are in doubt.
    """
    metric, key = part.metric.find(), part.metric.name
    # Pairs of texts are told apart by the answer, which stands before the filter's name.
    marker = b'"filtered_resps": ' if getattr(metric, "corpus", False) else b'"filter": '
    end = part.path.stat().st_size if part.end is None else part.end
    rows = Rows(part.file, size=end - part.start)
    for line in _lines(part, rows):
        number = rows.lines - 1
        if line.isspace():
            continue
        try:
            row = _row(line, marker)
        except (ValueError, RecursionError) as error:
            rows.broken.append((number, str(error)))
            continue
        if not isinstance(row, dict) or not isinstance(row.get("doc_id"), (int, str)):
            rows.broken.append((number, "not a sample row: no doc_id"))
            continue
        name = row.get("filter")
        if name is None:
            before = rows.seen[row["doc_id"]]
            rows.seen[row["doc_id"]] += 1
        elif part.filter is not None and name != part.filter:
            continue
        if key not in row:
            rows.without += 1
            continue
        answers = row.get("filtered_resps")
        answer = answers[0] if isinstance(answers, list) and len(answers) == 1 else None
        try:
            score = metric.score(
                row[key],
                task=part.metric.task,
                prediction=answer if isinstance(answer, str) else None,
            )
        except ScaleError as error:
            raise ScaleError(f"{part.path}, doc_id {row['doc_id']}: {error}") from None
        except MetricError as error:
            rows.unusable.append((number, str(error)))
            continue
        if not math.isfinite(score):
            rows.unusable.append((number, f"{key} is {score}"))
            continue
        rows.doc_ids.append(row["doc_id"])
        rows.scores.append(score)
        rows.hashes.append(row.get("doc_hash"))
        rows.filters.append(name)
        rows.nth.append(before if name is None else 0)
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
    for rows in in_processes(read_part, parts, processes=None if work >= _WORTH_PROCESSES else 1):
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

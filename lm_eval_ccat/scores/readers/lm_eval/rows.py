"""Read the few fields we need from the rows of sample files, fast.

A row holds the whole document, prompt and response: several kB of which we need under 200 bytes,
and the harness writes those first and last. Files are read by one process per core; what comes
back is only ids, scores and hashes.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ....errors import MetricError, ScaleError, ScoreTableError
from ....metrics import Metric
from ....parallel import in_processes
from ..bounded import json_value, lines, open_log
from .files import Run, is_list

# Below this starting processes costs more than it gains.
_WORTH_PROCESSES = 48 << 20
# Compressed text is about a quarter of its size, and takes as long to unpack as to parse.
_PACKED = 8
# Scores of a 0/1 metric are always the same two texts.
_KNOWN_SCORES = 1024


@dataclass(frozen=True)
class File:
    """One sample file, and the filters of its run in the order in which they were applied."""

    path: Path
    filters: tuple[str, ...]


@dataclass(frozen=True)
class PlainNumber:
    """A metric of unknown scale: numbers, taken as they are; their values will tell the scale."""

    source: str
    pairs: bool = False

    def score(self, value: Any, *, task: str = "", prediction: str | None = None) -> float:
        """Return the number of one document.

        Raises
        ------
        MetricError
            When it is not one number.
        """
        if isinstance(value, (bool, int, float)):
            return float(value)
        raise MetricError(
            f"metric {self.source} of task {task} came as {type(value).__name__}, not as one "
            "number per document; give the task a process_results that returns one, or name "
            "another metric"
        )


@dataclass(frozen=True)
class Asked:
    """Which scores are read; the filter None means those of all."""

    metric: Metric | PlainNumber
    task: str
    filter: str | None


@dataclass
class Rows:
    """What one file holds.

    Attributes
    ----------
    doc_ids, scores, hashes : list
        One entry per usable row, in the file's order; scores are raw.
    filters : dict
        Those of the usable rows.
    broken : list of (line, reason)
        Lines that are no rows, counted from 1.
    unusable : list of (line, reason)
        Rows whose score the metric refuses.
    without : int
        Rows of the wanted filter that do not report the metric.
    """

    doc_ids: list[Any] = field(default_factory=list)
    scores: list[float] = field(default_factory=list)
    hashes: list[str | None] = field(default_factory=list)
    filters: dict[str, None] = field(default_factory=dict)
    broken: list[tuple[int, str]] = field(default_factory=list)
    unusable: list[tuple[int, str]] = field(default_factory=list)
    without: int = 0


class _Reading:
    """Takes the rows of one file, line by line."""

    def __init__(self, file: File, asked: Asked) -> None:
        self.rows = Rows()
        self._file, self._asked = file, asked
        self._metric = asked.metric
        # Pairs of texts are told apart by the answer, which stands before the filter's name.
        self._tails = None if asked.metric.pairs else Tails(asked.metric.source)
        self._known: dict[bytes, float] = {}
        self._nameless: Counter[Any] = Counter()

    def take(self, number: int, line: bytes) -> None:
        """Take one line.

        Raises
        ------
        ScaleError
            When a score lies outside the metric's scale: then all of them are in doubt.
        """
        tail = self._tails.read(line) if self._tails is not None else None
        if tail is None or not self._take_tail(*tail):
            self._take_row(number, line)

    def _take_tail(self, doc_id: int, name: str | None, doc_hash: str, text: bytes) -> bool:
        """Take a row by its end; False where it must be parsed."""
        score = self._known.get(text)
        if score is None:
            try:
                score = self._metric.score(json.loads(text), task=self._asked.task)
            except (MetricError, ScaleError):
                return False
            if not math.isfinite(score):
                return False
            if len(self._known) < _KNOWN_SCORES:
                self._known[text] = score
        if (wanted := self._wanted(doc_id, name)) is not None:
            self._add(doc_id, score, doc_hash, wanted)
        return True

    def _take_row(self, number: int, line: bytes) -> None:
        rows, key = self.rows, self._asked.metric.source
        if line.isspace():
            return
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            rows.broken.append((number, str(error)))
            return
        if not isinstance(row, dict) or not isinstance(row.get("doc_id"), (int, str)):
            rows.broken.append((number, "not a sample row: no doc_id"))
            return
        wanted = self._wanted(row["doc_id"], row.get("filter"))
        if wanted is None:
            return
        if key not in row:
            rows.without += 1
            return
        answers = row.get("filtered_resps")
        answer = answers[0] if isinstance(answers, list) and len(answers) == 1 else None
        try:
            score = self._metric.score(
                row[key],
                task=self._asked.task,
                prediction=answer if isinstance(answer, str) else None,
            )
        except ScaleError as error:
            raise ScaleError(f"{self._file.path}, doc_id {row['doc_id']}: {error}") from None
        except MetricError as error:
            rows.unusable.append((number, str(error)))
            return
        if not math.isfinite(score):
            rows.unusable.append((number, f"{key} is {score}"))
            return
        self._add(row["doc_id"], score, row.get("doc_hash"), wanted)

    def _wanted(self, doc_id: Any, name: str | None) -> str | None:
        """The filter of a row; None where it is another than that wanted.

        Before 0.4.7 the harness named none: it wrote all documents by the first filter, then all by
        the next, so the k-th row of a document is of the k-th filter.
        """
        if name is None:
            names, nth = self._file.filters, self._nameless[doc_id]
            self._nameless[doc_id] += 1
            if nth >= len(names):
                raise ScoreTableError(
                    f"{self._file.path}: {nth + 1} rows of doc_id {doc_id} and none names its "
                    "filter; put the run's results_<date>.json beside the samples"
                )
            name = names[nth]
        return name if self._asked.filter in (None, name) else None

    def _add(self, doc_id: Any, score: float, doc_hash: str | None, name: str) -> None:
        self.rows.doc_ids.append(doc_id)
        self.rows.scores.append(score)
        self.rows.hashes.append(doc_hash)
        self.rows.filters[name] = None


def read_file(file: File, asked: Asked) -> Rows:
    """Read one file; see :class:`Rows`.

    Raises
    ------
    ScaleError
        When a score lies outside the metric's scale: then all of them are in doubt.
    """
    reading, number = _Reading(file, asked), 0
    try:
        with open_log(file.path) as stream:
            each: Iterable[bytes] = lines(stream, file.path)
            if is_list(file.path):
                each = (json.dumps(row).encode() for row in json_value(file.path))
            for number, line in enumerate(each, start=1):
                reading.take(number, line)
    except (OSError, EOFError, ValueError, RecursionError) as error:
        # A truncated or damaged .gz; what came before is good.
        reading.rows.broken.append((number + 1, f"cannot be read on ({error})"))
    return reading.rows


def read_files(
    runs: Sequence[Run],
    asked: Asked,
    on_progress: Callable[[int, int], None] | None = None,
) -> Iterator[Rows]:
    """Read the files of runs in order, by several processes where that pays.

    Parameters
    ----------
    runs : sequence of Run
    asked : Asked
    on_progress : callable, optional
        Called with (bytes read, bytes in all).
    """
    files = [
        File(run.samples, tuple(run.filters_of(asked.metric.source) or [asked.filter or "none"]))
        for run in runs
    ]
    sizes = [file.path.stat().st_size for file in files]
    packed = [_PACKED if file.path.suffix == ".gz" else 1 for file in files]
    work = sum(size * weight for size, weight in zip(sizes, packed))
    processes = None if work >= _WORTH_PROCESSES else 1
    done = 0
    each = in_processes(read_file, files, asked, processes=processes, near=True)
    for size, rows in zip(sizes, each):
        done += size
        if on_progress is not None:
            on_progress(done, sum(sizes))
        yield rows


# -- the end of a row: its filter, its document's hash and one number -------------------------
#
# The harness writes these last, after several kB of document, prompt and answer. A pattern over the
# last few hundred bytes reads them in a tenth of the time that a parse of the row takes. What the
# pattern does not know in full (other keys, texts with escapes, NaN) is left to the parser.

_TEXT = rb'"[^"\\\x00-\x1f\x7f-\xff]*"'
_NUMBER = rb"-?(?:0|[1-9][0-9]{0,17})(?:\.[0-9]+)?(?:[eE][-+]?[0-9]{1,3})?"
# A second one of these would be the one that counts.
_ONCE = ("doc_id", "filter", "metrics", "filtered_resps", "doc_hash")

_HEAD = b'{"doc_id": '
_FILTER = b'"filter": '
_HASH = b'"doc_hash": '
_FIRST = re.compile(rb'\{"doc_id": ([0-9]{1,18}), "doc": ')

#: doc_id, filter (None where the row names none), doc_hash, the number as it stands there.
Tail = tuple[int, "str | None", str, bytes]


class Tails:
    """Reads the ends of rows that report one number.

    Parameters
    ----------
    key : str
        The metric.

    Examples
    --------
    >>> row = (b'{"doc_id": 7, "doc": {}, "filter": "none", "metrics": ["acc"], '
    ...        b'"doc_hash": "9f", "acc": 1.0}')
    >>> Tails("acc").read(row)
    (7, 'none', '9f', b'1.0')
    """

    def __init__(self, key: str) -> None:
        word = b'"' + re.escape(json.dumps(key, ensure_ascii=False)[1:-1].encode()) + b'"'
        usual = rb'(?:, "prompt_hash": "\w*", "target_hash": "\w*")?'
        once = b"|".join([word, *(f'"{name}"'.encode() for name in _ONCE)])
        other = rb"(?:, (?!" + once + rb")" + _TEXT + rb": (?:" + _TEXT + rb"|" + _NUMBER + rb"))*"
        named = _FILTER + rb'"([\w .:@+-]*)", "metrics": \[(?:' + _TEXT + rb"(?:, )?)*\], "
        rest = (
            _HASH + rb'"(\w*)"' + usual + other + rb", " + word + rb": (" + _NUMBER + rb")" + other
        )
        self._named = re.compile(named + rest + rb"\}[ \t\r\n]*\Z")
        self._nameless = re.compile(rb"()" + rest + rb"\}[ \t\r\n]*\Z")

    def read(self, line: bytes) -> Tail | None:
        """Read one row; None where it must be parsed.

        In JSON a quote inside a string is escaped, so ``"key": `` can only be a key; and what
        follows it to the row's last brace holds no brace, so it stands at the row's own level. A
        second beginning of a row, or a zero byte, is the sign of a write that was cut off and later
        continued.
        """
        first = _FIRST.match(line)
        if first is None or line.rfind(_HEAD) != 0 or b"\0" in line:
            return None
        at, pattern = line.rfind(_FILTER), self._named
        if at < 0:
            at, pattern = line.rfind(_HASH), self._nameless
        match = pattern.match(line, at) if at >= 0 else None
        if match is None:
            return None
        name = match[1].decode() if pattern is self._named else None
        return int(first[1]), name, match[2].decode(), match[3]

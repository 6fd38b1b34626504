"""Read the few fields we need from the rows of the harness's sample files, fast.

A row holds the whole document, prompt and response: several kB of which we need under 200 bytes,
and the harness writes those first and last. Files are read by one process per core; what comes
back is only ids, scores and hashes.
"""

from __future__ import annotations

import json
import math
import re
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from ...cluster import in_processes
from ...errors import MetricError, OutsideScaleError, ScoreTableError
from ...metrics import Metric
from ...money import estimate_tokens
from ...shown import short
from ..prompts import (
    DIGITS,
    as_sent,
    generation_of,
    hash_of,
    mark_of,
    messages_of,
    requests_of,
    text_of_requests,
    written_mark,
)
from ..reading import Progress, is_number, json_lines, json_value, open_log

#: Number of damaged lines of a file that are named.
_MAX_LINES = 3
#: Bytes below which starting processes costs more than it gains.
_WORTH_PROCESSES = 48 << 20
#: Work of a compressed byte: it unpacks to about four, and unpacking takes as long as parsing.
_PACKED = 8
# The harness writes the filter, the document's hash and the scores last, after several kB of
# document, prompt and answer, whose parse takes most of the time that a row takes.
_HEAD = b'{"doc_id": '
_FIRST = re.compile(rb'\{"doc_id": ([0-9]{1,18}), "doc": ')
_DECODE, _RAW_DECODE = json.JSONDecoder().decode, json.JSONDecoder().raw_decode
_ARGUMENTS = b', "arguments": '

SampleRow = dict[str, Any]  # as JSON has it


class RunSamples(NamedTuple):
    """The sample file of a run, and what the run says of its rows.

    Attributes
    ----------
    path : Path
    filters : sequence of str
        In the order in which they were applied.
    template : str or None
        SHA-256 of the chat template that wrote the prompts; "" where it is unknown, as where
        messages went to a server; None where no template was used.
    """

    path: Path
    filters: Sequence[str]
    template: str | None = None


class SampleQuery(NamedTuple):
    """Which scores are read of the samples of a task; those of all filters if that is None."""

    metric: Metric
    task: str
    filter: str | None


@dataclass
class FileScores:
    """What one file holds.

    Attributes
    ----------
    doc_ids, scores, hashes, marks : list
        One entry per usable row, in the file's order: raw scores, hashes of documents, and short
        hashes of prompts.
    filters : dict
        Those of the usable rows, as keys.
    notes : list of str
        Which lines, counted from 1, could not be used, and why.
    unusable : str
        Why the metric refuses the first of the scores that it refuses; empty where it takes all.
    generation : mapping of str to object
        Generation settings that the first row states as sent.
    """

    doc_ids: list[Any] = field(default_factory=list)
    scores: list[float] = field(default_factory=list)
    hashes: list[str | None] = field(default_factory=list)
    marks: list[str | None] = field(default_factory=list)
    filters: dict[str, None] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    unusable: str = ""
    generation: Mapping[str, object] = field(default_factory=dict)

    def append(self, row: SampleRow, score: float, mark: str | None) -> None:
        """Take in a row, its raw score and the mark of its prompt."""
        # Every row states its settings; the first one speaks for all.
        if not self.doc_ids:
            self.generation = generation_of(row.get("arguments"))
        self.doc_ids.append(row["doc_id"])
        self.scores.append(score)
        self.hashes.append(row.get("doc_hash"))
        self.marks.append(mark)


def rows_of(path: Path, key: str | None = None) -> Iterator[tuple[int, SampleRow | str]]:
    """Yield the rows of a sample file.

    Parameters
    ----------
    path : Path
    key : str, optional
        A metric that rows report as a number. With it, a row holds only what `tail_of` returns
        where that can read the line; without it, every row is whole.

    Yields
    ------
    int, dict or str
        Number of the line, from 1; the row, or why there is none. What comes after the damage of a
        compressed file, or of a list, is one such line.
    """
    number = 0
    try:
        rows = (
            enumerate(json_value(path), start=1)
            if holds_list(path)
            else json_lines(path, lambda line: (key and tail_of(line, key)) or json.loads(line))
        )
        for number, row in rows:
            yield number, _checked(row)
    except (OSError, EOFError, ValueError, RecursionError, zlib.error) as error:
        yield number + 1, f"cannot be read on ({error})"


def holds_list(path: Path) -> bool:
    """Whether a sample file is one JSON list, as some are whatever the ending of their name."""
    with open_log(path) as stream:
        return bool(stream.read(1) == b"[")


def sound_rows(path: Path) -> Iterator[SampleRow]:
    """Yield the rows of a sample file that can be read."""
    return (row for _, row in rows_of(path) if isinstance(row, dict))


def _checked(row: object) -> SampleRow | str:
    """Return a row with its document's number, or why it is none."""
    # `json_lines` yields an exception for a line that it cannot parse.
    if not isinstance(row, dict):
        return str(row) if isinstance(row, Exception) else "not a sample row: no doc_id"
    doc_id, doc_hash = row.get("doc_id"), row.get("doc_hash")
    if isinstance(doc_id, bool) or not isinstance(doc_id, (int, str)):
        return "not a sample row: no doc_id"
    # Hashes are compared and counted, which only texts can be.
    if not isinstance(doc_hash, str | None):
        return f"doc_hash is no text but {short(repr(doc_hash), 40)}"
    metrics = row.get("metrics") or []
    if not (isinstance(metrics, list) and all(isinstance(metric, str) for metric in metrics)):
        return f"metrics are no list of names but {short(repr(metrics), 40)}"
    # The harness numbers documents; who copies its logs may write the numbers as texts.
    return {**row, "doc_id": int(doc_id)} if is_number(doc_id) else row


def tail_of(line: bytes, key: str) -> SampleRow | None:
    """Return the part of a row that scores are read from, without parsing all of the row.

    It has the row's ``doc_id``, its ``arguments`` (the prompt), and what comes after the answer:
    filter, hash and scores. None if the whole row has to be parsed to be sure.

    Parameters
    ----------
    line : bytes
    key : str
        The metric whose score is needed.

    Examples
    --------
    >>> row = (b'{"doc_id": 7, "doc": {}, "arguments": [["2?", " 4"]], "filter": "none", '
    ...        b'"metrics": ["acc"], "doc_hash": "9f", "acc": 1.0}')
    >>> tail_of(row, "acc")  # doctest: +NORMALIZE_WHITESPACE
    {'filter': 'none', 'metrics': ['acc'], 'doc_hash': '9f', 'acc': 1.0,
     'arguments': [['2?', ' 4']], 'doc_id': 7}
    """
    first = _FIRST.match(line)
    # An answer may hold what looks like the head of a row. A line with zero bytes may be in UTF-16,
    # or damaged; `json.loads` tells which.
    if first is None or line.rfind(_HEAD) != 0 or b"\0" in line:
        return None
    tail_start = line.rfind(b'"filter": ')
    # Rows of versions before 0.4.7 have neither filter nor list of metrics.
    needed = {key, "doc_hash"} if tail_start < 0 else {key, "doc_hash", "metrics"}
    tail_start = line.rfind(b'"doc_hash": ') if tail_start < 0 else tail_start
    if tail_start < 0:
        return None
    try:
        tail: SampleRow = _DECODE("{" + str(line[tail_start:], "utf-8"))
    except (ValueError, RecursionError):
        return None
    # A row without arguments states only in its responses whether its hash covers the prompt.
    if (begin := line.rfind(_ARGUMENTS)) < 0:
        return None
    try:
        tail["arguments"], _ = _RAW_DECODE(str(line[begin + len(_ARGUMENTS) : tail_start], "utf-8"))
    except (ValueError, RecursionError):
        return None
    return {**tail, "doc_id": int(first[1])} if tail.keys() >= needed else None


def hash_of_row(row: SampleRow) -> str | None:
    """Return the hash of what a row's requests ask; None where the row does not tell.

    The harness's own hash covers the first context alone: all there is where a model generates, but
    without the arguments a row of likelihoods does not tell which choices were offered.

    Examples
    --------
    >>> hash_of_row({"prompt_hash": "9f", "resps": [["4"]]})
    '9f'
    >>> hash_of_row({"prompt_hash": "9f", "resps": [[["-1.5", "False"]], [["-2.0", "False"]]]})
    """
    if requests := requests_of(row.get("arguments")):
        return hash_of(text_of_requests(requests, as_sent))
    match row:
        case {"prompt_hash": str(hashed), "resps": [[str(), *_]]}:
            return hashed
    return None


def mark_of_row(row: SampleRow, template: str | None) -> str | None:
    """Return the mark of what a row's requests ask; None where the row does not tell.

    Parameters
    ----------
    row : dict
    template : str or None
        See `RunSamples`.
    """
    requests, hashed = requests_of(row.get("arguments")), hash_of_row(row)
    # The hash of a text that no template wrote begins with its mark.
    if template is None:
        return hashed and hashed[:DIGITS]
    # The row has the text that a template wrote, and not the messages that it was made of.
    if template and not (requests and messages_of(requests[0][0])):
        return hashed and written_mark(hashed, template)
    # Messages are marked as canonical JSON, whatever template each model has for them.
    return mark_of(text_of_requests(requests)) if requests else None


def tokens_of_row(row: SampleRow) -> dict[str, float] | None:
    """Estimate the tokens that a row's requests and answers cost; None if it states no request.

    A prompt counts as often as it was asked: once for each choice, and for each repeat.

    Examples
    --------
    >>> asks = {"gen_args_0": {"arg_0": "Two and two?", "arg_1": {"until": []}}}
    >>> tokens_of_row({"arguments": asks, "resps": [["four", "five"]]})
    {'input': 6.0, 'output': 2.0}
    """
    requests, answers = requests_of(row.get("arguments")), row.get("resps")
    # Rows of a log that somebody shortened.
    if not requests or not isinstance(answers, list):
        return None
    # Likelihoods are no text, though the harness writes them as one; repeats ask the same again.
    texts = [
        [text for text in responses if isinstance(text, str)]
        for (_, choice), responses in zip(requests, answers)
        if choice is None and isinstance(responses, list)
    ]
    # Of likelihoods no text says how often they were asked: once.
    n_repeats = max([1, *map(len, texts)])
    prompts = (estimate_tokens(f"{prompt}{choice or ''}") for prompt, choice in requests)
    return {
        "input": sum(prompts) * n_repeats,
        "output": sum((estimate_tokens(text) for responses in texts for text in responses), 0.0),
    }


def filter_of(row: SampleRow, file: RunSamples, n_unnamed: Counter[Any]) -> str:
    """Return the filter of a row; `n_unnamed` counts the rows of each document that name none.

    Before 0.4.7 the harness named none: it wrote all documents by the first filter, then all by
    the next, so the k-th row of a document is of the k-th filter.

    Raises
    ------
    ScoreTableError
        There are more such rows than filters.
    """
    if "filter" in row:
        return str(row["filter"])
    path, names, doc_id = file.path, file.filters, row["doc_id"]
    n_unnamed[doc_id] += 1
    if n_unnamed[doc_id] > len(names):
        raise ScoreTableError(
            f"{path}: {n_unnamed[doc_id]} rows of doc_id {doc_id} and none names its filter; put "
            "the run's results_<date>.json beside the samples"
        )
    return names[n_unnamed[doc_id] - 1]


class _Line(NamedTuple):
    """The score and the hash of a document on one line, and the line's number from 1."""

    number: int
    score: float
    doc_hash: str | None

    def require_same(self, line: _Line, path: Path, what: str) -> None:
        """Refuse a later line of the document that says something else.

        Raises
        ------
        ScoreTableError
        """
        if (self.score, self.doc_hash) != (line.score, line.doc_hash):
            raise ScoreTableError(
                f"{path}: lines {self.number} and {line.number} contradict each other: {what} is "
                f"{self.score:g} and {line.score:g}"
                + (", with different doc_hash" if self.doc_hash != line.doc_hash else "")
                + "; keep one of them"
            )


class _Scorer:
    """Scores rows; a metric has few different numbers as values, and each is scored once."""

    def __init__(self, query: SampleQuery) -> None:
        self._query = query
        self._scores: dict[float, float] = {}

    def score_of(self, row: SampleRow) -> float:
        """Return the raw score of a row that reports the metric.

        Raises
        ------
        MetricError
            The value is no score; an `OutsideScaleError` if it lies outside the scale.
        """
        metric, task, _ = self._query
        value, answers = row[metric.source], row.get("filtered_resps")
        if isinstance(value, float) and value in self._scores:
            return self._scores[value]
        if isinstance(value, float) and not math.isfinite(value):
            raise MetricError(f"{metric.source} is {value}")
        # Of a pair of texts the answer tells which one is the model's.
        answer = answers[0] if isinstance(answers, list) and len(answers) == 1 else None
        prediction = answer if isinstance(answer, str) else None
        score = metric.score(value, task=task, prediction=prediction)
        if isinstance(value, float):
            self._scores[value] = score
        return score


def read_file(file: RunSamples, query: SampleQuery) -> FileScores:
    """Return the scores of one samples file, with notes on rows that were left out.

    Raises
    ------
    OutsideScaleError
        When a score lies outside the metric's scale: then the scale is probably wrong for all.
    ScoreTableError
        When two lines of a document contradict each other.
    """
    file_scores, n_unnamed, path = FileScores(), Counter[Any](), file.path
    lines: dict[Any, _Line] = {}  # the first one of each document and filter
    metric, key, scorer = query.metric, query.metric.source, _Scorer(query)
    n_left_out = Counter[str]()
    # With a key, only the end of each row is parsed, where scores stand. If a score is a pair of
    # texts, the answer is needed as well, to tell which of the two it is.
    for number, row in rows_of(path, None if metric.pairs else key):
        if isinstance(row, str):
            n_left_out["unreadable"] += 1
            if n_left_out["unreadable"] <= _MAX_LINES:
                file_scores.notes.append(f"{path}, line {number}: not readable, left out ({row})")
            continue
        name = filter_of(row, file, n_unnamed)
        # A file holds the rows of all filters.
        if query.filter not in (None, name):
            continue
        # A task may leave a metric out where it does not apply to a document.
        if key not in row:
            n_left_out["unreported"] += 1
            continue
        try:
            score = scorer.score_of(row)
        except OutsideScaleError as error:
            # The first argument says what is wrong, a further one what to do.
            fact, *remedy = error.args
            raise OutsideScaleError(f"{path}, doc_id {row['doc_id']}: {fact}", *remedy) from None
        except MetricError as error:
            n_left_out["unusable"] += 1
            file_scores.unusable = file_scores.unusable or f"line {number}: {error}"
            continue
        line = _Line(number, score, row.get("doc_hash"))
        first_line = lines.setdefault((row["doc_id"], name), line)
        first_line.require_same(line, path, f"{key} of document {row['doc_id']!r}")
        file_scores.append(row, score, mark_of_row(row, file.template))
        file_scores.filters[name] = None
    file_scores.notes += _left_out_in_words(n_left_out, file_scores.unusable, path, metric)
    return file_scores


def _left_out_in_words(
    n_left_out: Mapping[str, int], unusable: str, path: Path, metric: Metric
) -> Iterator[str]:
    """Yield how many rows of a file were left out, by each reason."""
    if (n_more := n_left_out["unreadable"] - _MAX_LINES) > 0:
        yield f"{path}: {n_more} more unreadable lines left out"
    if n := n_left_out["unusable"]:
        yield f"{path}: {n} scores unusable, counted as missing ({unusable})"
    if n := n_left_out["unreported"]:
        yield f"{path}: {n} rows do not report {metric.name}"


def read_files(
    files: Sequence[RunSamples], query: SampleQuery, on_progress: Progress = None
) -> Iterator[FileScores]:
    """Read files in order, by several processes where that pays.

    Parameters
    ----------
    files : sequence of RunSamples
    query : SampleQuery
    on_progress : callable, optional
        Called with (bytes read, bytes in all).
    """
    sizes = [file.path.stat().st_size for file in files]
    work = sum(
        size * (_PACKED if file.path.suffix == ".gz" else 1) for size, file in zip(sizes, files)
    )
    # Starting processes takes longer than reading a few megabytes.
    processes = None if work >= _WORTH_PROCESSES else 1
    done = 0
    # On this machine even where a cluster is at work, as the files lie here.
    results = in_processes(read_file, files, query, processes=processes, local=True)
    for size, rows in zip(sizes, results):
        done += size
        if on_progress is not None:
            on_progress(done, sum(sizes))
        yield rows

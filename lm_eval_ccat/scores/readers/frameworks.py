"""Readers of what other frameworks log: HELM, lighteval, Inspect, and Every Eval Ever's schema.

*HELM*: ``run_spec.json`` and ``per_instance_stats.json`` in a folder per run. The latter is a list
of ``{instance_id, train_trial_index, perturbation, stats}``; a stat is ``{name: {name, split, ...},
count, sum, mean, ...}``. Instances are numbered by the scenario, alike for every model. Perturbed
instances are left out, and trials count as configs. Layout: helm's ``benchmark/runner.py`` and
``benchmark/metrics/statistic.py`` (https://github.com/stanford-crfm/helm), unchanged from 0.2 to
0.5.

*lighteval*, whose details the first Open LLM Leaderboard published, too:
``details/<model>/<date>/details_<task>_<date>.parquet`` holds a row per sample: ``doc.id`` is its
place in the data set (rows are shuffled; older versions have no ``doc.id``, and their rows are in
the data set's order). Column ``metric`` (``metrics`` before 0.11) is an object of the sample's
scores, or, where Arrow could not store it, that object as text. On the leaderboard a model's folder
is the data set ``details_<organisation>__<model>``. Layout: ``logging/evaluation_tracker.py`` and
``logging/info_loggers.py`` (https://github.com/huggingface/lighteval).

*Every Eval Ever* (EvalEval Coalition): a ``.jsonl`` holds instance-level records
(``instance_level_eval.schema.json``), a line per sample and model: ``model_id``,
``evaluation_name``, ``sample_id``, ``sample_hash``, ``evaluation.score``. The ``.json`` beside it
(``eval.schema.json``), whose ``evaluation_id`` they name, says of each result which metric it is
and where its scores lie. Schemas: https://github.com/evaleval/every_eval_ever, version 0.2.

*Inspect*: an ``.eval`` file is a zip archive with ``header.json`` (what was run),
``summaries.json`` (an entry per sample, its scores among them) and
``samples/<id>_epoch_<n>.json``; older logs are one ``.json``. Since 2025 the archive's members are
compressed with zstd, which Python's zipfile does not unpack before 3.14; Arrow does. A score is
a number, a truth value, one of the letters C, P, I, N, or an object of these. Written against logs
of inspect_ai 0.3.285; format: https://inspect.aisi.org.uk/eval-logs.html.
"""

from __future__ import annotations

import ast
import contextlib
import hashlib
import json
import lzma
import re
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple
from zipfile import BadZipFile

from ...errors import CcatError, ScaleError, ScoreTableError, UnknownScoresError
from ...metrics.scale import Scale
from ...shown import first_of
from ..grid import ScoreGrid
from ..reading import (
    MAX_LINE,
    MAX_VALUE,
    UTF_16,
    Logged,
    Progress,
    Query,
    files_at,
    first_record,
    json_lines,
    json_value,
    one_of,
    places_at,
)
from ..table import Reader, ScoreTable

#: What a damaged archive raises: also of a method or a version that Python does not know.
BROKEN = (
    OSError, EOFError, BadZipFile, zlib.error, lzma.LZMAError, struct.error, RuntimeError,
    OverflowError,
)  # fmt: skip
#: What a function that makes rows may raise of a damaged log, whose values are of any type. An
#: error in such a function itself is reported as damage, too: see the cause of the exception.
_DAMAGE = (*BROKEN, ValueError, LookupError, TypeError, AttributeError)


@dataclass(frozen=True)
class Row:
    """One score of one model on one item.

    Attributes
    ----------
    model, task, metric : str
    doc_id : int or str
    score : float
        Raw.
    config : str
        Tells several answers of one model to one item apart (an epoch, a trial); ignored where all
        rows have the same.
    doc_hash : str or None
    date : str
        When the run was. Of the same (model, config, item) the latest counts; dates compare as
        text.
    scale : Scale or None
        That the log states for the metric; the first one counts.
    """

    model: str
    task: str
    metric: str
    doc_id: Any
    score: float
    config: str = ""
    doc_hash: str | None = None
    date: str = ""
    scale: Scale | None = None


def reader_of_rows(
    name: str,
    summary: str,
    logs: Callable[[Path], Iterable[Path]],
    rows: Callable[[Path, list[str]], Iterable[Row]],
) -> Reader:
    """Make a reader from a function that finds logs and one that turns a log into rows.

    Parameters
    ----------
    name, summary : str
        The kind of logs in commands and errors, and one line that says what is read.
    logs : callable
        ``(path) -> iterable of Path``: the logs at or below a path, by names and first bytes.
    rows : callable
        ``(log, notes) -> iterable of Row``; what a reader of the scores should know is appended to
        `notes`. What it raises of damaged data becomes a `ScoreTableError` that names the log.
    """
    logged_rows = _LoggedRows(name, logs, rows)
    return Reader(
        name=name,
        summary=summary,
        can_read=lambda path: any(True for _ in logs(path)),
        read=logged_rows.table,
        outcomes=logged_rows.outcomes,
        read_many=logged_rows.tables,
    )


class _LoggedRows(NamedTuple):
    """The logs of a framework: its name, what finds them at a path, what makes rows of one."""

    framework: str
    logs: Callable[[Path], Iterable[Path]]
    rows: Callable[[Path, list[str]], Iterable[Row]]

    def rows_at(self, path: Path, notes: list[str], on_progress: Progress = None) -> Iterator[Row]:
        """Yield the rows of all logs at a path."""
        log_paths = list(self.logs(path))
        for n, log in enumerate(log_paths, start=1):
            yield from self._rows_of(log, notes)
            if on_progress is not None:
                on_progress(n, len(log_paths))

    def _rows_of(self, log: Path, notes: list[str]) -> Iterator[Row]:
        """Yield the rows of one log; one that is damaged is refused by its name."""
        is_empty = True
        try:
            for row in self.rows(log, notes):
                _require_names(row)
                is_empty = False
                yield row
        except _DAMAGE as error:
            reason = f"{error} is missing" if isinstance(error, KeyError) else error
            raise ScoreTableError(
                f"{log}: not readable as {self.framework} ({reason}); get it again, or leave it out"
            ) from error
        if is_empty:
            notes.append(f"{log}: no scores of single items in it; its model is left out")

    def outcomes(self, path: Path) -> list[Logged]:
        """Return every task and metric at a path."""
        pairs = {(row.task, row.metric) for row in self.rows_at(path, [])}
        return [Logged(*pair) for pair in sorted(pairs)]

    def table(self, path: Path, query: Query, on_progress: Progress = None) -> ScoreTable:
        """Return the scores of one task and metric."""
        notes: list[str] = []
        return _table(path, list(self.rows_at(path, notes, on_progress)), query, notes)

    def tables(
        self, path: Path, logged: Sequence[Logged], query: Query
    ) -> Iterator[ScoreTable | CcatError]:
        """Yield the scores of each outcome, or why there are none; the logs are read once."""
        notes: list[str] = []
        all_rows = list(self.rows_at(path, notes))
        for outcome in logged:
            try:
                yield _table(path, all_rows, outcome.query(query), notes)
            except CcatError as error:
                yield error


def _require_names(row: Row) -> None:
    """Refuse a row whose doc_id is neither integer nor text, or whose hash is not text.

    Raises
    ------
    TypeError
    """
    for name, kind in ((row.doc_id, int | str), (row.doc_hash, str | None)):
        if not isinstance(name, kind):
            raise TypeError(f"{name!r:.60} names no document")


def _metric_meant(path: Path, rows: list[Row], query: Query, notes: list[str]) -> str:
    """Return the metric that is asked for, else the only one.

    Parameters
    ----------
    path : Path
    rows : list of Row
    query : Query
    notes : list of str
        What the readers say; of the notes of `_without_numbers`, one that names the metric asked
        for is the reason why no row has it.

    Raises
    ------
    UnknownScoresError
        The rows do not have it, or have several.
    """
    known = {row.metric for row in rows}
    without_number = [note for note in notes if _NO_NUMBER in note and f"{query.metric!r}" in note]
    if query.metric not in known and without_number:
        raise UnknownScoresError(
            f"{without_number[0]}; take another metric: {first_of(sorted(known), 8)}"
        )
    metric: str = one_of(path, "metric", query.metric, known)
    return metric


def _grid_of(rows: Sequence[Row]) -> ScoreGrid:
    """Return the scores of rows of one task and metric by model, config and item.

    Of several rows for one of these the last counts.
    """
    # An epoch or a trial that all rows have in common tells no answers apart.
    has_configs = len({row.config for row in rows}) > 1
    # `ScoreGrid.finish` sorts items, and numbers and texts cannot be sorted together.
    as_text = len({type(row.doc_id) for row in rows}) > 1
    grid = ScoreGrid()
    grid.lay(
        [(row.model.strip(), row.config if has_configs else "") for row in rows],
        [str(row.doc_id) if as_text else row.doc_id for row in rows],
        [row.score for row in rows],
        [row.doc_hash for row in rows],
    )
    return grid


def _table(path: Path, rows: list[Row], query: Query, notes: list[str]) -> ScoreTable:
    """Return the scores of the task and the metric that are asked for, of all their rows."""
    if not rows:
        raise UnknownScoresError("; ".join([f"{path}: no scores of single items", *notes[:1]]))
    # A filter that is passed over in silence would look as if it had been applied.
    if query.filter is not None:
        raise ScoreTableError(f"{path}: these logs have no filters; leave --filter out")
    task = one_of(path, "task", query.task, (row.task for row in rows))
    rows = [row for row in rows if row.task == task]
    metric = _metric_meant(path, rows, query, notes)
    models = {row.model.strip() for row in rows}
    # The grid keeps the last score of an item: that of the latest run.
    rows = sorted((row for row in rows if row.metric == metric), key=lambda row: row.date)
    # Metrics that are no numbers are told of only where one of them is asked for.
    warnings = [note for note in notes if _NO_NUMBER not in note]
    # A model without the metric would be missing from a ranking in silence.
    if unscored := models - {row.model.strip() for row in rows}:
        warnings.append(
            f"{path}: models without a score of {metric} are left out: "
            f"{first_of(sorted(unscored), 5)}"
        )
    return _grid_of(rows).finish(
        path,
        query,
        metric,
        task=task,
        stated_scale=next((row.scale for row in rows if row.scale is not None), None),
        say_missing=True,
        warnings=warnings,
        sources=tuple(map(str, places_at(path))),
    )


# -- the frameworks -------------------------------------------------------------------------------

#: Files of a run of HELM: its scores, and what was run.
STATS, SPEC = "per_instance_stats.json", "run_spec.json"
#: Arguments in a run's name that name its model.
_MODEL_ARGUMENTS = ("model", "model_deployment")
# What HELM counts beside its scores: sizes, times, costs, and how the generation went.
_NO_SCORE = re.compile(
    r"^num_|^batch_size$|runtime|^training_|^finish_reason_|_cost$|^prompt_truncated$|^max_prob$|"
    r"^predicted_index$|^logprob|_tokens$|_bytes$"
)


def _helm_logs(path: Path) -> list[Path]:
    """Return the runs of HELM at or below a path, by the file of their scores."""
    files = [file for file in files_at(path, STATS) if file.name == STATS]
    # Beside whole runs one without its specification is refused by its name, not left out.
    return files if any(file.with_name(SPEC).is_file() for file in files) else []


def helm_task(run: str) -> str:
    """Return a run's name without its model: what was run, and how.

    Examples
    --------
    >>> helm_task("mmlu:subject=anatomy,model=openai_gpt-4-0613")
    'mmlu:subject=anatomy'
    """
    scenario, _, arguments = run.partition(":")
    parts = [
        part
        for part in arguments.split(",")
        if part and part.partition("=")[0] not in _MODEL_ARGUMENTS
    ]
    return f"{scenario}:{','.join(parts)}" if parts else scenario


def helm_rows(log: Path, notes: list[str]) -> Iterator[Row]:
    """Yield the scores of a run of HELM; `log` is its ``per_instance_stats.json``.

    Instances whose text was perturbed (as by typing errors) give no rows.
    """
    spec = json_value(log.with_name(SPEC))
    task = helm_task(str(spec["name"]))
    model = str(spec["adapter_spec"]["model"])
    for instance in json_value(log):
        item, config = str(instance["instance_id"]), f"trial={instance.get('train_trial_index', 0)}"
        for stat in () if instance.get("perturbation") else instance["stats"]:
            name = str(stat["name"]["name"])
            # A statistic of no value has no mean.
            if stat.get("count") and stat.get("mean") is not None and not _NO_SCORE.search(name):
                yield Row(model, task, name, doc_id=item, score=float(stat["mean"]), config=config)


#: Name of a file of lighteval's details.
_DETAILS = re.compile(r"details_(?P<task>.+)_(?P<date>\d{4}-\d\d-\d\dT[\d.:-]+)\.parquet")


def _lighteval_logs(path: Path) -> list[Path]:
    """Return the files of lighteval's details at or below a path."""
    return [file for file in files_at(path, "details_*.parquet") if _DETAILS.fullmatch(file.name)]


def _lighteval_model(file: Path) -> str:
    """Return the model whose details of lighteval a file holds, by the folders above it.

    Examples
    --------
    >>> _lighteval_model(Path("out/details/org/model/2025-01-01T00-00-00/details_t_2025.parquet"))
    'org/model'
    >>> _lighteval_model(Path("details_org__model/2023-09-03T10-57-04/details_t_2023.parquet"))
    'org/model'
    """
    # Above the file is the folder of its date.
    folders = file.parent.parent.parts
    # lighteval's own layout; else the folder is a data set of the leaderboard.
    if "details" in folders:
        start = len(folders) - folders[::-1].index("details")
        if folders[start:]:
            return "/".join(folders[start:])
    name = folders[-1] if folders else file.parent.name
    return name.removeprefix("details_").removesuffix("_private").replace("__", "/", 1)


def _lighteval_rows(log: Path, notes: list[str]) -> Iterator[Row]:
    """Yield the scores of a file of lighteval's details."""
    from pyarrow import parquet

    data = parquet.ParquetFile(log)
    names = data.schema_arrow.names
    column = next((column for column in ("metric", "metrics") if column in names), None)
    # Another table that is called like one of lighteval's.
    if column is None:
        raise ValueError("no column 'metric' or 'metrics'")
    # The column with the text of a sample, by version; whole prompts last, as few-shot examples may
    # differ. A log without any has no hashes, and the column of scores is named in its place.
    text = next((name for name in ("doc", "example", "full_prompt") if name in names), column)
    content = data.read(columns=list({column, text}))
    model, named = _lighteval_model(log), _DETAILS.fullmatch(log.name)
    task, date = named.groups() if named else ("", "")
    rows = zip(content[column].to_pylist(), content[text].to_pylist())
    has_number: dict[str, bool] = {}
    for n, (values, document) in enumerate(rows):
        doc_id, sha = _document_of(n, document)
        for name, score in _values_of(values).items():
            is_number = isinstance(score, (bool, int, float))
            has_number[name] = has_number.get(name, False) or is_number
            if is_number:
                doc_hash = None if text == column else sha
                yield Row(
                    model, task, name, doc_id=doc_id, score=float(score), doc_hash=doc_hash,
                    date=date,
                )  # fmt: skip
    notes += _without_numbers(log, has_number)


def _document_of(n: int, doc_or_text: Any) -> tuple[int | str, str | None]:
    """Return the doc_id of the n-th sample of lighteval, and the hash of its question.

    Where a log has the text of whole prompts alone, it is their hash.
    """
    fields = doc_or_text if isinstance(doc_or_text, dict) else {"query": doc_or_text}
    sample_id, question = fields.get("id"), fields.get("query")
    doc_id: int | str = n
    # The number of the first sample is 0.
    if sample_id not in (None, ""):
        doc_id = int(sample_id) if str(sample_id).isdecimal() else str(sample_id)
    sha = hashlib.sha256(question.encode()).hexdigest() if isinstance(question, str) else None
    return doc_id, sha


def _values_of(values: Any) -> dict[str, Any]:
    """Return a sample's values by metric, which some versions wrote as Python writes a dict."""
    if isinstance(values, str):
        try:
            values = ast.literal_eval(values)
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            return {}
    return values if isinstance(values, dict) else {}


# -- Inspect --------------------------------------------------------------------------------------

#: Number of the method of compression in zip archives.
_ZSTD = 93
# Keys of a log stand in any order, as some tools sort them; the samples may come before the status.
_RUN = re.compile(rb'"eval"\s*:\s*\{')
_STATUS = re.compile(rb'"status"\s*:\s*"(?:started|success|cancelled|error)"')
#: Bytes of a log's beginning and end in which these keys stand.
_ENDS = 1 << 16
#: Scores that Inspect's grades and other words stand for.
_SCORE_OF_WORD = {
    "C": 1.0, "P": 0.5, "I": 0.0, "N": 0.0,
    "yes": 1.0, "true": 1.0, "no": 0.0, "false": 0.0,
}  # fmt: skip


def _inspect_logs(path: Path) -> list[Path]:
    """Return the logs of Inspect at or below a path, if one of them is sound."""
    files = files_at(path, "*")
    if not any(_is_of_inspect(file, all) for file in files):
        return []
    # Beside a sound log one that is broken is refused by its name, not left out.
    return [
        file
        for file in files
        if file.suffix == ".eval" or _is_of_inspect(file, any) or _is_cut_off(file)
    ]


def _is_cut_off(file: Path) -> bool:
    """Whether a small file that should be JSON is none, as a log of Inspect that was cut off."""
    if file.suffix != ".json" or file.stat().st_size > _ENDS:
        return False
    try:
        json_value(file)
    except (OSError, ValueError, RecursionError):
        return True
    return False


def _is_of_inspect(file: Path, how_many: Callable[[Iterable[Any]], bool]) -> bool:
    """Whether a file is an archive, or a JSON object with the keys of a log.

    A JSON file may be large, so that only its beginning and its end are searched.

    Parameters
    ----------
    file : Path
    how_many : callable
        Python's `all` or `any`, applied to whether each of the two keys, of the run and of its
        status, stands there: `all` for a sound log, `any` for one that may be cut off.
    """
    if file.suffix != ".json":
        return file.suffix == ".eval" and zipfile.is_zipfile(file)
    with file.open("rb") as stream:
        ends = stream.read(_ENDS)
        encoded = ends[:2] in UTF_16
        if (encoded or ends.lstrip()[:1] == b"{") and _ENDS < (size := file.stat().st_size):
            # In a file shorter than both parts together, the end begins where the beginning ends.
            stream.seek(max(_ENDS, size - _ENDS))
            ends += stream.read()
    # The patterns are of bytes in UTF-8.
    if encoded:
        ends = ends.decode("utf-16", "ignore").encode()
    return ends.lstrip()[:1] == b"{" and how_many(key.search(ends) for key in (_RUN, _STATUS))


def _inspect_rows(log: Path, notes: list[str]) -> Iterator[Row]:
    """Yield the scores of a log of Inspect, and append to `notes` what their reader should know."""
    if log.suffix == ".json":
        # The keys of a header stand at the top of the whole log.
        header = json_value(log)
        yield from _inspect_scores(log, notes, header, header.get("samples") or [])
    else:
        with zipfile.ZipFile(log) as archive:
            names = sorted(archive.namelist())
            # A run that did not finish has only what it started with.
            head = "header.json" if "header.json" in names else "_journal/start.json"
            header = json.loads(_member(archive, head, MAX_LINE))
            if "summaries.json" in names:
                samples = json.loads(_member(archive, "summaries.json", MAX_VALUE))
            else:
                # One is unpacked at a time, so that only the size of each is limited.
                files = (n for n in names if n.startswith("samples/") and n.endswith(".json"))
                samples = (json.loads(_member(archive, file, MAX_LINE)) for file in files)
            yield from _inspect_scores(log, notes, header, samples)
    if header.get("status", "started") != "success":
        notes.append(
            f"{log}: the run did not finish; documents that it did not run count as missing"
        )


def _member(archive: zipfile.ZipFile, name: str, max_bytes: int) -> bytes:
    """Return the content of a file of an archive, which Inspect may compress by Zstandard."""
    info = archive.getinfo(name)
    # A small archive may unpack to more than memory holds.
    if info.file_size > max_bytes:
        raise ValueError(f"{name} has {info.file_size:,} bytes, more than {max_bytes:,}")
    # `zipfile` knows this method from Python 3.14 on; until then its header is skipped by hand.
    if info.compress_type != _ZSTD:
        return archive.read(info)
    import pyarrow as pa

    stream = archive.fp
    assert stream is not None
    # A local file header has 30 bytes, and then the name and an extra field, whose sizes stand at
    # byte 26 and may differ from those of the archive's directory.
    stream.seek(info.header_offset + 26)
    name_size, extra_size = struct.unpack("<HH", stream.read(4))
    stream.seek(info.header_offset + 30 + name_size + extra_size)
    packed = stream.read(info.compress_size)
    try:
        content = bytes(pa.Codec("zstd").decompress(packed, decompressed_size=info.file_size))
    except pa.ArrowException as e:
        raise ValueError(f"{name}: {e}") from None
    if zlib.crc32(content) != info.CRC:
        raise BadZipFile(f"Bad CRC-32 for file {name!r}")
    return content


def _inspect_scores(
    log: Path, notes: list[str], header: Any, samples: Iterable[Any]
) -> Iterator[Row]:
    """Yield the scores of a log of Inspect: a row for each part of each scorer's value."""
    run = header["eval"]
    model, task, date = str(run["model"]), str(run["task"]), str(run.get("created") or "")
    has_number: dict[str, bool] = {}
    for sample in samples:
        config = f"epoch={sample.get('epoch', 1)}"
        for scorer, score in (sample.get("scores") or {}).items():
            value = score.get("value") if isinstance(score, dict) else None
            for part, part_value in (value if isinstance(value, dict) else {"": value}).items():
                name, number = f"{scorer}/{part}" if part else str(scorer), _number(part_value)
                has_number[name] = has_number.get(name, False) or number is not None
                if number is not None:
                    yield Row(
                        model, task, name, doc_id=sample["id"], score=number, config=config,
                        date=date,
                    )  # fmt: skip
    notes += _without_numbers(log, has_number)


#: Part of a note on metrics that have no number for any document. `_table` leaves out notes with
#: these words, and `_metric_meant` looks for the metric's name, in quotes, in them.
_NO_NUMBER = "came as lists or texts, not as one number per document"


def _without_numbers(log: Path, has_number: Mapping[str, bool]) -> list[str]:
    """Say which metrics have no number for any document of a log, but lists or texts."""
    names = [name for name in has_number if not has_number[name]]
    if not names:
        return []
    words = ", ".join(map(repr, names[:8]))
    return [f"{log}: {words} {_NO_NUMBER}"]


def _number(value: Any) -> float | None:
    """Return a scorer's value as a number; None for a list, or a text that stands for none."""
    if isinstance(value, str):
        value = _SCORE_OF_WORD.get(value, _SCORE_OF_WORD.get(value.lower(), value))
    try:
        return float(value)
    except (TypeError, ValueError):
        return None


# -- Every Eval Ever ------------------------------------------------------------------------------

#: Keys of an instance-level record.
_RECORD_KEYS = {"evaluation_id", "model_id", "evaluation_name", "sample_id", "evaluation"}


def _record_logs(path: Path) -> list[Path]:
    """Return the files of records at or below a path, if one of them is sound."""
    files = [file for file in files_at(path, "*.jsonl") if file.suffix == ".jsonl"]
    sound = {file for file in files if first_record(file).keys() >= _RECORD_KEYS}
    # Beside sound records those of which the first is broken are read, too.
    return [file for file in files if file in sound or (sound and _has_a_record(file))]


def _has_a_record(file: Path) -> bool:
    """Whether a key of records stands in the first bytes of a file."""
    with file.open("rb") as stream:
        beginning = stream.read(_ENDS)
    return any(f'"{key}":'.encode() in beginning for key in _RECORD_KEYS)


def _record_rows(log: Path, notes: list[str]) -> Iterator[Row]:
    """Yield the scores of a file of records."""
    results = _results_beside(log, notes)
    n_broken = 0
    for _, record in json_lines(log):
        try:
            name = record["evaluation_name"]
            result = results.get(record.get("evaluation_result_id")) or results.get(name, {})
            row = Row(
                model=str(record["model_id"]),
                task=str(name),
                metric=str(result.get("metric_id") or result.get("metric_name") or "score"),
                doc_id=record["sample_id"],
                score=float(record["evaluation"]["score"]),
                doc_hash=record.get("sample_hash"),
                date=str(result.get("date") or ""),
                scale=result.get("scale"),
            )
            _require_names(row)
        except (ValueError, KeyError, TypeError, AttributeError):
            n_broken += 1
            continue
        yield row
    # One torn record must not cost the others.
    if n_broken:
        notes.append(f"{log}: {n_broken} lines are not instance-level records and were left out")


def _results_beside(file: Path, notes: list[str]) -> dict[Any, dict[str, Any]]:
    """Return metric, date and scale of each result in the ``.json`` files beside records.

    Keys are the results' ids and their names; the first result of a name counts. A record
    that states no result's id goes with the result that has its ``evaluation_name``.
    """
    known: dict[Any, dict[str, Any]] = {}
    for results_file in sorted(file.parent.glob("*.json")):
        # A folder holds many evaluations; the names of a pair begin alike.
        if not file.stem.startswith(results_file.stem):
            continue
        try:
            content = json_value(results_file)
            for result in content["evaluation_results"]:
                metric = result.get("metric_config", {})
                date = result.get("evaluation_timestamp") or content.get("retrieved_timestamp")
                facts = {**metric, "date": date, "scale": None}
                # Some results state no ends, or no sound ones: then the scores tell the scale.
                with contextlib.suppress(ScaleError):
                    facts["scale"] = Scale(
                        metric.get("min_score"),
                        metric.get("max_score"),
                        higher_is_better=not metric.get("lower_is_better"),
                    )
                known.setdefault(result["evaluation_name"], facts)
                if result.get("evaluation_result_id"):
                    known[result["evaluation_result_id"]] = facts
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            notes.append(
                f"{results_file}: not readable as results of Every Eval Ever ({error}), so metrics "
                "and scales in it are not known; get it again"
            )
    return known


INSPECT = reader_of_rows("inspect_ai", "logs of Inspect (.eval)", _inspect_logs, _inspect_rows)
HELM = reader_of_rows("helm", "runs of HELM (per_instance_stats.json)", _helm_logs, helm_rows)
LIGHTEVAL = reader_of_rows(
    "lighteval",
    "details of lighteval and of the first Open LLM Leaderboard (details_*.parquet)",
    _lighteval_logs,
    _lighteval_rows,
)
EVERY_EVAL_EVER = reader_of_rows(
    "every_eval_ever",
    "instance-level records of Every Eval Ever (.jsonl)",
    _record_logs,
    _record_rows,
)

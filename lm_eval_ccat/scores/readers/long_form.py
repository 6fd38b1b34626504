"""The long form of a score table: one row per score, as Parquet, CSV or lines of JSON.

A table is read in batches, each of which goes straight into the matrix: a file of many gigabytes
needs no more memory than its scores. A folder of such files holds one task per file, named after
the file where no column says otherwise. A file without models is of one, named after the file.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ...errors import CcatError, ScaleError, ScoreTableError
from ...metrics.registry import known_scale
from ...metrics.scale import Scale
from ..grid import Codes, Grid
from .columns import coded, distinct, numbers, rows_at
from .reader import Logged, Progress, RawScores, Reader, Wanted, one_of

_NAMES = ("task", "metric", "filter", "dataset")
_SCALE = ("scale_min", "scale_max", "higher_is_better", "scale_cap")
_USED = ("model", "doc_id", "score", "config", "doc_hash", *_NAMES, *_SCALE)
_BATCH = 1 << 20

Key = tuple[str | None, ...]  # task, metric, filter, data set


def can_read(path: Path) -> bool:
    """Whether a path is a table of scores, or a folder with such files in it."""
    return any(map(_is_table, sorted(path.iterdir()) if path.is_dir() else [path]))


def outcomes(path: Path) -> list[Logged]:
    """Every (task, metric, filter) of the files, in alphabetical order."""
    keys = {key for source in _sources(path) for key in source.keys()}
    named = {Logged(task, metric or "score", filter) for task, metric, filter, _ in keys}
    return sorted(named, key=lambda o: (str(o.task), o.metric, str(o.filter)))


def read(path: Path, wanted: Wanted, on_progress: Progress = None) -> RawScores:
    """Read one outcome of a file, or of a folder of them; see `Reader`."""
    return _one(path, _sources(path), wanted)


def read_many(
    path: Path, some: Sequence[Logged], wanted: Wanted
) -> Iterator[RawScores | CcatError]:
    """Read several outcomes in one pass; see `Reader`."""
    sources = _sources(path)
    keys = {(k[0], k[1] or "score", k[2]): k for source in sources for k in source.keys()}
    yield from _laid(path, sources, [keys[o.task, o.metric, o.filter] for o in some], wanted)


def of_table(table: Any, wanted: Wanted, where: str = "the data frame") -> RawScores:
    """The scores of an Arrow table that is in memory already."""
    return _one(Path(where), [Source(Path(where), table)], wanted)


class Source:
    """One table: a file, or what is in memory.

    Parameters
    ----------
    file : Path
        For errors, and for the name of a model or task that no column states.
    table : pyarrow.Table, optional
    of_task : bool, optional
        Whether the file's name is that of its task.

    Raises
    ------
    ScoreTableError
        It cannot be read, or has no scores.
    """

    def __init__(self, file: Path, table: Any = None, of_task: bool = False) -> None:
        self.file, self._of_task = file, of_task
        self._pa = _arrow(file)
        try:
            self._table = table if table is not None else self._text()
            schema = self._schema() if self._table is None else self._table.schema
        except (self._pa.ArrowException, OSError, ValueError) as e:
            raise self._unreadable(e) from e
        if "doc_id" not in schema.names and "id" in schema.names and self._table is not None:
            renamed = ["doc_id" if name == "id" else name for name in schema.names]
            self._table = self._table.rename_columns(renamed)
            schema = self._table.schema
        self.names: list[str] = schema.names
        # A name is one of few, and stands there as its number.
        texts = (self._pa.string(), self._pa.large_string())
        self._texts = [f.name for f in schema if f.type in texts and f.name != "doc_id"]
        missing = [c for c in ("doc_id", "score") if c not in self.names]
        if missing:
            raise ScoreTableError(
                f"{file}: no column {missing[0]!r}; a score table has the columns model, doc_id, "
                f"metric, score (found: {', '.join(self.names)})"
            )

    def keys(self) -> list[Key]:
        """The outcomes in it."""
        return list({key: None for key, _ in self.parts(_NAMES)})

    def parts(self, columns: Sequence[str] = _USED) -> Iterator[tuple[Key, Any]]:
        """Rows in batches, each of one outcome."""
        stating = [name for name in _NAMES if name in self.names]
        alone = self.file.stem if self._of_task else None
        for batch in self._batches([n for n in self.names if n in columns] or ["score"]):
            names, codes = zip(*(coded(batch[name]) for name in stating)) if stating else ((), ())
            for rows in _groups(codes, len(batch)):
                at = 0 if rows is None else int(rows[0])
                stated = {
                    n: texts[code[at]] if code[at] >= 0 else None
                    for n, texts, code in zip(stating, names, codes)
                }
                key = tuple(stated.get(name) or None for name in _NAMES)
                part = batch if rows is None else batch.take(rows_at(rows))
                yield (key[0] or alone, *key[1:]), part

    def _text(self) -> Any:
        """A table of text, which is read whole; None where the file is binary."""
        if self.file.suffix == ".parquet":
            return None
        from pyarrow import csv
        from pyarrow import json as arrow_json

        return (csv.read_csv if self.file.suffix == ".csv" else arrow_json.read_json)(self.file)

    def _schema(self) -> Any:
        from pyarrow import parquet

        # `read_table` would import pandas, which takes longer than reading.
        return parquet.ParquetFile(self.file).schema_arrow

    def _batches(self, columns: Sequence[str]) -> Iterator[Any]:
        if self._table is not None:
            yield from self._table.select(columns).to_batches(_BATCH)
            return
        from pyarrow import parquet

        try:
            file = parquet.ParquetFile(self.file, read_dictionary=self._texts)
            yield from file.iter_batches(_BATCH, columns=columns)
        except (self._pa.ArrowException, OSError, ValueError) as e:
            raise self._unreadable(e) from e

    def _unreadable(self, error: Exception) -> ScoreTableError:
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        return ScoreTableError(f"{self.file}: not a readable score table ({reason})")


class _Outcome:
    """The scores of one outcome as its batches come, and what they say of the scale."""

    def __init__(self) -> None:
        self.grid = Grid()
        self.stated: dict[str, set[Any]] = {}

    def take(self, source: Source, batch: Any) -> None:
        """Take in one batch of rows."""
        rows, columns = self.cells(source, batch)
        versions = None
        if "doc_hash" in batch.schema.names:
            names, codes = coded(batch["doc_hash"])
            versions = np.append(self.grid.versions(names), -1)[codes]
        self.grid.place(rows, columns, numbers(source.file, batch, "score"), versions)
        for name in _SCALE:
            if name in batch.schema.names:
                values = {v for v in batch[name].unique().to_pylist() if v is not None}
                self.stated.setdefault(name, set()).update(values)

    def cells(self, source: Source, batch: Any) -> tuple[Codes, Codes]:
        """Rows and columns of a batch's scores."""
        n, names = len(batch), batch.schema.names
        models, model = (
            coded(batch["model"])
            if "model" in names
            else ([source.file.stem], np.zeros(n, dtype=np.int64))
        )
        nameless = np.array([not name for name in models] + [True])
        if nameless[:-1].any() or (n and model.min() < 0):
            unnamed = int(nameless[model].sum())
            if unnamed:
                raise ScoreTableError(f"{source.file}: {unnamed} rows name no model")
        configs, config = coded(batch["config"]) if "config" in names else ([""], None)
        size = len(configs) + 1
        pairs, pair = distinct(model if config is None else model * size + config + 1)
        first = np.empty(len(pairs), dtype=np.intp)
        first[pair[::-1]] = np.arange(n)[::-1]  # of equals the last assignment stays
        number = np.empty(len(pairs), dtype=np.intp)
        for k in np.argsort(first, kind="stable").tolist():  # by first appearance
            m, c = (int(pairs[k]), 1) if config is None else divmod(int(pairs[k]), size)
            number[k] = self.grid.row(models[m], configs[c - 1] if c else "")
        return number[pair], self._items(source, batch["doc_id"])

    def _items(self, source: Source, column: Any) -> Codes:
        kind = str(column.type)
        if column.null_count:
            raise ScoreTableError(f"{source.file}: {column.null_count} rows have no doc_id")
        if kind.startswith(("float", "double", "half")):
            raise ScoreTableError(f"{source.file}: doc_id must be an integer or a string, "
                                  "not a float")  # fmt: skip
        if kind.startswith(("int", "uint")):
            ids, code = distinct(column)
            return self.grid.columns(map(int, ids))[code]
        texts, code = coded(column)
        return self.grid.columns(texts)[code]

    def scale(self, path: Path, metric: str) -> Scale | None:
        """The scale that the columns state; None where they do not."""
        if not self.stated:
            return None
        for name, values in self.stated.items():
            if len(values) > 1:
                shown = sorted(map(str, values))[:4]
                raise ScaleError(f"{path}: column {name!r} must be constant, found {shown}")
        only = {name: next(iter(values), None) for name, values in self.stated.items()}
        higher = only.get("higher_is_better")
        if isinstance(higher, str):
            if higher.lower() not in ("true", "false"):
                raise ScaleError(f"{path}: higher_is_better must be true or false, not {higher!r}")
            higher = higher.lower() == "true"
        low, high = only.get("scale_min"), only.get("scale_max")
        if only.get("scale_cap") is not None:
            return Scale(cap=only["scale_cap"])
        if low is None and high is None:
            return Scale(higher_is_better=higher is None or bool(higher))
        if low is None or high is None:
            raise ScaleError(f"{path}: give both scale_min and scale_max, or neither")
        if "scale_cap" not in self.stated and not higher and low == 0 and _has_cap(metric):
            return Scale(cap=float(high))  # a table of an older version does not say
        return Scale(float(low), float(high), higher is None or bool(higher))


def _one(path: Path, sources: Sequence[Source], wanted: Wanted) -> RawScores:
    """The one outcome that is wanted."""
    of = [source.keys() for source in sources]
    keys = [key for some in of for key in some]
    if not keys:
        raise ScoreTableError(f"{path}: no scores")
    for n, what in enumerate(_NAMES):
        stated = [key[n] for key in keys if key[n] is not None]
        if stated:  # a table that does not say is of whatever is asked for
            one = one_of(path, what, getattr(wanted, what, None), map(str, stated))
            keys = [key for key in keys if key[n] == one]
    sources = [source for source, some in zip(sources, of) if keys[0] in some]
    [raw_scores] = _laid(path, sources, keys[:1], wanted)
    if isinstance(raw_scores, CcatError):
        raise raw_scores
    return raw_scores


def _laid(
    path: Path, sources: Sequence[Source], keys: Sequence[Key], wanted: Wanted
) -> Iterator[RawScores | CcatError]:
    """Several outcomes, laid in one pass."""
    laid = {key: _Outcome() for key in keys}
    for source in sources:
        for key, batch in source.parts():
            if key in laid:
                laid[key].take(source, batch)
    for key in keys:
        try:
            yield _finished(path, sources, key, laid.pop(key), wanted)
        except CcatError as error:
            yield error


def _finished(
    path: Path, sources: Sequence[Source], key: Key, outcome: _Outcome, wanted: Wanted
) -> RawScores:
    """The matrix of one outcome."""
    task, metric, filter, _ = key
    name = metric or wanted.metric or "score"
    raw_scores = outcome.grid.finish(
        path,
        wanted,
        name,
        task=task or wanted.task,
        filter=filter or wanted.filter,
        stated=outcome.scale(path, name),
        sources=(str(path),),
    )
    if outcome.grid.replaced:
        _refuse_duplicate(path, sources, key, outcome)
    return raw_scores


def _refuse_duplicate(path: Path, sources: Sequence[Source], key: Key, outcome: _Outcome) -> None:
    """Say which score there are two of; the table is read once more for that."""
    rows, items = list(outcome.grid.rows), list(outcome.grid.items)
    seen = np.zeros(len(rows) * len(items), dtype=bool)
    for source in sources:
        for of_batch, batch in source.parts():
            if of_batch != key:
                continue
            row, column = outcome.cells(source, batch)
            cells, counts = np.unique(row * len(items) + column, return_counts=True)
            twice = cells[(counts > 1) | seen[cells]]
            seen[cells] = True
            if len(twice):
                model, config = rows[int(twice[0]) // len(items)]
                raise ScoreTableError(
                    f"{path}: 2 scores of model {model!r} config {config!r} on doc_id "
                    f"{items[int(twice[0]) % len(items)]!r}; keep one, or name the runs apart in "
                    "a column 'config'"
                )


def _has_cap(metric: str) -> bool:
    known = known_scale(metric)
    return known is not None and known.cap is not None


def _groups(codes: Sequence[Codes], n: int) -> Iterator[Codes | None]:
    """Rows of each combination of codes; None where all rows are of one."""
    varied = [code for code in codes if n and code.min() < code.max()]
    if not varied:
        yield from [None] if n else []
        return
    whole = np.zeros(n, dtype=np.int64)
    for code in varied:
        whole = whole * (int(code.max()) + 2) + code + 1
    groups, group = distinct(whole)
    for number in range(len(groups)):
        yield np.flatnonzero(group == number)


def _sources(path: Path) -> list[Source]:
    if not path.is_dir():
        return [Source(path)]
    return [Source(file, of_task=True) for file in sorted(path.iterdir()) if _is_table(file)]


def _is_table(file: Path) -> bool:
    if not file.is_file() or file.suffix != ".jsonl":
        return file.is_file() and file.suffix in (".parquet", ".csv")
    with file.open("rb") as stream:
        try:
            first = json.loads(stream.readline(1 << 16))
        except (ValueError, RecursionError):
            return False
    return isinstance(first, dict) and "score" in first and bool({"id", "doc_id"} & set(first))


def _arrow(file: Path) -> Any:
    try:
        import pyarrow as pa
    except ImportError as e:
        # New releases of pyarrow refuse numpy 1.26 when imported, which no installer knows.
        raise ScoreTableError(
            f"{file}: pyarrow cannot be used ({e}); with numpy 1.26 install 'pyarrow<25'"
        ) from e
    return pa


def write(scores: RawScores, path: Path) -> None:
    """Write scores in long form; what `read` reads back."""
    pa = _arrow(path)
    r, i = np.nonzero(np.isfinite(scores.raw))
    n = len(r)

    scale = scores.scale
    columns: dict[str, object] = {
        "model": pa.array(scores.models).take(pa.array(r)),
        "config": pa.array(scores.configs).take(pa.array(r)),
        "doc_id": pa.array(scores.doc_ids).take(pa.array(i)),
        "metric": pa.repeat(scores.metric, n),
        "score": pa.array(scores.raw[r, i]),
        "scale_min": pa.repeat(scale.low, n),
        "scale_max": pa.repeat(scale.high, n),
        "higher_is_better": pa.repeat(scale.higher_is_better, n),
    }
    if scale.cap is not None or _has_cap(scores.metric):
        columns["scale_cap"] = pa.repeat(pa.scalar(scale.cap, pa.float64()), n)
    for name, value in (("task", scores.task), ("filter", scores.filter)):
        if value is not None:
            columns[name] = pa.repeat(value, n)
    if scores.doc_hashes is not None:
        columns["doc_hash"] = pa.array(scores.doc_hashes, type=pa.string()).take(pa.array(i))
    if path.suffix == ".csv":
        from pyarrow import csv

        csv.write_csv(pa.table(columns), path)
    elif path.suffix == ".parquet":
        from pyarrow import parquet

        parquet.write_table(pa.table(columns), path)
    else:
        raise ScoreTableError(f"{path}: a score table is a .parquet or a .csv file")


READER = Reader(
    name="long_form",
    summary="a .parquet, .csv or .jsonl score table, or a folder with one per task",
    can_read=can_read,
    read=read,
    outcomes=outcomes,
    read_many=read_many,
)

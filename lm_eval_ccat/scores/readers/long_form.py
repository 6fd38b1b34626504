"""Score tables as Parquet, CSV, lines of JSON or a frame: long (a row per score) or wide.

A wide table has a row per model, whose name stands in the column ``model`` (or in the nameless
index that pandas writes), and a column per item; an empty cell is a missing score.

A long table of one metric may call its column of scores by the metric's name in place of ``score``,
and any long table its ``doc_id`` just ``id``.

A column ``repeat`` numbers sampled answers: a row per answer, which is a config of its model.

A Parquet file is read in batches, of which numbers are kept and no text. A folder of such files
holds one task per file, named after the file where no column says otherwise. A file without models
is of one, named after the file.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...errors import CcatError, ScaleError, ScoreTableError
from ...metrics.scale import Scale
from ...shown import first_of, short
from ..configuration import ONE_OF_A_MODEL
from ..grid import Coded, ScoreGrid
from ..reading import (
    UNNAMED,
    Logged,
    Progress,
    Query,
    first_record,
    is_number,
    one_of,
    remedy_of,
)
from ..table import REPEAT_CONFIG, Reader, ScoreTable, arrow

#: Columns that say which outcome a row is of, and on which scale its score is.
_NAMES = ("task", "metric", "filter")
_SCALE = ("scale_min", "scale_max", "higher_is_better", "scale_cap")
#: Every column with a meaning.
_USED = (
    "model", "doc_id", "score", "config", "repeat", "doc_hash", "prompt_hash",
    *_NAMES, *_SCALE, *ONE_OF_A_MODEL,
)  # fmt: skip
#: How pandas calls a nameless index in CSV and in Parquet.
_NAMELESS = ("", "__index_level_0__")
#: Number of scores that are read at a time.
_BATCH = 1 << 20

_REMEDY = (
    "write it again, as UTF-8 with commas or as Parquet, with a number or a text as doc_id in "
    "every row"
)
#: Texts of one row in some columns, in their order.
Texts = tuple[str | None, ...]


class Key(NamedTuple):
    """An outcome as the rows of a table state it; None for what no column states."""

    task: str | None = None
    metric: str | None = None
    filter: str | None = None


def can_read(path: Path) -> bool:
    """Whether a path is a table of scores, or a folder with such files in it."""
    return any(map(_is_table, sorted(path.iterdir()) if path.is_dir() else [path]))


def outcomes(path: Path) -> list[Logged]:
    """Return every (task, metric, filter) of the files, in alphabetical order."""
    logged = {_outcome_of(key) for source in _sources(path) for key in source.keys}
    return sorted(
        logged, key=lambda outcome: (str(outcome.task), outcome.metric, str(outcome.filter))
    )


def read(path: Any, query: Query, on_progress: Progress = None) -> ScoreTable:
    """Read one outcome of a file, of a folder of them, or of a data frame; see `Reader`."""
    sources = _sources(path)
    path = path if isinstance(path, Path) else sources[0].file
    keys = [key for source in sources for key in source.keys]
    # A table may have headings alone.
    if not keys:
        raise ScoreTableError(f"{path}: no scores; write a row of model, doc_id, score for each")
    for what in _NAMES:
        values = [value for key in keys if (value := getattr(key, what)) is not None]
        # A table that does not say is of whatever is asked for.
        if values:
            value = one_of(path, what, getattr(query, what), values)
            keys = [key for key in keys if getattr(key, what) == value]
    [table] = _tables(path, sources, keys[:1], query)
    if isinstance(table, CcatError):
        raise table
    return table


def read_many(
    path: Path, logged: Sequence[Logged], query: Query
) -> Iterator[ScoreTable | CcatError]:
    """Read several outcomes in one pass; see `Reader`."""
    sources = _sources(path)
    keys = {_outcome_of(key): key for source in sources for key in source.keys}
    return _tables(path, sources, [keys[outcome] for outcome in logged], query)


def _outcome_of(key: Key) -> Logged:
    """Return the outcome that rows of a key are of."""
    return Logged(key.task, key.metric or UNNAMED, key.filter)


class Source:
    """One table: a file, or what is in memory.

    Parameters
    ----------
    file : Path
        For errors, and for the name of a model or task that no column states.
    frame : data frame, optional
        What is in memory; read in place of the file.
    named_by_task : bool, optional
        Whether the file's name is that of its task.

    Raises
    ------
    ScoreTableError
        It cannot be read, has no columns of scores, or two columns of one meaning. A table of
        headings alone is none of these: it has no `keys`.
    """

    def __init__(self, file: Path, frame: Any = None, *, named_by_task: bool = False) -> None:
        self.file = file
        #: The task of rows that state none.
        self._task = file.stem if named_by_task else None
        #: The settings that rows of each model and config state.
        self.configurations: dict[Texts, Texts] = {}
        self._pa = arrow(file)
        #: The rows, if they are in memory: all but those of a Parquet file.
        self._table: Any = None
        with self.readable():
            file_schema = self._read(frame)
        self._file_names: list[str] = file_schema.names
        # A model's or task's name stands in many rows, and is read as its index among the distinct
        # ones. Ids are nearly as many as the rows.
        texts = (self._pa.string(), self._pa.large_string())
        self._coded_columns = [
            field.name
            for field in file_schema
            if field.type in texts and field.name not in ("doc_id", "id")
        ]
        #: What the columns are called here, in the order of the file.
        self.names = list(self._file_names)
        if "doc_id" not in self.names:
            self._rename("id", "doc_id")
        self._require_names()
        schema = self._pa.schema(list(zip(self.names, file_schema.types)))
        #: The metric, where the column of scores is called by its name.
        self._metric = self._metric_of(schema)
        if self._metric is not None:
            self._rename(self._metric, "score")
        missing = [column for column in ("doc_id", "score") if column not in self.names]
        #: Items of a wide table, by the position of their column; empty for a long one.
        self.items = _items(schema) if len(missing) == 2 else {}
        if missing and not self.items:
            raise self._no_column(missing[0])
        self.keys = self._outcome_keys()

    def _rename(self, file_name: str, name: str) -> None:
        """Call a column by another name than the file does."""
        self.names = [name if column == file_name else column for column in self.names]

    def _require_names(self) -> None:
        """Refuse two columns of one meaning, and one that is called nearly as it should be."""
        if twice := [name for name in _USED if self.names.count(name) > 1]:
            raise ScoreTableError(f"{self.file}: two columns {twice[0]!r}; leave one out")
        # With a column `Model`, say, all rows would be of one model, called after the file.
        for name in self.names:
            proper_name = name.strip().lower()
            if proper_name in _USED and proper_name not in self.names:
                raise ScoreTableError(
                    f"{self.file}: a column is called {name!r}; call it {proper_name!r}"
                )

    def _outcome_keys(self) -> list[Key]:
        """Return the outcomes of the rows, in order of appearance."""
        if self.items:
            return [Key(self._task)]
        return list({key: None for key, _ in self.parts(_NAMES)})

    def _read(self, frame: Any) -> Any:
        """Read a table that is no Parquet file whole, and return its schema."""
        if frame is not None:
            self._table = _arrow_table(frame)
        elif self.file.suffix != ".parquet":
            from pyarrow import csv
            from pyarrow import json as arrow_json

            if self.file.suffix == ".csv":
                self._table = _with_ids(csv.read_csv(self.file, convert_options=_as_texts(csv)))
            else:
                self._table = arrow_json.read_json(self.file)
        return self._parquet().schema_arrow if self._table is None else self._table.schema

    def _no_column(self, lacking: str) -> ScoreTableError:
        """Return the error of a table that is neither a long nor a wide one."""
        separated = "; separate columns by commas" if len(self.names) == 1 else ""
        return ScoreTableError(
            f"{self.file}: no column {lacking!r}; a long score table has the columns model, "
            "doc_id, metric, score, a wide one model and a column of numbers per item "
            f"(found: {first_of(self.names, 12)}{separated})"
        )

    @staticmethod
    def _metric_of(schema: Any) -> str | None:
        """Return the one column without another meaning, if it holds numbers: a metric's scores."""
        import pyarrow.types as kinds

        # A table that names its metric, or its column of scores, means no other column.
        if "doc_id" not in schema.names or {"score", "metric"} & set(schema.names):
            return None
        names = [name for name in schema.names if name not in (*_USED, *_NAMELESS)]
        # Of two columns, one cannot tell which is the score.
        if len(names) != 1:
            return None
        kind = schema.field(names[0]).type
        return names[0] if kinds.is_floating(kind) or kinds.is_integer(kind) else None

    def parts(self, columns: Sequence[str] = _USED) -> Iterator[tuple[Key, Any]]:
        """Yield the rows in batches, each with the outcome that all of its rows are of.

        Parameters
        ----------
        columns : sequence of str, optional
            Columns to read of a long table; of a wide one, which has a column for each item, all
            are read.
        """
        # The columns that say what a row is of. A wide table is of one outcome, which none states.
        stating = [] if self.items else [name for name in _NAMES if name in self.names]
        with self.readable():
            for batch in self._batches(columns):
                outcomes = _coded([batch[name] for name in stating], len(batch))
                for n, texts in enumerate(outcomes.values):
                    text_of = dict(zip(stating, texts))
                    task, metric, filter = (text_of.get(name) or None for name in _NAMES)
                    key = Key(task or self._task, metric or self._metric, filter)
                    # Most tables hold one outcome, whose rows need no copy.
                    if len(outcomes.values) == 1:
                        yield key, batch
                    else:
                        yield key, batch.take(_of_numpy(np.flatnonzero(outcomes.codes == n)))

    def _batches(self, columns: Sequence[str]) -> Iterator[Any]:
        """Yield the rows in batches of about the same number of scores; of a long table, `columns`.

        Of a long table that has none of these, the scores are read: each batch needs its length.
        """
        n_rows = _BATCH // len(self.items) + 1 if self.items else _BATCH
        names = self.names
        if not self.items:
            names = [name for name in self.names if name in columns] or ["score"]
        file_names = [
            file_name for file_name, name in zip(self._file_names, self.names) if name in names
        ]
        if self._table is None:
            file = self._parquet(read_dictionary=self._coded_columns)
            batches = file.iter_batches(n_rows, columns=file_names)
        else:
            table = self._table if self.items else self._table.select(file_names)
            batches = table.to_batches(n_rows)
        for batch in batches:
            yield self._pa.RecordBatch.from_arrays(batch.columns, names=names)

    def release(self) -> None:
        """Give memory that Arrow no longer uses back to the system."""
        self._pa.default_memory_pool().release_unused()

    def _parquet(self, **options: Any) -> Any:
        """Open the Parquet file, without reading its rows."""
        from pyarrow import parquet

        # `read_table` would import pandas, which takes longer than reading. A file that is read
        # ahead would stay in memory, whole, until its last batch.
        return parquet.ParquetFile(self.file, pre_buffer=False, **options)

    @contextmanager
    def readable(self) -> Iterator[None]:
        """Name the file in what its damage raises."""
        try:
            yield
        except (self._pa.ArrowException, OSError, ValueError) as e:
            reason = (str(e).splitlines() or [type(e).__name__])[0]
            remedy = (remedy_of(self.file) if self.file.is_file() else "") or _REMEDY
            raise ScoreTableError(
                f"{self.file}: not a readable score table ({short(reason, 200)}); {remedy}"
            ) from e


def _tables(
    path: Path, sources: Sequence[Source], keys: Sequence[Key], query: Query
) -> Iterator[ScoreTable | CcatError]:
    """Yield the table of each outcome, or why there is none; each source is read once.

    Parameters
    ----------
    path : Path
        Of all sources, for errors.
    sources : sequence of Source
    keys : sequence of Key
        The outcomes, as the rows state them.
    query : Query
        What the user states of their scale.
    """
    collected = {key: _Collected(ScoreGrid(), {}) for key in keys}
    for source in sources:
        # A folder has a file for each task, of which most hold nothing that is wanted.
        for key, batch in source.parts() if collected.keys() & source.keys else ():
            if key in collected:
                with source.readable():
                    collected[key].take_in(source, batch)
    for key in keys:
        # A finished grid's memory goes to its table; the next one needs room.
        grid, scale_columns = collected.pop(key)
        try:
            scale, lower_is_better = _scale(path, scale_columns)
            yield grid.finish(
                path,
                query,
                key.metric or query.metric or UNNAMED,
                task=key.task or query.task,
                filter=key.filter or query.filter,
                stated_scale=scale,
                lower_is_better=lower_is_better,
                unique=True,
                sources=(str(path),),
            )
        except CcatError as error:
            yield error


class _Collected(NamedTuple):
    """What was read of one outcome: scores, and the values that columns state of its scale."""

    grid: ScoreGrid
    scale_columns: dict[str, set[Any]]

    def take_in(self, source: Source, batch: Any) -> None:
        """Take in one batch of rows."""
        if source.items:
            _lay_wide(self.grid, source, batch)
        else:
            _require_one_configuration(source, batch)
            _lay(self.grid, source.file, batch)
        # Arrow would keep the memory of past batches, a sixth of what reading takes.
        source.release()
        for name in (name for name in _SCALE if name in batch.schema.names):
            values = batch[name].unique().to_pylist()
            self.scale_columns.setdefault(name, set()).update(
                value for value in values if value is not None
            )


def _lay(grid: ScoreGrid, file: Path, batch: Any) -> None:
    """Lay one batch of rows of a long table on a grid."""
    n, names = len(batch), batch.schema.names
    of_row = [name for name in ("model", "config", "repeat") if name in names]
    texts, label_codes = _coded([batch[name] for name in of_row], n)
    # A table without models is of one, called after the file.
    labels = [_label({"model": file.stem, **dict(zip(of_row, text))}) for text in texts]
    without_model = [code for code, label in enumerate(labels) if not label["model"]]
    n_unnamed = int(np.isin(label_codes, without_model).sum())
    scores = _scores_of(file, batch["score"])
    _require_rows(file, n_unnamed, batch["doc_id"], scores)
    hashes, marks = (
        _optional(batch[name], n) if name in names else (None,)
        for name in ("doc_hash", "prompt_hash")
    )
    grid.lay(
        Coded([(str(label["model"]), _config(label, file)) for label in labels], label_codes),
        _ids_of(batch["doc_id"], n),
        scores,
        hashes,
        marks,
    )


def _scores_of(file: Path, column: Any) -> NDArray[Any]:
    """Return the scores of a column; NaN where it has none."""
    import pyarrow as pa
    import pyarrow.compute as pc

    try:
        return _flat(_filled(pc.cast(column, pa.float64()), np.array([np.nan])))
    except pa.ArrowException as e:
        reason = str(e).splitlines()[0]
        raise ScoreTableError(
            f"{file}: column 'score' is not numeric ({reason}); write numbers, and leave missing "
            "ones empty"
        ) from e


def _require_rows(file: Path, n_unnamed: int, ids: Any, scores: NDArray[Any]) -> None:
    """Refuse rows of a long table without a model, without an item or with an infinite score."""
    import pyarrow.types as kinds

    fault = ""
    if n_unnamed:
        fault = f"{n_unnamed} rows name no model; name it, or leave them out"
    elif ids.null_count:
        fault = f"{ids.null_count} rows have no doc_id; write it, or leave them out"
    elif kinds.is_floating(ids.type):
        fault = "doc_id must be an integer or a string, not a float; write whole numbers or texts"
    elif np.isinf(scores).any():
        fault = "column 'score' holds an infinite value; leave missing ones empty"
    if fault:
        raise ScoreTableError(f"{file}: {fault}")


def _ids_of(column: Any, n: int) -> Coded:
    """Return the items of `n` rows: numbers where the column has numbers, else texts."""
    import pyarrow as pa
    import pyarrow.compute as pc

    # A categorical column of pandas holds numbers, too.
    if pa.types.is_dictionary(column.type) and pa.types.is_integer(column.type.value_type):
        column = column.dictionary_decode()
    if pa.types.is_integer(column.type):
        numbers, codes = _distinct(pc.cast(column, pa.int64()))
        return Coded(numbers.tolist(), codes)
    texts, codes = _coded([column], n)
    return Coded([text for (text,) in texts], codes)


def _optional(column: Any, n: int) -> Coded:
    """Return the texts of `n` rows in a column that may have gaps; None for an empty one."""
    # An empty text of a CSV is a missing one.
    texts, codes = _coded([column], n)
    return Coded([text or None for (text,) in texts], codes)


def _require_one_configuration(source: Source, batch: Any) -> None:
    """Refuse rows of one model and config that state two values of one of its settings."""
    names = batch.schema.names
    stating = [name for name in ONE_OF_A_MODEL if name in names and name != "model"]
    of_row = [name for name in ("model", "config") if name in names]
    if not stating:
        return
    for text in _coded([batch[name] for name in (*of_row, *stating)], len(batch)).values:
        label, values = text[: len(of_row)], text[len(of_row) :]
        earlier = source.configurations.setdefault(label, values)
        for name, value, earlier_value in zip(stating, values, earlier):
            if value != earlier_value:
                raise ScoreTableError(
                    f"{source.file}: model {(label or (source.file.stem,))[0]!r} has rows "
                    f"of {name} {earlier_value!r} and of {value!r}: one model is one "
                    "configuration; name the models apart, or generation settings in a column "
                    "'config'"
                )


def _label(texts: Mapping[str, Any]) -> dict[str, Any]:
    """Return what names a row, its model without spaces around it; "" for a row without one."""
    return {**texts, "model": (texts["model"] or "").strip()}


def _config(label: Mapping[str, Any], file: Path) -> str:
    """Return the config of a row: settings and number of an answer, as far as they are stated.

    Raises
    ------
    ScoreTableError
        The number is not a whole one from 1.
    """
    stated = label.get("repeat")
    repeat = f"{stated or ''}".removesuffix(".0")  # pandas makes decimals of a column with gaps
    if repeat and not (repeat.isdecimal() and int(repeat)):
        raise ScoreTableError(
            f"{file}: a row of model {label['model']!r} has repeat {stated!r}; a column 'repeat' "
            "numbers the answers to an item: 1, 2, ..."
        )
    return ", ".join(
        filter(None, (label.get("config"), repeat and f"{REPEAT_CONFIG}{int(repeat)}"))
    )


def _items(schema: Any) -> dict[int, int | str]:
    """Return the items of a wide table by the position of their column; {} if it is not wide.

    They are numbers if the names of all their columns are.
    """
    import pyarrow.types as kinds

    if (model_column := _model_column(schema)) is None:
        return {}
    no_items = (model_column, "config", "repeat", *_SCALE)
    name_of = {i: name for i, name in enumerate(schema.names) if name not in no_items}
    # In a wide table every other column holds scores; one of texts means another kind of table.
    for i in name_of:
        kind = schema.types[i]
        if not any(is_kind(kind) for is_kind in (
            kinds.is_integer, kinds.is_floating, kinds.is_boolean, kinds.is_null
        )):  # fmt: skip
            return {}
    numbered = all(map(is_number, name_of.values()))
    return {i: int(name) if numbered else name for i, name in name_of.items()}


def _model_column(schema: Any) -> str | None:
    """Return the column of a wide table that names the models: `model`, or a nameless index."""
    import pyarrow.types as kinds

    if "model" in schema.names:
        return "model"
    nameless = next((name for name in schema.names if name in _NAMELESS), None)
    if nameless is None:
        return None
    kind = schema.field(nameless).type
    is_text = kinds.is_string(kind) or kinds.is_large_string(kind) or kinds.is_dictionary(kind)
    return nameless if is_text else None


def _lay_wide(grid: ScoreGrid, source: Source, batch: Any) -> None:
    """Lay the scores of some rows of a wide table into a grid.

    A wide table has a row for each model and config, and a column for each item.

    Raises
    ------
    ScoreTableError
        A row names no model, two rows have one model and config, or a score is infinite.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    labels = _labels_of_wide(source, batch)
    # Fewer labels than rows: some label stands twice in this batch. Or it stood in one before.
    if len(labels.values) < len(batch) or any(label in grid.rows for label in labels.values):
        most_common = labels.values[int(np.bincount(labels.codes, minlength=1).argmax())]
        model, _ = next((label for label in labels.values if label in grid.rows), most_common)
        raise ScoreTableError(
            f"{source.file}: model {model!r} has two rows in a wide table; keep one, name them "
            "apart in a column 'config' or 'repeat', or give the columns model, doc_id, metric, "
            "score"
        )
    missing, n_items = np.array([np.nan]), len(source.items)
    scores = np.empty((n_items, len(batch)))
    for item_scores, position in zip(scores, source.items):
        item_scores[:] = _flat(_filled(pc.cast(batch.column(position), pa.float64()), missing))
    if np.isinf(scores).any():
        raise ScoreTableError(f"{source.file}: a score is infinite; leave missing ones empty")
    items = np.repeat(np.arange(n_items, dtype=np.int32), len(batch))
    grid.lay(
        labels._replace(codes=np.tile(labels.codes, n_items)),
        Coded(list(source.items.values()), items),
        scores.ravel(),
    )


def _labels_of_wide(source: Source, batch: Any) -> Coded:
    """Return the model and config of each row of a wide table.

    Raises
    ------
    ScoreTableError
        A row names no model.
    """
    model_column = _model_column(batch.schema)
    assert model_column is not None
    further_columns = [name for name in ("config", "repeat") if name in batch.schema.names]
    columns = [model_column, *further_columns]
    combinations = _coded([batch[name] for name in columns], len(batch))
    labels = []
    for texts in combinations.values:
        row = _label({**dict(zip(columns, texts)), "model": texts[0]})
        if not row["model"]:
            raise ScoreTableError(f"{source.file}: a row names no model; name it, or leave it out")
        labels.append((row["model"], _config(row, source.file)))
    return Coded(labels, combinations.codes)


def _scale(path: Path, columns: dict[str, set[Any]]) -> tuple[Scale | None, bool | None]:
    """Return the scale that the columns state, and whether less is better; None if not stated.

    Of a cap, which implies its direction, the second is None, too.
    """
    for name, values in columns.items():
        if len(values) > 1:
            examples = sorted(map(str, values))[:4]
            raise ScaleError(
                f"{path}: column {name!r} must be constant, found {examples}; write one value"
            )
    only = {name: next(iter(values), None) for name, values in columns.items()}
    low, high, higher, cap = (only.get(name) for name in _SCALE)
    # Some tools write it as a text.
    if isinstance(higher, str):
        if higher.lower() not in ("true", "false"):
            raise ScaleError(f"{path}: higher_is_better must be true or false, not {higher!r}")
        higher = higher.lower() == "true"
    for name, value in (("scale_min", low), ("scale_max", high), ("scale_cap", cap)):
        if not isinstance(value, int | float | None):
            raise ScaleError(f"{path}: {name} must be a number, not {value!r}")
    # A cap says all: from 0 on, and less is better.
    if cap is not None:
        return Scale(cap=cap), None
    lower_is_better = None if higher is None else not higher
    if low is None and high is None:
        return None, lower_is_better
    # One end alone is likelier a mistake than a scale without the other.
    if low is None or high is None:
        raise ScaleError(f"{path}: give both scale_min and scale_max, or neither")
    scale = Scale(float(low), float(high), higher_is_better=not lower_is_better)
    return scale, lower_is_better


def _sources(path: Any) -> list[Source]:
    """Return the tables of a file, a folder or a data frame."""
    if not isinstance(path, Path):
        return [Source(Path("the data frame"), path)]
    if not path.is_dir():
        return [Source(path)]
    return [Source(file, named_by_task=True) for file in sorted(path.iterdir()) if _is_table(file)]


def _as_texts(csv: Any) -> Any:
    """Return Arrow's options that leave names in a CSV as they are written.

    Arrow would take a model 1.10 for the number 1.1, and an item 007 for the number 7.
    """
    import pyarrow as pa

    names = ("model", "config", "doc_id", "id", "doc_hash", "prompt_hash", *_NAMES)
    return csv.ConvertOptions(column_types=dict.fromkeys(names, pa.string()))


def _with_ids(table: Any) -> Any:
    """Return the table of a CSV with its doc_ids, which are texts, as what they are.

    They are integers if all are written as integers are; decimals, which are refused later, if all
    are numbers otherwise; else texts, of which an empty one is missing.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    for name in {"doc_id", "id"} & set(table.column_names):
        position = table.column_names.index(name)
        texts = table.column(position)
        texts = pc.if_else(pc.equal(texts, ""), pa.scalar(None, pa.string()), texts)
        trimmed = pc.utf8_trim_whitespace(texts)
        ids = texts
        with suppress(pa.ArrowInvalid):
            ids = pc.cast(trimmed, pa.float64())
            numbers = pc.cast(trimmed, pa.int64())
            # 007 is no integer's text, and another item than 7.
            ids = numbers if pc.cast(numbers, pa.string()).equals(trimmed) else texts
        table = table.set_column(position, name, ids)
    return table


def _is_table(file: Path) -> bool:
    """Whether a file is a table of scores, by its ending and, of lines of JSON, its first line."""
    if not file.is_file() or file.suffix != ".jsonl":
        return file.is_file() and file.suffix in (".parquet", ".csv")
    first = first_record(file).keys()
    return "score" in first and bool({"id", "doc_id"} & first)


def _arrow_table(frame: Any) -> Any:
    """Return a data frame as a table of Arrow."""
    import pyarrow as pa

    try:
        if isinstance(frame, pa.Table):
            return frame
        if hasattr(frame, "to_arrow"):  # polars
            return frame.to_arrow()
        return pa.Table.from_pandas(frame, preserve_index=False)
    except (pa.ArrowException, TypeError, AttributeError, ValueError) as e:
        raise ScoreTableError(
            f"{type(frame).__name__} is not a data frame of scores: give one of pandas, polars or "
            f"Arrow with the columns model, doc_id, score ({e})"
        ) from None


# -- columns of Arrow as NumPy's arrays ---------------------------------------------------------
#
# Arrow's own ways (`to_numpy`, `pyarrow.array`) import pandas, which takes longer than reading.


def _coded(columns: Sequence[Any], n: int) -> Coded:
    """Return the distinct combinations of texts in `n` rows, and the index of each row's.

    Combinations are in the order of their first appearance.

    Parameters
    ----------
    columns : sequence of pyarrow.Array
        The columns whose texts are combined.
    n : int
        The number of rows.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    combinations: list[Texts] = [()] if n else []
    codes = np.zeros(n, dtype=np.int32)
    for column in columns:
        if not pa.types.is_dictionary(column.type):
            column = pc.cast(column, "string").dictionary_encode()
        names = pc.cast(column.dictionary, "string").to_pylist()
        indices = column.indices
        # A missing text is a value of its own.
        if indices.null_count:
            indices = _filled(pc.cast(indices, pa.int64()), np.array([len(names)]))
            names.append(None)
        # One text in all rows tells none apart.
        if len(names) == 1:
            combinations = [(*combination, *names) for combination in combinations]
            continue
        # A row's combination so far and its text as one number, whose two digits they are: so the
        # distinct ones are found without a tuple for each row.
        numbers, codes = _distinct(_of_numpy(codes * np.int64(len(names)) + _flat(indices)))
        combinations = [
            (*combinations[number // len(names)], names[number % len(names)])
            for number in numbers.tolist()
        ]
    return Coded(combinations, codes)


def _distinct(numbers: Any) -> tuple[NDArray[Any], NDArray[np.int32]]:
    """Return the distinct numbers by first appearance, and each number's position among them."""
    encoded = numbers.dictionary_encode()
    return _flat(encoded.dictionary), _flat(encoded.indices)


def _flat(array: Any) -> NDArray[Any]:
    """Return the values of a numeric column without nulls, straight from its buffer."""
    # The first buffer says which values are null, the second holds them. NumPy calls Arrow's
    # `double` float64; other names agree.
    kind = np.dtype(str(array.type).replace("double", "float64"))
    size, offset = len(array), array.offset
    return np.frombuffer(array.buffers()[1], dtype=kind, count=size, offset=offset * kind.itemsize)


def _filled(column: Any, value: NDArray[Any]) -> Any:
    """Return a column with one value in place of its nulls."""
    import pyarrow.compute as pc

    # A number of Python would import pandas.
    return pc.fill_null(column, _of_numpy(value)[0])


def _of_numpy(numbers: NDArray[Any]) -> Any:
    """Return an array of NumPy as one of Arrow."""
    import pyarrow as pa

    kind = pa.from_numpy_dtype(numbers.dtype)
    return pa.Array.from_buffers(kind, len(numbers), [None, pa.py_buffer(numbers)])


READER = Reader(
    name="long_form",
    summary="a .parquet, .csv or .jsonl score table, long or wide, or a folder with one per task",
    can_read=can_read,
    read=read,
    outcomes=outcomes,
    read_many=read_many,
)

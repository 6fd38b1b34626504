"""The long form of a score table: one row per score, as Parquet or CSV."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...errors import ScaleError, ScoreTableError
from ...metrics.registry import known_scale
from ...metrics.scale import Scale
from ..scales import choose_scale
from .reader import Outcome, Progress, RawScores, Reader, Wanted

REQUIRED = ("model", "doc_id", "score")
_USED = (
    *REQUIRED,
    *("metric", "task", "filter", "dataset", "config", "doc_hash"),
    *("scale_min", "scale_max", "higher_is_better"),
)


def can_read(path: Path) -> bool:
    """Whether a path is a .parquet or .csv file."""
    return path.is_file() and path.suffix in (".parquet", ".csv")


def read(path: Path, wanted: Wanted, on_progress: Progress = None) -> RawScores:
    """Read one metric of a long-form file; see `Reader`."""
    data = _open(path)
    missing = [c for c in REQUIRED if c not in data.column_names]
    if missing:
        raise ScoreTableError(
            f"{path}: no column {missing[0]!r}; a score table has the columns model, doc_id, "
            f"metric, score (found: {', '.join(data.column_names)})"
        )
    data, metric = _pick(path, data, "metric", wanted.metric)
    data, task = _pick(path, data, "task", wanted.task)
    data, filter = _pick(path, data, "filter", wanted.filter)
    data, _ = _pick(path, data, "dataset", None)
    if data.num_rows == 0:
        raise ScoreTableError(f"{path}: no scores")

    model_names, model_code = _codes(path, data, "model")
    config_names, config_code = (
        _codes(path, data, "config")
        if "config" in data.column_names
        else ([""], np.zeros(data.num_rows, dtype=np.int64))
    )
    doc_ids, doc_code = _items(path, data)
    score = _numbers(path, data, "score")

    pair = model_code if len(config_names) == 1 else model_code * len(config_names) + config_code
    rows, row_code = _distinct(pair)
    first = np.empty(len(rows), dtype=np.intp)
    first[row_code[::-1]] = np.arange(len(pair))[::-1]  # of equals the last assignment stays
    by_appearance = np.argsort(first, kind="stable")
    position = np.empty_like(by_appearance)
    position[by_appearance] = np.arange(len(rows))
    row = position[row_code]

    counts = np.bincount(row * len(doc_ids) + doc_code, minlength=len(rows) * len(doc_ids))
    if counts.max() > 1:
        r, i = divmod(int(np.argmax(counts > 1)), len(doc_ids))
        m, c = divmod(int(rows[by_appearance[r]]), len(config_names))
        raise ScoreTableError(
            f"{path}: {int(counts.max())} scores of model {model_names[m]!r} config "
            f"{config_names[c]!r} on doc_id {doc_ids[i]!r}; keep one, or name the runs apart in a "
            "column 'config'"
        )
    raw = np.full((len(rows), len(doc_ids)), np.nan)
    raw[row, doc_code] = score
    if not np.isfinite(raw).any():
        raise ScoreTableError(f"{path}: every score of metric {metric!r} is missing")

    scale, notes = choose_scale(
        raw,
        metric or "score",
        where=str(path),
        stated=_stated_scale(path, data),
        scale=wanted.scale,
        range=wanted.range,
        lower_is_better=wanted.lower_is_better,
    )
    ordered = [divmod(int(p), len(config_names)) for p in rows[by_appearance]]
    return RawScores(
        raw,
        models=[model_names[m] for m, _ in ordered],
        configs=[config_names[c] for _, c in ordered],
        doc_ids=doc_ids,
        scale=scale,
        metric=metric or "score",
        task=task,
        filter=filter,
        doc_hashes=_hashes(data, doc_code, len(doc_ids)),
        warnings=tuple(notes),
        sources=(str(path),),
    )


def outcomes(path: Path) -> list[Outcome]:
    """Every (task, metric, filter) of the file, in alphabetical order."""
    data = _open(path)
    names = ("task", "metric", "filter")
    there = [name for name in names if name in data.column_names]
    codes = {name: _codes(path, data, name) for name in there}
    rows = set(zip(*(code.tolist() for _, code in codes.values()))) if there else {()}
    found = [{n: codes[n][0][c] for n, c in zip(there, row)} for row in rows]
    plain = [(o.get("task") or None, o.get("metric") or "score", o.get("filter") or None)
             for o in found]  # fmt: skip
    return [Outcome(*one) for one in sorted(plain, key=lambda one: tuple(map(str, one)))]


def write(scores: RawScores, path: Path) -> None:
    """Write scores in long form; what `read` reads back."""
    import pyarrow as pa

    r, i = np.nonzero(np.isfinite(scores.raw))
    n = len(r)
    columns: dict[str, Any] = {
        "model": pa.array(scores.models).take(pa.array(r)),
        "config": pa.array(scores.configs).take(pa.array(r)),
        "doc_id": pa.array(scores.doc_ids).take(pa.array(i)),
        "metric": pa.array([scores.metric]).take(pa.array(np.zeros(n, dtype=np.int64))),
        "score": pa.array(scores.raw[r, i]),
        "scale_min": pa.array(np.full(n, scores.scale.low)),
        "scale_max": pa.array(
            np.full(n, scores.scale.high if scores.scale.cap is None else scores.scale.cap)
        ),
        "higher_is_better": pa.array(np.full(n, scores.scale.higher_is_better)),
    }
    for name, value in (("task", scores.task), ("filter", scores.filter)):
        if value is not None:
            columns[name] = pa.array([value]).take(pa.array(np.zeros(n, dtype=np.int64)))
    if scores.doc_hashes is not None:
        columns["doc_hash"] = pa.array(scores.doc_hashes, type=pa.string()).take(pa.array(i))
    data = pa.table(columns)
    if path.suffix == ".csv":
        from pyarrow import csv

        csv.write_csv(data, path)
    elif path.suffix == ".parquet":
        from pyarrow import parquet

        parquet.write_table(data, path)
    else:
        raise ScoreTableError(f"{path}: a score table is a .parquet or a .csv file")


def _open(path: Path) -> Any:
    try:
        import pyarrow as pa
    except ImportError as e:
        # New releases of pyarrow refuse numpy 1.26 when imported, which no installer knows.
        raise ScoreTableError(
            f"{path}: pyarrow cannot be used ({e}); with numpy 1.26 install 'pyarrow<25'"
        ) from e

    try:
        if path.suffix == ".csv":
            from pyarrow import csv

            return csv.read_csv(path)
        if path.suffix == ".parquet":
            from pyarrow import parquet

            # `read_table` would import pandas, which takes longer than reading.
            file = parquet.ParquetFile(path)
            texts = [
                f.name for f in file.schema_arrow if f.type in (pa.string(), pa.large_string())
            ]
            texts = [name for name in texts if name not in ("doc_id", "doc_hash")]
            # A name is one of few, and stands there as its number.
            return parquet.ParquetFile(path, read_dictionary=texts).read(
                [name for name in file.schema_arrow.names if name in _USED]
            )
    except (pa.ArrowException, OSError, ValueError) as e:
        reason = str(e).splitlines()[0]
        raise ScoreTableError(f"{path}: not a readable score table ({reason})") from e
    raise ScoreTableError(
        f"{path}: a score table is a .parquet or a .csv file, harness logs are a directory"
    )


def _pick(path: Path, data: Any, column: str, wanted: str | None) -> tuple[Any, str | None]:
    """Keep the rows of one value of `column`: the wanted one, or the only one."""
    if column not in data.column_names:
        return data, wanted
    import pyarrow.compute as pc

    values = [str(v) for v in pc.unique(data[column]).to_pylist() if v is not None]
    if wanted is None:
        if len(values) > 1:
            raise ScoreTableError(
                f"{path}: several values of {column!r}, name one of: {', '.join(sorted(values))}"
            )
        return data, values[0] if values else None
    if wanted not in values:
        raise ScoreTableError(
            f"{path}: no scores with {column} {wanted!r}; found: {', '.join(sorted(values))}"
        )
    if values == [wanted] and not data[column].null_count:
        return data, wanted
    names, code = _codes(path, data, column)
    return data.take(_positions(np.flatnonzero(code == names.index(wanted)))), wanted


def _codes(path: Path, data: Any, column: str) -> tuple[list[str], NDArray[np.int64]]:
    import pyarrow as pa
    import pyarrow.compute as pc

    values = data[column]
    if not pa.types.is_dictionary(values.type):
        values = pc.cast(values, "string")
    names, code = _dictionary(values)
    if "" not in names and (code < 0).any():
        names.append("")
    if "" in names:
        code = np.where(code < 0, names.index(""), code)
        if column == "model":
            empty = int((code == names.index("")).sum())
            raise ScoreTableError(f"{path}: {empty} rows name no model")
    return names, code


def _items(path: Path, data: Any) -> tuple[list[Any], NDArray[np.int64]]:
    import pyarrow as pa
    import pyarrow.compute as pc

    column = data["doc_id"]
    if column.null_count:
        raise ScoreTableError(f"{path}: {column.null_count} rows have no doc_id")
    if pa.types.is_integer(column.type):
        ids, code = _distinct(_flat(column)[0])
        return [int(i) for i in ids], code
    if pa.types.is_floating(column.type):
        raise ScoreTableError(f"{path}: doc_id must be an integer or a string, not a float")
    return _dictionary(pc.cast(column, "string"))


def _dictionary(values: Any) -> tuple[list[str], NDArray[np.int64]]:
    """Distinct strings, and the position of each value among them; of a null it is -1.

    In order of first appearance, unless the values come with a dictionary, which has its own order
    and may have strings that no value is.
    """
    if hasattr(values, "unify_dictionaries"):
        values = values.unify_dictionaries()
    coded = values.combine_chunks().dictionary_encode()
    if hasattr(coded, "combine_chunks"):
        coded = coded.combine_chunks()
    codes, there = _flat(coded.indices)
    if not there.all():
        codes = np.where(there, codes, -1)
    return coded.dictionary.to_pylist(), codes.astype(np.int64, copy=False)


def _distinct(values: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """`numpy.unique` and its inverse, without sorting where whole numbers lie close together."""
    low, high = int(values.min()), int(values.max())
    if high - low > 4 * len(values):
        found, code = np.unique(values, return_inverse=True)
        return found, code.astype(np.int64)
    offset = values
    if low:
        offset = (values if values.itemsize == 8 else values.astype(np.int64)) - values.min()
    there = np.zeros(high - low + 1, dtype=bool)
    there[offset] = True
    code = offset.astype(np.int64, copy=False)
    found = np.flatnonzero(there)
    return found.astype(object) + low, code if there.all() else (np.cumsum(there) - 1)[code]


def _flat(column: Any) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    """Values of a numeric Arrow column, and where they are not null.

    Straight from the buffers: `to_numpy` would import pandas, which takes longer than the rest.
    """
    array = column.combine_chunks() if hasattr(column, "combine_chunks") else column
    if hasattr(array, "combine_chunks"):
        array = array.combine_chunks()
    size, offset = len(array), array.offset
    valid, data = array.buffers()
    kind = np.dtype(str(array.type).replace("double", "float64"))
    values = np.frombuffer(data, dtype=kind, count=size, offset=offset * kind.itemsize)
    if valid is None:
        return values, np.ones(size, dtype=bool)
    bits = np.unpackbits(np.frombuffer(valid, dtype=np.uint8), bitorder="little")
    return values, bits[offset : offset + size].astype(bool)


def _positions(rows: NDArray[np.intp]) -> Any:
    """Row numbers as an Arrow array; `pyarrow.array` would import pandas."""
    import pyarrow as pa

    data = pa.py_buffer(rows.astype(np.int64).tobytes())
    return pa.Array.from_buffers(pa.int64(), len(rows), [None, data])


def _numbers(path: Path, data: Any, column: str) -> NDArray[np.float64]:
    import pyarrow as pa
    import pyarrow.compute as pc

    try:
        values = pc.cast(data[column], pa.float64())
    except pa.ArrowException as e:
        raise ScoreTableError(
            f"{path}: column {column!r} is not numeric ({str(e).splitlines()[0]})"
        ) from e
    found, there = _flat(values)
    numbers = np.where(there, found, np.nan)
    if np.isinf(numbers).any():
        raise ScoreTableError(f"{path}: column {column!r} holds an infinite value")
    return numbers


def _stated_scale(path: Path, data: Any) -> Scale | None:
    names = data.column_names
    if "scale_min" not in names and "scale_max" not in names and "higher_is_better" not in names:
        return None
    import pyarrow.compute as pc

    def only(column: str, default: Any) -> Any:
        if column not in names:
            return default
        values = [v for v in pc.unique(data[column]).to_pylist() if v is not None]
        if len(values) > 1:
            raise ScaleError(f"{path}: column {column!r} must be constant, found {values[:4]}")
        return values[0] if values else default

    higher = only("higher_is_better", True)
    if isinstance(higher, str):
        if higher.lower() not in ("true", "false"):
            raise ScaleError(f"{path}: higher_is_better must be true or false, found {higher!r}")
        higher = higher.lower() == "true"
    low, high = only("scale_min", None), only("scale_max", None)
    if low is None and high is None:
        return Scale(higher_is_better=bool(higher))
    if low is None or high is None:
        raise ScaleError(f"{path}: give both scale_min and scale_max, or neither")
    known = known_scale(str(data["metric"][0])) if "metric" in names else None
    cap = float(high) if known is not None and known.cap is not None and low == 0 else None
    return Scale(float(low), float(high), higher_is_better=bool(higher), cap=cap)


def _hashes(data: Any, doc_code: NDArray[np.int64], n: int) -> tuple[str | None, ...] | None:
    if "doc_hash" not in data.column_names:
        return None
    found: list[str | None] = [None] * n
    for i, h in zip(doc_code.tolist(), data["doc_hash"].to_pylist()):
        if h is not None:
            found[i] = str(h)
    return tuple(found)


READER = Reader(
    name="long_form",
    summary="a .parquet or .csv score table",
    can_read=can_read,
    read=read,
    outcomes=outcomes,
)

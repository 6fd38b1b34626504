"""Columns of Arrow as NumPy's arrays, straight from the buffers.

Arrow's own ways (`to_numpy`, `pyarrow.array`) import pandas, which takes longer than reading.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...errors import ScoreTableError


def coded(column: Any) -> tuple[list[str], NDArray[Any]]:
    """Distinct texts of a column, and the position of each value among them; -1 for a null.

    A dictionary that the column comes with may have texts that no value is.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    if not pa.types.is_dictionary(column.type):
        column = pc.cast(column, "string").dictionary_encode()
    codes, valid = flat(column.indices)
    texts = column.dictionary
    names: list[str] = (texts if pa.types.is_string(texts.type) else pc.cast(texts, "string")
                        ).to_pylist()  # fmt: skip
    return names, codes if valid.all() else np.where(valid, codes, -1)


def distinct(values: Any) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """`numpy.unique` and its inverse, without sorting where whole numbers lie close together."""
    numbers = values if isinstance(values, np.ndarray) else flat(values)[0]
    if not len(numbers):
        return numbers, np.zeros(0, dtype=np.int64)
    low, high = int(numbers.min()), int(numbers.max())
    if low == high:
        return numbers[:1], np.zeros(len(numbers), dtype=np.int64)
    if high - low > 4 * len(numbers):
        values_seen, code = np.unique(numbers, return_inverse=True)
        return values_seen, code.astype(np.int64)
    offset = numbers.astype(np.int64, copy=False) - low
    present = np.zeros(high - low + 1, dtype=bool)
    present[offset] = True
    values_seen = np.flatnonzero(present) + low
    return values_seen, offset if present.all() else (np.cumsum(present) - 1)[offset]


def flat(array: Any) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    """Values of a numeric column, and where they are not null."""
    size, offset = len(array), array.offset
    valid, data = array.buffers()
    kind = np.dtype(str(array.type).replace("double", "float64"))
    values = np.frombuffer(data, dtype=kind, count=size, offset=offset * kind.itemsize)
    if valid is None:
        return values, np.ones(size, dtype=bool)
    bits = np.unpackbits(np.frombuffer(valid, dtype=np.uint8), bitorder="little")
    return values, bits[offset : offset + size].astype(bool)


def rows_at(rows: NDArray[np.intp]) -> Any:
    """Numbers of rows as an Arrow array."""
    import pyarrow as pa

    data = pa.py_buffer(rows.astype(np.int64).tobytes())
    return pa.Array.from_buffers(pa.int64(), len(rows), [None, data])


def numbers(file: Path, batch: Any, name: str) -> NDArray[np.float64]:
    """A column of numbers, NaN for a null.

    Raises
    ------
    ScoreTableError
        A value is no number, or infinite.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    try:
        values, valid = flat(pc.cast(batch[name], pa.float64()))
    except pa.ArrowException as e:
        raise ScoreTableError(
            f"{file}: column {name!r} is not numeric ({str(e).splitlines()[0]})"
        ) from e
    filled = np.where(valid, values, np.nan)
    if np.isinf(filled).any():
        raise ScoreTableError(f"{file}: column {name!r} holds an infinite value")
    return filled

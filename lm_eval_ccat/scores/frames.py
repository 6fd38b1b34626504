"""Scores as Python holds them (matrices, data frames, ids): checked, and made arrays."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import ScoreTableError
from .readers.long_form import of_table
from .readers.reader import RawScores, Wanted
from .scales import choose_scale

Floats = NDArray[np.float64]
DocId = int | str


def of_frame(frame: Any, wanted: Wanted) -> RawScores:
    """The scores of a data frame; see `ScoreTable.from_dataframe`."""
    names = list(getattr(frame, "columns", ()))
    if {"doc_id", "id"} & set(map(str, names)) or not hasattr(frame, "to_numpy"):
        return of_table(_arrow_table(frame), wanted)
    models = [str(model) for model in frame.index]
    return of_matrix(frame.to_numpy(), wanted, "the data frame", models, names)


def of_matrix(
    scores: Any,
    wanted: Wanted,
    where: str,
    models: Sequence[str] | None = None,
    doc_ids: Sequence[Any] | None = None,
) -> RawScores:
    """The scores of a matrix of models by items; both are numbered where they have no names."""
    raw, metric = matrix_of(scores), wanted.metric or "score"
    scale, notes = choose_scale(raw, metric, wanted, where)
    names = [f"model-{j}" for j in range(len(raw))] if models is None else models
    ids = range(raw.shape[1]) if doc_ids is None else doc_ids
    configs = [""] * len(names)
    return RawScores(raw, names, configs, ids, scale, metric, wanted.task, warnings=tuple(notes))


def matrix_of(scores: Any) -> Floats:
    """Scores as a matrix of models by items."""
    try:
        matrix = np.asarray(scores, dtype=np.float64, order="C")
    except (TypeError, ValueError) as e:
        raise ScoreTableError(
            f"scores must be numbers, a row per model and a column per item ({e})"
        ) from None
    matrix = np.atleast_2d(matrix)
    if matrix.ndim != 2 or not matrix.size:
        raise ScoreTableError(
            f"scores of shape {matrix.shape}: a table has a row per model and a column per item"
        )
    if np.isinf(matrix).any():
        raise ScoreTableError("a score is infinite; give NaN where one is missing")
    return matrix


def _arrow_table(frame: Any) -> Any:
    """A data frame as a table of Arrow."""
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


def sorted_ids(ids: Sequence[DocId]) -> tuple[tuple[Any, ...], list[int]]:
    """Ascending doc_ids of one type, and the positions they came from.

    Raises
    ------
    ScoreTableError
        Integers and strings are mixed, or an id stands twice.
    """
    plain: list[Any] = [i.item() if isinstance(i, np.generic) else i for i in ids]
    kinds = {type(i) for i in plain}
    if not kinds <= {int} and not kinds <= {str}:
        raise ScoreTableError(
            "doc_ids must be all integers or all strings, found "
            + " and ".join(sorted(k.__name__ for k in kinds))
        )
    order = sorted(range(len(plain)), key=plain.__getitem__)
    for a, b in pairwise(order):
        if plain[a] == plain[b]:
            raise ScoreTableError(f"doc_id {plain[a]!r} appears twice: items need distinct ids")
    return tuple(plain[i] for i in order), order


def nanmean_rows(rows: Floats) -> Floats:
    """Mean over rows ignoring NaN, NaN where all are; without NumPy's warning about it."""
    seen = np.isfinite(rows)
    count = seen.sum(axis=0)
    total = np.where(seen, rows, 0.0).sum(axis=0)
    out: Floats = np.full(rows.shape[1], np.nan)
    np.divide(total, count, out=out, where=count > 0)
    return out

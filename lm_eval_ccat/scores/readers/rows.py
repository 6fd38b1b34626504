"""From single scores, as logs of other tools hold them, to what a reader gives back."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ...errors import ScoreTableError
from ...metrics.scale import Scale
from ..scales import choose_scale
from .reader import Outcome, RawScores, Wanted


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
        Tells several answers of one model to one item apart (an epoch, a trial).
    doc_hash : str or None
    date : str
        Of the same (model, config, item) the latest counts; dates compare as text.
    """

    model: str
    task: str
    metric: str
    doc_id: Any
    score: float
    config: str = ""
    doc_hash: str | None = None
    date: str = ""


def outcomes_of(rows: Iterable[Row]) -> list[Outcome]:
    """Every (task, metric) of some rows."""
    return [Outcome(*pair) for pair in sorted({(row.task, row.metric) for row in rows})]


def assemble(
    path: Path,
    rows: Iterable[Row],
    wanted: Wanted,
    *,
    stated: Callable[[str, str], Scale | None] = lambda task, metric: None,
    warnings: Sequence[str] = (),
    sources: Sequence[Path] = (),
) -> RawScores:
    """Lay rows into one matrix of one task and metric.

    Parameters
    ----------
    path : Path
        For errors.
    rows : iterable of Row
    wanted : Wanted
    stated : callable, optional
        ``(task, metric) -> Scale or None``: the scale that the logs state.
    warnings : sequence of str, optional
    sources : sequence of Path, optional

    Raises
    ------
    ScoreTableError
        There is no such task or metric, or one must be named.
    ScaleError
        The scale is not known, or a score lies outside it.
    """
    found = list(rows)
    if not found:
        raise ScoreTableError(f"{path}: no scores of single items in these logs")
    if wanted.filter is not None:
        raise ScoreTableError(f"{path}: these logs have no filters; leave --filter out")
    task = _one_of(path, "task", wanted.task, [row.task for row in found])
    found = [row for row in found if row.task == task]
    metric = _one_of(path, "metric", wanted.metric, [row.metric for row in found])
    found = sorted((row for row in found if row.metric == metric), key=lambda row: row.date)
    labels = list(dict.fromkeys((row.model, row.config) for row in found))
    as_text = len({type(row.doc_id) for row in found}) > 1
    ids = [str(row.doc_id) if as_text else row.doc_id for row in found]
    doc_ids = sorted(set(ids))
    at_row = {label: n for n, label in enumerate(labels)}
    at_item = {doc_id: n for n, doc_id in enumerate(doc_ids)}
    raw = np.full((len(labels), len(doc_ids)), np.nan)
    hashes: list[str | None] = [None] * len(doc_ids)
    changed: set[Any] = set()
    for row, doc_id in zip(found, ids):
        n = at_item[doc_id]
        if row.doc_hash is not None:
            if hashes[n] not in (None, row.doc_hash):
                changed.add(doc_id)
            hashes[n] = row.doc_hash
        raw[at_row[row.model, row.config], n] = row.score
    notes = list(warnings)
    if changed:
        shown = ", ".join(map(str, sorted(changed)[:5]))
        notes.append(
            f"{len(changed)} of {len(doc_ids)} documents differ between logs (doc_id {shown}): "
            "they are not all of the same data set"
        )
    if not np.isfinite(raw).any():
        raise ScoreTableError(f"{path}: every score of metric {metric!r} is missing")
    scale, more = choose_scale(
        raw,
        metric,
        where=str(path),
        stated=stated(task, metric),
        scale=wanted.scale,
        range=wanted.range,
        lower_is_better=wanted.lower_is_better,
    )
    return RawScores(
        raw,
        [model for model, _ in labels],
        [config for _, config in labels],
        doc_ids,
        scale,
        metric,
        task,
        doc_hashes=tuple(hashes) if any(hashes) else None,
        warnings=(*notes, *more),
        sources=tuple(map(str, sources)),
    )


def _one_of(path: Path, what: str, wanted: str | None, there: Sequence[str]) -> str:
    names = sorted(set(there))
    shown = ", ".join(names[:12]) + (f" and {len(names) - 12} more" if len(names) > 12 else "")
    if wanted is None:
        if len(names) > 1:
            raise ScoreTableError(f"{path}: several values of {what}, name one of: {shown}")
        return names[0]
    if wanted not in names:
        raise ScoreTableError(f"{path}: no scores of {what} {wanted!r}; there are {shown}")
    return wanted

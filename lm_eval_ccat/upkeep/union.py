"""Scores of one benchmark as one table: of two tables, of what a bank keeps, or of a path."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from ..bank import ItemBank
from ..bank.observations import Observation
from ..errors import ScoreTableError
from ..scores.item_scaling import ItemScaling
from ..scores.table import ScoreTable, sorted_ids


def union(old: ScoreTable, new: ScoreTable) -> ScoreTable:
    """All models of both tables on all items of both.

    Of a model in both the new rows count; what one of them lacks is taken from the old row of the
    same configuration.

    Raises
    ------
    ScoreTableError
        The tables are of different metrics or scales, name items by different types, or a document
        changed between them.

    Examples
    --------
    >>> a = ScoreTable.from_arrays([[0.1, 0.2]], models=["a"], doc_ids=[0, 1])
    >>> b = ScoreTable.from_arrays([[0.3, 0.4]], models=["b"], doc_ids=[1, 2])
    >>> union(a, b).raw.tolist()
    [[0.1, 0.2, nan], [nan, 0.3, 0.4]]
    """
    if old.metric != new.metric or old.scale != new.scale:
        raise ScoreTableError(
            f"scores of {old.metric} ({old.scale.describe()}) and of {new.metric} "
            f"({new.scale.describe()}) are not of one benchmark"
        )
    hashes = dict(zip(old.doc_ids, old.doc_hashes or [None] * old.n_items))
    for d, h in zip(new.doc_ids, new.doc_hashes or [None] * new.n_items):
        if None not in (h, hashes.get(d)) and h != hashes[d]:
            raise ScoreTableError(f"doc_id {d!r} is a different document in the new scores")
        hashes[d] = h if h is not None else hashes.get(d)
    ids, _ = sorted_ids(list(hashes))
    again = set(new.models)
    keep = [r for r, m in enumerate(old.row_model) if m not in again]
    raw = np.full((len(keep) + len(new.row_model), len(ids)), np.nan)
    column = {d: i for i, d in enumerate(ids)}
    raw[: len(keep), [column[d] for d in old.doc_ids]] = old.raw[keep]
    rows = {pair: r for r, pair in enumerate(zip(old.row_model, old.row_config))}
    at = [column[d] for d in old.doc_ids]
    for n, pair in enumerate(zip(new.row_model, new.row_config), start=len(keep)):
        if pair in rows:
            raw[n, at] = old.raw[rows[pair]]
    fresh = raw[len(keep) :, (at := [column[d] for d in new.doc_ids])]
    raw[len(keep) :, at] = np.where(np.isnan(new.raw), fresh, new.raw)
    of_old, of_new = (t.chosen or ("",) * len(t.row_model) for t in (old, new))
    chosen = (*(of_old[r] for r in keep), *of_new)
    return replace(
        old,
        raw=raw,
        chosen=chosen if any(chosen) else (),
        row_model=(*(old.row_model[r] for r in keep), *new.row_model),
        row_config=(*(old.row_config[r] for r in keep), *new.row_config),
        doc_ids=ids,
        doc_hashes=tuple(hashes[d] for d in ids) if any(hashes.values()) else None,
        warnings=(*old.warnings, *(w for w in new.warnings if w not in old.warnings)),
        sources=(*old.sources, *new.sources),
    )


def table_of(bank: ItemBank, observations: Sequence[Observation]) -> ScoreTable:
    """Observations of a bank's items as scores, what was not asked missing."""
    unit = np.full((len(observations), bank.n_items), np.nan)
    for row, one in zip(unit, observations):
        row[one.items] = one.scores
    table = ScoreTable.from_arrays(
        bank.scale.restore(unit),
        [o.model for o in observations],
        bank.doc_ids,
        configs=[o.config for o in observations],
        scale=bank.scale,
        metric=bank.metric,
        task=bank.task,
        filter=bank.filter,
        doc_hashes=bank.doc_hashes,
        settings=dict(bank.settings),
    )
    return replace(table, chosen=tuple("" if o.chosen == "all" else o.chosen for o in observations))


def scores_for(bank: ItemBank, path: str | Path, **how: Any) -> ScoreTable:
    """Read a score table or logs as a bank needs them.

    Parameters
    ----------
    bank : ItemBank
    path : path-like
    **how
        Further arguments of `ScoreTable.read`.

    Returns
    -------
    ScoreTable
        Scaled item by item where the bank's scores were.

    Raises
    ------
    ScoreTableError
        There are no such scores.
    ScaleError
        A score lies outside the bank's scale.
    """
    scaling = ItemScaling.of_bank(bank.constants)
    name, scale = (bank.metric, bank.scale) if scaling is None else (scaling.metric, scaling.scale)
    table = ScoreTable.read(path, name, bank.task, bank.filter, scale=scale, **how)
    return table if scaling is None else scaling.apply(table)

"""The replay protocol: which models are held out, what they cost, and what may be spent."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..errors import ScoreTableError, UsageError
from ..scores import ScoreTable

if TYPE_CHECKING:
    import pyarrow as pa

Floats = NDArray[np.float64]

LOWEST_PRICE, HIGHEST_PRICE = 0.1, 3.2


@dataclass(frozen=True)
class Protocol:
    """Settings of a replay that are the same for every fold.

    Attributes
    ----------
    seeds : int
        How many seeds per fold; the seed drives prices and every method's randomness.
    items_per_model : float or None
        The budget is this many times the held-out models' mean item prices; None for no budget.
    confidence : float
        Two-sided confidence of pairs and intervals.
    warmup : int
        Items every model gets before anything is compared.
    item_scaling : bool
        Whether each item's scores are scaled to [0, 1] over the fold's calibration rows first.
    spend : {"budget", "fixed"}
        With "fixed" every method gives every model the same number of items, at equal prices,
        stops nothing early and looks once.
    """

    seeds: int = 1
    items_per_model: float | None = 20.0
    confidence: float = 0.95
    warmup: int = 10
    item_scaling: bool = False
    spend: str = "budget"


@dataclass(frozen=True)
class Fold:
    """One hold-out set of a table; with the table everything that is needed to replay it.

    Attributes
    ----------
    number : int
    holdout : tuple of str
    calibration : tuple of str
        Models to calibrate on, none of them held out.
    low, high : ndarray of shape (n_holdout,)
        Bootstrap intervals of the held-out models' mean raw scores.
    prices : tuple of dict
        For each seed the price of one unit of each held-out model.
    units : ndarray of shape (n_items,)
        Size of each item, in the table's order.
    """

    number: int
    holdout: tuple[str, ...]
    calibration: tuple[str, ...]
    low: Floats
    high: Floats
    prices: tuple[Mapping[str, float], ...]
    units: Floats

    def calibration_table(self, whole: ScoreTable) -> ScoreTable:
        """Scores of the calibration models, without items that none of them was scored on."""
        table = whole.select(self.calibration)
        seen = np.isfinite(table.raw).any(axis=0)
        if seen.all():
            return table
        kept = np.flatnonzero(seen)
        hashes = table.doc_hashes
        return replace(
            table,
            raw=table.raw[:, kept],
            doc_ids=tuple(table.doc_ids[i] for i in kept),
            doc_hashes=None if hashes is None else tuple(hashes[i] for i in kept),
        )


def calibration_set(
    others: Sequence[str], most: int | None, fold: int, seed: int
) -> tuple[str, ...]:
    """Models to calibrate on: all that may, or a seeded draw of them.

    Parameters
    ----------
    others : sequence of str
        Models that may calibrate.
    most : int or None
        How many at most.
    fold, seed : int
        What the draw depends on.
    """
    if most is None or most >= len(others):
        return tuple(others)
    if most < 2:
        raise UsageError(f"calibration_models {most}: at least 2 are needed")
    drawn = np.random.default_rng([seed, fold, 11]).choice(len(others), most, replace=False)
    return tuple(others[i] for i in sorted(drawn))


def drawn_prices(models: Sequence[str], seed: int) -> dict[str, float]:
    """Draw a price for every model, log-uniform from 0.1 to 3.2."""
    rng = np.random.default_rng([seed, 7])
    logs = rng.uniform(np.log(LOWEST_PRICE), np.log(HIGHEST_PRICE), len(models))
    return dict(zip(models, np.exp(logs).tolist()))


def read_prices(path: str | Path, models: Sequence[str]) -> dict[str, float]:
    """Read ``{"model": price}`` for every model.

    Raises
    ------
    UsageError
        Not such a file, or a model or positive price is missing.
    """
    try:
        values = json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UsageError(f"{path}: cannot be read as JSON ({error})") from error
    if not isinstance(values, dict):
        raise UsageError(f'{path}: prices are {{"model": price, ...}}')
    return checked_prices(values, models, str(path))


def checked_prices(
    values: Mapping[str, Any], models: Sequence[str], where: str = "prices"
) -> dict[str, float]:
    """Return the price of every model, or say which is wrong."""
    prices = {}
    for model in models:
        price = values.get(model)
        good = isinstance(price, (int, float)) and not isinstance(price, bool)
        if price is None or not good or not 0 < price < float("inf"):
            raise UsageError(f"{where}: no positive price of model {model!r} (found {price!r})")
        prices[model] = float(price)
    return prices


def item_units(
    table: ScoreTable,
    units: Mapping[Any, float] | ArrayLike | str | Path | None,
    column: str | None = None,
) -> Floats:
    """Return the size of each item, in the table's order.

    Parameters
    ----------
    table : ScoreTable
    units : mapping, array_like, path or None
        ``{doc_id: units}``; an array in the table's order; a Parquet or CSV file with a column
        ``doc_id``; by default 1 each.
    column : str, optional
        The file's column of units.

    Raises
    ------
    UsageError
        An item has no units, or they are not positive.
    """
    if units is None:
        return np.ones(table.n_items)
    where = "units"
    if isinstance(units, (str, Path)):
        where = f"{units}, column {column}"
        units = _read_units(Path(units), column)
    if isinstance(units, Mapping):
        found = [units.get(doc_id) for doc_id in table.doc_ids]
        values = np.array([np.nan if v is None else v for v in found], dtype=np.float64)
    else:
        values = np.asarray(units, dtype=np.float64)
    if values.shape != (table.n_items,):
        raise UsageError(f"{where}: {values.size} values for {table.n_items} items")
    bad = np.flatnonzero(~(np.isfinite(values) & (values > 0)))
    if len(bad):
        raise UsageError(
            f"{where}: {len(bad)} of {table.n_items} items have no positive units "
            f"(doc_id {table.doc_ids[bad[0]]!r})"
        )
    return values


def read_items(path: Path) -> pa.Table:
    """Read a Parquet or CSV table of items, which has a column ``doc_id``.

    Raises
    ------
    ScoreTableError
        It cannot be read.
    UsageError
        It has no such column.
    """
    import pyarrow as pa

    try:
        if path.suffix == ".csv":
            from pyarrow import csv

            data = csv.read_csv(path)
        else:
            from pyarrow import parquet

            data = parquet.ParquetFile(path).read()
    except (pa.ArrowException, OSError, ValueError) as error:
        raise ScoreTableError(f"{path}: cannot be read as a table of items ({error})") from error
    if "doc_id" not in data.column_names:
        raise UsageError(f"{path}: no column 'doc_id'")
    return data


def _read_units(path: Path, column: str | None) -> dict[Any, float]:
    data = read_items(path)
    numeric = [n for n in data.column_names if n != "doc_id"]
    if column is None or column not in data.column_names:
        given = "no --units_column given" if column is None else f"no column {column!r}"
        raise UsageError(f"{path}: {given}; there are {', '.join(numeric)}")
    values = data[column].to_pylist()
    if not all(v is None or isinstance(v, (int, float)) for v in values):
        raise UsageError(f"{path}: column {column!r} is not numeric")
    return dict(zip(data["doc_id"].to_pylist(), values))

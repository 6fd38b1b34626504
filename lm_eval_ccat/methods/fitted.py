"""What a calibration method needs and returns; `calibrate` puts the provenance around it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import BankError
from ..scores.table import ScoreTable


@dataclass(frozen=True)
class Fitted:
    """Parameters of a response model fitted to a score table.

    Attributes
    ----------
    kept : ndarray of bool, shape (n_items,)
    parameters : dict of str to ndarray, first axis n_items
    constants : dict of JSON values
    report : dict
        Facts for the person who calibrates (items removed and why, spread of abilities).
    self_check : dict
        How well the bank predicts models left out of its calibration.
    warnings : tuple of str
    """

    kept: NDArray[np.bool_]
    parameters: dict[str, NDArray[np.float64]]
    constants: dict[str, Any]
    report: dict[str, Any] = field(default_factory=dict)
    self_check: dict[str, Any] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()


def require_scores(table: ScoreTable) -> None:
    """Refuse a table in which an item or a model has no score at all.

    Parameters
    ----------
    table : ScoreTable

    Raises
    ------
    BankError
        Naming the item or model.
    """
    empty = np.flatnonzero(table.overview.item_count == 0)
    if len(empty):
        raise BankError(
            f"no model has a score on doc_id {table.doc_ids[empty[0]]!r}"
            + (f" and {len(empty) - 1} more" if len(empty) > 1 else "")
            + ": calibrate on items that were run"
        )
    silent = np.flatnonzero(table.overview.model_count == 0)
    if len(silent):
        name = table.models[int(silent[0])]
        raise BankError(f"model {name!r} has no score at all: leave it out")

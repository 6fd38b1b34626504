"""Scores read for a bank: of its metric, task and filter, on its scale."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ..bank import ItemBank
from ..scores import ScoreTable
from ..scores.item_scaling import ItemScaling


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

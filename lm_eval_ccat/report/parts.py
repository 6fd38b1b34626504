"""What a ranking over several metrics or tasks says of each of them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..content import RankingContent
from .axes import decimals_for


@dataclass(frozen=True)
class PartCell:
    """A model in one part: texts, and the estimate itself."""

    estimate: str
    error: str
    rank: str
    value: float


@dataclass(frozen=True)
class PartColumn:
    """One metric or task ("metric", "task"), its weight as a text, and the order by it."""

    kind: str
    name: str
    weight: str
    ranking: str


@dataclass(frozen=True)
class Parts:
    """Every part beside each other; a row a model, in the order of the whole.

    Attributes
    ----------
    columns : list of PartColumn
    rows : dict of model to list of (PartCell or None)
        A cell per column; None for a model that was not asked.
    only : bool
        Whether all of them are metrics.
    """

    columns: list[PartColumn]
    rows: dict[str, list[PartCell | None]]
    only: bool


def parts(result: RankingContent) -> Parts | None:
    """What each metric and task says by itself; None for one metric of one task."""
    blocks = [
        *(("task", name, block) for name, block in (result.get("tasks") or {}).items()),
        *(("metric", name, block) for name, block in (result.get("outcomes") or {}).items()),
        *(("metric", name, block) for name, block in (result.get("further") or {}).items()),
    ]
    if not blocks:
        return None
    weights = result.get("weights") or {}
    columns = [
        PartColumn(
            kind, name, f"{block.get('weight', weights.get(name, 0.0)):.3g}", block["ranking"]
        )
        for kind, name, block in blocks
    ]
    models = dict.fromkeys([*result["order"], *result["models"]])
    rows = {m: [_cell(block, m) for _, _, block in blocks] for m in models}
    return Parts(columns, rows, {c.kind for c in columns} == {"metric"})


def _cell(block: RankingContent, model: str) -> PartCell | None:
    one = block["models"].get(model)
    if one is None or not one["n_items"]:
        return None
    errors = [b["standard_error"] for b in block["models"].values() if b["n_items"]]
    decimals = decimals_for(float(np.median(errors)))
    return PartCell(
        f"{one['estimate']:.{decimals}f}",
        f"{one['standard_error']:.{decimals}f}",
        str(one["rank"] or ""),
        one["estimate"],
    )

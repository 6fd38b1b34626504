"""The board of a ranking over several tasks: the average, every group and every task."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ..ranker import Ranking

#: Items below which a score by itself says too little to be shown.
FEWEST_ITEMS = 5


def board_of(ranking: Ranking) -> list[dict[str, Any]]:
    """One entry per column: the average first, then groups, then tasks.

    Parameters
    ----------
    ranking : Ranking
        Of several tasks, its parts on their own scales.

    Returns
    -------
    list of dict
        ``name``, ``kind`` ("average", "group" or "task"), ``weight`` (of a task), ``items`` of the
        benchmark, and ``models``: by name ``estimate``, ``standard_error`` and ``items``, or only
        ``items`` where they are too few (``too_few``) for a score of their own.
    """
    total = sum(ranking.weights.values())
    columns = [_column("average", "average", ranking, ranking.known)]
    columns += [_column(name, "group", part) for name, part in ranking.groups.items()]
    for name, part in ranking.tasks.items():
        columns.append(
            {**_column(name, "task", part), "weight": ranking.weights.get(name, 0.0) / total}
        )
    return columns


def _column(name: str, kind: str, part: Ranking, known: Iterable[str] = ()) -> dict[str, Any]:
    return {
        "name": name,
        "kind": kind,
        "items": part.n_items,
        "models": {model: _cell(part, model, model in set(known)) for model in part.estimates},
    }


def _cell(part: Ranking, model: str, known: bool) -> Mapping[str, Any]:
    n = len(part.items.get(model, ()))
    if n < min(FEWEST_ITEMS, part.n_items) and not known:
        return {"items": n, "too_few": True}
    return {
        "items": n,
        "estimate": float(part.scale.restore(part.estimates[model])),
        "standard_error": float(part.scale.restore_error(part.standard_errors[model])),
        "too_few": False,
    }

"""What a ranking over several metrics or tasks says of each of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from .axes import decimals_for


def parts(result: Mapping[str, Any]) -> dict[str, Any] | None:
    """Every metric's and task's estimates beside each other, and the order by each.

    Returns
    -------
    dict or None
        ``columns`` (``kind``, ``name``, ``weight``, ``ranking``) and ``rows`` (``name`` and one
        cell per column: ``estimate``, ``error`` and ``rank`` as texts, ``value``, or None for a
        model that was not asked); None for a ranking by one metric of one task.
    """
    blocks = [
        (kind, name, block)
        for kind, key in (("task", "tasks"), ("metric", "outcomes"), ("metric", "further"))
        for name, block in (result.get(key) or {}).items()
    ]
    if not blocks:
        return None
    weights = result.get("weights") or {}
    columns = [
        {
            "kind": kind,
            "name": name,
            "weight": f"{block.get('weight', weights.get(name, 0.0)):.3g}",
            "ranking": block["ranking"],
        }
        for kind, name, block in blocks
    ]
    rows = [
        {"name": m, "cells": [_cell(block, m) for _, _, block in blocks]} for m in result["models"]
    ]
    place = {m: n for n, m in enumerate(result["order"])}
    rows.sort(key=lambda row: place.get(row["name"], len(place)))
    return {"columns": columns, "rows": rows, "only": {kind for kind, _, _ in blocks} == {"metric"}}


def _cell(block: Mapping[str, Any], model: str) -> dict[str, object] | None:
    one = block["models"].get(model)
    if one is None or not one["n_items"]:
        return None
    errors = [b["standard_error"] for b in block["models"].values() if b["n_items"]]
    decimals = decimals_for(float(np.median(errors)))
    return {
        "estimate": f"{one['estimate']:.{decimals}f}",
        "error": f"{one['standard_error']:.{decimals}f}",
        "rank": str(one["rank"] or ""),
        "value": one["estimate"],
    }

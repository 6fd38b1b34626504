"""The chart of a ranking that may stand in a paper: a drawing that needs nothing from its page."""

from __future__ import annotations

from typing import Any

import numpy as np

from .axes import axis, decimals_for
from .decision import rank_rows
from .run import Run
from .words import whole_percent

_WIDTH = 720
_PLOT = 300
_LETTER = 6.3  # pixels of a letter at 11 px
_LONGEST = 44


def figure(run: Run) -> dict[str, Any]:
    """What the drawing's template prints: one row per model that was asked, in the order.

    Returns
    -------
    dict
        Sizes in pixels, labels, and rows of ``name``, ``x``, ``low`` and ``high`` (pixels),
        ``estimate``, ``ranks`` and ``best`` (texts).
    """
    result = run.result
    blocks = result["models"]
    order = [m for m in result["order"] if m in set(run.tested)]
    ends = [v for m in order for v in blocks[m]["interval"]]
    scale = axis(ends, 5)
    ranks = {r["name"]: r for r in (rank_rows(result) or {"rows": []})["rows"]}
    errors = [blocks[m]["standard_error"] for m in order]
    decimals = decimals_for(float(np.median(errors))) if errors else 3
    names = {m: m if len(m) <= _LONGEST else f"{m[: _LONGEST - 1]}…" for m in order}
    left = round(24 + _LETTER * max((len(n) for n in names.values()), default=4))
    row = 20 if len(order) <= 40 else 14

    def x(value: float) -> float:
        return round(left + _PLOT * scale.place(value) / 100.0, 2)

    rows = []
    for n, m in enumerate(order):
        low, high = blocks[m]["interval"]
        chance = blocks[m].get("p_best")
        rows.append(
            {
                "name": names[m],
                "y": 24 + row * n + row // 2,
                "x": x(blocks[m]["estimate"]),
                "low": x(low),
                "high": x(high),
                "estimate": f"{blocks[m]['estimate']:.{decimals}f}",
                "ranks": ranks[m]["ranks"] if m in ranks else "",
                "best": "" if chance is None or m not in ranks else whole_percent(chance) + "%",
            }
        )
    bottom = 24 + row * len(rows)
    return {
        "width": max(_WIDTH, left + _PLOT + 190),
        "height": bottom + 40,
        "left": left,
        "right": left + _PLOT,
        "bottom": bottom,
        "font": 11 if row == 20 else 10,
        "ticks": [{"x": x(t), "label": label} for t, label in zip(scale.ticks, scale.labels)],
        "axis": f"{run.facts['metric']}, {100 * result['confidence']:g}% interval"
        + ("" if run.scale.higher_is_better else " (lower is better)"),
        "rows": rows,
        "name": str((run.header.get("task") or {}).get("name") or "ranking"),
    }

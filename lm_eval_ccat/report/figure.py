"""The chart of a ranking that may stand in a paper: a drawing that needs nothing from its page."""

from __future__ import annotations

from typing import Any

from .axes import axis
from .run import Run
from .tables import model_cells

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
    cells = [r for r in model_cells(result) if r.rank and not r.known]
    scale = axis([v for r in cells for v in (r.low_value, r.high_value)], 5)
    several = len(result["order"]) > 1
    names = [r.name if len(r.name) <= _LONGEST else f"{r.name[: _LONGEST - 1]}…" for r in cells]
    left = round(24 + _LETTER * max(map(len, names), default=4))
    row = 20 if len(cells) <= 40 else 14

    def x(value: float) -> float:
        return round(left + _PLOT * scale.place(value) / 100.0, 2)

    rows = [
        {
            "name": name,
            "y": 24 + row * n + row // 2,
            "x": x(r.value),
            "low": x(r.low_value),
            "high": x(r.high_value),
            "estimate": r.estimate,
            "ranks": r.ranks if several and r.best else "",
            "best": r.chance if several and r.best else "",
        }
        for n, (name, r) in enumerate(zip(names, cells))
    ]
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

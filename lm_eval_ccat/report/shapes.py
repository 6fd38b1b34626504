"""Shapes of the page's charts, in per cent of their width and height; templates draw them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from ..bank import ItemBank
from ..methods.registry import method_of
from .axes import Axis, axis, between
from .replay import History
from .run import StoredRun

#: Places and labels along an axis, as templates take them.
Ticks = list[dict[str, Any]]
#: Models drawn in colour when the page opens; the others are grey until they are chosen.
COLOURED = 5
BUMP_LABELS = 40


def path(xs: Sequence[float], ys: Sequence[float]) -> str:
    """An SVG path through the points; a NaN breaks the line.

    Examples
    --------
    >>> path([0, 50, 100], [0, math.nan, 10])
    'M0 0M100 10'
    """
    parts: list[str] = []
    pen = "M"
    for x, y in zip(xs, ys):
        if not (math.isfinite(x) and math.isfinite(y)):
            pen = "M"
            continue
        parts.append(f"{pen}{x:g} {y:g}")
        pen = "L"
    return "".join(parts)


def band(xs: Sequence[float], low: Sequence[float], high: Sequence[float]) -> str:
    """A closed SVG path between two lines; points where either is NaN are left out."""
    points = [p for p in zip(xs, low, high) if all(map(math.isfinite, p))]
    if len(points) < 2:
        return ""
    forth = "L".join(f"{x:g} {y:g}" for x, _, y in points)
    back = "L".join(f"{x:g} {y:g}" for x, y, _ in reversed(points))
    return f"M{forth}L{back}Z"


def ticks(scale: Axis, down: bool = False) -> Ticks:
    """Ticks of an axis with their place; `down` for a vertical axis, whose 0 is at the top."""
    return [
        {"at": round(100.0 - scale.place(t), 3) if down else scale.place(t), "label": label}
        for t, label in zip(scale.ticks, scale.labels)
    ]


def progress(run: StoredRun, past: History) -> dict[str, Any]:
    """The estimates, the order and what was undecided, over the items spent."""
    models = run.models
    x_axis = between(0, past.items[-1])
    xs = [x_axis.place(n) for n in past.items]
    # The first intervals span the whole scale; the view follows the intervals of the last third.
    late = len(past.items) // 3
    seen = [v for m in models for ends in (past.low, past.high) for v in ends[m][late:]]
    y_axis = axis([*seen, *(v for m in models for v in past.estimates[m][late:])])
    size = max(len(models), 2)

    def up(values: Sequence[float]) -> list[float]:
        return [round(100.0 - y_axis.share(v), 3) if math.isfinite(v) else math.nan for v in values]

    colour = {m: j for j, m in enumerate(run.tested[:COLOURED])}
    lines = [
        {
            "index": j,
            "name": m,
            "colour": colour.get(m),
            "line": path(xs, up(past.estimates[m])),
            "band": band(xs, up(past.low[m]), up(past.high[m])),
            "bump": path(xs, [_bump(r, size) for r in past.ranks[m]]),
            "bump_end": _bump(past.ranks[m][-1], size),
        }
        for j, m in enumerate(models)
    ]
    pairs = between(0, 1.12 * max(1, *past.undecided), 3)
    width = axis([0.0, *past.half_width[late // 2 :]], 3, pad=0.0)
    return {
        "x": ticks(x_axis),
        "y": ticks(y_axis, down=True),
        "lines": lines,
        "bump_height": 30 * size if size <= BUMP_LABELS else 520,
        "bump_labels": size <= BUMP_LABELS,
        "undecided": _area(xs, [100.0 - pairs.place(v) for v in past.undecided]),
        "undecided_y": ticks(pairs, down=True),
        "half_width": _area(xs, [round(100.0 - width.share(v), 3) for v in past.half_width]),
        "half_width_y": ticks(width, down=True),
        "last_undecided": past.undecided[-1],
        "first_undecided": past.undecided[0],
        "asked": past.items[-1],
    }


def _bump(rank: int, size: int) -> float:
    return math.nan if rank == 0 else round(100.0 * (rank - 0.5) / size, 3)


def _area(xs: Sequence[float], ys: Sequence[float]) -> dict[str, str]:
    return {"line": path(xs, ys), "area": band(xs, [100.0] * len(xs), ys)}


def information_chart(run: StoredRun) -> dict[str, Any]:
    """The bank's information over ability, and where each model and its items lie on it."""
    bank = run.bank
    assert bank is not None
    results = run.result["models"]
    abilities = np.array([results[m]["ability"] for m in run.tested], dtype=float)
    curve = information_curve(bank, abilities)
    x_axis = between(float(curve.ability[0]), float(curve.ability[-1]), 6)
    top = between(0.0, float(curve.total.max()) * 1.08 or 1.0, 3)
    xs = [x_axis.place(v) for v in curve.ability]
    items: dict[str, list[int]] = {m: [] for m in run.tested}
    for answer in run.answers:
        items[answer.model].append(bank.index[answer.doc])
    rows = [
        {
            "name": m,
            "at": x_axis.place(ability),
            "low": x_axis.place(ability - results[m]["ability_standard_error"]),
            "high": x_axis.place(ability + results[m]["ability_standard_error"]),
            "ability": ability,
            "error": results[m]["ability_standard_error"],
            "asked": len(items[m]),
            "ticks": _tick_path(curve.location[items[m]], x_axis),
        }
        for m, ability in zip(run.tested, abilities.tolist())
    ]
    return {
        "x": ticks(x_axis),
        "y": ticks(top, down=True),
        **_area(xs, [100.0 - top.place(v) for v in curve.total]),
        "peak": float(curve.ability[int(np.argmax(curve.total))]),
        "all_items": _tick_path(curve.location[bank.kept], x_axis),
        "rows": rows,
        "kept": int(bank.kept.sum()),
    }


def _tick_path(locations: NDArray[np.float64], x_axis: Axis) -> str:
    """Vertical ticks 10 high; places are rounded, and ticks on one another are drawn once."""
    places = {round(x_axis.place(float(v)), 1) for v in locations if np.isfinite(v)}
    return "".join(f"M{x:g} 0V10" for x in sorted(places))


Floats = NDArray[np.float64]

GRID = 161
#: Logits by which the curve goes beyond the models and the bulk of the items.
MARGIN = 0.5
#: Items looked at together, so that a bank of 100,000 needs no matrix of all items and abilities.
SLICE = 4096


@dataclass(frozen=True)
class InformationCurve:
    """Information of the items kept, over ability.

    Attributes
    ----------
    ability : ndarray, shape (G,)
        In logits, ascending.
    total : ndarray, shape (G,)
        Sum of the items' information, in 1 / logit^2.
    location : ndarray, shape (n_items,)
        Ability of `ability` at which each item is most informative, in logits; NaN for items
        removed.
    """

    ability: Floats
    total: Floats
    location: Floats


def difficulty(bank: ItemBank) -> Floats:
    """Ability at which an item's expected score is 1/2, by the straight part of its curve (logits).

    NaN where an item has no slope; shape (n_items,).
    """
    curves = method_of(bank).tested_curves(bank)
    intercept, slope = curves.coefficients[:, 0], curves.coefficients[:, 1]
    return np.asarray(curves.origin - intercept / np.where(np.abs(slope) > 1e-6, slope, np.nan))


def discrimination(bank: ItemBank) -> Floats:
    """Slope over the root of the noise, in 1 / logit; shape (n_items,)."""
    curves = method_of(bank).tested_curves(bank)
    return np.asarray(curves.coefficients[:, 1] / np.sqrt(curves.noise))


def information_curve(bank: ItemBank, abilities: Floats) -> InformationCurve:
    """The bank's information around the given abilities.

    An item's information about ability is ``(d eta / d theta)^2 mu (1 - mu) / k``; for the method
    "paper" that is the paper's first term.

    Parameters
    ----------
    bank : ItemBank
    abilities : ndarray
        Abilities of the models to be shown; the curve covers them and the bulk of the items.
    """
    curves, location_of = method_of(bank).tested_curves(bank), difficulty(bank)
    usable = bank.kept & np.isfinite(location_of)
    ends = np.quantile(location_of[usable], [0.1, 0.9]) if usable.any() else np.zeros(1)
    known = np.array(list(bank.constants.get("abilities", []))) + bank.constants.get("centre", 0.0)
    # Items that no model is near say little of where the scale is of use.
    if known.size:
        ends = np.clip(ends, known.min() - 1.0, known.max() + 1.0)
    points = np.concatenate([ends, known, abilities[np.isfinite(abilities)]])
    grid = np.linspace(points.min() - MARGIN, points.max() + MARGIN, GRID)
    total, location = np.zeros(GRID), np.full(bank.n_items, np.nan)
    kept = np.flatnonzero(bank.kept)
    basis = [curves.basis.value_and_slope(float(x)) for x in grid - curves.origin]
    value = np.column_stack([v for v, _ in basis])
    derivative = np.column_stack([d for _, d in basis])
    for start in range(0, len(kept), SLICE):
        rows = kept[start : start + SLICE]
        c = curves.coefficients[rows]
        eta, slope = c @ value, c @ derivative
        mu = expit(eta)
        information = slope**2 * mu * (1.0 - mu) / curves.noise[rows, None]
        total += information.sum(axis=0)
        location[rows] = grid[np.argmax(information, axis=1)]
    return InformationCurve(grid, total, location)

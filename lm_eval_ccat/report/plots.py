"""Charts of runs, banks and replays: SVG as they are, PNG and PDF on request.

What the page draws with styles of its own (the course of a run, where a bank's items lie) is laid
out here once, in per cent of its width and height; its templates and the charts draw that.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, ndtri

from ..bank import ItemBank, SuiteBank
from ..bank.suite import is_suite
from ..content import RankingContent
from ..errors import BankError, UsageError
from ..methods.method import method_of
from .chart import (
    ACCENT,
    BAD,
    COLOURS,
    INK,
    LETTER,
    SOFT,
    TIE_FILL,
    Axis,
    Chart,
    Panel,
    axis,
    band,
    between,
    label,
    path,
)  # fmt: skip
from .replay import History, course, history
from .run import StoredRun, read_run
from .tables import model_cells
from .words import whole_percent

if TYPE_CHECKING:
    from ..ranker import Ranking

__all__ = [
    "Chart",
    "plot_bank",
    "plot_files",
    "plot_information",
    "plot_pairwise",
    "plot_progress",
    "plot_ranking",
    "plot_run",
    "plot_simulation",
]

Floats = NDArray[np.float64]
#: Models drawn in colour when the page opens; the others are grey until they are chosen.
COLOURED = 5
BUMP_LABELS = 40
#: A matrix of more models shows no figures in its cells.
NUMBERS = 16
_PLOT = 300

# -- the ranking ----------------------------------------------------------------------------------


def plot_ranking(ranking: Ranking | StoredRun) -> Chart:
    """Every model that was asked: estimate and interval, possible ranks, P(best).

    Neighbours that are not decided stand on a common ground.

    Parameters
    ----------
    ranking : Ranking or StoredRun

    Examples
    --------
    >>> plot_ranking(ranking).save("ranking", ["svg", "pdf"])   # doctest: +SKIP
    """
    content = _content(ranking)
    rows = [r for r in model_cells(content) if r.rank and not r.known]
    scale = axis([v for r in rows for v in r.row["interval"]], 5)
    step, several = 20 if len(rows) <= 40 else 14, len(content["order"]) > 1
    names = [label(r.name) for r in rows]
    left = round(24 + LETTER * max(map(len, names), default=4))
    right, bottom = left + _PLOT, 24 + step * len(rows)
    words = "Estimates with intervals, possible ranks and P(best) of every model"
    chart = Chart(max(720, right + 190), bottom + 40, words)
    columns = {right + 60: "estimate", right + 115: "rank", right + 175: "P(best)"}
    for x, title in columns.items():
        chart.text(x, 14, title, "end", SOFT)

    def place(value: float) -> float:
        return left + _PLOT * scale.place(value) / 100.0

    for n, r in enumerate(rows):
        if r.tie is not None:
            chart.rect(left, 24 + step * n, _PLOT, step, TIE_FILL, opacity=0.6)
    for value, text in zip(scale.ticks, scale.labels):
        chart.line(place(value), 20, place(value), bottom)
        chart.text(place(value), bottom + 15, text, "middle", SOFT)
    for n, (name, r) in enumerate(zip(names, rows)):
        y = 24 + step * n + step // 2
        chart.text(left - 8, y + 4, name, "end")
        low, high = r.row["interval"]
        chart.line(place(low), y, place(high), y, ACCENT, 2)
        chart.dot(place(r.row["estimate"]), y)
        cells = (r.estimate, r.ranks if several else "", r.chance if several and r.best else "")
        for x, text in zip(columns, cells):
            chart.text(x, y + 4, text, "end")
    chart.line(left, bottom, right, bottom, SOFT)
    metric = ranking.facts["metric"] if isinstance(ranking, StoredRun) else "estimate"
    less = isinstance(ranking, StoredRun) and not ranking.scale.higher_is_better
    tied = ", shaded where not decided" if content["ties"] else ""
    chart.text(
        (left + right) / 2, bottom + 32, anchor="middle", colour=SOFT,
        words=f"{metric}, {100 * content['confidence']:g}% interval"
        + " (lower is better)" * less + tied,
    )  # fmt: skip
    return chart


def plot_pairwise(ranking: Ranking | StoredRun) -> Chart:
    """Matrix of ``P(row better than column)``, best model first; decided pairs are framed."""
    content = _content(ranking)
    order = content["order"]
    place = {m: i for i, m in enumerate(order)}
    side = 30.0 if len(order) <= NUMBERS else max(4.0, 480 / len(order))
    names = [label(f"{n} {m}") for n, m in enumerate(order, start=1)]
    left = 24 + LETTER * max(map(len, names), default=4)
    size = side * len(order)
    chart = Chart(left + size + 20, size + 60, "How probably each model is better than each other")
    chart.text(left, 14, "P(row better than column), %", colour=SOFT)
    for n, name in enumerate(names):
        small = None if side >= 11 else max(3.0, side)
        chart.text(left - 8, 30 + side * (n + 0.5) + 4, name, "end", size=small)
        if len(order) <= NUMBERS:
            chart.text(left + side * (n + 0.5), size + 46, str(n + 1), "middle", SOFT)
    for pair in content["pairwise"]:
        p, x, y = pair["p"], left + side * place[pair["b"]], 30 + side * place[pair["a"]]
        decided = pair.get("decision") == "decided" and len(order) <= NUMBERS
        strength = round(abs(p - 0.5) * 1.4, 3)
        chart.rect(x, y, side, side, ACCENT if p > 0.5 else BAD, opacity=strength)
        if decided:
            chart.rect(x + 1.5, y + 1.5, side - 3, side - 3, "none", INK)
        if len(order) <= NUMBERS:
            chart.text(x + side / 2, y + side / 2 + 4, whole_percent(p), "middle")
    return chart


# -- the course of a run --------------------------------------------------------------------------


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

    def bump(rank: int) -> float:
        return math.nan if rank == 0 else round(100.0 * (rank - 0.5) / size, 3)

    colour = {m: j for j, m in enumerate(run.tested[:COLOURED])}
    lines = [
        {
            "index": j,
            "name": m,
            "colour": colour.get(m),
            "line": path(xs, up(past.estimates[m])),
            "band": band(xs, up(past.low[m]), up(past.high[m])),
            "bump": path(xs, [bump(r) for r in past.ranks[m]]),
            "bump_end": bump(past.ranks[m][-1]),
        }
        for j, m in enumerate(models)
    ]
    pairs = between(0, 1.12 * max(1, *past.undecided), 3)
    width = axis([0.0, *past.half_width[late // 2 :]], 3, pad=0.0)
    return {
        "x": x_axis,
        "y": y_axis,
        "lines": lines,
        "bump_height": 30 * size if size <= BUMP_LABELS else 520,
        "bump_labels": size <= BUMP_LABELS,
        "undecided": _area(xs, [100.0 - pairs.place(v) for v in past.undecided]),
        "undecided_y": pairs,
        "half_width": _area(xs, [round(100.0 - width.share(v), 3) for v in past.half_width]),
        "half_width_y": width,
        "last_undecided": past.undecided[-1],
        "first_undecided": past.undecided[0],
        "asked": past.items[-1],
    }


def _area(xs: Sequence[float], ys: Sequence[float]) -> dict[str, str]:
    return {"line": path(xs, ys), "area": band(xs, [100.0] * len(xs), ys)}


def plot_progress(run: StoredRun, past: History | None = None) -> Chart:
    """How estimates, order and open pairs developed as answers came in.

    Parameters
    ----------
    run : StoredRun
        A run directory as `read_run` reads it, with its bank.
    past : History, optional
        The run's course, if there is one.
    """
    laid = progress(run, past or history(run))
    chart = Chart(940, 620, "The course of the ranking")
    estimates = Panel(
        chart, (50, 30, 400, 300), laid["x"], laid["y"], f"Estimate of {run.facts['metric']}"
    )
    places = Panel(chart, (490, 30, 260, 300), laid["x"], title="Place in the order")
    for line in reversed(laid["lines"]):
        vivid = line["colour"] is not None
        colour = COLOURS[line["colour"] % len(COLOURS)] if vivid else SOFT
        look = {"stroke": colour} if vivid else {"stroke": colour, "width": 0.7, "opacity": 0.4}
        if vivid:
            estimates.shape(line["band"], fill=colour, opacity=0.09)
            chart.text(758, 34 + 3 * line["bump_end"], label(line["name"], 26), colour=colour)
        estimates.shape(line["line"], **look)
        places.shape(line["bump"], **look)
    for left, name, title in (
        (50, "undecided", "Neighbouring pairs not decided"),
        (490, "half_width", "Half width of the median interval"),
    ):
        panel = Panel(chart, (left, 400, 400, 160), laid["x"], laid[f"{name}_y"], title)
        panel.shape(laid[name]["area"], fill=ACCENT, opacity=0.14)
        panel.shape(laid[name]["line"], stroke=ACCENT)
    return chart


# -- the items of a bank --------------------------------------------------------------------------


GRID = 161
#: Logits by which the curve goes beyond the models and the bulk of the items.
MARGIN = 0.5
#: Items looked at together, so that a bank of 100,000 needs no matrix of all items and abilities.
SLICE = 4096
#: Items of a bank that are drawn as points.
MOST_POINTS = 5_000


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


def information_curve(bank: ItemBank, abilities: Floats) -> tuple[Floats, Floats, Floats]:
    """The information of the items kept, over ability.

    An item's information about ability is ``(d eta / d theta)^2 mu (1 - mu) / k``; for the method
    "paper" that is the paper's first term.

    Parameters
    ----------
    bank : ItemBank
    abilities : ndarray
        Abilities of the models to be shown; the curve covers them and the bulk of the items.

    Returns
    -------
    ability : ndarray, shape (G,)
        In logits, ascending.
    total : ndarray, shape (G,)
        Sum of the items' information, in 1 / logit^2.
    location : ndarray, shape (n_items,)
        Ability of `ability` at which each item is most informative, in logits; NaN for items
        removed.
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
    return grid, total, location


def information_chart(run: StoredRun) -> dict[str, Any]:
    """The bank's information over ability, and where each model and its items lie on it."""
    bank = run.bank
    assert bank is not None
    results = run.result["models"]
    abilities = np.array([results[m]["ability"] for m in run.tested], dtype=float)
    grid, total, location = information_curve(bank, abilities)
    x_axis = between(float(grid[0]), float(grid[-1]), 6)
    top = between(0.0, float(total.max()) * 1.08 or 1.0, 3)
    xs = [x_axis.place(v) for v in grid]
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
            "ticks": _tick_path(location[items[m]], x_axis),
        }
        for m, ability in zip(run.tested, abilities.tolist())
    ]
    return {
        "x": x_axis,
        "y": top,
        **_area(xs, [100.0 - top.place(v) for v in total]),
        "peak": float(grid[int(np.argmax(total))]),
        "all_items": _tick_path(location[bank.kept], x_axis),
        "rows": rows,
        "kept": int(bank.kept.sum()),
    }


def _tick_path(locations: Floats, x_axis: Axis) -> str:
    """Vertical ticks 10 high; places are rounded, and ticks on one another are drawn once."""
    places = {round(x_axis.place(float(v)), 1) for v in locations if np.isfinite(v)}
    return "".join(f"M{x:g} 0V10" for x in sorted(places))


def plot_information(run: StoredRun) -> Chart:
    """The bank's information over ability, with every model's ability and items below it."""
    laid = information_chart(run)
    names = [label(row["name"], 30) for row in laid["rows"]]
    left = 34 + LETTER * max(map(len, names), default=4)
    bottom = 300 + 20 * len(names)
    chart = Chart(left + 520, bottom + 20, "Where on the ability scale the bank's items are of use")
    panel = Panel(chart, (left, 30, 500, 220), laid["x"], laid["y"], "Information of all items")
    panel.shape(laid["area"], fill=ACCENT, opacity=0.14)
    panel.shape(laid["line"], stroke=ACCENT)
    chart.text(left + 500, 282, "ability (logits)", "end", SOFT)
    for n, (name, row) in enumerate(zip(names, laid["rows"])):
        y = 300 + 20 * n
        chart.text(left - 8, y + 4, name, "end")
        for at in re.findall(r"M([\d.]+) ", row["ticks"]):
            chart.line(left + 5 * float(at), y - 8, left + 5 * float(at), y + 8)
        chart.line(left + 5 * row["low"], y, left + 5 * row["high"], y, ACCENT, 2)
        chart.dot(left + 5 * row["at"], y)
    return chart


def plot_bank(bank: ItemBank) -> Chart:
    """Difficulty, discrimination and information of a bank.

    Examples
    --------
    >>> plot_bank(bank).save("bank")  # doctest: +SKIP
    """
    chart = Chart(880, 320, "The items of a bank")
    grid, total, _ = information_curve(bank, np.array([]))
    up = between(0.0, 1.08 * float(total.max()) or 1.0, 4)
    title = "Information of all items (1 / logit²)"
    panel = Panel(
        chart, (490, 30, 340, 230), between(float(grid[0]), float(grid[-1]), 6), up, title,
        "ability (logits)",
    )  # fmt: skip
    panel.band(grid, [0.0] * len(grid), total)
    panel.curve(grid, total)
    _draw_items(chart, bank)
    return chart


def _draw_items(chart: Chart, bank: ItemBank) -> None:
    hard, sharp = difficulty(bank)[bank.kept], discrimination(bank)[bank.kept]
    box = (60, 30, 340, 230)
    across = axis(np.nanquantile(hard, [0.01, 0.99]).tolist(), 6)
    if np.ptp(sharp) < 1e-9:
        count, edges = np.histogram(hard[np.isfinite(hard)], 40, (across.low, across.high))
        title = f"Difficulty of {len(hard):,} items, discrimination {sharp[0]:.2f}"
        panel = Panel(
            chart, box, across, between(0, max(1, 1.05 * count.max()), 4), title,
            "difficulty (logits)",
        )  # fmt: skip
        for n, low, high in zip(count.tolist(), edges, edges[1:]):
            top = panel.y(n)
            chart.rect(panel.x(low), top, panel.x(high) - panel.x(low), panel.y(0) - top, ACCENT)
        return
    title = f"Difficulty and discrimination of {len(hard):,} items"
    panel = Panel(chart, box, across, axis(sharp.tolist(), 5), title, "difficulty (logits)")
    step = max(1, len(hard) // MOST_POINTS)
    for at, up in zip(hard[::step].tolist(), sharp[::step].tolist()):
        if across.low <= at <= across.high:
            chart.dot(panel.x(at), panel.y(up), 2, opacity=0.4)


# -- replays --------------------------------------------------------------------------------------

#: Methods that are ours or the paper's keep their colour from chart to chart.
FIRST = ("default", "paper", "common", "static", "limit", "fixed", "random")
BAND = 0.95


def plot_simulation(*simulations: Any) -> Chart:
    """Kendall tau and accuracy of decided pairs over items per model, with 95% bands.

    Parameters
    ----------
    *simulations : Simulation, mapping or path
        What `simulate` returned, its ``to_dict``, or the file of ``--json``. Replays of one score
        table at several budgets make one curve.

    Examples
    --------
    >>> plot_simulation("sim.json").save("sim")  # doctest: +SKIP
    """
    contents = [_replayed(one) for one in simulations]
    points: dict[str, list[dict[str, Any]]] = {}
    for one in contents:
        for method, levels in one["sweep"].items():
            points.setdefault(method, []).extend(levels)
    methods = [*(m for m in FIRST if m in points), *(m for m in points if m not in FIRST)]
    lines = [_curve(sorted(points[m], key=lambda p: p["items_per_model"])) for m in methods]
    wanted = (contents[0].get("settings") or {}).get("confidence")
    most = max((float(line["x"].max()) for line in lines), default=1.0)
    across = between(0.0, 1.04 * most, 5)
    taus = [v for line in lines for v in (*line["low"], *line["high"])]
    shares = [100 * v for line in lines for v in (*line["right_low"], 1.0)]
    chart = Chart(940, 330, "Agreement with the true order over items per model")
    left = Panel(
        chart, (50, 30, 340, 240), across, between(min([0.0, *taus]), 1.02, 5),
        "Kendall tau with the true order", "items per model",
    )  # fmt: skip
    right = Panel(
        chart, (450, 30, 340, 240), across, axis([*shares, *([100 * wanted] if wanted else [])], 5),
        "Decided pairs in the true order, %", "items per model",
    )  # fmt: skip
    for n, (method, line) in enumerate(zip(methods, lines)):
        colour = COLOURS[n % len(COLOURS)]
        left.band(line["x"], line["low"], line["high"], colour)
        left.curve(line["x"], line["tau"], colour, dots=True)
        right.band(line["right_x"], 100 * line["right_low"], 100 * line["right_high"], colour)
        right.curve(line["right_x"], 100 * line["right"], colour, dots=True)
        chart.line(806, 36 + 18 * n, 826, 36 + 18 * n, colour, 2)
        chart.text(832, 40 + 18 * n, method)
    if wanted:
        chart.line(450, right.y(100 * wanted), 790, right.y(100 * wanted), SOFT, 1, "4 3")
    return chart


def _curve(levels: Sequence[Mapping[str, Any]]) -> dict[str, Floats]:
    """One method's figures and bands over items per model."""
    z = float(ndtri((1 + BAND) / 2))
    use = [v for v in levels if v["tau"] is not None]
    tau = np.array([v["tau"] for v in use], dtype=float)
    se = np.array([v.get("tau_se") or 0.0 for v in use], dtype=float)
    sure = [v for v in levels if v.get("confident_accuracy") is not None]
    right = np.array([v["confident_accuracy"] for v in sure], dtype=float)
    low, high = wilson(right, np.array([v["confident_pairs"] for v in sure], dtype=float), z)
    return {
        "x": np.array([v["items_per_model"] for v in use], dtype=float),
        "tau": tau, "low": tau - z * se, "high": np.minimum(tau + z * se, 1.0),
        "right_x": np.array([v["items_per_model"] for v in sure], dtype=float),
        "right": right, "right_low": low, "right_high": high,
    }  # fmt: skip


def wilson(share: Any, count: Any, z: float) -> tuple[Any, Any]:
    """Wilson's interval of a share seen in `count` trials.

    Examples
    --------
    >>> low, high = wilson(np.array([1.0]), np.array([20.0]), 1.96)
    >>> round(float(low[0]), 2), round(float(high[0]), 2)
    (0.84, 1.0)
    """
    n = np.maximum(count, 1.0)
    middle = share + z**2 / (2 * n)
    half = z * np.sqrt(share * (1 - share) / n + z**2 / (4 * n**2))
    scale = 1 + z**2 / n
    return (middle - half) / scale, (middle + half) / scale


def _replayed(source: Any) -> Mapping[str, Any]:
    """What `simulate` returned as JSON values, from it or from the file of ``--json``."""
    if not isinstance(source, str | Path):
        return source if isinstance(source, Mapping) else dict(source.to_dict())
    try:
        content = json.loads(Path(source).read_bytes())
    except (OSError, ValueError) as error:
        raise UsageError(f"{source}: not a readable JSON file ({error})") from None
    if not isinstance(content, dict) or not isinstance(content.get("sweep"), dict):
        raise UsageError(f"{source}: not a file of `lm-eval-ccat simulate --json`")
    return content


# -- files ----------------------------------------------------------------------------------------


def plot_run(
    run: StoredRun | str | Path, folder: str | Path, formats: Sequence[str] = ("svg",)
) -> list[Path]:
    """Write every chart of a run: ranking, pairs, course, information.

    Returns
    -------
    list of Path
        The files; those that need more than one model, an answer or the bank are left out without.
    """
    if not isinstance(run, StoredRun):
        run = read_run(run)
    charts = {"ranking": plot_ranking(run)}
    if len(run.result["order"]) > 1:
        charts["pairs"] = plot_pairwise(run)
    if run.answers and (past := course(run)) is not None:
        charts["course"] = plot_progress(run, past)
    if run.answers and run.has_curves:
        charts["information"] = plot_information(run)
    return [p for name, c in charts.items() for p in c.save(Path(folder) / name, formats)]


def plot_files(
    paths: Sequence[Path], folder: str | Path, formats: Sequence[str] = ("svg",)
) -> list[Path]:
    """Write the charts of a bank or suite, or of one or several files of ``simulate --json``.

    Raises
    ------
    UsageError
        The files are neither.
    """
    folder = Path(folder)
    if len(paths) == 1:
        if is_suite(paths[0]):
            banks = {
                file.name.removesuffix(".bank.json"): ItemBank.load(file)
                for file in SuiteBank.files(paths[0]).values()
            }
            charts = {name: plot_bank(bank) for name, bank in banks.items()}
            return [p for name, c in charts.items() for p in c.save(folder / name, formats)]
        try:
            return plot_bank(ItemBank.load(paths[0])).save(folder / "bank", formats)
        except BankError as error:
            if "not an item bank" not in str(error):
                raise
    try:
        chart = plot_simulation(*paths)
    except UsageError as error:
        raise UsageError(f"{error}; charts are made of a run directory, a bank or these") from None
    return chart.save(folder / "simulation", formats)


def _content(ranking: Ranking | StoredRun) -> RankingContent:
    """JSON values of either; estimates on the metric's own scale."""
    return ranking.result if isinstance(ranking, StoredRun) else ranking.to_dict()

"""Charts of a ranking: estimates, pairs, course, information."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ...content import RankingContent
from ..axes import axis
from ..chart import ACCENT, BAD, COLOURS, INK, LETTER, SOFT, TIE_FILL, Chart, frame, label
from ..run import StoredRun
from ..shapes import information_chart, progress
from ..tables import model_cells
from ..words import whole_percent

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from ...ranker import Ranking
    from ..replay import History

#: A matrix of more models shows no figures in its cells.
NUMBERS = 16
_PLOT = 300


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


def plot_progress(run: StoredRun, past: History | None = None) -> Chart:
    """How estimates, order and open pairs developed as answers came in.

    Parameters
    ----------
    run : StoredRun
        A run directory as `read_run` reads it, with its bank.
    past : History, optional
        The run's course, if there is one.
    """
    from ..replay import history

    shapes = progress(run, past or history(run))
    chart = Chart(940, 620, "The course of the ranking")
    boxes = {
        f"Estimate of {run.facts['metric']}": (50, 30, 400, 300, shapes["y"]),
        "Place in the order": (490, 30, 260, 300, ()),
        "Neighbouring pairs not decided": (50, 400, 400, 160, shapes["undecided_y"]),
        "Half width of the median interval": (490, 400, 400, 160, shapes["half_width_y"]),
    }
    areas = [frame(chart, title, shapes["x"], *box) for title, box in boxes.items()]
    for line in reversed(shapes["lines"]):
        vivid = line["colour"] is not None
        colour = COLOURS[line["colour"] % len(COLOURS)] if vivid else SOFT
        look = {"stroke": colour} if vivid else {"stroke": colour, "width": 0.7, "opacity": 0.4}
        if vivid:
            areas[0](line["band"], fill=colour, opacity=0.09)
            chart.text(758, 34 + 3 * line["bump_end"], label(line["name"], 26), colour=colour)
        areas[0](line["line"], **look)
        areas[1](line["bump"], **look)
    for area, name in zip(areas[2:], ("undecided", "half_width")):
        area(shapes[name]["area"], fill=ACCENT, opacity=0.14)
        area(shapes[name]["line"], stroke=ACCENT)
    return chart


def plot_information(run: StoredRun) -> Chart:
    """The bank's information over ability, with every model's ability and items below it."""
    shapes = information_chart(run)
    names = [label(row["name"], 30) for row in shapes["rows"]]
    left = 34 + LETTER * max(map(len, names), default=4)
    bottom = 300 + 20 * len(names)
    chart = Chart(left + 520, bottom + 20, "Where on the ability scale the bank's items are of use")
    box = (left, 30, 500, 220)
    area = frame(chart, "Information of all items", shapes["x"], *box, shapes["y"])
    area(shapes["area"], fill=ACCENT, opacity=0.14)
    area(shapes["line"], stroke=ACCENT)
    chart.text(left + 500, 282, "ability (logits)", "end", SOFT)
    for n, (name, row) in enumerate(zip(names, shapes["rows"])):
        y = 300 + 20 * n
        chart.text(left - 8, y + 4, name, "end")
        for at in re.findall(r"M([\d.]+) ", row["ticks"]):
            chart.line(left + 5 * float(at), y - 8, left + 5 * float(at), y + 8)
        chart.line(left + 5 * row["low"], y, left + 5 * row["high"], y, ACCENT, 2)
        chart.dot(left + 5 * row["at"], y)
    return chart


def plot_run(
    run: StoredRun | str | Path, folder: str | Path, formats: Sequence[str] = ("svg",)
) -> list[Path]:
    """Write every chart of a run: ranking, pairs, course, information.

    Returns
    -------
    list of Path
        The files; those that need more than one model, an answer or the bank are left out without.
    """
    from pathlib import Path

    from ..replay import course
    from ..run import read_run

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


def _content(ranking: Ranking | StoredRun) -> RankingContent:
    """JSON values of either; estimates on the metric's own scale."""
    return ranking.result if isinstance(ranking, StoredRun) else ranking.to_dict()

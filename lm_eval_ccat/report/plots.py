"""Charts of rankings, banks and replays, in SVG and on request in PNG and PDF.

The course of a run and the information of its bank are laid out here, in per cent of width and
height; the page's templates draw them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy.special import expit, ndtri

from ..bank import ItemBank, SuiteBank
from ..bank.suite import is_suite
from ..content import RankingContent
from ..errors import BankError, RunError, UsageError
from ..methods.method import method_of
from ..metrics.scale import Floats, Scale
from ..ranker.columns import ModelCells, model_cells
from ..runs.directory import read_object
from ..shown import exact_percent
from .chart import (
    ACCENT,
    COLOURS,
    LETTER,
    SOFT,
    TIE_FILL,
    Area,
    Axis,
    Box,
    Chart,
    Panel,
    axis,
    between,
    label,
)  # fmt: skip
from .stored_run import Course, StoredRun

if TYPE_CHECKING:
    from ..ranker import Ranking

__all__ = ["Chart", "plot_bank", "plot_files", "plot_ranking", "plot_simulation"]

#: Models drawn in colour when the page opens; the others are grey until they are chosen.
COLOURED = 5
#: Largest number of models whose ranks over the course of the run are labelled.
BUMP_LABELS = 40
#: Width of the intervals of a ranking, in pixels.
_PLOT_WIDTH = 300
#: Where the columns of figures end, in pixels from the right end of the intervals.
_FIGURES = {"estimate": 60, "rank": 115, "P(best)": 175}

# -- the ranking ----------------------------------------------------------------------------------


def plot_ranking(ranking: Ranking | StoredRun) -> Chart:
    """Draw a line for each model that was asked: estimate and interval, possible ranks, P(best).

    Models whose order is not decided share a shaded background.

    Parameters
    ----------
    ranking : Ranking or StoredRun

    Examples
    --------
    >>> plot_ranking(ranking).save("ranking", ["svg", "pdf"])   # doctest: +SKIP
    """
    content = _content(ranking)
    # Models with full results were not measured by this ranking.
    models = [model for model in model_cells(content) if model.rank and not model.known]
    lines = _Lines(models)
    words = "Estimates with intervals, possible ranks and P(best) of every model"
    chart = Chart(max(720, lines.right + 190), lines.bottom + 40, words)
    for title, offset in _FIGURES.items():
        chart.text(lines.right + offset, 14, title, anchor="end", fill=SOFT)
    # Backgrounds first, as what is drawn later covers what is there.
    for n, model in enumerate(models):
        if model.tie is not None:
            y = lines.top_of(n)
            chart.rect(lines.left, y, _PLOT_WIDTH, lines.height, fill=TIE_FILL, fill_opacity=0.6)
    scale = axis([end for model in models for end in model.row["interval"]])
    panel = Panel(chart, Area(lines.left, 20, _PLOT_WIDTH, lines.bottom - 20), scale)
    is_ranked = len(content["order"]) > 1  # a single model has no ranks and no P(best)
    for n, model in enumerate(models):
        y = lines.top_of(n) + lines.height // 2
        baseline = y + 4  # of text that stands in the middle of its line
        chart.text(lines.left - 8, baseline, lines.names[n], anchor="end")
        low, high = model.row["interval"]
        chart.line(panel.x(low), y, panel.x(high), y, stroke=ACCENT, width=2)
        chart.dot(panel.x(model.row["estimate"]), y)
        figures = {
            "estimate": model.estimate,
            "rank": model.ranks if is_ranked else "",
            "P(best)": model.chance if is_ranked and model.best else "",
        }
        for title, figure in figures.items():
            chart.text(lines.right + _FIGURES[title], baseline, figure, anchor="end")
    chart.line(lines.left, lines.bottom, lines.right, lines.bottom, stroke=SOFT)
    middle = (lines.left + lines.right) / 2
    caption = _caption(ranking, content)
    chart.text(middle, lines.bottom + 32, anchor="middle", fill=SOFT, words=caption)
    return chart


class _Lines:
    """Where the lines of models lie, in pixels: names, intervals, and then columns of figures.

    Attributes
    ----------
    names : list of str
        Each model's, as it is drawn.
    height : int
        Of one line.
    left, right : int
        Ends of the plot of intervals.
    bottom : int
        End of the last line.
    """

    def __init__(self, models: Sequence[ModelCells]) -> None:
        self.names = [label(model.name) for model in models]
        # Lines of many models stand closer, so that the chart fits on a page.
        self.height = 20 if len(models) <= 40 else 14
        self.left = round(24 + LETTER * max(map(len, self.names), default=4))
        self.right = self.left + _PLOT_WIDTH
        self.bottom = self.top_of(len(models))

    def top_of(self, n: int) -> int:
        """Return where the line of the model at position `n` begins."""
        return 24 + self.height * n


def _caption(ranking: Ranking | StoredRun, content: RankingContent) -> str:
    """Say what the intervals of a ranking are of."""
    # Only a stored run knows the name of its metric.
    metric = ranking.facts["metric"] if isinstance(ranking, StoredRun) else "estimate"
    higher_is_better = Scale.from_dict(content["scale"]).higher_is_better
    direction = "" if higher_is_better else " (lower is better)"
    shaded = ", shaded where not decided" if content["ties"] else ""
    return f"{metric}, {exact_percent(content['confidence'])} interval{direction}{shaded}"


# -- the course of a run --------------------------------------------------------------------------


def progress(run: StoredRun, course: Course) -> dict[str, Any]:
    """Return what the page draws of a run's course: estimates, order and open pairs over items.

    Parameters
    ----------
    run : StoredRun
    course : Course
        Its ranking at one moment or more (`replayed_course`).

    Returns
    -------
    dict
        The course, a number of each model's colour (None for grey), its ranks (NaN where it has
        none), and the axes of the four charts: estimates, order, open pairs and half width. Of the
        chart of the order (``bump``) also the height in pixels, and whether it names the models.
    """
    models, across = run.models, between(0, course.items[-1])
    # The first intervals span the whole scale; the view follows estimates after the first third,
    # and half widths after the first sixth.
    late = len(course.items) // 3
    ends = [
        value
        for series in (course.low, course.high, course.estimates)
        for model in models
        for value in series[model][late:]
    ]
    size = max(len(models), 2)
    colour = {model: j for j, model in enumerate(run.tested[:COLOURED])}
    return {
        "course": course,
        "colours": {model: colour.get(model) for model in models},
        "ranks": {model: [rank or math.nan for rank in course.ranks[model]] for model in models},
        "estimates": Box(across, axis(ends)),
        "places": Box(across, Axis(size + 0.5, 0.5, (), ())),  # the best at the top
        "undecided": Box(across, between(0, 1.12 * max(1, *course.undecided), n_ticks=3)),
        "half_width": Box(across, axis([0.0, *course.half_width[late // 2 :]], n_ticks=3, pad=0.0)),
        "bump_height": 30 * size if size <= BUMP_LABELS else 520,
        "bump_labels": size <= BUMP_LABELS,
    }


# -- the items of a bank --------------------------------------------------------------------------


#: Number of abilities at which information is computed.
GRID = 161
#: Logits by which the curve goes beyond the models and the bulk of the items.
MARGIN = 0.5
#: Items of one matrix of items and abilities, which for 100,000 items would be too large.
SLICE = 4096
#: Largest number of a bank's items that are drawn as points.
MAX_POINTS = 5_000


def difficulty(bank: ItemBank) -> Floats:
    """Return the ability (logits) at which each item's expected score is 1/2, shape (n_items,).

    It is origin - intercept / slope of the straight part of the item's curve; NaN where the slope
    is about 0.
    """
    curves = method_of(bank).tested_curves(bank)
    intercept, slope = curves.coefficients[:, 0], curves.coefficients[:, 1]
    return np.asarray(curves.origin - intercept / np.where(np.abs(slope) > 1e-6, slope, np.nan))


def discrimination(bank: ItemBank) -> Floats:
    """Return each item's slope over the root of its noise, in 1 / logit; shape (n_items,)."""
    curves = method_of(bank).tested_curves(bank)
    return np.asarray(curves.coefficients[:, 1] / np.sqrt(curves.noise))


class InformationCurve(NamedTuple):
    """Where on the scale of ability the items of a bank tell most.

    Attributes
    ----------
    ability : ndarray, shape (G,)
        In logits, ascending.
    total : ndarray, shape (G,)
        Sum of the items' information, in 1 / logit^2.
    location : ndarray, shape (n_items,)
        Ability of `ability` at which each item is most informative, in logits: an end of it for an
        item whose peak lies beyond; NaN for items removed.
    """

    ability: Floats
    total: Floats
    location: Floats


def information_curve(bank: ItemBank, abilities: Floats) -> InformationCurve:
    """Return the information of the items kept, over ability.

    An item's information about ability is ``(d eta / d theta)^2 mu (1 - mu) / k``, where its curve
    has the logit ``eta``, the expected score ``mu`` and the noise ``k``; for the method "paper"
    that is the paper's first term.

    Parameters
    ----------
    bank : ItemBank
    abilities : ndarray
        Abilities of the models to be shown, in logits; may be empty. The curve covers them and the
        calibration models that the bank knows, and four fifths of the items, those of middle
        difficulty, as far as they lie no more than a logit beyond these calibration models.

    Raises
    ------
    BankError
        The bank's method has no item curves.
    """
    curves, difficulties = method_of(bank).tested_curves(bank), difficulty(bank)
    usable = bank.kept & np.isfinite(difficulties)
    ends = np.quantile(difficulties[usable], [0.1, 0.9]) if usable.any() else np.zeros(1)
    # Abilities of the models that calibrated the bank, which states them less their centre.
    abilities_of_models = np.array(list(bank.constants.get("abilities", [])))
    abilities_of_models = abilities_of_models + bank.constants.get("centre", 0.0)
    # Items far from all models say little of where the scale is of use.
    if abilities_of_models.size:
        ends = np.clip(ends, abilities_of_models.min() - 1.0, abilities_of_models.max() + 1.0)
    points = np.concatenate([ends, abilities_of_models, abilities])
    grid = np.linspace(points.min() - MARGIN, points.max() + MARGIN, GRID)
    total, location = np.zeros(GRID), np.full(bank.n_items, np.nan)
    kept_items = np.flatnonzero(bank.kept)
    basis = [curves.basis.value_and_slope(float(ability)) for ability in grid - curves.origin]
    value = np.column_stack([value for value, _ in basis])
    derivative = np.column_stack([slope for _, slope in basis])
    for start in range(0, len(kept_items), SLICE):
        rows = kept_items[start : start + SLICE]
        coefficients = curves.coefficients[rows]
        eta, slope = coefficients @ value, coefficients @ derivative
        mu = expit(eta)
        information = slope**2 * mu * (1.0 - mu) / curves.noise[rows, None]
        total += information.sum(axis=0)
        location[rows] = grid[np.argmax(information, axis=1)]
    return InformationCurve(grid, total, location)


def information_chart(run: StoredRun) -> dict[str, Any]:
    """Return the bank's information over ability, and where each model and its items lie.

    An item lies at the ability at which it tells most. All models that were asked need an ability
    (`StoredRun.has_curves`).
    """
    bank = run.bank
    assert bank is not None
    results = run.result["models"]
    abilities = np.array([results[model]["ability"] for model in run.tested], dtype=float)
    grid, total, location = information_curve(bank, abilities)
    answers = run.columns
    bank_position = np.array([bank.index[doc] for doc in answers.docs], dtype=int)
    # Positions in the bank of the items that each model answered; `answers.model` numbers `models`.
    items = {
        model: bank_position[answers.doc[answers.model == j]] for j, model in enumerate(run.models)
    }
    box = _box_of(grid, total)
    return {
        "box": box,
        "abilities": grid.tolist(),
        "total": total.tolist(),
        "peak": float(grid[int(np.argmax(total))]),
        "all_places": _places(box, location[bank.kept]),
        "rows": [
            {
                "name": model,
                "ability": ability,
                "error": results[model]["ability_standard_error"],
                "asked": len(items[model]),
                "places": _places(box, location[items[model]]),
            }
            for model, ability in zip(run.tested, abilities.tolist())
        ],
        "kept": int(bank.kept.sum()),
    }


def _places(box: Box, locations: Floats) -> list[float]:
    """Return the distinct places of abilities in per cent of the axis, ascending; without NaN."""
    known = locations[np.isfinite(locations)].tolist()
    return sorted({round(box.x(location), 1) for location in known})


def _box_of(grid: Floats, total: Floats) -> Box:
    """Return the axes of an information curve."""
    # A bank whose items tell nothing still needs an axis of some height.
    up = between(0.0, 1.08 * float(total.max()) or 1.0, n_ticks=3)
    return Box(between(float(grid[0]), float(grid[-1]), n_ticks=6), up)


def plot_bank(bank: ItemBank) -> Chart:
    """Plot difficulty, discrimination and information of the items that a bank keeps.

    Raises
    ------
    BankError
        The bank's method has no item curves.

    Examples
    --------
    >>> plot_bank(bank).save("bank")  # doctest: +SKIP
    """
    chart = Chart(880, 320, "The items of a bank")
    grid, total, _ = information_curve(bank, np.array([]))
    axes, xs, ys = _box_of(grid, total), grid.tolist(), total.tolist()
    title = "Information of all items (1 / logit²)"
    curve = Panel(
        chart, Area(490, 30, 340, 230), axes.across, axes.up, title=title, name="ability (logits)"
    )
    curve.band(xs, ys, opacity=0.14)
    curve.curve(xs, ys)
    difficulties, discriminations = difficulty(bank)[bank.kept], discrimination(bank)[bank.kept]
    # A few items without a slope lie far out, and would press the others together.
    across = axis(np.nanquantile(difficulties, [0.01, 0.99]).tolist(), n_ticks=6)
    # With one discrimination for all items, points would lie on a line; a histogram tells more.
    if np.ptp(discriminations) < 1e-9:
        _draw_histogram(chart, across, difficulties, float(discriminations[0]))
    else:
        _draw_items(chart, across, difficulties, discriminations)
    return chart


#: The panel of a bank's items.
_ITEMS = Area(60, 30, 340, 230)


def _draw_histogram(
    chart: Chart, across: Axis, difficulties: Floats, discrimination: float
) -> None:
    """Draw how many items have each difficulty; those beyond the axis are left out."""
    known = difficulties[np.isfinite(difficulties)]
    counts, edges = np.histogram(known, 40, (across.low, across.high))
    up = between(0, max(1, 1.05 * counts.max()), n_ticks=4)
    title = f"Difficulty of {len(difficulties):,} items, discrimination {discrimination:.2f}"
    panel = Panel(chart, _ITEMS, across, up, title=title, name="difficulty (logits)")
    for n, low, high in zip(counts.tolist(), edges, edges[1:]):
        top = panel.y(n)
        width, height = panel.x(high) - panel.x(low), panel.y(0) - top
        chart.rect(panel.x(low), top, width, height, fill=ACCENT)


def _draw_items(chart: Chart, across: Axis, difficulties: Floats, discriminations: Floats) -> None:
    """Draw items on the axis as points; of more than `MAX_POINTS`, every second, third or so."""
    title = f"Difficulty and discrimination of {len(difficulties):,} items"
    up = axis(discriminations.tolist())
    panel = Panel(chart, _ITEMS, across, up, title=title, name="difficulty (logits)")
    step = math.ceil(len(difficulties) / MAX_POINTS)
    for x, y in zip(difficulties[::step].tolist(), discriminations[::step].tolist()):
        if across.low <= x <= across.high:
            chart.dot(panel.x(x), panel.y(y), radius=2, fill_opacity=0.4)


# -- replays --------------------------------------------------------------------------------------

#: The order in which methods are drawn, and get colours; others follow in that of the simulations.
METHOD_ORDER = ("default", "paper", "common", "static", "limit", "fixed", "random")
#: Confidence of the bands.
BAND = 0.95


def plot_simulation(*simulations: Any) -> Chart:
    """Plot Kendall's tau and the accuracy of decided pairs over items per model, with 95% bands.

    Parameters
    ----------
    *simulations : Simulation, mapping or path
        What `simulate` returned, its ``to_dict``, or the file of ``--json``. Replays of one score
        table at several budgets make one curve.

    Examples
    --------
    >>> plot_simulation("sim.json").save("sim")  # doctest: +SKIP
    """
    contents = [_replayed(simulation) for simulation in simulations]
    curves = _curves_by_method(contents)
    taus = [reading for curve in curves.values() for reading in curve.taus]
    shares = [reading for curve in curves.values() for reading in curve.shares]
    # One line marks the confidence: that of the first simulation.
    confidence = (contents[0].get("settings") or {}).get("confidence")
    confidence_lines = [100 * confidence] if confidence else []
    across = between(0.0, 1.04 * max((reading.n_items for reading in taus), default=1.0))
    chart = Chart(940, 330, "Agreement with the true order over items per model")
    tau_panel = Panel(
        chart, Area(50, 30, 340, 240), across,
        between(min([0.0, *(reading.low for reading in taus)]), 1.02),
        title="Kendall tau with the true order", name="items per model",
    )  # fmt: skip
    share_panel = Panel(
        chart, Area(450, 30, 340, 240), across,
        axis([100.0, *confidence_lines, *(reading.low for reading in shares)]),
        title="Decided pairs in the true order, %", name="items per model",
    )  # fmt: skip
    for n, (method, curve) in enumerate(curves.items()):
        colour = COLOURS[n % len(COLOURS)]
        _draw_readings(tau_panel, curve.taus, colour)
        _draw_readings(share_panel, curve.shares, colour)
        # The legend stands right of both panels.
        chart.line(806, 36 + 18 * n, 826, 36 + 18 * n, stroke=colour, width=2)
        chart.text(832, 40 + 18 * n, method)
    for percent in confidence_lines:
        y = share_panel.y(percent)
        chart.line(450, y, 790, y, stroke=SOFT, stroke_dasharray="4 3")
    return chart


def _draw_readings(panel: Panel, readings: Sequence[Reading], colour: str) -> None:
    """Draw the curve of a method, with its band."""
    # A method that decided no pair has no share of right decisions.
    if not readings:
        return
    n_items = [reading.n_items for reading in readings]
    low, high = [reading.low for reading in readings], [reading.high for reading in readings]
    panel.band(n_items, high, low, fill=colour)
    panel.curve(n_items, [reading.value for reading in readings], stroke=colour, dots=True)


def plot_power(content: Mapping[str, Any]) -> Chart:
    """Plot the smallest difference that is decided, over items of each model.

    Parameters
    ----------
    content : mapping
        What `lm_eval_ccat.live.ranking_run.dry_run` returns.

    Raises
    ------
    UsageError
        The plan is of repeated answers, of which nobody knows beforehand what they decide.

    Examples
    --------
    >>> gaps = {20: {"random": 0.4}, 200: {"random": 0.1}, 900: {"random": 0.0}}
    >>> content = {"smallest_gap_by_items": gaps, "metric": "acc", "chance": 0.8}
    >>> plot_power(content).svg.count("<path")
    1
    """
    by_items = {int(n): gaps for n, gaps in content["smallest_gap_by_items"].items()}
    if not by_items:
        raise UsageError(
            "a plan of repeated answers has no chart: how many answers decide a difference depends "
            "on the noise between repeats, which is not known yet"
        )
    ways = list(next(iter(by_items.values())))
    largest = max(gap for gaps in by_items.values() for gap in gaps.values())
    title = f"Smallest difference in {content['metric']} decided in {content['chance']:.0%}"
    chart = Chart(560, 310, f"{title} of rankings, over items of each model")
    across, up = between(0.0, 1.02 * max(by_items)), between(0.0, 1.05 * largest)
    area, name = Area(60, 30, 360, 220), "items of each model"
    panel = Panel(chart, area, across, up, title=f"{title} of rankings", name=name)
    for number, way in enumerate(ways):
        colour = COLOURS[number % len(COLOURS)]
        smallest_gaps = [gaps[way] for gaps in by_items.values()]
        panel.curve(list(by_items), smallest_gaps, stroke=colour, dots=True)
        chart.line(436, 36 + 18 * number, 456, 36 + 18 * number, stroke=colour, width=2)
        chart.text(462, 40 + 18 * number, way)
    return chart


class Reading(NamedTuple):
    """A figure at a number of items per model, and the ends of its band."""

    n_items: float
    value: float
    low: float
    high: float


class MethodCurves(NamedTuple):
    """One method's taus, and shares of decided pairs in the true order (per cent)."""

    taus: list[Reading]
    shares: list[Reading]


def _curves_by_method(contents: Iterable[Mapping[str, Any]]) -> dict[str, MethodCurves]:
    """Return the curves of every method of some simulations, in the order of `METHOD_ORDER`.

    A method's points are those of all simulations together, by their items per model.
    """
    points: dict[str, list[dict[str, Any]]] = {}
    for content in contents:
        for method, points_of_content in content["sweep"].items():
            points.setdefault(method, []).extend(points_of_content)
    methods = [
        *(method for method in METHOD_ORDER if method in points),
        *(method for method in points if method not in METHOD_ORDER),
    ]
    return {
        method: _curves(sorted(points[method], key=lambda point: point["items_per_model"]))
        for method in methods
    }


def _curves(points: Sequence[Mapping[str, Any]]) -> MethodCurves:
    """Return one method's figures at its points; a point without a figure is left out."""
    from scipy.stats import binomtest  # takes long to import, and few charts need it

    width, curves = float(ndtri((1 + BAND) / 2)), MethodCurves([], [])
    for point in points:
        n_items, tau = float(point["items_per_model"]), point["tau"]
        share = point.get("confident_accuracy")
        if tau is not None:
            half = width * (point.get("tau_se") or 0.0)
            curves.taus.append(Reading(n_items, tau, tau - half, min(tau + half, 1.0)))
        if share is not None:
            n = max(1, round(point["confident_pairs"]))
            ends = binomtest(round(share * n), n).proportion_ci(BAND, "wilson")
            curves.shares.append(Reading(n_items, 100 * share, 100 * ends.low, 100 * ends.high))
    return curves


def _replayed(source: Any) -> Mapping[str, Any]:
    """Return the JSON values of what `simulate` returned, or wrote by ``--json``."""
    if not isinstance(source, str | Path):
        return source if isinstance(source, Mapping) else dict(source.to_dict())
    content = read_object(Path(source))
    if not isinstance(content.get("sweep"), dict):
        raise UsageError(f"{source}: not a file of `lm-eval-ccat simulate --json`")
    return content


# -- files ----------------------------------------------------------------------------------------


def plot_files(
    paths: Sequence[Path], folder: str | Path, formats: Sequence[str] = ("svg",)
) -> list[Path]:
    """Write the charts of a bank or suite, or of one or several files of ``simulate --json``.

    Raises
    ------
    UsageError
        If the files are none of these.
    """
    folder = Path(folder)
    # A bank stands alone; several files are of one table's replays.
    if len(paths) == 1:
        if is_suite(paths[0]):
            # No file is written before all banks were read.
            charts = {
                file.name.removesuffix(".bank.json"): plot_bank(ItemBank.load(file))
                for file in SuiteBank.files(paths[0]).values()
            }
            saved = (chart.save(folder / name, formats) for name, chart in charts.items())
            return list(chain.from_iterable(saved))
        try:
            return plot_bank(ItemBank.load(paths[0])).save(folder / "bank", formats)
        except BankError as error:
            if "not an item bank" not in str(error):
                raise
    try:
        chart = plot_simulation(*paths)
    except (RunError, UsageError) as error:
        raise UsageError(f"{error}; charts are made of a run directory, a bank or these") from None
    return chart.save(folder / "simulation", formats)


def _content(ranking: Ranking | StoredRun) -> RankingContent:
    """Return a ranking's JSON values, with estimates on the metric's own scale."""
    return ranking.result if isinstance(ranking, StoredRun) else ranking.to_dict()

"""Charts of files: the items of a bank, and what `simulate` found over what it costs."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from ...bank import ItemBank, SuiteBank
from ...bank.suite import is_suite
from ...errors import BankError, UsageError
from ..axes import axis, between
from ..chart import ACCENT, COLOURS, SOFT, Chart, Panel
from ..shapes import difficulty, discrimination, information_curve

#: Methods that are ours or the paper's keep their colour from chart to chart.
FIRST = ("default", "paper", "common", "static", "limit", "fixed", "random")
BAND = 0.95


def read_simulation(path: str | Path) -> dict[str, object]:
    """Read a file of ``simulate --json``.

    Raises
    ------
    UsageError
        It cannot be read, or is something else.
    """
    try:
        content = json.loads(Path(path).read_bytes())
    except (OSError, ValueError) as error:
        raise UsageError(f"{path}: not a readable JSON file ({error})") from None
    if not isinstance(content, dict) or not isinstance(content.get("sweep"), dict):
        raise UsageError(f"{path}: not a file of `lm-eval-ccat simulate --json`")
    return content


def curves(contents: Sequence[Mapping[str, Any]]) -> dict[str, list[dict[str, object]]]:
    """Each method's summaries, by items per model; several replays are pooled into one curve."""
    points: dict[str, list[dict[str, Any]]] = {}
    for one in contents:
        for method, levels in one["sweep"].items():
            points.setdefault(method, []).extend(dict(level) for level in levels)
    for levels in points.values():
        levels.sort(key=lambda level: level["items_per_model"])
    known = [m for m in FIRST if m in points]
    return {m: points[m] for m in [*known, *(m for m in points if m not in known)]}


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
    contents = [_content(one) for one in simulations]
    lines = [_curve(levels) for levels in curves(contents).values()]
    wanted = (contents[0].get("settings") or {}).get("confidence")
    most = max((float(line["x"].max()) for line in lines), default=1.0)
    across = between(0.0, 1.04 * most, 5)
    taus = [v for line in lines for v in (*line["low"], *line["high"])]
    shares = [100 * v for line in lines for v in (*line["right_low"], 1.0)]
    chart = Chart(940, 330, "Agreement with the true order over items per model")
    left = Panel(
        chart, 50, 30, 340, 240, across, between(min([0.0, *taus]), 1.02, 5),
        "Kendall tau with the true order", "items per model",
    )  # fmt: skip
    right = Panel(
        chart, 450, 30, 340, 240, across, axis([*shares, *([100 * wanted] if wanted else [])], 5),
        "Decided pairs in the true order, %", "items per model",
    )  # fmt: skip
    for n, (method, line) in enumerate(zip(curves(contents), lines)):
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


def _curve(levels: Sequence[Mapping[str, Any]]) -> dict[str, NDArray[np.float64]]:
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


def plot_files(
    paths: Sequence[Path], folder: str | Path, formats: Sequence[str] = ("svg",)
) -> list[Path]:
    """Write the charts of a bank or suite, or of one or several files of ``simulate --json``.

    Raises
    ------
    UsageError
        The files are neither.
    """
    if len(paths) == 1:
        if is_suite(paths[0]):
            return [
                written
                for file in SuiteBank.files(paths[0]).values()
                for written in plot_bank(ItemBank.load(file)).save(
                    Path(folder) / file.name.removesuffix(".bank.json"), formats
                )
            ]
        try:
            bank = ItemBank.load(paths[0])
        except BankError as error:
            if "not an item bank" not in str(error):
                raise
        else:
            return plot_bank(bank).save(Path(folder) / "bank", formats)
    try:
        contents = [read_simulation(p) for p in paths]
    except UsageError as error:
        raise UsageError(f"{error}; charts are made of a run directory, a bank or these") from None
    return plot_simulation(*contents).save(Path(folder) / "simulation", formats)


def _content(source: Any) -> Mapping[str, Any]:
    if isinstance(source, (str, Path)):
        return read_simulation(source)
    content: Mapping[str, Any] = source if isinstance(source, Mapping) else source.to_dict()
    return content


# -- a bank ---------------------------------------------------------------------------------------

MOST_POINTS = 5_000
_WIDTH, _HEIGHT = 340, 230


def plot_bank(bank: ItemBank) -> Chart:
    """Difficulty, discrimination and information of a bank.

    Examples
    --------
    >>> plot_bank(bank).save("bank")  # doctest: +SKIP
    """
    chart = Chart(880, 320, "The items of a bank")
    _items(chart, bank)
    _information(chart, bank)
    return chart


def _items(chart: Chart, bank: ItemBank) -> None:
    hard, sharp = difficulty(bank)[bank.kept], discrimination(bank)[bank.kept]
    box = (60, 30, _WIDTH, _HEIGHT)
    across = axis(np.nanquantile(hard, [0.01, 0.99]).tolist(), 6)
    if np.ptp(sharp) < 1e-9:
        count, edges = np.histogram(hard[np.isfinite(hard)], 40, (across.low, across.high))
        title = f"Difficulty of {len(hard):,} items, discrimination {sharp[0]:.2f}"
        panel = Panel(
            chart, *box, across, between(0, max(1, 1.05 * count.max()), 4), title,
            "difficulty (logits)",
        )  # fmt: skip
        for n, low, high in zip(count.tolist(), edges, edges[1:]):
            top = panel.y(n)
            chart.rect(panel.x(low), top, panel.x(high) - panel.x(low), panel.y(0) - top, ACCENT)
        return
    title = f"Difficulty and discrimination of {len(hard):,} items"
    panel = Panel(chart, *box, across, axis(sharp.tolist(), 5), title, "difficulty (logits)")
    step = max(1, len(hard) // MOST_POINTS)
    for at, up in zip(hard[::step].tolist(), sharp[::step].tolist()):
        if across.low <= at <= across.high:
            chart.dot(panel.x(at), panel.y(up), 2, opacity=0.4)


def _information(chart: Chart, bank: ItemBank) -> None:
    curve = information_curve(bank, np.array([]))
    across = between(float(curve.ability[0]), float(curve.ability[-1]), 6)
    up = between(0.0, 1.08 * float(curve.total.max()) or 1.0, 4)
    box = (490, 30, _WIDTH, _HEIGHT)
    panel = Panel(
        chart, *box, across, up, "Information of all items (1 / logit²)", "ability (logits)"
    )
    panel.band(curve.ability, [0.0] * len(curve.ability), curve.total)
    panel.curve(curve.ability, curve.total)

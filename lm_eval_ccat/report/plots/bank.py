"""Charts of a calibrated bank: its items, what they tell, and how well the model fits."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ...bank import ItemBank
from ...errors import UsageError
from ...methods.curves import fit_abilities
from ...methods.registry import method_of
from ...scores import ScoreTable
from ..axes import axis, between
from ..chart import ACCENT, SOFT, Chart, Panel
from ..information import difficulty, discrimination, information_curve

Floats = NDArray[np.float64]
BINS = 10
MOST_POINTS = 5_000
_WIDTH, _HEIGHT = 340, 230


def plot_bank(bank: ItemBank, table: ScoreTable | None = None) -> Chart:
    """Difficulty, discrimination and information of a bank, and its fit to scores.

    Parameters
    ----------
    bank : ItemBank
    table : ScoreTable, optional
        Full results of some models on the bank's items: adds how observed scores, and their
        variance, compare with what the response model expects.

    Raises
    ------
    UsageError
        The table's items are not the bank's.

    Examples
    --------
    >>> plot_bank(bank, table).save("bank")  # doctest: +SKIP
    """
    chart = Chart(880, 320 if table is None else 650, "The items of a bank")
    _items(chart, bank)
    _information(chart, bank)
    if table is not None:
        _fit(chart, bank, table)
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


def fit_of(bank: ItemBank, table: ScoreTable) -> dict[str, Floats]:
    """Expected and observed mean and variance of scores, in bins of the expected score.

    Returns
    -------
    dict of ndarray, shape (n_bins,)
        ``expected``, ``observed``, ``error`` (of the observed mean), ``variance`` and
        ``expected_variance``.

    Raises
    ------
    UsageError
        The table's items are not the bank's.
    """
    if table.doc_ids != bank.doc_ids:
        raise UsageError("the table's items are not the bank's; calibrate and plot with one table")
    observed = np.where(bank.kept, table.model_scores(), np.nan)
    shape = method_of(bank).curves(bank)
    expected = shape.expected(fit_abilities(shape, observed))
    use = np.isfinite(observed) & np.isfinite(expected)
    y, mu = observed[use], expected[use]
    noise = np.broadcast_to(shape.noise, observed.shape)[use]
    edges = np.unique(np.quantile(mu, np.linspace(0, 1, BINS + 1)))
    group = np.clip(np.searchsorted(edges, mu, side="right") - 1, 0, len(edges) - 2)
    count = np.bincount(group)
    seen = np.bincount(group, (y - mu) ** 2) / count
    return {
        "expected": np.bincount(group, mu) / count,
        "observed": np.bincount(group, y) / count,
        "error": np.sqrt(seen / count),
        "variance": seen,
        "expected_variance": np.bincount(group, noise * mu * (1 - mu)) / count,
    }


def _fit(chart: Chart, bank: ItemBank, table: ScoreTable) -> None:
    fit = fit_of(bank, table)
    unit = between(0.0, 1.0, 5)
    level = Panel(
        chart, 60, 360, _WIDTH, _HEIGHT, unit, unit, "Fit of the mean: observed over expected",
        "expected score",
    )  # fmt: skip
    for x, y, error in zip(*(fit[k].tolist() for k in ("expected", "observed", "error"))):
        at = level.x(x)
        chart.line(at, level.y(y - 2 * error), at, level.y(y + 2 * error), ACCENT)
        chart.dot(at, level.y(y))
    seen, stated = fit["variance"], fit["expected_variance"]
    total = ((seen - seen.mean()) ** 2).sum()
    r2 = 1.0 - ((seen - stated) ** 2).sum() / total if total > 0 else float("nan")
    top = between(0.0, 1.1 * float(max(seen.max(), stated.max())), 4)
    spread = Panel(
        chart, 490, 360, _WIDTH, _HEIGHT, top, top, f"Fit of the variance (R² {r2:.2f})",
        "expected variance",
    )  # fmt: skip
    for x, y in zip(stated.tolist(), seen.tolist()):
        chart.dot(spread.x(x), spread.y(y))
    for panel, scale in ((level, unit), (spread, top)):
        ends = (scale.low, scale.high)
        chart.line(*(panel.x(ends[0]), panel.y(ends[0])), panel.x(ends[1]), panel.y(ends[1]), SOFT)

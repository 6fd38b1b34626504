"""Chart of a calibrated bank: its items, and what they tell."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ...bank import ItemBank
from ..axes import axis, between
from ..chart import ACCENT, Chart, Panel
from ..shapes import difficulty, discrimination, information_curve

Floats = NDArray[np.float64]
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

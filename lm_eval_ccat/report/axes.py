"""Axes of the page's charts: round ticks, and values as places along an axis."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Axis:
    """A linear axis.

    ``share`` maps a value to per cent of the axis, so that the same numbers serve percentages of a
    width; ``place`` does so for marks that must stay on the axis.
    """

    low: float
    high: float
    ticks: tuple[float, ...]
    labels: tuple[str, ...]

    def place(self, value: float) -> float:
        """Per cent of the axis's length at which a value lies, cut to [0, 100]."""
        return min(100.0, max(0.0, self.share(value)))

    def share(self, value: float) -> float:
        """Per cent of the axis's length at which a value lies; outside it, below 0 or over 100."""
        return round(100.0 * (value - self.low) / (self.high - self.low), 3)


def axis(values: Iterable[float], count: int = 5, pad: float = 0.05) -> Axis:
    """An axis that covers all finite values, with about `count` round ticks.

    Examples
    --------
    >>> axis([0.12, 0.88], pad=0.0).labels
    ('0.2', '0.4', '0.6', '0.8')
    """
    finite = [v for v in values if math.isfinite(v)] or [0.0, 1.0]
    low, high = min(finite), max(finite)
    if high - low < 1e-12 * max(1.0, abs(high)):
        low, high = low - 0.5, high + 0.5
    margin = pad * (high - low)
    return between(low - margin, high + margin, count)


def between(low: float, high: float, count: int = 5) -> Axis:
    """An axis from `low` to `high` exactly, with about `count` round ticks inside it."""
    step = _round_step((high - low) / max(count, 1))
    first = math.ceil(low / step - 1e-9)
    last = math.floor(high / step + 1e-9)
    ticks = tuple(step * i for i in range(first, last + 1))
    return Axis(low, high, ticks, tick_labels(ticks, step))


def _round_step(raw: float) -> float:
    power = 10.0 ** math.floor(math.log10(raw))
    for factor in (1.0, 2.0, 5.0, 10.0):
        if raw <= factor * power * 1.0000001:
            return factor * power
    return 10.0 * power


def tick_labels(ticks: Sequence[float], step: float) -> tuple[str, ...]:
    """Ticks with as many decimals as their step needs.

    Examples
    --------
    >>> tick_labels([-0.01, -1e-18, 0.01], 0.01)
    ('-0.01', '0.00', '0.01')
    """
    decimals = max(0, -math.floor(math.log10(step) + 1e-9))
    # No minus before a zero that rounding made.
    return tuple(f"{round(tick, decimals) + 0.0:,.{decimals}f}" for tick in ticks)


def decimals_for(error: float) -> int:
    """Decimals that show two significant digits of an error.

    Examples
    --------
    >>> decimals_for(0.013), decimals_for(2.4)
    (3, 1)
    """
    if not (math.isfinite(error) and error > 0.0):
        return 3
    return min(6, max(0, 1 - math.floor(math.log10(error))))

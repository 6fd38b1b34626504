"""The scale of raw scores that were read, by the rules of the score table."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..errors import ScaleError
from ..metrics.registry import known_scale
from ..metrics.scale import Scale


def choose_scale(
    raw: NDArray[np.float64],
    metric: str,
    *,
    where: str,
    stated: Scale | None = None,
    scale: Scale | None = None,
    range: tuple[float, float] | None = None,
    lower_is_better: bool | None = None,
) -> tuple[Scale, list[str]]:
    """The scale of raw scores, by the rules of the format, and what to tell the reader.

    In this order: what the user gave (a whole scale, a range, a direction); what the file states
    (`stated`: its columns, or for harness logs the metric table); [0, 1] if all values lie in it;
    for a metric known to be unbounded above (ter, wer) the cap 1; the metric table, if all values
    lie in the range that it has for the metric; else an error that says how to state it.

    Raises
    ------
    ScaleError
        No scale could be found.
    """
    if scale is not None:
        return scale, []
    known = known_scale(metric)
    unbounded = (stated is not None and stated.cap is not None) or (
        known is not None and known.cap is not None
    )
    if lower_is_better is None:
        if stated is not None:
            lower = not stated.higher_is_better
        else:
            lower = known is not None and not known.higher_is_better
    else:
        lower = lower_is_better
    if range is not None:
        low, high = float(range[0]), float(range[1])
        if not (np.isfinite(low) and np.isfinite(high) and low < high):
            raise ScaleError(f"range {low:g},{high:g}: the lowest score must be below the highest")
        if unbounded and lower and low == 0.0:
            return _capped(raw, metric, high)
        return Scale(low, high, higher_is_better=not lower), []
    if stated is not None:
        if stated.cap is not None:
            return _capped(raw, metric, stated.cap)
        return Scale(stated.low, stated.high, higher_is_better=not lower), []
    seen = raw[np.isfinite(raw)]
    if seen.min() >= 0.0 and seen.max() <= 1.0:
        return Scale(0.0, 1.0, higher_is_better=not lower), []
    if unbounded and lower and seen.min() >= 0.0 and np.median(seen) <= 1.0:
        return _capped(raw, metric, 1.0)
    if known is not None and known.cap is None:
        if known.low <= seen.min() and seen.max() <= known.high:
            found = Scale(known.low, known.high, higher_is_better=not lower)
            return found, [f"the scale of {metric} is that of the metric table: {found.describe()}"]
    raise ScaleError(
        f"{where}: scores of {metric!r} run from {seen.min():.6g} to {seen.max():.6g} and their "
        "scale is not known; state it with range (--range LO,HI), and lower_is_better "
        "(--lower_is_better) if less is better"
    )


def _capped(raw: NDArray[np.float64], metric: str, cap: float) -> tuple[Scale, list[str]]:
    over = float(np.mean(raw[np.isfinite(raw)] > cap))
    note = (
        f"{metric} is unbounded: scores are capped at {cap:g} ({over:.1%} of them lie above) and "
        "what is estimated is the capped mean"
    )
    return Scale(0.0, cap, higher_is_better=False, cap=cap), [note] if over else []

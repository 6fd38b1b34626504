"""The scale of raw scores that were read, by the rules of the score table."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..errors import ScaleError, ScoreTableError
from ..metrics.registry import known_scale
from ..metrics.scale import Scale
from .readers.reader import Wanted


def choose_scale(
    raw: NDArray[np.float64],
    metric: str,
    wanted: Wanted,
    where: str,
    stated: Scale | None = None,
    lower_is_better: bool | None = None,
) -> tuple[Scale, list[str]]:
    """The scale of raw scores, by the rules of the format, and what to tell the reader.

    In this order: what the user gave (a whole scale, a range, a direction); what the file states
    (`stated`: its columns, or for harness logs the metric table); [0, 1] if all values lie in it;
    for a metric known to be unbounded above (ter, wer) the cap 1; the metric table, if all values
    lie in the range that it has for the metric; else an error that says how to state it.

    Parameters
    ----------
    raw : ndarray
        Scores; NaN where missing.
    metric : str
    wanted : Wanted
    where : str
        The file, for errors.
    stated : Scale, optional
    lower_is_better : bool, optional
        The direction that the file states, where it does not know the scale.

    Raises
    ------
    ScoreTableError
        There is no score.
    ScaleError
        No scale could be found.
    """
    if wanted.scale is not None:
        return wanted.scale, []
    if np.isnan(raw).all():
        raise ScoreTableError(f"{where}: every score of metric {metric!r} is missing")
    known = known_scale(metric)
    basis = stated or known
    unbounded = any(scale is not None and scale.cap is not None for scale in (stated, known))
    lower = basis is not None and not basis.higher_is_better
    for direction in (lower_is_better, wanted.lower_is_better):
        lower = lower if direction is None else direction
    if wanted.range is not None:
        try:
            low, high = map(float, wanted.range)
        except (TypeError, ValueError):
            raise ScaleError(
                f"range {wanted.range!r:.60} is not (lowest, highest), such as (0, 100)"
            ) from None
        if not (np.isfinite(low) and np.isfinite(high) and low < high):
            raise ScaleError(f"range {low:g},{high:g}: the lowest score must be below the highest")
        if unbounded and lower and low == 0.0:
            return _capped(raw, metric, high)
        return Scale(low, high, higher_is_better=not lower), []
    if stated is not None:
        if stated.cap is not None:
            return _capped(raw, metric, stated.cap)
        return Scale(*stated.ends, higher_is_better=not lower), []
    if Scale().holds(raw):
        return Scale(higher_is_better=not lower), []
    seen = raw[np.isfinite(raw)]
    if unbounded and lower and seen.min() >= 0.0 and np.median(seen) <= 1.0:
        return _capped(raw, metric, 1.0)
    if known is not None and known.cap is None and known.holds(raw):
        scale = Scale(*known.ends, higher_is_better=not lower)
        return scale, [f"the scale of {metric} is that of the metric table: {scale.describe()}"]
    raise ScaleError(
        f"{where}: scores of {metric!r} run from {seen.min():.6g} to {seen.max():.6g} and their "
        "scale is not known; state it with range, and lower_is_better if less is better "
        "(--range WORST,BEST)"
    )


def _capped(raw: NDArray[np.float64], metric: str, cap: float) -> tuple[Scale, list[str]]:
    over = float(np.mean(raw[np.isfinite(raw)] > cap))
    note = (
        f"{metric} is unbounded: scores are capped at {cap:g} ({over:.1%} of them lie above) and "
        "what is estimated is the capped mean"
    )
    return Scale(cap=cap), [note] if over else []

"""The scale of a metric: the range of its raw scores, and which end is better.

The package computes on [0, 1], higher is better; files and tables keep the metric's own scale. Only
`Scale` converts between the two.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..errors import ScaleError

#: A raw score may lie outside its scale by this share of the span, because of rounding.
TOLERANCE = 1e-9
_PARTS = ("low", "high", "higher_is_better", "cap")


@dataclass(frozen=True)
class Scale:
    """Range and direction of a metric's raw scores.

    Parameters
    ----------
    low, high : float
        Ends of the raw range, ``low < high``.
    higher_is_better : bool
        Direction of the raw score.
    cap : float, optional
        For metrics without an upper end, where lower is better (TER, WER): a raw score ``x``
        becomes ``1 - min(x, cap)/cap``. Sets ``low=0``, ``high=cap``, ``higher_is_better=False``.
        Estimates are then of the mean of the capped scores.

    Raises
    ------
    ScaleError
        The ends are not finite and ordered, or the cap is not a positive number.

    Examples
    --------
    >>> Scale(0, 100).normalise([25.0]).tolist()
    [0.25]
    >>> Scale(cap=100).normalise([30.0, 250.0]).tolist()
    [0.7, 0.0]
    """

    low: float = 0.0
    high: float = 1.0
    higher_is_better: bool = True
    cap: float | None = None

    def __post_init__(self) -> None:
        if self.cap is None:
            low, high = _finite(self.low, "low end"), _finite(self.high, "high end")
            if not low < high:
                raise ScaleError(
                    f"a scale runs from a low to a higher end, not from {low:g} to {high:g}"
                )
            values: tuple[object, ...] = (low, high, bool(self.higher_is_better), None)
        else:  # the cap determines all other fields
            cap = _finite(self.cap, "cap")
            if cap <= 0:
                raise ScaleError(f"the cap of a scale must be positive, not {cap:g}")
            values = (0.0, cap, False, cap)
        for name, value in zip(_PARTS, values):
            object.__setattr__(self, name, value)

    @property
    def span(self) -> float:
        """Width of the raw range (raw units)."""
        return self.high - self.low

    @property
    def ends(self) -> tuple[float, float]:
        """Lowest and highest raw score."""
        return self.low, self.high

    def normalise(self, raw: ArrayLike) -> NDArray[np.float64]:
        """Map raw scores to [0, 1], higher is better.

        Parameters
        ----------
        raw : array_like
            Raw scores of any shape; NaN means missing and passes through.

        Returns
        -------
        ndarray of float64
            Same shape, values in [0, 1] or NaN.

        Raises
        ------
        ScaleError
            A score lies outside the range by more than rounding; the message names some.
        """
        raw = np.asarray(raw, dtype=np.float64)
        self.check(raw)
        score = np.clip(raw, self.low, self.high)
        if self.low != 0.0:
            score = score - self.low
        if self.span != 1.0:
            score = score / self.span
        return np.asarray(score if self.higher_is_better else 1.0 - score)

    @property
    def bounds(self) -> tuple[float, float]:
        """Lowest and highest raw score that is accepted: the ends, with a margin for rounding.

        sacrebleu gives 100.00000000000004 for a perfect sentence. With a cap there is no highest.
        """
        slack = TOLERANCE * self.span
        most = float(np.finfo(np.float64).max) if self.cap is not None else self.high + slack
        return self.low - slack, most

    def holds(self, raw: ArrayLike) -> bool:
        """Return whether every raw score lies on the scale, as missing ones (NaN) do.

        Examples
        --------
        >>> Scale(0, 100).holds([0.0, 100.00000000000004]), Scale(0, 100).holds([101.0])
        (True, False)
        """
        raw = np.asarray(raw, dtype=np.float64)
        if not raw.size:
            return True
        low, high = self.bounds
        return not (np.fmin.reduce(raw, axis=None) < low or np.fmax.reduce(raw, axis=None) > high)

    def check(self, raw: ArrayLike) -> None:
        """Refuse raw scores off the scale; see `normalise`."""
        if self.holds(raw):
            return
        raw = np.asarray(raw, dtype=np.float64)
        low, high = self.bounds
        bad = (raw < low) | (raw > high)
        shown = ", ".join(f"{value:.6g}" for value in np.unique(raw[bad])[:3])
        raise ScaleError(
            f"{int(bad.sum())} of {raw.size} scores lie outside the scale "
            f"{self.describe()}: {shown}"
        )

    def restore(self, score: ArrayLike) -> NDArray[np.float64]:
        """Map scores in [0, 1] back to the raw scale (a capped score comes back as the cap)."""
        score = np.asarray(score, dtype=np.float64)
        if self.higher_is_better:
            return self.low + score * self.span
        return self.high - score * self.span

    def restore_error(self, se: ArrayLike) -> NDArray[np.float64]:
        """Map a standard error in [0, 1] units to raw units."""
        return np.asarray(se, dtype=np.float64) * self.span

    def to_dict(self) -> dict[str, object]:
        """Return JSON values from which `from_dict` rebuilds the scale."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Scale:
        """Rebuild a scale from `to_dict`.

        Raises
        ------
        ScaleError
            A key is unknown, or a value is invalid.
        """
        unknown = set(values) - set(_PARTS)
        if unknown:
            raise ScaleError(f"unknown key in a scale: {', '.join(sorted(map(str, unknown)))}")
        return cls(**values)

    def describe(self) -> str:
        """Describe the scale in words, for messages and tables.

        >>> Scale(0, 100).describe()
        '0 to 100, higher is better'
        >>> Scale(cap=100).describe()
        '0 upwards, capped at 100, lower is better'
        """
        direction = "higher" if self.higher_is_better else "lower"
        if self.cap is not None:
            return f"0 upwards, capped at {self.cap:g}, {direction} is better"
        return f"{self.low:g} to {self.high:g}, {direction} is better"


def _finite(value: Any, what: str) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float, np.integer, np.floating)):
        raise ScaleError(f"the {what} of a scale must be a number, not {value!r}")
    number = float(value)
    if not math.isfinite(number):
        raise ScaleError(
            f"the {what} of a scale must be finite, not {number}; "
            "for an unbounded metric, state a cap"
        )
    return number

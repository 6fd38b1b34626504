"""How far estimates of models outside the calibration really lie from the truth.

A posterior knows the noise of scores, not that no model follows the response model. The
calibration therefore replays models it left out and compares: true squared errors are described by

    E (t - truth)^2  =  ( c Var t  +  m (1 - n/N)^2 )  r(position of the ability),

``c`` for noise that is larger than thought, ``m`` for misfit that more items of the same kind do
not cure, ``r`` for abilities at which models are better or worse understood than usual, outside the
calibration's range above all. ``rho`` is the correlation of two models' errors when both
have seen the same items.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

BANDWIDTH = 0.4
_EDGE, _LEAST_AT_EDGE = 0.8, 0.7
_PER_DISTANCE = 2.0  # growth of the variance per standard deviation outside
_PRIOR_MODELS = 2.0  # that many models with ratio 1 stand beside those near a position


@dataclass(frozen=True)
class Misfit:
    """Inflation of errors; the default is none.

    Attributes
    ----------
    c, m : float
        Above.
    positions, ratios, weights : ndarray of shape (n_records,)
        Of models left out: where they stood (`Range.position`), true over described squared
        error, and how much each record counts (records of one model together count 1).
    rho : float
        In [0, 1).
    df : float
        Degrees of freedom of all this: the models left out, less the parameters found from them.
        Probabilities come from Student's distribution with as many.
    """

    c: float = 1.0
    m: float = 0.0
    positions: Floats = field(default_factory=lambda: np.empty(0))
    ratios: Floats = field(default_factory=lambda: np.empty(0))
    weights: Floats = field(default_factory=lambda: np.empty(0))
    rho: float = 0.0
    df: float = 1e6

    def level(self, position: float) -> float:
        """``r`` at a position: a kernel average of ratios, shrunk to 1.

        Without records it is 1. At the edge of the calibration's range it is not let far below 1: a
        model that seems to stand there may be beyond. Outside, the variance grows with the
        distance.
        """
        if not len(self.positions):
            return 1.0
        near = np.exp(-0.5 * ((self.positions - position) / BANDWIDTH) ** 2) * self.weights
        level = float((near @ self.ratios + _PRIOR_MODELS) / (near.sum() + _PRIOR_MODELS))
        edge = min(max((abs(position) - _EDGE) / (1.0 - _EDGE), 0.0), 1.0)
        outside = max(abs(position) - 1.0, 0.0)
        return max(level, _LEAST_AT_EDGE * edge) * (1.0 + _PER_DISTANCE * outside)

    def variance(
        self, variance: float, unseen_share: float, position: float, m: float | None = None
    ) -> float:
        """Expected squared error of an estimate of posterior variance `variance`.

        `m` stands in for the attribute where random draws have measured some of the misfit.
        """
        plain = self.c * variance + (self.m if m is None else m) * unseen_share**2
        return plain * self.level(position)

    def to_dict(self) -> dict[str, Any]:
        """JSON values."""
        return {
            "c": self.c,
            "m": self.m,
            "rho": self.rho,
            "df": self.df,
            "positions": self.positions.tolist(),
            "ratios": self.ratios.tolist(),
            "weights": self.weights.tolist(),
        }

    @classmethod
    def from_dict(cls, d: dict[str, Any]) -> Misfit:
        """The inverse of `to_dict`.

        Raises
        ------
        ValueError
            A value out of range, or arrays that do not fit one another.
        """
        positions, ratios, weights = (
            np.array(d[k], dtype=np.float64) for k in ("positions", "ratios", "weights")
        )
        if positions.ndim != 1 or not positions.shape == ratios.shape == weights.shape:
            raise ValueError("the arrays of the misfit do not fit one another")
        c, m, rho, df = (float(d[name]) for name in ("c", "m", "rho", "df"))
        counted = (ratios >= 0.0).all() and (weights >= 0.0).all()
        if not (c > 0.0 and m >= 0.0 and 0.0 <= rho < 1.0 and df > 0.0 and counted):
            raise ValueError("the misfit is out of range")
        return cls(c, m, positions, ratios, weights, rho, df)


@dataclass(frozen=True)
class Range:
    """Abilities of the calibration models, to say where another ability stands among them."""

    low: float
    high: float
    spread: float

    def position(self, x: float) -> float:
        """-1 at the weakest model, 1 at the best; beyond them, in standard deviations further.

        Examples
        --------
        >>> [Range(-2.0, 2.0, 1.0).position(x) for x in (-2.0, 0.0, 2.0, 3.0)]
        [-1.0, 0.0, 1.0, 2.0]
        """
        if x > self.high:
            return 1.0 + (x - self.high) / self.spread
        if x < self.low:
            return -1.0 - (self.low - x) / self.spread
        return 2.0 * (x - self.low) / max(self.high - self.low, 1e-12) - 1.0

"""Functions of ability that item curves are made of: a line, and natural splines beside it.

A natural cubic spline is a line beyond its outermost knots, so that a model better than every
calibration model is judged by the slope items have among the best ones, not by a polynomial that
runs away. The splines are made orthogonal to the line over the calibration models: what they
add is bend, and shrinking them to nothing leaves the ordinary two-parameter curve.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from operator import mul
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]

CLOSEST_KNOTS = 0.15  # in standard deviations of ability; a bend needs room


def bends_for(n_models: int) -> int:
    """How many bends `n_models` calibration models can carry.

    Examples
    --------
    >>> [bends_for(n) for n in (5, 10, 20, 60)]
    [0, 1, 2, 3]
    """
    return int(np.searchsorted((8, 15, 30), n_models, side="right"))


@dataclass(frozen=True)
class AbilityBasis:
    """``f(x) = (1, x, b_1(x), ..., b_B(x))``.

    Attributes
    ----------
    knots : ndarray of shape (B + 2,) or (0,)
        Of the natural spline, ascending, in logits.
    line : ndarray of shape (2, B)
        What is taken from the raw splines as intercept and slope.
    turn : ndarray of shape (B, B)
        Makes the bends orthogonal and of the size of the abilities' spread.
    """

    knots: Floats
    line: Floats
    turn: Floats

    @classmethod
    def over(cls, abilities: Floats, bends: int) -> AbilityBasis:
        """The basis for calibration models of these abilities (shape (n_models,), logits)."""
        if bends < 1:
            return cls(np.empty(0), np.empty((2, 0)), np.empty((0, 0)))
        spread = float(abilities.std(ddof=1))
        knots = np.quantile(abilities, np.linspace(0.02, 0.98, bends + 2))
        for i in range(1, len(knots)):
            knots[i] = max(knots[i], knots[i - 1] + CLOSEST_KNOTS * spread)
        raw = _splines(abilities, knots)
        straight = np.column_stack([np.ones(len(abilities)), abilities])
        line = np.asarray(np.linalg.lstsq(straight, raw, rcond=None)[0], dtype=np.float64)
        _, size, turn = np.linalg.svd(raw - straight @ line, full_matrices=False)
        # A direction that the abilities cannot show is given no room rather than a huge factor.
        usable = size > max(1e-300, 1e-6 * float(np.linalg.norm(raw)))
        scale = np.where(usable, np.sqrt(len(abilities)) * spread / np.where(usable, size, 1.0), 0)
        return cls(knots, line, turn.T * scale)

    @property
    def size(self) -> int:
        """Number of functions."""
        return 2 + int(self.line.shape[1])

    def at(self, x: ArrayLike) -> Floats:
        """Values at abilities of shape (n,); shape (n, size)."""
        x = np.atleast_1d(np.asarray(x, dtype=np.float64))
        straight = np.column_stack([np.ones(len(x)), x])
        if not len(self.knots):
            return straight
        return np.column_stack(
            [straight, (_splines(x, self.knots) - straight @ self.line) @ self.turn]
        )

    def value_and_slope(self, x: float) -> tuple[Floats, Floats]:
        """Values and derivatives at one ability; each of shape (size,)."""
        value, slope = self.plain(x)
        return np.array(value), np.array(slope)

    def plain(self, x: float) -> tuple[list[float], list[float]]:
        """`value_and_slope` in plain numbers: this runs at every step of a test."""
        if not len(self.knots):
            return [1.0, x], [0.0, 1.0]
        first, last, but_one, start, tilt, turn = self._scalars
        over_last = max(x - last, 0.0)
        over_but_one = max(x - but_one, 0.0)
        end = (over_but_one**3 - over_last**3) / (last - but_one)
        end_slope = 3.0 * (over_but_one**2 - over_last**2) / (last - but_one)
        value, slope = [], []
        for knot, a, b in zip(first, start, tilt):
            over = max(x - knot, 0.0)
            value.append((over**3 - over_last**3) / (last - knot) - end - (a + x * b))
            slope.append(3.0 * (over**2 - over_last**2) / (last - knot) - end_slope - b)
        bend = [sum(map(mul, value, column)) for column in turn]
        bend_slope = [sum(map(mul, slope, column)) for column in turn]
        return [1.0, x, *bend], [0.0, 1.0, *bend_slope]

    @cached_property
    def _scalars(self) -> tuple[list[float], float, float, list[float], list[float], Any]:
        """Knots but the last two, the last, the one before it, the line, columns of the turn."""
        *first, but_one, last = self.knots.tolist()
        return first, last, but_one, *self.line.tolist(), self.turn.T.tolist()

    def to_dict(self) -> dict[str, object]:
        """JSON values."""
        return {
            "knots": self.knots.tolist(),
            "line": self.line.tolist(),
            "turn": self.turn.tolist(),
        }

    @classmethod
    def from_dict(cls, d: Mapping[str, object]) -> AbilityBasis:
        """The inverse of `to_dict`.

        Raises
        ------
        ValueError
            The parts do not fit one another.
        """
        knots = np.array(d["knots"], dtype=np.float64)
        bends = max(len(knots) - 2, 0)
        line = np.array(d["line"], dtype=np.float64).reshape(2, bends)
        turn = np.array(d["turn"], dtype=np.float64).reshape(bends, bends)
        if len(knots) in (1, 2) or not (np.diff(knots) > 0.0).all():
            raise ValueError("the knots of the basis are not ascending")
        return cls(knots, line, turn)


def _splines(x: Floats, knots: Floats) -> Floats:
    """Natural cubic splines beyond the line (truncated powers); shape (n, n_knots - 2)."""
    cubes = np.maximum(x[:, None] - knots[None, :], 0.0) ** 3
    d = (cubes[:, :-1] - cubes[:, -1:]) / (knots[-1] - knots[:-1])
    return np.asarray(d[:, :-1] - d[:, -1:])

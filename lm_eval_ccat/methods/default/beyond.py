"""Item curves beyond the abilities that a bank knows.

An ability is the logit of a mean score, and within the bank's range the curves keep to that.
Carried on as they end they do not: an item that is flat among weak models stays flat among strong
ones, and the mean of the curves falls behind the ability. Past an edge ``e`` of the range items
therefore keep a share of their slope there, and all are shifted alike,

    eta_i(x) = eta_i(e) + OWN_SLOPE eta_i'(e) (x - e) + shift(x),

such that the logit of the mean expected score grows by exactly what the ability does.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit

from .basis import AbilityBasis

Floats = NDArray[np.float64]

#: Share of an item's slope at the edge that it keeps beyond; the rest is the shift's.
OWN_SLOPE = 0.4
#: Logits beyond the edge up to which shifts are tabled, and how far apart; the last goes on.
FARTHEST, STEP = 8.0, 0.2
_MOST_ITEMS = 4000  # that the mean is taken over; an even part of more
_STEPS, _TOLERANCE, _LONGEST = 60, 1e-9, 1.0


class Beyond:
    """Curves past one edge.

    Parameters
    ----------
    coefficients : ndarray of shape (n_items, p)
    basis : AbilityBasis
    edge : float
        Ability of the best, or the weakest, model of the bank.
    sign : float
        1 for what lies above the edge, -1 below.
    """

    def __init__(self, coefficients: Floats, basis: AbilityBasis, edge: float, sign: float) -> None:
        self.edge, self._sign = edge, sign
        value, slope = basis.value_and_slope(edge)
        self._value, self._slope = value, OWN_SLOPE * slope
        some = coefficients[:: -(-len(coefficients) // _MOST_ITEMS)]
        eta, along = some @ value, sign * (some @ self._slope)
        start, shifts = float(logit(expit(eta).mean())), [0.0]
        for far in np.arange(1, round(FARTHEST / STEP) + 1) * STEP:
            shift, wanted = shifts[-1], float(expit(start + sign * far))
            for _ in range(_STEPS):
                mu = expit(eta + far * along + shift)
                step = (wanted - float(mu.mean())) / max(float((mu * (1.0 - mu)).mean()), 1e-9)
                shift += min(max(step, -_LONGEST), _LONGEST)
                if abs(step) < _TOLERANCE:
                    break
            shifts.append(shift)
        self._shifts = shifts

    def at(self, x: float) -> tuple[list[float], list[float], float, float]:
        """Values and slopes that coefficients are multiplied by; shift, and its slope."""
        far = abs(x - self.edge) / STEP
        k = min(int(far), len(self._shifts) - 2)
        tilt = self._shifts[k + 1] - self._shifts[k]
        value = self._value + (x - self.edge) * self._slope
        shift = self._shifts[k] + tilt * (far - k)
        return value.tolist(), self._slope.tolist(), shift, self._sign * tilt / STEP

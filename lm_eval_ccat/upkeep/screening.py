"""Tests on many items at once: robust trend, tail of a bounded score, false discovery rate."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import betainc

Floats = NDArray[np.float64]

FALSE_DISCOVERIES = 0.01


def robust_line(x: Floats, y: Floats, weight: Floats) -> tuple[float, float]:
    """Slope and offset by iteratively reweighted least squares (Tukey's biweight).

    Parameters
    ----------
    x, y, weight : ndarray of shape (n,)
        Weights are inverse variances, up to a factor.

    Examples
    --------
    >>> slope, offset = robust_line(np.arange(9.0), np.array([*np.arange(8.0) + 1, 90]), np.ones(9))
    >>> round(slope, 6), round(offset, 6)
    (1.0, 1.0)
    """
    w = weight / weight.max()
    slope, offset = 1.0, float(np.median(y - x))
    for _ in range(20):
        rest = y - offset - slope * x
        scale = 1.4826 * float(np.median(np.abs(rest))) or 1e-12
        robust = w * np.maximum(0.0, 1.0 - (rest / (4.685 * scale)) ** 2) ** 2
        total = robust.sum()
        if total <= 0.0:
            break
        mx, my = (robust * x).sum() / total, (robust * y).sum() / total
        sxx = (robust * (x - mx) ** 2).sum()
        slope = float((robust * (x - mx) * (y - my)).sum() / sxx) if sxx > 0 else 1.0
        offset = float(my - slope * mx)
    return slope, offset


def upper_tail(y: Floats, mu: Floats, k: Floats) -> Floats:
    """P(score at least y) for mean mu and variance k mu (1 - mu): Beta, or Bernoulli at k = 1.

    Examples
    --------
    >>> upper_tail(np.array([1.0]), np.array([0.02]), np.array([1.0])).tolist()
    [0.02]
    """
    precision = 1.0 / k - 1.0
    beta = precision > 1e-3
    out = np.where(y > 0.0, mu, 1.0)
    a, b = mu * precision, (1.0 - mu) * precision
    # The integral from y to 1, so that a small tail keeps its digits; a rounded full score is
    # one of 0.99 or more.
    out[beta] = betainc(b[beta], a[beta], 1.0 - np.minimum(y[beta], 0.99))
    return out


def discoveries(p: Floats, rate: float = FALSE_DISCOVERIES) -> NDArray[np.bool_]:
    """Benjamini and Hochberg: which of many p-values to reject at this false discovery rate.

    Examples
    --------
    >>> discoveries(np.array([1e-6, 0.4, 0.9])).tolist()
    [True, False, False]
    """
    if not p.size:
        return np.zeros(p.shape, dtype=bool)
    ranked = np.sort(p)
    below = np.flatnonzero(ranked <= rate * np.arange(1, p.size + 1) / p.size)
    return np.asarray(p <= ranked[below[-1]]) if len(below) else np.zeros(p.shape, dtype=bool)

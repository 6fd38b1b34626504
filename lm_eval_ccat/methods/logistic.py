"""The paper's response model: one ability, one difficulty per item, one noise per bank.

Expected score ``mu = logistic(theta - b)``; variance ``k mu (1 - mu)``, so that a score near 0 or
1 is expected to vary less than one near 1/2, with ``k = 1`` for 0/1 scores; information
``mu (1 - mu) / k``. Source: arXiv:2601.13885. Pure functions on arrays; nothing here keeps state.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit

Floats = NDArray[np.float64]


def expected_score(theta: ArrayLike, difficulty: ArrayLike) -> Floats:
    """Expected score ``mu = logistic(theta - b)``.

    Parameters
    ----------
    theta : array_like
        Ability in logits; broadcasts against `difficulty`.
    difficulty : array_like
        Item difficulty ``b`` in logits.

    Returns
    -------
    ndarray
        Expected scores in (0, 1), of the broadcast shape.

    Examples
    --------
    >>> float(expected_score(0.0, 0.0))
    0.5
    """
    return np.asarray(expit(np.subtract(theta, difficulty)), dtype=np.float64)


def variance(mu: ArrayLike, k: float) -> Floats:
    """Variance ``k mu (1 - mu)`` of one score whose expectation is `mu`, in squared score units.

    Examples
    --------
    >>> float(variance(0.5, 0.2))
    0.05
    """
    m = np.asarray(mu, dtype=np.float64)
    return np.asarray(k * m * (1.0 - m))


def information(mu: ArrayLike, k: float, *, full: bool = False) -> Floats:
    """Fisher information about ability in one score, in 1 / logit^2.

    Parameters
    ----------
    mu : array_like
        Expected scores in [0, 1].
    k : float
        Noise, above 0.
    full : bool, optional
        Add the information that the variance carries, ``(1 - 2 mu)^2 / 2`` (the paper's
        appendix). Used for selection only.

    Returns
    -------
    ndarray
        ``mu (1 - mu) / k`` [+ ``(1 - 2 mu)^2 / 2``], of the shape of `mu`.

    Examples
    --------
    >>> float(information(0.5, 0.25))
    1.0
    """
    m = np.asarray(mu, dtype=np.float64)
    first = m * (1.0 - m) / k
    return np.asarray(first + (1.0 - 2.0 * m) ** 2 / 2.0 if full else first)


def log_likelihood(score: ArrayLike, mu: ArrayLike, k: float) -> Floats:
    """Normal log-likelihood of scores under ``N(mu, k mu (1 - mu))``.

    Parameters
    ----------
    score, mu : array_like
        Scores in [0, 1] and their expectations in (0, 1); they broadcast.
    k : float
        Noise, above 0.

    Returns
    -------
    ndarray
        Log densities, of the broadcast shape.

    Examples
    --------
    >>> round(float(log_likelihood(0.5, 0.5, 0.04)), 3)
    1.384
    """
    v = variance(mu, k)
    residual = np.asarray(score, dtype=np.float64) - np.asarray(mu, dtype=np.float64)
    return np.asarray(-0.5 * (np.log(2.0 * np.pi * v) + residual**2 / v))

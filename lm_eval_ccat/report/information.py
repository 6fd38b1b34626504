"""Where on the ability scale a bank's items are most informative, whatever its response model."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from ..bank import ItemBank
from ..methods.registry import method_of

Floats = NDArray[np.float64]

GRID = 161
#: Logits by which the curve goes beyond the models and the bulk of the items.
MARGIN = 0.5
#: Items looked at together, so that a bank of 100,000 needs no matrix of all items and abilities.
SLICE = 4096


@dataclass(frozen=True)
class InformationCurve:
    """Information of the items kept, over ability.

    Attributes
    ----------
    ability : ndarray, shape (G,)
        In logits, ascending.
    total : ndarray, shape (G,)
        Sum of the items' information, in 1 / logit^2.
    location : ndarray, shape (n_items,)
        Ability of `ability` at which each item is most informative, in logits; NaN for items
        removed.
    """

    ability: Floats
    total: Floats
    location: Floats


def has_information(bank: ItemBank | None) -> bool:
    """Whether there is a bank, and its items have curves."""
    return bank is not None and method_of(bank).has_curves


def difficulty(bank: ItemBank) -> Floats:
    """Ability at which an item's expected score is 1/2, by the straight part of its curve (logits).

    NaN where an item has no slope; shape (n_items,).
    """
    curves = method_of(bank).tested_curves(bank)
    intercept, slope = curves.coefficients[:, 0], curves.coefficients[:, 1]
    return np.asarray(curves.origin - intercept / np.where(np.abs(slope) > 1e-6, slope, np.nan))


def discrimination(bank: ItemBank) -> Floats:
    """Slope over the root of the noise, in 1 / logit; shape (n_items,)."""
    curves = method_of(bank).tested_curves(bank)
    return np.asarray(curves.coefficients[:, 1] / np.sqrt(curves.noise))


def information_curve(bank: ItemBank, abilities: Floats) -> InformationCurve:
    """The bank's information around the given abilities.

    An item's information about ability is ``(d eta / d theta)^2 mu (1 - mu) / k``; for the method
    "paper" that is the paper's first term.

    Parameters
    ----------
    bank : ItemBank
    abilities : ndarray
        Abilities of the models to be shown; the curve covers them and the bulk of the items.
    """
    curves, location_of = method_of(bank).tested_curves(bank), difficulty(bank)
    usable = bank.kept & np.isfinite(location_of)
    ends = np.quantile(location_of[usable], [0.1, 0.9]) if usable.any() else np.zeros(1)
    known = np.array(list(bank.constants.get("abilities", []))) + bank.constants.get("centre", 0.0)
    # Items that no model is near say little of where the scale is of use.
    if known.size:
        ends = np.clip(ends, known.min() - 1.0, known.max() + 1.0)
    points = np.concatenate([ends, known, abilities[np.isfinite(abilities)]])
    grid = np.linspace(points.min() - MARGIN, points.max() + MARGIN, GRID)
    total, location = np.zeros(GRID), np.full(bank.n_items, np.nan)
    kept = np.flatnonzero(bank.kept)
    basis = [curves.basis.value_and_slope(float(x)) for x in grid - curves.origin]
    value = np.column_stack([v for v, _ in basis])
    derivative = np.column_stack([d for _, d in basis])
    for start in range(0, len(kept), SLICE):
        rows = kept[start : start + SLICE]
        c = curves.coefficients[rows]
        eta, slope = c @ value, c @ derivative
        mu = expit(eta)
        information = slope**2 * mu * (1.0 - mu) / curves.noise[rows, None]
        total += information.sum(axis=0)
        location[rows] = grid[np.argmax(information, axis=1)]
    return InformationCurve(grid, total, location)

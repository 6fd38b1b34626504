"""Where on the ability scale a bank's items tell most, whatever its response model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from ..bank import ItemBank
from ..methods.default.calibration import model_of

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
        Ability of `ability` at which each item tells most, in logits; NaN for items removed.
    """

    ability: Floats
    total: Floats
    location: Floats


@dataclass(frozen=True)
class ItemCurves:
    """Curves of a bank's items on the scale on which its tests state abilities.

    Attributes
    ----------
    difficulty : ndarray, shape (n_items,)
        Ability at which the expected score is 1/2, by the straight part of the curve (logits).
    discrimination : ndarray, shape (n_items,)
        Slope over the root of the noise, in 1 / logit.
    predictor : callable
        ``(rows, abilities)`` to linear predictor and its derivative, each of shape
        (len(rows), len(abilities)).
    noise : ndarray, shape (n_items,)
    """

    difficulty: Floats
    discrimination: Floats
    predictor: Callable[[NDArray[np.intp], Floats], tuple[Floats, Floats]]
    noise: Floats


def item_curves(bank: ItemBank) -> ItemCurves:
    """The item curves of a bank of either method."""
    if bank.method == "paper":
        difficulty = bank.parameters["difficulty"]
        noise = np.full(bank.n_items, float(bank.constants["k"]))

        def one_parameter(rows: NDArray[np.intp], ability: Floats) -> tuple[Floats, Floats]:
            eta = ability[None, :] - difficulty[rows, None]
            return eta, np.ones_like(eta)

        return ItemCurves(difficulty, noise**-0.5, one_parameter, noise)
    model = model_of(bank)
    items = model.items
    intercept, slope = items.coefficients[:, 0], items.coefficients[:, 1]
    steep = np.where(np.abs(slope) > 1e-6, slope, np.nan)

    def with_bends(rows: NDArray[np.intp], ability: Floats) -> tuple[Floats, Floats]:
        basis = [items.basis.value_and_slope(float(x)) for x in ability - model.centre]
        value = np.column_stack([v for v, _ in basis])
        derivative = np.column_stack([d for _, d in basis])
        return items.coefficients[rows] @ value, items.coefficients[rows] @ derivative

    return ItemCurves(
        model.centre - intercept / steep, slope / np.sqrt(items.noise), with_bends, items.noise
    )


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
    curves = item_curves(bank)
    usable = bank.kept & np.isfinite(curves.difficulty)
    ends = np.quantile(curves.difficulty[usable], [0.1, 0.9]) if usable.any() else np.zeros(1)
    known = np.array(list(bank.constants.get("abilities", []))) + bank.constants.get("centre", 0.0)
    # Items that no model is near say little of where the scale is of use.
    if known.size:
        ends = np.clip(ends, known.min() - 1.0, known.max() + 1.0)
    points = np.concatenate([ends, known, abilities[np.isfinite(abilities)]])
    grid = np.linspace(points.min() - MARGIN, points.max() + MARGIN, GRID)
    total, location = np.zeros(GRID), np.full(bank.n_items, np.nan)
    kept = np.flatnonzero(bank.kept)
    for start in range(0, len(kept), SLICE):
        rows = kept[start : start + SLICE]
        eta, slope = curves.predictor(rows, grid)
        mu = expit(eta)
        information = slope**2 * mu * (1.0 - mu) / curves.noise[rows, None]
        total += information.sum(axis=0)
        location[rows] = grid[np.argmax(information, axis=1)]
    return InformationCurve(grid, total, location)

"""Where on the ability scale a bank's items tell most, whatever its response model."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from ..bank import ItemBank
from ..bank.curves import curves
from ..response.logistic import expected_score, information

Floats = NDArray[np.float64]

GRID = 161
#: Logits by which the curve goes beyond the models and the bulk of the items.
MARGIN = 0.5


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
        Ability at which each item tells most, in logits; NaN for items removed.
    """

    ability: Floats
    total: Floats
    location: Floats


def curve_parameters(bank: ItemBank) -> tuple[Floats, Floats, Floats]:
    """Intercept, slope and noise of each item's curve ``mu = logistic(a + b theta)``.

    Returns
    -------
    intercept, slope, noise : ndarray, each of shape (n_items,)
        The paper's model is ``a = -difficulty``, ``b = 1`` and one noise for all, on the scale on
        which its abilities are; `curves` has it on another.
    """
    if bank.method == "paper":
        difficulty = bank.parameters["difficulty"]
        ones = np.ones_like(difficulty)
        return -difficulty, ones, float(bank.constants["k"]) * ones
    found = curves(bank)
    return found.intercept, found.slope, found.noise


def item_information(bank: ItemBank, ability: Floats) -> Floats:
    """Information of every item about ability; shape (n_items, len(ability)).

    ``b^2 mu (1 - mu) / k``; for the method "paper" this is the paper's first term.
    """
    intercept, slope, noise = curve_parameters(bank)
    if bank.method == "paper":
        mu = expected_score(ability[None, :], -intercept[:, None])
        return information(mu, float(noise[0]))
    mu = expit(intercept[:, None] + slope[:, None] * ability[None, :])
    return np.asarray(slope[:, None] ** 2 * mu * (1.0 - mu) / noise[:, None])


def information_curve(bank: ItemBank, abilities: Floats) -> InformationCurve:
    """The bank's information around the given abilities.

    Parameters
    ----------
    bank : ItemBank
    abilities : ndarray
        Abilities of the models to be shown; the curve covers them and the bulk of the items.
    """
    intercept, slope, _ = curve_parameters(bank)
    # A curve is steepest, and an item tells most, where mu = 1/2.
    usable = bank.kept & (np.abs(slope) > 1e-6)
    location = np.where(usable, -intercept / np.where(usable, slope, 1.0), np.nan)
    ends = np.nanquantile(location, [0.1, 0.9]) if usable.any() else np.array([0.0])
    points = np.concatenate([ends, abilities[np.isfinite(abilities)]])
    grid = np.linspace(points.min() - MARGIN, points.max() + MARGIN, GRID)
    total = np.zeros(GRID)
    kept = np.flatnonzero(bank.kept)
    # In slices, so that a bank of 100,000 items needs no matrix of 100,000 x 161 at once.
    for start in range(0, len(kept), 4096):
        part = _take(bank, kept[start : start + 4096])
        total += item_information(part, grid).sum(axis=0)
    return InformationCurve(grid, total, location)


def _take(bank: ItemBank, rows: NDArray[np.intp]) -> ItemBank:
    from dataclasses import replace

    return replace(
        bank,
        doc_ids=tuple(bank.doc_ids[i] for i in rows),
        kept=bank.kept[rows],
        parameters={k: v[rows] for k, v in bank.parameters.items()},
        doc_hashes=None,
    )

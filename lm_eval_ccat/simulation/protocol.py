"""The replay protocol: what every fold has in common, what models cost, what may be spent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..errors import UsageError
from .methods import Method

LOWEST_PRICE, HIGHEST_PRICE = 0.1, 3.2
#: Numbers of items per model at which ``spend="fixed"`` looks.
FIXED_LEVELS = (10.0, 20.0, 50.0, 100.0, 200.0)
SPENDS = ("budget", "fixed")

Prices = Mapping[str, float] | None


@dataclass(frozen=True)
class Protocol:
    """Settings of a replay that are the same for every fold.

    Attributes
    ----------
    methods : tuple of Method
    levels : tuple of float or None
        Items per model to replay with: the budget is so many times the held-out models' mean item
        prices. None for no budget.
    units : ndarray of shape (n_items,)
        Size of each item.
    confidence : float
        Two-sided confidence of pairs and intervals.
    item_scaling : bool
        Whether each item's scores are scaled to [0, 1] over the fold's calibration rows first.
    spend : {"budget", "fixed"}
        With "fixed" every method gives every model the same number of items, at equal prices,
        stops nothing early and looks once.
    """

    methods: tuple[Method, ...]
    levels: tuple[float | None, ...]
    units: NDArray[np.float64]
    confidence: float = 0.95
    item_scaling: bool = False
    spend: str = "budget"

    def first_items(self, level: float | None, n_tasks: int) -> int:
        """Items of each task that every model gets first: 10 of one, a third of an even share."""
        if n_tasks == 1:
            return 10
        return 5 if level is None else max(2, int(level / n_tasks / 3))


@dataclass(frozen=True)
class Fold:
    """One hold-out set; with the scores everything that is needed to replay it.

    Attributes
    ----------
    number : int
    holdout : tuple of str
    calibration : tuple of str
        Models to calibrate on, none of them held out.
    prices : tuple of dict
        For each seed the price of one unit of each held-out model.
    """

    number: int
    holdout: tuple[str, ...]
    calibration: tuple[str, ...]
    prices: tuple[Mapping[str, float], ...]


def drawn_prices(models: Sequence[str], seed: int) -> dict[str, float]:
    """Draw a price for every model, log-uniform from 0.1 to 3.2."""
    rng = np.random.default_rng([seed, 7])
    logs = rng.uniform(np.log(LOWEST_PRICE), np.log(HIGHEST_PRICE), len(models))
    return dict(zip(models, np.exp(logs).tolist()))


def prices_by_seed(prices: Prices, models: Sequence[str], seeds: int) -> list[dict[str, float]]:
    """Prices of one unit of every model: stated, or drawn for each seed.

    Raises
    ------
    UsageError
        A model's price is missing or not positive.
    """
    if prices is None:
        return [drawn_prices(models, s) for s in range(seeds)]
    for model in models:
        price = prices.get(model)
        if price is None or not 0 < price < float("inf"):
            raise UsageError(f"prices: no positive price of model {model!r} (found {price!r})")
    return [{model: float(prices[model]) for model in models}] * seeds


def spending_levels(
    levels: Sequence[float] | None, items_per_model: float | None, n_items: int, spend: str
) -> tuple[float | None, ...]:
    """The levels of spending to replay, the asked one among them.

    Raises
    ------
    UsageError
        A number that is not positive, or not whole where numbers of items are fixed.
    """
    if spend not in SPENDS:
        raise UsageError(f"spend {spend!r}: choose one of {', '.join(SPENDS)}")
    if items_per_model is None:
        if spend == "fixed":
            raise UsageError("spend 'fixed' needs a number of items per model")
        return (None,)
    if levels is None and spend == "fixed":
        levels = FIXED_LEVELS
    elif levels is None:
        levels = [n for n in (items_per_model * s for s in (0.5, 1, 2, 4)) if n <= n_items]
    asked = {*map(float, levels), float(items_per_model)}
    if bad := [n for n in asked if not 0 < n < float("inf")]:
        raise UsageError(f"items_per_model {bad[0]:g}: a positive number is needed")
    if spend == "fixed":
        if bad := [n for n in asked if n != int(n)]:
            raise UsageError(f"items_per_model {bad[0]}: a whole number is needed")
        asked = {n for n in asked if n <= n_items or n == items_per_model}
    return tuple(sorted(asked))

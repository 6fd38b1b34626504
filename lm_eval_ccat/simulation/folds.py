"""The protocol of a replay: which models are held out, what they cost, what may be spent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import comb

import numpy as np
from numpy.typing import NDArray

from ..bank.bank import family_of
from ..errors import ScoreTableError, UsageError
from .methods import Method

#: Ways of holding models out.
KINDS = ("random", "frontier", "family")

#: Partitions without a new hold-out set after which no more are looked for.
_PATIENCE = 200

LOWEST_PRICE, HIGHEST_PRICE = 0.1, 3.2
#: Numbers of items per model at which ``spend="fixed"`` looks.
FIXED_LEVELS = (10.0, 20.0, 50.0, 100.0, 200.0)
SPENDS = ("budget", "fixed")

Prices = Mapping[str, float] | None

HoldOut = tuple[tuple[str, ...], tuple[str, ...]]


def hold_outs(
    kind: str,
    models: Sequence[str],
    means: NDArray[np.float64],
    size: int,
    folds: int,
    seed: int,
    least: int = 2,
) -> list[HoldOut]:
    """Distinct hold-out sets, each with the models that calibrate.

    Parameters
    ----------
    kind : {"random", "frontier", "family"}
        Any models; the best third is new and only the models below it calibrate; models of the
        same families, of which none calibrates.
    models : sequence of str
    means : ndarray of shape (n_models,)
        Full-benchmark means, higher is better.
    size : int
        Models per set.
    folds : int
        At most so many sets; fewer where there are no more.
    seed : int
    least : int, optional
        How many must be left to calibrate.

    Returns
    -------
    list of (hold-out set, calibration models)

    Raises
    ------
    UsageError
        An unknown kind, or too few models for it.
    """
    if kind == "random":
        sets = hold_out_sets(models, size, folds, seed, least)
        return [(names, tuple(m for m in models if m not in set(names))) for names in sets]
    if kind == "frontier":
        best = np.argsort(-means, kind="stable")[: max(-(-len(models) // 3), size)]
        new = [models[i] for i in sorted(best)]
        below = tuple(m for m in models if m not in set(new))
        _check(size, folds, len(below), len(models), least)
        return [(names, below) for names in _distinct(new, size, folds, seed)]
    if kind == "family":
        return _families(models, size, folds, seed, least)
    raise UsageError(f"no kind of folds {kind!r}; there are {', '.join(KINDS)}")


def hold_out_sets(
    models: Sequence[str], size: int, folds: int, seed: int, least: int = 2
) -> list[tuple[str, ...]]:
    """Cut successive seeded partitions of the models into distinct hold-out sets.

    Parameters
    ----------
    models : sequence of str
    size : int
        Models per set. What a partition leaves over is held out in no set of it.
    folds : int
        How many sets; fewer where the models have no more.
    seed : int
    least : int, optional
        How many must be left to calibrate.

    Returns
    -------
    list of tuple of str
    """
    _check(size, folds, len(models) - size, len(models), least)
    return _distinct(models, size, folds, seed)


def _check(size: int, folds: int, left: int, total: int, least: int) -> None:
    if size < 2:
        raise UsageError(f"holdout {size}: at least 2 models are needed to rank any")
    if left < least:
        raise UsageError(
            f"holding out {size} of {total} models leaves {max(left, 0)} to calibrate on; at least "
            f"{least} are needed"
            if least
            else f"holdout {size}: there are {total} models; hold out at least 2, at most all"
        )
    if folds < 1:
        raise UsageError(f"folds {folds}: at least 1 is needed")


def _distinct(models: Sequence[str], size: int, folds: int, seed: int) -> list[tuple[str, ...]]:
    sets: dict[frozenset[str], tuple[str, ...]] = {}
    partition = idle = 0
    most = min(folds, comb(len(models), size))
    while len(sets) < most and idle < _PATIENCE:
        order = np.random.default_rng([seed, partition]).permutation(len(models))
        before = len(sets)
        for start in range(0, len(models) - size + 1, size):
            names = tuple(models[i] for i in order[start : start + size])
            sets.setdefault(frozenset(names), names)
        idle = 0 if len(sets) > before else idle + 1
        partition += 1
    return list(sets.values())[:most]


def _families(models: Sequence[str], size: int, folds: int, seed: int, least: int) -> list[HoldOut]:
    """Whole families leave; the first `size` of a seeded order of their models are ranked."""
    groups: dict[str, list[str]] = {}
    for model in models:
        groups.setdefault(family_of(model), []).append(model)
    several = [members for members in groups.values() if len(members) > 1]
    sets: dict[frozenset[str], HoldOut] = {}
    for attempt in range(_PATIENCE + 10 * folds):
        rng = np.random.default_rng([seed, attempt, 3])
        out: list[str] = []
        for k in rng.permutation(len(several)):
            if len(out) < size:
                out += [several[k][i] for i in rng.permutation(len(several[k]))]
        rest = tuple(m for m in models if m not in set(out))
        if len(out) >= size and len(rest) >= least:
            names = tuple(out[:size])
            sets.setdefault(frozenset(names), (names, rest))
        if len(sets) == folds:
            break
    if not sets:
        raise UsageError(
            f"no {size} models of families of two or more can be held out together: families are "
            "told by the first part of the models' names"
        )
    return list(sets.values())


def own_sets(models: Sequence[str], holdouts: Sequence[Sequence[str]], least: int) -> list[HoldOut]:
    """Given hold-out sets, each with the models that are left to calibrate on."""
    sets = []
    for names in holdouts:
        unknown = set(names) - set(models)
        if unknown:
            raise ScoreTableError(f"no scores of model {sorted(unknown)[0]!r} to hold out")
        if len(names) < 2 or len(models) - len(names) < least:
            raise UsageError(
                f"hold-out set of {len(names)} models of {len(models)}: at least 2 are needed "
                f"to rank, and {least} to calibrate on"
            )
        sets.append((tuple(names), tuple(m for m in models if m not in set(names))))
    if not sets:
        raise UsageError("no hold-out set given")
    return sets


def calibration_set(
    others: Sequence[str], most: int | None, fold: int, seed: int
) -> tuple[str, ...]:
    """All models that may calibrate, or a draw of at most `most` that fold and seed decide."""
    if most is None or most >= len(others):
        return tuple(others)
    if most < 2:
        raise UsageError(f"calibration_models {most}: at least 2 are needed")
    drawn = np.random.default_rng([seed, fold, 11]).choice(len(others), most, replace=False)
    return tuple(others[i] for i in sorted(drawn))


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
    levels: Sequence[float] | None,
    items_per_model: float | None,
    n_items: int,
    spend: str,
    n_tasks: int = 1,
) -> tuple[float | None, ...]:
    """The levels of spending to replay, the asked one among them.

    Raises
    ------
    UsageError
        A number that is not positive, less than two items of each of several tasks, or not whole
        where numbers of items are fixed.
    """
    if spend not in SPENDS:
        raise UsageError(f"spend {spend!r}: choose one of {', '.join(SPENDS)}")
    if items_per_model is None:
        if spend == "fixed":
            raise UsageError("spend 'fixed' needs a number of items per model")
        return (None,)
    fewest = 0 if n_tasks == 1 else 2 * n_tasks
    if levels is None:
        usual = [items_per_model * share for share in (0.5, 1, 2, 4)]
        levels = FIXED_LEVELS if spend == "fixed" else [n for n in usual if n <= n_items]
        levels = [n for n in levels if n >= fewest]
    asked = {*map(float, levels), float(items_per_model)}
    if bad := [n for n in asked if not 0 < n < float("inf")]:
        raise UsageError(f"items_per_model {bad[0]:g}: a positive number is needed")
    if spend == "fixed":
        if bad := [n for n in asked if n != int(n)]:
            raise UsageError(f"items_per_model {bad[0]}: a whole number is needed")
        asked = {n for n in asked if n <= n_items or n == items_per_model}
    if min(asked) < fewest:
        raise UsageError(
            f"{min(asked):g} items per model of {n_tasks} tasks: at least 2 of each are needed"
        )
    return tuple(sorted(asked))

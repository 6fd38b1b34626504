"""Which models are held out together, and which of the others calibrate."""

from __future__ import annotations

from collections.abc import Sequence
from math import comb

import numpy as np
from numpy.typing import NDArray

from ..bank.names import family_of
from ..errors import ScoreTableError, UsageError

#: Ways of holding models out.
KINDS = ("random", "frontier", "family")

#: Partitions without a new hold-out set after which no more are looked for.
_PATIENCE = 200

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

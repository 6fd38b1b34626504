"""The measurements of `experiments`, one score table at a time; each returns JSON values.

They follow the experiments of arXiv:2601.13885 and are made alike for every method with a bank.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..bank import ItemBank
from ..errors import CcatError
from ..methods import calibrate
from ..methods.registry import method_of
from ..scores import ScoreTable
from ..scores.item_scaling import ItemScaling
from ..simulation.methods import Method
from ..simulation.outcome import Outcome
from ..simulation.run import Simulation, simulate

Floats = NDArray[np.float64]

BASELINES = ("random", "common", "limit", "static")
BINS = 10
# The paper clips stretched scores this far from 0 and 1, see bank.paper.
_CLIP = 1e-6


@dataclass(frozen=True)
class Design:
    """How every study replays.

    Attributes
    ----------
    methods : tuple of str
        Methods with a bank: "paper", "default".
    holdout, folds, seeds : int
    items_per_model : float
    levels : tuple of float
        Of the budget sweep.
    confidence : float
    families : dict of str to list of str
        Models of each family, held out together; families with fewer than two models in a table
        are passed over there.
    item_scaling : bool
        Scale each item over the calibration rows of each fold, as the paper does for BioLaySumm.
    """

    methods: tuple[str, ...] = ("paper", "default")
    holdout: int = 4
    folds: int = 20
    seeds: int = 1
    items_per_model: float = 20.0
    levels: tuple[float, ...] = (5.0, 10.0, 20.0, 40.0, 80.0)
    confidence: float = 0.95
    families: Mapping[str, Sequence[str]] | None = None
    item_scaling: bool = False


Progress = Callable[[int, int], None] | None


def _simulate(
    table: ScoreTable,
    methods: Sequence[str | Method],
    design: Design,
    units: Any,
    on_progress: Progress,
    **changes: Any,
) -> Simulation:
    options: dict[str, Any] = {
        "holdout": min(design.holdout, len(table.models) - 2),
        "folds": design.folds,
        "seeds": design.seeds,
        "items_per_model": design.items_per_model,
        "confidence": design.confidence,
        "item_scaling": design.item_scaling,
        "units": units,
        "on_progress": on_progress,
        **changes,
    }
    return simulate(table, methods, **options)


def replay(table: ScoreTable, design: Design, units: Any, on_progress: Progress) -> dict[str, Any]:
    """Main comparison, budget sweep and fixed length: every method on the same folds and banks.

    Adaptive stopping and allocation are compared with the same number of items for every model by
    two fixed-length tests: one that may spend what the ranker may, and one that gives *every* model
    as many items as the ranker gave the one it tested longest, which is what it takes without
    adaptive stopping to test the closest pairs as long. Savings are shares of what the second used.
    """
    levels = [n for n in design.levels if n <= table.n_items]
    beside: list[Method] = []
    for name in design.methods:
        adaptive = Method(f"{name}, adaptive", "ranker", name, own_budget=True)
        beside += [
            adaptive,
            Method(f"{name}, equal cost", "fixed", name, own_budget=True),
            Method(f"{name}, equal length", "fixed", name, as_long_as=adaptive.name),
        ]
    methods: list[str | Method] = [*design.methods, *BASELINES, *beside]
    found = _simulate(table, methods, design, units, on_progress, levels=levels)
    shown = {*design.methods, *BASELINES}
    return {
        "summary": {m: s for m, s in found.summary.items() if m in shown},
        "sweep": {m: s for m, s in found.sweep.items() if m in shown},
        "fixed_length": {name: _fixed_length(found.summary, name) for name in design.methods},
        "settings": found.settings,
        "warnings": found.warnings,
    }


def _fixed_length(summary: Mapping[str, Mapping[str, Any]], name: str) -> dict[str, Any]:
    own, equal, long = (
        summary[f"{name}, {kind}"] for kind in ("adaptive", "equal cost", "equal length")
    )
    return {
        "tau_adaptive": own["tau"],
        "tau_equal_cost": equal["tau"],
        "tau_equal_length": long["tau"],
        "length": long["items_per_model"],
        "tau_difference": own["tau"] - long["tau"],
        "item_savings": 1.0 - own["items"] / long["items"],
        "cost_savings": 1.0 - own["cost"] / long["cost"],
    }


def families(
    table: ScoreTable, design: Design, units: Any, on_progress: Progress
) -> dict[str, Any]:
    """Each family held out as a whole: the bank has seen none of its members."""
    sets = {}
    for family, members in (design.families or {}).items():
        there = [m for m in members if m in table.models]
        if len(there) >= 2 and len(table.models) - len(there) >= 2:
            sets[family] = there
    if not sets:
        return {}
    found = _simulate(
        table, [*design.methods, "common"], design, units, on_progress,
        holdouts=list(sets.values()),
    )  # fmt: skip
    return {
        "families": {family: len(members) for family, members in sets.items()},
        "summary": found.summary,
    }


def information(
    table: ScoreTable, design: Design, units: Any, on_progress: Progress
) -> dict[str, Any]:
    """Selection by full against first-term information, by the method "paper"."""
    full = Method("full", "ranker", "paper", rank={"information": "full"})
    first = Method("first", "ranker", "paper")
    # One at a time: with both in one replay the second would spend what the first did.
    runs = [_simulate(table, [method], design, units, on_progress) for method in (first, full)]
    pairs = list(zip(runs[0].outcomes, runs[1].outcomes))
    return {
        "identical_runs": float(np.mean([a.items_of == b.items_of for a, b in pairs])),
        "jaccard": float(np.mean([_jaccard(a, b) for a, b in pairs])),
        "tau_first": runs[0].summary["first"]["tau"],
        "tau_full": runs[1].summary["full"]["tau"],
        "runs": len(pairs),
    }


def _jaccard(a: Outcome, b: Outcome) -> float:
    """Overlap of the items two runs administered, mean over models."""
    shares = []
    for model, items in a.items_of.items():
        one, two = set(items), set(b.items_of[model])
        shares.append(len(one & two) / len(one | two) if one | two else 1.0)
    return float(np.mean(shares))


def calibration(table: ScoreTable, design: Design) -> dict[str, Any]:
    """Calibrate on all models: discrimination, conformance of the variance, and what it took."""
    rows: dict[str, Any] = {}
    if design.item_scaling:
        table = ItemScaling.fit(table).apply(table)
    for name in design.methods:
        start = time.perf_counter()
        bank = calibrate(table, method=name)
        seconds = time.perf_counter() - start
        mu, squares, noise = residuals(table, bank)
        rows[name] = {
            "seconds": seconds,
            "discrimination": _discrimination(bank),
            "items_kept": int(bank.kept.sum()),
            "scores": int(np.isfinite(table.raw).sum()),
            **conformance(mu, squares, noise),
        }
    return rows


def _discrimination(bank: ItemBank) -> float:
    """``1 / sqrt(k)`` of a bank; where items differ in slope and noise, of its median item."""
    if "discrimination" in bank.constants:
        return float(bank.constants["discrimination"])
    return float(np.median(bank.parameters["slope"] / np.sqrt(bank.parameters["noise"])))


def residuals(table: ScoreTable, bank: ItemBank) -> tuple[Floats, Floats, Floats]:
    """Expected score, squared residual and noise of every single observation on kept items.

    Parameters
    ----------
    table : ScoreTable
        What the bank was calibrated on.
    bank : ItemBank

    Notes
    -----
    Abilities are those of the calibration; a method compares on the scale that it was fitted on.
    """
    use = np.isfinite(table.unit) & bank.kept
    y, mu, noise = method_of(bank).fitted_scores(bank, table)
    return mu[use], (y[use] - mu[use]) ** 2, noise[use]


def conformance(mu: Floats, squares: Floats, noise: Floats, bins: int = BINS) -> dict[str, Any]:
    """R2 between observed and predicted variance in bins of the expected score.

    Parameters
    ----------
    mu, squares, noise : ndarray of shape (n,)
        Expected score, squared residual and noise of each observation.
    bins : int
        Bins of equally many observations.

    Returns
    -------
    dict
        ``r2`` (1 - residual / total sum of squares over bins; negative where a constant would
        predict better), ``correlation2`` (squared Pearson correlation) and the ``bins``.
    """
    order = np.argsort(mu, kind="stable")
    cells = []
    for part in np.array_split(order, min(bins, len(order))):
        predicted = float((noise[part] * mu[part] * (1.0 - mu[part])).mean())
        cells.append(
            {
                "mu": float(mu[part].mean()),
                "observed": float(squares[part].mean()),
                "predicted": predicted,
                "n": len(part),
            }
        )
    observed = np.array([c["observed"] for c in cells])
    expected = np.array([c["predicted"] for c in cells])
    total = float(((observed - observed.mean()) ** 2).sum())
    r2 = 1.0 - float(((observed - expected) ** 2).sum()) / total if total > 0 else None
    both = np.ptp(observed) > 0 and np.ptp(expected) > 0
    correlation = float(np.corrcoef(observed, expected)[0, 1]) if both else None
    return {
        "r2": r2,
        "correlation2": None if correlation is None else correlation**2,
        "bins": cells,
    }


def break_even(models: int, n_items: int, items_per_model: float) -> int | None:
    """New models after which calibrating and testing adaptively takes fewer items than full runs.

    ``calibration models x items + new x items per model < new x items``; None where adaptive
    testing saves nothing.

    Examples
    --------
    >>> break_even(10, 1000, 20)
    11
    """
    saved = n_items - items_per_model
    return None if saved <= 0 else int(np.floor(models * n_items / saved)) + 1


def try_study(
    study: Callable[[], dict[str, Any]],
) -> dict[str, Any]:
    """Run a study; what it cannot do on a table is a note in the results, not the end of them."""
    try:
        return study()
    except CcatError as error:
        return {"skipped": str(error)}

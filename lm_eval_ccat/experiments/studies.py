"""The measurements of `experiments`, one score table at a time; each returns JSON values.

They follow the experiments of arXiv:2601.13885 and are made alike for every method with a bank.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import combinations
from typing import Any

import numpy as np

from ..errors import CcatError
from ..methods import calibrate
from ..scores import ScoreTable
from ..simulation.methods import Method
from ..simulation.outcome import Outcome
from ..simulation.protocol import drawn_prices, item_units
from .conformance import discrimination
from .design import BASELINES, Design
from .summaries import of_runs


def replay(table: ScoreTable, design: Design, units: Any) -> dict[str, Any]:
    """Main comparison, ties, fixed length and spending: every method on the same folds and banks.

    Adaptive stopping and allocation are compared with a fixed-length test that gives *every* model
    as many items as the ranker gave the one it tested longest in that run. Savings are shares of
    what the fixed-length test used.
    """
    methods: list[str | Method] = [*map(design.method, design.methods), *BASELINES]
    adaptive = {}
    for name in design.methods:
        adaptive[name] = name
        if name != "paper":  # all others may spend what `paper` spent, so this one goes alone
            adaptive[name] = f"{name}, adaptive"
            methods.append(design.method(name, adaptive[name], own_budget=True))
        methods.append(
            design.method(name, f"{name}, fixed", kind="fixed", as_long_as=adaptive[name])
        )
    found = design.simulate(table, methods, units)
    runs: dict[str, list[Outcome]] = {}
    for outcome in found.outcomes:
        runs.setdefault(outcome.method, []).append(outcome)
    sets = design.sets(table)
    return {
        "summary": {name: of_runs(runs[name]) for name in (*design.methods, *BASELINES)},
        "fixed_length": {
            name: _fixed_length(runs[adaptive[name]], runs[f"{name}, fixed"])
            for name in design.methods
        },
        "discrimination": float(
            np.mean([discrimination(calibrate(table.without(s), "paper")) for s in sets])
        ),
        "cost": _costs(table, design, units, sets, runs[design.methods[0]]),
        "holdout": len(sets[0]),
        "warnings": found.warnings,
    }


def _fixed_length(adaptive: Sequence[Outcome], fixed: Sequence[Outcome]) -> dict[str, Any]:
    pairs = list(zip(adaptive, fixed))
    tau, long = of_runs(adaptive)["tau"], of_runs(fixed)["tau"]
    return {
        "tau": tau,
        "tau fixed": long,
        "fixed - adaptive": None if tau is None or long is None else long - tau,
        "item savings": float(np.mean([1.0 - a.items / f.items for a, f in pairs])),
        "cost savings": float(np.mean([1.0 - a.cost / f.cost for a, f in pairs])),
    }


def _costs(
    table: ScoreTable,
    design: Design,
    units: Any,
    sets: Sequence[Sequence[str]],
    runs: Sequence[Outcome],
) -> dict[str, Any]:
    """Cost of calibration, of full runs and of adaptive ones, and when calibration has paid."""
    size = item_units(table, units).sum()
    configs = {model: len(rows) for model, rows in table.rows_of.items()}
    calibration, full = [], []
    for seed in range(design.seeds):
        price = design.prices or drawn_prices(table.models, seed)
        for held in sets:
            full.append(size * np.mean([price[m] for m in held]))
            calibration.append(
                size * sum(price[m] * configs[m] for m in table.models if m not in held)
            )
    found = {
        "calibration": float(np.mean(calibration)),
        "full / model": float(np.mean(full)),
        "adaptive / model": float(np.mean([r.cost / len(r.holdout) for r in runs])),
    }
    return {**found, "break-even": break_even(*found.values())}


def break_even(calibration: float, full: float, adaptive: float) -> float | None:
    """New models after which calibrating and testing adaptively costs less than full runs.

    None where adaptive testing saves nothing.

    Examples
    --------
    >>> round(break_even(227.47, 3.46, 0.044))
    67
    """
    return calibration / (full - adaptive) if full > adaptive else None


def families(table: ScoreTable, design: Design, units: Any) -> dict[str, Any]:
    """Three models, one from each of three families of which calibration has seen no member.

    Up to as many sets of three as there are folds, drawn by a fixed seed; the families are drawn
    first, then a member of each. At least four models of other families calibrate.
    """
    there = {
        family: [m for m in members if m in table.models]
        for family, members in (design.families or {}).items()
    }
    there = {family: members for family, members in there.items() if members}
    trios = [
        trio
        for trio in combinations(there, 3)
        if len(table.models) - len({m for f in trio for m in there[f]}) >= 4
    ]
    if not trios:
        return {}
    rng = np.random.default_rng(3)
    drawn = rng.permutation(len(trios))[: design.folds]
    runs: dict[str, list[Outcome]] = {}
    sets = []
    for number, n in enumerate(sorted(drawn)):
        held = [there[f][int(rng.integers(len(there[f])))] for f in trios[n]]
        relatives = {m for f in trios[n] for m in there[f]} - set(held)
        rest = table.without(relatives)
        found = design.simulate(
            rest, [*map(design.method, design.methods), *BASELINES], units, holdouts=[held]
        )
        for outcome in found.outcomes:
            runs.setdefault(outcome.method, []).append(replace(outcome, fold=number))
        sets.append(
            {"families": list(trios[n]), "models": held, "calibration": len(rest.models) - 3}
        )
    return {"sets": sets, "summary": {method: of_runs(own) for method, own in runs.items()}}


def sweep(table: ScoreTable, design: Design, units: Any) -> dict[str, Any]:
    """Tau and ties against the budget, with stopping disabled.

    The random baseline goes on to all items; half of them is what a ranker gives a model at most.
    """
    levels = sorted({n for n in design.levels if n <= table.n_items / 2} | {design.levels[0]})
    further, n = [], levels[-1] * 2
    while n < table.n_items:
        further.append(n)
        n *= 2
    found: dict[str, list[dict[str, Any]]] = {}
    for low in (True, False):
        own = [n for n in levels if (n < 10) == low]
        if not own:
            continue
        # A warm-up longer than the budget would be the same run at every level below it.
        rank = {"stop_when_decided": False, "warmup": int(min(10, *own)) if low else 10}
        methods = [design.method(m, rank=rank, own_budget=True) for m in design.methods]
        _add(found, design, table, [*methods, "random"], units, own)
    _add(found, design, table, ["random"], units, [*further, float(table.n_items)])
    return found


def _add(
    found: dict[str, list[dict[str, Any]]],
    design: Design,
    table: ScoreTable,
    methods: Sequence[str | Method],
    units: Any,
    levels: Sequence[float],
) -> None:
    replayed = design.simulate(table, methods, units, items_per_model=levels[0], levels=levels)
    for level in levels:
        at = [o for o in replayed.outcomes if o.items_per_model == level]
        for method in dict.fromkeys(o.method for o in at):
            runs = [o for o in at if o.method == method]
            found.setdefault(method, []).append(
                {"budget": level, **of_runs(runs), "holdout": len(runs[0].holdout)}
            )


def information(table: ScoreTable, design: Design, units: Any) -> dict[str, Any]:
    """Selection by full against first-term information, by the method "paper"."""
    kinds = {"first": {}, "full": {"rank": {"information": "full"}}}
    # One at a time: with both in one replay the second would spend what the first did.
    runs = {
        kind: design.simulate(table, [design.method("paper", kind, **options)], units).outcomes
        for kind, options in kinds.items()
    }
    pairs = list(zip(runs["first"], runs["full"]))
    first, full = (of_runs(runs[kind]) for kind in kinds)
    return {
        "runs": len(pairs),
        "tau first": first["tau"], "tau first sd": first["tau_sd"],
        "tau full": full["tau"], "tau full sd": full["tau_sd"],
        "same ranking": float(np.mean([a.order == b.order for a, b in pairs])),
        "overlap": float(np.mean([jaccard(a, b) for a, b in pairs])),
    }  # fmt: skip


def jaccard(a: Outcome, b: Outcome) -> float:
    """Overlap of the items two runs administered, mean over models."""
    shares = []
    for model, items in a.items_of.items():
        one, two = set(items), set(b.items_of[model])
        shares.append(len(one & two) / len(one | two) if one | two else 1.0)
    return float(np.mean(shares))


def try_study(study: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """Run a study; what it cannot do on a table is a note in the results, not the end of them."""
    try:
        return study()
    except CcatError as error:
        return {"skipped": str(error)}

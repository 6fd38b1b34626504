"""The measurements, one score table at a time; each returns JSON values.

They follow the experiments of arXiv:2601.13885 and are made alike for every method with a bank.
Means are over runs, as the paper averages them: each run counts once, ties of each run by itself.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations
from typing import Any

import numpy as np

from lm_eval_ccat import ScoreTable, calibrate
from lm_eval_ccat.ranker.arguments import item_units
from lm_eval_ccat.simulation.folds import drawn_prices
from lm_eval_ccat.simulation.judging import Replay
from lm_eval_ccat.simulation.strategies import Strategy

from .conformance import discrimination
from .design import BASELINES, Design


def replay(table: ScoreTable, design: Design, units: Any) -> dict[str, Any]:
    """Main comparison, ties, fixed length and spending: every method on the same folds and banks.

    Adaptive stopping and allocation are compared with a fixed-length test that gives *every* model
    as many items as the ranker gave the one it tested longest in that run. Savings are shares of
    what the fixed-length test used.
    """
    methods: list[str | Strategy] = [*map(design.method, design.methods), *BASELINES]
    played: list[Replay] = []
    adaptive, fixed = defaultdict(list), defaultdict(list)
    level, sets = design.items_per_model, design.sets(table)
    for stage in design.stages(table, methods, units):
        played += (of_fold := stage.play())
        for method in stage.protocol.methods[: len(design.methods)]:
            name = method.name
            for seed in range(design.seeds):
                if name == "paper":
                    run = by_method(of_fold)[name][seed]
                else:  # all others may spend what `paper` spent, so this one goes alone
                    run = stage.run(method, seed, level, stage.budget(seed, level))
                longest = max([1, *map(len, run.items_of.values())])
                long = replace(method, kind="fixed", rank={**method.rank, "max_items": longest})
                adaptive[name].append(run)
                fixed[name].append(stage.run(long, seed, level, None))
    runs = by_method(played)
    return {
        "summary": {name: of_runs(runs[name]) for name in (*design.methods, *BASELINES)},
        "fixed_length": {
            name: _fixed_length(adaptive[name], fixed[name]) for name in design.methods
        },
        "discrimination": float(
            np.mean([discrimination(calibrate(table.without(s), "paper")) for s in sets])
        ),
        "cost": _costs(table, design, units, sets, runs[design.methods[0]]),
        "holdout": len(sets[0]),
    }


def _fixed_length(adaptive: Sequence[Replay], fixed: Sequence[Replay]) -> dict[str, Any]:
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
    runs: Sequence[Replay],
) -> dict[str, Any]:
    """Cost of calibration, of full runs and of adaptive ones, and when calibration has paid."""
    size = item_units(table.doc_ids, units).sum()
    configs = {model: len(rows) for model, rows in table.rows_of.items()}
    calibration, full = [], []
    for seed in range(design.seeds):
        price = design.prices or drawn_prices(table.models, seed)
        for held in sets:
            full.append(size * np.mean([price[m] for m in held]))
            calibration.append(
                size * sum(price[m] * configs[m] for m in table.models if m not in held)
            )
    costs = {
        "calibration": float(np.mean(calibration)),
        "full / model": float(np.mean(full)),
        "adaptive / model": float(np.mean([r.cost / len(r.holdout) for r in runs])),
    }
    return {**costs, "break-even": break_even(*costs.values())}


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
    members = {
        family: present
        for family, models in (design.families or {}).items()
        if (present := [m for m in models if m in table.models])
    }
    trios = [
        trio
        for trio in combinations(members, 3)
        if len(table.models) - len({m for f in trio for m in members[f]}) >= 4
    ]
    if not trios:
        return {}
    rng = np.random.default_rng(3)
    drawn = rng.permutation(len(trios))[: design.folds]
    outcomes: list[Replay] = []
    sets = []
    for number, n in enumerate(sorted(drawn)):
        held = [members[f][int(rng.integers(len(members[f])))] for f in trios[n]]
        rest = table.without({m for f in trios[n] for m in members[f]} - set(held))
        methods = [*map(design.method, design.methods), *BASELINES]
        replayed = design.replay(rest, methods, units, sets=[held])
        outcomes += [replace(outcome, fold=number) for outcome in replayed]
        sets.append(
            {"families": list(trios[n]), "models": held, "calibration": len(rest.models) - 3}
        )
    return {"sets": sets, "summary": {m: of_runs(runs) for m, runs in by_method(outcomes).items()}}


def sweep(table: ScoreTable, design: Design, units: Any) -> dict[str, Any]:
    """Tau and ties against the budget, with stopping disabled.

    The random baseline goes on to all items; half of them is what a ranker gives a model at most.
    """
    levels = sorted({n for n in design.levels if n <= table.n_items / 2} | {design.levels[0]})
    further = [float(table.n_items)]
    while levels[-1] * 2 ** len(further) < table.n_items:
        further.insert(-1, levels[-1] * 2 ** len(further))
    few, many = [n for n in levels if n < 10], [n for n in levels if n >= 10]
    measured: dict[str, list[dict[str, Any]]] = {}
    for budgets, warmup in ((few, min(few, default=10)), (many, 10), (further, None)):
        if not budgets:
            continue
        # Each by itself, for its own budget; `random` spends what `paper` does.
        alone: list[list[str | Strategy]] = [["random"]]
        if warmup is not None:
            # A warm-up longer than the budget would be the same run at every level below it.
            rank = {"stop": "limits", "warmup": int(warmup)}
            adaptive = [design.method(m, rank=rank) for m in design.methods]
            alone[:0] = [[m] for m in adaptive if m.name != "paper"]
            alone[-1][:0] = [m for m in adaptive if m.name == "paper"]
        replayed = [o for m in alone for o in design.replay(table, m, units, levels=budgets)]
        for budget in budgets:
            at = [o for o in replayed if o.items_per_model == budget]
            for method, runs in by_method(at).items():
                measured.setdefault(method, []).append(
                    {"budget": budget, **of_runs(runs), "holdout": len(runs[0].holdout)}
                )
    return measured


def information(table: ScoreTable, design: Design, units: Any) -> dict[str, Any]:
    """Selection by full against first-term information, by the method "paper"."""
    if "paper" not in design.methods:
        return {}
    kinds = {"first": {}, "full": {"rank": {"information": "full"}}}
    # One at a time: with both in one replay the second would spend what the first did.
    runs = {
        kind: design.replay(table, [design.method("paper", kind, **options)], units)
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


def jaccard(a: Replay, b: Replay) -> float:
    """Overlap of the items two runs administered, mean over models."""
    shares = []
    for model, items in a.items_of.items():
        one, two = set(items), set(b.items_of[model])
        shares.append(len(one & two) / len(one | two) if one | two else 1.0)
    return float(np.mean(shares))


def by_method(outcomes: Sequence[Replay]) -> dict[str, list[Replay]]:
    """The runs of each method, in the order in which the methods first occur."""
    runs: dict[str, list[Replay]] = {}
    for outcome in outcomes:
        runs.setdefault(outcome.method, []).append(outcome)
    return runs


def of_runs(runs: Sequence[Replay]) -> dict[str, Any]:
    """Summarise the runs of one method.

    Returns
    -------
    dict
        ``tau``, ``asked`` (items over all held-out models) and ``spent``, each also with ``_sd``
        over runs; ``tied`` and ``truly_tied`` (shares of pairs); ``precision``, ``recall``, ``F1``
        of ties and ``confident_accuracy``, None for a method that states no confidence.
    """
    summary: dict[str, Any] = {"runs": len(runs)}
    for name, values in (
        ("tau", [r.tau for r in runs if r.tau is not None]),
        ("asked", [r.items for r in runs]),
        ("spent", [r.cost for r in runs]),
    ):
        summary[name] = float(np.mean(values)) if values else None
        summary[f"{name}_sd"] = float(np.std(values)) if values else None
    summary["truly_tied"] = float(np.mean([r.true_ties / r.pairs for r in runs]))
    stated = [r for r in runs if r.ties is not None]
    scores = np.array([tie_scores(r) for r in stated]).reshape(-1, 3)
    right = [(r.decided_right or 0) / r.decided for r in stated if r.decided]
    summary |= dict.fromkeys(("tied", "precision", "recall", "F1", "confident_accuracy"))
    if stated:
        summary["tied"] = float(np.mean([(r.ties or 0) / r.pairs for r in stated]))
        summary |= dict(zip(("precision", "recall", "F1"), scores.mean(axis=0).tolist()))
        summary["confident_accuracy"] = float(np.mean(right)) if right else None
    return summary


def tie_scores(run: Replay) -> tuple[float, float, float]:
    """Precision, recall and F1 of the ties of one run.

    As the authors' code has it: recall is 1 where nothing is truly tied; precision is 1 where
    nothing is tied nor called so, and 0 where all of several ties are missed.
    """
    called, true, hits = run.ties or 0, run.true_ties, run.ties_right or 0
    precision = hits / called if called else float(true == 0)
    recall = hits / true if true else 1.0
    both = precision + recall
    return precision, recall, 2.0 * precision * recall / both if both else 0.0

"""Replay a ranking over several tasks: hold models out, rank them by the weighted mean."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..bank import ItemBank
from ..errors import UsageError
from ..methods import calibrate
from ..methods.calibration import MIN_MODELS
from ..methods.registry import method as registered
from ..parallel import in_processes
from ..ranker import Ranker
from ..scores import ScoreTable
from .folds import hold_outs
from .methods import Method, chosen_methods
from .outcome import Claim, Floats, Outcome, Run, Truth, judge
from .protocol import calibration_set
from .run import (
    Simulation,
    own_sets,
    prices_by_seed,
    prices_in_words,
    spending_levels,
    sweep_of,
)
from .summary import advice, run_record, summarise
from .truth import bootstrap_intervals

DEFAULT_METHODS = ("default", "paper", "sample", "random")


@dataclass(frozen=True)
class _Piece:
    """One hold-out set of a suite and what to do with it; sent to a process."""

    fold: int
    holdout: tuple[str, ...]
    calibration: tuple[str, ...]
    methods: tuple[Method, ...]
    levels: tuple[float | None, ...]
    prices: tuple[Mapping[str, float], ...]
    share: Mapping[str, float]
    confidence: float
    warmup: int | None


def simulate_suite(
    tables: Mapping[str, ScoreTable],
    methods: Sequence[str | Method] = DEFAULT_METHODS,
    *,
    weights: str | Mapping[str, float] = "documents",
    holdout: int = 4,
    folds: int = 20,
    seeds: int = 1,
    items_per_model: float = 40,
    confidence: float = 0.95,
    prices: Mapping[str, float] | str | Path | None = None,
    warmup: int | None = None,
    levels: Sequence[float] | None = (),
    wanted_tau: float = 0.9,
    holdouts: Sequence[Sequence[str]] | None = None,
    calibration_models: int | None = None,
    kind: str = "random",
    seed: int = 0,
    processes: int | None = None,
    on_progress: Callable[[int, int], None] | None = None,
) -> Simulation:
    """Replay logged scores of several tasks through the ranker.

    Budget, prices, seeds and the sweep are those of `simulate`; items are of all tasks together.

    Parameters
    ----------
    tables : mapping of task to ScoreTable
        Models that are not in all of them are left out.
    methods : sequence of str or Method
        Methods that rank as they go, and ``random``: as many items of each task as its weight says,
        at random, the weighted mean of their scores.
    weights : {"documents", "equal"} or mapping of task to float
    holdout, folds, seeds, confidence, prices, wanted_tau, holdouts, calibration_models, kind, seed,
    processes, on_progress
        As in `simulate`.
    items_per_model : float
        The budget is this times the sum of the held-out models' prices.
    warmup : int, optional
        Items of each task that every model gets first; default a third of an even share.
    levels : sequence of float, optional
        Other values of ``items_per_model`` to replay; None picks half, twice and four times it.

    Returns
    -------
    Simulation

    Raises
    ------
    UsageError
        Fewer than two tasks, too few models or items, a method that cannot rank several tasks, or
        prices or weights that do not fit.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> skill = np.linspace(-1, 1, 12)[:, None]
    >>> tables = {
    ...     t: ScoreTable.from_arrays(
    ...         1 / (1 + np.exp(-skill - rng.normal(size=(12, 60)))), [f"m{i}" for i in range(12)]
    ...     )
    ...     for t in ("a", "b")
    ... }
    >>> found = simulate_suite(
    ...     tables, ["sample", "random"], folds=2, items_per_model=20, processes=1
    ... )
    >>> found.settings["tasks"], sorted(found.summary)
    (['a', 'b'], ['random', 'sample'])
    """
    chosen = _checked(methods)
    if len(tables) < 2:
        raise UsageError("a suite has at least two tasks; simulate one by itself")
    if seeds < 1:
        raise UsageError(f"seeds {seeds}: at least 1 is needed")
    common = [m for m in next(iter(tables.values())).models
              if all(m in t.models for t in tables.values())]  # fmt: skip
    tables = {task: table.select(common) for task, table in tables.items()}
    share = _shares(tables, weights)
    n_items = sum(t.n_items for t in tables.values())
    fewest = 2.0 * len(tables)
    all_levels = tuple(
        n for n in spending_levels(levels, items_per_model, n_items)
        if levels is not None or n == items_per_model or (n or 0.0) >= fewest
    )  # fmt: skip
    if not min(n or 0.0 for n in all_levels) >= fewest:
        raise UsageError(
            f"{all_levels[0]:g} items per model of {len(tables)} tasks: at least 2 of each "
            "are needed"
        )
    least = MIN_MODELS if any(m.calibrates for m in chosen) else 0
    if holdouts is None:
        means = np.nanmean(_whole(tables, share), axis=1)
        sets = hold_outs(kind, common, means, holdout, folds, seed, least)
    else:
        sets = own_sets(common, holdouts, least)
    by_seed = prices_by_seed(prices, common, seeds)
    pieces = [
        _Piece(
            fold, names, calibration_set(others, calibration_models, fold, seed), chosen,
            all_levels, tuple({m: p[m] for m in names} for p in by_seed), share, confidence, warmup,
        )
        for fold, (names, others) in enumerate(sets)
    ]  # fmt: skip
    outcomes: list[Outcome] = []
    for done, found in enumerate(in_processes(_replay, pieces, tables, processes), start=1):
        outcomes += found
        if on_progress is not None:
            on_progress(done, len(pieces))
    sweep = sweep_of(outcomes, all_levels, n_items, confidence)
    base = [o for o in outcomes if o.items_per_model == items_per_model]
    settings = {
        "task": "+".join(tables),
        "tasks": list(tables),
        "weights": share,
        "metric": ", ".join(dict.fromkeys(t.metric for t in tables.values())),
        "models": len(common),
        "items_of_benchmark": n_items,
        "holdout": len(pieces[0].holdout),
        "calibration_models": len(pieces[0].calibration),
        "folds": len(pieces),
        "seeds": seeds,
        "items_per_model": items_per_model,
        "confidence": confidence,
        "warmup": _ahead(warmup, items_per_model, tables),
        "spend": "budget",
        "kind": "given" if holdouts is not None else kind,
        "prices": prices_in_words(prices),
        "seed": seed,
    }
    return Simulation(
        runs=[run_record(o, confidence) for o in base],
        summary=summarise(base, n_items, confidence),
        sweep=sweep,
        advice=advice(sweep, n_items, wanted_tau, confidence) if len(all_levels) > 1 else [],
        settings=settings,
        warnings=[w for t in tables.values() for w in t.warnings],
        outcomes=outcomes,
    )


def _ahead(warmup: int | None, level: float, tables: Mapping[str, ScoreTable]) -> int:
    """Items of each task that every model gets first."""
    return max(2, int(level / len(tables) / 3)) if warmup is None else warmup


def _checked(methods: Sequence[str | Method]) -> tuple[Method, ...]:
    chosen = chosen_methods(methods)
    for method in chosen:
        if method.kind not in ("ranker", "random"):
            raise UsageError(f"method {method.name!r} does not rank several tasks; take "
                             f"{', '.join(DEFAULT_METHODS)}")  # fmt: skip
    return chosen


def _shares(
    tables: Mapping[str, ScoreTable], weights: str | Mapping[str, float]
) -> dict[str, float]:
    if isinstance(weights, Mapping):
        if set(weights) != set(tables) or not all(0.0 < w < np.inf for w in weights.values()):
            raise UsageError(f"weights need a positive number for each of {', '.join(tables)}")
        sizes = {t: float(weights[t]) for t in tables}
    elif weights in ("documents", "equal"):
        sizes = {t: float(x.n_items) if weights == "documents" else 1.0 for t, x in tables.items()}
    else:
        raise UsageError(f"weights {weights!r} is neither 'documents' nor 'equal'")
    total = sum(sizes.values())
    return {t: size / total for t, size in sizes.items()}


def _whole(tables: Mapping[str, ScoreTable], share: Mapping[str, float]) -> Floats:
    """Scores of all items, so scaled that their mean is the weighted mean over tasks."""
    n = sum(t.n_items for t in tables.values())
    parts = [x.model_scores() * share[t] * n / x.n_items for t, x in tables.items()]
    return np.concatenate(parts, axis=1)


def _replay(piece: _Piece, tables: Mapping[str, ScoreTable]) -> list[Outcome]:
    """Every method on one hold-out set, at every level of spending, with every seed."""
    names = piece.holdout
    rows = [next(iter(tables.values())).models.index(m) for m in names]
    mine = _whole(tables, piece.share)[rows]
    low, high = bootstrap_intervals(mine)
    truth = Truth.of(mine, mine, 1.0, low, high)
    held = {t: x.select(names) for t, x in tables.items()}
    banks: dict[Any, dict[str, ItemBank]] = {}
    for method in piece.methods:
        if method.bank is not None and method.bank_key not in banks:
            banks[method.bank_key] = {
                t: _bank(method, x, piece.calibration) for t, x in tables.items()
            }
    # The paper's method spends first: the others may spend what it spent.
    ordered = sorted(piece.methods, key=lambda m: m.name != "paper")
    outcomes = []
    for level in piece.levels:
        equal: float | None = None
        for method in ordered:
            own = [
                _one(piece, held, banks.get(method.bank_key), truth, method, seed, level, equal)
                for seed in range(len(piece.prices))
            ]
            outcomes += own
            if method.name == "paper":
                equal = float(np.mean([o.cost for o in own]))
    rank = {method.name: n for n, method in enumerate(piece.methods)}
    return sorted(outcomes, key=lambda o: rank[o.method])


def _one(
    piece: _Piece,
    held: Mapping[str, ScoreTable],
    banks: Mapping[str, ItemBank] | None,
    truth: Truth,
    method: Method,
    seed: int,
    level: float | None,
    equal: float | None,
) -> Outcome:
    """One method with one seed, at one level of spending."""
    names, prices = piece.holdout, piece.prices[seed]
    total = sum(prices.values())
    assert level is not None
    budget = level * total if equal is None or method.own_budget else equal
    scores = {t: x.model_scores() for t, x in held.items()}
    start, why = time.perf_counter(), ""
    if banks is None:
        claim, each = _at_random(scores, piece.share, budget / total, [seed, piece.fold])
        used, spent = each * len(names), each * total
    else:
        ranker = Ranker(
            banks,
            dict(prices),
            budget=budget,
            seed=seed * 1_000_003 + piece.fold,
            confidence=piece.confidence,
            weights=dict(piece.share),
            warmup=_ahead(piece.warmup, level, held),
            **method.rank,
        )
        _drive(ranker, held, scores, names)
        ranking = ranker.result()
        claim, used = Claim.of(ranker, ranking, names), sum(map(len, ranking.items.values()))
        spent, why = sum(ranking.cost.values()), ranking.stopped_because
    run = Run(method.name, piece.fold, seed, names, level, budget, spent, used,
              time.perf_counter() - start, why)  # fmt: skip
    return judge(run, claim, truth)


def _bank(method: Method, table: ScoreTable, others: Sequence[str]) -> ItemBank:
    assert method.bank is not None
    if registered(method.bank).calibrates:
        return calibrate(table.select(others), method=method.bank, **method.calibrate)
    return ItemBank.blank(table.doc_ids, method=method.bank, metric=table.metric, scale=table.scale)


def _drive(
    ranker: Ranker,
    tables: Mapping[str, ScoreTable],
    scores: Mapping[str, Floats],
    names: Sequence[str],
) -> None:
    row = {m: n for n, m in enumerate(names)}
    column = {t: {d: i for i, d in enumerate(x.doc_ids)} for t, x in tables.items()}
    while not ranker.done:
        for model, (task, doc) in ranker.ask():
            score = scores[task][row[model], column[task][doc]]
            if np.isfinite(score):
                ranker.tell(model, (task, doc), float(score))
            else:
                ranker.fail(model, (task, doc), "no score in the table", cost=0.0)


def _at_random(
    scores: Mapping[str, Floats], share: Mapping[str, float], each: float, seed: Sequence[int]
) -> tuple[Claim, int]:
    """The same random items of each task for all models, as many as its weight says."""
    rng = np.random.default_rng(seed)
    estimate, used = np.zeros(len(next(iter(scores.values())))), 0
    for task, x in scores.items():
        n = min(x.shape[1], max(1, round(each * share[task])))
        estimate += share[task] * np.nanmean(x[:, rng.choice(x.shape[1], n, replace=False)], axis=1)
        used += n
    return Claim(np.nan_to_num(estimate, nan=0.5)), used

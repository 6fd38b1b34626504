"""Replay a ranking over several tasks: hold models out, rank them by the weighted mean."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ..bank import ItemBank
from ..errors import UsageError
from ..methods import calibrate
from ..methods.calibration import MIN_MODELS
from ..methods.registry import method as registered
from ..ranker import Ranker
from ..scores import ScoreTable
from .folds import HoldOut, hold_outs
from .methods import Method, chosen_methods
from .outcome import Claim, Floats, Outcome, Run, Truth, judge
from .run import Simulation
from .summary import run_record, summarise
from .truth import bootstrap_intervals

DEFAULT_METHODS = ("default", "paper", "sample", "random")


def simulate_suite(
    tables: Mapping[str, ScoreTable],
    methods: Sequence[str | Method] = DEFAULT_METHODS,
    *,
    weights: str = "documents",
    holdout: int = 4,
    folds: int = 20,
    items_per_model: float = 40,
    confidence: float = 0.95,
    warmup: int | None = None,
    kind: str = "random",
    seed: int = 0,
    on_progress: Callable[[int, int], None] | None = None,
) -> Simulation:
    """Replay logged scores of several tasks through the ranker, at equal prices.

    Every method has the budget of ``items_per_model`` items a model, of all tasks together.

    Parameters
    ----------
    tables : mapping of task to ScoreTable
        Models that are not in all of them are left out.
    methods : sequence of str or Method
        Methods that rank as they go, and ``random``: as many items of each task as its weight says,
        at random, the weighted mean of their scores.
    weights : {"documents", "equal"}
    holdout, folds, items_per_model, confidence, kind, seed, on_progress
        As in `simulate`.
    warmup : int, optional
        Items of each task that every model gets first; default a third of an even share.

    Returns
    -------
    Simulation

    Raises
    ------
    UsageError
        Fewer than two tasks, too few models or items, or a method that cannot rank several tasks.

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
    >>> found = simulate_suite(tables, ["sample", "random"], folds=2, items_per_model=20)
    >>> found.settings["tasks"], sorted(found.summary)
    (['a', 'b'], ['random', 'sample'])
    """
    chosen = _checked(methods)
    if len(tables) < 2:
        raise UsageError("a suite has at least two tasks; simulate one by itself")
    if weights not in ("documents", "equal"):
        raise UsageError(f"weights {weights!r} is neither 'documents' nor 'equal'")
    common = [m for m in next(iter(tables.values())).models
              if all(m in t.models for t in tables.values())]  # fmt: skip
    tables = {task: table.select(common) for task, table in tables.items()}
    share = _shares(tables, weights)
    if not items_per_model >= 2 * len(tables):
        raise UsageError(
            f"{items_per_model:g} items per model of {len(tables)} tasks: at least 2 of each "
            "are needed"
        )
    ahead = max(2, int(items_per_model / len(tables) / 3)) if warmup is None else warmup
    whole = _whole(tables, share)
    least = MIN_MODELS if any(m.calibrates for m in chosen) else 0
    sets = hold_outs(kind, common, np.nanmean(whole, axis=1), holdout, folds, seed, least)
    outcomes: list[Outcome] = []
    about: dict[str, Any] = {"confidence": confidence, "weights": weights, "warmup": ahead}
    for fold, names in enumerate(sets):
        for method in chosen:
            outcomes.append(_one(tables, share, whole, names, method, fold, items_per_model, about))
        if on_progress is not None:
            on_progress(fold + 1, len(sets))
    n_items = sum(t.n_items for t in tables.values())
    settings = {
        "task": "+".join(tables),
        "tasks": list(tables),
        "weights": share,
        "metric": ", ".join(dict.fromkeys(t.metric for t in tables.values())),
        "models": len(common),
        "items_of_benchmark": n_items,
        "holdout": len(sets[0][0]),
        "calibration_models": len(sets[0][1]),
        "folds": len(sets),
        "seeds": 1,
        "items_per_model": items_per_model,
        "confidence": confidence,
        "warmup": ahead,
        "spend": "budget",
        "kind": kind,
        "prices": "equal",
        "seed": seed,
    }
    return Simulation(
        runs=[run_record(o, confidence) for o in outcomes],
        summary=summarise(outcomes, n_items, confidence),
        sweep={},
        advice=[],
        settings=settings,
        warnings=[w for t in tables.values() for w in t.warnings],
        outcomes=outcomes,
    )


def _checked(methods: Sequence[str | Method]) -> tuple[Method, ...]:
    chosen = chosen_methods(methods)
    for method in chosen:
        if method.kind not in ("ranker", "random"):
            raise UsageError(f"method {method.name!r} does not rank several tasks; take "
                             f"{', '.join(DEFAULT_METHODS)}")  # fmt: skip
    return chosen


def _shares(tables: Mapping[str, ScoreTable], weights: str) -> dict[str, float]:
    sizes = {t: float(x.n_items) if weights == "documents" else 1.0 for t, x in tables.items()}
    total = sum(sizes.values())
    return {t: size / total for t, size in sizes.items()}


def _whole(tables: Mapping[str, ScoreTable], share: Mapping[str, float]) -> Floats:
    """Scores of all items, so scaled that their mean is the weighted mean over tasks."""
    n = sum(t.n_items for t in tables.values())
    parts = [x.model_scores() * share[t] * n / x.n_items for t, x in tables.items()]
    return np.concatenate(parts, axis=1)


def _one(
    tables: Mapping[str, ScoreTable],
    share: Mapping[str, float],
    whole: Floats,
    sets: HoldOut,
    method: Method,
    fold: int,
    items_per_model: float,
    about: Mapping[str, Any],
) -> Outcome:
    """One method on one hold-out set."""
    names, others = sets
    rows = [next(iter(tables.values())).models.index(m) for m in names]
    scores = {t: x.select(names).model_scores() for t, x in tables.items()}
    budget = items_per_model * len(names)
    start = time.perf_counter()
    why = ""
    if method.kind == "random":
        claim, used = _at_random(scores, share, items_per_model, fold)
    else:
        banks = {t: _bank(method, x, others) for t, x in tables.items()}
        start = time.perf_counter()
        ranker = Ranker(
            banks, dict.fromkeys(names, 1.0), budget=budget, seed=fold, **about, **method.rank
        )
        _drive(ranker, tables, scores, names)
        ranking = ranker.result()
        claim, used = Claim.of(ranker, ranking, names), sum(map(len, ranking.items.values()))
        why = ranking.stopped_because
    mine = whole[rows]
    low, high = bootstrap_intervals(mine)
    truth = Truth.of(mine, mine, 1.0, low, high)
    run = Run(method.name, fold, 0, names, items_per_model, budget, float(used), used,
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
    scores: Mapping[str, Floats], share: Mapping[str, float], each: float, seed: int
) -> tuple[Claim, int]:
    """The same random items of each task for all models, as many as its weight says."""
    rng = np.random.default_rng(seed)
    estimate, used = np.zeros(len(next(iter(scores.values())))), 0
    for task, x in scores.items():
        n = min(x.shape[1], max(1, round(each * share[task])))
        estimate += share[task] * np.nanmean(x[:, rng.choice(x.shape[1], n, replace=False)], axis=1)
        used += n * len(x)
    return Claim(np.nan_to_num(estimate, nan=0.5)), used

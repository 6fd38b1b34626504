"""Replay one fold: calibrate once, then let every method rank the held-out models."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..bank import ItemBank
from ..methods import calibrate
from ..methods.registry import method as registered
from ..scores import ScoreTable
from ..scores.item_scaling import ItemScaling
from .methods import Method
from .outcome import Outcome
from .protocol import Fold, Protocol
from .stage import Stage
from .truth import bootstrap_intervals


@dataclass(frozen=True)
class Piece:
    """A fold and what to do with it; sent to a process."""

    fold: Fold
    methods: tuple[Method, ...]
    protocol: Protocol
    levels: tuple[float | None, ...]


@dataclass(frozen=True)
class FoldResult:
    """What came of one fold.

    Attributes
    ----------
    outcomes : list of Outcome
    warnings : list of str
        What the fold's calibrations warned of.
    calibration_seconds : dict of str to float
        By method.
    """

    outcomes: list[Outcome]
    warnings: list[str]
    calibration_seconds: dict[str, float]


def replay_fold(piece: Piece, tables: tuple[ScoreTable, ScoreTable]) -> FoldResult:
    """Replay every method on one fold of a table, at every level of spending, with every seed.

    ``tables`` are the scores to calibrate on and those to test by; often the same.
    """
    fold, protocol = piece.fold, piece.protocol
    table, tested = fold.calibration_table(tables[0]), tables[1]
    if protocol.item_scaling:
        scaling = ItemScaling.fit(table)  # the held-out models have no part in it
        table, tested = scaling.apply(table), scaling.apply(tested)
        low, high = bootstrap_intervals(tested.select(fold.holdout).model_scores())
        fold = replace(fold, low=low, high=high)
    banks: dict[Any, ItemBank] = {}
    seconds: dict[str, float] = {}
    warnings: list[str] = []
    for method in piece.methods:
        if method.bank is None or method.bank_key in banks:
            continue
        start = time.perf_counter()
        banks[method.bank_key] = bank = _bank(method, table, tested)
        seconds[method.name] = time.perf_counter() - start
        warnings += [w for w in bank.warnings if w not in table.warnings]
    stage = Stage(fold, protocol, tested, table)
    replay = _fixed if protocol.spend == "fixed" else _budgets
    outcomes = replay(piece, stage, banks)
    rank = {method.name: n for n, method in enumerate(piece.methods)}
    outcomes.sort(key=lambda o: rank[o.method])
    return FoldResult(outcomes, warnings, seconds)


def _bank(method: Method, table: ScoreTable, whole: ScoreTable) -> ItemBank:
    """A bank of the method's: calibrated, or of all items where it calibrates nothing."""
    assert method.bank is not None
    if registered(method.bank).calibrates:
        return calibrate(table, method=method.bank, **method.calibrate)
    return ItemBank.blank(
        whole.doc_ids, method=method.bank, task=whole.task, metric=whole.metric, scale=whole.scale
    )


def _fixed(piece: Piece, stage: Stage, banks: dict[Any, ItemBank]) -> list[Outcome]:
    levels = sorted(int(level) for level in piece.levels if level is not None)
    return [
        outcome
        for method in piece.methods
        for seed in range(piece.protocol.seeds)
        for outcome in stage.at_fixed_numbers(method, banks.get(method.bank_key), seed, levels)
    ]


def _budgets(piece: Piece, stage: Stage, banks: dict[Any, ItemBank]) -> list[Outcome]:
    # The paper's method spends first: the others may spend what it spent.
    ordered = sorted(piece.methods, key=lambda m: m.name != "paper")
    outcomes: list[Outcome] = []
    for level in piece.levels:
        equal: float | None = None
        longest: dict[tuple[str, int], int] = {}
        for method in ordered:
            own = [
                stage.run(
                    method,
                    banks.get(method.bank_key),
                    seed,
                    level,
                    None if method.own_budget else equal,
                    longest.get((method.as_long_as or "", seed)),
                )
                for seed in range(piece.protocol.seeds)
            ]
            outcomes += own
            for outcome in own:
                lengths = [len(items) for items in outcome.items_of.values()]
                longest[method.name, outcome.seed] = max(lengths, default=0)
            if method.name == "paper":
                equal = float(np.mean([outcome.cost for outcome in own]))
    return outcomes

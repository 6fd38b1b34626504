"""One fold on the stage: its held-out models' scores, asked for by one method at a time."""

from __future__ import annotations

import time
import zlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..bank import ItemBank
from ..bank.outcome import Outcome
from ..methods import calibrate
from ..methods.registry import method as registered
from ..ranker import Ranker
from ..scores import ScoreTable
from . import methods
from .benchmark import Benchmark
from .folds import Fold, Protocol
from .judging import Claim, Floats, Replay, Truth, replay_of
from .methods import Method, Stratum, paired

Banks = Mapping[str, ItemBank]
#: From a claim, its cost and its number of items to a judged run.
Judge = Callable[..., Replay]


#: Replays of a fold, what its calibrations warned of, and their seconds by method.
FoldResult = tuple[list[Replay], list[str], dict[str, float]]


def replay_fold(fold: Fold, common: tuple[Protocol, Benchmark, Benchmark]) -> FoldResult:
    """Replay every method on one fold, at every level of spending, with every seed.

    ``common`` has the scores to calibrate on and those to test by; often the same.
    """
    protocol, whole, tested = common
    tables = whole.calibration(fold.calibration)
    if protocol.item_scaling:  # the held-out models have no part in it
        scaled = Benchmark(tables, whole.share).scaled_by(tables)
        tested, tables = tested.scaled_by(tables), dict(scaled.tables)
    banks: dict[Any, Banks] = {}
    warnings: list[str] = []
    seconds: dict[str, float] = {}
    for method in protocol.methods:
        if method.bank is None or method.bank_key in banks:
            continue
        start = time.perf_counter()
        banks[method.bank_key] = calibrated = {
            task: _bank(method, table, tested.tables[task]) for task, table in tables.items()
        }
        seconds[method.name] = time.perf_counter() - start
        for task, bank in calibrated.items():
            warnings.extend(w for w in bank.warnings if w not in tables[task].warnings)
    stage = Stage(fold, protocol, tested, tables, banks)
    outcomes = stage.at_fixed_numbers() if protocol.spend == "fixed" else stage.play()
    rank = {method.name: n for n, method in enumerate(protocol.methods)}
    return sorted(outcomes, key=lambda o: rank[o.method]), warnings, seconds


def _bank(method: Method, table: ScoreTable, whole: ScoreTable) -> ItemBank:
    """A bank of the method's: calibrated, or of all items where it calibrates nothing."""
    assert method.bank is not None
    if registered(method.bank).calibrates:
        return calibrate(table, method=method.bank, **method.calibrate)
    return ItemBank.blank(
        whole.doc_ids, method=method.bank, task=whole.task, metric=whole.metric, scale=whole.scale
    )


class Stage:
    """The held-out models' scores and the truth about them, shared by all runs of a fold.

    Parameters
    ----------
    fold : Fold
    protocol : Protocol
    whole : Benchmark
        Scores of all models.
    calibration : mapping of task to ScoreTable
        Of the models that calibrate.
    banks : mapping
        By the keys of the methods, then by task.
    """

    def __init__(
        self,
        fold: Fold,
        protocol: Protocol,
        whole: Benchmark,
        calibration: Mapping[str, ScoreTable],
        banks: Mapping[Any, Banks],
    ) -> None:
        self.fold, self.protocol, self.banks = fold, protocol, banks
        self.held = whole.select(fold.holdout)
        self.scores = self.held.scores
        self.truth = Truth.of(self.held)
        self.column = {item: n for n, item in enumerate(self.held.items)}
        self.row = {model: n for n, model in enumerate(fold.holdout)}
        self._calibration = calibration
        self._static: NDArray[np.intp] | None = None

    def play(self) -> list[Replay]:
        """Let every method rank the held-out models within a budget."""
        # The paper's method spends first: the others may spend what it spent.
        ordered = sorted(self.protocol.methods, key=lambda m: m.name != "paper")
        outcomes: list[Replay] = []
        for level in self.protocol.levels:
            equal: float | None = None
            longest: dict[tuple[str | None, int], int] = {}
            for method in ordered:
                of_method = []
                for seed in range(len(self.fold.prices)):
                    length = longest.get((method.as_long_as, seed))
                    shared = None if method.own_budget else equal
                    one = self._within_budget(method, seed, level, shared, length)
                    longest[method.name, seed] = max(map(len, one.items_of.values()), default=0)
                    of_method.append(one)
                outcomes += of_method
                if method.name == "paper":
                    equal = float(np.mean([one.cost for one in of_method]))
        return outcomes

    def at_fixed_numbers(self) -> list[Replay]:
        """Let every method rank after the same numbers of items of every model.

        None stops early, each is looked at then only, and all items cost the same.
        """
        levels = sorted(int(level) for level in self.protocol.levels if level is not None)
        return [
            outcome
            for method in self.protocol.methods
            for seed in range(len(self.fold.prices))
            for outcome in (self._looks if method.drives_ranker else self._blind_looks)(
                method, seed, levels
            )
        ]

    def _within_budget(
        self,
        method: Method,
        seed: int,
        level: float | None,
        equal: float | None,
        length: int | None,
    ) -> Replay:
        """Replay one run; without `equal`, the level sets the budget; a `length` needs none."""
        prices, units = self.fold.prices[seed], self.protocol.units
        budget = equal
        if length is not None or (equal is None and level is None):
            budget = None
        elif equal is None and level is not None:
            budget = level * sum(prices.values()) * float(units.mean())
        run = self._begun(method, seed, level, budget)
        if method.drives_ranker:
            options: dict[str, object] = {"budget": budget}
            if method.kind == "fixed":
                kept = sum(int(b.kept.sum()) for b in self.banks[method.bank_key].values())
                most = kept if length is None else max(length, 1)
                options = {"warmup": 0, "stop": "limits", "max_items": most}
            ranker = self._ranker(method, seed, prices, units, level, options)
            if method.kind == "fixed":
                self._in_turn(ranker, prices, np.inf if budget is None else budget)
            while method.kind != "fixed" and not ranker.done:
                self._tell(ranker, ranker.ask())
            return self._outcome(run, ranker)
        price = np.array([prices[model] for model in self.fold.holdout])
        most_spent = np.inf if budget is None else budget
        rng = self._rng(method, seed)
        if method.kind == "random":
            had, spent = methods.random_items(self.scores, price, units, most_spent, rng)
        else:
            order = self._order(method, rng)
            had, spent = methods.items_for_all(order, self.scores, price, units, most_spent)
        return run(self._claim(method, had), spent, int(had.sum()))

    def _blind_looks(self, method: Method, seed: int, levels: Sequence[int]) -> list[Replay]:
        rng = self._rng(method, seed)
        n_models, n_items = self.scores.shape
        seen = np.isfinite(self.scores)
        common = None if method.kind == "random" else self._order(method, rng)
        orders = [rng.permutation(n_items) if common is None else common for _ in range(n_models)]
        outcomes = []
        for level in levels:
            run = self._begun(method, seed, level)
            had = np.zeros(self.scores.shape, dtype=bool)
            for row, order, usable in zip(had, orders, seen):
                row[order[usable[order]][:level]] = True
            items = int(had.sum())
            outcomes.append(run(self._claim(method, had), items, items))
        return outcomes

    # -- with a ranker ------------------------------------------------------------------------

    def _ranker(
        self,
        method: Method,
        seed: int,
        prices: Mapping[str, float],
        units: Floats,
        level: float | None,
        options: Mapping[str, Any],
    ) -> Ranker:
        banks = self.banks[method.bank_key]
        several = len(banks) > 1
        where = {
            task: np.array([self.column[(task, d) if several else d] for d in bank.doc_ids])
            for task, bank in banks.items()
        }
        sizes = {task: units[at] for task, at in where.items()}
        if method.holdout_range:
            options = {**options, "score_range": (np.nanmin(self.scores), np.nanmax(self.scores))}
        ranker = Ranker(
            [Outcome.of(bank, task) for task, bank in banks.items()],
            models=dict(prices),
            units=sizes if several else next(iter(sizes.values())),
            weights=dict(self.held.share) if several else None,
            confidence=self.protocol.confidence,
            seed=seed * 1_000_003 + self.fold.number,
            **{"warmup": self.protocol.first_items(level, len(banks)), **options, **method.rank},
        )
        for task, bank in banks.items():
            for model, scores in zip(self.fold.holdout, self.scores[:, where[task]]):
                for n in np.flatnonzero(bank.kept & ~np.isfinite(scores)):
                    item = self.held.items[where[task][n]]
                    ranker.fail(model, item, "no score in the table", cost=0.0)
        return ranker

    def _tell(self, ranker: Ranker, asked: Sequence[tuple[str, Any]]) -> None:
        for model, item in asked:
            ranker.tell(model, item, self.scores[self.row[model], self.column[item]])

    def _in_turn(self, ranker: Ranker, prices: Mapping[str, float], budget: float) -> None:
        """One item for every model in turn, up to the first that does not fit."""
        spent, asked = 0.0, True
        while asked:
            asked = False
            for model in self.fold.holdout:
                for pair in ranker.ask(1, model=model):
                    price = prices[model] * self.protocol.units[self.column[pair[1]]]
                    if spent + price > budget * (1 + 1e-9):
                        ranker.release(*pair)
                        return
                    self._tell(ranker, [pair])
                    spent += price
                    asked = True

    def _looks(self, method: Method, seed: int, levels: Sequence[int]) -> list[Replay]:
        banks = self.banks[method.bank_key].values()
        first = self.protocol.first_items(levels[0], len(banks))
        options = {
            "warmup": min(first, levels[0] // len(banks)),
            "stop": "limits",
            "looks": "one",
            "max_items": max(min(levels[-1], sum(int(b.kept.sum()) for b in banks)), 1),
        }
        prices = dict.fromkeys(self.fold.holdout, 1.0)
        run = self._begun(method, seed)
        ranker = self._ranker(method, seed, prices, np.ones(len(self.column)), None, options)
        outcomes, had = [], 0
        for level in levels:
            for _ in range(level - had):
                for model in self.fold.holdout:
                    self._tell(ranker, ranker.ask(model=model))
            had = level
            outcomes.append(self._outcome(run, ranker, items_per_model=level))
        return outcomes

    def _outcome(self, run: Judge, ranker: Ranker, **more: Any) -> Replay:
        ranking = ranker.result()
        items = {model: tuple(had) for model, had in ranking.items.items()}
        claim = Claim.of(ranker, ranking, self.fold.holdout)
        spent, number = sum(ranking.cost.values()), sum(map(len, items.values()))
        why = ranking.stopped_because
        return run(claim, spent, number, items_of=items, stopped_because=why, **more)

    # -- without one --------------------------------------------------------------------------

    def _rng(self, method: Method, seed: int) -> np.random.Generator:
        # What takes common items takes the same ones, so that methods differ by what they do.
        kind = "common" if method.kind in ("paired", "paired_difference") else method.kind
        return np.random.default_rng([seed, self.fold.number, zlib.crc32(kind.encode())])

    def _order(self, method: Method, rng: np.random.Generator) -> NDArray[np.intp]:
        if method.kind == "static":
            if self._static is None:
                orders = [self._discriminating(task) for task in self.held.tables]
                self._static = self.held.interleaved(orders)
            return self._static
        sizes = [table.n_items for table in self.held.tables.values()]
        order_of = np.arange if method.kind == "limit" else rng.permutation
        return self.held.interleaved([order_of(n) for n in sizes])

    def _discriminating(self, task: str) -> NDArray[np.intp]:
        """Positions of a task's items, those that discriminate best first."""
        table = self._calibration[task]
        place = {d: n for n, d in enumerate(self.held.tables[task].doc_ids)}
        order = methods.discriminating_order(table.model_scores())
        return np.array([place[table.doc_ids[i]] for i in order], dtype=np.intp)

    def _claim(self, method: Method, had: NDArray[np.bool_]) -> Claim:
        known = np.where(had, self.scores, np.nan)
        if method.kind == "paired" and had.any():
            strata = [Stratum.plain(w, known[:, at]) for _, w, at in self.held.parts]
            return paired(strata, self.protocol.confidence)
        if method.kind == "paired_difference" and had.any():
            strata = []
            for task, weight, at in self.held.parts:
                bank = self.banks[method.bank_key][task]
                place = {d: n for n, d in enumerate(self.held.tables[task].doc_ids)}
                of_bank = known[:, at][:, [place[d] for d in bank.doc_ids]]
                strata.append(Stratum.predicted(weight, of_bank, bank))
            return paired(strata, self.protocol.confidence)
        return Claim(self.held.mean(self.scores, had))

    def _begun(
        self, method: Method, seed: int, level: float | None = None, budget: float | None = None
    ) -> Judge:
        """What judges a run that begins now."""
        start, truth = time.perf_counter(), self.truth
        run = {
            "method": method.name,
            "fold": self.fold.number,
            "seed": seed,
            "holdout": self.fold.holdout,
            "items_per_model": level,
            "budget": budget,
        }

        def judged(claim: Claim, cost: float, items: int, **more: Any) -> Replay:
            facts = {**run, "cost": float(cost), "items": items, **more}
            return replay_of(claim, truth, seconds=time.perf_counter() - start, **facts)

        return judged

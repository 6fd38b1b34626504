"""Replays one fold: each method in turn asks for scores of the held-out models."""

from __future__ import annotations

import time
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..bank import ItemBank
from ..bank.outcome import Outcome
from ..methods import calibrate
from ..metrics.scale import Floats
from ..ranker import Ranker
from ..ranker.accounts import SLACK
from ..ranker.turns import first_items
from .folds import Benchmark
from .judging import Claim, Replay, Truth, replay_of
from .strategies import (
    Strategy,
    TaskScores,
    at_random,
    discriminating_order,
    for_all,
    paired,
    spend,
)


class FoldResult(NamedTuple):
    """Replays of a fold, warnings of its calibrations, and calibration seconds by method."""

    outcomes: list[Replay]
    warnings: list[str]
    seconds: dict[str, float]


@dataclass(frozen=True)
class Protocol:
    """Settings of a replay that are the same for every fold.

    Attributes
    ----------
    methods : tuple of Strategy
    levels : tuple of float or None
        Items per model: the budget is this times the sum of the held-out models' mean item prices.
        None for no budget.
    units : ndarray of shape (n_items,)
        Size of each item.
    confidence : float
        Two-sided confidence of pairs and intervals.
    spend : {"budget", "fixed"}
        With "fixed" every method gives every model the same number of items, at equal prices,
        stops nothing early and looks once.
    """

    methods: tuple[Strategy, ...]
    levels: tuple[float | None, ...]
    units: Floats
    confidence: float = 0.95
    spend: str = "budget"

    def first_items(self, level: float | None, n_tasks: int) -> int:
        """Return the items of each task that every model gets first: of several a third at most."""
        usual = first_items(n_tasks)
        if n_tasks == 1 or level is None:
            return usual
        return min(usual, max(2, int(level / n_tasks / 3)))


@dataclass(frozen=True)
class Fold:
    """One hold-out set: everything that a replay needs besides the scores.

    Attributes
    ----------
    number : int
    holdout : tuple of str
    calibration : tuple of str
        Models to calibrate on, none of them held out.
    prices : tuple of dict
        For each seed, the price of one unit of each held-out model.
    """

    number: int
    holdout: tuple[str, ...]
    calibration: tuple[str, ...]
    prices: tuple[Mapping[str, float], ...]


def replay_fold(fold: Fold, common: tuple[Protocol, Benchmark]) -> FoldResult:
    """Replay every method on one fold, at every level of spending, with every seed.

    ``common`` holds the protocol and the scores of all models.
    """
    stage = Stage(fold, *common)
    return FoldResult(stage.play(), stage.warnings, stage.seconds)


class Stage:
    """The held-out models' scores, the truth about them and the banks, for all runs of a fold.

    Parameters
    ----------
    fold : Fold
    protocol : Protocol
    benchmark : Benchmark
        Scores of all models.

    Attributes
    ----------
    banks : dict
        Banks by key of the method, then by task.
    warnings : list of str
        Warnings of the calibrations.
    seconds : dict of str to float
        How long each method calibrated; methods that share a bank count once.
    """

    def __init__(self, fold: Fold, protocol: Protocol, benchmark: Benchmark) -> None:
        self.fold, self.protocol = fold, protocol
        tables = benchmark.calibration(fold.calibration)
        self.calibration, self.held_out = tables, benchmark.select(fold.holdout)
        self.scores = self.held_out.scores
        self.truth = Truth.of(self.held_out)
        self.column_of = {item: n for n, item in enumerate(self.held_out.items)}
        self.row_of = {model: n for n, model in enumerate(fold.holdout)}
        self.banks: dict[Any, dict[str, ItemBank]] = {}
        self.warnings: list[str] = []
        self.seconds: dict[str, float] = {}
        # Methods that differ only in how they rank share a bank, which is slow to make.
        for method in protocol.methods:
            if method.bank is not None and method.bank_key not in self.banks:
                start = time.perf_counter()
                self.banks[method.bank_key] = {task: self._bank(method, task) for task in tables}
                self.seconds[method.name] = time.perf_counter() - start

    def _bank(self, method: Strategy, task: str) -> ItemBank:
        """Return a bank for the method, blank with all items if it does not calibrate."""
        assert method.bank is not None
        table = self.calibration[task]
        if not method.calibrates:
            return ItemBank.blank(
                self.held_out.tables[task].doc_ids, method=method.bank,
                task=table.task, metric=table.metric, scale=table.scale,
            )  # fmt: skip
        bank = calibrate(table, method=method.bank, **method.calibrate)
        self.warnings += [warning for warning in bank.warnings if warning not in table.warnings]
        return bank

    def play(self) -> list[Replay]:
        """Let every method rank the held-out models, at every level of spending."""
        methods, seeds = self.protocol.methods, range(len(self.fold.prices))
        # One ranking is looked at several times, in place of one for each level.
        if self.protocol.spend == "fixed":
            return [
                outcome
                for method in methods
                for seed in seeds
                for outcome in self._at_fixed_numbers(method, seed)
            ]
        outcomes: list[Replay] = []
        # The paper's method runs first, because the others may spend what it spent.
        ordered = sorted(methods, key=lambda method: method.name != "paper")
        for level in self.protocol.levels:
            budgets = [self.budget(seed, level) for seed in seeds]
            for method in ordered:
                runs = [self.run(method, seed, level, budgets[seed]) for seed in seeds]
                if method.name == "paper":
                    budgets = [float(np.mean([replay.cost for replay in runs]))] * len(runs)
                outcomes += runs
        place = {method.name: n for n, method in enumerate(methods)}
        return sorted(outcomes, key=lambda outcome: place[outcome.method])

    def budget(self, seed: int, level: float | None) -> float | None:
        """Return the budget of a run at a level of spending."""
        if level is None:
            return None
        return level * sum(self.fold.prices[seed].values()) * float(self.protocol.units.mean())

    def run(self, method: Strategy, seed: int, level: float | None, budget: float | None) -> Replay:
        """Replay one run up to its budget."""
        prices, units = self.fold.prices[seed], self.protocol.units
        judged = self._begun(method, seed, level, budget)
        limit = np.inf if budget is None else budget
        if not method.drives_ranker:
            rng = self._rng(method, seed)
            if method.kind == "random":
                draws = at_random(self.scores, rng)
            else:
                draws = for_all(self.scores, self._order(method, rng))
            price = np.array([prices[model] for model in self.fold.holdout])
            administered, spent = spend(draws, price, units, limit)
            items = int(administered.sum())
            return judged(self._claim(method, administered), cost=spent, items=items)
        options: dict[str, object]
        if method.kind == "fixed":
            # The rounds end the run, so that every model gets equally many items.
            n_kept = sum(int(bank.kept.sum()) for bank in self.banks[method.bank_key].values())
            options = {"warmup": 0, "stop": "limits", "max_items": n_kept}
            ranker = self._ranker(method, seed, prices, units, level, options)
            for _ in self._rounds(ranker, prices, limit):
                pass
        else:
            ranker = self._ranker(method, seed, prices, units, level, {"budget": budget})
            while not ranker.done:
                self._tell(ranker, ranker.ask())
        return self._judged_ranking(judged, ranker)

    def _at_fixed_numbers(self, method: Strategy, seed: int) -> Iterator[Replay]:
        """Look after the same numbers of items of every model, at equal prices."""
        levels = sorted(int(level) for level in self.protocol.levels if level is not None)
        if not method.drives_ranker:
            rng, (n_models, n_items) = self._rng(method, seed), self.scores.shape
            if method.kind == "random":
                orders = [rng.permutation(n_items) for _ in range(n_models)]
            else:
                orders = [self._order(method, rng)] * n_models
            for level in levels:
                judged = self._begun(method, seed, level)
                administered = np.zeros(self.scores.shape, dtype=bool)
                for row, order, scores in zip(administered, orders, self.scores):
                    row[order[np.isfinite(scores[order])][:level]] = True
                items = int(administered.sum())
                yield judged(self._claim(method, administered), cost=items, items=items)
            return
        banks = self.banks[method.bank_key].values()
        first = self.protocol.first_items(levels[0], len(banks))
        options = {
            "warmup": min(first, levels[0] // len(banks)),
            "stop": "limits",
            "looks": "one",
            "max_items": max(min(levels[-1], sum(int(bank.kept.sum()) for bank in banks)), 1),
        }
        # At equal prices nobody is asked less for being dear.
        prices = dict.fromkeys(self.fold.holdout, 1.0)
        judged = self._begun(method, seed)
        ranker = self._ranker(method, seed, prices, np.ones(len(self.column_of)), None, options)
        rounds, had_items = self._rounds(ranker, prices, np.inf), 0
        # One ranking is looked at on its way; a look changes nothing that is asked.
        for level in levels:
            for _ in range(level - had_items):
                next(rounds, None)
            had_items = level
            yield self._judged_ranking(judged, ranker, items_per_model=level)

    # -- with a ranker ------------------------------------------------------------------------

    def _ranker(
        self,
        method: Strategy,
        seed: int,
        prices: Mapping[str, float],
        units: Floats,
        level: float | None,
        options: Mapping[str, Any],
    ) -> Ranker:
        """Return the ranker of a run, which knows the items on which a model has no score."""
        banks = self.banks[method.bank_key]
        several = len(banks) > 1
        columns_of = {
            task: self.held_out.columns(task, bank.doc_ids) for task, bank in banks.items()
        }
        sizes = {task: units[columns] for task, columns in columns_of.items()}
        ranker = Ranker(
            [Outcome.of(bank, task) for task, bank in banks.items()],
            models=dict(prices),
            units=sizes if several else next(iter(sizes.values())),
            weights=dict(self.held_out.share) if several else None,
            confidence=self.protocol.confidence,
            seed=seed * 1_000_003 + self.fold.number,
            **{"warmup": self.protocol.first_items(level, len(banks)), **options, **method.rank},
        )
        for task, bank in banks.items():
            for model, scores in zip(self.fold.holdout, self.scores[:, columns_of[task]]):
                # A live run learns this by asking; a replay would pay for a request without answer.
                for n in np.flatnonzero(bank.kept & ~np.isfinite(scores)):
                    item = self.held_out.items[columns_of[task][n]]
                    ranker.fail(model, item, "no score in the table", cost=0.0)
        return ranker

    def _tell(self, ranker: Ranker, asked: Sequence[tuple[str, Any]]) -> None:
        """Tell a ranker the scores that it asked for, as (model, item)."""
        for model, item in asked:
            ranker.tell(model, item, self.scores[self.row_of[model], self.column_of[item]])

    def _rounds(self, ranker: Ranker, prices: Mapping[str, float], budget: float) -> Iterator[None]:
        """Ask rounds of one item for every model, up to the first that does not fit."""
        spent, asked = 0.0, True
        while asked:
            asked = False
            for model in self.fold.holdout:
                for _, item in ranker.ask(1, model=model):
                    price = prices[model] * self.protocol.units[self.column_of[item]]
                    if spent + price > budget * (1 + SLACK):
                        # It was asked and is not paid.
                        ranker.release(model, item)
                        return
                    self._tell(ranker, [(model, item)])
                    spent += price
                    asked = True
            yield

    def _judged_ranking(
        self, judged: Callable[..., Replay], ranker: Ranker, **fields: Any
    ) -> Replay:
        """Judge a ranking by what `_begun` returned; `fields` replace those the run began with."""
        ranking = ranker.result(parts=False)
        items = {model: tuple(doc_ids) for model, doc_ids in ranking.items.items()}
        return judged(
            Claim.of(
                ranking.verdicts, np.array([ranking.interval(model) for model in self.fold.holdout])
            ),
            cost=sum(ranking.cost.values()),
            items=sum(map(len, items.values())),
            items_of=items,
            stopped_because=ranking.stopped_because,
            **fields,
        )

    # -- without one --------------------------------------------------------------------------

    def _rng(self, method: Strategy, seed: int) -> np.random.Generator:
        """Return the randomness of a run, the same in every process and at every repetition."""
        # Methods on common items take the same ones, so that only their analysis differs.
        kind = "common" if method.kind in ("paired", "paired_difference") else method.kind
        return np.random.default_rng([seed, self.fold.number, zlib.crc32(kind.encode())])

    def _order(self, method: Strategy, rng: np.random.Generator) -> NDArray[np.intp]:
        """Return the items in the order in which all models get them."""
        if method.kind == "static":
            return self._static_order
        order_of = np.arange if method.kind == "limit" else rng.permutation
        parts = self.held_out.parts
        return self.held_out.interleaved(
            [part.items.start + order_of(part.n_items) for part in parts]
        )

    @cached_property
    def _static_order(self) -> NDArray[np.intp]:
        """All items, starting with those that discriminate best among the calibration models."""
        orders = []
        for task, table in self.calibration.items():
            order = discriminating_order(table.model_scores())
            orders.append(self.held_out.columns(task, [table.doc_ids[i] for i in order]))
        return self.held_out.interleaved(orders)

    def _claim(self, method: Strategy, administered: NDArray[np.bool_]) -> Claim:
        """Return what a method without a ranker says after the items that were administered."""
        known = np.where(administered, self.scores, np.nan)
        # Baselines estimate a mean and claim nothing more.
        if not method.kind.startswith("paired") or not administered.any():
            return Claim(self.held_out.mean(self.scores, administered))
        tasks: list[TaskScores] = []
        for part in self.held_out.parts:
            if method.kind == "paired":
                tasks.append(TaskScores(part.share, known[:, part.items], None))
            else:
                bank = self.banks[method.bank_key][part.task]
                columns = self.held_out.columns(part.task, bank.doc_ids)
                tasks.append(TaskScores(part.share, known[:, columns], bank))
        return paired(tasks, self.protocol.confidence)

    def _begun(
        self, method: Strategy, seed: int, level: float | None = None, budget: float | None = None
    ) -> Callable[..., Replay]:
        """Start the clock of a run; return the function that judges it by its claim and cost."""
        return partial(
            replay_of,
            self.truth,
            time.perf_counter(),
            method=method.name,
            fold=self.fold.number,
            seed=seed,
            holdout=self.fold.holdout,
            items_per_model=level,
            budget=budget,
        )

"""`FoldReplay`: each method in turn asks for the scores of the models that a fold holds out.

A *method* is here a `Strategy`: a ranking method, or a baseline that needs no `Ranker`. A *length*
is a test length: items per model.
"""

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
from ..ranker.turns import warmup_per_task
from .folds import Benchmark
from .judging import Claim, Replay, Truth, replay_of
from .strategies import (
    Strategy,
    TaskScores,
    administer,
    discriminating_order,
    draws_for_all,
    paired,
    random_draws,
)


class FoldResult(NamedTuple):
    """Replays of a fold, warnings of its calibrations, and seconds of each method's calibration."""

    replays: list[Replay]
    warnings: list[str]
    seconds: dict[str, float]


@dataclass(frozen=True)
class Protocol:
    """Settings of a replay that are the same for every fold.

    Attributes
    ----------
    methods : tuple of Strategy
    lengths : tuple of float or None
        The budget is this times the sum of the held-out models' mean item prices; None for no
        budget.
    units : ndarray of shape (n_items,)
        Size of each item.
    confidence : float
        Two-sided confidence of pairs and intervals.
    spend : {"budget", "fixed"}
        With "fixed" every method gives every model the same number of items, at equal prices,
        stops nothing early and looks once.
    """

    methods: tuple[Strategy, ...]
    lengths: tuple[float | None, ...]
    units: Floats
    confidence: float = 0.95
    spend: str = "budget"

    def warmup_per_task(self, length: float | None, n_tasks: int) -> int:
        """Return how many items of each task every model gets first.

        Of several tasks the warm-up takes at most a third of the `length`, but never fewer than 2
        items of each task.
        """
        usual = warmup_per_task(n_tasks)
        # A single task's warm-up is a live run's at every length, as only its budget cuts it short.
        if n_tasks == 1 or length is None:
            return usual
        return min(usual, max(2, int(length / n_tasks / 3)))


@dataclass(frozen=True)
class Fold:
    """One hold-out set, with the prices of its models.

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


class SharedByFolds(NamedTuple):
    """What all folds share: the protocol, and the scores of all models."""

    protocol: Protocol
    benchmark: Benchmark


def replay_fold(fold: Fold, shared: SharedByFolds) -> FoldResult:
    """Replay every method on one fold, at every test length, with every seed."""
    fold_replay = FoldReplay(fold, shared.protocol, shared.benchmark)
    return FoldResult(fold_replay.play(), fold_replay.warnings, fold_replay.seconds)


class FoldReplay:
    """Lets methods rank the models that a fold holds out, and judges them by the full scores.

    It holds what all runs of the fold share: scores, truth and banks. A run is one method at one
    length with one seed.

    Parameters
    ----------
    fold : Fold
    protocol : Protocol
    benchmark : Benchmark
        Scores of all models.

    Attributes
    ----------
    truth : Truth
        Of the held-out models, in the order of `fold.holdout`, as all arrays here.
    banks : dict
        Banks by `Strategy.calibration_key`, then by task.
    warnings : list of str
        Warnings of the calibrations.
    seconds : dict of str to float
        How long each method calibrated; of methods that share banks, the first has it.
    """

    def __init__(self, fold: Fold, protocol: Protocol, benchmark: Benchmark) -> None:
        self.fold, self.protocol = fold, protocol
        tables = benchmark.calibration(fold.calibration)
        self.calibration_tables, self.held_out = tables, benchmark.select(fold.holdout)
        self.scores = self.held_out.scores
        self.truth = Truth.of(self.held_out)
        self.column_of = {item: n for n, item in enumerate(self.held_out.items)}
        self.row_of = {model: n for n, model in enumerate(fold.holdout)}
        self.banks: dict[Any, dict[str, ItemBank]] = {}
        self.warnings: list[str] = []
        self.seconds: dict[str, float] = {}
        # Methods that differ only in how they rank share a bank, which is slow to make.
        for method in protocol.methods:
            if method.bank_method is not None and method.calibration_key not in self.banks:
                start = time.perf_counter()
                self.banks[method.calibration_key] = {
                    task: self._bank(method, task) for task in tables
                }
                self.seconds[method.name] = time.perf_counter() - start

    def _bank(self, method: Strategy, task: str) -> ItemBank:
        """Return the bank of a task for the method, a blank one if it does not calibrate."""
        assert method.bank_method is not None
        table = self.calibration_tables[task]
        if not method.calibrates:
            return ItemBank.blank(
                self.held_out.tables[task].doc_ids, method=method.bank_method,
                task=table.task, metric=table.metric, scale=table.scale,
            )  # fmt: skip
        bank = calibrate(table, method=method.bank_method, **method.calibrate)
        self.warnings += [warning for warning in bank.warnings if warning not in table.warnings]
        return bank

    def play(self) -> list[Replay]:
        """Let every method rank the held-out models, at every test length.

        Replays are by method, in the order of the protocol, then by length and seed, except that
        with ``spend="fixed"`` they are by seed and length.
        """
        methods, seeds = self.protocol.methods, range(len(self.fold.prices))
        # One ranking is judged at every length, in place of a ranking for each.
        if self.protocol.spend == "fixed":
            return [
                replay
                for method in methods
                for seed in seeds
                for replay in self._at_fixed_numbers(method, seed)
            ]
        replays: list[Replay] = []
        # The paper's method runs first, because the others get what it spent as their budget.
        ordered = sorted(methods, key=lambda method: method.name != "paper")
        for length in self.protocol.lengths:
            budgets = [self.budget(seed, length) for seed in seeds]
            for method in ordered:
                runs = [self.run(method, seed, length, budgets[seed]) for seed in seeds]
                if method.name == "paper":
                    budgets = [float(np.mean([replay.cost for replay in runs]))] * len(runs)
                replays += runs
        position = {method.name: n for n, method in enumerate(methods)}
        return sorted(replays, key=lambda replay: position[replay.method])

    def budget(self, seed: int, length: float | None) -> float | None:
        """Return the budget of a run at a test length."""
        if length is None:
            return None
        return length * sum(self.fold.prices[seed].values()) * float(self.protocol.units.mean())

    def run(
        self, method: Strategy, seed: int, length: float | None, budget: float | None
    ) -> Replay:
        """Replay one run up to its budget."""
        if not method.drives_ranker:
            return self._run_blindly(method, seed, length, budget)
        prices, units = self.fold.prices[seed], self.protocol.units
        judge = self._start_clock(method, seed, length, budget)
        options: dict[str, object]
        if method.kind == "fixed":
            # The rounds spend the budget, not the ranker, so that models get equally many items.
            n_kept = sum(
                int(bank.kept.sum()) for bank in self.banks[method.calibration_key].values()
            )
            options = {"warmup": 0, "stop": "limits", "max_items": n_kept}
            ranker = self._ranker(method, seed, prices, units, length=length, options=options)
            for _ in self._rounds(ranker, prices, np.inf if budget is None else budget):
                pass
        else:
            options = {"budget": budget}
            ranker = self._ranker(method, seed, prices, units, length=length, options=options)
            while not ranker.done:
                self._tell(ranker, ranker.ask())
        return self._judge_ranking(judge, ranker)

    def _run_blindly(
        self, method: Strategy, seed: int, length: float | None, budget: float | None
    ) -> Replay:
        """Replay a run of a method that chooses items without looking at scores."""
        judge, rng = self._start_clock(method, seed, length, budget), self._rng(method, seed)
        if method.kind == "random":
            draws = random_draws(self.scores, rng)
        else:
            draws = draws_for_all(self.scores, self._order(method, rng))
        prices = np.array([self.fold.prices[seed][model] for model in self.fold.holdout])
        limit = np.inf if budget is None else budget
        administered, spent = administer(draws, prices, self.protocol.units, limit)
        items = int(administered.sum())
        return judge(self._claim(method, administered), cost=spent, items=items)

    def _at_fixed_numbers(self, method: Strategy, seed: int) -> Iterator[Replay]:
        """Judge a method at each length, when every model has had so many items, or all of its own.

        Lengths ascend. All models have the same price, and a replay costs as much as it has items.
        """
        lengths = sorted(int(length) for length in self.protocol.lengths if length is not None)
        if not method.drives_ranker:
            yield from self._blindly_at_fixed_numbers(method, seed, lengths)
            return
        banks = self.banks[method.calibration_key].values()
        warmup = self.protocol.warmup_per_task(lengths[0], len(banks))
        options = {
            "warmup": min(warmup, lengths[0] // len(banks)),
            "stop": "limits",
            "looks": "one",
            "max_items": max(min(lengths[-1], sum(int(bank.kept.sum()) for bank in banks)), 1),
        }
        # With equal prices no model is asked fewer items because it is dear.
        prices = dict.fromkeys(self.fold.holdout, 1.0)
        judge = self._start_clock(method, seed)
        units = np.ones(len(self.column_of))
        ranker = self._ranker(method, seed, prices, units, length=None, options=options)
        rounds, n_rounds = self._rounds(ranker, prices, np.inf), 0
        # One ranking is judged at every length on its way, which changes nothing that is asked.
        for length in lengths:
            for _ in range(length - n_rounds):
                next(rounds, None)
            n_rounds = length
            yield self._judge_ranking(judge, ranker, items_per_model=length)

    def _blindly_at_fixed_numbers(
        self, method: Strategy, seed: int, lengths: Sequence[int]
    ) -> Iterator[Replay]:
        """Do as `_at_fixed_numbers` for a method that chooses items without looking at scores.

        A model gets the first items, in its order, on which it has a score. A length thus contains
        the items of those below it, and a model with missing scores gets other items.
        """
        rng, (n_models, n_items) = self._rng(method, seed), self.scores.shape
        if method.kind == "random":
            orders = [rng.permutation(n_items) for _ in range(n_models)]
        else:
            orders = [self._order(method, rng)] * n_models
        for length in lengths:
            judge = self._start_clock(method, seed, length)
            administered = np.zeros(self.scores.shape, dtype=bool)
            for row, order, scores in zip(administered, orders, self.scores):
                row[order[np.isfinite(scores[order])][:length]] = True
            items = int(administered.sum())
            yield judge(self._claim(method, administered), cost=items, items=items)

    # -- with a ranker ------------------------------------------------------------------------

    def _ranker(
        self,
        method: Strategy,
        seed: int,
        prices: Mapping[str, float],
        units: Floats,
        *,
        length: float | None,
        options: Mapping[str, Any],
    ) -> Ranker:
        """Return the ranker of a run, which knows the items on which a model has no score.

        Parameters
        ----------
        method, seed
        prices : mapping of str to float
            Price of one unit of each model.
        units : ndarray of shape (n_items,)
            Size of each item, in the order of the held-out scores.
        length : float or None
            Items per model, which bound the warm-up; see `Protocol.warmup_per_task`.
        options : mapping
            Arguments of the `Ranker`; those that the method states itself win over them.
        """
        banks = self.banks[method.calibration_key]
        several = len(banks) > 1
        columns_of = {
            task: self.held_out.columns(task, bank.doc_ids) for task, bank in banks.items()
        }
        sizes = {task: units[columns] for task, columns in columns_of.items()}
        ranker = Ranker(
            [Outcome.of(bank, task) for task, bank in banks.items()],
            models={model: prices[model] for model in self.fold.holdout},  # in the truth's order
            units=sizes if several else next(iter(sizes.values())),
            weights=dict(self.held_out.share) if several else None,
            confidence=self.protocol.confidence,
            seed=seed * 1_000_003 + self.fold.number,
            **{
                "warmup": self.protocol.warmup_per_task(length, len(banks)),
                **options,
                **method.rank,
            },
        )
        for task, bank in banks.items():
            for model, scores in zip(self.fold.holdout, self.scores[:, columns_of[task]]):
                # A live run learns this by asking, but a replay must not pay for such a request.
                for n in np.flatnonzero(bank.kept & ~np.isfinite(scores)):
                    item = self.held_out.items[columns_of[task][n]]
                    ranker.fail(model, item, "no score in the table", cost=0.0)
        return ranker

    def _tell(self, ranker: Ranker, asks: Sequence[tuple[str, Any]]) -> None:
        """Tell a ranker the scores that it asked for, as (model, item)."""
        for model, item in asks:
            ranker.tell(model, item, self.scores[self.row_of[model], self.column_of[item]])

    def _rounds(self, ranker: Ranker, prices: Mapping[str, float], budget: float) -> Iterator[None]:
        """Ask every model one item a round, and yield after each round.

        The rounds end before the first item that does not fit into the budget, or when no model has
        an item left.
        """
        spent, some_asked = 0.0, True
        while some_asked:
            some_asked = False
            for model in self.fold.holdout:
                for _, item in ranker.ask(1, model=model):
                    price = prices[model] * self.protocol.units[self.column_of[item]]
                    # The item was asked, and the budget does not pay it.
                    if spent + price > budget * (1 + SLACK):
                        ranker.release(model, item)
                        return
                    self._tell(ranker, [(model, item)])
                    spent += price
                    some_asked = True
            yield

    def _judge_ranking(self, judge: Callable[..., Replay], ranker: Ranker, **fields: Any) -> Replay:
        """Judge a ranking by what `_start_clock` returned; `fields` are other ones of `Replay`."""
        ranking = ranker.result(parts=False)
        items = {model: tuple(doc_ids) for model, doc_ids in ranking.items.items()}
        return judge(
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
        """Return the random generator of a run, the same in every process and repetition."""
        # Methods on common items take the same ones, so that only their analysis differs.
        kind = "common" if method.kind in ("paired", "paired_difference") else method.kind
        return np.random.default_rng([seed, self.fold.number, zlib.crc32(kind.encode())])

    def _order(self, method: Strategy, rng: np.random.Generator) -> NDArray[np.intp]:
        """Return the columns of all items, in the order in which all models get them."""
        if method.kind == "static":
            return self._static_order
        # As the harness's `--limit` takes the first documents.
        order_of = np.arange if method.kind == "limit" else rng.permutation
        parts = self.held_out.parts
        return self.held_out.interleaved(
            [part.items.start + order_of(part.n_items) for part in parts]
        )

    @cached_property
    def _static_order(self) -> NDArray[np.intp]:
        """All items, starting with those that discriminate best among the calibration models."""
        orders = []
        for task, table in self.calibration_tables.items():
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
                bank = self.banks[method.calibration_key][part.task]
                columns = self.held_out.columns(part.task, bank.doc_ids)
                tasks.append(TaskScores(part.share, known[:, columns], bank))
        return paired(tasks, self.protocol.confidence)

    def _start_clock(
        self, method: Strategy, seed: int, length: float | None = None, budget: float | None = None
    ) -> Callable[..., Replay]:
        """Start the clock of a run; return `replay_of`, which lacks only its claim and cost."""
        return partial(
            replay_of,
            self.truth,
            time.perf_counter(),
            method=method.name,
            fold=self.fold.number,
            seed=seed,
            holdout=self.fold.holdout,
            items_per_model=length,
            budget=budget,
        )

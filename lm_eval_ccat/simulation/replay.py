"""Replay one fold: calibrate once, then let every method rank the held-out models."""

from __future__ import annotations

import time
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..bank import ItemBank
from ..methods import calibrate
from ..ranker import Ranker, Ranking
from ..scores import ScoreTable
from ..scores.item_scaling import ItemScaling
from . import baselines
from .methods import Method
from .protocol import Fold, Protocol
from .truth import bootstrap_intervals, full_means, kendall_tau, true_ties

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Outcome:
    """What one method reached on one fold with one seed.

    Attributes
    ----------
    method, fold, seed, holdout
        Which run this is.
    items_per_model : float or None
        What the fold's budget was computed from.
    tau : float or None
        Kendall's tau-b with the true order; None where all true means are equal.
    items : int
        Scores administered, over all held-out models.
    cost, budget : float or None
        Spent, and allowed (None: no budget).
    pairs, true_ties : int
        Pairs of held-out models, and those truly tied.
    ties, tie_hits : int or None
        Pairs left undecided, and those of them that are truly tied; None for a method that states
        no confidence.
    confident, confident_right : int or None
        Pairs decided, and those of them in the true order.
    errors : ndarray of shape (n_holdout,)
        Estimate minus truth of the full-benchmark mean, in [0, 1] units.
    standard_errors : ndarray of shape (n_holdout,), or None
    seconds : float
        Time of asking and telling; calibration is not in it.
    items_of : dict of str to tuple of doc_id
        Items of each model, in the order administered; empty for methods that know no bank.
    """

    method: str
    fold: int
    seed: int
    holdout: tuple[str, ...]
    items_per_model: float | None
    tau: float | None
    items: int
    cost: float
    budget: float | None
    pairs: int
    true_ties: int
    ties: int | None
    tie_hits: int | None
    confident: int | None
    confident_right: int | None
    errors: Floats
    standard_errors: Floats | None
    seconds: float
    items_of: Mapping[str, tuple[Any, ...]]
    stopped_because: str = ""


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
        if method.bank is not None and method.bank_key not in banks:
            start = time.perf_counter()
            bank = calibrate(table, method=method.bank, **method.calibrate)
            seconds[method.name] = time.perf_counter() - start
            banks[method.bank_key] = bank
            warnings += [w for w in bank.warnings if w not in table.warnings]
    stage = _Stage(fold, protocol, tested, table)
    # The paper's method spends first: the others may spend what it spent.
    ordered = sorted(piece.methods, key=lambda m: m.name != "paper")
    outcomes: list[Outcome] = []
    for level in piece.levels:
        equal: float | None = None
        longest: dict[tuple[str, int], int] = {}
        for method in ordered:
            bank_of = banks.get(method.bank_key) if method.bank is not None else None
            own = [
                stage.run(
                    method,
                    bank_of,
                    seed,
                    level,
                    None if method.own_budget else equal,
                    longest.get((method.as_long_as or "", seed)),
                )
                for seed in range(protocol.seeds)
            ]
            outcomes += own
            for outcome in own:
                lengths = [len(items) for items in outcome.items_of.values()]
                longest[method.name, outcome.seed] = max(lengths, default=0)
            if method.name == "paper":
                equal = float(np.mean([outcome.cost for outcome in own]))
    rank = {method.name: n for n, method in enumerate(piece.methods)}
    outcomes.sort(key=lambda o: rank[o.method])
    return FoldResult(outcomes, warnings, seconds)


class _Stage:
    """The held-out models' scores and the truth about them, shared by all runs of a fold."""

    def __init__(
        self, fold: Fold, protocol: Protocol, whole: ScoreTable, calibration: ScoreTable
    ) -> None:
        self.fold, self.protocol = fold, protocol
        held = whole.select(fold.holdout)
        self.scores = held.model_scores()
        raw = held.model_scores(unit=False)
        self.true_raw = full_means(raw) * (1.0 if held.scale.higher_is_better else -1.0)
        self.true_unit = full_means(self.scores)
        self.tied = true_ties(fold.low, fold.high)
        self.column = {doc_id: n for n, doc_id in enumerate(whole.doc_ids)}
        self.known = [self.column[d] for d in calibration.doc_ids]
        self._calibration = calibration.model_scores()
        self._static: list[int] | None = None

    @property
    def static_order(self) -> list[int]:
        if self._static is None:
            order = baselines.discriminating_order(self._calibration)
            self._static = [self.known[i] for i in order]
        return self._static

    def run(
        self,
        method: Method,
        bank: ItemBank | None,
        seed: int,
        level: float | None,
        equal: float | None,
        length: int | None = None,
    ) -> Outcome:
        """Let one method rank the held-out models.

        ``equal`` is the budget all methods share; without one the level says it. ``length`` is
        that of a fixed-length test, which then has no budget.
        """
        prices = self.fold.prices[seed]
        if length is not None:
            budget: float | None = None
        elif equal is not None:
            budget = equal
        elif level is None:
            budget = None
        else:
            budget = level * sum(prices.values()) * float(self.fold.units.mean())
        start = time.perf_counter()
        if method.kind in ("ranker", "fixed"):
            assert bank is not None
            ranking = self._rank(method, bank, seed, prices, budget, length)
            elapsed = time.perf_counter() - start
            return self._judge_ranking(method, seed, level, budget, ranking, elapsed)
        administered, spent = self._administer(method.kind, seed, prices, budget)
        means = baselines.mean_of_seen(self.scores, administered)
        elapsed = time.perf_counter() - start
        return self._judge(
            method,
            seed,
            level,
            budget,
            location=means,
            estimates=means,
            cost=spent,
            counts=administered.sum(axis=1),
            seconds=elapsed,
        )

    # -- running ------------------------------------------------------------------------------

    def _rank(
        self,
        method: Method,
        bank: ItemBank,
        seed: int,
        prices: Mapping[str, float],
        budget: float | None,
        length: int | None,
    ) -> Ranking:
        fixed = method.kind == "fixed"
        where = np.array([self.column[d] for d in bank.doc_ids], dtype=np.intp)
        own: dict[str, Any] = (
            {
                "warmup": 0,
                "stop_when_decided": False,
                "max_items": int(bank.kept.sum()) if length is None else max(length, 1),
            }
            if fixed
            else {"warmup": self.protocol.warmup, "budget": budget}
        )
        if method.holdout_range:
            own["score_range"] = (np.nanmin(self.scores), np.nanmax(self.scores))
        ranker = Ranker(
            bank,
            models=dict(prices),
            units=self.fold.units[where],
            confidence=self.protocol.confidence,
            seed=seed * 1_000_003 + self.fold.number,
            **{**own, **method.rank},
        )
        row = {model: n for n, model in enumerate(self.fold.holdout)}
        for model, scores in zip(self.fold.holdout, self.scores):
            for position in np.flatnonzero(bank.kept & ~np.isfinite(scores[where])):
                ranker.fail(model, bank.doc_ids[position], "no score in the table", cost=0.0)
        if fixed:
            self._fixed_length(ranker, row, prices, np.inf if budget is None else budget)
            return ranker.result()
        while not ranker.done:
            for model, doc_id in ranker.ask():
                ranker.tell(model, doc_id, self.scores[row[model], self.column[doc_id]])
        return ranker.result()

    def _fixed_length(
        self, ranker: Ranker, row: Mapping[str, int], prices: Mapping[str, float], budget: float
    ) -> None:
        """One item for every model in turn, up to the first that does not fit."""
        spent = 0.0
        while True:
            asked = False
            for model in row:
                for _, doc_id in ranker.ask(1, model=model):
                    price = prices[model] * self.fold.units[self.column[doc_id]]
                    if spent + price > budget * (1 + 1e-9):
                        ranker.release(model, doc_id)
                        return
                    ranker.tell(model, doc_id, self.scores[row[model], self.column[doc_id]])
                    spent += price
                    asked = True
            if not asked:
                return

    def _administer(
        self, kind: str, seed: int, prices: Mapping[str, float], budget: float | None
    ) -> tuple[NDArray[np.bool_], float]:
        price = np.array([prices[model] for model in self.fold.holdout])
        most = np.inf if budget is None else budget
        rng = np.random.default_rng([seed, self.fold.number, zlib.crc32(kind.encode())])
        n_items = self.scores.shape[1]
        if kind == "random":
            return baselines.random_items(self.scores, price, self.fold.units, most, rng)
        order = {
            "common": lambda: rng.permutation(n_items).tolist(),
            "limit": lambda: range(n_items),
            "static": lambda: self.static_order,
        }[kind]()
        return baselines.items_for_all(order, self.scores, price, self.fold.units, most)

    # -- judging ------------------------------------------------------------------------------

    def _judge_ranking(
        self,
        method: Method,
        seed: int,
        level: float | None,
        budget: float | None,
        ranking: Ranking,
        seconds: float,
    ) -> Outcome:
        names = self.fold.holdout
        place = {model: n for n, model in enumerate(ranking.order)}
        better = np.full((len(names), len(names)), 0.5)
        for (a, b), p in ranking.pairwise.items():
            better[names.index(a), names.index(b)] = p
        if method.rank.get("familywise"):
            # What is claimed is the order of the tie groups, at the confidence of all of it.
            group = {m: n for n, tied in enumerate(ranking.ties) for m in tied}
            for (i, a), (j, b) in product(enumerate(names), repeat=2):
                tied = a in group and group[a] == group.get(b)
                better[i, j] = 0.5 if tied or a == b else float(place[a] < place[b])
        return self._judge(
            method,
            seed,
            level,
            budget,
            location=np.array([-float(place[m]) for m in names]),
            estimates=np.array([ranking.estimates[m] for m in names]),
            standard_errors=np.array([ranking.standard_errors[m] for m in names]),
            better=better,
            cost=sum(ranking.cost.values()),
            counts=np.array([len(ranking.items[m]) for m in names]),
            seconds=seconds,
            stopped_because=ranking.stopped_because,
            items_of={m: tuple(items) for m, items in ranking.items.items()},
        )

    def _judge(
        self,
        method: Method,
        seed: int,
        level: float | None,
        budget: float | None,
        *,
        location: Floats,
        estimates: Floats,
        cost: float,
        counts: NDArray[Any],
        seconds: float,
        standard_errors: Floats | None = None,
        better: Floats | None = None,
        stopped_because: str = "",
        items_of: Mapping[str, tuple[Any, ...]] | None = None,
    ) -> Outcome:
        upper = np.triu_indices(len(location), 1)
        tied = self.tied[upper]
        ahead = np.sign(self.true_raw[:, None] - self.true_raw[None, :])[upper]
        tau: float | None = None
        if ahead.any():
            tau = kendall_tau(location, self.true_raw) if np.ptp(location) > 0 else 0.0
        ties = hits = confident = right = None
        if better is not None:
            p = better[upper]
            tail = (1.0 - self.protocol.confidence) / 2.0
            open_ = (p >= tail) & (p <= 1.0 - tail)
            ties, hits = int(open_.sum()), int((open_ & tied).sum())
            confident = int((~open_).sum())
            right = int(((np.sign(p - 0.5) == ahead) & ~open_).sum())
        return Outcome(
            method=method.name,
            fold=self.fold.number,
            seed=seed,
            holdout=self.fold.holdout,
            items_per_model=level,
            tau=tau,
            items=int(counts.sum()),
            cost=float(cost),
            budget=budget,
            pairs=len(tied),
            true_ties=int(tied.sum()),
            ties=ties,
            tie_hits=hits,
            confident=confident,
            confident_right=right,
            errors=estimates - self.true_unit,
            standard_errors=standard_errors,
            seconds=seconds,
            items_of=items_of or {},
            stopped_because=stopped_because,
        )

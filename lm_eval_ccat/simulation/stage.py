"""One fold on the stage: its held-out models' scores, asked for by one method at a time."""

from __future__ import annotations

import time
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..bank import ItemBank
from ..ranker import Ranker
from ..scores import ScoreTable
from . import baselines
from .methods import Method
from .outcome import Claim, Floats, Outcome, Run, Truth, judge
from .paired import paired, paired_difference
from .protocol import Fold, Protocol


class Stage:
    """The held-out models' scores and the truth about them, shared by all runs of a fold.

    Parameters
    ----------
    fold : Fold
    protocol : Protocol
    whole : ScoreTable
        Scores of all models.
    calibration : ScoreTable
        Of those that calibrate.
    """

    def __init__(
        self, fold: Fold, protocol: Protocol, whole: ScoreTable, calibration: ScoreTable
    ) -> None:
        self.fold, self.protocol = fold, protocol
        held = whole.select(fold.holdout)
        self.scores = held.model_scores()
        sign = 1.0 if held.scale.higher_is_better else -1.0
        raw = held.model_scores(unit=False)
        self.truth = Truth.of(self.scores, raw, sign, fold.low, fold.high)
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
        budget = equal
        if length is not None or (equal is None and level is None):
            budget = None
        elif equal is None and level is not None:
            budget = level * sum(prices.values()) * float(self.fold.units.mean())
        start = time.perf_counter()
        if method.drives_ranker:
            assert bank is not None
            ranker = self._asked(method, bank, seed, prices, budget, length)
            return self._outcome(method, seed, level, budget, start, ranker)
        price = np.array([prices[model] for model in self.fold.holdout])
        most = np.inf if budget is None else budget
        rng = self._rng(method, seed)
        if method.kind == "random":
            had, spent = baselines.random_items(self.scores, price, self.fold.units, most, rng)
        else:
            order = self._order(method, rng)
            had, spent = baselines.items_for_all(order, self.scores, price, self.fold.units, most)
        claim = self._claim(method, bank, had)
        run = self._described(method, seed, level, budget, spent, int(had.sum()), start)
        return judge(run, claim, self.truth)

    def at_fixed_numbers(
        self, method: Method, bank: ItemBank | None, seed: int, levels: Sequence[int]
    ) -> list[Outcome]:
        """Let one method rank after each of some numbers of items, the same for every model.

        It stops nothing early and is looked at then only; all items cost the same.
        """
        start = time.perf_counter()
        if method.drives_ranker:
            assert bank is not None
            return self._looks(method, bank, seed, levels, start)
        rng = self._rng(method, seed)
        n_models, n_items = self.scores.shape
        seen = np.isfinite(self.scores)
        common = None if method.kind == "random" else np.array(self._order(method, rng))
        orders = [rng.permutation(n_items) if common is None else common for _ in range(n_models)]
        outcomes = []
        for level in levels:
            had = np.zeros(self.scores.shape, dtype=bool)
            for own, order, usable in zip(had, orders, seen):
                own[order[usable[order]][:level]] = True
            claim, items = self._claim(method, bank, had), int(had.sum())
            run = self._described(method, seed, level, None, items, items, start)
            outcomes.append(judge(run, claim, self.truth))
        return outcomes

    # -- with a ranker ------------------------------------------------------------------------

    def _asked(
        self,
        method: Method,
        bank: ItemBank,
        seed: int,
        prices: Mapping[str, float],
        budget: float | None,
        length: int | None,
    ) -> Ranker:
        """A ranker that has been told all that it asked for."""
        own: dict[str, Any]
        if method.kind == "fixed":
            most = int(bank.kept.sum()) if length is None else max(length, 1)
            own = {"warmup": 0, "stop": "limits", "max_items": most}
            ranker = self._ranker(method, bank, seed, prices, self.fold.units, own)
            self._in_turn(ranker, prices, np.inf if budget is None else budget)
            return ranker
        own = {"warmup": self.protocol.warmup, "budget": budget}
        ranker = self._ranker(method, bank, seed, prices, self.fold.units, own)
        while not ranker.done:
            self._tell(ranker, ranker.ask(method.batch))
        return ranker

    def _ranker(
        self,
        method: Method,
        bank: ItemBank,
        seed: int,
        prices: Mapping[str, float],
        units: Floats,
        own: Mapping[str, Any],
    ) -> Ranker:
        where = np.array([self.column[d] for d in bank.doc_ids], dtype=np.intp)
        if method.holdout_range:
            own = {**own, "score_range": (np.nanmin(self.scores), np.nanmax(self.scores))}
        ranker = Ranker(
            bank,
            models=dict(prices),
            units=units[where],
            confidence=self.protocol.confidence,
            seed=seed * 1_000_003 + self.fold.number,
            **{**own, **method.rank},
        )
        for model, scores in zip(self.fold.holdout, self.scores):
            for position in np.flatnonzero(bank.kept & ~np.isfinite(scores[where])):
                ranker.fail(model, bank.doc_ids[position], "no score in the table", cost=0.0)
        return ranker

    def _tell(self, ranker: Ranker, asked: Sequence[tuple[str, Any]]) -> None:
        row = {model: n for n, model in enumerate(self.fold.holdout)}
        for model, doc_id in asked:
            ranker.tell(model, doc_id, self.scores[row[model], self.column[doc_id]])

    def _in_turn(self, ranker: Ranker, prices: Mapping[str, float], budget: float) -> None:
        """One item for every model in turn, up to the first that does not fit."""
        spent, asked = 0.0, True
        while asked:
            asked = False
            for model in self.fold.holdout:
                for pair in ranker.ask(1, model=model):
                    price = prices[model] * self.fold.units[self.column[pair[1]]]
                    if spent + price > budget * (1 + 1e-9):
                        ranker.release(*pair)
                        return
                    self._tell(ranker, [pair])
                    spent += price
                    asked = True

    def _looks(
        self, method: Method, bank: ItemBank, seed: int, levels: Sequence[int], start: float
    ) -> list[Outcome]:
        n_kept = int(bank.kept.sum())
        own = {
            "warmup": min(self.protocol.warmup, levels[0]),
            "stop": "limits",
            "max_items": max(min(levels[-1], n_kept), 1),
        }
        prices = dict.fromkeys(self.fold.holdout, 1.0)
        ones = np.ones(self.scores.shape[1])
        ranker = self._ranker(method, bank, seed, prices, ones, own)
        outcomes, had = [], 0
        for level in levels:
            while had < level:
                step = min(method.batch, level - had)
                for model in self.fold.holdout:
                    self._tell(ranker, ranker.ask(step, model=model))
                had += step
            outcomes.append(self._outcome(method, seed, level, None, start, ranker))
        return outcomes

    def _outcome(
        self,
        method: Method,
        seed: int,
        level: float | None,
        budget: float | None,
        start: float,
        ranker: Ranker,
    ) -> Outcome:
        ranking = ranker.result()
        items = {m: tuple(own) for m, own in ranking.items.items()}
        spent, number = sum(ranking.cost.values()), sum(map(len, items.values()))
        run = self._described(
            method, seed, level, budget, spent, number, start, ranking.stopped_because, items
        )
        return judge(run, Claim.of(ranker, ranking, self.fold.holdout), self.truth)

    # -- without one --------------------------------------------------------------------------

    def _rng(self, method: Method, seed: int) -> np.random.Generator:
        # What takes common items takes the same ones, so that methods differ by what they do.
        kind = "common" if method.kind in ("paired", "paired_difference") else method.kind
        return np.random.default_rng([seed, self.fold.number, zlib.crc32(kind.encode())])

    def _order(self, method: Method, rng: np.random.Generator) -> list[int]:
        if method.kind == "static":
            return self.static_order
        n_items = self.scores.shape[1]
        return list(range(n_items)) if method.kind == "limit" else rng.permutation(n_items).tolist()

    def _claim(self, method: Method, bank: ItemBank | None, had: NDArray[np.bool_]) -> Claim:
        items = np.flatnonzero(had.any(axis=0)).tolist()
        if method.kind == "paired" and items:
            return paired(np.where(had, self.scores, np.nan), items, self.protocol.confidence)
        if method.kind == "paired_difference" and items:
            assert bank is not None
            where = np.array([self.column[d] for d in bank.doc_ids], dtype=np.intp)
            asked = np.where(had, self.scores, np.nan)
            return paired_difference(asked, items, bank, where, self.protocol.confidence)
        return Claim(baselines.mean_of_seen(self.scores, had))

    def _described(
        self,
        method: Method,
        seed: int,
        level: float | None,
        budget: float | None,
        spent: float,
        items: int,
        start: float,
        stopped_because: str = "",
        items_of: Mapping[str, tuple[Any, ...]] | None = None,
    ) -> Run:
        return Run(
            method=method.name,
            fold=self.fold.number,
            seed=seed,
            holdout=self.fold.holdout,
            items_per_model=level,
            budget=budget,
            cost=spent,
            items=items,
            seconds=time.perf_counter() - start,
            stopped_because=stopped_because,
            items_of=items_of or {},
        )

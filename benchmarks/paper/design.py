"""How the studies replay: the paper's protocol unless its settings are changed."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from lm_eval_ccat import ScoreTable
from lm_eval_ccat.errors import ScoreTableError
from lm_eval_ccat.ranker.arguments import item_units
from lm_eval_ccat.scores.item_scaling import ItemScaling
from lm_eval_ccat.simulation.fold_replay import Fold, FoldReplay, Protocol
from lm_eval_ccat.simulation.folds import Benchmark, hold_outs, prices_by_seed
from lm_eval_ccat.simulation.judging import Replay
from lm_eval_ccat.simulation.strategies import Strategy, chosen_methods, strategy_named

RESCALE = ("range", "none", "holdout")
BASELINES = ("random", "common", "limit", "static")


@dataclass(frozen=True)
class Design:
    """Settings that are the same for every table; the defaults are the paper's.

    Attributes
    ----------
    methods : tuple of str
        Methods with a bank: "paper", "default".
    holdout, folds, seeds : int
        Models per hold-out set, hold-out sets, runs per set.
    items_per_model : float
        Budget.
    levels : tuple of float
        Budgets of the sweep.
    confidence : float
    rescale : {"range", "none", "holdout"}
        How the method "paper" maps the scores told to it: by the range of the calibration scores,
        not at all, or by the range of the held-out scores (as the paper's authors do; it looks at
        what is to be predicted).
    temperature : float or None
        Held-out models are tested and judged at this one; calibration uses all. None: the mean of
        a model's configs.
    prices : dict of str to float, optional
        Price of one unit of each model; default drawn log-uniformly from 0.1 to 3.2 per seed.
    families : dict of str to list of str
        Models of each family.
    item_scaling : bool
        Scale each item over the calibration rows of each fold, as the paper does for BioLaySumm.
    """

    methods: tuple[str, ...] = ("paper", "default")
    holdout: int = 4
    folds: int = 5
    seeds: int = 20
    items_per_model: float = 20.0
    levels: tuple[float, ...] = (5.0, 10.0, 20.0, 40.0, 70.0, 100.0)
    confidence: float = 0.95
    rescale: str = "range"
    temperature: float | None = 0.0
    prices: Mapping[str, float] | None = None
    families: Mapping[str, Sequence[str]] | None = None
    item_scaling: bool = False

    def method(self, name: str, label: str | None = None, **changes: Any) -> Strategy:
        """A method with a bank, as this design has it; a pair is decided by one look, as there."""
        known = strategy_named(name)
        changes["rank"] = {"looks": "one", **changes.get("rank", {})}
        if known.bank_method == "paper" and self.rescale != "range":
            changes["calibrate"] = {"rescale": "none"}
        return replace(known, name=label or name, **changes)

    def of_fold(self, table: ScoreTable, held: Collection[str]) -> ScoreTable:
        """The scores of one fold: all configs that calibrate, and what `held` are judged by."""
        others = [m for m in table.models if m not in held]
        if self.temperature is not None:
            table = at_temperature(table, self.temperature, held)
        return ItemScaling.fit(table.select(others)).apply(table) if self.item_scaling else table

    def sets(self, table: ScoreTable) -> list[tuple[str, ...]]:
        """The hold-out sets of a table."""
        size = min(self.holdout, len(table.models) - 2)
        means = np.zeros(len(table.models))
        sets = hold_outs("random", table.models, means, size=size, folds=self.folds, seed=0)
        return [names for names, _ in sets]

    def replay(
        self, table: ScoreTable, methods: Sequence[str | Strategy], units: Any, **how: Any
    ) -> list[Replay]:
        """Replay methods on every fold, in this process; `how` as for `stages`."""
        return [o for stage in self.stages(table, methods, units, **how) for o in stage.play()]

    def stages(
        self,
        table: ScoreTable,
        methods: Sequence[str | Strategy],
        units: Any,
        levels: Sequence[float] = (),
        sets: Sequence[Sequence[str]] | None = None,
    ) -> Iterator[FoldReplay]:
        """Hold out one set after another; every method is calibrated on the others."""
        [table] = Benchmark.of(table).tables.values()  # refuses scores that are all equal
        by_seed = prices_by_seed(self.prices, table.models, self.seeds)
        sizes, levels = item_units(table.doc_ids, units), tuple(levels or (self.items_per_model,))
        for number, held in enumerate(sets or self.sets(table)):
            whole = Benchmark({"": self.of_fold(table, held)}, {"": 1.0})
            scores = whole.select(held).scores
            seen = {"score_range": (np.nanmin(scores), np.nanmax(scores))}
            others = tuple(m for m in table.models if m not in held)
            prices = tuple({m: of_seed[m] for m in held} for of_seed in by_seed)
            fold = Fold(number, tuple(held), others, prices)
            told = [
                replace(m, rank={**seen, **m.rank})
                if m.bank_method == "paper" and self.rescale == "holdout"
                else m
                for m in chosen_methods(methods)
            ]
            yield FoldReplay(fold, Protocol(tuple(told), levels, sizes, self.confidence), whole)


_STATED = re.compile(r"(?:^|[^a-z])(?:t|temp|temperature)[\"'\s]*[=:_]?\s*(\d+(?:\.\d+)?)", re.I)


def temperature_of(config: str) -> float | None:
    """The temperature that the name of a config states, or None.

    Examples
    --------
    >>> [temperature_of(c) for c in ("temperature=0.7", "t=0", "temp_1.0", "0.4", "greedy")]
    [0.7, 0.0, 1.0, 0.4, None]
    """
    found = _STATED.search(config) or re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*", config)
    return None if found is None else float(found[1])


def at_temperature(
    table: ScoreTable, temperature: float, models: Collection[str] | None = None
) -> ScoreTable:
    """The table with one config of each model, or of these: its only one, else at `temperature`.

    Raises
    ------
    ScoreTableError
        A model has several configs and not exactly one of them at that temperature.
    """
    rows: list[int] = []
    for model, configs in table.rows_of.items():
        if models is not None and model not in models:
            rows += configs.tolist()
            continue
        cold = [int(r) for r in configs if temperature_of(table.row_config[r]) == temperature]
        if len(configs) > 1 and len(cold) != 1:
            listed = ", ".join(repr(table.row_config[r]) for r in configs)
            raise ScoreTableError(
                f"model {model!r} has {len(cold)} configs at temperature {temperature:g} "
                f"({listed}); name another --temperature, or 'all' for the mean of the configs"
            )
        rows += [int(configs[0])] if len(configs) == 1 else cold
    return replace(
        table,
        raw=table.raw[rows],
        row_model=tuple(table.row_model[r] for r in rows),
        row_config=tuple(table.row_config[r] for r in rows),
    )

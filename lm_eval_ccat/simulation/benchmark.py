"""The scores that a replay ranks by: the same models on one task, or on several weighted ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..errors import UsageError
from ..metrics import check_column
from ..scores import ScoreTable
from ..scores.item_scaling import ItemScaling

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Benchmark:
    """Scores of the same models, one table a task. One task is one with the weight 1.

    Attributes
    ----------
    tables : dict of task to ScoreTable
    share : dict of task to float
        Weights of the tasks; they sum to 1.
    """

    tables: Mapping[str, ScoreTable]
    share: Mapping[str, float]

    @classmethod
    def of(
        cls,
        tables: ScoreTable | Mapping[str, ScoreTable],
        weights: str | Mapping[str, float] = "documents",
    ) -> tuple[Benchmark, list[str]]:
        """The tables, without models that lack a score of a task, and what to warn of.

        Raises
        ------
        UsageError
            No table, or weights that do not fit.
        ScoreTableError
            A metric that tells no models apart.
        """
        if isinstance(tables, ScoreTable):
            tables = {tables.task or "": tables}
        if not tables:
            raise UsageError("no task to simulate")
        warnings: list[str] = []
        scored: list[set[str]] = []
        for table in tables.values():
            check_column(table.raw, metric=table.metric, task=table.task or "")
            some = np.asarray(np.isfinite(table.model_scores()).any(axis=1))
            empty = [m for m, has in zip(table.models, some.tolist()) if not has]
            warnings += table.warnings
            warnings += [f"no score of {', '.join(empty)}; left out"] if empty else []
            scored.append(set(table.models) - set(empty))
        first = next(iter(tables.values())).models
        whole = cls(tables, _shares(tables, weights))
        return whole.select([m for m in first if all(m in models for models in scored)]), warnings

    def select(self, models: Sequence[str]) -> Benchmark:
        """Return the benchmark of some models only, in the order of the tables."""
        return replace(self, tables={t: x.select(models) for t, x in self.tables.items()})

    def scaled_by(self, calibration: Mapping[str, ScoreTable]) -> Benchmark:
        """Each item's scores scaled to [0, 1] over calibration scores, as the paper does."""
        scaled = {t: ItemScaling.fit(calibration[t]).apply(x) for t, x in self.tables.items()}
        return replace(self, tables=scaled)

    @property
    def models(self) -> tuple[str, ...]:
        """The models, the same in every table."""
        return tuple(next(iter(self.tables.values())).models)

    @cached_property
    def items(self) -> list[Any]:
        """The items as a ranker names them: doc_ids of one task, else pairs of task and doc_id."""
        if len(self.tables) == 1:
            return list(next(iter(self.tables.values())).doc_ids)
        return [(task, d) for task, table in self.tables.items() for d in table.doc_ids]

    @cached_property
    def parts(self) -> list[tuple[str, float, slice]]:
        """Each task with its weight and its place among the items of all."""
        ends = np.cumsum([0, *(t.n_items for t in self.tables.values())]).tolist()
        return [(t, self.share[t], slice(*ends[n : n + 2])) for n, t in enumerate(self.tables)]

    @cached_property
    def scores(self) -> Floats:
        """On [0, 1], shape (n_models, n_items); NaN where missing."""
        return np.concatenate([t.model_scores() for t in self.tables.values()], axis=1)

    @property
    def signed(self) -> Floats:
        """Scores whose mean is the truth, higher is better.

        Of one task they are on its metric's own scale, of several so weighted on [0, 1] that the
        mean over all items is the weighted mean over tasks.
        """
        if len(self.tables) == 1:
            table = next(iter(self.tables.values()))
            return table.model_scores(unit=False) * (1 if table.scale.higher_is_better else -1)
        weighted = self.scores.copy()
        for _, share, at in self.parts:
            weighted[:, at] *= share * len(self.items) / (at.stop - at.start)
        return weighted

    def mean(self, scores: Floats, had: NDArray[np.bool_]) -> Floats:
        """Weighted mean over tasks of each model's mean over the items that it had."""
        of_task = [share * mean_of_seen(scores[:, at], had[:, at]) for _, share, at in self.parts]
        return np.asarray(sum(of_task))

    def interleaved(self, orders: Sequence[NDArray[np.intp]]) -> NDArray[np.intp]:
        """Positions of each task, in an order of its own, in turn as its weight says."""
        turns = [
            (np.arange(len(order)) + 0.5) / share
            for order, (_, share, _) in zip(orders, self.parts)
        ]
        starts = [order + at.start for order, (_, _, at) in zip(orders, self.parts)]
        return np.concatenate(starts)[np.argsort(np.concatenate(turns), kind="stable")]

    def calibration(self, models: Sequence[str]) -> dict[str, ScoreTable]:
        """Scores of some models, without items on which none of them has a score."""
        of_models = {task: table.select(models) for task, table in self.tables.items()}
        seen = {task: np.isfinite(table.raw).any(axis=0) for task, table in of_models.items()}
        return {task: table.take(np.flatnonzero(seen[task])) for task, table in of_models.items()}


def mean_of_seen(scores: Floats, administered: NDArray[np.bool_]) -> Floats:
    """Mean score of each model over the items it was given.

    A model without any stands at the mean of all scores seen: nothing is known of it.
    """
    count = administered.sum(axis=1)
    total = np.where(administered, scores, 0.0).sum(axis=1)
    overall = total.sum() / count.sum() if count.sum() else 0.5
    means: Floats = np.divide(total, count, out=np.full(len(count), overall), where=count > 0)
    return means


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


def item_units(items: Sequence[Any], units: Mapping[Any, float] | ArrayLike | None) -> Floats:
    """Return the size of each item.

    Parameters
    ----------
    items : sequence
        doc_ids, or pairs of task and doc_id.
    units : mapping, array_like or None
        ``{item: units}``, or an array in the order of the items; by default 1 each.

    Raises
    ------
    UsageError
        An item has no units, or they are not positive.
    """
    if units is None:
        return np.ones(len(items))
    if isinstance(units, Mapping):
        sizes = [units.get(item) for item in items]
        values = np.array([np.nan if v is None else v for v in sizes], dtype=np.float64)
    else:
        values = np.asarray(units, dtype=np.float64)
    if values.shape != (len(items),):
        raise UsageError(f"units: {values.size} values for {len(items)} items")
    bad = np.flatnonzero(~(np.isfinite(values) & (values > 0)))
    if len(bad):
        raise UsageError(
            f"units: {len(bad)} of {len(items)} items have no positive units "
            f"(doc_id {items[bad[0]]!r})"
        )
    return values

"""The scores that a replay ranks by, and its protocol: held-out models, prices and budgets."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import comb
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..bank.bank import family_of
from ..errors import UsageError
from ..grouping import grouped
from ..methods.policy import rounded
from ..metrics import check_column
from ..metrics.scale import Floats
from ..options import ABOVE_0, choice, whole
from ..ranker.contents import shares_of
from ..scores import ScoreTable
from ..shown import some

Prices = Mapping[str, float] | None


class HoldOut(NamedTuple):
    """The models that a fold ranks, and those that calibrate its banks."""

    ranked: tuple[str, ...]
    calibrating: tuple[str, ...]


class TaskPart(NamedTuple):
    """A task of a benchmark, its share of a model's score, and the columns of its items."""

    task: str
    share: float
    items: slice

    @property
    def n_items(self) -> int:
        """How many items the task has."""
        return int(self.items.stop - self.items.start)


#: Ways of holding models out (`hold_outs`), and of spending (`Protocol.spend`).
KINDS, SPENDS = ("random", "frontier", "family"), ("budget", "fixed")
#: The search for hold-out sets ends after so many partitions of the models without a new one.
_PATIENCE = 200
#: Numbers that keep the draws of families and of prices independent of others with their seed.
_FAMILY_STREAM, _PRICE_STREAM = 3, 7
LOWEST_PRICE, HIGHEST_PRICE = 0.1, 3.2
#: Numbers of items per model at which ``spend="fixed"`` looks.
FIXED_LENGTHS = (10.0, 20.0, 50.0, 100.0, 200.0)


@dataclass(frozen=True)
class Benchmark:
    """Scores of the same models by one or several tasks, in a table for each.

    Arrays have a column for each item of all tasks (`items`), task by task.

    Attributes
    ----------
    tables : dict of task to ScoreTable
    share : dict of task to float
        Weight of each task in a model's score; all sum to 1.
    warnings : tuple of str
        Of the tables, and which models were left out.
    """

    tables: Mapping[str, ScoreTable]
    share: Mapping[str, float]
    warnings: tuple[str, ...] = ()

    @classmethod
    def of(
        cls,
        tables: ScoreTable | Mapping[str, ScoreTable],
        weights: str | Mapping[str, float] = "documents",
    ) -> Benchmark:
        """Build from tables: models that lack a task are left out, with a warning.

        Parameters
        ----------
        tables : ScoreTable, or mapping of task to ScoreTable
        weights : str or mapping of task to float
            ``documents`` (by number of items), ``equal``, or a number above 0 of each task.

        Raises
        ------
        UsageError
            There is no table, the weights do not fit, or no model has scores of every task.
        MetricError
            A task has no scores, or all its scores are the same.
        """
        if isinstance(tables, ScoreTable):
            tables = {tables.task or "": tables}
        if not tables:
            raise UsageError("no task to simulate")
        models = list(dict.fromkeys(model for table in tables.values() for model in table.models))
        warnings: list[str] = []
        with_scores = set(models)
        for task, table in tables.items():
            check_column(table.raw, metric=table.metric, task=table.task or "")
            scored_any = np.isfinite(table.model_scores()).any(axis=1)
            scored = {table.models[i] for i in np.flatnonzero(scored_any).tolist()}
            missing = [model for model in models if model not in scored]
            of_task = f" on {task}" if len(tables) > 1 else ""
            warnings += table.warnings
            warnings += [f"no score of {some(missing, 8)}{of_task}; left out"] if missing else []
            with_scores &= scored
        if not with_scores:
            raise UsageError("no model has scores of every task; simulate those that share models")
        sizes = {task: float(table.n_items) for task, table in tables.items()}
        benchmark = cls(tables, shares_of(sizes, weights), tuple(warnings))
        # Selecting also brings the models of all tables into one order.
        return benchmark.select([model for model in models if model in with_scores])

    def select(self, models: Sequence[str]) -> Benchmark:
        """Return the benchmark of some models only, in the order given."""
        return replace(
            self, tables={task: table.select(models) for task, table in self.tables.items()}
        )

    @property
    def models(self) -> tuple[str, ...]:
        """The models, the same in every table."""
        return tuple(next(iter(self.tables.values())).models)

    @cached_property
    def items(self) -> list[Any]:
        """The items as a ranker names them: doc_ids, or with several tasks (task, doc_id)."""
        if len(self.tables) == 1:
            return list(next(iter(self.tables.values())).doc_ids)
        return [(task, doc_id) for task, table in self.tables.items() for doc_id in table.doc_ids]

    @cached_property
    def parts(self) -> list[TaskPart]:
        """The tasks, in the order of their items."""
        parts: list[TaskPart] = []
        start = 0
        for task, table in self.tables.items():
            end = start + table.n_items
            parts.append(TaskPart(task, self.share[task], slice(start, end)))
            start = end
        return parts

    @cached_property
    def scores(self) -> Floats:
        """Scores on [0, 1], shape (n_models, n_items); NaN where missing."""
        return np.concatenate([table.model_scores() for table in self.tables.values()], axis=1)

    @property
    def signed(self) -> Floats:
        """Scores of which the mean over items is a model's true score, higher is better.

        With one task they are on its metric's own scale, with the sign changed where lower is
        better. With several they are on [0, 1] but for a factor of each task, which makes the mean
        over all items the weighted mean over tasks.
        """
        if len(self.tables) == 1:
            table = next(iter(self.tables.values()))
            return table.model_scores(unit=False) * (1 if table.scale.higher_is_better else -1)
        weighted = self.scores.copy()
        for part in self.parts:
            weighted[:, part.items] *= part.share * len(self.items) / part.n_items
        return weighted

    def mean(self, scores: Floats, administered: NDArray[np.bool_]) -> Floats:
        """Return each model's weighted mean over tasks of its mean over the items administered.

        Both arguments are of shape (n_models, n_items).
        """
        weighted_means = [
            part.share * mean_of_asked(scores[:, part.items], administered[:, part.items])
            for part in self.parts
        ]
        return np.asarray(sum(weighted_means))

    def columns(self, task: str, doc_ids: Sequence[Any]) -> NDArray[np.intp]:
        """Return the columns of a task's items among those of all tasks."""
        start = next(part.items.start for part in self.parts if part.task == task)
        column_of = {doc_id: n for n, doc_id in enumerate(self.tables[task].doc_ids, start)}
        return np.array([column_of[doc_id] for doc_id in doc_ids], dtype=np.intp)

    def interleaved(self, orders: Sequence[NDArray[np.intp]]) -> NDArray[np.intp]:
        """Merge orders of columns, one of each task, with turns in proportion to tasks' weights."""
        times = [
            (np.arange(len(order)) + 0.5) / part.share for order, part in zip(orders, self.parts)
        ]
        return np.concatenate(orders)[np.argsort(np.concatenate(times), kind="stable")]

    def calibration(self, models: Sequence[str]) -> dict[str, ScoreTable]:
        """Return some models' tables, by task, without items on which none of them has a score."""
        tables = {task: table.select(models) for task, table in self.tables.items()}
        scored = {task: np.isfinite(table.raw).any(axis=0) for task, table in tables.items()}
        return {task: table.take(np.flatnonzero(scored[task])) for task, table in tables.items()}


def mean_of_asked(scores: Floats, administered: NDArray[np.bool_]) -> Floats:
    """Return each model's mean score over the items that it was given.

    A model without items gets the mean of all scores administered, 0.5 if there are none: small
    budgets of baselines do not pay an item of every model.
    """
    count = administered.sum(axis=1)
    total = np.where(administered, scores, 0.0).sum(axis=1)
    overall = total.sum() / count.sum() if count.sum() else 0.5
    means: Floats = np.divide(total, count, out=np.full(len(count), overall), where=count > 0)
    return means


# -- the protocol --------------------------------------------------------------------------------


def hold_outs(
    kind: str,
    models: Sequence[str],
    means: Floats,
    *,
    size: int,
    folds: int,
    seed: int,
    min_calibrating: int = 2,
) -> list[HoldOut]:
    """Return distinct hold-out sets, each with the models that calibrate.

    Parameters
    ----------
    kind : {"random", "frontier", "family"}
        Hold out any models; models of the best third, with only the models below it calibrating;
        or whole families, of which no model calibrates.
    models : sequence of str
    means : ndarray of shape (n_models,)
        Full-benchmark means, higher is better.
    size : int
        Models per set.
    folds : int
        Most sets; fewer if there are no more.
    seed : int
    min_calibrating : int, optional
        Fewest models that must remain to calibrate.

    Returns
    -------
    list of HoldOut

    Raises
    ------
    UsageError
        The kind is unknown, or there are too few models for it.
    """
    if kind == "family":
        return _families(models, size=size, folds=folds, seed=seed, min_calibrating=min_calibrating)
    choice(*KINDS).check(kind, "kind")
    drawn_from = list(models)
    if kind == "frontier":
        # Rounded, as machines differ in the last digit, and a fold must not.
        best = np.argsort(-rounded(means), kind="stable")[: max(-(-len(models) // 3), size)]
        drawn_from = [models[i] for i in sorted(best)]
    # At the frontier, models as good as those that are ranked must not calibrate, ranked or not.
    n_not_calibrating = size if kind == "random" else len(drawn_from)
    total, remaining = len(models), len(models) - n_not_calibrating
    whole(2).check(size, "holdout")
    if remaining < min_calibrating:
        raise UsageError(
            f"holding out {size} of {total} models leaves {max(remaining, 0)} to calibrate on; at "
            f"least {min_calibrating} are needed: give a smaller --holdout, or --methods sample, "
            "which needs none"
            if min_calibrating
            else f"holdout {size}: there are {total} models; hold out at least 2, at most all"
        )
    whole(1).check(folds, "folds")
    return [
        HoldOut(ranked, _without(models, ranked if kind == "random" else drawn_from))
        for ranked in _distinct(drawn_from, size=size, folds=folds, seed=seed)
    ]


def _without(models: Sequence[str], held_out: Sequence[str]) -> tuple[str, ...]:
    """Return the models that are not held out, in their order."""
    names = set(held_out)
    return tuple(model for model in models if model not in names)


def _distinct(models: Sequence[str], *, size: int, folds: int, seed: int) -> list[tuple[str, ...]]:
    """Draw distinct sets of models, at most `folds`, from one seeded partition after another."""
    sets: dict[frozenset[str], tuple[str, ...]] = {}
    partition = n_without_new = 0
    n_sets = min(folds, comb(len(models), size))
    # Later partitions repeat sets: to wait for every last set could take for ever.
    while len(sets) < n_sets and n_without_new < _PATIENCE:
        order = np.random.default_rng([seed, partition]).permutation(len(models))
        before = len(sets)
        for start in range(0, len(models) - size + 1, size):
            names = tuple(models[i] for i in order[start : start + size])
            sets.setdefault(frozenset(names), names)
        n_without_new = 0 if len(sets) > before else n_without_new + 1
        partition += 1
    return list(sets.values())[:n_sets]


def _families(
    models: Sequence[str], *, size: int, folds: int, seed: int, min_calibrating: int
) -> list[HoldOut]:
    """Hold out whole families, in at most `folds` distinct ways.

    Families are held out in a random order until they have `size` models or more. The first `size`
    are ranked, and all models of other families calibrate, if they are `min_calibrating` or more.
    """
    members_of = grouped((family_of(model), model) for model in models)
    # A family of one shows nothing that a random hold-out does not.
    families = [members for members in members_of.values() if len(members) > 1]
    sets: dict[frozenset[str], HoldOut] = {}
    for attempt in range(_PATIENCE + 10 * folds):
        rng = np.random.default_rng([seed, attempt, _FAMILY_STREAM])
        held_out: list[str] = []
        for k in rng.permutation(len(families)):
            if len(held_out) < size:
                held_out += [families[k][i] for i in rng.permutation(len(families[k]))]
        # The rest of the last family is neither ranked nor calibrates.
        ranked, calibrating = tuple(held_out[:size]), _without(models, held_out)
        if len(held_out) >= size and len(calibrating) >= min_calibrating:
            sets.setdefault(frozenset(ranked), HoldOut(ranked, calibrating))
        # Where few families have fewer distinct sets than `folds`, the attempts end the search.
        if len(sets) == folds:
            break
    if not sets:
        raise UsageError(
            f"no {size} models of families of two or more can be held out together: families are "
            "told by the first part of the models' names"
        )
    return list(sets.values())


def drawn_prices(models: Sequence[str], seed: int) -> dict[str, float]:
    """Draw a price for every model, log-uniform from 0.1 to 3.2."""
    rng = np.random.default_rng([seed, _PRICE_STREAM])
    logs = rng.uniform(np.log(LOWEST_PRICE), np.log(HIGHEST_PRICE), len(models))
    return dict(zip(models, np.exp(logs).tolist()))


def prices_by_seed(prices: Prices, models: Sequence[str], seeds: int) -> list[dict[str, float]]:
    """Return the price of one unit of every model: as stated, or drawn for each seed.

    Raises
    ------
    UsageError
        A model's price is missing or not positive.
    """
    # Each seed draws other prices: no figure should depend on which model is cheap.
    if prices is None:
        return [drawn_prices(models, seed) for seed in range(seeds)]
    stated_prices = {
        model: ABOVE_0.check(prices.get(model), f"price of {model}") for model in models
    }
    return [stated_prices] * seeds


def lengths_to_replay(
    lengths: Sequence[float] | None,
    items_per_model: float | None,
    n_items: int,
    spend: str,
    n_tasks: int = 1,
) -> tuple[float | None, ...]:
    """Return the test lengths to replay, including `items_per_model`.

    Raises
    ------
    UsageError
        A number is not positive, below two items for each of several tasks, or not whole although
        numbers of items are fixed.
    """
    choice(*SPENDS).check(spend, "spend")
    # Without a number there is one length only: until the ranker stops.
    if items_per_model is None:
        if spend == "fixed":
            raise UsageError("spend 'fixed' needs a number of items per model")
        return (None,)
    fewest = 0 if n_tasks == 1 else 2 * n_tasks
    # None asks for the usual ones.
    if lengths is None:
        lengths = [n for n in _usual_lengths(items_per_model, n_items, spend) if n >= fewest]
    replayed = {*map(float, lengths), float(items_per_model)}
    _require_numbers(replayed, whole=spend == "fixed")
    # More items than there are cannot be given; the length that the user names says so itself.
    if spend == "fixed":
        replayed = {n for n in replayed if n <= n_items or n == items_per_model}
    if min(replayed) < fewest:
        raise UsageError(
            f"{min(replayed):g} items per model of {n_tasks} tasks: at least 2 of each are needed"
        )
    return tuple(sorted(replayed))


def _usual_lengths(items_per_model: float, n_items: int, spend: str) -> Sequence[float]:
    """Return the lengths beside `items_per_model` that are replayed if the user names none."""
    if spend == "fixed":
        return FIXED_LENGTHS
    return [n for n in (items_per_model * share for share in (0.5, 1, 2, 4)) if n <= n_items]


def _require_numbers(lengths: Iterable[float], *, whole: bool) -> None:
    """Refuse lengths that are not positive, or not whole where whole numbers are needed."""
    for length in lengths:
        if not 0 < length < float("inf"):
            raise UsageError(f"items_per_model {length:g}: a positive number is needed")
        if whole and length != int(length):
            raise UsageError(f"items_per_model {length}: a whole number is needed")

"""`SuiteRanker`: several tasks under one budget, ranked by their aggregate.

A group of tasks has one score per model, the weighted mean of the tasks' scores. What is asked next
is the (model, task) whose next item is expected to do most for the *overall* order: a task that
weighs little, or is known well already, gets little. Each task keeps its own `Ranker` for the books
and the choice of items; the suite decides whose turn it is.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..bank import ItemBank
from ..errors import UsageError
from .suite_result import SuiteRanking
from .suite_task import TaskRanker
from .ties import tie_groups

Floats = NDArray[np.float64]

_LEAST_VARIANCE = 1e-18


class SuiteRanker:
    """Rank models by the aggregate of several tasks, by ask and tell.

    Parameters
    ----------
    banks : mapping of str to ItemBank
        One per task, scores all in one direction (they are on [0, 1], higher is better).
    models : mapping of str to float
        Price of one unit of each model, at least 0.
    units : mapping of task to (mapping of doc_id to float, or array_like), optional
        Size of each item of a task; default 1 each.
    confidence : float, optional
        Two-sided, of adjacent pairs of the overall order.
    warmup : int, optional
        Items every model gets of every task before anything is compared.
    budget : float, optional
        Most that may be spent on all tasks together, as the sum of price x units.
    max_items : int, optional
        Most items per model and task.
    seed : int, optional
    weights : mapping of task to float, or {"size", "equal"}, optional
        How the aggregate weighs the tasks: by their number of documents, as the harness does with
        ``weight_by_size: true`` (the default), all alike, or as given.
    target_se : float, optional
        Keep testing a model until the standard error of its aggregate, on [0, 1], is at most this.
        With a single model this is the stopping rule.
    stop_when_decided : bool, optional
        If false, spend the whole budget.
    **options
        Options of every task's `Ranker` (``exposure``, ``audit``, or of the method).

    Raises
    ------
    UsageError
        No task, weights that do not fit the tasks, or what `Ranker` refuses.

    Examples
    --------
    >>> from lm_eval_ccat import ScoreTable, calibrate
    >>> rng = np.random.default_rng(0)
    >>> def scores(n_items, seed):
    ...     skill = np.linspace(-1, 1, 8)[:, None]
    ...     return 1 / (1 + np.exp(-skill - rng.normal(size=n_items)))
    >>> tables = {t: ScoreTable.from_arrays(scores(n, 0), list("abcdefgh"))
    ...           for t, n in (("short", 30), ("long", 90))}
    >>> banks = {t: calibrate(x.without(["a", "h"]), "paper") for t, x in tables.items()}
    >>> suite = SuiteRanker(banks, {"a": 1.0, "h": 1.0})
    >>> while not suite.done:
    ...     for model, task, item in suite.ask():
    ...         suite.tell(model, task, item, tables[task].select([model]).unit[0, item])
    >>> suite.result().in_words()
    'h > a'
    """

    def __init__(
        self,
        banks: Mapping[str, ItemBank],
        models: Mapping[str, float],
        units: Mapping[str, Any] | None = None,
        confidence: float = 0.95,
        warmup: int = 5,
        budget: float | None = None,
        max_items: int | None = None,
        seed: int = 0,
        *,
        weights: Mapping[str, float] | str = "size",
        target_se: float | None = None,
        stop_when_decided: bool = True,
        **options: Any,
    ) -> None:
        if not banks:
            raise UsageError("a suite needs at least one task")
        if target_se is not None and not target_se > 0.0:
            raise UsageError(f"target_se {target_se!r} is not above 0")
        if budget is not None and not budget > 0.0:
            raise UsageError(f"budget {budget!r} is not above 0")
        unknown = sorted(set(units or ()) - set(banks))
        if unknown:
            raise UsageError(f"units are given for {unknown[0]!r}, which has no bank")
        self.tasks = tuple(banks)
        self.weights = _weights(banks, weights)
        self.confidence = float(confidence)
        self.budget = math.inf if budget is None else float(budget)
        self._names = list(models)
        self._target_se = target_se
        self._stop_when_decided = stop_when_decided
        self._stopped: str | None = None
        self._dropped: dict[str, str] = {}
        # Each task goes on as long as it is asked; when to stop is the suite's to say.
        self._rankers = {
            task: TaskRanker(
                bank,
                models,
                (units or {}).get(task),
                confidence,
                warmup,
                max_items=max_items,
                seed=seed,
                stop_when_decided=False,
                **options,
            )
            for task, bank in banks.items()
        }

    # -- the loop -----------------------------------------------------------------------------

    @property
    def done(self) -> bool:
        """Whether nothing is in flight and nothing more would be asked."""
        return not self.in_flight and not self._choices(None)

    @property
    def in_flight(self) -> set[tuple[str, str, Any]]:
        """(model, task, doc_id) asked for and not yet told, failed or released."""
        return {(m, task, d) for task, r in self._rankers.items() for m, d in r.in_flight}

    def ask(self, n: int = 1, model: str | None = None) -> list[tuple[str, str, Any]]:
        """At most `n` triples (model, task, doc_id) to run next; of one model only if named."""
        if model is not None:
            self._known(model)
        asked: list[tuple[str, str, Any]] = []
        while len(asked) < n:
            for name, task in self._choices(model):
                ranker = self._within(task)
                found = ranker.ask(1, model=name)
                if found:
                    asked.append((name, task, found[0][1]))
                    break
            else:
                break
        return asked

    def tell(
        self, model: str, task: str, item: Any, score: float, cost: float | None = None
    ) -> None:
        """Take in a score on [0, 1], higher is better; see `Ranker.tell`."""
        self._task(task).tell(model, item, score, cost)

    def fail(
        self, model: str, task: str, item: Any, reason: str, cost: float | None = None
    ) -> None:
        """Record that a model cannot do an item; see `Ranker.fail`."""
        self._task(task).fail(model, item, reason, cost)

    def release(self, model: str, task: str, item: Any) -> None:
        """Give back an item that was asked for and not run."""
        self._task(task).release(model, item)

    def drop(self, model: str, reason: str = "set aside") -> None:
        """Set a model aside in every task."""
        self._known(model)
        for ranker in self._rankers.values():
            ranker.drop(model, reason)
        self._dropped[model] = str(reason)

    def stop(self, reason: str) -> None:
        """Ask nothing more."""
        self._stopped = str(reason)

    # -- what is known ------------------------------------------------------------------------

    @property
    def spent(self) -> float:
        """Spent so far, without what is in flight."""
        return sum(r.spent for r in self._rankers.values())

    @property
    def committed(self) -> float:
        """Spent so far, with what is in flight at its expected cost."""
        return sum(r.committed for r in self._rankers.values())

    def estimate(self, model: str) -> tuple[float, float]:
        """Estimated aggregate of one model and its standard error, on [0, 1]."""
        self._known(model)
        found = [(w, *self._rankers[t].estimate(model)) for t, w in self.weights.items()]
        return sum(w * e for w, e, _ in found), math.sqrt(sum((w * s) ** 2 for w, _, s in found))

    def result(self) -> SuiteRanking:
        """The ranking as it stands; may be called at any time."""
        order, p = self._order(), self._probability()
        names = self._names
        ranked = [names[j] for j in order]
        rankings = {task: r.result() for task, r in self._rankers.items()}
        aggregate = {m: self.estimate(m) for m in names}
        return SuiteRanking(
            order=ranked,
            estimates={m: e for m, (e, _) in aggregate.items()},
            standard_errors={m: s for m, (_, s) in aggregate.items()},
            pairwise={(names[a], names[b]): float(p[a, b]) for a in order for b in order if a != b},
            ties=tie_groups(ranked, self._undecided(order, p)),
            tasks=rankings,
            weights=dict(self.weights),
            cost={m: sum(r.cost[m] for r in rankings.values()) for m in names},
            set_aside=dict(self._dropped),
            stopped_because=self._why_stopped(),
            confidence=self.confidence,
        )

    # -- who is next --------------------------------------------------------------------------

    def _choices(self, only: str | None) -> list[tuple[str, str]]:
        """(model, task) pairs that may get an item, best first; those of the warm-up alone."""
        if self._stopped is not None:
            return []
        active = [m for m in self._names if m not in self._dropped and only in (None, m)]
        warming = [
            (r.load(m), i, m, t)
            for m in active
            for i, (t, r) in enumerate(self._rankers.items())
            if r.warms_up(m) and self._affords(m, t)
        ]
        if warming:
            return [(m, t) for _, _, m, t in sorted(warming)]
        worth = self._worth()
        gains = []
        for m in active:
            j = self._names.index(m)
            if worth[j] <= 0.0:
                continue
            for t, w in self.weights.items():
                if self._affords(m, t):
                    fall = self._rankers[t].fall_per_price(m)
                    gains.append((worth[j] * w * w * fall, m, t))
        gains.sort(key=lambda g: -g[0])
        return [(m, t) for _, m, t in gains]

    def _affords(self, model: str, task: str) -> bool:
        """Whether a task's next item for a model fits what is left of the budget."""
        return self._within(task).may_ask(model)

    def _within(self, task: str) -> TaskRanker:
        """A task's ranker, allowed to spend what the suite has left."""
        ranker = self._rankers[task]
        ranker.allow(self.budget - self.committed)
        return ranker

    def _worth(self) -> Floats:
        """How much a model's error matters for the overall order; 0 where nothing depends on it.

        The derivative of the expected loss from misordering by a model's variance, as the method
        "default" has it for one task.
        """
        n = len(self._names)
        order = self._order()
        worth = np.zeros(n)
        z, sd = self._distance()
        density = np.exp(-0.5 * z**2) / sd
        np.fill_diagonal(density, 0.0)
        wanted: set[int] = set()
        if not self._stop_when_decided:
            wanted = set(order)
        else:
            undecided = self._undecided(order, self._probability())
            for i, open_ in enumerate(undecided):
                if open_:
                    wanted |= {order[i], order[i + 1]}
            if self._target_se is not None:
                se = [self.estimate(m)[1] for m in self._names]
                wanted |= {j for j in order if se[j] > self._target_se}
            elif len(order) == 1:
                wanted = set(order)
        for j in wanted:
            worth[j] = density[j, order].sum() + 1e-12 if len(order) > 1 else 1.0
        return worth

    def _order(self) -> list[int]:
        active = [j for j, m in enumerate(self._names) if m not in self._dropped]
        where = self._aggregate()
        return sorted(active, key=lambda j: -where[j])

    def _aggregate(self) -> Floats:
        return np.asarray(
            sum(w * self._rankers[t].differences().estimate for t, w in self.weights.items())
        )

    def _distance(self) -> tuple[Floats, Floats]:
        """Differences of aggregates in standard errors, and the standard errors."""
        where = self._aggregate()
        variance = sum(
            w * w * self._rankers[t].differences().variance for t, w in self.weights.items()
        )
        sd = np.sqrt(np.maximum(variance, _LEAST_VARIANCE))
        return (where[:, None] - where[None, :]) / sd, sd

    def _probability(self) -> Floats:
        """P(row better than column); of the tasks' distributions the least sure one counts."""
        z = self._distance()[0]
        found = np.stack([r.likelihood(z) for r in self._rankers.values()])
        return np.where(z >= 0.0, found.min(axis=0), found.max(axis=0))

    def _undecided(self, order: Sequence[int], p: Floats) -> list[bool]:
        tail = (1.0 - self.confidence) / 2.0
        return [bool(tail <= p[a, b] <= 1.0 - tail) for a, b in pairwise(order)]

    def _why_stopped(self) -> str:
        if self._stopped is not None:
            return self._stopped
        if not self.done:
            return ""
        if not (self._worth() > 0.0).any():
            many = len(self._order()) > 1
            return "every adjacent pair is decided" if many else "the target is reached"
        if math.isfinite(self.budget) and any(r.has_items_left for r in self._rankers.values()):
            left = max(self.budget - self.committed, 0.0)
            return f"the budget is used up ({left:.4g} of {self.budget:.6g} left)"
        return "every item that may be asked was administered"

    def _task(self, task: str) -> TaskRanker:
        try:
            return self._rankers[task]
        except KeyError:
            there = ", ".join(self.tasks)
            raise UsageError(f"unknown task {task!r}; this suite has {there}") from None

    def _known(self, model: str) -> None:
        if model not in self._names:
            raise UsageError(f"unknown model {model!r}; this ranking has {', '.join(self._names)}")


def _weights(banks: Mapping[str, ItemBank], given: Mapping[str, float] | str) -> dict[str, float]:
    """Weights of the tasks, summing to 1."""
    if given == "size":
        raw = {t: float(b.n_items) for t, b in banks.items()}
    elif given == "equal":
        raw = dict.fromkeys(banks, 1.0)
    elif isinstance(given, str):
        raise UsageError(f"weights {given!r} is neither 'size' nor 'equal', nor a weight per task")
    else:
        if set(given) != set(banks):
            raise UsageError(f"weights are of {', '.join(given)}, the banks of {', '.join(banks)}")
        raw = {t: float(given[t]) for t in banks}
    if not all(math.isfinite(w) and w > 0.0 for w in raw.values()):
        raise UsageError("weights must be numbers above 0")
    total = sum(raw.values())
    return {t: w / total for t, w in raw.items()}

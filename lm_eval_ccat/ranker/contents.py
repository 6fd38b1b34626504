"""What is ranked on: tasks, the outcomes of their answers, and how much each counts."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..bank import ItemBank
from ..errors import UsageError
from ..metrics.scale import Scale

Floats = NDArray[np.float64]
Banks = ItemBank | Mapping[str, ItemBank | Mapping[str, ItemBank]]
Weights = str | Mapping[str, float] | Mapping[str, Mapping[str, float]] | None


@dataclass(frozen=True)
class Task:
    """One task: its outcomes, one bank each over the same items.

    Attributes
    ----------
    name : str
    banks : dict of str to ItemBank
        By outcome.
    weights : dict of str to float
        Of the outcomes in the score that is ranked by; over all tasks they sum to 1.
    start : int
        Position of its first item among the items of all tasks.
    """

    name: str
    banks: dict[str, ItemBank]
    weights: dict[str, float]
    start: int

    @property
    def bank(self) -> ItemBank:
        """The bank of the outcome that counts most, for what all of them share."""
        return self.banks[max(self.weights, key=lambda k: self.weights[k])]

    @property
    def n_items(self) -> int:
        return self.bank.n_items

    @property
    def where(self) -> slice:
        """Its items among those of all tasks."""
        return slice(self.start, self.start + self.n_items)

    @property
    def kept(self) -> NDArray[np.bool_]:
        """Items that may be asked: those that some outcome that counts has kept."""
        kept = [b.kept for k, b in self.banks.items() if self.weights[k] > 0.0]
        return np.asarray(np.logical_or.reduce(kept))


class Contents:
    """Items by name and position, over all tasks.

    Parameters
    ----------
    banks : ItemBank, or mapping of task to ItemBank or to (mapping of outcome to ItemBank)
        A bank alone is one task with one outcome, whose items go by their doc_ids; otherwise items
        are (task, doc_id).
    weights : {"documents", "equal"}, or mapping of task, of outcome, or of task to outcome
        How much counts; by default tasks by their number of documents and outcomes all alike.

    Raises
    ------
    UsageError
        No task, outcomes of other items, banks of several methods, or weights that do not fit.
    """

    def __init__(self, banks: Banks, weights: Weights = None) -> None:
        self.named = not isinstance(banks, ItemBank)
        of_task = _by_task(banks)
        shares = _weights(of_task, weights)
        self.tasks: list[Task] = []
        start = 0
        for name, outcomes in of_task.items():
            self.tasks.append(Task(name, outcomes, shares[name], start))
            start += self.tasks[-1].n_items
        self.n_items = start
        self.of_task = {t.name: n for n, t in enumerate(self.tasks)}
        self.starts = [t.start for t in self.tasks]
        self.kept = np.concatenate([t.kept for t in self.tasks])
        self.n_kept = np.array([int(t.kept.sum()) for t in self.tasks])

    @property
    def single(self) -> bool:
        """Whether a single outcome of a single task is all that there is."""
        return len(self.tasks) == 1 and len(self.tasks[0].banks) == 1

    @property
    def scale(self) -> Scale:
        """The scale of what is ranked by: the outcomes' own if they share one, else [0, 1]."""
        scales = [b.scale for t in self.tasks for k, b in t.banks.items() if t.weights[k] > 0.0]
        return scales[0] if all(s == scales[0] for s in scales) else Scale()

    def position(self, item: Any) -> int:
        """Position of an item among those of all tasks."""
        if not self.named:
            return self._within(self.tasks[0], item)
        if not (isinstance(item, Sequence) and not isinstance(item, str) and len(item) == 2):
            raise UsageError(f"item {item!r} is not a pair (task, doc_id)")
        name, doc_id = item
        if name not in self.of_task:
            there = ", ".join(map(str, self.of_task))
            raise UsageError(f"unknown task {name!r}; this ranking has {there}")
        task = self.tasks[self.of_task[name]]
        return task.start + self._within(task, doc_id)

    @staticmethod
    def _within(task: Task, doc_id: Any) -> int:
        try:
            return task.bank.index[doc_id]
        except (KeyError, TypeError):
            of = f" of task {task.name!r}" if task.name else ""
            raise UsageError(f"the bank{of} has no item with doc_id {doc_id!r}") from None

    def task_at(self, position: int) -> int:
        """Number of the task in which an item lies."""
        if len(self.tasks) == 1:
            return 0
        return bisect_right(self.starts, position) - 1

    def item(self, position: int) -> Any:
        """An item as `ask` names it."""
        task = self.tasks[self.task_at(position)]
        doc_id = self.doc_id(position)
        return (task.name, doc_id) if self.named else doc_id

    def doc_id(self, position: int) -> Any:
        """An item as its task names it."""
        task = self.tasks[self.task_at(position)]
        return task.bank.doc_ids[position - task.start]

    def units(self, given: Any) -> Floats:
        """Units of all items: 1 each, or as given (by task, where there are several)."""
        if not self.named:
            return _units(self.tasks[0].bank, given)
        by_task = {} if given is None else given
        if not isinstance(by_task, Mapping):
            raise UsageError("units of several tasks are given by task: {task: units}")
        unknown = sorted(set(by_task) - set(self.of_task))
        if unknown:
            raise UsageError(f"units are given for {unknown[0]!r}, which has no bank")
        return np.concatenate([_units(t.bank, by_task.get(t.name)) for t in self.tasks])


def _units(bank: ItemBank, given: Mapping[Any, float] | ArrayLike | None) -> Floats:
    """Units in bank order: 1 each, or as given by doc_id or position."""
    if given is None:
        return np.ones(bank.n_items)
    if isinstance(given, Mapping):
        missing = [d for d in bank.doc_ids if d not in given]
        if missing:
            raise UsageError(f"units has no value for doc_id {missing[0]!r}")
        given = [given[d] for d in bank.doc_ids]
    try:
        array = np.asarray(given, dtype=np.float64)
    except (TypeError, ValueError):
        raise UsageError("units must be numbers above 0") from None
    if array.shape != (bank.n_items,):
        raise UsageError(f"units has shape {array.shape}, the bank has {bank.n_items} items")
    if not (np.isfinite(array).all() and (array > 0.0).all()):
        raise UsageError("units must be numbers above 0")
    return array


def _by_task(banks: Banks) -> dict[str, dict[str, ItemBank]]:
    if isinstance(banks, ItemBank):
        return {banks.task or "": {banks.metric or "": banks}}
    if not isinstance(banks, Mapping):
        raise UsageError(f"{type(banks).__name__} is not a bank, nor banks by task")
    if not banks:
        raise UsageError("a ranking needs at least one task")
    found = {}
    for task, given in banks.items():
        outcomes = {given.metric or "": given} if isinstance(given, ItemBank) else dict(given)
        if not outcomes or not all(isinstance(b, ItemBank) for b in outcomes.values()):
            raise UsageError(f"task {task!r} has no bank")
        first, *others = outcomes.values()
        if any(b.doc_ids != first.doc_ids for b in others):
            raise UsageError(f"the banks of task {task!r} are of different items")
        found[task] = outcomes
    methods = sorted({b.method for o in found.values() for b in o.values()})
    if len(methods) > 1:
        raise UsageError(f"the banks are of several methods ({', '.join(methods)}); take one")
    return found


def _weights(
    banks: Mapping[str, Mapping[str, ItemBank]], given: Weights
) -> dict[str, dict[str, float]]:
    """Weights of all outcomes, summing to 1."""
    metrics = {k for outcomes in banks.values() for k in outcomes}
    by_size = {t: float(next(iter(o.values())).n_items) for t, o in banks.items()}
    of_task: Mapping[str, Any] = by_size
    of_outcome: dict[str, Mapping[str, Any]] = {t: dict.fromkeys(o, 1.0) for t, o in banks.items()}
    if given == "equal":
        of_task = dict.fromkeys(banks, 1.0)
    elif isinstance(given, str):
        if given != "documents":
            raise UsageError(
                f"weights {given!r} is neither 'documents' nor 'equal', nor a weight per task"
            )
    elif given is not None:
        if not isinstance(given, Mapping):
            raise UsageError(f"weights {given!r} is not a weight per task or outcome")
        if set(given) == set(banks) and any(isinstance(w, Mapping) for w in given.values()):
            return _nested(banks, given)
        if set(given) == set(banks):
            of_task = given
            _check_weights(given.values(), zero=False)
        elif set(given) == metrics:
            of_outcome = {t: {k: given[k] for k in o} for t, o in banks.items()}
        else:
            names = [*banks, *(metrics if metrics != set(banks) else ())]
            raise UsageError(
                f"weights are of {', '.join(map(str, given))}, the banks of "
                f"{', '.join(map(str, names))}"
            )
    total = sum(of_task.values())
    out = {}
    for task, outcomes in of_outcome.items():
        _check_weights(outcomes.values(), zero=True)
        inner = sum(outcomes.values())
        out[task] = {k: of_task[task] / total * (w / inner) for k, w in outcomes.items()}
    return out


def _nested(
    banks: Mapping[str, Mapping[str, ItemBank]], given: Mapping[str, Any]
) -> dict[str, dict[str, float]]:
    out = {}
    for task, outcomes in banks.items():
        inner = given[task]
        if not isinstance(inner, Mapping) or set(inner) != set(outcomes):
            raise UsageError(f"weights of task {task!r} are not one per outcome: {inner!r}")
        _check_weights(inner.values(), zero=True)
        out[task] = dict(inner)
    total = sum(w for inner in out.values() for w in inner.values())
    return {t: {k: w / total for k, w in inner.items()} for t, inner in out.items()}


def _check_weights(weights: Any, zero: bool) -> None:
    for w in weights:
        number = isinstance(w, int | float | np.integer | np.floating) and not isinstance(w, bool)
        if not number or not math.isfinite(w) or w < 0.0 or (w == 0.0 and not zero):
            raise UsageError(f"weight {w!r}: weights must be numbers above 0")
    if not sum(weights) > 0.0:
        raise UsageError("some weight must be above 0")

"""What is ranked on: tasks, the outcomes of their answers, and how much each counts."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..bank import ItemBank
from ..bank.outcome import Outcome
from ..errors import UsageError
from ..metrics.scale import Scale

Floats = NDArray[np.float64]
Banks = ItemBank | Sequence[Outcome] | Mapping[str, ItemBank | Mapping[str, ItemBank]]
Weights = str | Mapping[str, float] | Mapping[str, Mapping[str, float]] | None


@dataclass(frozen=True)
class Task:
    """One task: its outcomes, all over the same items.

    Attributes
    ----------
    name : str
    outcomes : tuple of Outcome
        Their weights are those in the score that is ranked by; over all tasks they sum to 1.
    start : int
        Position of its first item among the items of all tasks.
    """

    name: str
    outcomes: tuple[Outcome, ...]
    start: int

    @cached_property
    def leader(self) -> Outcome:
        """The outcome that counts most, the first of those that count alike."""
        return max(self.outcomes, key=lambda o: o.weight)

    @cached_property
    def doc_ids(self) -> Sequence[Any]:
        """Its items, in bank order."""
        return self.leader.bank.doc_ids

    @property
    def weight(self) -> float:
        """Weight of the task in the score that is ranked by."""
        return sum(o.weight for o in self.outcomes)

    @cached_property
    def where(self) -> slice:
        """The slice of all tasks' items that is this task's."""
        return slice(self.start, self.start + self.leader.bank.n_items)

    @cached_property
    def kept(self) -> NDArray[np.bool_]:
        """Items that may be asked: those that some outcome that counts has kept."""
        kept = [o.bank.kept for o in self.outcomes if o.weight > 0.0]
        return np.asarray(np.any(kept, axis=0))


class Contents:
    """Items by name and position, over all tasks. Inside they are (task, doc_id), always.

    Parameters
    ----------
    banks : ItemBank, list of Outcome, or mapping of task to ItemBank or {outcome: ItemBank}
        A bank alone is one task with one outcome.
    weights : {"documents", "equal"}, or mapping of task, of outcome, or of task to outcome
        How much counts; by default tasks by their number of documents, and outcomes all alike, or
        as a list of them has it.

    Attributes
    ----------
    bare : bool
        Whether the ranker hands out items by their doc_ids alone: there is one task, and it was
        not given by its name. Either form is taken wherever there is one task.

    Raises
    ------
    UsageError
        No task, outcomes of other items, banks of several methods, or weights that do not fit.
    """

    def __init__(self, banks: Banks, weights: Weights = None) -> None:
        of_task = _by_task(banks)
        shares = _shares(of_task, weights)
        self.tasks: list[Task] = []
        self.n_items = 0
        for name, outcomes in of_task.items():
            weighted = tuple(replace(o, weight=shares[name][o.name]) for o in outcomes)
            self.tasks.append(Task(name, weighted, self.n_items))
            self.n_items += outcomes[0].bank.n_items
        methods = sorted({o.bank.method for o in self.outcomes if o.weight > 0.0})
        if len(methods) > 1:
            raise UsageError(f"the banks are of several methods ({', '.join(methods)}); take one")
        self.bare = len(self.tasks) == 1 and not isinstance(banks, Mapping)
        self.of_task = {t.name: n for n, t in enumerate(self.tasks)}
        self._starts = [t.start for t in self.tasks]
        self.kept = np.concatenate([t.kept for t in self.tasks])
        self.n_kept = np.array([int(t.kept.sum()) for t in self.tasks])

    @property
    def outcomes(self) -> list[Outcome]:
        """The outcomes of all tasks."""
        return [o for t in self.tasks for o in t.outcomes]

    @property
    def scale(self) -> Scale:
        """The scale of what is ranked by: the outcomes' own if they share one, else [0, 1]."""
        scales = [o.scale for o in self.outcomes if o.weight > 0.0]
        return scales[0] if all(s == scales[0] for s in scales) else Scale()

    def position(self, item: Any) -> int:
        """Position of an item among those of all tasks."""
        if isinstance(item, Sequence) and not isinstance(item, str) and len(item) == 2:
            name, doc_id = item
            if name not in self.of_task:
                known = ", ".join(map(str, self.of_task))
                raise UsageError(f"unknown task {name!r}; this ranking has {known}")
            task = self.tasks[self.of_task[name]]
        elif len(self.tasks) == 1:
            task, doc_id = self.tasks[0], item
        else:
            raise UsageError(f"item {item!r} is not a pair (task, doc_id)")
        try:
            return task.start + task.leader.bank.index[doc_id]
        except (KeyError, TypeError):
            of = f" of task {task.name!r}" if task.name else ""
            raise UsageError(f"the bank{of} has no item with doc_id {doc_id!r}") from None

    def task_at(self, position: int) -> int:
        """Number of the task in which an item lies."""
        return bisect_right(self._starts, position) - 1

    def doc_id(self, position: int) -> Any:
        """An item as its task names it."""
        task = self.tasks[self.task_at(position)]
        return task.doc_ids[position - task.start]

    def item(self, position: int) -> Any:
        """An item as `ask` names it."""
        doc_id = self.doc_id(position)
        return doc_id if self.bare else (self.tasks[self.task_at(position)].name, doc_id)

    def units(self, stated: Any) -> Floats:
        """Units of all items: 1 each, or as stated (by task, where there are several)."""
        if self.bare:
            return _units(self.tasks[0].leader.bank, stated)
        by_task = {} if stated is None else stated
        if not isinstance(by_task, Mapping):
            raise UsageError("units of several tasks are given by task: {task: units}")
        unknown = sorted(set(by_task) - set(self.of_task))
        if unknown:
            raise UsageError(f"units are given for {unknown[0]!r}, which has no bank")
        return np.concatenate([_units(t.leader.bank, by_task.get(t.name)) for t in self.tasks])


def _units(bank: ItemBank, stated: Mapping[Any, float] | ArrayLike | None) -> Floats:
    """Units in bank order: 1 each, or as stated by doc_id or position."""
    if stated is None:
        return np.ones(bank.n_items)
    if isinstance(stated, Mapping):
        missing = [d for d in bank.doc_ids if d not in stated]
        if missing:
            raise UsageError(f"units has no value for doc_id {missing[0]!r}")
        stated = [stated[d] for d in bank.doc_ids]
    try:
        array = np.asarray(stated, dtype=np.float64)
    except (TypeError, ValueError):
        raise UsageError("units must be numbers above 0") from None
    if array.shape != (bank.n_items,):
        raise UsageError(f"units has shape {array.shape}, the bank has {bank.n_items} items")
    if not (np.isfinite(array).all() and (array > 0.0).all()):
        raise UsageError("units must be numbers above 0")
    return array


def _by_task(banks: Banks) -> dict[str, list[Outcome]]:
    """The outcomes of every task, checked."""
    if isinstance(banks, ItemBank):
        outcomes: Sequence[Any] = [Outcome.of(banks)]
    elif isinstance(banks, Mapping):
        if not all(banks.values()):
            raise UsageError(f"task {next(t for t, b in banks.items() if not b)!r} has no bank")
        outcomes = [
            Outcome.of(bank, task, name)
            for task, of in banks.items()
            for name, bank in (of.items() if isinstance(of, Mapping) else [("", of)])
        ]
    else:
        outcomes = banks if isinstance(banks, Sequence) else [banks]
    out: dict[str, list[Outcome]] = {}
    for one in outcomes:
        if not isinstance(one, Outcome):
            raise UsageError(
                f"{banks!r:.60} is no bank, nor a list of outcomes, nor banks by task; read a bank "
                "by ItemBank.load(path), or rank without one by ItemBank.blank(doc_ids)"
            )
        out.setdefault(one.task, []).append(one)
    if not out:
        raise UsageError("a ranking needs the bank of at least one task")
    for task, of_task in out.items():
        if any(o.bank.doc_ids != of_task[0].bank.doc_ids for o in of_task):
            raise UsageError(f"the outcomes of task {task!r} are of other items")
    return out


def _shares(
    of_task: Mapping[str, Sequence[Outcome]], stated: Weights
) -> dict[str, dict[str, float]]:
    """Weights of all outcomes by task and name, summing to 1."""
    metrics = {o.name for outcomes in of_task.values() for o in outcomes}
    weights: Mapping[str, Any] = {t: float(o[0].bank.n_items) for t, o in of_task.items()}
    inner = {t: {o.name: o.weight for o in outcomes} for t, outcomes in of_task.items()}
    if stated == "equal":
        weights = dict.fromkeys(of_task, 1.0)
    elif isinstance(stated, str) and stated != "documents":
        raise UsageError(
            f"weights {stated!r} is neither 'documents' nor 'equal', nor a weight per task"
        )
    elif isinstance(stated, Mapping) and set(stated) == set(of_task):
        by_task: Mapping[str, Any] = stated
        weights = by_task
        if any(isinstance(w, Mapping) for w in stated.values()):
            for task, of in by_task.items():
                if not isinstance(of, Mapping) or set(of) != set(inner[task]):
                    raise UsageError(f"weights of task {task!r} are not one per outcome: {of!r}")
                _check_weights(of.values(), zero=True)
            inner = {t: {k: by_task[t][k] for k in names} for t, names in inner.items()}
            weights = {t: sum(of.values()) for t, of in inner.items()}
        _check_weights(weights.values(), zero=False)
    elif isinstance(stated, Mapping) and set(stated) == metrics:
        of_name: Mapping[str, Any] = stated
        inner = {t: {k: of_name[k] for k in names} for t, names in inner.items()}
    elif isinstance(stated, Mapping):
        names = [*of_task, *(metrics if metrics != set(of_task) else ())]
        raise UsageError(
            f"weights are of {', '.join(map(str, stated))}, the banks of "
            f"{', '.join(map(str, names))}"
        )
    elif stated is not None and not isinstance(stated, str):
        raise UsageError(f"weights {stated!r} is not a weight per task or outcome")
    total, out = sum(weights.values()), {}
    for task, of_outcome in inner.items():
        _check_weights(of_outcome.values(), zero=True)
        share = sum(of_outcome.values())
        out[task] = {k: weights[task] / total * (w / share) for k, w in of_outcome.items()}
    return out


def _check_weights(weights: Any, zero: bool) -> None:
    for w in weights:
        number = isinstance(w, int | float | np.integer | np.floating) and not isinstance(w, bool)
        if not number or not math.isfinite(w) or w < 0.0 or (w == 0.0 and not zero):
            raise UsageError(f"weight {w!r}: weights must be numbers above 0")
    if not sum(weights) > 0.0:
        raise UsageError("some weight must be above 0")


def groups_of(
    contents: Contents, groups: Mapping[str, Mapping[str, float] | Sequence[str]]
) -> dict[str, dict[int, float]]:
    """What the weight of each task is multiplied by in each group, by task number."""
    out: dict[str, dict[int, float]] = {}
    for name, stated in groups.items():
        of = dict(stated) if isinstance(stated, Mapping) else dict.fromkeys(stated, 1.0)
        unknown = [t for t in of if t not in contents.of_task]
        if unknown or not of:
            raise UsageError(f"group {name!r} has no task {unknown[0] if unknown else ''!r}")
        total = sum(of.values())
        if not total > 0.0 or min(of.values()) < 0.0:
            raise UsageError(f"group {name!r}: weights must be numbers above 0")
        at = {contents.of_task[task]: w / total for task, w in of.items()}
        out[name] = {t: w / contents.tasks[t].weight for t, w in at.items()}
    return out

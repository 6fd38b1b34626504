"""Accounts of a ranking: what was asked, told and spent, for each model and in total.

An item costs its *units* (its size: tokens, say) times the model's price of one unit.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..errors import UsageError
from ..methods.belief import Indices
from ..methods.policy import Mask
from ..metrics.scale import Floats
from ..options import AT_LEAST_0
from .contents import Contents

#: Share of a budget by which rounding alone may make a sum of prices exceed it.
SLACK = 1e-9


class Measured(NamedTuple):
    """Total cost and units of some items."""

    cost: float = 0.0
    units: float = 0.0


@dataclass(eq=False)
class Account:
    """What one model was asked, told and charged. Items are positions among those of all tasks.

    `Accounts` calls the methods that change it, and keeps tables over all models in step.

    Attributes
    ----------
    price : float
        Price of one unit, as the user states it.
    number : int
        Position of the model among all models.
    available : ndarray of bool, shape (n_items,)
        Items that may still be asked.
    scored : dict of int to (float or None)
        Items with a score, and the probability with which each was drawn; None if it was chosen.
    pending : dict of int to float
        Items in flight, and their units.
    failed : dict of int to str
        Items that failed, and the reasons.
    measured : Measured
        Of the items that were told with a cost above 0.
    dropped : str or None
        Why the model was set aside.
    """

    name: str
    price: float
    number: int
    available: Mask
    scored: dict[int, float | None] = field(default_factory=dict)
    pending: dict[int, float] = field(default_factory=dict)
    failed: dict[int, str] = field(default_factory=dict)
    #: The probability of each draw that has no score: it is in flight, or has failed.
    _drawn: dict[int, float] = field(default_factory=dict)
    measured: Measured = field(default_factory=Measured)
    dropped: str | None = None

    @property
    def n(self) -> int:
        """Number of items told or in flight."""
        return len(self.scored) + len(self.pending)

    def ask(self, item: int, units: float, probability: float | None) -> None:
        """Note an item in flight."""
        self.pending[item] = units
        if probability is not None:
            self._drawn[item] = probability

    def score(self, item: int) -> None:
        """Note an item as scored; the caller takes it out of `pending`."""
        self.scored[item] = self._drawn.pop(item, None)

    def release(self, item: int) -> None:
        """Note that an item in flight was given back."""
        del self.pending[item]
        self._drawn.pop(item, None)

    def renumber(self, moved_to: Indices, kept_items: Mask) -> None:
        """Move each item to its new position, ``moved_to[item]``, as answers are added.

        Of the added ones, those of `kept_items` may be asked; the others stay as they were.
        """
        places = moved_to.tolist()
        self.scored = {places[item]: drawn for item, drawn in self.scored.items()}
        self.pending = {places[item]: units for item, units in self.pending.items()}
        self.failed = {places[item]: reason for item, reason in self.failed.items()}
        self._drawn = {places[item]: drawn for item, drawn in self._drawn.items()}
        available = kept_items.copy()
        available[moved_to] = self.available
        self.available = available

    def probability(self, item: int) -> float | None:
        """Return the probability with which an item was drawn; None if it was not."""
        return self.scored[item] if item in self.scored else self._drawn.get(item)


class Accounts:
    """Accounts of all models under one budget; the only place that counts money.

    Parameters
    ----------
    contents : Contents
    prices : mapping of str to float
        Price of one unit, by model.
    units : ndarray of shape (n_items,)
    budget : float
        Most that may be spent; infinite without a limit.
    affords_mean : bool
        Whether a model may be asked while the mean price of its items left fits the budget, which
        the single item then need not do (the paper's rule).

    Attributes
    ----------
    number_of : dict of str to int
        Number of each model, by which accounts and arrays are indexed.
    n_of_task, remaining, asked : ndarray of int, shape (n_models, n_tasks)
        Items told or in flight, items available, and items ever asked (including those given
        back), of each task.
    spent_on : ndarray of shape (n_models, n_tasks)
        Amount spent so far, without items in flight.
    prices : ndarray of shape (n_models,)
        Price of one unit, from `price`.
    stated_budget, lost : float
        Budget as set, and the cost of attempts without an answer, which lowers it.
    n_in_flight : int
        Items in flight, of all models together.
    changes : int
        Number of changes so far to anything that turns depend on.
    """

    def __init__(
        self,
        contents: Contents,
        prices: Mapping[str, float],
        units: Floats,
        budget: float,
        affords_mean: bool,
    ) -> None:
        self.contents, self.units = contents, units
        self.stated_budget, self.affords_mean = budget, affords_mean
        self.lost = 0.0
        self._accounts: list[Account] = []
        self.number_of: dict[str, int] = {}
        self._count_units()
        self._committed: float | None = None
        self.n_in_flight = self.changes = 0
        self.n_of_task, self.remaining, self.asked = np.zeros(
            (3, 0, len(contents.tasks)), dtype=int
        )
        self._n = np.zeros(0, dtype=int)
        # `_next_units`, by model and task: units whose price must fit the budget, of the items
        # available the least or (`affords_mean`) the mean. Cells in `_outdated` are to be computed
        # anew.
        self.spent_on, self._next_units = np.zeros((2, 0, len(contents.tasks)))
        self._outdated: set[tuple[int, int]] = set()
        # Units in flight, by model; those of `_changed_flights` are to be computed anew.
        self.prices, self._units_in_flight = np.zeros((2, 0))
        self._changed_flights: set[int] = set()
        self._active = np.zeros(0, dtype=bool)
        for name, price in prices.items():
            self.add(name, price)

    def add(self, name: str, price: float) -> None:
        """Open an account for a model."""
        number, zeros = len(self._accounts), np.zeros(len(self.contents.tasks), dtype=int)
        self.n_of_task = np.vstack([self.n_of_task, zeros])
        self.asked = np.vstack([self.asked, zeros])
        self.remaining = np.vstack([self.remaining, self.contents.n_kept])
        self.spent_on = np.vstack([self.spent_on, zeros])
        self._next_units = np.vstack([self._next_units, self._task_units])
        self._outdated |= {(number, task) for task in range(len(zeros))}
        self._n = np.append(self._n, 0)
        self.prices = np.append(self.prices, float(price))
        self._units_in_flight = np.append(self._units_in_flight, 0.0)
        self._active = np.append(self._active, True)
        self._accounts.append(Account(name, float(price), number, self.contents.kept_items.copy()))
        self.number_of[name] = number
        self.note_change()

    def _count_units(self) -> None:
        """Compute mean units: of all items, of those that may be asked, and of these by task."""
        units, contents = self.units, self.contents
        self._mean_units = float(units.mean())
        self._units_are_alike = bool(units.min() == units.max())
        self._kept_units = float(units[contents.kept_items].mean())
        self._task_units = [
            float(units[task.positions][task.kept_items].mean()) for task in contents.tasks
        ]

    def grow(self, moved_to: Indices, n_added: NDArray[np.int_]) -> None:
        """Take in the answers by which the contents have grown.

        Parameters
        ----------
        moved_to : ndarray of int
            The new position of each answer that could be asked before.
        n_added : ndarray of int, shape (n_tasks,)
            Number of answers added to each task.
        """
        units = np.zeros(len(self.contents.kept_items))
        units[moved_to] = self.units
        # Every repeat of an item has the item's size.
        for task in self.contents.tasks:
            units[task.positions] = np.tile(
                units[task.positions][: task.bank.n_items], task.repeats
            )
        self.units = units
        self._count_units()
        self.remaining += n_added
        self._outdated = set(np.ndindex(self._next_units.shape))
        for account in self._accounts:
            account.renumber(moved_to, self.contents.kept_items)
            self.prices[account.number] = self.price(account)
        self.note_change()

    def __len__(self) -> int:
        return len(self._accounts)

    def __iter__(self) -> Iterator[Account]:
        return iter(self._accounts)

    def __getitem__(self, number: int) -> Account:
        return self._accounts[number]

    def of(self, model: str) -> Account:
        """Return the account of a model by name."""
        try:
            return self._accounts[self.number_of[model]]
        except (KeyError, TypeError):
            known = ", ".join(self.number_of)
            raise UsageError(f"unknown model {model!r}; this ranking has {known}") from None

    def numbers(self, models: Collection[str]) -> set[int]:
        """Return the numbers of models by name."""
        return {self.of(model).number for model in models}

    @property
    def active(self) -> Mask:
        """Which models are not set aside; shape (n_models,)."""
        return self._active.copy()

    @property
    def n(self) -> NDArray[np.int64]:
        """Number of items told or in flight; shape (n_models,)."""
        return self._n.copy()

    @property
    def in_flight(self) -> set[tuple[str, Any]]:
        """(model, item) pairs asked for and not yet told, failed or released."""
        return {
            (account.name, self.contents.name_as_asked(item))
            for account in self._accounts
            for item in account.pending
        }

    # -- money --------------------------------------------------------------------------------

    @property
    def budget(self) -> float:
        """What lost attempts leave of the stated budget; above 0, as every budget is."""
        return max(self.stated_budget - self.lost, 1e-12)

    @property
    def spent(self) -> float:
        """Amount spent so far, without items in flight."""
        return float(self.spent_on.sum())

    @property
    def committed(self) -> float:
        """Amount spent so far, plus the cost of items in flight as answers so far let expect."""
        if self._committed is None:
            for number in self._changed_flights:
                self._units_in_flight[number] = sum(self._accounts[number].pending.values())
            self._changed_flights.clear()
            self._committed = self.spent + float(self.prices.dot(self._units_in_flight))
        return self._committed

    def left(self, budget: float | None = None) -> float:
        """Return what items told and in flight leave of a budget, default that in force.

        It allows for rounding: ten items at 0.001 fit into 0.01.
        """
        budget = self.budget if budget is None else budget
        # Hundreds of items may be in flight, which need not be summed where any number may be.
        return budget if math.isinf(budget) else budget * (1.0 + SLACK) - self.committed

    def price(self, account: Account) -> float:
        """Return the price of one unit: the stated one, corrected by the costs of answers."""
        cost, units = account.measured
        if not units:
            return account.price
        # A stated price counts as one item that was observed, of mean size.
        weight = self._mean_units
        return (account.price * weight + cost) / (weight + units)

    def mean_price(self, account: Account, task: int | None = None) -> float:
        """Return the mean price of the items (of `task`) that the calibration kept."""
        return self.price(account) * (self._kept_units if task is None else self._task_units[task])

    def price_to_cap(self, models: Sequence[int], cap: int) -> float:
        """Return what it costs to give each of some models the items that it lacks up to `cap`."""
        return float(self.prices[models] @ (cap - self.n[models])) * self._kept_units

    def items_affordable(self, warmup: int, n_payers: int) -> int:
        """Return how many items `n_payers` models can get at most if all others get the warm-up."""
        # The payers are the cheapest models, and the items the smallest: a horizon must not be too
        # short.
        prices, units = np.sort(self.prices), np.sort(self.units[self.contents.kept_items]).cumsum()
        warmup_units = float(units[min(warmup, len(units)) - 1]) if warmup else 0.0
        left = self.budget * (1.0 + SLACK) - float(prices[n_payers:].sum()) * warmup_units
        price = float(prices[:n_payers].sum())
        # Free models can get all items.
        return int(np.searchsorted(units * price, left, side="right")) if price else len(units)

    def affordable(self, left: float) -> Mask:
        """Return whether `left` pays for a next item; shape (n_models, n_tasks).

        That is the cheapest one available or, with `affords_mean`, one of mean price.
        """
        has_items = self.remaining > 0
        if math.isinf(left):
            return has_items
        # Only what an answer has changed is worked out again: a suite has many models and tasks.
        while self._outdated:
            model, task = cell = self._outdated.pop()
            if self.remaining[cell]:
                positions = self.contents.tasks[task].positions
                units = self.units[positions][self._accounts[model].available[positions]]
                self._next_units[cell] = units.mean() if self.affords_mean else units.min()
        return np.asarray(has_items & (self.prices[:, None] * self._next_units <= left))

    def choosable(self, account: Account, left: float) -> Mask:
        """Return the items that a model may be asked: available and within `left`; (n_items,)."""
        if math.isinf(left):
            return account.available
        # Each single item has to fit.
        if not self.affords_mean:
            price = self.price(account)
            if self._units_are_alike and price * float(self.units[0]) <= left:
                return account.available
            return account.available & (price * self.units <= left)
        # The mean price of a task's items has to fit. Whether it does is asked here between several
        # tasks alone: with one, a model gets no turn without that.
        out, able = account.available.copy(), self.affordable(left)[account.number]
        for number, task in enumerate(self.contents.tasks):
            if len(able) > 1 and not able[number]:
                out[task.positions] = False
        return out

    # -- what happened ------------------------------------------------------------------------

    def ask(self, account: Account, item: int, probability: float | None) -> None:
        """Record that an item was asked."""
        self.asked[account.number, self.contents.task_at(item)] += 1
        account.ask(item, float(self.units[item]), probability)
        self.n_in_flight += 1
        self._move(account, item, 1, available=False)

    def release(self, account: Account, item: int) -> None:
        """Record that an item was given back."""
        account.release(item)
        self.n_in_flight -= 1
        self._move(account, item, -1, available=True)

    def end(
        self, account: Account, item: int, cost: float | None, failure: str | None = None
    ) -> None:
        """Record that an item was scored, whether it was asked or not, or failed with a reason.

        Without `cost`, a score costs what was expected, and a failure nothing.
        """
        # An answer that is told twice would be paid, and count, twice.
        if item in account.scored or item in account.failed:
            what = "already has a score on" if item in account.scored else "failed on"
            named = self.contents.name(item)
            raise UsageError(f"model {account.name!r} {what} doc_id {named!r}")
        if cost is not None:
            AT_LEAST_0.check(cost, f"cost of {account.name}")
        units, asked = float(self.units[item]), account.pending.pop(item, None) is not None
        self.n_in_flight -= asked
        if cost is None:
            cost = self.price(account) * units if failure is None else 0.0
        elif cost and failure is None:
            # A free answer (one reused from before) says nothing about the price of the next.
            measured = account.measured
            account.measured = Measured(measured.cost + cost, measured.units + units)
            self.prices[account.number] = self.price(account)
        self.spent_on[account.number, self.contents.task_at(item)] += float(cost)
        if failure is None:
            account.score(item)
        else:
            account.failed[item] = failure
        # An item in flight was counted when it was asked; one that failed counts no more.
        self._move(account, item, (failure is None) - asked, available=False)

    def _move(self, account: Account, item: int, added: int, available: bool) -> None:
        """Update the tables after a model was asked an item, or told, failed on or gave it back.

        `added` is what that adds to its number of items told or in flight, and `available` whether
        it may be asked the item from now on.
        """
        cell = account.number, self.contents.task_at(item)
        self.n_of_task[cell] += added
        self._n[account.number] += added
        self.remaining[cell] += int(available) - int(account.available[item])
        account.available[item] = available
        # Among items of one size, mean and least stay what they are.
        if not self._units_are_alike:
            self._outdated.add(cell)
        self._changed_flights.add(account.number)
        self.note_change()

    def set_aside(self, account: Account, reason: str | None) -> None:
        """Set a model aside, or take it back if `reason` is None."""
        account.dropped, self._active[account.number] = reason, reason is None
        self.note_change()

    def reprice(self, prices: Mapping[str, float]) -> None:
        """Set new prices of one unit, which the costs of answers continue to correct."""
        for name, price in prices.items():
            account = self.of(name)
            account.price = float(price)
            self.prices[account.number] = self.price(account)
        self.note_change()

    def note_change(self) -> None:
        """Count a change, after which cached turns and sums are out of date."""
        self._committed = None
        self.changes += 1

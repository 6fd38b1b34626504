"""The books of a ranking: what was asked, told and spent, of each model and in all."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import UsageError
from .contents import Contents, Floats

#: Share of the budget by which a sum of prices may exceed it through rounding alone.
_ROUNDING = 1e-9


@dataclass
class Account:
    """The books of one model. Items are positions among those of all tasks.

    Attributes
    ----------
    price : float
        Of one unit, as it was given.
    available : ndarray of bool, shape (n_items,)
        Items that may still be asked.
    load, left : ndarray of int, shape (n_tasks,)
        Items told and in flight, and items available, of each task.
    asked : ndarray of int, shape (n_tasks,)
        Items ever asked, those given back included.
    spent_on : list of float
        Spent so far on each task, without what is in flight.
    told, pending, failed
        Items by what became of them; `pending` with the cost committed.
    probability : dict of int to float
        Of the items that were drawn at random, at the moment of the draw.
    measured : (float, float)
        Cost and units of the items told with their cost.
    dropped : str or None
        Why the model was set aside.
    """

    name: str
    price: float
    available: NDArray[np.bool_]
    load: NDArray[np.int64]
    left: NDArray[np.int64]
    asked: NDArray[np.int64]
    spent_on: list[float]
    told: dict[int, None] = field(default_factory=dict)
    pending: dict[int, float] = field(default_factory=dict)
    failed: dict[int, str] = field(default_factory=dict)
    probability: dict[int, float] = field(default_factory=dict)
    measured: tuple[float, float] = (0.0, 0.0)
    dropped: str | None = None
    ahead: dict[int, float] = field(default_factory=dict)

    @property
    def spent(self) -> float:
        """Spent so far, without what is in flight."""
        return sum(self.spent_on)

    @property
    def n(self) -> int:
        """Items told and in flight."""
        return len(self.told) + len(self.pending)


class Ledger:
    """Accounts of all models under one budget. The only place that counts money.

    Parameters
    ----------
    contents : Contents
    prices : mapping of str to float
        Of one unit, by model.
    units : ndarray of shape (n_items,)
    budget : float
        Most that may be spent; infinite without a limit.
    by_mean : bool
        Whether a task fits the budget by the *mean* price of its remaining items (the paper's
        rule), or by the cheapest.
    """

    def __init__(
        self,
        contents: Contents,
        prices: Mapping[str, float],
        units: Floats,
        budget: float,
        by_mean: bool,
    ) -> None:
        self.contents = contents
        self.units = units
        self.budget = budget
        self.by_mean = by_mean
        self.accounts: list[Account] = []
        self.position: dict[str, int] = {}
        self._mean_units = float(units.mean())  # the price given counts as one item's observation
        self._kept_units = float(units[contents.kept].mean())
        self._task_units = [float(units[t.where][t.kept].mean()) for t in contents.tasks]
        self._all_one = bool((units == 1.0).all())
        self._committed: float | None = None
        self.changes = 0
        self.crew = 0  # changes of who takes part
        for name, price in prices.items():
            self.add(name, price)

    def add(self, name: str, price: float) -> None:
        """Open an account."""
        n_tasks = len(self.contents.tasks)
        self.position[name] = len(self.accounts)
        self.accounts.append(
            Account(
                name,
                float(price),
                self.contents.kept.copy(),
                np.zeros(n_tasks, dtype=np.int64),
                self.contents.n_kept.copy(),
                np.zeros(n_tasks, dtype=np.int64),
                [0.0] * n_tasks,
            )
        )
        self.crew += 1
        self._touch()

    def account(self, model: str) -> Account:
        """The account of a model by name."""
        try:
            return self.accounts[self.position[model]]
        except (KeyError, TypeError):
            there = ", ".join(self.position)
            raise UsageError(f"unknown model {model!r}; this ranking has {there}") from None

    # -- money --------------------------------------------------------------------------------

    @property
    def spent(self) -> float:
        """Spent so far, without what is in flight."""
        return sum(a.spent for a in self.accounts)

    @property
    def committed(self) -> float:
        """Spent so far, with what is in flight at its expected cost."""
        if self._committed is None:
            self._committed = self.spent + sum(sum(a.pending.values()) for a in self.accounts)
        return self._committed

    def left(self, budget: float | None = None) -> float:
        """Budget left, forgiving what sums of prices lose: ten items at 0.001 fit into 0.01."""
        return (self.budget if budget is None else budget) * (1.0 + _ROUNDING) - self.committed

    def price(self, account: Account) -> float:
        """Price of one unit: the one given, corrected by the costs told."""
        cost, units = account.measured
        if not units:
            return account.price
        weight = self._mean_units
        return (account.price * weight + cost) / (weight + units)

    def mean_price(self, account: Account, task: int | None = None) -> float:
        """Price of an item (of a task), by the mean over the items that may be asked."""
        return self.price(account) * (self._kept_units if task is None else self._task_units[task])

    def affords(self, account: Account, left: float, task: int | None = None) -> bool:
        """Whether some item of a model (in a task) may be asked within `left`."""
        tasks = range(len(self.contents.tasks)) if task is None else (task,)
        there = [t for t in tasks if account.left[t]]
        if math.isinf(left) or not there:
            return bool(there)
        return any(self.price(account) * self._ahead(account, t) <= left for t in there)

    def choosable(self, account: Account, left: float) -> NDArray[np.bool_]:
        """Items of a model that may be asked: not had, and within `left`; shape (n_items,)."""
        if math.isinf(left):
            return account.available
        if not self.by_mean:
            return account.available & (self.price(account) * self.units <= left)
        if len(self.contents.tasks) == 1:
            return account.available
        out = account.available.copy()
        for t, task in enumerate(self.contents.tasks):
            if not self.affords(account, left, t):
                out[task.where] = False
        return out

    def _ahead(self, account: Account, task: int) -> float:
        """Units of the item of a task that must fit the budget, while it stays so."""
        if self._all_one:
            return 1.0
        if task not in account.ahead:
            where = self.contents.tasks[task].where
            units = self.units[where][account.available[where]]
            account.ahead[task] = float(units.mean() if self.by_mean else units.min())
        return account.ahead[task]

    # -- what happened ------------------------------------------------------------------------

    def place(self, account: Account, item: int, probability: float | None) -> None:
        """An item was asked."""
        task = self.contents.task_at(item)
        account.asked[task] += 1
        account.load[task] += 1
        account.pending[item] = self.price(account) * float(self.units[item])
        if probability is not None:
            account.probability[item] = probability
        self._withdraw(account, item, task)

    def release(self, account: Account, item: int) -> None:
        """An item was given back."""
        task = self.contents.task_at(item)
        del account.pending[item]
        account.probability.pop(item, None)
        account.available[item] = True
        account.load[task] -= 1
        account.left[task] += 1
        self._touch(account, task)

    def tell(self, account: Account, item: int, cost: float | None) -> None:
        """An item was scored, asked for or not."""
        if item not in account.pending:
            account.load[self.contents.task_at(item)] += 1
        self._charge(account, item, cost, measured=True)
        account.told[item] = None

    def fail(self, account: Account, item: int, cost: float | None, reason: str) -> None:
        """An item will not be scored."""
        if item in account.pending:
            account.load[self.contents.task_at(item)] -= 1
        self._charge(account, item, 0.0 if cost is None else cost, measured=False)
        account.failed[item] = reason

    def _charge(self, account: Account, item: int, cost: float | None, measured: bool) -> None:
        if cost is not None and not (math.isfinite(cost) and cost >= 0.0):
            raise UsageError(f"cost {cost!r} of model {account.name!r} is not a positive number")
        expected = account.pending.pop(item, None)
        if expected is None:
            expected = self.price(account) * float(self.units[item])
        # What cost nothing (an answer given before) says nothing of the price of the next.
        if cost and measured:
            c, u = account.measured
            account.measured = (c + cost, u + float(self.units[item]))
        task = self.contents.task_at(item)
        account.spent_on[task] += expected if cost is None else float(cost)
        self._withdraw(account, item, task)

    def _withdraw(self, account: Account, item: int, task: int) -> None:
        if account.available[item]:
            account.available[item] = False
            account.left[task] -= 1
        self._touch(account, task)

    def _touch(self, account: Account | None = None, task: int = 0) -> None:
        if account is not None:
            account.ahead.pop(task, None)
        self._committed = None
        self.changes += 1

    # -- who has what -------------------------------------------------------------------------

    @property
    def active(self) -> list[int]:
        """Models that were not set aside."""
        return [j for j, a in enumerate(self.accounts) if a.dropped is None]

    def set_aside(self, account: Account, reason: str | None) -> None:
        """Set a model aside, or (None) take it back."""
        account.dropped = reason
        self.crew += 1
        self._touch()

    def reprice(self, prices: Mapping[str, float]) -> None:
        """Take new prices of one unit; costs told before go on correcting them."""
        for name, price in prices.items():
            self.account(name).price = float(price)
        self._touch()

    @property
    def in_flight(self) -> set[tuple[str, Any]]:
        """(model, item) asked for and not yet told, failed or released."""
        return {(a.name, self.contents.item(i)) for a in self.accounts for i in a.pending}

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
    at : int
        Its row in the ledger's tables.
    load, left : ndarray of int, shape (n_tasks,)
        Items told and in flight, and items available, of each task: rows of the ledger's.
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
    at: int
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

    @property
    def spent(self) -> float:
        """Spent so far, without what is in flight."""
        return sum(self.spent_on)

    @property
    def n(self) -> int:
        """Items told and in flight."""
        return len(self.told) + len(self.pending)


def is_cost(value: Any) -> bool:
    """Whether a value can be what an item cost: a finite number of at least 0."""
    number = isinstance(value, (int, float, np.integer, np.floating))
    return bool(number and math.isfinite(value) and value >= 0.0)


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

    Attributes
    ----------
    accounts : list of Account
    loads, remaining : ndarray of int, shape (n_models, n_tasks)
        `load` and `left` of all accounts.
    n : ndarray of int, shape (n_models,)
        Items told and in flight.
    prices : ndarray of shape (n_models,)
        Of one unit, as `price` has them.
    there : ndarray of bool, shape (n_models,)
        Models that were not set aside.
    n_in_flight : int
        Items in flight, of all models.
    changes, crew : int
        Changes so far, and those of who takes part.
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
        self.crew = 0
        self._active: tuple[int, list[int]] = (-1, [])
        self.loads = np.zeros((0, len(contents.tasks)), dtype=np.int64)
        self.remaining = self.loads.copy()
        self.n = np.zeros(0, dtype=np.int64)
        self.prices = np.zeros(0)
        self.there = np.zeros(0, dtype=bool)
        self._spent: list[float] = []
        self._promised: list[float] = []  # in flight
        self.n_in_flight = 0
        # Units of the item of a task that must fit the budget, NaN where it is to be found anew.
        self._ahead = np.zeros((0, len(contents.tasks)))
        self._unknown: set[tuple[int, int]] = set()
        for name, price in prices.items():
            self.add(name, price)

    def add(self, name: str, price: float) -> None:
        """Open an account."""
        n_tasks, at = len(self.contents.tasks), len(self.accounts)
        none = np.zeros(n_tasks, dtype=np.int64)
        self.loads = np.vstack([self.loads, none])
        self.remaining = np.vstack([self.remaining, self.contents.n_kept])
        self._ahead = np.vstack([self._ahead, np.full(n_tasks, 1.0 if self._all_one else np.nan)])
        if not self._all_one:
            self._unknown.update((at, t) for t in range(n_tasks))
        self.n = np.append(self.n, 0)
        self.prices = np.append(self.prices, price)
        self.there = np.append(self.there, True)
        self._spent.append(0.0)
        self._promised.append(0.0)
        self.position[name] = at
        kept, load, left = self.contents.kept.copy(), self.loads[at], self.remaining[at]
        account = Account(name, float(price), at, kept, load, left, none, [0.0] * n_tasks)
        self.accounts.append(account)
        for one in self.accounts:  # the tables are new
            one.load, one.left = self.loads[one.at], self.remaining[one.at]
        self.crew += 1
        self._touch(account)

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
        return sum(self._spent)

    @property
    def committed(self) -> float:
        """Spent so far, with what is in flight at its expected cost."""
        if self._committed is None:
            self._committed = self.spent + sum(self._promised)
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

    def most_items(self, warmup: int, k: int) -> int:
        """Items that each of `k` models can get at most, once the others have their warm-up."""
        prices, units = np.sort(self.prices), np.sort(self.units[self.contents.kept]).cumsum()
        first = float(units[min(warmup, len(units)) - 1]) if warmup else 0.0
        left = self.budget * (1.0 + _ROUNDING) - float(prices[k:].sum()) * first
        price = float(prices[:k].sum())
        return int(np.searchsorted(units * price, left, side="right")) if price else len(units)

    def affords(self, account: Account, left: float, task: int | None = None) -> bool:
        """Whether some item of a model (in a task) may be asked within `left`."""
        tasks = range(len(self.contents.tasks)) if task is None else (task,)
        there = [t for t in tasks if account.left[t]]
        if math.isinf(left) or not there:
            return bool(there)
        return any(self.price(account) * self._ahead_of(account, t) <= left for t in there)

    def affordable(self, left: float) -> NDArray[np.bool_]:
        """`affords` of every model and task; shape (n_models, n_tasks)."""
        there = self.remaining > 0
        if math.isinf(left):
            return there
        for j, t in self._unknown:
            if there[j, t]:
                self._ahead_of(self.accounts[j], t)
        self._unknown.clear()
        there &= self.prices[:, None] * self._ahead <= left
        return there

    def able(self, left: float) -> NDArray[np.bool_]:
        """`affords` of every model, in some task; shape (n_models,)."""
        found = self.affordable(left)
        return np.asarray(found[:, 0] if found.shape[1] == 1 else found.any(axis=1))

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

    def _ahead_of(self, account: Account, task: int) -> float:
        """Units of the item of a task that must fit the budget, while it stays so."""
        found = float(self._ahead[account.at, task])
        if math.isnan(found):
            where = self.contents.tasks[task].where
            units = self.units[where][account.available[where]]
            found = float(units.mean() if self.by_mean else units.min())
            self._ahead[account.at, task] = found
        return found

    # -- what happened ------------------------------------------------------------------------

    def place(self, account: Account, item: int, probability: float | None) -> None:
        """An item was asked."""
        task = self.contents.task_at(item)
        account.asked[task] += 1
        account.load[task] += 1
        account.pending[item] = self.price(account) * float(self.units[item])
        self.n_in_flight += 1
        if probability is not None:
            account.probability[item] = probability
        self._withdraw(account, item, task)

    def release(self, account: Account, item: int) -> None:
        """An item was given back."""
        task = self.contents.task_at(item)
        del account.pending[item]
        self.n_in_flight -= 1
        account.probability.pop(item, None)
        account.available[item] = True
        account.load[task] -= 1
        account.left[task] += 1
        self._touch(account, task)

    def tell(self, account: Account, item: int, cost: float | None) -> None:
        """An item was scored, asked for or not."""
        self._refuse(account, item, cost)
        if item not in account.pending:
            account.load[self.contents.task_at(item)] += 1
        self._charge(account, item, cost, measured=True)
        account.told[item] = None
        self._withdraw(account, item, self.contents.task_at(item))

    def fail(self, account: Account, item: int, cost: float | None, reason: str) -> None:
        """An item will not be scored."""
        self._refuse(account, item, cost)
        if item in account.pending:
            account.load[self.contents.task_at(item)] -= 1
        self._charge(account, item, 0.0 if cost is None else cost, measured=False)
        account.failed[item] = reason
        self._withdraw(account, item, self.contents.task_at(item))

    def _refuse(self, account: Account, item: int, cost: float | None) -> None:
        """Refuse a second end of an item, or a cost that is none, before anything changes."""
        for ended, what in (
            (account.told, "already has a score on"),
            (account.failed, "failed on"),
        ):
            if item in ended:
                named = self.contents.item(item)
                raise UsageError(f"model {account.name!r} {what} doc_id {named!r}")
        if cost is not None and not is_cost(cost):
            raise UsageError(
                f"cost {cost!r} of model {account.name!r} is not a number of at least 0"
            )

    def _charge(self, account: Account, item: int, cost: float | None, measured: bool) -> None:
        expected = account.pending.pop(item, None)
        if expected is not None:
            self.n_in_flight -= 1
        else:
            expected = self.price(account) * float(self.units[item])
        # What cost nothing (an answer given before) says nothing of the price of the next.
        if cost and measured:
            c, u = account.measured
            account.measured = (c + cost, u + float(self.units[item]))
        account.spent_on[self.contents.task_at(item)] += expected if cost is None else float(cost)

    def _withdraw(self, account: Account, item: int, task: int) -> None:
        if account.available[item]:
            account.available[item] = False
            account.left[task] -= 1
        self._touch(account, task)

    def _touch(self, account: Account | None = None, task: int | None = None) -> None:
        if account is not None:
            at = account.at
            self.n[at] = account.n
            self.prices[at] = self.price(account)
            self._spent[at], self._promised[at] = account.spent, sum(account.pending.values())
            if task is not None and not self._all_one:
                self._ahead[at, task] = np.nan
                self._unknown.add((at, task))
        self._committed = None
        self.changes += 1

    # -- who has what -------------------------------------------------------------------------

    @property
    def active(self) -> list[int]:
        """Models that were not set aside."""
        if self._active[0] != self.crew:
            self._active = self.crew, np.flatnonzero(self.there).tolist()
        return self._active[1]

    def set_aside(self, account: Account, reason: str | None) -> None:
        """Set a model aside, or (None) take it back."""
        account.dropped = reason
        self.there[account.at] = reason is None
        self.crew += 1
        self._touch()

    def reprice(self, prices: Mapping[str, float]) -> None:
        """Take new prices of one unit; costs told before go on correcting them."""
        for name, price in prices.items():
            account = self.account(name)
            account.price = float(price)
            self._touch(account)
        self._touch()

    @property
    def in_flight(self) -> set[tuple[str, Any]]:
        """(model, item) asked for and not yet told, failed or released."""
        return {(a.name, self.contents.item(i)) for a in self.accounts for i in a.pending}

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

Mask = NDArray[np.bool_]

#: Share of the budget by which a sum of prices may exceed it through rounding alone.
_ROUNDING = 1e-9


@dataclass
class Account:
    """The books of one model. Items are positions among those of all tasks.

    Attributes
    ----------
    price : float
        Of one unit, as the user states it.
    at : int
        Its row in the ledger's tables.
    available : ndarray of bool, shape (n_items,)
        Items that may still be asked.
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
    spent, promised : float
        Spent so far, and the cost of what is in flight.
    dropped : str or None
        Why the model was set aside.
    """

    name: str
    price: float
    at: int
    available: Mask
    load: NDArray[np.int64]
    left: NDArray[np.int64]
    asked: NDArray[np.int64]
    spent_on: list[float]
    told: dict[int, None] = field(default_factory=dict)
    pending: dict[int, float] = field(default_factory=dict)
    failed: dict[int, str] = field(default_factory=dict)
    probability: dict[int, float] = field(default_factory=dict)
    measured: tuple[float, float] = (0.0, 0.0)
    spent: float = 0.0
    promised: float = 0.0
    dropped: str | None = None

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

    Attributes
    ----------
    accounts : list of Account
    loads, remaining : ndarray of int, shape (n_models, n_tasks)
        `load` and `left` of all accounts.
    n : ndarray of int, shape (n_models,)
        Items told and in flight.
    prices : ndarray of shape (n_models,)
        Of one unit, as `price` has them.
    active_mask : ndarray of bool, shape (n_models,)
        Models that were not set aside.
    n_in_flight : int
        Items in flight, of all models.
    changes : int
        Changes so far of anything that turns depend on.
    """

    def __init__(
        self,
        contents: Contents,
        prices: Mapping[str, float],
        units: Floats,
        budget: float,
        by_mean: bool,
    ) -> None:
        self.contents, self.units, self.budget, self.by_mean = contents, units, budget, by_mean
        self.accounts: list[Account] = []
        self.position: dict[str, int] = {}
        self._mean_units = float(units.mean())  # a stated price counts as one item's observation
        self._kept_units = float(units[contents.kept].mean())
        self._task_units = [float(units[t.where][t.kept].mean()) for t in contents.tasks]
        self._committed: float | None = None
        self.changes = self.n_in_flight = 0
        self.loads = np.zeros((0, len(contents.tasks)), dtype=np.int64)
        self.remaining, self.n = self.loads.copy(), np.zeros(0, dtype=np.int64)
        self.prices, self.active_mask = np.zeros(0), np.zeros(0, dtype=bool)
        # Units of the item of a task that must fit the budget; NaN where they may have changed.
        self._ahead = np.zeros((0, len(contents.tasks)))
        for name, price in prices.items():
            self.add(name, price)

    def add(self, name: str, price: float) -> None:
        """Open an account."""
        n_tasks, at = len(self.contents.tasks), len(self.accounts)
        none = np.zeros(n_tasks, dtype=np.int64)
        self.loads = np.vstack([self.loads, none])
        self.remaining = np.vstack([self.remaining, self.contents.n_kept])
        self._ahead = np.vstack([self._ahead, np.full(n_tasks, np.nan)])
        self.n, self.prices = np.append(self.n, 0), np.append(self.prices, price)
        self.active_mask = np.append(self.active_mask, True)
        self.position[name] = at
        kept, load, left = self.contents.kept.copy(), self.loads[at], self.remaining[at]
        account = Account(name, float(price), at, kept, load, left, none, [0.0] * n_tasks)
        self.accounts.append(account)
        for one in self.accounts:  # the tables are new
            one.load, one.left = self.loads[one.at], self.remaining[one.at]
        self.touch(account)

    def account(self, model: str) -> Account:
        """The account of a model by name."""
        try:
            return self.accounts[self.position[model]]
        except (KeyError, TypeError):
            known = ", ".join(self.position)
            raise UsageError(f"unknown model {model!r}; this ranking has {known}") from None

    @property
    def active(self) -> list[int]:
        """Models that were not set aside."""
        return np.flatnonzero(self.active_mask).tolist()

    @property
    def in_flight(self) -> set[tuple[str, Any]]:
        """(model, item) asked for and not yet told, failed or released."""
        return {(a.name, self.contents.item(i)) for a in self.accounts for i in a.pending}

    # -- money --------------------------------------------------------------------------------

    @property
    def spent(self) -> float:
        """Spent so far, without what is in flight."""
        return sum(account.spent for account in self.accounts)

    @property
    def committed(self) -> float:
        """Spent so far, with what is in flight at its expected cost."""
        if self._committed is None:
            self._committed = self.spent + sum(account.promised for account in self.accounts)
        return self._committed

    def left(self, budget: float | None = None) -> float:
        """Budget left, forgiving what sums of prices lose: ten items at 0.001 fit into 0.01."""
        return (self.budget if budget is None else budget) * (1.0 + _ROUNDING) - self.committed

    def price(self, account: Account) -> float:
        """Price of one unit: the stated one, corrected by the costs of answers."""
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
        here = self.affordable(left)[account.at]
        return bool(here.any() if task is None else here[task])

    def affordable(self, left: float) -> Mask:
        """`affords` of every model and task; shape (n_models, n_tasks)."""
        some = self.remaining > 0
        if math.isinf(left):
            return some
        for j, t in np.argwhere(np.isnan(self._ahead) & some).tolist():
            where = self.contents.tasks[t].where
            units = self.units[where][self.accounts[j].available[where]]
            self._ahead[j, t] = units.mean() if self.by_mean else units.min()
        return np.asarray(some & (self.prices[:, None] * self._ahead <= left))

    def able(self, left: float) -> Mask:
        """`affords` of every model, in some task; shape (n_models,)."""
        return np.asarray(self.affordable(left).any(axis=1))

    def choosable(self, account: Account, left: float) -> Mask:
        """Items of a model that may be asked: not had, and within `left`; shape (n_items,)."""
        if math.isinf(left):
            return account.available
        if not self.by_mean:
            return account.available & (self.price(account) * self.units <= left)
        out, able = account.available.copy(), self.affordable(left)[account.at]
        for t, task in enumerate(self.contents.tasks):
            if len(able) > 1 and not able[t]:
                out[task.where] = False
        return out

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
        self.touch(account, task)

    def end(
        self, account: Account, item: int, cost: float | None, failure: str | None = None
    ) -> None:
        """An item was scored, asked for or not, or will (because of a failure) have no score.

        Without a cost a score costs what was expected, and a failure nothing.
        """
        for ended, what in (
            (account.told, "already has a score on"),
            (account.failed, "failed on"),
        ):
            if item in ended:
                named = self.contents.item(item)
                raise UsageError(f"model {account.name!r} {what} doc_id {named!r}")
        number = isinstance(cost, (int, float, np.integer, np.floating))
        if cost is not None and not (number and math.isfinite(cost) and cost >= 0.0):
            raise UsageError(
                f"cost {cost!r} of model {account.name!r} is not a number of at least 0"
            )
        task, units = self.contents.task_at(item), float(self.units[item])
        expected = account.pending.pop(item, None)
        account.load[task] += (failure is None) - (expected is not None)
        self.n_in_flight -= expected is not None
        if cost is None:
            price = self.price(account) * units if expected is None else expected
            cost = price if failure is None else 0.0
        elif cost and failure is None:
            # What cost nothing (an answer given before) says nothing of the price of the next.
            account.measured = (account.measured[0] + cost, account.measured[1] + units)
        account.spent_on[task] += float(cost)
        if failure is None:
            account.told[item] = None
        else:
            account.failed[item] = failure
        self._withdraw(account, item, task)

    def set_aside(self, account: Account, reason: str | None) -> None:
        """Set a model aside, or (None) take it back."""
        account.dropped = reason
        self.active_mask[account.at] = reason is None
        self.touch()

    def reprice(self, prices: Mapping[str, float]) -> None:
        """Take new prices of one unit, which costs of answers go on correcting."""
        for name, price in prices.items():
            account = self.account(name)
            account.price = float(price)
            self.touch(account)
        self.touch()

    def _withdraw(self, account: Account, item: int, task: int) -> None:
        if account.available[item]:
            account.available[item] = False
            account.left[task] -= 1
        self.touch(account, task)

    def touch(self, account: Account | None = None, task: int | None = None) -> None:
        """Note that something has changed, of one account and one of its tasks."""
        if account is not None:
            self.n[account.at], self.prices[account.at] = account.n, self.price(account)
            account.spent = sum(account.spent_on)
            account.promised = sum(account.pending.values())
            if task is not None:
                self._ahead[account.at, task] = np.nan
        self._committed = None
        self.changes += 1

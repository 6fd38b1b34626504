"""The books of a ranking: what was asked, told and spent, of each model and in all."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import UsageError
from ..methods.belief import Floats
from .arguments import number
from .contents import Contents

Mask = NDArray[np.bool_]
Counts = NDArray[np.int64]

_ALL = slice(None)
#: Share of the budget by which a sum of prices may exceed it through rounding alone.
_ROUNDING = 1e-9


@dataclass(eq=False)
class Account:
    """The books of one model. Items are positions among those of all tasks.

    Attributes
    ----------
    price : float
        Of one unit, as the user states it.
    at : int
        Its place among all models.
    available : ndarray of bool, shape (n_items,)
        Items that may still be asked.
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
    available: Mask
    told: dict[int, None] = field(default_factory=dict)
    pending: dict[int, float] = field(default_factory=dict)
    failed: dict[int, str] = field(default_factory=dict)
    probability: dict[int, float] = field(default_factory=dict)
    measured: tuple[float, float] = (0.0, 0.0)
    dropped: str | None = None

    @property
    def n(self) -> int:
        """Items told and in flight."""
        return len(self.told) + len(self.pending)

    @property
    def row(self) -> slice:
        """Its row of the ledger's tables."""
        return slice(self.at, self.at + 1)


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
    position : dict of str to int
        Place of each model among them.
    loads, remaining, asked : ndarray of int, shape (n_models, n_tasks)
        Items told and in flight, items available, and items ever asked (those given back
        included), of each task.
    spent_on : ndarray of shape (n_models, n_tasks)
        Spent so far, without what is in flight.
    n, prices : ndarray of shape (n_models,)
        Items told and in flight; of one unit, as `price` has them.
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
        self.changes = 0
        none = np.zeros((0, len(contents.tasks)))
        self.loads, self.remaining, self.asked = (
            none.astype(int),
            none.astype(int),
            none.astype(int),
        )
        # Units of the item of a task that must fit the budget; NaN where they may have changed.
        self.spent_on, self._ahead = none, none
        self.n, self.prices = np.zeros(0, dtype=int), np.zeros(0)
        for name, price in prices.items():
            self.add(name, price)

    def add(self, name: str, price: float) -> None:
        """Open an account."""
        at, none = len(self.accounts), np.zeros(len(self.contents.tasks), dtype=int)
        self.loads, self.asked = np.vstack([self.loads, none]), np.vstack([self.asked, none])
        self.remaining = np.vstack([self.remaining, self.contents.n_kept])
        self.spent_on = np.vstack([self.spent_on, none])
        self._ahead = np.vstack([self._ahead, none + np.nan])
        self.n, self.prices = np.append(self.n, 0), np.append(self.prices, float(price))
        self.accounts.append(Account(name, float(price), at, self.contents.kept.copy()))
        self.position[name] = at
        self.touch()

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
        return [a.at for a in self.accounts if a.dropped is None]

    @property
    def active_mask(self) -> Mask:
        """The same as a mask; shape (n_models,)."""
        return np.array([a.dropped is None for a in self.accounts])

    @property
    def in_flight(self) -> set[tuple[str, Any]]:
        """(model, item) asked for and not yet told, failed or released."""
        return {(a.name, self.contents.item(i)) for a in self.accounts for i in a.pending}

    # -- money --------------------------------------------------------------------------------

    @property
    def spent(self) -> float:
        """Spent so far, without what is in flight."""
        return float(self.spent_on.sum())

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

    def affordable(self, left: float, at: slice = _ALL) -> Mask:
        """Whether some item of models may be asked within `left`; shape (n_models, n_tasks)."""
        some, ahead = self.remaining[at] > 0, self._ahead[at]
        if math.isinf(left):
            return some
        for j, t in np.argwhere(some & np.isnan(ahead)).tolist():
            where = self.contents.tasks[t].where
            units = self.units[where][self.accounts[at][j].available[where]]
            ahead[j, t] = units.mean() if self.by_mean else units.min()
        return np.asarray(some & (self.prices[at, None] * ahead <= left))

    def able(self, left: float) -> Mask:
        """`affordable` of every model, in some task; shape (n_models,)."""
        return np.asarray(self.affordable(left).any(axis=1))

    def choosable(self, account: Account, left: float) -> Mask:
        """Items of a model that may be asked: not had, and within `left`; shape (n_items,)."""
        if math.isinf(left):
            return account.available
        if not self.by_mean:
            return account.available & (self.price(account) * self.units <= left)
        out, [able] = account.available.copy(), self.affordable(left, account.row)
        for t, task in enumerate(self.contents.tasks):
            if len(able) > 1 and not able[t]:
                out[task.where] = False
        return out

    # -- what happened ------------------------------------------------------------------------

    def place(self, account: Account, item: int, probability: float | None) -> None:
        """An item was asked."""
        self.asked[account.at, self.contents.task_at(item)] += 1
        account.pending[item] = self.price(account) * float(self.units[item])
        if probability is not None:
            account.probability[item] = probability
        self._move(account, item, 1, available=False)

    def release(self, account: Account, item: int) -> None:
        """An item was given back."""
        del account.pending[item]
        account.probability.pop(item, None)
        self._move(account, item, -1, available=True)

    def end(
        self, account: Account, item: int, cost: float | None, failure: str | None = None
    ) -> None:
        """An item was scored, asked for or not, or will (because of a failure) have no score.

        Without a cost a score costs what was expected, and a failure nothing.
        """
        if item in account.told or item in account.failed:
            what = "already has a score on" if item in account.told else "failed on"
            named = self.contents.item(item)
            raise UsageError(f"model {account.name!r} {what} doc_id {named!r}")
        if cost is not None:
            number(cost, f"cost of model {account.name!r}:", 0.0)
        units, expected = float(self.units[item]), account.pending.pop(item, None)
        if cost is None:
            price = self.price(account) * units if expected is None else expected
            cost = price if failure is None else 0.0
        elif cost and failure is None:
            # What cost nothing (an answer given before) says nothing of the price of the next.
            account.measured = (account.measured[0] + cost, account.measured[1] + units)
        self.spent_on[account.at, self.contents.task_at(item)] += float(cost)
        if failure is None:
            account.told[item] = None
        else:
            account.failed[item] = failure
        self._move(account, item, (failure is None) - (expected is not None), available=False)

    def _move(self, account: Account, item: int, load: int, available: bool) -> None:
        """An item of a model has become, or is no longer, one that may be asked."""
        at = account.at, self.contents.task_at(item)
        self.loads[at] += load
        self.remaining[at] += int(available) - int(account.available[item])
        account.available[item] = available
        self._ahead[at] = np.nan
        self.n[account.at], self.prices[account.at] = account.n, self.price(account)
        self.touch()

    def set_aside(self, account: Account, reason: str | None) -> None:
        """Set a model aside, or (None) take it back."""
        account.dropped = reason
        self.touch()

    def reprice(self, prices: Mapping[str, float]) -> None:
        """Take new prices of one unit, which costs of answers go on correcting."""
        for name, price in prices.items():
            account = self.account(name)
            account.price = float(price)
            self.prices[account.at] = self.price(account)
        self.touch()

    def touch(self) -> None:
        """Note that something has changed."""
        self._committed = None
        self.changes += 1

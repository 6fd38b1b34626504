"""The books of a ranking against ones kept the slow way: by going through all that happened."""

import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from worlds.boards import bank_of

from lm_eval_ccat import ItemBank, Ranker
from lm_eval_ccat.errors import ScaleError
from lm_eval_ccat.ranker.accounts import Account, Accounts
from lm_eval_ccat.ranker.contents import Contents

PRICES = {"a": 1.5, "b": 0.4}
BUDGET = 60.0


class Slow:
    """What happened to one model; everything is counted anew at every question."""

    def __init__(self, contents: Contents, units: np.ndarray, price: float, by_mean: bool) -> None:
        self.contents, self.units, self.given, self.by_mean = contents, units, price, by_mean
        self.state: dict[int, str] = {}
        self.asked: list[int] = []
        self.costs: dict[int, float] = {}  # told with their cost, which teaches a price
        self.paid: dict[int, float] = {}

    def task(self, item: int) -> int:
        return int(item >= self.contents.tasks[1].positions.start)

    def items(self, *states: str) -> list[int]:
        return [i for i, s in self.state.items() if s in states]

    def count(self, items: list[int]) -> list[int]:
        return [sum(self.task(i) == t for i in items) for t in (0, 1)]

    @property
    def price(self) -> float:
        if not self.costs:
            return self.given
        mean = sum(self.units) / len(self.units)
        total = self.given * mean + sum(self.costs.values())
        return total / (mean + sum(self.units[i] for i in self.costs))

    def left(self) -> list[int]:
        return [i for i in range(self.contents.n_items)
                if self.contents.kept_items[i] and i not in self.state]  # fmt: skip

    def fits(self, left: float, tasks: list[int]) -> bool:
        for t in tasks:
            units = [self.units[i] for i in self.left() if self.task(i) == t]
            least = (sum(units) / len(units) if self.by_mean else min(units)) if units else math.inf
            if units and self.price * least <= left:
                return True
        return False

    def choosable(self, left: float) -> list[int]:
        if math.isinf(left):
            return self.left()
        if self.by_mean:
            return [i for i in self.left() if self.fits(left, [self.task(i)])]
        return [i for i in self.left() if self.price * self.units[i] <= left]


def agree(accounts: Accounts, account: Account, slow: Slow, left: float) -> None:
    going, ended = slow.items("pending"), slow.items("told")
    assert account.n == len(going) + len(ended)
    assert accounts.n_of_task[account.number].tolist() == slow.count(going + ended)
    assert accounts.remaining[account.number].tolist() == slow.count(slow.left())
    assert accounts.asked[account.number].tolist() == slow.count(slow.asked)
    assert np.flatnonzero(account.available).tolist() == slow.left()
    assert accounts.price(account) == pytest.approx(slow.price)
    for t in (0, 1):
        paid = [c for i, c in slow.paid.items() if slow.task(i) == t]
        assert accounts.spent_on[account.number, t] == pytest.approx(sum(paid))
        where = slow.contents.tasks[t].positions
        kept = slow.units[where][slow.contents.tasks[t].kept_items]
        assert accounts.mean_price(account, t) == pytest.approx(slow.price * kept.mean())
        for limit in (left, 0.7, 2.5, math.inf):
            assert accounts.affordable(limit)[account.number, t] == slow.fits(limit, [t])
    assert accounts.mean_price(account) == pytest.approx(
        slow.price * slow.units[slow.contents.kept_items].mean()
    )
    for limit in (left, 1.0, 3.0, math.inf):
        assert accounts.affordable(limit)[account.number].any() == slow.fits(limit, [0, 1])
        assert np.flatnonzero(accounts.choosable(account, limit)).tolist() == slow.choosable(limit)


@pytest.mark.long
@settings(max_examples=12, deadline=None)
@given(seed=st.integers(0, 10**6), by_mean=st.booleans())
def test_the_books_agree_with_what_happened(seed, by_mean):
    rng = np.random.default_rng(seed)
    contents = Contents({"x": bank_of("paper", 14, 1), "y": bank_of("paper", 10, 2)})
    units = rng.uniform(0.3, 4.0, contents.n_items)
    accounts = Accounts(contents, PRICES, units, BUDGET, by_mean)
    slow = {m: Slow(contents, units, p, by_mean) for m, p in PRICES.items()}
    for _ in range(30):
        model = str(rng.choice(list(PRICES)))
        account, mine = accounts.of(model), slow[model]
        cost = float(rng.uniform(0.0, 5.0)) if rng.random() < 0.6 else None
        pending, left = mine.items("pending"), mine.left()
        what = str(rng.choice(["ask", "ask", "ask", "tell", "tell", "fail", "release", "unasked"]))
        if what == "ask" and left:
            item = int(rng.choice(left))
            drawn = 0.25 if rng.random() < 0.5 else None
            mine.asked.append(item)
            mine.state[item] = "pending"
            accounts.ask(account, item, drawn)
            assert account.probability(item) == drawn
        elif what == "release" and pending:
            item = int(rng.choice(pending))
            del mine.state[item]
            accounts.release(account, item)
            assert account.probability(item) is None
        elif what in ("tell", "fail", "unasked"):
            some = pending if what != "unasked" else left
            if not some:
                continue
            item = int(rng.choice(some))
            expected = mine.price * units[item]
            if what == "fail":
                mine.state[item], mine.paid[item] = "failed", cost or 0.0
                accounts.end(account, item, cost, "no")
            else:
                mine.state[item] = "told"
                mine.paid[item] = expected if cost is None else cost
                if cost is not None:
                    mine.costs[item] = cost
                accounts.end(account, item, cost)
        spent = sum(sum(s.paid.values()) for s in slow.values())
        # What is in flight is expected to cost what answers so far say, not what was planned.
        committed = spent + sum(s.price * units[s.items("pending")].sum() for s in slow.values())
        assert accounts.spent == pytest.approx(spent)
        assert accounts.committed == pytest.approx(committed)
        assert accounts.left() == pytest.approx(BUDGET - committed)
        assert accounts.left(100.0) == pytest.approx(100.0 - committed)
        assert Counter(accounts.in_flight) == Counter(
            (m, contents.name(i)) for m, s in slow.items() for i in s.items("pending")
        )
        for name, books in slow.items():
            agree(accounts, accounts.of(name), books, accounts.left())


@pytest.mark.long
def test_a_budget_forgives_what_sums_of_prices_lose_and_no_more():
    contents = Contents(bank_of("default", 30))
    accounts = Accounts(contents, {"a": 0.1, "b": 1e-8}, np.ones(30), 0.3, affords_mean=False)
    account = accounts.of("a")
    for item in (0, 1):
        accounts.ask(account, item, None)
    assert (
        accounts.left() < 0.1 + 1e-9 and accounts.affordable(accounts.left())[0].any()
    )  # 0.1 + 0.2 > 0.3
    accounts.ask(account, 2, None)
    assert not accounts.affordable(accounts.left()).any()


def test_a_score_that_is_refused_costs_nothing_and_may_be_told_right():
    ranker = Ranker(ItemBank.blank(range(20)), ["a", "b"])
    [(model, item)] = ranker.ask(1)
    with pytest.raises(ScaleError):
        ranker.tell(model, item, 1.5)
    assert ranker.spent == 0.0
    ranker.tell(model, item, 0.5)
    assert ranker.spent == 1.0

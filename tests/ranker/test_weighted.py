"""The policy of a weighted sum, over outcomes whose figures are given: every figure by hand."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from scipy.special import ndtr, stdtr

from lm_eval_ccat.methods.policy import DECIDED, EQUIVALENT, OPEN, Choice, Differences, Policy
from lm_eval_ccat.ranker.weighted import WeightedPolicy

TASKS = (slice(0, 4), slice(4, 10))


class Given(Policy):
    """Says what it was made with, and remembers what it was asked with."""

    def __init__(self, mean: Any, error: Any, *, df: float = math.inf, **more: Any) -> None:
        self.tests = []
        self.mean, self.error = np.array(mean, dtype=float), np.array(error, dtype=float)
        self.df, self.curables = df, self.error**2
        self.reach, self.halves, self.said, self.picks, self.drawn = 2.0, (0.1, 0.1), [], [0], None
        self.asked: list[Any] = []
        vars(self).update(more)

    def estimate(self, model):
        return float(self.mean[model]), float(self.error[model])

    def differences(self):
        v = self.error**2
        v = v[:, None] + v[None, :]
        return Differences(self.mean, v, np.full(v.shape, self.df))

    def curable(self, model):
        self.asked.append(("curable", model))
        return float(self.curables[model])

    def interval(self, model, confidence):
        mean = float(self.mean[model])
        return mean - self.halves[0], mean + self.halves[1]

    def critical(self, level):
        self.asked.append(("level", level))
        return np.full((len(self.mean),) * 2, self.reach)

    def findings(self, model):
        return self.said

    def item_cap(self, n_kept):
        return n_kept - 1

    def select(self, model, available, pending, price):
        self.asked.append((model, available.tolist(), list(pending), price.tolist()))
        return Choice(self.picks[0], self.drawn)

    def shortlist(self, model, available, pending, price, k):
        return self.picks[:k]

    def location(self, model):
        raise AssertionError

    adjacent = pairwise = priority = add_model = location


def whole(*tasks: dict[str, Given], weights=None, units=1.0, correlation=0.5, kept=None, told=None):
    """A weighted policy over the given outcomes of one or two tasks, and those outcomes' books."""
    n_models = len(next(iter(tasks[0].values())).mean)
    kept = kept or {}
    of_task = [
        [
            SimpleNamespace(
                name=name,
                policy=policy,
                bank=SimpleNamespace(
                    kept=np.array(kept.get(name, [True] * (where.stop - where.start)))
                ),
                scores=[{i: 0.5 for i in range(n)} for n in told or [0] * n_models],
            )
            for name, policy in outcomes.items()
        ]
        for where, outcomes in zip(TASKS, tasks)
    ]
    outcomes = SimpleNamespace(
        contents=SimpleNamespace(
            tasks=[SimpleNamespace(where=w) for w in TASKS[: len(tasks)]],
            n_kept=np.array([4, 6]),
            starts=[w.start for w in TASKS[: len(tasks)]],
        ),
        of_task=of_task,
        n_models=n_models,
        changes=[0] * len(tasks),
        correlation=lambda t: np.where(np.eye(len(tasks[t])), 1.0, correlation),
    )
    weights = weights or {n: dict.fromkeys(t, 1.0) for n, t in enumerate(tasks)}
    policy: Any = WeightedPolicy(outcomes, np.full(10, units), weights)  # type: ignore[arg-type]
    return policy, outcomes


def two(**more: Any):
    """Two tasks that weigh 0.6 and 0.4."""
    x = Given([0.5, 0.3], [0.1, 0.2], df=9.0)
    y = Given([0.8, 0.2], [0.05, 0.1], df=4.0)
    return whole({"x": x}, {"y": y}, weights={0: {"x": 0.6}, 1: {"y": 0.4}}, **more)


def test_it_follows_the_first_outcome_in_what_a_method_does_as_a_whole():
    first = Given([0.5], [0.1], warmup_ignores_budget=True, affords_mean=True, draws=True)
    for order, there in (((first, Given([0.5], [0.1])), True), ((Given([0.5], [0.1]), first), 0)):
        policy, _ = whole(*({"x": p} for p in order))
        assert policy.warmup_ignores_budget == policy.affords_mean == policy.draws == bool(there)
    assert policy.tests == [] and policy.tasks == [0, 1] and policy.n_models == 1
    assert policy.item_cap(10) == 3 + 5


def test_errors_of_tasks_add_and_degrees_of_freedom_are_welchs():
    policy, _ = two()
    d = policy.differences()
    assert d.estimate.tolist() == pytest.approx([0.6 * 0.5 + 0.4 * 0.8, 0.6 * 0.3 + 0.4 * 0.2])
    one, other = 0.36 * (0.01 + 0.04), 0.16 * (0.0025 + 0.01)
    assert d.variance[0, 1] == pytest.approx(one + other)
    assert d.df[0, 1] == pytest.approx((one + other) ** 2 / (one**2 / 9 + other**2 / 4))
    error = math.hypot(0.6 * 0.1, 0.4 * 0.05)
    assert policy.estimate(0) == pytest.approx((0.62, error))
    assert policy.standing(0) == pytest.approx((0.62, error**2))
    assert policy.location(0) == pytest.approx(0.62)
    assert policy.locations().tolist() == pytest.approx([0.62, 0.26])
    z = 0.36 / math.sqrt(one + other)
    assert policy.pairwise()[0, 1] == pytest.approx(stdtr(d.df[0, 1], z))
    assert policy.adjacent([1, 0]).tolist() == pytest.approx([stdtr(d.df[0, 1], -z)])
    assert policy.probability(np.array([1.0])) == pytest.approx(stdtr(d.df.min(), 1.0))


def test_known_variances_give_normal_probabilities():
    policy, _ = whole({"x": Given([0.5, 0.4], [0.03, 0.04])})
    assert policy.differences().df.tolist() == [[math.inf] * 2] * 2
    assert policy.pairwise()[0, 1] == pytest.approx(ndtr(0.1 / 0.05))
    assert policy.probability(np.array([1.5])) == pytest.approx(ndtr(1.5))


def test_neighbours_of_an_order_are_compared_in_turn():
    policy, _ = whole({"x": Given([0.5, 0.4, 0.45], [0.03, 0.04, 0.0])})
    found = policy.adjacent([0, 2, 1]).tolist()
    assert found == pytest.approx([ndtr(0.05 / 0.03), ndtr(0.05 / 0.04)])


def test_no_error_and_hardly_any_degrees_of_freedom_are_no_trouble():
    sure, _ = whole({"x": Given([0.5, 0.4], [0.0, 0.0], df=3.0)})
    with np.errstate(all="raise"):
        d = sure.differences()
        assert d.variance.tolist() == [[1e-18] * 2] * 2 and np.isinf(d.df).all()
        assert sure.pairwise()[0, 1] == 1.0
        one, _ = whole({"x": Given([0.5, 0.4], [0.1, 0.1], df=0.5)})
        assert one.differences().df[0, 1] == pytest.approx(0.5)
        none, _ = whole({"x": Given([0.5, 0.4], [0.1, 0.1], df=0.0)})
        assert none.differences().df[0, 1] == pytest.approx(1e-6)


def outcomes_of_one_task(**more: Any):
    x, y = Given([0.5, 0.3], [0.1, 0.2], df=9.0), Given([0.7, 0.1], [0.2, 0.4], df=4.0)
    z = Given([0.9, 0.9], [0.5, 0.5], df=1.0)
    return whole({"x": x, "z": z, "y": y}, weights={0: {"x": 0.75, "y": 0.25, "z": 0.0}}, **more)


def test_errors_of_outcomes_of_one_task_are_correlated_and_weight_0_is_left_out():
    policy, _ = outcomes_of_one_task()
    a, b = 0.75 * 0.1, 0.25 * 0.2
    assert policy.curable(0) == pytest.approx(a * a + b * b + a * b)  # asked for first of all
    assert policy.estimate(0) == pytest.approx((0.55, math.sqrt(a * a + b * b + a * b)))
    assert policy.differences().df.tolist() == pytest.approx(np.full((2, 2), 4.0))
    opposed, _ = outcomes_of_one_task(correlation=-2.0)  # no variance is negative
    assert opposed.estimate(0)[1] == 0.0


def test_what_is_known_changes_when_an_answer_says_so_and_not_before():
    policy, books = two()
    x = books.of_task[0][0].policy
    before = policy.estimate(0)
    x.mean, x.error = np.array([0.7, 0.3]), np.array([0.3, 0.2])
    assert policy.estimate(0) == before
    books.changes[0] += 1  # the other model's answer moved this one's error too
    assert policy.estimate(0) == pytest.approx((0.74, math.hypot(0.6 * 0.3, 0.4 * 0.05)))


@pytest.mark.parametrize("changes", [0, 1, 2])
def test_what_was_told_before_the_first_look_counts(changes):
    policy, books = two()
    books.changes = [changes, changes]
    assert policy.estimate(0) == pytest.approx((0.62, math.hypot(0.06, 0.02)))


def test_curable_errors_are_asked_for_again_only_of_those_that_answered():
    policy, books = two()
    x = books.of_task[0][0]
    policy.differences()
    x.policy.asked.clear()
    x.scores[1][0] = 0.5
    books.changes[0] += 1
    policy.differences()
    assert x.policy.asked == [("curable", 1)]
    several, books = outcomes_of_one_task()
    several.differences()
    x = books.of_task[0][0]
    x.policy.asked.clear()
    books.changes[0] += 1
    several.differences()  # their correlation may have moved every model's
    assert x.policy.asked == [("curable", 0), ("curable", 1)]


def test_intervals_add_their_halves_in_squares_and_end_at_0_and_1():
    policy, books = two()
    books.of_task[0][0].policy.halves = (0.1, 0.2)
    books.of_task[1][0].policy.halves = (0.3, 0.1)
    low, high = policy.interval(0, 0.95)
    assert low == pytest.approx(0.62 - math.hypot(0.06, 0.12))
    assert high == pytest.approx(0.62 + math.hypot(0.12, 0.04))
    books.of_task[0][0].policy.halves = (2.0, 2.0)
    assert policy.interval(0, 0.95) == (0.0, 1.0)


def test_each_finding_is_said_once():
    said = [Given([0.5], [0.1], said=s) for s in (["low", "odd"], ["odd", "late"])]
    policy, _ = whole(*({"x": p} for p in said))
    assert policy.findings(0) == ["low", "odd", "late"]


def test_critical_values_are_weighed_by_variance():
    policy, books = two()
    x, y = (o[0].policy for o in books.of_task)
    x.reach, y.reach = 3.0, 2.0
    one, other = 0.36 * 0.05, 0.16 * 0.0125
    there = math.sqrt((one * 9 + other * 4) / (one + other))
    assert policy.critical(0.05)[0, 1] == pytest.approx(there)
    several, books = outcomes_of_one_task()
    for o, reach in zip(books.of_task[0], (2.0, 9.0, 3.0)):  # the second weighs nothing
        o.policy.reach = reach
    assert several.critical(0.05).tolist() == pytest.approx(np.full((2, 2), 3.0))
    policy, books = two()
    x, y = (o[0].policy for o in books.of_task)
    x.reach, y.error, y.reach = 3.0, np.zeros(2), math.inf  # nothing is left open there
    with np.errstate(all="raise"):
        assert policy.critical(0.05)[0, 1] == pytest.approx(3.0)


def test_a_pair_is_decided_beyond_its_half_interval_and_equivalent_within_the_difference():
    error = math.sqrt(1 / 32)  # of the difference: 1/4, and 1 as critical value
    policy, _ = whole({"x": Given([0.5, 0.25, 0.2], [error] * 3, reach=1.0 - 1e-12)})
    at, above = (0, 1), (0, 2)
    half = Given([0.5, 0.25], [0.25, 0.0], reach=1.0)
    exactly, _ = whole({"x": half})
    assert exactly.decisions(0.9)[0, 1] == OPEN
    assert exactly.decisions(0.9, 0.5).tolist() == [[OPEN, EQUIVALENT], [EQUIVALENT, OPEN]]
    assert exactly.decisions(0.9, 0.49)[0, 1] == OPEN
    found = policy.decisions(0.9)
    assert found[above] == DECIDED and found[at] == DECIDED and found[1, 2] == OPEN
    assert found.diagonal().tolist() == [OPEN] * 3


def test_without_a_difference_of_practice_no_pair_is_equivalent():
    policy, _ = whole({"x": Given([0.5, 0.5], [0.0, 0.0])})
    assert policy.decisions(0.9)[0, 1] == OPEN
    assert policy.decisions(0.9, 1e-6)[0, 1] == EQUIVALENT


@pytest.mark.parametrize(("models", "pairs"), [(1, 1), (2, 1), (3, 3), (4, 6)])
def test_familywise_shares_the_level_among_all_pairs(models, pairs):
    x = Given([0.5] * models, [0.1] * models)
    policy, _ = whole({"x": x})
    policy.decisions(0.9, familywise=True)
    policy.decisions(0.9)
    levels = [level for what, level in x.asked if what == "level"]
    assert levels == pytest.approx([0.1 / pairs, 0.1])


def test_one_models_next_item_is_worth_the_fall_of_its_variance_for_its_price():
    x, y = Given([0.5], [0.2]), Given([0.5], [0.1])
    policy, books = whole({"x": x}, {"y": y}, units=0.5, told=[1])
    assert policy.priority(0, (), 4.0) == pytest.approx(0.04 / (2 * 0.5) / 4.0)
    # Items 0 and 3 are the first and last of the first task, 4 the first of the second.
    assert policy.priority(0, (0, 3, 4), 1.0) == pytest.approx(0.04 / (4 * 0.5))
    assert policy.priority(0, (0, 1, 2, 3, 9, 9), 1.0) == pytest.approx(0.04 / (6 * 0.5))
    books.of_task[0][0].scores[0] = dict.fromkeys(range(4), 0.5)  # nothing is left there
    books.changes[0] += 1
    assert policy.priority(0, (), 1.0) == pytest.approx(0.01 / (2 * 0.5))
    books.of_task[1][0].scores[0] = dict.fromkeys(range(6), 0.5)
    books.changes[1] += 1
    assert policy.priority(0, (), 1.0) == 0.0


def test_all_models_count_alike_however_near_they_are_to_others():
    policy, _ = whole({"x": Given([0.5, 0.4, 0.0], [0.1, 0.1, 0.1])})
    for model in range(3):
        assert policy.priority(model, (), 2.0) == pytest.approx(0.01 / 2.0)


def test_free_items_are_worth_much_and_not_without_end():
    policy, _ = whole({"x": Given([0.5], [0.1])}, units=0.0)
    assert policy.priority(0, (), 1.0) == pytest.approx(0.01 / 1e-12)


def test_the_task_that_helps_most_chooses_the_item_by_its_own_numbers():
    x, y = Given([0.5], [0.1], picks=[1, 0]), Given([0.5], [0.2], picks=[2, 5, 0], drawn=0.25)
    policy, _ = whole({"x": x}, {"y": y}, kept={"y": [True] * 5 + [False]})
    price = np.arange(10.0)
    assert policy.select(0, np.ones(10, dtype=bool), (0, 4, 9), price) == Choice(6, 0.25)
    asked = (0, [True] * 5 + [False], [0, 5], [4.0, 5.0, 6.0, 7.0, 8.0, 9.0])
    assert y.asked[-1] == asked
    assert policy.shortlist(0, np.ones(10, dtype=bool), (), price, 2) == [6, 9]
    first = np.arange(10) < 4  # nothing is left of the second task
    assert policy.select(0, first, (3, 4), price) == Choice(1)
    assert x.asked[-1] == (0, [True] * 4, [3], [0.0, 1.0, 2.0, 3.0])


@pytest.mark.parametrize(
    ("weights", "curable", "kept", "chosen"),
    [
        ((1.0, 2.0), (0.3, 0.1), True, 1),  # 0.3 < 4 x 0.1
        ((1.0, 2.0), (0.5, 0.1), True, 0),
        ((0.5, 0.25), (0.1, 0.3), True, 0),
        ((0.5, 0.25), (0.1, 0.5), False, 0),  # it has no such item
    ],
)
def test_the_outcome_whose_error_counts_most_chooses(weights, curable, kept, chosen):
    of = {
        name: Given([0.5], [0.1], curables=np.array([c]), picks=[n])
        for n, (name, c) in enumerate(zip("xy", curable))
    }
    policy, _ = whole(of, weights={0: dict(zip("xy", weights))}, kept={"y": [kept] * 4})
    assert policy.select(0, np.ones(10, dtype=bool), (), np.ones(10)).item == chosen


def test_a_model_joins():
    policy, books = two()
    assert len(policy.differences().estimate) == 2
    books.n_models = 3
    for outcomes in books.of_task:
        for o in outcomes:
            p = o.policy
            p.mean, p.error = np.append(p.mean, 0.9), np.append(p.error, 0.1)
            p.curables = p.error**2
            o.scores.append({})
    policy.add_model()
    assert policy.n_models == 3 and policy.location(2) == pytest.approx(0.9)
    assert policy.estimate(2)[1] == pytest.approx(math.hypot(0.06, 0.04))
    assert policy.curable(2) == pytest.approx(0.06**2 + 0.04**2)

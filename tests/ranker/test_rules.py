"""Each stopping rule by its definition, on standings made up for it."""

from types import SimpleNamespace

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from lm_eval_ccat.ranker import (
    AllDecided,
    Budget,
    MaxItems,
    Percentile,
    RankWidth,
    TargetError,
    Time,
    TopDecided,
    Unlimited,
)
from lm_eval_ccat.ranker.verdicts import DECIDED, EQUIVALENT, OPEN

CASES = settings(max_examples=40, deadline=None)
CASE = given(seed=st.integers(0, 10**6), n=st.integers(1, 6), among_known=st.booleans())


class Stood(SimpleNamespace):
    """In place of a `Standing`."""

    nobody = property(lambda self: np.zeros(len(self.items), dtype=bool))


def standing(seed: int, n: int, among_known: bool = False):
    """A standing of `n` models, all of it at random; among known models there are 20 ranks."""
    rng = np.random.default_rng(seed)
    order = rng.permutation(n)
    state = rng.choice([OPEN, DECIDED, EQUIVALENT], (n, n)).astype(np.int8)
    state = np.triu(state, 1) + np.triu(state, 1).T
    np.fill_diagonal(state, DECIDED)
    best = rng.integers(1, 5, n)
    rich = rng.random(n) < 0.5
    verdicts = SimpleNamespace(
        names=tuple(range(20 if among_known else n)),
        belief=SimpleNamespace(references=object() if among_known else None),
        best_first=order,
        state=state,
        barred=np.triu(b := rng.random((n, n)) < 0.2, 1) | np.triu(b, 1).T,
        adjacent=state[order[:-1], order[1:]],
        settled=OPEN not in state[order[:-1], order[1:]],
        unsettled=rng.random(n) < 0.6,
        ranges=(best, best + rng.integers(0, 5, n)),
    )
    return Stood(
        verdicts=verdicts,
        errors=rng.choice([0.01, 0.02, 0.03], n),
        items=rng.integers(0, 6, n),
        affordable=lambda amount: rich & (amount > 5.0),
        committed=7.0,
        elapsed=10.0,
    )


def wanted(rule, s) -> set[int]:
    return set(np.flatnonzero(rule.wants(s)).tolist())


@CASES
@CASE
def test_what_each_rule_waits_for(seed, n, among_known):
    s = standing(seed, n, among_known)
    v, models = s.verdicts, set(range(n))
    unsettled = set(np.flatnonzero(v.unsettled).tolist())
    alone = n == 1 and not among_known
    assert wanted(AllDecided(), s) == (models if alone else unsettled)
    assert wanted(AllDecided(alone=False), s) == (set() if alone else unsettled)
    assert AllDecided().met(s) == (OPEN not in v.adjacent)
    assert wanted(TargetError(0.02), s) == {j for j in models if s.errors[j] > 0.02}
    able = {j for j in models if ((v.state[j] == OPEN) & ~v.barred[j]).any()}
    width, ranks = v.ranges[1] - v.ranges[0], len(v.names)
    for w in (1, 2, 3):
        wide = {j for j in models if width[j] + 1 > w}
        assert wanted(RankWidth(w), s) == wide & able and RankWidth(w).met(s) == (not wide)
    for p in (5.0, 10.0, 12.0):
        wide = {j for j in models if 100 * width[j] / ranks > p}
        assert wanted(Percentile(p), s) == wide & able and Percentile(p).met(s) == (not wide)
    assert wanted(Unlimited(), s) == models
    for k in (1, 3):
        assert wanted(MaxItems(k), s) == {j for j in models if s.items[j] < k}
    assert wanted(Budget(6.0), s) == {j for j in models if s.affordable(6.0)[j]}
    assert wanted(Budget(4.0), s) == set()
    assert wanted(Time(10.0), s) == set() and wanted(Time(10.5), s) == models


@CASES
@CASE
def test_the_best_are_open_while_one_outside_is_open_to_one_inside(seed, n, among_known):
    s = standing(seed, n, among_known)
    v = s.verdicts
    for k in (1, 2, 3):
        inside, outside = v.best_first[:k].tolist(), v.best_first[k:].tolist()
        pairs = [(i, j) for i in inside for j in outside if v.state[i, j] == OPEN]
        missed = {m for pair in pairs for m in pair}
        if among_known:
            missed = {j for j in range(n) if v.ranges[0][j] <= k < v.ranges[1][j]}
            missed = {j for j in missed if OPEN in v.state[j]}  # equivalent ones may both be
        able = {j for j in missed if ((v.state[j] == OPEN) & ~v.barred[j]).any()}
        assert wanted(TopDecided(k), s) == able
        assert TopDecided(k).met(s) == (not missed)


@CASES
@CASE
def test_rules_combine_as_their_signs_say(seed, n, among_known):
    s = standing(seed, n, among_known)
    a, b, limit = RankWidth(2), TargetError(0.02), MaxItems(3)
    assert wanted(a & b, s) == wanted(a, s) | wanted(b, s)
    assert (a & b).met(s) == (a.met(s) and b.met(s))
    assert (a | b).met(s) == (a.met(s) or b.met(s))
    both = wanted(a, s) | wanted(b, s)
    assert wanted(a | b, s) == (both if wanted(a, s) and wanted(b, s) else set())
    assert wanted(a | limit, s) == wanted(a, s) & wanted(limit, s)
    assert (a | limit).met(s) == a.met(s)
    assert wanted(limit | Time(11), s) == wanted(limit, s)
    assert (limit | Time(11)).met(s) == (not wanted(limit, s))
    assert (a | limit | Time(11)).limits() == (limit, Time(11)) and (a & limit).limits() == ()


def test_why_names_the_rules_that_stopped_it():
    s = standing(1, 2)
    s.items = np.array([3, 5])
    s.verdicts.unsettled = ~s.nobody
    s.verdicts.adjacent, s.verdicts.settled = np.array([OPEN]), False
    reached = AllDecided() | MaxItems(3) | Time(11)
    assert reached.why(s) == MaxItems(3).why(s)
    s.items = np.array([2, 2])
    assert reached.why(s) == ""
    s.verdicts.unsettled = s.nobody
    s.verdicts.adjacent, s.verdicts.settled = np.array([DECIDED]), True
    assert reached.why(s) == "every adjacent pair is decided"
    s.verdicts.state, s.verdicts.ranges = np.full((2, 2), DECIDED), (np.ones(2), np.ones(2))
    both = TargetError(0.5) & RankWidth(9)
    assert both.why(s) == "every standard error is at most 0.5 and every rank is known to 9 ranks"
    assert (TopDecided(1) & Percentile(5.0)).why(s) == (
        "the best model is decided and every percentile is known to 5"
    )
    assert Time(60).why(s) == "the budget of 60 seconds is used up"


def test_rules_are_values():
    assert AllDecided() & TargetError(0.1) == AllDecided() & TargetError(0.1)
    assert len({AllDecided() | Budget(3), AllDecided() | Budget(3)}) == 1
    assert Budget(3) | (MaxItems(2) | Time(1)) == Budget(3) | MaxItems(2) | Time(1)

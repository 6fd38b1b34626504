"""Answers that fail: what they may hide widens intervals, and decides no pair."""

from dataclasses import replace

import numpy as np
import pytest

from lm_eval_ccat import ItemBank, Ranker
from lm_eval_ccat.methods.belief import Belief, References
from lm_eval_ccat.ranker.contents import failure_bias
from lm_eval_ccat.ranker.looks import Looks
from lm_eval_ccat.ranker.rows import Estimate
from lm_eval_ccat.ranker.verdicts import DECIDED, EQUIVALENT, OPEN, Verdicts


@pytest.mark.parametrize("slope", [-0.5, 0.0, 0.5])
def test_what_failures_hide_is_the_bias_of_the_scores_that_were_seen(slope):
    """Many scores, a failure likelier by `slope` per point of score: the mean of what is left."""
    rng = np.random.default_rng(1)
    expected = rng.uniform(0.2, 0.8, 200_000)
    scores = expected + rng.uniform(-0.2, 0.2, len(expected))
    fails = rng.random(len(scores)) < 0.3 + slope * (scores - 0.5)
    told = {int(i): float(scores[i]) for i in np.flatnonzero(~fails)}
    bias = float((scores - expected)[~fails].mean())
    assert failure_bias(expected, told, np.flatnonzero(fails)) == pytest.approx(bias, abs=0.002)


def test_lean_is_at_most_what_all_that_failed_could_hide():
    expected = np.r_[np.full(5, 0.01), np.full(5, 0.9)]
    told = dict.fromkeys(range(5, 10), 0.0)
    assert failure_bias(expected, told, [0, 1, 2, 3, 4]) == pytest.approx(0.5 * 0.01)
    assert (
        failure_bias(expected, told, [0, 1])
        == 0.0
        == failure_bias(np.full(10, 0.5), told, [0, 1, 2, 3])
    )


def belief(*at, **more):
    return Belief.independent(at, [0.01] * len(at), n=[90] * len(at), n_items=900, **more)


def judged(b, **options):
    near = options.get("min_difference", 0.0)
    return Verdicts(
        b, Looks(single_look=True).after(b, 0.05, near), "ab"[: len(b.location)], **options
    )


def test_a_gap_is_decided_by_what_failures_cannot_explain():
    b = belief(0.6, 0.55)  # 3.5 standard errors
    assert judged(b).state[0, 1] == DECIDED
    for lean_of, state in (
        ([0.02, 0.0], DECIDED), ([0.03, 0.0], OPEN), ([0.0, -0.03], OPEN),
        ([0.015, -0.015], OPEN), ([-0.5, 0.5], DECIDED),
    ):  # fmt: skip
        v = judged(replace(b, failure_bias=np.array(lean_of)))
        assert v.state[0, 1] == state == v.state[1, 0], lean_of
        low, high = v.intervals()
        down, up = np.maximum(lean_of, 0.0), np.maximum(-np.array(lean_of), 0.0)
        plain = [x[0, 1] for x in judged(b).intervals()]
        assert low[0, 1] == pytest.approx(plain[0] - down[0] - up[1])
        assert high[0, 1] == pytest.approx(plain[1] + up[0] + down[1])
        assert (low[0, 1] > 0.0) == (state == DECIDED)


def test_references_lean_nowhere_and_abilities_lean_by_their_slope():
    known = References(("r",), np.array([0.5]), np.zeros(1), np.array([0.5]), np.zeros(1))
    one = replace(belief(0.53), references=known)
    assert judged(one).state[0, 1] == DECIDED
    assert judged(replace(one, failure_bias=np.array([0.02]))).state[0, 1] == OPEN
    logits = belief(0.6, 0.55, score=np.array([0.3, 0.29]), slope=np.full(2, 0.2))
    assert judged(replace(logits, failure_bias=np.array([0.004, 0.0]))).state[0, 1] == DECIDED
    assert judged(replace(logits, failure_bias=np.array([0.006, 0.0]))).state[0, 1] == OPEN


def test_failures_take_their_part_of_what_shows_two_models_to_be_close():
    b = belief(0.5, 0.5)
    assert judged(b, min_difference=0.04).state[0, 1] == EQUIVALENT
    b = replace(b, failure_bias=np.array([0.03, 0.0]))
    assert judged(b, min_difference=0.04).state[0, 1] == OPEN


def test_the_bound_is_the_interval_if_all_that_failed_had_scored_0_or_1():
    """Without a bank: half of the answers fail, and half of the mean hangs on them."""
    ranker = Ranker(ItemBank.blank(range(400)), {"a": 1.0}, stop="limits", max_items=40)
    n = 0
    while not ranker.done:
        for model, item in ranker.ask():
            n += 1
            ranker.fail(model, item, "no") if n % 2 else ranker.tell(model, item, 0.5 + n % 4 / 10)
    [row] = ranker.result().models
    low, high = row.bound
    assert low <= row.interval[0] - 0.2 and high >= row.interval[1] + 0.2


@pytest.mark.parametrize("judge_fails", [False, True])
def test_each_outcome_has_the_bound_of_its_own_scores(judge_fails):
    """Every other item has no f1 score: if all of these were 0, f1 would be half of its .9."""
    banks = {name: ItemBank.blank(range(400), task="t", metric=name) for name in ("em", "f1")}
    ranker = Ranker(
        {"t": banks}, {"a": 1.0}, stop="limits", max_items=40, weights={"em": 1.0, "f1": 0.0}
    )
    n = 0
    while not ranker.done:
        for model, item in ranker.ask():
            n += 1
            if n % 2:
                ranker.tell(model, item, {"em": 0.1, "f1": 0.9})
            elif judge_fails:
                ranker.tell(model, item, {"em": 0.1})
            else:
                ranker.fail(model, item, "no")
    outcomes = ranker.result().tasks["t"].outcomes
    [em], [f1] = outcomes["em"].models, outcomes["f1"].models
    assert f1.bound[0] <= f1.interval[0] - 0.4 and f1.bound[1] <= 1.0
    if judge_fails:
        assert em.bound is None
    else:
        assert em.bound[0] >= em.interval[0] - 0.1 and em.bound[1] >= em.interval[1] + 0.4


def test_failures_that_may_hide_low_scores_lower_an_interval_and_no_others():
    """A bias above 0 says that the scores that were seen are too high."""
    plain = Estimate(0.5, 0.05)
    low, high = plain.interval(0.95)
    assert replace(plain, failure_bias=0.1).interval(0.95) == (low - 0.1, high)
    assert replace(plain, failure_bias=-0.1).interval(0.95) == (low, high + 0.1)

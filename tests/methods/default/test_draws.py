"""Draws of known probability find out what the bank does not know, and say it without bias."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cache
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lm_eval_ccat import Ranker, ScoreTable, calibrate
from lm_eval_ccat.methods.default.calibration import model_of
from lm_eval_ccat.methods.default.departures import SCALES, Departures, posterior
from lm_eval_ccat.methods.default.field import Field, Sequence


def world(seed: int, n_models: int = 16, n_items: int = 400):
    """Scores with a large departure per model that hits half of the items only.

    Half of the items are much more discriminating, so selection prefers them; what a model does on
    the others differs from model to model in a way that no calibration can foresee.
    """
    rng = np.random.default_rng(seed)
    skill = rng.normal(size=(n_models, 1))
    dull = np.arange(n_items) % 2 == 0
    slope = np.where(dull, 0.2, 1.6)
    departure = np.where(dull, rng.normal(size=(n_models, 1)), 0.0)
    eta = skill * slope + rng.normal(size=n_items) + departure
    mu = 1.0 / (1.0 + np.exp(-eta - 0.3 * rng.normal(size=eta.shape)))
    return ScoreTable.from_arrays(mu, [f"m{j}" for j in range(n_models)])


def run(bank, scores, n, **options):
    ranker = Ranker(bank, {"m": 1.0}, max_items=n, seed=1, **options)
    while not ranker.done:
        for model, item in ranker.ask():
            ranker.tell(model, item, scores[item])
    result = ranker.result()
    return result.estimates["m"] - scores.mean(), result.standard_errors["m"], result.items["m"]


def test_the_error_falls_where_selected_items_alone_would_not_show_it():
    table = world(0)
    selected_only, error, z, share_dull = [], [], [], []
    for j in range(3):
        name = f"m{j}"
        bank, scores = calibrate(table.without([name]), factors=0), table.select([name]).scores[0]
        selected_only.append(run(bank, scores, 140, draws=False)[0])
        e, se, items = run(bank, scores, 140)
        error.append(e)
        z.append(e / se)
        share_dull.append(np.mean(np.array(items) % 2 == 0))
    rms = [float(np.sqrt(np.mean(np.square(e)))) for e in (selected_only, error, z)]
    assert rms[1] < 0.6 * rms[0]
    assert 0.2 < rms[2] < 1.8
    assert np.mean(share_dull) > 0.2  # the draws reach the items selection does not like


@cache
def tiny():
    return calibrate(world(2, 12, 7))


@settings(max_examples=3, deadline=None)
@given(st.lists(st.floats(0.0, 1.0), min_size=7, max_size=7), st.integers(0, 10**6))
def test_the_estimate_from_draws_is_unbiased_whatever_rule_chose(scores, rule):
    """Over all outcomes of three draws, exactly; the rule sees every score before."""
    model, n = model_of(tiny()), 7

    def expectation(path: list[tuple[int, float | None]]) -> float:
        field = Field(model, 1)
        for item, p in path:
            field.place(0, item, p)
            field.learn(0, [item], [scores[item]])
        if sum(p is not None for _, p in path) == 3:
            return field.members[0].sample()[0]
        left = np.flatnonzero(field.sequence.left)
        told = round(sum(scores[i] for i, _ in path), 6)
        if len(left) > 3 and hash((rule, told, len(path))) % 3 == 0:  # chooses, by what it saw
            item = int(left[hash((rule, told)) % len(left)])
            return expectation([*path, (item, None)])
        size = field.sizes()[left]
        p = size / size.sum()
        return sum(q * expectation([*path, (int(i), float(q))]) for i, q in zip(left, p))

    assert expectation([]) == pytest.approx(sum(scores) / n, abs=1e-9)


def test_what_is_drawn_stands_for_the_items_that_are_held_back():
    """Over all ways of holding two of seven items back, and over all draws, exactly."""
    scores, found = np.array([0.1, 0.9, 0.4, 0.7, 0.2, 0.0, 1.0]), []
    for back in combinations(range(7), 2):
        kept = ~np.isin(np.arange(7), back)
        field = Field(model_of(replace(tiny(), kept=kept)), 1)
        assert (field.sequence.left == kept).all()
        p = np.where(kept, field.sizes(), 0.0)
        for item in np.flatnonzero(kept).tolist():
            one = Field(field.model, 1)
            one.place(0, item, probability := float(p[item] / p.sum()))
            one.learn(0, [item], [scores[item]])
            found.append(probability * one.members[0].sample()[0])
    assert sum(found) / 21 == pytest.approx(scores.mean(), abs=1e-9)


@settings(max_examples=30, deadline=None)
@given(st.lists(st.floats(0.01, 5.0), min_size=2, max_size=12), st.integers(0, 1000))
def test_draws_fall_with_the_probability_that_they_state(size, seed):
    sequence = Sequence(len(size), seed)
    p = np.array(size) / sum(size)
    for _ in range(len(size)):
        item, probability = sequence.draw(np.array(size))
        assert sequence.left[item]
        assert probability == pytest.approx(p[item] / p[sequence.left].sum())
        sequence.append(item, probability, 1.0)


@pytest.mark.parametrize("n_models", [1, 3])
def test_no_score_drawn_counts_more_than_twice_that_of_a_simple_random_one(n_models):
    """A bank that is sure of scores that it is wrong about cannot spoil the sample."""
    rng = np.random.default_rng(4)
    difficulty = np.concatenate([rng.normal(0, 0.3, 30), np.full(90, -7.0)])
    skill = rng.normal(0, 1, 14)[:, None]
    scores = rng.binomial(1, 1 / (1 + np.exp(difficulty - skill))).astype(float)
    bank = calibrate(ScoreTable.from_arrays(scores, [f"m{i}" for i in range(14)]))
    ranker = Ranker(bank, dict.fromkeys("abc"[:n_models], 1.0), stop="limits", seed=3)
    for _ in range(40 * n_models):
        [(model, item)] = ranker.ask()
        ranker.tell(model, item, float(rng.integers(2)))
    draws = [p for of_model in ranker.result().draws.values() for _, p in of_model]
    assert len(draws) > 10 * n_models
    assert min(draws) >= 0.5 / bank.n_items


def test_draws_are_as_frequent_as_they_state():
    size = np.array([1.0, 2.0, 5.0])
    count = np.zeros(3)
    for seed in range(4000):
        count[Sequence(3, seed).draw(size)[0]] += 1
    assert count / 4000 == pytest.approx(size / 8.0, abs=0.03)


def test_the_posterior_of_departures():
    M = np.array([[0.04, 0.02], [0.02, 0.05]])
    T = np.array([[0.01, 0.001], [0.001, 0.02]])
    rbar = np.array([0.2, -0.1])
    mean, covariance = posterior(M, T, rbar)
    # Independent figures: the mixture summed directly, by densities of scipy's.
    from scipy.stats import invgamma, multivariate_normal

    weight = np.array(
        [
            invgamma.pdf(s, 2.5, scale=1.5) * s * multivariate_normal.pdf(rbar, cov=s * M + T)
            for s in SCALES
        ]
    )
    weight /= weight.sum()
    means = np.array([s * M @ np.linalg.inv(s * M + T) @ rbar for s in SCALES])
    assert mean == pytest.approx(weight @ means)
    parts = [np.linalg.inv(np.linalg.inv(s * M) + np.linalg.inv(T)) for s in SCALES]
    expected = sum(w * (p + np.outer(m - mean, m - mean)) for w, p, m in zip(weight, parts, means))
    assert covariance == pytest.approx(expected)


@settings(max_examples=40, deadline=None)
@given(
    st.lists(
        st.tuples(st.floats(0.0, 0.1), st.floats(0.0, 1.0), st.floats(1.0, 9.0)),
        min_size=1,
        max_size=6,
    )
)
def test_the_prior_is_a_covariance(models):
    v, t, level = (np.array(x) for x in zip(*models))
    d = Departures(single=np.array([2.0, 0.001, 0.02]), pair=np.array([1.0, 0.0, 0.05]))
    M = d.prior(v, t, level)
    assert pytest.approx(M.T) == M and np.linalg.eigvalsh(M).min() > 0.0


def test_a_model_out_of_range_is_drawn_for_and_its_interval_holds():
    rng = np.random.default_rng(5)
    skill = np.r_[np.linspace(-2.0, -0.5, 20), 2.5][:, None]
    mu = 1.0 / (1.0 + np.exp(-skill - rng.normal(size=300)))
    scores = rng.beta(6 * mu, 6 * (1 - mu))
    table = ScoreTable.from_arrays(scores, [f"m{j}" for j in range(21)])
    bank, y = calibrate(table.without(["m20"])), scores[20]
    ranker = Ranker(bank, {"m": 1.0}, max_items=40)
    while not ranker.done:
        for model, item in ranker.ask():
            ranker.tell(model, item, y[item])
    result = ranker.result()
    drawn = result.samples["m"]
    assert drawn.n > 25
    assert abs(result.estimates["m"] - y.mean()) < 2.5 * result.standard_errors["m"]
    [finding] = [f for f in result.findings["m"] if "every model" in f]
    assert finding.startswith("scores better")
    mean, error = drawn.estimate, drawn.standard_error
    assert abs(mean - y.mean()) < 4.0 * error and math.isfinite(error)


def test_a_bank_that_knows_no_departures_is_used_with_wide_intervals_and_a_word():
    table = world(4)
    bank, y = calibrate(table.without(["m3"])), table.select(["m3"]).scores[0]
    old = replace(bank, constants={k: v for k, v in bank.constants.items() if k != "departures"})
    ranker = Ranker(old, {"m3": 1.0}, max_items=30)
    while not ranker.done:
        for model, item in ranker.ask():
            ranker.tell(model, item, y[item])
    result = ranker.result()
    assert abs(result.estimates["m3"] - y.mean()) < 3.0 * result.standard_errors["m3"]
    assert any("calibrate the bank again" in f for f in result.findings["m3"])
    low, high = result.interval("m3")
    assert low < result.estimates["m3"] < high
    assert high - low > 2 * 1.96 * result.standard_errors["m3"]  # Student's, not the normal one


def test_items_alike_for_all_of_the_bank_may_differ_for_a_new_model():
    """A third of the items are solved by every model of the calibration, and not by the new one."""
    rng = np.random.default_rng(3)
    z = []
    for _ in range(3):
        skill = rng.normal(size=(15, 1))
        scores = (rng.random((15, 300)) < 1 / (1 + np.exp(-skill - rng.normal(size=300)))) * 1.0
        scores[:14, :100] = 1.0
        scores[14, :100] = rng.random(100) < 0.7
        table = ScoreTable.from_arrays(scores, [f"m{j}" for j in range(15)])
        bank = calibrate(table.without(["m14"]))
        assert any("% of the items have the same score" in w for w in bank.warnings)
        error, se, _ = run(bank, scores[14], 60)
        z.append(error / se)
    assert np.sqrt(np.mean(np.square(z))) < 2.0


def test_the_sample_of_a_model_outlives_what_was_given_back():
    """An item given back, and one asked again later, count where they were asked."""
    table = world(7)
    bank, y = calibrate(table.without(["m3"])), table.select(["m3"]).scores[0]
    ranker = Ranker(bank, {"m3": 1.0}, max_items=40, stop="limits")
    n = 0
    while not ranker.done:
        for model, item in ranker.ask(3):
            n += 1
            if n % 7 == 0:
                ranker.release(model, item)
            elif n % 11 == 0:
                ranker.fail(model, item, "no")
            else:
                ranker.tell(model, item, y[item])
            if n > 200:
                ranker.stop("enough")
    drawn = ranker.result().samples["m3"]
    assert drawn.n > 10 and math.isfinite(drawn.standard_error)
    assert abs(drawn.estimate - y.mean()) < 5.0 * drawn.standard_error

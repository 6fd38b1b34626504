"""The adaptive test of the method "default": its estimate, its errors, its choice of items."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from artificial import held_out, world
from hypothesis import given, settings
from hypothesis import strategies as st

from lm_eval_ccat import ItemBank, calibrate
from lm_eval_ccat.methods.curves import AbilityBasis
from lm_eval_ccat.methods.default.field import Field
from lm_eval_ccat.methods.default.fit import model_of
from lm_eval_ccat.methods.default.member import ScorePosterior
from lm_eval_ccat.methods.default.method import DefaultPolicy

CALIBRATION, SCORES = held_out(world(24, 80, seed=2), ["m3", "m10", "m16", "m22"])


@cache
def the_bank() -> ItemBank:
    return calibrate(CALIBRATION)


def told(items, scores) -> DefaultPolicy:
    """A ranking of one model that has these scores."""
    policy = DefaultPolicy(the_bank(), 1)
    for item, score in zip(items, scores):
        policy.placed(0, int(item))
        policy.told(0, int(item), float(score))
    return policy


def test_the_gain_is_the_fall_of_the_variance_it_promises():
    # With the curves held at one point the posterior is Gaussian, so the promise is exact.
    posterior = ScorePosterior(model_of(the_bank()).items)
    for item in (3, 40, 61):
        covariance, g = posterior._after([item])
        left = posterior._unseen.copy()
        left[item] = 0.0
        after = g @ covariance @ g + (posterior.kappa * posterior.w) @ left
        fall = posterior.variance * posterior.n_items**2 - after
        assert posterior.gains()[item] == pytest.approx(fall, rel=1e-9)


def test_a_dear_item_has_to_tell_more():
    price, free = np.ones((2, the_bank().n_items))

    def first(price, **options) -> int:
        return DefaultPolicy(the_bank(), 1, **options).next(0, free > 0.0, (), price)[0].item

    best = first(price)
    price[best] = 50.0
    assert first(price, item_price=0.0) == best != first(price)
    # Only ratios matter: a model ten times as dear is asked the same items.
    assert first(price) == first(10.0 * price)
    # A free item has no ratio; prices then have no say.
    price[3] = 0.0
    assert first(price) == best


@settings(max_examples=15, deadline=None)
@given(st.integers(8, 60), st.integers(0, 500), st.floats(-8, 8))
def test_the_basis_is_straight_beyond_its_knots(n, seed, x):
    abilities = np.random.default_rng(seed).normal(size=n)
    basis = AbilityBasis.over(abilities - abilities.mean(), 3)
    value, slope = basis.value_and_slope(x)
    assert value == pytest.approx(basis.at(x)[0], rel=1e-6, abs=1e-6)
    step = 1e-5
    numeric = (basis.at(x + step)[0] - basis.at(x - step)[0]) / (2 * step)
    assert slope == pytest.approx(numeric, rel=1e-3, abs=1e-3)
    beyond = basis.knots[-1] + np.array([1.0, 2.0, 3.0])
    assert np.diff(basis.at(beyond), axis=0, n=2) == pytest.approx(0.0, abs=1e-6)


def test_an_item_that_is_given_back_is_the_next_of_the_common_sequence():
    policy, free = DefaultPolicy(the_bank(), 2), np.ones(the_bank().n_items, dtype=bool)
    asked = []
    for _ in range(3):
        [choice] = policy.next(0, free, (), np.ones(len(free)))
        policy.placed(0, choice.item, choice.probability)
        free[choice.item] = False
        asked.append(choice.item)
    for item in asked[:2]:
        policy.unplaced(0, item)
        free[item] = True
    assert policy.next(0, free, (), np.ones(len(free)))[0].item == asked[0]


def test_a_model_that_fits_no_curve_is_doubted_by_the_items_that_are_left():
    """An error of the mean of L of N items moves the mean of all by L / N of it."""
    n, items = the_bank().n_items, np.arange(20)
    policy = told(items, (items % 2).astype(float))
    [field], [member] = policy.fields, policy.fields[0].members
    added = policy.belief().variance[0, 0] - field.result().variance[0, 0]
    assert member.misfit > 1.5 and added == pytest.approx(member.unlike * ((n - 20) / n) ** 2)


def test_a_newcomer_without_answers_does_not_choose_for_those_ahead():
    items = list(range(20))
    alone, beside = (Field(model_of(the_bank()), n) for n in (1, 2))
    for field in (alone, beside):
        for item in items:
            field.place(0, item, None)
        field.learn(0, items, [0.5] * 20)
    assert beside._gains(0, None, ()) == pytest.approx(alone._gains(0, None, ()))
    assert (beside._gains(1, None, ()) > alone._gains(0, None, ())).any()


def test_single_models_and_pairs_are_widened_each_by_its_own_factor():
    field = Field(model_of(the_bank()), 2)
    for a, scores in enumerate(([0.2] * 12, [0.7] * 12)):
        for item in range(12):
            field.place(a, item, None)
        field.learn(a, list(range(12)), scores)
    departures, n = field.model.departures, the_bank().n_items

    def variances(single: float, pair: float) -> np.ndarray:
        factors = {"inflation": single, "inflation_of_pairs": pair}
        return field.moments().result(replace(departures, **factors), n).variance

    base = variances(1.0, 1.0)
    assert variances(3.0, 2.0) / base == pytest.approx(np.array([[3.0, 2.0], [2.0, 3.0]]))

"""The adaptive test of the method "default": its estimate, its errors, its choice of items."""

from functools import cache

import numpy as np
import pytest
from artificial import held_out, world
from hypothesis import given, settings
from hypothesis import strategies as st

from lm_eval_ccat import ItemBank, calibrate
from lm_eval_ccat.methods.curves import AbilityBasis
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

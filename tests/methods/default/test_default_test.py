"""The adaptive test of the method "default": its estimate, its errors, its choice of items."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from artificial import held_out, world
from hypothesis import given, settings
from hypothesis import strategies as st

from lm_eval_ccat import ItemBank, calibrate
from lm_eval_ccat.errors import BankError
from lm_eval_ccat.methods.curves import AbilityBasis
from lm_eval_ccat.methods.default.calibration import model_of
from lm_eval_ccat.methods.default.member import ScorePosterior
from lm_eval_ccat.methods.default.method import DefaultPolicy

TABLE = world(24, 80, seed=2)
CALIBRATION, SCORES = held_out(TABLE, ["m3", "m10", "m16", "m22"])


@cache
def the_bank() -> ItemBank:
    return calibrate(CALIBRATION)


@pytest.fixture(scope="module")
def bank() -> ItemBank:
    return the_bank()


class One:
    """A ranking of one model."""

    def __init__(self, bank: ItemBank, **options: float) -> None:
        self.policy = DefaultPolicy(bank, 1, **options)

    def select(self, free, pending=(), price=None) -> int:
        price = np.ones(len(free)) if price is None else price
        choice = self.policy.next(0, free, pending, price)[0]
        self.drawn = {choice.item: choice.probability}
        return choice.item

    def update(self, item: int, score: float) -> None:
        self.policy.placed(0, item, getattr(self, "drawn", {}).get(item))
        self.policy.told(0, item, score)

    @property
    def estimate(self) -> float:
        return float(self.policy.belief().location[0])

    @property
    def standard_error(self) -> float:
        return float(self.policy.belief().variance[0, 0] ** 0.5)

    @property
    def posterior(self):
        return self.policy.fields[0].members[0].posterior


def administer(bank: ItemBank, scores: np.ndarray, n: int) -> One:
    test, free = One(bank), np.ones(bank.n_items, dtype=bool)
    for _ in range(n):
        item = test.select(free)
        test.update(item, float(scores[item]))
        free[item] = False
    return test


@settings(max_examples=10, deadline=None)
@given(st.lists(st.floats(0.0, 1.0), min_size=1, max_size=40), st.integers(0, 1000))
def test_whatever_it_is_told_the_numbers_make_sense(values, seed):
    bank = the_bank()
    test = One(bank)
    items = np.random.default_rng(seed).permutation(bank.n_items)[: len(values)]
    for item, value in zip(items, values):
        test.update(int(item), value)
    assert 0.0 <= test.estimate <= 1.0
    about = test.policy.describe(0)
    assert np.isfinite([about.ability, about.ability_error, test.standard_error]).all()
    assert test.standard_error > 0.0 and about.ability_error > 0.0
    mu = test.policy.expected(0)
    assert ((mu > 0.0) & (mu < 1.0)).all()
    covariance = test.posterior.covariance
    assert np.linalg.eigvalsh((covariance + covariance.T) / 2).min() > 0.0


@settings(max_examples=6, deadline=None)
@given(st.permutations(range(12)))
def test_the_order_in_which_scores_come_does_not_matter(order):
    bank = the_bank()
    scores = SCORES["m16"]
    test = One(bank)
    for i in order:
        test.update(5 * i, float(scores[5 * i]))
    usual = One(bank)
    for i in range(12):
        usual.update(5 * i, float(scores[5 * i]))
    assert test.estimate == pytest.approx(usual.estimate, abs=1e-5)
    assert test.standard_error == pytest.approx(usual.standard_error, rel=1e-3)


def test_the_gain_is_the_fall_of_the_variance_it_promises(bank):
    # With the curves held at one point the posterior is Gaussian, so the promise is exact.
    posterior = ScorePosterior(model_of(bank).items)
    for item in (3, 40, 61):
        promised = posterior.gains()[item] / bank.n_items**2
        covariance, g = posterior._after([item])
        left = posterior._unseen.copy()
        left[item] = 0.0
        after = g @ covariance @ g + (posterior.kappa * posterior.w) @ left
        assert promised == pytest.approx(posterior.variance - after / bank.n_items**2, rel=1e-9)


def test_a_dear_item_has_to_tell_more(bank):
    price = np.ones(bank.n_items)
    free = np.ones(bank.n_items, dtype=bool)
    best = One(bank).select(free, (), price)
    price[best] = 50.0
    assert One(bank, item_price=0.0).select(free, (), price) == best
    assert One(bank).select(free, (), price) != best
    # Only ratios matter: a model ten times as dear is asked the same items.
    assert One(bank).select(free, (), price) == One(bank).select(free, (), 10.0 * price)
    # A free item has no ratio; prices then have no say.
    price[3] = 0.0
    assert One(bank).select(free, (), price) == best


def test_standard_errors_are_true_for_models_of_another_generator():
    z = []
    for seed in range(2):
        table = world(28, 150, seed=100 + seed, binary=seed % 2 == 0)
        names = [f"m{i}" for i in (2, 9, 15, 20, 26)]
        calibration, scores = held_out(table, names)
        bank = calibrate(calibration)
        for y in scores.values():
            test = administer(bank, y, 20)
            z.append((test.estimate - y.mean()) / test.standard_error)
    assert 0.7 < np.sqrt(np.mean(np.square(z))) < 1.3
    assert np.mean(np.abs(z) < 1.96) >= 0.8  # 95%, less what 10 models leave to chance


def test_a_bank_whose_parts_do_not_fit_is_refused(bank):
    from dataclasses import replace

    broken = dict(bank.parameters)
    broken["covariance"] = broken["covariance"][:, :2]
    with pytest.raises(BankError, match="do not fit"):
        model_of(replace(bank, parameters=broken))
    with pytest.raises(BankError, match="cannot be read"):
        model_of(replace(bank, constants={**bank.constants, "basis": {}}))


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

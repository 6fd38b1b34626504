"""The adaptive test of the method "default": its estimate, its errors, its choice of items."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from artificial import held_out, world
from hypothesis import given, settings
from hypothesis import strategies as st
from worlds.boards import drive

from lm_eval_ccat import ItemBank, Ranker, calibrate
from lm_eval_ccat.methods.belief import Belief
from lm_eval_ccat.methods.curves import AbilityBasis
from lm_eval_ccat.methods.default.field import Field
from lm_eval_ccat.methods.default.fit import model_of
from lm_eval_ccat.methods.default.member import ScorePosterior
from lm_eval_ccat.methods.default.method import DefaultPolicy, _apart

CALIBRATION, SCORES = held_out(world(24, 80, seed=2), ["m3", "m10", "m16", "m22"])


@cache
def the_bank() -> ItemBank:
    return calibrate(CALIBRATION)


def told(items, scores) -> DefaultPolicy:
    """A ranking of one model that has these scores."""
    policy = DefaultPolicy(the_bank(), 1)
    for item, score in zip(items, scores):
        policy.asked(0, int(item))
        policy.told(0, int(item), float(score))
    return policy


@pytest.mark.long
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


@pytest.mark.long
def test_the_slope_is_what_the_estimate_changes_by_with_the_ability():
    """Factors go with the ability, as their covariance says; answers that came stay."""
    items = model_of(the_bank()).items
    posterior, asked = ScorePosterior(items), [3, 40, 61]
    posterior.learn(asked, [0.2, 0.9, 0.6])
    along = posterior.covariance[:, 0] / posterior.covariance[0, 0]

    def estimate(step):
        mu = items.curves((posterior.z + step * along).tolist(), items.rows, items.noise)[0]
        return (posterior.score[asked].sum() + np.delete(mu, asked).sum()) / items.n_items

    numeric = (estimate(1e-4) - estimate(-1e-4)) / 2e-4
    assert posterior.slope == pytest.approx(numeric, rel=1e-5)


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


@pytest.mark.long
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
        policy.asked(0, choice.item, choice.probability)
        free[choice.item] = False
        asked.append(choice.item)
    for item in asked[:2]:
        policy.released(0, item)
        free[item] = True
    assert policy.next(0, free, (), np.ones(len(free)))[0].item == asked[0]


def test_a_model_that_fits_no_curve_is_doubted_by_the_items_that_are_left():
    """An error of the mean of L of N items moves the mean of all by L / N of it."""
    n, items = the_bank().n_items, np.arange(20)
    policy = told(items, (items % 2).astype(float))
    [field], [member] = policy.fields, policy.fields[0].members
    added = policy.belief().variance[0, 0] - field.result().variance[0, 0]
    assert member.misfit > 1.5 and added == pytest.approx(
        member.misfit_variance * ((n - 20) / n) ** 2
    )


def test_a_newcomer_without_answers_does_not_choose_for_those_ahead():
    items = list(range(20))
    alone, beside = (Field(model_of(the_bank()), n) for n in (1, 2))
    for field in (alone, beside):
        for item in items:
            field.asked(0, item, None)
        field.learn(0, items, [0.5] * 20)
    assert beside._gains(0, None, ()) == pytest.approx(alone._gains(0, None, ()))
    assert (beside._gains(1, None, ()) > alone._gains(0, None, ())).any()


def test_single_models_and_pairs_are_widened_each_by_its_own_factor():
    field = Field(model_of(the_bank()), 2)
    for a, scores in enumerate(([0.2] * 12, [0.7] * 12)):
        for item in range(12):
            field.asked(a, item, None)
        field.learn(a, list(range(12)), scores)
    departures, n = field.model.departures, the_bank().n_items

    def variances(single: float, pair: float) -> np.ndarray:
        factors = {"inflation": single, "inflation_of_pairs": pair}
        return field.moments().result(replace(departures, **factors), n).variance

    base = variances(1.0, 1.0)
    assert variances(3.0, 2.0) / base == pytest.approx(np.array([[3.0, 2.0], [2.0, 3.0]]))


def answered(n_models: int, counts: list[int], model=None) -> Field:
    """A field whose models have the first so many scores of three models held out."""
    field = Field(model or model_of(the_bank()), n_models)
    for a, (count, scores) in enumerate(zip(counts, SCORES.values())):
        for item in range(count):
            field.asked(a, item, None)
        field.learn(a, list(range(count)), scores[:count].tolist())
    return field


def test_a_pair_has_as_many_items_as_the_shorter_of_its_models():
    assert answered(2, [12, 5]).result().n.tolist() == [[12, 5], [5, 5]]


def test_a_new_prior_of_departures_counts_for_what_is_known_already():
    field = answered(2, [12, 9])
    before = field.moments()
    wide = replace(field.model.departures, floor=field.model.departures.floor + 0.2)
    field.use(wide)
    fresh = answered(2, [12, 9], replace(field.model, departures=wide)).moments()
    covariance = fresh.item_covariance
    assert field.moments().item_covariance == pytest.approx(covariance)
    assert (covariance > before.item_covariance).any()
    assert field.result().variance == pytest.approx(fresh.result(wide, the_bank().n_items).variance)


def test_a_draw_that_models_share_weighs_alike_whenever_they_get_it():
    field = answered(2, [12, 12])
    item = 40
    field.asked(0, item, 0.02)
    field.learn(0, [item], [0.9])
    field.learn(1, [20, 21, 22], [0.0, 1.0, 0.0])
    field.asked(1, item, 0.02)
    first, second = (member._draws[:, item] for member in field.members)
    assert first == pytest.approx(second) and first[0] > 0.0


def test_a_model_beyond_the_bank_is_known_less_well_than_its_curves_say():
    field = Field(model_of(the_bank()), 1)
    for item in range(20):
        field.asked(0, item, None)
    field.learn(0, list(range(20)), [1.0] * 20)
    field.moments()
    [member] = field.members
    left = member._after_chosen.variance
    of_curves = left + max(member.posterior.variance_over_abilities - left, 0.0)
    assert member.position > 1.0 and member.open_variance > 1.05 * of_curves * member.misfit


def test_models_of_fields_apart_have_the_freedom_of_welch():
    a, b = (Belief.independent([0.5], [error], n=[n], n_items=80, df=[df])
            for error, n, df in ((0.1, 20, 5.0), (0.2, 30, 10.0)))  # fmt: skip
    found = _apart([a, b])
    assert found.variance == pytest.approx(np.array([[0.01, 0.05], [0.05, 0.04]]))
    welch = 0.05**2 / (0.01**2 / 5.0 + 0.04**2 / 10.0)
    assert found.df == pytest.approx(np.array([[5.0, welch], [welch, 10.0]]))
    assert found.n.tolist() == [[20, 20], [20, 30]]


@pytest.mark.long
def test_what_is_known_in_full_is_a_sample_of_documents_like_these():
    n, options = the_bank().n_items, {"question": "population", "stop": "limits", "looks": "one"}
    found = drive(Ranker(the_bank(), list(SCORES), **options), SCORES)
    for model, scores in SCORES.items():
        assert len(found.items[model]) == n
        assert found.standard_errors[model] == pytest.approx(scores.std(ddof=1) / n**0.5)


@pytest.mark.long
def test_answers_tell_the_share_of_refused_items_and_how_far_it_misleads():
    """Of models that the bank's curves describe, but for what they refuse."""
    items = model_of(calibrate(world(30, 100, seed=1, binary=True))).items
    rng = np.random.default_rng(0)

    def scores(ability: float, refused: float) -> np.ndarray:
        point = [ability, *[0.0] * (items.n_dimensions - 1)]
        expected = items.curves(point, items.rows, items.noise)[0]
        uniform = rng.random((2, items.n_items))
        return ((uniform[0] < expected) & (uniform[1] >= refused)).astype(float)

    ease = np.mean([scores(0.0, 0.0) for _ in range(200)], axis=0)
    hard, others = np.split(ease.argsort(), [30])
    found = {}
    for refused in (0.0, 0.2):
        models = []
        for _ in range(300):
            y = scores(rng.normal(), refused)
            asked = np.concatenate([hard, rng.permutation(others)[:10]])
            posterior = ScorePosterior(items)
            posterior.learn(asked.tolist(), y[asked].tolist())
            models.append((*posterior.refusals(1.0, 0.0), posterior.estimate - y.mean()))
        score, information, effect, error = np.array(models).T
        found[refused] = score.sum() / information.sum(), refused * effect.mean(), error.mean()
    share, misled, error = found[0.2]
    assert share == pytest.approx(0.2, abs=0.05) and abs(found[0.0][0]) < 0.05
    # Hard items hide refusals, which an ability explains nearly as well.
    assert error == pytest.approx(misled, abs=0.01) and error > 0.015


def test_draws_take_from_an_estimate_what_refusals_would_mislead_it_by():
    """Half of an even sample is as good a mean as no bank has; chosen items tell it nothing."""
    chosen, drawn = told(range(40), SCORES["m10"][:40]), DefaultPolicy(the_bank(), 1)
    for item in range(40):
        drawn.asked(0, item, 1.0 / (80 - item))
        drawn.told(0, item, float(SCORES["m10"][item]))
    found, departures = chosen.refusals(0), model_of(the_bank()).departures
    [member] = chosen.fields[0].members
    uncorrected = member.posterior.refusals(departures.noise, departures.floor * member.inflation)
    assert found == pytest.approx(tuple(uncorrected), rel=1e-6)
    assert 0.0 < drawn.refusals(0).effect < 0.5 * uncorrected.effect


@pytest.mark.long
def test_noise_of_answers_is_the_variance_of_scores_and_of_differences_where_both_have_them():
    """All of the variance may be noise: of n of N items it adds n s^2 / N^2 to a mean's."""
    policy, rng = DefaultPolicy(the_bank(), 2, sampled=True), np.random.default_rng(0)
    scores = rng.random((2, 80))
    for model, n in ((0, 70), (1, 40)):
        for item in range(n):
            policy.asked(model, item)
            policy.told(model, item, float(scores[model, item]))
    noise, gaps = policy._noise() * 80**2, scores[0, :40] - scores[1, :40]
    assert noise[0, 0] == pytest.approx(70 * scores[0, :70].var(ddof=1), rel=0.2)
    assert noise[1, 1] == pytest.approx(40 * scores[1, :40].var(ddof=1), rel=0.2)
    assert noise[0, 1] == noise[1, 0] == pytest.approx(70 * gaps.var(ddof=1), rel=0.2)

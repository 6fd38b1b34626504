"""The method "paper" beside its reference figures: rescaling, ties, and errors that are widened."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import expit, logit
from scipy.stats import norm
from worlds.boards import drive

from lm_eval_ccat import ItemBank, Ranker, ScoreTable, calibrate
from lm_eval_ccat.errors import BankError, UsageError
from lm_eval_ccat.methods.paper.method import USUAL, Misfit, PaperPolicy, ReplayErrors, shrunk
from lm_eval_ccat.methods.paper.test import JITTER, PaperTest, information
from lm_eval_ccat.methods.policy import largest
from lm_eval_ccat.ranker.looks import Looks
from lm_eval_ccat.ranker.verdicts import DECIDED, EQUIVALENT, OPEN, Verdicts


def made(values: np.ndarray) -> ScoreTable:
    return ScoreTable.from_arrays(values, models=[f"m{n}" for n in range(len(values))])


def ranked(bank: ItemBank, values: np.ndarray, **options) -> Ranker:
    """A ranking of models that have these scores, to its end."""
    names = [f"n{j}" for j in range(len(values))]
    ranker = Ranker(bank, dict.fromkeys(names, 1.0), **options)
    drive(ranker, dict(zip(names, values)))
    return ranker


# -- the scale -------------------------------------------------------------------------------------


def scores(seed=0, n_models=8, n_items=40):
    rng = np.random.default_rng(seed)
    eta = np.linspace(-1.2, 1.2, n_models)[:, None] + rng.normal(size=n_items)[None]
    return np.clip(expit(eta) + 0.1 * rng.normal(size=eta.shape), 0.0, 1.0)


@pytest.mark.long
def test_a_bank_without_the_record_takes_scores_as_given():
    values = 0.6 + 0.2 * scores()
    bank = calibrate(made(values[3:]), "paper")
    assert bank.constants["rescale"] == "range"
    plain = calibrate(made(values[3:]), "paper", rescale="none")
    old = replace(bank, constants={k: v for k, v in bank.constants.items() if k != "rescale"})

    def abilities(bank, **options):
        return ranked(bank, values[:3], budget=60, **options).result().abilities

    assert abilities(old) == abilities(plain) != abilities(bank)
    assert abilities(bank, score_range=(0.0, 1.0)) == abilities(plain)


def test_no_number_of_items_is_all_of_a_population():
    """A score of 0 still to come lowers a mean over a population after every item of the bank."""
    policy = PaperPolicy(calibrate(made(scores()), "paper"), 1)
    for item in range(40):
        policy.told(0, item, 0.5)
    assert policy.belief("benchmark").zero_loss[0, 0] == 0.0
    belief = policy.belief("population")
    slope = 0.25  # of a score of 1/2 in the ability
    assert belief.zero_loss[0, 0] == pytest.approx(belief.estimate[0] / slope / 40, rel=0.5)


@pytest.mark.long
def test_a_known_model_stands_where_a_test_of_every_item_ends():
    values = 0.6 + 0.2 * scores()
    policy = PaperPolicy(bank := calibrate(made(np.delete(values, 5, axis=0)), "paper"), 1)
    for item in np.flatnonzero(bank.kept):
        policy.told(0, int(item), float(values[5, item]))
    mean, h = values[5, bank.kept].mean(), 1e-5
    near = np.array([mean - h, mean, mean + h])
    known = policy.references(("less", "same", "more"), near + 0.01, near, np.full(3, 0.02))
    assert known.location[1] == pytest.approx(policy.belief().location[0], abs=0.01)
    steep = (known.location[2] - known.location[0]) / (2 * h)
    assert known.variance[1] == pytest.approx((0.02 * steep) ** 2, rel=1e-3)


@pytest.mark.long
def test_what_cannot_be_a_rescaling_is_refused():
    table = made(scores())
    with pytest.raises(UsageError, match="`rescale` must be one of range, none, not 'max'"):
        calibrate(table, "paper", rescale="max")
    bank = calibrate(table, "paper")
    for wrong in (None, [0.4], [0.5, 0.5], [-1.0, 0.5], ["a", "b"]):
        broken = replace(bank, constants={**bank.constants, "score_range": wrong})
        with pytest.raises(BankError, match="low < high"):
            PaperTest(broken)


@pytest.mark.long
def test_decisions_are_of_abilities_and_a_margin_is_of_scores():
    values = 0.3 + 0.4 * scores(n_models=9, n_items=120)
    policy = PaperPolicy(calibrate(made(values[::2]), "paper"), 4)
    for model, row in enumerate(values[[1, 4, 4, 8]]):
        for item in range(60):
            policy.told(model, item, float(row[item]))
    belief, once = policy.belief(), Looks(single_look=True)
    theta, se = belief.location, np.sqrt(belief.variance.diagonal())

    def state(d=0.0):
        looks = once.after(belief, 0.05, d)
        return Verdicts(belief, looks, "abcd", min_difference=d).state

    z = np.abs(theta[:, None] - theta) / np.hypot(se[:, None], se)
    off = ~np.eye(4, dtype=bool)
    assert ((state() == DECIDED) == (z >= 1.959963984540054))[off].all()
    assert state()[0, 3] == DECIDED and state()[1, 2] == OPEN
    # A margin calls the twins equivalent, and no pair that is farther apart than it.
    assert state(0.1)[1, 2] == EQUIVALENT and state(0.1)[0, 3] == DECIDED
    assert (state(1.0)[off] == EQUIVALENT).all()
    s = belief.on_scores
    edge = abs(s.location[1] - s.location[3]) + 1.959963984540054 * s.variance[1, 3] ** 0.5
    assert state(edge + 1e-9)[1, 3] == EQUIVALENT != state(edge - 1e-9)[1, 3]


# -- items of equal information -------------------------------------------------------------------


@pytest.fixture(scope="module")
def binary():
    """0/1 scores of nine models: 60 items have at most ten distinct means."""
    rng = np.random.default_rng(4)
    chance = 1.0 / (1.0 + np.exp(-np.linspace(-1.5, 1.5, 9)[:, None] - rng.normal(size=60)))
    return (rng.random((9, 60)) < chance).astype(float)


@pytest.fixture(scope="module")
def bank(binary):
    return calibrate(made(np.delete(binary, [1, 4, 7], axis=0)), method="paper")


def test_jitter_moves_difficulties_by_next_to_nothing(bank, binary):
    still, moved = PaperTest(bank), PaperTest(bank, jitter=True)
    for item in np.flatnonzero(bank.kept)[:12]:
        still.learn(int(item), 1.0)
        moved.learn(int(item), 1.0)
    assert 0.0 < abs(still.ability - moved.ability) < 12 * JITTER
    free = bank.kept.copy()
    free[[*moved.answered]] = False
    far = abs(bank.parameters["difficulty"][moved.select(free)[0]] - moved.ability)
    near = np.abs(bank.parameters["difficulty"] - moved.ability)[free].min()
    assert far <= near + 2 * JITTER
    again = [ranked(bank, binary[1::3], max_items=15, jitter=True, seed=1) for _ in range(2)]
    assert again[0].result().items == again[1].result().items


@settings(max_examples=60, deadline=None)
@given(
    values=st.lists(st.floats(-5, 5) | st.just(-np.inf), min_size=1, max_size=30).filter(
        lambda v: max(v) > -np.inf
    ),
    k=st.integers(1, 40),
    seed=st.integers(0, 9),
)
def test_largest_is_what_sorting_gives(values, k, seed):
    lots = np.random.default_rng(seed).permutation(len(values)).tolist()
    exact = [round(v / (max(abs(u) for u in values if u > -np.inf) or 1), 10) for v in values]
    order = sorted((i for i in lots if values[i] > -np.inf), key=lambda i: -exact[i])
    assert largest(np.array(values), k, np.array(lots)) == order[:k]


# -- errors ----------------------------------------------------------------------------------------


def tastes(own):
    """0/1 scores of 14 models on 300 items; `own` is the spread of tastes that the model lacks."""
    rng = np.random.default_rng(3)
    kind, taste = rng.normal(size=300), own * rng.normal(size=14)
    logit = np.linspace(-1, 1, 14)[:, None] + rng.normal(size=300) + np.outer(taste, kind)
    return (rng.random((14, 300)) < expit(logit)).astype(float)


@pytest.fixture(scope="module")
def wrong():
    return tastes(2.0)


@pytest.fixture(scope="module")
def lacking(wrong):
    return calibrate(made(np.delete(wrong, [4, 9], axis=0)), method="paper")


@pytest.mark.long
def test_the_misfit_is_that_of_the_same_scores_on_another_scale():
    # Models are a whole number of items apart, so many pairs are equally close but for rounding.
    y = tastes(1.0)[:, :60]
    of_unit, of_part = (Misfit.of(calibrate(made(v), method="paper")) for v in (y, 0.1 * y + 0.3))
    np.testing.assert_allclose(of_unit.pair, of_part.pair, rtol=1e-9)
    np.testing.assert_allclose(of_unit.single, of_part.single, rtol=1e-9)
    assert max(of_unit.pair) > 1.0


def test_the_noise_is_that_of_items_kept_and_of_scores_stretched_over_their_range():
    """The formulas of the paper by hand; two items run against the models' abilities."""
    y = expit(np.linspace(-1, 1, 9)[:, None] - np.linspace(-2, 2, 20))
    y += 0.02 * np.sin(np.arange(180)).reshape(9, 20)
    y[:, :2] = y[::-1, :2]
    bank = calibrate(made(0.1 * y + 0.3), method="paper")
    stretched = np.clip((y - y.min()) / np.ptp(y), 1e-6, 1 - 1e-6)
    theta = logit(stretched.mean(axis=1))
    mean = y.mean(axis=0)
    difficulty = -logit(0.001 + 0.998 * (mean - mean.min()) / np.ptp(mean))
    mu = expit(theta[:, None] - difficulty)[:, 2:]
    assert np.flatnonzero(~bank.kept).tolist() == [0, 1]
    k = ((stretched[:, 2:] - mu) ** 2).sum() / (mu * (1 - mu)).sum()
    assert bank.constants["k"] == pytest.approx(k, rel=1e-9)
    assert bank.constants["start"] == pytest.approx(np.median(difficulty[2:]))


def test_the_misfit_is_how_much_squared_errors_exceed_their_stated_variances():
    """Normal errors, three times as large as stated: the squares are nine times as large."""
    errors, rng = ReplayErrors(), np.random.default_rng(0)
    for _ in range(400):
        truth, variance = rng.random(5), rng.choice([1e-4, 9e-4], 5)
        errors.add(truth + 3.0 * np.sqrt(variance) * rng.normal(size=5), variance, truth)
    assert errors.model_factor == pytest.approx(9.0, rel=0.1)
    assert errors.pair_factor == pytest.approx(9.0, rel=0.1)
    assert shrunk(9.0, n_models=4) == 5.0  # the mean of four models' 9 and four others' 1


def test_the_misfit_of_pairs_is_that_of_the_closest_third_and_of_all_as_close():
    errors = ReplayErrors()
    for gap, square in [(0.1, 1.0), (0.1, 3.0), (0.1, 5.0), (0.2, 50.0), (0.3, 50.0)]:
        truth = np.array([0.0, gap])
        estimate = np.array([0.0, gap + np.sqrt(square)])
        errors.add(estimate, np.array([0.4, 0.6]), truth)
    assert errors.pair_factor == pytest.approx(3.0)


@pytest.mark.long
def test_only_errors_are_widened_and_with_one_look_nothing_is(lacking, wrong):
    to = {"stop": "limits", "max_items": 45}
    every, one = (ranked(lacking, wrong[[4, 9]], looks=x, **to) for x in ("every", "one"))
    assert every.result().items == one.result().items
    assert every.result().abilities == one.result().abilities
    factor, paper = Misfit.of(lacking), one.verdicts.belief.variance
    wide = every.verdicts.belief.variance
    at = factor.n.index(45.0)
    np.testing.assert_allclose(wide.diagonal(), factor.single[at] * paper.diagonal())
    assert wide[0, 1] == pytest.approx(factor.pair[at] * paper[0, 1])
    assert paper[0, 1] == pytest.approx(sum(e * e for _, e in one.result().abilities.values()))


def test_a_bank_that_measured_nothing_has_the_usual_misfit(lacking, wrong):
    few = calibrate(made(wrong[:3]), method="paper")
    assert "misfit" not in few.constants and Misfit.of(few) is USUAL
    for broken in ({}, {**lacking.constants["misfit"], "pair": [0.5] * 5}):
        damaged = replace(lacking, constants={**lacking.constants, "misfit": broken})
        with pytest.raises(BankError, match="misfit"):
            Ranker(damaged, {"m": 1.0})


# -- items -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("mu", "k"), [(0.2, 0.5), (0.5, 1.0), (0.93, 0.1)])
def test_the_information_is_that_of_a_normal_score_about_its_mean_and_variance(mu, k):
    """The mean square of the derivative of its log density, by Gauss and Hermite."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(40)
    ability, step = logit(mu), 1e-4

    def log_density(theta, y):
        mean = expit(theta)
        return norm.logpdf(y, mean, np.sqrt(k * mean * (1.0 - mean)))

    y = mu + np.sqrt(k * mu * (1.0 - mu)) * nodes
    slope = (log_density(ability + step, y) - log_density(ability - step, y)) / (2.0 * step)
    expected = weights @ slope**2 / weights.sum()
    assert information(mu, k, full=True) == pytest.approx(expected, rel=1e-5)


def test_an_item_that_goes_neither_with_nor_against_ability_stays():
    scores = np.array([[0.0, 0.0, 0.9, 0.1], [0.5, 0.5, 0.1, 0.9], [1.0, 1.0, 0.9, 0.1]])
    table = made(scores[:, [0, 1, 2, 3]])
    abilities = logit(scores.mean(axis=1))
    for item in (2, 3):
        assert np.corrcoef(abilities, scores[:, item])[0, 1] == pytest.approx(0.0, abs=1e-12)
    assert calibrate(table, "paper").kept.all()

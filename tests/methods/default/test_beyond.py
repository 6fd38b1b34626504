"""The ability that scores speak for, also of models better or weaker than all that a bank knows."""

from dataclasses import fields, replace
from functools import cache

import numpy as np
import pytest
from artificial import world
from scipy.special import entr, logit, xlog1py, xlogy
from scipy.stats import norm

from lm_eval_ccat import Ranker, ScoreTable, calibrate
from lm_eval_ccat.methods.curves import AbilityBasis, Curves, fit_abilities, fit_intercepts
from lm_eval_ccat.methods.default.fit import model_of
from lm_eval_ccat.methods.default.fractional import FAR_SHARE, FAR_WIDTH
from lm_eval_ccat.methods.default.items import fit_items
from lm_eval_ccat.methods.default.member import ScorePosterior


def guessed(n_weak: int = 20, n_items: int = 300, seed: int = 3):
    """0/1 scores: weak models guess on two thirds of the items, and strong ones solve them too.

    What a strong model does on those items no weak one shows: their curves are flat.
    """
    rng = np.random.default_rng(seed)
    skill = np.append(rng.uniform(-1.5, 0.8, n_weak), np.linspace(1.2, 2.1, 4))[:, None]
    hard = np.where(np.arange(n_items) % 3 == 0, rng.normal(-0.5, 1.0, n_items), 1.8)
    solved = 1.0 / (1.0 + np.exp(-2.0 * (skill - hard)))
    scores = (rng.random(solved.shape) < 0.25 + 0.75 * solved).astype(float)
    return ScoreTable.from_arrays(scores, [f"m{j}" for j in range(len(skill))])


STRONG = [f"m{j}" for j in range(20, 24)]


@pytest.fixture(scope="module")
def table():
    return guessed()


@pytest.fixture(scope="module")
def items(table):
    return fit_items(table.without(STRONG).model_scores()).items


@pytest.mark.parametrize("end", ["low", "high"])
def test_beyond_the_bank_the_mean_grows_as_the_ability_does(items, end):
    edge = float(items.abilities.max() if end == "high" else items.abilities.min())
    sign = 1.0 if end == "high" else -1.0

    def mean(x: float) -> float:
        z = [x] + [0.0] * (items.n_dimensions - 1)
        return float(logit(items.curves(z, items.rows, items.noise)[0].mean()))

    for far in (0.1, 0.73, 2.0, 3.9):
        assert sign * (mean(edge + sign * far) - mean(edge)) == pytest.approx(far, abs=2e-3)


def test_slopes_are_those_of_the_curves_on_both_sides_of_an_edge(items):
    step, high = 1e-5, float(items.abilities.max())
    z = [0.3] * (items.n_dimensions - 1)
    for x in (high - 0.3, high + 0.31, high + 2.05, float(items.abilities.min()) - 0.5):
        (_, w, _, along), (above, *_), (below, *_) = (
            items.curves([x + d, *z], items.rows, items.noise) for d in (0.0, step, -step)
        )
        assert w * along == pytest.approx((above - below) / (2 * step), abs=1e-6)


def test_the_prior_of_an_ability_is_a_normal_with_a_wide_one_beside_it(items):
    def log_density(x: float) -> float:
        sd = items.prior_sd
        near, far = norm.pdf(x, scale=sd), norm.pdf(x, scale=FAR_WIDTH * sd)
        return float(np.log((1.0 - FAR_SHARE) * near + FAR_SHARE * far))

    for x in (0.1, 1.0, 3.0, 20.0):
        slope = (log_density(x + 1e-5) - log_density(x - 1e-5)) / 2e-5
        assert items.prior_precision_at(x) == pytest.approx(-slope / x, rel=1e-5)


def test_an_ability_stands_as_far_below_the_bank_as_another_does_above_it(items):
    low, high = float(items.abilities.min()), float(items.abilities.max())
    for far in (0.0, 0.4, 2.5):
        deviations = far / items.spread
        assert items.position(high + far) == pytest.approx(1.0 + deviations)
        assert items.position(low - far) == pytest.approx(-1.0 - deviations)
    assert items.position(0.5 * (low + high)) == pytest.approx(0.0)
    for x, sd in ((low - 0.2, 0.3), (0.5 * (low + high), 2.0), (high + 0.1, 0.5)):
        within = norm.cdf(high, x, sd) - norm.cdf(low, x, sd)
        assert items.outside(x, sd) == pytest.approx(1.0 - within)


def test_a_fit_ends_at_an_ability_and_not_between_two():
    """Fitting once more changes nothing; here steps used to go to and fro by 0.7 logits."""
    rng = np.random.default_rng(1)
    skill, ease = np.linspace(-4, 4, 20)[:, None], rng.normal(0, 1.5, 120)
    mu = 1 / (1 + np.exp(-(skill - ease) * rng.lognormal(0, 0.8, 120)))
    scores = rng.beta(0.5 * mu + 1e-3, 0.5 * (1 - mu) + 1e-3)
    items = fit_items(scores[:18]).items
    for j in (18, 19):
        posterior = ScorePosterior(items)
        for item in rng.permutation(120)[:40]:
            posterior.learn([int(item)], [float(scores[j, item])])
            before = posterior.z.copy()
            posterior._fit()
            assert posterior.z == pytest.approx(before, abs=1e-3)


@pytest.mark.long
@pytest.mark.parametrize("graded", [False, True])
def test_what_other_abilities_leave_open_is_their_sum(graded):
    """Half of the models guess, half know; of graded scores one ability remains."""
    rng = np.random.default_rng(1)
    chance = np.where(np.arange(80)[:, None] < 40, 0.25, rng.uniform(0.6, 0.95, (80, 1)))
    raw = (rng.random((80, 60)) < chance).astype(float)
    if graded:
        raw = rng.beta(15.0 * chance, 15.0 * (1.0 - chance), (80, 60))
    items, seen = fit_items(raw, factors=0).items, np.arange(6)
    y = np.array([0.7, 0.8, 0.6, 0.9, 0.5, 0.8] if graded else [1, 1, 0, 1, 0, 1.0])
    posterior = ScorePosterior(items)
    posterior.learn(seen.tolist(), y.tolist())
    # By the sum over a fine grid: prior of two normals, likelihood of each item's curve.
    low, high = items.abilities.min(), items.abilities.max()
    x = np.linspace(low - items.spread, high + items.spread, 2001)
    near = items.prior_sd
    weight = 0.6 / near * np.exp(-0.5 * (x / near) ** 2)
    weight += 0.1 / near * np.exp(-0.5 * (x / (4.0 * near)) ** 2)
    mean = np.empty(len(x))
    for g, at in enumerate(x.tolist()):
        mu, _, kappa, _ = items.curves([at], items.rows, items.noise)
        mean[g] = mu.mean()
        deviance = -2.0 * (xlogy(y, mu[seen]) + xlog1py(1.0 - y, -mu[seen]) + entr(y) + entr(1 - y))
        weight[g] *= np.exp(-0.5 * (deviance / kappa[seen] + np.log(kappa[seen])).sum())
    off = mean - posterior.mu.mean()
    want = weight @ off**2 / weight.sum()
    assert posterior.variance_over_abilities == pytest.approx(want, rel=0.1)
    states = posterior.states(seen)
    left = posterior.after(states.precision(states.weights)).variance
    assert not graded or want < 2.0 * left


def test_what_scores_say_nothing_of_stays_where_it_was():
    """Of a model its ability, and of an item its intercept."""
    basis = AbilityBasis.over(np.linspace(-2.0, 2.0, 30), 1)
    curves = Curves(
        np.tile([0.8, 1.0, 0.1], (20, 1)), np.full(20, 0.5), basis, centre=0.7, origin=0.0
    )
    scores = np.full((2, 20), np.nan)
    assert fit_abilities(curves, scores) == pytest.approx([0.7, 0.7])
    scores[0, :10] = 1.0
    abilities = fit_abilities(curves, scores)
    assert abilities[0] > 0.8 and abilities[1] == pytest.approx(0.7)
    intercept, _ = fit_intercepts(curves, abilities, scores)
    assert (intercept[:10] > 0.81).all() and intercept[10:] == pytest.approx(0.8)


USUAL = world(16, 200)


@cache
def usual_bank():
    return calibrate(USUAL.without(["m0", "m8", "m14", "m15"]))


@pytest.mark.long
def test_items_are_drawn_from_the_sixth_on_for_a_model_better_or_worse_than_the_bank():
    """For one of the bank's kind they are chosen until the tenth."""
    bank, usual = usual_bank(), USUAL.select(["m8"]).model_scores()[0]
    for scores, n_chosen in ((np.ones(200), 5), (np.zeros(200), 5), (usual, 10)):
        drawn = drawn_first(11, bank, scores)
        assert drawn == [False] * n_chosen + [True] * (11 - n_chosen)


def drawn_first(n, bank, scores):
    """Whether each of the first items of a new model is drawn."""
    ranker, drawn = Ranker(bank, ["new"], stop="limits"), []
    for _ in range(n):
        [(_, item)] = ranker.ask(1)
        drawn.append(ranker.probability("new", item) is not None)
        ranker.tell("new", item, float(scores[int(item)]))
    return drawn


@pytest.mark.long
def test_beyond_the_bank_all_items_but_ten_are_drawn_whatever_share_the_bank_states():
    bank = replace(usual_bank(), constants={**usual_bank().constants, "draws": 0.5})
    assert sum(drawn_first(30, bank, np.ones(200))) == 20


@pytest.mark.long
@pytest.mark.parametrize(("score", "side"), [(1.0, "better"), (0.0, "worse")])
def test_a_model_beyond_the_bank_is_called_better_or_worse_as_its_scores_are(score, side):
    ranker = Ranker(usual_bank(), ["new"], stop="limits")
    for item in range(12):
        ranker.tell("new", item, score)
    assert [finding.split(":")[0] for finding in ranker.result().findings["new"]] == [
        f"may score {side} than every model of the bank"
    ]


@pytest.mark.long
def test_a_model_whose_draws_depart_from_what_the_bank_expects_is_said_to_be_unlike_it():
    usual = USUAL.select(["m8"]).model_scores()[0]
    for departure in (0.0, -0.4):
        ranker = Ranker(usual_bank(), ["new"], stop="limits", max_items=100)
        for n in range(100):
            [(_, item)] = ranker.ask(1)
            # The first ten items are chosen: draws alone may depart.
            moved = usual[int(item)] + (departure if n >= 10 else 0.0)
            ranker.tell("new", item, float(np.clip(moved, 0.0, 1.0)))
        said = " ".join(ranker.result().findings.get("new", ()))
        assert ("is unlike the models of the bank" in said) == (departure != 0.0)
        assert (" less than the bank expects" in said) == (departure < 0.0)


def test_what_a_model_shows_on_some_items_of_a_kind_is_expected_on_the_others():
    """Regressed on it, true chances beyond those by the ability alone have a slope near 1."""
    rng = np.random.default_rng(0)
    ability, kind = rng.normal(size=(2, 70, 1))
    predictor = ability + rng.normal(size=150) + kind * rng.normal(size=150)
    chances = 1.0 / (1.0 + np.exp(-predictor))
    scores = 1.0 * (rng.random(chances.shape) < chances)
    even = np.arange(0, 150, 2)

    def expected(factors):
        items = fit_items(scores[:60], factors=factors).items
        for row in scores[60:]:
            posterior = ScorePosterior(items)
            posterior.learn(even.tolist(), row[even].tolist())
            yield posterior.mu[1::2]

    by_ability, by_kind = (np.array([*expected(factors)]) for factors in (0, 1))
    found, true = (x - by_ability for x in (by_kind, chances[60:, 1::2]))
    assert 0.8 < (found * true).sum() / (found * found).sum() < 1.6


def test_before_any_score_an_ability_is_as_unsure_as_its_prior(items):
    assert ScorePosterior(items).covariance[0, 0] == pytest.approx(items.prior_sd**2)


@pytest.mark.long
def test_a_bank_is_read_as_it_was_fitted():
    table = world(12, 60, seed=2, second_skill=1.0)
    fitted, read = fit_items(table.model_scores()).items, model_of(calibrate(table)).items
    for field in fields(fitted):
        value = getattr(fitted, field.name)
        if isinstance(value, float | np.ndarray):
            assert getattr(read, field.name) == pytest.approx(value, abs=1e-6), field.name


def test_items_have_a_score_once_they_are_told(items):
    posterior = ScorePosterior(items)
    posterior.learn([3, 7], [0.0, 1.0])
    assert np.flatnonzero(posterior.has_score).tolist() == [3, 7]

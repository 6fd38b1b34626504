"""Models better, or weaker, than all that a bank knows."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import logit
from scipy.stats import norm

from lm_eval_ccat import ScoreTable, calibrate
from lm_eval_ccat.methods.default.calibration import model_of
from lm_eval_ccat.methods.default.fractional import FAR_SHARE, FAR_WIDTH
from lm_eval_ccat.methods.default.items import fit_items
from lm_eval_ccat.methods.default.posterior import ScorePosterior


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
def bank(table):
    return calibrate(table.without(STRONG))


@pytest.fixture(scope="module")
def items(bank):
    return model_of(bank).items


@pytest.mark.parametrize("end", ["low", "high"])
def test_beyond_the_bank_the_mean_grows_as_the_ability_does(items, end):
    edge = float(items.abilities.max() if end == "high" else items.abilities.min())
    sign = 1.0 if end == "high" else -1.0

    def mean(x: float) -> float:
        z = np.zeros(items.n_dimensions)
        z[0] = x
        return float(logit(items.expected(z).mean()))

    for far in (0.1, 0.73, 2.0, 3.9):
        assert sign * (mean(edge + sign * far) - mean(edge)) == pytest.approx(far, abs=2e-3)


def test_slopes_are_those_of_the_curves_on_both_sides_of_an_edge(items):
    step, high = 1e-5, float(items.abilities.max())
    z = [0.3] * (items.n_dimensions - 1)
    for x in (high - 0.3, high + 0.31, high + 2.05, float(items.abilities.min()) - 0.5):
        mu, w, _, along = items.curves([x, *z], items.rows, items.noise)
        above, below = (items.expected(np.array([x + d, *z])) for d in (step, -step))
        assert w * along == pytest.approx((above - below) / (2 * step), abs=1e-6)
        assert mu == pytest.approx(items.expected(np.array([x, *z])))


def test_the_prior_of_an_ability_is_a_normal_with_a_wide_one_beside_it(items):
    def log_density(x: float) -> float:
        sd = items.prior_sd
        near, far = norm.pdf(x, scale=sd), norm.pdf(x, scale=FAR_WIDTH * sd)
        return float(np.log((1.0 - FAR_SHARE) * near + FAR_SHARE * far))

    for x in (0.1, 1.0, 3.0, 20.0):
        slope = (log_density(x + 1e-5) - log_density(x - 1e-5)) / 2e-5
        assert items.prior_precision_at(x) == pytest.approx(-slope / x, rel=1e-5)


def test_strong_models_are_not_held_down_by_what_weak_ones_guessed(table, items):
    """What the curves alone make of random items; carried on as they end, they are 0.14 too low."""
    rng, error = np.random.default_rng(5), []
    for scores in table.select(STRONG).model_scores():
        for _ in range(25):
            posterior = ScorePosterior(items)
            at = rng.permutation(len(scores))[:60]
            posterior.learn(at.tolist(), scores[at].tolist())
            error.append(posterior.estimate - scores.mean())
    assert abs(np.mean(error)) < 0.025


def test_an_item_that_nobody_solves_is_as_noisy_as_the_others():
    """0/1 scores have a noise of 1, whether or not weak models show it."""
    rng = np.random.default_rng(5)
    eta = rng.normal(-5.0, 1.0, 120)[:, None] - rng.normal(0.0, 1.5, 400)
    scores = (rng.random(eta.shape) < 1.0 / (1.0 + np.exp(-eta))).astype(float)
    noise, solved = fit_items(scores).items.noise, scores.sum(axis=0)
    assert (solved == 0).sum() > 40 and (solved > 5).sum() > 40
    assert 0.5 < noise[solved == 0].min() and noise.max() < 2.0

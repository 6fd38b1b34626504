"""The ability that a model's scores speak for."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import entr, xlog1py, xlogy

from lm_eval_ccat import ScoreTable, calibrate
from lm_eval_ccat.methods.default.calibration import model_of
from lm_eval_ccat.methods.default.posterior import ScorePosterior


def test_a_fit_ends_at_an_ability_and_not_between_two():
    """Fitting once more changes nothing; here steps used to go to and fro by 0.7 logits."""
    rng = np.random.default_rng(1)
    skill, ease = np.linspace(-4, 4, 20)[:, None], rng.normal(0, 1.5, 120)
    mu = 1 / (1 + np.exp(-(skill - ease) * rng.lognormal(0, 0.8, 120)))
    scores = rng.beta(0.5 * mu + 1e-3, 0.5 * (1 - mu) + 1e-3)
    table = ScoreTable.from_arrays(scores, [f"m{i}" for i in range(20)])
    bank = calibrate(table.select([f"m{i}" for i in range(18)]))
    model = model_of(bank)
    for j in (18, 19, 0, 5, 10):
        posterior = ScorePosterior(model.items)
        for item in rng.permutation(120)[:40]:
            posterior.learn([int(item)], [float(scores[j, item])])
            before = posterior.z.copy()
            posterior._fit()
            assert posterior.z == pytest.approx(before, abs=1e-3)


@pytest.mark.parametrize("graded", [False, True])
def test_what_other_abilities_leave_open_is_their_sum(graded):
    """Half of the models guess, half know; of graded scores one ability remains."""
    rng = np.random.default_rng(1)
    chance = np.where(np.arange(80)[:, None] < 40, 0.25, rng.uniform(0.6, 0.95, (80, 1)))
    raw = (rng.random((80, 60)) < chance).astype(float)
    if graded:
        raw = rng.beta(15.0 * chance, 15.0 * (1.0 - chance), (80, 60))
    items = model_of(
        calibrate(ScoreTable.from_arrays(raw, [*map(str, range(80))]), factors=0)
    ).items
    seen = list(range(6))
    y = np.array([0.7, 0.8, 0.6, 0.9, 0.5, 0.8] if graded else [1, 1, 0, 1, 0, 1.0])
    posterior = ScorePosterior(items)
    posterior.learn(seen, y.tolist())
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
    off = mean - items.expected(posterior.z).mean()
    want = weight @ off**2 / weight.sum()
    assert posterior.elsewhere == pytest.approx(want, rel=0.1)
    assert not graded or want < 2.0 * posterior.open_after(seen)

"""Random draws find out what the response model misses of one model."""

from __future__ import annotations

import numpy as np
import pytest

from lm_eval_ccat import Ranker, ScoreTable, calibrate
from lm_eval_ccat.methods.default.probe import Probe


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


def run(bank, scores, n):
    ranker = Ranker(bank, {"m": 1.0}, max_items=n, seed=1)
    while not ranker.done:
        for model, item in ranker.ask():
            ranker.tell(model, item, scores[item])
    result = ranker.result()
    return result.estimates["m"] - scores.mean(), result.standard_errors["m"], result.items["m"]


def test_the_error_falls_where_selected_items_alone_would_not_show_it():
    table = world(0)
    selected_only, error, z, share_dull = [], [], [], []
    for j in range(6):
        name = f"m{j}"
        rest, scores = table.without([name]), table.select([name]).unit[0]
        without_misfit = calibrate(rest, factors=0, inflation=False)  # such a bank never draws
        selected_only.append(run(without_misfit, scores, 140)[0])
        e, se, items = run(calibrate(rest, factors=0), scores, 140)
        error.append(e)
        z.append(e / se)
        share_dull.append(np.mean(np.array(items) % 2 == 0))
    rms = [float(np.sqrt(np.mean(np.square(e)))) for e in (selected_only, error, z)]
    assert rms[1] < 0.6 * rms[0]
    assert 0.3 < rms[2] < 1.8
    assert np.mean(share_dull) > 0.2  # the draws reach the items selection does not like


def test_models_of_one_ranking_draw_the_same_items():
    table = world(1)
    bank = calibrate(table.without(["m0", "m1"]), factors=0)
    ranker = Ranker(bank, {"m0": 1.0, "m1": 1.0}, max_items=120, stop_when_decided=False)
    scores = {m: table.select([m]).unit[0] for m in ("m0", "m1")}
    while not ranker.done:
        for model, item in ranker.ask(4):
            ranker.tell(model, item, scores[model][item])
    a, b = (set(v) for v in ranker.result().items.values())
    assert len(a & b) > 0.5 * len(a)


def test_a_bank_without_misfit_draws_nothing():
    probe = Probe(np.arange(5), 0.0)
    assert probe.worth(0, 0.1) == 0.0 and probe.departure == 0.0 and probe.variance == 0.0


def test_the_posterior_of_the_departure():
    m, spread, q = 0.01, 0.04, 8
    probe = Probe(np.arange(20), m)
    free = np.ones(20, dtype=bool)
    worth = 0.0
    for _ in range(q):
        worth += probe.worth(0, spread)
        item = probe.draw(free)
        free[item] = False
        probe.learn(item)
    probe.measure(np.full(q, 0.1), spread)
    # Independent figures: normal prior, normal mean of q residuals.
    assert probe.variance == pytest.approx(1.0 / (1.0 / m + q / spread))
    assert probe.departure == pytest.approx(0.1 * m / (m + spread / q))
    assert worth == pytest.approx(m - probe.variance)
    assert probe.influence * q * 0.1 == pytest.approx(probe.departure)

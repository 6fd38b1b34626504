"""The ability that a model's scores speak for."""

from __future__ import annotations

import numpy as np
import pytest

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

"""Simulated benchmarks from a generator that is not the response model.

Scores come from a beta distribution around a probit curve with floors, a latent second skill and
items of very different noise: nothing the fractional logit model can match exactly.
"""

import numpy as np
from scipy.special import ndtr

from lm_eval_ccat import ScoreTable


def world(
    n_models: int,
    n_items: int,
    seed: int = 0,
    *,
    binary: bool = False,
    second_skill: float = 0.3,
    top: float = 2.0,
) -> ScoreTable:
    """A score table; models are named m0 (weakest) upwards."""
    rng = np.random.default_rng(seed)
    skill = np.sort(rng.uniform(-1.5, top, n_models))[:, None]
    other = second_skill * rng.normal(size=(n_models, 1))
    slope = np.exp(0.4 * rng.normal(size=n_items))
    ease = rng.normal(size=n_items)
    kind = rng.normal(size=n_items)
    floor = 0.1 * rng.random(n_items)
    mean = floor + (1.0 - floor) * ndtr(0.6 * (slope * skill + ease + kind * other))
    if binary:
        scores = (rng.random(mean.shape) < mean).astype(float)
    else:
        size = np.exp(rng.normal(1.5, 0.7, n_items))
        scores = rng.beta(mean * size, (1.0 - mean) * size)
    return ScoreTable.from_arrays(scores, models=[f"m{i}" for i in range(n_models)])


def held_out(table: ScoreTable, names: list[str]) -> tuple[ScoreTable, dict[str, np.ndarray]]:
    """The calibration table, and the scores of the models held out."""
    kept = table.select(names).model_scores()
    return table.without(names), dict(zip(names, kept))

"""Synthetic benchmarks whose truth is known: what a method does when its model is true, and not."""

from __future__ import annotations

import numpy as np
from scipy.special import expit

from lm_eval_ccat.errors import UsageError
from lm_eval_ccat.scores import ScoreTable

#: Name of each world, and what is true in it.
WORLDS = {
    "true": "one ability, items of different ease, slope and noise: the response model holds",
    "dimension": "a second skill that half of the items need as well",
    "heteroskedastic": "noise that differs between models and items by factors",
    "contaminated": "some models have seen some items and answer those well",
    "frontier": "the response model holds; for folds in which the best third is new",
}


def world(kind: str, n_models: int = 30, n_items: int = 800, seed: int = 0) -> ScoreTable:
    """Draw a score table.

    Parameters
    ----------
    kind : str
        One of `WORLDS`.
    n_models, n_items, seed : int, optional

    Returns
    -------
    ScoreTable
        Models ``m0`` (weakest ability) upwards, in an order that says nothing.

    Raises
    ------
    UsageError
        Unknown kind.

    Examples
    --------
    >>> world("true", 5, 20).model_scores().shape
    (5, 20)
    """
    if kind not in WORLDS:
        raise UsageError(f"no world {kind!r}; there are {', '.join(WORLDS)}")
    rng = np.random.default_rng([seed, *kind.encode()])
    ability = np.sort(rng.uniform(-1.5, 1.5, n_models))[:, None]
    eta = np.exp(0.3 * rng.normal(size=n_items)) * ability + rng.normal(size=n_items)
    # Precision of a beta score: items differ, as judges and lengths make them.
    size = np.exp(rng.normal(2.0, 0.5, n_items)) * np.ones((n_models, 1))
    if kind == "dimension":
        needs = rng.random(n_items) < 0.5
        eta = eta + 0.7 * rng.normal(size=(n_models, 1)) * needs
    if kind == "heteroskedastic":
        size = size * np.exp(0.7 * rng.normal(size=(n_models, n_items)))
        size = size * np.exp(0.5 * rng.normal(size=(n_models, 1)))
    if kind == "contaminated":
        cheats = rng.random((n_models, 1)) < 0.3
        eta = eta + 3.0 * (cheats & (rng.random(n_items) < 0.15))
    mean = np.clip(expit(eta), 1e-3, 1.0 - 1e-3)
    scores = rng.beta(mean * size, (1.0 - mean) * size)
    names = [f"m{k}" for k in range(n_models)]
    order = rng.permutation(n_models)
    return ScoreTable.from_arrays(scores[order], models=[names[k] for k in order])

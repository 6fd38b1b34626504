"""What makes calibration scores doubtful is said, and only then."""

import numpy as np
import pytest

from lm_eval_ccat.methods.calibration import _error_of_means, observations_of, table_warnings
from lm_eval_ccat.metrics import Scale
from lm_eval_ccat.scores import ScoreTable

SPREAD, PERCENT = np.linspace(-1, 1, 12), Scale(0, 100)


@pytest.mark.parametrize(
    ("skills", "changes", "words"),
    [
        (SPREAD, {}, []),
        (np.linspace(-1, 1, 5), {}, ["only 5 models"]),
        (np.zeros(12), {"scale": PERCENT}, ["hardly differ"]),
        # On the metric's own scale.
        (0.08 * SPREAD, {"n_items": 4000, "noise": 0.01, "scale": PERCENT}, ["only run from 4"]),
        (np.linspace(-7, -4, 12), {"noise": 0.0}, ["too hard"]),
        (np.linspace(4, 7, 12), {"noise": 0.0}, ["too easy"]),
        (SPREAD, {"twice": 3}, ["equal scores on every item: m3 and m12;"]),
    ],
)
def test_what_is_doubtful_is_said_and_nothing_else(skills, changes, words):
    known = {"n_items": 300, "noise": 0.1, "scale": Scale(), "twice": None, **changes}
    rng = np.random.default_rng(0)
    eta = skills[:, None] + rng.normal(size=known["n_items"])
    scores = np.clip(1 / (1 + np.exp(-eta)) + known["noise"] * rng.normal(size=eta.shape), 0, 1)
    if known["twice"] is not None:
        scores = np.vstack([scores, scores[known["twice"]]])
    names = [f"m{n}" for n in range(len(scores))]
    raw = known["scale"].restore(scores)
    warnings = table_warnings(ScoreTable.from_arrays(raw, names, scale=known["scale"]))
    assert len(warnings) == len(words) or "too" in words[0]
    assert all(w in " ".join(warnings) for w in words)


@pytest.mark.parametrize("n_models", [3, 12])
def test_the_error_of_a_mean_is_that_of_what_models_and_items_leave(n_models):
    """Noise of .1 on 2,000 items, beside models and items that differ by far more."""
    rng = np.random.default_rng(0)
    scores = 0.5 + np.linspace(-0.2, 0.2, n_models)[:, None] + rng.uniform(-0.2, 0.2, 2000)
    raw = np.clip(scores + 0.1 * rng.uniform(-1, 1, scores.shape) * 3**0.5, 0.0, 1.0)
    table = ScoreTable.from_arrays(raw, [f"m{n}" for n in range(n_models)])
    found = _error_of_means(table, table.overview.model_mean)
    assert found == pytest.approx(0.1 / 2000**0.5, rel=0.06)


def test_kept_scores_say_of_which_config_and_of_how_many_items_they_are():
    raw = np.array([[0.1, 0.2, 0.3], [0.4, np.nan, 0.6]])
    table = ScoreTable.from_arrays(raw, ["a", "a"], configs=["cold", "warm"])
    found = [(one.config, one.chosen, one.items.tolist()) for one in observations_of(table)]
    assert found == [("cold", "all", [0, 1, 2]), ("warm", "first", [0, 2])]

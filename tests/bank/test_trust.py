"""What makes calibration scores doubtful is said, and only then."""

import numpy as np
import pytest

from lm_eval_ccat.methods.calibration import table_warnings
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

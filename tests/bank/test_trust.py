"""What makes calibration scores doubtful is said, and only then."""

from __future__ import annotations

import numpy as np
import pytest

from lm_eval_ccat.methods.calibration import table_warnings
from lm_eval_ccat.metrics import Scale
from lm_eval_ccat.scores import ScoreTable


def made(skills, n_items=300, noise=0.1, seed=0, scale=None):
    rng = np.random.default_rng(seed)
    eta = np.asarray(skills)[:, None] + rng.normal(size=n_items)[None]
    scores = np.clip(1 / (1 + np.exp(-eta)) + noise * rng.normal(size=eta.shape), 0, 1)
    scale = scale or Scale()
    return ScoreTable.from_arrays(
        scale.restore(scores), models=[f"m{n}" for n in range(len(skills))], scale=scale
    )


SPREAD, PERCENT = np.linspace(-1, 1, 12), Scale(0, 100)


@pytest.mark.parametrize(
    ("table", "words"),
    [
        (made(SPREAD), []),
        (made(np.linspace(-1, 1, 5)), ["only 5 models"]),
        (made(np.zeros(12), scale=PERCENT), ["hardly differ"]),
        # On the metric's own scale.
        (made(0.08 * SPREAD, 4000, 0.01, scale=PERCENT), ["only run from 4"]),
        (made(np.linspace(-7, -4, 12), noise=0.0), ["too hard"]),
        (made(np.linspace(4, 7, 12), noise=0.0), ["too easy"]),
    ],
)
def test_what_is_doubtful_is_said_and_nothing_else(table, words):
    warnings = table_warnings(table)
    assert len(warnings) == len(words) or "too" in words[0]
    assert all(w in " ".join(warnings) for w in words)


def test_one_model_under_two_names_is_warned_of():
    table = made(SPREAD)
    twice = ScoreTable.from_arrays(np.vstack([table.raw, table.raw[3]]), [*table.models, "copy"])
    (warning,) = table_warnings(twice)
    assert warning.startswith("equal scores on every item: m3 and copy;")

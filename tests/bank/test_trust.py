"""What makes calibration scores doubtful is said, and only then."""

from __future__ import annotations

import numpy as np

from lm_eval_ccat.methods.trust import table_warnings
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


def test_a_sound_table_gets_no_warning():
    assert table_warnings(made(np.linspace(-1, 1, 12))) == []


def test_few_models_are_warned_of():
    (warning,) = table_warnings(made(np.linspace(-1, 1, 5)))
    assert warning.startswith("only 5 models")


def test_models_that_hardly_differ_are_warned_of_on_the_metrics_own_scale():
    (warning,) = table_warnings(made(np.zeros(12), scale=Scale(0, 100)))
    assert "hardly differ" in warning
    (narrow,) = table_warnings(made(np.linspace(-0.08, 0.08, 12), 4000, 0.01, scale=Scale(0, 100)))
    assert "only run from" in narrow and "from 4" in narrow


def test_a_benchmark_out_of_reach_is_warned_of():
    assert any("too hard" in w for w in table_warnings(made(np.linspace(-7, -4, 12), noise=0.0)))
    assert any("too easy" in w for w in table_warnings(made(np.linspace(4, 7, 12), noise=0.0)))


def test_one_model_under_two_names_is_warned_of():
    table = made(np.linspace(-1, 1, 12))
    raw = np.vstack([table.raw, table.raw[3]])
    twice = ScoreTable.from_arrays(raw, models=[*table.models, "copy"])
    (warning,) = table_warnings(twice)
    assert warning.startswith("equal scores on every item: m3 and copy;")

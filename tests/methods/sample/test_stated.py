"""Errors stated after few items: true of scores that all look alike so far."""

from __future__ import annotations

import numpy as np
import pytest

from lm_eval_ccat import ItemBank, Ranker
from lm_eval_ccat.ranker import Ranking

N_ITEMS = 1000


def crowding(seed: int, end: float = 1.0) -> np.ndarray:
    """Scores of two models: within a thousandth of an end of the scale, but for 3% of the items."""
    rng = np.random.default_rng(seed)
    y = 1e-3 * rng.random((2, N_ITEMS))
    for model in (0, 1):
        y[model, rng.choice(N_ITEMS, 30, replace=False)] = 1.0
    return y if end == 0.0 else 1.0 - y


def ranked(y: np.ndarray, n: int, seed: int) -> tuple[Ranking, Ranker]:
    ranker = Ranker(
        ItemBank.blank(range(y.shape[1]), task="t", metric="acc"),
        {"a": 1.0, "b": 1.0},
        max_items=n,
        seed=seed,
    )
    while not ranker.done:
        for model, item in ranker.ask(2):
            ranker.tell(model, item, float(y["ab".index(model), item]))
    return ranker.result(), ranker


@pytest.mark.parametrize("end", [0.0, 1.0])
@pytest.mark.parametrize("n", [10, 25])
def test_scores_that_crowd_an_end_leave_room_for_those_that_do_not(n, end):
    z, gaps, outside = [], [], 0
    for seed in range(50):
        y = crowding(seed, end)
        found, ranker = ranked(y, n, seed)
        truth = y.mean(axis=1)
        error = np.array([found.estimates[m] for m in "ab"]) - truth
        z.extend(error / [found.standard_errors[m] for m in "ab"])
        gaps.append((error[0] - error[1]) / np.sqrt(ranker.differences().variance[0, 1]))
        for m, mean in zip("ab", truth):
            low, high = found.interval(m)
            outside += not low <= mean <= high
    assert 0.3 < np.sqrt(np.mean(np.square(z))) < 1.3  # 25 and more without room for them
    assert 0.3 < np.sqrt(np.mean(np.square(gaps))) < 1.3
    assert outside == 0


def test_narrow_scores_within_the_scale_are_taken_at_their_word():
    rng = np.random.default_rng(1)
    found, _ = ranked(np.clip(rng.normal(0.93, 0.01, (2, N_ITEMS)), 0.0, 1.0), 10, 0)
    assert found.standard_errors["a"] < 0.006


def test_decisions_are_those_of_the_sequence_alone():
    """What is imagined for stated errors widens no bound: half the interval is the same."""
    y = 1.0 - 1e-3 * np.random.default_rng(3).random((2, N_ITEMS))
    _, ranker = ranked(y, 40, 3)
    stated = np.sqrt(ranker.differences().variance[0, 1])
    order = [int(i) for i in ranker.result().items["a"]]
    d = y[0, order] - y[1, order]
    of_one = (((d - d.mean()) ** 2).sum() + 0.5 * np.abs(d).max() ** 2) / (len(d) - 1)
    of_mean = of_one / len(d) * (1 - len(d) / N_ITEMS)
    # Robbins' mixture, as docs/sample.md has it, tightest at 60 items.
    log = np.log(1 / 0.05**2)
    rt = of_one / of_mean * (log + np.log(log + 1)) / 60
    half = np.sqrt(of_mean * (rt + 1) / rt * np.log((rt + 1) / 0.05**2))
    assert ranker.critical(0.05)[0, 1] * stated == pytest.approx(half, rel=1e-9)
    assert stated > 10 * np.sqrt(of_mean)

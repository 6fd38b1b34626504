"""Errors of a mean over tasks, by the models that banks were left without."""

from __future__ import annotations

import numpy as np
import pytest

from lm_eval_ccat import Ranker, ScoreTable, calibrate
from lm_eval_ccat.ranker.weighted import PRIOR, USUAL, Replays

NAMES = [f"m{i}" for i in range(24)]


def bank_of(seed: int, skill: np.ndarray):
    rng = np.random.default_rng(seed)
    p = 1.0 / (1.0 + np.exp(-skill[:, None] - rng.normal(size=60)))
    scores = (rng.uniform(size=p.shape) < p).astype(float)
    return calibrate(ScoreTable.from_arrays(scores, NAMES, task=f"t{seed}"))


@pytest.fixture(scope="module")
def banks():
    skill = np.random.default_rng(9).normal(size=len(NAMES))
    return [bank_of(seed, skill) for seed in (0, 1, 2)]


def test_the_mean_of_a_task_and_the_same_task_again_is_no_surer_than_the_task(banks):
    once, twice = banks[0], Replays.of([banks[0], banks[0]])
    one = np.array([1.0, 0.0])
    alone, both = (twice.judged(w, None)[1] for w in (one, np.array([0.5, 0.5])))
    # The stated variance of the mean is half that of the task, its error is the same.
    df = twice.rows[:, 2, 0]
    assert both * (1.0 - 2.0 / df) == pytest.approx(2.0 * alone * (1.0 - 1.0 / df), rel=1e-6)
    ranker = Ranker({"a": once, "b": once}, ["x"], weights="equal", across=False)
    for task in "ab":
        for item in range(12):
            ranker.tell("x", (task, item), float(item % 2))
    found = ranker.result()
    least = found.tasks["a"].standard_errors["x"]
    early = alone[twice.n <= 10].mean()
    assert found.standard_errors["x"] > 0.85 * least * min(early, 1.0) ** 0.5


def test_errors_that_have_nothing_in_common_are_those_of_a_sum_by_hand(banks):
    replays, w = Replays.of(banks), np.array([0.5, 0.3, 0.2])
    squares, ratios = replays.judged(w, None)
    for k, n in enumerate(replays.n):
        for m, name in enumerate(_left_out(banks[0])):
            rows = [_left_out(b)[name][str(int(n))] for b in banks]
            error = sum(x * row[0] for x, row in zip(w, rows))
            variance = sum(x * x * row[1] for x, row in zip(w, rows))
            df = variance**2 / sum((x * x * row[1]) ** 2 / row[2] for x, row in zip(w, rows))
            assert squares[k, m] == pytest.approx(error**2)
            assert ratios[k, m] == pytest.approx(error**2 / variance * (1.0 - 2.0 / df))
    _, late = replays.factors(w, None)
    n = ratios.shape[1]
    by_model = ratios[replays.n > 10].mean(axis=0)
    assert late == pytest.approx(max((by_model.sum() + PRIOR * USUAL) / (n + PRIOR), 1.0))


def _left_out(bank):
    return bank.provenance["report"]["left_out"]


def test_banks_that_left_out_other_models_say_nothing(banks):
    skill = np.linspace(-1.0, 1.0, 3)
    rng = np.random.default_rng(4)
    few = ScoreTable.from_arrays(rng.uniform(size=(3, 60)) + 0.0 * skill[:, None], NAMES[:3])
    assert Replays.of([banks[0], calibrate(few)]) is None
    assert Replays.of(banks[:1]) is None


@pytest.mark.parametrize(("share", "gains"), [(0.5, True), (0.0, False), (-0.5, False)])
def test_a_prior_across_tasks_is_used_where_the_models_left_out_gained_by_it(share, gains):
    rng, n_models = np.random.default_rng(2), 20
    rows = np.ones((2, 7, 2, n_models))
    rows[:, 0] = rng.normal(size=(2, 2, n_models))

    class Prior:
        """Takes away a share of each error."""

        def refresh(self) -> None:
            self.stop = iter(rows)

        def together(self, x, s):
            return np.zeros((n_models, 2, 2)), -share * next(self.stop)[0].T

    replays = Replays(np.array([5.0, 10.0]), rows)
    assert replays.gains(np.array([0.5, 0.5]), Prior()) is gains

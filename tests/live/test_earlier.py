"""Full results that a run takes over: the mean of known models over several tasks."""

from __future__ import annotations

import numpy as np
import pytest

from lm_eval_ccat import ItemBank, ScoreTable
from lm_eval_ccat.bank.outcome import Outcome
from lm_eval_ccat.live.earlier import known_means
from lm_eval_ccat.live.spec import Spec


def test_the_error_of_a_weighted_mean_of_tasks_is_that_of_a_sum_of_independent_means(tmp_path):
    rng, weights = np.random.default_rng(3), {"first": 3.0, "second": 1.0}
    scores = {"first": rng.random(40), "second": rng.random(25)}
    measured = {}
    for task, row in scores.items():
        table = ScoreTable.from_arrays([row, row / 2], ["known", "other"], metric="acc", task=task)
        table.write(tmp_path / f"{task}.csv")
        bank = ItemBank.blank(range(len(row)), task=task, metric="acc")
        measured[task] = {"acc": Outcome.of(bank)}
    files = {task: str(tmp_path / f"{task}.csv") for task in scores}
    spec = Spec(known=files, question="population")
    means = known_means(spec, measured, ["new"], weights)
    assert means is not None
    mean, error, _ = means["known"]
    share = {"first": 0.75, "second": 0.25}
    assert mean == pytest.approx(sum(share[task] * scores[task].mean() for task in scores))
    variances = {task: scores[task].var(ddof=1) / len(scores[task]) for task in scores}
    assert error**2 == pytest.approx(
        sum(share[task] ** 2 * variances[task] for task in scores), rel=0.05
    )

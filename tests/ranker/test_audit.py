"""The audit's estimate holds when the response model is wrong, and says when it is."""

from __future__ import annotations

import numpy as np
import pytest

from lm_eval_ccat import Ranker, ScoreTable, calibrate
from lm_eval_ccat.ranker.audit import is_due


def world(seed: int = 0, n_items: int = 120):
    rng = np.random.default_rng(seed)
    skill = np.linspace(-1.5, 1.5, 12)[:, None]
    ease = rng.normal(size=n_items)
    noise = 0.4 * rng.normal(size=(12, n_items))
    scores = 1.0 / (1.0 + np.exp(-skill - ease - noise))
    bank = calibrate(ScoreTable.from_arrays(scores, [f"m{j}" for j in range(12)]), method="paper")
    usual = 1.0 / (1.0 + np.exp(-ease - 0.4 * rng.normal(size=n_items)))
    # An alien model: good where all others are bad. No ability in the bank describes it.
    alien = 1.0 / (1.0 + np.exp(1.5 * ease + 0.4 * rng.normal(size=n_items)))
    return bank, usual, alien


def run(bank, scores, *, audit: float, n: int, seed: int = 0):
    ranker = Ranker(bank, {"m": 1.0}, max_items=n, audit=audit, seed=seed)
    while not ranker.done:
        for model, item in ranker.ask(3):
            ranker.tell(model, item, scores[item])
    return ranker.result()


@pytest.mark.parametrize("which", ["usual", "alien"])
def test_unbiased_and_covering_whatever_the_model(which):
    bank, usual, alien = world()
    scores = {"usual": usual, "alien": alien}[which]
    truth = scores[bank.kept].mean()
    audits = [run(bank, scores, audit=0.4, n=40, seed=s).audits["m"] for s in range(150)]
    error = np.array([a.estimate - truth for a in audits])
    # Unbiased: the mean error is within three of its own standard errors.
    assert abs(error.mean()) < 3 * error.std() / np.sqrt(len(error))
    covered = np.mean([a.interval[0] <= truth <= a.interval[1] for a in audits])
    assert covered > 0.90
    assert all(a.n == 16 for a in audits)


def test_a_model_that_does_not_fit_the_bank_is_reported():
    bank, usual, alien = world()
    found = run(bank, alien, audit=0.4, n=40)
    assert not found.audits["m"].fits
    fine = run(bank, usual, audit=0.4, n=40)
    assert fine.audits["m"].fits
    assert fine.to_dict()["models"]["m"]["audit"]["n"] == 16


def test_no_audit_unless_asked_for():
    bank, usual, _ = world()
    assert run(bank, usual, audit=0.0, n=20).audits == {}


@pytest.mark.parametrize("share", [0.1, 0.25, 1 / 3, 0.5, 0.99])
def test_the_share_is_kept(share):
    due = [is_due(n, share) for n in range(1000)]
    assert sum(due) == pytest.approx(1000 * share, abs=1)


def test_the_estimate_is_that_of_the_difference_estimator_by_hand():
    bank, _, alien = world()
    ranker = Ranker(bank, {"m": 1.0}, max_items=40, audit=0.5)
    kept = [i for i in range(bank.n_items) if bank.kept[i]]
    had: list[int] = []
    values = []
    while len(values) < 8:
        before = ranker.expected("m")
        ((_, item),) = ranker.ask()
        if ranker.probability("m", item) is not None:
            left = [i for i in kept if i not in had]
            assert ranker.probability("m", item) == pytest.approx(1.0 / len(left))
            total = sum(alien[i] for i in had) + sum(before[i] for i in left)
            values.append((total + len(left) * (alien[item] - before[item])) / len(kept))
        had.append(item)
        ranker.tell("m", item, alien[item])
    found = ranker.result().audits["m"]
    assert found.n == 8 and found.estimate == pytest.approx(np.mean(values), abs=1e-12)
    assert found.standard_error == pytest.approx(np.std(values, ddof=1) / np.sqrt(8))

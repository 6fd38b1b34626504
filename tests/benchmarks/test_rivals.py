"""The rivals of `benchmarks/rivals.py`: what each estimates is known from outside."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"


@pytest.fixture(scope="module")
def rivals():
    before = list(sys.path)  # rivals.py adds its folder by itself
    yield SimpleNamespace(**runpy.run_path(str(BENCHMARKS / "rivals.py")))
    sys.path[:] = before


@pytest.fixture(scope="module")
def scores():
    rng = np.random.default_rng(2)
    chance = 1.0 / (1.0 + np.exp(-np.linspace(-1.5, 1.5, 40)[:, None] - rng.normal(size=200)))
    return (rng.random((40, 200)) < chance).astype(float)


@pytest.mark.long
def test_aipw_is_the_formula_of_its_paper(rivals, scores):
    """Mean score plus the difference of mean predictions over 1 + n / N, of N items left."""
    from sklearn.linear_model import Ridge

    new, sources = scores[[5, 30]], np.delete(scores, [5, 30], axis=0)
    at = np.random.default_rng(1).permutation(200)[:30]
    found = rivals.difference(sources, new, at)
    for own, estimate in zip(new, found):
        ridge = Ridge(alpha=10.0).fit(sources[:, at].T, own[at])
        predicted, left = ridge.predict(sources.T), np.setdiff1d(np.arange(200), at)
        weight = 1.0 / (1.0 + len(at) / len(left))
        expected = own[at].mean() + weight * (predicted[left].mean() - predicted[at].mean())
        assert estimate == pytest.approx(expected, abs=1e-9)


@pytest.mark.long
def test_faq_is_right_on_average_and_its_intervals_hold(rivals, scores):
    faq = rivals.Faq(scores[::2], 40)
    new = scores[1::8]
    found = [faq.estimate(new, seed) for seed in range(30)]
    error = np.array([mean - new.mean(axis=1) for mean, _ in found])
    stated = np.array([se for _, se in found])
    assert np.abs(error.mean(axis=0)).max() < 4.0 * error.std(axis=0).max() / 30**0.5
    assert 0.88 < np.mean(np.abs(error) < 1.96 * stated) <= 1.0


@pytest.mark.long
def test_every_method_is_measured_by_the_same_figures(rivals, scores, capsys):
    folds = rivals.rankings("far", [f"m{i}" for i in range(40)], scores, 2)
    sources, new = folds[0]
    assert scores[sources].mean() < new.mean() and len(sources) == 20 and len(folds) == 2
    found = rivals.compare(scores, folds, [20], faq=True)
    assert {m for m, _ in found} == {"default", "aipw", "random", "faq"}
    assert all(0.0 <= of["gap"] < 0.2 for of in found.values())
    rivals.show({"made": found}, "far")
    assert "faq" in capsys.readouterr().out


def test_right_decisions_are_counted_at_an_equal_share_of_wrong_ones(rivals):
    """A method that states its p too large loses nothing by that."""
    other = [np.array([0.01, 0.02, 0.03, -0.04, 0.2, 0.3])] * 3
    own = [np.array([0.10, 0.12, 0.14, 0.16, -0.5, -0.6])] * 3
    found = rivals.equal_share(own, other)
    assert found["wrong"] == pytest.approx(0.25) and found["theirs"] == pytest.approx(0.5)
    assert found["right"] == pytest.approx(4 / 6) and found["more"] == pytest.approx(1 / 6)
    assert found["more_wrong"] == pytest.approx(-1 / 6)  # its four surest are all right
    assert found["more_error"] == pytest.approx(0.0)

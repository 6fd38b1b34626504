"""Known models as fixed points, against the definitions written out."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm

from lm_eval_ccat import ItemBank, ScoreTable
from lm_eval_ccat.errors import UsageError
from lm_eval_ccat.ranker.known import KnownModels

BOARDS = settings(max_examples=40, deadline=None)


def policy(mean: float, error: float):
    """New model 0 at a mean with an error; locations are the means themselves."""
    return SimpleNamespace(
        fixed_points=lambda mean, se: (np.asarray(mean), np.asarray(se) ** 2),
        standing=lambda j: (mean, error**2),
        estimate=lambda j: (mean, error),
        location=lambda j: mean,
        probability=norm.cdf,
    )


def board(seed: int, n: int, errors: bool) -> tuple[dict, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    mean = rng.uniform(0.1, 0.9, n).round(2)  # some are equal
    error = rng.uniform(0.0, 0.06, n) if errors else np.zeros(n)
    names = {f"k{i}": (float(m), float(e), float(m)) for i, (m, e) in enumerate(zip(mean, error))}
    return names, mean, error


@BOARDS
@given(seed=st.integers(0, 10**6), n=st.integers(1, 12), errors=st.booleans(),
       at=st.floats(0.1, 0.9), se=st.sampled_from([0.0, 0.01, 0.05]))  # fmt: skip
def test_probabilities_and_what_is_equivalent(seed, n, errors, at, se):
    names, mean, error = board(seed, n, errors)
    new = policy(at, se)
    known = KnownModels(names, None, new, ["new"])
    p = known.better(new, 0)
    for i in range(n):
        spread = np.hypot(se, error[i])
        if spread > 0:
            assert p[i] == pytest.approx(norm.cdf((at - mean[i]) / spread))
            reach = norm.ppf(0.95) * spread
        else:
            assert p[i] == (1.0 if at > mean[i] else 0.0 if at < mean[i] else 0.5)
            reach = 0.0
        for wider, sure in ((1e-4, True), (-1e-4, False)):
            margin = abs(at - mean[i]) + reach + wider
            if margin > 0.0:
                assert known.equivalent(new, 0, 0.9, margin)[i] == sure
    assert not known.equivalent(new, 0, 0.9, 0.0).any()
    [better], [worse] = known.decided(new, [0], 0.9)
    assert better == (p < 0.05).sum() and worse == (p > 0.95).sum()


@BOARDS
@given(seed=st.integers(0, 10**6), n=st.integers(1, 12), at=st.floats(0.05, 0.95))
def test_neighbours_are_the_nearest_above_and_below(seed, n, at):
    names, mean, _ = board(seed, n, False)
    known = KnownModels(names, None, policy(at, 0.1), [])
    found = mean[known.neighbours(at)].tolist()
    above, below = mean[mean >= at], mean[mean < at]
    assert found == [*above[np.argsort(above)][:1], *below[np.argsort(-below)][:1]]


@BOARDS
@given(seed=st.integers(0, 10**6), n=st.integers(1, 12), at=st.floats(0.05, 0.95),
       se=st.sampled_from([0.001, 0.02, 0.1]), margin=st.sampled_from([0.0, 0.06]))  # fmt: skip
def test_a_model_is_open_while_a_neighbour_is(seed, n, at, se, margin):
    names, mean, _ = board(seed, n, False)
    new = policy(at, se)
    known = KnownModels(names, None, new, [])
    reach = norm.ppf(0.975) * se
    gaps = [abs(at - mean[i]) for i in known.neighbours(at)]
    if any(abs(g - reach) < 1e-9 or abs(g + reach - margin) < 1e-9 for g in gaps):
        return
    open_ = any(gap <= reach and not gap + reach < margin for gap in gaps)
    assert known.open_models(new, [0], 0.95, margin) == ({0} if open_ else set())


@BOARDS
@given(seed=st.integers(0, 10**6), n=st.integers(1, 10), errors=st.booleans())
def test_ranges_count_who_is_surely_better_and_worse(seed, n, errors):
    names, mean, error = board(seed, n, errors)
    known = KnownModels(names, None, policy(0.5, 0.1), [])
    better, worse = known.ranges(0.9)
    if not errors:  # as they stand: every place is taken once, equal models in some order
        assert sorted(better) == list(range(n)) and (better + worse == n - 1).all()
        assert (np.diff(mean[np.argsort(better)]) <= 0).all()
        return
    z = norm.ppf(0.95)
    for i in range(n):
        reach = z * np.hypot(error, error[i])
        assert better[i] == sum(mean - mean[i] > reach)
        assert worse[i] == sum(mean[i] - mean > reach)


def test_draws_of_the_board():
    names = {"low": 0.2, "top": 0.9, "mid": 0.5}
    known = KnownModels(names, None, policy(0.5, 0.1), [])
    best, scores = known.draw(2, 7)
    assert best == ["top", "mid"] and scores.tolist() == [[0.9, 0.5]] * 7
    vague = KnownModels({"x": (0.4, 0.05, 0.4), "y": (0.6, 0.0, 0.6)}, None, policy(0.5, 0.1), [])
    best, scores = vague.draw(1, 10**6)
    assert best == ["x", "y"] and scores.shape == (512, 2)
    assert scores[:, 0].mean() == pytest.approx(0.4, abs=0.01)
    assert scores[:, 0].std() == pytest.approx(0.05, rel=0.1) and (scores[:, 1] == 0.6).all()


@BOARDS
@given(seed=st.integers(0, 10**6), sampled=st.booleans())
def test_scores_of_known_models_become_means_and_errors(seed, sampled):
    rng = np.random.default_rng(seed)
    n_items, n = 12, 4
    raw = rng.random((n, n_items)).round(3)
    raw[rng.random((n, n_items)) < 0.3] = np.nan
    raw[0, 1:] = np.nan  # one score, or none
    raw[1] = rng.random(n_items)  # all scores
    bank = ItemBank.blank(range(n_items), task="t", metric="acc")
    table = ScoreTable.from_arrays(raw, [f"k{i}" for i in range(n)])
    known = KnownModels(table, bank, policy(0.5, 0.1), [], sampled)
    there = [i for i in range(n) if np.isfinite(raw[i]).any()]
    assert known.names == tuple(f"k{i}" for i in there)
    for place, i in enumerate(there):
        seen = raw[i][np.isfinite(raw[i])]
        assert known.mean[place] == known.location[place] == pytest.approx(seen.mean())
        spread = seen.var(ddof=1) if len(seen) > 1 else 0.25
        left = 1.0 if sampled else 1.0 - len(seen) / n_items
        assert known.standard_error[place] == pytest.approx(np.sqrt(spread / len(seen) * left))
        assert known.variance[place] == pytest.approx(known.standard_error[place] ** 2)


@pytest.mark.parametrize(
    ("known", "says"),
    [
        ({"x": (0.5, -0.1, 0.5)}, r"is not \(mean, error, mean\)"),
        ({"x": (0.5, float("inf"), 0.5)}, "is not"),
        ({"x": (0.5, 0.1)}, "is not"),
        ({"x": -0.01}, "-0.01"),
        ({"x": 1.01}, "1.01"),
    ],
)
def test_what_is_no_mean_is_refused(known, says):
    with pytest.raises(UsageError, match=says):
        KnownModels(known, None, policy(0.5, 0.1), [])
    KnownModels({"x": 0.0, "y": 1.0, "z": (0.5, 0.0, 0.5)}, None, policy(0.5, 0.1), [])


def test_several_tasks_take_means_only():
    table = ScoreTable.from_arrays([[0.5, 0.4]], ["x"])
    with pytest.raises(UsageError, match="by their means"):
        KnownModels(table, None, policy(0.5, 0.1), [])

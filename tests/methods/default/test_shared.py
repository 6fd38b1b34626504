"""What is kept up model by model is what would be found anew."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lm_eval_ccat import ScoreTable, calibrate
from lm_eval_ccat.methods.default.calibration import model_of
from lm_eval_ccat.methods.default.departures import UNKNOWN, VAGUE, posterior
from lm_eval_ccat.methods.default.field import Field
from lm_eval_ccat.methods.default.joint import Joint

REST = dict(refresh=lambda: None, t=0.5, v=0.1, level=1.0, left=9, q=3, rbar=0.0, noise=0.1)


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 4), st.integers(0, 10_000))
def test_sums_over_draws_are_those_of_the_matrices(n_models, seed):
    rng = np.random.default_rng(seed)
    order = rng.permutation(120).tolist()  # more draws than there is room for at first
    joint = Joint(VAGUE)
    c, e, sd = np.zeros((3, n_models, 120))
    for item in order:
        joint.fell(item)
    for a in range(n_models):
        joint.add_model()
        for q in sorted(rng.integers(1, 121, 2)):
            items = order[:q]
            now = rng.random(q), rng.normal(size=q), rng.random(q)
            c[a, items], e[a, items], sd[a, items] = now
            member = SimpleNamespace(drawn=items, **dict(zip(("c", "e", "sd"), now)), **REST)
            joint.put(a, member)
    x, sums = c * e, joint.sums
    assert sums[0] == pytest.approx(x @ x.T)
    assert sums[1] == pytest.approx((c * sd) @ (c * sd).T)
    assert sums[2] == pytest.approx((np.sqrt(c) * e) @ (np.sqrt(c) * e).T)
    gaps = x[:, None] - x
    gaps[range(n_models), range(n_models)] = x
    assert joint.carry == pytest.approx((gaps**2).sum(axis=2) ** 2 / (gaps**4).sum(axis=2))


def test_a_model_without_draws_is_known_by_the_others():
    M = np.array([[0.04, 0.02, 0.01], [0.02, 0.05, 0.03], [0.01, 0.03, 0.06]])
    T = np.array([[0.01, 0.002], [0.002, 0.02]])
    r = np.array([0.1, -0.2])
    measured = np.array([0, 2])
    mean, covariance = posterior(M[np.ix_(measured, measured)], T, r)
    whole = np.diag([0.0, UNKNOWN, 0.0])
    whole[np.ix_(measured, measured)] += T
    all_mean, all_covariance = posterior(M, whole, np.array([0.1, 0.0, -0.2]))
    assert all_mean[measured] == pytest.approx(mean)
    assert all_covariance[np.ix_(measured, measured)] == pytest.approx(covariance)
    along = M[1, measured] @ np.linalg.inv(M[np.ix_(measured, measured)])
    assert all_mean[1] == pytest.approx(along @ mean)
    explained = along @ covariance @ along
    alone = M[1, 1] - along @ M[measured, 1]  # at scale 1; the scales are mixed
    assert all_covariance[1, 1] > explained + 0.25 * alone


def test_the_field_is_the_same_whenever_it_is_looked_at():
    """A run that is resumed looks at other times than one that was never interrupted."""
    rng = np.random.default_rng(2)
    scores = 1.0 / (1.0 + np.exp(-np.linspace(-1, 1, 10)[:, None] - rng.normal(size=(10, 200))))
    table = ScoreTable.from_arrays(scores, [f"c{j}" for j in range(10)])
    model = model_of(calibrate(table))
    often, once = Field(model, 3, seed=1), Field(model, 3, seed=1)
    left = np.ones((6, 200), dtype=bool)
    for step in range(300):
        if step in (60, 140, 190):
            often.add_model()
            once.add_model()
        a = int(rng.integers(len(often.members)))
        [item], probability = often.next(a, left[a])
        left[a, item] = False
        score = float(rng.random())
        for field in (often, once):
            field.place(a, item, probability)
            field.learn(a, [item], [score])
        often.result()
    seen, anew = often.result(), once.result()
    assert (seen.estimate == anew.estimate).all() and (seen.variance == anew.variance).all()
    assert (seen.df == anew.df).all()

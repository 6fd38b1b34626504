"""The quick way to the decisions of many models is the plain one's equal."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import ndtr, stdtr

from lm_eval_ccat.methods.policy import Differences, decided_by_student, holm


@settings(max_examples=50, deadline=None)
@given(seed=st.integers(0, 10**6), level=st.floats(0.001, 0.5))
def test_pairs_are_decided_as_their_probabilities_say(seed, level):
    rng = np.random.default_rng(seed)
    n = 25
    estimate = rng.normal(size=n)
    variance = rng.uniform(0.01, 0.6, (n, n))
    variance = np.minimum(variance, variance.T)
    df = np.minimum(*(rng.choice([1.5, 4.0, 30.0, np.inf], (2, n, n))))
    df = np.minimum(df, df.T)
    z = (estimate[:, None] - estimate) / np.sqrt(variance)
    p = np.where(np.isinf(df), ndtr(z), stdtr(np.minimum(df, 1e9), z))
    plain = (p < level / 2) | (p > 1 - level / 2)
    assert (decided_by_student(Differences(estimate, variance, df), level) == plain).all()


def test_nothing_is_known_without_a_variance():
    d = Differences(np.zeros(2), np.zeros((2, 2)), np.full((2, 2), np.inf))
    assert not decided_by_student(d, 0.05).any()


@pytest.mark.parametrize("wrong, kept", [([0.04, 0.001, 0.02], 3), ([0.04, 0.001, 0.03], 1)])
def test_holm_steps_down_from_the_surest(wrong, kept):
    assert int(holm(np.array(wrong), 0.05).sum()) == kept

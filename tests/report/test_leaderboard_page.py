"""Ranks of full results and estimates side by side."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lm_eval_ccat.metrics.scale import Scale
from lm_eval_ccat.report.board import Row, ranked


@settings(max_examples=60, deadline=None)
@given(
    values=st.lists(
        st.tuples(st.floats(0, 1), st.sampled_from([0.0, 0.01, 0.2])), min_size=1, max_size=20
    ),
    higher=st.booleans(),
)
def test_ranks_are_in_their_intervals(values, higher):
    rows = [Row(f"m{i}", s, e, 1, e > 0) for i, (s, e) in enumerate(values)]
    found = ranked(rows, Scale(higher_is_better=higher), 0.95)
    assert [r.rank for r in found] == list(range(1, len(rows) + 1))
    assert all(1 <= r.best <= r.rank <= r.worst <= len(rows) for r in found)
    scores = [r.score for r in found]
    assert scores == sorted(scores, reverse=higher)


@pytest.mark.parametrize("seed", range(8))
def test_ranks_are_those_of_every_pair_compared(seed):
    """Thousands of full results are ranked without comparing them two by two."""
    rng = np.random.default_rng(seed)
    error = np.where(rng.random(30) < 0.3, 0.1 * rng.random(30), 0.0)
    score = np.round(rng.random(30), 1)
    rows = [Row(f"m{i}", float(score[i]), float(error[i]), 5, False) for i in range(30)]
    for row in ranked(rows, Scale(), 0.95):
        gap, apart = score - row.score, 1.959964 * np.hypot(error, row.standard_error)
        assert row.best == 1 + int((gap > apart).sum())
        assert row.worst == 30 - int((-gap > apart).sum())

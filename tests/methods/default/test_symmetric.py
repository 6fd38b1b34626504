"""Many small matrices at once give what LAPACK gives for each."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lm_eval_ccat.methods.default import items
from lm_eval_ccat.methods.default.fractional import packed


@settings(max_examples=30)
@given(st.integers(0, 2**32 - 1), st.integers(1, 6), st.sampled_from([1.0, 1e-3, 1e6]))
def test_inverses_are_those_of_numpy(seed, p, precision):
    rng = np.random.default_rng(seed)
    f = rng.normal(size=(9, 12, p))
    whole = np.einsum("nkp,nkq->npq", f, f) + np.diag(np.geomspace(1.0, precision, p))
    row, column, _ = packed(p)
    stored = whole[:, row, column]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(items, "_TOGETHER", 4)
        found = items.inverted(stored, p)
    assert found == pytest.approx(np.linalg.inv(whole)[:, row, column], rel=1e-8, abs=1e-12)
    assert (stored == whole[:, row, column]).all()

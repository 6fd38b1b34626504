"""Two tables of one benchmark as one."""

from __future__ import annotations

import numpy as np

from lm_eval_ccat import ScoreTable
from lm_eval_ccat.upkeep.update import union


def test_new_scores_of_a_model_replace_its_old_ones_and_old_ones_fill_the_rest():
    old = ScoreTable.from_arrays([[0.1, 0.2, 0.3], [0.5, 0.5, 0.5]], ["again", "stays"])
    new = ScoreTable.from_arrays([[0.9, np.nan, 0.7]], ["again"], doc_ids=[1, 2, 3])
    both = union(old, new)
    rows = dict(zip(both.row_model, both.raw.tolist()))
    assert rows["again"][:2] == [0.1, 0.9] and rows["again"][2:] == [0.3, 0.7]
    assert rows["stays"][:3] == [0.5, 0.5, 0.5] and np.isnan(rows["stays"][3])

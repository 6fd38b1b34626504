"""The one way from scores to a matrix, against a reference of ten lines."""

from __future__ import annotations

import copy
from collections import Counter
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lm_eval_ccat.errors import ScoreTableError
from lm_eval_ccat.scores.grid import Coded, Grid
from lm_eval_ccat.scores.reading import Wanted

ONE = st.tuples(
    st.sampled_from("abc"), st.sampled_from(["", "t=1"]), st.integers(0, 5),
    st.sampled_from([0.0, 0.25, 1.0]), st.sampled_from(["h", "h", "h", "x", None]),
)  # fmt: skip


def reference(ones):
    """Cells by (model, config) and item: of each the last, and none of a rarer version."""
    cells, hashes, own = {}, {}, {}
    for n, (model, config, item, score, text) in enumerate(ones):
        cells[(model, config), item] = (score, text, n)
        if text is not None:
            own.setdefault(item, text)
            hashes.setdefault(text, n)
    for item, first in own.items():
        there = [text or first for (_, i), (_, text, _) in cells.items() if i == item]
        count = Counter(there)
        best = max(count, key=lambda text: (count[text], hashes[text]))
        cells = {k: v for k, v in cells.items() if k[1] != item or (v[1] or first) == best}
        own[item] = best
    return {k: v[0] for k, v in cells.items()}, own


@given(st.lists(ONE, min_size=1, max_size=60), st.integers(1, 9))
def test_the_last_score_counts_and_the_rarer_version_of_a_document_does_not(ones, step):
    grid = Grid()
    for start in range(0, len(ones), step):  # in batches of any size
        some = ones[start : start + step]
        labels, hashes = [one[:2] for one in some], [text for *_, text in some]
        few = list(dict.fromkeys(hashes))
        coded = Coded(few, np.array([few.index(text) for text in hashes]))
        grid.lay(labels, [one[2] for one in some], [one[3] for one in some], coded)
    labels = list(dict.fromkeys(one[:2] for one in ones))
    made = copy.deepcopy(grid).finish(Path("x"), Wanted(), "acc")
    expected, own = reference(ones)
    kept = list(zip(made.row_model, made.row_config))
    assert kept == [label for label in labels if any(k[0] == label for k in expected)]
    assert list(made.doc_ids) == sorted({one[2] for one in ones})
    found = {
        (kept[r], made.doc_ids[c]): made.raw[r, c] for r, c in np.argwhere(~np.isnan(made.raw))
    }
    assert found == expected
    if own:
        assert dict(zip(made.doc_ids, made.doc_hashes)) == {d: own.get(d) for d in made.doc_ids}
    else:
        assert made.doc_hashes is None
    twice = len(ones) > len({(one[:2], one[2]) for one in ones})
    with pytest.raises(ScoreTableError, match="2 scores of") if twice else nullcontext():
        grid.finish(Path("x"), Wanted(), "acc", unique=True)


def test_what_is_missing_is_said_and_what_cannot_be_is_refused():
    grid = Grid()
    grid.lay([("a", "")], [1, 0], [0.5, 1.0])
    grid.lay([("b", "t=1")], [0], [np.nan])
    grid.lay([("c", "t=1")], [0], [0.0])
    made = grid.finish(Path("x"), Wanted(), "acc", say_missing=True)
    assert made.models == ("a", "c")
    assert list(made.warnings) == [
        "no usable score of b; left out", "not all of the 2 documents are scored for: c (t=1) 1"
    ]  # fmt: skip
    mixed = Grid()
    mixed.lay([("a", "")], [0, "x"], [0.0, 1.0])
    with pytest.raises(ScoreTableError, match="integers and strings"):
        mixed.finish(Path("x"), Wanted(), "acc")
    empty = Grid()
    empty.lay([("a", "")], [0], [np.nan])
    with pytest.raises(ScoreTableError, match="every score of metric 'acc' is missing"):
        empty.finish(Path("x"), Wanted(), "acc")

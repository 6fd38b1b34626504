"""The fast way to read a row gives what parsing the whole row gives, or refuses as it does."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sample_rows import sample_row

from lm_eval_ccat.scores.readers.lm_eval.rows import _row

MARKERS = (b'"filter": ', b'"filtered_resps": ')
KEYS = st.sampled_from(
    ["filter", "doc_id", "doc_hash", "metrics", "filtered_resps", "a", '"filter": ', '{"doc_id": ']
)
TEXTS = st.one_of(KEYS, st.text(max_size=20))
VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), TEXTS),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.one_of(KEYS, TEXTS), inner, max_size=3)
    ),
    max_leaves=8,
)


def needed(row):
    keys = ("doc_id", "filter", "metrics", "doc_hash", "acc", "detail")
    return {key: row.get(key) for key in keys}


@settings(max_examples=300, deadline=None)
@given(st.integers(0, 10**6), VALUES, TEXTS, VALUES, st.sampled_from(MARKERS), st.booleans())
def test_whole_rows(doc_id, doc, answer, detail, marker, ascii_only):
    row = sample_row(doc_id, {"acc": 0.5, "detail": detail}, doc={"x": doc}, answer=answer)
    line = (json.dumps(row, ensure_ascii=ascii_only) + "\n").encode("utf-8", "surrogatepass")
    assert needed(_row(line, marker)) == needed(json.loads(line.decode("utf-8", "surrogatepass")))


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_rows_cut_off_are_refused(data):
    row = sample_row(3, {"acc": 0.5}, doc={"x": data.draw(VALUES)}, answer=data.draw(st.text()))
    line = json.dumps(row).encode()
    end = data.draw(st.integers(1, len(line) - 1))
    with pytest.raises(ValueError):
        _row(line[:end], data.draw(st.sampled_from(MARKERS)))


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_a_cut_row_with_the_next_one_behind_it_is_refused(data):
    """A crash in a write, then a whole row appended: ids and scores must not be mixed."""
    first = json.dumps(sample_row(3, {"acc": 0.0}, doc={"x": data.draw(VALUES)})).encode()
    second = json.dumps(sample_row(4, {"acc": 1.0}, doc={"x": data.draw(VALUES)})).encode()
    end = data.draw(st.integers(1, len(first) - 1))
    marker = data.draw(st.sampled_from(MARKERS))
    with pytest.raises(ValueError):
        _row(first[:end] + second, marker)

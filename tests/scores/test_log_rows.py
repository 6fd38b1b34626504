"""The fast way to read a row gives what parsing the whole row gives, or refuses as it does."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sample_rows import sample_row

from lm_eval_ccat.scores.readers.lm_eval import rows
from lm_eval_ccat.scores.readers.lm_eval.metric import MetricInLogs
from lm_eval_ccat.scores.readers.lm_eval.rows import _row, cut, read_part
from lm_eval_ccat.scores.readers.lm_eval.tails import Tails

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


def agrees(line):
    """Whether a row was read by its end; if so, as a parse of all of it reads it."""
    tail = Tails("acc").read(line, 0, len(line))
    if tail is not None:
        row = json.loads(line)
        doc_id, name, doc_hash, number = tail
        assert [doc_id, name, doc_hash] == [row.get(k) for k in ("doc_id", "filter", "doc_hash")]
        assert repr(json.loads(number)) == repr(row["acc"])
    return tail is not None


NUMBERS = st.one_of(st.integers(), st.floats(), st.sampled_from([0.0, 1.0, -0.0, 10**30, 5e-324]))


@settings(max_examples=300, deadline=None)
@given(VALUES, TEXTS, NUMBERS, st.dictionaries(TEXTS, VALUES, max_size=2), st.booleans())
def test_a_row_read_by_its_end_is_the_row(doc, answer, acc, more, first):
    scores = {"acc": acc, **more} if first else {**more, "acc": acc}
    row = sample_row(3, scores, doc={"x": doc}, answer=answer)
    agrees(json.dumps(row).encode())
    del row["filter"]
    agrees(json.dumps(row).encode())


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_a_row_that_is_cut_off_or_torn_is_never_read_by_its_end(data):
    lines = [
        json.dumps(sample_row(n, {"acc": 1.0}, doc={"x": data.draw(VALUES)})).encode()
        for n in (3, 4)
    ]
    end = data.draw(st.integers(1, len(lines[0]) - 1))
    assert not agrees(lines[0][:end])
    assert not agrees(lines[0][:end] + lines[1])
    assert not agrees(lines[0] + lines[1])


@pytest.mark.parametrize(
    "scores", [{"acc": 1.0}, {"acc": 0, "acc_norm": 0.25}, {"b": -1e-3, "acc": 1}]
)
def test_the_rows_that_the_harness_writes_are_read_by_their_end(scores):
    row = sample_row(12, scores, doc={"text": 'a "quoted" «text»\n' * 9, "list": [{"id": 1}]})
    line = json.dumps(row, ensure_ascii=False).encode() + b"\n"
    assert agrees(line)
    del row["filter"]
    assert agrees(json.dumps(row).encode())


@pytest.mark.parametrize("block", [64, 1 << 10, 1 << 18])
def test_blocks_of_any_size_give_the_same_rows(block, tmp_path, monkeypatch):
    """Rows longer than a block, the last without its line end, blank and broken lines."""
    lines = [
        json.dumps(sample_row(n, {"acc": n % 7 / 8}, doc={"x": "word " * (n % 50)}))
        for n in range(60)
    ]
    lines[5], lines[20], lines[33] = (
        "",
        "{broken",
        lines[33].replace('"acc": ', '"acc": NaN, "b": '),
    )
    file = tmp_path / "samples_t_2026-01-01T00-00-00.jsonl"
    file.write_text("\n".join(lines))
    monkeypatch.setattr(rows, "BLOCK_BYTES", block)
    monkeypatch.setattr(rows, "RANGE_BYTES", 3000)
    found = [read_part(part) for part in cut([file], metric=MetricInLogs("acc", "t"), filter=None)]
    kept = [n for n in range(60) if n not in (5, 20, 33)]
    assert [d for part in found for d in part.doc_ids] == kept
    assert [s for part in found for s in part.scores] == [n % 7 / 8 for n in kept]
    assert sum(part.lines for part in found) == 60
    assert [len(part.broken) for part in found if part.broken] == [1]
    assert [why for part in found for _, why in part.unusable] and len(found) > 3

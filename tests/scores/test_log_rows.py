"""The fast way to read a row gives what parsing the whole row gives, or refuses as it does."""

from __future__ import annotations

import json

from hypothesis import given, settings
from hypothesis import strategies as st
from sample_rows import sample_row

from lm_eval_ccat.metrics import find_metric
from lm_eval_ccat.scores.readers.samples import Asked, read_file, tail_of

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
NUMBERS = st.one_of(st.integers(), st.floats(), st.sampled_from([0.0, 1.0, -0.0, 10**30, 5e-324]))


def agrees(line):
    """Whether a row was read by its end; if so, as a parse of all of it reads it."""
    tail = tail_of(line, "acc")
    if tail is not None:
        row = json.loads(line)
        assert {k: repr(v) for k, v in tail.items()} == {k: repr(row[k]) for k in tail}
        assert "filter" in tail or "filter" not in row
    return tail is not None


@settings(max_examples=60)
@given(VALUES, TEXTS, NUMBERS, st.dictionaries(TEXTS, VALUES, max_size=2), st.booleans(), st.data())
def test_a_row_read_by_its_end_is_the_row_and_no_torn_one_is(doc, answer, acc, more, first, data):
    scores = {"acc": acc, **more} if first else {**more, "acc": acc}
    row = sample_row(3, scores, doc={"x": doc}, answer=answer)
    agrees(json.dumps(row).encode())
    del row["filter"]
    agrees(json.dumps(row).encode())
    one, other = (
        json.dumps(sample_row(n, {"acc": 1.0}, doc={"x": doc}, answer=answer)).encode()
        for n in (3, 4)
    )
    end = data.draw(st.integers(1, len(one) - 1))
    for torn in (one[:end], one[:end] + other, one + other):
        assert not agrees(torn)


def test_the_rows_that_the_harness_writes_are_read_by_their_end():
    for scores in ({"acc": 1.0}, {"acc": 0, "acc_norm": 0.25}, {"b": -1e-3, "acc": 1}):
        row = sample_row(12, scores, doc={"text": 'a "quoted" «text»\n' * 9, "list": [{"id": 1}]})
        assert agrees(json.dumps(row, ensure_ascii=False).encode() + b"\n")
        del row["filter"]
        assert agrees(json.dumps(row).encode())


def test_a_file_with_blank_broken_and_scoreless_rows(tmp_path):
    lines = [json.dumps(sample_row(n, {"acc": n % 7 / 8})) for n in range(60)]
    lines[5], lines[20] = "", "{broken"
    lines[33] = lines[33].replace('"acc": ', '"acc": NaN, "b": ')
    lines[40] = lines[40].replace('"acc": ', '"b": ')
    # Keys within a document or an answer are not the row's own.
    trap = {"filter": "x", "doc_hash": "y", "metrics": ["acc"], "acc": 0.0}
    text = 'quoted "filter": "none", "metrics": [], "doc_hash": "z", "acc": 0.0}'
    lines[41] = json.dumps(sample_row(41, {"acc": 1.0}, doc={"inner": trap}, answer=text))
    file = tmp_path / "samples_t_2026-01-01T00-00-00.jsonl"
    file.write_text("\n".join(lines))  # the last without its line end
    rows = read_file((file, ("none",)), Asked(find_metric("acc"), "t", None))
    kept = [n for n in range(60) if n not in (5, 20, 33, 40)]
    assert rows.doc_ids == kept and list(rows.filters) == ["none"]
    assert rows.scores == [1.0 if n == 41 else n % 7 / 8 for n in kept]
    broken, unusable, without = rows.notes
    assert f"{file}, line 21: not readable" in broken and "1 rows do not report acc" in without
    assert "1 scores unusable" in unusable and "(line 34: " in unusable

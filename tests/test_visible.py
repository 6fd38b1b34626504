"""What models, servers and users write cannot steer a terminal or mislead a reader."""

from __future__ import annotations

import json
import unicodedata

from hypothesis import given
from hypothesis import strategies as st

from lm_eval_ccat.ranker.headline import order_in_words
from lm_eval_ccat.shown import visible, visible_json, visible_line, visible_name

HIDDEN = "\x1b\x07\x9b\x00\u202e\u2066\u200b\u200e\ufeff\u00ad\u2028\U000e0041\u3164"


@given(st.text() | st.text(alphabet=HIDDEN + "ab\n"))
def test_nothing_is_hidden(text: str) -> None:
    shown = visible(text)
    left = {c for c in shown if unicodedata.category(c) in ("Cc", "Cf", "Cs", "Zl", "Zp")}
    # Joiners inside words of other scripts, and a few format characters that are seen, may stay.
    assert not left & set(HIDDEN)
    assert {c for c in left if ord(c) < 0xA0} <= set("\t\n\r")
    assert visible(shown) == shown
    assert "\n" not in visible_line(text)


def test_words_that_need_a_joiner_stay_whole() -> None:
    persian = "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645"
    family = "\U0001f468\u200d\U0001f469"
    assert visible(persian) == persian and visible(family) == family
    for joined in ("a\u200db", "é\u200db", "a\u200dé", "\u200dé"):
        assert "\u200d" not in visible(joined) and "⟨U+200D⟩" in visible(joined)


@given(st.recursive(st.text(), lambda v: st.lists(v) | st.dictionaries(st.text(), v), max_leaves=6))
def test_json_reads_back_and_hides_nothing(value) -> None:
    text = visible_json(value)
    assert json.loads(text) == json.loads(json.dumps(value))
    assert visible(text) == text


def test_a_name_cannot_forge_an_order() -> None:
    plain = ["gpt-4.1", "org/model:free", "Qwen 2.5 (7B)", "模型"]
    assert [visible_name(name) for name in plain] == plain
    assert order_in_words(["a > b", "c"], []) == "“a > b” > c"
    assert order_in_words(["{x, y}", "z"], [("{x, y}", "z")]) == "{“{x, y}”, z}"
    assert order_in_words(["a\u202e\x1b[2J", "b"], []) == "a⟨U+202E⟩␛[2J > b"


@given(st.text(), st.text())
def test_quoted_names_stay_apart_from_plain_ones(a: str, b: str) -> None:
    if visible_line(a) != visible_line(b) and "‹" not in a + b and "›" not in a + b:
        assert visible_name(a) != visible_name(b) or {"“", "”"} & set(a + b)

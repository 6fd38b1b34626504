"""What people read: results in Python and notebooks, and texts of others that cannot mislead."""

from __future__ import annotations

import json
import sys
import unicodedata
import xml.etree.ElementTree as ET

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lm_eval_ccat import ItemBank, Ranker, ScoreTable, calibrate, compare, simulate
from lm_eval_ccat.cli.main import main
from lm_eval_ccat.errors import UsageError
from lm_eval_ccat.live.result import Result
from lm_eval_ccat.metrics import Scale
from lm_eval_ccat.ranker.headline import order_in_words
from lm_eval_ccat.shown import difference_texts, visible, visible_json, visible_line, visible_name

NASTY = "a|<b>*x*\x1b[31m"


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(3)
    skill, ease = np.linspace(-1.5, 1.5, 9)[:, None], rng.normal(size=120)[None]
    mu = 1 / (1 + np.exp(-skill - ease))
    scores = 100 * rng.beta(8 * mu, 8 * (1 - mu))
    models = ["weak", "m1", "m2", "m3", NASTY, "m5", "m6", "m7", "strong"]
    return ScoreTable.from_arrays(scores, models=models, scale=Scale(0, 100), metric="bleu")


@pytest.fixture(scope="module")
def ranking(table):
    held = ["weak", NASTY, "strong"]
    bank = calibrate(table.without(held), method="paper")
    ranker = Ranker(bank, dict.fromkeys(held, 1.0))
    while not ranker.done:
        for model, item in ranker.ask():
            ranker.tell(model, item, table.select([model]).scores[0, item])
    ranker.drop("weak", "no answer")
    return ranker.result()


def test_a_data_frame_has_the_figures_of_the_result(ranking):
    pytest.importorskip("pandas")
    frame = ranking.to_dataframe()
    models = ranking.to_dict()["models"]
    assert list(frame.model) == [*ranking.order, "weak"]
    for row in frame.to_dict("records"):
        block = models[row["model"]]
        assert row["estimate"] == block["estimate"] and row["items"] == block["n_items"]
        assert [row["low"], row["high"]] == block["interval"]
    assert frame.note[2] == "set aside: no answer" and np.isnan(frame["rank"][2])


def test_markdown_and_html_show_names_and_no_markup(ranking):
    text = ranking.to_markdown()
    table = [line for line in text.splitlines() if line.startswith("|")]
    assert len(table) == 2 + 3
    assert len({line.replace("\\|", "").count("|") for line in table}) == 1
    assert "\x1b" not in text + ranking.to_text() and "a\\|\\<b\\>\\*x\\*" in text
    html = ranking._repr_html_()
    root = ET.fromstring(f"<div>{html}</div>")
    names = [row[1].text for row in root.iter("tr")]
    assert names[0] == "model" and any(name.startswith("a|<b>*x*") for name in names)
    assert ranking.signature in "".join(root.itertext())


@pytest.mark.long
def test_a_repr_is_one_short_line(ranking, table):
    result, bank = Result(ranking), calibrate(table, method="paper")
    replayed = simulate(table, ["paper"], folds=1, processes=1)
    compared = compare(table.select(["weak"]), table.select(["strong"]))
    blank = ItemBank.blank([1, 2])
    for shown in (ranking, result, compared, replayed, bank, blank, table):
        said = repr(shown)
        assert said.startswith(f"<{type(shown).__name__}: ") and len(said) < 200
        assert "\n" not in said
    assert "tau paper " in repr(replayed) and ": task not stated, bleu, method paper" in repr(bank)
    assert repr(result).startswith(f"<Result: {str(result)[:12]}")
    for shown in (result, compared, replayed):
        assert shown.to_markdown().startswith("**") and "<table>" in shown._repr_html_()


def test_without_pandas_the_message_says_what_to_install(ranking, monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(UsageError, match="pip install 'pandas'"):
        ranking.to_dataframe()


# -- texts of others

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


@pytest.mark.long
@given(st.recursive(st.text(), lambda v: st.lists(v) | st.dictionaries(st.text(), v), max_leaves=6))
def test_json_reads_back_and_hides_nothing(value) -> None:
    text = visible_json(value)
    assert json.loads(text) == json.loads(json.dumps(value))
    assert visible(text) == text


def test_json_that_a_command_prints_keeps_names_as_they_are(tmp_path, capsys) -> None:
    name, table = "a\u202eb", tmp_path / "t.csv"
    ScoreTable.from_arrays([[0.1, 0.9, 0.4], [0.5, 0.6, 0.7]], [name, "c"]).write(table)
    main(["compare", str(table), str(table), "--models", f"{name},c", "--json"])
    printed = capsys.readouterr().out
    assert json.loads(printed)["baseline"] == name and "\u202e" not in printed


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


SIZES = st.floats(-14, 3).map(lambda exponent: 10.0**exponent)
VALUES = st.one_of(st.just(0.0), SIZES, SIZES.map(lambda size: -size))


@pytest.mark.long
@settings(max_examples=500)
@given(st.lists(VALUES, min_size=3, max_size=3), st.booleans())
def test_a_printed_interval_lies_to_the_side_of_0_where_it_lies(values, one_side):
    """Both ends keep their sign, and so does a difference whose interval excludes 0."""
    low, middle, high = sorted(map(abs, values) if one_side else values)
    texts = difference_texts(low, middle, high)
    beside = {">0": 5e-324, "<0": -5e-324}
    printed = [beside.get(text) or float(text) for text in texts]
    signs = np.sign(printed) == np.sign([low, middle, high])
    assert signs[0] and signs[2] and (signs[1] or low <= 0.0 <= high), texts
    if not beside.keys() & set(texts):
        assert printed == sorted(printed)

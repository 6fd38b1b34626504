"""Metrics that the paper's tasks bring along: readability, and spans of personal data."""

from __future__ import annotations

import runpy
from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from local_data import CONFIGS

from lm_eval_ccat.errors import MetricError

readability, pii = (
    runpy.run_path(str(CONFIGS / task / "utils.py")) for task in ("biolaysumm", "nemotron_pii")
)
fkgl, WORST = readability["fkgl"], readability["WORST"]
parse_entities, pii_scores = pii["parse_entities"], pii["pii_scores"]


ENTITY = st.tuples(st.text("ab", min_size=1, max_size=3), st.sampled_from("xy"))
ENTITIES = st.lists(ENTITY, max_size=4, unique=True)


class TestFkgl:
    @pytest.fixture(autouse=True)
    def _textstat(self):
        pytest.importorskip("textstat", reason="the extra `readability` is not installed")

    def test_it_is_kincaids_formula(self):
        text = "The farmer sold apples. They were cheap."
        # 7 words, 2 sentences, 9 syllables (far-mer, ap-ples).
        assert fkgl(text) == pytest.approx(0.39 * 7 / 2 + 11.8 * 9 / 7 - 15.59, abs=0.01)

    @pytest.mark.parametrize(
        "text",
        [
            "", "   ", "...", "?!", "A.", "123", "1 2 3 4 5 6 7 8.", "A. B. C. D. E. F.", "Yes.",
            "Go on. So be it. No. No. No.",
        ],
    )  # fmt: skip
    def test_fragments_get_the_worst_grade(self, text):
        assert fkgl(text) == WORST == 30

    def test_harder_words_give_a_higher_grade_within_its_ends(self):
        hard = "Immunohistochemical characterisation necessitated extraordinarily deliberation."
        assert fkgl("The cat sat down. It then slept.") == 0 < fkgl(hard) <= 30
        assert fkgl("It isn't a well-known text.") < 5
        with pytest.raises(MetricError, match="fkgl needs a text, not None"):
            fkgl(None)


class TestPii:
    gold = (("Ada", "first_name"), ("12 Elm Street", "street_address"), ("ada@x.org", "email"))

    def test_containment_counts_half_and_wrong_labels_cost_classification_only(self):
        answer = [("Ada", "last_name"), ("Elm Street", "street_address"), ("ada@x.org", "email")]
        scores = pii_scores(answer, self.gold)
        # Credit 1 + 1/2 + 1 of three on both sides; one of two exact texts has the gold label.
        assert scores["pii_detection"] == pytest.approx(2.5 / 3)
        assert scores["pii_classification"] == pytest.approx(1 / 2)
        assert scores["pii_score"] == pytest.approx((2.5 / 3 + 1 / 2) / 2)

    def test_exact_texts_and_right_labels_are_paired_first(self):
        # An exact text goes before two that hold each other, and a right label before a wrong one.
        scores = pii_scores([("Ada", "first_name"), ("Ada L", "name")], [("Ada", "first_name")])
        assert scores["pii_classification"] == 1.0
        scores = pii_scores([("a", "x"), ("a", "y")], [("a", "y"), ("a", "x")])
        assert scores["pii_classification"] == 1.0

    @pytest.mark.long
    @given(ENTITIES, ENTITIES)
    def test_no_pairing_has_more_credit(self, predicted, gold):
        def credit(guess, truth):
            return 1.0 if guess == truth else 0.5 * (guess in truth or truth in guess)

        if not predicted or not gold:
            return
        few, many = sorted((predicted, gold), key=len)
        best = max(
            sum(credit(a[0], b[0]) for a, b in zip(few, order))
            for order in permutations(many, len(few))
        )
        found = pii_scores(predicted, gold)["pii_detection"]
        assert found == pytest.approx(2 * best / (len(few) + len(many)))

    @pytest.mark.parametrize("found, there, score", [(0, 0, 1.0), (1, 0, 0.0), (0, 1, 0.0)])
    def test_nothing_to_find(self, found, there, score):
        entity = [("a", "city")]
        assert pii_scores(found * entity, there * entity)["pii_score"] == score

    def test_answers_are_read_through_bullets_tables_and_prose(self):
        answer = """Sure! Here are the entities:
        1. "Ada" | first_name
        - 12 Elm | Street | Street-Address
        | ada@x.org | email |
        |---|---|
        EXTRACTED_TEXT | LABEL
        no bar in this line
        Ada | first_name
        """
        assert parse_entities(answer) == [
            ("Ada", "first_name"),
            ("12 Elm | Street", "street_address"),
            ("ada@x.org", "email"),
        ]
        assert parse_entities("NONE") == []

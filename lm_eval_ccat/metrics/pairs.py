"""Sentence scores for the metrics that the harness computes over the whole corpus.

For ``bleu``, ``chrf``, ``chrf++`` and ``ter`` lm-eval reports a pair of texts per document and
scores all pairs together at the end. An adaptive test needs one number per document: the
sentence score of the same pair by sacrebleu, with its own defaults, as the harness takes those of
the corpus functions. A mean of sentence scores is not the corpus score and never has its name.

Which half is the reference
---------------------------
lm-eval 0.4.13 calls these metrics with ``[gold, result]`` (`ConfigurableTask.process_results`), so
the pair is (reference, prediction) in every family of YAML tasks but those listed in `REVERSED`.
Where the caller knows the model's answer, `order_pair` looks for it in the pair and needs no table.
"""

from __future__ import annotations

import string
from collections import Counter
from collections.abc import Callable, Sequence
from copy import copy
from fnmatch import fnmatchcase
from functools import cache
from typing import Any

from lm_eval_ccat.errors import MetricError
from lm_eval_ccat.metrics.rouge import rouge

#: Task name patterns whose pairs are (prediction, reference). Of the tasks of lm-eval 0.4.13 that
#: report a metric of this module as a pair only one does so: wmt2016/metrics.py returns
#: ``(predictions[0], references[0])``.
REVERSED = ("wmt-ro-en-t5-prompt",)


@cache
def _scorer(name: str) -> Any:
    # Imported here: a metric's scale can be looked up without loading sacrebleu.
    from sacrebleu.metrics.bleu import BLEU
    from sacrebleu.metrics.chrf import CHRF
    from sacrebleu.metrics.ter import TER

    # effective_order is sacrebleu's own default for sentence BLEU: without it a short sentence
    # without a 4-gram match scores next to nothing.
    if name == "bleu":
        return BLEU(effective_order=True)
    if name == "chrf":
        return CHRF()
    if name == "chrf++":
        return CHRF(word_order=2)
    return TER()


PAIR_METRICS = ("bleu", "chrf", "chrf++", "ter")

#: ROUGE that a task reports as pairs and aggregates itself (french_bench, catalan_bench, xlsum ...)
#: by HF evaluate's rouge over all pairs: the mean of rouge-score's F-measures without stemming.
ROUGE_METRICS = ("rouge1", "rouge2", "rougeL", "rougeLsum")

#: Tasks whose own ROUGE cleans or splits texts in another way, so that ours would be another score.
OWN_ROUGE = ("ja_leaderboard_xlsum", "noticia")


#: Tasks that report f1 as pairs and take the mean over documents of each pair's F1 of words, as
#: SQuAD's script computes it (afrobench/afriqa/*/utils.py).
WORD_F1 = ("afriqa_*",)

_ARTICLES = frozenset({"a", "an", "the"})
_PUNCTUATION = str.maketrans("", "", string.punctuation)


def reports_word_f1(name: str, task: str) -> bool:
    """Whether a task's f1 is the mean over documents of the F1 of words."""
    return name == "f1" and any(fnmatchcase(task, pattern) for pattern in WORD_F1)


def word_f1(prediction: str, references: Sequence[str]) -> float:
    """F1 of the words of two texts (Rajpurkar et al. 2016), the best over references.

    Case, punctuation and English articles do not count.

    Examples
    --------
    >>> word_f1("the Red house", ["A red, red house."])
    0.8
    """
    found = Counter(_words(prediction))
    best = 0.0
    for reference in references:
        wanted = Counter(_words(reference))
        same = (found & wanted).total()
        if same:
            best = max(best, 2.0 * same / (found.total() + wanted.total()))
    return best


def _words(text: str) -> list[str]:
    return [w for w in text.lower().translate(_PUNCTUATION).split() if w not in _ARTICLES]


def sentence_scorer(name: str) -> Callable[[str, Sequence[str]], float]:
    """The function (prediction, references) -> raw score of a metric that comes as pairs."""
    if name in ROUGE_METRICS:
        return lambda prediction, references: rouge(
            prediction, references, kinds=(name,), use_stemmer=False
        )[name]
    if name == "f1":
        return word_f1

    def score(prediction: str, references: Sequence[str]) -> float:
        return float(_scorer(name).sentence_score(prediction, list(references)).score)

    return score


def sacrebleu_signature(name: str) -> str:
    """sacrebleu's own signature of a metric as it is computed here, its version included."""
    scorer = copy(_scorer(name))
    scorer.num_refs = 1  # known only with a document, and different from one to the next
    parts = str(scorer.get_signature()).split("|")
    return "|".join(part for part in parts if not part.startswith("nrefs:"))


def order_pair(
    value: Any, *, metric: str, task: str = "", prediction: str | None = None
) -> tuple[str, list[str]]:
    """Tell prediction and references of a pair apart.

    Parameters
    ----------
    value : sequence of two
        What the harness reported: each half a text or a list of texts.
    metric, task : str
        Named in the error; the task also selects the order of its family (`REVERSED`).
    prediction : str, optional
        The model's filtered answer, where known; it decides the order wherever it is found on one
        side only.

    Returns
    -------
    prediction : str
    references : list of str

    Raises
    ------
    MetricError
        If the value is not such a pair.
    """
    where = f" of task {task}" if task else ""
    if isinstance(value, (bool, int, float)) or not hasattr(value, "__len__"):
        raise MetricError(
            f"metric {metric}{where} came as the number {value!r}, not as a (reference, "
            "prediction) pair: for a document with several targets lm-eval turns it into 0 or 1. "
            "Give the task one target per document, or a process_results that returns a score "
            "and its range"
        )
    if isinstance(value, str) or len(value) != 2:
        raise MetricError(
            f"metric {metric}{where} came as {_short(value)}, not as a (reference, prediction) "
            "pair; give the task a process_results that returns a score per document and its range"
        )
    first, second = (_texts(half, value, metric, where) for half in value)
    reverse = any(fnmatchcase(task, pattern) for pattern in REVERSED)
    if prediction is not None and first != second:
        if first == [prediction] and second != [prediction]:
            reverse = True
        elif second == [prediction]:
            reverse = False
    elif len(first) != 1 or len(second) != 1:
        # Several texts on one side can only be the references.
        reverse = len(second) > 1
    references, predictions = (second, first) if reverse else (first, second)
    if len(predictions) != 1 or not references:
        raise MetricError(
            f"metric {metric}{where}: {_short(value)} does not hold one prediction and its "
            "references"
        )
    return predictions[0], references


def _texts(half: Any, value: Any, metric: str, where: str) -> list[str]:
    if isinstance(half, str):
        return [half]
    if isinstance(half, (list, tuple)) and all(isinstance(text, str) for text in half):
        return list(half)
    raise MetricError(
        f"metric {metric}{where} came as {_short(value)}, not as a pair of texts; "
        "give the task a process_results that returns a score per document and its range"
    )


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."

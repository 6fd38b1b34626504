"""Scores of a lay summary: likeness to the published one, and readability."""

import re

from lm_eval_ccat.errors import MetricError
from lm_eval_ccat.harness.scorers import record_scorers
from lm_eval_ccat.live.item_scaling import LiveScaling
from lm_eval_ccat.metrics.bertscore import bertscore_f1
from lm_eval_ccat.metrics.rouge import rouge

record_scorers()

#: Ends of the clipped grade.
BEST, WORST = 0.0, 30.0

FEWEST_WORDS = 5
FEWEST_WORDS_PER_SENTENCE = 3

_WORD = re.compile(r"[^\W\d_]+(?:['’-][^\W\d_]+)*")


def fkgl(text: str) -> float:
    """Flesch-Kincaid grade level of a text, clipped to [0, 30]; lower is easier.

    How many school years a text asks for: 0.39 words/sentences + 11.8 syllables/words - 15.59
    (Kincaid et al. 1975), by the textstat library. It has no end in either direction: below 0 lies
    nothing that a reader would tell apart from first grade, and beyond 30 no sentence ends.
    What is no prose has no grade, and gets 30, else saying nothing would win: the formula gives
    "A." a grade of -3.4, the best there is. Prose has at least five words and three a sentence.

    Parameters
    ----------
    text : str
        Fragments, numbers and empty texts get the worst grade, 30.

    Raises
    ------
    MetricError
        If the text is no string, or textstat, or the pronunciations it needs, are missing.

    Examples
    --------
    >>> fkgl("The cat sat on the mat.")
    0.0
    >>> fkgl("A.")
    30.0
    """
    if not isinstance(text, str):
        raise MetricError(f"metric fkgl needs a text, not {text!r}; the answer was not extracted")
    if not _is_prose(text):
        return WORST
    try:
        import textstat

        grade = float(textstat.flesch_kincaid_grade(text))
    except ImportError as error:
        raise MetricError(
            "metric fkgl needs textstat; install lm-eval-ccat[readability]"
        ) from error
    except LookupError as error:
        # textstat from 0.7.9 on fetches its dictionary at first use instead of carrying it.
        raise MetricError(
            "metric fkgl: this textstat has no pronunciations at hand; install "
            "lm-eval-ccat[readability], or fetch them with `python -m nltk.downloader cmudict`"
        ) from error
    return min(max(grade, BEST), WORST)


def _is_prose(text: str) -> bool:
    lengths = [len(_WORD.findall(sentence)) for sentence in re.split(r"[.!?。]+", text)]
    sentences = sum(length > 0 for length in lengths)
    words = sum(lengths)
    return words >= max(FEWEST_WORDS, FEWEST_WORDS_PER_SENTENCE * sentences)


def score_without_model(doc, results):
    """ROUGE-L (0 to 1) and Flesch-Kincaid grade level (0 to 30, lower is better)."""
    answer = results[0].strip()
    return {"rougeL": rouge(answer, doc["summary"])["rougeL"], "fkgl": fkgl(answer)}


def score_all(doc, results):
    """Also BERTScore F1 (0 to 1)."""
    [f1] = bertscore_f1([results[0]], [doc["summary"]])
    return {**score_without_model(doc, results), "bertscore": f1}


SCALING = LiveScaling("article")


def remember_order(dataset):
    """The documents as they are; their order is noted for the per-item scaling."""
    return SCALING.remember(dataset)


def score_scaled(doc, results):
    """These scores, each item scaled to [0, 1] over the calibration configs, higher is better."""
    answer = results[0].strip()
    return SCALING.scale(
        doc,
        {
            "rougeL": lambda: rouge(answer, doc["summary"])["rougeL"],
            "bertscore": lambda: bertscore_f1([answer], [doc["summary"]])[0],
            "fkgl": lambda: fkgl(answer),
        },
    )

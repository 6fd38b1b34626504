"""Flesch-Kincaid grade level, by the textstat library: how many school years a text asks for.

FKGL = 0.39 words/sentences + 11.8 syllables/words - 15.59 (Kincaid et al. 1975). For a lay summary
a lower grade is better. It has no end in either direction, so it is clipped to [0, 30]: below 0
lies nothing that a reader would tell apart from first grade, and beyond 30 no sentence ends.
What is no prose has no grade, and gets 30, else saying nothing would win: the formula gives "A." a
grade of -3.4, the best there is. Prose has at least five words and three words per sentence.
"""

from __future__ import annotations

import re

from lm_eval_ccat.errors import MetricError
from lm_eval_ccat.metrics.scale import Scale

#: Scale of the clipped grade.
FKGL_SCALE = Scale(0.0, 30.0, higher_is_better=False)

FEWEST_WORDS = 5
FEWEST_WORDS_PER_SENTENCE = 3

_WORD = re.compile(r"[^\W\d_]+(?:['’-][^\W\d_]+)*")


def fkgl(text: str) -> float:
    """Flesch-Kincaid grade level of a text, clipped to [0, 30]; lower is easier.

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
        return FKGL_SCALE.high
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
    return min(max(grade, FKGL_SCALE.low), FKGL_SCALE.high)


def _is_prose(text: str) -> bool:
    lengths = [len(_WORD.findall(sentence)) for sentence in re.split(r"[.!?。]+", text)]
    sentences = sum(length > 0 for length in lengths)
    words = sum(lengths)
    return words >= max(FEWEST_WORDS, FEWEST_WORDS_PER_SENTENCE * sentences)

"""Flesch-Kincaid grade level, by the textstat library: how many school years a text asks for.

FKGL = 0.39 words/sentences + 11.8 syllables/words - 15.59 (Kincaid et al. 1975). For a lay summary
a lower grade is better. It has no end in either direction, so it is clipped to [0, 30]: below 0
lies nothing that a reader would tell apart from first grade, and beyond 30 no sentence ends.
A text without a word is not easy reading: it gets 30, else saying nothing would win.
"""

from __future__ import annotations

from lm_eval_ccat.errors import MetricError
from lm_eval_ccat.metrics.scale import Scale

#: Scale of the clipped grade.
FKGL_SCALE = Scale(0.0, 30.0, higher_is_better=False)


def fkgl(text: str) -> float:
    """Flesch-Kincaid grade level of a text, clipped to [0, 30]; lower is easier.

    Raises
    ------
    MetricError
        If textstat, or the pronunciations it needs, are missing.

    Examples
    --------
    >>> fkgl("The cat sat on the mat.")
    0.0
    >>> fkgl("")
    30.0
    """
    if not any(character.isalnum() for character in text):
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

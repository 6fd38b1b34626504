"""Scores of a lay summary: likeness to the published one, and readability."""

import os
import re
from pathlib import Path
from typing import Any

from lm_eval_ccat.bank import ItemBank
from lm_eval_ccat.errors import MetricError, UsageError
from lm_eval_ccat.harness.scorers import record_scorers
from lm_eval_ccat.metrics.bertscore import bertscore_f1
from lm_eval_ccat.metrics.scale import ITEM_SCALED
from lm_eval_ccat.metrics.text_pairs import rouge
from lm_eval_ccat.scores.item_scaling import ItemScaling

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


VARIABLE = "CCAT_ITEM_SCALING"


class LiveScaling:
    """Scales the scores of one task's documents as they come, as a bank of scaled scores has them.

    `process_results` is given a document and not its number, so the task remembers the order of its
    documents when the harness loads them and looks the document up when it is scored. The ends come
    from banks that ``lm-eval-ccat calibrate --scale_items`` wrote, in the folder that
    ``CCAT_ITEM_SCALING`` names.

    Parameters
    ----------
    column : str
        A column whose text tells the documents apart.
    """

    def __init__(self, column: str) -> None:
        self.column = column
        self._number: dict[str, int] = {}
        self._fingerprint: str | None = None
        self._loaded: tuple[str, dict[str, ItemScaling]] | None = None

    def remember(self, dataset: Any) -> Any:
        """Note the order of a `datasets.Dataset`; returns it as it is."""
        fingerprint = getattr(dataset, "_fingerprint", None)
        # The harness processes the documents at every access, and reading a column takes a while.
        if fingerprint is None or fingerprint != self._fingerprint:
            self._number = {}
            for number, text in enumerate(dataset[self.column]):
                self._number.setdefault(text, number)
            self._fingerprint = fingerprint
        return dataset

    def scale(self, doc: dict[str, Any], scores: dict[str, Any]) -> dict[str, float]:
        """Scaled scores of one document.

        Parameters
        ----------
        doc : dict
        scores : dict of str to callable
            For each metric what computes its raw score; called only if there are ends for it.

        Returns
        -------
        dict of str to float
            ``<metric>_item_scaled`` in [0, 1], higher is better; NaN for a document without ends.

        Raises
        ------
        UsageError
            If no folder with ends is named, or it has none for any of the metrics.
        """
        ends = self._ends()
        known = [metric for metric in scores if metric in ends]
        if not known:
            raise UsageError(
                f"{os.environ[VARIABLE]} holds no scaling of {', '.join(scores)}; write one with "
                "`lm-eval-ccat calibrate ... --scale_items`"
            )
        number = self._number[doc[self.column]]
        return {
            metric + ITEM_SCALED: ends[metric].score(number, scores[metric]()) for metric in known
        }

    def _ends(self) -> dict[str, ItemScaling]:
        folder = os.environ.get(VARIABLE)
        if not folder:
            raise UsageError(
                f"this task scales its items: set {VARIABLE} to a folder of banks that "
                "`lm-eval-ccat calibrate ... --scale_items` wrote"
            )
        if self._loaded is None or self._loaded[0] != folder:
            banks = map(ItemBank.load, sorted(Path(folder).glob("*.json")))
            scalings = [ItemScaling.of_bank(bank.constants) for bank in banks]
            self._loaded = folder, {one.metric: one for one in scalings if one is not None}
        return self._loaded[1]


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

"""ROUGE of one text, by the rouge-score library."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from functools import cache
from typing import Any

from lm_eval_ccat.errors import MetricError


@cache
def _scorer(kinds: tuple[str, ...], use_stemmer: bool) -> Any:
    if os.path.expanduser("~") == "~":
        # rouge-score imports nltk, which wants a place for downloads even where it loads none.
        os.environ.setdefault("NLTK_DATA", tempfile.gettempdir())
    from rouge_score.rouge_scorer import RougeScorer

    return RougeScorer(list(kinds), use_stemmer=use_stemmer)


def rouge(
    prediction: str,
    references: str | Sequence[str],
    kinds: Sequence[str] = ("rougeL",),
    *,
    use_stemmer: bool = True,
) -> dict[str, float]:
    """ROUGE F-measures of one text (Lin 2004), the best over its references.

    Parameters
    ----------
    prediction : str
    references : str or sequence of str
        At least one.
    kinds : sequence of str
        ``"rouge1"``, ``"rouge2"``, ``"rougeL"``, ``"rougeLsum"``.
    use_stemmer : bool
        Porter stemming, as summarisation shared tasks use it.

    Returns
    -------
    dict of str to float
        Each kind in [0, 1], higher is better; 0 for an empty text.

    Raises
    ------
    MetricError
        If the prediction or a reference is no string, or there is no reference.

    Examples
    --------
    >>> rouge("a small cat", "the small cat")["rougeL"]
    0.6666666666666666
    """
    if not isinstance(prediction, str):
        raise MetricError(
            f"metric rouge needs a text, not {prediction!r}; the answer was not extracted"
        )
    texts = [references] if isinstance(references, str) else list(references or ())
    wrong = [text for text in texts if not isinstance(text, str)]
    if wrong or not texts:
        found = repr(wrong[0]) if wrong else "none"
        raise MetricError(
            f"metric rouge needs reference texts, found {found}; check doc_to_target of the task"
        )
    score = _scorer(tuple(kinds), use_stemmer).score_multi
    return {kind: float(value.fmeasure) for kind, value in score(texts, prediction).items()}

"""ROUGE of one text, by the rouge-score library."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Sequence
from functools import cache, lru_cache
from typing import Any

from ..errors import MetricError

KINDS = ("rouge1", "rouge2", "rougeL", "rougeLsum")


class _Split:
    """A tokenizer as rouge-score takes it."""

    def __init__(self, tokens: Callable[[str], list[str]]) -> None:
        self.tokenize = tokens


class _Stemmer:
    """The library's stemmer, which takes longer than all else: each word is stemmed once."""

    def __init__(self) -> None:
        from nltk.stem.porter import PorterStemmer

        self.stem = lru_cache(2**16)(PorterStemmer().stem)


@cache
def _scorer(kinds: tuple[str, ...], use_stemmer: bool, split: Callable[[str], str] | None) -> Any:
    if os.path.expanduser("~") == "~":
        # rouge-score imports nltk, which wants a place for downloads even where it loads none.
        os.environ.setdefault("NLTK_DATA", tempfile.gettempdir())
    from rouge_score.rouge_scorer import RougeScorer
    from rouge_score.tokenize import tokenize

    if split is None:
        stemmer = _Stemmer() if use_stemmer else None
        return RougeScorer(list(kinds), tokenizer=_Split(lambda text: tokenize(text, stemmer)))
    return RougeScorer(list(kinds), tokenizer=_Split(lambda text: split(text).split()))


def rouge(
    prediction: str,
    references: str | Sequence[str],
    kinds: Sequence[str] = ("rougeL",),
    *,
    use_stemmer: bool = True,
    tokenizer: Callable[[str], str] | None = None,
) -> dict[str, float]:
    """ROUGE F-measures of one text (Lin 2004), the best over its references.

    Parameters
    ----------
    prediction : str
    references : str or sequence of str
        At least one.
    kinds : sequence of str
        Of `KINDS`.
    use_stemmer : bool
        Porter stemming, as summarisation shared tasks use it.
    tokenizer : callable, optional
        A text to the same with spaces between its tokens; default rouge-score's, which knows
        nothing but a to z and digits.

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
        shown = repr(wrong[0]) if wrong else "none"
        raise MetricError(
            f"metric rouge needs reference texts, found {shown}; check doc_to_target of the task"
        )
    score = _scorer(tuple(kinds), use_stemmer, tokenizer).score_multi
    return {kind: float(value.fmeasure) for kind, value in score(texts, prediction).items()}

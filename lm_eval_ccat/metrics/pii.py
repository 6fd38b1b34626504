"""Span-level score of extracted personal data: was the text found, and was it named rightly?

The answer lists one entity per line, ``EXTRACTED_TEXT | LABEL``. The score is the mean of

- a detection F1 on the texts: an exact match counts 1, a text that contains or is contained in a
  gold text counts 1/2, each text at most once; precision and recall are that credit over the number
  of predicted and of gold texts;
- the classification accuracy: among the exact text matches, the share with the gold label.

A document without personal data scores 1 for an empty answer and 0 for any other. Without an exact
match the classification accuracy is 0.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

Entity = tuple[str, str]

_BULLET = re.compile(r"^\s*(?:[-*•]|\d{1,3}[.)])\s+")
_QUOTES = "\"'`*“”‘’ "


def parse_entities(answer: str) -> list[Entity]:
    """Read the entities of an answer.

    Parameters
    ----------
    answer : str
        Lines of ``EXTRACTED_TEXT | LABEL``; bullets, quotes, table borders and other lines around
        them are passed over.

    Returns
    -------
    list of (text, label)
        Distinct, in order; labels in lower case with underscores.

    Examples
    --------
    >>> parse_entities("Here they are:\\n- Ada Byron | First Name\\n42 | age")
    [('Ada Byron', 'first_name'), ('42', 'age')]
    """
    found: dict[Entity, None] = {}
    for line in answer.splitlines():
        # A table row has its own borders; the text may itself hold a bar, the label cannot.
        row = line.strip()
        if row.startswith("|") and row.endswith("|"):
            row = row.strip("|")
        text, bar, label = _BULLET.sub("", row).rpartition("|")
        text, label = text.strip(_QUOTES), label.strip(_QUOTES)
        if bar and text and label and not set(label) <= set("-: "):
            found[_clean(text), _label(label)] = None
    found.pop(("EXTRACTED_TEXT", "label"), None)  # the heading of the form, repeated
    return list(found)


def pii_scores(predicted: Iterable[Entity], gold: Iterable[Entity]) -> dict[str, float]:
    """Score extracted entities against the gold ones.

    Parameters
    ----------
    predicted, gold : iterable of (text, label)
        Repeated entities count once.

    Returns
    -------
    dict
        ``pii_score`` and its halves ``pii_detection`` and ``pii_classification``, each in [0, 1],
        higher is better.

    Examples
    --------
    >>> pii_scores([("Ada", "first_name"), ("Byron Street", "city")],
    ...            [("Ada", "first_name"), ("Byron", "last_name")])["pii_detection"]
    0.75
    """
    guesses = list(dict.fromkeys((_clean(text), _label(label)) for text, label in predicted))
    truths = list(dict.fromkeys((_clean(text), _label(label)) for text, label in gold))
    if not truths or not guesses:
        value = float(not truths and not guesses)
        return {"pii_score": value, "pii_detection": value, "pii_classification": value}
    guesses, truths, named = _take(guesses, truths, lambda g, t: g == t)
    guesses, truths, misnamed = _take(guesses, truths, lambda g, t: g[0] == t[0])
    guesses, truths, partial = _take(guesses, truths, lambda g, t: g[0] in t[0] or t[0] in g[0])
    exact = named + misnamed
    credit = exact + 0.5 * partial
    # F1 = 2 PR/(P+R) with P = credit/predicted, R = credit/gold.
    n_predicted, n_gold = len(guesses) + exact + partial, len(truths) + exact + partial
    detection = 2.0 * credit / (n_predicted + n_gold)
    classification = named / exact if exact else 0.0
    return {
        "pii_score": (detection + classification) / 2.0,
        "pii_detection": detection,
        "pii_classification": classification,
    }


def _take(
    guesses: list[Entity], truths: list[Entity], same: Callable[[Entity, Entity], bool]
) -> tuple[list[Entity], list[Entity], int]:
    """Pair guesses with truths one to one, in order; what is left of both, and how many pairs."""
    left_guesses, left_truths = [], list(truths)
    for guess in guesses:
        for i, truth in enumerate(left_truths):
            if same(guess, truth):
                del left_truths[i]
                break
        else:
            left_guesses.append(guess)
    return left_guesses, left_truths, len(guesses) - len(left_guesses)


def _clean(text: str) -> str:
    return " ".join(text.split())


def _label(label: str) -> str:
    return re.sub(r"[\s-]+", "_", label.strip().lower())

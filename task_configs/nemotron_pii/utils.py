"""Sample Nemotron-PII and score the entities that an answer lists.

The answer lists one entity per line, ``EXTRACTED_TEXT | LABEL``. The score is the mean of

- a detection F1 on the texts: an exact match counts 1, a text that contains or is contained in a
  gold text counts 1/2, each text at most once, paired so that the credit is the largest possible;
  precision and recall are that credit over the number of predicted and of gold texts;
- the classification accuracy: among the exact text matches, the share with the gold label.

A document without personal data scores 1 for an empty answer and 0 for any other. Without an exact
match the classification accuracy is 0.
"""

import ast
import random
import re
from collections.abc import Iterable, Sequence

import numpy as np
from scipy.optimize import linear_sum_assignment

ITEMS = 2000
SEED = 1234


def sample_documents(dataset):
    """The same 2,000 documents for everybody (all, where there are fewer), with their entities."""
    size = len(dataset)
    chosen = sorted(random.Random(SEED).sample(range(size), min(ITEMS, size)))
    return dataset.select(chosen).map(_with_entities)


def _with_entities(doc):
    # The column holds a Python literal: [{'start': 0, 'end': 3, 'text': 'Ada', 'label': ...}, ...].
    spans = ast.literal_eval(doc["spans"]) if isinstance(doc["spans"], str) else doc["spans"]
    entities = []
    for span in spans:
        given = str(span["text"])
        # Some spans give a number as a number, which loses leading zeros; the text has them.
        text = given if given in doc["text"] else doc["text"][span["start"] : span["end"]]
        if text.strip():
            entities.append({"text": text, "label": span["label"]})
    return {"entities": entities}


def target(doc):
    """The answer that scores 1."""
    lines = dict.fromkeys(f"{e['text']} | {e['label']}" for e in doc["entities"])
    return "\n".join(lines)


def score(doc, results):
    """Span score and its two halves, each 0 to 1."""
    gold = [(e["text"], e["label"]) for e in doc["entities"]]
    return pii_scores(parse_entities(results[0]), gold)


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
    named, misnamed, partial = _matches(guesses, truths)
    exact = named + misnamed
    credit = exact + 0.5 * partial
    # F1 = 2 PR/(P+R) with P = credit/predicted, R = credit/gold.
    detection = 2.0 * credit / (len(guesses) + len(truths))
    classification = named / exact if exact else 0.0
    return {
        "pii_score": (detection + classification) / 2.0,
        "pii_detection": detection,
        "pii_classification": classification,
    }


def _matches(guesses: Sequence[Entity], truths: Sequence[Entity]) -> tuple[int, int, int]:
    """Pair guesses with truths one to one for the largest credit.

    Among pairings of equal credit, exact texts and right labels count.

    Returns
    -------
    named, misnamed, partial : int
        Pairs of the same text and label, of the same text only, and of texts that hold each other.
    """
    small = 0.2 / min(len(guesses), len(truths))  # all of them together weigh less than a credit
    worth = np.zeros((len(guesses), len(truths)))
    for i, (text, label) in enumerate(guesses):
        for j, (true_text, true_label) in enumerate(truths):
            if text == true_text:
                worth[i, j] = 1.0 + small * (1.0 + 0.5 * (label == true_label))
            elif text in true_text or true_text in text:
                worth[i, j] = 0.5
    paired = worth[linear_sum_assignment(worth, maximize=True)]
    named = int((paired > 1.0 + 1.25 * small).sum())
    exact = int((paired >= 1.0).sum())
    return named, exact - named, int((paired == 0.5).sum())


def _clean(text: str) -> str:
    return " ".join(text.split())


def _label(label: str) -> str:
    return re.sub(r"[\s-]+", "_", label.strip().lower())

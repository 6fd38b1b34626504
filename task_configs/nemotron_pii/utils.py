"""Sample Nemotron-PII and score the entities that an answer lists."""

import ast
import random

from lm_eval_ccat.metrics.pii import parse_entities, pii_scores

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

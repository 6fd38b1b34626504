"""Score of a report's summary."""

from lm_eval_ccat.metrics.text_pairs import rouge


def score(doc, results):
    """ROUGE-L, 0 to 1."""
    return rouge(results[0].strip(), doc["summary"])

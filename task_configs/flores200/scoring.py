"""COMET of a translation, by a worker that stays."""

from lm_eval_ccat.harness.comet import comet_scores
from lm_eval_ccat.harness.scorers import record_scorers

record_scorers()


def score_by_comet(doc, results):
    """COMET (0 to 1) of the answer, given the source and the reference."""
    [score] = comet_scores([doc["source_text"]], [results[0].strip()], [doc["target_text"]])
    return {"comet": score}

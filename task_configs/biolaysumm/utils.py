"""Scores of a lay summary: likeness to the published one, and readability."""

from lm_eval_ccat.metrics.bertscore import bertscore_f1
from lm_eval_ccat.metrics.fkgl import fkgl
from lm_eval_ccat.metrics.rouge import rouge


def score_without_model(doc, results):
    """ROUGE-L (0 to 1) and Flesch-Kincaid grade level (0 to 30, lower is better)."""
    answer = results[0].strip()
    return {"rougeL": rouge(answer, doc["summary"])["rougeL"], "fkgl": fkgl(answer)}


def score_all(doc, results):
    """Also BERTScore F1 (0 to 1)."""
    [f1] = bertscore_f1([results[0]], [doc["summary"]])
    return {**score_without_model(doc, results), "bertscore": f1}

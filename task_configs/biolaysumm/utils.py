"""Scores of a lay summary: likeness to the published one, and readability."""

from lm_eval_ccat.harness.scorers import record_scorers
from lm_eval_ccat.live.item_scaling import LiveScaling
from lm_eval_ccat.metrics.bertscore import bertscore_f1
from lm_eval_ccat.metrics.fkgl import fkgl
from lm_eval_ccat.metrics.rouge import rouge

record_scorers()


def score_without_model(doc, results):
    """ROUGE-L (0 to 1) and Flesch-Kincaid grade level (0 to 30, lower is better)."""
    answer = results[0].strip()
    return {"rougeL": rouge(answer, doc["summary"])["rougeL"], "fkgl": fkgl(answer)}


def score_all(doc, results):
    """Also BERTScore F1 (0 to 1)."""
    [f1] = bertscore_f1([results[0]], [doc["summary"]])
    return {**score_without_model(doc, results), "bertscore": f1}


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

"""Truthfulness by a judge."""

from lm_eval_ccat.harness.judge import active_judge, watch_judged_models
from lm_eval_ccat.harness.scorers import record_scorers

watch_judged_models()
record_scorers()


def score_by_judge(doc, results):
    """Rating of the answer, 1 to 10; NaN where the judge gave none."""
    rating = active_judge().rate(
        question=doc["question"],
        correct="\n".join(f"- {answer}" for answer in doc["correct_answers"]),
        incorrect="\n".join(f"- {answer}" for answer in doc["incorrect_answers"]),
        answer=results[0].strip(),
    )
    return {"judge_score": rating.score}

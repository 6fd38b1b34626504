"""Scores answers in finished logs by a metric that their task did not have."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ..errors import UsageError
from ..metrics import known_scale
from ..metrics.scale import Scale
from ..metrics.text_pairs import PAIR_METRICS, ROUGE_METRICS, parts_of, rouge, sentence_scorer
from ..plugins import did_you_mean
from ..scores import ScoreTable
from ..scores.answers import LoggedAnswer, read_answers

#: What answers can be scored by.
METRICS = ("comet", "judge", "bertscore", *PAIR_METRICS, *ROUGE_METRICS)
#: Usual names of the field of a document that has its source text.
_SOURCE_FIELDS = ("source_text", "source", "src")


def rescore(
    logs: str | Path,
    metric: str,
    *,
    task: str | None = None,
    filter: str | None = None,
    source_field: str | None = None,
    judge: str | Path | None = None,
    model: str | None = None,
    python: str | None = None,
    batch_size: int = 16,
    note: Callable[[str], None] = lambda text: None,
) -> ScoreTable:
    """Score the answers in harness logs.

    Parameters
    ----------
    logs : path
        Logs of runs with ``--log_samples``.
    metric : str
        One of `METRICS`, optionally with a tokenizer, such as ``bleu@zh``.
    task, filter : str, optional
        Needed if the logs hold several.
    source_field : str, optional
        For COMET: where a document has its source text, such as ``translation.de``.
    judge : path, optional
        The judge's YAML file.
    model, python, batch_size : optional
        COMET's checkpoint, the Python that runs it, and how many answers it scores at once.
    note : callable, optional
        Called with messages on a judge's progress and cost.

    Returns
    -------
    ScoreTable
        NaN where an answer has no score.

    Raises
    ------
    UsageError
        An unknown metric, or a field or the judge's file is not named.
    ScoreTableError
        There are no answers, or none has a score.
    """
    if parts_of(metric).base not in METRICS:
        raise UsageError(f"cannot score answers by {metric!r}{did_you_mean(metric, METRICS)}")
    # A flag of another metric would be passed over in silence.
    flags = {("source_field", "comet"): source_field, ("model", "comet"): model,
             ("judge", "judge"): judge}  # fmt: skip
    for (flag, its_metric), value in flags.items():
        if value is not None and metric != its_metric:
            raise UsageError(f"--{flag} is for {its_metric}, not for {metric}")
    answers = read_answers(logs, task, filter)
    name = "judge_score" if metric == "judge" else metric
    scorer: Any = None
    if metric == "judge":
        if judge is None:
            raise UsageError("name the judge's file: --judge FILE")
        scores, scorer = _rated(answers.answers, models=answers.models, file=judge, note=note)
    elif metric == "comet":
        from ..harness.comet import comet_scores

        sources = [_source(answer, source_field) for answer in answers.answers]
        texts, targets = _pairs(answers.answers)
        scores = comet_scores(sources, texts, targets, python=python, model=model,
                              batch_size=batch_size)  # fmt: skip
        scorer = {"checkpoint": model} if model else None
    else:
        scores = _scores_of_pairs(metric, *_pairs(answers.answers))
    from ..harness.scorers import scorer_of

    table = answers.table(scores, name, known_scale(name) or Scale())
    settings = {**table.settings, "scorer": {name: scorer or scorer_of(name)}}
    missing = sum(map(math.isnan, scores))
    note(f"{len(scores) - missing} answers by {len(answers.models)} models are scored"
         + (f"; {missing} have no score" if missing else ""))  # fmt: skip
    return replace(table, settings=settings)


def _pairs(answers: Sequence[LoggedAnswer]) -> tuple[list[str], list[Any]]:
    """Return the texts of answers, and their targets."""
    return [answer.text for answer in answers], [answer.target for answer in answers]


def _scores_of_pairs(metric: str, texts: Sequence[str], targets: Sequence[Any]) -> list[float]:
    """Score texts against their targets, by a metric that needs nothing else."""
    if metric == "bertscore":
        from ..metrics.bertscore import bertscore_f1

        return bertscore_f1(texts, targets)
    if metric in ROUGE_METRICS:
        return [
            rouge(text, target, kinds=(metric,))[metric] for text, target in zip(texts, targets)
        ]
    return list(map(sentence_scorer(metric), texts, ([target] for target in targets)))


def _source(answer: LoggedAnswer, field: str | None) -> str:
    """Return the source text of an answer's document, under `field` or a usual name."""
    for name in [field] if field else _SOURCE_FIELDS:
        value: Any = answer.doc
        for part in name.split("."):
            value = value.get(part) if isinstance(value, dict) else None
        if isinstance(value, str):
            return value
    raise UsageError(
        f"no source text in document {answer.doc_id}"
        + (f" under {field}" if field else "")
        + f"; name the field with --source_field (it has {', '.join(answer.doc)})"
    )


def _rated(
    answers: Sequence[LoggedAnswer],
    *,
    models: Sequence[str],
    file: str | Path,
    note: Callable[[str], None],
) -> tuple[list[float], Any]:
    """Return a judge's ratings of answers, and its identity."""
    from ..harness.judge import Judge, JudgeSettings

    settings = JudgeSettings.read(str(file))
    judge = Judge(settings)
    judge.add_judged_models(models)
    scores: list[float] = []
    # Answers are rated in portions, so that the user sees the judge at work.
    step = 16 * judge.settings.concurrency
    for start in range(0, len(answers), step):
        fields_of_answers = []
        for answer in answers[start : start + step]:
            fields = {
                name: "\n".join(f"- {entry}" for entry in value)
                if isinstance(value, list)
                else str(value)
                for name, value in answer.doc.items()
            }
            # Rubrics of TruthfulQA call these fields by their short names.
            for short in ("correct", "incorrect"):
                if f"{short}_answers" in fields:
                    fields[short] = fields[f"{short}_answers"]
            fields_of_answers.append({**fields, "target": answer.target, "answer": answer.text})
        scores += [rating.score for rating in judge.rate_all(fields_of_answers)]
        note(f"rated {len(scores)} of {len(answers)}")
    note(f"judge {judge.settings.model}: {judge.describe()}")
    return scores, settings.identity()

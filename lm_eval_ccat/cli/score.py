"""``lm-eval-ccat score``: score the answers in harness logs by a metric the task did not have."""

from __future__ import annotations

import argparse
import math
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import UsageError

if TYPE_CHECKING:
    from ..scores.answers import Answer, Answers

METRICS = ("comet", "judge", "bertscore", "rouge1", "rouge2", "rougeL", "rougeLsum", "fkgl")

EPILOG = """\
examples:
  # COMET needs numpy < 2 and transformers < 5, so it lives in an environment of its own
  python3 -m venv comet-env && comet-env/bin/pip install unbabel-comet
  lm-eval-ccat score comet logs/ --task ccat_flores200_tur_eng \\
      --python comet-env/bin/python -o comet.parquet

  # a judge's ratings of answers that are already there
  lm-eval-ccat score judge logs/ --task ccat_truthfulqa_gen --judge judge.yaml -o judge.parquet

  # the table then serves as any other
  lm-eval-ccat calibrate comet.parquet --metric comet -o flores.comet.bank.json
"""


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    """Add ``score`` to the command line."""
    parser = subparsers.add_parser(
        "score",
        help="score harness logs by a further metric (COMET, a judge, BERTScore ...)",
        description=(
            "Scores the answers in harness logs (run with --log_samples) by a metric that the task "
            "did not have, and writes a score table."
        ),
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("metric", choices=METRICS, help="what to score by")
    parser.add_argument("logs", metavar="LOGS", help="directory of harness logs, or one of them")
    parser.add_argument("-o", "--output", required=True, help="score table, .parquet or .csv")
    parser.add_argument("--task", help="needed where the logs hold several")
    parser.add_argument("--filter", help="needed where the task has several")
    parser.add_argument(
        "--source_field",
        metavar="FIELD",
        help="comet: where a document has its source text, such as translation.de "
        "(default source_text, source or src)",
    )
    parser.add_argument("--python", help="comet: Python of the environment with unbabel-comet")
    parser.add_argument("--model", help="comet: model name or checkpoint")
    parser.add_argument("--batch_size", type=int, default=16, help="comet: pairs per batch")
    parser.add_argument("--gpus", type=int, default=0, help="comet: graphics cards to use")
    parser.add_argument("--judge", metavar="FILE", help="judge: its YAML file")
    parser.set_defaults(func=run)


def run(args: argparse.Namespace) -> int:
    """Score the answers and write the table."""
    from ..metrics import find_metric
    from ..scores.answers import read_answers

    output = Path(args.output)
    if output.suffix not in (".parquet", ".csv"):
        raise UsageError(f"a score table is a .parquet or a .csv file, not {output.name}")
    found = read_answers(args.logs, args.task, args.filter)
    for warning in found.warnings:
        print(f"warning: {warning}", file=sys.stderr)
    name = "judge_score" if args.metric == "judge" else args.metric
    scores = _SCORERS[args.metric](found, args)
    table = found.table(scores, name, find_metric(name).scale)
    table.settings["scorer"] = {name: _scorer(name, args)}
    table.write(output)
    missing = sum(map(math.isnan, scores))
    print(
        f"{output}: {name} ({table.scale.describe()}) of {len(scores) - missing} answers by "
        f"{len(found.models)} models" + (f"; {missing} without a score" if missing else "")
    )
    return 0


def _scorer(name: str, args: argparse.Namespace) -> dict[str, Any] | None:
    """What the metric was computed by, for the bank that is made of it."""
    from ..harness.judge import JudgeSettings
    from ..harness.scorers import scorer_of

    if args.metric == "judge":
        return JudgeSettings.read(args.judge).identity()
    scorer = scorer_of(name)
    return {"checkpoint": args.model} if name == "comet" and args.model else scorer


def _comet(found: Answers, args: argparse.Namespace) -> list[float]:
    from ..harness.comet import comet_scores

    return comet_scores(
        [_source(answer, args.source_field) for answer in found.answers],
        [answer.text for answer in found.answers],
        [answer.target for answer in found.answers],
        python=args.python,
        model=args.model,
        batch_size=args.batch_size,
        gpus=args.gpus,
    )


def _source(answer: Answer, field: str | None) -> str:
    for name in [field] if field else ["source_text", "source", "src"]:
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


def _judge(found: Answers, args: argparse.Namespace) -> list[float]:
    from ..harness.judge import Judge, JudgeSettings

    if not args.judge:
        raise UsageError("state the judge's file with --judge FILE")
    judge = Judge(JudgeSettings.read(args.judge))
    judge.judges(found.models)
    scores: list[float] = []
    step = 16 * judge.settings.concurrency
    for start in range(0, len(found.answers), step):
        chunk = found.answers[start : start + step]
        scores += [rating.score for rating in judge.rate_all([_fields(a) for a in chunk])]
        print(f"\rrated {len(scores)} of {len(found.answers)}", end="", file=sys.stderr)
    print(f"\njudge {judge.settings.model}: {judge.describe()}", file=sys.stderr)
    return scores


def _fields(answer: Answer) -> dict[str, str]:
    """What a prompt may ask for: every field of the document, the target and the answer."""
    fields = {name: _as_text(value) for name, value in answer.doc.items()}
    for short in ("correct", "incorrect"):
        if f"{short}_answers" in answer.doc:
            fields[short] = fields[f"{short}_answers"]
    return {**fields, "target": answer.target, "answer": answer.text}


def _as_text(value: Any) -> str:
    if isinstance(value, list):
        return "\n".join(f"- {part}" for part in value)
    return str(value)


def _bertscore(found: Answers, args: argparse.Namespace) -> list[float]:
    from ..metrics.bertscore import bertscore_f1

    return bertscore_f1([a.text for a in found.answers], [a.target for a in found.answers])


def _rouge(found: Answers, args: argparse.Namespace) -> list[float]:
    from ..metrics.rouge import rouge

    kind = args.metric
    return [rouge(a.text, a.target, kinds=(kind,))[kind] for a in found.answers]


def _fkgl(found: Answers, args: argparse.Namespace) -> list[float]:
    from ..metrics.fkgl import fkgl

    return [fkgl(answer.text) for answer in found.answers]


_SCORERS = {
    "comet": _comet,
    "judge": _judge,
    "bertscore": _bertscore,
    "rouge1": _rouge,
    "rouge2": _rouge,
    "rougeL": _rouge,
    "rougeLsum": _rouge,
    "fkgl": _fkgl,
}

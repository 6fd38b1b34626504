"""`score`: score logged answers by another metric."""

from __future__ import annotations

import argparse
import shlex
import sys
from pathlib import Path

from ..errors import UsageError
from ..files import writing
from ..upkeep.rescore import rescore
from .parsing import JSON, Opt, Options, emit, task_names, warn

_OF_RESCORE = ("task", "filter", "source_field", "judge", "model")


OPTIONS: Options = {
    "METRIC": "comet, judge, bertscore, rouge1, rouge2, rougeL, rougeLsum, bleu, chrf, chrf++ or "
    "ter; with one of sacrebleu's tokenizers as bleu@zh",
    "LOGS?": "harness logs: a folder or a file",
    "-o --output TABLE": "score table to write, .parquet or .csv",
    "--task --tasks T": Opt("needed where the logs hold several", read=task_names),
    "--filter F": "needed where the task has several",
    "--source_field FIELD": "comet: the documents' field with the source text, such as "
    "translation.de (default: source_text, source or src)",
    "--setup [DIR]": Opt(
        "comet: make its environment, in DIR or the user's cache, and exit", bare=""
    ),
    "--model NAME": "comet: model name or checkpoint",
    "--judge FILE": "judge: its YAML file",
    **JSON,
}


def score(args: argparse.Namespace) -> int:
    """Score the answers in harness logs (run with --log_samples) by a metric that the task does not
    have, and write a score table.

    examples:
      # COMET needs numpy < 2 and transformers < 5, so it lives in an environment of its own
      lm-eval-ccat score comet --setup
      lm-eval-ccat score comet logs/ --task ccat_flores200_tur_eng -o comet.parquet

      # a judge's ratings of logged answers
      lm-eval-ccat score judge logs/ --task ccat_truthfulqa_gen --judge judge.yaml -o judge.parquet

      # use the table like any other
      lm-eval-ccat calibrate comet.parquet --metric comet -o flores.comet.bank.json
    """
    if args.setup is not None:
        return _setup(args)
    if args.logs is None or args.output is None:
        raise UsageError("name the logs to score and the table to write (LOGS -o TABLE)")
    output = Path(args.output)
    # An ending that readers do not know would be found out after the scoring.
    if output.suffix not in (".parquet", ".csv"):
        raise UsageError(f"a score table is a .parquet or a .csv file, not {output.name}")
    # Makes the folder, or says that it cannot, before answers are scored, which may cost money.
    with writing(output):
        pass
    options = {name: getattr(args, name) for name in _OF_RESCORE}
    table = rescore(
        args.logs, args.metric, **options, note=lambda text: print(text, file=sys.stderr)
    )
    warn(*table.warnings)
    with writing(output):
        table.write(output)
    scale, models = table.scale.describe(), list(table.models)
    content = {"file": str(output), "metric": table.metric, "scale": scale, "models": models}
    next_step = f"Next: lm-eval-ccat calibrate {shlex.quote(args.output)} -o bank.json"
    summary = f"{output}: {table.metric} ({scale}) of {len(models)} models"
    emit(args.json, content, [summary, next_step])
    return 0


def _setup(args: argparse.Namespace) -> int:
    """Make the environment that COMET needs."""
    from ..harness.comet import PYTHON_VARIABLE, environment, make_environment

    if args.metric != "comet":
        raise UsageError(f"{args.metric} needs no environment of its own; --setup is for comet")
    folder = Path(args.setup) if args.setup else environment()
    # Silence for minutes looks like a hang.
    print(f"making {folder}; this downloads torch and takes minutes", file=sys.stderr)
    python = make_environment(folder)
    emit(args.json, {"python": str(python)}, [str(python)])
    if args.setup:
        print(f"set {PYTHON_VARIABLE}={python}", file=sys.stderr)
    return 0

"""`verify`: what a run says, recomputed or compared with full results."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from functools import reduce
from pathlib import Path

from ..errors import UsageError
from ..live import verify as verifying
from ..live.asked import doubts_of_full_results
from ..live.stored import stored_ranking
from ..scores.table import read_beside
from ..simulation.audit import audit
from ..upkeep.update import union
from .parsing import JSON, Opt, Options, emit, progress, task_names, warn

OPTIONS: Options = {
    "RUN": "a run directory of `rank`, or its result.json; with --full also results_*.json of an "
    "adaptive `run`",
    "--full LOGS...": "compare with full results: directories of harness outputs, or tables",
    "--repair": "keep the longest sound part of a damaged journal; the damaged one is renamed",
    "--metric M": "metric; needed where the run has several",
    "--task --tasks T": Opt("task; needed where the run has several", read=task_names),
    **JSON,
}


def verify(args: argparse.Namespace) -> int:
    r"""Check a run against its own journal, or against full results of its models.

    examples:
      lm-eval-ccat verify models.run
      lm-eval-ccat verify models.run --full harness_logs/
      lm-eval-ccat verify out/gpt2/results_2026-01-01T10-00-00.json --full scores.parquet \
          --metric bleu
      lm-eval-ccat verify models.run --repair       then continue with rank models.yaml --resume

    Nothing is run. Verdicts, estimates and costs are recomputed from the journal and the bank.

    exit codes: 0 sound, 1 damaged or contradictory, 2 usage, 3 made by another version, and this
    one reaches other verdicts; with --full also, so many intervals miss the full results as
    happens by chance in less than 1% of runs
    """
    if args.full is not None and args.repair:
        raise UsageError("run verify twice, once with --repair and once with --full")
    # The journal is verified whole, whatever outcome is meant.
    if args.full is None and (args.metric or args.task):
        raise UsageError("--metric and --task say which scores of --full LOGS to compare with")
    if args.full is not None:
        return _against_full_results(args)
    if args.repair:
        return _repair(args)
    verification = verifying.verify(args.run)
    code = verification.exit_code
    emit(args.json, {**asdict(verification), "exit_code": code}, [verification.words])
    return code


def _repair(args: argparse.Namespace) -> int:
    """Cut a damaged journal before its first damaged record, and print what was kept; return 0."""
    condition, damaged = verifying.salvage_journal(args.run)
    text = "There is nothing to repair."
    if damaged is not None:
        text = (
            f"{condition.damage}.\nThe journal now holds the {condition.records} sound records "
            f"before it; the damaged one is {damaged.name}.\nContinue the run with --resume."
        )
    kept = None if damaged is None else str(damaged)
    emit(args.json, {**asdict(condition), "kept": kept}, [text])
    return 0


def _against_full_results(args: argparse.Namespace) -> int:
    """Compare what a run says with full results, and print it; return the exit code."""
    stored = stored_ranking(args.run, args.task, args.metric)
    with progress("reading logs") as show:
        tables = [
            read_beside(logs, stored.outcome, "the run", stored.scale, on_progress=show)
            for logs in args.full
        ]
    full = reduce(union, tables)
    # The name in logs by that in the run, only where the full results lack the latter: they may
    # have both.
    names = {
        name: logged_name
        for logged_name, name in stored.logged_names().items()
        if name not in full.models and logged_name in full.models
    }
    notes = [
        text
        for logs, table in zip(args.full, tables)
        for model in stored.models
        if (logged_name := names.get(model, model)) in table.models
        for text in doubts_of_full_results(stored, table, logs, model, logged_name)
    ]
    # A run directory is verified against its journal; a lone file can only contradict itself.
    if verifying.stands_alone(Path(stored.source)):
        notes += verifying.self_contradictions(stored.content)
    outcome = audit(stored.content, full, names)
    emit(args.json, {"run": stored.source, **outcome.to_dict()}, [outcome.to_text()])
    warn(*dict.fromkeys(notes), *outcome.content["warnings"])
    # The same code, 3, says that too many intervals miss.
    return verifying.OTHER_VERSION if outcome.intervals_fail else verifying.SOUND

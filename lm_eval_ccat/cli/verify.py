"""``lm-eval-ccat verify``: whether a run says what its journal says, and what full results say."""

from __future__ import annotations

import argparse
from dataclasses import asdict

from ..errors import UsageError
from .parsing import JSON, Options, add_command, prints_json, warn, write_json
from .reading import progress

EPILOG = """\
examples:
  lm-eval-ccat verify models.run
  lm-eval-ccat verify models.run --full harness_logs/
  lm-eval-ccat verify out/gpt2/results_2026-01-01T10-00-00.json --full scores.parquet --metric bleu
  lm-eval-ccat verify models.run --repair       then continue with rank models.yaml --resume

Nothing is run. Verdicts, estimates and costs are recomputed from the journal and the bank.

exit codes: 0 sound, 1 damaged or contradictory, 2 usage, 3 another version comes to other verdicts
"""


OPTIONS: Options = {
    "RUN": "a run directory of `rank`; with --full its result.json, too, or results_*.json of an "
    "adaptive `run`",
    "--full LOGS": "compare with full results: a directory of harness outputs, or a table",
    "--repair": "keep the longest sound part of a damaged journal; the damaged one gets a new name",
    "--metric M": "metric; needed where the run has several",
    "--task T": "task; needed where the run has several",
    **JSON,
}


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add ``verify`` to the command line."""
    what = "Check a run against its own journal, or against full results of its models."
    add_command(subparsers, "verify", run, OPTIONS, what, EPILOG)


def run(args: argparse.Namespace) -> int:
    """Verify and print."""
    if args.full is not None:
        if args.repair:
            raise UsageError("run verify twice, once with --repair and once with --full")
        return _against_full_results(args)
    return _repair(args) if args.repair else _verify(args)


def _verify(args: argparse.Namespace) -> int:
    from ..live.verify import verify

    verification = verify(args.run)
    _show(
        args.json, verification.words, {**asdict(verification), "exit_code": verification.exit_code}
    )
    return verification.exit_code


def _repair(args: argparse.Namespace) -> int:
    from ..runs.salvage import salvage_journal

    condition, kept = salvage_journal(args.run)
    text = "There is nothing to repair."
    if kept is not None:
        text = (
            f"{condition.damage}.\nThe {condition.records} sound records before it are the journal "
            f"now; the damaged one is {kept.name}.\nContinue the run with --resume."
        )
    _show(args.json, text, {**asdict(condition), "kept": None if kept is None else str(kept)})
    return 0


def _against_full_results(args: argparse.Namespace) -> int:
    from ..scores import ScoreTable
    from ..simulation.audit import audit, read_claims

    claims = read_claims(args.run, args.task, args.metric)
    with progress("reading logs", "MB", 1e-6) as show:
        table = ScoreTable.read(
            args.full,
            args.metric or claims.metric,
            args.task or claims.task,
            claims.filter,
            on_progress=show,
        )
    outcome = audit(claims, table)
    _show(args.json, outcome.to_text(), outcome.to_dict())
    for text in outcome.warnings:
        warn(text)
    return 0


def _show(target: str | None, text: str, content: dict[str, object]) -> None:
    if not prints_json(target):
        print(text)
    write_json(target, content)

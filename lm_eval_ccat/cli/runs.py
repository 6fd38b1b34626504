"""The commands that read a run: report and verify."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from pathlib import Path

from ..bank.suite import is_suite
from ..errors import UsageError
from ..live import verify as verifying
from ..report import write_report
from ..report.chart import FORMATS
from ..report.plots import plot_files, plot_run
from ..scores import ScoreTable
from ..simulation.audit import audit, read_claims
from .parsing import JSON, Opt, Options, Run, emit, warn
from .scores import progress

# -- report ----------------------------------------------------------------------------------------


REPORT: Options = {
    "paths=PATH...": "a run directory of `rank`; with --plots also files of simulate, a bank or "
    "a suite",
    "-o --output HTML": "the page (default: RUN_DIR/report.html)",
    "--plots DIR": "write the charts into DIR as well",
    "--formats LIST": Opt("formats of the charts; png and pdf need the extra `plot`", "svg"),
}


def report(args: argparse.Namespace) -> int:
    """Make an HTML page of a finished or running ranking, or charts.

    examples:
      lm-eval-ccat report runs/my_task
      lm-eval-ccat report runs/my_task -o my_task.html --plots figures/
      lm-eval-ccat report sim_10.json sim_20.json sim_40.json --plots figures/
      lm-eval-ccat report my_task.bank.json --plots figures/
    """
    formats = [f.strip().lower() for f in args.formats.split(",") if f.strip()] or ["svg"]
    for name in formats:
        if name not in FORMATS:
            raise UsageError(f"--formats takes svg, png and pdf, not {name!r}")
    paths = [Path(p) for p in args.paths]
    runs = [p for p in paths if p.is_dir() and not is_suite(p)]
    if runs:
        if len(paths) > 1:
            raise UsageError("give one run directory at a time")
        written = [write_report(runs[0], args.output)]
        if args.plots is not None:
            written += plot_run(runs[0], args.plots, formats)
    else:
        for path in paths:
            if not path.exists():
                raise UsageError(f"there is no run directory or file {path}")
        if args.plots is None:
            raise UsageError(f"{paths[0]} is not a run; name a folder for its charts: --plots DIR")
        written = plot_files(paths, args.plots, formats)
    print(*written, sep="\n")
    return 0


# -- verify ----------------------------------------------------------------------------------------


VERIFY: Options = {
    "RUN": "a run directory of `rank`; with --full its result.json, too, or results_*.json of an "
    "adaptive `run`",
    "--full LOGS": "compare with full results: a directory of harness outputs, or a table",
    "--repair": "keep the longest sound part of a damaged journal; the damaged one gets a new name",
    "--metric M": "metric; needed where the run has several",
    "--task T": "task; needed where the run has several",
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

    exit codes: 0 sound, 1 damaged or contradictory, 2 usage, 3 another version comes to other
    verdicts
    """
    if args.full is not None and args.repair:
        raise UsageError("run verify twice, once with --repair and once with --full")
    if args.full is not None:
        return _against_full_results(args)
    if args.repair:
        return _repair(args)
    verification = verifying.verify(args.run)
    code = verification.exit_code
    emit(args.json, {**asdict(verification), "exit_code": code}, [verification.words])
    return code


def _repair(args: argparse.Namespace) -> int:
    condition, kept = verifying.salvage_journal(args.run)
    text = "There is nothing to repair."
    if kept is not None:
        text = (
            f"{condition.damage}.\nThe {condition.records} sound records before it are the journal "
            f"now; the damaged one is {kept.name}.\nContinue the run with --resume."
        )
    emit(args.json, {**asdict(condition), "kept": None if kept is None else str(kept)}, [text])
    return 0


def _against_full_results(args: argparse.Namespace) -> int:
    claims = read_claims(args.run, args.task, args.metric)
    with progress("reading logs") as show:
        table = ScoreTable.read(
            args.full,
            args.metric or claims.metric,
            args.task or claims.task,
            claims.filter,
            on_progress=show,
        )
    outcome = audit(claims, table)
    emit(args.json, outcome.to_dict(), [outcome.to_text()])
    warn(*outcome.content["warnings"])
    return 0


COMMANDS: dict[str, tuple[Run, Options]] = {"report": (report, REPORT), "verify": (verify, VERIFY)}

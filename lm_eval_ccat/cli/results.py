"""The commands that need no model: check a task; report and verify a run."""

from __future__ import annotations

import argparse
import os
import sys
import textwrap
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ..bank.suite import is_suite
from ..errors import UsageError
from ..harness.check import TaskCheck, check_tasks, write_variants
from ..harness.session import with_shipped_tasks
from ..live import verify as verifying
from ..report import write_report
from ..report.chart import FORMATS
from ..report.plots import plot_files, plot_run
from ..scores import ScoreTable
from ..shown import plural
from ..simulation.audit import audit, read_claims
from .parsing import INCLUDE_PATH, JSON, Opt, Options, Run, emit, prints_json, warn
from .scores import progress

# -- check -----------------------------------------------------------------------------------------


CHECK: Options = {
    "tasks=TASK...": "tasks, groups, tags or files; commas allowed",
    **INCLUDE_PATH,
    "--metric M": "look at this metric only",
    "--download": "fetch documents that are not on this machine",
    "--write_variants DIR": "write YAML files there by which the plain lm_eval command runs the "
    "tasks adaptively",
    **JSON,
}


def check(args: argparse.Namespace) -> int:
    r"""Say which metrics of a task can be used adaptively: their scale, direction, and the key of
    the estimate. For the others, say why not and what to do.

    examples:
      lm-eval-ccat check truthfulqa_gen
      lm-eval-ccat check my_task --include_path my_tasks --metric my_score
      lm-eval-ccat check mmlu,wmt16-de-en --json
      lm-eval-ccat check hellaswag --write_variants mine
      lm_eval --model hf --model_args pretrained=gpt2 --include_path mine \
          --tasks hellaswag_adaptive

    No model is called, and nothing is fetched without --download: of a task whose
    documents are not on this machine only the YAML is checked.  Exit codes: 0 every
    task has a metric that can be used (the one named by --metric, if given), 3 some
    task has none, 2 no such task, 1 error.
    """
    if not args.download:
        # Read when the hub's client is imported; the harness imports it.
        os.environ.setdefault("HF_HUB_OFFLINE", "1")
        os.environ.setdefault("HF_DATASETS_OFFLINE", "1")
    names = [name for names_of_flag in args.tasks for name in names_of_flag.split(",") if name]
    folders = with_shipped_tasks([args.include_path] if args.include_path else [])
    checks = check_tasks(names, include_path=folders, metric=args.metric)
    emit(args.json, [check.to_dict() for check in checks], [_in_words(checks)])
    if args.write_variants:
        variants = write_variants(Path(args.write_variants), names, folders)
        for task, reason in variants.in_full.items():
            print(f"{task} is run in full: {reason}", file=sys.stderr)
        print(
            f"\nWrote {plural(len(variants.files), 'file')} to {variants.folder}. Run:\n  lm_eval "
            f"--include_path {variants.folder} --tasks {','.join(variants.names)} ...",
            file=sys.stderr if prints_json(args.json) else sys.stdout,
        )
    return 0 if all(check.usable for check in checks) else 3


def _in_words(checks: list[TaskCheck]) -> str:
    """Tasks and their metrics as text; tasks that differ in name only stand together."""
    grouped: dict[Any, list[TaskCheck]] = {}
    for check in checks:
        same = (_but_for_names(check.metrics, check.task), check.reason.replace(check.task, ""))
        grouped.setdefault(same, []).append(check)
    blocks = []
    for members in grouped.values():
        first = members[0]
        lines = [_title(members)]
        if first.reason:
            lines += _wrapped(f"cannot be run adaptively: {first.reason}", "  ")
        usable = [m for m in first.metrics if m.usable]
        if usable and not first.reason:
            rows = [("metric", "scale", "key of the estimate")]
            rows += [(m.metric, m.words, str(m.key)) for m in usable]
            widths = [max(len(row[i]) for row in rows) for i in (0, 1)]
            lines += [f"  {a:<{widths[0]}}  {b:<{widths[1]}}  {c}".rstrip() for a, b, c in rows]
        if not first.reason:
            for reason in dict.fromkeys(m.reason for m in first.metrics if not m.usable):
                lines += _wrapped(f"refused: {reason}", "  ")
        for note in dict.fromkeys(note for check in members for note in check.notes):
            lines += _wrapped(f"note: {note}", "  ")
        blocks.append("\n".join(lines))
    return "\n\n".join(blocks)


def _but_for_names(metrics: Any, task: str) -> tuple[Any, ...]:
    return tuple((m.metric, m.key, m.words, m.reason.replace(task, "")) for m in metrics)


def _title(members: list[TaskCheck]) -> str:
    known = [check.documents for check in members if check.documents is not None]
    count = f"{sum(known)} documents" if len(known) == len(members) else "documents not downloaded"
    if len(members) == 1:
        return f"{members[0].task} ({count})"
    names = ", ".join(check.task for check in members[:3])
    more = f" and {len(members) - 3} more" if len(members) > 3 else ""
    return f"{names}{more} ({len(members)} tasks, {count})"


def _wrapped(text: str, indent: str) -> list[str]:
    return textwrap.wrap(
        text, 100, initial_indent=indent, subsequent_indent=indent + "  ", break_on_hyphens=False
    )


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


COMMANDS: dict[str, tuple[Run, Options]] = {
    "check": (check, CHECK),
    "report": (report, REPORT),
    "verify": (verify, VERIFY),
}

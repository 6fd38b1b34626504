"""`calibrate`: item banks from the scores of other models."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

from ..bank import ItemBank
from ..content import Facts
from ..errors import UsageError
from ..report.following import to_rank
from ..shown import one_line_per_kind, plural
from ..upkeep import score_tables
from ..upkeep.build import bank_of, build
from ..upkeep.words import in_lines, in_one_line, report
from .parsing import (
    EXCLUDE,
    JSON,
    READING,
    REQUIRED,
    Opt,
    Options,
    columns,
    doubts_of_range,
    emit,
    names_of,
    prints_json,
    progress,
    read_scores,
    reading_of,
    require_place,
    warn,
)

OPTIONS: Options = {
    "scores=LOGS_OR_TABLE*": "harness outputs (run with --log_samples), their archive, a "
    "repository of them (github:OWNER/NAME), data sets on the hub (hub:OWNER/NAME; hub:OWNER for a "
    "board of them), what HELM published on the harness's --task (helm:lite), or a .parquet or "
    ".csv table; may be left out with --borrow",
    "--borrow BANK_OR_SCORES...": Opt(
        "for a task that few or no models have run: borrow the items' parameters from at least "
        "three tasks on the same documents (logs, tables, or banks made with --keep_scores)",
        (),
    ),
    **READING,
    "--method NAME": Opt(
        "'default', 'paper' (exactly as in the paper) or an installed method", "default"
    ),
    "--scale_items": "scale each item's scores to [0, 1] over the calibration models first, as the "
    "paper does for BioLaySumm; the bank keeps each item's ends",
    **EXCLUDE,
    "--models N": Opt(
        "take so many models, spread over scores and families (default for a leaderboard: "
        f"{score_tables.MODELS})",
        read=int,
    ),
    "--max_gb X": Opt("most gigabytes to fetch", score_tables.MAX_GB),
    "--drop_copies": "leave out models whose scores all equal those of another",
    "--keep_scores": "keep the scores in the bank, which enlarges it and reveals them",
    **JSON,
    "-o --output BANK": Opt("file to write; a folder for several tasks", REQUIRED),
}


#: Flags that are arguments of `bank_of` and `build`.
_BANK_OPTIONS = "method borrow models drop_copies keep_scores scale_items".split()


def calibrate(args: argparse.Namespace) -> int:
    r"""Make an item bank from the scores of several models, and say whether to trust it.

    example:
      lm-eval-ccat calibrate harness_logs/ --task my_task --metric bleu -o my_task.bank.json
      lm-eval-ccat calibrate scores.parquet --metric mqm --range 25,0 -o mqm.bank.json
      lm-eval-ccat calibrate harness_logs/ --task mmlu --metric acc -o mmlu.banks
      lm-eval-ccat calibrate hub:open-llm-leaderboard/A__x-details \
          hub:open-llm-leaderboard/B__y-details --metric '*' -o board.banks
      lm-eval-ccat calibrate hub:open-llm-leaderboard --task leaderboard_musr_murder_mysteries \
          --models 60 -o murder.bank.json
      lm-eval-ccat calibrate two_runs/ --task en-uk --borrow other_pairs/ --metric chrf \
          -o uk.bank.json

    Several tasks (a table with several, a group that was run, such as mmlu, a,b, or 'mmlu_*') make
    a suite: a folder with a bank per task and metric.  Every command that takes a bank takes a
    suite.  Exit code 3: some of them got no bank.
    """
    from ..integrations.log_request import LogRequest
    from ..integrations.logs import HELM, logs_of

    if not (args.scores or args.borrow):
        raise UsageError("no scores: name logs or a table, or tasks to --borrow from")
    if args.models is not None and args.models < 2:
        raise UsageError("--models: a bank takes at least 2")
    with ExitStack() as stack:
        with progress("fetching logs") as show:
            request = LogRequest(
                tasks=tuple(names_of(args.task)),
                metric=args.metric,
                models=args.models,
                max_gb=args.max_gb,
                say=lambda line: print(line, file=sys.stderr, flush=True),
                on_progress=show,
            )
            logs = stack.enter_context(logs_of(args.scores, request))
        options = {
            **{name: getattr(args, name) for name in _BANK_OPTIONS},
            "exclude": names_of(args.exclude),
            # Fetched logs lie in folders that are gone tomorrow: the bank records their names.
            "names": request.names,
            "published_elsewhere": any(name.startswith(HELM) for name in args.scores),
        }
        # A pattern asks for a suite, even if only one metric fits it.
        asks_for_suite = set(args.metric or "") & set("*?,")
        is_single_task = logs is None or (
            not asks_for_suite and score_tables.names_one_task(logs, args.task)
        )
        require_place(args.output, is_folder=not is_single_task)
        if logs is None or is_single_task:
            return _one_bank(args, logs, options)
        return _suite_of_banks(args, logs, options)


def _one_bank(args: argparse.Namespace, logs: Path | None, options: Mapping[str, Any]) -> int:
    """Make a bank of one task, and print what is known of it; return the exit code."""
    table = None
    if logs is not None:
        table = read_scores(logs, args, repeats=True)
        # Without this, the error would be of a table without rows.
        if set(options["exclude"]) >= set(table.models):
            raise UsageError("--exclude leaves no model")
        if options["exclude"]:
            table.select(options["exclude"])  # its error lists the models
    query = replace(reading_of(args), metric=args.metric, task=args.task)
    table, bank = bank_of(table, query, **options)
    bank.save(args.output)
    facts = report(table, bank)
    bank_line = f"{args.output}; --json shows every figure"
    next_step = to_rank([bank.task or "TASK"], own_tasks=True, bank=args.output)
    emit(args.json, facts, [*columns([*in_lines(facts), ("bank", bank_line)]), next_step])
    warn(*dict.fromkeys(facts["warnings"]))
    return 0


def _suite_of_banks(args: argparse.Namespace, logs: Path, options: Mapping[str, Any]) -> int:
    """Make a bank of each task and metric, and print a line on each; return the exit code."""
    facts: dict[str, dict[str, Facts]] = {}
    lacking: list[str] = []
    warnings: dict[str, list[str]] = {}

    def show(task: str, name: str, bank: ItemBank | str, report: Facts) -> None:
        """Print a line on a bank once it is made, or warn why there is none; see `build`."""
        if isinstance(bank, str):
            lacking.append(f"{task} {name}")
            warn(f"{task} {name}: no bank: {bank}")
            return
        facts.setdefault(task, {})[name] = report
        # Banks appear one by one, as calibrating many takes minutes.
        warn(*doubts_of_range(args, bank.metric, bank.scale.higher_is_better))
        warnings[f"{task} {name}"] = list(dict.fromkeys(report["warnings"]))
        if not prints_json(args.json):
            print(f"{task} {name}: {in_one_line(report)}; trust: {report['trust']}", flush=True)

    tasks, metrics = names_of(args.task) or ("*",), names_of(args.metric) or None
    query = replace(reading_of(args), repeats=True)
    suite = build(logs, tasks, metrics, query, on_bank=show, **options)
    suite.save(args.output)
    warn(*one_line_per_kind(warnings))
    banks = f"{plural(len(list(suite.banks())), 'bank')} of {plural(len(suite), 'task')}"
    content = {"tasks": facts, "without_bank": lacking}
    next_step = to_rank(list(suite), own_tasks=True, bank=args.output)
    emit(args.json, content, [f"{args.output}: {banks}", next_step])
    return 3 if lacking else 0

"""``lm-eval-ccat calibrate``: make an item bank from harness logs or a score table."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from .parsing import add_exclude, add_executor, add_json, names_of, prints_json, warn, write_json
from .reading import add_reading_arguments, progress, read_scores

EPILOG = """\
example:
  lm-eval-ccat calibrate harness_logs/ --task my_task --metric bleu -o my_task.bank.json
  lm-eval-ccat calibrate scores.parquet --metric mqm --range 0,25 --lower_is_better -o mqm.bank.json
  lm-eval-ccat calibrate harness_logs/ --task mmlu --metric acc -o mmlu.banks

Of a group, a list or a pattern of tasks (mmlu, or a,b, or 'mmlu_*') the result is a suite bank: a
folder with a bank per task and metric. Every command but `bank form` takes it as it takes a bank.
"""

_SHOWN_ITEMS = 10


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    """Add ``calibrate`` to the command line."""
    parser = subparsers.add_parser(
        "calibrate",
        help="make an item bank from logs or a score table",
        description="Calibrate an item bank on the scores of several models, and say whether it "
        "can be trusted.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "scores",
        metavar="LOGS_OR_TABLE",
        help="a directory of harness outputs (run with --log_samples), or a .parquet or .csv table",
    )
    add_reading_arguments(parser)
    parser.add_argument(
        "--method",
        default="default",
        help="default (recommended), paper (exactly the paper), or another installed method",
    )
    parser.add_argument(
        "--rescale",
        choices=("range", "none"),
        help="for --method paper: `range` maps the scores told to its test by the range of the "
        "calibration scores, as the paper's experiments do (the default); `none` takes them as "
        "given",
    )
    add_exclude(parser)
    parser.add_argument(
        "--hash_names",
        action="store_true",
        help="write hashes in place of model names and paths into the bank",
    )
    parser.add_argument(
        "--keep_scores",
        action="store_true",
        help="keep the scores in the bank; it grows, and reveals them",
    )
    parser.add_argument(
        "--no_replay",
        action="store_true",
        help="skip the self-check, which replays the bank's own models",
    )
    add_executor(
        parser,
        "the tasks of a group, a list or a pattern are calibrated",
        "here, one after the other",
        "tasks (each node must find the logs under the same path)",
    )
    add_json(parser, "the report")
    parser.add_argument(
        "-o",
        "--output",
        required=True,
        metavar="BANK",
        help="file to write; of several tasks a folder",
    )
    parser.set_defaults(func=run)


def run(args: argparse.Namespace) -> int:
    """Calibrate, save, report."""
    from ..cluster import executing

    with executing(args.executor, args.ray_address):
        return _run(args)


def _run(args: argparse.Namespace) -> int:
    from ..metrics import check_column
    from ..upkeep.age import dated
    from ..upkeep.calibrate import calibrate, replay, report
    from ..upkeep.tasks import is_one_task

    if args.task and Path(args.scores).exists() and not is_one_task(args.scores, args.task):
        return _run_suite(args)
    table = read_scores(args.scores, args)
    if names := names_of(args.exclude):
        table.select(names)  # an unknown name is an error, not a silent nothing
        table = table.without(names)
    check_column(table.raw, metric=table.metric, task=table.task or "")
    options = {} if args.rescale is None else {"rescale": args.rescale}
    kept = {"hash_names": args.hash_names, "keep_scores": args.keep_scores}
    bank = dated(calibrate(table, args.method, **kept, **options))
    bank.save(args.output)
    replayed = None
    if not args.no_replay:
        with progress("replaying", "folds") as show:
            replayed = replay(table, bank, show)
    facts = report(table, bank, replayed)
    write_json(args.json, facts)
    if not prints_json(args.json):
        print("\n".join(describe(facts, args.output)))
    for warning in facts["warnings"]:
        warn(warning)
    return 0


def _run_suite(args: argparse.Namespace) -> int:
    """Calibrate the tasks of a group, a list or a pattern."""
    from ..upkeep.build import build
    from ..upkeep.calibrate import report

    facts: dict[str, dict[str, Any]] = {}
    lacking: list[str] = []

    def show(outcome: Any, made: Any, table: Any) -> None:
        name = f"{outcome.task} {outcome.metric}"
        if isinstance(made, str):
            lacking.append(name)
            warn(f"{name}: no bank: {made}")
            return
        one = facts.setdefault(outcome.task or "", {})[outcome.metric] = report(table, made)
        if not prints_json(args.json):
            print(
                f"{name}: {one['items_kept']} of {one['items']} items kept, "
                f"{len(one['models'])} models; {one['trust']}",
                flush=True,
            )

    suite = build(
        args.scores,
        args.method,
        tasks=names_of(args.task),
        metrics=names_of(args.metric) or None,
        filter=args.filter,
        exclude=names_of(args.exclude),
        range=args.range,
        lower_is_better=args.lower_is_better,
        on_bank=show,
        hash_names=args.hash_names,
        keep_scores=args.keep_scores,
    )
    suite.save(args.output)
    write_json(args.json, {"tasks": facts, "without_bank": lacking})
    if not prints_json(args.json):
        n = len(list(suite.banks()))
        print(f"{args.output}: {n} bank{'' if n == 1 else 's'} of {len(suite)} tasks")
    return 3 if lacking else 0


def describe(facts: dict[str, Any], output: str) -> list[str]:
    """Return the printed report."""
    means = list(facts["models"].items())
    removed = list(facts["removed"].items())
    lines = [
        ("task", f"{facts['task'] or 'not stated'}, filter {facts['filter'] or 'not stated'}"),
        ("metric", f"{facts['metric']} ({facts['scale']})"),
        ("method", facts["method"]),
        (
            "models",
            f"{len(means)}"
            + (f" in {facts['configs']} configs" if facts["configs"] > len(means) else "")
            + f", from {means[0][0]} ({means[0][1]:.4g}) to {means[-1][0]} ({means[-1][1]:.4g})",
        ),
        (
            "items",
            f"{facts['items_kept']} kept of {facts['items']}"
            + (f"; {facts['missing_scores']} scores missing" if facts["missing_scores"] else ""),
        ),
    ]
    for doc_id, why in removed[:_SHOWN_ITEMS]:
        lines.append(("  removed", f"doc_id {doc_id}: {why}"))
    if len(removed) > _SHOWN_ITEMS:
        lines.append(("  removed", f"{len(removed) - _SHOWN_ITEMS} more, listed in the bank"))
    of_items = " (median item)" if "noise" in facts["parameters"] else ""
    lines += [
        (name, f"{facts[name]:.4g}{of_items}") for name in ("k", "discrimination") if name in facts
    ]
    for name, value in facts["constants"].items():
        lines.append((name, f"{value:.4g}"))
    for name, spread in facts["parameters"].items():
        lines.append(
            (
                name,
                f"median {spread['median']:.3g}, 90% of items in "
                f"[{spread['p05']:.3g}, {spread['p95']:.3g}]",
            )
        )
    if facts["settings"]:
        shown = ", ".join(
            f"{key}={json.dumps(value)}"
            for key, value in facts["settings"].items()
            if value is not None
        )
        lines.append(("settings", shown))
    for name, value in facts["self_check"].items():
        if isinstance(value, (int, float)):
            lines.append((f"check: {name}", f"{value:.4g}"))
    lines += [("trust", facts["trust"]), ("bank", f"{output} (sha256 {facts['sha256'][:12]})")]
    width = max(len(name) for name, _ in lines)
    return [f"{name:<{width}}  {text}" for name, text in lines]

"""``lm-eval-ccat audit``: compare what a run claimed with full results."""

from __future__ import annotations

import argparse
import sys

from ..errors import UsageError
from .parsing import add_json, prints_json, write_json
from .reading import add_reading_arguments, read_scores

EPILOG = """\
example:
  lm-eval-ccat audit models.run --full harness_logs/
  lm-eval-ccat audit out/gpt2/results_2026-01-01T10-00-00.json --full scores.parquet --metric bleu
  lm-eval-ccat audit models.run --full logs/ --names a=org/model-a,b=org/model-b

Nothing is run: RUN is what `rank` or an adaptive `run` left, LOGS are full results of its models.
"""


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    """Add ``audit`` to the command line."""
    parser = subparsers.add_parser(
        "audit",
        help="compare what a run claimed with full results",
        description="Compare the order, intervals and decided pairs of a run with full results.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "run",
        metavar="RUN",
        help="a run directory of `rank`, its result.json, or results_*.json of an adaptive `run`",
    )
    parser.add_argument(
        "--full",
        required=True,
        metavar="LOGS",
        help="full results: a directory of harness outputs, or a .parquet or .csv table",
    )
    add_reading_arguments(parser)
    parser.add_argument(
        "--names",
        default="",
        metavar="RUN=FULL,...",
        help="names that differ in the full results",
    )
    add_json(parser, "the comparison")
    parser.set_defaults(func=run)


def run(args: argparse.Namespace) -> int:
    """Compare and print."""
    from ..simulation.audit import audit, describe, read_claims

    claims = read_claims(args.run, args.task, args.metric)
    args.metric = args.metric or claims.metric
    args.task = args.task or claims.task
    args.filter = args.filter or claims.filter
    table = read_scores(args.full, args)
    found = audit(claims, table, _names(args.names))
    write_json(args.json, found)
    if not prints_json(args.json):
        print("\n".join(describe(found)))
    for warning in found["warnings"]:
        print(f"warning: {warning}", file=sys.stderr)
    return 0


def _names(text: str) -> dict[str, str]:
    pairs = [part.split("=", 1) for part in text.split(",") if part]
    if any(len(pair) != 2 for pair in pairs):
        raise UsageError(f"--names {text!r} is not RUN=FULL,RUN=FULL")
    return {run: full for run, full in pairs}

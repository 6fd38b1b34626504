"""``lm-eval-ccat bank check``: is a bank still true of its documents and of new models?"""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Any

from .parsing import add_json, prints_json, write_json
from .reading import add_reading_arguments, read_scores

if TYPE_CHECKING:
    from ..upkeep.findings import Finding

EPILOG = """\
examples:
  lm-eval-ccat bank check my_task.bank.json --scores new_logs/
  lm-eval-ccat bank check my_task.bank.json --documents_of my_task --include_path my_tasks

--scores are full results (harness logs or a score table), best of models that the bank was not
calibrated on.  They show documents that changed, difficulties that drifted, items that now
discriminate negatively, contamination-like items and models, and a bank too easy or too hard.
Without either option only the file itself is checked.
Exit codes: 0 nothing found (notes aside), 3 warnings or problems, 2 usage, 1 error.
"""
FOUND = 3


def add_action(actions: argparse._SubParsersAction) -> None:
    """Add ``check``."""
    parser = actions.add_parser(
        "check",
        help="check a bank against a task's documents or against new full results",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("bank", metavar="BANK", help="a bank file made by `calibrate`")
    parser.add_argument("--scores", metavar="LOGS_OR_TABLE", help="new full results")
    add_reading_arguments(parser)
    parser.add_argument(
        "--documents_of", metavar="TASK", help="load this task in the harness, compare documents"
    )
    parser.add_argument("--include_path", metavar="DIR", help="folder with further task files")
    add_json(parser, "what was found")
    parser.set_defaults(func=run)


def run(args: argparse.Namespace) -> int:
    """Check and print what was found."""
    from ..bank import ItemBank
    from ..upkeep.check import check_scores

    bank = ItemBank.load(args.bank)
    found: list[Finding] = []
    warnings: list[str] = []
    if args.documents_of:
        found += _documents(bank, args)
    if args.scores:
        for name in ("metric", "task", "filter"):
            if getattr(args, name) is None:
                setattr(args, name, getattr(bank, name))
        if args.range is None and args.lower_is_better is None:
            # The scores are of the bank's metric, so they are on its scale.
            args.range = (bank.scale.low, bank.scale.high)
            args.lower_is_better = not bank.scale.higher_is_better
        table = read_scores(args.scores, args)
        warnings += table.warnings
        found += check_scores(bank, table)
    bad = [f for f in found if f.level != "note"]
    facts = {
        "bank": args.bank,
        "sha256": bank.sha256,
        "ok": not bad,
        "findings": [f.to_dict() for f in found],
        "warnings": [*bank.warnings, *warnings],
    }
    write_json(args.json, facts)
    if prints_json(args.json):
        return FOUND if bad else 0
    print(f"{args.bank}: {bank.n_items} items, {len(bank.models)} calibration models")
    for finding in found:
        print(f"  {finding.level}: {finding.message}")
    for warning in (*bank.warnings, *bank.notes):
        print(f"  the bank says: {warning}")
    if not bad:
        looked = args.scores or args.documents_of
        print("  nothing wrong found" if looked else "  the file is sound")
    for warning in warnings:
        print(f"warning: {warning}", file=sys.stderr)
    return FOUND if bad else 0


def _documents(bank: Any, args: argparse.Namespace) -> list[Finding]:
    from ..harness.documents import task_documents
    from ..upkeep.check import check_documents
    from ..upkeep.findings import Finding

    task = task_documents(args.documents_of, args.include_path)
    found = check_documents(bank, task.doc_ids, task.doc_hashes)
    if bank.filter is not None and bank.filter not in task.filters:
        names = ", ".join(map(repr, task.filters))
        message = f"the task has no filter {bank.filter!r}, it has {names}"
        found.append(Finding("other_filter", "problem", message))
    return found

"""``lm-eval-ccat bank check``: is a bank still true of its documents and of new models?"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from .parsing import add_json, prints_json, write_json
from .reading import add_reading_arguments, read_scores

if TYPE_CHECKING:
    from ..upkeep.findings import Finding

EPILOG = """\
examples:
  lm-eval-ccat bank check my_task.bank.json --scores new_logs/
  lm-eval-ccat bank check my_task.bank.json --documents_of my_task --include_path my_tasks
  lm-eval-ccat bank check mmlu.banks --scores new_logs/          every bank of a suite

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
    parser.add_argument("bank", metavar="BANK", help="a bank, or the folder of a suite")
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
    from ..bank import SuiteBank, is_suite

    if not is_suite(args.bank):
        facts = checked(args.bank, args)
        write_json(args.json, facts)
        if not prints_json(args.json):
            _print(facts, args)
        return 0 if facts["ok"] else FOUND
    every: dict[str, dict[str, Any]] = {}
    for (task, outcome), file in SuiteBank.files(args.bank).items():
        one = argparse.Namespace(**vars(args))
        if args.documents_of:  # of the group; each bank has its own task
            one.documents_of = task
        facts = every.setdefault(task, {})[outcome] = checked(str(file), one)
        if not prints_json(args.json):
            _print(facts, args)
    ok = all(facts["ok"] for outcomes in every.values() for facts in outcomes.values())
    write_json(args.json, {"suite": args.bank, "ok": ok, "tasks": every})
    return 0 if ok else FOUND


def checked(file: str, args: argparse.Namespace) -> dict[str, Any]:
    """What there is to find about one bank, as JSON values."""
    from ..bank import ItemBank
    from ..upkeep.check import check_scores

    bank = ItemBank.load(file)
    found: list[Finding] = []
    warnings: list[str] = []
    if args.documents_of:
        found += _documents(bank, args)
    if args.scores:
        table = read_scores(args.scores, as_of_bank(args, bank))
        warnings += table.warnings
        found += check_scores(bank, table)
    return {
        "bank": file,
        "sha256": bank.sha256,
        "items": bank.n_items,
        "models": len(bank.models),
        "ok": all(f.level == "note" for f in found),
        "findings": [f.to_dict() for f in found],
        "notes": list(bank.notes),
        "warnings": [*bank.warnings, *warnings],
    }


def as_of_bank(given: argparse.Namespace, bank: Any) -> argparse.Namespace:
    """Reading arguments, the bank's own metric, task, filter and scale where none are given."""
    args = argparse.Namespace(**vars(given))
    for name in ("metric", "task", "filter"):
        if getattr(args, name) is None:
            setattr(args, name, getattr(bank, name))
    if args.range is None and args.lower_is_better is None:
        # The scores are of the bank's metric, so they are on its scale.
        args.range = (bank.scale.low, bank.scale.high)
        args.lower_is_better = not bank.scale.higher_is_better
    return args


def _print(facts: dict[str, Any], args: argparse.Namespace) -> None:
    print(f"{facts['bank']}: {facts['items']} items, {facts['models']} calibration models")
    for finding in facts["findings"]:
        print(f"  {finding['level']}: {finding['message']}")
    for warning in (*facts["warnings"], *facts["notes"]):
        print(f"  warning: {warning}")
    if facts["ok"]:
        looked = args.scores or args.documents_of
        print("  nothing wrong found" if looked else "  the file is sound")


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

"""``lm-eval-ccat bank check``: is a bank still true, and what differs between two of them?"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from ..errors import UsageError
from .parsing import INCLUDE_PATH, JSON, Options, add_command, prints_json, write_json
from .reading import is_folder, scores_for, write_facts

if TYPE_CHECKING:
    from ..bank import ItemBank
    from ..upkeep.check import Finding

EPILOG = """\
examples:
  lm-eval-ccat bank check my_task.bank.json --scores new_logs/
  lm-eval-ccat bank check my_task.bank.json --documents_of my_task --include_path my_tasks
  lm-eval-ccat bank check mmlu.banks --scores new_logs/          every bank of a suite
  lm-eval-ccat bank check old.bank.json new.bank.json            what differs between two

--scores are full results (harness logs or a score table), best of models that the bank was not
calibrated on.  They show documents that changed, difficulties that drifted, items that now
discriminate negatively, contamination-like items and models, and a bank too easy or too hard.
Without any of these only the file itself is checked.
Exit codes: 0 nothing found (notes aside), or no difference; 3 warnings, problems or differences;
2 usage; 1 error.
"""
FOUND = 3


OPTIONS: Options = {
    "BANK": "a bank, or the folder of a suite",
    "OTHER?": "another, to be compared with it",
    "--scores LOGS_OR_TABLE": "new full results",
    "--documents_of TASK": "load this task and compare its documents with the bank's",
    **INCLUDE_PATH,
    **JSON,
}


def add_action(actions: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add ``check``."""
    what = "check a bank against documents or new full results, or compare it with another"
    add_command(actions, "check", run, OPTIONS, what, EPILOG)


def run(args: argparse.Namespace) -> int:
    """Check and print what was found."""
    from ..bank import SuiteBank

    if args.other is not None:
        return _compare(args)
    facts_by_bank: dict[tuple[str, str], dict[str, Any]] = {}
    for task, outcome, bank in SuiteBank.load(args.bank).banks():
        of = f"{args.bank}: {task} {outcome}" if is_folder(args.bank) else args.bank
        facts = facts_by_bank[task, outcome] = {"bank": of, **_checked(bank, args)}
        if not prints_json(args.json):
            _print(facts, bool(args.scores or args.documents_of))
    ok = all(facts["ok"] for facts in facts_by_bank.values())
    write_facts(args.json, is_folder(args.bank), args.bank, facts_by_bank, ok=ok)
    return 0 if ok else FOUND


def _checked(bank: ItemBank, args: argparse.Namespace) -> dict[str, Any]:
    """Check one bank; return the findings as JSON values."""
    from ..upkeep.check import check_scores

    findings: list[Finding] = []
    warnings: list[str] = [*bank.warnings]
    if args.documents_of:
        # Of a suite the task named is a group; each bank has its own task.
        task = bank.task if is_folder(args.bank) else args.documents_of
        findings += _documents(bank, str(task), args.include_path)
    if args.scores:
        table = scores_for(bank, args.scores)
        warnings += table.warnings
        findings += check_scores(bank, table)
    return {
        "sha256": bank.sha256,
        "items": bank.n_items,
        "models": len(bank.models),
        "ok": all(f.level == "note" for f in findings),
        "findings": [f.to_dict() for f in findings],
        "notes": list(bank.notes),
        "warnings": warnings,
    }


def _documents(bank: ItemBank, task: str, include_path: str | None) -> list[Finding]:
    from ..harness import open_session
    from ..upkeep.check import check_documents

    # Without a model: nothing is asked, and no code that a model wrote is run.
    session = open_session(task, None, include_path=include_path, confirm_run_unsafe_code=True)
    return check_documents(bank, session.doc_ids, session.doc_hashes, session.filters)


def _print(facts: dict[str, Any], looked: bool) -> None:
    print(f"{facts['bank']}: {facts['items']} items, {facts['models']} calibration models")
    for finding in facts["findings"]:
        print(f"  {finding['level']}: {finding['message']}")
    for warning in (*facts["warnings"], *facts["notes"]):
        print(f"  warning: {warning}")
    if facts["ok"]:
        print("  nothing wrong found" if looked else "  the file is sound")


def _compare(args: argparse.Namespace) -> int:
    """Print what differs between two banks, or two suites."""
    from ..bank import ItemBank, SuiteBank
    from ..upkeep.diff import diff_banks, diff_in_words, diff_suites

    if args.scores or args.documents_of:
        raise UsageError("two banks are compared with each other: leave out --scores and documents")
    if is_folder(args.bank) != is_folder(args.other):
        ItemBank.load(args.other if is_folder(args.bank) else args.bank)  # or it is missing
        raise UsageError(f"{args.bank} and {args.other}: one is a suite, the other a single bank")
    if is_folder(args.bank):
        suites = diff_suites(SuiteBank.load(args.bank), SuiteBank.load(args.other))
        difference: object = suites
        same = suites["same"]
        lines = [f"{t} {o}: added" for t, o in suites["banks_added"]]
        lines += [f"{t} {o}: removed" for t, o in suites["banks_removed"]]
        for task, outcomes in suites["tasks"].items():
            for name, one in outcomes.items():
                lines += [f"{task} {name}: {line}" for line in diff_in_words(one)]
    else:
        difference = diff = diff_banks(ItemBank.load(args.bank), ItemBank.load(args.other))
        same, lines = diff["same"], diff_in_words(diff)
    write_json(args.json, difference)
    if not prints_json(args.json):
        print("\n".join(lines) or "no difference")
    return 0 if same else FOUND

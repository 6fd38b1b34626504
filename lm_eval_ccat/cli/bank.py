"""``lm-eval-ccat bank``: show and push item banks; modules of their own do the rest."""

from __future__ import annotations

import argparse
import textwrap
from typing import Any

from . import bank_check, bank_form, bank_update
from .parsing import JSON, REQUIRED, WIDTH, Opt, Options, add_command, prints_json, write_json
from .reading import by_task, is_folder

EPILOG = """\
examples:
  lm-eval-ccat bank show my_task.bank.json
  lm-eval-ccat bank check my_task.bank.json --scores new_logs/
  lm-eval-ccat bank check old.bank.json new.bank.json
  lm-eval-ccat bank update my_task.bank.json --scores new_logs/ -o my_task.v2.bank.json

BANK is a file, the folder of a suite (a bank per task and metric), or a name on the Hugging Face
hub (hub:OWNER/NAME).  Reading a bank never executes anything.
"""
SHOW = """\
examples:
  lm-eval-ccat bank show my_task.bank.json
  lm-eval-ccat bank show my_task.bank.json --json
  lm-eval-ccat bank show mmlu.banks             each bank of a suite in one line
"""
PUSH = """\
examples:
  lm-eval-ccat bank push my_task.bank.json hub:my-name/my-task-bank --license cc-by-4.0

Prints the page that goes with the bank and what the bank reveals, then asks.
"""


SUITE = "a bank, or the folder of a suite"


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add ``bank`` to the command line."""
    parser = subparsers.add_parser(
        "bank", help="show, check, update and push item banks", epilog=EPILOG
    )
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    for action in (bank_check, bank_update, bank_form):
        action.add_action(actions)
    add_command(
        actions, "show", show, {"BANK": SUITE, **JSON},
        "say what a bank was calibrated on and whether to trust it", SHOW,
    )  # fmt: skip
    options: Options = {
        "BANK": SUITE,
        "name=hub:OWNER/NAME": "where to put it",
        "--license ID": Opt("licence of the bank", REQUIRED),
        "--private": "make the repository private",
        "--yes": "push without asking",
    }
    add_command(actions, "push", push, options, "put a bank and its page on the hub", PUSH)


def show(args: argparse.Namespace) -> int:
    """Print one bank, or a line for each bank of a suite."""
    from ..bank import SuiteBank
    from ..upkeep.words import facts_of, in_one_line, in_sentences

    suite = SuiteBank.load(args.bank)
    banks = {(task, outcome): bank for task, outcome, bank in suite.banks()}
    facts: dict[tuple[str, str], dict[str, Any]] = {k: facts_of(b) for k, b in banks.items()}
    if not is_folder(args.bank):
        [(key, bank)] = banks.items()
        write_json(args.json, {"file": args.bank, **facts[key]})
        if not prints_json(args.json):
            print(f"{args.bank}  (sha256 {bank.short_hash})")
            for text in in_sentences(bank):
                print(textwrap.fill(text, WIDTH, initial_indent="  ", subsequent_indent="    "))
            for warning in facts[key]["warnings"]:
                print(f"  warning: {warning}")
        return 0
    write_json(args.json, {"suite": args.bank, "tasks": by_task(facts)})
    if not prints_json(args.json):
        kept = sum(one["items_kept"] for one in facts.values())
        print(f"{args.bank}: {len(banks)} banks of {len(suite)} tasks, {kept} items")
        width = max(len(" ".join(key)) for key in banks)
        for key, bank in banks.items():
            print(f"  {' '.join(key):<{width}}  {in_one_line(bank)}")
    return 0


def push(args: argparse.Namespace) -> int:
    """Show the page, ask, and push."""
    from ..bank import SuiteBank
    from ..integrations import hub
    from ..upkeep.words import page_of

    print(page_of(SuiteBank.load(args.bank), args.license))
    print(f"{args.bank} goes to {args.name} under licence {args.license}, as this page says")
    try:
        answer = "y" if args.yes else input("Push it? [y/N] ")
    except EOFError:
        answer = ""
    if answer.strip().lower() not in ("y", "yes"):
        print("not pushed (--yes pushes without asking)")
        return 3
    name = hub.push(args.bank, args.name, args.license, private=args.private)
    print(f"pushed; others use it with --bank {name}")
    return 0

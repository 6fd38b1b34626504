"""``lm-eval-ccat bank``: show, build and push item banks; modules of their own do the rest."""

from __future__ import annotations

import argparse
import textwrap
from typing import Any

from ..wording import plural
from . import bank_check, bank_form, bank_update
from .calibrate import add_borrow, say_of_bank
from .parsing import WIDTH, add_json, names_of, prints_json, write_json
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
BUILD = """\
example:
  lm-eval-ccat bank build --leaderboard details/ --metric acc_norm,exact_match -o board/
  lm-eval-ccat bank build --leaderboard hub:open-llm-leaderboard/A__x-details \\
      hub:open-llm-leaderboard/B__y-details -o board/

Reads what `calibrate` reads.  The result is a folder with a bank per task and metric, and
suite.json.
"""
PUSH = """\
examples:
  lm-eval-ccat bank push my_task.bank.json hub:my-name/my-task-bank --license cc-by-4.0

Prints the page that goes with the bank and what the bank reveals, then asks.
"""


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add ``bank`` to the command line."""
    parser = subparsers.add_parser(
        "bank",
        help="show, check, update, build and push item banks",
        epilog=EPILOG,
    )
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    for action in (bank_check, bank_update, bank_form):
        action.add_action(actions)
    _add_actions(actions)


def _add_actions(actions: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = actions.add_parser(
        "show", help="say what a bank was calibrated on and whether to trust it", epilog=SHOW
    )
    parser.add_argument("bank", metavar="BANK", help="a bank, or the folder of a suite")
    add_json(parser, "what the bank holds, parameters included,")
    parser.set_defaults(func=show)

    parser = actions.add_parser(
        "build", help="make a bank of every task and metric of published logs", epilog=BUILD
    )
    parser.add_argument(
        "--leaderboard",
        metavar="DIR",
        nargs="+",
        required=True,
        help="logs of many models: folders, or data sets on the hub as hub:OWNER/NAME",
    )
    parser.add_argument("--task", default="*", metavar="A,B*", help="tasks, patterns or groups")
    parser.add_argument("--metric", default="*", metavar="A,B*", help="metrics; default all")
    parser.add_argument("--method", default="default", help="response model")
    add_borrow(parser)
    parser.add_argument("--hash_names", action="store_true", help="hide the models' names")
    parser.add_argument("-o", "--output", metavar="DIR", required=True, help="folder to write")
    parser.set_defaults(func=build)

    parser = actions.add_parser(
        "push", help="put a bank and its page on the Hugging Face hub", epilog=PUSH
    )
    parser.add_argument("bank", metavar="BANK", help="a bank, or the folder of a suite")
    parser.add_argument("name", metavar="hub:OWNER/NAME", help="where to put it")
    parser.add_argument("--license", metavar="ID", required=True, help="licence of the bank")
    parser.add_argument("--private", action="store_true", help="make the repository private")
    parser.add_argument("--yes", action="store_true", help="push without asking")
    parser.set_defaults(func=push)


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


def build(args: argparse.Namespace) -> int:
    """Calibrate everything that matches."""
    from ..integrations.hub import logs_of
    from ..upkeep.build import build as built

    with logs_of(args.leaderboard) as folder:
        suite = built(
            folder,
            args.method,
            tasks=names_of(args.task),
            metrics=names_of(args.metric),
            borrow=args.borrow,
            on_bank=say_of_bank,
            hash_names=args.hash_names,
        )
    suite.save(args.output)
    print(f"{args.output}: banks of {plural(len(suite), 'task')}")
    return 0


def push(args: argparse.Namespace) -> int:
    """Show the page, ask, and push."""
    from ..bank import SuiteBank
    from ..integrations import hub
    from ..upkeep.words import page_of

    print(page_of(SuiteBank.load(args.bank), args.license))
    print(f"{args.bank} goes to {args.name} under licence {args.license}, as this page says")
    if not args.yes and input("Push it? [y/N] ").strip().lower() not in ("y", "yes"):
        print("not pushed")
        return 3
    name = hub.push(args.bank, args.name, args.license, private=args.private)
    print(f"pushed; others use it with --bank {name}")
    return 0

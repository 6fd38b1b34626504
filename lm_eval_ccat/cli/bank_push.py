"""``lm-eval-ccat bank push``: put a bank, or a suite, and its page on the Hugging Face hub."""

from __future__ import annotations

import argparse

EPILOG = """\
examples:
  lm-eval-ccat bank push my_task.bank.json hub:my-name/my-task-bank --license cc-by-4.0

Prints the page that goes with the bank and what the bank reveals, then asks.
"""


def add_action(actions: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add ``push``."""
    parser = actions.add_parser(
        "push", help="put a bank and its page on the Hugging Face hub", epilog=EPILOG
    )
    parser.add_argument("bank", metavar="BANK", help="a bank, or the folder of a suite")
    parser.add_argument("name", metavar="hub:OWNER/NAME", help="where to put it")
    parser.add_argument("--license", metavar="ID", required=True, help="licence of the bank")
    parser.add_argument("--private", action="store_true", help="for those you give access only")
    parser.add_argument("--yes", action="store_true", help="do not ask about what it reveals")
    parser.set_defaults(func=run)


def run(args: argparse.Namespace) -> int:
    """Show the page, ask, and push."""
    from ..bank import SuiteBank
    from ..integrations.hub import push
    from ..upkeep.words import page_of

    print(page_of(SuiteBank.load(args.bank), args.license))
    print(f"{args.bank} goes to {args.name} under licence {args.license}, as this page says")
    if not args.yes and input("Push it? [y/N] ").strip().lower() not in ("y", "yes"):
        print("not pushed")
        return 3
    name = push(args.bank, args.name, args.license, private=args.private)
    print(f"pushed; others use it with --bank {name}")
    return 0

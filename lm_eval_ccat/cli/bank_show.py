"""``lm-eval-ccat bank show``: what an item bank holds and whether to trust it."""

from __future__ import annotations

import argparse
import textwrap
from typing import Any

from .parsing import WIDTH, add_json, prints_json, write_json
from .reading import by_task, is_folder

EPILOG = """\
examples:
  lm-eval-ccat bank show my_task.bank.json
  lm-eval-ccat bank show my_task.bank.json --json
  lm-eval-ccat bank show mmlu.banks             each bank of a suite in one line
"""


def add_action(actions: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add ``show``."""
    parser = actions.add_parser(
        "show", help="say what a bank was calibrated on and whether to trust it", epilog=EPILOG
    )
    parser.add_argument("bank", metavar="BANK", help="a bank, or the folder of a suite")
    add_json(parser, "what the bank holds, parameters included,")
    parser.set_defaults(func=run)


def run(args: argparse.Namespace) -> int:
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

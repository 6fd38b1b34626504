"""``lm-eval-ccat bank``: look into an item bank, check it, add models to it, give it away."""

from __future__ import annotations

import argparse

from . import bank_build, bank_check, bank_form, bank_push, bank_show, bank_update

EPILOG = """\
examples:
  lm-eval-ccat bank show my_task.bank.json
  lm-eval-ccat bank check my_task.bank.json --scores new_logs/
  lm-eval-ccat bank check old.bank.json new.bank.json
  lm-eval-ccat bank update my_task.bank.json --scores new_logs/ -o my_task.v2.bank.json

BANK is a file, the folder of a suite (a bank per task and metric), or a name on the Hugging Face
hub (hub:OWNER/NAME).  Reading a bank never executes anything.
"""


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add ``bank`` to the command line."""
    parser = subparsers.add_parser(
        "bank",
        help="look into an item bank, check it, add models to it, give it away",
        epilog=EPILOG,
    )
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    for action in (bank_show, bank_check, bank_update, bank_build, bank_push, bank_form):
        action.add_action(actions)

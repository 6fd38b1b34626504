"""``lm-eval-ccat bank``: look into an item bank, check it, compare it, add models to it."""

from __future__ import annotations

import argparse

from . import bank_build, bank_changes, bank_check, bank_form, bank_show, bank_simulate

EPILOG = """\
examples:
  lm-eval-ccat bank show my_task.bank.json
  lm-eval-ccat bank check my_task.bank.json --scores new_logs/
  lm-eval-ccat bank check my_task.bank.json --documents_of my_task --include_path my_tasks
  lm-eval-ccat bank diff old.bank.json new.bank.json
  lm-eval-ccat bank update my_task.bank.json --scores new_logs/ -o my_task.v2.bank.json

Reading a bank never executes anything.
"""


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    """Add ``bank`` to the command line."""
    parser = subparsers.add_parser(
        "bank",
        help="look into an item bank, check it, compare it, add models to it",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    bank_show.add_action(actions)
    bank_check.add_action(actions)
    bank_changes.add_actions(actions)
    bank_form.add_action(actions)
    bank_simulate.add_action(actions)
    bank_build.add_actions(actions)

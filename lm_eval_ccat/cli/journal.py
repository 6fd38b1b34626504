"""``lm-eval-ccat journal``: check a run's journal, and keep what is sound of a damaged one."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from typing import TYPE_CHECKING

from .parsing import add_json, prints_json, write_json

if TYPE_CHECKING:
    from ..runs.salvage import Condition

EPILOG = """\
examples:
  lm-eval-ccat journal check models.run
  lm-eval-ccat journal salvage models.run
  lm-eval-ccat rank models.yaml --resume     then continue the run

exit codes: 0 sound (or salvaged), 1 damaged, 2 usage
"""


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    """Add ``journal`` to the command line."""
    parser = subparsers.add_parser(
        "journal",
        help="check the journal of a run, or salvage a damaged one",
        description="Check the journal of a run directory, or salvage a damaged one.",
        epilog=EPILOG,
    )
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    for name, what, run in (
        ("check", "verify the number and the checksum of every line", _check),
        ("salvage", "keep the longest sound prefix; the damaged file stays under a new name",
         _salvage),
    ):  # fmt: skip
        action = actions.add_parser(name, help=what, description=what.capitalize() + ".")
        action.add_argument("run", metavar="RUN_DIR", help="a run directory of `rank`")
        add_json(action, "the condition of the journal")
        action.set_defaults(func=run)


def _check(args: argparse.Namespace) -> int:
    from ..runs.salvage import check_journal

    found = check_journal(args.run)
    _show(args.json, _in_words(found), asdict(found))
    return 0 if found.damage is None else 1


def _salvage(args: argparse.Namespace) -> int:
    from ..runs.salvage import salvage_journal

    found, kept = salvage_journal(args.run)
    said = _in_words(found)
    if kept is None:
        said += "\nThere is nothing to salvage."
    else:
        said += (
            f"\nThe sound records are the journal now; the damaged one is {kept.name}."
            "\nContinue the run with --resume."
        )
    _show(args.json, said, {**asdict(found), "kept": None if kept is None else str(kept)})
    return 0


def _in_words(found: Condition) -> str:
    if found.damage is not None:
        return (
            f"{found.damage}.\nSound before it: {found.records} records. "
            f"Lines from there on: {found.lost}."
        )
    said = f"The journal is sound: {found.records} records of format {found.version}."
    if found.lost:
        said += "\nA crash tore the last line; --resume drops it and asks its item again."
    return said


def _show(target: str | None, text: str, content: dict[str, object]) -> None:
    if not prints_json(target):
        print(text)
    write_json(target, content)

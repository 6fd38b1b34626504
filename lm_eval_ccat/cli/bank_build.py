"""``lm-eval-ccat bank build``, ``bank push`` and ``bank card``."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..bank import ItemBank
    from ..scores.readers.reader import Outcome

EPILOG = """\
example:
  lm-eval-ccat bank build --leaderboard details/ --metric acc_norm,exact_match -o board/
  lm-eval-ccat bank build --leaderboard hub:open-llm-leaderboard/A__x-details \\
      hub:open-llm-leaderboard/B__y-details -o board/

Reads what `calibrate` reads: logs of the harness, published details of the Open LLM Leaderboards,
HELM's runs, Inspect's and lighteval's logs.  The result is a folder with a bank per task and
metric, and suite.json.
"""


def add_actions(actions: argparse._SubParsersAction) -> None:
    """Add ``build``, ``push`` and ``card``."""
    build = actions.add_parser(
        "build", help="make a bank of every task and metric of published logs", epilog=EPILOG
    )
    build.add_argument(
        "--leaderboard",
        metavar="DIR",
        nargs="+",
        required=True,
        help="logs of many models: folders, or data sets on the hub as hub:OWNER/NAME",
    )
    build.add_argument("--task", default="*", metavar="A,B*", help="tasks, patterns or groups")
    build.add_argument("--metric", default="*", metavar="A,B*", help="metrics; default all")
    build.add_argument("--method", default="default", help="response model")
    build.add_argument("--hash_names", action="store_true", help="hide the models' names")
    build.add_argument("-o", "--output", metavar="DIR", required=True, help="folder to write")
    build.set_defaults(func=run_build)
    push = actions.add_parser("push", help="put a bank and its page on the Hugging Face hub")
    push.add_argument("bank", metavar="BANK", help="a bank file made by `calibrate`")
    push.add_argument("name", metavar="hub:OWNER/NAME", help="where to put it")
    push.add_argument("--license", metavar="ID", required=True, help="licence of the bank")
    push.add_argument("--private", action="store_true", help="for those you give access only")
    push.add_argument("--yes", action="store_true", help="do not ask about what it reveals")
    push.set_defaults(func=run_push)
    card = actions.add_parser("card", help="print a bank's page in Markdown")
    card.add_argument("bank", metavar="BANK", help="a bank file made by `calibrate`")
    card.add_argument("--license", metavar="ID", help="licence to be named in it")
    card.set_defaults(func=run_card)


def run_build(args: argparse.Namespace) -> int:
    """Calibrate everything that matches."""
    from ..integrations.hub import logs_of
    from ..upkeep.build import build

    def show(outcome: Outcome, made: ItemBank | str, scores: object) -> None:
        name = f"{outcome.task} {outcome.metric}" + (f",{outcome.filter}" if outcome.filter else "")
        if isinstance(made, str):
            print(f"warning: {name}: no bank: {made}", file=sys.stderr)
        else:
            print(f"{name}: {int(made.kept.sum())} items, {len(made.models)} models")

    with logs_of(args.leaderboard) as folder:
        suite = build(
            folder,
            args.method,
            tasks=args.task.split(","),
            metrics=args.metric.split(","),
            on_bank=show,
            hash_names=args.hash_names,
        )
    suite.save(args.output)
    print(f"{args.output}: banks of {len(suite)} task{'' if len(suite) == 1 else 's'}")
    return 0


def run_push(args: argparse.Namespace) -> int:
    """Say what the bank reveals, ask, and push."""
    from ..bank import ItemBank
    from ..integrations.hub import push
    from ..upkeep.card import reveals

    shown = reveals(ItemBank.load(args.bank))
    print(f"{args.bank} under licence {args.license} to {args.name}; whoever has it learns")
    for one in shown or ["nothing but the items' parameters"]:
        print(f"  {one}")
    if not args.yes and input("Push it? [y/N] ").strip().lower() not in ("y", "yes"):
        print("not pushed")
        return 3
    name = push(args.bank, args.name, args.license, private=args.private)
    print(f"pushed; others use it with --bank {name}")
    return 0


def run_card(args: argparse.Namespace) -> int:
    """Print the page."""
    from ..bank import ItemBank
    from ..upkeep.card import bank_card

    print(bank_card(ItemBank.load(args.bank), args.license))
    return 0

"""``lm-eval-ccat bank build``: a bank of every task and metric of published logs."""

from __future__ import annotations

import argparse

from .parsing import names_of

EPILOG = """\
example:
  lm-eval-ccat bank build --leaderboard details/ --metric acc_norm,exact_match -o board/
  lm-eval-ccat bank build --leaderboard hub:open-llm-leaderboard/A__x-details \\
      hub:open-llm-leaderboard/B__y-details -o board/

Reads what `calibrate` reads.  The result is a folder with a bank per task and metric, and
suite.json.
"""


def add_action(actions: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add ``build``."""
    parser = actions.add_parser(
        "build", help="make a bank of every task and metric of published logs", epilog=EPILOG
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
    parser.add_argument("--hash_names", action="store_true", help="hide the models' names")
    parser.add_argument("-o", "--output", metavar="DIR", required=True, help="folder to write")
    parser.set_defaults(func=run)


def run(args: argparse.Namespace) -> int:
    """Calibrate everything that matches."""
    from ..integrations.hub import logs_of
    from ..upkeep.build import build
    from .calibrate import say_of_bank

    with logs_of(args.leaderboard) as folder:
        suite = build(
            folder,
            args.method,
            tasks=names_of(args.task),
            metrics=names_of(args.metric),
            on_bank=say_of_bank,
            hash_names=args.hash_names,
        )
    suite.save(args.output)
    print(f"{args.output}: banks of {len(suite)} task{'' if len(suite) == 1 else 's'}")
    return 0

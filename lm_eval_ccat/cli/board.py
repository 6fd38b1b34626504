"""``lm-eval-ccat board``: a public leaderboard in a folder that anybody can check."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import TYPE_CHECKING

from .parsing import add_json, prints_json, warn, write_json
from .reading import add_reading_arguments

if TYPE_CHECKING:
    from ..board import Board
    from ..board.full import Added
    from ..live.result import Result

EPILOG = """\
A board is a folder, best kept in git: banks, a ledger to which rows are only
added, the scores and journals that show each row.  Its site is one page that
loads nothing.

examples:
  lm-eval-ccat board init my_board --from logs/ --task gsm8k
  lm-eval-ccat board add my_board more_logs/       models with full results
  lm-eval-ccat board place my_board models.yaml    asked a few per cent of the items
  lm-eval-ccat board place my_board models.run     a run made with the board's banks
  lm-eval-ccat board publish my_board -o site
  lm-eval-ccat board check my_board

exit codes: 0 done, and every row verified; 1 `check` refuses a row, or an
error; 2 usage; 4 a model was left out
"""
LINK = "a page about each model, such as https://huggingface.co/{model}"


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add ``board`` to the command line."""
    parser = subparsers.add_parser(
        "board",
        help="keep a public leaderboard that anybody can check",
        description="Keep a public leaderboard that anybody can check.",
        epilog=EPILOG,
    )
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    init = _action(
        actions, "init", _init,
        "Begin a board, or give it new banks. Estimates made with unrelated banks are then "
        "listed separately.",
    )  # fmt: skip
    init.add_argument(
        "--from",
        dest="source",
        required=True,
        metavar="PATH",
        help="full results, which calibrate the banks and are the first rows (logs, a table, a "
        "folder of tables), or banks (a suite's folder, one bank's file)",
    )
    add_reading_arguments(init)
    init.add_argument("--method", default="default", help="of the calibration (default: default)")
    init.add_argument("--name", help="title of the site")
    init.add_argument(
        "--weights", choices=("equal", "documents"),
        help="how tasks count in the average (default: equal)",
    )  # fmt: skip
    for name, what in (
        ("max_items", "maximum number of items to ask a placed model (default: 100)"),
        ("exposure", "draw each item among this many most informative ones (default: 5)"),
        ("reserve", (
            "leave one of N parts of the items unused, another one after every 20 placed models "
            "(default: 5; 0 uses all)"
        )),
    ):  # fmt: skip
        init.add_argument(f"--{name}", type=int, metavar="N", help=what)
    add = _action(actions, "add", _add, "Add models with full results.")
    add.add_argument("source", metavar="LOGS_OR_TABLE", help="logs, a table, a folder of tables")
    place = _action(
        actions, "place", _place,
        "Place models by some of the items. A live run that was interrupted goes on when the "
        "command is given again.",
    )  # fmt: skip
    place.add_argument(
        "source",
        metavar="CONFIG_RUN_OR_LOGS",
        help="a YAML file with `models:` as `rank` takes it; the directory of a run that was made "
        "with the board's banks (DIR/suite); or logs of some of the documents",
    )
    place.add_argument("--name", help="the model's name on the board, if it is one model")
    place.add_argument("--yes", action="store_true", help="do not ask before money is spent")
    for action in (add, place):
        action.add_argument("--link", default="", metavar="URL", help=LINK)
    publish = _action(actions, "publish", _publish, "Write the site: a page, its JSON and CSV.")
    publish.add_argument(
        "-o", "--output", metavar="SITE", help="folder of the site (default: DIR/site)"
    )
    check = _action(
        actions, "check", _check,
        "Verify every row from its journal or scores, and the chain of the ledger. Rows that "
        "another version computed differently are listed; rows that were changed are refused.",
    )  # fmt: skip
    check.add_argument(
        "--head", default="", metavar="HASH",
        help="what the ledger ended with when it was published (`ledger_head` in the site's "
        "board.json): rows up to there must stand",
    )  # fmt: skip
    for action in (add, place, check):
        add_json(action, "the rows" if action is not check else "what is said of each row")


def _action(
    actions: argparse._SubParsersAction[argparse.ArgumentParser],
    name: str,
    run: Callable[[argparse.Namespace], int],
    what: str,
) -> argparse.ArgumentParser:
    first = what.partition(".")[0]
    action = actions.add_parser(name, help=first[0].lower() + first[1:], description=what)
    action.add_argument("board", metavar="DIR", help="the board's folder")
    action.set_defaults(func=run)
    return action


def _init(args: argparse.Namespace) -> int:
    from ..board import init, standing

    reading = ("task", "metric", "filter", "range", "lower_is_better", "method")
    rules = ("name", "weights", "max_items", "exposure", "reserve")
    board = init(args.board, args.source, **{n: getattr(args, n) for n in (*reading, *rules)})
    print(f"{args.board}: a board of {', '.join(board.banks)}. {standing(board).headline}")
    return 0


def _add(args: argparse.Namespace) -> int:
    from ..board import Board, add

    board = Board(args.board)
    return _say(args, board, add(board, args.source, args.link))


def _place(args: argparse.Namespace) -> int:
    from ..board import Board, place
    from .live import Display

    class Placing(Display):
        def finished(self, result: Result) -> None:
            """Warn; where the models stand on the board is printed below."""
            for warning in result.warnings:
                self.warn(warning)

    board, display = Board(args.board), Placing(json=args.json, yes=args.yes)
    placed = place(board, args.source, name=args.name, link=args.link, observer=display)
    return _say(args, board, placed)


def _publish(args: argparse.Namespace) -> int:
    from pathlib import Path

    from ..board import publish

    for path in publish(args.board, args.output or Path(args.board, "site")):
        print(path)
    return 0


def _check(args: argparse.Namespace) -> int:
    from dataclasses import asdict

    from ..board import Board, check

    board = Board(args.board)
    found = check(board, args.head)
    write_json(args.json, {"rows": [asdict(one) for one in found], "head": board.ledger.head()})
    if not prints_json(args.json):
        for one in found:
            if one.reason:
                print(one)
        counts = {v: sum(one.verdict == v for one in found) for v in ("sound", "older", "refused")}
        print(
            f"{len(found)} rows: {counts['sound']} sound, {counts['older']} computed differently "
            f"by another version, {counts['refused']} refused. The ledger ends with "
            f"{board.ledger.head()[:12] or 'nothing'}."
        )
    return 1 if any(one.verdict == "refused" for one in found) else 0


def _say(args: argparse.Namespace, board: Board, added: Added) -> int:
    """Print where the new rows stand, and who was left out."""
    from ..board import standing

    found = standing(board)
    words = {row.model: found.in_words(row) for row in added.rows}
    rows = [{**row.to_dict(), "in_words": words[row.model]} for row in added.rows]
    write_json(args.json, {"rows": rows, "left_out": added.left_out})
    if not prints_json(args.json):
        print("\n".join(words.values()) or "No row was added.")
    for model, reason in added.left_out.items():
        warn(f"{model}: left out: {reason}")
    return 4 if added.partial else 0

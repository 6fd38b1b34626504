"""``lm-eval-ccat board``: a public leaderboard in a folder that anybody can check."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from .parsing import JSON, REQUIRED, Opt, Options, add_command, prints_json, warn, write_json

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
#: Action, what it does, its options beside the board's folder.
ACTIONS: tuple[tuple[str, str, Options], ...] = (
    ("init", "Begin a board, or give it new banks. Estimates made with unrelated banks are then "
     "listed separately.", {
        "--from PATH": Opt("full results (logs, a table, a folder of tables), which calibrate the "
                           "banks and are the first rows; or banks (a suite's folder, one bank)",
                           REQUIRED),
        "--metric M": "metric; needed where the results hold several",
        "--task T": "task; needed where the results hold several",
    }),
    ("add", "Add models with full results.",
     {"source=LOGS_OR_TABLE": "logs, a table, a folder of tables", **JSON}),
    ("place", "Place models by some of the items. A live run that was interrupted goes on when the "
     "command is given again.", {
        "source=CONFIG_RUN_OR_LOGS": "a YAML file of `rank` with `models:`; the directory of "
        "a run made with the board's banks (DIR/suite); or logs of some of the documents",
        "--name NAME": "the model's name on the board, if it is one model",
        "--yes": "do not ask before money is spent",
        **JSON,
    }),
    ("publish", "Write the site: a page, its JSON and CSV.",
     {"-o --output SITE": "folder of the site (default: DIR/site)"}),
    ("check", "Verify every row from its journal or scores, and the chain of the ledger. Rows that "
     "another version computed differently are listed; rows that were changed are refused.", {
        "--head HASH": Opt("what the ledger ended with when it was published (`ledger_head` in the "
                           "site's board.json): rows up to there must stand"),
        **JSON,
    }),
)  # fmt: skip


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add ``board`` to the command line."""
    what = "Keep a public leaderboard that anybody can check."
    parser = subparsers.add_parser("board", help=what, description=what, epilog=EPILOG)
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    for name, what, options in ACTIONS:
        folder: Options = {"board=DIR": "the board's folder"}
        add_command(actions, name, globals()[f"_{name}"], {**folder, **options}, what)


def _init(args: argparse.Namespace) -> int:
    from ..board import init, standing

    source = getattr(args, "from")
    board = init(args.board, source, task=args.task, metric=args.metric)
    print(f"{args.board}: a board of {', '.join(board.banks)}. {standing(board).headline}")
    return 0


def _add(args: argparse.Namespace) -> int:
    from ..board import Board, add

    board = Board(args.board)
    return _say(args, board, add(board, args.source))


def _place(args: argparse.Namespace) -> int:
    from ..board import Board, place
    from .live import Display

    class Placing(Display):
        def finished(self, result: Result) -> None:
            """Warn only; the caller prints where the models stand on the board."""
            for warning in result.warnings:
                self.warn(warning)

    board, display = Board(args.board), Placing(json=args.json, yes=args.yes)
    placed = place(board, args.source, name=args.name, observer=display)
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
    checked = check(board, args.head)
    write_json(args.json, {"rows": [asdict(one) for one in checked], "head": board.ledger.head()})
    if not prints_json(args.json):
        for one in checked:
            if one.reason:
                print(one)
        counts = {
            v: sum(one.verdict == v for one in checked) for v in ("sound", "older", "refused")
        }
        print(
            f"{len(checked)} rows: {counts['sound']} sound, {counts['older']} computed differently "
            f"by another version, {counts['refused']} refused. The ledger ends with "
            f"{board.ledger.head()[:12] or 'nothing'}."
        )
    return 1 if any(one.verdict == "refused" for one in checked) else 0


def _say(args: argparse.Namespace, board: Board, added: Added) -> int:
    """Print where the new rows stand, and who was left out."""
    from ..board import standing

    state = standing(board)
    words = {row.model: state.in_words(row) for row in added.rows}
    rows = [{**row.to_dict(), "in_words": words[row.model]} for row in added.rows]
    write_json(args.json, {"rows": rows, "left_out": added.left_out})
    if not prints_json(args.json):
        print("\n".join(words.values()) or "No row was added.")
    for model, reason in added.left_out.items():
        warn(f"{model}: left out: {reason}")
    return 4 if added.partial else 0

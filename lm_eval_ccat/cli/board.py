"""Keep a public leaderboard that anybody can check.

A board is a folder, best kept in git: banks, an append-only ledger, and the
scores and journals that prove each row.  Its site is a single page that loads
nothing else.

examples:
  lm-eval-ccat board init my_board --from logs/ --task gsm8k
  lm-eval-ccat board add my_board more_logs/       models with full results
  lm-eval-ccat board place my_board models.yaml    asked some of the items
  lm-eval-ccat board place my_board models.run     a run made with the board's banks
  lm-eval-ccat board publish my_board -o site
  lm-eval-ccat board check my_board

exit codes: 0 done, and every row verified; 1 `check` refuses a row, or an
error; 2 usage; 4 a model was left out (not one that is in the ledger already)
"""

from __future__ import annotations

import argparse
import shlex
from collections import Counter
from collections.abc import Collection
from dataclasses import asdict
from pathlib import Path

from .. import board as boards
from ..board.admission import Added
from ..board.checking import in_words, to_restore, unnamed_evidence, unpublished_facts
from ..board.folder import RULES
from ..board.scoring import unknown_scoring
from ..live.result import PARTIAL, Observer, Result
from ..money import spent_in_words
from ..shown import plural, visible_line
from .live import Display
from .parsing import JSON, REQUIRED, Opt, Options, Run, emit, task_names, warn


def init(args: argparse.Namespace) -> int:
    """Begin a board, or give it new banks. Estimates made with unrelated banks are then listed
    separately.
    """

    source, existed = getattr(args, "from"), Path(args.board, RULES).is_file()
    board = boards.init(args.board, source, task=args.task, metric=args.metric, say=warn)
    state = boards.standing(board)
    tasks = ", ".join(board.banks)
    print(f"{args.board}: a board of {tasks}. {visible_line(state.headline)}")
    # Their row is not of all tasks: a part of their results is missing.
    warn(*(f"{row.model}: not comparable: {reason}" for row, reason in state.apart))
    place_it = f"lm-eval-ccat board place {shlex.quote(args.board)} MODELS.yaml"
    print(f"Next: {place_it}, where MODELS.yaml lists new models as for `rank`")
    # Given new banks, estimates by the old ones are expected to stand apart.
    return PARTIAL if not existed and state.apart else 0


def add(args: argparse.Namespace) -> int:
    """Add models with full results."""

    board = boards.Board(args.board)
    return _print_added(args, board, boards.add(board, args.source))


def place(args: argparse.Namespace) -> int:
    """Place models by some of the items. To continue an interrupted live run, give the command
    again. A model of which nine in ten answers are empty or refusals gets no row, unless
    the configuration accepts that by `fail_on_empty: 1`.
    """

    class Placing(Display):
        """Progress of a run that places models; `spent` says what answers cost, "" if none were."""

        spent = ""

        def finished(self, result: Result) -> None:
            """Keep in words what the answers cost; the result is printed as rows of the board."""
            # Only warns: the caller prints where the models stand on the board.
            Observer.finished(self, result)
            answers = plural(result.content["items_administered"], "answer")
            self.spent = " ".join([f"{answers} count.", *spent_in_words(result.content)])

    # The board is read first: one that is damaged must not cost a run.
    board, display = boards.Board(args.board), Placing(json=args.json)
    added = boards.place(board, args.source, name=args.name, observer=display)
    code = _print_added(args, board, added)
    if display.spent:
        display.note(display.spent)
    return code


def _print_added(args: argparse.Namespace, board: boards.Board, added: Added) -> int:
    """Print where the new rows stand, and warn of who was left out and of what looks odd.

    Return the exit code: `PARTIAL` if a model was left out that is not in the ledger.
    """

    state = boards.standing(board)
    words = {row.model: state.in_words(row) for row in added.rows}
    rows = [{**row.to_dict(), "in_words": words[row.model]} for row in added.rows]
    content = {"rows": rows, "left_out": added.left_out, "notes": added.notes}
    lines = [*map(visible_line, words.values()), _to_publish(board)]
    emit(args.json, content, lines if words else ["No row was added."])
    warn(*added.notes, *added.reasons)
    warn(*_suspicions(board, words))
    return PARTIAL if added.partial else 0


def _to_publish(board: boards.Board) -> str:
    """Return the line that says how to publish a board."""
    return f"Next: lm-eval-ccat board publish {shlex.quote(str(board.path))} -o site"


def _suspicions(board: boards.Board, models: Collection[str] | None = None) -> list[str]:
    """Return what is odd about the rows of `models` (None: of all rows), a line each."""
    # Copies are looked for among all rows, which takes seconds on a large board.
    if models is not None and not models:
        return []
    texts_of = boards.suspicions(board, models)
    return [f"{model}: {text}" for model, texts in texts_of.items() for text in texts]


def publish(args: argparse.Namespace) -> int:
    """Write the site: a page, its JSON and CSV."""

    files = boards.publish(args.board, args.output or Path(args.board, "site"), say=warn)
    print(*files, f"Next: open {shlex.quote(str(files[0]))}", sep="\n")
    return 0


def check(args: argparse.Namespace) -> int:
    """Verify every row from its journal or scores, and the chain of the ledger. Rows that another
    version computed differently are listed; rows that were changed are refused.
    """

    board = boards.Board(args.board)
    checked, head = boards.check(board, args.head), board.ledger.head()
    counts = Counter(finding.verdict for finding in checked)
    lines = [
        *in_words(checked),
        f"{plural(len(checked), 'row')}: {counts['sound']} sound, {counts['older']} computed "
        f"differently by another version, {counts['refused']} refused. The ledger ends with "
        f"{head[:12] or 'nothing'}.",
        to_restore(checked) or _to_publish(board),
    ]
    suspicions = [unknown_scoring(board), unpublished_facts(board)]
    # Suspicions rest on the rows; of damaged ones they would be about nothing real.
    if not counts["refused"]:
        apart = boards.standing(board).weighed_otherwise
        suspicions += [unnamed_evidence(board), apart, *_suspicions(board)]
    suspicions = [text for text in suspicions if text]
    rows = [asdict(finding) for finding in checked]
    emit(args.json, {"rows": rows, "head": head, "warnings": suspicions}, lines)
    warn(*suspicions)
    return 1 if counts["refused"] else 0


BOARD: Options = {"board=DIR": "the board's folder"}
ACTIONS: dict[str, tuple[Run, Options]] = {
    "init": (init, {
        **BOARD,
        "--from PATH": Opt("full results (logs, a table, a folder of tables), which calibrate the "
                           "banks and are the first rows; or banks (a suite's folder, one bank)",
                           REQUIRED),
        "--metric M": "metric; needed where the results hold several; of A,B each task takes the "
        "first that it reports; a filter follows its metric, as in exact_match,strict-match",
        "--task --tasks T": Opt("task; needed where the results hold several", read=task_names),
    }),
    "add": (add, {
        **BOARD, "source=LOGS_OR_TABLE": "logs, a table, a folder of tables", **JSON,
    }),
    "place": (place, {
        **BOARD,
        "source=CONFIG_RUN_OR_LOGS": "a YAML file of `rank` with `models:`; the directory of "
        "a run made with the board's banks (DIR/suite); or logs of some of the documents",
        "--name NAME": "the model's name on the board, if it is one model",
        **JSON,
    }),
    "publish": (publish, {
        **BOARD, "-o --output SITE": "folder of the site (default: DIR/site)",
    }),
    "check": (check, {
        **BOARD,
        "--head HASH": "hash that the ledger ended with when it was published (`ledger_head` in "
        "the site's board.json): the rows up to it must be unchanged",
        **JSON,
    }),
}  # fmt: skip

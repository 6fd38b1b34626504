"""What the commands that ask models show."""

from __future__ import annotations

import sys
from typing import TextIO

from rich.console import Console

from ..errors import UsageError
from ..live.result import Result
from ..report.terminal import Progress, print_result
from ..shown import plural, to_draw
from .parsing import emit, prints_json

#: Columns of a file or a pipe, which no edge folds.
_UNBOUND = 10_000


class Display(Progress):
    """Progress of a run on the command line.

    Parameters
    ----------
    quiet : bool
        As `Progress` has it.
    json : str or None
        Where the result is written as JSON, as ``--json`` says.
    yes : bool
        Answer what is asked before money is spent.
    """

    def __init__(self, quiet: bool = False, json: str | None = None, yes: bool = False) -> None:
        super().__init__(quiet)
        self.json = json
        self.yes = yes
        # What tasks and models print goes to standard error while the ranking runs.
        self._out = sys.stdout

    def confirm(self, question: str) -> bool:
        """Ask the person; without a terminal nobody is there to answer."""
        if self.yes:
            return True
        if not sys.stdin.isatty():
            raise UsageError(
                f"{question.removesuffix(' Start?')} Give a limit (--budget_usd X), or --yes to "
                "start without one"
            )
        print(f"{question} [y/N] ", end="", file=sys.stderr, flush=True)
        return sys.stdin.readline().strip().lower() in ("y", "yes")

    def finished(self, result: Result) -> None:
        """Print the result."""
        if prints_json(self.json):  # else the printed result has them
            for warning in result.warnings:
                self.warn(warning)
        show(result, self.json, self._out)


def show(result: Result, target: str | None, out: TextIO) -> None:
    """Print a result or the state of a run, or write it where ``--json`` says."""
    content = result.content
    emit(target, content, out=out)
    if prints_json(target):
        return
    console = Console(file=to_draw(out), highlight=False)
    if not console.is_terminal:
        console.width = _UNBOUND
    print_result(console, content)
    if content["interrupted"] and result.run_dir is not None:
        print(f"Continue with --resume; all answers are kept in {result.run_dir}.", file=out)
    if not content.get("finished", True):
        asked = plural(len(content["in_flight"]), "document")
        print(f"Not finished; {asked} unanswered.", file=out)

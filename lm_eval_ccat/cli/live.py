"""Output of the commands that ask models."""

from __future__ import annotations

import sys
from typing import TextIO

from rich.console import Console

from ..errors import UsageError
from ..live.result import Result
from ..report.following import after_ranking
from ..report.terminal import Progress, print_result
from ..shown import plural, with_escapes
from .parsing import emit, prints_json

#: Width for a file or a pipe, in which no line is wrapped.
_UNBOUND = 10_000


class Display(Progress):
    """Progress of a run on the command line.

    Parameters
    ----------
    quiet : bool
        As in `Progress`.
    json : str or None
        Where to write the result as JSON: the value of ``--json``.
    yes : bool
        Whether to spend money without asking.
    """

    def __init__(self, quiet: bool = False, json: str | None = None, yes: bool = False) -> None:
        super().__init__(quiet)
        self.json = json
        self.yes = yes
        # What tasks and models print goes to standard error while the ranking runs.
        self._out = sys.stdout

    def confirm(self, question: str) -> bool:
        """Ask the user whether to start a run that has no limit; the question ends with " Start?".

        Raises
        ------
        UsageError
            There is no terminal to ask on, and no ``--yes``.
        """
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
        if prints_json(self.json):  # otherwise the printed result has them
            for warning in result.late_warnings:
                self.warn(warning)
        show(result, self.json, self._out)


def show(result: Result, target: str | None, out: TextIO) -> None:
    """Print a result or the state of a run, or write it as JSON where ``--json`` says."""
    content = result.content
    emit(target, content, out=out)
    if prints_json(target):
        return
    console = Console(file=with_escapes(out), highlight=False)
    if not console.is_terminal:
        console.width = _UNBOUND
    print_result(console, content)
    if not content.get("finished", True):
        asked = plural(len(content["in_flight"]), "document")
        print(f"Not finished; {asked} unanswered.", file=out)
    elif next_step := after_ranking(content, result.run_dir):
        print(next_step, file=out)

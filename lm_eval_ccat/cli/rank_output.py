"""The result of a ranking as the command line hands it out: on the terminal, or as JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, TextIO

from ..wording import plural
from .parsing import prints_json, write_json
from .streams import to_draw

if TYPE_CHECKING:
    from ..live.results import Result

#: Columns of a file or a pipe, which no edge folds.
_UNBOUND = 10_000


def show(result: Result, target: str | None, out: TextIO) -> None:
    """Print a result or the state of a run, or write it where ``--json`` says."""
    content = result.content
    write_json(target, content, out)
    if prints_json(target):
        return
    from rich.console import Console

    from ..report.terminal import print_result

    console = Console(file=to_draw(out), highlight=False)
    if not console.is_terminal:
        console.width = _UNBOUND
    print_result(console, content)
    if content["interrupted"] and result.run_dir is not None:
        print(f"Go on with --resume; everything is kept in {result.run_dir}.", file=out)
    if not content.get("finished", True):
        in_flight = plural(len(content["in_flight"]), "document")
        print(f"Not finished; {in_flight} in flight.", file=out)

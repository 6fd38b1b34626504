"""Arguments and progress that commands reading scores share."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import UsageError
from .parsing import Opt, Options
from .streams import to_draw

if TYPE_CHECKING:
    from ..bank import ItemBank
    from ..scores import ScoreTable


def range_of(text: str) -> tuple[float, float]:
    """Parse ``LO,HI``."""
    try:
        low, high = (float(part) for part in text.split(","))
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not LO,HI, such as 0,100") from None
    if not low < high or abs(low) == float("inf") or abs(high) == float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r}: the lowest score must be below the highest")
    return low, high


#: How scores are read, in every command that reads logs or a table.
READING: Options = {
    "--metric M": "metric; needed where the scores hold several",
    "--task T": "task; needed where the logs hold several",
    "--filter F": "filter of the task; needed where it has several",
    "--range LO,HI": Opt(
        "lowest and highest possible score, for a metric whose scale is not known", None, range_of
    ),
    "--lower_is_better": Opt("a lower score is better (default: what is known of the metric)"),
}


def read_scores(path: str, args: argparse.Namespace, partial: bool = False) -> ScoreTable:
    """Read a score table or logs as the arguments say, showing progress on long reads."""
    from ..scores import ScoreTable

    if not Path(path).exists():
        raise UsageError(f"{path}: no such file or directory of scores")
    names = (key.split()[0].lstrip("-") for key in READING)
    reading = {name: getattr(args, name) for name in names}
    with progress("reading logs", "MB", 1e-6) as show:
        return ScoreTable.read(path, **reading, partial=partial, on_progress=show)


def scores_for(bank: ItemBank, path: str, partial: bool = False) -> ScoreTable:
    """Read scores of a bank's metric, task and filter, on its scale."""
    from ..upkeep.union import scores_for

    if not Path(path).exists():
        raise UsageError(f"{path}: no such file or directory of scores")
    with progress("reading logs", "MB", 1e-6) as show:
        return scores_for(bank, path, partial=partial, on_progress=show)


def leave_out(table: ScoreTable, models: Sequence[str]) -> ScoreTable:
    """The table without some models; an unknown name is an error, not a silent nothing."""
    if not models:
        return table
    if set(models) >= set(table.models):
        raise UsageError("--exclude leaves no model")
    table.select(models)
    return table.without(models)


def is_folder(bank: str) -> bool:
    """Whether a bank that was named is the folder of a suite."""
    return Path(bank).is_dir()


def by_task(facts: Mapping[tuple[str, str], Any]) -> dict[str, dict[str, Any]]:
    """What is known of the banks of a suite as JSON has it: by task, then by outcome."""
    tasks: dict[str, dict[str, Any]] = {}
    for (task, outcome), one in facts.items():
        tasks.setdefault(task, {})[outcome] = one
    return tasks


@contextmanager
def progress(
    what: str, unit: str, factor: float = 1.0
) -> Iterator[Callable[[int, int], None] | None]:
    """Show progress on a terminal; yield None where standard error is not one.

    Nothing refreshes by itself: no thread of the display may be alive when processes are forked.
    """
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.fields[shown]}"),
        TimeRemainingColumn(),
        console=Console(file=to_draw(sys.stderr)),
        auto_refresh=False,
        transient=True,
    )
    with bar:
        task = bar.add_task(what, total=None, shown="")

        def show(done: int, total: int) -> None:
            shown = f"{done * factor:.0f} of {total * factor:.0f} {unit}"
            bar.update(task, completed=done, total=total, shown=shown)
            bar.refresh()

        yield show

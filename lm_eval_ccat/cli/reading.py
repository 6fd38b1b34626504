"""Arguments and progress that commands reading scores share."""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import UsageError
from ..shown import to_draw
from .parsing import Opt, Options, warn

if TYPE_CHECKING:
    from ..bank import ItemBank
    from ..scores import ScoreTable
    from ..scores.reading import Wanted


def range_of(text: str) -> tuple[float, float]:
    """Parse ``WORST,BEST``."""
    try:
        worst, best = (float(part) for part in text.split(","))
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not WORST,BEST, such as 0,100") from None
    if worst == best or not math.isfinite(worst - best):
        raise argparse.ArgumentTypeError(f"{text!r}: give two numbers that differ")
    return worst, best


#: How scores are read, in every command that reads logs or a table.
READING: Options = {
    "--metric M": "metric; needed where the scores hold several",
    "--task T": "task; needed where the logs hold several",
    "--filter F": "filter of the task; needed where it has several",
    "--range WORST,BEST": Opt(
        "worst and best possible score of a metric whose scale is not known, such as 0,100, or "
        "25,0 where a lower score is better; where that is known of the metric, 0,25 means 25,0",
        None,
        range_of,
    ),
}


def reading_of(args: argparse.Namespace) -> Wanted:
    """Filter and scale, as the flags of `READING` give them."""
    from ..scores.reading import Wanted

    if not args.range:
        return Wanted(filter=args.filter)
    low, high = sorted(args.range)
    # A range that falls says so; one that rises leaves the direction to what is known.
    falls = True if args.range[0] == high else None
    return Wanted(filter=args.filter, range=(low, high), lower_is_better=falls)


def warn_of_range(args: argparse.Namespace, metric: str, higher_is_better: bool) -> None:
    """Warn where ``--range`` and what is known of a metric differ on which end is better.

    Parameters
    ----------
    args : argparse.Namespace
    metric : str
    higher_is_better : bool
        As its scores have been read.
    """
    from ..metrics.registry import known_scale

    if not args.range:
        return
    # Scores of which the file does not say what they are bear the name "score".
    (first, last), known = args.range, known_scale(metric)
    if first < last and not higher_is_better:
        warn(
            f"a lower {metric} is known to be better, so {first:g} is its best score and {last:g} "
            f"its worst: write --range {last:g},{first:g}"
        )
    elif first > last and metric != "score" and known is not None and known.higher_is_better:
        warn(
            f"a higher {metric} is known to be better, but --range {first:g},{last:g} makes "
            f"{last:g} its best score: write --range {last:g},{first:g} if that is not meant"
        )


def read_scores(path: str, args: argparse.Namespace) -> ScoreTable:
    """Read a score table or logs as the arguments say, showing progress on long reads."""
    from ..scores import ScoreTable

    if not Path(path).exists():
        raise UsageError(f"{path}: no such file or directory of scores")
    with progress("reading logs", "MB", 1e-6) as show:
        wanted = replace(reading_of(args), metric=args.metric, task=args.task)
        table = ScoreTable.read(path, **vars(wanted), on_progress=show)
    warn_of_range(args, table.metric, table.scale.higher_is_better)
    return table


def scores_for(bank: ItemBank, path: str, partial: bool = False) -> ScoreTable:
    """Read scores of a bank's metric, task and filter, on its scale."""
    from ..upkeep.tables import scores_for

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


def by_task(facts: Mapping[tuple[str, str], object]) -> dict[str, dict[str, object]]:
    """Return facts about a suite's banks by task, then by outcome, as JSON has them."""
    tasks: dict[str, dict[str, object]] = {}
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

"""Reading of scores by commands."""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from rich.console import Console
from rich.progress import Progress

from ..bank import ItemBank
from ..errors import UsageError
from ..metrics.registry import known_scale
from ..scores import ScoreTable
from ..scores.reading import Wanted
from ..shown import to_draw
from ..upkeep import tables
from .parsing import Opt, Options, warn


def range_of(text: str) -> tuple[float, float]:
    """Parse ``WORST,BEST``."""
    try:
        worst, best = (float(part) for part in text.split(","))
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not WORST,BEST, such as 0,100") from None
    if worst == best or not math.isfinite(worst - best):
        raise argparse.ArgumentTypeError(f"{text!r}: give two numbers that differ")
    return worst, best


#: Options of every command that reads scores from logs or a table.
READING: Options = {
    "--metric M": "metric; needed where the scores hold several",
    "--task T": "task; needed where the logs hold several",
    "--filter F": "filter of the task; needed where it has several",
    "--range WORST,BEST": Opt(
        "worst and best possible score of a metric without a known scale, such as 0,100, or 25,0 "
        "if a lower score is better; for a metric known to be like that, 0,25 means 25,0",
        None,
        range_of,
    ),
}


def reading_of(args: argparse.Namespace) -> Wanted:
    """Return the filter and scale that the flags of `READING` state."""
    if not args.range:
        return Wanted(filter=args.filter)
    low, high = sorted(args.range)
    # A falling range sets the direction; a rising one leaves it to what is known of the metric.
    falls = True if args.range[0] == high else None
    return Wanted(filter=args.filter, range=(low, high), lower_is_better=falls)


def warn_of_range(args: argparse.Namespace, metric: str, higher_is_better: bool) -> None:
    """Warn if ``--range`` contradicts what is known of a metric on which end is better.

    Parameters
    ----------
    args : argparse.Namespace
    metric : str
    higher_is_better : bool
        Direction in which its scores were read.
    """
    if not args.range:
        return
    # A file that does not name its metric is read as the metric "score".
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
    with progress("reading logs") as show:
        wanted = replace(reading_of(args), metric=args.metric, task=args.task)
        table = ScoreTable.read(path, **vars(wanted), on_progress=show)
    warn_of_range(args, table.metric, table.scale.higher_is_better)
    return table


def scores_for(bank: ItemBank, path: str, partial: bool = False) -> ScoreTable:
    """Read scores of a bank's metric, task and filter, on its scale."""
    if not Path(path).exists():
        raise UsageError(f"{path}: no such file or directory of scores")
    with progress("reading logs") as show:
        return tables.scores_for(bank, path, partial=partial, on_progress=show)


@contextmanager
def progress(what: str) -> Iterator[Callable[[int, int], None] | None]:
    """Show progress on a terminal; yield None where standard error is not one.

    The display does not refresh itself: none of its threads may be alive when processes are forked.
    """
    if not sys.stderr.isatty():
        yield None
        return
    console = Console(file=to_draw(sys.stderr))
    with Progress(console=console, auto_refresh=False, transient=True) as bar:
        task = bar.add_task(what, total=None)

        def show(done: int, total: int) -> None:
            bar.update(task, completed=done, total=total, refresh=True)

        yield show

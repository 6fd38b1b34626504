"""From single scores, as logs of other tools hold them, to what a reader gives back."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

from ...errors import CcatError, ScoreTableError
from ...metrics.scale import Scale
from ..grid import ScoreGrid
from ..reading import Logged, Progress, Wanted, one_of, places_at
from ..table import Reader, ScoreTable

_DAMAGE = (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError, BadZipFile)


@dataclass(frozen=True)
class Row:
    """One score of one model on one item.

    Attributes
    ----------
    model, task, metric : str
    doc_id : int or str
    score : float
        Raw.
    config : str
        Tells several answers of one model to one item apart (an epoch, a trial); ignored where all
        rows have the same.
    doc_hash : str or None
    date : str
        Of the same (model, config, item) the latest counts; dates compare as text.
    scale : Scale or None
        That the log states for the metric; the first one counts.
    """

    model: str
    task: str
    metric: str
    doc_id: Any
    score: float
    config: str = ""
    doc_hash: str | None = None
    date: str = ""
    scale: Scale | None = None


def reader_of_rows(
    name: str,
    summary: str,
    logs: Callable[[Path], Iterable[Path]],
    rows: Callable[[Path, list[str]], Iterable[Row]],
) -> Reader:
    """Make a reader from a function that finds logs and one that turns a log into rows.

    Parameters
    ----------
    name, summary
        As `Reader` has them.
    logs : callable
        ``(path) -> iterable of Path``: the logs at or below a path, by names and first bytes.
    rows : callable
        ``(log, notes) -> iterable of Row``; what a reader of the scores should know is appended to
        `notes`. What it raises of damaged data becomes a `ScoreTableError` that names the log.
    """

    def every(path: Path, notes: list[str], on_progress: Progress = None) -> Iterator[Row]:
        each = list(logs(path))
        for n, log in enumerate(each, start=1):
            try:
                yield from rows(log, notes)
            except _DAMAGE as error:
                reason = f"{error} is missing" if isinstance(error, KeyError) else error
                raise ScoreTableError(f"{log}: not readable as {name} ({reason})") from error
            if on_progress is not None:
                on_progress(n, len(each))

    def outcomes(path: Path) -> list[Logged]:
        pairs = {(row.task, row.metric) for row in every(path, [])}
        return [Logged(*pair) for pair in sorted(pairs)]

    def read(path: Path, wanted: Wanted, on_progress: Progress = None) -> ScoreTable:
        notes: list[str] = []
        return _table(path, list(every(path, notes, on_progress)), wanted, notes)

    def read_many(
        path: Path, some: Sequence[Logged], wanted: Wanted
    ) -> Iterator[ScoreTable | CcatError]:
        notes: list[str] = []
        all_rows = list(every(path, notes))
        for one in some:
            try:
                yield _table(path, all_rows, one.wanted(wanted), notes)
            except CcatError as error:
                yield error

    return Reader(
        name, summary, lambda path: any(True for _ in logs(path)), read, outcomes,
        read_many=read_many,
    )  # fmt: skip


def _table(path: Path, rows: list[Row], wanted: Wanted, notes: list[str]) -> ScoreTable:
    if not rows:
        raise ScoreTableError(f"{path}: no scores of single items in these logs")
    if wanted.filter is not None:
        raise ScoreTableError(f"{path}: these logs have no filters; leave --filter out")
    task = one_of(path, "task", wanted.task, (row.task for row in rows))
    rows = [row for row in rows if row.task == task]
    metric = one_of(path, "metric", wanted.metric, (row.metric for row in rows))
    rows = sorted((row for row in rows if row.metric == metric), key=lambda row: row.date)
    several = len({row.config for row in rows}) > 1
    as_text = len({type(row.doc_id) for row in rows}) > 1
    grid = ScoreGrid()
    grid.lay(
        [(row.model, row.config if several else "") for row in rows],
        [str(row.doc_id) if as_text else row.doc_id for row in rows],
        [row.score for row in rows],
        [row.doc_hash for row in rows],
    )
    return grid.finish(
        path,
        wanted,
        metric,
        task=task,
        stated=next((row.scale for row in rows if row.scale is not None), None),
        warnings=notes,
        sources=tuple(map(str, places_at(path))),
    )

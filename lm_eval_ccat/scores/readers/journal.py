"""Reader of this package's own runs: the journal of a run directory.

Its items were chosen by what each model had scored, or drawn: the scores are true and no full
results, so they are read only where partial runs are asked for (`ScoreTable.read(partial=True)`).
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from ...errors import ScaleError, ScoreTableError
from ...metrics.scale import Scale
from ..grid import Grid
from ..table import Progress, Reader, ScoreTable
from ..wanted import Logged, Wanted, one_of
from .bounded import lines

_NAME = "journal.jsonl"


def can_read(path: Path) -> bool:
    """Whether a path is a journal, or a directory with one in it."""
    return next(journals(path), None) is not None


def read(path: Path, wanted: Wanted, on_progress: Progress = None) -> ScoreTable:
    """Read the journal of one run; see `Reader`."""
    runs = list(journals(path))
    if not wanted.partial:
        raise ScoreTableError(
            f"{runs[0]}: the journal of an adaptive run, whose scores are not full results; "
            "`bank update` takes it"
        )
    if len(runs) > 1:
        raise ScoreTableError(f"{path}: {len(runs)} runs; name one, such as {runs[0].parent}")
    header = header_of(runs[0])
    task, metric, filter = (header["task"].get(k) for k in ("name", "metric", "filter"))
    for what, have in (("task", task), ("metric", metric), ("filter", filter)):
        one_of(path, what, getattr(wanted, what), [have])
    try:
        scale = Scale.from_dict(header["report"]["scale"])
    except (KeyError, TypeError, ScaleError) as e:
        raise ScoreTableError(f"{runs[0]}: its header states no scale ({e})") from None
    scores, drawn = _told(runs[0])
    if not scores:
        raise ScoreTableError(f"{runs[0]}: no scores in it")
    grid = Grid()
    grid.lay(
        [(model, "") for model, _ in scores],
        [item for _, item in scores],
        scale.restore(list(scores.values())),
    )
    adaptive = {model for model, item in scores if (model, item) not in drawn}
    return grid.finish(
        path,
        replace(wanted, scale=scale),
        str(metric),
        task=task,
        filter=filter,
        settings=dict(header["task"].get("settings") or {}),
        sources=(str(runs[0]),),
        chosen=tuple("adaptive" if model in adaptive else "drawn" for model, _ in grid.rows),
    )


def outcomes(path: Path) -> list[Logged]:
    """The (task, metric, filter) of each run."""
    tasks = [header_of(journal)["task"] for journal in journals(path)]
    return [Logged(t.get("name"), str(t.get("metric")), t.get("filter")) for t in tasks]


def journals(path: Path) -> Iterator[Path]:
    """The journals at a path: the file itself, or those of a folder and of the folders in it."""
    files = [path] if path.is_file() else [path / _NAME, *sorted(path.glob(f"*/{_NAME}"))]
    for file in files:
        if file.suffix == ".jsonl" and file.is_file():
            with file.open("rb") as stream:
                if b'"op": "header"' in stream.readline(4096)[:200]:
                    yield file


def records(journal: Path) -> Iterator[dict[str, Any]]:
    """The lines of a journal that can be read."""
    with journal.open("rb") as stream:
        for line in lines(stream, journal):
            try:
                record = json.loads(line.decode("utf-8", "replace"))
            except (ValueError, RecursionError):
                continue  # torn by a crash; `verify` says more
            if isinstance(record, dict):
                yield record


def header_of(journal: Path) -> dict[str, Any]:
    """The first line, which says what the run is of."""
    header = next(records(journal), {})
    if not isinstance(header.get("task"), dict):
        raise ScoreTableError(f"{journal}: its header names no task")
    return header


def _told(journal: Path) -> tuple[dict[tuple[str, Any], float], set[tuple[str, Any]]]:
    """The score, on [0, 1], of each (model, item), and which items were drawn at random."""
    scores: dict[tuple[str, Any], float] = {}
    drawn: set[tuple[str, Any]] = set()
    for record in records(journal):
        item = record.get("item", record.get("doc"))
        if record.get("op") == "ask":
            pairs = zip(record.get("pairs") or [], record.get("draws") or [], strict=False)
            drawn |= {(m, _plain(i)) for (m, i), p in pairs if p is not None}
        elif record.get("op") == "tell" and isinstance(record.get("score"), (int, float)):
            scores[str(record.get("model")), _plain(item)] = float(record["score"])
    return scores, drawn


def _plain(item: Any) -> Any:
    return item[1] if isinstance(item, list) and len(item) == 2 else item


READER = Reader(
    name="journal",
    summary="run directories of lm-eval-ccat",
    can_read=can_read,
    read=read,
    outcomes=outcomes,
)

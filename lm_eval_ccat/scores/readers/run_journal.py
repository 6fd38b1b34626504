"""Reader of this package's own runs: the journal of a run directory.

A run chose its items by what each model had scored, or drew them: its scores are no full results,
so only `ScoreTable.read(partial=True)` reads them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from ...errors import ScaleError, ScoreTableError
from ...journal import JOURNAL, read_journal
from ...metrics.scale import Scale
from ...records import Asks, Header, Record, Tell
from ..grid import ScoreGrid
from ..reading import Logged, Progress, Query, one_of
from ..table import Reader, ScoreTable

#: How the first line of a journal begins; earlier ones have spaces.
_HEADER = re.compile(rb'"op": ?"header"')
#: Key in a header of what names an outcome.
_HEADER_KEYS = {"task": "name", "metric": "metric", "filter": "filter"}


def read(path: Path, query: Query, on_progress: Progress = None) -> ScoreTable:
    """Read the scores in the journal of one run; see `Reader`.

    It has scores of the items that were asked. Of an item that was asked repeatedly, the score is
    that of the first answer.
    """
    journal = _only_journal(path, query)
    header, records = run_of(journal)
    names: dict[str, Any] = {what: header.task.get(key) for what, key in _HEADER_KEYS.items()}
    # The journal has one value of each; a query that asks for another is refused here.
    for what, value in names.items():
        one_of(path, what, getattr(query, what), [value])
    try:
        scale = Scale.from_dict(header.report["scale"])
    except (KeyError, TypeError, ScaleError) as e:
        raise ScoreTableError(f"{journal}: its header states no scale ({e})") from None
    scores, drawn = _scores_and_draws(records)
    if not scores:
        raise ScoreTableError(f"{journal}: no scores of a single outcome in it")
    grid = ScoreGrid()
    models, items = zip(*scores)
    # A run asks each model in one configuration, so that none needs a name.
    grid.lay([(model, "") for model in models], items, scale.restore(list(scores.values())))
    # A row may count as random draws only if each of its items was drawn.
    adaptive = {model for model, _ in scores.keys() - drawn}
    metric = str(names.pop("metric"))
    return grid.finish(
        path,
        # In the query, the run's scale counts whatever range the user states. As `stated_scale` it
        # is compared with the user's direction, or with the scale that the scores are put beside.
        replace(query, scale=scale),
        metric,
        stated_scale=scale,
        **names,
        settings=dict(header.task.get("settings") or {}),
        sources=(str(journal),),
        chosen=tuple("adaptive" if model in adaptive else "drawn" for model, _ in grid.rows),
    )


def _only_journal(path: Path, query: Query) -> Path:
    """Return the journal at a path.

    Raises
    ------
    ScoreTableError
        There are several, or the query takes no partial runs.
    """
    [journal, *further_journals] = journals(path)
    # A journal is never taken for full results, so only who asks for partial runs gets it.
    if not query.partial:
        raise ScoreTableError(
            f"{journal}: the journal of a ranking run, whose scores are not full results; "
            "`bank update` takes it, `board check` verifies that of a board, and `rank` compares "
            "models in one run"
        )
    # Two runs may score the same model and item differently, and the later would silently win.
    if further_journals:
        raise ScoreTableError(
            f"{path}: {len(further_journals) + 1} runs; name one, such as {journal.parent}"
        )
    return journal


def _scores_and_draws(
    records: Iterable[Record],
) -> tuple[dict[tuple[str, Any], float], set[tuple[str, Any]]]:
    """Return the score on [0, 1] of each (model, doc_id), and those that were drawn at random."""
    scores: dict[tuple[str, Any], float] = {}
    drawn: set[tuple[str, Any]] = set()
    for record in records:
        match record:
            case Asks(pairs=pairs, draws=probabilities):
                # Only a draw has a probability; other items were chosen for what they tell.
                drawn |= {
                    (model, item.doc_id)
                    for (model, item), probability in zip(pairs, probabilities)
                    if probability is not None
                }
            # A repeat is (task, doc_id, number), which does not match: the first answer counts. Nor
            # does an answer of several outcomes, whose score is a mapping.
            case Tell(score=int() | float() as score, item=(_, doc_id)):
                scores[record.model, doc_id] = float(score)
    return scores, drawn


def outcomes(path: Path) -> list[Logged]:
    """Return every (task, metric, filter) of the runs, once."""
    tasks = [header.task for header, _ in map(run_of, journals(path))]
    logged = (
        Logged(task.get("name"), str(task.get("metric")), task.get("filter")) for task in tasks
    )
    return list(dict.fromkeys(logged))


def journals(path: Path) -> Iterator[Path]:
    """Yield the journals at a path: the file itself, or those of a folder and of its folders."""
    files = [path] if path.is_file() else [path / JOURNAL, *sorted(path.glob(f"*/{JOURNAL}"))]
    for file in files:
        if file.suffix == ".jsonl" and file.is_file():
            with file.open("rb") as stream:
                if _HEADER.search(stream.readline(4096)[:200]):
                    yield file


def run_of(file: Path) -> tuple[Header, Iterator[Record]]:
    """Return the header of a journal, which says what the run is of, and all its records."""
    journal, records = read_journal(file)
    if not journal.header.task:
        raise ScoreTableError(f"{file}: its header names no task")
    return journal.header, records


READER = Reader(
    name="journal",
    summary="run directories of lm-eval-ccat",
    can_read=lambda path: any(True for _ in journals(path)),
    read=read,
    outcomes=outcomes,
)

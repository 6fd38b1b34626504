"""Harness outputs of many models, runs and filters, as one score table.

`files` finds the runs, `rows` reads their rows; here the runs are brought together. Of the
same (model, config, document) the latest run counts. Runs of one model that differ in how text is
generated are its configs. Runs whose results are not of every document are no full results: see
:meth:`~lm_eval_ccat.scores.readers.lm_eval.files.Run.why_not_full`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

from ....errors import MetricError, ScoreTableError
from ....metrics import Metric, Scale, find_metric, known_scale
from ....metrics.pairs import parts_of, script_warning
from ....metrics.registry import MEANS, read_declaration
from ....metrics.table import refusal
from ...grid import Grid
from ...table import Progress, Reader, ScoreTable
from ...wanted import Logged, Wanted, one_of
from . import files
from .files import Run
from .rows import Asked, read_files, sound_rows

_ANY_NUMBER = Scale(-1e300, 1e300)
_LOOKED_AT = 20  # rows, for what the targets look like


def can_read(path: Path) -> bool:
    """Whether a path is a log of the harness, or a directory with one in it."""
    if path.is_file():
        return files.is_log_file(path)
    return any(files.is_log_file(file) for file in path.rglob("samples_*.json*"))


def outcomes(path: Path) -> list[Logged]:
    """Every (task, metric, filter) of the newest results, by task; what the rows have beside."""
    logged: dict[Logged, None] = {}
    for task in files.tasks_of(path):
        runs, _ = files.find_runs(path, task)
        for run in runs:
            logged |= dict.fromkeys(Logged(task, m, f) for m, f in run.metric_keys)
    return list(logged)


def read(path: Path, wanted: Wanted, on_progress: Progress = None) -> ScoreTable:
    """Read harness logs; see `Reader`.

    Parameters
    ----------
    path : Path
        A directory searched in depth for ``samples_<task>_<date>.jsonl`` (or ``.jsonl.gz``) with
        ``results_<date>.json`` beside them; or one such file.
    wanted : Wanted
    on_progress : callable, optional
        Called with (bytes read, bytes in all).

    Returns
    -------
    ScoreTable
        ``settings`` holds what the runs share; ``warnings`` what was left out and why.

    Raises
    ------
    ScoreTableError
        No usable log, or a task, metric or filter that is not in them or must be named.
    MetricError
        The metric cannot become one score per document.
    ScaleError
        The metric's scale is not known, or a score lies outside it.
    """
    ends, lower_is_better = wanted.range, wanted.lower_is_better
    if wanted.scale is not None and wanted.scale.cap is None:
        ends, lower_is_better = wanted.scale.ends, not wanted.scale.higher_is_better
    runs, warnings = files.find_runs(path, wanted.task)
    runs, partial = files.full_runs(runs, wanted.partial)
    runs, differing = files.comparable_runs(runs)
    task = runs[0].task
    name, filter = _choose_metric(path, runs, wanted.metric, wanted.filter)
    config = next((run.of_task("configs") for run in runs if run.results), None)
    metric = _metric(name, task, ends, lower_is_better, config)
    unknown = metric.scale is _ANY_NUMBER
    labels = [(run.model, label) for run, label in zip(runs, files.config_labels(runs))]
    grid = Grid()
    for label in labels:
        grid.row(*label)
    by_date = sorted(zip(runs, labels), key=lambda pair: pair[0].date)
    filters: dict[str, None] = {}
    troubles: list[str] = []
    unusable = ""
    each = read_files([run for run, _ in by_date], Asked(metric, task, filter), on_progress)
    for (run, label), rows in zip(by_date, each):
        filters |= rows.filters
        troubles += rows.notes
        if rows.unusable:
            unusable = f"{run.samples}, {rows.unusable}"
        grid.lay([label], rows.doc_ids, rows.scores, rows.hashes)
    if unusable and not grid.placed:
        raise MetricError(unusable)
    warnings += [*partial, *differing, *troubles]
    if filters:
        filter = one_of(path, "filter", None, filters)
    newest = max(runs, key=lambda run: run.date)
    first_rows = islice(sound_rows(newest.samples), _LOOKED_AT)
    if noise := script_warning(name, [str(row.get("target") or "") for row in first_rows]):
        warnings.append(noise)
    direction = (runs[0].of_task("higher_is_better") or {}).get(name) if unknown else None
    chosen = {label for run, label in zip(runs, labels) if run.adaptive}
    scores = grid.finish(
        path,
        wanted,
        name,
        task=task,
        filter=filter,
        stated=None if unknown else metric.scale,
        lower_is_better=None if direction is None else not direction,
        warnings=warnings,
        say_missing=True,
        settings=files.shared_settings(runs),
        sources=tuple(str(run.samples) for run in runs),
    )
    if chosen:
        how = [
            "adaptive" if of in chosen else "all" for of in zip(scores.row_model, scores.row_config)
        ]
        return replace(scores, chosen=tuple(how))
    return scores


def _choose_metric(
    path: Path, runs: Sequence[Run], metric: str | None, filter: str | None
) -> tuple[str, str | None]:
    """Name metric and filter: the given ones, else the only ones; the filter may stay unknown."""
    task = runs[0].task
    keys = list(dict.fromkeys(key for run in runs for key in run.metric_keys))
    firsts = (next(sound_rows(run.samples), {}) for run in runs)
    reported = next((row["metrics"] for row in firsts if row.get("metrics")), None)
    reported = list(dict.fromkeys(reported or (m for m, _ in keys)))
    if metric is None and not reported:
        raise ScoreTableError(f"{path}: no readable rows in the logs of {task}")
    name = metric or one_of(path, "metric", None, reported)
    if parts_of(name)[0] not in reported:
        name = name.removeprefix("sentence_")
    base, _ = parts_of(name)
    if reported and base not in reported:
        one_of(path, "metric", metric, reported)
    filters = dict.fromkeys(f for m, f in keys if m == base)
    return name, one_of(path, "filter", None, filters) if filter is None and filters else filter


def _metric(
    name: str,
    task: str,
    range: tuple[float, float] | None,
    lower_is_better: bool | None,
    config: Mapping[str, Any] | None,
) -> Metric:
    """The metric of the logs; of any number where only its values can tell its scale."""
    declared = read_declaration(config, parts_of(name)[0])
    unknown = range is None and declared.scale is None and known_scale(name, task=task) is None
    if unknown and refusal(name) is None and declared.aggregation in (None, *MEANS):
        return Metric(name, _ANY_NUMBER)
    return find_metric(name, range=range, lower_is_better=lower_is_better, task=task, config=config)


READER = Reader(
    name="lm_eval",
    summary="logs of the harness (run with --log_samples)",
    can_read=can_read,
    read=read,
    outcomes=outcomes,
    groups=files.groups_of,
)

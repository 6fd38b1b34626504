"""Harness outputs of many models, runs and filters, as one score table.

`files` finds the runs, `rows` reads their rows; here the runs are brought together. Of the
same (model, config, document) the latest run counts. Runs of one model that differ in how text is
generated are its configs. Runs whose results are not of every document are no full results: see
:meth:`~lm_eval_ccat.scores.readers.lm_eval.files.Run.why_not_full`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ....errors import MetricError, ScoreTableError
from ...scales import choose_scale
from ..reader import Outcome, Progress, RawScores, Reader, Wanted
from .files import Run, find_runs, groups_of, is_log_file, tasks_of
from .metric import MetricInLogs, PlainNumber
from .rows import Rows, cut, first_row, read_parts
from .settings import comparable_runs, config_labels, shared_settings

_SHOWN_LINES = 3


@dataclass
class _RunScores:
    """The rows of one run; ``versions`` numbers the hashes that a document was seen with."""

    doc_ids: list[Any] = field(default_factory=list)
    scores: list[float] = field(default_factory=list)
    versions: list[int] = field(default_factory=list)
    filters: Counter[str | None] = field(default_factory=Counter)
    lines: int = 0
    broken: list[tuple[int, str]] = field(default_factory=list)
    unusable: list[tuple[int, str]] = field(default_factory=list)
    without: int = 0


def can_read(path: Path) -> bool:
    """Whether a path is a log of the harness, or a directory with one in it."""
    if path.is_file():
        return is_log_file(path)
    return any(is_log_file(file) for file in path.rglob("samples_*.json*"))


def outcomes(path: Path) -> list[Outcome]:
    """Every (task, metric, filter) of the newest results, by task; what the rows have beside."""
    found: dict[Outcome, None] = {}
    for task in tasks_of(path):
        runs, _ = find_runs(path, task)
        for run in runs:
            found |= dict.fromkeys(Outcome(task, m, f) for m, f in run.metric_keys)
    return list(found)


def read(path: Path, wanted: Wanted, on_progress: Progress = None) -> RawScores:
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
    RawScores
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
    lower_is_better, ends = wanted.lower_is_better, wanted.range
    if wanted.scale is not None and wanted.scale.cap is None:
        ends, lower_is_better = wanted.scale.ends, not wanted.scale.higher_is_better
    runs, warnings = find_runs(path, wanted.task)
    runs, notes = _full_runs(runs, wanted.partial)
    warnings += notes
    runs, notes = comparable_runs(runs)
    warnings += notes
    name, filter = _choose_metric(path, runs, wanted.metric, wanted.filter)
    config = next((run.of_task("configs") for run in runs if run.results), None)
    metric = MetricInLogs.of(name, runs[0].task, ends, lower_is_better, config)
    scorer = metric.find()
    # A doc_id is the first seen spelling of the document; its hashes in order of appearance.
    hashes: dict[Any, list[str | None]] = {}
    read_runs = _read_runs(runs, metric, filter, hashes, on_progress)
    warnings += _reading_warnings(runs, read_runs, name)
    filter = _only_filter(read_runs, filter, runs[0].task)

    raw, labels, kept_hashes, doc_ids, notes = _merge(runs, read_runs, hashes)
    warnings += notes
    if not np.isfinite(raw).any():
        raise ScoreTableError(
            f"{path}: no scores of metric {name!r}, filter {filter!r}, in the logs of task "
            f"{runs[0].task}"
        )
    if lower_is_better is None and isinstance(scorer, PlainNumber):
        direction = (runs[0].of_task("higher_is_better") or {}).get(name)
        lower_is_better = None if direction is None else not direction
    scale, notes = choose_scale(
        raw,
        name,
        where=str(path),
        stated=None if isinstance(scorer, PlainNumber) else scorer.scale,
        scale=wanted.scale,
        range=wanted.range,
        lower_is_better=lower_is_better,
    )
    return RawScores(
        raw,
        models=[model for model, _ in labels],
        configs=[config for _, config in labels],
        doc_ids=doc_ids,
        scale=scale,
        metric=name,
        task=runs[0].task,
        filter=filter,
        doc_hashes=kept_hashes,
        settings=shared_settings(runs),
        warnings=(*warnings, *notes),
        sources=tuple(str(run.samples) for run in runs),
        chosen=_chosen(runs, labels),
    )


def _full_runs(runs: Sequence[Run], partial: bool) -> tuple[list[Run], list[str]]:
    """Leave out the runs that may not stand for full results, but for adaptive ones if wanted."""
    kept, warnings = [], []
    for run in runs:
        reason, usable = run.why_not_full()
        usable = usable or (partial and run.adaptive)
        if usable:
            kept.append(run)
        if reason:
            what = "documents it did not run count as missing" if usable else "left out"
            warnings.append(f"{run.samples}: {reason}; {what}")
    if not kept:
        raise ScoreTableError(f"no full results among the logs: {warnings[0]}")
    return kept, warnings


def _chosen(runs: Sequence[Run], labels: Sequence[tuple[str, str]]) -> tuple[str, ...]:
    """How the items of each row were chosen; empty where nothing was."""
    adaptive = {
        (run.model, config)
        for run, config in zip(runs, config_labels(runs), strict=True)
        if run.adaptive
    }
    if not adaptive:
        return ()
    return tuple("adaptive" if label in adaptive else "all" for label in labels)


def _choose_metric(
    path: Path, runs: Sequence[Run], metric: str | None, filter: str | None
) -> tuple[str, str | None]:
    """Name metric and filter: the given ones, else the only ones; the filter may stay unknown."""
    keys: list[tuple[str, str]] = []
    for run in runs:
        keys += [key for key in run.metric_keys if key not in keys]
    reported: list[str] = []
    for run in runs:
        row = first_row(run.samples) or {}
        reported += [m for m in row.get("metrics") or () if m not in reported]
        if reported:
            break
    reported = reported or list(dict.fromkeys(m for m, _ in keys))
    if metric is None:
        if len(reported) != 1:
            if not reported:
                raise ScoreTableError(f"{path}: no readable rows in the logs of {runs[0].task}")
            names = ", ".join(reported)
            raise ScoreTableError(f"{path}: {runs[0].task} reports {names}; name one (--metric)")
        metric = reported[0]
    name = metric
    if name not in reported and name.removeprefix("sentence_") in reported:
        name = name.removeprefix("sentence_")
    if reported and name not in reported:
        raise ScoreTableError(
            f"{path}: task {runs[0].task} reports no metric {metric!r}; "
            f"it reports {', '.join(reported)}"
        )
    filters = list(dict.fromkeys(f for m, f in keys if m == name))
    if filter is None and len(filters) > 1:
        raise ScoreTableError(
            f"{path}: metric {name} of task {runs[0].task} has {len(filters)} filters "
            f"({', '.join(filters)}); name one (--filter)"
        )
    return name, filters[0] if filter is None and filters else filter


def _read_runs(
    runs: Sequence[Run],
    metric: MetricInLogs,
    filter: str | None,
    hashes: dict[Any, list[str | None]],
    on_progress: Callable[[int, int], None] | None,
) -> list[_RunScores]:
    """Read every run's rows; ``hashes`` is filled."""
    parts = cut([run.samples for run in runs], metric=metric, filter=filter)
    found = [_RunScores() for _ in runs]
    earlier: list[Counter[Any]] = [Counter() for _ in runs]  # rows that name no filter
    for rows in read_parts(parts, on_progress):
        run = found[rows.file]
        run.broken += [(run.lines + line + 1, why) for line, why in rows.broken]
        run.unusable += [(run.lines + line + 1, why) for line, why in rows.unusable]
        run.lines += rows.lines
        run.without += rows.without
        _name_filters(runs[rows.file], rows, metric.name, filter, earlier[rows.file])
        run.filters.update(rows.filters)
        run.doc_ids += rows.doc_ids
        run.scores += rows.scores
        for doc_id, doc_hash in zip(rows.doc_ids, rows.hashes):
            seen = hashes.get(doc_id)
            if seen is None:
                seen = hashes[doc_id] = []
            if doc_hash not in seen:
                seen.append(doc_hash)
            run.versions.append(seen.index(doc_hash))
    return found


def _name_filters(
    run: Run, rows: Rows, metric: str, filter: str | None, earlier: Counter[Any]
) -> None:
    """Tell the filters of rows that name none, and keep those of the wanted one.

    Before 0.4.7 the harness wrote all documents by the first filter, then all by the next: the
    k-th row of a document is of the k-th filter.
    """
    if None in rows.filters:
        names = run.filters_of(metric) or [filter or "none"]
        keep = []
        for n, name in enumerate(rows.filters):
            if name is None:
                nth = rows.nth[n] + earlier[rows.doc_ids[n]]
                if nth >= len(names):
                    raise ScoreTableError(
                        f"{run.samples}: {nth + 1} rows of doc_id {rows.doc_ids[n]} and none names "
                        "its filter; put the run's results_<date>.json beside the samples"
                    )
                rows.filters[n] = names[nth]
            if filter in (None, rows.filters[n]):
                keep.append(n)
        for part in ("doc_ids", "scores", "hashes", "filters"):
            values = getattr(rows, part)
            setattr(rows, part, [values[n] for n in keep])
    earlier.update(rows.seen)


def _reading_warnings(runs: Sequence[Run], found: Sequence[_RunScores], name: str) -> list[str]:
    """Say which lines could not be used; a metric that no row bears is an error."""
    warnings = []
    usable = sum(len(rows.scores) for rows in found)
    for run, rows in zip(runs, found):
        if usable == 0 and rows.unusable:
            raise MetricError(f"{run.samples}, line {rows.unusable[0][0]}: {rows.unusable[0][1]}")
        for line, why in rows.broken[:_SHOWN_LINES]:
            warnings.append(f"{run.samples}, line {line}: not readable, left out ({why})")
        if len(rows.broken) > _SHOWN_LINES:
            more = len(rows.broken) - _SHOWN_LINES
            warnings.append(f"{run.samples}: {more} more unreadable lines left out")
        if rows.unusable:
            line, why = rows.unusable[0]
            warnings.append(
                f"{run.samples}: {len(rows.unusable)} scores unusable, counted as missing "
                f"(line {line}: {why})"
            )
        if rows.without:
            warnings.append(f"{run.samples}: {rows.without} rows do not report {name}")
    return warnings


def _only_filter(found: Sequence[_RunScores], filter: str | None, task: str) -> str | None:
    """Return the filter of all rows read."""
    names = list(dict.fromkeys(f for rows in found for f in rows.filters if f is not None))
    if len(names) > 1:
        raise ScoreTableError(
            f"task {task} has {len(names)} filters ({', '.join(names)}); name one (--filter)"
        )
    return names[0] if names else filter


def _merge(
    runs: Sequence[Run], found: list[_RunScores], hashes: dict[Any, list[str | None]]
) -> tuple[
    NDArray[np.float64],
    list[tuple[str, str]],
    tuple[str | None, ...] | None,
    list[Any],
    list[str],
]:
    """Lay the runs into one matrix, later runs over earlier ones.

    A document seen with two hashes is two documents under one id. Scores of the rarer one are
    left out: a mean over different documents measures neither.
    """
    configs = config_labels(runs)
    labels = list(dict.fromkeys((run.model, config) for run, config in zip(runs, configs)))
    doc_ids = list(hashes)
    if len({type(d) for d in doc_ids}) > 1:
        raise ScoreTableError("the logs mix integer and string doc_ids")
    doc_ids.sort()
    column = {doc_id: n for n, doc_id in enumerate(doc_ids)}
    raw = np.full((len(labels), len(doc_ids)), np.nan)
    version = np.zeros(raw.shape, dtype=np.uint16)
    for n in sorted(range(len(runs)), key=lambda n: (runs[n].date, n)):
        row = labels.index((runs[n].model, configs[n]))
        rows = found[n]
        at = np.fromiter((column[d] for d in rows.doc_ids), dtype=np.intp, count=len(rows.doc_ids))
        # Assignment by index keeps the last of a document's rows in one file, too.
        raw[row, at] = rows.scores
        version[row, at] = rows.versions
        found[n] = _RunScores()  # the matrix has them now
    kept: list[str | None] = []
    changed: list[Any] = []
    dropped: Counter[str] = Counter()
    for n, doc_id in enumerate(doc_ids):
        seen = hashes[doc_id]
        best = 0
        if len(seen) > 1:
            there = np.isfinite(raw[:, n])
            counts = np.bincount(version[there, n], minlength=len(seen))
            best = len(seen) - 1 - int(np.argmax(counts[::-1]))  # of equals the one seen last
            other = there & (version[:, n] != best)
            raw[other, n] = np.nan
            if other.any():
                changed.append(doc_id)
            dropped.update(labels[r][0] for r in np.flatnonzero(other))
        kept.append(seen[best])
    warnings = []
    if changed:
        shown = ", ".join(map(str, changed[:5])) + (", ..." if len(changed) > 5 else "")
        who = ", ".join(f"{model} ({count})" for model, count in dropped.most_common(5))
        warnings.append(
            f"the hash of {len(changed)} of {len(doc_ids)} documents differs between logs "
            f"(doc_id {shown}): the logs are not all of the same data set; the rarer version "
            f"counts as missing for {who}"
        )
    present = np.isfinite(raw).any(axis=1)
    if not present.all():
        gone = [labels[r][0] for r in np.flatnonzero(~present)]
        warnings.append(f"no usable score of {', '.join(gone)}; left out")
        raw, labels = raw[present], [labels[r] for r in np.flatnonzero(present)]
    sparse = [
        f"{model}{f' ({config})' if config else ''} {int(count)}"
        for (model, config), count in zip(labels, np.isfinite(raw).sum(axis=1))
        if count < len(doc_ids)
    ]
    if sparse:
        shown = ", ".join(sparse[:5]) + (f" and {len(sparse) - 5} more" if len(sparse) > 5 else "")
        warnings.append(f"not all of the {len(doc_ids)} documents are scored for: {shown}")
    hashed = tuple(kept) if any(h is not None for h in kept) else None
    return raw, labels, hashed, doc_ids, warnings


READER = Reader(
    name="lm_eval",
    summary="logs of the harness (run with --log_samples)",
    can_read=can_read,
    read=read,
    outcomes=outcomes,
    groups=groups_of,
)

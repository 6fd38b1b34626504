"""Harness outputs of many models, runs and filters, as one score table.

Of the same (model, config, document) the latest run counts, and a warning says how many earlier
ones there are.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np

from ...errors import MetricError, ScoreTableError, UnknownMetricError
from ...metrics import Metric, Scale, find_metric
from ...metrics.registry import known_scale
from ...metrics.text_pairs import SENTENCE, parts_of, script_warning
from ...shown import plural, some
from ..configuration import sampling_settings
from ..grid import ScoreGrid
from ..reading import Logged, Progress, Query, one_of
from ..table import REPEAT_CONFIG, Reader, ScoreTable
from .comparable_runs import comparable_runs, full_runs, labels_of, oldest_first, shared_settings
from .logged_runs import LoggedRun, can_read, configurations_of, every_run, find_runs, groups_of
from .samples import (
    FileScores,
    RunSamples,
    SampleQuery,
    read_file,
    read_files,
    sound_rows,
    tokens_of_row,
)

#: Stands for a scale that is not known.
_ANY_NUMBER = Scale(-1e300, 1e300)
#: Within this, means that were computed in another order are the same.
_ROUNDING = 1e-6
#: How many of a run's first rows say what metrics, targets and tokens there are; and in how many
#: runs tokens are counted.
_N_ROWS, _N_RUNS = 20, 10


def outcomes(path: Path) -> list[Logged]:
    """Return every (task, metric, filter) of the results, else of the rows, by task."""
    logged = (
        Logged(run.task, *key)
        for run in every_run(path)
        for key in run.metric_keys or _metrics_of_rows(run)
    )
    return list(dict.fromkeys(logged))


def _metrics_of_rows(run: LoggedRun) -> list[tuple[str, str]]:
    """Return the (metric, filter) pairs of a run whose results file does not say them."""
    rows = list(islice(sound_rows(run.samples), _N_ROWS))
    pairs = [
        (metric, str(row.get("filter", "none")))
        for row in rows
        for metric in row.get("metrics") or ()
    ]
    return list(dict.fromkeys(pairs))


def read(path: Path, query: Query, on_progress: Progress = None) -> ScoreTable:
    """Read harness logs; see `Reader`.

    Parameters
    ----------
    path : Path
        A directory searched in depth for ``samples_<task>_<date>.jsonl`` (or ``.jsonl.gz``) with
        ``results_<date>.json`` beside them; or one such file.
    query : Query
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
    runs, warnings = find_runs(path, query.task)
    runs, left_out = full_runs(runs, query.partial, query.selected)
    runs, differing = comparable_runs(runs)
    task = runs[0].task
    name, filter = _choose_metric(path, runs, query.metric, query.filter)
    metric_as_stated = _metric_as_stated(runs, name)
    metric = _metric_as_asked(metric_as_stated, query)
    labels = labels_of(runs, query.repeats)
    grid = ScoreGrid(labels)
    labelled_runs = oldest_first(runs, labels)
    contents = _read_into(grid, labelled_runs, SampleQuery(metric, task, filter), on_progress)
    # If no filter was named, it is the only one of the samples; several are refused.
    if contents.filters:
        filter = one_of(path, "filter", None, contents.filters)
    latest_run, _ = labelled_runs[-1]
    notes = [
        *warnings,
        *_doubt_of_direction(name, metric),
        *left_out,
        *differing,
        *_earlier_runs(labels),
        *_repeated_runs(labels),
        *contents.warnings,
        *_doubts_of_script(latest_run, name),
    ]
    higher_is_better = _stated_direction(metric_as_stated)
    scores = grid.finish(
        path,
        query,
        name,
        task=task,
        filter=filter,
        # A scale that takes any number is none; the scores have to suggest one.
        stated_scale=None if metric.scale is _ANY_NUMBER else metric.scale,
        lower_is_better=None if higher_is_better is None else not higher_is_better,
        warnings=notes,
        say_missing=True,
        settings=shared_settings(runs),
        configurations=configurations_of(runs, contents.sent),
        sources=tuple(str(_source(run.samples)) for run in runs),
        tokens=_mean_tokens(runs),
    )
    return _with_adaptive_rows_marked(
        scores, {label for run, label in zip(runs, labels) if run.adaptive}
    )


def latest_scores(path: Path, runs: Iterable[LoggedRun], query: Query) -> dict[Any, float]:
    """Return the latest raw score of each document in one model's runs of a task; see `read`."""
    runs = sorted(runs, key=lambda run: run.date)
    name, filter = _choose_metric(path, runs, query.metric, query.filter)
    metric = _metric_as_asked(_metric_as_stated(runs, name), query)
    sample_query = SampleQuery(metric, runs[0].task, filter)
    files = (read_file(_samples_of(run, sample_query), sample_query) for run in runs)
    return {doc_id: score for file in files for doc_id, score in zip(file.doc_ids, file.scores)}


def _doubt_of_direction(name: str, metric: Metric) -> Iterator[str]:
    """Yield a warning of a direction that is only inferred, as a wrong one turns the ranking."""
    if metric.directed_by:
        yield (
            f"the task does not list {name}; as its one metric {metric.directed_by}, "
            f"a {'higher' if metric.scale.higher_is_better else 'lower'} one is taken to be better"
        )


def _metric_as_stated(runs: Sequence[LoggedRun], name: str) -> partial[Metric]:
    """Return a function that makes a metric as the runs state it.

    The function takes a ``range`` and ``lower_is_better``, which overrule what the runs state.
    """
    _require_one_direction(runs, name)
    # The metric without a tokenizer, as rows and results call it.
    base = parts_of(name).base
    with_results = [run for run in runs if run.results]
    # If only some runs report the metric, the first of those says what it is.
    reporting = (run for run in with_results if base in dict(run.metric_keys))
    stating = next(reporting, with_results[0] if with_results else None)
    config = None if stating is None else stating.of_task("configs")
    directions = (direction for run in runs for direction in run.directions_of(base))
    # Where only its values can tell a metric's scale, any number is taken.
    return partial(
        find_metric, name, task=runs[0].task, config=config, otherwise=_ANY_NUMBER,
        higher_is_better=next(directions, None),
    )  # fmt: skip


def _metric_as_asked(metric_as_stated: partial[Metric], query: Query) -> Metric:
    """Return the metric with the range and the direction that a query names, if it does."""
    ends, lower_is_better = query.range, query.lower_is_better
    # A cap is no end of the metric's range: scores may lie above it, and then count as the cap.
    if query.scale is not None and query.scale.cap is None:
        ends, lower_is_better = query.scale.ends, not query.scale.higher_is_better
    return metric_as_stated(range=ends, lower_is_better=lower_is_better)


def _stated_direction(metric_as_stated: partial[Metric]) -> bool | None:
    """Whether a higher score is better by what the logs state; None if they do not state it."""
    # Without a range from the user, the metric may have no scale, and is refused.
    with suppress(MetricError):
        scale = metric_as_stated().scale
        if scale is not _ANY_NUMBER:
            return scale.higher_is_better
    direction: bool | None = metric_as_stated.keywords["higher_is_better"]
    return direction


def _with_adaptive_rows_marked(scores: ScoreTable, adaptive: set[tuple[str, str]]) -> ScoreTable:
    """Return scores whose rows of adaptive runs are marked so in `ScoreTable.chosen`.

    Parameters
    ----------
    scores : ScoreTable
    adaptive : set of (str, str)
        Model and configuration of the rows of adaptive runs.
    """
    if not adaptive:
        return scores
    labels = zip(scores.row_model, scores.row_config)
    return replace(
        scores, chosen=tuple("adaptive" if label in adaptive else "" for label in labels)
    )


@dataclass(frozen=True)
class _Contents:
    """What the samples of all runs hold beside scores.

    Attributes
    ----------
    filters : mapping
        The filters of their rows, as keys.
    sent : mapping of path to mapping
        The generation settings with which the answers of each file were asked for.
    warnings : list of str
    """

    filters: Mapping[str, None]
    sent: Mapping[Path, Mapping[str, object]]
    warnings: list[str]


def _read_into(
    grid: ScoreGrid,
    labelled_runs: Sequence[tuple[LoggedRun, tuple[str, str]]],
    query: SampleQuery,
    on_progress: Progress,
) -> _Contents:
    """Lay the scores of all runs into a grid; runs stand by date, so that the latest counts.

    Raises
    ------
    UnknownMetricError
        No run has a number of the metric for any document.
    """
    metric, unusable = query.metric, ""
    filters: dict[str, None] = {}
    sent: dict[Path, Mapping[str, object]] = {}
    warnings: list[str] = []
    files = [_samples_of(run, query) for run, _ in labelled_runs]
    # Only a configuration that was run again can contradict itself.
    counts = Counter(label for _, label in labelled_runs)
    earlier: dict[tuple[str, str], dict[Any, float]] = {}
    for (run, label), rows in zip(labelled_runs, read_files(files, query, on_progress)):
        filters |= rows.filters
        sent[run.samples] = rows.generation
        warnings += rows.notes
        if rows.unusable:
            unusable = f"{run.samples}, {rows.unusable}"
        warnings += _contradicted_mean(run, metric, rows)
        if counts[label] > 1 and not sampling_settings(run.generation):
            warnings += _contradictions(run, rows, earlier.setdefault(label, {}))
        grid.lay([label], rows.doc_ids, rows.scores, rows.hashes, rows.marks)
    # Some documents without a number are missing ones; all of them are another metric.
    if unusable and not grid.n_scores:
        raise UnknownMetricError(
            unusable + _metrics_of_one_number([run for run, _ in labelled_runs])
        )
    return _Contents(filters, sent, warnings)


def _samples_of(run: LoggedRun, query: SampleQuery) -> RunSamples:
    """Return the sample file of a run."""
    filters = run.filters_of(query.metric.source) or [query.filter or "none"]
    return RunSamples(run.samples, filters, run.template)


def _metrics_of_one_number(runs: Sequence[LoggedRun]) -> str:
    """Say which metrics of a task are one number per document, by a row of its samples."""
    row = next((row for run in runs for row in islice(sound_rows(run.samples), 1)), {})
    metrics = [
        str(metric)
        for metric in row.get("metrics") or dict(runs[0].metric_keys)
        if isinstance(row.get(metric), (int, float))
    ]
    return f", or take another metric: {some(metrics, 8)}" if metrics else ""


def _mean_tokens(runs: Sequence[LoggedRun]) -> dict[str, int] | None:
    """Estimate the mean tokens of an item from first rows of some runs, evenly spread over all."""
    positions = {int(k) for k in np.linspace(0, len(runs) - 1, _N_RUNS).round()}
    rows = (row for k in sorted(positions) for row in islice(sound_rows(runs[k].samples), _N_ROWS))
    counts = [tokens for tokens in map(tokens_of_row, rows) if tokens is not None]
    if not counts:
        return None
    return {key: round(fmean(tokens[key] for tokens in counts)) for key in ("input", "output")}


def _contradicted_mean(run: LoggedRun, metric: Metric, rows: FileScores) -> list[str]:
    """Return a list of one warning if the mean of a run's scores is not what its results state."""
    # There is no mean to compare: the harness does not average this metric, or estimates its mean
    # (adaptive runs); a score was refused; or the rows are of no filter, or of several.
    if metric.prefix or run.adaptive or rows.unusable or len(rows.filters) != 1:
        return []
    [filter] = rows.filters
    stated_mean = (run.of_task("results") or {}).get(f"{metric.source},{filter}")
    # A truth value is an int, but no mean.
    if isinstance(stated_mean, bool) or not isinstance(stated_mean, (int, float)):
        return []
    score_of = dict(zip(rows.doc_ids, rows.scores))
    # The file has a score of every document that was run, as far as the results tell.
    has_every_row = run.counts is None or run.counts.effective == len(score_of)
    mean = math.fsum(score_of.values()) / len(score_of)
    if not has_every_row or math.isclose(stated_mean, mean, rel_tol=_ROUNDING, abs_tol=_ROUNDING):
        return []
    return [
        f"{run.samples}: the mean {metric.source} of its samples is {mean:.6g}, the results file "
        f"beside it states {stated_mean:.6g}"
    ]


def _contradictions(run: LoggedRun, rows: FileScores, earlier: dict[Any, float]) -> list[str]:
    """Add a run's scores to `earlier` ones; return a warning if it contradicts them."""
    scores = dict(zip(rows.doc_ids, rows.scores))
    changed = [
        doc_id for doc_id, score in scores.items()
        if doc_id in earlier
        and not math.isclose(score, earlier[doc_id], rel_tol=_ROUNDING, abs_tol=_ROUNDING)
    ]  # fmt: skip
    remaining = len(earlier.keys() - scores.keys())
    earlier |= scores
    # A later run that has all documents replaces the earlier one, whatever that said.
    if not changed or not remaining:
        return []
    return [
        f"{run.samples}: {len(changed)} of its {plural(len(scores), 'score')} contradict an "
        f"earlier run of the same model and settings (doc_id {some(changed, 3)}), from which "
        f"{plural(remaining, 'further score')} are taken: something else has changed; leave out "
        "one of the two, or run all documents anew"
    ]


def _require_one_direction(runs: Sequence[LoggedRun], name: str) -> None:
    """Refuse logs that state both directions of a metric.

    Where the metric table has the direction, only a log that contradicts itself is refused.
    """
    metric, known = parts_of(name).base, known_scale(name, task=runs[0].task)
    sources: dict[bool, Path] = {}
    for run in runs:
        sources = {} if known is not None else sources
        sources |= {direction: run.samples for direction in run.directions_of(metric)}
        # Read either way, one half of the models would be ranked backwards.
        if len(sources) == 2:
            files = " and ".join(sorted({str(source) for source in sources.values()}))
            raise ScoreTableError(
                f"the results beside {files} state both that a higher {metric} is better and that "
                "a lower one is; correct or leave out what is wrong"
            )


def _earlier_runs(labels: Sequence[tuple[str, str]]) -> list[str]:
    """Say in one line how many runs are of a configuration that was run again later."""
    n_earlier = {label: n - 1 for label, n in Counter(labels).items() if n > 1}
    if not n_earlier:
        return []
    names = [f"{' '.join(filter(None, label))} ({n})" for label, n in n_earlier.items()]
    return [
        f"{plural(sum(n_earlier.values()), 'earlier run')} left out where a later run of the same "
        f"model and settings has the document: {some(names, 4)}"
    ]


def _repeated_runs(labels: Sequence[tuple[str, str]]) -> list[str]:
    """Say in one line how many runs are read as repeats of one configuration."""
    runs = Counter(model for model, config in labels if REPEAT_CONFIG in config)
    if not runs:
        return []
    names = some([f"{model} ({n})" for model, n in runs.items()], 4)
    return [f"runs of one model at a temperature are read as its repeats: {names}"]


def _source(samples: Path) -> Path:
    """Return where a sample file lies: the file that it links to, if it is a link."""
    # A relative link starts from its own folder.
    return samples.parent / samples.readlink() if samples.is_symlink() else samples


def _doubts_of_script(run: LoggedRun, metric: str) -> list[str]:
    """Warn of a metric that is noise on targets in the writing system of a run's first ones."""
    first_rows = islice(sound_rows(run.samples), _N_ROWS)
    doubt = script_warning(metric, [str(row.get("target") or "") for row in first_rows])
    return [doubt] if doubt else []


def _choose_metric(
    path: Path, runs: Sequence[LoggedRun], metric: str | None, filter: str | None
) -> tuple[str, str | None]:
    """Return metric and filter: the stated ones, else the only ones.

    The filter is None where none is stated and the results list none: rows tell it later.

    Raises
    ------
    ScoreTableError
        No metric is stated, and no row can be read.
    UnknownScoresError
        No run reports the metric; or none is stated where there are several; the filter likewise.
    """
    keys = list(dict.fromkeys(key for run in runs for key in run.metric_keys))
    # Users may name a mean as this package's own results do: ``sentence_bleu`` of rows with `bleu`.
    names_in_rows = [] if metric is None else [metric, metric.removeprefix(SENTENCE)]
    reported = _metrics_in_rows(runs, names_in_rows) or list(dict.fromkeys(key[0] for key in keys))
    if metric is None and not reported:
        raise ScoreTableError(f"{path}: no readable rows in the logs of {runs[0].task}")
    if metric is None:
        names_in_rows = [one_of(path, "metric", None, reported)]
    # If rows report neither name, the error below is of the metric as they would call it.
    name = next(
        (named for named in names_in_rows if parts_of(named).base in reported), names_in_rows[-1]
    )
    base = parts_of(name).base
    if reported and base not in reported:
        one_of(path, "metric", metric, reported)  # raises the error, which lists the metrics
    filters = dict.fromkeys(filter_of_key for metric_of_key, filter_of_key in keys
                            if metric_of_key == base)  # fmt: skip
    return name, one_of(path, "filter", None, filters) if filter is None and filters else filter


def _metrics_in_rows(runs: Sequence[LoggedRun], names: Sequence[str]) -> list[str]:
    """Return the metrics that first rows report, run by run until one of them is of `names`.

    Without names, those of the first run that reports any.
    """
    bases = {parts_of(name).base for name in names}
    metrics: dict[str, None] = {}
    for run in runs:
        metrics |= dict.fromkeys(next(sound_rows(run.samples), {}).get("metrics") or ())
        # A run may lack a metric that the others have.
        if metrics and (not names or bases & metrics.keys()):
            break
    return list(metrics)


READER = Reader(
    name="lm_eval",
    summary="logs of the harness (run with --log_samples)",
    can_read=can_read,
    read=read,
    outcomes=outcomes,
    groups=groups_of,
)

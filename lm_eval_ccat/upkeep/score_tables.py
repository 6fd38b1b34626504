"""Reads scores for upkeep, and makes a bank from them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import numpy as np

from ..bank import ItemBank
from ..bank.bank import PUBLISHED_ELSEWHERE, Observation, family_of
from ..errors import CcatError, UsageError
from ..grouping import grouped
from ..methods.calibration import calibrate
from ..metrics import check_column
from ..plugins import existing
from ..scores import ScoreTable
from ..scores.item_scaling import CONSTANT, ItemScaling
from ..scores.prompts import Prompts
from ..scores.reading import ANY, Logged, Query
from ..scores.table import read_beside, reader_of
from ..shown import plural, some
from .words import dated

#: Default number of models of a leaderboard that are taken, and of gigabytes that are fetched.
MODELS, MAX_GB = 60, 5.0
#: Cost of a model where all chosen models are of its family. Its other cost is the distance of its
#: score from the one that is sought, as a share of the range of scores.
_FAMILY_COST = 0.5


def make_bank(
    table: ScoreTable,
    method: str = "default",
    *,
    scale_items: bool = False,
    published_elsewhere: bool = False,
    **options: Any,
) -> ItemBank:
    """Calibrate a bank, dated today.

    Parameters
    ----------
    table : ScoreTable
    method : str, optional
    scale_items : bool, optional
        Scale each item's scores to [0, 1] over the calibration rows first; the bank keeps the ends
        (`lm_eval_ccat.scores.item_scaling`).
    published_elsewhere : bool, optional
        The scores were published, of other prompts than a run's. Every item is then drawn, because
        models that get other prompts may depart from the bank in ways that no model left out of it
        shows: where 30% of a new model's scores are replaced by chance, its estimates after chosen
        items err by up to 1.5 times what they state, after draws by 0.8 to 1.1.
    **options
        Options of the method's calibration, and of `calibrate`, such as ``keep_scores``.

    Raises
    ------
    MetricError
        Every score is the same.
    BankError
        There are fewer than two models, or an item or model has no scores.

    Examples
    --------
    >>> rows = [[0.1, 0.5, 0.9], [0.2, 0.4, 0.8], [0.3, 0.6, 0.7]]
    >>> table = ScoreTable.from_arrays(rows, models=["a", "b", "c"])
    >>> make_bank(table, "paper", scale_items=True).metric
    'score_item_scaled'
    """
    check_column(table.raw, metric=table.metric, task=table.task or "")
    if published_elsewhere:
        # The option is that of this method; `sample` draws all items anyway.
        if method == "default":
            options = {"draws": 1.0, **options}
        bank = make_bank(table, method, scale_items=scale_items, **options)
        return replace(bank, provenance={**bank.provenance, "prompts": PUBLISHED_ELSEWHERE})
    if not scale_items:
        return dated(calibrate(table, method, **options))
    scaling = ItemScaling.fit(table)
    bank = calibrate(scaling.apply(table), method, **options)
    return dated(replace(bank, constants={**bank.constants, CONSTANT: scaling.to_dict()}))


def spread(scores: Mapping[str, float], n: int) -> list[str]:
    """Choose models over the whole range of scores, of as many families as that leaves.

    They are returned in ascending order of their scores.

    Parameters
    ----------
    scores : mapping of str to float
        Mean score of each model.
    n : int
        Number of models; fewer where there are fewer.

    Examples
    --------
    >>> scores = {"a/x-1": 0.1, "a/x-2": 0.5, "b/y-2": 0.51, "a/x-3": 0.9, "a/x-4": 0.52}
    >>> spread(scores, 3)
    ['a/x-1', 'b/y-2', 'a/x-3']
    """
    candidates = dict(sorted(scores.items()))
    if len(candidates) <= n:
        return sorted(candidates, key=candidates.__getitem__)
    low, high = min(scores.values()), max(scores.values())
    span, models = max(high - low, 1e-12), list[str]()
    n_chosen_of_family = Counter[str]()
    # The ends come first: a bank should reach as far as the models do.
    targets = np.linspace(low, high, n)
    for target in sorted(targets.tolist(), key=lambda value: -abs(value - (low + high) / 2.0)):
        costs = {
            name: abs(score - target) / span
            + _FAMILY_COST * n_chosen_of_family[family_of(name)] / n
            for name, score in candidates.items()
        }
        model = min(costs, key=costs.__getitem__)
        n_chosen_of_family[family_of(model)] += 1
        models.append(model)
        del candidates[model]
    return sorted(models, key=scores.__getitem__)


def _tasks_meant(path: Path, recorded: Sequence[str], names: Sequence[str]) -> dict[str, bool]:
    """Return the recorded tasks that names, shell patterns and recorded groups select.

    For each, whether it must report a metric: by its own name or that of a group. A pattern chooses
    among tasks.
    """
    groups = reader_of(path).groups(path)
    must_report: dict[str, bool] = {}
    for name in names:
        matching = [task for task in recorded if fnmatchcase(task, name)]
        is_pattern = name not in recorded and bool(matching)
        if name in recorded:
            matching = [name]
        # A task that is called like a group goes before it.
        elif not matching and name in groups:
            matching = _leaves(name, groups)
            if missing := [task for task in matching if task not in recorded]:
                raise UsageError(
                    f"{path}: no scores of {len(missing)} of the {len(matching)} tasks of {name}, "
                    f"{missing[0]} among them; run them, or name only tasks that have scores"
                )
        if not matching:
            listing = some(recorded)
            raise UsageError(f"{path}: no task, pattern or group {name!r}; its tasks are {listing}")
        for task in matching:
            must_report[task] = must_report.get(task, False) or not is_pattern
    return must_report


def table_of(bank: ItemBank, observations: Sequence[Observation]) -> ScoreTable:
    """Return observations of a bank's items as a score table, NaN where not asked."""
    scores = np.full((len(observations), bank.n_items), np.nan)
    for row, observation in zip(scores, observations):
        row[observation.items] = observation.scores
    table = ScoreTable.from_arrays(
        bank.scale.restore(scores),
        [observation.model for observation in observations],
        bank.doc_ids,
        configs=[observation.config for observation in observations],
        scale=bank.scale,
        metric=bank.metric,
        task=bank.task,
        filter=bank.filter,
        doc_hashes=bank.doc_hashes,
        prompts=Prompts.of_rows([bank.prompts] * len(observations)) if bank.prompts else None,
        settings=dict(bank.settings),
    )
    # "all" are all items of the bank, which need not be all of a table that these rows are joined
    # to; "" states nothing.
    return replace(
        table,
        chosen=tuple(
            "" if observation.chosen == "all" else observation.chosen
            for observation in observations
        ),
    )


def scores_for(bank: ItemBank, path: str | Path, **reading: Any) -> ScoreTable:
    """Read a score table or logs as a bank needs them.

    Parameters
    ----------
    bank : ItemBank
    path : path-like
    **reading
        Further arguments of `read_beside`.

    Returns
    -------
    ScoreTable
        Scaled item by item if the bank's scores were; of the same documents in another order, as
        their hashes say, with the bank's doc_ids.

    Raises
    ------
    ScoreTableError
        The path has no such scores.
    ScaleError
        The source states another scale or direction than the bank's, or a score lies outside it.
    """
    scaling = ItemScaling.of_bank(bank.constants)
    name, scale = (bank.metric, bank.scale) if scaling is None else (scaling.metric, scaling.scale)
    table = read_beside(path, Logged(bank.task, name, bank.filter), "the bank", scale, **reading)
    # A data set in another order has the same documents under other doc_ids.
    table = table.numbered_as(bank.doc_ids, bank.doc_hashes)
    return table if scaling is None else scaling.apply(table)


def tables_of(
    path: str | Path, tasks: Sequence[str], metrics: Sequence[str] | None = None, query: Query = ANY
) -> dict[str, ScoreTable]:
    """Read one outcome of each of several tasks; `query` states filter and scale.

    Raises
    ------
    UsageError
        A task reports none or several of the metrics.
    """
    meant = outcomes_meant(Path(path), tasks, metrics, query.filter, single=True)
    tables: dict[str, ScoreTable] = {}
    for outcome, table in zip(meant, ScoreTable.read_many(path, meant, query)):
        if isinstance(table, CcatError):
            raise table
        tables[outcome.task or "task"] = table
    return tables


def outcomes_meant(
    path: Path,
    tasks: Sequence[str],
    metrics: Sequence[str] | None,
    filter: str | None,
    *,
    single: bool = False,
) -> list[Logged]:
    """Return the outcomes that names of tasks, metrics and a filter select.

    Parameters
    ----------
    path : Path
        Logs or a table.
    tasks : sequence of str
        Names, shell patterns, or groups that the logs record.
    metrics : sequence of str or None
        Names or shell patterns of metrics, and names of filters; None means the only metric of
        each task.
    filter : str or None
        One more name of a filter. A metric that has none of the filters is taken with its own.
    single : bool, optional
        Return one outcome of each task: of the first metric named that the task reports.

    Raises
    ------
    UsageError
        A name means nothing in these logs, a group has a task that they lack, a task that is named
        or in a group reports none of the metrics, or a task reports several metrics or filters of
        which one is to be named.
    """
    logged = reader_of(path).outcomes(path)
    # A table that names no task has outcomes of the task "".
    outcomes_by_task = grouped((outcome.task or "", outcome) for outcome in logged)
    meant: list[Logged] = []
    lacking: list[str] = []
    must_report = _tasks_meant(path, list(outcomes_by_task), tasks) if logged else {}
    for task, is_named in must_report.items():
        outcomes = _outcomes_named(outcomes_by_task[task], metrics, filter, single)
        # Nothing says which of several is meant.
        if len(outcomes) > 1 and (single or metrics is None):
            raise _ambiguous(path, task, outcomes)
        # A pattern passes over tasks without the metric; a task that the user names must have it.
        if is_named and not outcomes:
            lacking.append(f"{task} reports {' and '.join(_metrics_of(outcomes_by_task[task]))}")
        meant += outcomes
    if not meant:
        known = some(_metrics_of(logged))
        named = f" of metric {', '.join(metrics)}; its metrics are {known}" if metrics else ""
        raise UsageError(f"{path}: no results{named}")
    if lacking:
        raise UsageError(
            f"{path}: no results of metric {', '.join(metrics or ())} of "
            f"{plural(len(lacking), 'task')} ({some(lacking)}); "
            "name a metric of every task (--metric A,B), or only tasks that report these"
        )
    return meant


def _outcomes_named(
    outcomes: Sequence[Logged], metrics: Sequence[str] | None, filter: str | None, single: bool
) -> list[Logged]:
    """Return the outcomes of a task that names of metrics and filters mean; see `outcomes_meant`.

    With `single`, only those of the first metric named that the task reports. A metric that has
    none of the filters named is taken with its own.
    """
    meant = list(outcomes)
    if metrics is not None:
        by_name = [
            [outcome for outcome in outcomes if fnmatchcase(outcome.metric, metric)]
            for metric in metrics
        ]
        if single:
            meant = next((named for named in by_name if named), [])
        else:
            meant = [outcome for outcome in outcomes if any(outcome in named for named in by_name)]
    # A filter may be named among the metrics, as in ``--metric exact_match,strict-match``.
    filters = {filter, *(metrics or ())}
    filtered = [outcome for outcome in meant if outcome.filter in filters]
    # Where no metric is named, the filter alone says which outcome is meant.
    if metrics is None:
        return filtered or meant
    has_filter = {outcome.metric for outcome in filtered}
    return [o for o in meant if o in filtered or o.metric not in has_filter]


def _metrics_of(outcomes: Sequence[Logged]) -> list[str]:
    """Return the metrics of some outcomes, each once."""
    return list(dict.fromkeys(outcome.metric for outcome in outcomes))


def _ambiguous(path: Path, task: str, outcomes: Sequence[Logged]) -> UsageError:
    """Return the error of a task with several outcomes, of which none is named."""
    metrics = _metrics_of(outcomes)
    filters = [str(outcome.filter) for outcome in outcomes]
    # What tells them apart is what has to be named.
    if len(metrics) > 1:
        return UsageError(f"{path}: task {task} reports {', '.join(metrics)}; name one (--metric)")
    return UsageError(
        f"{path}: task {task} reports {metrics[0]} by the filters {', '.join(filters)}; "
        f"name one (--metric {metrics[0]},{filters[0]})"
    )


def names_one_task(path: str | Path, text: str | None) -> bool:
    """Whether ``--task`` names one task alone, and not a list, a pattern or a group.

    Without it, whether the scores are of one task.

    Raises
    ------
    UsageError
        There is no such path.
    """
    path = existing(path)
    reader = reader_of(path)
    # A group is named like a task, and stands for many.
    if text:
        return not re.search(r"[,*?\[]", text) and text not in reader.groups(path)
    return len({outcome.task for outcome in reader.outcomes(path)}) < 2


def _leaves(name: str, groups: Mapping[str, Sequence[str]]) -> list[str]:
    """Return the tasks of a group and of its subgroups; a task may have the name of its group."""
    tasks: dict[str, None] = {}
    for member in groups[name]:
        leaves = _leaves(member, groups) if member in groups and member != name else [member]
        tasks |= dict.fromkeys(leaves)
    return list(tasks)

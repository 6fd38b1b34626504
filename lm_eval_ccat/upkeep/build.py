"""Builds banks for several tasks and metrics of some logs at once, as one suite."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..bank import ItemBank, SuiteBank
from ..cluster import in_processes
from ..content import Facts
from ..errors import CcatError, MetricError, UnknownScoresError, UsageError
from ..methods.calibration import without_copies
from ..scores import ScoreTable
from ..scores.reading import ANY, Logged, Query
from ..scores.table import reader_of
from ..shown import PathNames
from .borrow import borrow_from
from .score_tables import make_bank, outcomes_meant, spread
from .words import report

#: Names under which every path keeps its own.
_AS_THEY_ARE = PathNames()


def build(
    path: str | Path,
    tasks: Sequence[str] = ("*",),
    metrics: Sequence[str] | None = ("*",),
    query: Query = ANY,
    on_bank: Callable[[str, str, ItemBank | str, Facts], None] | None = None,
    *,
    single: bool = False,
    **bank_options: Any,
) -> SuiteBank:
    """Calibrate a bank on every outcome of some logs, and return the banks as a suite.

    One process per core calibrates. While `cluster.executing` says so, tasks of a Ray cluster do,
    whose nodes must find the logs under the same path. The banks are the same.

    Parameters
    ----------
    path : path
        Logs or a table that any reader reads, of several models.
    tasks : sequence of str, optional
        Names, shell patterns, or groups that the logs record.
    metrics : sequence of str, optional
        Names or shell patterns, and names of filters; None means the only metric of each task.
    query : Query, optional
        Filter and scale of the scores.
    on_bank : callable, optional
        Called with each task and outcome in turn, as the suite names them, its bank or the reason
        why there is none, and what `report` says of it: nothing where there is none.
    single : bool, optional
        Make one bank of each task, by the first metric named that it reports.
    **bank_options
        Arguments of `bank_of`.

    Returns
    -------
    SuiteBank
        Without outcomes that could not be calibrated, which only `on_bank` is told of. An outcome
        is named by its metric, and by its filter where several filters of it are meant; a task
        without a name is ``"task"``.

    Raises
    ------
    UsageError
        Nothing matches, a task that is named reports none of the metrics, or several of which one
        is to be named, an option is wrong, or no outcome could be calibrated.
    """
    path = Path(path)
    outcomes = outcomes_meant(path, tasks, metrics, query.filter, single=single)
    tables = {}
    # A large table is read once for all outcomes. Logs are read by each process, for its outcome.
    if reader_of(path).read_many is not None:
        tables = dict(zip(outcomes, ScoreTable.read_many(path, outcomes, query)))
    banks: dict[str, dict[str, ItemBank]] = {}
    last_error = ""
    n_filters = Counter((outcome.task, outcome.metric) for outcome in outcomes)
    results = in_processes(_one_bank, outcomes, _Sources(path, query, bank_options, tables))
    for outcome, (bank, facts) in zip(outcomes, results):
        task = outcome.task or "task"
        has_several_filters = n_filters[outcome.task, outcome.metric] > 1
        name = f"{outcome.metric},{outcome.filter}" if has_several_filters else outcome.metric
        if isinstance(bank, str):
            last_error = bank
        else:
            banks.setdefault(task, {})[name] = bank
        if on_bank is not None:
            on_bank(task, name, bank, facts)
    if not banks:
        raise UsageError(
            f"{path}: no outcome could be calibrated; the last error was: {last_error}"
        )
    return SuiteBank(banks)


class _Sources(NamedTuple):
    """What banks are made from.

    Attributes
    ----------
    path : Path
        Logs or a table.
    query : Query
        Filter and scale of the scores.
    bank_options : dict
        Arguments of `bank_of`.
    tables : mapping of outcome to ScoreTable or CcatError
        What was read already.
    """

    path: Path
    query: Query
    bank_options: dict[str, Any]
    tables: Mapping[Logged, ScoreTable | CcatError]


def bank_of(
    table: ScoreTable | None,
    query: Query = ANY,
    *,
    method: str = "default",
    exclude: Sequence[str] = (),
    borrow: Sequence[str | Path] = (),
    drop_copies: bool = False,
    models: int | None = None,
    names: PathNames = _AS_THEY_ARE,
    **options: Any,
) -> tuple[ScoreTable, ItemBank]:
    """Make a bank; return the scores that it is made from, and the bank.

    Parameters
    ----------
    table : ScoreTable or None
        None if everything is borrowed.
    query : Query, optional
        Which score of the donor tasks to use.
    method : str, optional
    exclude : sequence of str, optional
        Models to leave out.
    borrow : sequence of path, optional
        Scores or banks of other tasks on the same documents (`lm_eval_ccat.upkeep.borrow`).
    drop_copies : bool, optional
        Leave out models whose scores all equal those of another.
    models : int, optional
        Take so many models, spread over scores and families.
    names : PathNames, optional
        What the bank and its warnings call the paths of the scores.
    **options
        Options of `make_bank`.
    """
    if table is not None:
        warnings, sources = map(names, table.warnings), map(names, table.sources)
        table = replace(table.without(exclude), warnings=tuple(warnings), sources=tuple(sources))
        table = without_copies(table) if drop_copies else table
        # Models are chosen after some were left out, so that these take no place.
        if models is not None:
            means = np.nan_to_num(table.overview.model_mean).tolist()
            table = table.select(spread(dict(zip(table.models, means)), models))
        if not borrow:
            return table, make_bank(table, method, **options)
    return borrow_from(borrow, table, query, exclude, method=method, **options)


def _one_bank(outcome: Logged, sources: _Sources) -> tuple[ItemBank | str, Facts]:
    """Return one outcome's bank and its report, or the reason why there is none and no report.

    Raises
    ------
    UsageError
        An option is wrong, so that no outcome would have a bank.
    """
    path, options, query = sources.path, sources.bank_options, outcome.query(sources.query)
    try:
        table = sources.tables.get(outcome) or reader_of(path).read(path, query, None)
        if isinstance(table, CcatError):
            raise table
        table, bank = bank_of(table, query, **options)
    except CcatError as error:
        # An option that is wrong ends all calibrations; an outcome without scores has no bank.
        lacks_scores = isinstance(error, UnknownScoresError | MetricError) or options.get("borrow")
        if isinstance(error, UsageError) and not lacks_scores:
            raise
        return options.get("names", _AS_THEY_ARE)(str(error)), {}
    return bank, report(table, bank)

"""Banks for several tasks and metrics of some logs at once, as one suite."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..bank import ItemBank, SuiteBank
from ..errors import CcatError, UsageError
from ..parallel import in_processes
from ..scores import ScoreTable
from ..scores.readers.reader import Logged
from ..scores.readers.registry import reader_of
from .borrow import lent
from .calibrate import make_bank, report, without_twins
from .tasks import outcomes_meant

Facts = dict[str, Any]


def build(
    path: str | Path,
    method: str = "default",
    *,
    tasks: Sequence[str] = ("*",),
    metrics: Sequence[str] | None = ("*",),
    filter: str | None = None,
    exclude: Sequence[str] = (),
    merge_duplicates: bool = False,
    range: tuple[float, float] | None = None,
    lower_is_better: bool | None = None,
    borrow: Sequence[str | Path] = (),
    processes: int | None = None,
    on_bank: Callable[[Logged, ItemBank | str, Facts], None] | None = None,
    **options: Any,
) -> SuiteBank:
    """Calibrate a bank on every outcome of some logs.

    In one process per core; while `cluster.executing` says so, as tasks of a Ray cluster whose
    nodes find the logs under the same path. The banks are the same.

    Parameters
    ----------
    path : path
        Logs or a table that any reader reads, of several models.
    method : str, optional
    tasks : sequence of str, optional
        Names, shell patterns, or groups (see `tasks_meant`).
    metrics : sequence of str, optional
        Names or shell patterns; None means the only metric of each task.
    filter : str, optional
        Of the tasks that have several.
    exclude : sequence of str, optional
        Models to leave out.
    merge_duplicates : bool, optional
        Whether models of equal scores count once.
    range, lower_is_better : optional
        As `ScoreTable.read` takes them.
    borrow : sequence of path, optional
        Scores or banks of other tasks on the same documents, for tasks that few models have run
        (`lm_eval_ccat.upkeep.borrow`).
    processes : int, optional
        Default one per core that this process may use.
    on_bank : callable, optional
        Called with each outcome, its bank or the reason why there is none, and what `report` says
        of it.
    **options
        Of `make_bank`.

    Returns
    -------
    SuiteBank
        An outcome is named by its metric, and by its filter where the metric has several.

    Raises
    ------
    UsageError
        Nothing matches, a task reports several metrics and none is named, or no outcome could be
        calibrated.
    """
    path = Path(path)
    wanted = outcomes_meant(path, tasks, metrics, filter)
    how = range, lower_is_better
    read = {}
    if reader_of(path).read_many is not None:  # once for all, else each where it is calibrated
        read = dict(zip(wanted, ScoreTable.read_many(path, wanted, *how)))
    lenders = tuple(map(str, borrow))
    asked = _Asked(path, method, tuple(exclude), merge_duplicates, how, options, read, lenders)
    banks: dict[str, dict[str, ItemBank]] = {}
    why = ""
    for outcome, (made, facts) in zip(wanted, in_processes(_made, wanted, asked, processes)):
        if isinstance(made, str):
            why = made
        else:
            banks.setdefault(outcome.task or "task", {})[_name(outcome, wanted)] = made
        if on_bank is not None:
            on_bank(outcome, made, facts)
    if not banks:
        raise UsageError(f"{path}: no outcome could be calibrated; the last because {why}")
    return SuiteBank(banks)


@dataclass(frozen=True)
class _Asked:
    """What is the same for every outcome."""

    path: Path
    method: str
    exclude: tuple[str, ...]
    merge_duplicates: bool
    how: tuple[tuple[float, float] | None, bool | None]
    options: dict[str, Any]
    read: dict[Logged, ScoreTable | CcatError]
    borrow: tuple[str, ...]


def _made(outcome: Logged, asked: _Asked) -> tuple[ItemBank | str, Facts]:
    """One outcome's bank, or the reason why there is none, and its report."""
    try:
        table = asked.read.get(outcome) or ScoreTable.read(
            asked.path, outcome.metric, outcome.task, outcome.filter, *asked.how
        )
        if isinstance(table, CcatError):
            raise table
        table = table.without([m for m in asked.exclude if m in table.models])
        if asked.merge_duplicates:
            table = without_twins(table)
        if asked.borrow:
            reading: dict[str, Any] = {
                "metric": outcome.metric,
                "filter": outcome.filter,
                "exclude": asked.exclude,
            }
            reading |= zip(("range", "lower_is_better"), asked.how)
            made_by = {"method": asked.method, **asked.options}
            table, bank = lent(asked.borrow, table, outcome.task, reading=reading, **made_by)
        else:
            bank = make_bank(table, asked.method, **asked.options)
    except CcatError as error:
        if isinstance(error, UsageError) and not asked.borrow:
            raise
        return str(error), {}
    return bank, report(table, bank)


def _name(outcome: Logged, among: Sequence[Logged]) -> str:
    filters = {o.filter for o in among if (o.task, o.metric) == (outcome.task, outcome.metric)}
    return f"{outcome.metric},{outcome.filter}" if len(filters) > 1 else outcome.metric

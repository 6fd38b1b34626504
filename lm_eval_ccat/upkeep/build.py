"""Banks for every task and metric of published logs at once, as one suite."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from ..bank import ItemBank, SuiteBank
from ..errors import CcatError, UsageError
from ..metrics import check_column
from ..scores import ScoreTable
from ..scores.readers.reader import Outcome
from ..scores.readers.registry import reader_of
from .age import dated
from .calibrate import calibrate


def build(
    path: str | Path,
    method: str = "default",
    *,
    tasks: Sequence[str] = ("*",),
    metrics: Sequence[str] = ("*",),
    on_bank: Callable[[Outcome, ItemBank | str], None] | None = None,
    **options: Any,
) -> SuiteBank:
    """Calibrate a bank on every outcome of some logs.

    Parameters
    ----------
    path : path
        Logs or a table that any reader reads, of several models.
    method : str, optional
    tasks, metrics : sequence of str, optional
        Shell patterns of what is wanted.
    on_bank : callable, optional
        Called with each outcome and its bank, or the reason why there is none.
    **options
        Of `calibrate`.

    Returns
    -------
    SuiteBank
        An outcome is named by its metric, and by its filter where the metric has several.

    Raises
    ------
    UsageError
        Nothing matches the patterns, or no outcome could be calibrated.
    """
    path = Path(path)
    wanted = [
        o
        for o in reader_of(path).outcomes(path)
        if any(fnmatchcase(o.task or "", t) for t in tasks)
        and any(fnmatchcase(o.metric, m) for m in metrics)
    ]
    if not wanted:
        raise UsageError(f"{path}: no task and metric match; there may be others, or no results")
    banks: dict[str, dict[str, ItemBank]] = {}
    why = ""
    for outcome in wanted:
        try:
            table = ScoreTable.read(path, outcome.metric, outcome.task, outcome.filter)
            check_column(table.raw, metric=table.metric, task=table.task or "")
            made: ItemBank | str = dated(calibrate(table, method, **options))
        except UsageError:
            raise
        except CcatError as error:
            made = why = str(error)
        if isinstance(made, ItemBank):
            banks.setdefault(outcome.task or "task", {})[_name(outcome, wanted)] = made
        if on_bank is not None:
            on_bank(outcome, made)
    if not banks:
        raise UsageError(f"{path}: no outcome could be calibrated; the last because {why}")
    return SuiteBank(banks)


def _name(outcome: Outcome, among: Sequence[Outcome]) -> str:
    filters = {o.filter for o in among if (o.task, o.metric) == (outcome.task, outcome.metric)}
    return f"{outcome.metric},{outcome.filter}" if len(filters) > 1 else outcome.metric

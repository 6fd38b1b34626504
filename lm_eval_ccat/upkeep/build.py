"""Banks for several tasks and metrics of some logs at once, as one suite."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..bank import ItemBank, SuiteBank
from ..cluster import in_processes
from ..errors import CcatError, UsageError
from ..scores import ScoreTable
from ..scores.table import reader_of
from ..scores.wanted import ANY, Logged, Wanted
from .borrow import lent
from .calibrate import make_bank, report
from .tables import outcomes_meant
from .words import Facts


@dataclass(frozen=True)
class Recipe:
    """How banks are made of scores; the same for every outcome of some logs.

    Attributes
    ----------
    method : str
    wanted : Wanted
        Filter and scale of the scores.
    exclude : sequence of str
        Models to leave out.
    borrow : sequence of path
        Scores or banks of other tasks on the same documents, for tasks that few models have run
        (`lm_eval_ccat.upkeep.borrow`).
    options : mapping
        Of `make_bank`.
    """

    method: str = "default"
    wanted: Wanted = ANY
    exclude: Sequence[str] = ()
    borrow: Sequence[str | Path] = ()
    options: Mapping[str, Any] = field(default_factory=dict)

    def bank(self, table: ScoreTable | None, wanted: Wanted) -> tuple[ScoreTable, ItemBank]:
        """A bank, and the scores that it is made of; all of them borrowed where there are none."""
        if table is not None:
            table = table.without(self.exclude)
            if not self.borrow:
                return table, make_bank(table, self.method, **self.options)
        made_by = {"method": self.method, **self.options}
        return lent(self.borrow, table, wanted, self.exclude, **made_by)


def build(
    path: str | Path,
    recipe: Recipe | None = None,
    tasks: Sequence[str] = ("*",),
    metrics: Sequence[str] | None = ("*",),
    on_bank: Callable[[Logged, ItemBank | str, Facts], None] | None = None,
) -> SuiteBank:
    """Calibrate a bank on every outcome of some logs.

    In one process per core; while `cluster.executing` says so, as tasks of a Ray cluster whose
    nodes find the logs under the same path. The banks are the same.

    Parameters
    ----------
    path : path
        Logs or a table that any reader reads, of several models.
    recipe : Recipe, optional
    tasks : sequence of str, optional
        Names, shell patterns, or groups (see `tasks_meant`).
    metrics : sequence of str, optional
        Names or shell patterns; None means the only metric of each task.
    on_bank : callable, optional
        Called with each outcome, its bank or the reason why there is none, and what `report` says
        of it.

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
    path, recipe = Path(path), recipe or Recipe()
    meant = outcomes_meant(path, tasks, metrics, recipe.wanted.filter)
    read = {}
    if reader_of(path).read_many is not None:  # once for all, else each where it is calibrated
        read = dict(zip(meant, ScoreTable.read_many(path, meant, recipe.wanted)))
    banks: dict[str, dict[str, ItemBank]] = {}
    why = ""
    for outcome, (bank, facts) in zip(meant, in_processes(_made, meant, (path, recipe, read))):
        if isinstance(bank, str):
            why = bank
        else:
            banks.setdefault(outcome.task or "task", {})[_name(outcome, meant)] = bank
        if on_bank is not None:
            on_bank(outcome, bank, facts)
    if not banks:
        raise UsageError(f"{path}: no outcome could be calibrated; the last because {why}")
    return SuiteBank(banks)


def _made(
    outcome: Logged, shared: tuple[Path, Recipe, Mapping[Logged, ScoreTable | CcatError]]
) -> tuple[ItemBank | str, Facts]:
    """One outcome's bank, or the reason why there is none, and its report."""
    path, recipe, read = shared
    wanted = outcome.wanted(recipe.wanted)
    try:
        table = read.get(outcome) or ScoreTable.read(path, **vars(wanted))
        if isinstance(table, CcatError):
            raise table
        table, bank = recipe.bank(table, wanted)
    except CcatError as error:
        if isinstance(error, UsageError) and not recipe.borrow:
            raise
        return str(error), {}
    return bank, report(table, bank)


def _name(outcome: Logged, among: Sequence[Logged]) -> str:
    filters = {o.filter for o in among if (o.task, o.metric) == (outcome.task, outcome.metric)}
    return f"{outcome.metric},{outcome.filter}" if len(filters) > 1 else outcome.metric

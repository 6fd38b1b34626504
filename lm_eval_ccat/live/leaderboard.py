"""The full results among which an adaptive run is to place its model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..bank import ItemBank
from ..errors import UsageError
from ..metrics.scale import Scale
from ..scores import ScoreTable


@dataclass
class KnownResults:
    """Full results per task, read once.

    Parameters
    ----------
    source : path, ScoreTable, or mapping of task name to either
        Harness logs (a directory may hold several tasks) or score tables.
    model : str, optional
        Name of the model that is run: its own earlier results are no fixed point.

    Attributes
    ----------
    tables : dict of str to ScoreTable
        What was used, by task, without the model that is run.
    scales : dict of str to Scale
        Of the run's scores, by task.
    """

    source: Any
    model: str | None = None
    tables: dict[str, ScoreTable] = field(default_factory=dict)
    scales: dict[str, Scale] = field(default_factory=dict)

    @classmethod
    def of(cls, given: Any) -> KnownResults | None:
        """From what a user gave; None stays None.

        Raises
        ------
        UsageError
            A path does not exist.
        """
        if given is None or isinstance(given, KnownResults):
            return given
        for source in given.values() if isinstance(given, Mapping) else [given]:
            if not isinstance(source, ScoreTable) and not Path(source).exists():
                raise UsageError(f"{source}: no such file or directory of scores (leaderboard)")
        return cls(given)

    def of_task(self, task: str, bank: ItemBank, scale: Scale) -> ScoreTable | None:
        """Full results of one task by the bank's metric and filter, on its scale.

        Parameters
        ----------
        task : str
        bank : ItemBank
        scale : Scale
            Of the run's own scores, in whose units a leaderboard shows them.

        Raises
        ------
        ScoreTableError, ScaleError
            The results cannot be read, or are not of this metric.
        UsageError
            They are of no other model than the one that is run.
        """
        table = self.read_task(task, bank)
        if table is not None:
            self.scales[task] = scale
        return table

    def read_task(self, task: str, bank: ItemBank) -> ScoreTable | None:
        """What `of_task` gives, which needs neither task nor model; read once.

        Raises
        ------
        ScoreTableError, ScaleError, UsageError
            As `of_task`.
        """
        if task not in self.tables:
            source = self.source
            if isinstance(source, Mapping):
                if task not in source:
                    return None
                source = source[task]
            table = source if isinstance(source, ScoreTable) else self._read(source, bank)
            if self.model in table.models:
                if len(table.models) == 1:
                    raise UsageError(f"the leaderboard holds no other model than {self.model!r}")
                table = table.without([self.model])
            self.tables[task] = table
        return self.tables[task]

    @staticmethod
    def _read(path: Any, bank: ItemBank) -> ScoreTable:
        """Read scores as the bank's own were: its task, metric and filter, on its scale."""
        return ScoreTable.read(
            path,
            bank.metric,
            bank.task,
            bank.filter,
            range=(bank.scale.low, bank.scale.high),
            lower_is_better=not bank.scale.higher_is_better,
        )

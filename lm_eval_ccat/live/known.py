"""Full results of other models: the one reader of what `known:` and `--leaderboard` name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ..bank import ItemBank
from ..errors import ScaleError, UsageError
from ..metrics.scale import Scale
from ..scores import ScoreTable


def read_known(source: Any, bank: ItemBank) -> ScoreTable:
    """Scores as the bank's own were: its task, metric and filter, on its scale.

    Parameters
    ----------
    source : path or ScoreTable
        Harness logs or a score table; a table is taken as it is.
    bank : ItemBank

    Raises
    ------
    ScoreTableError, ScaleError
        The results cannot be read, or are not of this metric.
    """
    if isinstance(source, ScoreTable):
        return source
    scale = bank.scale
    ends, lower = (scale.low, scale.high), not scale.higher_is_better
    try:
        table = ScoreTable.read(source, bank.metric, bank.task, bank.filter, ends, lower)
    except ScaleError:
        if scale.cap is None:
            raise
        # Logs know no cap but the metric's own: read what they say, and cap as the bank does.
        table = ScoreTable.read(source, bank.metric, bank.task, bank.filter)
    return table if scale.cap is None else replace(table, scale=scale)


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
        Of the run's own scores by task, in whose units a leaderboard shows all.
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

    def of_task(self, task: str, bank: ItemBank) -> ScoreTable | None:
        """Full results of one task by the bank's metric and filter, on its scale.

        Raises
        ------
        ScoreTableError, ScaleError
            The results cannot be read, or are not of this metric.
        UsageError
            They are of no other model than the one that is run.
        """
        if task not in self.tables:
            source = self.source
            if isinstance(source, Mapping):
                if task not in source:
                    return None
                source = source[task]
            table = read_known(source, bank)
            if self.model in table.models:
                if len(table.models) == 1:
                    raise UsageError(f"the leaderboard holds no other model than {self.model!r}")
                table = table.without([self.model])
            self.tables[task] = table
        return self.tables[task]

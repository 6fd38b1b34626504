"""Full results of other models: the one reader of what `known:` and `--leaderboard` name."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ..bank import ItemBank
from ..bank.outcome import Outcome
from ..errors import ScaleError, UsageError
from ..ranker.references import KnownMean, means_of_known
from ..scores import ScoreTable


def read_known(source: Any, bank: ItemBank) -> ScoreTable:
    """Read scores of the bank's task, metric and filter, on its scale.

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
    """

    source: Any
    model: str | None = None
    _tables: dict[str, ScoreTable] = field(default_factory=dict)

    def of_task(self, task: str, bank: ItemBank) -> ScoreTable | None:
        """Full results of one task by the bank's metric and filter, on its scale.

        Raises
        ------
        ScoreTableError, ScaleError
            The results cannot be read, or are not of this metric.
        UsageError
            They are of no other model than the one that is run.
        """
        if task not in self._tables:
            source = self.source
            if isinstance(source, Mapping):
                if task not in source:
                    return None
                source = source[task]
            table = read_known(source, bank)
            if self.model in table.models:
                if len(table.models) == 1:
                    raise UsageError(f"the leaderboard holds only {self.model!r}")
                table = table.without([self.model])
            self._tables[task] = table
        return self._tables[task]

    def means(
        self,
        measured: Mapping[str, Mapping[str, Outcome]],
        new: Collection[str],
        weights: Mapping[str, float],
        sampled: bool = False,
    ) -> dict[str, KnownMean] | None:
        """Return the means of models with full results on all tasks; None if there are none.

        Parameters
        ----------
        measured : mapping of task to (mapping of name to Outcome)
        new : collection of str
            Models to be ranked.
        weights : mapping of task to float
            Of several tasks.
        sampled : bool, optional
            See `means_of_known`.

        Raises
        ------
        UsageError
            There are several metrics, or no model has results on all of several tasks.
        """
        by_task = []
        for task, outcomes in measured.items():
            if len(outcomes) > 1:
                raise UsageError(
                    "full results of other models (known, leaderboard) go with one metric; name it "
                    "in metrics"
                )
            [outcome] = outcomes.values()
            table = self.of_task(task, outcome.bank)
            known = {} if table is None else means_of_known(table, outcome.bank, sampled)
            by_task.append({name: mean for name, mean in known.items() if name not in new})
        total = sum(weights.get(task, 1.0) for task in measured)
        share = np.array([weights.get(task, 1.0) / total for task in measured])
        means: dict[str, KnownMean] = {}
        for name in (n for n in by_task[0] if all(n in one for one in by_task)):
            mean, error, kept = np.array([one[name] for one in by_task]).T
            spread = float(np.sqrt((share**2 * error**2).sum()))
            means[name] = (float(share @ mean), spread, float(share @ kept))
        if not means and len(by_task) > 1:
            raise UsageError("no model of `known:` has results on every task of the ranking")
        return means or None

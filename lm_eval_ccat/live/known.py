"""Full results of other models: the one reader of what `known:` and `--leaderboard` name."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from ..bank import ItemBank
from ..errors import ScaleError, UsageError
from ..metrics.scale import Scale
from ..ranker.references import scores_of_known
from ..scores import ScoreTable

#: Mean score of a known model on [0, 1], its standard error, its mean over the items kept.
KnownMean = tuple[float, float, float]


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


def known_means(
    table: ScoreTable, bank: ItemBank, new: Collection[str], sampled: bool = False
) -> dict[str, KnownMean]:
    """What a ranking needs to know of models with (almost) full results.

    Parameters
    ----------
    table : ScoreTable
    bank : ItemBank
    new : collection of str
        Models to be ranked: they are not known, whatever the table says.
    sampled : bool, optional
        Whether the items count as a sample of a larger population, which whole results are, too.

    Raises
    ------
    UsageError
        The table is on another scale, or of none of the bank's items.
    """
    scores = scores_of_known(table, bank)
    found: dict[str, KnownMean] = {}
    whole = [bool(there.all()) for there in np.isfinite(scores)]
    # Of a board of thousands nearly all are whole: their means are taken at once.
    means, kept_means = scores.mean(axis=1), scores[:, bank.kept].mean(axis=1)
    for at, (name, row) in enumerate(zip(table.models, scores)):
        if whole[at] and not sampled and name not in new and bank.kept.any():
            found[name] = (float(means[at]), 0.0, float(kept_means[at]))
            continue
        seen = np.isfinite(row)
        if name in new or not seen[bank.kept].any():
            continue
        count = int(seen.sum())
        # Sampling without replacement; a model with a single score has the widest there is.
        spread = float(row[seen].var(ddof=1)) if count > 1 else 0.25
        error = (spread / count * (1.0 if sampled else 1.0 - count / bank.n_items)) ** 0.5
        found[name] = (float(row[seen].mean()), error, float(row[seen & bank.kept].mean()))
    return found


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

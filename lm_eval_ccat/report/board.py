"""A leaderboard that holds full results and adaptive estimates side by side.

The table is kept as JSON, from which Markdown, CSV and a page are written. Full results are read
anew at every update; estimates stay until the same model has full results or a new estimate. An
update takes a lock and replaces the files in one step, so that several runs may add rows at once
and a reader never sees half a table.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from scipy.special import ndtri

from ..metrics.scale import Scale

FORMAT = "lm-eval-ccat/leaderboard"
VERSION = 1


@dataclass(frozen=True)
class Row:
    """One model; scores on the metric's own scale.

    Attributes
    ----------
    model : str
    score, standard_error : float
        Mean score over the full benchmark, or its estimate; 0 for full results.
    items : int
        Documents that were run.
    estimated : bool
        Whether the score is an estimate from chosen documents.
    rank, best, worst : int
        Rank by score, and the ranks it may have at the board's confidence.
    signature : str
        What reproduces an estimate; "" for full results.
    """

    model: str
    score: float
    standard_error: float
    items: int
    estimated: bool
    rank: int = 0
    best: int = 0
    worst: int = 0
    signature: str = ""


@dataclass(frozen=True)
class Board:
    """A leaderboard of one task and metric.

    Attributes
    ----------
    task, metric, filter : str or None
    scale : Scale
    n_items : int
        Documents of the benchmark.
    confidence : float
        Two-sided, of the rank intervals.
    rows : tuple of Row
        Best first.
    """

    task: str | None
    metric: str
    filter: str | None
    scale: Scale
    n_items: int
    confidence: float = 0.95
    rows: tuple[Row, ...] = field(default=())

    def with_rows(self, rows: Iterable[Row]) -> Board:
        """The board with these rows put in, replacing rows of the same models, ranked anew."""
        found = {r.model: r for r in self.rows}
        found.update({r.model: r for r in rows})
        return replace(self, rows=ranked(list(found.values()), self.scale, self.confidence))

    def interval(self, row: Row) -> tuple[float, float]:
        """Ends of a row's interval at the board's confidence."""
        half = float(ndtri((1.0 + self.confidence) / 2.0)) * row.standard_error
        return row.score - half, row.score + half

    def row(self, model: str) -> Row:
        """The row of one model."""
        return next(r for r in self.rows if r.model == model)

    # -- as text --------------------------------------------------------------------------------

    def to_json(self) -> str:
        """The table that later updates start from."""
        document = {
            "format": FORMAT,
            "version": VERSION,
            "task": self.task,
            "metric": self.metric,
            "filter": self.filter,
            "scale": self.scale.to_dict(),
            "items": self.n_items,
            "confidence": self.confidence,
        }
        # A line per model: the encoder that indents takes ten times as long for thousands.
        head = json.dumps(document, indent=1, allow_nan=False).removesuffix("\n}")
        rows = ",\n".join(f"  {json.dumps(vars(r), allow_nan=False)}" for r in self.rows)
        return f'{head},\n "rows": [\n{rows}\n ]\n}}\n'

    def to_csv(self) -> str:
        """One line per model, best first."""
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(
            ["rank", "model", self.metric, "standard_error", "estimated", "items", "best", "worst"]
        )
        for r in self.rows:
            writer.writerow(
                [r.rank, r.model, r.score, r.standard_error, r.estimated, r.items, r.best, r.worst]
            )
        return out.getvalue()

    def to_markdown(self) -> str:
        """A table for a page; estimates are marked."""
        name = self.metric + ("" if self.scale.higher_is_better else " (lower is better)")
        lines = [
            f"| rank | model | {_cell(name)} | documents run | ranks at {self.confidence:.0%} |",
            "| ---: | --- | ---: | ---: | --- |",
        ]
        for r in self.rows:
            score = f"{r.score:.4g}"
            if r.estimated:
                score = f"≈ {score} ± {self.interval(r)[1] - r.score:.2g}"
            ranks = f"{r.best}" if r.best == r.worst else f"{r.best} to {r.worst}"
            lines.append(
                f"| {r.rank} | {_cell(r.model)} | {score} | {r.items} of {self.n_items} | {ranks} |"
            )
        if any(r.estimated for r in self.rows):
            lines += [
                "",
                f"≈ marks estimates of the full-benchmark mean, ± their {self.confidence:.0%} "
                "interval; all other rows are full results.",
            ]
        return "\n".join(lines) + "\n"


def ranked(rows: Sequence[Row], scale: Scale, confidence: float) -> tuple[Row, ...]:
    """Rows best first, with their ranks and rank intervals.

    A model is decidedly better than another when their scores differ by more than the two-sided
    normal quantile times the standard error of the difference.

    Examples
    --------
    >>> rows = [Row("a", 0.5, 0.0, 9, False), Row("b", 0.51, 0.02, 3, True)]
    >>> [(r.model, r.rank, r.best, r.worst) for r in ranked(rows, Scale(), 0.95)]
    [('b', 1, 1, 2), ('a', 2, 1, 2)]
    """
    if not rows:
        return ()
    sign = 1.0 if scale.higher_is_better else -1.0
    order = sorted(rows, key=lambda r: -sign * r.score)
    score = sign * np.array([r.score for r in order])
    error = np.array([r.standard_error for r in order])
    z = float(ndtri((1.0 + confidence) / 2.0))
    # Full results, of which a board has thousands, are apart from each other as they stand.
    full = np.sort(score[error == 0.0])
    better = len(full) - np.searchsorted(full, score, side="right")
    worse = np.searchsorted(full, score, side="left")
    for i in np.flatnonzero(error > 0.0):
        gap, apart = score - score[i], z * np.hypot(error, error[i])
        better[i], worse[i] = np.sum(gap > apart), np.sum(-gap > apart)
        below = error == 0.0  # who has a full result sees this one, too
        better[below] += -gap[below] > apart[below]
        worse[below] += gap[below] > apart[below]
    return tuple(
        replace(row, rank=i + 1, best=int(better[i]) + 1, worst=len(order) - int(worse[i]))
        for i, row in enumerate(order)
    )


def _cell(text: str) -> str:
    """Text that cannot break out of its cell."""
    return " ".join(text.replace("\\", "\\\\").replace("|", "\\|").split())

"""`Reader`: what reads one kind of log, what it is asked for and gives back; and who reads a path.

The package's own readers are asked first. Another package offers one as an entry point::

    [project.entry-points."lm_eval_ccat.readers"]
    mine = "my_package.my_reader:READER"
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...errors import CcatError, ScoreTableError
from ...metrics.scale import Scale
from ...plugins import Plugins, did_you_mean

Progress = Callable[[int, int], None] | None


@dataclass(frozen=True)
class Wanted:
    """Which scores to read, and what the user says of their scale.

    Attributes
    ----------
    metric, task, filter : str or None
        None means the only one there is; where there are several the reader asks for one by name.
    range : (float, float) or None
        Lowest and highest possible raw score.
    lower_is_better : bool or None
    partial : bool
        Also runs whose items were chosen by what the model had scored before: their scores are
        true, but they are no sample, and nothing may take their mean.
    scale : Scale or None
        The scale of the raw scores, cap included; it goes before `range` and `lower_is_better`.
    """

    metric: str | None = None
    task: str | None = None
    filter: str | None = None
    range: tuple[float, float] | None = None
    lower_is_better: bool | None = None
    partial: bool = False
    scale: Scale | None = None


#: Whatever there is.
ANY = Wanted()


@dataclass(frozen=True)
class Logged:
    """One metric and filter of one task that a path holds."""

    task: str | None
    metric: str
    filter: str | None = None

    def wanted(self, wanted: Wanted) -> Wanted:
        """The same wishes for this outcome."""
        return replace(wanted, metric=self.metric, task=self.task, filter=self.filter)


@dataclass(frozen=True, eq=False)
class RawScores:
    """What a reader gives back; the arguments of `ScoreTable.from_arrays`, which checks them."""

    raw: NDArray[np.float64]
    models: Sequence[str]
    configs: Sequence[str]
    doc_ids: Sequence[Any]
    scale: Scale
    metric: str
    task: str | None = None
    filter: str | None = None
    doc_hashes: Sequence[str | None] | None = None
    settings: dict[str, object] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    chosen: tuple[str, ...] = ()


@dataclass(frozen=True)
class Reader:
    """Reads one kind of log; `lm_eval_ccat.scores.readers.rows` makes one of a generator of rows.

    Attributes
    ----------
    name : str
        What commands and errors call the kind.
    summary : str
        One line that says what it reads.
    can_read : callable
        ``(path) -> bool``: whether an existing file or directory is of this kind, by names and the
        first bytes. It never raises.
    read : callable
        ``(path, wanted, on_progress=None) -> RawScores``. It raises `ScoreTableError`,
        `MetricError` or `ScaleError`, each naming file and remedy.
    outcomes : callable
        ``(path) -> list of Logged``: what can be asked for.
    groups : callable
        ``(path) -> mapping``: the groups of tasks that the logs record, each with the names of its
        tasks and subgroups; default none.
    read_many : callable, optional
        ``(path, outcomes, wanted) -> iterator of (RawScores or CcatError)``: several outcomes in
        one pass, in their order; default one `read` after the other.
    """

    name: str
    summary: str
    can_read: Callable[[Path], bool]
    read: Callable[[Path, Wanted, Progress], RawScores]
    outcomes: Callable[[Path], list[Logged]]
    groups: Callable[[Path], Mapping[str, Sequence[str]]] = field(default=lambda path: {})
    read_many: (
        Callable[[Path, Sequence[Logged], Wanted], Iterator[RawScores | CcatError]] | None
    ) = None


def one_of(path: Path, what: str, wanted: str | None, names: Iterable[str]) -> str:
    """The value of `what` that is wanted, or the only one that there is.

    Raises
    ------
    ScoreTableError
        There is no such value, or there are several and none is named.
    """
    known = sorted(dict.fromkeys(names))
    shown = ", ".join(known[:12]) + (f" and {len(known) - 12} more" if len(known) > 12 else "")
    if wanted is None:
        if len(known) != 1:
            raise ScoreTableError(f"{path}: {len(known)} {what}s ({shown}); name one (--{what})")
        return known[0]
    if wanted not in known:
        near = did_you_mean(wanted, known, listing=False) or f"; it has {shown}"
        raise ScoreTableError(f"{path}: no scores of {what} {wanted!r}{near}")
    return wanted


_OWN = (
    "journal",
    "lm_eval.read",
    "lighteval",
    "long_form",
    "inspect_ai",
    "helm",
    "every_eval_ever",
)

READERS = Plugins(
    "reader",
    Reader,
    lambda: {name.split(".")[0]: f"{__package__}.{name}:READER" for name in _OWN},
)


def register(reader: Reader) -> Reader:
    """Make a reader known in this process, for programs and tests.

    Raises
    ------
    UsageError
        A reader of the package has this name.
    """
    return READERS.register(reader)


def reader_of(path: Path) -> Reader:
    """The reader of a file or directory.

    Raises
    ------
    ScoreTableError
        There is no such path, or nobody reads it.
    """
    if not path.exists():
        raise ScoreTableError(f"{path}: no such file or directory of scores")
    for reader in READERS:
        if reader.can_read(path):
            return reader
    kinds = "; ".join(reader.summary for reader in READERS)
    if path.is_dir():
        raise ScoreTableError(
            f"{path}: no samples_<task>_<date>.jsonl found; run the harness with --log_samples "
            f"(what can be read: {kinds})"
        )
    raise ScoreTableError(
        f"{path}: a score table is a .parquet or a .csv file, harness logs are a directory "
        f"(what can be read: {kinds})"
    )

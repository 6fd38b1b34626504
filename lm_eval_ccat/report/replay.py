"""How a ranking came about: every call of its journal made once more on a fresh `Ranker`."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from statistics import median
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ..ranker import Ranker
from ..runs.book import Book
from ..runs.directory import make_ranker
from ..runs.journal import Item, Journal, Record

if TYPE_CHECKING:
    from .run import StoredRun

#: Looks at a run, and at how many models in all: of many models a few looks show as much.
CHECKPOINTS = 60
_ESTIMATES = 10_000


@dataclass
class History:
    """The ranking at a number of moments.

    Attributes
    ----------
    items : list of int, length T
        Items administered to all models together.
    cost : list of float, length T
        What they cost.
    estimates, low, high : dict of str to list of float
        Each model's estimate and the ends of its interval, on the metric's own scale; NaN before
        its first item.
    ranks : dict of str to list of int
        Place of each model, 1 the best; 0 where it is out of the order.
    undecided : list of int
        Adjacent pairs of the order that were not decided.
    half_width : list of float
        Half width of the median interval, on the metric's own scale.
    expected : dict of str to ndarray of shape (n_items,)
        Each model's expected score on every item at the end, on [0, 1], in bank order.
    ties : list of list of str
        Groups of models that are not separated at the end.
    """

    items: list[int] = field(default_factory=list)
    cost: list[float] = field(default_factory=list)
    estimates: dict[str, list[float]] = field(default_factory=dict)
    low: dict[str, list[float]] = field(default_factory=dict)
    high: dict[str, list[float]] = field(default_factory=dict)
    ranks: dict[str, list[int]] = field(default_factory=dict)
    undecided: list[int] = field(default_factory=list)
    half_width: list[float] = field(default_factory=list)
    expected: dict[str, NDArray[np.float64]] = field(default_factory=dict)
    ties: list[list[str]] = field(default_factory=list)


class _Watched(Book):
    """A book that looks at its Ranker before answers of some numbers."""

    def __init__(
        self, run: StoredRun, ranker: Ranker, past: History, moments: set[int], known: set[str]
    ) -> None:
        super().__init__(ranker, Journal())
        self.seen, self.known = 0, known
        self._run, self._past = run, past
        self._moments = moments

    def _told(self, record: Record, model: str, item: Item) -> None:
        if record["op"] == "tell":
            if self.seen in self._moments:
                _look(self.ranker, self._run, self._past, self.seen, self.known)
            self.seen += 1
            self.known.add(model)
        super()._told(record, model, item)


def history(run: StoredRun, checkpoints: int | None = None) -> History:
    """Replay a run and look at it at evenly spaced moments.

    Parameters
    ----------
    run : StoredRun
        With a bank.
    checkpoints : int, optional
        At most this many moments; by default 60, and fewer where there are hundreds of models.
    """
    most = min(CHECKPOINTS, max(12, _ESTIMATES // len(run.models)))
    checkpoints = checkpoints or most
    past = History()
    total = len(run.answers)
    if not total:
        return past
    first = min(total, len(run.tested))
    moments = set(np.unique(np.linspace(first, total, checkpoints).round().astype(int)).tolist())
    assert run.banks is not None
    ranker = make_ranker(run.banks, run.header)
    # Full results are there from the beginning.
    book = _Watched(run, ranker, past, moments, set(run.models) - set(run.tested))
    book.replay(run.records)
    book.settle()
    # The last look is at the end of the journal: what came after the last answer counts too.
    _look(ranker, run, past, book.seen, book.known)
    past.expected = {model: ranker.expected(model) for model in run.tested}
    return past


def _look(ranker: Ranker, run: StoredRun, past: History, n: int, answered: set[str]) -> None:
    now, scale = ranker.brief(), run.scale
    past.items.append(n)
    past.cost.append(ranker.spent)
    past.undecided.append(sum(len(group) - 1 for group in now.ties))
    place = {model: n for n, model in enumerate(now.order, start=1)}
    half = []
    for model in run.models:
        seen = model in answered
        low, high = sorted(float(scale.restore(end)) for end in now.intervals[model])
        value = float(scale.restore(now.estimates[model]))
        if seen and model in place:
            half.append((high - low) / 2.0)
        for found_of, figure in ((past.estimates, value), (past.low, low), (past.high, high)):
            found_of.setdefault(model, []).append(figure if seen else math.nan)
        past.ranks.setdefault(model, []).append(place.get(model, 0) if seen else 0)
    past.half_width.append(median(half))
    past.ties = [list(group) for group in now.ties]


def course(run: StoredRun) -> History | None:
    """Return how the ranking came about, if it can be shown.

    Returns
    -------
    History or None
        None without an answer or the bank. None too where the replay ends elsewhere than the run
        did: a version with another response model gives other figures for the same answers. What
        the run itself reported then counts, and its course is better left out than contradicted.
    """
    if run.banks is None or not run.answers:
        return None
    past = history(run)
    models = run.result["models"]
    close = all(
        math.isnan(seen[-1]) or math.isclose(seen[-1], models[m]["estimate"], rel_tol=1e-6)
        for m, seen in past.estimates.items()
    )
    return past if close and past.ties == run.result["ties"] else None

"""How a ranking came about: its journal told once more to a fresh `Ranker`."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from ..ranker import Ranker
from ..runs.rebuild import make_ranker

if TYPE_CHECKING:
    from .run import Run

CHECKPOINTS = 60


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
        Median half width of the intervals, on the metric's own scale.
    expected : dict of str to ndarray of shape (n_items,)
        Each model's expected score on every item at the end, on [0, 1], in bank order.
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


def new_ranker(run: Run) -> Ranker:
    """The run's Ranker in its initial state."""
    assert run.bank is not None
    return make_ranker(run.bank, run.header["ranker"])


def history(run: Run, checkpoints: int = CHECKPOINTS) -> History:
    """Replay a run and look at it at evenly spaced moments.

    Parameters
    ----------
    run : Run
        With a bank.
    checkpoints : int, optional
        At most this many moments; each costs one look at every pair of models.
    """
    ranker = new_ranker(run)
    found = History()
    total = len(run.answers)
    if not total:
        return found
    first = min(total, len(run.tested))
    moments = set(np.unique(np.linspace(first, total, checkpoints).round().astype(int)).tolist())
    told = set(run.models) - set(run.tested)  # full results are there from the beginning
    cost = 0.0
    for n, answer in enumerate(run.answers, start=1):
        ranker.tell(answer.model, answer.doc, answer.unit)
        told.add(answer.model)
        cost += answer.cost
        if n in moments:
            _look(ranker, run, found, n, cost, told)
    found.expected = {model: ranker.expected(model) for model in run.tested}
    return found


def _look(ranker: Ranker, run: Run, found: History, n: int, cost: float, told: set[str]) -> None:
    ranking = ranker.result()
    scale = run.scale
    z = float(ndtri((1.0 + ranking.confidence) / 2.0))
    found.items.append(n)
    found.cost.append(cost)
    found.undecided.append(sum(len(group) - 1 for group in ranking.ties))
    width = [z * ranking.standard_errors[m] for m in ranking.order if m in told]
    found.half_width.append(float(scale.restore_error(np.median(width))))
    for model in run.models:
        seen = model in told
        low, high = ranking.interval(model)
        ends = sorted((float(scale.restore(low)), float(scale.restore(high))))
        value = float(scale.restore(ranking.estimates[model]))
        found.estimates.setdefault(model, []).append(value if seen else math.nan)
        found.low.setdefault(model, []).append(ends[0] if seen else math.nan)
        found.high.setdefault(model, []).append(ends[1] if seen else math.nan)
        place = ranking.order.index(model) + 1 if model in ranking.order and seen else 0
        found.ranks.setdefault(model, []).append(place)

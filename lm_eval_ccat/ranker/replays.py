"""How true the stated error of a mean over tasks is, by models left out of the tasks' banks.

Calibration notes what a ranking would have said of each model left out after some items of its
task, and how far that was from the truth. Errors of one model in several tasks are not independent
(who departs from the bank in one task departs in others): a sum errs more than they say. So the
weighted sum is made of the models left out as of those ranked, and its squared errors are divided
by its stated variances: their mean over the models, with `PRIOR` models more that show what is
usual, is what stated variances are multiplied by.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ..bank import ItemBank
from ..methods.belief import Belief
from .across import Across

Floats = NDArray[np.float64]

#: Models that all banks must have left out, those that what is usual counts as, and what is usual
#: (between 1.2 on four 0/1 tasks and 1.4 on five pairs of WMT, which share their source texts).
FEWEST, PRIOR, USUAL = 6, 4.0, 1.3
#: Groups that models are left out in: those of one have the bank's curves and the draws in common.
GROUPS = 5
#: Items of a task up to which the bank alone speaks, and from which on draws do.
EARLY, LATE = 10, 20


@dataclass(frozen=True)
class Replays:
    """Models left out of the banks of all tasks.

    Attributes
    ----------
    n : ndarray of shape (n_stops,)
        Items of each task.
    rows : ndarray of shape (n_stops, 7, n_tasks, n_models)
        Error of the estimate, its stated variance and degrees of freedom; ability and its variance,
        slope of the estimate in it, and the part of the error that it explains.
    """

    n: Floats
    rows: Floats

    @classmethod
    def of(cls, banks: Sequence[ItemBank]) -> Replays | None:
        """What the banks hold; None where fewer than `FEWEST` models were left out of all."""
        each = [_left_out(b) for b in banks]
        shared = [m for m in each[0] if all(m in of for of in each)]
        if len(banks) < 2 or len(shared) < FEWEST:
            return None
        stops = [n for n in each[0][shared[0]] if all(n in of[m] for of in each for m in shared)]
        rows = np.array([[[of[m][n] for m in shared] for of in each] for n in stops])
        if rows.ndim != 4:
            return None
        return cls(np.array(stops, dtype=np.float64), rows.transpose(0, 3, 1, 2))

    def judged(self, weights: Floats, across: Across | None) -> tuple[Floats, Floats]:
        """Squared errors of the sum, and over what is stated; shape (n_stops, n_models)."""
        if across is not None:
            across.refresh()
        squares, ratios = [], []
        for e, v, df, x, s, slope, share in self.rows:
            w2 = (weights**2) @ v
            freedom = w2**2 / ((weights**4) @ (v**2 / df))
            error, variance = weights @ e, w2
            if across is not None:
                joint, moved = across.together(x.T, s.T)
                error = error + weights @ (slope * moved.T)
                hangs = weights[:, None] * np.sqrt(share * v / s)
                shared = np.einsum("sm,mst,tm->m", hangs, joint, hangs)
                variance = w2 + shared - (weights**2) @ (share * v)
            squares.append(error**2)
            ratios.append(error**2 / np.maximum(variance, 1e-18) * (1.0 - 2.0 / freedom))
        return np.array(squares), np.array(ratios)

    def gains(self, weights: Floats, across: Across) -> bool:
        """Whether the sum errs less with a prior across tasks, by more than a standard error."""
        with_, without = (self.judged(weights, a)[0][self._early] for a in (across, None))
        gain = ((without - with_) / without.mean(axis=1, keepdims=True)).mean(axis=0)
        return bool(gain.mean() > gain.std(ddof=1) / len(gain) ** 0.5)

    @property
    def _early(self) -> NDArray[np.bool_]:
        early = self.n <= EARLY
        return early if early.any() else ~early

    def factors(self, weights: Floats, across: Across | None) -> Floats:
        """What variances of the sum are multiplied by after few items of each task and after more.

        Many answers of a few models are still a few models: what each shows is averaged first. None
        is below 1: luck in a few replays is no reason to be surer.
        """
        ratios, late = self.judged(weights, across)[1], self.n > EARLY
        found = [ratios[at].mean(axis=0) for at in (self._early, late if late.any() else ~late)]
        shown = [(x.sum() + PRIOR * USUAL) / (len(x) + PRIOR) for x in found]
        return np.maximum(shown, 1.0)

    def judge(self, belief: Belief, factors: Floats, n_tasks: int) -> Belief:
        """Scale the errors of a belief by what the replays show."""
        each = np.maximum(belief.n.diagonal() / n_tasks, 1.0)
        own = np.interp(np.log(each), np.log([EARLY, LATE]), factors)
        scale = 0.5 * (own[:, None] + own)
        most = min(self.rows.shape[3], GROUPS) + PRIOR - 2.0
        return replace(belief, variance=belief.variance * scale, df=np.minimum(belief.df, most))


def _left_out(bank: ItemBank) -> Mapping[str, Mapping[str, Sequence[float]]]:
    report = bank.provenance.get("report")
    found = report.get("left_out") if isinstance(report, Mapping) else None
    return found if isinstance(found, Mapping) else {}

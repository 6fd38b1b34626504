"""How wrong the errors of the method "paper" are: models left out of a calibration are tested.

The paper's errors know nothing of what its response model gets wrong. So groups of models are left
out of a calibration on the others, and each of them takes the adaptive test. Their squared errors
over the variances that the test states, singly and for pairs, are what a ranking multiplies these
variances by; abilities and the choice of items stay the paper's.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import asdict, dataclass, replace

import numpy as np

from ...bank import ItemBank
from ...errors import BankError
from ...scores.table import ScoreTable
from ..belief import Floats
from ..method import Fitted
from .calibration import fit
from .test import PaperTest

#: Items after which errors are looked at; groups of models left out, and tests that are replayed.
STOPS, GROUPS, REPLAYS = (10, 20, 45, 100, 200), 5, 60
#: Models that count as showing no misfit, beside those that were seen.
PRIOR = 4.0


@dataclass(frozen=True)
class Misfit:
    """What stated variances are multiplied by.

    Attributes
    ----------
    n : tuple of float
        Items of a model.
    single, pair : tuple of float
        After these: of one model's variance, and of its part in that of a difference.
    df : float
        Degrees of freedom of these figures.
    """

    n: tuple[float, ...]
    single: tuple[float, ...]
    pair: tuple[float, ...]
    df: float

    @classmethod
    def of(cls, bank: ItemBank) -> Misfit:
        """Read the misfit that the calibration measured, or take the usual one.

        Examples
        --------
        >>> Misfit.of(ItemBank.blank(range(9))) is USUAL
        True
        """
        if (stored := bank.constants.get("misfit")) is None:
            return USUAL
        try:
            n, single, pair = (tuple(map(float, stored[k])) for k in ("n", "single", "pair"))
            out = cls(n, single, pair, float(stored["df"]))
            sound = len(out.n) == len(out.single) == len(out.pair) > 0 and out.df > 0.0
            sound = sound and min(*out.n, *out.single, *out.pair) >= 1.0
        except (KeyError, TypeError, ValueError):
            sound = False
        if not sound:
            raise BankError("damaged item bank: constant 'misfit' makes no sense")
        return out

    def widened(self, error: Floats, n: Floats) -> tuple[Floats, Floats]:
        """Standard errors after `n` items: of single models, and as they count in differences."""
        at = np.log(np.maximum(n, 1.0))
        one, two = (np.interp(at, np.log(self.n), f) for f in (self.single, self.pair))
        return error * np.sqrt(one), error * np.sqrt(two)


#: Where nothing was measured: a bank of an earlier version, or of fewer than four models.
USUAL = Misfit((10.0, 200.0), (2.0, 8.0), (1.5, 2.0), 5.0)


def calibrated(table: ScoreTable, *, rescale: str = "range") -> Fitted:
    """The paper's calibration (:func:`~.calibration.fit`), and how wrong its errors are."""
    fitted = fit(table, rescale=rescale)
    if (misfit := measured(table, rescale)) is None:
        return fitted
    return replace(fitted, constants={**fitted.constants, "misfit": misfit})


def measured(table: ScoreTable, rescale: str) -> dict[str, object] | None:
    """The misfit of models left out, as a bank keeps it; None where there are too few models.

    The factor of single models makes 90% intervals hold for 90% of them: a model that is unlike all
    others would move a mean. That of pairs is a mean over the third of them that are closest, whose
    order is in doubt; of others errors grow with the difference, and so decide nothing.
    """
    n_models = len(table.models)
    k, rng = min(GROUPS, n_models // 2), np.random.default_rng(0)
    single: dict[int, list[float]] = defaultdict(list)
    pair: dict[int, list[tuple[float, float]]] = defaultdict(list)
    for _ in range(-(-REPLAYS // n_models) if k > 1 else 0):
        order = rng.permutation(n_models)
        for left_out in (order[g::k] for g in range(k)):
            try:
                fitted = fit(table.without([table.models[i] for i in left_out]), rescale=rescale)
            except BankError:  # nothing differs without them
                continue
            bank = replace(
                ItemBank.blank(table.doc_ids), method="paper", kept=fitted.kept,
                parameters=fitted.parameters, constants=fitted.constants,
            )  # fmt: skip
            y = table.model_scores(models=left_out[: max(REPLAYS // k, 2)])
            truth = np.nanmean(y, axis=1)
            i, j = np.triu_indices(len(y), 1)
            for n, (estimate, v) in _tested(bank, y).items():
                e = estimate - truth
                single[n] += list(e * e / v)
                z2 = (e[i] - e[j]) ** 2 / (v[i] + v[j])
                pair[n] += zip(np.abs(truth[i] - truth[j]), z2)
    stops = sorted(n for n in pair if pair[n])
    if not stops:
        return None
    near = [np.array(sorted(pair[n]))[: -(-len(pair[n]) // 3), 1].mean() for n in stops]
    high = [np.quantile(single[n], 0.9) / 2.706 for n in stops]
    one, two = (
        tuple(max((n_models * float(x) + PRIOR) / (n_models + PRIOR), 1.0) for x in shown)
        for shown in (high, near)
    )
    return asdict(Misfit(tuple(map(float, stops)), one, two, n_models + PRIOR - 2.0))


def _tested(bank: ItemBank, y: Floats) -> dict[int, tuple[Floats, Floats]]:
    """Estimates and their stated variances, after some items of each model."""
    tests = [PaperTest(bank, seed=(k,)) for k in range(len(y))]
    free = bank.kept & np.isfinite(y)
    most, out = int(free.sum(axis=1).min()), {}
    for n in range(1, min(most, STOPS[-1]) + 1):
        for test, left, scores in zip(tests, free, y):
            [item] = test.select(left)
            left[item] = False
            test.learn(item, float(scores[item]))
        if n in STOPS or n == most < STOPS[0]:
            error = np.array([t.slope * t.ability_error for t in tests])
            out[n] = np.array([t.estimate for t in tests]), error**2
    return out

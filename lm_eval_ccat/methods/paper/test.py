"""The adaptive test of the method "paper": one ability, largest information, one step a score.

The paper's errors know nothing of what its response model gets wrong. So groups of models are left
out of a calibration on the others, and each of them takes the adaptive test. Their squared errors
over the variances that the test states, singly and for pairs, are what a ranking multiplies these
variances by; abilities and the choice of items stay the paper's.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace

import numpy as np

from ...bank import ItemBank
from ...errors import BankError, UsageError
from ...scores.table import ScoreTable
from ..belief import Floats, Places
from ..method import Fitted
from ..policy import Mask, check_score, largest
from .calibration import expected_score, fit, information, rescaling_of

PRIOR_PRECISION = 1.0 / 25.0
_SAME = 12  # decimals to which equal information agrees: the last bits of a sum decide nothing
#: The authors' jitter: difficulties move by at most this, and by this many standard errors; items
#: farther than so many standard errors from the ability are not looked at.
JITTER, JITTER_SE, WITHIN = 0.00148, 0.093, 1.3338
#: Items after which errors are looked at; groups of models left out, and tests that are replayed.
STOPS, GROUPS, REPLAYS = (10, 20, 45, 100, 200), 5, 60
#: Models that count as showing no misfit, beside those that were seen.
PRIOR = 4.0


def lots(seed: Sequence[int], n_items: int) -> Places:
    """Items in the order in which equal ones are taken."""
    return np.random.default_rng([*seed, 7]).permutation(n_items)


class PaperTest:
    """Adaptive test of one model by the one-parameter logistic response model of arXiv:2601.13885.

    The ability starts at the median difficulty with precision 1/25. A score ``y`` on an item
    with expected score ``mu`` adds its information ``mu (1 - mu) / k`` to the precision, then
    moves the ability by ``(y - mu) / (k x precision)``; the standard error is precision^(-1/2).
    ``y`` is the score on the bank's scale (:class:`~.calibration.Rescaling`). Among items of equal
    information a draw decides.

    Parameters
    ----------
    bank : ItemBank
        A bank of method "paper".
    information : {"first", "full"}, optional
        Which information selection maximises: the first term, or with that of the variance.
    score_range : (float, float), optional
        Rescale by this range in place of the bank's.
    jitter : bool, optional
        Move every difficulty by a small uniform amount before items are compared and scores are
        learnt, and look only near the ability, as the authors' experiments do.
    seed : sequence of int, optional
        Of the draw among equal items, and of the jitter.

    Attributes
    ----------
    seen : set of int
        Items administered.
    ability, precision : float
        In logits.

    Notes
    -----
    The estimate is the mean expected score over the items kept, mapped back to the scale of the
    scores, and its standard error follows from the ability's by the delta method. Neither knows of
    misfit: both are what the paper's model says, not what a user should rely on.
    """

    def __init__(
        self,
        bank: ItemBank,
        *,
        information: str = "first",
        score_range: tuple[float, float] | None = None,
        jitter: bool = False,
        seed: Sequence[int] = (0,),
    ) -> None:
        if information not in ("first", "full"):
            raise UsageError(f"information {information!r} is neither 'first' nor 'full'")
        self._full = information == "full"
        self._kept = bank.kept
        self._difficulty = bank.parameters["difficulty"]
        self._k = float(bank.constants["k"])
        self.seen: set[int] = set()
        self.ability = float(bank.constants["start"])
        self.precision = PRIOR_PRECISION
        self.rescaling = rescaling_of(bank, score_range)
        self._lots = lots(seed, bank.n_items)
        rng = np.random.default_rng([*seed, 8])
        self._moves = rng.uniform(-1.0, 1.0, bank.n_items) if jitter else None
        self._at: tuple[float, Floats] | None = None

    @property
    def _mu(self) -> Floats:
        """Expected scores at the current ability, on the scale of the response model."""
        if self._at is None or self._at[0] != self.ability:
            self._at = self.ability, expected_score(self.ability, self._difficulty)
        return self._at[1]

    @property
    def estimate(self) -> float:
        """Estimated mean score over the items kept, on [0, 1]."""
        return float(self.expected()[self._kept].mean())

    @property
    def slope(self) -> float:
        """What `estimate` moves by when the ability moves by 1."""
        mu = self._mu[self._kept]
        return float(self.rescaling.span * (mu * (1.0 - mu)).mean())

    @property
    def ability_error(self) -> float:
        """Posterior standard error of the ability, in logits."""
        return float(self.precision**-0.5)

    def expected(self) -> Floats:
        """Expected score of every item at the current ability; shape (n_items,)."""
        return self.rescaling.restore(self._mu)

    def noise(self) -> Floats:
        """Variance that the score of each item is expected to have; shape (n_items,)."""
        mu = self._mu
        w = mu * (1.0 - mu)
        return np.asarray(self.rescaling.span**2 * (self._k * w + w * w / self.precision))

    def select(self, available: Mask, k: int = 1) -> list[int]:
        """The `k` items of the largest information, largest first."""
        mu = self._mu
        if self._moves is not None:
            difficulty = self._moved()
            mu = expected_score(self.ability, difficulty)
            near = available & (np.abs(difficulty - self.ability) <= WITHIN * self.ability_error)
            available = near if near.any() else available
        gain = information(mu, self._k, full=self._full)
        gain = np.where(available, np.round(gain / max(float(gain.max()), 1e-300), _SAME), -np.inf)
        return [int(self._lots[i]) for i in largest(gain[self._lots], k)]

    def _moved(self) -> Floats:
        """Difficulties, with the jitter if it was asked for."""
        if self._moves is None:
            return self._difficulty
        most = min(JITTER, JITTER_SE * self.ability_error)
        return np.asarray(self._difficulty + self._moves * most)

    def precision_with(self, pending: Sequence[int]) -> float:
        """Precision once the scores of `pending` are in, at the current ability."""
        if not len(pending):
            return self.precision
        mu = self._mu[list(pending)]
        return self.precision + float(information(mu, self._k).sum())

    def learn(self, item: int, score: float) -> None:
        """Take in the score of one item.

        Raises
        ------
        ValueError
            The score is not in [0, 1], or the item was administered before.
        """
        check_score(score, item, seen=item in self.seen)
        self.seen.add(item)
        mu = float(expected_score(self.ability, self._moved()[item]))
        self.precision += mu * (1.0 - mu) / self._k
        self.ability += (self.rescaling.apply(score) - mu) / (self._k * self.precision)


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

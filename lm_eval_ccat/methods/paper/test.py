"""The adaptive test of the method "paper": one ability, largest information, one step a score."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ...bank import ItemBank
from ...errors import UsageError
from ..adaptive_test import AdaptiveTest, Floats, Mask, largest
from ..logistic import expected_score, information
from .rescaling import rescaling_of

Positions = NDArray[np.intp]

PRIOR_PRECISION = 1.0 / 25.0
_SAME = 12  # decimals to which equal information agrees: the last bits of a sum decide nothing
#: The authors' jitter: difficulties move by at most this, and by this many standard errors; items
#: farther than so many standard errors from the ability are not looked at.
JITTER, JITTER_SE, WITHIN = 0.00148, 0.093, 1.3338


def lots(seed: Sequence[int], n_items: int) -> Positions:
    """Items in the order in which equal ones are taken."""
    return np.random.default_rng([*seed, 7]).permutation(n_items)


class PaperTest(AdaptiveTest):
    """Adaptive test by the one-parameter logistic response model of arXiv:2601.13885.

    The ability starts at the median difficulty with precision 1/25. A score ``y`` on an item
    with expected score ``mu`` adds its information ``mu (1 - mu) / k`` to the precision, then
    moves the ability by ``(y - mu) / (k x precision)``; the standard error is precision^(-1/2).
    ``y`` is the score on the bank's scale (:class:`~.rescaling.Rescaling`). Among items of equal
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
        super().__init__(bank)
        if information not in ("first", "full"):
            raise UsageError(f"information {information!r} is neither 'first' nor 'full'")
        self._full = information == "full"
        self._difficulty = bank.parameters["difficulty"]
        self._k = float(bank.constants["k"])
        self._theta = float(bank.constants["start"])
        self._precision = PRIOR_PRECISION
        self.rescaling = rescaling_of(bank, score_range)
        self._lots = lots(seed, bank.n_items)
        rng = np.random.default_rng([*seed, 8])
        self._moves = rng.uniform(-1.0, 1.0, bank.n_items) if jitter else None

    @property
    def ability(self) -> float:
        return self._theta

    @property
    def ability_se(self) -> float:
        return float(self._precision**-0.5)

    @property
    def estimate(self) -> float:
        return float(self.expected()[self.bank.kept].mean())

    @property
    def standard_error(self) -> float:
        mu = self._mu()[self.bank.kept]
        return float(self.rescaling.span * (mu * (1.0 - mu)).mean() * self.ability_se)

    def expected(self) -> Floats:
        return self.rescaling.restore(self._mu())

    def _mu(self) -> Floats:
        return expected_score(self._theta, self._difficulty)

    def predictive_variance(self, item: int) -> float:
        mu = float(expected_score(self._theta, self._difficulty[item]))
        w = mu * (1.0 - mu)
        return self.rescaling.span**2 * (self._k * w + (w * self.ability_se) ** 2)

    def select(
        self,
        available: Mask,
        pending: Sequence[int] = (),
        price: Floats | None = None,
    ) -> int:
        return self.shortlist(available)[0]

    def shortlist(
        self,
        available: Mask,
        pending: Sequence[int] = (),
        price: Floats | None = None,
        k: int = 1,
    ) -> list[int]:
        difficulty = self._moved()
        gain = information(expected_score(self._theta, difficulty), self._k, full=self._full)
        if self._moves is not None:
            near = available & (np.abs(difficulty - self._theta) <= WITHIN * self.ability_se)
            available = near if near.any() else available
        gain = np.where(available, np.round(gain / gain.max(), _SAME), -np.inf)
        return [int(self._lots[i]) for i in largest(gain[self._lots], k)]

    def _moved(self) -> Floats:
        """Difficulties, with the jitter if it was asked for."""
        if self._moves is None:
            return self._difficulty
        return np.asarray(self._difficulty + self._moves * min(JITTER, JITTER_SE * self.ability_se))

    def precision_with(self, pending: Sequence[int]) -> float:
        """Precision once the scores of `pending` are in, at the current ability."""
        if not len(pending):
            return self._precision
        mu = expected_score(self._theta, self._difficulty[list(pending)])
        return self._precision + float(information(mu, self._k).sum())

    def _learn(self, item: int, score: float) -> None:
        mu = float(expected_score(self._theta, self._moved()[item]))
        self._precision += mu * (1.0 - mu) / self._k
        self._theta += (self.rescaling.apply(score) - mu) / (self._k * self._precision)

"""The adaptive test of the method "paper": one ability, largest information, one step a score."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...bank import ItemBank
from ...errors import UsageError
from ..adaptive_test import AdaptiveTest, Floats, Mask, largest
from ..logistic import expected_score, information
from .rescaling import rescaling_of

PRIOR_PRECISION = 1.0 / 25.0


class PaperTest(AdaptiveTest):
    """Adaptive test by the one-parameter logistic response model of arXiv:2601.13885.

    The ability starts at the median difficulty with precision 1/25. A score ``y`` on an item
    with expected score ``mu`` adds its information ``mu (1 - mu) / k`` to the precision, then
    moves the ability by ``(y - mu) / (k x precision)``; the standard error is precision^(-1/2).
    ``y`` is the score on the bank's scale (:class:`~.rescaling.Rescaling`).

    Parameters
    ----------
    bank : ItemBank
        A bank of method "paper".
    information : {"first", "full"}, optional
        Which information selection maximises: the first term, or with that of the variance.
    score_range : (float, float), optional
        Rescale by this range in place of the bank's.

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
        gain = information(self._mu(), self._k, full=self._full)
        return int(np.argmax(np.where(available, gain, -np.inf)))

    def shortlist(
        self,
        available: Mask,
        pending: Sequence[int] = (),
        price: Floats | None = None,
        k: int = 1,
    ) -> list[int]:
        gain = information(self._mu(), self._k, full=self._full)
        return largest(np.where(available, gain, -np.inf), k)

    def precision_with(self, pending: Sequence[int]) -> float:
        """Precision once the scores of `pending` are in, at the current ability."""
        if not len(pending):
            return self._precision
        mu = expected_score(self._theta, self._difficulty[list(pending)])
        return self._precision + float(information(mu, self._k).sum())

    def _learn(self, item: int, score: float) -> None:
        mu = float(expected_score(self._theta, self._difficulty[item]))
        self._precision += mu * (1.0 - mu) / self._k
        self._theta += (self.rescaling.apply(score) - mu) / (self._k * self._precision)

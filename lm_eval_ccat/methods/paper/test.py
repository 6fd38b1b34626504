"""The adaptive test of the method "paper": one ability, largest information, one step a score."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...bank import ItemBank
from ...errors import UsageError
from ..belief import Floats, Places
from ..policy import Mask, check_score, largest
from .calibration import expected_score, information, rescaling_of

PRIOR_PRECISION = 1.0 / 25.0
_SAME = 12  # decimals to which equal information agrees: the last bits of a sum decide nothing
#: The authors' jitter: difficulties move by at most this, and by this many standard errors; items
#: farther than so many standard errors from the ability are not looked at.
JITTER, JITTER_SE, WITHIN = 0.00148, 0.093, 1.3338


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

"""The paper as printed (arXiv:2601.13885): calibration in closed form, and the adaptive test.

Difficulty comes from the mean score of an item, ability from the mean score of a model, the
noise from the residuals of both. Nothing is iterated: a few looks at the table, a part of it at a
time, are enough. The response model of a score on an item of difficulty ``b`` by a model of ability
``theta``: expected score ``mu = logistic(theta - b)``, variance ``k mu (1 - mu)``, with ``k = 1``
for 0/1 scores, information ``mu (1 - mu) / k``. The test has one ability, asks for the largest
information, and takes one step a score.

The calibration stretches scores over [0, 1] before it takes their logit. A score told to the test
must be stretched in the same way (`stretched_scale`), or the ability that it points to is not on
the scale of the difficulties.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit, logit

from ...bank import ItemBank
from ...errors import BankError
from ...metrics.scale import Floats, Scale
from ...options import choice
from ...scores.table import ScoreTable
from ..curves import PRIOR_PRECISION
from ..method import Fitted, require_scores
from ..policy import Mask, check_score, largest, tie_order

CLIP = 1e-6  # scores of ability estimation are kept this far from 0 and 1
SQUEEZE = 0.001  # item means are squeezed into [0.001, 0.999] before the logit
MIN_MODELS = 3  # below this many models a correlation says nothing, so the item stays
_ROUNDING = 1e-9  # differences of scores and correlations closer to 0 than this are 0
#: The authors' jitter: a difficulty moves by at most the first number, and by at most the second
#: number of standard errors. Items farther than the third number of standard errors from the
#: ability are not selected.
JITTER, JITTER_SE, WITHIN = 0.00148, 0.093, 1.3338


def fit(table: ScoreTable, *, rescale: str = "range") -> Fitted:
    """Calibrate by the paper's closed form.

    Parameters
    ----------
    table : ScoreTable
        Scores of the calibration models; several configs of a model are averaged for
        difficulties and abilities and counted singly for the noise.
    rescale : {"range", "none"}, optional
        Whether the test maps the scores told to it by the range of the calibration scores, as
        the paper's experiments do, or takes them as given. Without it the method fails on metrics
        of a narrow range: calibration stretches the scores, so the difficulties span all of
        [0, 1] whatever the metric does.

    Returns
    -------
    Fitted
        Parameter ``difficulty`` (logits); constants ``k``, ``discrimination`` ``1/sqrt(k)`` and
        ``start`` (median difficulty of the items kept); report ``abilities`` and ``removed``.

    Raises
    ------
    BankError
        An item or model has no score, all item means are equal, or no noise can be computed.
    UsageError
        `rescale` is neither "range" nor "none".
    """
    choice("range", "none").check(rescale, "rescale")
    require_scores(table)
    mean = table.overview.item_sum / table.overview.item_count
    difficulty, stretched = _difficulty(mean, table.metric), _Stretch.of(table)
    theta = np.empty(len(table.models))
    for models, scores in table.parts():
        theta[models] = logit(np.nanmean(stretched(scores), axis=1))
    correlation = _item_correlation(table, theta)
    # Items that better models solve less are removed. NaN (constant item, too few models) stays.
    kept_items = ~(correlation < -_ROUNDING)
    if not kept_items.any():
        raise BankError("no item correlates positively with the models' abilities")
    noise = _noise(table, stretched, theta, np.where(kept_items, difficulty, np.nan))
    return Fitted(
        kept=kept_items,
        parameters={"difficulty": difficulty},
        constants={
            "k": noise,
            "discrimination": float(1.0 / np.sqrt(noise)),
            "start": float(np.median(difficulty[kept_items])),
            "mean_range": [float(mean.min()), float(mean.max())],
            "score_range": [stretched.floor, stretched.floor + stretched.span],
            "rescale": rescale,
        },
        report={
            "abilities": dict(zip(table.models, theta.tolist())),
            "removed": {
                table.doc_ids[i]: f"correlates {correlation[i]:+.2f} with the models' abilities"
                for i in np.flatnonzero(~kept_items)
            },
        },
    )


def _difficulty(mean: Floats, metric: str) -> Floats:
    """Return minus the logit of items' mean scores, which are stretched over [0, 1] before."""
    low, high = mean.min(), mean.max()
    if not high > low:
        raise BankError(
            f"every item of {metric!r} has the same mean score {low:.6g}: there is no "
            "difficulty to calibrate; check the metric, or use more models"
        )
    return np.asarray(-logit(SQUEEZE + (1.0 - 2.0 * SQUEEZE) * (mean - low) / (high - low)))


class _Stretch(NamedTuple):
    """Stretches scores from the range of all single scores over [0, 1], but for `CLIP`."""

    floor: float
    span: float

    @classmethod
    def of(cls, table: ScoreTable) -> _Stretch:
        """Return the stretch of all scores of a table, of configs too, before any mean."""
        raw = [np.fmin.reduce(table.raw, axis=None), np.fmax.reduce(table.raw, axis=None)]
        ends = table.scale.normalise(raw)
        floor = float(ends.min())
        return cls(floor, float(ends.max()) - floor)

    def __call__(self, y: Floats) -> Floats:
        return np.asarray(np.clip((y - self.floor) / self.span, CLIP, 1.0 - CLIP))


def _noise(table: ScoreTable, stretched: _Stretch, theta: Floats, difficulty: Floats) -> float:
    """Return ``k``: squared residuals of single scores over ``mu (1 - mu)``, both summed.

    Items without a difficulty count in neither sum.
    """
    squares = variance = 0.0
    for ability, rows in zip(theta, table.rows_of.values()):
        x = stretched(table.scale.normalise(table.raw[rows]))
        mu = expected_score(np.array([[ability]]), difficulty[None, :])
        counts = np.isfinite(x) & np.isfinite(mu)
        squares += float(np.where(counts, (x - mu) ** 2, 0.0).sum())
        variance += float(np.where(counts, mu * (1.0 - mu), 0.0).sum())
    if not squares > 0.0:
        raise BankError(
            "the scores fit the response model without any noise; check that they are real"
        )
    return squares / variance


def _item_correlation(table: ScoreTable, theta: Floats) -> Floats:
    """Return Pearson's correlation of each item's scores with ability, of the models that have it.

    NaN where it is undefined or of fewer than `MIN_MODELS`.
    """
    overview = table.overview
    count, mean = overview.item_count, overview.item_sum / overview.item_count
    # Mean ability of the models that have each item.
    ability = np.zeros(table.n_items)
    for models, scores in table.parts():
        ability += theta[models] @ np.isfinite(scores)
    ability /= count
    products, of_ability, of_scores = (np.zeros(table.n_items) for _ in range(3))
    for models, scores in table.parts():
        dy = np.where(np.isfinite(scores), scores - mean, 0.0)
        dt = np.where(np.isfinite(scores), theta[models, None] - ability, 0.0)
        products += np.einsum("ij,ij->j", dt, dy)
        of_ability += np.einsum("ij,ij->j", dt, dt)
        of_scores += np.einsum("ij,ij->j", dy, dy)
    norm = np.sqrt(of_ability * of_scores)
    varies = overview.item_high - overview.item_low > _ROUNDING
    usable = (count >= MIN_MODELS) & varies & (norm > 0.0)
    out: Floats = np.full(len(count), np.nan)
    np.divide(products, norm, out=out, where=usable)
    return out


def expected_score(theta: ArrayLike, difficulty: ArrayLike) -> Floats:
    """Return the expected score ``mu = logistic(theta - b)``.

    Parameters
    ----------
    theta : array_like
        Ability in logits; broadcasts against `difficulty`.
    difficulty : array_like
        Item difficulty ``b`` in logits.

    Returns
    -------
    ndarray
        Expected scores in (0, 1), of the broadcast shape.

    Examples
    --------
    >>> float(expected_score(0.0, 0.0))
    0.5
    """
    return np.asarray(expit(np.subtract(theta, difficulty)), dtype=np.float64)


def information(mu: ArrayLike, k: float, *, full: bool = False) -> Floats:
    """Return the Fisher information about ability in one score, in 1 / logit^2.

    Parameters
    ----------
    mu : array_like
        Expected scores in [0, 1].
    k : float
        Noise, above 0: a score has the variance ``k mu (1 - mu)``.
    full : bool, optional
        Add the information of the variance, ``(1 - 2 mu)^2 / 2`` (the paper's appendix). Only
        selection uses it.

    Returns
    -------
    ndarray
        ``mu (1 - mu) / k`` [+ ``(1 - 2 mu)^2 / 2``], of the shape of `mu`.

    Examples
    --------
    >>> float(information(0.5, 0.25))
    1.0
    """
    mean = np.asarray(mu, dtype=np.float64)
    first = mean * (1.0 - mean) / k
    return np.asarray(first + (1.0 - 2.0 * mean) ** 2 / 2.0 if full else first)


def stretched_scale(bank: ItemBank, score_range: tuple[float, float] | None = None) -> Scale:
    """Return the scale of the scores that the response model stretches over [0, 1].

    A bank that states no range takes scores as given.

    Parameters
    ----------
    bank : ItemBank
        Of method "paper".
    score_range : (float, float), optional
        Stretch this range, whatever the bank states.

    Raises
    ------
    BankError
        The range is empty or not within [0, 1], or the bank rescales and states no range.
    """
    if score_range is None:
        if bank.constants.get("rescale", "none") == "none":
            return Scale()
        score_range = bank.constants.get("score_range") or (0.0, 0.0)
    try:
        low, high = (float(end) for end in score_range)
    except (TypeError, ValueError):
        low = high = 0.0
    if not 0.0 <= low < high <= 1.0:
        raise BankError(
            f"scores cannot be rescaled by the range {score_range}: two numbers low < high within "
            "[0, 1] are needed; calibrate the bank again"
        )
    return Scale(low, high)


class PaperTest:
    """Adaptive test of one model by the one-parameter logistic response model of arXiv:2601.13885.

    The ability starts at the median difficulty with precision 1/25. A score ``y`` on an item
    with expected score ``mu`` adds its information ``mu (1 - mu) / k`` to the precision, then
    moves the ability by ``(y - mu) / (k x precision)``; the standard error is precision^(-1/2).
    ``y`` is the score, stretched as the bank says (`stretched_scale`) and cut to [0, 1]. Among
    items of equal information a draw decides.

    Parameters
    ----------
    bank : ItemBank
        A bank of method "paper".
    information : {"first", "full"}, optional
        The information that selection maximises: the first term, or both.
    score_range : (float, float), optional
        Stretch this range in place of the bank's.
    jitter : bool, optional
        Move every difficulty by a small uniform amount in selection and updates, and consider only
        items near the ability, as the authors' experiments do.
    seed : sequence of int, optional
        Seed of the order of equal items and of the jitter.

    Attributes
    ----------
    answered : set of int
        Items administered.
    ability, precision : float
        In logits.

    Notes
    -----
    The estimate is the mean expected score over the items kept, mapped back to the scale of the
    scores; its standard error follows from the ability's by the delta method. Both ignore misfit:
    they are what the paper's model says, not what a user should rely on.
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
        choice("first", "full").check(information, "information")
        self._full = information == "full"
        self._kept_items = bank.kept
        self._difficulty = bank.parameters["difficulty"]
        self._k = float(bank.constants["k"])
        self.answered: set[int] = set()
        self.ability = float(bank.constants["start"])
        self.precision = PRIOR_PRECISION
        self.scale = stretched_scale(bank, score_range)
        self._tie_order = tie_order(seed, bank.n_items)
        rng = np.random.default_rng([*seed, 8])
        self._jitter = rng.uniform(-1.0, 1.0, bank.n_items) if jitter else None
        self._mu_at: tuple[float, Floats] | None = None
        self._with_pending: tuple[Sequence[int], float] = (), self.precision

    @property
    def _mu(self) -> Floats:
        """Expected scores at the current ability, on the stretched scale."""
        if self._mu_at is None or self._mu_at[0] != self.ability:
            self._mu_at = self.ability, expected_score(self.ability, self._difficulty)
        return self._mu_at[1]

    @property
    def estimate(self) -> float:
        """Estimated mean score over the items kept, on [0, 1]."""
        return float(self.expected()[self._kept_items].mean())

    @property
    def slope(self) -> float:
        """Change of `estimate` per unit of ability."""
        mu = self._mu[self._kept_items]
        return float(self.scale.span * (mu * (1.0 - mu)).mean())

    @property
    def ability_error(self) -> float:
        """Posterior standard error of the ability, in logits."""
        return float(self.precision**-0.5)

    def expected(self) -> Floats:
        """Return the expected score of every item at the current ability; shape (n_items,)."""
        return self.scale.restore(self._mu)

    def select(self, available: Mask, k: int = 1) -> list[int]:
        """Return the available items of the largest information, largest first.

        At least one must be available; at most `k` are returned.
        """
        mu = self._mu
        if self._jitter is not None:
            difficulty = self._jittered_difficulty()
            mu = expected_score(self.ability, difficulty)
            # Without an item within reach the test would end: then all of them are.
            within_reach = available & (
                np.abs(difficulty - self.ability) <= WITHIN * self.ability_error
            )
            available = within_reach if within_reach.any() else available
        gain = information(mu, self._k, full=self._full)
        return largest(np.where(available, gain, -np.inf), k, self._tie_order)

    def _jittered_difficulty(self) -> Floats:
        """Return the difficulties, moved by the jitter if there is one."""
        if self._jitter is None:
            return self._difficulty
        largest_move = min(JITTER, JITTER_SE * self.ability_error)
        return np.asarray(self._difficulty + self._jitter * largest_move)

    def precision_with(self, pending: Sequence[int]) -> float:
        """Return the precision after the scores of `pending`, at the current ability."""
        # Each ask needs the precision of all models, which may have hundreds of items in flight:
        # the last answer is remembered.
        if self._with_pending[0] != (pending := tuple(pending)):
            added = float(information(self._mu[list(pending)], self._k).sum())
            self._with_pending = pending, self.precision + added
        return self._with_pending[1]

    def learn(self, item: int, score: float) -> None:
        """Take in the score of one item.

        Raises
        ------
        ValueError
            The score is not in [0, 1], or the item was administered before.
        """
        check_score(score, item, answered=item in self.answered)
        self.answered.add(item)
        # One step from the ability before the score, as the paper prints it; nothing is iterated.
        mu = float(expected_score(self.ability, self._jittered_difficulty()[item]))
        self.precision += float(information(mu, self._k))
        lowest, highest = self.scale.ends
        y = self.scale.normalise_number(min(max(score, lowest), highest))
        self.ability += (y - mu) / (self._k * self.precision)
        self._with_pending = (), self.precision

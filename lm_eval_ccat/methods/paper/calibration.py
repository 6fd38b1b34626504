"""Calibration of the method "paper": closed form, as arXiv:2601.13885 has it.

Difficulty comes from the mean score of an item, ability from the mean score of a model, the
noise from the residuals of both. Nothing is iterated: a few looks at the table, a part of it at a
time, are enough. The response model: expected score ``mu = logistic(theta - b)``, variance
``k mu (1 - mu)``, with ``k = 1`` for 0/1 scores, information ``mu (1 - mu) / k``.

The calibration stretches scores over [0, 1] before it takes their logit. A score told to the test
must be stretched in the same way (`Rescaling`), or the ability that it points to is not on the
scale of the difficulties.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit, logit

from ...bank import ItemBank
from ...errors import BankError, UsageError
from ...scores.table import ScoreTable
from ..belief import Floats
from ..curves import STRAIGHT, Curves
from ..method import Fitted, require_scores

RESCALE = ("range", "none")

CLIP = 1e-6  # scores of ability estimation are kept this far from 0 and 1
SQUEEZE = 0.001  # item means are squeezed into [0.001, 0.999] before the logit
MIN_MODELS = 3  # below this many models a correlation says nothing, so the item stays


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
    if rescale not in RESCALE:
        raise UsageError(f"rescale {rescale!r} is neither 'range' nor 'none'")
    require_scores(table)
    overview = table.overview
    mean = overview.item_sum / overview.item_count
    low, high = mean.min(), mean.max()
    if not high > low:
        raise BankError(
            f"every item of {table.metric!r} has the same mean score {low:.6g}: there is no "
            "difficulty to calibrate; check the metric, or use more models"
        )
    difficulty = -logit(SQUEEZE + (1.0 - 2.0 * SQUEEZE) * (mean - low) / (high - low))

    raw = [np.fmin.reduce(table.raw, axis=None), np.fmax.reduce(table.raw, axis=None)]
    ends = table.scale.normalise(raw)
    floor = float(ends.min())
    span = float(ends.max()) - floor

    def stretched(y: Floats) -> Floats:
        return np.asarray(np.clip((y - floor) / span, CLIP, 1.0 - CLIP))

    theta = np.empty(len(table.models))
    for at, scores in table.parts():
        theta[at] = logit(np.nanmean(stretched(scores), axis=1))
    correlation = _item_correlation(table, theta)
    kept = ~(correlation < 0.0)  # NaN (constant item, too few models) stays
    if not kept.any():
        raise BankError("no item correlates positively with the models' abilities")

    squares = variance = 0.0
    for ability, rows in zip(theta, table.rows_of.values()):
        x = stretched(table.scale.normalise(table.raw[rows]))
        mu = expected_score(np.array([[ability]]), difficulty[None, :])
        use = np.isfinite(x) & kept
        squares += float(np.where(use, (x - mu) ** 2, 0.0).sum())
        variance += float((use * (mu * (1.0 - mu))).sum())
    noise = squares / variance
    if not noise > 0.0:
        raise BankError(
            "the scores fit the response model without any noise; check that they are real"
        )
    return Fitted(
        kept=kept,
        parameters={"difficulty": np.asarray(difficulty)},
        constants={
            "k": noise,
            "discrimination": float(1.0 / np.sqrt(noise)),
            "start": float(np.median(difficulty[kept])),
            "mean_range": [float(low), float(high)],
            "score_range": [floor, floor + span],
            "rescale": rescale,
        },
        report={
            "abilities": dict(zip(table.models, theta.tolist())),
            "removed": {
                table.doc_ids[i]: f"correlates {correlation[i]:+.2f} with the models' abilities"
                for i in np.flatnonzero(~kept)
            },
        },
    )


def _item_correlation(table: ScoreTable, theta: Floats) -> Floats:
    """Pearson correlation of each item's scores with ability, NaN where there is none."""
    overview = table.overview
    count, mean = overview.item_count, overview.item_sum / overview.item_count
    ability = np.zeros(table.n_items)
    for at, scores in table.parts():
        ability += theta[at] @ np.isfinite(scores)
    ability /= count
    products, of_ability, of_scores = (np.zeros(table.n_items) for _ in range(3))
    for at, scores in table.parts():
        dy = np.where(np.isfinite(scores), scores - mean, 0.0)
        dt = np.where(np.isfinite(scores), theta[at, None] - ability, 0.0)
        products += np.einsum("ij,ij->j", dt, dy)
        of_ability += np.einsum("ij,ij->j", dt, dt)
        of_scores += np.einsum("ij,ij->j", dy, dy)
    norm = np.sqrt(of_ability * of_scores)
    varies = overview.item_high > overview.item_low
    usable = (count >= MIN_MODELS) & varies & (norm > 0.0)
    out: Floats = np.full(len(count), np.nan)
    np.divide(products, norm, out=out, where=usable)
    return out


def expected_score(theta: ArrayLike, difficulty: ArrayLike) -> Floats:
    """Expected score ``mu = logistic(theta - b)``.

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
    """Fisher information about ability in one score, in 1 / logit^2.

    Parameters
    ----------
    mu : array_like
        Expected scores in [0, 1].
    k : float
        Noise, above 0.
    full : bool, optional
        Add the information that the variance carries, ``(1 - 2 mu)^2 / 2`` (the paper's
        appendix). Used for selection only.

    Returns
    -------
    ndarray
        ``mu (1 - mu) / k`` [+ ``(1 - 2 mu)^2 / 2``], of the shape of `mu`.

    Examples
    --------
    >>> float(information(0.5, 0.25))
    1.0
    """
    m = np.asarray(mu, dtype=np.float64)
    first = m * (1.0 - m) / k
    return np.asarray(first + (1.0 - 2.0 * m) ** 2 / 2.0 if full else first)


class Rescaling(NamedTuple):
    """``x = (y - low) / (high - low)``, clipped to [0, 1].

    Attributes
    ----------
    low, high : float
        Scores on [0, 1] that map to 0 and 1.

    Examples
    --------
    >>> narrow = Rescaling(0.25, 0.75)
    >>> narrow.apply(0.5), narrow.apply(0.9), float(narrow.restore(np.array(0.5)))
    (0.5, 1.0, 0.5)
    """

    low: float = 0.0
    high: float = 1.0

    @property
    def span(self) -> float:
        """Score units per unit of the model's scale."""
        return self.high - self.low

    def apply(self, score: float) -> float:
        """The score on the scale of the response model."""
        return min(max((score - self.low) / self.span, 0.0), 1.0)

    def restore(self, value: Floats) -> Floats:
        """Expected scores of the response model on the scale of the scores."""
        return np.asarray(self.low + self.span * value)


def rescaling_of(bank: ItemBank, score_range: tuple[float, float] | None = None) -> Rescaling:
    """The rescaling of a bank; a bank that states none takes scores as given.

    Parameters
    ----------
    bank : ItemBank
        Of method "paper".
    score_range : (float, float), optional
        Rescale by this range, whatever the bank states.

    Raises
    ------
    BankError
        The range is empty or not within [0, 1], or the bank rescales and states no range.
    """
    if score_range is None:
        if bank.constants.get("rescale", "none") == "none":
            return Rescaling()
        score_range = bank.constants.get("score_range") or (0.0, 0.0)
    try:
        low, high = (float(v) for v in score_range)
    except (TypeError, ValueError):
        low = high = 0.0
    if not 0.0 <= low < high <= 1.0:
        raise BankError(
            f"scores cannot be rescaled by the range {score_range}: two numbers low < high within "
            "[0, 1] are needed; calibrate the bank again"
        )
    return Rescaling(low, high)


def stretched_curves(bank: ItemBank) -> Curves:
    """Curves of mean scores stretched over all of [0, 1], on which the tests move."""
    return _curves(bank, np.asarray(-bank.parameters["difficulty"]))


def unstretched_curves(bank: ItemBank) -> Curves:
    """Curves for scores as they are.

    The difficulties are of mean scores stretched over all of [0, 1], which puts the easiest and the
    hardest item at +-6.9 logits wherever they were.
    """
    difficulty = bank.parameters["difficulty"]
    try:
        low, high = (float(v) for v in bank.constants["mean_range"])
    except (KeyError, TypeError, ValueError):
        return stretched_curves(bank)
    share = (expit(-difficulty) - SQUEEZE) / (1.0 - 2.0 * SQUEEZE)
    mean = np.clip(low + share * (high - low), SQUEEZE, 1.0 - SQUEEZE)
    return _curves(bank, np.asarray(logit(mean)))


def _curves(bank: ItemBank, intercept: Floats) -> Curves:
    return Curves(
        np.column_stack([intercept, np.ones(bank.n_items)]),
        np.full(bank.n_items, float(bank.constants["k"])),
        STRAIGHT,
        -float(np.median(intercept)),
    )

"""Baselines that state errors without a ranking method: paired t-tests on common random items.

``paired`` compares models on the items that all have had.  ``paired_difference`` compares what is
left of their scores after a response model's predictions, and adds the predictions' mean over all
items: the difference estimator of survey sampling (C.-E. Särndal, B. Swensson and J. Wretman,
"Model Assisted Survey Sampling", 1992, section 6.3), unbiased up to the fit of one ability per
model however wrong the response model is. Several tasks are strata: their estimates and variances
add up, and the degrees of freedom are Satterthwaite's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import stdtr, stdtrit

from ..bank import ItemBank
from ..methods.curves import fit_abilities
from ..methods.registry import method_of
from .replays import Claim, Floats

#: Part of an item at the end of the scale that counts as seen where all values are equal: no error
#: at all would be stated else.
_IMAGINED = 0.5


@dataclass(frozen=True)
class Stratum:
    """The observations of one task.

    Attributes
    ----------
    weight : float
        Of the task; those of all tasks sum to 1.
    known : ndarray of shape (n_models, n_items)
        Scores, or what predictions leave of them; NaN where no score was asked.
    offset : ndarray of shape (n_models,)
        What is added to their means.
    fitted : int
        Degrees of freedom that the mean and the predictions took.
    """

    weight: float
    known: Floats
    offset: Floats
    fitted: int = 1

    @classmethod
    def plain(cls, weight: float, known: Floats) -> Stratum:
        """The scores themselves."""
        return cls(weight, known, np.zeros(len(known)))

    @classmethod
    def predicted(cls, weight: float, known: Floats, bank: ItemBank) -> Stratum:
        """What a bank's predictions leave, its ability fitted on the same items."""
        curves = method_of(bank).curves(bank)
        expected = curves.expected(fit_abilities(curves, known))
        return cls(weight, known - expected, expected.mean(axis=1), 2)


def paired(strata: Sequence[Stratum], confidence: float) -> Claim:
    """Models compared by paired t-tests on the items that both have.

    Parameters
    ----------
    strata : sequence of Stratum
        One a task.
    confidence : float
        Two-sided, of each pair, at one look.
    """
    means, gaps = zip(*(_moments(s) for s in strata))
    mean, variance, df = _added(means, [s.weight for s in strata])
    gap, gap_variance, gap_df = _added(gaps, [s.weight for s in strata])
    error = np.sqrt(variance)
    half = stdtrit(df, (1.0 + confidence) / 2.0) * error
    better = stdtr(gap_df, gap / np.sqrt(np.maximum(gap_variance, 1e-30)))
    tail = (1.0 - confidence) / 2.0
    decided = (better < tail) | (better > 1.0 - tail)
    return Claim(
        estimates=mean,
        standard_errors=error,
        intervals=np.stack([mean - half, mean + half], axis=1),
        ahead=np.where(decided, np.sign(gap), 0.0).astype(np.int8),
        variance=gap_variance,
        df=gap_df,
    )


Moments = tuple[Floats, Floats, Floats]


def _moments(of: Stratum) -> tuple[Moments, Moments]:
    """Mean, variance and degrees of freedom of each model, and of each difference of two."""
    y, size = of.known[:, np.isfinite(of.known).any(axis=0)], of.known.shape[1]
    seen = np.isfinite(y)
    filled = np.where(seen, y, 0.0)
    both = seen[:, None] & seen[None, :]
    apart = np.where(both, filled[:, None] - filled[None, :], 0.0)
    one, gap = (_of_mean(v, s, size, of.fitted) for v, s in ((filled, seen), (apart, both)))
    offset = of.offset
    return (one[0] + offset, *one[1:]), (gap[0] + offset[:, None] - offset[None, :], *gap[1:])


def _of_mean(y: Floats, seen: np.ndarray, size: int, fitted: int) -> Moments:
    n = np.maximum(seen.sum(axis=-1), 1)
    mean, df = y.sum(axis=-1) / n, np.maximum(n - fitted, 1.0)
    spread = (np.where(seen, y - mean[..., None], 0.0) ** 2).sum(axis=-1) / df
    spread = np.where(spread > 0.0, spread, _IMAGINED / n)
    return mean, spread * (1.0 - n / size) / n, df


def _added(parts: Sequence[Moments], weights: Sequence[float]) -> Moments:
    """The weighted sum; degrees of freedom as F. E. Satterthwaite (1946) has them."""
    mean = sum(w * m for w, (m, _, _) in zip(weights, parts))
    of_part = [w**2 * v for w, (_, v, _) in zip(weights, parts)]
    variance = np.asarray(sum(of_part))
    if len(parts) == 1:
        return np.asarray(mean), variance, parts[0][2]
    rest = sum(v**2 / df for v, (_, _, df) in zip(of_part, parts))
    df = np.divide(variance**2, rest, out=np.ones_like(variance), where=rest > 0.0)
    return np.asarray(mean), variance, df

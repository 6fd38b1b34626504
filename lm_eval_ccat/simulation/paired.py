"""Baselines that state errors without a ranking method: paired t-tests on common random items.

``paired`` compares models on the items that all have had.  ``paired_difference`` compares what is
left of their scores after a response model's predictions, and adds the predictions' mean over all
items: the difference estimator of survey sampling (C.-E. Särndal, B. Swensson and J. Wretman,
"Model Assisted Survey Sampling", 1992, section 6.3), unbiased up to the fit of one ability per
model however wrong the response model is.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtr, stdtrit

from ..bank import ItemBank
from ..methods.curves import fit_abilities
from ..methods.registry import method_of
from .outcome import Claim, Floats

#: Part of an item at the end of the scale that counts as seen where all values are equal: no error
#: at all would be stated else.
_IMAGINED = 0.5


def paired(scores: Floats, items: list[int], confidence: float) -> Claim:
    """Models compared by a paired t-test on common items.

    Parameters
    ----------
    scores : ndarray of shape (n_models, n_items)
        NaN where missing: a pair is compared on the items that both have.
    items : list of int
        Those administered.
    confidence : float
        Two-sided, of each pair, at one look.
    """
    return _claim(scores[:, items], np.zeros(len(scores)), scores.shape[1], 1, confidence)


def paired_difference(
    scores: Floats, items: list[int], bank: ItemBank, where: NDArray[np.intp], confidence: float
) -> Claim:
    """The same for what the bank's predictions leave, its ability fitted on the same items.

    Parameters
    ----------
    scores, items, confidence
        As `paired` has them.
    bank : ItemBank
    where : ndarray of int
        Position of each item of the bank among the columns of `scores`.
    """
    known = np.full(scores.shape, np.nan)
    known[:, items] = scores[:, items]
    known = known[:, where]
    curves = method_of(bank).curves(bank)
    predicted = curves.expected(fit_abilities(curves, known))
    rest = known - predicted
    drawn = np.flatnonzero(np.isfinite(rest).any(axis=0))
    return _claim(rest[:, drawn], predicted.mean(axis=1), scores.shape[1], 2, confidence)


def _claim(y: Floats, offset: Floats, size: int, fitted: int, confidence: float) -> Claim:
    """Means, their errors, and t-tests of their differences; `fitted` degrees of freedom go."""
    seen = np.isfinite(y)
    filled = np.where(seen, y, 0.0)
    n = seen.sum(axis=1)
    mean = filled.sum(axis=1) / np.maximum(n, 1)
    spread = (np.where(seen, y - mean[:, None], 0.0) ** 2).sum(axis=1) / np.maximum(n - fitted, 1)
    spread = np.where(spread > 0.0, spread, _IMAGINED / np.maximum(n, 1))
    error = np.sqrt(spread * (1.0 - n / size) / np.maximum(n, 1))
    both = (seen[:, None] & seen[None, :]).astype(float)
    d = np.where(both > 0, filled[:, None] - filled[None, :], 0.0)
    n_both = np.maximum(both.sum(axis=2), 1.0)
    gap = d.sum(axis=2) / n_both
    left = np.where(both > 0, d - gap[..., None], 0.0)
    df = np.maximum(n_both - fitted, 1.0)
    of_one = (left**2).sum(axis=2) / df
    of_one = np.where(of_one > 0.0, of_one, _IMAGINED / n_both)
    variance = of_one * (1.0 - n_both / size) / n_both
    gap = gap + offset[:, None] - offset[None, :]
    half = stdtrit(np.maximum(n - fitted, 1), (1.0 + confidence) / 2.0) * error
    better = stdtr(df, gap / np.sqrt(np.maximum(variance, 1e-30)))
    tail = (1.0 - confidence) / 2.0
    decided = (better < tail) | (better > 1.0 - tail)
    return Claim(
        estimates=mean + offset,
        standard_errors=error,
        intervals=np.stack([mean + offset - half, mean + offset + half], axis=1),
        ahead=np.where(decided, np.sign(gap), 0.0).astype(np.int8),
        variance=variance,
        df=df,
    )

"""Calibration of the method "paper": closed form, as arXiv:2601.13885 has it.

Difficulty comes from the mean score of an item, ability from the mean score of a model, the
noise from the residuals of both. Nothing is iterated, so one pass over the table is enough.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import logit

from ...errors import BankError, UsageError
from ...scores.table import ScoreTable
from ..fitted import Fitted, require_scores
from ..logistic import expected_score
from .rescaling import RESCALE

Floats = NDArray[np.float64]

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
    scores = table.model_scores()
    seen = np.isfinite(scores)
    require_scores(table)
    mean = _masked_mean(scores, seen, axis=0)
    low, high = mean.min(), mean.max()
    if not high > low:
        raise BankError(
            f"every item of {table.metric!r} has the same mean score {low:.6g}: there is no "
            "difficulty to calibrate; check the metric, or use more models"
        )
    difficulty = -logit(SQUEEZE + (1.0 - 2.0 * SQUEEZE) * (mean - low) / (high - low))

    single = table.scores
    floor, span = np.nanmin(single), np.nanmax(single) - np.nanmin(single)

    def stretched(y: Floats) -> Floats:
        return np.asarray(np.clip((y - floor) / span, CLIP, 1.0 - CLIP))

    theta = np.asarray(logit(_masked_mean(stretched(scores), seen, axis=1)))
    correlation = _item_correlation(scores, seen, theta)
    kept = ~(correlation < 0.0)  # NaN (constant item, too few models) stays
    if not kept.any():
        raise BankError("no item correlates positively with the models' abilities")

    x = stretched(single)
    row_theta = theta[[table.models.index(m) for m in table.row_model]]
    mu = expected_score(row_theta[:, None], difficulty[None, :])
    use = np.isfinite(x) & kept
    noise = float(((x - mu)[use] ** 2).sum() / (mu * (1.0 - mu))[use].sum())
    if not noise > 0.0:
        raise BankError("the scores fit the response model without noise: they cannot be real")
    return Fitted(
        kept=kept,
        parameters={"difficulty": np.asarray(difficulty)},
        constants={
            "k": noise,
            "discrimination": float(1.0 / np.sqrt(noise)),
            "start": float(np.median(difficulty[kept])),
            # What brings back the mean scores, so that new models can be added to them.
            "mean_range": [float(low), float(high)],
            "score_range": [float(floor), float(floor + span)],
            "rescale": rescale,
        },
        report={
            "models_per_item": _one_if_equal(seen.sum(axis=0)),
            "abilities": dict(zip(table.models, theta.tolist())),
            "removed": {
                table.doc_ids[i]: f"correlates {correlation[i]:+.2f} with the models' abilities"
                for i in np.flatnonzero(~kept)
            },
        },
    )


def _one_if_equal(counts: NDArray[np.intp]) -> int | list[int]:
    return int(counts[0]) if (counts == counts[0]).all() else counts.tolist()


def _masked_mean(values: Floats, seen: NDArray[np.bool_], axis: int) -> Floats:
    return np.asarray(np.where(seen, values, 0.0).sum(axis=axis) / seen.sum(axis=axis))


def _item_correlation(scores: Floats, seen: NDArray[np.bool_], theta: Floats) -> Floats:
    """Pearson correlation of each item's scores with ability, NaN where there is none.

    Computed from deviations, item by item in one pass over the matrix.
    """
    count = seen.sum(axis=0)
    t = np.where(seen, theta[:, None], 0.0)
    y = np.where(seen, scores, 0.0)
    dt = np.where(seen, t - t.sum(axis=0) / count, 0.0)
    dy = np.where(seen, y - y.sum(axis=0) / count, 0.0)
    norm = np.sqrt((dt**2).sum(axis=0) * (dy**2).sum(axis=0))
    top = np.where(seen, scores, -np.inf).max(axis=0)
    varies = top > np.where(seen, scores, np.inf).min(axis=0)
    usable = (count >= MIN_MODELS) & varies & (norm > 0.0)
    out: Floats = np.full(len(count), np.nan)
    np.divide((dt * dy).sum(axis=0), norm, out=out, where=usable)
    return out

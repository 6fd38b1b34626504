"""Whether calibration scores can carry a bank, in plain words.

What is judged here needs no response model: how many models there are, whether they differ by more
than chance, and whether the benchmark is in reach of them. The methods add their own self-checks.
"""

from __future__ import annotations

from hashlib import blake2b

import numpy as np

from ..scores.table import ScoreTable

FEW_MODELS = 8
ENOUGH_MODELS = 20
# Models whose best and worst lie closer than this many standard errors are hardly distinguishable.
DISTINCT_ERRORS = 4.0
NARROW_RANGE = 0.05
EXTREME = 0.05


def table_warnings(table: ScoreTable) -> list[str]:
    """Say what of a score table makes a bank calibrated on it doubtful.

    Parameters
    ----------
    table : ScoreTable

    Returns
    -------
    list of str
        Empty where nothing is against the bank.

    Examples
    --------
    >>> table = ScoreTable.from_arrays([[0.1, 0.6], [0.3, 0.9]], models=["a", "b"])
    >>> table_warnings(table)[0][:20]
    'only 2 models: item '
    """
    warnings = []
    n_models = len(table.models)
    if n_models < FEW_MODELS:
        warnings.append(
            f"only {n_models} models: item parameters are rough; calibrate on "
            f"{FEW_MODELS} or more, better {ENOUGH_MODELS}"
        )
    if pairs := twins(table):
        warnings.append(
            f"equal scores on every item: {', '.join(f'{a} and {b}' for a, b in pairs[:3])}"
            + (f" and {len(pairs) - 3} more pairs" if len(pairs) > 3 else "")
            + "; if they are one model, it counts twice: leave one out (--exclude)"
        )
    means = np.nan_to_num(table.overview.model_mean)
    low, high = float(means.min()), float(means.max())
    error = _error_of_means(table, means)
    shown = " to ".join(f"{v:.4g}" for v in sorted(table.scale.restore([low, high]).tolist()))
    if high - low < DISTINCT_ERRORS * error:
        warnings.append(
            f"the models hardly differ: their mean scores ({shown}) lie within what chance over "
            f"items explains (standard error {float(table.scale.restore_error(error)):.2g}); add "
            "weaker and stronger models"
        )
    elif high - low < NARROW_RANGE:
        warnings.append(
            f"the models' mean scores only run from {shown}; a model outside that range is judged "
            "by extrapolation; add weaker and stronger models"
        )
    middle = float(np.median(means))
    if min(middle, 1.0 - middle) < EXTREME:
        what = "easy" if middle > 0.5 else "hard"
        warnings.append(
            f"the benchmark is too {what} for these models (median mean score "
            f"{float(table.scale.restore(middle)):.4g}, {table.scale.describe()}): few items "
            "separate the models"
        )
    return warnings


def twins(table: ScoreTable) -> list[tuple[str, str]]:
    """Models whose scores all equal those of an earlier one: pairs of that one and the model."""
    first: dict[bytes, str] = {}
    pairs = []
    for at, scores in table.parts():
        for model, row in zip(table.models[at], scores):
            other = first.setdefault(blake2b(row, digest_size=16).digest(), model)
            if other != model:
                pairs.append((other, model))
    return pairs


def _error_of_means(table: ScoreTable, means: np.ndarray) -> float:
    """Typical standard error of a model's mean, from what model and item do not explain."""
    overview, expected = table.overview, np.zeros(table.n_items)
    if overview.whole:
        expected += means.sum()
    else:
        for at, scores in table.parts():
            expected += means[at] @ np.isfinite(scores)
    by_item = (overview.item_sum - expected) / np.maximum(overview.item_count, 1)
    squares = np.empty(len(means))
    for at, scores in table.parts():
        scores -= means[at, None]
        scores -= by_item
        squares[at] = np.fmax(np.square(scores, out=scores), 0.0, out=scores).sum(axis=1)
    # Each item's mean takes one of n_models degrees of freedom from its residuals.
    freedom = max(len(means) - 1, 1) / len(means)
    count = np.maximum(overview.model_count, 1)
    return float(np.median(np.sqrt(squares / count / freedom / count)))

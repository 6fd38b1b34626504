"""Item curves of the method "paper": as its tests have them, and for scores as they are."""

from __future__ import annotations

import numpy as np
from scipy.special import expit, logit

from ...bank.bank import ItemBank
from ...scores.table import ScoreTable
from ..curves import Curves, Floats, Straight
from .calibration import CLIP, SQUEEZE, expected_score


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


def fitted_scores(bank: ItemBank, table: ScoreTable) -> tuple[Floats, Floats, Floats]:
    """See `Method.fitted_scores`: scores are stretched as the calibration does."""
    row = [table.models.index(m) for m in table.row_model]
    abilities = bank.provenance["report"]["abilities"]
    theta = np.array([abilities[m] for m in table.models])[row]
    low, high = np.nanmin(table.scores), np.nanmax(table.scores)
    y = np.clip((table.scores - low) / (high - low), CLIP, 1.0 - CLIP)
    mu = expected_score(theta[:, None], bank.parameters["difficulty"][None, :])
    return np.asarray(y), mu, np.full(mu.shape, float(bank.constants["k"]))


def _curves(bank: ItemBank, intercept: Floats) -> Curves:
    return Curves(
        np.column_stack([intercept, np.ones(bank.n_items)]),
        np.full(bank.n_items, float(bank.constants["k"])),
        Straight(),
        -float(np.median(intercept)),
    )

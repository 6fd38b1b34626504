"""Whether scores vary as the response model says, by three definitions of conformance."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import expit

from lm_eval_ccat import ItemBank, ScoreTable, calibrate
from lm_eval_ccat.methods.default.fit import model_of
from lm_eval_ccat.methods.method import method
from lm_eval_ccat.methods.paper.test import CLIP, expected_score
from lm_eval_ccat.metrics.scale import Floats
from lm_eval_ccat.scores.item_scaling import ItemScaling

from .design import Design

BINS = 10


def conformance_study(table: ScoreTable, design: Design, units: Any = None) -> dict[str, Any]:
    """Calibrate on all models: discrimination, and conformance of the variance."""
    rows: dict[str, Any] = {}
    if design.item_scaling:
        table = ItemScaling.fit(table).apply(table)
    for name in design.methods:
        if not method(name).calibrates:
            continue  # it predicts no score, so there is nothing to conform to
        bank = calibrate(table, method=name)
        mu, y, noise = observations(table, bank)
        rows[name] = {
            "discrimination": discrimination(bank),
            **conformance(mu, y, noise),
            "r2_configs": r2_of_configs(table, bank) if name == "paper" else None,
        }
    return rows


def discrimination(bank: ItemBank) -> float:
    """``1 / sqrt(k)`` of a bank; where items differ in slope and noise, of its median item."""
    if "discrimination" in bank.constants:
        return float(bank.constants["discrimination"])
    return float(np.median(bank.parameters["slope"] / np.sqrt(bank.parameters["noise"])))


def observations(table: ScoreTable, bank: ItemBank) -> tuple[Floats, Floats, Floats]:
    """Expected score, score and noise of every single observation on kept items.

    Parameters
    ----------
    table : ScoreTable
        What the bank was calibrated on.
    bank : ItemBank

    Notes
    -----
    Abilities are those of the calibration; a method compares on the scale that it was fitted on.
    """
    use = np.isfinite(table.scores) & bank.kept
    row = [table.models.index(m) for m in table.row_model]
    if bank.method == "paper":
        abilities = bank.provenance["report"]["abilities"]
        theta = np.array([abilities[m] for m in table.models])[row]
        low, high = np.nanmin(table.scores), np.nanmax(table.scores)
        y = np.clip((table.scores - low) / (high - low), CLIP, 1.0 - CLIP)
        mu = expected_score(theta[:, None], bank.parameters["difficulty"][None, :])
        noise = np.full(mu.shape, float(bank.constants["k"]))
    else:
        items = model_of(bank).items
        y, mu = table.scores, expit(items.basis.at(items.abilities) @ items.coefficients.T)[row]
        level = np.array([items.model_noise(float(x)) for x in items.abilities])[row]
        noise = level[:, None] * items.noise[None, :]
    return mu[use], y[use], noise[use]


def conformance(mu: Floats, y: Floats, noise: Floats, bins: int = BINS) -> dict[str, Any]:
    """R2 between observed and predicted variance in bins of the expected score.

    Parameters
    ----------
    mu, y, noise : ndarray of shape (n,)
        Expected score, score and noise of each observation.
    bins : int
        Bins of equally many observations.

    Returns
    -------
    dict
        ``r2``: 1 - residual / total sum of squares over bins, where observed is the variance of the
        scores within a bin; negative where a constant would predict better. ``r2_residual``: the
        same, where observed is the mean squared residual, which does not count differences of
        expectation within a bin as noise. ``bins``, of the latter.
    """
    order = np.argsort(mu, kind="stable")
    cells = []
    for part in np.array_split(order, min(bins, len(order))):
        cells.append(
            {
                "mu": float(mu[part].mean()),
                "variance": float(y[part].var()),
                "observed": float(((y[part] - mu[part]) ** 2).mean()),
                "predicted": float((noise[part] * mu[part] * (1.0 - mu[part])).mean()),
                "n": len(part),
            }
        )
    predicted = np.array([c["predicted"] for c in cells])
    return {
        "r2": _r2(np.array([c["variance"] for c in cells]), predicted),
        "r2_residual": _r2(np.array([c["observed"] for c in cells]), predicted),
        "bins": cells,
    }


def _r2(observed: Floats, predicted: Floats) -> float | None:
    total = float(((observed - observed.mean()) ** 2).sum())
    return 1.0 - float(((observed - predicted) ** 2).sum()) / total if total > 0 else None


def r2_of_configs(table: ScoreTable, bank: ItemBank) -> float | None:
    """Squared correlation, over pairs of model and item, of variance over configs and prediction.

    That is what the authors' released code computes: the variance of a model's scores on an item
    over its temperatures, against ``k m (1 - m)`` with m the mean of those scores, clipped to
    [0.01, 0.99]. It is never negative, which the printed table often is.
    """
    observed, predicted = [], []
    for rows in table.rows_of.values():
        y = table.scores[rows]
        seen = np.isfinite(y)
        several = seen.sum(axis=0) >= 2
        if not several.any():
            continue
        y = np.where(seen, y, np.nan)[:, several]
        m = np.clip(np.nanmean(y, axis=0), 0.01, 0.99)
        observed.append(np.nanvar(y, axis=0, ddof=1))
        predicted.append(float(bank.constants["k"]) * m * (1.0 - m))
    if not observed:
        return None
    one, two = np.concatenate(observed), np.concatenate(predicted)
    if len(one) < 5 or not np.ptp(one) > 0 or not np.ptp(two) > 0:
        return None
    return float(np.corrcoef(one, two)[0, 1] ** 2)

"""New models in a bank of the method "paper", exactly as if all had been calibrated together.

The mean score of each item comes back from its difficulty. Residuals of the models before stay, so
the noise is pooled from theirs and the new ones; which items are kept stays.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from scipy.special import expit, logit

from ...bank.bank import ItemBank
from ...errors import BankError
from ..curves import Floats
from .calibration import CLIP, SQUEEZE, expected_score


def absorb(bank: ItemBank, scores: Floats, names: Sequence[str]) -> ItemBank:
    """The bank with new models in it; see `Method.update`."""
    try:
        low, high = bank.constants["mean_range"]
        floor, top = bank.constants["score_range"]
        report = bank.provenance["report"]
        counts = np.broadcast_to(np.asarray(report["models_per_item"]), bank.n_items)
        before = np.array(list(report["abilities"].values()), dtype=np.float64)
    except (KeyError, TypeError, ValueError):
        raise BankError(
            "the bank does not hold what an update needs (an older version made it); give the "
            "scores it was calibrated on as well, or calibrate again"
        ) from None
    seen = np.isfinite(scores)
    b = bank.parameters["difficulty"]
    mean = low + (expit(-b) - SQUEEZE) / (1.0 - 2.0 * SQUEEZE) * (high - low)
    total = counts + seen.sum(axis=0)
    mean = (counts * np.clip(mean, 0.0, 1.0) + np.where(seen, scores, 0.0).sum(axis=0)) / total
    low, high = float(mean.min()), float(mean.max())
    difficulty = -logit(SQUEEZE + (1.0 - 2.0 * SQUEEZE) * (mean - low) / (high - low))
    floor, top = min(floor, float(scores[seen].min())), max(top, float(scores[seen].max()))
    x = np.clip((scores - floor) / (top - floor), CLIP, 1.0 - CLIP)
    x_mean = np.where(seen, x, 0.0).sum(axis=1) / seen.sum(axis=1)
    theta = logit(x_mean)
    mu = expected_score(theta[:, None], difficulty[None, :])
    use = seen & bank.kept
    squares = float(((np.where(use, x, mu) - mu) ** 2).sum())
    expected = float((mu * (1.0 - mu))[use].sum())
    mu = expected_score(before[:, None], difficulty[None, bank.kept])
    weight = float((mu * (1.0 - mu) * (counts[bank.kept] / counts.max())).sum())
    k = (float(bank.constants["k"]) * weight + squares) / (weight + expected)
    return replace(
        bank,
        parameters={**bank.parameters, "difficulty": np.asarray(difficulty)},
        constants={
            **bank.constants,
            "k": k,
            "discrimination": float(k**-0.5),
            "start": float(np.median(difficulty[bank.kept])),
            "mean_range": [low, high],
            "score_range": [floor, top],
        },
        provenance={
            **bank.provenance,
            "report": {
                **report,
                "abilities": {**report["abilities"], **dict(zip(names, theta.tolist()))},
                "models_per_item": int(total[0]) if (total == total[0]).all() else total.tolist(),
            },
        },
    )

"""Take new calibration models into a bank without starting over.

Given the scores that the bank was calibrated on, the bank is calibrated again on all of them, which
is exact. Without them, what the bank itself knows stands for them:

- *paper*: the mean score of each item comes back from its difficulty, so the difficulties are
  exactly those of a calibration on all models together; residuals of the models before stay, so
  the noise is pooled from theirs and the new ones; which items are kept stays.
- *default*: intercepts, slopes and noise move by one Bayesian step. The prior of each item is what
  the bank says, with the precision that its calibration models gave it; the new models' scores are
  the data. Residual factors and the inflation of errors stay as calibrated.

Documents that changed, and items the bank does not know, are not taken in: that needs a
calibration.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit

from .. import __version__
from ..bank.bank import ItemBank
from ..bank.names import hashed_name
from ..bank.settings import compare_settings
from ..errors import BankError, BankMismatchError
from ..methods.calibration import calibrate
from ..methods.default.update import absorb
from ..methods.logistic import expected_score
from ..methods.paper.calibration import CLIP, SQUEEZE
from ..scores.table import ScoreTable
from .check import aligned_scores
from .union import union

Floats = NDArray[np.float64]


def update(bank: ItemBank, new: ScoreTable, calibrated_on: ScoreTable | None = None) -> ItemBank:
    """Add calibration models to a bank.

    Parameters
    ----------
    bank : ItemBank
    new : ScoreTable
        Full results of new models, same metric, filter and scale. Models that the bank was
        calibrated on already are passed over (with a warning), unless `calibrated_on` is given,
        when their new scores count.
    calibrated_on : ScoreTable, optional
        The scores the bank was calibrated on; then the update is an exact new calibration.

    Returns
    -------
    ItemBank
        Its provenance names the bank before and the models added.

    Raises
    ------
    BankError
        No new model, scores of another benchmark, or a bank that lacks what an update needs.
    BankMismatchError
        The new scores were made under settings that make another benchmark.

    Examples
    --------
    >>> table = ScoreTable.from_arrays(
    ...     [[0.1, 0.5, 0.9], [0.2, 0.4, 0.8], [0.0, 0.3, 1.0]], models=["a", "b", "c"]
    ... )
    >>> bank = update(calibrate(table.select(["a", "b"]), "paper"), table.select(["c"]))
    >>> bank.models
    ('a', 'b', 'c')
    >>> whole = calibrate(table, "paper").parameters["difficulty"]
    >>> bool(np.allclose(bank.parameters["difficulty"], whole))
    True
    """
    refusals, notes = compare_settings(bank.settings, new.settings) if new.settings else ([], [])
    if refusals:
        raise BankMismatchError(
            f"the new scores do not fit the bank: {'; '.join(refusals)}; leave these models out, "
            "or calibrate a bank of their own"
        )
    if calibrated_on is not None:
        return _again(bank, new, calibrated_on, notes)
    known = set(bank.models)
    hashed = bool(bank.provenance.get("names_hashed"))
    names = [hashed_name(m) if hashed else m for m in new.models]
    fresh = [m for m, n in zip(new.models, names) if n not in known]
    if not fresh:
        raise BankError("every model of the new scores is in the bank already; nothing to add")
    if len(fresh) < len(new.models):
        notes.append(
            f"{len(new.models) - len(fresh)} models are in the bank already and were passed over"
        )
    table = new.select(fresh)
    scores = aligned_scores(bank, table)
    if not np.isfinite(scores[:, bank.kept]).any(axis=1).all():
        raise BankError("a new model has no score on the items of the bank; leave it out")
    added = [hashed_name(m) if hashed else m for m in fresh]
    take_in = _paper if bank.method == "paper" else absorb
    parameters, constants, report = take_in(bank, scores, added)
    if table.n_items > bank.n_items or set(table.doc_ids) - set(bank.doc_ids):
        notes.append("documents that the bank does not know were passed over")
    provenance = {
        **bank.provenance,
        "report": report,
        "updates": [
            *bank.provenance.get("updates", []),
            {"previous": bank.sha256, "models": added, "package": __version__},
        ],
    }
    warnings = [w for w in bank.warnings if not w.startswith(_STALE)]
    return replace(
        bank,
        parameters=parameters,
        constants=constants,
        models=(*bank.models, *added),
        provenance=provenance,
        warnings=(*warnings, *notes, f"{_STALE}{plural_models(provenance['updates'])}"),
    )


_STALE = "the self-check and the errors' inflation are from before an update added "


def plural_models(updates: list[dict[str, Any]]) -> str:
    """How many models the updates of a bank added, in words."""
    n = sum(len(u["models"]) for u in updates)
    return f"{n} model{'' if n == 1 else 's'}; calibrate again when many were added"


def _again(
    bank: ItemBank, new: ScoreTable, calibrated_on: ScoreTable, notes: list[str]
) -> ItemBank:
    """Calibrate on all scores, those of a model in both tables from the new one."""
    hashed = bool(bank.provenance.get("names_hashed"))
    names = [hashed_name(m) if hashed else m for m in calibrated_on.models]
    if set(names) != set(bank.models):
        lacking = sorted(set(bank.models) ^ set(names))[0]
        raise BankError(
            f"the scores given as those calibrated on have other models than the bank "
            f"({lacking!r} is in one of them only)"
        )
    aligned_scores(bank, new)  # same metric, filter and scale
    options = {k: v for k, v in bank.provenance.get("options", {}).items()}
    made = calibrate(union(calibrated_on, new), bank.method, hash_names=hashed, **options)
    before = set(bank.models)
    return replace(
        made,
        provenance={
            **made.provenance,
            "updates": [
                *bank.provenance.get("updates", []),
                {
                    "previous": bank.sha256,
                    "models": [m for m in made.models if m not in before],
                    "package": __version__,
                },
            ],
        },
        warnings=(*made.warnings, *notes),
    )


def _paper(
    bank: ItemBank, scores: Floats, names: Sequence[str]
) -> tuple[dict[str, Floats], dict[str, Any], dict[str, Any]]:
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
    constants = {
        **bank.constants,
        "k": k,
        "discrimination": float(k**-0.5),
        "start": float(np.median(difficulty[bank.kept])),
        "mean_range": [low, high],
        "score_range": [floor, top],
    }
    report = {
        **report,
        "abilities": {**report["abilities"], **dict(zip(names, theta.tolist()))},
        "models_per_item": int(total[0]) if (total == total[0]).all() else total.tolist(),
    }
    return {**bank.parameters, "difficulty": np.asarray(difficulty)}, constants, report

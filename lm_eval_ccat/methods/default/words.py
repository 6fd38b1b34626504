"""The findings of the self-check of the method "default", in figures and in words."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...scores.overview import Overview
from ...scores.table import ScoreTable
from ..trust import FEW_MODELS
from .departures import Departures
from .selfcheck import Judged, coverage

#: Share of items on which all calibration models score alike, from which a warning is due.
_CONSTANT = 0.1
#: Items at which errors are quoted.
_AT = 20


def summary(
    table: ScoreTable, judged: Judged | None, departures: Departures, report: dict[str, Any]
) -> tuple[dict[str, Any], tuple[str, ...]]:
    """The bank's ``self_check`` (scores on [0, 1]) and its warnings.

    Parameters
    ----------
    table : ScoreTable
    judged : Judged or None
        None where there were too few models to leave any out.
    departures : Departures
        Of the bank.
    report : dict
        Of the fit.
    """
    reach = _reach(table, table.overview.model_mean)
    warnings = _constant_items(table.overview)
    if judged is None:
        trust = (
            f"no: {len(table.models)} models and {table.n_items} items are too few to leave "
            f"models out, so its errors are conservative guesses; {reach}"
        )
        return {"trust": trust, "range": reach}, (trust, *warnings)
    n = _AT if (judged.n == _AT).any() else int(judged.n.max())
    at = judged.n == n
    error, se = judged.error[at], judged.standard_error[at] * departures.inflation**0.5
    n_models = len(np.unique(judged.model))
    rms = float(np.sqrt(np.mean(error**2)))
    found = f"{n_models} models left out of the calibration were estimated to {rms:.3f} (root mean "
    found += f"square, scores on 0 to 1) from {n} items"
    if n_models < FEW_MODELS:
        trust = f"with care: {found}, but so few models say little about others; {reach}"
    elif departures.inflation > 2.0:
        trust = f"with care: {found}; models differ in ways that the bank does not know; {reach}"
    else:
        trust = f"yes: {found}; {reach}"
    if not trust.startswith("yes"):
        warnings = (trust, *warnings)
    return {
        "trust": trust,
        "range": reach,
        "models_left_out": n_models,
        "items": n,
        "rms_error": rms,
        "mean_error": float(error.mean()),
        "rms_standard_error": float(np.sqrt(np.mean(se**2))),
        "z_rms": float(np.sqrt(np.mean((error / se) ** 2))),
        "coverage_95": coverage(error, se, judged.df[at]),
        "inflation": departures.inflation,
        "inflation_of_pairs": departures.inflation_of_pairs,
        "noise_of_residuals": departures.noise,
        "least_variance_of_residuals": departures.floor,
        **{f"fit_{k}": v for k, v in report.items() if k != "centre"},
    }, warnings


def _reach(table: ScoreTable, means: np.ndarray) -> str:
    low, high = sorted(table.scale.restore([float(means.min()), float(means.max())]).tolist())
    return (
        f"trust it for scores from {low:.3g} to {high:.3g}, the range of its {len(means)} "
        "calibration models"
    )


def _constant_items(overview: Overview) -> tuple[str, ...]:
    constant = overview.item_high - overview.item_low < 1e-9
    share = float(constant.mean())
    if share < _CONSTANT:
        return ()
    return (
        f"{share:.0%} of the items have the same score for every model of the calibration; only "
        "random draws can show what another model scores there",
    )

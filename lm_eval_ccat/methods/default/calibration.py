"""Calibration of the method "default": item curves, then how far they can be trusted."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from ...bank.bank import ItemBank
from ...errors import BankError, UsageError
from ...scores.families import family_of
from ...scores.table import ScoreTable
from ..fitted import Fitted, require_scores
from . import selfcheck
from .basis import AbilityBasis
from .departures import VAGUE, Departures
from .fractional import FractionalItems
from .items import FitOptions, fit_items
from .model import DefaultModel
from .words import summary

Floats = NDArray[np.float64]

MIN_MODELS_TO_CHECK = 4
MOST_FACTORS = 5
_DIGITS = 7  # parameters are rounded: more digits are noise, and banks are text files


def fit(
    table: ScoreTable,
    *,
    discrimination: bool = True,
    factors: int = 2,
    inflation: bool = True,
) -> Fitted:
    """Calibrate the fractional logit model and check it on models left out.

    Parameters
    ----------
    table : ScoreTable
        Missing scores are used as missing. Several configs of a model are averaged for the curves;
        a single score then is noisier by what configs of a model differ.
    discrimination : bool, optional
        Let items differ in slope and bend; else only in difficulty and noise.
    factors : int, optional
        Residual factors at most, 0 to 5; how many there are the noise edge decides.
    inflation : bool, optional
        Widen standard errors by what leaving models out showed.

    Returns
    -------
    Fitted
        Parameters ``intercept`` and ``slope`` (of ability minus constant ``centre``), ``bend``,
        ``noise``, ``covariance`` (packed, in units of the noise), ``loading``; constants of
        the basis, the prior and the departures.

    Raises
    ------
    BankError
        An item or model has no score, or no model differs from another.
    UsageError
        An option out of range.
    """
    if not 0 <= factors <= MOST_FACTORS:
        raise UsageError(f"factors {factors!r} is not in 0 to {MOST_FACTORS}")
    scores = table.model_scores()
    _require_scores(table, scores)
    options = FitOptions(discrimination=discrimination, factors=factors)
    extra = _config_noise(table, scores)
    fitted = fit_items(scores, options, extra)
    items = fitted.items
    centre = float(np.nanmean(scores))
    departures, judged = replace(VAGUE, centre=centre), None
    if len(scores) >= MIN_MODELS_TO_CHECK:
        stops, known = selfcheck.replay(
            scores, options, extra, [family_of(m) for m in table.models]
        )
        if stops:
            departures, judged = selfcheck.departures_of(stops, known, inflation)
            departures = replace(departures, centre=centre)
    found, warnings = summary(table, judged, departures, fitted.report)
    parameters = {
        "intercept": items.coefficients[:, 0],
        "slope": items.coefficients[:, 1],
        "noise": items.noise,
        "covariance": items.covariance,
    }
    if items.basis.size > 2:
        parameters["bend"] = items.coefficients[:, 2:]
    if items.loadings.shape[1]:
        parameters["loading"] = items.loadings
    return Fitted(
        kept=np.ones(table.n_items, dtype=bool),
        parameters={name: _rounded(values) for name, values in parameters.items()},
        constants={
            "centre": fitted.report["centre"],
            "prior_sd": items.prior_sd,
            "spread": items.spread,
            "basis": items.basis.to_dict(),
            "abilities": items.abilities.tolist(),
            "log_noise": items.log_noise.tolist(),
            "departures": departures.to_dict(),
        },
        report={
            "abilities": dict(
                zip(table.models, (items.abilities + fitted.report["centre"]).tolist())
            ),
            "removed": {},
        },
        self_check=found,
        warnings=warnings,
    )


def model_of(bank: ItemBank) -> DefaultModel:
    """Read the response model out of a bank.

    Parameters
    ----------
    bank : ItemBank
        Of method "default".

    Raises
    ------
    BankError
        The parts do not fit one another.
    """
    p, c = bank.parameters, bank.constants
    try:
        basis = AbilityBasis.from_dict(c["basis"])
        columns = [p["intercept"], p["slope"]]
        coefficients = np.column_stack(columns + ([p["bend"]] if basis.size > 2 else []))
        abilities = np.array(c["abilities"], dtype=np.float64)
        # Products round by the order in memory: a bank just made is to decide as one that was read.
        covariance, loadings = map(
            np.ascontiguousarray, (p["covariance"], p.get("loading", np.zeros((bank.n_items, 0))))
        )
        items = FractionalItems(
            coefficients=coefficients,
            covariance=covariance,
            noise=p["noise"],
            loadings=loadings,
            basis=basis,
            prior_sd=float(c["prior_sd"]),
            abilities=abilities,
            log_noise=np.array(c["log_noise"], dtype=np.float64),
            spread=float(c["spread"]),
        )
        centre = float(c["centre"])
        # A bank of an older version does not say how far models depart from it.
        vague = replace(VAGUE, centre=float(expit(centre)))
        departures = Departures.from_dict(c["departures"]) if "departures" in c else vague
    except (KeyError, TypeError, ValueError) as e:
        raise BankError(f"the bank's response model cannot be read ({e})") from None
    size = basis.size
    fits = (
        coefficients.shape == (bank.n_items, size)
        and items.covariance.shape == (bank.n_items, size * (size + 1) // 2)
        and items.noise.shape == (bank.n_items,)
        and items.loadings.ndim == 2
        and np.ndim(abilities) == items.log_noise.ndim == 1
        and len(abilities) == len(items.log_noise) > 0
    )
    if not (fits and (items.noise > 0.0).all() and items.prior_sd > 0.0 and items.spread > 0.0):
        raise BankError("the parts of the bank's response model do not fit one another")
    return DefaultModel(items, departures, centre)


def _config_noise(table: ScoreTable, scores: Floats) -> float:
    """Variance between configs of a model that averaging took away, per ``mu (1 - mu)``."""
    if len(table.row_model) == len(table.models):
        return 0.0
    row = [table.models.index(m) for m in table.row_model]
    mean = scores[row]
    y = table.scores
    seen = np.isfinite(y)
    count = np.zeros(scores.shape)
    np.add.at(count, row, seen)
    several = count > 1
    within = np.where(seen, (y - mean) ** 2, 0.0).sum()
    freedom = float((count[several] - 1).sum())
    if freedom <= 0.0:
        return 0.0
    usable = np.isfinite(scores)
    w = float((scores * (1.0 - scores))[usable].mean())
    taken = float(np.where(several, 1.0 - 1.0 / np.maximum(count, 1.0), 0.0)[usable].mean())
    return float(within / freedom) * taken / max(w, 1e-3)


def _require_scores(table: ScoreTable, scores: Floats) -> None:
    require_scores(table, np.isfinite(scores))
    if not np.nanmax(scores) > np.nanmin(scores):
        raise BankError(
            f"every score of {table.metric!r} is {np.nanmax(scores):.6g}: there is nothing to "
            "calibrate; check the metric, or use more models"
        )


def _rounded(values: Floats) -> Floats:
    with np.errstate(divide="ignore"):
        size = np.where(values == 0.0, 0.0, np.floor(np.log10(np.abs(values))))
    unit = 10.0 ** (_DIGITS - 1 - size)
    return np.asarray(np.round(values * unit) / unit)

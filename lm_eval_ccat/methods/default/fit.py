"""Calibration of the method "default": the fit of item curves, and their self-check."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from scipy.special import stdtrit

from ...bank.bank import LARGEST, ItemBank, family_of
from ...errors import BankError
from ...metrics.scale import Floats
from ...options import number
from ...scores.table import ScoreTable
from ...shown import plural
from ..calibration import FEW_MODELS
from ..curves import AbilityBasis
from ..method import Fitted, require_parts, require_scores
from .departures import SHARE_OF_MANY, VAGUE, DefaultModel, Departures
from .fractional import FractionalItems
from .items import FACTORS, FACTORS_OF_MANY, MANY, entry_indices, fit_table
from .selfcheck import (
    Judged,
    SelfCheck,
    departures_of,
    groups,
    replay_groups,
    some_items,
)

MIN_MODELS_TO_CHECK = 4
#: Sum of ``mu (1 - mu)`` that the usual noise within items counts as beside an item's own answers.
_PRIOR_MASS = 4.0
_DIGITS = 7  # of a stored parameter: more are noise, and banks are text files
#: Share of items with one score for all calibration models from which there is a warning.
_CONSTANT = 0.1
_QUOTED_ITEMS = 20  # of a ranking whose errors a bank's `self_check` states


def fit(
    table: ScoreTable,
    *,
    factors: int | None = None,
    draws: float | None = None,
    families: Sequence[str] | None = None,
) -> Fitted:
    """Calibrate the fractional logit model and check it on models left out.

    Parameters
    ----------
    table : ScoreTable
        Scores may be missing. Several configs of a model are averaged for the curves; the noise of
        a single score then includes the variance between configs.
    factors : int, optional
        Most residual factors, 0 to 8; only those above the noise are kept. Default 2, and 8 from
        200 models on.
    draws : float, optional
        Share of the items after the first ten that rankings draw at random; 1 draws all items.
        Default: at least half, and more where a draw tells more. From 200 models on 0.2, which is
        more exact for models like those of the bank and shows less about models unlike all of them.
        With fewer than four models, of which none can be left out, 1.
    families : sequence of str, optional
        Family of each model of the table; the self-check leaves out whole families. Default by the
        models' names.

    Returns
    -------
    Fitted
        Parameters ``intercept`` and ``slope`` (of ability minus constant ``centre``), ``bend`` (how
        the curve departs from this line), ``noise``, ``covariance`` (of these coefficients: packed,
        in units of the noise), ``loading`` (on the residual factors), and ``within`` (noise within
        items of repeated answers); constants of the basis, the prior and the departures.

    Raises
    ------
    BankError
        An item or model has no score, or no model differs from another.
    UsageError
        An option is out of range.
    """
    n_models = len(table.models)
    if factors is None:
        factors = FACTORS if n_models < MANY else FACTORS_OF_MANY
    number(0, FACTORS_OF_MANY, integral=True).check(factors, "factors")
    _require_differences(table)
    if draws is None and not MIN_MODELS_TO_CHECK <= n_models < MANY:
        draws = SHARE_OF_MANY if n_models >= MANY else 1.0
    if draws is not None:
        number(0.0, 1.0).check(draws, "draws")
    # Curves are fitted to means over configs; a ranking sees one config, which is noisier.
    config_noise = _config_noise(table)
    fitted = fit_table(table, factors, config_noise)
    items = fitted.items
    check = _check(table, factors, config_noise, draws, families)
    # The prior of departures grows with a model's distance from the mean score of the calibration
    # models, which needs no check.
    departures = replace(check.departures, centre=fitted.mean)
    facts, warnings = summary(table, check.judged, departures, fitted.report)
    in_logits = (items.abilities + fitted.report["centre"]).tolist()
    abilities = dict(zip(table.models, in_logits))
    return Fitted(
        kept=np.ones(table.n_items, dtype=bool),
        parameters=_parameters(items, noise_within(table, items)),
        constants={
            "centre": fitted.report["centre"],
            **_constants(items),
            "departures": departures.to_dict(),
            **({} if draws is None else {"draws": draws}),
        },
        report={"abilities": abilities, "removed": {}, "left_out": check.left_out},
        self_check=facts,
        warnings=warnings,
    )


def _require_differences(table: ScoreTable) -> None:
    """Refuse a table in which an item or a model has no score, or all scores are equal."""
    require_scores(table)
    highest = float(table.overview.item_high.max())
    if not highest > float(table.overview.item_low.min()):
        raise BankError(
            f"every score of {table.metric!r} is {highest:.6g}: there is nothing to "
            "calibrate; check the metric, or use more models"
        )


def _check(
    table: ScoreTable,
    factors: int,
    config_noise: float,
    draws: float | None,
    families: Sequence[str] | None,
) -> SelfCheck:
    """Rank models left out by their scores, and compare what is estimated with the truth.

    Without enough models, or where nearly all are of one family, the departures are `VAGUE`. For
    the parameters see `fit`, and `_config_noise`.
    """
    n_models = len(table.models)
    # A replay ranks models that the bank has not seen: of fewer, none can be spared.
    if n_models < MIN_MODELS_TO_CHECK:
        return SelfCheck(VAGUE, None, {})
    # Groups do not depend on the order of the table: names say which of equal means comes first.
    by_name = np.argsort(np.array(table.models))
    names = [table.models[i] for i in by_name]
    sample = table.model_scores(items=some_items(table.n_items))[by_name]
    model_families = [families[i] if families else family_of(table.models[i]) for i in by_name]
    sets = groups(
        np.nanmean(sample, axis=1), model_families, whole_families=bool(families), names=names
    )
    checkpoints, known = replay_groups(sample, sets, factors, config_noise, draws)
    if not checkpoints:
        return SelfCheck(VAGUE, None, {})
    return departures_of(checkpoints, known, many=n_models >= MANY, names=names)


def _constants(items: FractionalItems) -> dict[str, Any]:
    """Return what a bank stores of its items as a whole; see `_items_of`."""
    return {
        "prior_sd": items.prior_sd,
        "spread": items.spread,
        "basis": items.basis.to_dict(),
        "abilities": items.abilities.tolist(),
        "log_noise": items.log_noise.tolist(),
    }


def _parameters(items: FractionalItems, within: Floats | None) -> dict[str, Floats]:
    """Return the parameters of a bank, rounded; optional ones only where there is something."""
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
    if within is not None:
        parameters["within"] = within
    return {name: _rounded(values) for name, values in parameters.items()}


def summary(
    table: ScoreTable, judged: Judged | None, departures: Departures, report: dict[str, Any]
) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Return the bank's ``self_check`` (scores on [0, 1]) and its warnings.

    Parameters
    ----------
    table : ScoreTable
    judged : Judged or None
        None if there were too few models to leave any out.
    departures : Departures
        Prior of departures that the bank will hold.
    report : dict
        Figures of the fit, which ``self_check`` repeats as ``fit_...``.
    """
    means = table.overview.model_mean
    low, high = sorted(table.scale.restore([float(means.min()), float(means.max())]).tolist())
    trusted = (
        f"trust it for scores from {low:.3g} to {high:.3g}, the range of its {len(means)} "
        "calibration models"
    )
    warnings = _doubt_of_constant_items(table)
    if judged is None:
        trust = (
            f"no: {plural(len(table.models), 'model')} and {plural(table.n_items, 'item')} are too "
            f"few to leave models out, so its errors are conservative guesses; {trusted}"
        )
        return {"trust": trust, "range": trusted}, (trust, *warnings)
    errors = _errors_left_out(judged, departures)
    trust = f"{_trust(errors, departures)}; {trusted}"
    if not trust.startswith("yes"):
        warnings = (trust, *warnings)
    return {
        "trust": trust,
        "range": trusted,
        **errors,
        "inflation": departures.inflation,
        "inflation_of_pairs": departures.inflation_of_pairs,
        "noise_of_residuals": departures.noise,
        "least_variance_of_residuals": departures.floor,
        **{f"fit_{k}": value for k, value in report.items() if k != "centre"},
    }, warnings


def _doubt_of_constant_items(table: ScoreTable) -> tuple[str, ...]:
    """Return a warning if many items tell no calibration model from another."""
    share = float((table.overview.item_high - table.overview.item_low < 1e-9).mean())
    if share < _CONSTANT:
        return ()
    return (
        f"{share:.0%} of the items have the same score for every model of the calibration; "
        "only random draws can show what another model scores there",
    )


def _errors_left_out(judged: Judged, departures: Departures) -> dict[str, Any]:
    """Return how well models left out were estimated after `_QUOTED_ITEMS` items.

    Of a short benchmark they are the most items that were asked.
    """
    n = _QUOTED_ITEMS if (judged.n == _QUOTED_ITEMS).any() else int(judged.n.max())
    quoted = judged.n == n
    error = judged.error[quoted]
    standard_error = judged.standard_error[quoted] * departures.inflation**0.5
    half_width = stdtrit(judged.df[quoted], 0.975) * standard_error
    return {
        "models_left_out": len(np.unique(judged.model)),
        "items": n,
        "rms_error": float(np.sqrt(np.mean(error**2))),
        "mean_error": float(error.mean()),
        "rms_standard_error": float(np.sqrt(np.mean(standard_error**2))),
        "z_rms": float(np.sqrt(np.mean((error / standard_error) ** 2))),
        "coverage_95": float(np.mean(np.abs(error) < half_width)),
    }


def _trust(errors: Mapping[str, Any], departures: Departures) -> str:
    """Say whether a bank can be trusted, and why; the text begins with "yes" or "with care"."""
    evidence = (
        f"{errors['models_left_out']} models left out of the calibration were estimated to "
        f"{errors['rms_error']:.3f} (root mean square, scores on 0 to 1) from {errors['items']} "
        "items"
    )
    if errors["models_left_out"] < FEW_MODELS:
        return f"with care: {evidence}, but so few models say little about others"
    if departures.inflation > 2.0:
        return f"with care: {evidence}; models differ in ways that the bank does not know"
    return f"yes: {evidence}"


def model_of(bank: ItemBank) -> DefaultModel:
    """Return the response model of a bank; read and check it once, for thousands of rankings.

    Parameters
    ----------
    bank : ItemBank
        Of method "default".

    Raises
    ------
    BankError
        The bank lacks a part, or its parts do not fit one another.
    """
    model: DefaultModel | None = bank.__dict__.get("_default_model")
    if model is None:
        model = bank.__dict__["_default_model"] = _read(bank)
    return model


def _read(bank: ItemBank) -> DefaultModel:
    """Return the response model that a bank's parameters and constants state (see `fit`)."""
    positive = ("prior_sd", "spread")
    require_parts(bank, ("intercept", "slope", "noise"), ("centre", *positive), positive)
    constants = bank.constants
    try:
        items = _items_of(bank)
        centre = float(constants["centre"])
        share_of_draws = float(constants["draws"]) if "draws" in constants else None
        departures = Departures.from_dict(constants["departures"])
    except (KeyError, TypeError, ValueError) as e:
        raise BankError(f"the bank's response model cannot be read ({e})") from None
    within = bank.parameters.get("within")
    _require_sound(bank, items, departures, within)
    if share_of_draws is not None and not 0.0 <= share_of_draws <= 1.0:
        raise BankError(f"the bank's share of draws, {share_of_draws!r}, is not in 0 to 1")
    return DefaultModel(
        items,
        departures,
        centre,
        share=share_of_draws,
        kept_items=None if bank.kept.all() else bank.kept,
        within=within,
    )


def _items_of(bank: ItemBank) -> FractionalItems:
    """Return a bank's items; errors of damaged ones are Python's own, which `_read` words."""
    parameters, constants = bank.parameters, bank.constants
    basis = AbilityBasis.from_dict(constants["basis"])
    columns = [parameters["intercept"], parameters["slope"]]
    loadings = parameters.get("loading", np.zeros((bank.n_items, 0)))
    return FractionalItems(
        coefficients=np.column_stack(columns + ([parameters["bend"]] if basis.size > 2 else [])),
        # Products round by the order in memory: a new bank must behave as one read from its file.
        covariance=np.ascontiguousarray(parameters["covariance"]),
        noise=parameters["noise"],
        loadings=np.ascontiguousarray(loadings),
        basis=basis,
        prior_sd=float(constants["prior_sd"]),
        abilities=np.array(constants["abilities"], dtype=np.float64),
        log_noise=np.array(constants["log_noise"], dtype=np.float64),
        spread=float(constants["spread"]),
    )


def _require_sound(
    bank: ItemBank, items: FractionalItems, departures: Departures, within: Floats | None
) -> None:
    """Refuse the parts of a response model that do not fit one another or make no sense."""
    basis, covariance, size = items.basis, items.covariance, items.basis.size
    fits = (
        items.coefficients.shape == (bank.n_items, size)
        and covariance.shape == (bank.n_items, size * (size + 1) // 2)
        and items.noise.shape == (bank.n_items,)
        and items.loadings.ndim == 2
        and items.abilities.ndim == items.log_noise.ndim == 1
        and len(items.abilities) == len(items.log_noise) > 0
    )
    if not (fits and (items.noise > 0.0).all()):
        raise BankError("the parts of the bank's response model do not fit one another")
    parts = {
        "basis": basis.at(np.array([-3.0, 0.0, 3.0])),
        "basis.turn": basis.turn,
        "abilities": items.abilities,
        "log_noise": items.log_noise,
        "departures": np.hstack(list(departures.to_dict().values())),
    }
    for name, values in parts.items():
        if not np.isfinite(values).all() or np.abs(values).max(initial=0.0) > LARGEST:
            raise BankError(f"damaged item bank: {name} holds numbers that make no sense")
    # With a variance below 0 an item would count as known better than exactly.
    smallest, largest = np.linalg.eigvalsh(covariance[:, entry_indices(size)])[:, [0, -1]].T
    bad = np.flatnonzero(smallest < -1e-6 * np.maximum(largest, 1e-12))
    if len(bad):
        raise BankError(
            "damaged item bank: the covariance of doc_id "
            f"{bank.doc_ids[bad[0]]!r} has a negative variance"
        )
    if within is not None and not (within.shape == (bank.n_items,) and (within >= 0.0).all()):
        raise BankError("damaged item bank: the noise within items is not a number from 0 for each")


def _config_noise(table: ScoreTable) -> float:
    """Return the variance between configs that averaging over them removed, per ``mu (1 - mu)``."""
    if len(table.row_model) == len(table.models):  # each model has one config
        return 0.0
    # Sums over the items of all models: squares between configs and their degrees of freedom, the
    # shares that averaging removed, and the number of items.
    within = freedom = taken = usable = 0.0
    for rows in table.rows_of.values():
        y = table.scale.normalise(table.raw[rows])
        count = np.isfinite(y).sum(axis=0)
        usable += float((count > 0).sum())
        # A score of one config alone says nothing of how configs differ.
        y, count = y[:, count > 1], count[count > 1]
        within += float(np.nansum((y - np.nanmean(y, axis=0)) ** 2))
        freedom += float((count - 1).sum())
        # The mean over k configs lacks the share 1 - 1/k of the variance between configs.
        taken += float((1.0 - 1.0 / count).sum())
    if freedom <= 0.0:
        return 0.0
    spread = sum(float(np.nansum(y * (1.0 - y))) for _, y in table.parts())
    return within / freedom * (taken / usable) / max(spread / usable, 1e-3)


def noise_within(table: ScoreTable, items: FractionalItems) -> Floats | None:
    """Return the variance of a sampled answer within its item, per ``mu (1 - mu)``.

    The models' mean counts as `_PRIOR_MASS` beside an item's own answers. All is then raised by
    half of the relative standard deviation of the models' figures, because a new model may be
    noisier than these.

    Parameters
    ----------
    table : ScoreTable
    items : FractionalItems
        Fitted to the table.

    Returns
    -------
    ndarray of shape (n_items,), or None
        At most 1, which 0/1 scores have if a model answers each item right with the same chance.
        None if the table has single answers, or repeats that are all alike: these are copies.
    """
    if not table.has_repeats:
        return None
    factors = [0.0] * (items.n_dimensions - 1)
    # By model and item: squares of answers about their mean, and their degrees of freedom times
    # mu (1 - mu).
    squares, mass = np.zeros((2, len(table.models), table.n_items))
    # The models of `rows_of` are in the order of the table, as are the abilities.
    for model, (rows, ability) in enumerate(zip(table.rows_of.values(), items.abilities.tolist())):
        y = table.scale.normalise(table.raw[rows])
        present = np.isfinite(y)
        count = np.maximum(present.sum(axis=0), 1)
        mean = np.where(present, y, 0.0).sum(axis=0) / count
        squares[model] = np.where(present, (y - mean) ** 2, 0.0).sum(axis=0)
        mass[model] = (count - 1) * items.curves([ability, *factors], items.rows, items.noise).w
    # Only models with a second answer to some item tell anything.
    again = mass.sum(axis=1) > 0.0
    of_models = squares[again].sum(axis=1) / mass[again].sum(axis=1)
    if not of_models.any():
        return None
    usual = float(of_models.mean())
    of_items = (_PRIOR_MASS * usual + squares.sum(axis=0)) / (_PRIOR_MASS + mass.sum(axis=0))
    return np.asarray(np.minimum(of_items * (1.0 + 0.5 * float(of_models.std()) / usual), 1.0))


def _rounded(values: Floats) -> Floats:
    """Return values with `_DIGITS` significant digits."""
    with np.errstate(divide="ignore"):
        size = np.where(values == 0.0, 0.0, np.floor(np.log10(np.abs(values))))
    unit = 10.0 ** (_DIGITS - 1 - size)
    return np.asarray(np.round(values * unit) / unit)

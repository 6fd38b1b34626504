"""Self-check of the method "default": calibration models left out, replayed, compared.

The models are cut into a few groups, each with strong and weak ones; besides, the best
fifth and the weakest fifth are left out together, because a new model may be better or worse than
all that is known. Every model left out goes through the real selection on a bank of the others;
where its estimate stood after 10, 15, ... items is compared with its full-benchmark mean.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .items import FitOptions, fit_items
from .misfit import Misfit, Range
from .posterior import ScorePosterior

Floats = NDArray[np.float64]

CHECKPOINTS = (10, 15, 20, 30, 45, 70, 100)
_GROUPS = 5
_MOST_REPLAYED = 60  # models; more would only take time
_ENOUGH_CELLS, _FEWEST_FITTED, _MOST_FITTED = 8_000_000, 200, 1000  # of a bank for the check
_LARGE = 2_000_000  # cells; above, the extremes are not left out together
_USUAL_C, _SPREAD_OF_C = 2.0, 0.7  # prior of log c
_PRIOR_DF = 2.0 / _SPREAD_OF_C**2  # what that prior is worth: var(log s^2) is about 2 / df
_PARAMETERS = 2  # c and m
_RHOS = np.linspace(0.0, 0.8, 17)


@dataclass(frozen=True)
class Record:
    """One left-out model after some items."""

    model: int
    group: int
    n: int
    error: float
    variance: float
    unseen_share: float
    position: float
    profile: Floats  # which items the error comes from: a unit vector


def leave_out(scores: Floats, options: FitOptions, extra: float) -> list[Record]:
    """Replay models on banks of the others.

    Parameters
    ----------
    scores : ndarray of shape (n_models, n_items)
        On [0, 1], NaN where missing; at least 4 models.
    options : FitOptions
    extra : float
        As `fit_items` has it.

    Returns
    -------
    list of Record
    """
    mean = np.nanmean(scores, axis=1)
    records: list[Record] = []
    for group, (out, replayed) in enumerate(_groups(mean, scores.size)):
        rest = _enough(np.setdiff1d(np.arange(len(scores)), out), mean, scores.shape[1])
        known = np.isfinite(scores[rest]).any(axis=0)
        items = fit_items(scores[np.ix_(rest, known)], options, extra).items
        where = Range(float(items.abilities.min()), float(items.abilities.max()), items.spread)
        for j in replayed:
            y = scores[j, known]
            if np.isfinite(y).any():
                records += _replay(int(j), group, items, where, y)
    return records


def _groups(mean: Floats, size: int) -> list[tuple[NDArray[np.intp], NDArray[np.intp]]]:
    """Models left out together, and those of them that are replayed."""
    order = np.argsort(-mean, kind="stable")
    n = len(order)
    k = min(_GROUPS, n // 2)
    groups = [order[i::k] for i in range(k)]
    fifth = max(n // 5, 1)
    if size <= _LARGE and n - fifth >= 4:
        groups += [order[:fifth], order[-fifth:]]
    most = max(_MOST_REPLAYED // len(groups), 2)
    return [(g, g[np.unique(np.linspace(0, len(g) - 1, most).astype(int))]) for g in groups]


def _enough(rest: NDArray[np.intp], mean: Floats, n_items: int) -> NDArray[np.intp]:
    """Models that a bank for the check is fitted on: all, or an even part of very many.

    The bank itself has them all; its curves are a little better than the check's, never worse.
    """
    most = int(np.clip(_ENOUGH_CELLS // n_items, _FEWEST_FITTED, _MOST_FITTED))
    if len(rest) <= most:
        return rest
    by_mean = rest[np.argsort(-mean[rest], kind="stable")]
    return np.sort(by_mean[np.linspace(0, len(rest) - 1, most).astype(int)])


def _replay(model: int, group: int, items: Any, where: Range, y: Floats) -> list[Record]:
    posterior = ScorePosterior(items)
    free = np.isfinite(y)
    truth = float(y[free].mean())
    records = []
    for n in range(1, min(CHECKPOINTS[-1], int(free.sum()) // 2) + 1):
        i = int(np.argmax(np.where(free, posterior.gains(), -np.inf)))
        posterior.learn(i, float(y[i]))
        free[i] = False
        if n in CHECKPOINTS:
            profile = posterior.influence() * np.sqrt(posterior.kappa * posterior.w)
            records.append(
                Record(
                    model=model,
                    group=group,
                    n=n,
                    error=posterior.estimate - truth,
                    variance=posterior.variance,
                    unseen_share=posterior.unseen_share,
                    position=where.position(float(posterior.z[0])),
                    profile=profile / np.linalg.norm(profile),
                )
            )
    return records


def fit_misfit(records: list[Record], n_models: int) -> Misfit:
    """Describe the errors of left-out models.

    ``c`` and ``m`` maximise a normal likelihood in which all records of one model count as one,
    with a log-normal prior of ``c`` about 2. Few models could be lucky, so squared errors are
    multiplied by ``1 + 2/n_models``.
    """
    if not records:
        return Misfit(c=2.0 * _USUAL_C, df=_PRIOR_DF)
    error2 = np.array([r.error**2 for r in records]) * (1.0 + 2.0 / n_models)
    variance = np.array([r.variance for r in records])
    share2 = np.array([r.unseen_share**2 for r in records])
    keys = [(r.model, r.group) for r in records]
    weights = np.array([1.0 / keys.count(k) for k in keys])
    c, m = _fit_c_and_m(error2, variance, share2, weights)
    ratios = error2 / (c * variance + m * share2)
    positions = np.array([r.position for r in records])
    df = float(len({r.model for r in records}) + _PRIOR_DF - _PARAMETERS)
    misfit = Misfit(c, m, positions, ratios, weights, df=df)
    return replace(misfit, rho=_fit_rho(records, misfit))


def _fit_c_and_m(
    error2: Floats, variance: Floats, share2: Floats, weights: Floats
) -> tuple[float, float]:
    cs = np.geomspace(0.5, 32.0, 49)
    typical = float(np.average(error2, weights=weights))
    ms = np.concatenate([[0.0], typical * np.geomspace(1e-3, 4.0, 45)])
    best, found = -np.inf, (1.0, 0.0)
    for c in cs:
        v = c * variance[None, :] + ms[:, None] * share2[None, :]
        fit = -0.5 * ((np.log(v) + error2 / v) @ weights)
        fit = fit - 0.5 * (np.log(c / _USUAL_C) / _SPREAD_OF_C) ** 2
        i = int(np.argmax(fit))
        if fit[i] > best:
            best, found = float(fit[i]), (float(c), float(ms[i]))
    return found


def _fit_rho(records: list[Record], misfit: Misfit) -> float:
    """Correlation of errors on shared items, from pairs of models left out together."""
    by_key: dict[tuple[int, int], list[Record]] = {}
    for r in records:
        by_key.setdefault((r.group, r.n), []).append(r)
    d2, total, covariance = [], [], []
    for group in by_key.values():
        v = [misfit.variance(r.variance, r.unseen_share, r.position) for r in group]
        for i, a in enumerate(group):
            for j in range(i):
                b = group[j]
                d2.append((a.error - b.error) ** 2)
                total.append(v[i] + v[j])
                shared = float(a.profile @ b.profile)
                covariance.append(2.0 * shared * (v[i] * v[j]) ** 0.5)
    if not d2:
        return 0.0
    # Pairs of the same models at several checkpoints are one observation, not many.
    share = len({r.model for r in records}) / len(d2)
    v = np.array(total) - _RHOS[:, None] * np.array(covariance)
    fit = -0.5 * share * (np.log(v) + np.array(d2) / v).sum(axis=1) - 0.5 * (_RHOS / 0.3) ** 2
    return float(_RHOS[int(np.argmax(fit))])


def summary(records: list[Record], misfit: Misfit, report: dict[str, Any]) -> dict[str, Any]:
    """What the self-check found, for a person: scores are on [0, 1]."""
    if not records:
        return {"trust": "too few models to check the bank on models left out; do not rely on it"}
    at = [r for r in records if r.n == 20] or [r for r in records if r.n == records[0].n]
    error = np.array([r.error for r in at])
    se = np.array([misfit.variance(r.variance, r.unseen_share, r.position) for r in at]) ** 0.5
    by_group: dict[int, list[tuple[float, float]]] = {}
    for r, e in zip(at, error):
        by_group.setdefault(r.group, []).append((r.variance, float(e)))
    rms = float(np.sqrt(np.mean(error**2)))
    plain = np.sqrt([r.variance for r in at])
    return {
        "trust": _in_words(len({r.model for r in at}), at[0].n, rms, error / plain, misfit),
        "models_left_out": len({r.model for r in at}),
        "items": at[0].n,
        "rms_error": rms,
        "mean_error": float(error.mean()),
        "rms_standard_error": float(np.sqrt(np.mean(se**2))),
        "z_rms_before_inflation": float(np.sqrt(np.mean((error / plain) ** 2))),
        "z_rms": float(np.sqrt(np.mean((error / se) ** 2))),
        "coverage_95": float(np.mean(np.abs(error) < 1.96 * se)),
        "inflation_c": misfit.c,
        "inflation_m": misfit.m,
        "shared_error_correlation": misfit.rho,
        **{f"fit_{k}": v for k, v in report.items() if k != "centre"},
    }


def _in_words(n_models: int, n: int, rms: float, z: Floats, misfit: Misfit) -> str:
    typical = float(np.sqrt(np.mean(z**2)))
    found = (
        f"{n_models} models left out of the calibration were estimated to {rms:.3f} (root mean "
        f"square, scores on 0 to 1) from {n} items"
    )
    if n_models < 8:
        return f"with care: {found}, but so few models say little about others"
    if typical > 4.0:
        return (
            f"with care: {found}; the response model alone would claim errors {typical:.1f} times "
            "smaller, so its standard errors were widened; models differ in ways it does not know"
        )
    if typical > 1.5:
        return (
            f"yes: {found}; standard errors were widened by what the response model misses "
            f"({typical:.1f} times its own)"
        )
    return f"yes: {found}, about as well as the response model claims"

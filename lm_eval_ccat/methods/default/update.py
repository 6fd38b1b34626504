"""New models in a bank of the method "default": one Bayesian step per item.

The bank keeps the posterior of each curve, ``c_i ~ N(c, k_i C_i)``. With the new models' scores as
data it becomes the next posterior: the noise cancels, so that the precision ``C_i^-1`` grows by
``sum_j w_ij f_j f_j' / s_j``. Noise ``k_i`` is the mean of what calibration found and what the new
residuals show, by their degrees of freedom. Residual factors, prior and misfit stay.

A model with few scores, those of an adaptive run say, has an uncertain ability. How its items were
chosen is ignorable given what it scored, but its ability must not be fitted to the item that it is
to tell of: for each item the ability is that of the model's other scores, by one step back from
the ability of all, with their variance V, and the score weighs as one of variance
``k_i s_j w + (w c' f')^2 V`` would. Full results, whose V is nearly 0, weigh as before.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaincinv, expit, logit

from ...bank.bank import ItemBank
from ...scores.table import ScoreTable
from ..curves import fit_abilities
from .calibration import fit, model_of
from .curves import item_curves
from .fractional import packed, weight
from .model import DefaultModel

Floats = NDArray[np.float64]

_CLIP = 1e-3  # as in calibration: mean scores are kept this far from 0 and 1 before the logit
_PRIOR_DF = 10.0  # models' worth of the noise that an item had before any of its own
_STEPS = 20
_NOISE_RANGE = (0.2, 5.0)
_LEAST_SPREAD = 1e-4  # of curves over items
_LOOSENED = 25.0  # by what the variance of a curve that drifted grows
_MOST_NOISE, _TINY = 0.9, 1e-3  # of a beta distribution: share of mu (1 - mu), least parameter
_FULL = 0.9  # share of the items from which on a model's ability counts as known


def absorb(bank: ItemBank, scores: Floats, names: Sequence[str]) -> ItemBank:
    """The bank with new models in it; see `Method.update`."""
    model = model_of(bank)
    items, before = model.items, len(model.items.abilities)
    seen = np.isfinite(scores)
    # Abilities are logits of mean scores, so that curves describe the estimand; a missing score
    # counts at its expectation.
    known_curves = item_curves(bank)
    rough = known_curves.expected(fit_abilities(known_curves, scores))
    mean = np.where(seen, scores, rough).mean(axis=1)
    x = np.asarray(logit(np.clip(mean, _CLIP, 1.0 - _CLIP))) - model.centre
    f = items.basis.at(x)
    y = np.where(seen, scores, 0.0)
    s = _model_noise(items.coefficients, items.noise, f, y, seen)
    share, shift = np.ones_like(y), np.zeros_like(y)
    partial = np.flatnonzero(seen.mean(axis=1) < _FULL)
    if len(partial):
        share[partial], shift[partial] = _apart(
            model, x[partial], s[partial], y[partial], seen[partial]
        )
    p = f.shape[1]
    row, column, _ = packed(p)
    known: Floats = np.empty((bank.n_items, p, p))
    known[:, row, column] = items.covariance
    known[:, column, row] = items.covariance
    scores_of = _Scores(f, s, y, seen, share, shift)
    c, inverse = scores_of.mode(items.coefficients, np.asarray(np.linalg.inv(known)))
    noise = scores_of.noise(c, items.noise, _PRIOR_DF + before)
    abilities = np.concatenate([items.abilities, x])
    made = replace(
        items,
        coefficients=c,
        covariance=np.asarray(inverse[:, row, column]),
        noise=noise,
        abilities=abilities,
        log_noise=np.concatenate([items.log_noise, np.log(s)]),
        spread=max(float(abilities.std(ddof=1)), 1e-3),
    )
    parameters = {
        **bank.parameters,
        "intercept": made.coefficients[:, 0],
        "slope": made.coefficients[:, 1],
        "noise": made.noise,
        "covariance": made.covariance,
    }
    if p > 2:
        parameters["bend"] = made.coefficients[:, 2:]
    report = dict(bank.provenance.get("report") or {})
    report["abilities"] = {
        **(report.get("abilities") or {}),
        **dict(zip(names, (x + model.centre).tolist())),
    }
    return replace(
        bank,
        parameters=parameters,
        constants={
            **bank.constants,
            "spread": made.spread,
            "abilities": made.abilities.tolist(),
            "log_noise": made.log_noise.tolist(),
        },
        provenance={**bank.provenance, "report": report},
    )


def admit(bank: ItemBank, scores: Floats, models: NDArray[np.intp]) -> dict[str, Floats]:
    """Curves of items that the bank lacks; see `Method.admit`.

    Before any score such an item is one of the bank's: its curve has their mean and covariance.
    """
    model = model_of(bank)
    items = model.items
    seen = np.isfinite(scores)
    f, s = items.basis.at(items.abilities[models]), np.exp(items.log_noise[models])
    y, even = np.where(seen, scores, 0.0), np.ones_like(scores)
    p, usual = f.shape[1], float(np.median(items.noise))
    mean = items.coefficients.mean(axis=0)
    spread = np.cov(items.coefficients, rowvar=False) + _LEAST_SPREAD * np.eye(p)
    precision = np.broadcast_to(np.linalg.inv(spread / usual), (scores.shape[1], p, p))
    scores_of = _Scores(f, s, y, seen, even, np.zeros_like(y))
    c, inverse = scores_of.mode(np.tile(mean, (scores.shape[1], 1)), precision)
    row, column, _ = packed(p)
    found = {
        "intercept": c[:, 0],
        "slope": c[:, 1],
        "noise": scores_of.noise(c, np.full(len(c), usual), _PRIOR_DF),
        "covariance": inverse[:, row, column],
    }
    if p > 2:
        found["bend"] = c[:, 2:]
    if items.loadings.shape[1]:
        found["loading"] = np.zeros((len(c), items.loadings.shape[1]))
    return found


def anew(
    bank: ItemBank, scores: Floats, names: Sequence[str], moved: NDArray[np.bool_]
) -> ItemBank:
    """The bank calibrated again on new models and drawn scores of its own; see `Method.anew`.

    Drawn scores obey the response model, so that the self-check is made of the new models alone.
    """
    before = drawn_scores(bank)
    before[:, moved & np.isfinite(scores).any(axis=0)] = np.nan
    table = ScoreTable.from_arrays(
        np.concatenate([before, scores]), [*bank.models, *names], bank.doc_ids
    )
    options = bank.provenance.get("options", {})
    made, checked = fit(table, **options), fit(table.select(names), **options)
    departures = {
        **checked.constants["departures"], "centre": made.constants["departures"]["centre"]
    }  # fmt: skip
    report = {**(bank.provenance.get("report") or {}), **made.report}
    return replace(
        bank,
        parameters=made.parameters,
        constants={**made.constants, "departures": departures},
        provenance={**bank.provenance, "report": report},
        self_check=checked.self_check,
    )


def drawn_scores(bank: ItemBank, seed: int = 0) -> Floats:
    """Scores that the bank's models may have had on its items; shape (n_models, n_items).

    They have the curves' expectations and variances, and residuals as alike between items as the
    factors make them. Each item's deviates are spread evenly over the models, so that what all of
    them say of the item is nearly what the bank knows.
    """
    model, rng = model_of(bank), np.random.default_rng(seed)
    items, n = model.items, len(model.items.abilities)
    z = rng.standard_normal((n, items.loadings.shape[1]))
    if n > 2 * max(z.shape[1], 1):
        z -= z.mean(axis=0)
        z = np.sqrt(n) * np.linalg.qr(z)[0]
    mu = expit(items.basis.at(items.abilities) @ items.coefficients.T + z @ items.loadings.T)
    kappa = np.exp(items.log_noise)[:, None] * items.noise
    u = (rng.permuted(np.tile(np.arange(n)[:, None], mu.shape[1]), axis=0) + 0.5) / n
    total = np.maximum(1.0 / np.minimum(kappa, _MOST_NOISE) - 1.0, 1e-9)
    drawn = betaincinv(np.maximum(total * mu, _TINY), np.maximum(total * (1.0 - mu), _TINY), u)
    # Where there is more noise than scores between 0 and 1 have, they are 0 and 1.
    return np.asarray(np.where(kappa >= _MOST_NOISE, u > 1.0 - mu, drawn), dtype=np.float64)


@dataclass(frozen=True)
class _Scores:
    """What items learn from: the basis at the models' abilities, their noise, and scores."""

    f: Floats
    s: Floats
    y: Floats
    seen: NDArray[np.bool_]
    share: Floats
    shift: Floats

    def mode(self, prior: Floats, precision: Floats) -> tuple[Floats, Floats]:
        """Curves, and their covariance in units of the noise, from what was known of them."""
        f, s, seen, share = self.f, self.s, self.seen, self.share
        row, column, _ = packed(f.shape[1])
        products = f[:, row] * f[:, column]
        c, inverse = prior.copy(), np.empty(precision.shape)
        data: Floats = np.empty(precision.shape)
        for _ in range(_STEPS):
            mu = expit(f @ c.T + self.shift)
            w = np.where(seen, weight(mu), 0.0) * share / s[:, None]
            data[:, row, column] = w.T @ products
            data[:, column, row] = data[:, row, column]
            inverse = np.asarray(np.linalg.inv(precision + data))
            residual = np.where(seen, self.y - mu, 0.0) * share / s[:, None]
            gradient = residual.T @ f - np.einsum("npq,nq->np", precision, c - prior)
            step = np.clip(np.einsum("npq,nq->np", inverse, gradient), -1.0, 1.0)
            c = c + step
            if np.abs(step).max() < 1e-8:
                break
        return c, inverse

    def noise(self, c: Floats, before: Floats, models: float) -> Floats:
        """Noise of the items, which counted as so many models' before."""
        share, seen = self.share, self.seen
        mu = expit(self.f @ c.T + self.shift)
        w = np.where(seen, weight(mu), 0.0) * share
        squares = np.where(seen, (self.y - mu) ** 2, 0.0) * share**2 / self.s[:, None]
        own = squares.sum(axis=0) / np.maximum(w.sum(axis=0), 1e-9)
        count = np.where(seen, share, 0.0).sum(axis=0)
        return np.asarray((before * models + own * count) / (models + count))


def loosen(bank: ItemBank, items: NDArray[np.bool_]) -> ItemBank:
    """The bank with curves of some items known a fifth as well; see `Method.loosen`."""
    covariance = bank.parameters["covariance"].copy()
    covariance[items] *= _LOOSENED
    return replace(bank, parameters={**bank.parameters, "covariance": covariance})


def _apart(
    model: DefaultModel, x: Floats, s: Floats, y: Floats, seen: NDArray[np.bool_]
) -> tuple[Floats, Floats]:
    """What items learn from models of uncertain ability.

    Returns
    -------
    share, shift : ndarray of shape (n_models, n_items)
        By what the weight of each score is multiplied, and what the item's linear predictor
        changes by where the ability is that of the model's other scores.
    """
    items = model.items
    rows = [items.basis.value_and_slope(float(one)) for one in x]
    mu = expit(np.array([value for value, _ in rows]) @ items.coefficients.T)
    slope = np.array([derivative for _, derivative in rows]) @ items.coefficients.T
    w = weight(mu)
    noise = items.noise * s[:, None]
    own = np.where(seen, w * slope**2 / noise, 0.0)  # information of each score about ability
    prior = items.prior_sd**-2
    rest = np.maximum(own.sum(axis=1, keepdims=True) + prior - own, prior)
    # Departures make the ability less certain than the scores alone would have it.
    variance = model.departures.single[0] / rest
    back = np.where(seen, slope * (y - mu) / noise, 0.0) / rest
    share = noise * w / (noise * w + (w * slope) ** 2 * variance)
    return share, -slope * back


def _model_noise(c: Floats, noise: Floats, f: Floats, y: Floats, seen: NDArray[np.bool_]) -> Floats:
    """How much noisier than usual each new model is, from its residuals on the bank's curves."""
    mu = expit(f @ c.T)
    variance = np.where(seen, weight(mu) * noise, 0.0).sum(axis=1)
    squares = np.where(seen, (y - mu) ** 2, 0.0).sum(axis=1)
    return np.asarray(np.clip(squares / np.maximum(variance, 1e-12), *_NOISE_RANGE))

"""The share of a bank's items that are joined to other documents, by full results of models.

A bank of which a part is joined to wrong documents still correlates with scores, as does a right
one with the scores of unusual models. But these depart from it in all items alike, while in a bank
that is wrong in part some items hold as they are and some say nothing. With the share ``w`` of
wrong items the scores ``y`` of item ``i`` have the likelihood

    (1 - w) f_i(y) + w g(y),

``f_i`` by the item's own curve, ``g`` by that of any item. Unusual models are allowed for: all
expected logits may be stretched by one factor, an item may depart by a normal amount, and each
model's logits are shifted to the mean of its scores; factor and spread are those that fit best, for
each ``w`` anew.
One model that answers in its own way may look like wrong items. So ``w`` must stay large whichever
models are left out.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
from scipy.special import expit, logsumexp

from ..methods.curves import Curves, fit_abilities
from ..metrics.scale import Floats

#: A smaller share of wrong items is not told from items that changed.
SMALLEST = 0.1
#: How much likelier the scores must be by a larger share.
ODDS = 10.0
#: The share that must remain whichever models are left out.
WITHOUT_SOME = 0.25
#: Shares, stretches of the logits and spreads of the items' departures that are tried.
_SHARES = np.linspace(0.0, 0.95, 20)
_STRETCHES, _SPREADS = (0.5, 0.7, 1.0, 1.4, 2.0), (0.0, 0.4, 0.8, 1.3, 2.0)
#: Gauss-Hermite quadrature, by which a normal departure is integrated out.
_NODES, _weights = np.polynomial.hermite_e.hermegauss(7)
_LOG_WEIGHTS = np.log(_weights / _weights.sum())
#: Number of items that stand for any.
_ANY_ITEMS = 24
#: Most items and models that are looked at, as each takes its time, and fewest items.
_MAX_ITEMS, _MAX_MODELS, _MIN_ITEMS = 1000, 6, 20
#: Least noise of an item, as none has certain scores.
_LEAST_NOISE = 0.02


def share_of_others(curves: Curves, scores: Floats) -> float:
    """Return the share of items that are joined to other documents; 0 where nothing proves any.

    Parameters
    ----------
    curves : Curves
        The bank's item curves.
    scores : ndarray of shape (n_models, n_items)
        On [0, 1]; NaN where missing. One model proves nothing.

    Examples
    --------
    >>> from lm_eval_ccat.methods.curves import STRAIGHT
    >>> rng = np.random.default_rng(0)
    >>> curves = Curves(np.column_stack([rng.normal(0, 2, 300), np.ones(300)]),
    ...                 np.ones(300), STRAIGHT, centre=0.0)
    >>> scores = 1.0 * (rng.random((3, 300)) < curves.expected(np.array([-0.5, 0.0, 0.5])))
    >>> moved = np.append(np.roll(np.arange(150), 1), np.arange(150, 300))
    >>> [share_of_others(curves, rows) > 0.0 for rows in (scores, scores[:, moved])]
    [False, True]
    """
    scores = scores[np.isfinite(scores).any(axis=1)]
    items = np.flatnonzero(np.isfinite(scores).any(axis=0))
    if len(items) > _MAX_ITEMS:
        items = np.sort(np.random.default_rng(0).choice(items, _MAX_ITEMS, replace=False))
    # One model may answer in its own way throughout.
    if len(scores) < 2 or len(items) < _MIN_ITEMS:
        return 0.0
    curves = replace(curves, coefficients=curves.coefficients[items], noise=curves.noise[items])
    scores = scores[:, items]
    abilities = fit_abilities(curves, scores)
    by_ability = np.argsort(abilities, kind="stable")
    # A few models, of all abilities.
    models = by_ability[np.unique(np.linspace(0, len(scores) - 1, _MAX_MODELS).round().astype(int))]
    logits, scores = curves.predictor(abilities[models]), scores[models]
    noise = np.clip(curves.noise, _LEAST_NOISE, None)
    likelihoods = _by_share(logits, scores, noise)
    share = float(_SHARES[likelihoods.argmax()])
    small = likelihoods[_SHARES <= SMALLEST + 1e-9]
    # Some documents of every benchmark change over the years.
    if likelihoods.max() - small.max() < math.log(ODDS):
        return 0.0
    n_parts = min(len(models), 3)
    # One model that answers in its own way may look like wrong items.
    for part in range(n_parts):
        staying = np.arange(len(models)) % n_parts != part
        likelihoods_without_part = _by_share(logits[staying], scores[staying], noise)
        if _SHARES[likelihoods_without_part.argmax()] < WITHOUT_SOME - 1e-9:
            return 0.0
    return share


def _by_share(logits: Floats, scores: Floats, noise: Floats) -> Floats:
    """Return the log likelihood of each of `_SHARES`, by the stretch and spread that fit it best.

    Parameters
    ----------
    logits, scores : ndarray of shape (n_models, n_items)
    noise : ndarray of shape (n_items,)
        Variance of an item's scores about its curve, as a multiple of mu (1 - mu).
    """
    centred = logits - logits.mean(axis=1, keepdims=True)
    by_ease = np.argsort(centred.mean(axis=0), kind="stable")
    n = len(by_ease)
    # Items of all difficulties, whose curves stand for that of any item.
    any_items = by_ease[np.linspace(0, n - 1, min(_ANY_ITEMS, n)).round().astype(int)]
    best = np.full(len(_SHARES), -np.inf)
    with np.errstate(divide="ignore"):
        log_right, log_wrong = np.log(1.0 - _SHARES)[:, None], np.log(_SHARES)[:, None]
    for spread in _SPREADS:
        for stretch in _STRETCHES:
            shifted = _shifted(stretch * centred, scores, spread)
            by_own_curves = _by_own_curves(shifted, scores, noise, spread)
            by_any_curve = _by_any_curve(shifted[:, any_items], scores, noise, spread)
            # log of (1 - w) f_i + w g, summed over the items.
            mixed = np.logaddexp(log_right + by_own_curves, log_wrong + by_any_curve).sum(axis=1)
            best = np.maximum(best, mixed)
    return best


def _shifted(logits: Floats, scores: Floats, spread: float) -> Floats:
    """Return logits shifted, model by model, to where expected scores have the scores' mean."""
    # Newton's steps, none of more than a logit.
    present, shift = np.isfinite(scores), np.zeros((len(logits), 1))
    weights = np.exp(_LOG_WEIGHTS)
    for _ in range(25):
        expected = expit((logits + shift)[:, :, None] + spread * _NODES)
        surprise = np.where(present, scores - expected @ weights, 0.0).sum(axis=1, keepdims=True)
        slope = np.where(present, (expected * (1.0 - expected)) @ weights, 0.0)
        step = np.clip(surprise / (slope.sum(axis=1, keepdims=True) + 1e-9), -1.0, 1.0)
        shift = shift + step
        if np.abs(step).max() < 1e-4:
            break
    return np.asarray(logits + shift)


def _by_own_curves(logits: Floats, scores: Floats, noise: Floats, spread: float) -> Floats:
    """Return each item's log likelihood if its scores are of its own document; (n_items,).

    It is ``log sum_q W_q exp(sum_j (y_j eta_jq - log(1 + exp(eta_jq))) / noise)`` over models j and
    nodes q, ``eta_jq`` being the logit plus `spread` times the node: a normal departure of the
    item's logits, the same for all models, is integrated out. Constants that the logits do not
    change are left out here and in `_by_any_curve`.
    """
    logits_at_nodes = logits[:, :, None] + spread * _NODES
    terms = np.nan_to_num(scores)[:, :, None] * logits_at_nodes
    terms -= np.logaddexp(0.0, logits_at_nodes)
    by_node = np.where(np.isfinite(scores)[:, :, None], terms, 0.0).sum(axis=0)
    return np.asarray(logsumexp(by_node / noise[:, None] + _LOG_WEIGHTS, axis=1))


def _by_any_curve(logits: Floats, scores: Floats, noise: Floats, spread: float) -> Floats:
    """Return what `_by_own_curves` does, each item by all curves of `logits` alike; (n_items,).

    Parameters
    ----------
    logits : ndarray of shape (n_models, n_curves)
    """
    logits_at_nodes = (logits[:, :, None] + spread * _NODES).reshape(len(logits), -1)
    by_node = np.nan_to_num(scores).T @ logits_at_nodes
    by_node -= np.isfinite(scores).T @ np.logaddexp(0.0, logits_at_nodes)
    weights = np.tile(_LOG_WEIGHTS, logits.shape[1]) - math.log(logits.shape[1])
    return np.asarray(logsumexp(by_node / noise[:, None] + weights, axis=1))

"""How far models that no bank knows depart from its response model, and what draws say of it.

A response model knows the noise of scores, not that no model follows it. With ``U`` the items that
a model has not been asked, ``u = |U| / N`` and ``t`` the response model's estimate, the score of
the whole benchmark is ``t + u beta``, with ``beta`` the model's mean departure over ``U``. The
departures of all models of a ranking are jointly Student a priori, ``beta ~ t(0, M)``, with
variances fitted on models left out of the calibration, and those of differences on pairs of them:

    V_a  = c v_a + m + g (t_a - centre)^2,        V_ab = c' (v_a + v_b) + m' + g' (t_a - t_b)^2,
    M_aa = l_a V_a,        M_ab = min(l_a, l_b) (V_a + V_b - V_ab) / 2;

``v`` is what the chosen items leave open of the mean over ``U`` if the response model is true. It
is larger for a model that may be better or weaker than all of the bank: the response model takes
its curves for known there, and they are not. ``l`` grows with the distance, and what it adds to one
model alone is no other's. Models close to one another depart alike: that is ``g'``.
Draws measure ``beta``: their weighted mean residual is ``N(beta, T)``, so that

    E beta = M (M + T)^-1 rbar,       Var beta = M - M (M + T)^-1 M,

averaged over scales of ``M`` (the tails of Student's distribution). With few draws the bank speaks,
with many the sample does: ``M`` drops out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.lapack import dpotrf, dsygvd

from ..belief import Floats
from .fractional import FractionalItems

#: Items before the first draw: with fewer the ability is too rough to choose by (replays).
FIRST = 10
#: Share of draws with a bank of many models, found by replays: what these draws are to find, models
#: unlike all of the bank, is rare then.
SHARE_OF_MANY = 0.2
PRIOR_DF = 4.0  # models that what is usual of a variance counts as
TAIL_DF = 5.0  # of the distribution of departures
SCALES = 4.0 ** np.arange(-1.0, 5.0)
_SCALE_COLUMN = SCALES[:, None]
_SCALE_PRIOR = -0.5 * TAIL_DF * np.log(SCALES) - (0.5 * TAIL_DF - 1.0) / SCALES
#: Outside the bank's range: growth of variances per standard deviation, and what is added to ``v``
#: of a model that is surely there.
PER_DISTANCE, OUTSIDE = 1.0, 0.003
_LEAST = 1e-12
UNKNOWN = 1e6  # variance of a mean residual without draws
_LEAST_EIGENVALUE = 1e-3  # of M, relative to its largest variance
USUAL = 2.0  # ``c``
LEAST_SCALE = 1.4  # ``c`` with many models, of which replays show 0.6 to 1.1


@dataclass(frozen=True)
class Departures:
    """Prior of departures.

    Attributes
    ----------
    single, pair : ndarray of shape (3,)
        ``c, m, g`` of one model and of a difference.
    centre : float
        Mean score of the calibration models.
    noise, floor : float
        A residual on an item has the variance ``noise`` times the response model's, plus ``floor``.
    rho : float
        Correlation of two models' residuals on one item.
    inflation, inflation_of_pairs : float
        What squared errors of the whole procedure exceed the stated variances by.
    df : float
        Degrees of freedom of all this.
    """

    single: Floats
    pair: Floats
    centre: float = 0.5
    noise: float = 1.0
    floor: float = 0.0
    rho: float = 0.0
    inflation: float = 1.0
    inflation_of_pairs: float = 1.0
    df: float = PRIOR_DF

    def prior(self, v: Floats, t: Floats, level: Floats) -> Floats:
        """``M``; shape (n_models, n_models).

        Parameters
        ----------
        v, t, level : ndarray of shape (n_models,)
            As above.
        """
        (c, m, g), (c2, m2, g2) = self.single.tolist(), self.pair.tolist()
        single = c * v + m + g * (t - self.centre) ** 2 + _LEAST
        pair = c2 * (v[:, None] + v) + m2 + g2 * (t[:, None] - t) ** 2
        M = single[:, None] + single
        M = 0.5 * (M - np.clip(pair, _LEAST, M)) * np.minimum(level[:, None], level)
        np.fill_diagonal(M, single * level)
        return positive(M, float(single.max()))

    def to_dict(self) -> dict[str, Any]:
        """JSON values."""
        values = self.__dict__.items()
        return {k: v.tolist() if isinstance(v, np.ndarray) else float(v) for k, v in values}

    @classmethod
    def from_dict(cls, d: dict[str, Any]) -> Departures:
        """The inverse of `to_dict`.

        Raises
        ------
        ValueError
            A value out of range.
        """
        single, pair = (np.array(d[k], dtype=np.float64) for k in ("single", "pair"))
        rest = {k: float(d[k]) for k in cls.__dataclass_fields__ if k not in ("single", "pair")}
        positive = ("noise", "inflation", "inflation_of_pairs", "df")
        if not (
            single.shape == pair.shape == (3,)
            and min(single.min(), pair.min()) >= 0.0
            and all(rest[k] > 0.0 for k in positive)
            and 0.0 <= rest["rho"] < 1.0
        ):
            raise ValueError("the departures are out of range")
        return cls(single=single, pair=pair, **rest)


#: Where nothing could be measured (fewer models than a check needs, or a bank of an older version):
#: about the largest that tables with enough models showed.
VAGUE = Departures(
    single=np.array([4.0, 0.001, 0.04]), pair=np.array([4.0, 0.001, 0.04]), floor=0.02
)


@dataclass(frozen=True)
class DefaultModel:
    """All that the method needs of a bank: item curves, and departures from them.

    Attributes
    ----------
    items : FractionalItems
    departures : Departures
    centre : float
        Ability at the items' origin, in logits.
    share : float, optional
        Share of draws among the items that follow the first ones, or 1 where all items are drawn;
        else at least half, and more where a draw tells more.
    kept : ndarray of bool, shape (n_items,), optional
        Items that may be asked (default: all); what is drawn among them stands for the others.
    """

    items: FractionalItems
    departures: Departures
    centre: float = 0.0
    share: float | None = None
    kept: NDArray[np.bool_] | None = None

    @property
    def first(self) -> int:
        """Items before the first draw."""
        return 0 if self.share == 1.0 else FIRST


def positive(M: Floats, largest: float) -> Floats:
    """`M`, made a covariance matrix of no eigenvalue below a share of its `largest` variance."""
    least = _LEAST_EIGENVALUE * largest
    # Nearly always it is one as it stands, and this is the quick way to know.
    lower = M.copy()
    lower.flat[:: len(M) + 1] -= least
    if dpotrf(lower, clean=0, overwrite_a=1)[1] == 0:
        return M
    value, vector = np.linalg.eigh(M)
    return np.asarray((vector * np.maximum(value, least)) @ vector.T)


def posterior(M: Floats, T: Floats, rbar: Floats) -> tuple[Floats, Floats]:
    """Mean and covariance of departures, given the draws' mean residuals.

    Parameters
    ----------
    M, T : ndarray of shape (n_models, n_models)
        Prior scale, positive definite, and covariance of `rbar`; `UNKNOWN` on its diagonal for a
        model without draws.
    rbar : ndarray of shape (n_models,)
    """
    known, prior, here = M, M, rbar
    if max(T.diagonal().tolist()) >= UNKNOWN:
        at = np.flatnonzero(T.diagonal() < UNKNOWN)
        if not len(at):
            w = np.exp(_SCALE_PRIOR - _SCALE_PRIOR.max())
            return np.zeros(len(M)), M * (w.dot(SCALES) / w.sum())
        some = at[:, None], at
        T, prior, known, here = T[some], M[some], M[:, at], rbar[at]
    # With V' M V = 1 and V' T V = diag(q), V' (s M + T) V = diag(s + q): one eigenproblem serves
    # all scales.
    q, V, failed = dsygvd(T, prior)
    if failed:
        raise np.linalg.LinAlgError("the prior of departures is not positive definite")
    axes, along = known.dot(V), here.dot(V)
    total = _SCALE_COLUMN + np.maximum(q, 0.0)
    log = np.log(total)
    log += along * along / total
    log = _SCALE_PRIOR - 0.5 * np.add.reduce(log, 1)
    w = np.exp(log - max(log.tolist()))
    w /= sum(w.tolist())
    kept = _SCALE_COLUMN / total
    scaled = w * SCALES
    means = (kept * along).dot(axes.T)
    mean = w.dot(means)
    means -= mean
    covariance = (means.T * w).dot(means)
    covariance -= (axes * scaled.dot(kept)).dot(axes.T)
    covariance += sum(scaled.tolist()) * M
    covariance += covariance.T.copy()
    covariance *= 0.5
    return mean, covariance


def spread(V: Floats) -> Floats:
    """Variances of all differences, from a covariance matrix."""
    d = V.diagonal()
    out = d[:, None] + d
    out -= 2.0 * V
    return np.maximum(out, _LEAST, out=out)


def fit_components(records: Floats, n_models: int, many: bool) -> Floats:
    """``c, m, g`` of ``E e2 = level (c v + m + g distance^2)`` by quasi-likelihood.

    Records of one model (or pair) count as one, all together as `n_models`. Two pseudo-records
    stand for what is usual: ``c`` about 2, and a scale wrong by a tenth.

    Where `many` models calibrate, ``m`` and ``g`` are 0: what many models do not show is no reason
    to doubt the next one, for as more is seen of it, it departs less. ``c`` is then no less than
    `LEAST_SCALE`, for a few odd models make it, which a sample of them may lack. Models beyond all
    of the bank still have their level.

    Parameters
    ----------
    records : ndarray of shape (5, n_records)
        Key of the model or pair, squared error, ``v``, squared distance, level.
    n_models : int
    many : bool
    """
    key, e2, v, distance, level = records
    _, at, count = np.unique(key, return_inverse=True, return_counts=True)
    weight, widened = n_models / len(count) / count[at], 1.0 + 2.0 / n_models
    if many:
        ratio = widened * e2 / np.maximum(level * v, _LEAST)
        c = float(weight @ ratio + 2.0 * USUAL) / float(weight.sum() + 2.0)
        return np.array([max(c, LEAST_SCALE), 0.0, 0.0])
    X = np.column_stack([v, np.ones_like(v), distance])
    X = np.vstack([X, np.diag(X.mean(0))[[0, 2]]])
    e2 = np.append(np.maximum(e2, 0.0) * widened / level, [USUAL * X[-2, 0], 0.01 * X[-1, 2]])
    start = np.array([USUAL, max(e2[:-2].mean(), 1e-9), 0.01])
    return _quasi_fit(X, e2, np.append(weight, [2.0, 1.0]), start)


def fit_noise(expected: Floats, observed: Floats) -> tuple[float, float]:
    """``a, b`` of ``observed = a expected + b`` by quasi-likelihood; shapes (n_records,)."""
    X, start = np.column_stack([expected, np.ones(len(expected))]), float(expected.mean())
    observed = np.maximum(observed, _LEAST)
    a, b = _quasi_fit(X, observed, np.ones(len(X)), np.array([0.9, 0.1 * max(start, 1e-9)]))
    return max(float(a), 1e-3), float(b)


def _quasi_fit(X: Floats, e2: Floats, weight: Floats, theta: Floats) -> Floats:
    """Coefficients, at least 0, of ``E e2 = X theta`` for squares of such a variance."""
    for _ in range(200):
        V = np.maximum(X @ theta, _LEAST)
        theta = theta * np.sqrt((weight * e2 / V**2) @ X / np.maximum((weight / V) @ X, 1e-300))
    return np.asarray(theta)

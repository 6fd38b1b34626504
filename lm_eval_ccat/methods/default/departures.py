"""How far new models depart from a bank's response model: prior, and posterior given draws.

A response model describes the noise of scores, but no model follows it exactly. With ``U`` the
items without a score of a model, ``u = |U| / N`` and ``t`` the response model's estimate, the
score of the whole benchmark is ``t + u beta``, with ``beta`` the model's *departure*, its mean
residual (score less expected score) over ``U``. The departures of all models of a ranking have a
joint Student prior, ``beta ~ t(0, M)``. Its variances are fitted on models left out of the
calibration, those of differences on pairs of them:

    V_a  = c v_a + m + g (t_a - centre)^2,        V_ab = c' (v_a + v_b) + m' + g' (t_a - t_b)^2,
    M_aa = l_a (V_a + c (f_a - 1) v_a),        M_ab = min(l_a, l_b) (V_a + V_b - V_ab) / 2;

``v`` is the variance of the mean expected score over ``U`` that the chosen items leave if the
response model is true (`Member.open_variance`). It is larger for a model that may be better or
weaker than all of the bank, where the curves are extrapolated. ``l`` grows with the distance
(`Member.inflation`), and ``f`` with how much more than usual a model's own answers are off
(`Member.misfit`). What these add to one model is independent of all others: two models that refuse
a tenth of the items refuse different ones. ``c``, ``m``, ``g`` and, of pairs, ``c'``, ``m'``,
``g'`` are the bank's; models close to one another depart alike, which is ``g'``.
Draws measure ``beta``: their weighted mean residual ``rbar`` is ``N(beta, T)``, so that

    E beta = M (M + T)^-1 rbar,       Var beta = M - M (M + T)^-1 M,

averaged over scales of ``M`` (the tails of Student's distribution). With few draws the bank
dominates, with many the sample does: ``M`` drops out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.lapack import dpotrf, dsygvd

from ...metrics.scale import Floats
from .fractional import FractionalItems

#: Items before the first draw: with fewer the ability is too rough to choose by (replays).
FIRST = 10
#: Share of draws with a bank of many models, found by replays: models unlike all of the bank, which
#: draws are meant to find, are rare then.
SHARE_OF_MANY = 0.2
PRIOR_DF = 4.0  # a variance fitted to left-out models counts its usual value as so many more
TAIL_DF = 5.0  # of Student's distribution of departures
#: Scales of ``M`` over which a Student variable is a mixture of normal ones, and the log of their
#: prior weights: the scale is an inverse gamma variable of mean 1.
SCALES = 4.0 ** np.arange(-1.0, 5.0)
_SCALE_COLUMN = SCALES[:, None]
_SCALE_PRIOR = -0.5 * TAIL_DF * np.log(SCALES) - (0.5 * TAIL_DF - 1.0) / SCALES
#: Outside the bank's range: growth of ``l`` per standard deviation of the bank's abilities, and
#: addition to ``v`` for a model that is certainly there.
PER_DISTANCE, OUTSIDE = 1.0, 0.003
_LEAST = 1e-12
UNKNOWN = 1e6  # variance of a mean residual without draws
_LEAST_EIGENVALUE = 1e-3  # of M, relative to its largest variance
USUAL_SCALE = 2.0  # ``c``
LEAST_SCALE = 1.4  # ``c`` with many models, of which replays show 0.6 to 1.1


@dataclass(frozen=True)
class Departures:
    """Prior of departures, as a bank holds it.

    Attributes
    ----------
    single, pair : ndarray of shape (3,)
        ``c, m, g`` of one model, and ``c', m', g'`` of a difference.
    centre : float
        Mean score of the calibration models.
    noise, floor : float
        A residual (score less expected score) on an item has the variance ``noise`` times the
        response model's, plus ``floor``.
    rho : float
        Correlation of two models' residuals on one item.
    inflation, inflation_of_pairs : float
        Factor, at least 1 as fitted, on the variances of estimates and of their differences: by how
        much squared errors exceeded these in replays.
    df : float
        Degrees of freedom of these variances.
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

    def prior(self, v: Floats, misfit: Floats, t: Floats, inflation: Floats) -> Floats:
        """Return ``M``, the covariance of departures before any draw; shape (n_models, n_models).

        Parameters
        ----------
        v, misfit, t, inflation : ndarray of shape (n_models,)
            See the module's docstring, where `misfit` is ``f``.
        """
        (c, m, g), (c2, m2, g2) = self.single.tolist(), self.pair.tolist()
        single = c * v + m + g * (t - self.centre) ** 2 + _LEAST
        pair = c2 * (v[:, None] + v) + m2 + g2 * (t[:, None] - t) ** 2
        M = single[:, None] + single
        # No covariance is below 0.
        M = 0.5 * (M - clipped(pair, _LEAST, M)) * np.minimum(inflation[:, None], inflation)
        single += c * (misfit - 1.0) * v
        set_diagonal(M, single * inflation)
        return positive_definite(M, max(single.tolist()))

    def doubted(self) -> Departures:
        """Return the prior widened to at least `VAGUE`, for models asked unlike the bank's."""
        return replace(
            self,
            single=np.maximum(self.single, VAGUE.single),
            pair=np.maximum(self.pair, VAGUE.pair),
            floor=max(self.floor, VAGUE.floor),
            df=min(self.df, VAGUE.df),
        )

    def to_dict(self) -> dict[str, Any]:
        """Return JSON values."""
        values = self.__dict__.items()
        return {k: v.tolist() if isinstance(v, np.ndarray) else float(v) for k, v in values}

    @classmethod
    def from_dict(cls, content: dict[str, Any]) -> Departures:
        """Rebuild from `to_dict`.

        Raises
        ------
        ValueError
            A value out of range.
        """
        single, pair = (np.array(content[k], dtype=np.float64) for k in ("single", "pair"))
        scalars = {
            k: float(content[k]) for k in cls.__dataclass_fields__ if k not in ("single", "pair")
        }
        positive = ("noise", "inflation", "inflation_of_pairs", "df")
        if not (
            single.shape == pair.shape == (3,)
            and min(single.min(), pair.min()) >= 0.0
            and all(scalars[k] > 0.0 for k in positive)
            and 0.0 <= scalars["rho"] < 1.0
        ):
            raise ValueError("the departures are out of range")
        return cls(single=single, pair=pair, **scalars)


#: Used where nothing was measured, with fewer models than a check needs: about the largest
#: departures that tables with enough models showed.
VAGUE = Departures(
    single=np.array([4.0, 0.001, 0.04]), pair=np.array([4.0, 0.001, 0.04]), floor=0.02
)


@dataclass(frozen=True)
class DefaultModel:
    """The parts of a bank that the method needs: item curves, and departures from them.

    Attributes
    ----------
    items : FractionalItems
    departures : Departures
    centre : float
        Ability at the items' origin, in logits.
    share : float, optional
        Share of draws among the items after the first `FIRST`; with 1 these are drawn, too.
        Default: at least half, and more where a draw tells more.
    kept_items : ndarray of bool, shape (n_items,), optional
        Items that may be asked (default: all); draws among them represent the others.
    within : ndarray of shape (n_items,), optional
        Variance of a sampled answer within its item, per ``mu (1 - mu)``, if it was measured.
    """

    items: FractionalItems
    departures: Departures
    centre: float = 0.0
    share: float | None = None
    kept_items: NDArray[np.bool_] | None = None
    within: Floats | None = None

    @property
    def first(self) -> int:
        """Number of items before the first draw."""
        return 0 if self.share == 1.0 else FIRST


def positive_definite(M: Floats, largest: float) -> Floats:
    """Return `M` with eigenvalues raised to at least a share of its `largest` variance."""
    smallest = _LEAST_EIGENVALUE * largest
    # Nearly always none is below; a Cholesky decomposition is the quick way to know.
    lower = M.copy()
    lower.flat[:: len(M) + 1] -= smallest
    if dpotrf(lower, clean=0, overwrite_a=1)[1] == 0:
        return M
    value, vector = np.linalg.eigh(M)
    return np.asarray((vector * np.maximum(value, smallest)) @ vector.T)


def posterior(M: Floats, T: Floats, rbar: Floats) -> tuple[Floats, Floats]:
    """Return mean and covariance of departures, given the draws' mean residuals.

    Shapes (n_models,) and (n_models, n_models). The module's docstring has the formulas; both are
    averaged over the scales of ``M``, by how likely each makes `rbar`.

    Parameters
    ----------
    M : ndarray of shape (n_models, n_models)
        Prior covariance of departures at scale 1; positive definite.
    T : ndarray of shape (n_models, n_models)
        Covariance of the errors of `rbar`; `UNKNOWN` on its diagonal for a model without draws.
    rbar : ndarray of shape (n_models,)
        Mean residual of each model's draws.
    """
    # Covariances of all departures with those of models that have draws, and of the latter.
    with_drawn, prior, residual = M, M, rbar
    # Only models with draws measure departures. The others learn from them as far as they are
    # alike, by the columns of ``M``.
    if max(T.diagonal().tolist()) >= UNKNOWN:
        drawn = np.flatnonzero(T.diagonal() < UNKNOWN)
        # Without draws, the prior averaged over the scales is all that is known.
        if not len(drawn):
            weights = np.exp(_SCALE_PRIOR - _SCALE_PRIOR.max())
            return np.zeros(len(M)), M * (weights.dot(SCALES) / weights.sum())
        block = drawn[:, None], drawn
        T, prior, with_drawn, residual = T[block], M[block], M[:, drawn], rbar[drawn]
    # For V with V' M V = 1 and V' T V = diag(eigenvalues), V' (s M + T) V = diag(s + eigenvalues):
    # one eigenproblem serves all scales s.
    eigenvalues, V, failed = dsygvd(T, prior)
    if failed:
        raise np.linalg.LinAlgError("the prior of departures is not positive definite")
    axes, along = with_drawn.dot(V), residual.dot(V)
    # How likely each scale makes the residuals: minus half the log determinant and the squares.
    total = _SCALE_COLUMN + np.maximum(eigenvalues, 0.0)
    deviance = np.log(total)
    deviance += along * along / total
    log_weights = _SCALE_PRIOR - 0.5 * np.add.reduce(deviance, 1)
    weights = np.exp(log_weights - max(log_weights.tolist()))
    weights /= sum(weights.tolist())
    # At each scale the mean is M V (s / (s + eigenvalues)) V' rbar. The covariance is that within
    # scales, averaged, and that of these means.
    gain = _SCALE_COLUMN / total
    scaled = weights * SCALES
    means = (gain * along).dot(axes.T)
    mean = weights.dot(means)
    means -= mean
    covariance = (means.T * weights).dot(means)
    covariance -= (axes * scaled.dot(gain)).dot(axes.T)
    covariance += sum(scaled.tolist()) * M
    covariance += covariance.T.copy()
    covariance *= 0.5
    return mean, covariance


def clipped(values: Floats, low: Floats | float, high: Floats | float) -> Floats:
    """Do as `numpy.clip`, whose checks take most of its time where a few models are ranked."""
    return np.asarray(np.minimum(np.maximum(values, low), high))


def set_diagonal(matrix: Floats, values: Floats | float) -> None:
    """Do as `numpy.fill_diagonal`, whose checks take most of its time."""
    matrix.flat[:: len(matrix) + 1] = values


def spread(V: Floats) -> Floats:
    """Return the variances of all differences, from a covariance matrix."""
    single = V.diagonal()
    out = single[:, None] + single
    out -= 2.0 * V
    return np.maximum(out, _LEAST, out=out)


class SquaredDepartures(NamedTuple):
    """Squared departures of models left out, or of pairs of them, as replays found them.

    Arrays of shape (n_records,); a model or pair has a record for each replay and number of items.

    Attributes
    ----------
    key : ndarray
        Number of the model or pair.
    square : ndarray
        The squared departure (of a pair, difference of departures), less what noise adds to it.
    variance : ndarray
        ``v``, misfit included; of a pair the sum of both.
    square_distance : ndarray
        Of a model's score from the mean of the bank's models, or of two models' scores.
    inflation : ndarray
        ``l``, of a pair the smaller one.
    """

    key: NDArray[Any]
    square: Floats
    variance: Floats
    square_distance: Floats
    inflation: Floats

    @classmethod
    def joined(cls, parts: Sequence[SquaredDepartures]) -> SquaredDepartures:
        """Return the records of all parts."""
        return cls(*(np.hstack(figures).astype(np.float64) for figures in zip(*parts)))


def fit_components(records: SquaredDepartures, n_models: int, *, many: bool) -> Floats:
    """Fit ``c, m, g`` of ``E square = inflation (c v + m + g square_distance)``.

    The records of one model (or pair) count as one, and all together as `n_models`. Two
    pseudo-records express the usual values: `USUAL_SCALE` for ``c``, and 0.01 for ``g``, which is
    a scale of scores wrong by a tenth. Fewer models make all squares count for more, by the factor
    ``1 + 2 / n_models``. The fit is by quasi-likelihood.

    With `many` calibration models, ``m`` and ``g`` are 0, because departures then shrink as more
    items are seen. ``c`` is at least `LEAST_SCALE`, because it depends on a few odd models, which a
    sample may lack. The ``inflation`` still widens the prior of a model beyond all of the bank.

    Parameters
    ----------
    records : SquaredDepartures
    n_models : int
        Different models behind the records, pairs or not.
    many : bool
        Whether there are at least `items.MANY` calibration models.

    Returns
    -------
    ndarray of shape (3,)
    """
    square, v, inflation = records.square, records.variance, records.inflation
    _, case, count = np.unique(records.key, return_inverse=True, return_counts=True)
    weight, widened = n_models / len(count) / count[case], 1.0 + 2.0 / n_models
    # A ratio of squares to variances is all there is to fit: its weighted mean, with the usual
    # value counted twice.
    if many:
        ratio = widened * square / np.maximum(inflation * v, _LEAST)
        c = float(weight @ ratio + 2.0 * USUAL_SCALE) / float(weight.sum() + 2.0)
        return np.array([max(c, LEAST_SCALE), 0.0, 0.0])
    columns = np.column_stack([v, np.ones_like(v), records.square_distance])
    # The last two rows are the pseudo-records, of average size.
    columns = np.vstack([columns, np.diag(columns.mean(0))[[0, 2]]])
    usual = [USUAL_SCALE * columns[-2, 0], 0.01 * columns[-1, 2]]
    square = np.append(np.maximum(square, 0.0) * widened / inflation, usual)
    start = np.array([USUAL_SCALE, max(square[:-2].mean(), 1e-9), 0.01])
    return _quasi_fit(columns, square, np.append(weight, [2.0, 1.0]), start)


def fit_noise(expected: Floats, observed: Floats) -> tuple[float, float]:
    """Fit ``a, b`` of ``observed = a expected + b``; return `Departures.noise` and `floor`.

    Parameters
    ----------
    expected, observed : ndarray of shape (n_records,)
        Variances of residuals, by the response model and as replays show them.
    """
    columns, mean = np.column_stack([expected, np.ones(len(expected))]), float(expected.mean())
    observed = np.maximum(observed, _LEAST)
    a, b = _quasi_fit(
        columns, observed, np.ones(len(columns)), np.array([0.9, 0.1 * max(mean, 1e-9)])
    )
    return max(float(a), 1e-3), float(b)


def _quasi_fit(X: Floats, square: Floats, weight: Floats, theta: Floats) -> Floats:
    """Return the coefficients, at least 0, of ``V = E square = X theta`` for squared errors.

    They maximise the gamma quasi-likelihood ``-sum of weight (log V + square / V)``, by steps that
    multiply each coefficient by the root of a ratio, from `theta` on.
    """
    for _ in range(200):
        V = np.maximum(X @ theta, _LEAST)
        theta = theta * np.sqrt((weight * square / V**2) @ X / np.maximum((weight / V) @ X, 1e-300))
    return np.asarray(theta)

"""Fit of the method "default": item curves, noise and residual factors from scores.

Everything is shrunk towards what the items have in common, by amounts estimated from the scores:

- a model's ability is the logit of its mean score, so that curves describe the estimand;
- curves ``c_i`` have a normal prior (slope about 1, bends about 0) whose variances are fitted by
  expectation-maximisation over all items; the mode is found by Newton steps (`_fit_curves`);
- models that fit the curves badly (mostly weak outliers) count less: each model has its own
  noise ``s_j``, estimated together with the curves;
- an item's noise ``k_i`` is shrunk to that of items of similar difficulty;
- residual factors are singular vectors of the Pearson residuals (residuals over their standard
  deviations), less what noise alone would make of them (`Cells._above_noise`).

Matrices of an item's p coefficients are *packed*: their upper triangle, by row.

The Newton steps of the curves need only the sum of the residuals at each ability. Thousands of
models are therefore divided into groups, each a twentieth of their spread wide (up to a tenth of it
and more, where items or outliers are many). Curves are evaluated at a group's mean ability, and the
slope there accounts for each model's distance from it. The error is the curve's second derivative
over half a group, some 3e-5 of a score, whereas the mean of an item over 1,000 models is known to
1e-2. Scores are read in parts that fit the processor's cache; a large table is never copied as a
whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh
from scipy.special import logit

from ...metrics.scale import Floats
from ...scores.table import Overview, Positions, ScoreTable
from ..belief import Indices
from ..curves import AbilityBasis
from .fractional import FractionalItems, packed, weight

ITERATIONS = 14  # Newton steps of the curves
BENDS_FROM = (8, 15, 30)  # numbers of models from which curves have one, two and three bends
#: Number of models from which a bank shows by itself how far new ones depart from it.
MANY = 200
FACTORS, FACTORS_OF_MANY = 2, 8  # of the residuals, at most
_PRIOR_DF = 10.0  # residuals that the usual noise of items as easy counts as, beside an item's own
_PRIOR_WIDTH = 1.5  # standard deviation of a new model's ability, in those of calibration
_CLIP = 1e-3  # mean scores are kept this far from 0 and 1 before the logit
_NARROWEST = 0.05  # logits; models closer together tell nothing about slopes
_LEAST_NOISE = 1e-6
_MATRICES_AT_ONCE = 4096  # matrices whose entries fit the processor's cache
#: With fewer models or cells, models are not grouped.
FEWEST_MODELS, FEWEST_CELLS = 500, 5_000_000
_CELLS_AT_ONCE = 1 << 17  # cells read at a time
_GROUP_WIDTH = 0.05  # of a group, in standard deviations of ability
_LEAST_GROUPS, _MOST_GROUPS = 60, 200
_GROUP_CELLS = 4_000_000  # most groups times items, unless that leaves too few groups
_MORE_DIRECTIONS = 8  # directions in addition to the factors, which speed up convergence
_MOST_ROUNDS = 12  # of the iteration that finds the factors
_TOLERANCE = 1e-3  # of a round: relative change of a singular value

#: Scores on [0, 1] of some of the models, NaN where missing.
Read = Callable[[Positions], Floats]


class SingularVectors(NamedTuple):
    """Singular values less their noise, each with a vector over the models and one over the items.

    Attributes
    ----------
    left : ndarray of shape (n_models, q)
    size : ndarray of shape (q,)
    right : ndarray of shape (n_items, q)
    """

    left: Floats
    size: Floats
    right: Floats


class PartResiduals(NamedTuple):
    """Residuals of the models of one part, and what they are weighed by.

    Attributes
    ----------
    points : slice
        The part's abilities at which curves are evaluated, among all (see `Cells`).
    rows : slice or ndarray of int
        The models.
    residual : ndarray of shape (n_models of the part, n_items)
        0 where a score is missing.
    weights : ndarray of shape (n_points of the part, n_items)
        ``w`` of `Cells`.
    present : ndarray of shape (n_models of the part, n_items), or None
        1 where there is a score, else 0; None where no score is missing.
    """

    points: slice
    rows: Positions
    residual: Floats
    weights: Floats
    present: Floats | None


class Derivatives(NamedTuple):
    """Sums over scores, and derivatives of the likelihood in an item's ``p`` coefficients.

    Attributes
    ----------
    squares, total : ndarray of shape (n_models,)
        Sums over the items seen of squared residuals and of ``mu (1 - mu)``.
    hessian : ndarray of shape (n_items, p (p + 1) / 2)
        That of the scores, without the prior; packed.
    gradient : ndarray of shape (n_items, p)
    """

    squares: Floats
    total: Floats
    hessian: Floats
    gradient: Floats


class Unexplained(NamedTuple):
    """What the curves do not explain.

    Attributes
    ----------
    loadings : ndarray of shape (n_items, q)
        Loadings of the residual factors.
    squares : ndarray of shape (n_items,)
        Sum of squared residuals after the factors, in units of the models' noise.
    mass : ndarray of shape (n_items,)
        Sum of ``mu (1 - mu)`` over the models with a score.
    hessian : ndarray of shape (n_items, p (p + 1) / 2)
        As in `Derivatives`.
    """

    loadings: Floats
    squares: Floats
    mass: Floats
    hessian: Floats


class CurveFit(NamedTuple):
    """Fitted curves.

    Attributes
    ----------
    coefficients : ndarray of shape (n_items, p)
    inverse : ndarray of shape (n_items, p (p + 1) / 2)
        Packed inverse Hessians: times an item's noise, the covariance of its coefficients.
    model_noise : ndarray of shape (n_models,)
        ``s_j``, of which the geometric mean is 1.
    slope_variance, bend_variance : float
        Of the prior.
    """

    coefficients: Floats
    inverse: Floats
    model_noise: Floats
    slope_variance: float
    bend_variance: float


@dataclass(frozen=True)
class ItemFit:
    """Fitted items, the mean of all scores, and what the fit says of itself."""

    items: FractionalItems
    mean: float
    report: dict[str, Any]


def fit_table(table: ScoreTable, factors: int, config_noise: float = 0.0) -> ItemFit:
    """Do as `fit_items` for a table; of a large one, in groups without a copy of all scores."""
    n_models = len(table.models)
    if n_models <= FEWEST_MODELS or n_models * table.n_items <= FEWEST_CELLS:
        return fit_items(table.model_scores(), factors, config_noise)
    return fit_groups(table, factors, config_noise)


def fit_groups(table: ScoreTable, factors: int, config_noise: float = 0.0) -> ItemFit:
    """Do as `fit_items` with models in groups of similar ability (see the module's docstring)."""

    def read(models: Positions) -> Floats:
        return table.model_scores(models=models)

    return _fit(read, table.overview, factors, config_noise, grouped=True)


def fit_items(scores: Floats, factors: int = FACTORS, config_noise: float = 0.0) -> ItemFit:
    """Fit the response model.

    Parameters
    ----------
    scores : ndarray of shape (n_models, n_items)
        On [0, 1], NaN where missing.
    factors : int, optional
        Residual factors at most.
    config_noise : float, optional
        Variance, in units of ``mu (1 - mu)``, of a single score in addition to that of the entries
        of `scores`, if these are means over several configs.

    Returns
    -------
    ItemFit
    """
    overview = Overview.of([(slice(None), scores.copy())], *scores.shape)
    return _fit(scores.__getitem__, overview, factors, config_noise, grouped=False)


def _fit(
    read: Read, overview: Overview, factors: int, config_noise: float, *, grouped: bool
) -> ItemFit:
    """Do as `fit_items` for scores that `read` returns in parts; for `grouped` see `Cells`."""
    x = logit(np.clip(_means(read, overview), _CLIP, 1.0 - _CLIP))
    centre = float(x.mean())
    x -= centre
    spread = max(float(x.std(ddof=1)), _NARROWEST)
    # More models show more bends, models that are all alike none.
    bends = int(np.searchsorted(BENDS_FROM, len(x), side="right")) if x.std() > _NARROWEST else 0
    basis = AbilityBasis.over(x, bends)
    cells = Cells(read, overview, x, basis, grouped)
    curves = _fit_curves(cells)
    unexplained = cells.unexplained(curves.coefficients, curves.model_noise, factors)
    items = FractionalItems(
        coefficients=curves.coefficients,
        covariance=curves.inverse,
        noise=_item_noise(curves, unexplained, overview) + config_noise,
        loadings=unexplained.loadings,
        basis=basis,
        prior_sd=_PRIOR_WIDTH * spread,
        abilities=x,
        log_noise=np.log(curves.model_noise),
        spread=spread,
    )
    report = {
        "centre": centre,
        "slope_sd": float(np.sqrt(curves.slope_variance)),
        "bend_sd": float(np.sqrt(curves.bend_variance)) if bends else 0.0,
        "bends": bends,
        "factors": unexplained.loadings.shape[1],
        "noise": float(np.average(items.noise, weights=unexplained.mass)),
    }
    return ItemFit(items, cells.overall, report)


def _item_noise(curves: CurveFit, unexplained: Unexplained, overview: Overview) -> Floats:
    """Return the noise of each item; shape (n_items,).

    It is the mean of what the item's residuals show and of the noise that is usual for items as
    easy. The first counts by the number of residuals that tell anything, the second as `_PRIOR_DF`.
    """
    count, mass = overview.item_count, unexplained.mass
    # Packed Hessians of the scores; an entry off the diagonal stands twice in the whole matrix.
    of_data = packed(curves.coefficients.shape[1])[2] * unexplained.hessian
    # Degrees of freedom that the curve takes: trace of inverse Hessian x Hessian of the data.
    used = (curves.inverse * of_data).sum(axis=1)
    df = np.maximum(count - used - unexplained.loadings.shape[1], 1.0)
    observed = unexplained.squares / np.maximum(mass * df / count, 1e-9)
    # Scores on [0, 1] of mean p have a variance of at most p, and of at most 1 - p. The terms of
    # `mass`, which `weight` bounds below, may sum to more on an item that hardly any model solves.
    bound = np.minimum(mass, np.minimum(overview.item_sum, count - overview.item_sum))
    usual = _usual_noise(observed, bound * df / count, curves.coefficients[:, 0])
    # Over their mean, squares of normal residuals have the variance 2, those of 0/1 scores, whose
    # noise is 1, the variance 1 / mean weight - 4: an item that one model in a hundred solves shows
    # its noise by one residual in a hundred, and an item that nobody solves shows nothing. An
    # item's residuals tell as much as df times 2 / variance normal ones.
    mean_weight = bound / count
    variance = 2.0 * mean_weight + usual * (1.0 - 4.0 * mean_weight)
    telling = df * (2.0 * mean_weight / np.maximum(variance, 1e-12))
    noise = (_PRIOR_DF * usual + telling * observed) / (_PRIOR_DF + telling)
    return np.asarray(np.maximum(noise, _LEAST_NOISE))


def _means(read: Read, overview: Overview) -> Floats:
    """Return mean scores as if every item had been run; shape (n_models,).

    A missing score counts as the item's mean, plus how much better than the items' means the model
    scored on those that it has. A model without scores has the mean of all.
    """
    if overview.whole:
        return overview.model_mean
    overall = overview.item_sum.sum() / overview.item_count.sum()
    item = (overview.item_sum + 0.5 * overall) / (overview.item_count + 0.5)
    # Sum of the means of the items that each model has.
    expected, count = np.empty(len(overview.model_mean)), np.maximum(overview.model_count, 1.0)
    for models in _slices(len(expected), len(item)):
        expected[models] = np.isfinite(read(models)) @ item
    return np.asarray(np.nan_to_num(overview.model_mean) - expected / count + item.mean())


def _slices(n_models: int, n_items: int) -> list[slice]:
    """Return the models of each part: as many as have `_CELLS_AT_ONCE` cells, at least one."""
    size = max(_CELLS_AT_ONCE // n_items, 1)
    return [slice(i, min(i + size, n_models)) for i in range(0, n_models, size)]


class Cells:
    """Scores, and the abilities (*points*) at which curves are evaluated: of models or of groups.

    With ``y_ij`` the score of model j on item i, ``f_j`` the basis at the ability ``x_j``, and
    ``c_i`` the item's coefficients,

        m_ij = logistic(c_i . f_j),    w_ij = max(m_ij (1 - m_ij), SMALLEST_WEIGHT),
        r_ij = y_ij - m_ij.

    Scores that are missing are left out of all sums. If models are grouped, ``f_j`` and ``w_ij``
    are those at the group's mean ability ``x_g``; with ``f'`` the slope of the basis there, the
    model's own ability enters the residual alone,

        r_ij = y_ij - m_ig - (x_j - x_g) (c_i . f'_g) m_ig (1 - m_ig).

    Parameters
    ----------
    read : callable
        See `Read`.
    overview : Overview
        Overview of the same scores.
    x : ndarray of shape (n_models,)
        Abilities, in logits.
    basis : AbilityBasis
    grouped : bool
        Whether models of similar ability share one point of every item's curve.
    """

    def __init__(
        self, read: Read, overview: Overview, x: Floats, basis: AbilityBasis, grouped: bool
    ) -> None:
        self._read, self.overview, self._grouped = read, overview, grouped
        self._complete = overview.whole
        self.n_models, self.n_items, self.size = len(x), len(overview.item_sum), basis.size
        self.overall = float(overview.item_sum.sum() / overview.item_count.sum())
        self._models_at_point: NDArray[Any] = np.ones(len(x))
        # Of each part, its points and its models.
        self._parts: list[tuple[slice, Positions]]
        if grouped:
            basis_values, self._parts = self._groups(x, basis)
        else:
            basis_values = basis.at(x)
            self._parts = [(part, part) for part in _slices(len(x), self.n_items)]
        row, column, self._times = packed(basis.size)
        self._f, self._products = basis_values, basis_values[:, row] * basis_values[:, column]
        self._w = np.empty((len(basis_values), self.n_items))

    def _groups(
        self, x: Floats, basis: AbilityBasis
    ) -> tuple[Floats, list[tuple[slice, Positions]]]:
        """Return the basis at each group's mean ability, and the group and models of each part.

        Groups are intervals of ability of equal width, without the empty ones. The models of one
        group are in as many parts as their scores need, to be held in memory at once.

        Returns
        -------
        basis_values : ndarray of shape (n_groups, p)
        parts : list of (slice, ndarray)
            The group's row in `basis_values`, and positions of models.
        """
        low, high = float(x.min()), float(x.max())
        most_groups = np.clip(_GROUP_CELLS // self.n_items, _LEAST_GROUPS, _MOST_GROUPS)
        width = max(_GROUP_WIDTH * float(x.std()), (high - low) / float(most_groups), 1e-9)
        _, self._group, self._models_at_point = np.unique(
            ((x - low) / width).astype(int), return_inverse=True, return_counts=True
        )
        centre = np.bincount(self._group, x) / self._models_at_point
        self._away = x - centre[self._group]
        basis_values, self._slope = map(
            np.array, zip(*(basis.value_and_slope(float(ability)) for ability in centre))
        )
        parts: list[tuple[slice, Positions]] = []
        part_size = max(_CELLS_AT_ONCE // self.n_items, 1)
        for group, size in enumerate(self._models_at_point):
            rows = np.flatnonzero(self._group == group)
            parts += [
                (slice(group, group + 1), rows[i : i + part_size])
                for i in range(0, size, part_size)
            ]
        return basis_values, parts

    def _residuals(self, c: Floats, *, masked: bool = True) -> Iterator[PartResiduals]:
        """Yield the residuals from the curves with coefficients `c`, part by part.

        If `masked`, the weight of a missing score is 0, unless models are grouped: those of a group
        share their weights. The weights of all points stay in ``_w``.
        """
        for points, rows in self._parts:
            # The logistic curve by the hyperbolic tangent takes a third of the time.
            mu = self._f[points] @ (0.5 * c.T)
            mu = np.add(np.tanh(mu, out=mu), 1.0, out=mu)
            mu *= 0.5
            w, y, present = weight(mu, self._w[points]), self._read(rows), None
            # The curve at the group's mean ability goes on to the model's own by its slope there.
            if self._grouped:
                tilt = (self._slope[points] @ c.T) * (mu * (1.0 - mu))
                mu = self._away[rows, None] * tilt + mu
            residual = np.subtract(y, mu, out=mu)
            if not self._complete:
                present = np.isfinite(y).astype(np.float64)
                np.copyto(residual, 0.0, where=present == 0.0)
                if masked and not self._grouped:
                    w *= present
            yield PartResiduals(points, rows, residual, w, present)

    def _hessian(
        self, points: slice, weights: Floats, present: Floats | None, precision: Floats
    ) -> Floats:
        """Return the sum, over models, of weight x `precision` x products of the basis; packed.

        `precision` has a number of each model.
        """
        # The models of a group have the weights and the basis of its one point.
        if self._grouped:
            weights = weights * (precision.sum() if present is None else precision @ present)
            return np.asarray(weights.T @ self._products[points])
        return np.asarray(weights.T @ (precision[:, None] * self._products[points]))

    def derivatives(self, c: Floats, s: Floats) -> Derivatives:
        """Return sums over scores and derivatives at coefficients `c` (n_items, p), noise `s`.

        With the symbols of the class,

            squares_j = sum over i of r_ij^2,            total_j = sum over i of w_ij,
            gradient_i = sum over j of r_ij f_j / s_j,
            hessian_i = sum over j of w_ij f_j f_j^T / s_j.
        """
        squares, total = np.empty((2, self.n_models))
        hessian, gradient = np.zeros((self.n_items, len(self._times))), np.zeros_like(c)
        for points, rows, residual, weights, present in self._residuals(c):
            precision = 1.0 / s[rows]
            squares[rows] = np.einsum("ij,ij->i", residual, residual)
            # The weights of a group do not know which scores a model lacks.
            total[rows] = (
                present @ weights[0]
                if self._grouped and present is not None
                else weights.sum(axis=1)
            )
            hessian += self._hessian(points, weights, present, precision)
            gradient += residual.T @ (precision[:, None] * self._f[points])
        return Derivatives(squares, total, hessian, gradient)

    def leverage(self, inverse: Floats) -> Floats:
        """Return ``s_j sum over i of w_ij h_ij``, what the fit to model j's own scores explains.

        Leverage is how much a score moves its own expectation. With ``V_i`` the inverse Hessian of
        the item, packed in `inverse`, it is ``h_ij = w_ij f_j^T V_i f_j / s_j``, so that

            s_j sum over i of w_ij h_ij = sum over i of w_ij^2 f_j^T V_i f_j,

        at the coefficients that `derivatives` was last given. In a group, the items that a model
        lacks count as average ones.
        """
        of_point = np.empty(len(self._w))
        for points in _slices(*self._w.shape):
            weights = self._w[points]
            products = self._products[points] * self._times
            of_point[points] = ((weights * weights) @ inverse * products).sum(axis=1)
        if not self._grouped:
            return of_point
        return np.asarray(of_point[self._group] * (self.overview.model_count / self.n_items))

    def unexplained(self, c: Floats, s: Floats, factors: int) -> Unexplained:
        """Return the residual factors' loadings and, by item, the sums that the noise comes from.

        Parameters
        ----------
        c : ndarray of shape (n_items, p)
            Coefficients of the curves.
        s : ndarray of shape (n_models,)
            Noise of each model, a factor of the variance.
        factors : int
            Residual factors at most.
        """
        n_factors = max(min(factors, self.n_models - 3, self.n_items), 0)
        left, size, right = (self._iterated if self._grouped else self._exact)(c, s, n_factors)
        # Sum of the weights of all models, by item.
        typical = self._models_at_point @ self._w
        squares, mass = np.zeros((2, self.n_items))
        hessian = np.zeros((self.n_items, len(self._times)))
        for points, rows, residual, weights, present in self._residuals(c):
            precision = 1.0 / s[rows]
            if len(size):
                explained = (left[rows] * size) @ right.T
                explained *= np.sqrt(weights / precision[:, None])
                residual -= explained if present is None else explained * present
            squares += precision @ np.square(residual, out=residual)
            # The first product of the basis is 1.
            mass += self._hessian(points, weights, present, np.ones(len(precision)))[:, 0]
            hessian += self._hessian(points, weights, present, precision)
        loadings = size * right / np.sqrt(typical)[:, None]
        return Unexplained(loadings, squares, mass, hessian)

    def _exact(self, c: Floats, s: Floats, n_factors: int) -> SingularVectors:
        """Return the factors of the Pearson residuals above the noise, by a Gram matrix."""
        pearson = np.empty((self.n_models, self.n_items))
        for points, _, residual, weights, _present in self._residuals(c, masked=False):
            np.divide(residual, np.sqrt(weights * s[points, None]), out=pearson[points])
        # Eigenvectors of the smaller Gram matrix are the vectors of one side; a product with the
        # residuals gives those of the other.
        wide = self.n_models <= self.n_items
        long = pearson if wide else pearson.T
        n = len(long)
        inner = eigh(long @ long.T, subset_by_index=(n - max(n_factors, 1), n - 1))[1][:, ::-1][
            :, :n_factors
        ]
        outer = long.T @ inner
        size = np.linalg.norm(outer, axis=0)
        outer /= np.maximum(size, 1e-300)
        left, right = (inner, outer) if wide else (outer, inner)
        return self._above_noise(left, size, right, float((pearson**2).sum()))

    def _iterated(self, c: Floats, s: Floats, n_factors: int) -> SingularVectors:
        """Return what `_exact` does, by orthogonal iteration from random directions.

        The whole matrix, or a Gram matrix, would take too much memory (Halko, Martinsson and Tropp
        2011).
        """
        directions = np.random.default_rng(0).standard_normal(
            (self.n_items, n_factors + _MORE_DIRECTIONS)
        )
        left, size = np.empty((self.n_models, n_factors + _MORE_DIRECTIONS)), np.zeros(n_factors)
        for _ in range(_MOST_ROUNDS if n_factors else 1):
            directions, total, product = np.linalg.qr(directions)[0], 0.0, np.zeros_like(directions)
            for _points, rows, residual, weights, _present in self._residuals(c):
                residual *= 1.0 / np.sqrt(s[rows])[:, None]
                residual *= 1.0 / np.sqrt(weights)
                total += float(np.einsum("ij,ij->", residual, residual))
                left[rows] = residual @ directions
                product += residual.T @ left[rows]
            vectors, singular, turn = np.linalg.svd(left, full_matrices=False)
            vectors, right, before, size = (
                vectors[:, :n_factors],
                (directions @ turn.T)[:, :n_factors],
                size,
                singular[:n_factors],
            )
            if (np.abs(size - before) <= _TOLERANCE * size).all():
                break
            directions = product
        return self._above_noise(vectors, size, right, total)

    def _above_noise(
        self, left: Floats, size: Floats, right: Floats, squares: float
    ) -> SingularVectors:
        """Return singular values less their noise, with their vectors; drop those below the noise.

        Pure noise with this sum of squares has singular values up to an edge e. Of a value d above
        it, ``d (1 - (e / d)^2)`` is left.
        """
        variance = squares / self.overview.item_count.sum()
        edge = np.sqrt(variance) * (np.sqrt(self.n_items) + np.sqrt(self.n_models))
        edge = max(edge, np.finfo(np.float64).tiny)  # a table that its curves fit exactly has none
        size = size * (1.0 - (edge / np.maximum(size, edge)) ** 2)
        above = size > 0.0
        # The sign of a pair of vectors is arbitrary; make it the same with every library.
        largest = np.take_along_axis(right, np.abs(right).argmax(axis=0)[None], axis=0)
        sign = np.where(largest > 0.0, 1.0, -1.0)
        return SingularVectors((sign * left)[:, above], size[above], (sign * right)[:, above])


def _fit_curves(data: Cells) -> CurveFit:
    """Fit the curves ``c`` of all items, and each model's noise ``s``.

    With the symbols of `Cells` and `Cells.derivatives`, ``n`` models, noise ``t`` that all items
    share, and the prior N(b, diag(v)) of ``c_i``, a step is, bounds aside,

        t = n / (n - 1.5) (sum of r_ij^2 / s_j) / (sum of w_ij / s_j)      over all scores,
        V_i = (hessian_i + t diag(1 / v))^-1,
        c_i <- c_i + clip(V_i (gradient_i - t (c_i - b) / v), -1, 1),

    and, from the fourth step on, with ``h_ij`` the leverages of `Cells.leverage`,

        v of slopes = mean over i of ((c_i - b)^2 + t V_i) at the slope; v of bends likewise,
        s_j = (sum over i of r_ij^2) / (t sum over i of w_ij (1 - h_ij)),

    with ``s`` then divided by its geometric mean. ``v`` of the intercepts stays as it began.
    """
    n_models, n_items, size, overview = data.n_models, data.n_items, data.size, data.overview
    row, column, _ = packed(size)
    # Start with a slope of 1 and the intercept of the item's mean score, to which half a score of
    # the mean over all items is added.
    easiness = (overview.item_sum + 0.5 * data.overall) / (overview.item_count + 0.5)
    c = np.zeros((n_items, size))
    c[:, 0], c[:, 1] = logit(np.clip(easiness, 0.005, 0.995)), 1.0
    prior_mean = np.concatenate([[c[:, 0].mean(), 1.0], np.zeros(size - 2)])
    easiness_variance = 2.0 * max(float(c[:, 0].var()), 0.1)
    slope_variance, bend_variance = 0.25, 0.05
    s, noise = np.ones(n_models), 1.0
    inverse = np.empty((n_items, len(row)))
    for step in range(ITERATIONS):
        squares, total, hessian, gradient = data.derivatives(c, s)
        # The noise ``t``, at every second step.
        if step % 2 == 0:
            freedom = max(n_models - 1.5, 1.0) / n_models
            noise = max((squares / s).sum() / (total / s).sum() / freedom, _LEAST_NOISE)
        precision = noise / np.concatenate(
            [[easiness_variance, slope_variance], np.full(size - 2, bend_variance)]
        )
        hessian[:, row == column] += precision
        inverse = inverted(hessian, size)
        gradient -= precision * (c - prior_mean)
        step_of_c = np.einsum("npq,nq->np", inverse[:, entry_indices(size)], gradient)
        c = c + np.clip(step_of_c, -1.0, 1.0)
        if step < 3:  # the curves must settle before their spread means anything
            continue
        spread = noise * inverse[:, row == column]
        slope_variance = float(np.clip(((c[:, 1] - 1.0) ** 2 + spread[:, 1]).mean(), 1e-3, 4.0))
        # With few models, curves have no bends.
        if size > 2:
            bend_variance = float(np.clip((c[:, 2:] ** 2 + spread[:, 2:]).mean(), 1e-4, 1.0))
        # That the curves were fitted to a model must not make it look as if it fitted well.
        leverage = data.leverage(inverse) / s
        s = np.clip(squares / (noise * np.maximum(total - leverage, 0.2 * total)), 0.2, 5.0)
        s = s / np.exp(np.log(s).mean())
    return CurveFit(c, inverse, s, slope_variance, bend_variance)


def _usual_noise(noise: Floats, mass: Floats, easiness: Floats) -> Floats:
    """Return the noise that is usual at each item's easiness; shape (n_items,).

    Its log is a quadratic function of easiness, fitted with gamma errors by Newton steps, and stays
    within a factor e^1.5 of the mean noise. The quadratic and the linear coefficient are shrunk
    towards 0.

    Parameters
    ----------
    noise, mass, easiness : ndarray of shape (n_items,)
        Observed noise, its weight (of which more than that of nine items in ten counts for no
        more), and the curve's intercept.
    """
    pooled = max(float(np.average(noise, weights=np.maximum(mass, 1e-12))), _LEAST_NOISE)
    a = (easiness - easiness.mean()) / max(float(easiness.std()), 1e-9)
    design = np.column_stack([np.ones(len(a)), a, a * a - 1.0])
    mass = np.minimum(mass, np.quantile(mass, 0.9))
    ridge = np.diag([0.0, 1.0, 1.0]) * mass.sum() * 0.02
    hessian = (design * mass[:, None]).T @ design + ridge + 1e-12 * np.eye(3)
    b = np.array([np.log(pooled), 0.0, 0.0])
    for _ in range(12):
        fitted = np.exp(np.clip(design @ b, np.log(pooled) - 3.0, np.log(pooled) + 3.0))
        gradient = design.T @ (mass * (noise / fitted - 1.0)) - ridge @ b
        b = b + np.clip(np.linalg.solve(hessian, gradient), -0.5, 0.5)
    return np.asarray(pooled * np.exp(np.clip(design @ b - np.log(pooled), -1.5, 1.5)))


# -- many small symmetric matrices at once, as their upper triangles (`fractional.packed`) --------


@cache
def entry_indices(n: int) -> Indices:
    """Return where each entry of a symmetric matrix of size `n` is stored; shape (n, n).

    Examples
    --------
    >>> entry_indices(2).tolist()
    [[0, 1], [1, 2]]
    """
    row, column, _ = packed(n)
    index = np.empty((n, n), dtype=np.intp)
    index[row, column] = index[column, row] = np.arange(len(row))
    return index


def inverted(matrices: Floats, p: int) -> Floats:
    """Invert positive definite matrices by Goodnight's (1979) sweep, all at once.

    LAPACK takes one matrix at a time; for small ones the calls cost more than the arithmetic.

    Parameters
    ----------
    matrices : ndarray of shape (n, p (p + 1) / 2)
        Packed.
    p : int

    Returns
    -------
    ndarray of the same shape

    Examples
    --------
    >>> inverted(np.array([[2.0, 1.0, 1.0]]), 2).round(12).tolist()
    [[1.0, -1.0, 2.0]]
    """
    index, out = entry_indices(p), np.empty_like(matrices)
    for start in range(0, len(matrices), _MATRICES_AT_ONCE):
        a = np.array(matrices[start : start + _MATRICES_AT_ONCE].T, order="C")
        for k in range(p):
            scale = 1.0 / a[index[k, k]]
            other_rows = [i for i in range(p) if i != k]
            scaled = {i: a[index[i, k]] * scale for i in other_rows}
            for n, i in enumerate(other_rows):
                for j in other_rows[n:]:
                    a[index[i, j]] -= scaled[i] * a[index[j, k]]
            for i in other_rows:
                a[index[i, k]] = scaled[i]
            a[index[k, k]] = -scale
        out[start : start + _MATRICES_AT_ONCE] = -a.T
    return out

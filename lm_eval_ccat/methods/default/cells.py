"""Scores that item curves are fitted to: every model at its own ability, or in groups.

`Cells`: given abilities and the models' noise, items have nothing to do with one another. A block
of them that fits the processor's cache costs half of what the whole matrix at once would, and no
memory.

`Groups`, for thousands of models: those of like ability share one point of every item's curve. The
curves' Newton steps need, at each ability, the residuals' sum alone. Models are cut into groups a
twentieth of their spread wide, whose curves are evaluated at the group's mean ability, with the
slope there for each model's own distance from it: what is left out is the curve's second derivative
over half a group, some 3e-5 of a score, where an item's mean over 1,000 models is known to 1e-2.
The scores are read group by group from the table, which is never copied as a whole.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from scipy.special import expit

from ...scores.table import ScoreTable
from ..belief import Floats, Places
from ..curves import AbilityBasis
from .fractional import packed, weight, weight_into

_BLOCK = 1 << 17  # cells
_WIDTH = 0.05  # of a group, in standard deviations of ability
_LEAST_GROUPS, _MOST_GROUPS = 60, 200
_GROUP_CELLS = 4_000_000  # groups times items, where that leaves enough groups
_PART = 1 << 18  # cells looked at together
_BESIDE = 8  # directions beside the factors wanted, which make these settle sooner
_ROUNDS = 12
_SETTLED = 1e-3  # relative change of a singular value


class Look(NamedTuple):
    """What one look at all scores gives a Newton step.

    Attributes
    ----------
    squares, total : ndarray of shape (n_models,)
        Sums over the items seen of squared residuals and of ``mu (1 - mu)``.
    hessian : ndarray of shape (n_items, p (p + 1) / 2)
        Packed, of the data alone.
    gradient : ndarray of shape (n_items, p)
    """

    squares: Floats
    total: Floats
    hessian: Floats
    gradient: Floats


class Rest(NamedTuple):
    """What the curves leave over; arrays by item.

    Attributes
    ----------
    loadings : ndarray of shape (n_items, q)
        Of the residual factors.
    squares : ndarray of shape (n_items,)
        Sum of squared residuals, less the factors, in units of the models' noise.
    mass : ndarray of shape (n_items,)
        Sum of ``mu (1 - mu)`` over the models seen.
    hessian : ndarray of shape (n_items, p (p + 1) / 2)
    """

    loadings: Floats
    squares: Floats
    mass: Floats
    hessian: Floats


class Data(ABC):
    """Scores as a fit needs them: `Cells`, or `Groups` for thousands of models.

    Parameters
    ----------
    f : ndarray of shape (n_points, p)
        The basis at the abilities at which curves are evaluated.
    n_models : int
    item_sum, item_count : ndarray of shape (n_items,)
        Of the scores seen.
    overall : float
        Mean of the scores seen.
    """

    def __init__(
        self, f: Floats, n_models: int, item_sum: Floats, item_count: Floats, overall: float
    ) -> None:
        self.n_models, self.n_items, self.size = n_models, len(item_sum), f.shape[1]
        self.item_sum, self.item_count, self.overall = item_sum, item_count, overall
        row, column, self._times = packed(self.size)
        self._f, self._products = f, f[:, row] * f[:, column]
        self._w = np.empty((len(f), self.n_items))

    @abstractmethod
    def look(self, c: Floats, s: Floats) -> Look:
        """Residuals and their derivatives at coefficients `c` and model noise `s`."""

    @abstractmethod
    def leverage(self, inverse: Floats) -> Floats:
        """Sum of leverages per model times its noise, by the packed inverse Hessians.

        It is that at the coefficients of the last look.
        """

    @abstractmethod
    def rest(self, c: Floats, s: Floats, factors: int) -> Rest:
        """Residual factors, at most so many, and what is left."""


class Cells(Data):
    """A matrix of scores.

    Parameters
    ----------
    scores : ndarray of shape (n_models, n_items)
        On [0, 1], NaN where missing.
    f : ndarray of shape (n_models, p)
        The basis at the models' abilities.
    """

    def __init__(self, scores: Floats, f: Floats) -> None:
        seen = np.isfinite(scores)
        self._seen = None if seen.all() else seen
        self._y = y = scores if self._seen is None else np.where(seen, scores, 0.0)
        count = seen.sum(axis=0).astype(np.float64)
        super().__init__(f, len(y), y.sum(axis=0), count, float(y.sum() / seen.sum()))

    def look(self, c: Floats, s: Floats) -> Look:
        squares, total = np.zeros(self.n_models), np.zeros(self.n_models)
        hessian, gradient = np.empty((self.n_items, len(self._times))), np.empty_like(c)
        f, products = self._f / s[:, None], self._products / s[:, None]
        for at, residual in self._residuals(c):
            w = self._w[:, at]
            squares += np.einsum("ij,ij->i", residual, residual)
            total += w.sum(axis=1)
            hessian[at] = w.T @ products
            gradient[at] = residual.T @ f
        return Look(squares, total, hessian, gradient)

    def leverage(self, inverse: Floats) -> Floats:
        total = np.zeros((self.n_models, len(self._times)))
        for at in self._blocks():
            w = self._w[:, at]
            total += (w * w) @ inverse[at]
        return np.asarray((total * self._products * self._times).sum(axis=1))

    def rest(self, c: Floats, s: Floats, factors: int) -> Rest:
        hessian, mass = np.empty((self.n_items, len(self._times))), np.empty(self.n_items)
        typical, squares = np.empty(self.n_items), np.empty(self.n_items)
        pearson = np.empty_like(self._y)
        for at, residual in self._residuals(c, masked=False):
            w = self._w[:, at]
            typical[at] = w.mean(axis=0)
            np.divide(residual, np.sqrt(w * s[:, None]), out=pearson[:, at])
            if self._seen is not None:
                w *= self._seen[:, at]
            mass[at] = w.sum(axis=0)
            hessian[at] = (w / s[:, None]).T @ self._products
        loadings = residual_factors(pearson, float(self.item_count.sum()), typical, factors)
        for at in self._blocks():
            squares[at] = (pearson[:, at] ** 2 * self._w[:, at]).sum(axis=0)
        return Rest(loadings, squares, mass, hessian)

    def _blocks(self) -> Iterator[slice]:
        width = max(_BLOCK // self.n_models, 16)
        for start in range(0, self.n_items, width):
            yield slice(start, min(start + width, self.n_items))

    def _residuals(self, c: Floats, masked: bool = True) -> Iterator[tuple[slice, Floats]]:
        """Residuals at the items of each block, 0 where missing; leaves ``w`` behind.

        ``w`` is 0 where missing if `masked`.
        """
        for at in self._blocks():
            mu = self._f @ (0.5 * c[at].T)
            # The logistic curve by the hyperbolic tangent takes a third of the time.
            mu = np.add(np.tanh(mu, out=mu), 1.0, out=mu)
            mu *= 0.5
            w = weight_into(self._w[:, at], mu)
            residual = np.subtract(self._y[:, at], mu, out=mu)
            if self._seen is not None:
                residual *= self._seen[:, at]
                if masked:
                    w *= self._seen[:, at]
            yield at, residual


class Groups(Data):
    """Scores of a table, its models in groups of like ability.

    Parameters
    ----------
    table : ScoreTable
    x : ndarray of shape (n_models,)
        Abilities.
    basis : AbilityBasis
    """

    def __init__(self, table: ScoreTable, x: Floats, basis: AbilityBasis) -> None:
        overview = table.overview
        self._table, self._whole = table, overview.whole
        self._share = overview.model_count / table.n_items
        low, high = float(x.min()), float(x.max())
        most_groups = np.clip(_GROUP_CELLS // table.n_items, _LEAST_GROUPS, _MOST_GROUPS)
        width = max(_WIDTH * float(x.std()), (high - low) / float(most_groups), 1e-9)
        _, self._group, self._in_group = np.unique(
            ((x - low) / width).astype(int), return_inverse=True, return_counts=True
        )
        centre = np.bincount(self._group, x) / self._in_group
        self._away = x - centre[self._group]
        f, self._slope = map(np.array, zip(*(basis.value_and_slope(float(x)) for x in centre)))
        total, count = overview.item_sum, overview.item_count
        super().__init__(f, len(x), total, count, float(total.sum() / count.sum()))
        by_group = np.argsort(self._group, kind="stable")
        most = max(_PART // self.n_items, 1)
        self._parts = [
            (g, rows[i : i + most])
            for g, rows in enumerate(np.split(by_group, np.cumsum(self._in_group)[:-1]))
            for i in range(0, len(rows), most)
        ]

    def look(self, c: Floats, s: Floats) -> Look:
        squares, total = np.empty(self.n_models), np.empty(self.n_models)
        residuals, models = np.zeros_like(self._w), self._models()
        for g, rows, residual, seen in self._residuals(c):
            squares[rows] = np.einsum("ij,ij->i", residual, residual)
            residuals[g] += (1.0 / s[rows]) @ residual
            if seen is None:
                total[rows] = self._w[g].sum()
                models[g] += (1.0 / s[rows]).sum()
            else:
                total[rows] = seen @ self._w[g]
                models[g] += (1.0 / s[rows]) @ seen
        hessian = np.multiply(models, self._w, out=models if len(models[0]) > 1 else None)
        return Look(squares, total, hessian.T @ self._products, residuals.T @ self._f)

    def leverage(self, inverse: Floats) -> Floats:
        # A model that lacks items counts as if it lacked average ones.
        of_group = np.empty(len(self._w))
        for g, w in enumerate(self._w):
            of_group[g] = ((w * w) @ inverse) @ (self._products[g] * self._times)
        return np.asarray(of_group[self._group] * self._share)

    def rest(self, c: Floats, s: Floats, factors: int) -> Rest:
        size, left, right, edge = self._singular(c, s, min(factors, self.n_models - 3))
        kept = np.array([above(one, edge) for one in size])
        size, left, right, kept = (a[..., kept > 0.0] for a in (size, left, right, kept))
        typical = self._in_group @ self._w / self.n_models
        loadings = kept * size * right / np.sqrt(self.n_models * typical)[:, None]
        squares, models, models_by_noise = np.zeros(self.n_items), self._models(), self._models()
        for g, rows, residual, seen in self._residuals(c):
            per = np.sqrt(s[rows])[:, None]
            root = np.sqrt(self._w[g])
            if len(kept):
                explained = ((kept * size * left[rows]) @ right.T) * (per * root)
                residual -= explained if seen is None else explained * seen
            squares += (1.0 / s[rows]) @ np.square(residual, out=residual)
            if seen is None:
                models[g] += len(rows)
                models_by_noise[g] += (1.0 / s[rows]).sum()
            else:
                models[g] += seen.sum(axis=0)
                models_by_noise[g] += (1.0 / s[rows]) @ seen
        mass = (models * self._w).sum(axis=0)
        return Rest(loadings, squares, mass, (models_by_noise * self._w).T @ self._products)

    def _models(self) -> Floats:
        """Room for a number of models by group and item; for all items alike if none is missing."""
        return np.zeros((len(self._w), 1 if self._whole else self.n_items))

    def _residuals(self, c: Floats) -> Iterator[tuple[int, Places, Floats, Floats | None]]:
        """Group, models, residuals (0 where missing) and where they are not (1, else 0; or None).

        Leaves ``w`` of the groups behind.
        """
        mu = self._f @ c.T
        expit(mu, out=mu)
        tilt = self._slope @ c.T
        tilt *= mu * (1.0 - mu)
        self._w[:] = weight(mu)
        for g, rows in self._parts:
            residual = self._table.model_scores(models=rows)
            seen = None
            if not self._whole:
                seen = np.isfinite(residual).astype(np.float64)
                residual[seen == 0.0] = 0.0
            expected = self._away[rows, None] * tilt[g]
            expected += mu[g]
            residual -= expected if seen is None else np.multiply(expected, seen, out=expected)
            yield g, rows, residual, seen

    def _singular(self, c: Floats, s: Floats, k: int) -> tuple[Floats, Floats, Floats, float]:
        """Leading singular values and vectors of the Pearson residuals, and the noise edge.

        By orthogonal iteration from random directions (Halko, Martinsson and Tropp 2011): the whole
        matrix, and its product with itself, would be larger than the table.
        """
        q = np.random.default_rng(0).standard_normal((self.n_items, k + _BESIDE))
        left, size = np.empty((self.n_models, k + _BESIDE)), np.zeros(k)
        for _ in range(_ROUNDS if k else 1):
            q, total, product = np.linalg.qr(q)[0], 0.0, np.zeros_like(q)
            for g, rows, residual, _seen in self._residuals(c):
                residual *= 1.0 / np.sqrt(s[rows])[:, None]
                residual *= 1.0 / np.sqrt(self._w[g])
                total += float(np.einsum("ij,ij->", residual, residual))
                left[rows] = residual @ q
                product += residual.T @ left[rows]
            u, singular, turn = np.linalg.svd(left, full_matrices=False)
            u, right, before, size = u[:, :k], (q @ turn.T)[:, :k], size, singular[:k]
            if (np.abs(size - before) <= _SETTLED * size).all():
                break
            q = product
        edge = noise_edge(total / self.item_count.sum(), self.n_models, self.n_items)
        pairs = [signed(u[:, f], right[:, f]) for f in range(k)]
        if pairs:
            u, right = (np.column_stack(side) for side in zip(*pairs))
        return size, u, right, edge


def residual_factors(residual: Floats, n_seen: float, typical: Floats, most: int) -> Floats:
    """Loadings of the residual factors above the noise, which are taken out of `residual`.

    Parameters
    ----------
    residual : ndarray of shape (n_models, n_items)
        Pearson residuals, 0 where missing.
    n_seen : float
        Cells that are not missing.
    typical : ndarray of shape (n_items,)
        Mean ``mu (1 - mu)``.
    most : int

    Returns
    -------
    ndarray of shape (n_items, q)
    """
    n_models, n_items = residual.shape
    edge = noise_edge((residual**2).sum() / n_seen, n_models, n_items)
    columns = []
    for _ in range(min(most, n_models - 3)):
        left, size, right = _leading(residual)
        kept = above(size, edge)
        if kept <= 0.0:
            break
        columns.append(kept * size * right / np.sqrt(n_models * typical))
        for row, share in zip(residual, left):
            row -= kept * size * (share * right)
    return np.column_stack(columns) if columns else np.zeros((n_items, 0))


def noise_edge(variance: float, n_models: int, n_items: int) -> float:
    """Largest singular value that noise alone has."""
    return float(np.sqrt(variance) * (np.sqrt(n_items) + np.sqrt(n_models)))


def above(size: float, edge: float) -> float:
    """Share of a singular value that is not noise."""
    return 1.0 - (edge / size) ** 2 if size > edge else 0.0


def signed(left: Floats, right: Floats) -> tuple[Floats, Floats]:
    """A pair of singular vectors, its sign fixed so that it does not depend on the library."""
    sign = 1.0 if right[int(np.argmax(np.abs(right)))] > 0.0 else -1.0
    return sign * left, sign * right


def _leading(matrix: Floats) -> tuple[Floats, float, Floats]:
    """The leading singular triple."""
    gram = matrix @ matrix.T if len(matrix) <= matrix.shape[1] else matrix.T @ matrix
    if len(gram) <= 400:
        vector = np.linalg.eigh(gram)[1][:, -1]
    else:
        vector = gram[:, int(np.argmax(np.diag(gram)))]
        for _ in range(60):
            vector = gram @ vector
            vector = vector / max(float(np.linalg.norm(vector)), 1e-300)
    if len(matrix) <= matrix.shape[1]:
        left, right = vector, matrix.T @ vector
        size = float(np.linalg.norm(right))
        right = right / max(size, 1e-300)
    else:
        right, left = vector, matrix @ vector
        size = float(np.linalg.norm(left))
        left = left / max(size, 1e-300)
    left, right = signed(left, right)
    return left, size, right

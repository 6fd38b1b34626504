"""Scores that item curves are fitted to: every model at its own ability, a block of items at once.

Given abilities and the models' noise, items have nothing to do with one another. A block of them
that fits the processor's cache costs half of what the whole matrix at once would, and no memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from .fractional import packed, weight_into

Floats = NDArray[np.float64]

_BLOCK = 1 << 17  # cells


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


class Data(Protocol):
    """Scores as a fit needs them: `Cells`, or `Groups` for thousands of models.

    Attributes
    ----------
    n_models, n_items, size : int
        ``size`` is the number of basis functions.
    item_sum, item_count : ndarray of shape (n_items,)
        Of the scores seen.
    overall : float
        Mean of the scores seen.
    """

    n_models: int
    n_items: int
    size: int
    item_sum: Floats
    item_count: Floats
    overall: float

    def look(self, c: Floats, s: Floats) -> Look:
        """Residuals and their derivatives at coefficients `c` and model noise `s`."""
        ...

    def leverage(self, inverse: Floats) -> Floats:
        """Sum of leverages per model times its noise, by the packed inverse Hessians."""
        ...

    def rest(self, c: Floats, s: Floats, factors: int) -> Rest:
        """Residual factors, at most so many, and what is left."""
        ...


class Cells:
    """A matrix of scores.

    Parameters
    ----------
    scores : ndarray of shape (n_models, n_items)
        On [0, 1], NaN where missing.
    f : ndarray of shape (n_models, p)
        The basis at the models' abilities.
    """

    def __init__(self, scores: Floats, f: Floats) -> None:
        self.n_models, self.n_items = scores.shape
        self.size = f.shape[1]
        seen = np.isfinite(scores)
        self._seen = None if seen.all() else seen
        self._y = scores if self._seen is None else np.where(seen, scores, 0.0)
        self.item_sum = self._y.sum(axis=0)
        self.item_count = seen.sum(axis=0).astype(np.float64)
        self.overall = float(self._y.sum() / seen.sum())
        self._f = f
        row, column, self._times = packed(self.size)
        self._products = f[:, row] * f[:, column]
        self._w = np.empty_like(self._y)

    def look(self, c: Floats, s: Floats) -> Look:
        """See `Data`."""
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
        """See `Data`; at the coefficients of the last look."""
        found = np.zeros((self.n_models, len(self._times)))
        for at in self._blocks():
            w = self._w[:, at]
            found += (w * w) @ inverse[at]
        return np.asarray((found * self._products * self._times).sum(axis=1))

    def rest(self, c: Floats, s: Floats, factors: int) -> Rest:
        """See `Data`."""
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
        for row, own in zip(residual, left):
            row -= kept * size * (own * right)
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

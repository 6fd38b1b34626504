"""Fit for thousands of models: those of like ability share one point of every item's curve.

The curves' Newton steps need, at each ability, the residuals' sum alone. Models are cut into groups
a twentieth of their spread wide, whose curves are evaluated at the group's mean ability, with the
slope there for each model's own distance from it: what is left out is the curve's second derivative
over half a group, some 3e-5 of a score, where an item's mean over 1,000 models is known to 1e-2.
The scores are read group by group from the table, which is never copied as a whole.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from ...scores.table import ScoreTable
from .basis import AbilityBasis
from .cells import Look, Rest, above, noise_edge, signed
from .fractional import packed, weight
from .items import ItemFit, abilities_of, fit_at

Floats = NDArray[np.float64]
Positions = NDArray[np.intp]

#: Fewer models than that, or a smaller table, is fitted model by model.
FEWEST_MODELS, FEWEST_CELLS = 500, 5_000_000
_WIDTH = 0.05  # of a group, in standard deviations of ability
_LEAST_GROUPS, _MOST_GROUPS = 60, 200
_GROUP_CELLS = 4_000_000  # groups times items, where that leaves enough groups
_PART = 1 << 18  # cells looked at together
_BESIDE = 8  # directions beside the factors wanted, which make these settle sooner
_ROUNDS = 12
_SETTLED = 1e-3  # relative change of a singular value


def apply(n_models: int, n_items: int) -> bool:
    """Whether a table is large enough for groups."""
    return n_models > FEWEST_MODELS and n_models * n_items > FEWEST_CELLS


def fit_groups(table: ScoreTable, factors: int, extra: float = 0.0) -> ItemFit:
    """`fit_items` for a large table; memory beside it grows with its items only."""
    return fit_at(
        abilities_of(mean_scores(table)),
        lambda basis, x: Groups(table, x, basis),
        factors,
        extra,
    )


def mean_scores(table: ScoreTable) -> Floats:
    """As `items.mean_scores`, from a table read in parts."""
    o = table.overview
    overall = o.item_sum.sum() / o.item_count.sum()
    item = (o.item_sum + 0.5 * overall) / (o.item_count + 0.5)
    if o.whole:
        return np.asarray(o.model_mean)
    expected = np.empty(len(o.model_mean))
    for at, scores in table.parts():
        expected[at] = np.isfinite(scores) @ item
    return np.asarray(o.model_mean - expected / o.model_count + item.mean())


class Groups:
    """Scores of a table, its models in groups of like ability; see `cells.Data`.

    Parameters
    ----------
    table : ScoreTable
    x : ndarray of shape (n_models,)
        Abilities.
    basis : AbilityBasis
    """

    def __init__(self, table: ScoreTable, x: Floats, basis: AbilityBasis) -> None:
        self._table, self._whole = table, table.overview.whole
        self.n_models, self.n_items, self.size = len(x), table.n_items, basis.size
        overview = table.overview
        self.item_sum, self.item_count = overview.item_sum, overview.item_count
        self.overall = float(self.item_sum.sum() / self.item_count.sum())
        self._share = overview.model_count / self.n_items
        low, high = float(x.min()), float(x.max())
        most_groups = np.clip(_GROUP_CELLS // self.n_items, _LEAST_GROUPS, _MOST_GROUPS)
        width = max(_WIDTH * float(x.std()), (high - low) / float(most_groups), 1e-9)
        _, self._group, self._in_group = np.unique(
            ((x - low) / width).astype(int), return_inverse=True, return_counts=True
        )
        centre = np.bincount(self._group, x) / self._in_group
        self._away = x - centre[self._group]
        value_and_slope = [basis.value_and_slope(float(c)) for c in centre]
        self._f, self._slope = (np.array(part) for part in zip(*value_and_slope))
        row, column, self._times = packed(basis.size)
        self._products = self._f[:, row] * self._f[:, column]
        by_group = np.argsort(self._group, kind="stable")
        most = max(_PART // self.n_items, 1)
        self._parts = [
            (g, rows[i : i + most])
            for g, rows in enumerate(np.split(by_group, np.cumsum(self._in_group)[:-1]))
            for i in range(0, len(rows), most)
        ]
        self._w = np.empty((len(centre), self.n_items))

    def look(self, c: Floats, s: Floats) -> Look:
        """See `Data`."""
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
        """See `Data`; of a model that lacks items, as if it lacked average ones."""
        found = np.empty(len(self._w))
        for g, w in enumerate(self._w):
            found[g] = ((w * w) @ inverse) @ (self._products[g] * self._times)
        return np.asarray(found[self._group] * self._share)

    def rest(self, c: Floats, s: Floats, factors: int) -> Rest:
        """See `Data`."""
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

    def _residuals(self, c: Floats) -> Iterator[tuple[int, Positions, Floats, Floats | None]]:
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
                there = np.isfinite(residual)
                residual[~there] = 0.0
                seen = there.astype(np.float64)
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
            u, found, turn = np.linalg.svd(left, full_matrices=False)
            u, right, before, size = u[:, :k], (q @ turn.T)[:, :k], size, found[:k]
            if (np.abs(size - before) <= _SETTLED * size).all():
                break
            q = product
        edge = noise_edge(total / self.item_count.sum(), self.n_models, self.n_items)
        pairs = [signed(u[:, f], right[:, f]) for f in range(k)]
        if pairs:
            u, right = (np.column_stack(side) for side in zip(*pairs))
        return size, u, right, edge

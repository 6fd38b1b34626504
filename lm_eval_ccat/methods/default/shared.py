"""What the draws say of all models of a ranking together, kept up model by model.

Variances and covariances of mean residuals are sums over the draws of products of what two models
have there. One more score changes what one model has: one row and column of each sum.

The sums are those that would be found anew, to the last bit, whenever they are looked at: draws
keep the order in which they fell, and sums run over whole blocks of them, zeros included, one entry
at a time (a product of matrices would add in an order that depends on their shapes).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

# With c the weights of a model's draws in its mean residual, e the residuals from it and s the
# standard deviations expected; 0 where a model has no score.
_CE, _CS, _E, _CE2, _CE3, _AGAIN = range(6)  # c e, c s, root c e, (c e)^2, (c e)^3, c e once more
_OTHER = [_CE, _CS, _E, _CE2, _AGAIN, _CE3]  # what each one is multiplied by
_BLOCK = 64  # of columns


class SharedDraws:
    """Sums over draws of products of what two models have there.

    Attributes
    ----------
    found, expected : ndarray of shape (n_models, n_models)
        Covariance of mean residuals, as the residuals have it and as the bank has it if models
        were alike.
    own : ndarray of shape (n_models, n_models)
        Covariance of single residuals, as they have it.
    """

    def __init__(self) -> None:
        self._columns: dict[int, int] = {}  # of the items drawn for any model
        self._rows: Floats = np.zeros((6, 0, 0))
        self._sums: Floats = np.zeros((5, 0, 0))

    def add_model(self) -> None:
        """One more model, without draws."""
        self._rows = np.pad(self._rows, ((0, 0), (0, 1), (0, 0)))
        self._sums = np.pad(self._sums, ((0, 0), (0, 1), (0, 1)))

    def fell(self, item: int) -> None:
        """An item was drawn for some model."""
        self._columns.setdefault(item, len(self._columns))
        if len(self._columns) > self._rows.shape[2]:
            self._rows = np.pad(self._rows, ((0, 0), (0, 0), (0, _BLOCK)))

    def put(self, a: int, items: Sequence[int], c: Floats, e: Floats, sd: Floats) -> None:
        """Model `a` has these draws now.

        Parameters
        ----------
        a : int
        items : sequence of int, length q
            All of which `fell`; no fewer than before.
        c, e, sd : ndarray of shape (q,)
        """
        at = [self._columns[i] for i in items]
        x = c * e
        x2 = x * x
        self._rows[:, a, at] = (x, c * sd, np.sqrt(c) * e, x2, x2 * x, x)
        products = np.einsum("khd,kd->kh", self._rows, self._rows[_OTHER, a])
        products[4] += products[5]
        self._sums[:, a] = products[:5]
        self._sums[:, :, a] = products[:5]

    @property
    def found(self) -> Floats:
        return np.asarray(self._sums[0])

    @property
    def expected(self) -> Floats:
        return np.asarray(self._sums[1])

    @property
    def own(self) -> Floats:
        return np.asarray(self._sums[2])

    def carrying(self) -> Floats:
        """``(sum y^2)^2 / sum y^4`` of ``c e`` (the diagonal) and of its differences.

        How many draws carry these variances: if two 0/1 models differ on four of fifty draws,
        these four tell it.
        """
        second, fourth, cross = self._sums[0], self._sums[3], self._sums[4]
        own, even = second.diagonal(), fourth.diagonal()
        squares = own[:, None] + own - 2.0 * second
        quartics = even[:, None] + even + 6.0 * fourth - 4.0 * cross
        squares.flat[:: len(own) + 1] = own
        quartics.flat[:: len(own) + 1] = even
        return np.asarray(squares**2 / np.maximum(quartics, 1e-300))

"""What the draws say of all models of a ranking together, kept up model by model.

Variances and covariances of mean residuals are sums over the draws of products of what two models
have there. One more score changes what one model has: one row and column of each sum.

The sums are those that would be found anew, to the last bit, whenever they are looked at: draws
keep the order in which they fell, and sums run over whole blocks of them, zeros included, one entry
at a time (a product of matrices would add in an order that depends on their shapes).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Models = int | NDArray[np.intp]

# With c the weights of a model's draws in its mean residual, e the residuals from it and s the
# standard deviations expected; 0 where a model has no score.
_CE, _CS, _E, _CE2, _CE3, _AGAIN = range(6)  # c e, c s, root c e, (c e)^2, (c e)^3, c e once more
_OTHER = np.array([_CE, _CS, _E, _CE2, _AGAIN, _CE3])  # what each one is multiplied by
_BLOCK = 64  # of columns
_ROUNDING = 1e-13  # relative, of a difference of sums of fourth powers


class SharedDraws:
    """Sums over draws of products of what two models have there.

    Attributes
    ----------
    found, expected, own, fourth, cross : ndarray of shape (n_models, n_models)
        Covariance of mean residuals, as the residuals have it and as the bank has it if models
        were alike; covariance of single residuals, as they have it; and with ``x = c e`` the sums
        of ``x_a^2 x_b^2`` and of ``x_a^3 x_b + x_a x_b^3``.
    """

    def __init__(self) -> None:
        self._columns: dict[int, int] = {}  # of the items drawn for any model
        self._rows: Floats = np.zeros((6, 0, 0))
        self._sums: Floats = np.zeros((5, 0, 0))
        self.found, self.expected, self.own, self.fourth, self.cross = self._sums

    def add_model(self) -> None:
        """One more model, without draws."""
        self._rows = np.pad(self._rows, ((0, 0), (0, 1), (0, 0)))
        self._sums = np.pad(self._sums, ((0, 0), (0, 1), (0, 1)))
        self.found, self.expected, self.own, self.fourth, self.cross = self._sums

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

    def carrying(self, at: Models, of: Models) -> Floats:
        """How many draws carry the variance of a difference of mean residuals, for some models.

        ``(sum y^2)^2 / sum y^4`` with ``y`` the differences of ``c e``: if two 0/1 models differ on
        four of fifty draws, these four tell it. On the diagonal it is that of ``c e`` itself.

        Parameters
        ----------
        at, of : int, or ndarray of int of shape (n,) and (n, 1)
            The models of these rows.

        Returns
        -------
        ndarray of shape (n_models,) or (n, n_models)
        """
        own, even = self.found.diagonal(), self.fourth.diagonal()
        squares = own[of] + own
        squares -= 2.0 * self.found[at]
        squares *= squares
        quartics = even[of] + even
        least = _ROUNDING * quartics + 1e-300  # of models that answered alike nothing is left
        quartics += 6.0 * self.fourth[at]
        quartics -= 4.0 * self.cross[at]
        squares /= np.maximum(quartics, least)
        squares[on_diagonal(at)] = own[at] ** 2 / np.maximum(even[at], 1e-300)
        return np.asarray(squares)


def on_diagonal(at: Models) -> Any:
    """Where the rows of some models cross the diagonal."""
    return at if isinstance(at, int) else (np.arange(len(at)), at)

"""What the scores say of all models of a ranking together, kept up model by model.

Variances and covariances of mean residuals are sums over the draws of products of what two models
have there. One more score changes what one model has: one row and column of each sum.

The sums are those that would be found anew, to the last bit, whenever they are looked at: draws
keep the order in which they fell, and sums run over whole blocks of them, zeros included, one entry
at a time (a product of matrices would add in an order that depends on their shapes).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .member import Member

Floats = NDArray[np.float64]

# With c the weights of a model's draws in its mean residual, e the residuals from it and s the
# standard deviations expected; 0 where a model has no score.
_CE, _CS, _E, _CE2, _CE3, _AGAIN = range(6)  # c e, c s, root c e, (c e)^2, (c e)^3, c e once more
_OTHER = np.array([_CE, _CS, _E, _CE2, _AGAIN, _CE3])  # what each one is multiplied by
_BLOCK = 64  # of columns
_ROUNDING = 1e-13  # relative, of a difference of sums of fourth powers


class Sums(NamedTuple):
    """Sums over draws of products of what two models have there; shape (n_models, n_models).

    Attributes
    ----------
    found, expected, own
        Covariance of mean residuals, as the residuals have it and as the bank has it if models were
        alike; covariance of single residuals, as they have it.
    fourth, cross
        With ``y = c e`` the sums of ``y_a^2 y_b^2`` and of ``y_a^3 y_b + y_a y_b^3``.
    """

    found: Floats
    expected: Floats
    own: Floats
    fourth: Floats
    cross: Floats

    @property
    def carry(self) -> Floats:
        """How many draws carry the variance of a difference of mean residuals.

        ``(sum y^2)^2 / sum y^4`` with ``y`` the differences of ``c e``: if two 0/1 models differ on
        four of fifty draws, these four tell it. On the diagonal it is that of ``c e`` itself.
        """
        own, even = self.found.diagonal(), self.fourth.diagonal()
        squares = (own[:, None] + own - 2.0 * self.found) ** 2
        quartics = even[:, None] + even
        least = _ROUNDING * quartics + 1e-300  # of models that answered alike nothing is left
        squares /= np.maximum(quartics + 6.0 * self.fourth - 4.0 * self.cross, least)
        np.fill_diagonal(squares, own**2 / np.maximum(even, 1e-300))
        return np.asarray(squares)


class SharedDraws:
    """Keeps the sums up, model by model."""

    def __init__(self) -> None:
        self._columns: dict[int, int] = {}  # of the items drawn for any model
        self._rows: Floats = np.zeros((len(_OTHER), 0, 0))
        self._sums: Floats = np.zeros((len(_OTHER), 0, 0))

    @property
    def sums(self) -> Sums:
        """The sums as they stand."""
        return Sums(*np.delete(self._sums, _AGAIN, 0))

    def add_model(self) -> None:
        """One more model, without scores."""
        self._rows = np.pad(self._rows, ((0, 0), (0, 1), (0, 0)))
        self._sums = np.pad(self._sums, ((0, 0), (0, 1), (0, 1)))

    def fell(self, item: int) -> None:
        """An item was drawn for some model."""
        self._columns.setdefault(item, len(self._columns))
        if len(self._columns) > self._rows.shape[2]:
            self._rows = np.pad(self._rows, ((0, 0), (0, 0), (0, _BLOCK)))

    def put(self, a: int, m: Member) -> None:
        """Replace the state of model `a` by this member's; its draws all `fell`."""
        at = [self._columns[i] for i in m.drawn]
        y = m.c * m.e
        self._rows[:, a, at] = y, m.c * m.sd, np.sqrt(m.c) * m.e, y * y, y * y * y, y
        products = np.einsum("khd,kd->kh", self._rows, self._rows[_OTHER, a])
        products[_CE3] += products[_AGAIN]
        self._sums[:, a] = products
        self._sums[:, :, a] = products

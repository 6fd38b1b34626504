"""What is known of the models of a ranking before and after draws are weighed against the bank.

What draws make of all of it together is `Look.result`.

Variances and covariances of mean residuals are sums over the draws of products of what two models
have there. One more score changes what one model has: one row and column of each sum. The sums are
those that would be found anew, to the last bit, whenever they are looked at: draws keep the order
in which they fell, and sums run over whole blocks of them, zeros included, one entry at a time (a
product of matrices would add in an order that depends on their shapes).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ..belief import Floats
from .departures import UNKNOWN, Departures, posterior, spread
from .member import NU0, Member

# With c the weights of a model's draws in its mean residual, e the residuals from it and s the
# standard deviations expected; 0 where a model has no score.
_CE, _CS, _E, _CE2, _CE3, _AGAIN = range(6)  # c e, c s, root c e, (c e)^2, (c e)^3, c e once more
_OTHER = np.array([_CE, _CS, _E, _CE2, _AGAIN, _CE3])  # what each one is multiplied by
_BLOCK = 64  # of columns
_ROUNDING = 1e-13  # relative, of a difference of sums of fourth powers


class Result(NamedTuple):
    """What is known of the full-benchmark means.

    Attributes
    ----------
    estimate : ndarray of shape (n_models,)
    variance, df : ndarray of shape (n_models, n_models)
        Variances of all differences, and their degrees of freedom; on the diagonals those of the
        models themselves.
    """

    estimate: Floats
    variance: Floats
    df: Floats

    @classmethod
    def apart(cls, of: Sequence[Result]) -> Result:
        """The joint look at several fields, whose models' errors are independent."""
        if len(of) == 1:
            return of[0]
        alone = np.concatenate([r.variance.diagonal() for r in of])
        df = np.concatenate([r.df.diagonal() for r in of])
        variance = alone[:, None] + alone
        share = alone**2 / df
        both, welch = share[:, None] + share, np.full(variance.shape, np.inf)
        np.divide(variance**2, both, out=welch, where=both > 0.0)
        every = slice(None, None, len(alone) + 1)
        variance.flat[every], welch.flat[every] = alone, df
        return cls(np.concatenate([r.estimate for r in of]), variance, welch)


class Look(NamedTuple):
    """The field before draws are weighed against the bank; arrays by model.

    Attributes
    ----------
    t, v, level, left, q, rbar : ndarray of shape (n_models,)
        As `Member` has them.
    S, T, M : ndarray of shape (n_models, n_models)
        Covariances of residuals on one item, of mean residuals on the draws, of departures a
        priori.
    carry : ndarray of shape (n_models, n_models)
        How many draws carry the variances of residuals (the diagonal) and of their differences: if
        two 0/1 models differ on four of fifty draws, these four tell it.
    """

    t: Floats
    v: Floats
    level: Floats
    left: Floats
    q: Floats
    rbar: Floats
    S: Floats
    T: Floats
    M: Floats
    carry: Floats

    def levers(
        self, d: Departures, variance: Floats, slope: Floats, n_items: int
    ) -> tuple[Floats, Floats]:
        """How much each estimate changes with its model's ability, and its part of the variance.

        Parameters
        ----------
        d : Departures
        variance, slope : ndarray of shape (n_models,)
            Of the estimates, and in the ability if there were no departures.
        n_items : int

        Returns
        -------
        slope, share : ndarray of shape (n_models,)
        """
        u = self.left / n_items
        before, whole = self.M.diagonal(), np.maximum(d.inflation * u * u, 1e-300)
        noise = self.S.diagonal() / np.maximum(self.left, 1.0)
        # What draws leave of the departures, and what of these the ability explains.
        after = np.clip(variance / whole - noise, 0.0, before)
        explained = np.minimum(d.single[0] * self.v * self.level / before, 1.0)
        share = after * explained * whole / np.maximum(variance, 1e-300)
        return slope * after / before, np.clip(share, 0.0, 1.0)

    def result(self, d: Departures, n_items: float) -> Result:
        """Weigh the draws against the bank: estimates, and their errors after both."""
        u = self.left / n_items
        if any(self.q.tolist()):
            beta, C = posterior(self.M, self.T, self.rbar)
        else:
            beta, C = np.zeros(len(u)), self.M
        left = np.maximum(self.left, 1.0)
        V = self.S / np.maximum(left[:, None], left)
        V += C
        V *= u[:, None] * u
        estimate = self.t + u * beta
        after, before = spread(C), spread(self.M)
        every = slice(None, None, len(u) + 1)  # on the diagonals stands what is of one model
        after.flat[every], before.flat[every] = C.diagonal(), self.M.diagonal()
        variance = d.inflation_of_pairs * spread(V)
        variance.flat[every] = d.inflation * np.maximum(V.diagonal(), 0.0)
        return Result(
            np.minimum(np.maximum(estimate, 0.0, out=estimate), 1.0, out=estimate),
            variance,
            _freedom(after, before, d.df, self.carry),
        )


def _freedom(after: Floats, before: Floats, df: float, carry: Floats) -> Floats:
    """Degrees of freedom of a variance of which the bank tells one part and the draws the other."""
    bank = np.divide(after, before, out=after)
    np.minimum(np.maximum(bank, 0.0, out=bank), 1.0, out=bank)
    draws = 1.0 - bank
    draws *= draws
    draws /= NU0 + np.maximum(carry - 1.0, 0.0)
    bank *= bank
    bank /= df
    bank += draws
    return np.divide(1.0, bank, out=bank)


class Joint:
    """The state that a `Look` is taken of, kept up model by model.

    Attributes
    ----------
    departures : Departures
        The prior; whoever changes it puts all models anew.
    sums : ndarray of shape (6, n_models, n_models)
        Over draws, of products of what two models have there. Covariance of mean residuals, as the
        residuals have it and as the bank has it if models were alike; covariance of single
        residuals, as they have it; with ``y = c e`` the sums of ``y_a^2 y_b^2`` and of
        ``y_a^3 y_b + y_a y_b^3``.
    """

    def __init__(self, departures: Departures) -> None:
        self.departures = departures
        self._columns: dict[int, int] = {}  # of the items drawn for any model
        self._rows: Floats = np.zeros((len(_OTHER), 0, 0))
        self.sums: Floats = np.zeros((len(_OTHER), 0, 0))
        self._of_model: Floats = np.zeros((7, 0))

    def add_model(self) -> None:
        """One more model, without any information so far."""
        self._rows = np.pad(self._rows, ((0, 0), (0, 1), (0, 0)))
        self.sums = np.pad(self.sums, ((0, 0), (0, 1), (0, 1)))
        self._of_model = np.pad(self._of_model, ((0, 0), (0, 1)))

    def fell(self, item: int) -> None:
        """An item was drawn for some model."""
        self._columns.setdefault(item, len(self._columns))
        if len(self._columns) > self._rows.shape[2]:
            self._rows = np.pad(self._rows, ((0, 0), (0, 0), (0, _BLOCK)))

    def put(self, a: int, m: Member) -> None:
        """Replace the state of model `a` by this member's; its draws all `fell`."""
        d = self.departures
        m.refresh()
        sd = (d.noise * m.noise + d.floor * m.level) ** 0.5
        self._of_model[:, a] = m.t, m.v, m.level, m.left, m.q, m.rbar, sd
        at = [self._columns[i] for i in m.drawn]
        y = m.c * m.e
        self._rows[:, a, at] = y, m.c * m.sd, np.sqrt(m.c) * m.e, y * y, y * y * y, y
        products = np.einsum("khd,kd->kh", self._rows, self._rows[_OTHER, a])
        products[_CE3] += products[_AGAIN]
        self.sums[:, a] = products
        self.sums[:, :, a] = products

    @property
    def carry(self) -> Floats:
        """How many draws carry the variance of a difference of mean residuals.

        ``(sum y^2)^2 / sum y^4`` with ``y`` the differences of ``c e``: if two 0/1 models differ on
        four of fifty draws, these four tell it. On the diagonal it is that of ``c e`` itself.
        """
        covariance, fourth, cross = self.sums[_CE], self.sums[_CE2], self.sums[_CE3]
        alone, even = covariance.diagonal(), fourth.diagonal()
        squares = (alone[:, None] + alone - 2.0 * covariance) ** 2
        quartics = even[:, None] + even
        least = _ROUNDING * quartics + 1e-300  # of models that answered alike nothing is left
        squares /= np.maximum(quartics + 6.0 * fourth - 4.0 * cross, least)
        np.fill_diagonal(squares, alone**2 / np.maximum(even, 1e-300))
        return np.asarray(squares)

    def look(self) -> Look:
        """The field as it is known now."""
        d, (t, v, level, left, q, rbar, sd) = self.departures, self._of_model.copy()
        alike = np.full((len(t), len(t)), d.rho)
        np.fill_diagonal(alike, 1.0)  # a model is wholly like itself
        # The bank's covariance of residuals counts as so many draws beside the models' own.
        total = NU0 + np.maximum(q - 1.0, 0.0)
        bank, draws = np.sqrt(NU0 / total), np.sqrt(q / total)
        measured, noise = draws[:, None] * draws, sd * bank
        S = alike * (noise[:, None] * noise) + measured * self.sums[_E]
        T = alike * (bank[:, None] * bank) * self.sums[_CS] + measured * self.sums[_CE]
        T += np.diag(np.where(q > 0.0, 0.0, UNKNOWN))
        return Look(t, v, level, left, q, rbar, S, T, d.prior(v, t, level), self.carry)

"""What is known of the models of a ranking before and after draws are weighed against the bank.

What draws make of all of it together is `Look.result`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..policy import Levers
from .departures import UNKNOWN, Departures, posterior, spread
from .member import NU0, Member
from .shared import SharedDraws

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Result:
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
        own, df = (
            np.concatenate([x.diagonal() for x in m])
            for m in zip(*((r.variance, r.df) for r in of))
        )
        variance = own[:, None] + own
        share = own**2 / df
        both, welch = share[:, None] + share, np.full(variance.shape, np.inf)
        np.divide(variance**2, both, out=welch, where=both > 0.0)
        every = slice(None, None, len(own) + 1)
        variance.flat[every], welch.flat[every] = own, df
        return cls(np.concatenate([r.estimate for r in of]), variance, welch)


@dataclass(frozen=True)
class Look:
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
        self, d: Departures, variance: Floats, z: Floats, n_items: int, prior_variance: float
    ) -> Levers:
        """How much each estimate changes with its model's ability.

        Parameters
        ----------
        d : Departures
        variance : ndarray of shape (n_models,)
            Of the estimates.
        z : ndarray of shape (3, n_models)
            Ability and its variance, and the slope of the estimate in it.
        n_items : int
        prior_variance : float
            Of an ability.
        """
        u = self.left / n_items
        before, whole = self.M.diagonal(), np.maximum(d.inflation * u * u, 1e-300)
        noise = self.S.diagonal() / np.maximum(self.left, 1.0)
        # What draws leave of the departures, and what of these the ability explains.
        after = np.clip(variance / whole - noise, 0.0, before)
        explained = np.minimum(d.single[0] * self.v * self.level / before, 1.0)
        share = after * explained * whole / np.maximum(variance, 1e-300)
        slope = z[2] * after / before
        return Levers(z[0], z[1], prior_variance, slope, variance, np.clip(share, 0.0, 1.0))

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
    """The state that a `Look` is taken of.

    Attributes
    ----------
    departures : Departures
        The prior; whoever changes it puts all models anew.
    """

    def __init__(self, departures: Departures) -> None:
        self.departures = departures
        self.draws = SharedDraws()
        self._of_model: Floats = np.zeros((7, 0))

    def add_model(self) -> None:
        """One more model, without any information so far."""
        self.draws.add_model()
        self._of_model = np.pad(self._of_model, ((0, 0), (0, 1)))

    def put(self, a: int, m: Member) -> None:
        """Replace the state of model `a` by this member's."""
        d = self.departures
        m.refresh()
        sd = (d.noise * m.noise + d.floor * m.level) ** 0.5
        self._of_model[:, a] = m.t, m.v, m.level, m.left, m.q, m.rbar, sd
        self.draws.put(a, m)

    def look(self) -> Look:
        """The field as it is known now."""
        d, sums = self.departures, self.draws.sums
        t, v, level, left, q, rbar, sd = self._of_model.copy()
        alike = np.full(sums.found.shape, d.rho)
        np.fill_diagonal(alike, 1.0)  # a model is wholly like itself
        # The bank's covariance of residuals counts as so many draws beside the models' own.
        total = NU0 + np.maximum(q - 1.0, 0.0)
        bank, own = np.sqrt(NU0 / total), np.sqrt(q / total)
        told, noise = own[:, None] * own, sd * bank
        S = alike * (noise[:, None] * noise) + told * sums.own
        T = alike * (bank[:, None] * bank) * sums.expected + told * sums.found
        T += np.diag(np.where(q > 0.0, 0.0, UNKNOWN))
        return Look(t, v, level, left, q, rbar, S, T, d.prior(v, t, level), sums.carry)

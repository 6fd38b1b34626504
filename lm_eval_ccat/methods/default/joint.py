"""What is known of the models of a ranking before and after draws are weighed against the bank.

A score changes what is known of one model, and with it one row and one column of every matrix over
pairs: `Joint` keeps these up row by row. What draws make of all of it together is `Look.result`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..policy import Levers
from .departures import UNKNOWN, Departures, positive, posterior, spread
from .member import NU0, Member
from .shared import Models, SharedDraws, on_diagonal

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
        """Of models in several fields, whose errors have nothing in common."""
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

    `carry` says how many draws carry the variances of residuals (the diagonal) and of their
    differences: if two 0/1 models differ on four of fifty draws, these four tell it.
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
        """How estimates hang on abilities.

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
        """What the draws make of the prior."""
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
        self._draws = SharedDraws()
        self._of_model: Floats = np.zeros((9, 0))
        self._of_pair: Floats = np.zeros((4, 0, 0))

    def add_model(self) -> None:
        """One more model, without any information so far."""
        self._draws.add_model()
        self._of_model = np.pad(self._of_model, ((0, 0), (0, 1)))
        self._of_pair = np.pad(self._of_pair, ((0, 0), (0, 1), (0, 1)))

    def fell(self, item: int) -> None:
        """An item was drawn for some model."""
        self._draws.fell(item)

    def put(self, models: Sequence[int], members: Iterable[Member]) -> None:
        """These models stand as these members now."""
        d = self.departures
        for a, m in zip(models, members):
            m.refresh()
            # The bank's covariance of residuals counts as so many draws beside the model's own.
            total = NU0 + max(m.q - 1.0, 0.0)
            bank, own = (NU0 / total) ** 0.5, (m.q / total) ** 0.5
            sd = (d.noise * m.noise + d.floor * m.level) ** 0.5
            self._of_model[:, a] = m.t, m.v, m.level, m.left, m.q, m.rbar, bank, own, sd * bank
            if m.q:
                self._draws.put(a, m.drawn, m.c, m.e, m.sd)
        if len(models) == 1:
            self._put_pairs(models[0], models[0])
        elif models:
            at = np.array(models)
            self._put_pairs(at, at[:, None])

    def _put_pairs(self, at: Models, of: Models) -> None:
        """Bring up to date the pairs of some models, `of` being `at` as a column."""
        d, draws = self.departures, self._draws
        t, v, level, _, q, _, bank, own, noise = self._of_model
        single = d.alone(v, t)
        told = own[of] * own
        M, carry = d.shared(single, v, t, level, of), draws.carrying(at, of)
        T = bank[of] * bank
        T *= d.rho
        T *= draws.expected[at]
        T += told * draws.found[at]
        S = noise[of] * noise
        S *= d.rho
        told *= draws.own[at]
        S += told
        # A model is wholly like itself.
        here = on_diagonal(at)
        M[here] = single[at] * level[at]
        T[here] += (1.0 - d.rho) * bank[at] ** 2 * draws.expected[at, at]
        T[here] += np.where(q[at] > 0.0, 0.0, UNKNOWN)
        S[here] += (1.0 - d.rho) * noise[at] ** 2
        rows = np.array([S, T, M, carry])
        self._of_pair[:, at] = rows
        self._of_pair[:, :, at] = rows if isinstance(at, int) else rows.transpose(0, 2, 1)

    def look(self) -> Look:
        """What is known now."""
        t, v, level, left, q, rbar = self._of_model[:6].copy()
        S, T, M, carry = self._of_pair.copy()
        largest = float(np.maximum.reduce(self.departures.alone(v, t)))
        return Look(t, v, level, left, q, rbar, S, T, positive(M, largest), carry)

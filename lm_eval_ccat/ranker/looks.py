"""`Looks`: how large a difference must be to decide a pair, however often the ranker looks.

After `n` items of both models (n >= 10, at most `horizon` of N) a pair is decided if

    |z| >= 1.04 C (n / horizon) ** (DELTA - 1/2),  DELTA = 1/4,

with z the difference in standard errors, brought from Student's tail to the normal one. C solves

    level = 2 Phi(-c_0) + sum over looks of phi(c_k') c_k' (d_k - 2 (log c_k - log c_(k-1))),
    d_k = log I_k - log I_(k-1),  I = n / (1 - n/N),  c_k' = c_k + 0.583 sqrt(d_k):

the first look, then Durbin's tangent approximation of the rate at which Brownian motion leaves a
curved boundary, with Siegmund's correction for discrete looks. Inverted, it is a p-value that holds
at every look. A ranking that passes its horizon raises it, for which a part of the level is held
back from the start. Without a horizon, `methods.belief.boundary` takes its place. `family` makes
the confidence hold for all pairs together.

References
----------
S. K. Wang and A. A. Tsiatis, Biometrics 43 (1987), the family of boundaries; J. Durbin, Journal of
Applied Probability 22 (1985), the tangent approximation; D. Siegmund, Sequential Analysis (1985),
0.583; J. P. Shaffer, Journal of the American Statistical Association 81 (1986), families.
benchmarks/looks.py measures how it performs on real scores.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri, stdtrit

from ..methods.belief import Belief, boundary, log_p, log_p_of_zeros, tail
from ..metrics.scale import Floats

#: Items of both models before which no pair is decided; exponent of the boundary: 0.5 gives
#: Pocock's constant boundary, 0 O'Brien and Fleming's.
FIRST_LOOK, DELTA = 10, 0.25
#: Factor on the boundary that makes up for standard errors and tails that are slightly too small.
STRETCH = 1.04
#: Part of the level held back in case the horizon is raised; each further horizon takes half of
#: the remainder.
KEPT = 0.1
#: Rounding error allowed in sums of scores.
ROUNDING = 1e-12


def _clock(n: Floats, n_items: float) -> Floats:
    """Return one over the variance of a mean over `n` of `n_items` drawn without replacement."""
    return np.asarray(n / np.maximum(1.0 - n / n_items, 0.5 / n_items))


@lru_cache(maxsize=64)
def _scales(first: int, horizon: int, n_items: float) -> tuple[Floats, Floats]:
    """Return scales C of the boundary, and the log chance that equal models ever exceed them."""
    scale = np.linspace(0.5, 9.0, 400)
    n = np.arange(min(first, horizon), horizon + 1.0)
    shape = (n / horizon) ** (DELTA - 0.5)
    step = np.diff(np.log(_clock(n, n_items)))
    c = np.multiply.outer(scale, shape)
    later = c[:, 1:] + 0.583 * np.sqrt(step)
    rate = np.exp(-0.5 * later**2) / math.sqrt(2.0 * math.pi) * later
    wrong = 2.0 * ndtr(-c[:, 0]) + (rate * (step - 2.0 * np.diff(np.log(shape)))).sum(axis=1)
    return scale, np.minimum.accumulate(np.log(np.minimum(wrong, 1.0)))


@dataclass(frozen=True, eq=False)
class Looks:
    """Rule for repeated looks (one, up to a horizon, or any number), and the evidence so far.

    Attributes
    ----------
    once : bool
        Whether there is a single look, at a number of items fixed in advance.
    horizons : tuple of int
        Most items that a pair can get, followed by the values that it was raised to. Empty if
        there is no limit.
    seen : ndarray of shape (3, n_tested, n_rows), optional
        The largest evidence (``-log p``) of the looks so far: row better, column better, as close
        as ``min_difference``; 0 where it decides nothing. Only `after` changes it, which only the
        ranker calls: reading a result is no look.
    counts : ndarray of shape (n_tested, n_rows), optional
        `Belief.counts` under these looks; None for a single one.
    last : Belief, optional
        The belief at the last look.

    Examples
    --------
    >>> at = np.array([20.0, 100.0, 200.0])
    >>> Looks(horizons=(200,)).boundary(0.05, at, 1000.0).round(2).tolist()
    [4.48, 2.99, 2.52]
    >>> Looks().boundary(0.05, at, 1000.0).round(2).tolist()
    [3.16, 3.06, 3.13]
    """

    once: bool = False
    horizons: tuple[int, ...] = ()
    seen: Floats | None = None
    counts: Floats | None = None
    last: Belief | None = None

    # -- the boundary -------------------------------------------------------------------------

    def _stages(self, n_items: float) -> list[tuple[int, int, float]]:
        """Return the first and last item of each stage, and its part of the level."""
        out, first, left = [], FIRST_LOOK, 1.0
        for k, horizon in enumerate(self.horizons):
            last = int(max(min(horizon, n_items - 1), 1))
            if last < first and k:  # after the last item everything is known: no level is needed
                break
            share = left if horizon >= n_items - 1 else left * (0.5 if k else 1.0 - KEPT)
            out.append((first, last, share))
            first, left = last + 1, left - share
        return out

    def spent(self, n_items: float) -> float:
        """Return the part of the level that the horizons so far may use up."""
        return sum(s for *_, s in self._stages(n_items)) if self.horizons else 1.0

    def log_p(self, tails: Floats, n: Floats, n_items: float) -> Floats:
        """Return the log of the two-sided level at which a one-sided tail decides, at any look."""
        tails = np.maximum(tails, 1e-300)
        if self.once:
            return np.asarray(np.minimum(np.log(2.0 * tails), 0.0))
        z, n = np.maximum(-ndtri(tails), 0.0), np.maximum(n, 1.0)
        if not self.horizons:
            log = log_p(z, _clock(n, n_items))
        else:
            log = np.zeros(n.shape)
            for first, last, share in self._stages(n_items):
                at = z / STRETCH * np.minimum(n / last, 1.0) ** (0.5 - DELTA)
                here = np.interp(at, *_scales(first, last, n_items)) - math.log(share)
                log = np.where((n >= first) & (n <= last), here, log)
            log = np.where(n >= n_items, math.log(1e-300), log)
        return np.asarray(np.where(n < min(FIRST_LOOK, n_items), 0.0, np.minimum(log, 0.0)))

    def boundary(self, level: float, n: Floats, n_items: float) -> Floats:
        """Return the standard errors that decide at `level`; infinite before the first look."""
        if self.once:
            return np.full(np.shape(n), -float(ndtri(0.5 * level)))
        n = np.maximum(n, 1.0)
        if not self.horizons:
            c = boundary(level, _clock(n, n_items))
        else:
            c = np.full(n.shape, np.inf)
            for first, last, share in self._stages(n_items):
                least = _least(first, last, n_items, level * share)
                shape = np.minimum(n / last, 1.0) ** (DELTA - 0.5)
                c = np.where((n >= first) & (n <= last), STRETCH * least * shape, c)
            c = np.where(n >= n_items, 0.0, c)
        return np.asarray(np.where(n < min(FIRST_LOOK, n_items), np.inf, c))

    def reach(self, level: float, df: Floats, n: Floats, n_items: float) -> Floats:
        """Return half the width of an interval of this error level, in standard errors."""
        c = self.boundary(level, n, n_items)
        tails = np.maximum(ndtr(-np.minimum(c, 30.0)), 1e-300)
        with np.errstate(invalid="ignore"):
            student = np.where(np.isinf(df), c, -stdtrit(np.minimum(df, 1e9), tails))
        return np.asarray(np.where(np.isinf(c), np.inf, student))

    # -- what was seen ------------------------------------------------------------------------

    def after(self, belief: Belief, level: float, min_difference: float = 0.0) -> Looks:
        """Return these looks after one more, at which pairs may be decided at levels to `level`.

        Evidence too weak to decide at `level` counts as none, which saves time. Only pairs whose
        belief has changed since the last look, taken at the same level, are looked at: with
        hundreds of models an answer changes few of them.
        """
        m = len(belief.location)
        differs = self._differs(belief)
        # `flatnonzero` is several times faster than `nonzero` of the matrix.
        at = i, j = np.unravel_index(np.flatnonzero(differs), differs.shape)
        gap, variance, df, n = belief.pairs_at(i, j)
        least = self.boundary(level, n, belief.n_items)
        slack, sure = np.zeros(gap.shape), np.abs(gap)
        if belief.slack is not None and (of := belief.on_scores.slack) is not None:
            slack, sure = np.maximum(of[0][at], of[1][at]), belief.surely[at]
        size = self._evidence(sure, variance, df, n, belief.n_items, least)
        now = np.array([np.where(gap > 0.0, size, 0.0), np.where(gap < 0.0, size, 0.0), 0.0 * gap])
        # If failures may explain part of the gap, the rest of it must suffice as well.
        tested, leans = j < m, slack[j < m] > 0.0
        against = None if self.once else belief.against
        a, b = i[~tested], j[~tested] - m
        if against is not None:
            surely = np.where(slack[~tested] > 0.0, now[:2, ~tested], np.inf)
            now[:2, ~tested] = np.minimum(against[:2, a, b], surely)
        if belief.evidence is not None and not self.once:
            both = [belief.evidence[i[tested], j[tested]], belief.evidence[j[tested], i[tested]]]
            now[:2, tested] = np.minimum(both, np.where(leans, now[:2, tested], np.inf))
        if min_difference > 0.0:
            gap, variance, df, n = belief.on_scores.pairs_at(i, j)
            room = np.maximum(min_difference - np.abs(gap) - slack, 0.0)
            now[2] = self._evidence(room, variance, df, n, belief.n_items, least)
            if belief.closeness is not None and belief.close_by == min_difference:
                close = belief.closeness[i[tested], j[tested]]
                now[2, tested] = np.minimum(close, np.where(leans, now[2, tested], np.inf))
                if against is not None:
                    surely = np.where(slack[~tested] > 0.0, now[2, ~tested], np.inf)
                    now[2, ~tested] = np.minimum(against[2, a, b], surely)
            if not self.once:
                zero = np.maximum(*belief.on_scores.zeros_at(i, j))
                now[2] = np.minimum(now[2], -log_p_of_zeros(room, zero))
        if not self.once:
            now[:2] = np.minimum(now[:2], -log_p_of_zeros(sure, np.array(belief.zeros_at(i, j))))
        seen, counts = self.seen, self.counts
        if seen is None or self.once:
            seen = np.zeros((3, *differs.shape))
        before = seen[:, i, j]
        if (now > before).any():
            seen = seen.copy()
            seen[:, i, j] = np.maximum(now, before)
        if not self.once:
            counts = np.zeros(seen.shape[1:]) if counts is None else counts.copy()
            counts[at] = -ndtri(0.5 * level) / np.where(least > 0.0, least, np.inf)
        return replace(self, seen=seen, counts=counts, last=None if self.once else belief)

    def _differs(self, belief: Belief) -> NDArray[np.bool_]:
        """Return the pairs whose belief has changed since the last look."""
        m, r, was = len(belief.location), belief.references, self.last
        if was is None or was.references is not r or len(was.location) != m:
            return np.ones((m, m + (0 if r is None else len(r.names))), dtype=bool)
        moved, out = np.zeros(m, dtype=bool), np.zeros((m, m), dtype=bool)
        for name in ("location", "score", "slope", "lean"):
            if (now := getattr(belief, name)) is not None:
                moved |= now != getattr(was, name)
        for name in ("variance", "df", "n", "evidence", "closeness", "per_zero"):
            if (now := getattr(belief, name)) is not None:
                out |= now != getattr(was, name)
        if belief.against is not None and was.against is not None:
            out.flat[:: m + 1] |= (belief.against != was.against).any(axis=(0, 2))
        out |= moved[:, None] | moved
        out |= out.T
        if r is None:
            return out
        return np.concatenate([out, np.repeat(out.diagonal()[:, None], len(r.names), 1)], axis=1)

    def _evidence(
        self, size: Floats, variance: Floats, df: Floats, n: Floats, n_items: float, least: Floats
    ) -> Floats:
        out = np.zeros(size.shape)
        with np.errstate(invalid="ignore"):
            at = (size >= least * np.sqrt(variance)) & (size > 0.0) & (variance > 0.0)
        if at.any():
            out[at] = -self.log_p(tail(size[at], variance[at], df[at]), n[at], n_items)
        return out

    @property
    def anew(self) -> Looks:
        """The same rule before its first look."""
        return Looks(self.once, self.horizons)

    def raised(self, horizon: int) -> Looks:
        """Return these looks with a further horizon, if there is one and it is beyond the last."""
        if not self.horizons or horizon <= self.horizons[-1]:
            return self
        return replace(self, horizons=(*self.horizons, horizon), last=None)

    def joined(self, n_tested: int) -> Looks:
        """Add rows and columns for models that joined, after the tested models."""
        if self.seen is None or self.seen.shape[1] == n_tested:
            return self
        m, width = self.seen.shape[1:]
        out = np.zeros((3, n_tested, width + n_tested - m))
        out[:, :m, :m], out[:, :m, n_tested:] = self.seen[..., :m], self.seen[..., m:]
        return replace(self, seen=out, counts=None, last=None)

    def only(self, models: Sequence[int]) -> Looks:
        """Return the looks at these tested models alone, in this order."""
        if self.seen is None or list(models) == list(range(self.seen.shape[1])):
            return self
        m, width = self.seen.shape[1:]
        at = np.ix_(range(3), list(models), [*models, *range(m, width)])
        return replace(self, seen=self.seen[at], counts=None, last=None)


@lru_cache(maxsize=256)
def _least(first: int, horizon: int, n_items: float, level: float) -> float:
    scale, log = _scales(first, horizon, n_items)
    return float(np.interp(-math.log(level), -log, scale))


# -- families of pairs: a confidence that holds for all of them together --------------------------


@lru_cache(maxsize=16)
def still_true(n_models: int, with_references: bool) -> Floats:
    """Return the most hypotheses that can be true together once 0, 1, .. others are rejected.

    These are the factors of Shaffer's step-down rule. A model can equal at most one of several
    known values, so a board of thousands costs a family no more than one further model would.

    Examples
    --------
    >>> still_true(3, False).tolist(), float(still_true(1, True)[0])
    ([3.0, 1.0, 1.0], 1.0)
    """
    sets = [1]  # bit s: s hypotheses can be the true ones
    for k in range(1, n_models + 1):
        sets.append(0)
        for j in range(1, k + 1):
            sets[k] |= sets[k - j] << (j * (j - 1) // 2)
            if with_references:
                sets[k] |= sets[k - j] << (j * (j + 1) // 2)
    can = np.flatnonzero([c == "1" for c in bin(sets[-1])[:1:-1]])
    left = np.arange(int(can[-1]), 0, -1)
    return np.asarray(can[np.searchsorted(can, left, side="right") - 1], dtype=np.float64)


def _left(belief: Belief, n: int) -> Floats:
    """Return how many of `n` distinct hypotheses may be true once 0, 1, .. are rejected."""
    r, m = belief.references, len(belief.location)
    left = np.arange(n, 0, -1.0)
    if r is None or r.exact:
        most = still_true(m, r is not None)
        left = np.minimum(left, np.r_[np.full(max(n - len(most), 0), most[:1]), most][-n:])
    return left


def family_size(belief: Belief) -> float:
    """Return how many hypotheses can be true together when none is rejected."""
    m, r = len(belief.location), belief.references
    distinct = 0 if r is None else len(np.unique(r.location)) if r.exact else len(r.names)
    n = m * (m - 1) // 2 + m * distinct
    return float(_left(belief, n)[0]) if n else 1.0


def family(p: Floats, belief: Belief, level: float) -> tuple[Floats, float]:
    """Adjust p by a step-down rule; also return the divisor of the level for open pairs.

    Equal exact reference models are one hypothesis, and the rule is Shaffer's. With inexact
    reference models the rule is Holm's, because these may be equal to each other.
    """
    m, r = len(p), belief.references
    upper, index = np.triu_indices(m, 1), np.arange(m, p.shape[1])
    exact = r is not None and r.exact
    if exact and r is not None:
        index = m + np.unique(r.location, return_index=True)[1]
    flat = np.concatenate([p[:, :m][upper], p[:, index].ravel()])
    if not len(flat):
        return p, 1.0
    left = _left(belief, len(flat))
    ascending = np.argsort(flat, kind="stable")
    stepped = np.minimum(np.maximum.accumulate(flat[ascending] * left), 1.0)
    open_ = int((stepped <= level).sum())
    adjusted = np.empty(len(flat))
    adjusted[ascending] = stepped
    out, n = np.ones(p.shape), len(upper[0])
    out[:, :m][upper] = adjusted[:n]
    out[:, :m] = np.minimum(out[:, :m], out[:, :m].T)
    if r is not None:
        block = adjusted[n:].reshape(m, len(index))
        of = np.searchsorted(r.location[index - m], r.location) if exact else slice(None)
        out[:, m:] = block[:, of]
    return out, float(left[min(open_, len(left) - 1)])

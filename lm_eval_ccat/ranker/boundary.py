"""How many standard errors decide, however often the ranker looks, and how improbable that is.

After `n` of `N` items (n = 10, 11, .., at most `horizon`) a pair is decided if

    |z| >= w C (n / horizon) ** (delta - 1/2),  w = min(STRETCH, 1 + EXCESS / horizon),

with z the difference in standard errors. For models that are equal, z is Brownian motion on the
clock ``I = n / (1 - n/N)``, divided by the root of I. `chances` computes how often that leaves the
boundary by a look: from look to look it carries the density of z inside the boundary on (``phi``
and ``Phi`` are the normal density and distribution), by

    density(z) <- integral over |y| < c of density(y) phi((z - r y) / s) / s,
    r = sqrt(I_k / I_(k+1)),  s = sqrt(1 - r^2),

and what is lost outside at the next look, whose boundary is ``c'``, is the chance that the pair is
decided there, and not before,

    integral over |y| < c of density(y) (Phi((-c' - r y) / s) + Phi((r y - c') / s)).

C is the constant that uses up the level. The stretch w makes up for scores that few items know too
little of: with 1 in its place, more than one in twenty equal models are told apart where scores are
right or wrong and few (enumerated in the tests). It fades as the horizon grows, because 4 to 5 per
cent of real pairs ever rule out their true difference within 50 to 200 items (2 to 3 of those made
equal are called different), and each per cent of the boundary costs two of the items
(`benchmarks/paths.py`).

With a bank, delta is 0.25: the steep start guards against a bank that misleads the first looks.
Without one, it is 0.4, and the last look, at the horizon, asks for a sixth less, which leaves it
about a fifth of the level: as many pairs are decided, after 3 to 9 per cent fewer items (`Shape`).

Where answers are repeated in passes over the items, delta is 0.4, the clock is `clock_of_passes`,
and the stretch is smaller: the tails of repeats know how little few events of noise tell
(benchmarks/repeats.py).

References
----------
P. Armitage, C. K. McPherson and B. C. Rowe, Journal of the Royal Statistical Society A 132 (1969),
the recursion; S. K. Wang and A. A. Tsiatis, Biometrics 43 (1987), the family of boundaries;
D. Siegmund, Sequential Analysis (1985), 0.583.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from scipy.special import log_ndtr, ndtr

from ..metrics.scale import Floats

#: Items of both models before which no pair is decided.
FIRST_LOOK = 10
#: In passes, the share of an answer's variance that is assumed to lie within its item. Between
#: shares of .1 and 1 the constant C moves by .01.
WITHIN = 0.4
#: The stretch w of the boundary for errors and tails of real scores: its largest value, how it
#: fades (see above), and the constant one of passes.
STRETCH, EXCESS, STRETCH_OF_PASSES = 1.03, 1.5, 1.02
#: Part of the level that a horizon leaves to later ones, so that it can be raised even after its
#: last look.
KEPT = 0.02
#: Constants for which the chance is computed; between them it is a cubic spline.
_KNOTS = np.linspace(0.75, 5.75, 11)
#: Constants, before they are stretched, for which it is tabulated.
_SCALE = np.linspace(9.0, 0.5, 400)
#: Looks less than `_STEP` apart on log I are joined to one. Fewer looks leave a boundary as often
#: as all of them if it lies 0.583 (sqrt(long step) - sqrt(short step)) nearer.
_STEP, _SIEGMUND = 0.03, 0.583
#: Nodes of the quadrature per standard deviation of the shortest step.
_NODES = 1.15
#: Standard errors beyond which the density of equal models is not carried on.
_FAR = 9.5


class Shape(NamedTuple):
    """Boundary at each number of items, in units of its constant C.

    Attributes
    ----------
    delta : float
        At 0.5 every look asks for as many standard errors (Pocock); the smaller it is, the more do
        the first looks ask for, to 0 (O'Brien and Fleming).
    last_look : float
        What the look at the horizon asks for; 1 is what the formula gives there.

    Examples
    --------
    >>> WITHOUT_BANK.at(np.array([20.0, 199.0, 200.0]), 200).round(2).tolist()
    [1.26, 1.0, 0.85]
    """

    delta: float
    last_look: float = 1.0

    def at(self, n: Floats, horizon: int) -> Floats:
        """Return the boundary after `n` items of each model."""
        falling = np.minimum(n / horizon, 1.0) ** (self.delta - 0.5)
        return np.asarray(np.where(n < horizon, falling, self.last_look))


WITH_BANK, WITHOUT_BANK, OF_PASSES = Shape(0.25), Shape(0.4, last_look=0.85), Shape(0.4)


def clock(n: Floats, n_items: float) -> Floats:
    """Return one over the variance of a mean over `n` of `n_items` drawn without replacement."""
    return np.asarray(n / np.maximum(1.0 - n / n_items, 0.5 / n_items))


def clock_of_passes(n: Floats, pass_length: int) -> Floats:
    """Return one over the variance of a mean after `n` answers in passes over the same items.

    The variance between items, a share ``1 - WITHIN``, falls to 0 at the end of the first pass.
    That of answers within an item, a share `WITHIN`, falls for ever, with one over their number.

    Examples
    --------
    >>> clock_of_passes(np.array([15.0, 30.0, 60.0]), 30).round(1).tolist()
    [21.4, 75.0, 150.0]
    """
    full_passes = np.maximum(np.floor(n / pass_length), 1.0)
    distinct = np.minimum(n, float(pass_length))
    of_last_pass = np.maximum(n - full_passes * pass_length, 0.0)
    between = (1.0 - WITHIN) * (1.0 - distinct / pass_length) / distinct
    inverse = np.where(
        n < pass_length,
        1.0 / distinct,
        (of_last_pass / (full_passes + 1.0) + (pass_length - of_last_pass) / full_passes)
        / pass_length**2,
    )
    return np.asarray(1.0 / (between + WITHIN * inverse))


def chances(boundary: Floats, time: Floats) -> Floats:
    """Return the chance that |z| has reached a boundary by each look.

    It is ``2 Phi(-c)`` at the first look, and the sum of the chances at each look (see the module)
    at later ones. Integrals are Gauss-Legendre sums over nodes y between 0 and c: as the density is
    even, the one over |y| < c is with ``kernel(y) + kernel(-y)`` in place of the kernel.

    Parameters
    ----------
    boundary : ndarray of shape (n_boundaries, n_looks)
        Several boundaries at once; each falls from look to look.
    time : ndarray of shape (n_looks,)
        The clock I at the looks.

    Returns
    -------
    ndarray of shape (n_boundaries, n_looks)

    Examples
    --------
    >>> c = np.array([[1.96, 1.96], [2.178, 2.178]])  # Pocock's constant for two looks is 2.178
    >>> chances(c, np.array([1.0, 2.0])).round(3).tolist()
    [[0.05, 0.083], [0.029, 0.05]]
    """
    # r and s of the module's recursion, from each look to the next.
    r = np.sqrt(time[:-1] / time[1:])
    s = np.sqrt(np.maximum(1.0 - r * r, 1e-12))
    narrowest = float(s.min(initial=1.0))
    unit, weight = np.polynomial.legendre.leggauss(
        max(16, math.ceil(_NODES * min(boundary.max(), _FAR) / narrowest))
    )
    unit, weight = 0.5 * (unit + 1.0), 0.5 * weight
    out = np.empty(boundary.shape)
    out[:, 0] = 2.0 * ndtr(-boundary[:, 0])
    inside = np.minimum(boundary, _FAR)
    z = inside[:, :1] * unit
    # The density at the nodes inside the boundary, times their weights and sqrt(2 pi).
    mass = np.exp(-0.5 * z * z) * inside[:, :1] * weight
    direct, mirrored = np.empty((2, len(boundary), len(unit), len(unit)))
    for k in range(1, len(time)):
        # The nodes of the look before become `ry`, those of this one are `z`.
        c, ry, z = boundary[:, k, None], r[k - 1] * z, inside[:, k, None] * unit
        leaves = ndtr((-c - ry) / s[k - 1]) + ndtr((ry - c) / s[k - 1])
        # Twice, as -y leaves as often as y.
        out[:, k] = 2.0 / math.sqrt(2.0 * math.pi) * (mass * leaves).sum(axis=1)
        # The kernel of y (`direct`) and that of -y (`mirrored`).
        # In place: arrays made anew at every look take as long as what is computed.
        for kernel, sign in ((direct, -1.0), (mirrored, 1.0)):
            np.add(z[:, :, None] / s[k - 1], sign * ry[:, None] / s[k - 1], out=kernel)
            kernel *= kernel
            kernel *= -0.5
            np.exp(kernel, out=kernel)
        direct += mirrored
        density = (direct @ mass[:, :, None])[:, :, 0] / (s[k - 1] * math.sqrt(2.0 * math.pi))
        mass = density * inside[:, k, None] * weight
    return np.cumsum(out, axis=1)


class _FewerLooks(NamedTuple):
    """Some of the looks: numbers of items, the clock, and how much nearer their boundary lies.

    A nearer boundary at fewer looks is left as often as the true one at all of them.
    """

    n: Floats
    time: Floats
    nearer: Floats


def _fewer_looks(first: int, last: int, n_items: float, pass_length: int) -> _FewerLooks:
    """Return some of the looks from `first` to `last` items, which take less time to compute."""
    n = np.arange(first, last + 1.0)
    time = clock_of_passes(n, pass_length) if pass_length else clock(n, n_items)
    log_time = np.log(time)
    # From the last look backwards, one is left out if it is less than _STEP before the next.
    stays, log_of_next = np.zeros(len(n), dtype=bool), np.inf
    for k in range(len(n) - 1, -1, -1):
        if log_time[k] <= log_of_next - _STEP:
            stays[k], log_of_next = True, log_time[k]
    # Steps on log I up to each look that stays: from the look before it, and from the last to stay.
    short_steps = np.diff(log_time, prepend=log_time[0])[stays]
    long_steps = np.diff(log_time[stays], prepend=log_time[0])
    nearer = _SIEGMUND * np.maximum(np.sqrt(long_steps) - np.sqrt(short_steps), 0.0)
    return _FewerLooks(n[stays], time[stays], nearer)


class _ChanceTable(NamedTuple):
    """Log chances of a decision by each look, for each constant.

    Attributes
    ----------
    looks : ndarray of shape (n_looks,)
        Numbers of items.
    constants : ndarray of shape (n_constants,)
        The stretched constants ``w C``, descending.
    log_chance : ndarray of shape (n_constants, n_looks)
    """

    looks: Floats
    constants: Floats
    log_chance: Floats


@lru_cache(maxsize=64)
def _table(
    first: int, horizon: int, n_items: float, pass_length: int, shape: Shape
) -> _ChanceTable:
    """Compute the chances of a decision by each look from `first` to `horizon` items."""
    from scipy.interpolate import CubicSpline  # takes long to import, and few commands need it

    n, time, nearer = _fewer_looks(first, horizon, n_items, pass_length)
    # A last look that asks for less lies below the boundary of the looks joined to it: it is not
    # moved nearer for these.
    nearer[-1] *= shape.last_look == 1.0
    c = np.multiply.outer(_KNOTS, shape.at(n, horizon)) - nearer
    # A boundary that is moved nearer may reach 0, where no density is left inside.
    c = np.maximum(c, 1e-3)
    # `chances` ends at `_FAR`. Far out, the chance of being outside at this very look is nearly
    # that of ever having been.
    with np.errstate(divide="ignore"):
        log = np.maximum(np.log(chances(c, time)), math.log(2.0) + log_ndtr(-c))
    # A chance never falls as the constant falls, and never exceeds 1.
    between = np.minimum(CubicSpline(_KNOTS, log)(_SCALE), 0.0)
    stretch = STRETCH_OF_PASSES if pass_length else min(STRETCH, 1.0 + EXCESS / horizon)
    return _ChanceTable(n, stretch * _SCALE, np.maximum.accumulate(between, axis=0))


class Horizon(NamedTuple):
    """One horizon: the looks that it governs, up to where the next horizon takes over.

    Attributes
    ----------
    first, last : int
        Items of a pair at its first and last look.
    horizon : int
        Most items of a pair; `last` is below it where a later horizon takes over.
    log_level, constants : ndarray of shape (n_levels,)
        Logs of error levels of the whole ranking, ascending, and the stretched constant ``w C`` at
        each.
    shape : Shape
    """

    first: int
    last: int
    horizon: int
    log_level: Floats
    constants: Floats
    shape: Shape

    def per_constant(self, n: Floats) -> Floats:
        """Return the boundary after `n` items of each model, in units of C."""
        return self.shape.at(n, self.horizon)


# A forecast goes through 40 horizons. What is cached is small; the table behind it is not.
@lru_cache(maxsize=1024)
def governing_horizons(
    horizons: tuple[int, ...],
    starts: tuple[int, ...],
    n_items: float,
    pass_length: int = 0,
    with_bank: bool = True,
) -> tuple[Horizon, ...]:
    """Return the horizons of a ranking, each with its looks and its boundary for every level.

    A level is the chance of error that all horizons share: each horizon spends a part, and the
    boundary of the next one is set by what is left.

    Parameters
    ----------
    horizons, starts : tuple of int
        The horizons, and the first number of items at which each applies.
    n_items : float
        Items of the benchmark; infinite if not even all of them leave nothing to err about.
    pass_length : int, optional
        Items of a pass where answers are repeated in passes; 0 where they are not.
    with_bank : bool, optional
        Whether estimates rest on a bank.

    Examples
    --------
    >>> early, late = (governing_horizons((100, 200), (10, n), 1000.0)[1] for n in (40, 101))
    >>> log_level = np.log(0.05)
    >>> [round(float(np.interp(log_level, h.log_level, h.constants)), 2) for h in (early, late)]
    [2.45, 3.6]
    """
    shape = OF_PASSES if pass_length else WITH_BANK if with_bank else WITHOUT_BANK
    governing: list[Horizon] = []
    for k, (horizon, first) in enumerate(zip(horizons, starts)):
        last = int(max(min(horizon, n_items - 1), 1))
        first = min(first, last) if k == 0 else first
        # No look is left before the last item, after which everything is known: no level is needed.
        if last < first:
            break
        table = _table(first, last, n_items, pass_length, shape)
        log_chance = table.log_chance[:, -1]
        # Unless all items are within the horizon, a part of the level is kept for further ones.
        share = 1.0 if horizon >= n_items - 1 else 1.0 - KEPT
        # The first horizon has all of each level; later ones have what is left of it.
        if k == 0:
            left = level = np.exp(log_chance) / share
        part = left * share
        c = np.interp(np.log(part), log_chance, table.constants)
        # Where levels rise and constants fall strictly, interpolating from levels to constants and
        # back gives the same level again (`Looks.boundary`, `Looks.log_p`): keep only these.
        end = int(np.argmin(c)) + 1
        strict = np.r_[(np.diff(level[:end]) > 0.0) & (np.diff(c[:end]) < 0.0), True]
        last_look = min(starts[k + 1] - 1, last) if k + 1 < len(starts) else last
        log_level, constants = np.log(level[:end][strict]), c[:end][strict]
        governing.append(Horizon(first, last_look, last, log_level, constants, shape))
        # What the horizon has spent when the next one takes over, at the constant of each level.
        log_spent = table.log_chance[:, np.searchsorted(table.looks, last_look)]
        spent = np.exp(np.interp(-c, -table.constants, log_spent))
        # By interpolation it may seem to have spent more than its part: something is left even so.
        left = np.maximum(left - spent, 0.5 * KEPT * left)
    return tuple(governing)

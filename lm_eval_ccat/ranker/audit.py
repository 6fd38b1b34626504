"""Audit: a share of the items drawn at random, for an estimate no response model can spoil.

Every so often the next item of a model is not selected but drawn uniformly from the items it has
not been asked. Let ``A`` be the items asked before the draw, ``U`` the others, ``mu`` the expected
scores at that moment and ``i`` the item drawn. Then

    T = ( sum over A of y  +  sum over U of mu  +  |U| (y_i - mu_i) ) / N

has expectation (over the draw) equal to the full-benchmark mean *whatever mu is*: the last term
is the response model's total error on ``U``, estimated without bias from one random item. This
is the difference estimator of survey sampling. An item of ``A`` without a score counts as expected,
so that the total is of all N items whatever failed. Its errors at successive draws are uncorrelated
(each has mean zero given all before it), so the mean of the T has a standard error that comes
from their spread, and a Student interval; a good response model makes it narrow, a bad one only
makes it wide.

A method that draws items by itself (`default`, `sample`) has such an estimate in every run: nothing
more is drawn then, and the audit reports what the method's own draws say.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import chdtrc

from ..content import AuditContent
from ..methods.belief import Floats
from ..methods.policy import Choice, Drawn
from ..metrics.scale import Scale
from .contents import OutcomeState
from .ledger import Account, Ledger

MIN_DRAWS = 3  # fewer draws have no usable spread
MISFIT_P = 0.001  # a fitting model is wrongly reported about once in a thousand runs


@dataclass(frozen=True)
class Draw:
    """One random draw, with what was known just before it (items are positions in bank order)."""

    item: int
    asked: tuple[int, ...]  # A, in any order
    n_left: int  # |U|, the item drawn included
    expected_left: float  # sum over U of mu
    expected: float  # mu of the item drawn


@dataclass(frozen=True)
class AuditResult:
    """What the audit of one model says. Scores are on [0, 1].

    Attributes
    ----------
    n : int
        Random draws scored.
    estimate, standard_error : float
        Mean score over the items that may be asked, unbiased whatever the response model, and
        its standard error; NaN below three draws.
    interval : (float, float)
        Student interval at the ranking's confidence, cut to [0, 1].
    agrees : bool or None
        Whether the response model's estimate lies in that interval; None below three draws.
    misfit_p : float
        Probability of residuals as large as those seen if the model fitted the bank.
    """

    n: int
    estimate: float
    standard_error: float
    interval: tuple[float, float]
    agrees: bool | None
    misfit_p: float

    @classmethod
    def of(cls, drawn: Drawn, estimate: float, confidence: float) -> AuditResult:
        """What items drawn at random say beside a method's estimate."""
        if drawn.n < MIN_DRAWS:
            return cls(drawn.n, float("nan"), float("nan"), (0.0, 1.0), None, drawn.misfit_p)
        low, high = drawn.interval(confidence)
        agrees = bool(low <= estimate <= high)
        return cls(
            drawn.n, drawn.estimate, drawn.standard_error, (low, high), agrees, drawn.misfit_p
        )

    @property
    def fits(self) -> bool:
        """False where the model's scores are far from what the bank expects of any model."""
        return not self.misfit_p < MISFIT_P

    def to_dict(self, scale: Scale) -> AuditContent:
        """JSON values, scores on the metric's own scale."""
        known = self.agrees is not None
        return {
            "n": self.n,
            "estimate": float(scale.restore(self.estimate)) if known else None,
            "standard_error": float(scale.restore_error(self.standard_error)) if known else None,
            "interval": np.sort(scale.restore(self.interval)).tolist() if known else None,
            "agrees": self.agrees,
            "fits_the_bank": self.fits,
            "misfit_p": self.misfit_p,
        }


def is_due(n_asked: int, share: float) -> bool:
    """Whether the item after `n_asked` ones is to be a random draw.

    The schedule is fixed in advance (every ``1/share``-th item), so no score can influence it.

    Examples
    --------
    >>> [is_due(n, 0.25) for n in range(8)]
    [False, False, False, True, False, False, False, True]
    """
    return int((n_asked + 1) * share + 1e-9) > int(n_asked * share + 1e-9)


def draw(available: NDArray[np.bool_], seed: int, model: int, n_asked: int) -> int:
    """Draw one of the available items, each with the same known probability.

    The generator depends on nothing but its arguments: a journal replays to the same draws.
    """
    rng = np.random.default_rng([seed, 0xA0D17, model, n_asked])
    return int(rng.choice(np.flatnonzero(available)))


class Audits:
    """The random draws of all models, by outcome.

    Parameters
    ----------
    share : float
        Share of the items of each model and task that is drawn; 0 keeps no books.
    """

    def __init__(self, share: float) -> None:
        self.share = share
        self._draws: dict[tuple[str, str, int], list[Draw]] = {}  # by task, outcome and model

    def note(self, account: Account, choice: Choice, ledger: Ledger) -> None:
        """An item is about to be asked of a model; keep what an audit needs of the moment."""
        if not self.share or choice.probability is None:
            return
        t, (task, item) = ledger.contents.task_at(choice.item), ledger.contents.at(choice.item)
        if task.states[0].policy.draws:
            return
        n_left, where = int(ledger.remaining[account.at, t]), task.where
        uniform = round(n_left * choice.probability, 9) == 1.0
        if not uniform or not is_due(int(ledger.asked[account.at, t]), self.share):
            return
        had = (*account.told, *account.pending, *account.failed)
        asked = tuple(i - where.start for i in had if where.start <= i < where.stop)
        for one in task.states:
            mu = one.policy.expected(account.at)
            left = float(mu[account.available[where]].sum())
            self._draws.setdefault((task.name, one.outcome.name, account.at), []).append(
                Draw(item, asked, n_left, left, float(mu[item]))
            )

    def forget(self, j: int, task: str, item: int) -> None:
        """An item of model `j` was given back."""
        for (name, _, model), draws in self._draws.items():
            if (name, model) == (task, j):
                draws[:] = [d for d in draws if d.item != item]

    def of(self, state: OutcomeState, j: int, estimate: float, confidence: float) -> AuditResult:
        """What the audit of model `j` says of one outcome, beside the method's estimate."""
        policy = state.policy
        if policy.draws:
            drawn = policy.describe(j).drawn or Drawn(0, math.nan, math.nan, 1.0)
            if drawn.n < MIN_DRAWS:  # too few to say that the bank does not fit
                drawn = replace(drawn, misfit_p=1.0)
        else:
            draws = self._draws.get((state.outcome.task, state.outcome.name, j), [])
            drawn = audit(draws, state.scores[j], policy.expected(j), policy.noise(j))
        return AuditResult.of(drawn, estimate, confidence)


def audit(
    draws: Sequence[Draw], scores: Mapping[int, float], expected: Floats, variance: Floats
) -> Drawn:
    """The audit's own estimate of the mean score, whatever the response model.

    Parameters
    ----------
    draws : sequence of Draw
        Random draws of one model; those not scored (yet) are left out.
    scores : mapping of int to float
        Score of every item told.
    expected : ndarray of shape (n_bank,)
        Expected scores after all that was told; they also replace items of ``A`` that failed
        or are still in flight.
    variance : ndarray of shape (n_bank,)
        Predictive variance of each score after all that was told.

    Returns
    -------
    Drawn
        Its `misfit_p` is the probability of squared residuals that large in sum, were their
        variances true. The sum is compared, not each residual with its own variance, so that an
        item whose variance is tiny cannot decide alone; it is about a scaled chi-square with
        Satterthwaite's degrees of freedom. Residuals are from the ability at the end of the test,
        which was fitted to them too: that makes the warning rarer, never more frequent.
    """
    done = [d for d in draws if d.item in scores]
    items, n = [d.item for d in done], len(done)
    value = np.array(
        [
            (
                sum(scores.get(i, float(expected[i])) for i in d.asked)
                + d.expected_left
                + d.n_left * (scores[d.item] - d.expected)
            )
            / (len(d.asked) + d.n_left)
            for d in done
        ]
    )
    v, misfit = variance[items], 1.0
    if v.sum() > 0.0:
        df = v.sum() ** 2 / (v**2).sum()
        squares = sum((scores[i] - float(expected[i])) ** 2 for i in items)
        misfit = float(chdtrc(df, df * squares / v.sum()))
    if n < MIN_DRAWS:
        return Drawn(n, math.nan, math.nan, misfit)
    return Drawn(n, float(value.mean()), float(value.std(ddof=1) / np.sqrt(n)), misfit)

"""Audit: draw a share of the items at random, for an estimate that no response model can bias.

At fixed intervals, the audit draws a model's next item uniformly from the items that it has not
been asked, instead of selecting one. Let ``A`` be the items asked before the draw, ``U`` the
others, ``mu`` the expected scores at that moment and ``i`` the item drawn. Then

    T = ( sum over A of y  +  sum over U of mu  +  |U| (y_i - mu_i) ) / N

has expectation (over the draw) equal to the full-benchmark mean *whatever mu is*: the last term
is the response model's total error on ``U``, estimated without bias from one random item. This
is the difference estimator of survey sampling. An item of ``A`` without a score counts with its
expected score, so that the total covers all N items. Its errors at successive draws are
uncorrelated (each has mean zero given all before it), so the spread of the T gives their mean a
standard error and a Student interval: a good response model makes it narrow, a bad one only makes
it wide.

A method that draws items itself (`default`, `sample`) has such an estimate in every run; the audit
then draws nothing more and reports the estimate from the method's own draws.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import chdtrc

from ..content import AuditContent
from ..methods.policy import Choice, Drawn
from ..metrics.scale import Floats, Scale
from .contents import OutcomeState
from .ledger import Account, Ledger

MIN_DRAWS = 3  # fewer draws have no usable spread
MISFIT_P = 0.001  # reports a model that fits about once in a thousand runs


@dataclass(frozen=True)
class Draw:
    """One random draw, and the state just before it (items are positions in bank order)."""

    item: int
    asked: tuple[int, ...]  # A, in any order
    n_left: int  # |U|, the item drawn included
    expected_left: float  # sum over U of mu
    expected: float  # mu of the item drawn


@dataclass(frozen=True)
class AuditResult:
    """Audit of one model. Scores are on [0, 1].

    Attributes
    ----------
    n : int
        Number of random draws with a score.
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
        """Compare the estimate from randomly drawn items with the method's `estimate`."""
        if drawn.n < MIN_DRAWS:
            return cls(drawn.n, float("nan"), float("nan"), (0.0, 1.0), None, drawn.misfit_p)
        low, high = drawn.interval(confidence)
        agrees = bool(low <= estimate <= high)
        return cls(
            drawn.n, drawn.estimate, drawn.standard_error, (low, high), agrees, drawn.misfit_p
        )

    @property
    def fits(self) -> bool:
        """Whether the model's scores are compatible with what the bank expects of any model."""
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
    """Return whether the item after the first `n_asked` is to be a random draw.

    The schedule is fixed in advance (every ``1/share``-th item), so no score can influence it.

    Examples
    --------
    >>> [is_due(n, 0.25) for n in range(8)]
    [False, False, False, True, False, False, False, True]
    """
    return int((n_asked + 1) * share + 1e-9) > int(n_asked * share + 1e-9)


def draw(available: NDArray[np.bool_], seed: int, model: int, n_asked: int) -> int:
    """Draw one of the available items, each with the same known probability.

    The draw depends only on the arguments, so a replayed journal gives the same draws.
    """
    rng = np.random.default_rng([seed, 0xA0D17, model, n_asked])
    return int(rng.choice(np.flatnonzero(available)))


class AuditDraws:
    """Random draws of the audit, by model and outcome.

    Parameters
    ----------
    share : float
        Share of the items of each model and task to draw; 0 records nothing.
    """

    def __init__(self, share: float) -> None:
        self.share = share
        self._draws: dict[tuple[str, str, int], list[Draw]] = {}  # by task, outcome and model

    def note(self, account: Account, choice: Choice, ledger: Ledger) -> None:
        """Record what the audit needs to know just before a model is asked an item."""
        if not self.share or choice.probability is None:
            return
        t, (task, item) = ledger.contents.task_at(choice.item), ledger.contents.at(choice.item)
        if task.states[0].policy.draws:
            return
        n_left, where = int(ledger.remaining[account.at, t]), task.where
        uniform = round(n_left * choice.probability, 9) == 1.0
        if not uniform or not is_due(int(ledger.asked[account.at, t]), self.share):
            return
        had = (*account.scored, *account.pending, *account.failed)
        asked = tuple(i - where.start for i in had if where.start <= i < where.stop)
        for one in task.states:
            mu = one.policy.expected(account.at)
            left = float(mu[account.available[where]].sum())
            self._draws.setdefault((task.name, one.outcome.name, account.at), []).append(
                Draw(item, asked, n_left, left, float(mu[item]))
            )

    def forget(self, j: int, task: str, item: int) -> None:
        """Drop the draw of an item that model `j` gave back."""
        for (name, _, model), draws in self._draws.items():
            if (name, model) == (task, j):
                draws[:] = [d for d in draws if d.item != item]

    def of(self, state: OutcomeState, j: int, estimate: float, confidence: float) -> AuditResult:
        """Return the audit of model `j` for one outcome, compared with the method's `estimate`."""
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
    """Estimate the mean score from random draws, without trusting the response model.

    Parameters
    ----------
    draws : sequence of Draw
        Random draws of one model; those not scored (yet) are left out.
    scores : mapping of int to float
        The model's score of every item told.
    expected : ndarray of shape (n_bank,)
        Expected scores given all scores so far; they also replace the scores of items of ``A``
        that failed or are still in flight.
    variance : ndarray of shape (n_bank,)
        Predictive variance of each score given all scores so far.

    Returns
    -------
    Drawn
        Its `misfit_p` is the probability of a sum of squared residuals this large if the stated
        variances are true. The sum is tested, rather than each residual against its own variance,
        so that one item of tiny variance cannot decide alone; it is about a scaled chi-square with
        Satterthwaite's degrees of freedom. Residuals are taken at the final ability, which was
        fitted to them too: that makes the warning rarer, never more frequent.
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

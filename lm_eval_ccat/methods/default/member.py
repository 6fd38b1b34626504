"""One model of a ranking: its scores, and what the draws among them say of its departure.

With ``r = y - mu`` at the items seen, ``w`` and ``p`` weight and probability of each draw and
``W_j`` the sum of the weights of the draws up to item ``j``, the mean departure over the items not
asked is estimated by

    rbar = ( sum over draws of w r / p  -  sum over items j seen of W_j r_j ) / norm,

``norm`` being the same with all ``r = 1``: the weighted mean of what each draw says of the items
that were left when it fell, less what of them was seen since (`sequence`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from .departures import OUTSIDE, PER_DISTANCE, DefaultModel
from .posterior import ScorePosterior

#: Draws that the residual covariance found by calibration counts as.
NU0 = 6.0
#: Residuals are enlarged by 1 / (1 - leverage), as if the fit had not seen them, up to this.
_MOST_LEVERAGE = 0.8


class Step(NamedTuple):
    """A draw, and what was known when it fell."""

    before: int  # length of the log
    rest: float  # sum of expected scores of all others
    expected: float  # score of the item drawn
    probability: float


class Member:
    """One model of the field.

    Attributes
    ----------
    posterior : ScorePosterior
    asked : list of int
        Items asked, in order.
    unasked : ndarray of bool, shape (n_items,)
    passed : int
        Items at the beginning of the sequence that the model was asked, one and all.
    t, v : float
        Estimate of the response model; what the chosen items leave open of the mean over the items
        not seen, and more where the model may be outside the bank's range.
    position, level : float
        Where the model stands in the bank's range, and what variances are multiplied by there.
    left, q : int
        Items without a score; draws with one.
    rbar : float
        Above.
    drawn : list of int; c, e, sd : ndarray of shape (q,)
        The draws, their weights in `rbar`, residuals from it, and standard deviations expected.
    noise : float
        Mean variance of the scores not seen, by the response model.
    """

    def __init__(self, model: DefaultModel) -> None:
        self._model = model
        self.posterior = ScorePosterior(model.items)
        self.asked: list[int] = []
        self.unasked = np.ones(model.items.n_items, dtype=bool)
        self.passed = 0
        self._log: list[tuple[int, int]] = []  # items asked (1) and given back (-1)
        self._rank: dict[int, int] = {}  # of the items asked, in their order
        self._scored: list[int] = []  # in the order of asking
        self._steps: dict[int, Step] = {}
        # Of each item drawn for the model: its weight, and one over its probability.
        self._draws = np.zeros((2, model.items.n_items))
        self._waiting: dict[int, None] = {}
        self._failed: set[int] = set()
        self._known = -1
        self._chosen: list[int] = []
        self._unsure = 0.0
        self.drawn: list[int] = []
        self.c = self.e = self.sd = np.empty(0)
        self.rbar, self.q = 0.0, 0

    @property
    def n_told(self) -> int:
        """Scores so far."""
        return len(self._scored)

    def place(self, item: int, probability: float | None, weight: float) -> None:
        """The model has been asked an item."""
        if not self.unasked[item]:
            return
        if probability is not None:
            mu = self.posterior.mu
            rest, left, kept = float(mu @ self.unasked), self.unasked, self._model.kept
            part = 1.0 if kept is None else float((left & kept).sum() / left.sum())
            self._steps[item] = Step(len(self._log), rest, float(mu[item]), part * probability)
            self._draws[:, item] = weight, 1.0 / probability
        self._rank[item] = len(self.asked)
        self.asked.append(item)
        self._log.append((item, 1))
        self.unasked[item] = False
        self._waiting[item] = None

    def unplace(self, item: int) -> None:
        """The item was given back."""
        self.asked.remove(item)
        self._log.append((item, -1))
        self._rank = {i: k for k, i in enumerate(self.asked)}
        self.unasked[item] = True
        self.passed = 0
        self._steps.pop(item, None)
        self._draws[:, item] = 0.0
        self._waiting.pop(item, None)

    def fail(self, item: int) -> None:
        """The item will have no score."""
        self._failed.add(item)
        self._waiting.pop(item, None)

    def learn(self, items: Sequence[int], scores: Sequence[float]) -> None:
        """The items have scores."""
        for item in items:
            self.place(item, None, 0.0)
            self._waiting.pop(item, None)
            (self.drawn if self._draws[0, item] else self._chosen).append(item)
        self._scored.extend(items)
        if len(self._scored) > len(items):
            first = self._scored[-len(items) - 1]
            if self._rank[first] > min(self._rank[i] for i in items):
                self._scored.sort(key=self._rank.__getitem__)
                self.drawn.sort(key=self._rank.__getitem__)
        self.posterior.learn(items, scores)

    def use(self, model: DefaultModel) -> None:
        """Go on with another prior of departures."""
        self._model, self._known = model, -1

    def pending(self, shared: Sequence[int]) -> list[int]:
        """Items whose scores are on their way, or will be: asked, or in the shared sequence."""
        return [*self._waiting, *(i for i in shared[self.passed :] if self.unasked[i])]

    def refresh(self) -> None:
        """Bring up to date what depends on the scores."""
        p = self.posterior
        if self._known == len(self._scored):
            return
        self._known = len(self._scored)
        self.t, self.left, self.noise = p.estimate, p.n_items - self._known, p.unseen_noise
        self.position = p.items.position(float(p.z[0]))
        self.level = 1.0 + PER_DISTANCE * max(abs(self.position) - 1.0, 0.0)
        outside = p.items.outside(float(p.z[0]), float(p.covariance[0, 0]) ** 0.5)
        left = p.open_after(self._chosen)
        self._unsure = OUTSIDE * outside + max(p.elsewhere - left, 0.0)
        self.v = left + self._unsure
        self.q = len(self.drawn)
        if self.q:
            self._measure()

    def left_by_chosen(self, item: int) -> float:
        """`v` once another item is chosen."""
        return self.posterior.open_after([*self._chosen, item]) + self._unsure

    def _measure(self) -> None:
        p, d = self.posterior, self._model.departures
        scored = np.array(self._scored)
        w, per = self._draws.take(scored, 1)
        at = w.nonzero()[0]
        w /= sum(w.tolist())
        c = w * per
        c -= w.cumsum()
        c[at] = kept = np.maximum(c[at], 0.0)  # below 0 only where next to nothing is left
        residual = p.residuals(scored, _MOST_LEVERAGE)
        norm = max(sum(c.tolist()), 0.1 * max(self.left, 1))
        self.rbar = float(c.dot(residual)) / norm
        self.c = kept / max(sum(kept.tolist()), 1e-12)
        residual, drawn = residual[at], scored[at]
        self.e = residual - float(self.c.dot(residual))
        noise = p.kappa[drawn] * p.w[drawn]
        noise *= d.noise
        noise += d.floor * self.level
        self.sd = np.sqrt(noise)

    def sample(self) -> tuple[float, float, int]:
        """Estimate of the full-benchmark mean that does not depend on the bank's quality.

        Each draw ``k`` gives ``T_k = ( sum of the scores on all items asked before + sum of mu over
        the others + (y - mu) / p ) / N``, with ``mu`` as expected before the draw; the
        estimate is their mean, unbiased for any number of draws fixed in advance.

        Returns
        -------
        mean, standard error, number of draws : float, float, int
            NaN without draws, and the error with one alone.
        """
        p = self.posterior
        # What has no score and will have none counts as expected; what is in flight is not known.
        score = dict.fromkeys(self._waiting, np.nan) | dict(zip(p.seen, p.scores))
        sums = np.cumsum([0.0, *(k * score.get(i, float(p.mu[i])) for i, k in self._log)])
        steps = [(score[i], s) for i, s in self._steps.items() if i in score]
        T = np.array([sums[s.before] + s.rest + (y - s.expected) / s.probability for y, s in steps])
        T = T[np.isfinite(T)] / self.posterior.n_items
        if not len(T):
            return float("nan"), float("nan"), 0
        error = float(T.std(ddof=1) / len(T) ** 0.5) if len(T) > 1 else float("nan")
        return float(T.mean()), error, len(T)

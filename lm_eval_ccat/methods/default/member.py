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

import numpy as np
from numpy.typing import NDArray

from .departures import PER_DISTANCE
from .model import DefaultModel
from .posterior import ScorePosterior

Floats = NDArray[np.float64]

#: Draws that the residual covariance found by calibration counts as.
NU0 = 6.0
#: Residuals are enlarged by 1 / (1 - leverage), as if the fit had not seen them, up to this.
_MOST_LEVERAGE = 0.8


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
        not seen.
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
        self._draws: dict[int, tuple[float, float]] = {}
        self._steps: dict[int, tuple[int, float, float, float]] = {}
        self._failed: set[int] = set()
        self._known = -1
        self._chosen: list[int] = []
        self.drawn: list[int] = []
        self.c = self.e = self.sd = np.empty(0)
        self.rbar, self.q = 0.0, 0

    @property
    def n_told(self) -> int:
        """Scores so far."""
        return len(self.posterior.seen)

    def place(self, item: int, probability: float | None, weight: float) -> None:
        """The model has been asked an item."""
        if probability is not None:
            self._draws[item] = (probability, weight)
            mu = self.posterior.mu
            rest = float(mu @ self.unasked)
            self._steps[item] = (len(self.asked), rest, float(mu[item]), probability)
        if self.unasked[item]:
            self.asked.append(item)
            self.unasked[item] = False

    def sample(self) -> tuple[float, float, int]:
        """Estimate of the full-benchmark mean that holds whatever the bank is worth.

        Each draw ``k`` gives ``T_k = ( sum of the scores on all items asked before + sum of mu over
        the others + (y - mu) / p ) / N``, with ``mu`` as it was expected before the draw; the
        estimate is their mean, unbiased for any number of draws fixed in advance.

        Returns
        -------
        mean, standard error, number of draws : float, float, int
            NaN without draws, and the error with one alone.
        """
        score = dict(zip(self.posterior.seen, self.posterior.scores))
        sums = np.cumsum([0.0, *(score.get(i, np.nan) for i in self.asked)])
        T = np.array(
            [
                sums[at] + rest + (score[i] - mu) / p
                for i, (at, rest, mu, p) in self._steps.items()
                if i in score
            ]
        )
        T = T[np.isfinite(T)] / self.posterior.n_items
        if not len(T):
            return float("nan"), float("nan"), 0
        error = float(T.std(ddof=1) / len(T) ** 0.5) if len(T) > 1 else float("nan")
        return float(T.mean()), error, len(T)

    def unplace(self, item: int) -> None:
        """The item was given back."""
        self.asked.remove(item)
        self.unasked[item] = True
        self.passed = 0
        self._draws.pop(item, None)
        self._steps.pop(item, None)

    def fail(self, item: int) -> None:
        """The item will have no score."""
        self._failed.add(item)

    def learn(self, items: Sequence[int], scores: Sequence[float]) -> None:
        """The items have scores."""
        for item in items:
            self.place(item, None, 0.0)
        self.posterior.learn(items, scores)

    def use(self, model: DefaultModel) -> None:
        """Go on with another prior of departures."""
        self._model, self._known = model, -1

    def pending(self, shared: Sequence[int]) -> list[int]:
        """Items whose scores are on their way, or will be: asked, or in the shared sequence."""
        own = [i for i in self.asked if self.posterior.is_unseen(i) and i not in self._failed]
        return own + [i for i in shared if self.unasked[i]]

    def refresh(self) -> None:
        """Bring up to date what depends on the scores."""
        p = self.posterior
        if self._known == len(p.seen):
            return
        self._known = len(p.seen)
        told = [i for i in self.asked if not p.is_unseen(i)]
        self._chosen = [i for i in told if i not in self._draws]
        self.t, self.left, self.noise = p.estimate, p.n_items - len(p.seen), p.unseen_noise
        self.position = self._model.range.position(float(p.z[0]))
        self.level = 1.0 + PER_DISTANCE * max(abs(self.position) - 1.0, 0.0)
        self.v = p.open_after(self._chosen)
        self.drawn = [i for i in told if i in self._draws]
        self.q = len(self.drawn)
        if self.q:
            self._measure(np.array(told))

    def left_by_chosen(self, item: int) -> float:
        """`v` once another item is chosen."""
        return self.posterior.open_after([*self._chosen, item])

    def _measure(self, told: NDArray[np.intp]) -> None:
        p, d = self.posterior, self._model.departures
        none = (np.inf, 0.0)
        probability, w = np.array([self._draws.get(i, none) for i in told.tolist()]).T
        w = w / w.sum()
        c = w / probability - np.cumsum(w)
        at = np.flatnonzero(w)
        c[at] = np.maximum(c[at], 0.0)  # below 0 only where next to nothing is left
        residual = p.residuals(told, _MOST_LEVERAGE)
        self.rbar = float(c @ residual) / max(float(c.sum()), 0.1 * max(self.left, 1))
        own = c[at] / max(float(c[at].sum()), 1e-12)
        self.c, self.e = own, residual[at] - float(own @ residual[at])
        noise = p.kappa[told[at]] * p.w[told[at]]
        self.sd = np.sqrt(d.noise * noise + d.floor * self.level)

"""One model of a ranking: its scores, and what its draws show about its departure.

Items *seen* are those with a score. With ``r = y - mu`` there, ``w`` and ``p`` weight (all sum to
1) and probability of each draw and ``W_j`` the sum of the weights of the draws up to item ``j``,
the departure, which is the mean residual over the items not seen, is estimated by

    rbar = ( sum over draws of w r / p  -  sum over items j seen of W_j r_j ) / norm,

``norm`` being the same with all ``r = 1``. Each draw estimates the sum of ``r`` over the items that
were left at that time (`field.ItemSequence`), from which the items seen since are subtracted; the
result is the weighted mean of these estimates.

*The full-benchmark mean of one model, given a few of its scores,* has a Laplace posterior
(`ScorePosterior`). With ``A`` the items seen, ``U`` the others and ``N`` of both, the estimand and
its variance are

    t     = ( sum over A of y_i  +  sum over U of mu_i ) / N
    Var t = ( g' S g  +  sum over U of kappa_i w_i ) / N^2,      g = sum over U of w_i l_i,

where ``S`` is the posterior covariance of ability and factors, ``l_i`` the gradient of item i's
linear predictor in these, ``w = mu (1 - mu)`` (here no weight of a draw) and
``kappa_i = k_i (s(x) + w_i v_i(x))`` its noise: the item's own, plus the uncertainty of its
calibrated curve at this ability (``k_i v_i``); `fractional` has ``k`` and ``s``. A score of item i
is expected to lower ``N^2 Var t`` by ``c_i^2 / p_i``, with ``c_i = w_i l_i' S g + kappa_i w_i`` the
covariance of its score with the unseen sum and ``p_i = kappa_i w_i + w_i^2 l_i' S l_i`` its
variance.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.linalg.lapack import dposv

from ...metrics.scale import Floats
from ..belief import Indices
from ..policy import Drawn, Items, Mask, Refusals, mean_by_draw
from .departures import OUTSIDE, PER_DISTANCE, DefaultModel, Departures
from .fractional import FractionalItems

#: Draws that the residual covariance found by calibration counts as.
NU0 = 6.0
#: Residuals are divided by 1 - leverage, as if the fit had not seen them: leverage is how much a
#: score moves its own expectation. The largest one that counts.
_MOST_LEVERAGE = 0.8
#: Answers as the bank expects them that a model's own squared residuals are weighed against.
USUAL_ANSWERS = 6.0
_LEAST_NOISE = 1e-9
_STEPS = 30
_LONGEST_STEP = 1.0
_TOLERANCE = 2e-4  # of a Newton step; what is left after it is far smaller


class ItemStates(NamedTuple):
    """What a `ScorePosterior` knows of some items; of shape (n,) but `slopes`.

    Attributes
    ----------
    score, mu, w, kappa : ndarray
        As `ScorePosterior` has them.
    slopes : ndarray of shape (1 + q, n)
        Gradients of the linear predictors.
    """

    score: Floats
    mu: Floats
    w: Floats
    kappa: Floats
    slopes: Floats

    @classmethod
    def of(cls, rows: Floats) -> ItemStates:
        """Return the states that stand in the rows of an array, the slopes in the last ones."""
        return cls(rows[0], rows[1], rows[2], rows[3], rows[4:])

    @property
    def weights(self) -> Floats:
        """What each score counts in the precision of `z`."""
        return self.w / self.kappa

    def precision(self, weights: Floats) -> Floats:
        """Return the precision of `z` that scores add which count these `weights`."""
        return np.asarray((self.slopes * weights).dot(self.slopes.T))


class PastDraw(NamedTuple):
    """A draw, and what was known at that time; see `mean_by_draw`.

    Attributes
    ----------
    n_logged : int
        Length of the model's log of items asked and given back.
    expected_of_others : float
        Sum of the expected scores of all items that were not asked before, the drawn one included.
    expected : float
        Expected score of the item drawn.
    probability : float
    """

    n_logged: int
    expected_of_others: float
    expected: float
    probability: float


class Member:
    """One model of a `Field`.

    Attributes
    ----------
    posterior : ScorePosterior
    asked : dict of int to int
        Items asked, in order, each with its position in the log.
    unasked : ndarray of bool, shape (n_items,)
    passed : int
        How many items at the beginning of the sequence the model was asked without a gap.
    estimate : float
        The response model's, ``t``.
    open_variance : float
        Variance of the mean over the unseen items that remains after the chosen items, increased
        where the model may be outside the bank's range. It does not contain `misfit`. It is ``v``
        in `departures`.
    position, inflation : float
        Position of the model in the bank's range, from -1 (the weakest model's) to 1 (the best
        one's) and beyond, and the factor on variances there, 1 within the range.
    n_left : int
        Number of items without a score.
    score_variance : float
        Of the scores so far.
    mean_residual : float
        Estimated mean departure over the items not asked, ``rbar``.
    drawn, draw_weights, draw_residuals, draw_noises : ndarray of shape (n_draws,)
        The draws with a score, their weights in `mean_residual`, their residuals from it, and
        variances.
    unseen_noise : float
        Mean variance of the unseen scores; this and `draw_noises` follow from the response model.
    misfit : float
        Factor, at least 1, by which squared residuals of all answers exceed what the bank expects:
        a model that refuses a tenth of the items shows that before draws have measured it.
        `unseen_noise` and `draw_noises` are multiplied by it.
    misfit_variance : float
        Variance of the mean residual of all answers, times the share of their squares that `misfit`
        calls more than usual: the bank does not say how such a model answers what it was not asked.
    """

    def __init__(self, model: DefaultModel) -> None:
        self._kept_items = model.kept_items
        self.posterior = ScorePosterior(model.items)
        self.asked: dict[int, int] = {}
        self.unasked = np.ones(model.items.n_items, dtype=bool)
        self.passed = 0
        self._log: list[tuple[int, int]] = []  # items asked (1) and given back (-1)
        self._past_draws: dict[int, PastDraw] = {}
        # Of each item: weight ``w`` of its draw, and ``1 / p``; 0 if it was not drawn.
        self._draws = np.zeros((2, model.items.n_items))
        # Asked and without a score so far; a dict keeps the order.
        self._waiting: dict[int, None] = {}
        # What `refresh` last knew.
        self._n_known = -1
        self._departures: Departures | None = None
        # `_places`: positions in the log of the items with a score, in the order of the answers.
        self.drawn = self._places = np.empty(0, dtype=np.intp)
        self._position_variance = self.mean_residual = self.score_variance = 0.0
        self.misfit, self.misfit_variance = 1.0, 0.0
        self.draw_weights = self.draw_residuals = self.draw_noises = np.empty(0)

    @property
    def n_told(self) -> int:
        """Number of scores so far."""
        return len(self.posterior.answered)

    def ask(self, item: int, probability: float | None, weight: float) -> None:
        """Record that the model was asked an item."""
        # `learn` asks every item that is told, also those that were asked.
        if not self.unasked[item]:
            return
        if probability is not None:
            mu, left, kept_items = self.posterior.mu, self.unasked, self._kept_items
            # A draw among the items that the bank has kept represents all items left: its chance is
            # that of the kept item among the kept ones, times the share of these.
            part = 1.0 if kept_items is None else float((left & kept_items).sum() / left.sum())
            self._past_draws[item] = PastDraw(
                len(self._log), float(mu @ left), float(mu[item]), part * probability
            )
            self._draws[:, item] = weight, 1.0 / probability
        self.asked[item] = len(self._log)
        self._log.append((item, 1))
        self.unasked[item] = False
        self._waiting[item] = None

    def give_back(self, item: int) -> None:
        """Record that the item was given back, and may be asked again."""
        del self.asked[item]
        self._log.append((item, -1))
        self.unasked[item] = True
        # The item may stand anywhere in the sequence.
        self.passed = 0
        self._past_draws.pop(item, None)
        self._draws[:, item] = 0.0
        self.stop_waiting(item)

    def stop_waiting(self, item: int) -> None:
        """Record that no score of the item is expected any more."""
        self._waiting.pop(item, None)

    def learn(self, items: Sequence[int], scores: Sequence[float]) -> None:
        """Take in scores of items, whether or not the model was asked these."""
        for item in items:
            self.ask(item, None, 0.0)
            self.stop_waiting(item)
        self._places = np.concatenate([self._places, [self.asked[item] for item in items]])
        self.posterior.learn(items, scores)

    def pending(self, shared: Sequence[int]) -> list[int]:
        """Return the items without a score that were asked or stand in the shared sequence."""
        return [*self._waiting, *(i for i in shared[self.passed :] if self.unasked[i])]

    def refresh(self, departures: Departures) -> None:
        """Update every attribute that depends on the scores, under this prior of departures."""
        p = self.posterior
        # Every look calls this, but only a score of the model, or another prior, changes anything.
        if self._n_known == len(p.answered) and self._departures is departures:
            return
        self._n_known, self._departures = len(p.answered), departures
        self.estimate, self.n_left = p.estimate, p.n_items - self._n_known
        self.position = p.items.position(float(p.z[0]))
        self.inflation = 1.0 + PER_DISTANCE * max(abs(self.position) - 1.0, 0.0)
        # In the order asked, on which the weights of draws depend, not in that of the answers.
        scored = p.answered[self._places.argsort()]
        draw_weights, inverse_p = self._draws.take(scored, 1)
        drawn = draw_weights.nonzero()[0]
        self.drawn, states = scored[drawn], p.states(scored)
        weights, noises = states.weights, states.kappa * states.w
        deviation = states.score - np.add.reduce(states.score) / max(self._n_known, 1)
        self.score_variance = float(deviation.dot(deviation)) / max(self._n_known - 1, 1)
        residual = p.residuals(states, weights)
        self._judge_fit(residual, departures.noise * noises + departures.floor * self.inflation)
        # Draws measure the departure itself: the open variance is what the chosen items leave.
        self._leave_open(states.precision(weights * (draw_weights == 0.0)))
        if len(drawn):
            self.draw_noises = noises[drawn] * self.misfit
            self._measure(residual, draw_weights, inverse_p, drawn)

    def _judge_fit(self, residual: Floats, usual: Floats) -> None:
        """Compare squared residuals with their `usual` size, which this overwrites."""
        squares = residual * residual
        variance_of_mean = float(np.add.reduce(squares)) / max(self._n_known, 1) ** 2
        squares /= np.maximum(usual, _LEAST_NOISE, out=usual)
        # misfit = 1 + excess / (USUAL_ANSWERS + n): a few answers as the bank expects them are
        # added, so that one odd score is no misfit.
        excess = float(np.add.reduce(squares)) - self._n_known
        self.misfit = 1.0 + max(excess, 0.0) / (USUAL_ANSWERS + self._n_known)
        self.misfit_variance = variance_of_mean * (1.0 - 1.0 / self.misfit)
        self.unseen_noise = self.posterior.unseen_noise * self.misfit

    def _leave_open(self, precision: Floats) -> None:
        """Set `open_variance`, given the precision that the scores of chosen items add."""
        p = self.posterior
        self._after_chosen = p.after(precision)
        left = self._after_chosen.variance
        outside = p.items.outside(float(p.z[0]), float(p.covariance[0, 0]) ** 0.5)
        self._position_variance = OUTSIDE * outside + max(p.variance_over_abilities - left, 0.0)
        self.open_variance = left + self._position_variance

    def left_by_chosen(self, item: int) -> float:
        """Return `open_variance` after one more chosen item."""
        left = self._after_chosen.variance_with(self.posterior.states([item]))
        return left + self._position_variance

    def _measure(
        self, residual: Floats, w: Floats, inverse_p: Floats, drawn_places: Indices
    ) -> None:
        """Estimate the mean departure ``rbar`` of the module's equation.

        Parameters
        ----------
        residual, w, inverse_p : ndarray of shape (n_scored,)
            Residual, weight of the draw and ``1 / p`` of each item with a score, in the order
            asked; the last two are 0 where the item was chosen. `w` is overwritten.
        drawn_places : ndarray of int
            Places of the draws among these items.
        """
        w /= sum(w.tolist())
        # What each residual counts: w / p - W.
        c = w * inverse_p
        c -= w.cumsum()
        # A draw counts less than 0 only where next to nothing is left.
        c[drawn_places] = positive = np.maximum(c[drawn_places], 0.0)
        norm = max(sum(c.tolist()), 0.1 * max(self.n_left, 1))
        self.mean_residual = float(c.dot(residual)) / norm
        self.draw_weights = positive / max(sum(positive.tolist()), 1e-12)
        residual = residual[drawn_places]
        self.draw_residuals = residual - float(self.draw_weights.dot(residual))

    def mean_by_draws(self) -> Drawn | None:
        """Estimate the full-benchmark mean, unbiased however wrong the bank is; None without draws.

        Each draw gives an estimate (`mean_by_draw`) which expects of the other items what the model
        was expected to score on them before the draw.
        """
        p = self.posterior
        # An item that failed counts at its expected score. One in flight is not known yet: NaN, as
        # are the estimates of draws after it.
        score = p.mu.copy()
        score[p.answered], score[[*self._waiting]] = p.score[p.answered], np.nan
        # Sum of the scores of all items that were asked before each entry of the log.
        sums = np.cumsum([0.0, *(sign * score[item] for item, sign in self._log)])
        return Drawn.of(
            [
                mean_by_draw(
                    sums[draw.n_logged], draw.expected_of_others, score[item], draw.expected,
                    draw.probability, p.n_items,
                )
                for item, draw in self._past_draws.items()
                if p.is_seen(item)
            ]
        )  # fmt: skip


class AfterScores(NamedTuple):
    """The mean expected score of a model's unseen items, given some of its scores.

    Attributes
    ----------
    variance : float
        Of this mean.
    covariance : ndarray of shape (1 + q, 1 + q)
        Of `z`.
    with_mean : ndarray of shape (1 + q,)
        Covariances of `z` and the mean.
    """

    variance: float
    covariance: Floats
    with_mean: Floats

    def variance_with(self, item: ItemStates) -> float:
        """Return the variance of the mean after the score of one more item."""
        slopes = item.slopes[:, 0]
        # A score adds a matrix of rank one to the precision, so with l the slopes, S the covariance
        # and v = `with_mean`, the variance falls by (l' v)^2 / (kappa / w + l' S l) (Sherman and
        # Morrison).
        of_score = item.kappa[0] / item.w[0] + slopes.dot(self.covariance).dot(slopes)
        return self.variance - float(slopes.dot(self.with_mean) ** 2 / of_score)


class ScorePosterior:
    """Posterior of one model's ability and factors, given scores on some items.

    Symbols are those of the module's docstring, and q the number of factors.

    Parameters
    ----------
    items : FractionalItems

    Attributes
    ----------
    answered : ndarray of int
        Items with a score, in the order of the answers.
    score : ndarray of shape (n_items,)
        0 where there is no score.
    z : ndarray of shape (1 + q,)
        Mode: the ability, then residual factors.
    covariance : ndarray of shape (1 + q, 1 + q)
        Covariance of `z`.
    mu, w, kappa : ndarray of shape (n_items,)
        Expected scores at the mode, ``mu (1 - mu)``, and noise: a score has the variance
        ``kappa w``.
    estimate, variance : float
        ``t`` and ``Var t``.
    unseen_noise : float
        Mean variance ``kappa w`` of the scores not seen.
    """

    def __init__(self, items: FractionalItems) -> None:
        self.items = items
        self.answered: Indices = np.empty(0, dtype=np.intp)
        self._unseen = np.ones(items.n_items)  # 1 or 0: products are cheaper than indexing
        self._total = 0.0
        self._identity = np.eye(items.n_dimensions)
        self._prior = self._identity.copy()  # precision
        self._prior[0, 0] = items.prior_sd**-2
        # Rows as `ItemStates` has them: what is known of some items is one selection of columns.
        # Of the gradients of the linear predictors only that in the ability ever changes.
        self._states = np.zeros((4 + items.n_dimensions, items.n_items))
        self._states[5:] = items.loadings.T
        self.score, self.mu, self.w, self.kappa, self._slopes = ItemStates.of(self._states)
        self._profile = items.profile.prior.copy()
        self.z = np.zeros(items.n_dimensions)
        self.covariance = solved(self._prior, self._identity)
        self._predict()

    @property
    def n_items(self) -> int:
        """Items of the benchmark."""
        return self.items.n_items

    @property
    def slope(self) -> float:
        """Change of the estimate if the ability, and the factors with it, changes by 1."""
        along = float(self._gradient.dot(self.covariance[:, 0]))
        return along / (float(self.covariance[0, 0]) * self.n_items)

    @property
    def variance(self) -> float:
        g = self._gradient
        return float(g.dot(self.covariance).dot(g) + self._noise_left) / self.n_items**2

    @property
    def has_score(self) -> Mask:
        """Whether each item has a score; shape (n_items,)."""
        return np.asarray(self._unseen == 0.0)

    def is_seen(self, item: int) -> bool:
        """Return whether an item has a score."""
        return not self._unseen[item]

    def learn(self, items: Sequence[int], scores: Sequence[float]) -> None:
        """Take in scores, on [0, 1], of items not seen before."""
        self.answered = np.concatenate([self.answered, np.array(items, dtype=np.intp)])
        self._total += sum(scores)
        for item, score in zip(items, scores):
            self._unseen[item], self.score[item] = 0.0, score
            self._profile += self.items.profile.of(item, score)
        self._fit()
        self._predict()

    def gains(self, pending: Sequence[int] = ()) -> Floats:
        """Return by how much a score of each item is expected to lower ``N^2 Var t``; (n_items,).

        Parameters
        ----------
        pending : sequence of int
            Items in flight, whose scores are taken as known.
        """
        covariance, g = self.covariance, self._gradient
        if len(pending):
            covariance, g = self._after(pending)
        slopes, w, kappa = self._slopes, self.w, self.kappa
        # ``c^2 / p`` of the module's docstring: w (l' S g + kappa)^2 / (kappa + w l' S l).
        with_sum = covariance.dot(g).dot(slopes)
        with_sum += kappa
        along = covariance.dot(slopes)
        along *= slopes
        total = np.add.reduce(along, 0)
        total *= w
        total += kappa
        with_sum *= with_sum
        with_sum *= w
        with_sum /= total
        return np.asarray(with_sum)

    def states(self, items: Items | Indices) -> ItemStates:
        """Return what is known of some items."""
        return ItemStates.of(self._states.take(items, 1))

    def residuals(self, states: ItemStates, weights: Floats) -> Floats:
        """Return residuals of items seen, approximately as if the fit had not included them.

        `weights` are those of the states (`ItemStates.weights`).
        """
        along = self.covariance.dot(states.slopes)
        along *= states.slopes
        leverage = np.add.reduce(along, 0)
        leverage *= weights
        np.minimum(leverage, _MOST_LEVERAGE, out=leverage)
        residuals = states.score - states.mu
        residuals /= np.subtract(1.0, leverage, out=leverage)
        return np.asarray(residuals)

    def refusals(self, noise: float, floor: float) -> Refusals:
        """Return what the answers say of refusals if no draw corrects the estimate.

        With ``q`` the share of refused items, ``(1 - q) mu`` is expected. Ability and factors grow
        by `shift` per unit of ``q``: where zeros are refusals, the other answers are those of an
        abler model. Score, information and effect are those left after this.

        Parameters
        ----------
        noise, floor : float
            A score has the variance ``noise kappa w + floor``.
        """
        states = self.states(self.answered)
        variance = np.maximum(noise * states.kappa * states.w + floor, _LEAST_NOISE)
        slopes, residual = states.slopes * (states.w / variance), states.score - states.mu
        with_share = slopes.dot(states.mu)
        gradient = slopes.dot(residual) - self._prior.dot(self.z)
        precision = states.precision(states.w * states.w / variance) + self._prior
        shift, step = solved(precision, np.array([with_share, gradient]).T).T
        expected = states.mu / variance
        return Refusals(
            float(with_share.dot(step) - expected.dot(residual)),
            float(expected.dot(states.mu) - with_share.dot(shift)),
            float(self._unseen.dot(self.mu) - self._gradient.dot(shift)) / self.n_items,
        )

    def after(self, precision: Floats) -> AfterScores:
        """Return what some scores alone would leave open of the mean of the unseen items.

        `precision` is what these scores add to that of `z` (`ItemStates.precision`).
        """
        along = self._gradient / max(self.n_items - len(self.answered), 1)
        covariance = solved(precision + self._prior, self._identity)
        with_mean = covariance.dot(along)
        return AfterScores(float(along.dot(with_mean)), covariance, with_mean)

    @property
    def variance_over_abilities(self) -> float:
        """Mean squared distance of the mean expected score from that at the mode.

        It is the mean over all abilities, each weighed by how well it fits the scores. `covariance`
        describes the mode alone, and misses another ability that fits nearly as well (that of a
        model that guesses and was lucky).
        """
        profile = self.items.profile
        weight = np.exp(self._profile - max(self._profile.tolist()))
        off = profile.mean - np.interp(self.z[0], profile.x, profile.mean)
        off *= off
        return float(weight.dot(off) / sum(weight.tolist()))

    def _fit(self) -> None:
        """Take Newton steps from the last mode to the new one; set `z` and `covariance`.

        Each step takes the noise, which depends on the ability, as fixed. Steps can therefore
        alternate between two abilities; each time a step turns back, later steps are halved. A step
        changes the weights of all scores, so each solves anew: to update the covariance by the row
        of the last score would not be exact.
        """
        items, prior, z = self.items, self._prior, self.z
        share, last_step = 1.0, np.zeros(len(z))  # share of a step that is taken
        rows, noise = items.rows.take(self.answered, 1), items.noise.take(self.answered)
        # A copy of the answered items alone: here the steps write mu, w, kappa and the slope in the
        # ability (`FractionalItems.curves`). Where the last fit ended, these are known already.
        states = self._states.take(self.answered, 1)
        answered = ItemStates.of(states)
        for _ in range(_STEPS):
            prior[0, 0] = items.prior_precision_at(float(z[0]))
            precision = answered.precision(answered.weights)
            precision += prior
            covariance = solved(precision, self._identity)
            residuals = answered.score - answered.mu
            residuals /= answered.kappa
            step = covariance.dot(answered.slopes.dot(residuals) - prior.dot(z))
            longest = max(map(abs, step.tolist()))
            if step.dot(last_step) < -0.25 * last_step.dot(last_step):
                share *= 0.5
            last_step = step
            z = z + step * (share if longest < _LONGEST_STEP else share * _LONGEST_STEP / longest)
            if longest < _TOLERANCE:
                break
            items.curves(z.tolist(), rows, noise, out=states[1:5])
        self.z, self.covariance = z, covariance

    def _predict(self) -> None:
        """Bring to the new mode what is known of all items, and the estimate."""
        items = self.items
        items.curves(self.z.tolist(), items.rows, items.noise, out=self._states[1:5])
        left = self._unseen * self.w
        # ``g``, and the sum over U of kappa w.
        self._gradient = self._slopes.dot(left)
        self._noise_left = float(self.kappa.dot(left))
        n = self.n_items
        self.estimate = (self._total + float(self._unseen.dot(self.mu))) / n
        self.unseen_noise = self._noise_left / max(n - len(self.answered), 1)

    def _after(self, pending: Sequence[int]) -> tuple[Floats, Floats]:
        """Return the covariance of `z`, and ``g``, once `pending` have scores, at this mode."""
        states, identity = self.states(pending), self._identity
        precision = solved(self.covariance, identity) + states.precision(states.weights)
        gradient = self._gradient - states.slopes.dot(self._unseen.take(pending) * states.w)
        return solved(precision, identity), gradient


def solved(matrix: Floats, right: Floats) -> Floats:
    """Solve for a positive definite matrix; numpy's checks would take ten times as long."""
    _, solution, failed = dposv(matrix, right)
    return np.asarray(np.linalg.solve(matrix, right) if failed else solution)

"""`Field`: the models of one ranking, estimated together from response model and random draws.

The estimate of a model is that of the response model plus the mean departure over the items that
it was not asked. The departure has the bank's prior, and the draws of the shared sequence measure
it: `departures` has the formula, `member` the sums of one model. The field also decides whether the
next item of the sequence is chosen or drawn. Models are positions, here often ``a`` and ``b``.

Variances and covariances of mean residuals are sums, over the draws, of products of the values of
two models. A score of one model changes one row and column of each sum. The sums equal, to the last
bit, those computed from scratch: draws keep the order in which they fell, and sums run over whole
blocks of them, zeros included, one entry at a time (a product of matrices would add in an order
that depends on their shapes).
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from enum import Enum
from typing import NamedTuple

import numpy as np

from ...metrics.scale import Floats
from ..belief import Belief
from ..policy import Items, Mask, largest, tie_order
from ..sample.pairs import imagined_square
from .departures import (
    FIRST,
    UNKNOWN,
    DefaultModel,
    Departures,
    clipped,
    posterior,
    set_diagonal,
    spread,
)
from .member import NU0, Member, solved

#: Least share of draws among the items after the first `FIRST`, found by replays. A further item is
#: drawn if a draw tells more than the best choice, so long tests end as samples.
SHARE = 0.5
#: Part of a draw's chance that is the same for all items: no score then counts more than twice what
#: it would in a simple random sample, however wrong the bank is about residuals. Replays of real
#: tables: errors of models better than the bank fall by a fifth to a third, others stay.
EVEN = 0.5
#: Mean distance of the models from the middle of the bank's range, 1 at its edge, from which on the
#: share of draws rises, to all items at the edge.
EDGE = 0.8
#: Factor on the variance of a single model by draws alone: in replays of four of five banks,
#: squared errors were .9 to 1.1 of the stated variances.
EXCESS_ALONE = 1.1
_LEAST_WEIGHT = 0.05  # of a pair whose order is clear; one in doubt has up to 1 more
#: Row of another model that each row of `Joint` is multiplied by: ``y^3`` by ``y`` and the reverse.
_PARTNER = np.array([0, 1, 2, 3, 5, 4])
_SCORES = len(_PARTNER)  # the row of `Joint` of weighted scores
_RESIDUAL = 2  # the row of `Joint`, and the field of `Products`, of residuals on one item
_BLOCK = 64  # of columns
_ROUNDING = 1e-13  # relative, of a difference of sums of fourth powers


class SequenceDraw(NamedTuple):
    """Probability and weight of the draw of an item; None and 0 if the item was chosen."""

    probability: float | None
    weight: float


class NextItems(NamedTuple):
    """Candidates for a model's next item, best first, and the probability of a draw.

    A drawn item comes alone; the probability is None if the items were chosen.
    """

    items: list[int]
    probability: float | None


class ItemSequence:
    """The items asked so far, in order: chosen ones, and draws of known probability.

    Every model gets the items in this order: a model that lags takes the next one, a model that is
    ahead extends the sequence. A draw takes an item that is not in the sequence yet, with a
    probability proportional to the expected standard deviation of its residual; this probability,
    given everything before, is recorded. For residuals ``r_i`` of any model from expectations that
    do not depend on the draw (0 where the score was known),

        E ( r_i / p_i | all before )  =  sum over items not in the sequence of r,

    whatever rule chose items or decided to draw (Des Raj 1956). Each draw thus gives an unbiased
    estimate of a known part of the same total. The estimates are averaged with weights known
    before each draw: one over the variance that it has where residuals are as uneven as expected,
    the same for all draws. With equal probabilities the average is as good as the mean of a
    simple random sample.

    Parameters
    ----------
    n_items : int
    seed : int
    kept_items : ndarray of bool, shape (n_items,), optional
        Items that may be in the sequence; default all.

    Attributes
    ----------
    items : list of int
    draws : dict of int to SequenceDraw
        How each item came into the sequence.
    left : ndarray of bool, shape (n_items,)
        Items that may still enter the sequence.
    n_drawn : int

    References
    ----------
    D. Raj, "Some Estimators in Sampling with Varying Probabilities without Replacement",
    Journal of the American Statistical Association 51 (1956).
    """

    def __init__(self, n_items: int, seed: int, kept_items: Mask | None = None) -> None:
        self._seed = seed
        self.left = np.ones(n_items, dtype=bool) if kept_items is None else kept_items.copy()
        self.items: list[int] = []
        self.draws: dict[int, SequenceDraw] = {}
        self.n_drawn = 0

    def __len__(self) -> int:
        return len(self.items)

    def draw(self, size: Floats) -> tuple[int, float]:
        """Return the item that a draw would take now, and its probability; change no state.

        Parameters
        ----------
        size : ndarray of shape (n_items,)
            Sizes, above 0, to which probabilities are proportional.

        Examples
        --------
        >>> ItemSequence(4, seed=0).draw(np.array([1.0, 1.0, 1.0, 1.0]))[1]
        0.25
        """
        below = (size * self.left).cumsum()
        x = np.random.default_rng([self._seed, len(self.items)]).random() * below[-1]
        item = int(np.searchsorted(below, x, side="right"))
        return item, float(size[item] / below[-1])

    def weight(self, size: Floats) -> float:
        """Return the weight of a draw made now: one over the variance of its estimate.

        With the sizes ``s`` (see `draw`) of the ``n`` items left, over their mean, it is
        ``1 / (n^2 - sum s^2)``. How large sizes are does not count: they shrink as the bank gets to
        know the models, but all draws measure residuals of these same models.
        """
        left = size[self.left]
        n, relative = len(left), left / max(float(left.mean()), 1e-150)
        squares = float(relative @ relative)
        return 1.0 / max(n * n - squares, 1e-12 * squares)

    def append(self, item: int, probability: float | None, weight: float) -> None:
        """Append an item; for the arguments see `SequenceDraw`."""
        self.items.append(item)
        self.draws[item] = SequenceDraw(probability, weight)
        self.left[item] = False
        self.n_drawn += probability is not None


@dataclass(eq=False)
class ModelValues:
    """What is known of each model alone, before draws are weighed against the bank.

    Attributes
    ----------
    estimate, open_variance, misfit, inflation, n_left, mean_residual : ndarray of shape (n_models,)
        As `Member` has them.
    n_draws : ndarray of shape (n_models,)
        Draws with a score.
    ability, ability_variance, slope : ndarray of shape (n_models,)
        Posterior mean (less the bank's centre, in logits) and variance of the ability, and change
        of the estimate per unit of ability, without departures.
    residual_sd : ndarray of shape (n_models,)
        Standard deviation of a residual on an item not asked, by the bank.
    score_variance : ndarray of shape (n_models,)
        Of the scores so far.
    """

    estimate: Floats
    open_variance: Floats
    misfit: Floats
    inflation: Floats
    n_left: Floats
    n_draws: Floats
    mean_residual: Floats
    ability: Floats
    ability_variance: Floats
    slope: Floats
    residual_sd: Floats
    score_variance: Floats


@dataclass(eq=False)
class Prospects(ModelValues):
    """What decides whether the next item is drawn.

    Attributes
    ----------
    item_covariance : ndarray of shape (n_models, n_models)
        Covariances of residuals on one item.
    prior : ndarray of shape (n_models, n_models)
        Covariance of departures before any draw.
    """

    item_covariance: Floats
    prior: Floats


@dataclass(eq=False)
class Moments(Prospects):
    """Estimates and covariances before draws are weighed against the bank; arrays by model.

    Attributes
    ----------
    mean_covariance : ndarray of shape (n_models, n_models)
        Covariances of mean residuals on the draws.
    df_of_draws : ndarray of shape (n_models, n_models)
        Degrees of freedom that draws give to variances of residuals (on the diagonal) and of their
        differences.
    item_variance, mean_variance : ndarray of shape (n_models, n_models)
        Variances of differences of residuals on one item, and of mean residuals on the draws, as
        the draws alone show them; the diagonal means nothing.
    """

    mean_covariance: Floats
    df_of_draws: Floats
    item_variance: Floats
    mean_variance: Floats

    def slope_and_share(
        self, departures: Departures, variance: Floats, n_items: int
    ) -> tuple[Floats, Floats]:
        """Return how each estimate depends on the ability (`AbilityEffects.slope` and `share`).

        Parameters
        ----------
        departures : Departures
        variance : ndarray of shape (n_models,)
            Of the estimates, as `_combined` computes it from the variance of a departure.
        n_items : int

        Returns
        -------
        slope, share : ndarray of shape (n_models,)
        """
        share_left, before = self.n_left / n_items, self.prior.diagonal()
        factor = np.maximum(departures.inflation * share_left * share_left, 1e-300)
        noise = self.item_covariance.diagonal() / np.maximum(self.n_left, 1.0)
        # The variance that draws leave of each departure, and the share of it that the ability
        # explains: of the prior's terms ``l (c f v + m + g ..)`` the first.
        after = clipped(variance / factor - noise, 0.0, before)
        by_ability = departures.single[0] * self.open_variance * self.misfit * self.inflation
        explained = np.minimum(by_ability / before, 1.0)
        share = after * explained * factor / np.maximum(variance, 1e-300)
        return self.slope * after / before, clipped(share, 0.0, 1.0)

    def result(self, departures: Departures, n_items: float) -> Belief:
        """Return the more certain one of two beliefs.

        The first combines the bank's prior with the draws; its variances are inflated by as much as
        replays found them too small. The second rests on the draws alone, as a ranking without a
        bank does. A bank that tells little thus costs no more than the items that were chosen with
        it. `_usual_variance` says which is more certain: it looks at variances alone, so that it
        favours no model.
        """
        return min(self._beliefs(departures, n_items), key=_usual_variance)

    def rest_on_draws(self, departures: Departures, n_items: float) -> bool:
        """Return whether `result` rests on the draws alone."""
        combined, alone = self._beliefs(departures, n_items)
        return _usual_variance(alone) < _usual_variance(combined)

    def _beliefs(self, departures: Departures, n_items: float) -> tuple[Belief, Belief]:
        """Return the two beliefs of `result`."""
        return self._combined(departures, n_items), self._of_draws(n_items)

    def _of_draws(self, n_items: float) -> Belief:
        """Return the belief that takes nothing from the bank's prior of departures.

        Pairs are judged as without a bank, by what the two models differ by on the draws. A single
        model's variance counts the bank's covariance of residuals as `NU0` draws. Either is that of
        residuals on the items left, plus that of the draws' mean residual, which stands for them.
        """
        share_left, n_left = self.n_left / n_items, np.maximum(self.n_left, 1.0)
        n_left = np.maximum(n_left[:, None], n_left)
        shares = share_left[:, None] * share_left
        single = ((self.item_covariance / n_left + self.mean_covariance) * shares).diagonal()
        variance = (self.item_variance / n_left + self.mean_variance) * shares
        df = np.maximum(np.minimum(self.n_draws[:, None], self.n_draws) - 1.0, 1.0)
        set_diagonal(variance, EXCESS_ALONE * np.maximum(single, 0.0))
        set_diagonal(df, NU0 + self.df_of_draws.diagonal())
        return self._belief(self.estimate + share_left * self.mean_residual, variance, df, n_items)

    def _combined(self, departures: Departures, n_items: float) -> Belief:
        """Return the belief that combines the bank's prior of departures with the draws.

        With ``u`` and ``beta`` as in `departures`, the covariance of two models' estimates is
        ``u_a u_b`` times that of their ``beta`` plus that of residuals on the items left.
        """
        share_left = self.n_left / n_items
        if any(self.n_draws.tolist()):
            departure, posterior_covariance = posterior(
                self.prior, self.mean_covariance, self.mean_residual
            )
        else:
            departure, posterior_covariance = np.zeros(len(share_left)), self.prior
        n_left = np.maximum(self.n_left, 1.0)
        covariance = self.item_covariance / np.maximum(n_left[:, None], n_left)
        covariance += posterior_covariance
        covariance *= share_left[:, None] * share_left
        after, before = self._of_pairs(posterior_covariance), self._of_pairs(self.prior)
        variance = self._of_pairs(covariance)
        single = variance.diagonal() * departures.inflation
        variance *= departures.inflation_of_pairs
        set_diagonal(variance, single)
        # The bank tells the part `bank` of a variance, and draws tell the others. Satterthwaite's
        # degrees of freedom are 1 / df = bank^2 / df of the bank + (1 - bank)^2 / df of the draws.
        bank = clipped(after / before, 0.0, 1.0)
        draws = (1.0 - bank) ** 2 / (NU0 + self.df_of_draws)
        df = 1.0 / (bank**2 / departures.df + draws)
        return self._belief(self.estimate + share_left * departure, variance, df, n_items)

    @staticmethod
    def _of_pairs(covariance: Floats) -> Floats:
        """Return variances of differences, on the diagonal those of single models."""
        variance = spread(covariance)
        set_diagonal(variance, np.maximum(covariance.diagonal(), 0.0))
        return variance

    def _belief(self, estimate: Floats, variance: Floats, df: Floats, n_items: float) -> Belief:
        """Return a belief of these moments; pairs without an item left have no error.

        `variance` is overwritten.
        """
        in_full = self.n_left[:, None] + self.n_left == 0.0
        variance[in_full] = 0.0
        n = n_items - self.n_left
        n = np.minimum(n[:, None], n)
        return Belief(clipped(estimate, 0.0, 1.0), variance, df, n, float(n_items))


def _mean(of_models: Floats) -> float:
    """Return the mean over models; for a few, plain numbers are faster than `numpy.mean`."""
    return float(sum(of_models.tolist())) / len(of_models)


def _usual_variance(belief: Belief) -> float:
    """Return the mean variance of all differences; with a single model, that of its estimate.

    It is the mean of Student's variances, ``df / (df - 2)`` times the belief's, which few draws
    make large; infinite if any difference has two degrees of freedom or fewer.
    """
    differ = ~np.eye(len(belief.df), dtype=bool) if len(belief.df) > 1 else np.True_
    variance, df = belief.variance[differ], belief.df[differ]
    if df.min() <= 2.0:
        return float("inf")
    return float((variance * df / (df - 2.0)).sum()) / len(df)


class Products(NamedTuple):
    """Sums over draws of products of two models' values; each of shape (n_models, n_models).

    Each draw of a model has the weight ``c`` in its mean residual (all sum to 1), the residual
    ``e`` from that mean, and the standard deviation ``s`` that the bank expects; ``y`` is ``c e``.
    A draw that a model did not have counts as 0.

    Attributes
    ----------
    mean_residual : ndarray
        Of ``y_a y_b``: the covariance of mean residuals, as observed.
    alike : ndarray
        Of ``c_a s_a c_b s_b``: the same as the bank expects it for models that are alike.
    residual : ndarray
        Of ``sqrt(c_a c_b) e_a e_b``: the covariance of residuals on one item, as observed.
    squares, cubes : ndarray
        Of ``y_a^2 y_b^2``, and of ``y_a^3 y_b + y_a y_b^3``.
    largest : ndarray
        The largest difference of ``c`` times the score, no sum.
    """

    mean_residual: Floats
    alike: Floats
    residual: Floats
    squares: Floats
    cubes: Floats
    largest: Floats


class Joint:
    """The sums that `Moments` are computed from, updated model by model.

    Between two beliefs a ranking only asks whether to draw, which takes the covariances of
    residuals alone. So the other sums wait until they are read.
    """

    def __init__(self, n_items: int) -> None:
        # By item: its column in `_rows` if it was drawn for some model, else -1.
        self._columns, self._n_columns = np.full(n_items, -1), 0
        # By row, model and draw: y, c s, sqrt(c) e, y^2, y^3, y, and c times the score; 0 where the
        # model did not have the draw.
        self._rows: Floats = np.zeros((_SCORES + 1, 0, 0))
        self._sums: Floats = np.zeros((len(Products._fields), 0, 0))  # as `Products`
        # Models of which `_rows` and `_sums` have the last residuals alone.
        self._outdated: dict[int, tuple[Member, Departures]] = {}
        self._values: Floats = np.zeros((len(fields(ModelValues)), 0))  # as `ModelValues`

    def add_model(self) -> None:
        """Add a model without any information."""
        self._rows = np.pad(self._rows, ((0, 0), (0, 1), (0, 0)))
        self._sums = np.pad(self._sums, ((0, 0), (0, 1), (0, 1)))
        self._values = np.pad(self._values, ((0, 0), (0, 1)))

    def add_draw(self, item: int) -> None:
        """Record that an item was drawn for some model."""
        # Another model had this draw already.
        if self._columns[item] >= 0:
            return
        self._columns[item] = self._n_columns
        self._n_columns += 1
        if self._n_columns > self._rows.shape[2]:
            self._rows = np.pad(self._rows, ((0, 0), (0, 0), (0, _BLOCK)))

    def put(self, a: int, member: Member, departures: Departures) -> None:
        """Store what the scores of model `a` say now; `add_draw` must know all of its draws."""
        member.refresh(departures)
        posterior, floor = member.posterior, departures.floor * member.inflation
        residual_variance = departures.noise * member.unseen_noise + floor
        self._values[:, a] = (  # in the order of `ModelValues`
            member.estimate,
            member.open_variance,
            member.misfit,
            member.inflation,
            member.n_left,
            len(member.drawn),
            member.mean_residual,
            float(posterior.z[0]),
            float(posterior.covariance[0, 0]),
            posterior.slope,
            residual_variance**0.5,
            member.score_variance,
        )
        self._outdated[a] = member, departures
        residuals = self._rows[_RESIDUAL]
        residuals[a, self._columns.take(member.drawn)] = (
            np.sqrt(member.draw_weights) * member.draw_residuals
        )
        covariances = np.einsum("hd,d->h", residuals, residuals[a])
        self._sums[_RESIDUAL, a] = self._sums[_RESIDUAL, :, a] = covariances

    @property
    def sums(self) -> Products:
        """The sums over the draws of all models."""
        for a, (member, departures) in self._outdated.items():
            self._put_draws(a, member, departures)
        for a in self._outdated:
            self._sums[:, a] = self._sums[:, :, a] = self._products(a)
        self._outdated.clear()
        return Products(*self._sums)

    def _put_draws(self, a: int, member: Member, departures: Departures) -> None:
        """Store the draws of model `a` in its rows; the letters are those of `Products`."""
        c, e = member.draw_weights, member.draw_residuals
        floor = departures.floor * member.inflation
        s = np.sqrt(departures.noise * member.draw_noises + floor)
        rows = np.empty((len(self._rows), len(c)))  # as `_rows`
        y, square = np.multiply(c, e, out=rows[0]), rows[3]
        np.multiply(c, s, out=rows[1])
        np.multiply(np.sqrt(c), e, out=rows[_RESIDUAL])
        np.multiply(y, y, out=square)
        np.multiply(square, y, out=rows[4])
        rows[5] = y
        np.multiply(c, member.posterior.score.take(member.drawn), out=rows[_SCORES])
        self._rows[:, a, self._columns.take(member.drawn)] = rows

    def _products(self, a: int) -> Floats:
        """Return `Products` of model `a` with every model; shape (n_fields, n_models)."""
        products: Floats = np.einsum("khd,kd->kh", self._rows[:_SCORES], self._rows[_PARTNER, a])
        # The last two, ``y_a^3 y_b`` and ``y_a y_b^3``, are the parts of `cubes`. The place of the
        # second one is that of `largest`.
        products[-2] += products[-1]
        products[-1] = np.abs(self._rows[_SCORES] - self._rows[_SCORES, a]).max(axis=1, initial=0.0)
        return products

    def df_of_draws(self, q: Floats) -> Floats:
        """Return the degrees of freedom of the variances of differences of mean residuals.

        With ``y`` the differences of ``c e`` on ``q`` draws (on the diagonal ``c e`` itself), they
        are those of a mean of squares, by Satterthwaite, at most ``q - 1``:

            ``2 (sum y^2)^2 / (sum y^4 - (sum y^2)^2 / q)``

        Nine if two 0/1 models differ on four of fifty draws. The powers of a difference are sums of
        `Products`:

            ``(y_a - y_b)^4 = y_a^4 + y_b^4 + 6 y_a^2 y_b^2 - 4 (y_a^3 y_b + y_a y_b^3)``

        Parameters
        ----------
        q : ndarray of shape (n_models,)
            Draws of each model; of two models the smaller number counts.
        """
        covariance, fourth, cross = self.sums.mean_residual, self.sums.squares, self.sums.cubes
        alone, even = covariance.diagonal(), fourth.diagonal()
        squares = (alone[:, None] + alone - 2.0 * covariance) ** 2
        quartics = even[:, None] + even
        smallest = _ROUNDING * quartics + 1e-300  # of models that answered alike nothing is left
        quartics = np.maximum(quartics + 6.0 * fourth - 4.0 * cross, smallest)
        set_diagonal(squares, alone**2)
        set_diagonal(quartics, even)
        q = np.minimum(q[:, None], q)
        scatter = np.maximum(quartics - squares / np.maximum(q, 1.0), smallest)
        return np.asarray(np.minimum(2.0 * squares / scatter, np.maximum(q - 1.0, 0.0)))

    def variances_by_draws(self, n_draws: Floats, score_variance: Floats) -> tuple[Floats, Floats]:
        """Return `item_variance` and `mean_variance` of `Moments`.

        With ``c``, ``e`` and ``y`` as in `Products`, ``n`` the smaller number of draws of two
        models, at least 1, and ``g`` the part of a draw that is imagined, as in a ranking without a
        bank (`imagined_square`),

            item_variance = n / (n - 1) (sum (sqrt(c_a) e_a - sqrt(c_b) e_b)^2 + n g)
            mean_variance = n / (n - 1) (sum (y_a - y_b)^2 + g)

        without the factor ``n / (n - 1)`` at a single draw.

        Parameters
        ----------
        n_draws, score_variance : ndarray of shape (n_models,)
            Draws, and variance of the scores, of each model.
        """
        n = np.maximum(np.minimum(n_draws[:, None], n_draws), 1.0)
        plausible = score_variance[:, None] + score_variance
        imagined = imagined_square(self.sums.largest, plausible, n)
        freedom = n / np.maximum(n - 1.0, 1.0)
        item_variance = (spread(self.sums.residual) + n * imagined) * freedom
        mean_variance = (spread(self.sums.mean_residual) + imagined) * freedom
        return item_variance, mean_variance

    def prospects(self, departures: Departures) -> Prospects:
        """Return what decides under this prior whether the next item is drawn; see `moments`."""
        values = ModelValues(*self._values.copy())  # later answers change `_values`
        alike, bank, measured = _shares_of_draws(values.n_draws, departures.rho)
        noise = values.residual_sd * bank
        of_item = alike * (noise[:, None] * noise) + measured * self._sums[_RESIDUAL]
        prior = departures.prior(
            values.open_variance, values.misfit, values.estimate, values.inflation
        )
        return Prospects(**vars(values), item_covariance=of_item, prior=prior)

    def moments(self, prospects: Prospects, departures: Departures) -> Moments:
        """Return the current state of all models, of which `prospects` are those of this prior.

        With ``q_a`` the draws of model a, ``t_a = NU0 + max(q_a - 1, 0)``, ``rho`` the bank's
        correlation of two models' residuals (1 of a model with itself), ``d_a`` the standard
        deviation of a residual that the bank expects, and the sums of `Products`,

            item_covariance = (NU0 rho d_a d_b + sqrt(q_a q_b) residual) / sqrt(t_a t_b)
            mean_covariance = (NU0 rho alike + sqrt(q_a q_b) mean_residual) / sqrt(t_a t_b)

        The bank's covariance counts as ``NU0`` draws beside those of the models.
        """
        n_draws, sums = prospects.n_draws, self.sums
        alike, bank, measured = _shares_of_draws(n_draws, departures.rho)
        of_mean = alike * (bank[:, None] * bank) * sums.alike + measured * sums.mean_residual
        # Before its first draw nothing is known of a model's mean residual.
        of_mean.flat[:: len(n_draws) + 1] += np.where(n_draws > 0.0, 0.0, UNKNOWN)
        item_variance, mean_variance = self.variances_by_draws(n_draws, prospects.score_variance)
        return Moments(
            **vars(prospects),
            mean_covariance=of_mean,
            df_of_draws=self.df_of_draws(n_draws),
            item_variance=item_variance,
            mean_variance=mean_variance,
        )


def _shares_of_draws(n_draws: Floats, rho: float) -> tuple[Floats, Floats, Floats]:
    """Return what `Joint.moments` multiplies a covariance of the bank, and one of the draws, by.

    Returns
    -------
    alike : ndarray of shape (n_models, n_models)
        ``rho``, and 1 of a model with itself.
    bank : ndarray of shape (n_models,)
        ``sqrt(NU0 / t_a)``.
    draws : ndarray of shape (n_models, n_models)
        ``sqrt(q_a q_b) / sqrt(t_a t_b)``.
    """
    alike = np.full((len(n_draws), len(n_draws)), rho)
    set_diagonal(alike, 1.0)  # a model is wholly like itself
    total = NU0 + np.maximum(n_draws - 1.0, 0.0)
    draws = np.sqrt(n_draws / total)
    return alike, np.sqrt(NU0 / total), draws[:, None] * draws


class Move(Enum):
    """How the next item of a sequence is found."""

    CHOOSE = "the most telling item"
    DRAW = "a random item of known probability"
    WHICHEVER_TELLS_MORE = "a draw if it is expected to leave less variance than the best choice"


class Field:
    """The models of one ranking.

    Parameters
    ----------
    model : DefaultModel
        The bank's.
    n_models : int
    seed : int, optional
        Seed of the draws, and of the order in which equally informative items are chosen.
    item_price : float, optional
        Power of an item's price that the gain of a chosen item is divided by.
    draws : bool, optional
        Whether items are drawn at all.
    """

    def __init__(
        self,
        model: DefaultModel,
        n_models: int,
        seed: int = 0,
        item_price: float = 0.0,
        draws: bool = True,
    ) -> None:
        self.model = model
        self.sequence = ItemSequence(model.items.n_items, seed, model.kept_items)
        self.members: list[Member] = []
        self._item_price, self._draws = item_price, draws
        self._tie_order = tie_order((seed, 0), model.items.n_items)
        self._joint = Joint(model.items.n_items)
        # Models whose last scores `_joint` does not have yet, in the order of these scores.
        self._changed: dict[int, None] = {}
        self._per_draw = 1.0  # variance of a draw's estimate over that of a simple random one's
        for _ in range(n_models):
            self.add_model()
        self._forget()

    # -- what happened --------------------------------------------------------------------------

    def add_model(self) -> None:
        """Add a model, which gets the sequence from its beginning."""
        self._changed[len(self.members)] = None
        self.members.append(Member(self.model))
        self._joint.add_model()
        self._forget()

    def asked(self, a: int, item: int, probability: float | None) -> None:
        """Record that model `a` was asked `item`; see `Policy.asked`."""
        member, sequence = self.members[a], self.sequence
        new, weight = item not in sequence.draws, 0.0
        # A draw that another model had before keeps the weight that it had then.
        if probability is not None:
            weight = sequence.weight(self.draw_sizes()) if new else sequence.draws[item].weight
        # Unless the model lags: then it was asked this item out of turn, and the sequence stays.
        if new and self._next_shared(member) is None:
            sequence.append(item, probability, weight)
        if probability is not None:
            self._joint.add_draw(item)
        member.ask(item, probability, weight)

    def learn(self, a: int, items: Items, scores: list[float]) -> None:
        """Take in scores of model `a`, asked or known before."""
        self.members[a].learn(items, scores)
        self._changed.pop(a, None)
        self._changed[a] = None
        self._forget()

    def use(self, departures: Departures) -> None:
        """Replace the prior of departures."""
        self.model = replace(self.model, departures=departures)
        self._changed = dict.fromkeys(range(len(self.members)))
        self._forget()

    def _forget(self) -> None:
        """Forget what `prospects`, `moments`, `result` and `draw_sizes` cache."""
        self._prospects: Prospects | None = None
        self._moments: Moments | None = None
        self._result: Belief | None = None
        self._size: Floats | None = None

    # -- what next ------------------------------------------------------------------------------

    def next(
        self,
        a: int,
        available: Mask,
        price: Floats | None = None,
        k: int = 1,
        pending: Items = (),
    ) -> NextItems:
        """Return the candidates for the next item of model `a`.

        Parameters
        ----------
        a : int
        available : ndarray of bool, shape (n_items,)
            Items that the model may be asked.
        price : ndarray of shape (n_items,), optional
            What the model's answer to each item costs; default alike.
        k : int, optional
            Most candidates, best first. A drawn item comes alone, as does one of the sequence.
        pending : sequence of int, optional
            Items of `a` in flight; it may leave out those that `asked` recorded.
        """
        member, sequence = self.members[a], self.sequence
        # A model that lags gets the next item of the sequence, which others were asked already:
        # pairs are compared on common items.
        item = self._next_shared(member, available)
        if item is not None:
            return NextItems([item], sequence.draws[item].probability)
        # The probabilities of a draw count all items left. So no item is drawn while a budget, say,
        # keeps the model from one of these that it was not asked yet.
        withheld = np.count_nonzero(sequence.left & ~available & member.unasked)
        may_draw = self._draws and not withheld and np.count_nonzero(sequence.left)
        move = self._next_move() if may_draw else Move.CHOOSE
        # `Move.WHICHEVER_TELLS_MORE` becomes a draw if that tells more than the best choice.
        if move is not Move.DRAW:
            items = self._most_telling(a, available, k, price, pending)
            if move is Move.CHOOSE or not self._draw_tells_more(items[0]):
                return NextItems(items, None)
        item, probability = sequence.draw(self.draw_sizes())
        if available[item]:
            return NextItems([item], probability)
        # The model was asked this item outside the sequence: it gets the most telling one instead.
        return NextItems(self._most_telling(a, available, k, price, pending), None)

    def _most_telling(
        self, a: int, candidates: Mask, k: int, price: Floats | None, pending: Items
    ) -> list[int]:
        """Return the `k` candidates that tell most about all models, best first."""
        gains = self._gains(a, price, pending)
        return largest(np.where(candidates, gains, -np.inf), k, self._tie_order)

    def _next_shared(self, member: Member, available: Mask | None = None) -> int | None:
        """Return the first item of the sequence that a model was not asked (and may be asked)."""
        items = self.sequence.items
        # `passed` only moves on, so that no call goes through the whole sequence again.
        while member.passed < len(items) and not member.unasked[items[member.passed]]:
            member.passed += 1
        for item in items[member.passed :]:
            if member.unasked[item] and (available is None or available[item]):
                return item
        return None

    def _gains(self, a: int, price: Floats | None, pending: Items) -> Floats:
        """Return how much each item tells about all models, for its price; shape (n_items,).

        Every model gets the items of the sequence, so the gains of all are summed. A model that was
        asked ``n`` items, fewer than the ``n_a`` of model `a`, counts ``(n + 1) / (n_a + 1)``, and
        not at all at a fifth or less.
        """
        own_answers = len(self.members[a].asked) + 1
        gain = np.zeros(self.model.items.n_items)
        for b, member in enumerate(self.members):
            weight = 1.0 if b == a else min((len(member.asked) + 1) / own_answers, 1.0)
            # What counts for little takes as long to compute.
            if weight > 0.2:
                # Items whose scores the model will have before that of the next item.
                earlier_items = member.pending(self.sequence.items)
                if b == a:
                    earlier_items += [i for i in pending if member.unasked[i]]
                gain += weight * member.posterior.gains(earlier_items)
        if self._item_price and price is not None:
            low, mean = float(price.min()), float(price.mean())
            if low > 0.0 and float(price.max()) > low:  # a free item has no ratio
                gain /= (price / mean) ** self._item_price
        return gain

    def _next_move(self) -> Move:
        """Return whether the sequence's next item is chosen, drawn, or whichever tells more.

        The first ``model.first`` items are chosen, unless the models stand beyond the bank's range.
        Of those after, at least the bank's share or `SHARE` are drawn; all, if the models stand at
        the edge of that range or beyond.
        """
        n_after_first, nearness = len(self.sequence) + 1 - self.model.first, 0.0
        # The bank tells little of models at its edge. Before a few scores of every model nobody
        # knows where they stand, and `nearness` (0 inside, 1 at the edge) stays 0.
        if min(member.n_told for member in self.members) >= FIRST // 2:
            for a in self._changed:
                self.members[a].refresh(self.model.departures)
            distance = sum(abs(member.position) for member in self.members) / len(self.members)
            nearness = min(max((distance - EDGE) / (1.0 - EDGE), 0.0), 1.0)
        if n_after_first <= 0:
            # Beyond the bank its choices tell no more than draws do, which also measure it.
            return Move.DRAW if nearness == 1.0 else Move.CHOOSE
        stated_share = self.model.share
        share = SHARE if stated_share is None else stated_share
        if self.sequence.n_drawn < (share + (1.0 - share) * nearness) * n_after_first:
            return Move.DRAW
        # A share that the bank states is kept to; without one, draws may be more than their share.
        return Move.WHICHEVER_TELLS_MORE if stated_share is None else Move.CHOOSE

    def _draw_tells_more(self, candidate: int) -> bool:
        """Return whether a draw is expected to leave less variance than a candidate.

        The variance is the mean over estimates plus half the mean over differences, which count by
        how much their sign is in doubt. Of a covariance ``M`` of departures, ``n`` draws leave
        ``M - M (M + S / n)^-1 M``, ``S`` being the covariance of one draw's estimates. A draw adds
        to ``n``; the candidate, an item to choose, lowers ``M``. What the items left scatter by
        comes on top of both.
        """
        prospects, n_drawn, size = self.prospects(), self.sequence.n_drawn, self.draw_sizes()
        noise = prospects.item_covariance
        per_draw, gap = noise * self._per_draw, prospects.estimate[:, None] - prospects.estimate
        squared_errors = spread(prospects.prior + noise / len(size))
        # Near 1 for a pair whose gap is within its standard error.
        weights = np.exp(-0.5 * gap**2 / squared_errors) + _LEAST_WEIGHT
        set_diagonal(weights, 0.0)
        weights /= max(float(weights.sum()), _LEAST_WEIGHT)
        # The sum over a covariance, each entry times that of `share`, is the mean over estimates
        # plus half the mean over differences.
        share = np.negative(weights)
        set_diagonal(share, weights.sum(axis=1) + 1.0 / len(weights))

        def left_open(prior: Floats, draws: float) -> float:
            """Return the variance that so many draws leave of departures with this prior."""
            learned = prior.dot(solved(prior + per_draw / max(draws, 1e-9), prior))
            return float(np.vdot(share, prior - learned))

        left_by_chosen = np.array([member.left_by_chosen(candidate) for member in self.members])
        after = self.model.departures.prior(
            left_by_chosen, prospects.misfit, prospects.estimate, prospects.inflation
        )
        return left_open(prospects.prior, n_drawn + 1) < left_open(after, n_drawn)

    def draw_sizes(self) -> Floats:
        """Return the sizes to which the probabilities of a draw are proportional; (n_items,).

        With ``sd`` the expected standard deviation of a residual over all models, an item's size is
        ``(1 - EVEN) sd + EVEN (mean sd)``: T. C. Hesterberg's defensive mixture (Technometrics 37,
        1995).
        """
        if self._size is None:
            departures, variances = self.model.departures, np.zeros(self.model.items.n_items)
            for member in self.members:
                variances += member.posterior.kappa * member.posterior.w
            floor = departures.floor * _mean(self.prospects().inflation)
            sd = np.sqrt(departures.noise / len(self.members) * variances + floor)
            total = float(sd.sum())
            size = self._size = (1.0 - EVEN) * sd + EVEN * total / len(sd)
            self._per_draw = float((sd * sd / size).sum()) * total / (len(sd) * float(sd @ sd))
        return self._size

    # -- what is known --------------------------------------------------------------------------

    def prospects(self) -> Prospects:
        """Return the current `Prospects`, which are cached."""
        if self._prospects is None:
            departures = self.model.departures
            for a in self._changed:
                self._joint.put(a, self.members[a], departures)
            self._changed.clear()
            self._prospects = self._joint.prospects(departures)
        return self._prospects

    def moments(self) -> Moments:
        """Return the current `Moments`, which are cached."""
        if self._moments is None:
            self._moments = self._joint.moments(self.prospects(), self.model.departures)
        return self._moments

    def result(self) -> Belief:
        """Return the current belief, which is cached."""
        if self._result is None:
            self._result = self.moments().result(self.model.departures, self.model.items.n_items)
        return self._result

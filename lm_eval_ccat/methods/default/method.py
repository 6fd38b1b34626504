"""The method "default": the ranking by full-benchmark mean."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial

import numpy as np
from scipy.linalg import block_diag
from scipy.special import stdtr

from ...bank import ItemBank
from ...metrics.scale import Floats
from ...options import AT_LEAST_0
from ...shown import plural
from ..belief import BENCHMARK, POPULATION, Belief
from ..curves import Curves
from ..method import Method
from ..policy import (
    AbilityEffects,
    Choice,
    Description,
    Items,
    Mask,
    Policy,
    Refusals,
    check_score,
)
from ..sample.first_pass import FirstPassPolicy
from .departures import spread
from .field import Field
from .fit import fit, model_of
from .member import Member

#: Calibration models from which each new model among reference models gets items of its own. With
#: 20, own items and a common sequence err alike; with 12, intervals by a common sequence hold more
#: often.
APART = 40
#: Number of scores, or of draws, from which there are findings on a model.
FEWEST_TO_FIND = 10
#: How many items the variance of scores that the bank expects counts as beside those answered.
BANKED = 2.0
#: Least share of a variance that counts as noise where a bank knows the noise of its own models.
#: All that equal models differ by is noise: where half of it counts, 7 to 10% are called different.
LEAST_NOISE = 0.8
#: A departure that fewer than this share of new models shows is a finding.
UNLIKE = 0.01
#: Power of an item's price that the gain of a chosen item is divided by: between buying the most
#: informative item and buying the cheapest.
ITEM_PRICE = 0.5


class DefaultPolicy(Policy):
    """Ranking by estimated full-benchmark mean.

    Each model gets a prefix of one sequence of chosen and drawn items (`Field`); estimates,
    variances of differences and their degrees of freedom are those of the field. New models among
    reference models need no common items, because these models are fixed points: from `APART`
    calibration models on, each new model has a field and a sequence of its own.

    Parameters
    ----------
    bank : ItemBank
    n_models : int
    seed : int, optional
        Seed of the draws, and of the order in which equally informative items are chosen.
    item_price : float, optional
        Power of an item's price that the gain of a chosen item is divided by; draws do not depend
        on prices.
    draws : bool, optional
        Whether items are drawn at all; without draws nothing corrects the bank.
    placing : bool, optional
        Whether there are reference models.
    sampled : bool, optional
        Whether an answer is one draw, and the benchmark's question about expected scores.
    """

    def __init__(
        self,
        bank: ItemBank,
        n_models: int,
        *,
        seed: int = 0,
        item_price: float = ITEM_PRICE,
        draws: bool = True,
        placing: bool = False,
        sampled: bool = False,
    ) -> None:
        AT_LEAST_0.check(item_price, "item_price")
        self._bank, self._sampled = bank, sampled
        self._apart = placing and len(bank.constants["abilities"]) >= APART
        self._new_field = partial(
            Field, model_of(bank), seed=seed, item_price=item_price, draws=draws
        )
        self.fields = [self._new_field(n) for n in ([1] * n_models if self._apart else [n_models])]

    def _at(self, model: int) -> tuple[Field, int]:
        """Return the field of a model, and its position there."""
        return (self.fields[model], 0) if self._apart else (self.fields[0], model)

    @property
    def _members(self) -> list[Member]:
        """All models, in their order."""
        return [member for field in self.fields for member in field.members]

    # -- what happened ------------------------------------------------------------------------

    def add_model(self) -> None:
        if self._apart:
            self.fields.append(self._new_field(1))
        else:
            self.fields[0].add_model()

    def asked(self, model: int, item: int, probability: float | None = None) -> None:
        field, a = self._at(model)
        field.asked(a, item, probability)

    def released(self, model: int, item: int) -> None:
        self._members[model].give_back(item)

    def told(self, model: int, item: int, score: float) -> None:
        field, a = self._at(model)
        check_score(score, item, answered=field.members[a].posterior.is_seen(item))
        # A score that was known before, not asked for.
        if field.members[a].unasked[item]:
            field.asked(a, item, None)
        field.learn(a, [item], [score])

    def failed(self, model: int, item: int) -> None:
        self._members[model].stop_waiting(item)

    # -- what is known ------------------------------------------------------------------------

    def belief(self, question: str = BENCHMARK) -> Belief:
        beliefs = [field.result() for field in self.fields]
        belief = beliefs[0] if len(beliefs) == 1 else _apart(beliefs)
        # The bank does not say what a model that it fits badly scores on items left. That widens
        # single models (the diagonal), not pairs, of which both models are often unlike the bank.
        unlike = [
            member.misfit_variance * (member.n_left / self._bank.n_items) ** 2
            for member in self._members
        ]
        belief = replace(belief, variance=belief.variance + np.diag(unlike))
        if question == POPULATION:
            variance = belief.variance + self._sampling()
            belief = replace(belief, variance=variance, n_items=math.inf, question=question)
        elif self._sampled:
            variance = belief.variance + self._noise()
            belief = replace(belief, variance=variance, n_items=math.inf)
        return belief

    def _noise(self) -> Floats:
        """Return the variance that the noise of the answers so far adds; (n_models, n_models).

        Off the diagonal it is that of differences, of which the model with more items counts. An
        estimate has the scores of ``n`` of ``N`` items in place of their expected scores. If all
        of the variance of scores is noise, this adds ``n s^2 / N^2``, with ``s^2`` as in
        `_variance_of_answers`. Single answers do not tell how much is noise, so all counts. A
        bank of repeated answers knows the noise of each item (`fit.noise_within`). But new models
        may be less sure of their answers than the bank's, so at least `LEAST_NOISE` of the variance
        counts. (Residuals of the answers themselves are no guide: the response model has learned
        from these answers.)
        """
        posteriors = [member.posterior for member in self._members]
        n = np.array([p.has_score.sum() for p in posteriors], dtype=np.float64)
        noise = self._variance_of_answers() * np.maximum(n[:, None], n)
        if (within := self.fields[0].model.within) is not None:
            alone = np.array([within[p.answered] @ p.w[p.answered] for p in posteriors])
            measured = alone[:, None] + alone
            np.fill_diagonal(measured, alone)
            noise = np.maximum(measured, LEAST_NOISE * noise)
        return np.asarray(noise / self._bank.n_items**2)

    def _variance_of_answers(self) -> Floats:
        """Return the variance of scores (diagonal) and of differences of two models' scores.

        Of differences it is that on the items that both models have. The variance of the bank's
        residuals counts beside the scores as `BANKED` of them.
        """
        residuals = block_diag(*(field.moments().item_covariance for field in self.fields))
        usual = spread(residuals)
        scores = np.array([member.posterior.score for member in self._members])
        has_score = np.array([m.posterior.has_score for m in self._members], dtype=np.float64)
        # Sums over the items that both models have: of 1, of the row's squared scores, of squared
        # differences (`total`), of the row's scores, and of differences (`shift`).
        common, squares = has_score @ has_score.T, (scores * scores) @ has_score.T
        sums, total = scores @ has_score.T, squares + squares.T - 2.0 * scores @ scores.T
        shift, n = sums - sums.T, has_score.sum(axis=1)
        # On the diagonal, a model's own scores take the place of differences.
        diagonal = slice(None, None, len(n) + 1)
        usual.flat[diagonal], total.flat[diagonal] = residuals.diagonal(), squares.diagonal()
        shift.flat[diagonal] = sums.diagonal()
        squares_about_mean = np.maximum(total - shift**2 / np.maximum(common, 1.0), 0.0)
        # With fewer than two common items, two models' answers count as independent.
        alone = squares_about_mean.diagonal() / np.maximum(n - 1.0, 1.0)
        independent = np.maximum(usual, alone[:, None] + alone)
        usual = np.where(common > 1.0, usual, independent)
        of_item = (BANKED * usual + squares_about_mean) / (BANKED + np.maximum(common - 1.0, 0.0))
        return np.asarray(of_item)

    def _sampling(self) -> Floats:
        """Return the sampling variance of the benchmark's items; shape (n_models, n_models).

        It is that of differences of mean scores, on the diagonal that of the means: the variance
        over items, divided by their number, of the scores where they are known, and elsewhere that
        of expected scores and of residuals.
        """
        posteriors = [member.posterior for member in self._members]
        scores = np.array([np.where(p.has_score, p.score, p.mu) for p in posteriors])
        # One item shows no variance; no scores have more than a quarter.
        one_item = 0.25 * np.eye(len(scores))
        over_items = np.cov(scores).reshape(one_item.shape) if scores.shape[1] > 1 else one_item
        # Residuals come on top where scores are expected, not known: on this share of the items.
        unseen = np.sqrt([1.0 - p.has_score.mean() for p in posteriors])
        residuals = block_diag(*(field.moments().item_covariance for field in self.fields))
        covariance = over_items + unseen[:, None] * unseen * residuals
        out = spread(covariance)
        out.flat[:: len(scores) + 1] = covariance.diagonal()
        return np.asarray(out / self._bank.n_items)

    def ability_effects(self, belief: Belief) -> AbilityEffects:
        """Return how estimates depend on abilities; draws of a departure reduce the slopes."""
        of_estimates, model = belief.variance.diagonal(), self.fields[0].model
        rows = []
        for field, variance in zip(self.fields, np.split(of_estimates, len(self.fields))):
            moments = field.moments()
            slope, share = moments.slope_and_share(model.departures, variance, self._bank.n_items)
            rows.append([moments.ability, moments.ability_variance, slope, share])
        ability, variance, slope, share = np.concatenate(rows, axis=1)
        return AbilityEffects(
            ability, variance, model.items.prior_sd**2, slope, of_estimates, share
        )

    def refusals(self, model: int) -> Refusals:
        field, a = self._at(model)
        moments, departures, member = field.moments(), field.model.departures, field.members[a]
        refusals = member.posterior.refusals(departures.noise, departures.floor * member.inflation)
        # Draws measure departures, those by refusals, too: of the effect they leave the share
        # noise / (prior + noise), noise being the variance of the draws' mean residual.
        noise = moments.mean_covariance[a, a]
        return refusals._replace(effect=refusals.effect * noise / (moments.prior[a, a] + noise))

    def expected(self, model: int) -> Floats:
        return self._members[model].posterior.mu.copy()

    def describe(self, model: int) -> Description:
        field, a = self._at(model)
        member, departures = field.members[a], field.model.departures
        posterior = member.posterior
        moments, drawn = field.moments(), member.mean_by_draws()
        # The response model understates the variance of an ability by the factors by which it
        # understates that of an estimate (`c` and `l` of `departures`, and `inflation`).
        ability_variance = (
            departures.inflation
            * departures.single[0]
            * moments.inflation[a]
            * posterior.covariance[0, 0]
        )
        # Chance of a departure at least as large as that of the draws, if the bank's prior is true.
        variance = moments.prior[a, a] + moments.mean_covariance[a, a]
        away = abs(moments.mean_residual[a]) / variance**0.5
        chance = float(2.0 * stdtr(departures.df, -away)) if drawn else 1.0
        return Description(
            ability=float(posterior.z[0]) + field.model.centre,
            ability_error=float(ability_variance**0.5),
            findings=tuple(self._findings(field, a, chance)),
            drawn=drawn,
            zero_loss=float(field.result().zero_loss[a, a]),
        )

    def _findings(self, field: Field, a: int, chance: float) -> list[str]:
        """Return sentences on where the bank says little about a model (`Description.findings`).

        `chance` is that of a departure as large as the one that the draws show.
        """
        member, findings, n_drawn = field.members[a], [], int(field.moments().n_draws[a])
        # A few scores may look odd by luck, and people act on findings.
        if member.n_told < FEWEST_TO_FIND:
            return []
        # The model's estimated ability is beyond the bank. The interval of its score need not be.
        if abs(member.position) > 1.0:
            side = "better" if member.position > 0 else "worse"
            rests = (
                f"its estimate rests on {plural(n_drawn, 'item')} drawn at random"
                if n_drawn
                else "its estimate is an extrapolation, for no item was drawn at random yet"
            )
            if field.moments().rest_on_draws(field.model.departures, self._bank.n_items):
                rests += "; pairs are judged by these items alone, as without a bank"
            findings.append(f"may score {side} than every model of the bank: {rests}")
        if n_drawn >= FEWEST_TO_FIND and chance < UNLIKE:
            departure = field.moments().mean_residual[a]
            findings.append(
                "is unlike the models of the bank: on items drawn at random it scores "
                f"{abs(departure):.2g} {'more' if departure > 0 else 'less'} than the bank "
                "expects (scores on 0 to 1); the draws correct its estimate"
            )
        return findings

    # -- what next ----------------------------------------------------------------------------

    def next(
        self, model: int, available: Mask, pending: Items, price: Floats, k: int = 1
    ) -> list[Choice]:
        field, a = self._at(model)
        items, probability = field.next(a, available, price, k, pending)
        return [Choice(i, probability) for i in items]


def _apart(beliefs: list[Belief]) -> Belief:
    """Return the belief about the models of several fields, which have independent errors."""
    location = np.concatenate([b.location for b in beliefs])
    alone, df, n = (
        np.concatenate([matrix.diagonal() for matrix in part])
        for part in zip(*((b.variance, b.df, b.n) for b in beliefs))
    )
    # Of a difference, degrees of freedom by Welch and Satterthwaite, as for the sums of tasks.
    variance, share = alone[:, None] + alone, alone**2 / df
    shares, welch = share[:, None] + share, np.full(variance.shape, np.inf)
    np.divide(variance**2, shares, out=welch, where=shares > 0.0)
    diagonal = slice(None, None, len(alone) + 1)
    variance.flat[diagonal], welch.flat[diagonal] = alone, df
    return Belief(location, variance, welch, np.minimum(n[:, None], n), beliefs[0].n_items)


def item_curves(bank: ItemBank) -> Curves:
    """Return the curves, expected scores of a model of which only the ability is known."""
    model = model_of(bank)
    items = model.items
    return Curves(
        items.coefficients, items.noise, items.basis, 0.0, model.centre,
        items.loadings, items.model_noise,
    )  # fmt: skip


def doubted(bank: ItemBank) -> ItemBank:
    """Return the bank with the wide prior of one whose departures nobody measured."""
    departures = model_of(bank).departures.doubted()
    return replace(bank, constants={**bank.constants, "departures": departures.to_dict()})


METHOD = Method(
    name="default",
    summary="recommended: item curves, and errors widened by a replay of models left out",
    policy=DefaultPolicy,
    repeats_policy=FirstPassPolicy,
    calibrate=fit,
    requires=model_of,
    curves=item_curves,
    doubted=doubted,
    learns_from_chosen=True,
)

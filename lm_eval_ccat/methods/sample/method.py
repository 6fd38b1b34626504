"""The method "sample": draws items at random, the same for all models, and compares means.

*Least squares on models and items.* A score is modelled as the model's effect plus the item's
effect. If all models have had the same items, the estimates are plain means. If one model has had
more items, the other means are corrected for how easy those items were.

*How easy items are elsewhere.* The mean of random items depends on how easy these happen to be. If
a bank knows how easy each item is, from other tasks on the same documents (its parameter ``ease``)
or from answers that it keeps, the mean of all models moves by
``slope (mean ease of all items - mean ease of those drawn)``, of which the first mean is 0: the
regression estimator of survey sampling. The slope of scores on ease is the same for all models and
is learned from the draws. Its prior covers 0, where the ease is irrelevant here, to 1, where it is
the same here. Differences between models do not change, so verdicts rest on the draws alone.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from ...bank.bank import ItemBank
from ...errors import UsageError
from ...metrics.scale import Floats
from ...options import choice
from ..belief import BENCHMARK, Belief, References, as_of_many
from ..method import Method
from ..policy import Description, Policy, check_score
from .bets import Betting, betting_interval
from .effects import Effects, correction_variances
from .pairs import Pairs, SharedSequence, seed_of_draws
from .passes import RepeatsPolicy, SequencePolicy

GUARANTEES = ("asymptotic", "finite")
EASE = "ease"
#: Mean and variance of a slope before any draw.
_PRIOR_SLOPE, _PRIOR_VARIANCE = 0.5, 0.25
#: Items from which on a slope can be learned.
_FEWEST_ITEMS = 3
#: Models from which on answers to an item show how easy it is.
_FEWEST_MODELS = 2
#: Models whose pairs are computed together.
_MODELS_AT_ONCE = 64
#: The ease from elsewhere is ignored once the scores are this many times likelier with slope 0 than
#: with slope 1, and the slope is less than two standard errors from 0.
_ODDS = 10.0


class PairFigures(NamedTuple):
    """Variances of differences of all pairs, and the items behind them; 0 on the diagonal."""

    variance: Floats
    items: Floats


class ModelFigures(NamedTuple):
    """Estimated mean of each model, and its variance; shape (n_models,)."""

    mean: Floats
    variance: Floats


class Slope(NamedTuple):
    """Slope of the scores on the ease of items elsewhere.

    Attributes
    ----------
    value, variance : float
    explained : float
        Share of the variance of a model's scores that the ease explains.
    misleads : bool
        Whether the scores contradict the ease from elsewhere; the slope is then 0.
    """

    value: float = _PRIOR_SLOPE
    variance: float = _PRIOR_VARIANCE
    explained: float = 0.0
    misleads: bool = False


def ease_of(bank: ItemBank) -> Floats | None:
    """Return how easy each item is: a usual model's expected score less its mean over kept items.

    Shape (n_items,), from the bank's parameter ``ease``, else from the answers that it keeps; None
    if it has neither. An item that fewer than two models have answered counts as average.
    """
    ease = bank.parameters.get(EASE)
    if ease is None:
        total, count = np.zeros(bank.n_items), np.zeros(bank.n_items)
        for observation in bank.observations:
            if len(observation.items):
                # Models that answered few items may have had easy ones, or be good: each has its
                # own mean.
                total[observation.items] += observation.scores - observation.scores.mean()
                count[observation.items] += 1
        if not (count >= _FEWEST_MODELS).any():
            return None
        ease = np.where(count >= _FEWEST_MODELS, total / np.maximum(count, 1.0), 0.0)
    return np.asarray(ease - ease[bank.kept].mean())


def slope_of(scores: Floats, ease: Floats) -> Slope:
    """Learn the slope of scores on ease, which is the same for all models.

    Each model has a mean of its own. With fewer than `_FEWEST_ITEMS` items the slope is that before
    any draw.

    Parameters
    ----------
    scores : ndarray of shape (n_models, n_items)
        On [0, 1]; NaN where missing.
    ease : ndarray of shape (n_items,)
        As `ease_of` returns it.

    Examples
    --------
    >>> ease = np.linspace(-0.4, 0.4, 40)
    >>> noise = np.random.default_rng(0).normal(0.0, 0.05, (2, 40))
    >>> round(slope_of(0.5 + ease + noise, ease).value, 1)
    1.0
    >>> slope_of(0.5 + noise, ease).misleads
    True
    """
    present = np.isfinite(scores)
    n = present.sum(axis=1, keepdims=True)
    n_scored_items = int(present.any(axis=0).sum())
    # Ease and scores about each model's own mean; 0 where a score is missing.
    x, y = (
        np.where(
            present,
            values - np.where(present, values, 0.0).sum(axis=1, keepdims=True) / np.maximum(n, 1),
            0,
        )
        for values in (np.broadcast_to(ease, scores.shape), np.nan_to_num(scores))
    )
    squares, along, total = float((x * x).sum()), float((x * y).sum()), float((y * y).sum())
    if n_scored_items < _FEWEST_ITEMS or squares <= 0.0:
        return Slope()
    plain = along / squares
    residual = np.where(present, y - plain * x, 0.0)
    # Residuals of several models on one item may be alike. The larger of two variances counts: with
    # one residual for each item, and with one for each score.
    by_item = float(((x * residual).sum(axis=0) ** 2).sum()) / squares
    by_score = float((residual * residual).sum()) / max(float(n.sum()), 1.0)
    per_square = max(by_item, by_score) * n_scored_items / (n_scored_items - 2.0)
    variance = per_square / squares
    # Slope 0 is `_ODDS` times likelier than slope 1 if (1 - 2 plain) / (2 variance) > log(_ODDS),
    # `plain` being normal with this variance.
    if plain < min(0.5 - variance * math.log(_ODDS), 2.0 * variance**0.5):
        return Slope(0.0, 0.0, 0.0, misleads=True)
    # The posterior mean, with the prior of `_PRIOR_VARIANCE` around `_PRIOR_SLOPE`; never below 0.
    weight = _PRIOR_VARIANCE / (_PRIOR_VARIANCE + variance)
    value = max(weight * plain + (1.0 - weight) * _PRIOR_SLOPE, 0.0)
    explained = value * (2.0 * along - value * squares) / max(total, 1e-300)
    return Slope(value, weight * variance, min(max(explained, 0.0), 1.0))


class SamplePolicy(SequencePolicy):
    """Models compared on prefixes of one shared random sequence of items.

    Inference uses only the draws, no response model. Least squares on models and items place the
    models. The error of a pair comes from its paired differences on the longest prefix of the
    sequence that both models are done with. An item on which a model failed has no difference:
    values are assumed to be missing at random.

    Parameters
    ----------
    bank : ItemBank
        Supplies the items, and how easy they are elsewhere (`ease`), which moves means only.
    n_models : int
    seed : int, optional
        Of the sequence.
    guarantee : {"asymptotic", "finite"}, optional
        Whether the ranker's boundary decides, as for every method, or betting, which is valid for
        any number of items and needs more of them.
    min_difference : float, optional
        On [0, 1]: what betting has to refute for two models to be equivalent. The ranker's own.
    sampled : bool, optional
        Whether an answer is one draw, and the question about expected scores. Single answers do not
        tell noise within items from variance between them, so that no variance gets a
        finite-population correction.

    Raises
    ------
    UsageError
        An unknown guarantee.
    """

    def __init__(
        self,
        bank: ItemBank,
        n_models: int,
        *,
        seed: int = 0,
        guarantee: str = "asymptotic",
        min_difference: float = 0.0,
        sampled: bool = False,
    ) -> None:
        choice(*GUARANTEES).check(guarantee, "guarantee")
        if sampled and guarantee == "finite":
            raise UsageError(
                "guarantee 'finite' is proven for scores that do not change, not for sampled "
                "answers; leave it out, or ask about these very answers (question: run)"
            )
        self._sampled = sampled
        items = np.flatnonzero(bank.kept)
        self.sequence = SharedSequence(items, seed_of_draws(bank, seed))
        finite = guarantee == "finite"
        self._bets = Betting(float(len(items)), min_difference) if finite else None
        # `as_of_many` of every number of items, computed once for all pairs.
        n_items = float(len(items))
        self._of_many = np.maximum(as_of_many(np.arange(n_items + 1.0), n_items), 1.0)
        self.pairs = Pairs(n_models, self.sequence, bank.n_items, self._bets)
        self.effects = Effects(n_models, bank.n_items)
        self._ease, self._slope = ease_of(bank), Slope()
        # Tasks that a bank's `ease` is from.
        self._lenders = ", ".join((bank.provenance.get("borrowed") or {}).get("donors", ()))
        self._forget()

    def _forget(self) -> None:
        """Forget all figures, as their shapes change with the number of models."""
        n_models = len(self.effects.counts)
        # Figures of pairs, with the finite-population correction (True) and without (False), and
        # the models whose figures have changed since these were computed.
        self._pair_figures = {
            finite: PairFigures(*np.zeros((2, n_models, n_models))) for finite in (True, False)
        }
        self._stale_models = {finite: set(range(n_models)) for finite in (True, False)}
        # Figures of models since the last answer: a result asks for those of each model in turn.
        self._model_figures: dict[bool, ModelFigures] = {}
        self._n_scores_of_slope = -1  # number of scores that `_slope` was learned from

    # -- what happened ------------------------------------------------------------------------

    def told(self, model: int, item: int, score: float) -> None:
        check_score(score, item, answered=bool(self.pairs.done[model, item]))
        self.effects.learn(model, item, score)
        self._record(model, item, score)

    def _record(self, model: int, item: int, score: float) -> None:
        super()._record(model, item, score)
        for stale in self._stale_models.values():
            stale.add(model)
        self._model_figures.clear()

    def add_model(self) -> None:
        super().add_model()
        self._forget()

    # -- what is known ------------------------------------------------------------------------

    def belief(self, question: str = BENCHMARK) -> Belief:
        # Whether nothing is left to err about once all items are answered: only if the question is
        # about these items and answers are not sampled.
        finite = question == BENCHMARK and not self._sampled
        pairs, models = self._figures_of_pairs(finite), self._figures_of_models(finite)
        variance, n = np.minimum(pairs.variance, 1.0), pairs.items.copy()
        # Off the diagonal are figures of pairs, on it those of single models.
        diagonal = slice(None, None, len(models.mean) + 1)
        variance.flat[diagonal], n.flat[diagonal] = models.variance, self.effects.counts
        df = np.maximum(n - 1.0, 1.0)
        size = float(len(self.sequence.order)) if finite else math.inf
        proof = self._bets.evidence() if self._bets is not None and finite else None
        # What one lost item takes off a mean: the loss over the items that it is one of. Of a
        # finite benchmark, where all are known, it is nothing.
        zeros = self.pairs.zero_losses(np.arange(len(models.mean)))
        of_many = np.maximum(n, 1.0)
        if finite:
            of_many = self._of_many[np.minimum(n, size).astype(np.intp)]
        return Belief(
            models.mean,
            variance,
            df,
            n,
            size,
            question,
            proof=proof,
            pair_zero_loss=zeros.loss[:, None] / of_many,
            zero_count=zeros.zero_count,
            rare_loss=self.pairs.rare_losses() / of_many,
        )

    def _figures_of_pairs(self, finite: bool) -> PairFigures:
        """Return the figures of all pairs, brought up to the last answer."""
        pairs, figures, n_models = self.pairs, self._pair_figures[finite], len(self.effects.counts)
        stale_models = np.array([*self._stale_models[finite]], dtype=np.intp)
        # Not all at once: with thousands of models each array on the way would take gigabytes.
        for start in range(0, len(stale_models), _MODELS_AT_ONCE):
            models = stale_models[start : start + _MODELS_AT_ONCE]
            series = np.add.outer(models * n_models, np.arange(n_models))
            of_models = PairFigures(pairs.mean_variances(series, finite), pairs.sums.items(series))
            for matrix, rows in zip(figures, of_models):
                matrix[models], matrix[:, models] = rows, rows.T
                matrix[models, models] = 0.0
        self._stale_models[finite].clear()
        return figures

    def references(
        self, names: tuple[str, ...], mean: Floats, kept_mean: Floats, error: Floats
    ) -> References:
        out = super().references(names, mean, kept_mean, error)
        if self._bets is not None and out.exact:
            self._bets.bet_against(out.location)
        return out

    def _figures_of_models(self, finite: bool) -> ModelFigures:
        """Return `_means_and_variances`, computed once after each answer."""
        if finite not in self._model_figures:
            self._model_figures[finite] = self._means_and_variances(finite)
        return self._model_figures[finite]

    def _means_and_variances(self, finite: bool) -> ModelFigures:
        """Return least-squares means, and their variances as in two-phase sampling.

        The first phase draws the items that some model has: from the benchmark's items, of which
        none is left in the end, if `finite`, else from a population. The second phase draws, from
        these, the items that one model has. The scores of other models stand for its scores on the
        others, with errors of their own (`correction_variances`).
        """
        of_item, single = self.pairs.item_variances, self.pairs.single
        n, n_scored_items = self.effects.counts, self.effects.n_scored_items
        models, size = np.arange(len(n)), len(self.sequence.order)
        # A model with all items has its own mean, which no other model's items correct.
        full = n == size
        own_means = np.nan_to_num(single.means(models) + self.pairs.first_score)
        means = np.where(full, own_means, self.effects.means())
        share = 1.0 / max(n_scored_items, 1)
        # The variance of the mean of random items, with the finite-population correction.
        first_phase = of_item * (share - (1.0 / size if finite else 0.0))
        of_pair, items = self._figures_of_pairs(finite=False)
        second_phase = correction_variances(of_pair, items, n, n_scored_items)
        variance = np.maximum(first_phase, 0.0) + second_phase
        # The regression estimator of the module's docstring.
        if self._ease is not None:
            slope, drawn = self._slope_on_ease(), np.isfinite(self.effects.scores).any(axis=0)
            mean_ease = float(self._ease @ drawn) / max(n_scored_items, 1)
            means = np.where(full, means, np.clip(means - slope.value * mean_ease, 0.0, 1.0))
            # The slope is uncertain, but what it explains of the first phase is known.
            variance += slope.variance * mean_ease**2
            variance -= slope.explained * of_item * (share - 1.0 / size)
        if finite:
            variance[full] = 0.0
        # No scores on [0, 1] have a larger variance than 1/4.
        return ModelFigures(means, np.where(n > 0, variance, 0.25))

    def _slope_on_ease(self) -> Slope:
        """Return the slope on the ease of items elsewhere, learned from the scores so far."""
        n_scores = int(self.effects.counts.sum())
        if self._ease is not None and n_scores != self._n_scores_of_slope:
            self._n_scores_of_slope = n_scores
            self._slope = slope_of(self.effects.scores, self._ease)
        return self._slope

    def describe(self, model: int) -> Description:
        figures = self._figures_of_models(finite=not self._sampled)
        mean, variance = float(figures.mean[model]), float(figures.variance[model])

        def interval(confidence: float) -> tuple[float, float]:
            # Bets need values in the order drawn: a score waits until all items before it are done.
            drawn = self.sequence.order[: self.pairs.progress[model]]
            values = self.pairs.scores[model, drawn]
            return betting_interval(values, len(self.sequence.order), 1.0 - confidence)

        findings = (
            f"finds documents that are hard in {self._lenders} hardly harder than others: that "
            "misleads, and is left out",
        )
        return Description.of_mean(
            mean,
            math.sqrt(variance),
            edge=0.5 / len(self.sequence.order),
            findings=findings if self._lenders and self._slope_on_ease().misleads else (),
            interval=interval if self._bets is not None else None,
        )


def _in_passes(bank: ItemBank, n_models: int, _: Policy, **options: int) -> Policy:
    """Return passes from the first answer on, without the policy of single answers."""
    return RepeatsPolicy(bank, n_models, **options)


METHOD = Method(
    name="sample",
    summary="random items, the same for all models; no bank needed",
    policy=SamplePolicy,
    repeats_policy=_in_passes,
)

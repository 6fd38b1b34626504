"""Self-check of the method "default": rankings of models left out of the calibration, replayed.

The models are divided into groups, each with strong and weak ones. Unless there are many models,
the best fifth and the weakest fifth are two more groups, because a new model may be better or worse
than all known ones. Each group is ranked by its logged scores, with the real selection and draws,
on a bank calibrated on the others: a *replay*, whose state after some numbers of items is kept
(`Checkpoint`). How far its models departed from that bank, singly and in pairs, gives the prior of
departures (`Departures`). Estimates under a prior fitted without the group's models are then
compared with the truth, which shows whether the stated errors are right.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple
from zlib import crc32

import numpy as np

from ...grouping import grouped
from ...metrics.scale import Floats
from ..belief import Belief, Indices
from ..calibration import FEW_MODELS, GROUPS
from ..policy import Mask, rounded
from .departures import (
    FIRST,
    PRIOR_DF,
    VAGUE,
    DefaultModel,
    Departures,
    SquaredDepartures,
    fit_components,
    fit_noise,
)
from .field import Field, Moments
from .items import fit_items
from .member import ScorePosterior

#: Numbers of items at which left-out models are compared with the truth.
CHECKPOINTS = (5, 10, 20, 30, 45, 70, 100)
#: A replay asks and tells single items up to the first number, then blocks of the second.
TOLD_SINGLY, BLOCK = FIRST, 5
_MOST_REPLAYED = 60  # models; more would only take time
_ENOUGH_ITEMS = 2000  # items on which the check replays: departures are means over items
#: Scores of a replay's calibration, and the fewest and most models that these may be of.
_ENOUGH_CELLS, _FEWEST_FITTED, _MOST_FITTED = 2_000_000, 200, 1000
_BINS = 8  # classes of items by the variance that the response model expects
#: Numbers of items after which a bank keeps the estimates of models left out.
KEPT = (5, 10, 20, 45, 100)
#: What a ranking would have said of each left-out model: by its name, then by the number of items.
LeftOutRecords = dict[str, dict[str, list[float]]]
Priors = dict[int, Departures]  # by the group without which each was fitted
_NO_GROUP = -1  # the prior fitted on all models
#: Usual ratio of squared errors to stated variances after draws: the curves are fitted on the draws
#: as well, so both err together (18 score tables, pairs after 20 to 100 items: 1.2 to 1.7).
USUAL_EXCESS = 1.4
_LEAST_INFLATION = 1.0  # luck in a few replays must not make stated errors smaller


class Group(NamedTuple):
    """Models that are left out of a calibration together, and those of them that are replayed.

    Models are rows of the scores.
    """

    left_out: Indices
    replayed: Indices


class GroupReplay(NamedTuple):
    """A ranking of left-out models on a bank of the others.

    Attributes
    ----------
    group : int
        Number of the group of models that the fit left out.
    models : ndarray of int, shape (h,)
        Those that are ranked.
    scores : ndarray of shape (h, n_items)
        Their scores on the items of the bank; `_filled` where missing.
    field : Field
    """

    group: int
    models: Indices
    scores: Floats
    field: Field


class Checkpoint(NamedTuple):
    """A ranking of left-out models after some items, and the truth about it.

    Attributes
    ----------
    models : ndarray of int, shape (h,)
    group : int
        Number of the group of models that the fit left out.
    n : int
        Items that each of these models had answered.
    moments : Moments
    truth : ndarray of shape (h,)
        Full-benchmark means.
    beta : ndarray of shape (h,)
        Mean departures over the items not asked: score less expected score.
    residuals : ndarray of shape (h, h)
        Covariance, over these items, of the models' residuals.
    centre : float
        Mean score of the bank's models.
    """

    models: Indices
    group: int
    n: int
    moments: Moments
    truth: Floats
    beta: Floats
    residuals: Floats
    centre: float


def groups(
    mean: Floats,
    families: Sequence[str],
    *,
    whole_families: bool = False,
    names: Sequence[str] = (),
) -> list[Group]:
    """Return the groups of models to leave out together.

    Parameters
    ----------
    mean : ndarray of shape (n_models,)
    families : sequence of str
        Family of each model. A family is left out as a whole if it fits into one group.
    whole_families : bool, optional
        If True, a larger family is left out as a whole, too, up to half of all models.
    names : sequence of str, optional
        Names of the models, needed if there are more than `_MOST_REPLAYED`. They choose which are
        replayed, so that all tasks of a suite replay the same models.
    """
    mean = rounded(mean)
    n, best_first = len(mean), np.argsort(-mean, kind="stable")
    n_groups = min(GROUPS, n // 2)
    largest = n // 2 if whole_families else n // n_groups + 1
    left_out = _dealt(best_first.tolist(), families, largest, n_groups)
    # Ties stay in the order in which they were dealt out.
    left_out = [models[np.argsort(-mean[models], kind="stable")] for models in left_out]
    # A new model may be better, or worse, than all known ones.
    fifth = max(n // 5, 1)
    if n - fifth >= 4 and n <= _MOST_REPLAYED:
        left_out += [best_first[:fifth], best_first[-fifth:]]
    if n <= _MOST_REPLAYED:
        size = max(_MOST_REPLAYED // len(left_out), 2)
        evenly = (np.linspace(0, len(models) - 1, size) for models in left_out)
        return [
            Group(models, models[np.unique(places.astype(int))])
            for models, places in zip(left_out, evenly)
        ]
    # Choose among many models by a hash of their names. An even choice, as above, always takes the
    # best and the worst of a group, which are 2 of the 12 models that each of five groups replays,
    # although extremes are rare.
    replayed = sorted(range(n), key=lambda model: crc32(names[model].encode()))[:_MOST_REPLAYED]
    return [Group(models, models[np.isin(models, replayed)]) for models in left_out]


def _dealt(
    models: Sequence[int], families: Sequence[str], largest: int, n_groups: int
) -> list[Indices]:
    """Return groups of models: each family goes to the group with the fewest models by then.

    The largest family is dealt out first. Models of a family of more than `largest` are dealt out
    one by one, in the order of `models`.
    """
    by_family = grouped((families[model], model) for model in models)
    groups: list[list[int]] = [[] for _ in range(n_groups)]
    for family in sorted(by_family.values(), key=lambda members: -len(members)):
        for members in [family] if len(family) <= largest else [[model] for model in family]:
            min(groups, key=len).extend(members)
    return [np.array(members) for members in groups if members]


def some_items(n_items: int) -> Indices:
    """Return the positions of the items that the check uses: all, or a sample of very many."""
    if n_items <= _ENOUGH_ITEMS:
        return np.arange(n_items)
    return np.sort(np.random.default_rng(0).permutation(n_items)[:_ENOUGH_ITEMS])


def replay_groups(
    scores: Floats,
    sets: Sequence[Group],
    factors: int,
    config_noise: float,
    draws: float | None = None,
) -> tuple[list[Checkpoint], Departures]:
    """Rank each group of left-out models on a bank calibrated on the other models.

    Parameters
    ----------
    scores : ndarray of shape (n_models, n_items)
        On [0, 1], NaN where missing; at least 4 models, on the items of `some_items`.
    sets : sequence of Group
    factors : int
    config_noise : float
        See `fit_items`.
    draws : float, optional
        Share of draws; see `DefaultModel`.

    Returns
    -------
    list of Checkpoint
    Departures
        The prior of the replays: `VAGUE`, with the noise of residuals that they showed.
    """
    mean = np.nanmean(scores, axis=1)
    replays = []
    for number, group in enumerate(sets):
        remaining = np.setdiff1d(np.arange(len(scores)), group.left_out)
        calibrating = _enough(remaining, mean, scores.shape[1])
        if len(calibrating) < 2 or not len(group.replayed):
            continue  # nearly all models are of one family: too few are left to calibrate on
        known = np.isfinite(scores[calibrating]).any(axis=0)
        fitted = scores[np.ix_(calibrating, known)]
        items = fit_items(fitted, factors, config_noise).items
        vague = replace(VAGUE, centre=float(np.nanmean(fitted)))
        model = DefaultModel(items, vague, share=draws)
        y = _filled(scores[np.ix_(group.replayed, known)], model, number)
        replays.append(GroupReplay(number, group.replayed, y, Field(model, len(y), seed=number)))
    if not replays:
        return [], VAGUE
    first = replays[0].field.model.first
    # After the first, chosen items, those not asked show how noisy residuals are, by which the
    # draws that follow are sized and weighed.
    checkpoints = _go_on(replays, 0, first)
    residuals = [figures for replay in replays for figures in _noise(replay)]
    noise, floor = fit_noise(*np.array(residuals).T)
    for replay in replays:
        departures = replay.field.model.departures
        replay.field.use(replace(departures, noise=noise, floor=floor))
    checkpoints += _go_on(replays, first, scores.shape[1])
    return checkpoints, replace(VAGUE, noise=noise, floor=floor)


def _go_on(replays: Sequence[GroupReplay], after: int, until: int) -> list[Checkpoint]:
    """Go on with replays, and return their checkpoints of more than `after` items up to `until`.

    A replay ends when its models were asked half of its items.
    """
    checkpoints = []
    for replay in replays:
        end = min(until, replay.scores.shape[1] // 2)
        for n in (checkpoint for checkpoint in CHECKPOINTS if after < checkpoint <= end):
            advance(replay.field, replay.scores, n)
            checkpoints.append(_checkpoint(replay))
    return checkpoints


def _checkpoint(replay: GroupReplay) -> Checkpoint:
    """Return where a replay is now."""
    scores, field = replay.scores, replay.field
    residuals, n_models = _residuals(replay), len(scores)
    covariance = np.zeros((n_models, n_models))
    if residuals.shape[1] > 1:  # a single item left shows no covariance
        covariance = np.cov(residuals).reshape(n_models, n_models)
    return Checkpoint(
        models=replay.models,
        group=replay.group,
        n=len(field.sequence),
        moments=field.moments(),
        truth=scores.mean(axis=1),
        beta=residuals.mean(axis=1),
        residuals=covariance,
        centre=field.model.departures.centre,
    )


def advance(field: Field, y: Floats, n: int) -> None:
    """Ask all models, whose scores are `y`, the items of the sequence until it has `n`."""
    sequence = field.sequence
    while len(sequence) < n:
        start = len(sequence)
        for _ in range(1 if start < TOLD_SINGLY else BLOCK):
            [item], probability = field.next(0, sequence.left)
            for a in range(len(y)):
                field.asked(a, item, probability)
        block = sequence.items[start:]
        for a in range(len(y)):
            field.learn(a, block, y[a, block].tolist())


def _filled(y: Floats, model: DefaultModel, seed: int) -> Floats:
    """Return scores with missing ones filled: expected plus one of the model's own residuals."""
    missing = ~np.isfinite(y)
    if not missing.any():
        return y
    rng = np.random.default_rng(seed)
    out = y.copy()
    for row, holes in zip(out, missing):
        # The model's ability, by the items that it has a score on, says what to expect of the
        # others.
        scored = np.flatnonzero(~holes)
        posterior = ScorePosterior(model.items)
        posterior.learn(scored.tolist(), row[scored].tolist())
        expected = posterior.mu
        residual = row[scored] - expected[scored] if len(scored) else np.zeros(1)
        row[holes] = np.clip(expected[holes] + rng.choice(residual, int(holes.sum())), 0.0, 1.0)
    return out


def _enough(models: Indices, mean: Floats, n_items: int) -> Indices:
    """Return the models to fit a bank for the check on: all, or an even part of very many.

    The bank itself is fitted on all, so that its curves are at least as good as the check's.
    """
    limit = int(np.clip(_ENOUGH_CELLS // n_items, _FEWEST_FITTED, _MOST_FITTED))
    if len(models) <= limit:
        return models
    by_mean = models[np.argsort(-rounded(mean[models]), kind="stable")]
    return np.sort(by_mean[np.linspace(0, len(models) - 1, limit).astype(int)])


def _residuals(replay: GroupReplay) -> Floats:
    """Return what each model scores beyond its expected scores, on the items not yet asked."""
    left = replay.field.sequence.left
    expected = np.array([member.posterior.mu[left] for member in replay.field.members])
    return np.asarray(replay.scores[:, left] - expected)


def _noise(replay: GroupReplay) -> list[tuple[float, float]]:
    """Return two variances of residuals: by the response model, and as observed.

    A tuple for each model and each class of items not asked, which are about alike in the first.
    """
    figures, left = [], replay.field.sequence.left
    for member, residual in zip(replay.field.members, _residuals(replay)):
        variance = (member.posterior.kappa * member.posterior.w)[left]
        by_variance = np.argsort(rounded(variance), kind="stable")
        for items in np.array_split(by_variance, min(_BINS, len(variance))):
            mean_square = np.mean((residual[items] - residual.mean()) ** 2)
            figures.append((float(variance[items].mean()), float(mean_square)))
    return figures


def fit_departures(
    checkpoints: list[Checkpoint], known: Departures, without: Indices, *, many: bool
) -> Departures:
    """Fit the prior of departures to the left-out models, without some of them.

    Where none are left, it is `known`; where there are no pairs, that of pairs is that of models.

    Parameters
    ----------
    checkpoints : list of Checkpoint
    known : Departures
        Supplies the noise of residuals and the centre.
    without : ndarray of int
        Models not to use.
    many : bool
        Whether there are at least `items.MANY` calibration models.
    """
    parts = [_observed(checkpoint, without) for checkpoint in checkpoints]
    singles = SquaredDepartures.joined([part.of_models for part in parts])
    pairs = SquaredDepartures.joined([part.of_pairs for part in parts])
    n_models = len(np.unique(singles.key))
    if not n_models:
        return known
    single = pair = fit_components(singles, n_models, many=many)
    rho = 0.0
    if len(pairs.key):
        pair = fit_components(pairs, n_models, many=many)
        correlations = np.hstack([part.correlations for part in parts])
        rho = float(np.clip(np.mean(correlations), 0.0, 0.95))
    return replace(known, single=single, pair=pair, rho=rho, df=n_models + PRIOR_DF - 2.0)


class _Observed(NamedTuple):
    """Squared departures at a checkpoint, and the correlation of the residuals of each pair."""

    of_models: SquaredDepartures
    of_pairs: SquaredDepartures
    correlations: Floats


def _observed(checkpoint: Checkpoint, without: Indices) -> _Observed:
    """Return the squared departures at a checkpoint, but those of some models."""
    used, moments = np.flatnonzero(~np.isin(checkpoint.models, without)), checkpoint.moments
    models, beta, n_left = checkpoint.models[used], checkpoint.beta[used], moments.n_left[used]
    estimate, inflation = moments.estimate[used], moments.inflation[used]
    variance = (moments.open_variance * moments.misfit)[used]
    # `beta` is a mean over the items left: noise of variance noise / n_left moves it even if the
    # model does not depart. That much is subtracted from its square.
    residuals = checkpoint.residuals[np.ix_(used, used)]
    noise, (i, j) = residuals.diagonal(), np.tril_indices(len(used), -1)
    of_models = SquaredDepartures(
        key=models,
        square=beta**2 - noise / n_left,
        variance=variance,
        square_distance=(estimate - checkpoint.centre) ** 2,
        inflation=inflation,
    )
    noise_of_pairs = noise[i] + noise[j] - 2.0 * residuals[i, j]
    of_pairs = SquaredDepartures(
        key=_key(models, i, j),
        square=(beta[i] - beta[j]) ** 2 - noise_of_pairs / n_left[i],
        variance=variance[i] + variance[j],
        square_distance=(estimate[i] - estimate[j]) ** 2,
        inflation=np.minimum(inflation[i], inflation[j]),
    )
    correlations = residuals[i, j] / np.maximum(np.sqrt(noise[i] * noise[j]), 1e-12)
    return _Observed(of_models, of_pairs, correlations)


def _key(models: Indices, i: Indices, j: Indices) -> Indices:
    """Return a number for each pair of models, whichever comes first."""
    a, b = models[i], models[j]
    return np.asarray(np.maximum(a, b) * 10**6 + np.minimum(a, b))


class Excess(NamedTuple):
    """Ratios of squared errors to stated variances, at least 1, of single models and of pairs."""

    single: float
    pair: float


class SelfCheck(NamedTuple):
    """What replays tell: the prior of departures, errors under it, and each model's estimates.

    Nothing is judged where no models could be left out.
    """

    departures: Departures
    judged: Judged | None
    left_out: LeftOutRecords


class Judged(NamedTuple):
    """Errors of left-out models under priors fitted without them; rows are models at checkpoints.

    Attributes
    ----------
    model, n, error, standard_error, df : ndarray of shape (n_records,)
        The model, the items that it had answered, estimate less truth, and the stated error.
    pair_key, pair_n : ndarray of shape (n_pair_records,)
        As `_key`, and the items that both models had answered.
    pair_z2 : ndarray of shape (n_pair_records,)
        Squared errors of differences over their variances, times ``1 - 2 / df``: Student's squares
        have the mean ``df / (df - 2)``, so that 1 is usual.
    """

    model: Floats
    n: Floats
    error: Floats
    standard_error: Floats
    df: Floats
    pair_key: Floats
    pair_n: Floats
    pair_z2: Floats

    @classmethod
    def by(cls, checkpoints: list[Checkpoint], priors: Priors) -> Judged:
        """Estimate the left-out models as a ranking would.

        Parameters
        ----------
        checkpoints : list of Checkpoint
        priors : dict of int to Departures
            By group, fitted without its models.
        """
        of_models, of_pairs = [], []
        for checkpoint in checkpoints:
            belief = _result(checkpoint, priors[checkpoint.group])[1]
            error = belief.location - checkpoint.truth
            n = np.full(len(error), checkpoint.n)
            standard_error = np.sqrt(belief.variance.diagonal())
            of_models.append((checkpoint.models, n, error, standard_error, belief.df.diagonal()))
            i, j = np.tril_indices(len(error), -1)
            z2 = (error[i] - error[j]) ** 2 / belief.variance[i, j] * (1.0 - 2.0 / belief.df[i, j])
            of_pairs.append((_key(checkpoint.models, i, j), n[i], z2))
        columns = (column for records in (of_models, of_pairs) for column in zip(*records))
        return cls(*map(np.hstack, columns))

    def excess(self, selects: Callable[[Floats], Mask], n: int, usual: float = 1.0) -> Excess:
        """Return `inflation` of single models and of pairs, at the selected numbers of items.

        Parameters
        ----------
        selects : callable
            Returns True for the numbers of items that count, from an array of them.
        n, usual
            See `inflation`.
        """
        z2 = (self.error / self.standard_error) ** 2 * (1.0 - 2.0 / self.df)
        singles, pairs = selects(self.n), selects(self.pair_n)
        return Excess(
            inflation(self.model[singles], z2[singles], n, usual),
            inflation(self.pair_key[pairs], self.pair_z2[pairs], n, usual),
        )


def departures_of(
    checkpoints: list[Checkpoint], known: Departures, *, many: bool, names: Sequence[str]
) -> SelfCheck:
    """Fit the prior of departures, and judge it on models that it was not fitted on.

    For each group a prior is fitted without its models and judged on them. If squared errors exceed
    the stated variances before any draw, the prior is widened. If they exceed them after draws as
    well, all stated variances are multiplied by a factor (`Departures.inflation`).

    Parameters
    ----------
    checkpoints : list of Checkpoint
        At least one.
    known : Departures
        Noise of residuals, and centre.
    many : bool
        See `fit_departures`.
    names : sequence of str
        Names of all models.
    """
    models_of = {checkpoint.group: checkpoint.models for checkpoint in checkpoints}
    without: dict[int, Indices] = {_NO_GROUP: np.empty(0, dtype=np.intp), **models_of}
    priors = {
        group: fit_departures(checkpoints, known, models, many=many)
        for group, models in without.items()
    }
    n_models = len(np.unique(np.hstack(list(models_of.values()))))
    # Before the first draws, errors are those of the response model. Models beyond the range of
    # their bank may have draws among the first items (`Field`): `undrawn` then lacks them.
    undrawn = [
        checkpoint
        for checkpoint in checkpoints
        if checkpoint.n <= FIRST and not checkpoint.moments.n_draws.any()
    ]
    last = max((checkpoint.n for checkpoint in undrawn), default=0)
    if undrawn:
        before = Judged.by(undrawn, priors).excess(lambda n: n == last, n_models)
        priors = {
            group: replace(
                prior, single=before.single * prior.single, pair=before.pair * prior.pair
            )
            for group, prior in priors.items()
        }
    # Draws now cause most of the error, and all models of a group share them. Errors within a group
    # are thus not independent: groups count as cases, not models.
    judged = Judged.by(checkpoints, priors)
    after = judged.excess(lambda n: n > last, len(models_of), USUAL_EXCESS)
    inflated = {
        group: replace(prior, inflation=after.single, inflation_of_pairs=after.pair)
        for group, prior in priors.items()
    }
    overall = _at_least_vague(inflated.pop(_NO_GROUP), n_models)
    return SelfCheck(overall, judged, left_out(checkpoints, inflated, names))


def _at_least_vague(prior: Departures, n_models: int) -> Departures:
    """Return a prior whose variances of single models are at least a part of those of `VAGUE`.

    The part is 1 with three models and 0 from `FEW_MODELS` on; that of pairs has no such bound.
    """
    unknown = min(max((FEW_MODELS - n_models) / (FEW_MODELS - 3), 0.0), 1.0)
    return replace(prior, single=np.maximum(prior.single, unknown * VAGUE.single))


def _result(checkpoint: Checkpoint, prior: Departures) -> tuple[Moments, Belief]:
    """Return the moments and the belief of a ranking with this prior at a checkpoint."""
    prior = replace(prior, centre=checkpoint.centre)
    of_models = (
        getattr(checkpoint.moments, name)
        for name in ("open_variance", "misfit", "estimate", "inflation")
    )
    moments = replace(checkpoint.moments, prior=prior.prior(*of_models))
    return moments, moments.result(prior, float(moments.n_left[0] + checkpoint.n))


def left_out(checkpoints: list[Checkpoint], priors: Priors, names: Sequence[str]) -> LeftOutRecords:
    """Return what a ranking would have said, by left-out model and by number of items of `KEPT`.

    A row holds the estimate less the truth, its variance and df, the ability and its variance, the
    estimate's slope in the ability, and the share of its variance that the ability explains. A
    model that is in two groups has the row of the first, whose models are of all kinds, not the
    best or the weakest.
    """
    records: LeftOutRecords = {}
    for checkpoint in (checkpoint for checkpoint in checkpoints if checkpoint.n in KEPT):
        moments, belief = _result(checkpoint, priors[checkpoint.group])
        alone = belief.variance.diagonal()
        slope, share = moments.slope_and_share(
            priors[checkpoint.group], alone, int(moments.n_left[0]) + checkpoint.n
        )
        of_ability = moments.ability, moments.ability_variance, slope, share
        rows = (belief.location - checkpoint.truth, alone, belief.df.diagonal(), *of_ability)
        for model, row in zip(checkpoint.models.tolist(), np.array(rows).T.tolist()):
            of_model = records.setdefault(names[model], {})
            of_model.setdefault(str(checkpoint.n), [float(f"{x:.5g}") for x in row])
    return records


def inflation(key: Floats, z2: Floats, n: int, usual: float = 1.0) -> float:
    """Return the ratio of squared errors to stated variances, at least 1; 1 without records.

    Each model (or pair) counts once, by the mean of its ratios. With ``mean`` their mean over
    models, it is ``(n mean + PRIOR_DF usual) / (n + PRIOR_DF)``.

    Parameters
    ----------
    key, z2 : ndarray of shape (n_records,)
        The model or pair of each record, and its squared error over the stated variance.
    n : int
        Number of independent cases that the records count as.
    usual : float, optional
        Ratio of `PRIOR_DF` cases that are added, because few say little.
    """
    if not len(key):
        return 1.0
    _, case, count = np.unique(key, return_inverse=True, return_counts=True)
    mean = float(np.mean(np.bincount(case, z2) / count))
    return max((n * mean + PRIOR_DF * usual) / (n + PRIOR_DF), _LEAST_INFLATION)

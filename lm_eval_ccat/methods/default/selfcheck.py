"""Self-check of the method "default": fields of left-out models, replayed through real selection.

The models are cut into groups, each with strong and weak ones; besides, unless many calibrate, the
best fifth and the weakest fifth are left out together, because a new model may be better or worse
than all that is known. Every group goes through the selection and the draws of a ranking on a bank
of the others. How far its models departed from that bank, singly and in pairs, gives the prior of
departures (`Departures`); how far the estimates then lay from the truth, with a prior fitted
without the models in question, says whether the stated errors are true.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from zlib import crc32

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from ..trust import FEW_MODELS
from .departures import PRIOR_DF, VAGUE, Departures, fit_components, fit_noise, fit_scale
from .field import Field
from .items import MANY, fit_items
from .joint import Look, Result
from .model import FIRST, DefaultModel

Floats = NDArray[np.float64]
Positions = NDArray[np.intp]

CHECKPOINTS = (5, 10, 20, 30, 45, 70, 100)
FINE, BLOCK = FIRST, 5  # items are told one at a time at first, then in blocks
_GROUPS = 5
_MOST_REPLAYED = 60  # models; more would only take time
_ENOUGH_ITEMS = 2000  # of a bank for the check: departures are means over items
_ENOUGH_CELLS, _FEWEST_FITTED, _MOST_FITTED = 2_000_000, 200, 1000
_BINS = 8  # of items by noise
#: Items after which a bank keeps what it would have said of models left out, and the figures.
KEPT = (5, 10, 20, 45, 100)
COLUMNS = ("error", "variance", "df", "ability", "ability_variance", "slope", "share")
LeftOut = dict[int, dict[int, list[float]]]
#: What squared errors after draws usually exceed stated variances by: curves are fitted on draws
#: too, so that both err together (18 score tables, pairs after 20 to 100 items: 1.2 to 1.7).
USUAL_EXCESS = 1.4
_LEAST_INFLATION = 1.0  # luck in a few replays is no reason to be surer


@dataclass(frozen=True)
class Stop:
    """A field of left-out models after some items, and the truth about it.

    Attributes
    ----------
    models : ndarray of int, shape (h,)
    group, n : int
    look : Look
    truth : ndarray of shape (h,)
        Full-benchmark means.
    beta : ndarray of shape (h,)
        Mean departures over the items not seen.
    residuals : ndarray of shape (h, h)
        Covariance of residuals over these items.
    centre : float
        Mean score of the bank's models.
    many : bool
        Whether `MANY` models calibrate.
    z : ndarray of shape (3, h)
        As `Field.abilities` has it.
    prior_variance : float
        Of an ability.
    """

    models: Positions
    group: int
    n: int
    look: Look
    truth: Floats
    beta: Floats
    residuals: Floats
    centre: float
    many: bool
    z: Floats
    prior_variance: float


def groups(
    mean: Floats,
    families: Sequence[str] | None = None,
    whole: bool = False,
    names: Sequence[str] | None = None,
) -> list[tuple[Positions, Positions]]:
    """Models left out together, and those of them that are replayed.

    Parameters
    ----------
    mean : ndarray of shape (n_models,)
    families : sequence of str, optional
        Models of one family are left out together, where they fill no more than a group.
    whole : bool, optional
        Or where that leaves half of the models in.
    names : sequence of str, optional
        Of the models: tasks of one suite then replay the same ones of many.
    """
    order = np.argsort(-mean, kind="stable")
    n = len(order)
    k = min(_GROUPS, n // 2)
    sets: list[list[int]] = [[] for _ in range(k)]
    most = n // 2 if whole else n // k + 1
    of: dict[str, list[int]] = {}
    for i in order.tolist():
        of.setdefault(families[i] if families is not None else str(i), []).append(i)
    for family in sorted(of.values(), key=lambda f: -len(f)):
        for part in [family] if len(family) <= most else [[i] for i in family]:
            min(sets, key=len).extend(part)
    found = [np.array(sorted(s, key=lambda i: -mean[i]), dtype=np.intp) for s in sets if s]
    fifth = max(n // 5, 1)
    if n - fifth >= 4 and n <= _MOST_REPLAYED:
        found += [order[:fifth], order[-fifth:]]
    most = max(_MOST_REPLAYED // len(found), 2)
    if n > _MOST_REPLAYED:  # the best and the weakest would be a sixth of those replayed
        called = names if names is not None else [*map(str, range(n))]
        some = sorted(range(n), key=lambda i: crc32(called[i].encode()))[:_MOST_REPLAYED]
        return [(g, g[np.isin(g, some)]) for g in found]
    return [(g, g[np.unique(np.linspace(0, len(g) - 1, most).astype(int))]) for g in found]


def some_items(n_items: int) -> Positions:
    """Items that the check is made on: all, or a sample of very many."""
    if n_items <= _ENOUGH_ITEMS:
        return np.arange(n_items)
    return np.sort(np.random.default_rng(0).permutation(n_items)[:_ENOUGH_ITEMS])


def replay(
    scores: Floats,
    factors: int,
    extra: float,
    families: Sequence[str] | None = None,
    draws: float | None = None,
    whole: bool = False,
    names: Sequence[str] | None = None,
) -> tuple[list[Stop], Departures]:
    """Send left-out models through rankings on banks of the others.

    Parameters
    ----------
    scores : ndarray of shape (n_models, n_items)
        On [0, 1], NaN where missing; at least 4 models, and the items of `some_items`.
    factors : int
    extra : float
        As `fit_items` has it.
    families, whole, names : optional
        As `groups` has them.
    draws : float, optional
        Share of draws, as `DefaultModel` has it.

    Returns
    -------
    list of Stop
    Departures
        What was used on the way: the vague prior, with the residuals' noise as found.
    """
    mean = np.nanmean(scores, axis=1)
    fields = []
    for group, (out, replayed) in enumerate(groups(mean, families, whole, names)):
        rest = _enough(np.setdiff1d(np.arange(len(scores)), out), mean, scores.shape[1])
        if len(rest) < 2 or not len(replayed):
            continue  # nearly all models are of one family: nothing is left to calibrate on
        known = np.isfinite(scores[rest]).any(axis=0)
        fitted = scores[np.ix_(rest, known)]
        items = fit_items(fitted, factors, extra).items
        vague = replace(VAGUE, centre=float(np.nanmean(fitted)))
        model = DefaultModel(items, vague, share=draws)
        y = _filled(scores[np.ix_(replayed, known)], model, group)
        fields.append((group, replayed, y, Field(model, len(y), seed=group)))
    if not fields:
        return [], VAGUE
    stops: list[Stop] = []
    many, first = len(scores) >= MANY, fields[0][-1].model.first

    def go_on(after: int, until: int) -> None:
        for group, replayed, y, field in fields:
            for n in (c for c in CHECKPOINTS if after < c <= min(until, y.shape[1] // 2)):
                advance(field, y, n)
                stops.append(_stop(field, y, group, replayed, many))

    go_on(0, first)
    noise, floor = fit_noise(*np.array([n for *_, y, f in fields for n in _noise(f, y)]).T)
    for *_, field in fields:
        field.use(replace(field.model.departures, noise=noise, floor=floor))
    go_on(first, scores.shape[1])
    return stops, replace(VAGUE, noise=noise, floor=floor)


def advance(field: Field, y: Floats, n: int) -> None:
    """Ask all models the next items of their sequence, until it has `n`."""
    sequence = field.sequence
    while len(sequence) < n:
        start = len(sequence)
        for _ in range(1 if start < FINE else BLOCK):
            [item], probability = field.next(0, sequence.left)
            for a in range(len(y)):
                field.place(a, item, probability)
        block = sequence.items[start:]
        for a in range(len(y)):
            field.learn(a, block, y[a, block].tolist())


def _filled(y: Floats, model: DefaultModel, seed: int) -> Floats:
    """Scores without holes: an expected score plus one of the model's own residuals."""
    missing = ~np.isfinite(y)
    if not missing.any():
        return y
    rng = np.random.default_rng(seed)
    out = y.copy()
    for row, holes in zip(out, missing):
        seen = np.flatnonzero(~holes)
        expected = model.items.expected(_fit(model, seen.tolist(), row[seen].tolist()))
        residual = row[seen] - expected[seen] if len(seen) else np.zeros(1)
        row[holes] = np.clip(expected[holes] + rng.choice(residual, int(holes.sum())), 0.0, 1.0)
    return out


def _fit(model: DefaultModel, items: list[int], scores: list[float]) -> Floats:
    field = Field(model, 1, draws=False)
    field.learn(0, items, scores)
    return field.members[0].posterior.z


def _enough(rest: Positions, mean: Floats, n_items: int) -> Positions:
    """Models that a bank for the check is fitted on: all, or an even part of very many.

    The bank itself has them all; its curves are a little better than the check's, never worse.
    """
    most = int(np.clip(_ENOUGH_CELLS // n_items, _FEWEST_FITTED, _MOST_FITTED))
    if len(rest) <= most:
        return rest
    by_mean = rest[np.argsort(-mean[rest], kind="stable")]
    return np.sort(by_mean[np.linspace(0, len(rest) - 1, most).astype(int)])


def _residuals(field: Field, y: Floats) -> Floats:
    left = field.sequence.left
    return np.asarray(y[:, left] - np.array([m.posterior.mu[left] for m in field.members]))


def _stop(field: Field, y: Floats, group: int, models: Positions, many: bool) -> Stop:
    r = _residuals(field, y)
    covariance = np.cov(r).reshape(len(y), len(y)) if r.shape[1] > 1 else np.zeros((len(y),) * 2)
    return Stop(
        models,
        group,
        len(field.sequence),
        field.look(),
        y.mean(axis=1),
        r.mean(axis=1),
        covariance,
        field.model.departures.centre,
        many,
        field.abilities(),
        field.model.items.prior_sd**2,
    )


def _noise(field: Field, y: Floats) -> list[tuple[float, float]]:
    """Variance of residuals as the response model says and as found, for classes of items."""
    out, left = [], field.sequence.left
    for m, r in zip(field.members, _residuals(field, y)):
        said = (m.posterior.kappa * m.posterior.w)[left]
        for part in np.array_split(np.argsort(said, kind="stable"), min(_BINS, len(said))):
            out.append((float(said[part].mean()), float(np.mean((r[part] - r.mean()) ** 2))))
    return out


def fit_departures(stops: list[Stop], known: Departures, without: Positions) -> Departures:
    """The prior of departures by what happened to all models but some.

    Parameters
    ----------
    stops : list of Stop
    known : Departures
        Noise of residuals, and centre.
    without : ndarray of int
        Models that do not count.
    """
    single, pair, alike = [], [], []
    for s in stops:
        own, look = np.diag(s.residuals), s.look
        keep = [i for i in range(len(s.models)) if s.models[i] not in without]
        for i in keep:
            e2 = s.beta[i] ** 2 - own[i] / look.left[i]
            distance2 = (look.t[i] - s.centre) ** 2
            single.append((s.models[i], e2, look.v[i], 1.0, distance2, look.level[i]))
            for j in keep[: keep.index(i)]:
                key = _key(s, i, j)
                noise = own[i] + own[j] - 2.0 * s.residuals[i, j]
                e2 = (s.beta[i] - s.beta[j]) ** 2 - noise / look.left[i]
                distance2 = (look.t[i] - look.t[j]) ** 2
                level = min(look.level[i], look.level[j])
                pair.append((key, e2, look.v[i] + look.v[j], 1.0, distance2, level))
                alike.append(s.residuals[i, j] / max((own[i] * own[j]) ** 0.5, 1e-12))
    n_models = len({r[0] for r in single})
    if not n_models:
        return known
    fit = fit_scale if stops[0].many else fit_components
    of_one = fit(np.array(single), n_models)
    return replace(
        known,
        single=of_one,
        pair=fit(np.array(pair), n_models) if pair else of_one,
        rho=float(np.clip(np.mean(alike), 0.0, 0.95)) if alike else 0.0,
        df=n_models + PRIOR_DF - 2.0,
    )


def _key(s: Stop, i: int, j: int) -> int:
    """One number for a pair of models."""
    a, b = int(s.models[i]), int(s.models[j])
    return max(a, b) * 10**6 + min(a, b)


@dataclass(frozen=True)
class Judged:
    """Left-out models by a prior that does not know them; arrays over models and stops.

    Attributes
    ----------
    model, n, error, standard_error, df : ndarray
    pair_key, pair_n : ndarray
    pair_z2 : ndarray
        Squared error of differences over their variance, less what Student's tails add.
    """

    model: Floats
    n: Floats
    error: Floats
    standard_error: Floats
    df: Floats
    pair_key: Floats
    pair_n: Floats
    pair_z2: Floats

    @property
    def z2(self) -> Floats:
        """Squared error over variance, less what Student's tails add."""
        return np.asarray((self.error / self.standard_error) ** 2 * (1.0 - 2.0 / self.df))


def judge(stops: list[Stop], priors: dict[int, Departures]) -> Judged:
    """Estimate the left-out models as a ranking would.

    Parameters
    ----------
    stops : list of Stop
    priors : dict of int to Departures
        For each group one that does not know its models.
    """
    single: list[tuple[float, ...]] = []
    pair: list[tuple[float, ...]] = []
    for s in stops:
        _, result = _result(s, priors[s.group])
        e = result.estimate - s.truth
        for i, model in enumerate(s.models):
            single.append((model, s.n, e[i], result.variance[i, i] ** 0.5, result.df[i, i]))
            for j in range(i):
                z2 = (e[i] - e[j]) ** 2 / result.variance[i, j]
                pair.append((_key(s, i, j), s.n, z2 * (1.0 - 2.0 / result.df[i, j])))
    model, n, error, se, df = np.array(single).T
    key, pair_n, z2 = np.array(pair).reshape(-1, 3).T
    return Judged(model, n, error, se, df, key, pair_n, z2)


def departures_of(stops: list[Stop], known: Departures) -> tuple[Departures, Judged, LeftOut]:
    """The prior of departures, and what it would have been worth to models that it does not know.

    Priors are fitted without the models of a group and judged on them: where true squared errors
    exceed the stated ones before any draw, the prior is widened; where they still do after draws,
    everything is.

    Parameters
    ----------
    stops : list of Stop
        At least one.
    known : Departures
        Noise of residuals, and centre.
    """
    found = fit_departures(stops, known, np.empty(0, dtype=np.intp))
    of = {s.group: s.models for s in stops}
    priors = {g: fit_departures(stops, known, models) for g, models in of.items()}
    judged = judge(stops, priors)
    n_models = len(np.unique(judged.model))
    last = max((s.n for s in stops if s.n <= FIRST and not s.look.q.any()), default=0)
    at, pair_at = judged.n == last, judged.pair_n == last
    one = inflation(judged.model[at], judged.z2[at], n_models)
    two = inflation(judged.pair_key[pair_at], judged.pair_z2[pair_at], n_models)

    def wider(d: Departures) -> Departures:
        return replace(d, single=one * d.single, pair=two * d.pair)

    found, priors = wider(found), {g: wider(d) for g, d in priors.items()}
    judged = judge(stops, priors)
    at, pair_at = judged.n > last, judged.pair_n > last
    # Models of a group share their draws, and these are most of the error now: groups count.
    one = inflation(judged.model[at], judged.z2[at], len(of), USUAL_EXCESS)
    two = inflation(judged.pair_key[pair_at], judged.pair_z2[pair_at], len(of), USUAL_EXCESS)
    found = replace(found, single=_at_least_vague(found.single, n_models))
    priors = {g: replace(d, inflation=one, inflation_of_pairs=two) for g, d in priors.items()}
    found = replace(found, inflation=one, inflation_of_pairs=two)
    return found, judged, left_out(stops, priors)


def _at_least_vague(single: Floats, n_models: int) -> Floats:
    """Departures of one model, where fewer than `FEW_MODELS` were there to show them.

    From three models on, of which none can be left out, the vague prior counts less and less. Pairs
    keep theirs: what so few models do not show is how far a family departs together.
    """
    unknown = (FEW_MODELS - n_models) / (FEW_MODELS - 3)
    return np.maximum(single, min(max(unknown, 0.0), 1.0) * VAGUE.single)


def _result(s: Stop, prior: Departures) -> tuple[Look, Result]:
    prior = replace(prior, centre=s.centre)
    look = replace(s.look, M=prior.prior(s.look.v, s.look.t, s.look.level))
    return look, look.result(prior, float(look.left[0] + s.n))


def left_out(stops: list[Stop], priors: dict[int, Departures]) -> LeftOut:
    """What a ranking would have said of each model left out, and how far that was from the truth.

    Of a model left out twice it is the first time: with models of all kinds, not with the best or
    the weakest. Columns are `COLUMNS`.
    """
    found: LeftOut = {}
    for s in (s for s in stops if s.n in KEPT):
        d = priors[s.group]
        look, result = _result(s, d)
        own = result.variance.diagonal()
        at = look.levers(d, own, s.z, int(look.left[0]) + s.n, s.prior_variance)
        rows = (result.estimate - s.truth, own, result.df.diagonal(), *s.z[:2], at.slope, at.share)
        for model, row in zip(s.models.tolist(), np.array(rows).T.tolist()):
            found.setdefault(model, {}).setdefault(s.n, [float(f"{x:.5g}") for x in row])
    return found


def inflation(key: Floats, z2: Floats, n: int, usual: float = 1.0) -> float:
    """What true squared errors exceed stated variances by, each model (or pair) counted once.

    ``PRIOR_DF`` cases of what is usual stand beside the `n` independent ones that were seen.
    """
    if not len(key):
        return 1.0
    _, at, count = np.unique(key, return_inverse=True, return_counts=True)
    mean = float(np.mean(np.bincount(at, z2) / count))
    return max((n * mean + PRIOR_DF * usual) / (n + PRIOR_DF), _LEAST_INFLATION)


def coverage(error: Floats, standard_error: Floats, df: Floats, confidence: float = 0.95) -> float:
    """Share of errors within Student's intervals."""
    return float(np.mean(np.abs(error) < stdtrit(df, 0.5 + confidence / 2.0) * standard_error))

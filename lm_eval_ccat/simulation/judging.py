"""Whether what is claimed of models is right, by their full scores."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtri, stdtrit

from ..ranker import Ranker, Ranking
from .benchmark import Benchmark

Floats = NDArray[np.float64]

_ROUNDING = 1e-9  # of a mean: an interval of a model with all items is a point
_COUNTS = ("ties", "tie_hits", "confident", "confident_right")
RESAMPLES = 1000
BOOTSTRAP_SEED = 0
INTERVAL = 0.95
_BLOCK_CELLS = 1 << 22  # counts of a large benchmark are drawn piece by piece


def full_means(scores: Floats) -> Floats:
    """Mean score of each model over the items it has.

    Parameters
    ----------
    scores : ndarray of shape (n_models, n_items)
        NaN where missing.

    Returns
    -------
    ndarray of shape (n_models,)
    """
    seen = np.isfinite(scores)
    return np.asarray(np.where(seen, scores, 0.0).sum(axis=1) / seen.sum(axis=1))


def bootstrap_intervals(
    scores: Floats, resamples: int = RESAMPLES, seed: int = BOOTSTRAP_SEED
) -> tuple[Floats, Floats]:
    """95% percentile bootstrap interval of each model's mean over items.

    A resample of N items with replacement is a multinomial count of each item, so that all models'
    resampled means are one matrix product. Every model sees the same resamples.

    Parameters
    ----------
    scores : ndarray of shape (n_models, n_items)
        NaN where missing; such items weigh nothing.
    resamples : int
    seed : int

    Returns
    -------
    low, high : ndarray of shape (n_models,)
    """
    n_models, n_items = scores.shape
    rng = np.random.default_rng(seed)
    seen = np.isfinite(scores)
    filled, present = np.where(seen, scores, 0.0).T, seen.T.astype(np.float64)
    means = np.empty((resamples, n_models))
    block = max(1, _BLOCK_CELLS // n_items)
    for start in range(0, resamples, block):
        rows = slice(start, min(start + block, resamples))
        counts = rng.multinomial(n_items, np.full(n_items, 1.0 / n_items), rows.stop - rows.start)
        weight = counts.astype(np.float64)
        total = n_items if seen.all() else np.maximum(weight @ present, 1e-300)
        means[rows] = weight @ filled / total
    tail = (1.0 - INTERVAL) / 2.0
    low, high = np.quantile(means, [tail, 1.0 - tail], axis=0)
    return low, high


def true_ties(low: Floats, high: Floats) -> NDArray[np.bool_]:
    """Which pairs of models have overlapping intervals; symmetric, shape (n_models, n_models)."""
    return np.asarray((low[:, None] <= high[None, :]) & (low[None, :] <= high[:, None]))


def kendall_tau(a: ArrayLike, b: ArrayLike) -> float:
    """Kendall's tau-b of two vectors; NaN where one of them is constant.

    Examples
    --------
    >>> kendall_tau([1, 2, 3, 4], [1, 2, 4, 3])
    0.6666666666666666
    """
    x, y = np.asarray(a, dtype=np.float64), np.asarray(b, dtype=np.float64)
    upper = np.triu_indices(len(x), 1)
    dx = np.sign(x[:, None] - x[None, :])[upper]
    dy = np.sign(y[:, None] - y[None, :])[upper]
    scale = np.sqrt((dx**2).sum() * (dy**2).sum())
    return float((dx * dy).sum() / scale) if scale > 0 else float("nan")


def z_scores(errors: Floats, standard_errors: Floats) -> Floats:
    """Errors in standard errors; 0 where a model's every item was administered."""
    exact = (np.abs(errors) < 1e-9) & (standard_errors < 1e-9)
    return np.where(exact, 0.0, errors / np.maximum(standard_errors, 1e-9))


def quantiles(confidence: float, df: Floats) -> Floats:
    """Two-sided quantiles of Student's distribution, normal where `df` is infinite."""
    p = (1.0 + confidence) / 2.0
    finite = np.minimum(df, 1e9)
    return np.asarray(np.where(np.isinf(df), ndtri(p), stdtrit(finite, p)))


@dataclass(frozen=True)
class Replay:
    """What one method reached on one fold with one seed.

    Attributes
    ----------
    method, fold, seed, holdout
        Which run this is.
    items_per_model : float or None
        What the fold's budget was computed from.
    tau : float or None
        Kendall's tau-b with the true order; None where all true means are equal.
    items : int
        Scores administered, over all held-out models.
    cost, budget : float or None
        Spent, and allowed (None: no budget).
    pairs, true_ties : int
        Pairs of held-out models, and those truly tied.
    ties, tie_hits : int or None
        Pairs left undecided, and those of them that are truly tied; None for a method that states
        no confidence.
    confident, confident_right : int or None
        Pairs decided, and those of them in the true order.
    errors : ndarray of shape (n_holdout,)
        Estimate minus truth of the full-benchmark mean, on [0, 1].
    standard_errors : ndarray of shape (n_holdout,), or None
    covered : ndarray of bool, shape (n_holdout,), or None
        Whether the interval that the method itself states holds the truth.
    seconds : float
        Time of asking and telling; calibration is not in it.
    items_of : dict of str to tuple of doc_id
        Items of each model, in the order administered; empty for methods that know no bank.
    stopped_because : str
    difference_errors, difference_standard_errors, difference_df : ndarray, or None
        The same of differences of models, shape (pairs,), and the degrees of freedom of the
        standard errors.
    order : tuple of str
        The held-out models, best first.
    """

    method: str
    fold: int
    seed: int
    holdout: tuple[str, ...]
    items_per_model: float | None
    tau: float | None
    items: int
    cost: float
    budget: float | None
    pairs: int
    true_ties: int
    ties: int | None
    tie_hits: int | None
    confident: int | None
    confident_right: int | None
    errors: Floats
    standard_errors: Floats | None
    seconds: float
    items_of: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    stopped_because: str = ""
    difference_errors: Floats | None = None
    difference_standard_errors: Floats | None = None
    difference_df: Floats | None = None
    order: tuple[str, ...] = ()
    covered: NDArray[np.bool_] | None = None


@dataclass(frozen=True)
class Claim:
    """What a method says of models in the order of the fold.

    Attributes
    ----------
    estimates : ndarray of shape (n_models,)
        Of the full-benchmark means, on [0, 1].
    location : ndarray of shape (n_models,), optional
        What it orders by; default the estimates.
    standard_errors : ndarray of shape (n_models,), optional
    intervals : ndarray of shape (n_models, 2), optional
        Ends of the intervals of the full-benchmark means, as users see them: Student's or a
        confidence sequence's where the method has these.
    ahead : ndarray of int, shape (n_models, n_models), optional
        1 where a pair is decided for the first model, -1 for the second, 0 where it is not;
        without it the method decides nothing.
    variance, df : ndarray of shape (n_models, n_models), optional
        Of differences of estimates.
    """

    estimates: Floats
    location: Floats | None = None
    standard_errors: Floats | None = None
    intervals: Floats | None = None
    ahead: NDArray[np.int8] | None = None
    variance: Floats | None = None
    df: Floats | None = None

    @classmethod
    def of(cls, ranker: Ranker, ranking: Ranking, names: tuple[str, ...]) -> Claim:
        """Return what a ranker claims at the moment."""
        place = {model: n for n, model in enumerate(ranking.order)}
        ahead = np.zeros((len(names), len(names)), dtype=np.int8)
        for (a, b), what in ranking.decisions.items():
            if what == "decided":
                sign = 1 if ranking.pairwise[a, b] > 0.5 else -1
                ahead[names.index(a), names.index(b)] = sign
        known = ranker.belief().on_scores
        return cls(
            estimates=np.array([ranking.estimates[m] for m in names]),
            location=np.array([-float(place[m]) for m in names]),
            standard_errors=np.array([ranking.standard_errors[m] for m in names]),
            intervals=np.array([ranking.interval(m) for m in names]),
            ahead=ahead,
            variance=known.variance,
            df=known.df,
        )


@dataclass(frozen=True)
class Truth:
    """Full scores of the held-out models.

    Attributes
    ----------
    raw : ndarray of shape (n_models,)
        Full means on the metric's own scale, signed so that higher is better.
    means : ndarray of shape (n_models,)
        Full means on [0, 1].
    tied : ndarray of bool, shape (n_models, n_models)
    """

    raw: Floats
    means: Floats
    tied: NDArray[np.bool_]

    @classmethod
    def of(cls, held: Benchmark) -> Truth:
        """Compute the truth from the full scores of the held-out models."""
        tied = true_ties(*bootstrap_intervals(held.signed))
        means = held.mean(held.scores, np.isfinite(held.scores))
        return cls(full_means(held.signed) if len(held.tables) == 1 else means, means, tied)


@dataclass(frozen=True)
class Judgement:
    """What a claim is worth by the truth.

    Attributes
    ----------
    tau : float or None
        Kendall's tau-b with the true order; None where all true means are equal.
    errors : ndarray of shape (n_models,)
    covered : ndarray of bool, shape (n_models,), or None
        Whether the stated interval holds the truth.
    right : ndarray of int, shape (n_models, n_models), or None
        1 where a decided pair is in the true order, -1 where it is not, 0 where none is decided.
    """

    tau: float | None
    errors: Floats
    covered: NDArray[np.bool_] | None
    right: NDArray[np.int_] | None


def judge(claim: Claim, truth: Truth) -> Judgement:
    """Compare what was claimed with what is true."""
    location = claim.estimates if claim.location is None else claim.location
    ahead = np.sign(truth.raw[:, None] - truth.raw[None, :])
    tau = covered = right = None
    if ahead.any():
        tau = kendall_tau(location, truth.raw) if np.ptp(location) > 0 else 0.0
    if claim.ahead is not None:
        right = np.where(claim.ahead == 0, 0, np.where(claim.ahead == ahead, 1, -1))
    if claim.intervals is not None:
        low, high = claim.intervals.T
        covered = (low <= truth.means + _ROUNDING) & (truth.means - _ROUNDING <= high)
    return Judgement(tau, claim.estimates - truth.means, covered, right)


def replay_of(claim: Claim, truth: Truth, **run: Any) -> Replay:
    """What a run reached; `run` has the fields that say which it is, and what it spent."""
    judged, upper = judge(claim, truth), np.triu_indices(len(truth.means), 1)
    location = claim.estimates if claim.location is None else claim.location
    tied = truth.tied[upper]
    counts: dict[str, Any] = dict.fromkeys(_COUNTS)
    if judged.right is not None:
        right = judged.right[upper]
        left = right == 0
        sums = (left.sum(), (left & tied).sum(), (~left).sum(), (right > 0).sum())
        counts = dict(zip(_COUNTS, map(int, sums)))
    of_pairs: dict[str, Any] = {}
    if claim.variance is not None and claim.df is not None:
        of_pairs = {
            "difference_errors": (judged.errors[:, None] - judged.errors[None, :])[upper],
            "difference_standard_errors": np.sqrt(claim.variance[upper]),
            "difference_df": claim.df[upper],
        }
    return Replay(
        tau=judged.tau,
        pairs=len(tied),
        true_ties=int(tied.sum()),
        errors=judged.errors,
        standard_errors=claim.standard_errors,
        covered=judged.covered,
        order=tuple(run["holdout"][i] for i in np.argsort(-location, kind="stable")),
        **counts,
        **of_pairs,
        **run,
    )

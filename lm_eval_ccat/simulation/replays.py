"""A method's claims about the held-out models, judged by their full scores."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri, stdtrit

from ..ranker import Ranker, Ranking
from .benchmark import Benchmark
from .truth import bootstrap_intervals, full_means, kendall_tau, true_ties

Floats = NDArray[np.float64]

_ROUNDING = 1e-9  # of a mean: an interval of a model with all items is a point


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
        raw, scores = held.signed, held.scores
        tied = true_ties(*bootstrap_intervals(raw))
        if len(held.tables) == 1:
            return cls(full_means(raw), full_means(scores), tied)
        means = held.mean(scores, np.isfinite(scores))
        return cls(means, means, tied)


def judge(claim: Claim, truth: Truth, **run: Any) -> Replay:
    """Compare what was claimed with what is true; `run` has the other fields of the outcome."""
    location = claim.estimates if claim.location is None else claim.location
    upper = np.triu_indices(len(location), 1)
    tied = truth.tied[upper]
    ahead = np.sign(truth.raw[:, None] - truth.raw[None, :])[upper]
    tau: float | None = None
    if ahead.any():
        tau = kendall_tau(location, truth.raw) if np.ptp(location) > 0 else 0.0
    ties = hits = confident = right = None
    if claim.ahead is not None:
        claimed = claim.ahead[upper]
        ties, hits = int((claimed == 0).sum()), int(((claimed == 0) & tied).sum())
        confident = len(claimed) - ties
        right = int(((claimed == ahead) & (claimed != 0)).sum())
    errors = claim.estimates - truth.means
    covered = None
    if claim.intervals is not None:
        low, high = claim.intervals.T
        covered = (low <= truth.means + _ROUNDING) & (truth.means - _ROUNDING <= high)
    of_pairs: dict[str, Any] = {}
    if claim.variance is not None and claim.df is not None:
        of_pairs = {
            "difference_errors": (errors[:, None] - errors[None, :])[upper],
            "difference_standard_errors": np.sqrt(claim.variance[upper]),
            "difference_df": claim.df[upper],
        }
    return Replay(
        tau=tau,
        pairs=len(tied),
        true_ties=int(tied.sum()),
        ties=ties,
        tie_hits=hits,
        confident=confident,
        confident_right=right,
        errors=errors,
        standard_errors=claim.standard_errors,
        covered=covered,
        order=tuple(run["holdout"][i] for i in np.argsort(-location, kind="stable")),
        **of_pairs,
        **run,
    )


def quantiles(confidence: float, df: Floats) -> Floats:
    """Two-sided quantiles of Student's distribution, normal where `df` is infinite."""
    p = (1.0 + confidence) / 2.0
    finite = np.minimum(df, 1e9)
    return np.asarray(np.where(np.isinf(df), ndtri(p), stdtrit(finite, p)))

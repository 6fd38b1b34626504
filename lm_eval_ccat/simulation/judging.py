"""Judges claims about models by their full scores, for one run and pooled over runs."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtri, stdtrit

from ..grouping import grouped
from ..metrics.scale import Floats
from ..ranker.verdicts import Verdicts
from ..shown import exact_percent
from .folds import Benchmark, mean_of_asked

#: Figures of a method by name; None for figures that it does not state.
Figures = dict[str, float | None]

#: Above this standard error of a mean tau, `advice` says that it is uncertain.
UNSURE = 0.05
#: Keys of a summary that are also in the record of a single run.
_RUN_FIGURES = (
    "tau", "items", "cost", "budget", "ties", "true_ties", "tie_precision", "tie_recall", "tie_f1",
    "confident_pairs", "confident_accuracy", "z_rms", "coverage", "rmse", "rmse_differences",
    "z_rms_differences", "coverage_differences", "seconds",
)  # fmt: skip

#: Rounding allowed in a mean and its error: with all items, a model's interval is a point.
_ROUNDING = 1e-9
#: Counts of items that are drawn at a time: those of all resamples may not fit into memory.
_BLOCK_CELLS = 1 << 22


def bootstrap_intervals(scores: Floats, resamples: int = 1000) -> tuple[Floats, Floats]:
    """Return the 95% percentile bootstrap interval of each model's mean over items.

    To draw N items with replacement is to draw how often each item comes (a multinomial count), so
    one matrix product gives the means of all models. Every model has the same resamples.

    Parameters
    ----------
    scores : ndarray of shape (n_models, n_items)
        NaN where missing; such items weigh nothing.
    resamples : int

    Returns
    -------
    low, high : ndarray of shape (n_models,)
    """
    n_models, n_items = scores.shape
    # The same resamples in every run, so that a tie stays a tie.
    rng = np.random.default_rng(0)
    finite = np.isfinite(scores)
    filled, present = np.where(finite, scores, 0.0).T, finite.T.astype(np.float64)
    means = np.empty((resamples, n_models))
    block = max(1, _BLOCK_CELLS // n_items)
    for start in range(0, resamples, block):
        rows = slice(start, min(start + block, resamples))
        counts = rng.multinomial(n_items, np.full(n_items, 1.0 / n_items), rows.stop - rows.start)
        weight = counts.astype(np.float64)
        # A resample may miss every item that a model has.
        total = n_items if finite.all() else np.maximum(weight @ present, 1e-300)
        means[rows] = weight @ filled / total
    low, high = np.quantile(means, [0.025, 0.975], axis=0)
    return low, high


def true_ties(low: Floats, high: Floats) -> NDArray[np.bool_]:
    """Return which pairs of models have overlapping intervals; shape (n_models, n_models)."""
    return np.asarray((low[:, None] <= high[None, :]) & (low[None, :] <= high[:, None]))


def kendall_tau(a: ArrayLike, b: ArrayLike) -> float:
    """Return Kendall's tau-b of two vectors; NaN if one of them is constant.

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
    """Return errors in standard errors; 0 where a model got every item."""
    # An estimate of all items is the truth, with an error of 0 over 0.
    exact = (np.abs(errors) < _ROUNDING) & (standard_errors < _ROUNDING)
    return np.where(exact, 0.0, errors / np.maximum(standard_errors, _ROUNDING))


def quantiles(confidence: float, df: Floats) -> Floats:
    """Return two-sided quantiles of Student's distribution, normal where `df` is infinite."""
    probability = (1.0 + confidence) / 2.0
    finite = np.minimum(df, 1e9)
    return np.asarray(np.where(np.isinf(df), ndtri(probability), stdtrit(finite, probability)))


@dataclass(frozen=True)
class Replay:
    """Result of one method on one fold with one seed.

    Attributes
    ----------
    method, fold, seed, holdout
        Which run this is.
    items_per_model : float or None
        The test length: the budget is the price of so many items of each model.
    tau : float or None
        Kendall's tau-b with the true order; None where all true means are equal.
    items : int
        Scores administered, over all held-out models.
    cost, budget : float or None
        Spent, and allowed (None: no budget).
    pairs, true_ties : int
        Pairs of held-out models, and those truly tied.
    ties, ties_right : int or None
        Pairs left undecided, and those of them that are truly tied; None for a method that decides
        none.
    decided, decided_right : int or None
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
    difference_errors, difference_standard_errors : ndarray of shape (pairs,), or None
        As `errors` and `standard_errors`, of the difference of the two models of each pair.
    difference_df : ndarray of shape (pairs,), or None
        Degrees of freedom of `difference_standard_errors`.
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
    errors: Floats
    standard_errors: Floats | None
    seconds: float
    ties: int | None = None
    ties_right: int | None = None
    decided: int | None = None
    decided_right: int | None = None
    items_of: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    stopped_because: str = ""
    difference_errors: Floats | None = None
    difference_standard_errors: Floats | None = None
    difference_df: Floats | None = None
    order: tuple[str, ...] = ()
    covered: NDArray[np.bool_] | None = None


@dataclass(frozen=True)
class Claim:
    """A method's claims about the models, in the order of the fold.

    Attributes
    ----------
    estimates : ndarray of shape (n_models,)
        Estimated full-benchmark means, on [0, 1]; in an audit on the metric's own scale.
    location : ndarray of shape (n_models,), optional
        What the method orders by, highest first; default the estimates.
    standard_errors : ndarray of shape (n_models,), optional
    intervals : ndarray of shape (n_models, 2), optional
        Ends of the intervals of the full-benchmark means, as users see them: Student's, or those
        of a confidence sequence.
    ahead : ndarray of int, shape (n_models, n_models), optional
        1 where a pair is decided for the first model, -1 for the second, 0 where it is open;
        without it the method decides nothing.
    variance, df : ndarray of shape (n_models, n_models), optional
        Variances of differences of estimates, and their degrees of freedom.
    """

    estimates: Floats
    location: Floats | None = None
    standard_errors: Floats | None = None
    intervals: Floats | None = None
    ahead: NDArray[np.int8] | None = None
    variance: Floats | None = None
    df: Floats | None = None

    @property
    def order_key(self) -> Floats:
        """What the order sorts by, highest first."""
        return self.estimates if self.location is None else self.location

    def covered(self, truth: Truth) -> NDArray[np.bool_] | None:
        """Return whether each model's interval contains the truth; shape (n_models,)."""
        if self.intervals is None:
            return None
        low, high = self.intervals.T
        return np.asarray((low <= truth.means + _ROUNDING) & (truth.means - _ROUNDING <= high))

    def correctness(self, truth: Truth) -> NDArray[np.int_] | None:
        """Return 1 where a pair is decided in the true order, -1 where wrongly, 0 where open.

        Shape (n_models, n_models); None if the method decides nothing.
        """
        # A method that decides nothing does not decide wrongly.
        if self.ahead is None:
            return None
        truly_ahead = np.sign(truth.signed_means[:, None] - truth.signed_means[None, :])
        return np.where(self.ahead == 0, 0, np.where(self.ahead == truly_ahead, 1, -1))

    def tau(self, truth: Truth) -> float | None:
        """Return Kendall's tau of the order with the true one; None if all models are equal."""
        # Models that are all equal have no order to find.
        if not np.ptp(truth.signed_means) > 0:
            return None
        # A method that calls all models equal has found nothing of the order.
        return (
            kendall_tau(self.order_key, truth.signed_means) if np.ptp(self.order_key) > 0 else 0.0
        )

    @classmethod
    def of(cls, verdicts: Verdicts, intervals: Floats) -> Claim:
        """Return what verdicts on tested models say, with intervals of the models' means.

        Parameters
        ----------
        verdicts : Verdicts
        intervals : ndarray of shape (n_models, 2)
        """
        belief = verdicts.belief.on_scores
        return cls(
            estimates=belief.location,
            # Minus the rank: ties in location have an order, too.
            location=-np.argsort(verdicts.best_first).astype(np.float64),
            standard_errors=np.sqrt(belief.variance.diagonal()),
            intervals=intervals,
            ahead=verdicts.sign,
            variance=belief.variance,
            df=belief.df,
        )


@dataclass(frozen=True)
class Truth:
    """Full scores of the held-out models.

    Attributes
    ----------
    signed_means : ndarray of shape (n_models,)
        Full means on the metric's own scale, with the sign changed where lower is better; of
        several tasks `means`.
    means : ndarray of shape (n_models,)
        Full means on the scale of the estimates that are judged: [0, 1] in a replay.
    tied : ndarray of bool, shape (n_models, n_models)
        Whether the 95% bootstrap intervals of two means overlap.
    """

    signed_means: Floats
    means: Floats
    tied: NDArray[np.bool_]

    @classmethod
    def of(cls, held: Benchmark) -> Truth:
        """Compute the truth from the full scores of the held-out models."""
        tied = true_ties(*bootstrap_intervals(held.signed))
        means = held.mean(held.scores, np.isfinite(held.scores))
        signed = mean_of_asked(held.signed, np.isfinite(held.signed))
        # Of several tasks, scores are on one scale only between 0 and 1.
        return cls(signed if len(held.tables) == 1 else means, means, tied)


def replay_of(truth: Truth, began: float, claim: Claim, *, cost: float, **run: Any) -> Replay:
    """Judge the claim of a run by the truth.

    Parameters
    ----------
    truth : Truth
    began : float
        When the run began, in seconds of `time.perf_counter`.
    claim : Claim
    cost : float
        What the run spent.
    **run
        The fields of `Replay` that say which run this is, and what it asked.
    """
    return Replay(
        tau=claim.tau(truth),
        errors=claim.estimates - truth.means,
        standard_errors=claim.standard_errors,
        covered=claim.covered(truth),
        order=tuple(run["holdout"][i] for i in np.argsort(-claim.order_key, kind="stable")),
        cost=float(cost),
        seconds=time.perf_counter() - began,
        **_pair_figures(truth, claim),
        **run,
    )


def _pair_figures(truth: Truth, claim: Claim) -> dict[str, Any]:
    """Return the fields of `Replay` on pairs: as many as the claim says something of."""
    upper = np.triu_indices(len(truth.means), 1)
    tied, correctness = truth.tied[upper], claim.correctness(truth)
    figures: dict[str, Any] = {"pairs": len(tied), "true_ties": int(tied.sum())}
    if correctness is not None:
        correctness = correctness[upper]
        is_open = correctness == 0
        figures |= {
            "ties": int(is_open.sum()),
            "ties_right": int((is_open & tied).sum()),
            "decided": int((~is_open).sum()),
            "decided_right": int((correctness > 0).sum()),
        }
    if claim.variance is not None and claim.df is not None:
        errors = claim.estimates - truth.means
        figures |= {
            "difference_errors": (errors[:, None] - errors[None, :])[upper],
            "difference_standard_errors": np.sqrt(claim.variance[upper]),
            "difference_df": claim.df[upper],
        }
    return figures


# -- runs pooled ----------------------------------------------------------------------------------


def run_record(replay: Replay, n_items: int, confidence: float) -> dict[str, object]:
    """Return one run as JSON values: the summary of that run alone."""
    pooled = _pool([replay], None, n_items=n_items, confidence=confidence)
    return {
        "method": replay.method,
        "fold": replay.fold,
        "seed": replay.seed,
        "holdout": list(replay.holdout),
        **{key: pooled[key] for key in _RUN_FIGURES},
        "items": replay.items,
    }


def summarise(replays: Sequence[Replay], n_items: int, confidence: float) -> dict[str, Figures]:
    """Pool the runs of each method.

    Shares and ratios are over all pairs, or all models, of all runs. The standard error of the mean
    tau is over folds, whose runs are averaged first, because seeds of a fold are not independent.
    """
    by_method = grouped((replay.method, replay) for replay in replays)
    return {
        method: _pool(replays, by_method.get("paper"), n_items=n_items, confidence=confidence)
        for method, replays in by_method.items()
    }


def _pool(
    replays: list[Replay], paper: list[Replay] | None, *, n_items: int, confidence: float
) -> Figures:
    """Return the figures of a method's replays.

    If replays of the method ``paper`` are given, the difference of the mean taus is among them.
    """
    taus = _fold_means(replays)
    items = sum(replay.items for replay in replays)
    models = sum(len(replay.holdout) for replay in replays)
    pooled: Figures = {
        "runs": len(replays),
        "tau": _mean(list(taus.values())),
        "tau_se": _standard_error(list(taus.values())),
        "items": items / len(replays),
        "items_per_model": items / models,
        "share_of_items": items / (models * n_items),
        "cost": _mean([replay.cost for replay in replays]),
        "budget": _mean([replay.budget for replay in replays if replay.budget is not None]),
        **_verdict_figures(replays),
        "z_rms": _rms(_z_scores(replays, "errors", "standard_errors")),
        "coverage": coverage(replays),
        "rmse": _rms([replay.errors for replay in replays]),
        "bias": float(np.mean(np.concatenate([replay.errors for replay in replays]))),
        **_difference_figures(replays, confidence),
        "seconds": _mean([replay.seconds for replay in replays]),
    }
    # Differences are taken fold by fold: a hard hold-out set lowers the tau of all methods.
    if paper is not None:
        paper_taus = _fold_means(paper)
        differences = [taus[fold] - paper_taus[fold] for fold in taus if fold in paper_taus]
        pooled["tau_minus_paper"] = _mean(differences)
        pooled["tau_minus_paper_se"] = _standard_error(differences)
    return pooled


def _verdict_figures(replays: Sequence[Replay]) -> Figures:
    """Return how often a method's verdicts are right: of ties, and of decided pairs."""
    deciding = [replay for replay in replays if replay.decided is not None]
    counts = ("pairs", "ties", "ties_right", "true_ties", "decided", "decided_right")
    totals = {key: sum(getattr(replay, key) for replay in deciding) for key in counts}
    # A user sees one run: how many of them hold a wrong verdict matters more than the share of
    # pairs.
    wrong_runs = sum(replay.decided_right != replay.decided for replay in deciding)
    return {
        "ties": totals["ties"] if deciding else None,
        "true_ties": sum(replay.true_ties for replay in replays),
        "tied_share": _share(totals["ties"], totals["pairs"]),
        "tie_precision": _share(totals["ties_right"], totals["ties"]),
        "tie_recall": _share(totals["ties_right"], totals["true_ties"]),
        "tie_f1": _share(2 * totals["ties_right"], totals["ties"] + totals["true_ties"]),
        "confident_pairs": totals["decided"] if deciding else None,
        "confident_accuracy": _share(totals["decided_right"], totals["decided"]),
        "runs_with_wrong_pair": _share(wrong_runs, len(deciding)),
    }


def _difference_figures(replays: Sequence[Replay], confidence: float) -> Figures:
    """Return how far estimated differences of models are from the true ones."""
    with_errors = [replay for replay in replays if replay.difference_df is not None]
    z_by_run = _z_scores(with_errors, "difference_errors", "difference_standard_errors")
    within = [
        np.abs(z) <= quantiles(confidence, replay.difference_df)
        for z, replay in zip(z_by_run, with_errors)
        if replay.difference_df is not None
    ]
    errors = [replay.difference_errors for replay in with_errors]
    return {
        "rmse_differences": _rms([error for error in errors if error is not None]),
        "z_rms_differences": _rms(z_by_run),
        "coverage_differences": float(np.mean(np.concatenate(within))) if within else None,
    }


def coverage(replays: Sequence[Replay]) -> float | None:
    """Return the share of the intervals that contain the truth; None without intervals."""
    coverages = [replay.covered for replay in replays if replay.covered is not None]
    return float(np.mean(np.concatenate(coverages))) if coverages else None


def _z_scores(replays: Sequence[Replay], errors: str, standard_errors: str) -> list[Floats]:
    """Return errors in standard errors, for the runs that state standard errors."""
    pairs = [(getattr(replay, errors), getattr(replay, standard_errors)) for replay in replays]
    return [z_scores(error, se) for error, se in pairs if se is not None]


def _rms(parts: Sequence[Floats]) -> float | None:
    """Return the root mean square of all figures; None without any."""
    return float(np.sqrt(np.mean(np.concatenate(parts) ** 2))) if parts else None


def _fold_means(replays: Sequence[Replay]) -> dict[int, float]:
    """Return the mean tau of each fold, of the runs that have one."""
    taus = grouped((replay.fold, replay.tau) for replay in replays if replay.tau is not None)
    return {fold: float(np.mean(values)) for fold, values in taus.items()}


def _share(part: float, total: float) -> float | None:
    """Return a ratio; None over nothing."""
    return part / total if total else None


def _mean(values: Sequence[float]) -> float | None:
    """Return the mean; None of no values."""
    return float(np.mean(values)) if len(values) else None


def _standard_error(values: Sequence[float]) -> float | None:
    """Return the standard error of the mean; None of fewer than two values."""
    return float(np.std(values, ddof=1) / np.sqrt(len(values))) if len(values) > 1 else None


def items_for_tau(points: Sequence[Mapping[str, Any]], wanted_tau: float) -> float | None:
    """Return the items per model at which a method's mean tau reaches a value.

    Tau is interpolated between lengths, linearly in the logarithm of the items. Because of noise, a
    length may reach the value and a longer one miss it. What counts is where tau reaches it for
    good: between the last length that misses it and the next.

    Parameters
    ----------
    points : sequence of dict
        Summaries of one method with ``items_per_model`` and ``tau``.
    wanted_tau : float

    Returns
    -------
    float or None
        None if the largest length does not reach it.
    """
    lengths = sorted(
        (point["items_per_model"], point["tau"]) for point in points if point["tau"] is not None
    )
    items, taus = zip(*lengths) if lengths else ((), ())
    if not taus or taus[-1] < wanted_tau:
        return None
    below = [length for length, tau in enumerate(taus) if tau < wanted_tau]
    # Every length reaches it: fewer items were not tried.
    if not below:
        return float(items[0])
    last_below = below[-1]
    # A method may reach no items at the least length, and 0 has no logarithm.
    if items[last_below] <= 0:
        return float(items[last_below + 1])
    around = slice(last_below, last_below + 2)
    return float(np.exp(np.interp(wanted_tau, taus[around], np.log(items[around]))))


def advice(
    sweep: Mapping[str, Sequence[Mapping[str, Any]]],
    n_items: int,
    wanted_tau: float,
    confidence: float,
) -> list[str]:
    """Recommend a method and a number of items for a wanted tau and confidence.

    Parameters
    ----------
    sweep : dict of str to list of dict
        Each method's summaries at several test lengths.
    n_items : int
        Items of the full benchmark.
    wanted_tau, confidence : float

    Returns
    -------
    list of str
        Sentences.
    """
    return [
        *_advised(sweep, n_items, wanted_tau),
        *(_course(method, points, confidence) for method, points in sweep.items()),
    ]


def _advised(
    sweep: Mapping[str, Sequence[Mapping[str, Any]]], n_items: int, wanted_tau: float
) -> Iterator[str]:
    """Say which method reaches a tau with the fewest items, and whether that is certain."""
    needed = {method: items_for_tau(points, wanted_tau) for method, points in sweep.items()}
    reached = sorted((n, method) for method, n in needed.items() if n is not None)
    if not reached:
        highest = max(point["items_per_model"] for points in sweep.values() for point in points)
        yield (
            f"no method reaches a mean tau of {wanted_tau:g} with up to {highest:.0f} items "
            "per model"
        )
        return
    number, method = reached[0]
    lowest = min(point["items_per_model"] for point in sweep[method])
    # Below the least length nothing was tried.
    bound = "at most" if number <= lowest else "about"
    yield (
        f"for a mean tau of {wanted_tau:g}: {method}, {bound} {np.ceil(number):.0f} items per "
        f"model ({number / n_items:.1%} of {n_items})"
    )
    largest_error = max(point["tau_se"] or 0.0 for point in sweep[method])
    if largest_error > UNSURE:
        yield (
            f"mean taus are known only to about ±{largest_error:.2f}; use more folds to compare "
            "methods"
        )


def _course(method: str, points: Sequence[Mapping[str, Any]], confidence: float) -> str:
    """Say what a method's rankings are worth at each test length, in the order of `points`.

    At the end it says how many of the decided pairs of all lengths are in the true order.
    """
    steps, pairs, right = [], 0.0, 0.0
    for point in points:
        # No tau: in every run the true means are equal.
        parts = ["no tau" if point["tau"] is None else f"tau {point['tau']:.3f}"]
        # Methods without intervals decide nothing.
        if point["tied_share"] is not None:
            decided = f"{1 - point['tied_share']:.0%}"
            parts.append(f"{decided} of the pairs decided at {exact_percent(confidence)}")
            pairs += point["confident_pairs"]
            right += (point["confident_accuracy"] or 0.0) * point["confident_pairs"]
        steps.append(f"{', '.join(parts)} with {point['items_per_model']:.0f} items per model")
    share = f" ({right / pairs:.1%} of the decided ones in the true order)" if pairs else ""
    return f"{method}: {'; '.join(steps)}{share}"

"""Pool the outcomes of a replay: per run, per method, and what to advise."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .judging import Replay, quantiles, z_scores

#: Figures of a method by name; None for those that it does not state.
Figures = dict[str, float | None]

# Beyond this standard error of a mean tau the advice says that it is unsure.
UNSURE = 0.05


#: Keys of a summary that the record of a single run has too.
_OF_A_RUN = (
    "tau", "items", "cost", "budget", "ties", "true_ties", "tie_precision", "tie_recall", "tie_f1",
    "confident_pairs", "confident_accuracy", "z_rms", "coverage", "rmse", "rmse_differences",
    "z_rms_differences", "coverage_differences", "seconds",
)  # fmt: skip


def run_record(outcome: Replay, n_items: int, confidence: float) -> dict[str, object]:
    """Return one run as JSON values: the summary of that run alone."""
    pooled = _pool([outcome], None, n_items, confidence)
    return {
        "method": outcome.method,
        "fold": outcome.fold,
        "seed": outcome.seed,
        "holdout": list(outcome.holdout),
        **{key: pooled[key] for key in _OF_A_RUN},
        "items": outcome.items,
    }


def summarise(outcomes: Sequence[Replay], n_items: int, confidence: float) -> dict[str, Figures]:
    """Pool the runs of each method.

    Shares and ratios are of all pairs, or all models, of all runs. The standard error of the mean
    tau is over folds, whose runs are averaged first: seeds of one fold are not independent.
    """
    by_method: dict[str, list[Replay]] = {}
    for outcome in outcomes:
        by_method.setdefault(outcome.method, []).append(outcome)
    return {
        method: _pool(replays, by_method.get("paper"), n_items, confidence)
        for method, replays in by_method.items()
    }


def _pool(
    replays: list[Replay], paper: list[Replay] | None, n_items: int, confidence: float
) -> Figures:
    taus = _fold_means(replays)
    items, models = sum(o.items for o in replays), sum(len(o.holdout) for o in replays)
    sure = [o for o in replays if o.confident is not None]
    counts = ("pairs", "ties", "tie_hits", "true_ties", "confident", "confident_right")
    of = {key: sum(getattr(o, key) for o in sure) for key in counts}
    z = _z_scores(replays, "errors", "standard_errors")
    apart = [o for o in replays if o.difference_df is not None]
    z_apart = _z_scores(apart, "difference_errors", "difference_standard_errors")
    within = [
        np.abs(one) <= quantiles(confidence, o.difference_df)
        for one, o in zip(z_apart, apart)
        if o.difference_df is not None
    ]
    pooled: Figures = {
        "runs": len(replays),
        "tau": _mean(list(taus.values())),
        "tau_se": _standard_error(list(taus.values())),
        "items": items / len(replays),
        "items_per_model": items / models,
        "share_of_items": items / (models * n_items),
        "cost": _mean([o.cost for o in replays]),
        "budget": _mean([o.budget for o in replays if o.budget is not None]),
        "ties": of["ties"] if sure else None,
        "true_ties": sum(o.true_ties for o in replays),
        "tied_share": _share(of["ties"], of["pairs"]),
        "tie_precision": _share(of["tie_hits"], of["ties"]),
        "tie_recall": _share(of["tie_hits"], of["true_ties"]),
        "tie_f1": _share(2 * of["tie_hits"], of["ties"] + of["true_ties"]),
        "confident_pairs": of["confident"] if sure else None,
        "confident_accuracy": _share(of["confident_right"], of["confident"]),
        "runs_with_wrong_pair": _share(
            sum(o.confident_right != o.confident for o in sure), len(sure)
        ),
        "z_rms": _rms(z),
        "coverage": coverage(replays),
        "rmse": _rms([o.errors for o in replays]),
        "bias": float(np.mean(np.concatenate([o.errors for o in replays]))),
        "rmse_differences": _rms(
            [o.difference_errors for o in apart if o.difference_errors is not None]
        ),
        "z_rms_differences": _rms(z_apart),
        "coverage_differences": float(np.mean(np.concatenate(within))) if within else None,
        "seconds": _mean([o.seconds for o in replays]),
    }
    if paper is not None:
        other = _fold_means(paper)
        differences = [taus[fold] - other[fold] for fold in taus if fold in other]
        pooled["tau_minus_paper"] = _mean(differences)
        pooled["tau_minus_paper_se"] = _standard_error(differences)
    return pooled


def coverage(outcomes: Sequence[Replay]) -> float | None:
    """Share of models whose stated interval holds the truth; None where none is stated."""
    stated = [o.covered for o in outcomes if o.covered is not None]
    return float(np.mean(np.concatenate(stated))) if stated else None


def _z_scores(replays: Sequence[Replay], errors: str, stated: str) -> list[NDArray[np.float64]]:
    """Errors in standard errors, of the runs that state these."""
    both = [(getattr(o, errors), getattr(o, stated)) for o in replays]
    return [z_scores(error, se) for error, se in both if se is not None]


def _rms(parts: Sequence[NDArray[np.float64]]) -> float | None:
    return float(np.sqrt(np.mean(np.concatenate(parts) ** 2))) if parts else None


def _fold_means(outcomes: Sequence[Replay]) -> dict[int, float]:
    taus: dict[int, list[float]] = {}
    for outcome in outcomes:
        if outcome.tau is not None:
            taus.setdefault(outcome.fold, []).append(outcome.tau)
    return {fold: float(np.mean(values)) for fold, values in taus.items()}


def _share(part: float, whole: float) -> float | None:
    return part / whole if whole else None


def _mean(values: Sequence[float]) -> float | None:
    return float(np.mean(values)) if len(values) else None


def _standard_error(values: Sequence[float]) -> float | None:
    return float(np.std(values, ddof=1) / np.sqrt(len(values))) if len(values) > 1 else None


def items_for_tau(points: Sequence[Mapping[str, Any]], wanted: float) -> float | None:
    """Items per model at which a method's mean tau reaches a value.

    Between two levels tau is interpolated in the logarithm of the items. Noise can make a level
    reach it and a higher one fall below again; the level counts from which on it holds.

    Parameters
    ----------
    points : sequence of dict
        Summaries of one method with ``items_per_model`` and ``tau``.
    wanted : float

    Returns
    -------
    float or None
        None where the largest level does not reach it.
    """
    known = sorted((p["items_per_model"], p["tau"]) for p in points if p["tau"] is not None)
    if not known or known[-1][1] < wanted:
        return None
    last = len(known) - 1
    while last > 0 and known[last - 1][1] >= wanted:
        last -= 1
    if last == 0:
        return float(known[0][0])
    (x0, t0), (x1, t1) = known[last - 1], known[last]
    if x0 <= 0 or x1 <= x0:
        return float(x1)
    share = (wanted - t0) / (t1 - t0)
    return float(np.exp(np.log(x0) + share * (np.log(x1) - np.log(x0))))


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
        For each method its summaries at several levels of spending.
    n_items : int
        Items of the full benchmark.
    wanted_tau, confidence : float

    Returns
    -------
    list of str
        Sentences.
    """
    needed = {m: items_for_tau(points, wanted_tau) for m, points in sweep.items()}
    reached = sorted((n, m) for m, n in needed.items() if n is not None)
    most = max(p["items_per_model"] for points in sweep.values() for p in points)
    sentences = []
    if reached:
        number, method = reached[0]
        lowest = min(p["items_per_model"] for p in sweep[method])
        about = "at most" if number <= lowest else "about"
        sentences.append(
            f"for a mean tau of {wanted_tau:g}: {method}, {about} {np.ceil(number):.0f} items per "
            f"model ({number / n_items:.1%} of {n_items})"
        )
        loose = max(p["tau_se"] or 0.0 for p in sweep[method])
        if loose > UNSURE:
            sentences.append(
                f"a mean tau is known to about +-{loose:.2f} only; use more folds to compare "
                "methods"
            )
    else:
        sentences.append(
            f"no method reaches a mean tau of {wanted_tau:g} with up to {most:.0f} items per model"
        )
    for method, points in sweep.items():
        steps, pairs, right = [], 0.0, 0.0
        for p in points:
            parts = [] if p["tau"] is None else [f"tau {p['tau']:.3f}"]
            if p["tied_share"] is not None:
                decided = f"{1 - p['tied_share']:.0%}"
                parts.append(f"{decided} of the pairs decided at {confidence:.0%}")
                pairs += p["confident_pairs"]
                right += (p["confident_accuracy"] or 0.0) * p["confident_pairs"]
            steps.append(f"{', '.join(parts)} with {p['items_per_model']:.0f} items per model")
        share = f" ({right / pairs:.1%} of the decided ones in the true order)" if pairs else ""
        sentences.append(f"{method}: {'; '.join(steps)}{share}")
    return sentences

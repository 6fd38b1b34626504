"""A board's year, replayed month by month: does a bank that learns from what it serves stay honest?

At the start a bank is calibrated on full results. Every month some new models are tested with a few
items each, and their estimates are compared with their full scores, which only the replay knows.
Then the bank takes in what it asked them. Beside it stands the bank that never learns.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ..bank import ItemBank
from ..errors import UsageError
from ..methods.calibration import MIN_MODELS, calibrate
from ..methods.registry import method as registered
from ..ranker import Ranker
from ..scores import ScoreTable
from ..simulation.truth import half_width, z_scores
from .update import update

ARRIVALS = ("given", "random", "better")
POLICIES = ("never", "monthly")


def replay_year(
    table: ScoreTable,
    *,
    start: int = 20,
    months: int = 12,
    items: int = 40,
    full: int = 0,
    method: str = "default",
    arrival: str = "random",
    confidence: float = 0.95,
    seed: int = 0,
    on_progress: Callable[[int, int], None] | None = None,
) -> list[dict[str, Any]]:
    """Replay months of a board.

    Parameters
    ----------
    table : ScoreTable
        Full results of all models that there ever are.
    start : int
        Models that the first bank is calibrated on.
    months : int
        Over which the others arrive, equally many each.
    items : int
        That each new model is asked.
    full : int, optional
        New models of each month that are run in full, and taken in so.
    method : str, optional
        One whose banks learn from chosen items.
    arrival : {"given", "random", "better"}
        In which order models arrive: as in the table, at random, or the better the later, as on a
        board that the field climbs.
    confidence : float, optional
        Of the intervals.
    seed : int, optional

    Returns
    -------
    list of dict
        One per month and policy ("never" updated, or "monthly"): ``month``, ``policy``, ``known``
        (models in the bank), ``tested``, ``coverage``, ``z_rms``, ``rmse`` and ``bias`` (scores
        on [0, 1]).

    Raises
    ------
    UsageError
        Too few models, or a method that does not learn from chosen items.
    """
    names = _in_order(table, arrival, seed)
    per_month = (len(names) - start) // months if months > 0 else 0
    if start < MIN_MODELS or per_month < 1 or full >= per_month + 1 or full < 0:
        raise UsageError(
            f"{len(names)} models: {start} to start with (at least {MIN_MODELS}) leave "
            f"{max(len(names) - start, 0)} for {months} months, {full} of each run in full"
        )
    if not registered(method).learns_from_chosen:
        raise UsageError(f"a bank of method {method!r} does not learn from chosen items")
    first = calibrate(table.select(names[:start]), method)
    banks = dict.fromkeys(POLICIES, first)
    truth = dict(zip(table.models, np.nanmean(table.model_scores(), axis=1)))
    found: list[dict[str, Any]] = []
    for month in range(months):
        new = names[start + month * per_month : start + (month + 1) * per_month]
        for policy in POLICIES:
            bank = banks[policy]
            estimates, seen = _tested(bank, table, new, items, seed + month)
            errors = estimates[:, 0] - np.array([truth[m] for m in new])
            z = z_scores(errors, estimates[:, 1])
            found.append(
                {
                    "month": month + 1,
                    "policy": policy,
                    "known": len(bank.models),
                    "tested": len(new),
                    "coverage": float(np.mean(np.abs(z) <= half_width(confidence))),
                    "z_rms": float(np.sqrt(np.mean(z**2))),
                    "rmse": float(np.sqrt(np.mean(errors**2))),
                    "bias": float(np.mean(errors)),
                }
            )
            if policy == "monthly":
                banks[policy] = _learned(bank, table, new, seen, full)
        if on_progress is not None:
            on_progress(month + 1, months)
    return found


def pooled(rows: Sequence[dict[str, Any]]) -> dict[str, dict[str, float]]:
    """All months of each policy together."""
    out: dict[str, dict[str, float]] = {}
    for policy in dict.fromkeys(r["policy"] for r in rows):
        own = [r for r in rows if r["policy"] == policy]
        n = np.array([r["tested"] for r in own], dtype=float)
        square = {k: float(np.average([r[k] ** 2 for r in own], weights=n)) ** 0.5
                  for k in ("z_rms", "rmse")}  # fmt: skip
        mean = {k: float(np.average([r[k] for r in own], weights=n)) for k in ("coverage", "bias")}
        out[policy] = {"tested": float(n.sum()), **mean, **square}
    return out


def _in_order(table: ScoreTable, arrival: str, seed: int) -> list[str]:
    if arrival not in ARRIVALS:
        raise UsageError(f"arrival {arrival!r} is none of {', '.join(ARRIVALS)}")
    names = list(table.models)
    rng = np.random.default_rng(seed)
    if arrival == "random":
        return [names[i] for i in rng.permutation(len(names))]
    if arrival == "better":
        mean = np.nanmean(table.model_scores(), axis=1)
        noisy = mean + 0.5 * mean.std() * rng.standard_normal(len(mean))
        return [names[i] for i in np.argsort(noisy, kind="stable")]
    return names


def _tested(
    bank: ItemBank, table: ScoreTable, new: Sequence[str], items: int, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """(estimate, standard error) of each new model, and the scores that it was asked for."""
    scores = table.select(new).model_scores()
    column = {d: i for i, d in enumerate(table.doc_ids)}
    seen = np.full(scores.shape, np.nan)
    estimates = np.zeros((len(new), 2))
    for j, name in enumerate(new):
        ranker = Ranker(bank, {name: 1.0}, max_items=items, stop_when_decided=False, seed=seed + j)
        while not ranker.done:
            for _, item in ranker.ask():
                score = scores[j, column[item]]
                if np.isfinite(score):
                    ranker.tell(name, item, float(score))
                    seen[j, column[item]] = score
                else:
                    ranker.fail(name, item, "no score in the table", cost=0.0)
        estimates[j] = ranker.estimate(name)
    return estimates, seen


def _learned(
    bank: ItemBank, table: ScoreTable, new: Sequence[str], seen: np.ndarray, full: int
) -> ItemBank:
    """The bank with what was asked of the new models; some of them were run in full."""
    whole = table.select(new)
    scores = np.where((np.arange(len(new)) < full)[:, None], whole.model_scores(), seen)
    partial = ScoreTable.from_arrays(
        whole.scale.restore(scores),
        new,
        whole.doc_ids,
        scale=whole.scale,
        metric=whole.metric,
        task=whole.task,
        filter=whole.filter,
        chosen=tuple("all" if j < full else "adaptive" for j in range(len(new))),
    )
    made = update(bank, partial)
    return replace(made, warnings=bank.warnings)
